package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/devidp"
)

// identity is who says who the visitors of the console are, where that is not the console itself.
type identity struct {
	provider *auth.Provider
	// sandbox is a provider of our own, which believes everybody; nil where there is a real one.
	sandbox *http.Server
}

// sandboxClient is what the sandbox's provider calls the console.
const sandboxClient = "khata-console"

// startIdentity makes ready how people sign in to the console, which is at an address. It gives nil where that is by tokens alone.
func (s *Server) startIdentity(ctx context.Context, console string) (*identity, error) {
	config := s.config.ConsoleOIDC
	var i identity
	if s.config.ConsoleSandbox != "" {
		var err error
		if config, err = i.serveSandbox(ctx, s, "http://"+console); err != nil {
			return nil, err
		}
	}
	if config == nil {
		return nil, nil
	}
	var err error
	if i.provider, err = auth.NewProvider(*config, s.config.Logger); err != nil {
		i.stop()
		return nil, fmt.Errorf("the console's identity provider (--console-oidc-…): %w", err)
	}
	if s.certs != nil && !i.provider.Secure() {
		i.stop()
		return nil, fmt.Errorf("the console is served over TLS, and --console-oidc-redirect is %q: give it with https", config.Base)
	}
	return &i, nil
}

// serveSandbox serves a provider that knows the personas of package auth.
func (i *identity) serveSandbox(ctx context.Context, s *Server, console string) (*auth.OIDCConfig, error) {
	listener, err := s.listenOn(ctx, "sandbox's identity provider", s.config.ConsoleSandbox)
	if err != nil {
		return nil, fmt.Errorf("%w (--identity-listen is its address; empty leaves it out)", err)
	}
	config := &auth.OIDCConfig{
		Issuer: "http://" + listener.Addr().String(), ClientID: sandboxClient, Base: console, Title: "sandbox identity provider", Grants: map[string]auth.Grants{},
	}
	var people []devidp.Person
	for _, p := range auth.Personas() {
		group := "khata-" + p.Login()
		config.Grants[group], config.People = p.Grants, append(config.People, p.Name)
		people = append(people, devidp.Person{Login: p.Login(), Name: p.Name, Groups: []string{group}})
	}
	provider, err := devidp.New(devidp.Config{
		Issuer: config.Issuer, ClientID: config.ClientID, RedirectURI: console + auth.OIDCCallback, SignedOutURI: console + auth.SignInPath, People: people,
	})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	i.sandbox = &http.Server{
		Handler: provider, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: payReadTimeout, WriteTimeout: payWriteTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxPayHeader, ErrorLog: slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := i.sandbox.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	return config, nil
}

func (i *identity) stop() {
	if i == nil {
		return
	}
	if i.provider != nil {
		i.provider.Close()
	}
	if i.sandbox != nil {
		_ = i.sandbox.Close()
	}
}
