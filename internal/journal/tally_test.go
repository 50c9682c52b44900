package journal

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

// What was counted is written once, and again whenever more was counted or the writing failed; always whole, by quarters, guards and transfers.
func TestTallies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tallies := newTallies()
		began := time.Now().UTC()
		last := map[string]time.Time{} // when each was counted last, by guard and transfer
		// all and of are what is to be written of a guard as a whole, and of a transfer.
		type counts struct{ replayed, taken int64 }
		checkTime := func(of, want time.Time) {
			t.Helper()
			if !of.Equal(want) {
				t.Errorf("at %s, want %s", of, want)
			}
		}
		all := func(u *unwritten, guard Guard) (c counts) {
			for i := 0; u != nil && i < len(u.all.Guards); i++ {
				checkTime(u.all.Quarters[i], began.Truncate(quarter))
				if u.all.Guards[i] == string(guard) {
					c.replayed, c.taken = c.replayed+u.all.Replayed[i], c.taken+u.all.Taken[i]
				}
			}
			return c
		}
		of := func(u *unwritten, guard Guard, id string) (c counts) {
			if u == nil || len(u.of) == 0 {
				return c
			}
			for i, of := 0, u.of[0]; i < len(of.Guards); i++ {
				checkTime(of.Quarters[i], began.Truncate(quarter))
				checkTime(of.FirstAt[i], began)
				if of.Guards[i] == string(guard) && of.TransferIds[i] == id {
					c.replayed, c.taken = c.replayed+of.Replayed[i], c.taken+of.Taken[i]
					checkTime(of.LastAt[i], last[of.Guards[i]+of.TransferIds[i]])
				}
			}
			return c
		}
		check := func(what string, got, want counts) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		count := func(ledgerID int32, guard Guard, id ledger.TransferID, replays, takes int) {
			last[string(guard)+string(id)] = time.Now()
			for range replays {
				tallies.count(ledgerID, guard, id, replayed)
			}
			for range takes {
				tallies.count(ledgerID, guard, id, taken)
			}
		}
		none := func(what string) {
			t.Helper()
			if list := tallies.unwritten(); len(list) != 0 {
				t.Errorf("%s: %v", what, list)
			}
		}
		none("nothing was counted")
		count(1, LedgerGuard, "a", 2, 0)
		count(1, LedgerGuard, "b", 1, 4)
		count(1, KeyGuard, "a", 5, 6)
		count(2, KeyGuard, "a", 7, 0)
		first := tallies.unwritten()
		check("all of 1 by the ledger", all(first[1], LedgerGuard), counts{3, 4})
		check("all of 1 by keys", all(first[1], KeyGuard), counts{5, 6})
		check("all of 2", all(first[2], KeyGuard), counts{7, 0})
		check("a of 1 by the ledger", of(first[1], LedgerGuard, "a"), counts{2, 0})
		check("b of 1 by the ledger", of(first[1], LedgerGuard, "b"), counts{1, 4})
		check("a of 1 by keys", of(first[1], KeyGuard, "a"), counts{5, 6})
		check("a of 2", of(first[2], KeyGuard, "a"), counts{7, 0})
		for id, u := range first {
			if u.all.Run != tallies.run || u.of[0].Run != tallies.run || u.all.LedgerID != id || u.of[0].LedgerID != id {
				t.Errorf("%d: %+v", id, u)
			}
		}
		none("all was written")
		tallies.failed(first[1])
		again := tallies.unwritten()
		check("again", all(again[1], LedgerGuard), counts{3, 4})
		check("again of b", of(again[1], LedgerGuard, "b"), counts{1, 4})
		check("again of 2", all(again[2], KeyGuard), counts{})
		time.Sleep(time.Minute)
		count(1, LedgerGuard, "b", 1, 0)
		more := tallies.unwritten()
		check("more", all(more[1], LedgerGuard), counts{4, 4})
		check("more of b", of(more[1], LedgerGuard, "b"), counts{2, 4})
		check("more of a", of(more[1], LedgerGuard, "a"), counts{})

		// Of what was not written, single transfers are forgotten after a while; what was written is forgotten when its quarter is long over.
		count(3, KeyGuard, "a", 1, 0)
		tallies.failed(first[1])
		time.Sleep(3 * quarter)
		late := tallies.unwritten()
		check("late", all(late[1], LedgerGuard), counts{4, 4})
		check("late of b", of(late[1], LedgerGuard, "b"), counts{2, 4})
		check("late of 3", all(late[3], KeyGuard), counts{1, 0})
		if len(late) != 2 {
			t.Errorf("late: %v", late)
		}
		tallies.failed(late[1])
		time.Sleep(tallyKept * quarter)
		if later := tallies.unwritten(); len(later) != 1 || len(later[1].of) != 0 || len(tallies.counts) != 2 {
			t.Errorf("later: %v of %v", later, tallies.counts)
		}
		none("what is old was written")
		if len(tallies.counts) != 0 {
			t.Errorf("later still: %v", tallies.counts)
		}
	})
}

