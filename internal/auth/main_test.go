package auth_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var discard = slog.New(slog.DiscardHandler)

// bench is a database with its register of tokens, and who knows callers by it.
type bench struct {
	*auth.Authenticator
	*auth.Register
	db   *pgtest.DB
	pool *pgxpool.Pool
}

func setup(t testing.TB) *bench {
	t.Helper()
	b := &bench{db: pgtest.New(t)}
	var err error
	if b.Register, err = auth.OpenRegister(context.Background(), b.db.OwnerDSN()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Register.Close)
	if b.pool, err = pg.Connect(context.Background(), pg.Config{DSN: b.db.ServiceDSN(), MaxConns: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.pool.Close)
	b.Authenticator = authenticator(t, auth.Config{Pool: b.pool})
	return b
}

func authenticator(t testing.TB, config auth.Config) *auth.Authenticator {
	t.Helper()
	config.Logger = discard
	a, err := auth.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// create makes a token that may do what the grants say.
func (b *bench) create(t testing.TB, spec auth.TokenSpec, grants ...string) (auth.Token, string) {
	t.Helper()
	var err error
	if spec.Grants, err = auth.ParseGrants(grants); err != nil {
		t.Fatal(err)
	}
	token, secret, err := b.Create(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return token, secret
}

func (b *bench) knows(t testing.TB, secret string) bool {
	t.Helper()
	_, err := b.Bearer(t.Context(), "Bearer "+secret)
	if err != nil && !errors.Is(err, ledger.CodeUnauthenticated) {
		t.Fatal(err)
	}
	return err == nil
}
