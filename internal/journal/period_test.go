package journal_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// periodCase is a period, and what a brute force over all transfers says of it.
type periodCase struct {
	journal.PeriodSpec
	transfers []recorded
}

func (c periodCase) String() string {
	return fmt.Sprintf("from %q to %q by value %t through %d since %d", c.From.Format(time.RFC3339Nano), c.To.Format(time.RFC3339Nano), c.ByValueDate,
		c.Through, c.Since)
}

func (c periodCase) when(r recorded) time.Time {
	if c.ByValueDate && r.effectiveAt != nil {
		return *r.effectiveAt
	}
	return r.postedAt
}

func (c periodCase) known(r recorded) bool {
	return r.refusal == nil && (c.Through == 0 || r.sequence <= c.Through)
}

func (c periodCase) before(r recorded) bool { return !c.From.IsZero() && c.when(r).Before(c.From) }

func (c periodCase) in(r recorded) bool {
	return c.known(r) && !c.before(r) && (c.To.IsZero() || c.when(r).Before(c.To))
}

// dayOf counts days by where they begin; the first begins before everything.
func dayOf(days []time.Time, at time.Time) int {
	day := 0
	for day+1 < len(days) && !days[day+1].After(at) {
		day++
	}
	return day
}

// listed are the transfers of the period after spec.Since, by day and then by sequence.
func (c periodCase) listed(days []time.Time) []recorded {
	list := slices.DeleteFunc(slices.Clone(c.transfers), func(r recorded) bool { return !c.in(r) || r.sequence <= c.Since })
	slices.SortStableFunc(list, func(a, b recorded) int {
		return cmp.Or(cmp.Compare(dayOf(days, c.when(a)), dayOf(days, c.when(b))), cmp.Compare(a.sequence, b.sequence))
	})
	return list
}

// accounts is what an account has before, in and at the end of the period.
func (c periodCase) account(no int64) string {
	var opening, debits, credits, closing decimal.Decimal
	entries := 0
	for _, r := range c.transfers {
		for leg, of := range r.accounts {
			if of != no || !c.known(r) {
				continue
			}
			if c.before(r) {
				opening, closing = opening.Add(r.amounts[leg]), closing.Add(r.amounts[leg])
			}
			if c.in(r) {
				closing = closing.Add(r.amounts[leg])
				entries++
				if r.amounts[leg].IsPositive() {
					debits = debits.Add(r.amounts[leg])
				} else {
					credits = credits.Sub(r.amounts[leg])
				}
			}
		}
	}
	return fmt.Sprintf("%s + %s - %s = %s in %d entries", opening, debits, credits, closing, entries)
}

// newPeriodCase draws a period whose bounds are times of transfers, or a microsecond beside them.
func (h *history) newPeriodCase(transfers []recorded, last int64) periodCase {
	c := periodCase{transfers: transfers}
	c.ByValueDate = h.random.IntN(2) == 0
	moment := func() time.Time {
		r := transfers[h.random.IntN(len(transfers))]
		at := r.postedAt
		if r.effectiveAt != nil && h.random.IntN(2) == 0 {
			at = *r.effectiveAt
		}
		return at.Add(time.Duration(h.random.IntN(3)-1) * time.Microsecond)
	}
	if h.random.IntN(4) > 0 {
		c.From = moment()
	}
	if h.random.IntN(4) > 0 {
		c.To = moment()
	}
	if !c.From.IsZero() && !c.To.IsZero() && c.To.Before(c.From) {
		c.From, c.To = c.To, c.From
	}
	if c.From.Equal(c.To) {
		c.To = c.To.Add(time.Microsecond)
	}
	if h.random.IntN(3) == 0 {
		c.Through = min(last, transfers[h.random.IntN(len(transfers))].sequence+int64(h.random.IntN(3)))
	}
	if h.random.IntN(3) == 0 {
		c.Since = transfers[h.random.IntN(len(transfers))].sequence - int64(h.random.IntN(3))
	}
	return c
}

// comparePeriods holds what periods tell against the brute force.
func (h *history) comparePeriods(t testing.TB, periods int) (wrong []string) {
	t.Helper()
	for i, name := range h.books {
		transfers, accounts := h.read(t, i+1)
		if len(transfers) == 0 {
			continue
		}
		last := read[int64](t, h.conn, "SELECT last_value FROM journal_sequence")
		for range periods {
			c := h.newPeriodCase(transfers, last)
			p, err := h.Period(t.Context(), name, c.PeriodSpec)
			if err != nil {
				t.Fatal(err)
			}
			for what, pair := range h.periodSays(t, p, c, accounts) {
				if pair[0] != pair[1] {
					wrong = append(wrong, fmt.Sprintf("%s of %s, %s:\n   got %s\n  want %s", what, name, c, pair[0], pair[1]))
				}
			}
		}
	}
	return wrong
}

