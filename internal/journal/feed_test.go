package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// readFeed reads on from a number until there is no more, in windows of this size, and tells each record in a word or two.
func readFeed(t testing.TB, feed *journal.Feed, after int64, window int) (told []string, last int64) {
	t.Helper()
	for {
		records, err := feed.Records(context.Background(), 1, after, window)
		if errors.Is(err, journal.ErrUnderWay) {
			continue
		}
		if err != nil {
			t.Error(err)
			return told, after
		}
		if len(records) == 0 {
			return told, after
		}
		if len(records) > window {
			t.Errorf("%d records in a window of %d", len(records), window)
		}
		for _, r := range records {
			if r.Sequence <= after {
				t.Errorf("%d comes after %d", r.Sequence, after)
			}
			after = r.Sequence
			told = append(told, tellRecord(r))
		}
	}
}

func tellRecord(r journal.Record) string {
	switch {
	case r.Fault != nil:
		return "unreadable " + string(r.Transfer.ID)
	case r.Change != nil && r.Change.Before == nil:
		return "opened " + string(r.Change.Account.ID)
	case r.Change != nil:
		return "changed " + string(r.Change.Account.ID) + " " + strings.Join(r.Change.Account.ChangedFrom(*r.Change.Before), "+")
	case r.Transfer.Refusal != nil:
		return "refused " + string(r.Transfer.ID) + " " + string(r.Transfer.Refusal.Reason)
	}
	text := "posted " + string(r.Transfer.ID)
	for _, m := range r.Movements {
		text += fmt.Sprintf(" %s:%s/%s/%s", m.Account, m.Posted, m.Held, m.Incoming)
	}
	return text
}

func TestFeed_WhatThereIs(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	ctx := t.Context()
	hold := move("H", "wallet", "shop", "4")
	hold.Terms = &ledger.Terms{Kind: ledger.Hold}
	part := amount("3")
	var closed, name = true, "Till"
	frozen := ledger.FrozenDebits
	for _, step := range []func() error{
		func() error { b.post(t, move("T1", "cash", "wallet", "10")); return nil },
		func() error { b.post(t, hold); return nil },
		func() error { b.post(t, move("T2", "wallet", "shop", "7")); return nil }, // more than is available
		func() error {
			b.post(t, ledger.TransferSpec{ID: "C", Terms: &ledger.Terms{Kind: ledger.Capture, Origin: "H", Amount: &part}})
			return nil
		},
		func() error {
			_, err := b.UpdateAccount(ctx, "local", main, "cash", ledger.AccountUpdate{Name: &name, Frozen: &frozen})
			return err
		},
		// Its number is a gap to those who read by number.
		func() error { b.closePeriod(t, month(2)); return nil },
		func() error {
			b.account(t, "spare", ledger.Expense, "BDT", nil)
			_, err := b.UpdateAccount(ctx, "local", main, "spare", ledger.AccountUpdate{Closed: &closed})
			return err
		},
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"opened cash", "opened shop", "opened wallet",
		"posted T1 cash:10/0/0 wallet:10/0/0",
		"posted H wallet:0/4/0 shop:0/0/4",
		"refused T2 INSUFFICIENT_FUNDS",
		"posted C wallet:-3/-4/0 shop:3/0/-4",
		"changed cash name+frozen",
		"opened spare", "changed spare closed",
	}
	for _, window := range []int{1, 2, 3, 4, 1000} {
		got, _ := readFeed(t, b.Feed(), 0, window)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("in windows of %d (-want +got):\n%s", window, diff)
		}
	}
	b.closePeriod(t, month(3))
	unread, err := b.Feed().Unread(ctx, nil)
	if err != nil || len(unread) != 1 || unread[0].Ledger != main {
		t.Errorf("unread: %v, %v", unread, err)
	}
	_, last := readFeed(t, b.Feed(), 0, 1000)
	if unread, err = b.Feed().Unread(ctx, map[int32]int64{1: last}); err != nil || len(unread) != 0 {
		t.Errorf("unread behind the last: %v, %v", unread, err)
	}
	// A change has an id that nobody else's has, and not from its number.
	records, err := b.Feed().Records(ctx, 1, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, r := range records {
		if r.Change != nil {
			ids[r.Change.ID] = true
		}
	}
	if len(ids) != 6 || ids[""] {
		t.Errorf("ids of changes: %v", ids)
	}
}

