package sms

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// books are a journal in the same database.
func (b *bench) books(t testing.TB) *journal.Journal {
	t.Helper()
	j := journal.New(b.pool, journal.Config{SnapshotEvery: -1, ExpireEvery: -1, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(j.Close)
	return j
}

func open(t testing.TB, j *journal.Journal, name ledger.Name, ids ...string) {
	t.Helper()
	specs := make([]ledger.AccountSpec, len(ids))
	for i, id := range ids {
		specs[i] = ledger.AccountSpec{
			ID: ledger.AccountID(id), Type: ledger.Liability, Currency: "BDT", Name: "Name of " + id, Metadata: ledger.Metadata(withPhone(fmt.Sprintf("+88017%08d", i))),
		}
	}
	if _, err := j.CreateAccounts(t.Context(), "local", name, specs); err != nil {
		t.Fatal(err)
	}
}

func post(t testing.TB, j *journal.Journal, name ledger.Name, id, payer, payee string) int64 {
	t.Helper()
	results, err := j.Post(t.Context(), "local", name, []ledger.TransferSpec{{
		ID: ledger.TransferID(id), Entries: ledger.Simple(ledger.AccountID(payer), ledger.AccountID(payee), decimal.New(1, 0), "BDT"),
	}})
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
	return results[0].Transfer.Sequence
}

func (b *bench) covered(t testing.TB) map[string]int64 {
	t.Helper()
	covered := map[string]int64{}
	for _, row := range b.rows(t, "SELECT ledger || ' ' || through FROM khata_sms.covered") {
		name, through, _ := strings.Cut(row, " ")
		covered[name], _ = strconv.ParseInt(through, 10, 64)
	}
	return covered
}

func TestBootstrap(t *testing.T) {
	t.Parallel()
	b := setupEmpty(t)
	j := b.books(t)
	if _, err := j.CreateLedger(t.Context(), "local", "other"); err != nil {
		t.Fatal(err)
	}
	open(t, j, "main", "wallet:a", "wallet:b")
	open(t, j, "other", "wallet:a")
	before := post(t, j, "main", "before", "wallet:a", "wallet:b")
	if begun, err := queries.SMSBegun(t.Context(), b.pool); err != nil || begun {
		t.Fatal(begun, err)
	}
	done, err := Bootstrap(t.Context(), j, b.pool)
	if err != nil || !done.First || done.Accounts != 3 || done.Ledgers != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	covered := b.covered(t)
	if len(covered) != 2 || covered["main"] < before || covered["other"] < before {
		t.Errorf("covered %v, and the last transfer is %d", covered, before)
	}
	// Again: the directory is brought up to date, what is covered stays, and a ledger that is younger is never covered.
	after := post(t, j, "main", "after", "wallet:a", "wallet:b")
	if after <= covered["main"] {
		t.Errorf("%d is covered", after)
	}
	if _, err := j.CreateLedger(t.Context(), "local", "young"); err != nil {
		t.Fatal(err)
	}
	open(t, j, "young", "wallet:a", "wallet:b")
	post(t, j, "young", "t", "wallet:a", "wallet:b")
	name := "Anew"
	if _, err := j.UpdateAccount(t.Context(), "local", "main", "wallet:a", ledger.AccountUpdate{Name: &name}); err != nil {
		t.Fatal(err)
	}
	if done, err = Bootstrap(t.Context(), j, b.pool); err != nil || done.First || done.Accounts != 5 || len(done.Restored) > 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if got := b.covered(t); len(got) != 2 || got["main"] != covered["main"] || got["other"] != covered["other"] {
		t.Errorf("covered %v, then %v", covered, got)
	}
	want := []string{"main wallet:a Anew +8801700000000", "main wallet:b Name of wallet:b +8801700000001", "other wallet:a Name of wallet:a +8801700000000",
		"young wallet:a Name of wallet:a +8801700000000", "young wallet:b Name of wallet:b +8801700000001"}
	if got := b.rows(t, "SELECT concat_ws(' ', ledger, account, name, phone) FROM khata_sms.recipient ORDER BY ledger, account"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// Accounts come, go and change while they are read, by pages, and by events as well: what is there in the end is the latest of each.
func TestBootstrap_WhileAccountsChange(t *testing.T) {
	t.Parallel()
	b := setupEmpty(t)
	j := b.books(t)
	var ids []string
	for i := range accountsAtOnce + 200 {
		ids = append(ids, fmt.Sprintf("wallet:%04d", i))
	}
	for page := range slices.Chunk(ids, 300) {
		open(t, j, "main", page...)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			id := ids[(i*37)%len(ids)]
			name := fmt.Sprintf("Change %d", i)
			a, err := j.UpdateAccount(context.Background(), "local", "main", ledger.AccountID(id), ledger.AccountUpdate{Name: &name})
			if err != nil {
				t.Error(err)
				return
			}
			if i%2 == 0 { // Of others the event comes later, or came before.
				b.mustHandle(t, account("updated", id, a.Name, string(a.Metadata), a.Version))
			}
		}
	})
	for range 3 {
		if _, err := Bootstrap(t.Context(), j, b.pool); err != nil {
			t.Error(err)
		}
	}
	stop()
	wg.Wait()
	if _, err := Bootstrap(t.Context(), j, b.pool); err != nil {
		t.Fatal(err)
	}
	if n := b.rows(t, `SELECT a.account_id || ' is ' || a.name || ' and not ' || coalesce(r.name, 'there') FROM account a
		LEFT JOIN khata_sms.recipient r ON r.account = a.account_id AND r.ledger = 'main' WHERE a.name IS DISTINCT FROM r.name`); len(n) > 0 {
		t.Errorf("%d differ: %q", len(n), n[0])
	}
}

// Two at once, the first time: one of them begins.
func TestBootstrap_TwoAtOnce(t *testing.T) {
	t.Parallel()
	b := setupEmpty(t)
	j := b.books(t)
	open(t, j, "main", "wallet:a", "wallet:b")
	var wg sync.WaitGroup
	var mu sync.Mutex
	first := 0
	for range 4 {
		wg.Go(func() {
			done, err := Bootstrap(t.Context(), j, b.pool)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if done.First {
				first++
			}
		})
	}
	wg.Wait()
	if first != 1 || len(b.covered(t)) != 1 {
		t.Errorf("%d were first; covered %v", first, b.covered(t))
	}
}

// After the books were restored from a backup their numbers begin again further down.
func TestBootstrap_Restored(t *testing.T) {
	t.Parallel()
	b := setupEmpty(t)
	j := b.books(t)
	open(t, j, "main", "wallet:a", "wallet:b")
	if _, err := Bootstrap(t.Context(), j, b.pool); err != nil {
		t.Fatal(err)
	}
	b.db.Exec(t, "UPDATE khata_sms.covered SET through = through + 1000")
	b.db.Exec(t, "UPDATE khata_sms.recipient SET version = version + 1000, name = 'of what is lost' WHERE account = 'wallet:a'")
	b.db.Exec(t, "INSERT INTO khata_sms.recipient VALUES ('main', 'wallet:lost', 'Lost', '', '', 'all', 2000)")
	done, err := BootstrapRestored(t.Context(), j, b.pool)
	if err != nil || !slices.Equal(done.Restored, []string{"main"}) {
		t.Errorf("%+v, %v", done, err)
	}
	if got := b.rows(t, "SELECT name FROM khata_sms.recipient ORDER BY account"); !slices.Equal(got, []string{"Name of wallet:a", "Name of wallet:b"}) {
		t.Errorf("%q", got)
	}
	if now := post(t, j, "main", "now", "wallet:a", "wallet:b"); now <= b.covered(t)["main"] {
		t.Errorf("%d is covered: %v", now, b.covered(t))
	}
}