// Only what somebody has asked of the journal itself is counted by it.
func TestTallies_Results(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tallies := newTallies()
		named := func(id ledger.TransferID) item { return item{spec: ledger.TransferSpec{ID: id}} }
		expiry := named("expiry")
		expiry.spec.Terms = &ledger.Terms{Kind: ledger.Expiry}
		hooked := named("hooked")
		hooked.hook = struct{ Hook }{}
		exists := PostResult{Err: ledger.Errorf(ledger.CodeAlreadyExists, "x")}
		tallies.countResults(3,
			[]item{named("a"), named("b"), named("a"), named("c"), named("d"), named("e"), expiry, hooked, hooked},
			[]PostResult{
				{Replayed: true}, {}, {Replayed: true}, exists, {Err: ledger.Errorf(ledger.CodeUnavailable, "x")}, {Err: errors.New("x")},
				{Replayed: true}, {Replayed: true}, exists,
			})
		u := tallies.unwritten()[3]
		got := map[string][2]int64{}
		for i, id := range u.of[0].TransferIds {
			got[id] = [2]int64{u.of[0].Replayed[i], u.of[0].Taken[i]}
		}
		if want := map[string][2]int64{"a": {2, 0}, "c": {0, 1}}; !maps.Equal(got, want) || u.all.Replayed[0] != 2 || u.all.Taken[0] != 1 {
			t.Errorf("%v, want %v, and %+v", got, want, u.all)
		}
	})
}

// Of an import that is run again, which has millions, the first are counted one by one, and all of them together; other ledgers, the keys of people, and
// the next quarter have room all the same, and so has an earlier one, if the clock is put right.
func TestTallies_Bound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tallies := newTallies()
		check := func(what string, u *unwritten, all, of int) {
			t.Helper()
			singles, first := 0, int64(0)
			for _, part := range u.of {
				singles += len(part.TransferIds)
				if len(part.TransferIds) > tallySlice {
					t.Errorf("%s: %d in one statement", what, len(part.TransferIds))
				}
				if i := slices.Index(part.TransferIds, "0"); i >= 0 {
					first = part.Replayed[i]
				}
			}
			if len(u.all.Replayed) != 1 || u.all.Replayed[0] != int64(all) || singles != of || first != 2 {
				t.Errorf("%s: %d, of %d transfers, and %d of the first", what, u.all.Replayed, singles, first)
			}
		}
		crowd := func(ledgerID int32, guard Guard, n int) {
			for i := range n {
				tallies.count(ledgerID, guard, ledger.TransferID(strconv.Itoa(i)), replayed)
			}
			tallies.count(ledgerID, guard, "0", replayed) // One that is counted already goes on being so.
		}
		for range 2 {
			crowd(1, LedgerGuard, maxTallied+100)
			check("an import", tallies.unwritten()[1], maxTallied+101, maxTallied)
			crowd(1, KeyGuard, 10)
			check("people", tallies.unwritten()[1], 11, 10)
			crowd(2, LedgerGuard, 10)
			check("another ledger", tallies.unwritten()[2], 11, 10)
			time.Sleep(quarter)
		}
		crowd(3, LedgerGuard, maxTallied+100)
		tallies.quarter = tallies.quarter.Add(1000 * time.Hour)
		tallies.unwritten()
		tallies.count(3, LedgerGuard, "after", replayed)
		if u := tallies.unwritten()[3]; len(u.of) != 1 || u.of[0].TransferIds[0] != "after" {
			t.Errorf("after the clock was put right: %+v", u)
		}
	})
}
