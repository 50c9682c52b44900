package verify_test

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/verify"
	"github.com/khata-ledger/khata/ledger"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const main = ledger.DefaultLedger

// books are a database with a history that has everything in it, written by the journal.
type books struct {
	*journal.Journal
	db    *pgtest.DB
	close func()
}

func newBooks(t testing.TB) *books {
	t.Helper()
	db := pgtest.New(t)
	pool, err := pg.Connect(context.Background(), pg.Config{DSN: db.ServiceDSN()})
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(pool, journal.Config{ExpireEvery: -1}) // Or holds would expire while they are looked at.
	b := &books{Journal: j, db: db, close: sync.OnceFunc(func() {
		j.Close()
		pool.Close()
	})}
	t.Cleanup(b.close)
	b.must(t, func(ctx context.Context) error {
		_, err := b.CreateLedger(ctx, "local", "second")
		return err
	})
	b.must(t, func(ctx context.Context) error {
		return b.RegisterCurrency(ctx, main, ledger.Currency{Code: "ETH", Scale: 18})
	})
	zero := decimal.Zero
	b.accounts(t, main,
		ledger.AccountSpec{ID: "cash", Type: ledger.Asset, Currency: "BDT"},
		ledger.AccountSpec{ID: "fees", Type: ledger.Revenue, Currency: "BDT", Metadata: `{"team":"pricing"}`},
		ledger.AccountSpec{ID: "wallet", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
		ledger.AccountSpec{ID: "frozen", Type: ledger.Liability, Currency: "BDT"},
		ledger.AccountSpec{ID: "closed", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
		ledger.AccountSpec{ID: "vault", Type: ledger.Asset, Currency: "ETH", Floor: &zero},
		ledger.AccountSpec{ID: "coins", Type: ledger.Liability, Currency: "ETH"},
		ledger.AccountSpec{ID: "unused", Type: ledger.Expense, Currency: "JPY"},
		ledger.AccountSpec{ID: "usd", Type: ledger.Asset, Currency: "USD"},
	)
	b.accounts(t, "second",
		ledger.AccountSpec{ID: "cash", Type: ledger.Asset, Currency: "BDT"},
		ledger.AccountSpec{ID: "wallet", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
	)
	b.post(t, main, "posted",
		move("T-in", "cash", "wallet", "500.00"),
		move("T-closing-in", "cash", "closed", "20"),
		move("T-frozen-in", "cash", "frozen", "70.5"),
		move("T-vault-in", "vault", "coins", "1.000000000000000001"),
		ledger.TransferSpec{ID: "T-fee", Description: "with a fee", Metadata: `{"order":"77"}`, Entries: []ledger.Entry{
			{Account: "wallet", Direction: ledger.Debit, Amount: decimal.RequireFromString("101.50")},
			{Account: "cash", Direction: ledger.Credit, Amount: decimal.RequireFromString("100")},
			{Account: "fees", Direction: ledger.Credit, Amount: decimal.RequireFromString("1.50")},
		}},
		ledger.TransferSpec{ID: "T-two-currencies", Entries: append(
			ledger.Simple("cash", "wallet", decimal.RequireFromString("1"), ""),
			ledger.Simple("coins", "vault", decimal.RequireFromString("0.5"), "")...)},
	)
	b.post(t, "second", "posted", move("T-in", "cash", "wallet", "500.00"))
	b.post(t, main, "INSUFFICIENT_FUNDS", move("T-too-much", "wallet", "cash", "400"))
	b.post(t, main, "posted", move("T-close-out", "closed", "cash", "20"))
	yes, both, debits, hundred, overdraft, name := true, ledger.FrozenBoth, ledger.FrozenDebits,
		decimal.RequireFromString("1000"), decimal.RequireFromString("-50"), "Vault"
	b.change(t, "closed", ledger.AccountUpdate{Closed: &yes})
	b.post(t, main, "ACCOUNT_CLOSED", move("T-to-closed", "cash", "closed", "1"))
	b.change(t, "frozen", ledger.AccountUpdate{Frozen: &both})
	b.post(t, main, "ACCOUNT_FROZEN", move("T-from-frozen", "frozen", "cash", "1"))
	b.change(t, "frozen", ledger.AccountUpdate{Frozen: &debits})
	b.post(t, main, "posted", move("T-to-frozen", "cash", "frozen", "1"))
	b.change(t, "vault", ledger.AccountUpdate{Name: &name})
	// A floor above the balance: what adds to it is posted all the same.
	b.change(t, "wallet", ledger.AccountUpdate{Floor: &hundred})
	b.post(t, main, "posted", move("T-top-up", "cash", "wallet", "10"))
	b.post(t, main, "INSUFFICIENT_FUNDS", move("T-below-new-floor", "wallet", "cash", "1"))
	b.change(t, "wallet", ledger.AccountUpdate{Floor: &overdraft})
	b.post(t, main, "posted", move("T-overdraft", "wallet", "cash", "450"))
	b.change(t, "wallet", ledger.AccountUpdate{RemoveFloor: true})
	b.post(t, main, "posted", move("T-no-floor", "wallet", "cash", "200"), move("T-back", "cash", "wallet", "240.50"))
	b.change(t, "wallet", ledger.AccountUpdate{Floor: &zero})
	return b
}

func (b *books) must(t testing.TB, f func(context.Context) error) {
	t.Helper()
	if err := f(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (b *books) accounts(t testing.TB, name ledger.Name, specs ...ledger.AccountSpec) {
	t.Helper()
	b.must(t, func(ctx context.Context) error {
		_, err := b.CreateAccounts(ctx, "local", name, specs)
		return err
	})
}

func (b *books) change(t testing.TB, id ledger.AccountID, update ledger.AccountUpdate) {
	t.Helper()
	b.must(t, func(ctx context.Context) error {
		_, err := b.UpdateAccount(ctx, "local", main, id, update)
		return err
	})
}

// post posts transfers of which each must have the outcome: posted, or the reason of a refusal.
func (b *books) post(t testing.TB, name ledger.Name, outcome string, specs ...ledger.TransferSpec) {
	t.Helper()
	results, err := b.Post(t.Context(), "local", name, specs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		switch {
		case r.Err != nil:
			t.Fatalf("%s: %v", specs[i].ID, r.Err)
		case outcome == "posted" && r.Transfer.Refusal != nil, outcome != "posted" && (r.Transfer.Refusal == nil || string(r.Transfer.Refusal.Reason) != outcome):
			t.Fatalf("%s: %s %+v, want %s", specs[i].ID, r.Transfer.Outcome(), r.Transfer.Refusal, outcome)
		}
	}
}

func move(id ledger.TransferID, debit, credit ledger.AccountID, amount string) ledger.TransferSpec {
	return ledger.TransferSpec{ID: id, Entries: ledger.Simple(debit, credit, decimal.RequireFromString(amount), "")}
}

// clone copies the database, whose journal must be closed.
func (b *books) clone(t testing.TB) (copied struct{ super, service string }) {
	t.Helper()
	name := "t_clone_" + strings.ToLower(rand.Text())
	server := strings.Replace(b.db.SuperDSN(), b.db.Name, "postgres", 1)
	tamper(t, server, "CREATE DATABASE "+name+" TEMPLATE "+b.db.Name+" STRATEGY file_copy OWNER khata_owner")
	t.Cleanup(func() { tamper(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	copied.super = strings.Replace(b.db.SuperDSN(), b.db.Name, name, 1)
	copied.service = strings.Replace(b.db.ServiceDSN(), b.db.Name, name, 1)
	return copied
}

// tamper runs statements, each on its own.
func tamper(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	ctx := context.Background() // It also cleans up.
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	// Who does not say so is taken for a server from before holds.
	for _, sql := range append([]string{"SET khata.schema = '0007'"}, statements...) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func run(t testing.TB, dsn string) verify.Report {
	t.Helper()
	report, err := verify.Run(t.Context(), dsn, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return report
}
