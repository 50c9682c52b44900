// Example writes a receipt for each event, once. The handler knows nothing of repetitions, and receipts has no unique key that would hide one.
//
//	KAFKA=localhost:9092 TOPIC=khata.transfers DSN=postgres://localhost/receipts go run ./ledger/inbox/example
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/ledger/inbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DSN"))
	if err != nil {
		return err
	}
	defer pool.Close()
	// Here the owner of the tables consumes too. In production they are two roles: see inbox.Grants.
	_, err = inbox.Migrate(ctx, os.Getenv("DSN"), inbox.DefaultSchema)
	_, tableErr := pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS receipts (event_id text, type text, data bytea, at timestamptz DEFAULT clock_timestamp())`)
	if err := errors.Join(err, tableErr); err != nil {
		return err
	}
	in, err := inbox.New(ctx, inbox.Config{
		Consumer: "receipts",
		Pool:     pool,
		Kafka:    []kgo.Opt{kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA"), ",")...)},
		Topics:   []string{os.Getenv("TOPIC")},
		Handle:   writeReceipt,
	})
	if err != nil {
		return err
	}
	return in.Run(ctx) // Until the process is told to end; then it finishes what it has begun.
}

// writeReceipt is the effect. Whatever it does through tx happens once.
func writeReceipt(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
	_, err := tx.Exec(ctx, `INSERT INTO receipts (event_id, type, data) VALUES ($1, $2, $3)`, e.ID, e.Type, e.Data)
	return err
}
