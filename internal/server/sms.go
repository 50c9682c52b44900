package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/sms"
)

// SMSConfig is how to run the consumer that sends text messages.
type SMSConfig struct {
	// ConsumerConfig is how to consume. LedgerDSN is where the directory of recipients is read from at the start; it is required the first time,
	// unless BootstrapSMS was called.
	ConsumerConfig
	// Gateway is the base URL of the gateway, and GatewayToken the bearer token for it, if it wants one.
	Gateway, GatewayToken string
	// Language is for those whose account does not say: bn or en.
	Language sms.Language
	// Zone is the time zone of the texts; "" is sms.DefaultZone.
	Zone string
	// Senders, MaxAge and Keep: see sms.Config. 0 is the default.
	Senders      int
	MaxAge, Keep time.Duration
}

// RunSMS sends text messages about what accounts did until ctx ends. It returns an error where it cannot begin, and where waiting would not help.
func RunSMS(ctx context.Context, config SMSConfig) error {
	gateway, err := sms.NewHTTPGateway(config.Gateway, config.GatewayToken)
	if err != nil {
		return err
	}
	defer gateway.Close()
	if config.Zone == "" {
		config.Zone = sms.DefaultZone
	}
	zone, err := time.LoadLocation(config.Zone)
	if err != nil {
		return fmt.Errorf("the time zone of messages: %w", err)
	}
	return config.run(ctx, sms.Schema, func(c consuming) error {
		c.inbox.Topics = []string{config.Topics.Accounts()}
		return withBooks(ctx, config.LedgerDSN, config.Logger, func(books *journal.Journal) error {
			return sms.Run(ctx, sms.Config{
				Pool: c.pool, Inbox: c.inbox, Gateway: gateway, Books: books, Language: config.Language, Zone: zone, Senders: config.Senders,
				MaxAge: config.MaxAge, Keep: config.Keep, Registerer: c.registry, Logger: config.Logger,
			})
		})
	})
}

// withBooks opens the journal of a database; nil where there is none.
func withBooks(ctx context.Context, dsn string, log *slog.Logger, do func(*journal.Journal) error) error {
	if dsn == "" {
		return do(nil)
	}
	return withJournal(ctx, dsn, log, func(j *journal.Journal, _ *pgxpool.Pool) error { return do(j) })
}

// BootstrapSMS reads the directory of recipients from the books; see sms.Bootstrap, and sms.BootstrapRestored for restored.
func BootstrapSMS(ctx context.Context, dsn, ledgerDSN string, restored bool, log *slog.Logger) (done sms.Read, err error) {
	read := sms.Bootstrap
	if restored {
		read = sms.BootstrapRestored
	}
	err = withMessages(ctx, dsn, func(pool *pgxpool.Pool) error {
		return withBooks(ctx, ledgerDSN, log, func(books *journal.Journal) error {
			done, err = read(ctx, books, pool)
			return err
		})
	})
	return done, err
}

// SMSMessages lists messages, the newest first.
func SMSMessages(ctx context.Context, dsn string, which sms.Selection) (list []sms.Entry, err error) {
	err = withMessages(ctx, dsn, func(pool *pgxpool.Pool) error {
		list, err = sms.List(ctx, pool, which)
		return err
	})
	return list, err
}

// RetrySMS has failed or expired messages tried again: those of these events, or all that failed where none is named.
func RetrySMS(ctx context.Context, dsn string, eventIDs []string) (n int, err error) {
	err = withMessages(ctx, dsn, func(pool *pgxpool.Pool) error {
		if len(eventIDs) == 0 {
			n, err = sms.RetryFailed(ctx, pool)
		} else {
			n, err = sms.Retry(ctx, pool, eventIDs)
		}
		return err
	})
	return n, err
}

func withMessages(ctx context.Context, dsn string, do func(*pgxpool.Pool) error) error {
	return withDatabase(ctx, dsn, func(pool *pgxpool.Pool) error {
		if err := sms.Schema.Check(ctx, pool); err != nil {
			return err
		}
		return do(pool)
	})
}

// SMSSandbox is a gateway that reaches no phone, and shows the messages on a page.
type SMSSandbox struct {
	// Gateway is what it has been sent.
	Gateway  *sms.SandboxGateway
	server   *http.Server
	listener net.Listener
	ended    chan struct{}
}

// StartSMSSandbox starts one on an address of this machine: it is for trying things out, and shows phone numbers to whoever comes.
func StartSMSSandbox(ctx context.Context, address string) (*SMSSandbox, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("the address of the sandbox for messages: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("the sandbox for messages is for this machine only, and %s is open to others: take 127.0.0.1", address)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the sandbox for messages: %w", err)
	}
	s := &SMSSandbox{Gateway: sms.NewSandboxGateway(), listener: listener, ended: make(chan struct{})}
	s.server = &http.Server{Handler: s.Gateway, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	go func() {
		defer close(s.ended)
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.Default().Error("the sandbox for messages has ended", "error", err)
		}
	}()
	return s, nil
}

// URL is its base URL, for senders and for browsers.
func (s *SMSSandbox) URL() string { return "http://" + s.listener.Addr().String() }

// Close ends it.
func (s *SMSSandbox) Close() {
	_ = s.server.Close()
	<-s.ended
}