// periodSays is what a period tells, each beside what the brute force does.
func (h *history) periodSays(t testing.TB, p *journal.Period, c periodCase, numbers map[ledger.AccountID]int64) map[string][2]string {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ids := slices.Sorted(slices.Values(h.ids))
	pairs := map[string][2]string{}
	var all []journal.PeriodAccount
	var got, want []string
	check(p.Accounts(t.Context(), journal.AccountFilter{}, func(page []journal.PeriodAccount) error {
		all = append(all, page...)
		for _, a := range page {
			got = append(got, fmt.Sprintf("%s %s + %s - %s = %s in %d entries", a.ID, a.Opening, a.Debits, a.Credits, a.Closing, a.Entries))
		}
		return nil
	}))
	for _, id := range ids {
		want = append(want, string(id)+" "+c.account(numbers[id]))
	}
	pairs["accounts"] = [2]string{strings.Join(got, "; "), strings.Join(want, "; ")}

	// Days of seven hours.
	begin := c.transfers[0].postedAt
	for _, r := range c.transfers {
		if at := c.when(r); at.Before(begin) {
			begin = at
		}
	}
	days := []time.Time{begin.Add(-time.Hour)}
	for len(days) < 100 {
		days = append(days, days[len(days)-1].Add(7*time.Hour))
	}
	listed := c.listed(days)
	chosen := []journal.PeriodAccount{all[2], all[0]} // in an order of their own
	got, want = nil, nil
	var gotDays, wantDays []string
	check(p.Entries(t.Context(), chosen, days, func(e journal.PeriodEntry) error {
		got = append(got, fmt.Sprint(e.Account.ID, " ", e.Day, " ", e.Sequence, " ", e.Leg, " ", e.Amount, " ", e.Kind, " ", e.Others))
		return nil
	}))
	check(p.Days(t.Context(), chosen, days, func(d journal.PeriodDay) error {
		gotDays = append(gotDays, fmt.Sprint(d.Account.ID, " ", d.Day, " ", d.Debits, " ", d.Credits, " ", d.Entries))
		return nil
	}))
	names := map[int64]ledger.AccountID{}
	for id, no := range numbers {
		names[no] = id
	}
	for _, a := range chosen {
		var debits, credits decimal.Decimal
		entries, day := 0, 0
		flush := func() {
			if entries > 0 {
				wantDays = append(wantDays, fmt.Sprint(a.ID, " ", day, " ", debits, " ", credits, " ", entries))
			}
			debits, credits, entries = decimal.Decimal{}, decimal.Decimal{}, 0
		}
		for _, r := range listed {
			for leg, no := range r.accounts {
				if no != numbers[a.ID] {
					continue
				}
				if on := dayOf(days, c.when(r)); on != day {
					flush()
					day = on
				}
				entries++
				if r.amounts[leg].IsPositive() {
					debits = debits.Add(r.amounts[leg])
				} else {
					credits = credits.Sub(r.amounts[leg])
				}
				var others []ledger.AccountID
				for _, other := range r.accounts {
					if id := names[other]; other != no && !slices.Contains(others, id) {
						others = append(others, id)
					}
				}
				want = append(want, fmt.Sprint(a.ID, " ", day, " ", r.sequence, " ", leg+1, " ", r.amounts[leg], " transfer ", others))
			}
		}
		flush()
	}
	pairs["entries"] = [2]string{strings.Join(got, "; "), strings.Join(want, "; ")}
	pairs["days"] = [2]string{strings.Join(gotDays, "; "), strings.Join(wantDays, "; ")}

	got, want = nil, nil
	transfer := func(list *[]string) func(x journal.PeriodTransfer) error {
		return func(x journal.PeriodTransfer) error {
			*list = append(*list, fmt.Sprint(x.Day, " ", x.Transfer.Sequence, " ", x.Amounts, " ", len(x.Transfer.Entries), " ",
				x.TypeOf(x.Transfer.Entries[0].Account)))
			return nil
		}
	}
	check(p.Transfers(t.Context(), days, transfer(&got)))
	for _, r := range listed {
		want = append(want, fmt.Sprint(dayOf(days, c.when(r)), " ", r.sequence, " ", r.amounts, " ", len(r.accounts),
			" asset")) // the hot account comes first
	}
	pairs["transfers"] = [2]string{strings.Join(got, "; "), strings.Join(want, "; ")}

	// Some numbers at a time, in the order of numbers: by posting time, as who reads the journal does.
	if !c.ByValueDate {
		got, want = nil, nil
		for since := int64(0); since < p.Horizon(); since += 37 {
			check(p.Window(since, since+37).Transfers(t.Context(), days[:1], transfer(&got)))
		}
		for _, r := range c.listed(days[:1]) {
			want = append(want, fmt.Sprint(0, " ", r.sequence, " ", r.amounts, " ", len(r.accounts), " asset"))
		}
		pairs["windows"] = [2]string{strings.Join(got, "; "), strings.Join(want, "; ")}
	}

	// What was decided, whatever the period goes by.
	got = nil
	check(p.Activity(t.Context(), days, func(a journal.Activity) error {
		got = append(got, fmt.Sprint(a.Day, " ", a.Kind, " ", string(a.Refusal), " ", a.Transfers, " ", a.Entries))
		return nil
	}))
	posting := c
	posting.ByValueDate = false
	counts, entries := map[[2]string]int{}, map[[2]string]int{}
	for _, r := range c.transfers {
		refusal := ""
		if r.refusal != nil {
			refusal = *r.refusal
			r.refusal = nil
		}
		if posting.in(r) && r.sequence > c.Since {
			key := [2]string{fmt.Sprintf("%09d", dayOf(days, r.postedAt)), refusal}
			counts[key]++
			if refusal == "" {
				entries[key] += len(r.accounts)
			}
		}
	}
	want = nil
	for key, n := range counts {
		want = append(want, fmt.Sprint(strings.TrimLeft(key[0][:8], "0")+key[0][8:], " transfer ", key[1], " ", n, " ", entries[key]))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !c.ByValueDate {
		pairs["activity"] = [2]string{strings.Join(got, "; "), strings.Join(want, "; ")}
	}

	// The entries of an account, backwards, whatever the period is.
	got, want = nil, nil
	check(p.Newest(t.Context(), &chosen[0], func(e journal.AccountItem) (bool, error) {
		got = append(got, fmt.Sprint(e.Sequence, " ", e.Leg, " ", e.Amount, " ", e.PostedAt.UnixMicro(), " ", e.EffectiveAt != nil))
		return len(got) < 600, nil
	}))
	for _, r := range slices.Backward(c.transfers) {
		for leg, no := range slices.Backward(r.accounts) {
			if no == numbers[chosen[0].ID] && c.known(r) && len(want) < 600 {
				want = append(want, fmt.Sprint(r.sequence, " ", leg+1, " ", r.amounts[leg], " ", r.postedAt.UnixMicro(), " ", r.effectiveAt != nil))
			}
		}
	}
	pairs["newest"] = [2]string{strings.Join(got, "; "), strings.Join(want, "; ")}

	dates, err := p.Dates(t.Context())
	check(err)
	byDay := map[time.Time][2]time.Time{}
	for _, r := range c.transfers {
		if !c.in(r) || r.sequence <= c.Since {
			continue
		}
		at := c.when(r).UTC()
		day := at.Truncate(24 * time.Hour)
		ends, seen := byDay[day]
		if !seen || at.Before(ends[0]) {
			ends[0] = at
		}
		if !seen || at.After(ends[1]) {
			ends[1] = at
		}
		byDay[day] = ends
	}
	var wanted [][2]time.Time
	for _, day := range slices.SortedFunc(maps.Keys(byDay), time.Time.Compare) {
		wanted = append(wanted, byDay[day])
	}
	pairs["dates"] = [2]string{fmt.Sprint(dates), fmt.Sprint(wanted)}
	return pairs
}

// Periods are what a brute force over all transfers gives: over random histories of two ledgers whose numbers interleave, under a clock that is set
// back, with value dates before and after the posting, with marks and without.
func TestPeriod_RandomHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(storm(2, 20)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b := setupDense(t)
			h := newHistory(t, b, 100+seed)
			for i := range storm(90, 200) {
				h.post(t)
				if h.random.IntN(12) == 0 {
					if err := h.SnapshotRound(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if i%30 == 29 {
					for _, w := range h.comparePeriods(t, 12) {
						t.Error(w)
					}
				}
			}
			if marks := read[int](t, h.conn, "SELECT count(*) FROM mark"); marks < 10 {
				t.Errorf("only %d marks", marks)
			}
		})
	}
}

