package server

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/payapi"
	"github.com/khata-ledger/khata/internal/pg"
)

// Reviews lists the payments of a database that people have to look at. The DSN is that of khata_service.
func Reviews(ctx context.Context, dsn string) (list []payapi.Review, err error) {
	err = withDatabase(ctx, dsn, func(pool *pgxpool.Pool) error {
		list, err = payapi.Reviews(ctx, pool)
		return err
	})
	return list, err
}

// ResolveReview settles one of them; see payapi.Resolve. It is done in the database, with or without servers that run.
func ResolveReview(ctx context.Context, dsn string, log *slog.Logger, number, as, reason string) error {
	return withDatabase(ctx, dsn, func(pool *pgxpool.Pool) error {
		if err := pg.Preflight(ctx, pool); err != nil {
			return err
		}
		j := journal.New(pool, journal.Config{Logger: log})
		defer j.Close()
		return payapi.Resolve(ctx, j, pool, log, number, payapi.Resolution(as), reason)
	})
}

func withDatabase(ctx context.Context, dsn string, do func(*pgxpool.Pool) error) error {
	pool, err := pg.Connect(ctx, pg.Config{DSN: dsn, MaxConns: 4})
	if err != nil {
		return err
	}
	defer pool.Close()
	return do(pool)
}
