package pg_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
)

// The package's tests are outside of it because pgtest imports it.

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// connect opens a pool that is closed with the test.
func connect(t testing.TB, config pg.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Connect(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// exec runs statements over a connection of their own, each by itself.
func exec(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func query[T any](t testing.TB, q pg.Queryer, sql string) T {
	t.Helper()
	var value T
	if err := q.QueryRow(context.Background(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}
