package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/relay"
)

// RelayConfig is how to run a relay.
type RelayConfig struct {
	// DSN is the database, as role khata_service. Required.
	DSN string
	// Kafka is where to publish, and Topics are what.
	Kafka  kafka.Config
	Topics kafka.Topics
	// HTTP is the address of /healthz and /metrics; "" leaves them out. There is nothing secret in them.
	HTTP string
	// Registry gets the metrics; nil is one of the relay's own.
	Registry *prometheus.Registry
	// Logger is required.
	Logger *slog.Logger
}

// RunRelay publishes the journal of a database, or waits for its turn to, until ctx ends. It returns an error where it cannot begin, and
// where waiting would not help.
func RunRelay(ctx context.Context, config RelayConfig) (err error) {
	tuneGC()
	options, err := config.Kafka.Options()
	if err == nil {
		err = config.Topics.Validate()
	}
	if err != nil {
		return err
	}
	registry := config.Registry
	if registry == nil {
		registry = prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	stop, err := serveMetrics(ctx, config.HTTP, registry, config.Logger)
	if err != nil {
		return err
	}
	defer stop()
	return withJournal(ctx, config.DSN, config.Logger, func(j *journal.Journal, pool *pgxpool.Pool) error {
		return relay.New(relay.Config{
			Journal: j, Pool: pool, Kafka: options, Topics: relay.TopicsOf(config.Topics), Name: processName(), Logger: config.Logger,
			Metrics: relay.NewMetrics(registry),
		}).Run(ctx)
	})
}

// processName tells people which process it is.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s, process %d", host, os.Getpid())
}

func serveMetrics(ctx context.Context, address string, registry *prometheus.Registry, log *slog.Logger) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are not served any more", "error", err)
		}
	}()
	log.Info("serving metrics", "http", listener.Addr().String())
	return func() {
		_ = server.Close()
		<-ended
	}, nil
}

// withJournal opens a database to read its journal. What servers do beside their calls, it leaves to them.
func withJournal(ctx context.Context, dsn string, log *slog.Logger, do func(*journal.Journal, *pgxpool.Pool) error) error {
	return withDatabase(ctx, dsn, func(pool *pgxpool.Pool) error {
		if err := pg.CheckSchema(ctx, pool); err != nil {
			return err
		}
		j := journal.New(pool, journal.Config{SnapshotEvery: -1, ExpireEvery: -1, CountEvery: -1, Logger: log})
		defer j.Close()
		return do(j, pool)
	})
}

// RelayStatus is who publishes the journal of a database, and how far.
func RelayStatus(ctx context.Context, dsn string) (status relay.Status, err error) {
	err = withJournal(ctx, dsn, slog.New(slog.DiscardHandler), func(j *journal.Journal, pool *pgxpool.Pool) error {
		status, err = relay.StatusOf(ctx, j, pool)
		return err
	})
	return status, err
}

// RewindRelay has records published again; see relay.Rewind.
func RewindRelay(ctx context.Context, dsn string, back relay.Back) error {
	return withJournal(ctx, dsn, slog.New(slog.DiscardHandler), func(j *journal.Journal, pool *pgxpool.Pool) error {
		return relay.Rewind(ctx, j, pool, back)
	})
}

// ParkedEvents lists events that the relay could not publish; with settled also those of which something has become.
func ParkedEvents(ctx context.Context, dsn string, settled bool) (list []relay.Parked, err error) {
	err = withDatabase(ctx, dsn, func(pool *pgxpool.Pool) error {
		list, err = relay.ListParked(ctx, pool, settled)
		return err
	})
	return list, err
}

// RetryParked asks for parked events to be published again, and SkipParked gives them up; see package relay.
func RetryParked(ctx context.Context, dsn string, ids []string) (n int, err error) {
	err = withDatabase(ctx, dsn, func(pool *pgxpool.Pool) error {
		n, err = relay.Retry(ctx, pool, ids)
		return err
	})
	return n, err
}

// SkipParked gives parked events up, with a reason that is kept.
func SkipParked(ctx context.Context, dsn string, ids []string, reason string) error {
	return withDatabase(ctx, dsn, func(pool *pgxpool.Pool) error { return relay.Skip(ctx, pool, ids, reason) })
}
