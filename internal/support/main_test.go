package support

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

func TestMain(m *testing.M) {
	// Each example is a day of work on a database; make test-long has as many as there are elsewhere.
	if os.Getenv("KHATA_TEST_LONG") == "" {
		_ = flag.Set("rapid.checks", "30")
	}
	os.Exit(pgtest.Main(m))
}

const main = ledger.DefaultLedger

// The people.
var (
	rina  = Actor{"rina", "192.0.2.1"}
	karim = Actor{"karim", "192.0.2.2"}
	boss  = Actor{"boss", "192.0.2.9"}
)

// office is a ledger with two wallets, and a desk on it.
type office struct {
	*Desk
	journal *journal.Journal
	db      *pgtest.DB
	pool    *pgxpool.Pool
}

// setup makes an office. At the end of the test the books are verified.
func setup(t testing.TB, config Config, faults ...*pgtest.Faults) *office {
	t.Helper()
	db := pgtest.New(t)
	c := pg.Config{DSN: db.ServiceDSN()}
	if len(faults) > 0 {
		c.Dial = faults[0].DialFunc(nil)
	}
	pool, err := pg.Connect(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(pool, journal.Config{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(func() {
		j.Close()
		pool.Close()
	})
	t.Cleanup(func() { ledgertest.CheckBooks(t, db) })
	o := &office{New(j, pool, config), j, db, pool}
	var accounts []ledger.AccountSpec
	for _, id := range []ledger.AccountID{"wallet:shimul", "wallet:shop", "wallet:poor"} {
		accounts = append(accounts, ledger.AccountSpec{ID: id, Type: ledger.Liability, Currency: "BDT"})
	}
	accounts[2].Floor = new(decimal.Decimal) // It cannot give back what it does not have.
	accounts = append(accounts, ledger.AccountSpec{ID: "assets:bank", Type: ledger.Asset, Currency: "BDT"})
	if _, err := j.CreateAccounts(t.Context(), "setup", main, accounts); err != nil {
		t.Fatal(err)
	}
	return o
}

func dec(text string) decimal.Decimal { return decimal.RequireFromString(text) }

// pay posts a payment from Shimul to the shop, or to another account.
func (o *office) pay(t testing.TB, id ledger.TransferID, amount string, to ...ledger.AccountID) *ledger.Transfer {
	t.Helper()
	payee := ledger.AccountID("wallet:shop")
	if len(to) > 0 {
		payee = to[0]
	}
	return o.post(t, ledger.TransferSpec{ID: id, Entries: ledger.Simple("wallet:shimul", payee, dec(amount), "BDT")})
}

func (o *office) post(t testing.TB, spec ledger.TransferSpec) *ledger.Transfer {
	t.Helper()
	results, err := o.journal.Post(t.Context(), "payments", main, []ledger.TransferSpec{spec})
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Err != nil || results[0].Transfer.Refusal != nil {
		t.Fatalf("%s: %v %+v", spec.ID, results[0].Err, results[0].Transfer)
	}
	return results[0].Transfer
}

func (o *office) limit(t testing.TB, single, daily string) {
	t.Helper()
	if _, err := o.SetLimit(t.Context(), boss, LimitSpec{Currency: "BDT", Single: dec(single), Daily: dec(daily), Reason: "test"}); err != nil {
		t.Fatal(err)
	}
}

// spec asks for a refund with a new key.
func spec(of ledger.TransferID, amount, expected string) RefundSpec {
	return RefundSpec{
		Key: MintKey(), Transfer: of, Amount: dec(amount), ExpectedRefunded: dec(expected), Reason: ledger.ReasonDuplicate, Note: "paid twice", Ticket: "T-1",
	}
}

// ask asks for a refund, and has to get one in a state.
func (o *office) ask(t testing.TB, who Actor, s RefundSpec, want State) *Refund {
	t.Helper()
	r, err := o.Request(t.Context(), who, s)
	if err != nil {
		t.Fatal(err)
	}
	if r.State != want {
		t.Fatalf("request %d is %s, want %s: %+v", r.Number, r.State, want, r)
	}
	return r
}

func (o *office) decide(t testing.TB, who Actor, r *Refund, v Verdict) (*Refund, error) {
	t.Helper()
	return o.Decide(t.Context(), who, DecisionSpec{Number: r.Number, SHA256: r.SHA256, Verdict: v, Note: "looked at it"})
}

func (o *office) refunded(t testing.TB, id ledger.TransferID) string {
	t.Helper()
	_, p, err := o.journal.Transfer(t.Context(), main, id)
	if err != nil {
		t.Fatal(err)
	}
	return p.Refunded.String()
}

// query runs a query as the superuser, and gives its one value as text.
func (o *office) query(t testing.TB, sql string, args ...any) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), o.db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var text *string
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if text == nil {
		return ""
	}
	return *text
}

func (o *office) count(t testing.TB, from string) string {
	t.Helper()
	return o.query(t, "SELECT count(*)::text FROM "+from)
}

// audited gives the actions that the audit has of an object, oldest first.
func (o *office) audited(t testing.TB, id string) string {
	t.Helper()
	return o.query(t, `SELECT string_agg(actor || ' ' || action || ' ' || outcome, ', ' ORDER BY audit_no) FROM audit_event WHERE object_id = $1`, id)
}

// execAs runs statements in a transaction that is rolled back.
func execAs(t testing.TB, dsn string, replica bool, sql string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if replica {
		if _, err := conn.Exec(t.Context(), "SET session_replication_role = replica"); err != nil {
			t.Fatal(err)
		}
	}
	_, err = conn.Exec(t.Context(), "BEGIN; "+sql+"; ROLLBACK")
	return err
}

func isRefusedBy(err error, want string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.ConstraintName == want || refused.Code == want)
}

// mustCode fails the test unless an error has a code.
func mustCode(t testing.TB, err error, code ledger.Code) {
	t.Helper()
	var typed *ledger.Error
	if !errors.As(err, &typed) || typed.Code != code {
		t.Fatalf("want %s, got %v", code, err)
	}
}
