package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Inbox is one consumer of topics, whose events have their effects once. New makes one.
type Inbox struct {
	config  Config
	pool    *pgxpool.Pool
	log     *slog.Logger
	metrics *metrics
}

// startTime bounds what New does.
const startTime = 30 * time.Second

// New checks that the consumer can be effect-once, and registers it: the configuration, the tables, and that the window covers what the topics
// keep. An error says what to do; if the database or Kafka cannot be reached, that is to try again.
func New(ctx context.Context, config Config) (*Inbox, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	b := &Inbox{config: config, pool: config.Pool, log: config.Logger}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := b.checkVersion(ctx); err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	// Not a member of the group yet.
	client, err := kgo.NewClient(append(slices.Clone(config.Kafka), kgo.ConsumerGroup(""), kgo.ConsumeTopics())...)
	if err != nil {
		return nil, fmt.Errorf("inbox: Config.Kafka: %w", err)
	}
	defer client.Close()
	if err := b.checkTopics(ctx, kadm.NewClient(client)); err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	if err := b.register(ctx); err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	if err := b.makePartitions(ctx); err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	if b.metrics, err = newMetrics(config.Registerer, config.Consumer); err != nil {
		return nil, fmt.Errorf("inbox: Config.Registerer: %w", err)
	}
	return b, nil
}

// register writes down that the consumer exists, and for how long it remembers.
func (b *Inbox) register(ctx context.Context) error {
	_, err := b.pool.Exec(ctx, b.sql(`INSERT INTO {schema}.consumer (name, window_seconds) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET window_seconds = EXCLUDED.window_seconds, registered_at = clock_timestamp()`),
		b.config.Consumer, int64(b.config.Window.Round(time.Second)/time.Second))
	if err != nil {
		return fmt.Errorf("register the consumer: %w", err)
	}
	return nil
}

// partitionsAhead is for how many days partitions are made ahead.
const partitionsAhead = 7

func (b *Inbox) makePartitions(ctx context.Context) error {
	back := int(b.config.Window/day) + 2
	if _, err := b.pool.Exec(ctx, b.sql(`SELECT {schema}.make_partitions($1, $2)`), back, partitionsAhead); err != nil {
		return fmt.Errorf("make the partitions of the inbox: %w", err)
	}
	return nil
}

// upkeep makes the partitions of the days to come and drops those that no consumer's window reaches.
func (b *Inbox) upkeep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	made := b.makePartitions(ctx)
	rows, err := b.pool.Query(ctx, b.sql(`SELECT {schema}.drop_partitions()`))
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	if err != nil {
		err = fmt.Errorf("drop old partitions of the inbox: %w", err)
	}
	return errors.Join(made, err)
}

func (b *Inbox) sql(text string) string { return inSchema(b.config.Schema, text) }
