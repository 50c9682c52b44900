package journal

import (
	"errors"
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
	tallies := newTallies()
	if list := tallies.unwritten(); len(list) != 0 {
		t.Errorf("nothing was counted: %v", list)
	}
	began := time.Now().UTC()
	checkTime := func(quarterOf time.Time) {
		t.Helper()
		if first := began.Truncate(quarter); quarterOf.Before(first) || quarterOf.Sub(first)%quarter != 0 {
			t.Errorf("a quarter at %s", quarterOf)
		}
	}
	// check compares what is to be written of a ledger: of a guard as a whole, and of a transfer. The test may be in two quarters.
	type counts struct{ replayed, taken int64 }
	all := func(u *unwritten, guard Guard) (c counts) {
		for i := 0; u != nil && i < len(u.all.Guards); i++ {
			checkTime(u.all.Quarters[i])
			if u.all.Guards[i] == string(guard) {
				c.replayed, c.taken = c.replayed+u.all.Replayed[i], c.taken+u.all.Taken[i]
			}
		}
		return c
	}
	of := func(u *unwritten, guard Guard, id string) (c counts) {
		for i := 0; u != nil && i < len(u.of.Guards); i++ {
			checkTime(u.of.Quarters[i])
			if u.of.FirstAt[i].Before(began) || u.of.LastAt[i].Before(u.of.FirstAt[i]) || u.of.LastAt[i].After(time.Now()) {
				t.Errorf("from %s to %s", u.of.FirstAt[i], u.of.LastAt[i])
			}
			if u.of.Guards[i] == string(guard) && u.of.TransferIds[i] == id {
				c.replayed, c.taken = c.replayed+u.of.Replayed[i], c.taken+u.of.Taken[i]
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
		for range replays {
			tallies.count(ledgerID, guard, id, replayed)
		}
		for range takes {
			tallies.count(ledgerID, guard, id, taken)
		}
	}
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
		if u.all.Run != tallies.run || u.of.Run != tallies.run || u.all.LedgerID != id || u.of.LedgerID != id {
			t.Errorf("%d: %+v", id, u)
		}
	}
	if list := tallies.unwritten(); len(list) != 0 {
		t.Errorf("all was written: %v", list)
	}
	tallies.failed(first[1])
	again := tallies.unwritten()
	check("again", all(again[1], LedgerGuard), counts{3, 4})
	check("again of b", of(again[1], LedgerGuard, "b"), counts{1, 4})
	check("again of 2", all(again[2], KeyGuard), counts{})
	count(1, LedgerGuard, "b", 1, 0)
	more := tallies.unwritten()
	check("more", all(more[1], LedgerGuard), counts{4, 4})
	check("more of b", of(more[1], LedgerGuard, "b"), counts{2, 4})
	if time.Now().UTC().Truncate(quarter).Equal(began.Truncate(quarter)) { // In another one all of it is of another row.
		check("more of a", of(more[1], LedgerGuard, "a"), counts{})
	}

	named := func(id ledger.TransferID) item { return item{spec: ledger.TransferSpec{ID: id}} }
	tallies.countResults(3, []item{named("a"), named("b"), named("a"), named("c"), named("d"), named("e")}, []PostResult{
		{Replayed: true}, {}, {Replayed: true}, {Err: ledger.Errorf(ledger.CodeAlreadyExists, "x")},
		{Err: ledger.Errorf(ledger.CodeUnavailable, "x")}, {Err: errors.New("x")},
	})
	results := tallies.unwritten()[3]
	check("results", all(results, LedgerGuard), counts{2, 1})
	check("results of a", of(results, LedgerGuard, "a"), counts{2, 0})
	check("results of c", of(results, LedgerGuard, "c"), counts{0, 1})
	if n := len(results.of.TransferIds); n != 2 {
		t.Errorf("%d transfers were stopped, want 2", n)
	}

	// Two hours later what was written is forgotten, and what was not is not.
	for key, n := range tallies.counts {
		delete(tallies.counts, key)
		key.quarter = key.quarter.Add(-3 * time.Hour)
		n.written = key.ledgerID != 3
		tallies.counts[key] = n
	}
	list := tallies.unwritten()
	if late := list[3]; len(tallies.counts) != 3 || len(list) != 1 || len(late.all.Guards) != 1 || len(late.of.Guards) != 2 {
		t.Errorf("later: %v of %v", list, tallies.counts)
	}
	if list := tallies.unwritten(); len(list) != 0 || len(tallies.counts) != 0 {
		t.Errorf("later still: %v of %v", list, tallies.counts)
	}
}

// Of an import that is run again, which has millions, the first are counted one by one, and all of them together; the next quarter has room again.
func TestTallies_Bound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tallies := newTallies()
		for round := range 2 {
			const stopped = maxTallied + 100
			for i := range stopped {
				tallies.count(1, LedgerGuard, ledger.TransferID(strconv.Itoa(i)), replayed)
			}
			tallies.count(1, LedgerGuard, "0", replayed) // One that is counted already goes on being so.
			u := tallies.unwritten()[1]
			if len(u.all.Replayed) != 1 || u.all.Replayed[0] != stopped+1 || len(u.of.Replayed) != maxTallied {
				t.Errorf("round %d: %d in %d quarters, and of %d transfers", round, u.all.Replayed, len(u.all.Replayed), len(u.of.Replayed))
			}
			if i := slices.Index(u.of.TransferIds, "0"); i < 0 || u.of.Replayed[i] != 2 {
				t.Errorf("round %d: of the first at %d", round, i)
			}
			time.Sleep(quarter)
		}
	})
}

