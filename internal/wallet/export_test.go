package wallet

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Forget takes away movements that are older than by default.
func Forget(ctx context.Context, pool *pgxpool.Pool) error {
	v, err := newView(pool, nil, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return v.forget(ctx)
}
