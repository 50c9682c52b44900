package journal

import (
	"errors"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// What was counted is written once, and again whenever more was counted or the writing failed; always whole, by quarters and guards.
func TestTallies(t *testing.T) {
	t.Parallel()
	tallies := newTallies()
	if list := tallies.unwritten(); len(list) != 0 {
		t.Errorf("nothing was counted: %v", list)
	}
	tallies.count(1, LedgerGuard, 0, 0)
	if list := tallies.unwritten(); len(list) != 0 {
		t.Errorf("nothing was counted: %v", list)
	}
	quarterNow := time.Now().UTC().Truncate(15 * time.Minute)
	sum := func(args dbsqlc.DuplicatesTallyParams, guard Guard) (replayed, taken int64) {
		for i := range args.Quarters {
			if args.Guards[i] == string(guard) {
				replayed, taken = replayed+args.Replayed[i], taken+args.Taken[i]
			}
			if args.Quarters[i].Before(quarterNow) || args.Quarters[i].Sub(quarterNow)%(15*time.Minute) != 0 {
				t.Errorf("a quarter at %s", args.Quarters[i])
			}
		}
		return replayed, taken
	}
	check := func(what string, list map[int32]dbsqlc.DuplicatesTallyParams, ledgerID int32, guard Guard, replayed, taken int64) {
		t.Helper()
		if r, k := sum(list[ledgerID], guard); r != replayed || k != taken {
			t.Errorf("%s: %d and %d by %s, want %d and %d", what, r, k, guard, replayed, taken)
		}
	}
	tallies.count(1, LedgerGuard, 2, 0)
	tallies.count(1, LedgerGuard, 1, 4)
	tallies.count(1, KeyGuard, 5, 6)
	tallies.count(2, KeyGuard, 7, 0)
	first := tallies.unwritten()
	check("first", first, 1, LedgerGuard, 3, 4)
	check("first", first, 1, KeyGuard, 5, 6)
	check("first", first, 2, KeyGuard, 7, 0)
	if first[1].Run != first[2].Run || first[1].Run != tallies.run {
		t.Error("two ledgers of one server are of two")
	}
	if list := tallies.unwritten(); len(list) != 0 {
		t.Errorf("all was written: %v", list)
	}
	tallies.failed(first[1])
	again := tallies.unwritten()
	check("again", again, 1, LedgerGuard, 3, 4)
	check("again", again, 2, KeyGuard, 0, 0)
	tallies.count(1, LedgerGuard, 1, 0)
	check("more", tallies.unwritten(), 1, LedgerGuard, 4, 4)

	tallies.countResults(3, []PostResult{
		{Replayed: true}, {}, {Replayed: true}, {Err: ledger.Errorf(ledger.CodeAlreadyExists, "x")}, {Err: ledger.Errorf(ledger.CodeUnavailable,
			"x")}, {Err: errors.New("x")},
	})
	check("results", tallies.unwritten(), 3, LedgerGuard, 2, 1)

	// Two hours later what was written is forgotten, and what was not is not.
	for key, n := range tallies.counts {
		delete(tallies.counts, key)
		key.quarter = key.quarter.Add(-3 * time.Hour)
		n.written = key.ledgerID != 3
		tallies.counts[key] = n
	}
	list := tallies.unwritten()
	if len(tallies.counts) != 1 || len(list) != 1 || list[3].Replayed[0] != 2 || list[3].Taken[0] != 1 {
		t.Errorf("later: %v of %v", list, tallies.counts)
	}
	if list := tallies.unwritten(); len(list) != 0 || len(tallies.counts) != 0 {
		t.Errorf("later still: %v of %v", list, tallies.counts)
	}
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