func TestStretches(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ list, want []stretch }{
		"nothing":     {nil, nil},
		"empty ones":  {[]stretch{{5, 5}, {7, 3}}, nil},
		"apart":       {[]stretch{{7, 9}, {1, 3}}, []stretch{{1, 3}, {7, 9}}},
		"touching":    {[]stretch{{3, 5}, {1, 3}, {5, 6}}, []stretch{{1, 6}}},
		"overlapping": {[]stretch{{1, 9}, {2, 4}, {8, 12}, {20, 21}}, []stretch{{1, 12}, {20, 21}}},
		"the same":    {[]stretch{{1, 9}, {1, 9}, {1, 2}}, []stretch{{1, 9}}},
	} {
		got := join(c.list)
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
	}
	// Each number is certain or doubtful or neither, and never both.
	for _, c := range []struct {
		opening, closing  boundary
		certain, doubtful []stretch
	}{
		{boundary{}, boundary{base: 10}, []stretch{{0, 10}}, nil},
		{boundary{base: 3, stretches: []stretch{{3, 5}}}, boundary{base: 10, stretches: []stretch{{10, 12}, {20, 22}}}, []stretch{{5, 10}}, []stretch{{3,
			5}, {10, 12}, {20, 22}}},
		{boundary{base: 3, stretches: []stretch{{3, 5}, {7, 8}, {11, 13}}}, boundary{base: 10}, []stretch{{5, 7}, {8, 10}}, []stretch{{3, 5}, {7, 8},
			{11, 13}}},
		{boundary{base: 3, stretches: []stretch{{3, 30}}}, boundary{base: 10, stretches: []stretch{{10, 12}}}, nil, []stretch{{3, 30}}},
		{boundary{base: 3, stretches: []stretch{{3, 5}}}, boundary{base: 3, stretches: []stretch{{3, 5}}}, nil, []stretch{{3, 5}}},
	} {
		certain, doubtful := within(c.opening, c.closing)
		for number := int64(1); number < 40; number++ {
			in := func(list []stretch) bool {
				for _, s := range list {
					if number > s.after && number <= s.through {
						return true
					}
				}
				return false
			}
			if in(certain) != in(c.certain) || in(doubtful) != in(c.doubtful) || in(certain) && in(doubtful) {
				t.Errorf("%v to %v: %v and %v, want %v and %v", c.opening, c.closing, certain, doubtful, c.certain, c.doubtful)
				break
			}
		}
	}
}
