package server

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/internal/kafka"
)

// FraudConfig is how to run an instance of the fraud check.
type FraudConfig struct {
	// Kafka is where the events are, and Topics are which.
	Kafka  kafka.Config
	Topics kafka.Topics
	// Rules are what transfers are judged by. Required.
	Rules *fraud.Rules
	// Instance names this one among those that run at once. Required.
	Instance string
	// SkipLost goes on where something is gone; see fraud.Config.
	SkipLost bool
	// HTTP is the address of /healthz and /metrics; "" leaves them out. There is nothing secret in them.
	HTTP string
	// Registry gets the metrics; nil is one of the check's own.
	Registry *prometheus.Registry
	// Logger is required.
	Logger *slog.Logger
}

// RunFraud judges transfers until ctx ends. It returns an error where it cannot begin, and where waiting would not help.
func RunFraud(ctx context.Context, config FraudConfig) error {
	tuneGC()
	options, err := config.Kafka.Options()
	if err != nil {
		return err
	}
	registry := config.Registry
	if registry == nil {
		registry = prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	check, err := fraud.New(fraud.Config{
		Kafka: options, Topics: config.Topics, Rules: config.Rules, Instance: config.Instance, SkipLost: config.SkipLost, Logger: config.Logger,
		Metrics: fraud.NewMetrics(registry),
	})
	if err != nil {
		return err
	}
	stop, err := serveMetrics(ctx, config.HTTP, registry, config.Logger)
	if err != nil {
		return err
	}
	defer stop()
	return check.Run(ctx)
}

// RunVerdicts stores flagged transfers in a database until ctx ends. It returns an error where it cannot begin, and where waiting would not help.
func RunVerdicts(ctx context.Context, config ConsumerConfig) error {
	if err := config.Topics.ValidateFraud(); err != nil {
		return err
	}
	return config.run(ctx, fraud.Schema, func(c consuming) error { return consume(ctx, fraud.Consume(c.inbox, config.Topics)) })
}

// FlaggedTransfers lists flagged transfers; see fraud.List.
func FlaggedTransfers(ctx context.Context, dsn string, f fraud.Filter) (list []fraud.Flagged, err error) {
	err = withFlagged(ctx, dsn, func(pool *pgxpool.Pool) error {
		list, err = fraud.List(ctx, pool, f)
		return err
	})
	return list, err
}

// SettleFlagged settles flagged transfers; see fraud.Settle.
func SettleFlagged(ctx context.Context, dsn string, s fraud.Settlement) error {
	return withFlagged(ctx, dsn, func(pool *pgxpool.Pool) error { return fraud.Settle(ctx, pool, s) })
}

func withFlagged(ctx context.Context, dsn string, do func(*pgxpool.Pool) error) error {
	return withDatabase(ctx, dsn, func(pool *pgxpool.Pool) error {
		if err := fraud.Schema.Check(ctx, pool); err != nil {
			return err
		}
		return do(pool)
	})
}
