package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger/inbox"
)

// ConsumerConfig is how to run a consumer of events whose effects are in PostgreSQL.
type ConsumerConfig struct {
	// DSN is the database of its effects, as a role that MigrateConsumer has given what it needs. Required.
	DSN string
	// LedgerDSN is the database of the books, as role khata_service, for what the topics do not have any more; "" is none.
	LedgerDSN string
	// Kafka is where the events are, and Topics are which.
	Kafka  kafka.Config
	Topics kafka.Topics
	// Group is the consumer group; "" is the consumer's name.
	Group string
	// Window is for how long events are remembered; 0 is the inbox's default.
	Window time.Duration
	// SkipLost goes on when events are gone from a topic that were not read.
	SkipLost bool
	// HTTP is the address of /healthz and /metrics; "" leaves them out. There is nothing secret in them.
	HTTP string
	// Registry gets the metrics; nil is one of the consumer's own.
	Registry *prometheus.Registry
	// Logger is required.
	Logger *slog.Logger
}

// consumerConns is the size of a consumer's pool: a connection for each partition at work, and some for what it does beside.
const consumerConns = 12

// consuming is what a consumer is given to run.
type consuming struct {
	pool     *pgxpool.Pool
	inbox    inbox.Config // without what is to be done with events
	registry *prometheus.Registry
}

// run gives do what it needs, and serves the metrics meanwhile. The schema must be there.
func (c ConsumerConfig) run(ctx context.Context, schema pg.Schema, do func(consuming) error) error {
	tuneGC()
	options, err := c.Kafka.Options()
	if err == nil {
		err = c.Topics.Validate()
	}
	if err != nil {
		return err
	}
	pool, err := pg.Connect(ctx, pg.Config{DSN: c.DSN, MaxConns: consumerConns})
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := schema.Check(ctx, pool); err != nil {
		return err
	}
	registry := c.Registry
	if registry == nil {
		registry = prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	stop, err := serveMetrics(ctx, c.HTTP, registry, c.Logger)
	if err != nil {
		return err
	}
	defer stop()
	return do(consuming{
		pool: pool, registry: registry,
		inbox: inbox.Config{
			Pool: pool, Kafka: append(options, kafka.Gathered()...), Group: c.Group, Window: c.Window, SkipLost: c.SkipLost, Logger: c.Logger, Registerer: registry,
		},
	})
}

// consume runs an inbox until ctx ends.
func consume(ctx context.Context, config inbox.Config) error {
	in, err := inbox.New(ctx, config)
	if err != nil {
		return err
	}
	return in.Run(ctx)
}

// MigrateConsumer makes the schema of a consumer and the inbox beside it, or brings both up to date, and returns what it applied. The DSN is
// that of a role that may create schemas, or owns them. Where there is a role, it is granted what the consumer needs: grants is the SQL for it.
func MigrateConsumer(ctx context.Context, dsn string, schema pg.Schema, role string, grants func(role string) string) (applied []string, err error) {
	if applied, err = inbox.Migrate(ctx, dsn, ""); err != nil {
		return applied, err
	}
	own, err := schema.Migrate(ctx, dsn)
	if err != nil {
		return applied, err
	}
	for _, m := range own {
		applied = append(applied, schema.Name+": "+m.Name)
	}
	if role == "" {
		return applied, nil
	}
	return applied, withDatabase(ctx, dsn, func(pool *pgxpool.Pool) error {
		if _, err := pool.Exec(ctx, inbox.Grants("", role)+grants(role)); err != nil {
			return fmt.Errorf("grant it to %s: %w", role, err)
		}
		return nil
	})
}
