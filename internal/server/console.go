package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/console"
	"github.com/khata-ledger/khata/internal/report"
)

// consoleWriteTimeout bounds how long a page or a download may take, which can be a long report.
const consoleWriteTimeout = 15 * time.Minute

// consolePages is the console as it is served.
type consolePages struct {
	server   *http.Server
	listener net.Listener
	identity *identity
}

// startConsole serves the console, if it is asked for, on the address that it listens on.
func (s *Server) startConsole(ctx context.Context) error {
	if s.config.Console == "" {
		return nil
	}
	if _, err := report.ParseZone(s.config.ConsoleZone); err != nil {
		return fmt.Errorf("the console's time zone: %w", err)
	}
	listener, err := s.listenOn(ctx, "console", s.config.Console)
	if err != nil {
		return err
	}
	identity, err := s.startIdentity(ctx, listener.Addr().String())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	sessions := auth.SessionsConfig{Pool: s.pool, Callers: s.callers, NoTokens: s.config.ConsoleNoTokens}
	secure := s.certs != nil
	if identity != nil { // Who comes over TLS to a proxy has come over TLS.
		sessions.Provider, secure = identity.provider, secure || identity.provider.Secure()
	}
	if s.tokens != nil { // To know who is there must not wait for those who post.
		sessions.Pool = s.tokens
	}
	handler := console.New(console.Config{
		Reports: s.reports, Books: s.journal, Reconciler: s.reconciler, Desk: s.desk, Suspects: s.suspects, Sessions: auth.NewSessions(sessions), Zone: s.config.ConsoleZone,
		Secure: secure, Limiter: s.limiter, Denied: s.denied, Logger: s.config.Logger,
	})
	c := &consolePages{listener: listener, identity: identity, server: &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: payReadTimeout, WriteTimeout: consoleWriteTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxPayHeader, ErrorLog: slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
	}}
	serve := func() error { return c.server.Serve(listener) }
	if s.certs != nil {
		c.server.TLSConfig = s.certs.config(false, "h2", "http/1.1")
		serve = func() error { return c.server.ServeTLS(listener, "", "") }
	}
	s.console = c
	go func() {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	return nil
}

// ConsoleAddr is the address of the console; "" if it is left out.
func (s *Server) ConsoleAddr() string {
	if s.console == nil {
		return ""
	}
	return s.console.listener.Addr().String()
}

// stopConsole lets what is being shown end, but no long report.
func (s *Server) stopConsole() {
	if s.console == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout/4)
	defer cancel()
	if err := s.console.server.Shutdown(ctx); err != nil {
		_ = s.console.server.Close()
	}
	s.console.identity.stop()
}
