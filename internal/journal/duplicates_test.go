package journal_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// Two servers stop duplicates of the same transfers: what they have counted is told together, however often they write it down, and is not mixed with what
// they do by themselves.
func TestDuplicatesOf(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	config := journal.Config{CountEvery: -1, ExpireEvery: -1}
	one, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, config)
	two, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, config)
	if _, err := b.CreateLedger(t.Context(), "local", "other"); err != nil {
		t.Fatal(err)
	}
	post(t, one, move("IN", "cash", "wallet", "10"))
	post(t, one, move("NO", "wallet", "shop", "11")) // It is refused.
	h := hold("HELD", "wallet", "shop", "1")
	h.Terms.ExpiresAfter = ledger.MinHold
	deadline := *post(t, one, h).Transfer.Step.Deadline
	for _, j := range []*journal.Journal{one, two} {
		post(t, j, move("IN", "cash", "wallet", "10"))
		post(t, j, move("NO", "wallet", "shop", "11"))
		for range 2 {
			post(t, j, move("IN", "cash", "wallet", "12"))
		}
		j.CountReplay(t.Context(), main, journal.KeyGuard, "IN")
		j.CountReplay(t.Context(), "other", journal.KeyGuard, "IN")
	}
	// Both expire the hold: the second of them finds it done, and nobody has asked twice.
	time.Sleep(time.Until(deadline) + 50*time.Millisecond)
	release := b.holdGate(t)
	expired := make(chan error, 2)
	for _, j := range []*journal.Journal{one, two} {
		go func() { expired <- j.ExpireHolds(t.Context()) }()
	}
	b.raw(t).awaitJournalBlocked(t, 2)
	release()
	for range 2 {
		if err := result(t, expired); err != nil {
			t.Error(err)
		}
	}
	write := func() {
		t.Helper()
		for _, j := range []*journal.Journal{one, two} {
			if err := j.WriteTallies(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	told := func(name ledger.Name, most int) (list []string) {
		t.Helper()
		found, err := one.DuplicatesOf(t.Context(), name, []ledger.TransferID{"IN", "NO", "HELD", journal.ExpiryID("HELD"), "never"}, most)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range found {
			if d.Last.Before(d.First) || time.Since(d.First) > time.Hour || d.Last.After(time.Now()) {
				t.Errorf("%+v", d)
			}
			list = append(list, fmt.Sprintf("%s %s %d %d", d.Transfer, d.Guard, d.Replayed, d.Taken))
		}
		slices.Sort(list)
		return list
	}
	check := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	write()
	check("first", told(main, 10), "IN key 2 0", "IN ledger 2 4", "NO ledger 2 0")
	check("of the other ledger", told("other", 10), "IN key 2 0")
	post(t, two, move("NO", "wallet", "shop", "11"))
	write()
	write()
	check("more", told(main, 10), "IN key 2 0", "IN ledger 2 4", "NO ledger 3 0")
	check("the newest", told(main, 1), "NO ledger 3 0")
	// A write that was given up, and comes late after all, takes nothing back.
	b.db.Exec(t, "UPDATE duplicate_transfer_tally SET replayed = 100 WHERE transfer_id = 'NO'")
	post(t, one, move("NO", "wallet", "shop", "11"))
	write()
	check("after a larger count", told(main, 1), "NO ledger 200 0")

	// What is old is forgotten, in slices, and nothing else.
	b.db.Exec(t, `INSERT INTO duplicate_transfer_tally SELECT 1, 'old-' || n, date_trunc('hour', now() - interval '91 days'), 'key', gen_random_uuid(), 1, 0, now(), now()
		FROM generate_series(1, 2500) n`)
	b.db.Exec(t, `UPDATE duplicate_transfer_tally SET quarter = date_trunc('hour', now() - interval '89 days') WHERE transfer_id = 'IN'`)
	if err := one.ForgetTallies(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := read[int](t, b.raw(t), "SELECT count(*) FROM duplicate_transfer_tally WHERE transfer_id LIKE 'old-%'"); n != 0 {
		t.Errorf("%d old rows are left", n)
	}
	check("after the old ones went", told(main, 10), "IN key 2 0", "IN ledger 2 4", "NO ledger 200 0")
	ledgertest.CheckBooks(t, b.db)
}
