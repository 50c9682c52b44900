package journal

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// A batch that loses to another one is told of that only if it was often. One that had no time left to try again, since the database
// stood still until then, was not answered in time.
func TestRetry_LossesOrTime(t *testing.T) {
	duplicate := &pgconn.PgError{Code: "23505"}
	for _, c := range []struct {
		name  string
		err   error
		time  time.Duration
		code  ledger.Code
		tries int // 0: as many as there is time for
	}{
		{"a key that is taken each time", duplicate, time.Minute, ledger.CodeConflict, maxLosses + 1},
		{"a transaction that begins anew each time", pg.ErrAgain, time.Minute, ledger.CodeConflict, maxLosses + 1},
		{"a key that is taken when time is nearly up", duplicate, time.Millisecond, ledger.CodeUnavailable, 2},
		{"a transaction that begins anew when time is nearly up", pg.ErrAgain, time.Millisecond, ledger.CodeUnavailable, 2},
		{"a key that is taken until time is up", duplicate, 100 * time.Millisecond, ledger.CodeUnavailable, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &Journal{log: slog.New(slog.DiscardHandler)}
			ctx, cancel := context.WithTimeout(t.Context(), c.time)
			defer cancel()
			tries := 0
			err := j.retry(ctx, func() error {
				tries++
				return c.err
			})
			if code := ledger.CodeOf(j.public(context.Background(), "post", err)); code != c.code {
				t.Errorf("%s after %d tries, want %s", code, tries, c.code)
			}
			if c.tries > 0 && tries != c.tries {
				t.Errorf("%d tries, want %d", tries, c.tries)
			}
		})
	}
}
