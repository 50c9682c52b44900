package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/console"
	"github.com/khata-ledger/khata/internal/payapi"
	"github.com/khata-ledger/khata/ledger"
)

// payment is the payment API as it is served.
type payment struct {
	api      *payapi.API
	server   *http.Server
	listener net.Listener
	// sandbox is a gateway that moves no money; nil where there is a real one, or none.
	sandbox *http.Server
	// gateway is where the gateway is; "" is nowhere.
	gateway string
}

const (
	// payReadTimeout bounds how long a phone may take to send a request, and payWriteTimeout all of it with the answer: more than the
	// journal and a gateway take to give up.
	payReadTimeout, payWriteTimeout = 15 * time.Second, 45 * time.Second
	maxPayHeader                    = 16 << 10
	// MaxGatewayTimeout leaves time for the answer.
	MaxGatewayTimeout = 30 * time.Second
)

// listenForPayments listens, if the payment API is asked for.
func (s *Server) listenForPayments(ctx context.Context) (net.Listener, error) {
	switch {
	case s.config.Pay == "":
		return nil, nil
	case s.config.GatewayTimeout < 0 || s.config.GatewayTimeout > MaxGatewayTimeout:
		return nil, fmt.Errorf("the gateway's timeout is %s; give one of up to %s", s.config.GatewayTimeout, MaxGatewayTimeout)
	case len(s.config.PaySandboxUsers) > 0 && !s.config.PaySandbox:
		return nil, errors.New("people to pick on the pay page are for the sandbox of the payment API")
	case s.config.PaySandbox && s.config.Auth:
		return nil, errors.New("the sandbox of the payment API believes everybody, and does not go with --auth")
	}
	return s.listenOn(ctx, "payment API", s.config.Pay)
}

func (s *Server) startPayments(ctx context.Context, listener net.Listener) error {
	if listener == nil {
		return nil
	}
	authenticate := s.principal
	if s.config.PaySandbox {
		authenticate = payapi.Sandbox
	}
	pay := &payment{listener: listener, gateway: s.config.Gateway}
	gateway, err := s.openGateway(ctx, pay)
	if err == nil {
		pay.api, err = payapi.New(ctx, payapi.Config{
			Journal: s.journal, Pool: s.pool, Ledger: s.config.PayLedger, Authenticate: authenticate, Logger: s.config.Logger,
			CashIn: payapi.CashInConfig{Gateway: gateway, Timeout: s.config.GatewayTimeout, Lease: 3 * s.config.GatewayTimeout},
		})
	}
	if err != nil {
		pay.closeSandbox()
		return errors.Join(fmt.Errorf("start the payment API: %w", err), listener.Close())
	}
	pay.server = &http.Server{
		Handler: s.payRoutes(pay.api), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: payReadTimeout, WriteTimeout: payWriteTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxPayHeader, ErrorLog: slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
	}
	s.pay = pay
	if s.certs != nil {
		s.pay.server.TLSConfig = s.certs.config(false, "h2", "http/1.1")
	}
	go func() {
		err := s.pay.serve()
		if !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	return nil
}

// PaySandboxUser is somebody whom a visitor of the pay page can be, where the payment API is a sandbox.
type PaySandboxUser = console.SandboxUser

// payRoutes is everything that the payment API's address answers: the API, and the pay page beside it, whose scripts call the API.
func (s *Server) payRoutes(api http.Handler) http.Handler {
	if !s.config.PayPage {
		return api
	}
	if s.config.PaySandbox {
		api = console.BadNetwork(api)
	}
	page := console.Pay(console.PayConfig{Sandbox: s.config.PaySandbox, SandboxUsers: s.config.PaySandboxUsers, Logger: s.config.Logger})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not a mux: it would answer odd paths of the API by itself.
		if r.URL.Path == "/pay" || strings.HasPrefix(r.URL.Path, "/pay/") {
			page.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// openGateway opens the way to the gateway that takes money from cards, or starts one that moves none. Without either it is nil.
func (s *Server) openGateway(ctx context.Context, pay *payment) (payapi.Gateway, error) {
	if pay.gateway == "" && s.config.PaySandbox {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("listen for the sandbox gateway: %w", err)
		}
		pay.gateway = "http://" + listener.Addr().String()
		pay.sandbox = &http.Server{Handler: payapi.NewSandboxGateway(), ReadHeaderTimeout: 5 * time.Second}
		go func() { _ = pay.sandbox.Serve(listener) }() // It ends when it is closed.
	}
	if pay.gateway == "" {
		return nil, nil
	}
	gateway, err := payapi.NewHTTPGateway(pay.gateway, s.config.GatewayToken)
	if err != nil {
		return nil, err
	}
	return gateway, nil
}

func (p *payment) closeSandbox() {
	if p.sandbox != nil {
		_ = p.sandbox.Close()
	}
}

func (p *payment) serve() error {
	if p.server.TLSConfig == nil {
		return p.server.Serve(p.listener)
	}
	return p.server.ServeTLS(p.listener, "", "")
}

// stopPayments lets the requests under way end.
func (s *Server) stopPayments() {
	if s.pay == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := s.pay.server.Shutdown(ctx); err != nil {
		_ = s.pay.server.Close()
	}
	s.pay.api.Close()
	s.pay.closeSandbox()
}

// GatewayURL is where the gateway is that takes money from cards; "" if there is none.
func (s *Server) GatewayURL() string {
	if s.pay == nil {
		return ""
	}
	return s.pay.gateway
}

// PayAddr is the address of the payment API; "" if it is left out.
func (s *Server) PayAddr() string {
	if s.pay == nil {
		return ""
	}
	return s.pay.listener.Addr().String()
}

// door is where requests of HTTP come in.
func (s *Server) door() auth.Door {
	return auth.Door{Callers: s.callers, Limiter: s.limiter, Denied: s.denied}
}

// principal tells who calls the payment API, and whether the policy lets them.
func (s *Server) principal(r *http.Request) (payapi.Principal, error) {
	door := s.door()
	id, err := door.Admit(r, r.Pattern, s.config.PayLedger)
	if err != nil {
		return payapi.Principal{}, err
	}
	roles := id.Grants.On(s.config.PayLedger)
	return payapi.Principal{
		Name:    id.Name,
		Support: roles&auth.Reading != 0,
		// What a service may post, it may post between any wallets.
		Owns: func(wallet ledger.AccountID) bool { return roles&auth.Poster != 0 || id.Owns(wallet) },
	}, nil
}
