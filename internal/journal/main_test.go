package journal_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const main = ledger.DefaultLedger

// bench is a database with a journal on it.
type bench struct {
	*journal.Journal
	db   *pgtest.DB
	pool *pgxpool.Pool
}

func setup(t testing.TB) *bench {
	t.Helper()
	db := pgtest.New(t)
	j, pool := open(t, pg.Config{DSN: db.ServiceDSN()}, journal.Config{})
	return &bench{Journal: j, db: db, pool: pool}
}

// open makes a journal, as a server would have one.
func open(t testing.TB, config pg.Config, jc journal.Config) (*journal.Journal, *pgxpool.Pool) {
	t.Helper()
	pool, err := pg.Connect(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(pool, jc)
	t.Cleanup(func() {
		j.Close()
		pool.Close()
	})
	return j, pool
}

func amount(text string) decimal.Decimal { return decimal.RequireFromString(text) }

func floor(text string) *decimal.Decimal {
	f := amount(text)
	return &f
}

func (b *bench) account(t testing.TB, id ledger.AccountID, at ledger.AccountType, currency ledger.CurrencyCode, floor *decimal.Decimal) {
	t.Helper()
	spec := ledger.AccountSpec{ID: id, Type: at, Currency: currency, Floor: floor}
	if _, err := b.CreateAccounts(t.Context(), "local", main, []ledger.AccountSpec{spec}); err != nil {
		t.Fatal(err)
	}
}

func move(id string, debit, credit ledger.AccountID, value string) ledger.TransferSpec {
	return ledger.TransferSpec{ID: ledger.TransferID(id), Entries: ledger.Simple(debit, credit, amount(value), "")}
}

func (b *bench) post(t testing.TB, spec ledger.TransferSpec) journal.PostResult {
	t.Helper()
	return post(t, b.Journal, spec)
}

func post(t testing.TB, j *journal.Journal, spec ledger.TransferSpec) journal.PostResult {
	t.Helper()
	results, err := j.Post(t.Context(), "local", main, []ledger.TransferSpec{spec})
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

// insist posts until there is an answer, as a client does: on a busy machine a request does not always get its turn in time.
func insist(t testing.TB, j *journal.Journal, spec ledger.TransferSpec) journal.PostResult {
	t.Helper()
	for until := time.Now().Add(patience); ; {
		r := post(t, j, spec)
		if ledger.CodeOf(r.Err) != ledger.CodeUnavailable || time.Now().After(until) {
			return r
		}
	}
}

func (b *bench) balance(t testing.TB, id ledger.AccountID) string {
	t.Helper()
	balances, err := b.Balances(t.Context(), main, []ledger.AccountID{id})
	if err != nil {
		t.Fatal(err)
	}
	return ledger.FormatAmount(balances[0].Posted, balances[0].Currency.Scale)
}

// describe gives a result in a word or two.
func describe(r journal.PostResult) string {
	switch {
	case r.Err != nil:
		return string(ledger.CodeOf(r.Err))
	case r.Transfer.Refusal != nil:
		return fmt.Sprintf("refused %s", r.Transfer.Refusal.Reason)
	case r.Replayed:
		return "replayed"
	default:
		return "posted"
	}
}