// A number that was drawn and is not visible yet is waited for, whoever drew it.
func TestFeed_LateNumbers(t *testing.T) {
	t.Parallel()
	// A statement that has drawn its numbers, and whose trigger has not run yet: it holds no gate of its ledger. It goes on when the
	// advisory lock 99 is to be had.
	slow := strings.Replace(insertMove("LATE", "cash", "shop", "1", "nextval('journal_sequence')"), "'local'",
		"CASE WHEN pg_advisory_xact_lock(99)::text = '' THEN 'local' END", 1)
	for _, c := range []struct {
		name, late, want string
		broken           []string // what makes it get lost
	}{
		{"a transfer", insertMove("LATE", "cash", "shop", "1"), "posted LATE", []string{
			"ALTER TABLE transfer DISABLE TRIGGER transfer_gate",
			"CREATE OR REPLACE FUNCTION transfer_write_entries() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
		}},
		{"a transfer whose statement is under way", slow, "posted LATE", []string{"ALTER TABLE transfer DISABLE TRIGGER transfer_gate"}},
		{"the name of an account", "UPDATE account SET name = 'Late' WHERE account_id = 'shop'", "changed shop name", []string{
			"ALTER FUNCTION account_next_version() RENAME TO renamed", // the one of 0007, without the gate
			`CREATE FUNCTION account_next_version() RETURNS trigger LANGUAGE plpgsql AS
			 'BEGIN NEW.version := nextval(''journal_sequence''); NEW.changed_at := clock_timestamp(); RETURN NEW; END'`,
			"ALTER TABLE account DISABLE TRIGGER account_next_version",
			"CREATE TRIGGER zz BEFORE INSERT OR UPDATE ON account FOR EACH ROW EXECUTE FUNCTION account_next_version()",
		}},
	} {
		for _, broken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/broken %v", c.name, broken), func(t *testing.T) {
				t.Parallel()
				b := setupShop(t)
				hand, brake, watcher := rawAs(t, b.db.SuperDSN()), b.raw(t), rawAs(t, b.db.SuperDSN())
				if broken {
					watcher.do(t, c.broken...)
				}
				_, seen := readFeed(t, b.Feed(), 0, 10)
				brake.do(t, "BEGIN", "SELECT pg_advisory_xact_lock(99)")
				hand.do(t, "BEGIN")
				inserted := start(func() error { _, err := hand.Exec(context.Background(), c.late); return err })
				if c.late == slow {
					watcher.awaitBlocked(t, hand.pid)
				} else if err := result(t, inserted); err != nil {
					t.Fatal(err)
				}
				b.post(t, move("A", "cash", "shop", "1"))
				type page struct {
					told []string
					last int64
				}
				reading := start(func() page { told, last := readFeed(t, b.Feed(), seen, 10); return page{told, last} })
				finish := func() {
					brake.do(t, "COMMIT")
					if c.late == slow {
						if err := result(t, inserted); err != nil {
							t.Fatal(err)
						}
					}
					hand.do(t, "COMMIT")
				}
				if !broken {
					watcher.awaitReader(t)
					pending(t, reading)
					finish()
					if p := result(t, reading); len(p.told) != 2 || !strings.HasPrefix(p.told[0], c.want) || !strings.HasPrefix(p.told[1], "posted A") {
						t.Errorf("read %q", p.told)
					}
					return
				}
				p := result(t, reading)
				finish()
				rest, _ := readFeed(t, b.Feed(), p.last, 10)
				if slices.ContainsFunc(append(p.told, rest...), func(s string) bool { return strings.HasPrefix(s, c.want) }) {
					t.Errorf("without the guard it is not lost: read %q, then %q", p.told, rest)
				}
			})
		}
	}
}

// Two servers post and change while a third one reads: everything once, in order.
func TestFeed_UnderFire(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	other, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{})
	rounds := storm(60, 400)
	var posters sync.WaitGroup
	var done atomic.Bool
	for w, j := range []*journal.Journal{b.Journal, other, b.Journal, other} {
		posters.Go(func() {
			for i := range rounds {
				specs := []ledger.TransferSpec{
					move(fmt.Sprintf("t-%d-%d-a", w, i), "cash", "wallet", "2"), move(fmt.Sprintf("t-%d-%d-b", w, i), "wallet", "shop", "1"),
				}
				if _, err := j.Post(t.Context(), "local", main, specs); err != nil {
					t.Error(err)
					return
				}
				if i%10 == 0 {
					name := fmt.Sprintf("name %d %d", w, i)
					if _, err := j.UpdateAccount(t.Context(), "local", main, "shop", ledger.AccountUpdate{Name: &name}); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	read := start(func() []string {
		feed, last := b.Feed(), int64(0)
		var all []string
		for end := false; !end; {
			end = done.Load()
			var told []string
			told, last = readFeed(t, feed, last, 7)
			all = append(all, told...)
		}
		return all
	})
	posters.Wait()
	done.Store(true)
	incremental := result(t, read)
	whole, _ := readFeed(t, b.Feed(), 0, 1000)
	if diff := cmp.Diff(whole, incremental); diff != "" {
		t.Errorf("what was read meanwhile is not what is there (-there +read):\n%s", diff)
	}
	if want := 3 + 4*(2*rounds+(rounds+9)/10); len(whole) != want {
		t.Errorf("%d records, want %d", len(whole), want)
	}
}

// Large transfers are read some at a time, and none is left out.
func TestFeed_Large(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const accounts, transfers = 500, 60
	var specs []ledger.AccountSpec
	for i := range accounts {
		specs = append(specs, ledger.AccountSpec{ID: ledger.AccountID(fmt.Sprintf("a%d", i)), Type: ledger.Asset, Currency: "BDT"})
	}
	if _, err := b.CreateAccounts(t.Context(), "local", main, specs); err != nil {
		t.Fatal(err)
	}
	for i := range transfers {
		spec := ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprintf("t%d", i))}
		for k := range accounts {
			spec.Entries = append(spec.Entries, ledger.Entry{
				Account: specs[k].ID, Direction: []ledger.Direction{ledger.Debit, ledger.Credit}[k%2], Amount: amount("1"),
			})
		}
		b.post(t, spec)
	}
	feed, last, read, most := b.Feed(), int64(0), 0, 0
	for {
		records, err := feed.Records(t.Context(), 1, last, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		if len(records) == 0 {
			break
		}
		read += len(records)
		large := 0
		for _, r := range records {
			if r.Transfer != nil {
				large++
			}
		}
		most = max(most, large)
		last = records[len(records)-1].Sequence
	}
	if read != accounts+transfers || most >= transfers || most < 30 {
		t.Errorf("%d records were read, at most %d large ones at once", read, most)
	}
	// By their numbers, in whatever order they are asked for.
	at, err := b.Feed().At(t.Context(), 1, []int64{last, 1, last - 1})
	if err != nil || len(at) != 3 || at[0].Change == nil || at[2].Sequence != last {
		t.Errorf("%v, %v", at, err)
	}
}