// Each part of it is needed: without it the same comparison finds what is wrong.
func TestPeriod_BrokenVariants(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"no value dates":                   pgtest.Mutate("balance_by_time", "(d.effective_at <= $3) <> (d.posted_at <= $3)", "false"),
		"value dates at all points":        pgtest.Mutate("balance_by_time", "(d.effective_at <= $3) <> (d.posted_at <= $3)", "true"),
		"value dates beyond the horizon":   pgtest.Mutate("balance_by_time", "d.sequence <= $5", "true"),
		"without the moment itself":        pgtest.Mutate("balance_by_time", "WHERE t.posted_at <= $3) s", "WHERE t.posted_at < $3) s"),
		"the stretches are all in":         pgtest.Mutate("balance_by_time", "WHERE t.posted_at <= $3) s", "WHERE true) s"),
		"a stretch with what is before it": pgtest.Mutate("balance_by_time", "f.sequence > r.after", "f.sequence >= r.after"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupDense(t)
			rawAs(t, b.db.SuperDSN()).do(t, sql)
			h := newHistory(t, b, 7)
			for i := range 60 {
				h.post(t)
				if i%10 == 9 {
					if err := h.SnapshotRound(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			if wrong := h.comparePeriods(t, 30); len(wrong) == 0 {
				t.Error("the broken variant is not caught")
			}
		})
	}
}

// What a period is asked for, and what it says no to.
func TestPeriod_Asked(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	for i := range 3 {
		b.post(t, move(fmt.Sprint(i), "cash", "shop", "5"))
	}
	for name, c := range map[string]struct {
		ledger ledger.Name
		spec   journal.PeriodSpec
		want   string
	}{
		"negative":      {main, journal.PeriodSpec{Through: -1}, "INVALID_ARGUMENT through: is negative"},
		"still to come": {main, journal.PeriodSpec{Through: 1 << 40}, "INVALID_ARGUMENT through: 1099511627776 is still to come: the last number is "},
		"no ledger":     {"other", journal.PeriodSpec{}, `LEDGER_NOT_FOUND ledger "other" does not exist`},
		"no name":       {"Other", journal.PeriodSpec{}, "INVALID_ARGUMENT ledger: "},
	} {
		_, err := b.Period(t.Context(), c.ledger, c.spec)
		got := fmt.Sprint(string(ledger.CodeOf(err)), " ", err)
		if got = strings.Replace(got, "invalid argument: ", "", 1); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	p, err := b.Period(t.Context(), main, journal.PeriodSpec{})
	if err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[journal.AccountFilter]string{
		{}:                               "cash shop wallet",
		{Prefix: "s"}:                    "shop",
		{Prefix: "shop"}:                 "shop",
		{Prefix: "shop:"}:                "",
		{Account: "shop"}:                "shop",
		{Account: "sho"}:                 "ACCOUNT_NOT_FOUND",
		{Type: ledger.Asset}:             "cash",
		{Currency: "BDT"}:                "cash shop wallet",
		{Currency: "JPY"}:                "",
		{Part: "clearing|shop"}:          "shop",
		{Part: "sho"}:                    "",
		{Prefix: "c", Type: "liability"}: "",
	} {
		var ids []string
		err := p.Accounts(t.Context(), filter, func(page []journal.PeriodAccount) error {
			for _, a := range page {
				ids = append(ids, string(a.ID))
			}
			return nil
		})
		got := strings.Join(ids, " ")
		if err != nil {
			got = string(ledger.CodeOf(err))
		}
		if got != want {
			t.Errorf("%+v: %q, want %q", filter, got, want)
		}
	}
	enough := errors.New("enough")
	var page []journal.PeriodAccount
	if err := p.Accounts(t.Context(), journal.AccountFilter{}, func(accounts []journal.PeriodAccount) error {
		page = accounts
		return enough
	}); !errors.Is(err, enough) {
		t.Error(err)
	}
	days := []time.Time{{}}
	for name, err := range map[string]error{
		"entries":   p.Entries(t.Context(), page, days, func(journal.PeriodEntry) error { return enough }),
		"days":      p.Days(t.Context(), page, days, func(journal.PeriodDay) error { return enough }),
		"transfers": p.Transfers(t.Context(), days, func(journal.PeriodTransfer) error { return enough }),
		"activity":  p.Activity(t.Context(), days, func(journal.Activity) error { return enough }),
		"newest":    p.Newest(t.Context(), &page[0], func(journal.AccountItem) (bool, error) { return true, enough }),
	} {
		if !errors.Is(err, enough) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// More accounts than a page has, each once.
	var specs []ledger.AccountSpec
	for i := range 1203 {
		specs = append(specs, ledger.AccountSpec{ID: ledger.AccountID(fmt.Sprint("many:", i)), Type: ledger.Asset, Currency: "BDT"})
	}
	if _, err := b.CreateAccounts(t.Context(), "local", main, specs); err != nil {
		t.Fatal(err)
	}
	seen, pages := map[ledger.AccountID]bool{}, 0
	var last ledger.AccountID
	if err := p.Accounts(t.Context(), journal.AccountFilter{Prefix: "many:"}, func(accounts []journal.PeriodAccount) error {
		pages++
		for _, a := range accounts {
			if seen[a.ID] || a.ID <= last {
				t.Errorf("%s comes after %s", a.ID, last)
			}
			seen[a.ID], last = true, a.ID
		}
		return nil
	}); err != nil || len(seen) != 1203 || pages != 3 {
		t.Errorf("%d accounts in %d pages, %v", len(seen), pages, err)
	}
}
