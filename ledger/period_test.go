package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

// february is the boundary of the tests below: everything before it is closed, by the watch of Dhaka.
var february = time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)

func dated(spec ledger.TransferSpec, at time.Time) ledger.TransferSpec {
	spec.EffectiveAt = &at
	return spec
}

func closed(before time.Time) func(*world) { return func(w *world) { w.closedBefore = before } }

func TestBooks_Decide_ClosedPeriod(t *testing.T) {
	t.Parallel()
	last := february.Add(-time.Microsecond)
	dhaka := february.In(time.FixedZone("", 6*3600))
	const closedNow = "refused PERIOD_CLOSED"
	for name, acts := range map[string][]act{
		"nothing is closed": {
			{spec: dated(move("1", "wallet", "shop", "1"), last), want: "posted"},
			{spec: dated(move("2", "wallet", "shop", "1"), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)), want: "posted"},
		},
		"up to the moment": {
			{spec: dated(move("1", "wallet", "shop", "1"), last), want: closedNow, change: closed(february)},
			{spec: dated(move("2", "wallet", "shop", "1"), february), want: "posted"},
			{spec: dated(move("3", "wallet", "shop", "1"), dhaka), want: "posted"},
			{spec: dated(move("4", "wallet", "shop", "1"), dhaka.Add(-time.Microsecond)), want: closedNow},
			{spec: dated(move("5", "wallet", "shop", "1"), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)), want: closedNow},
			{spec: move("6", "wallet", "shop", "1"), want: "posted"}, // It is dated by when it is posted.
			{spec: dated(transfer("7", debit("wallet", "2"), credit("shop", "1"), credit("fees", "1")), last), want: closedNow},
		},
		"a refusal stays, and a record stands": {
			{spec: dated(move("0", "wallet", "shop", "1"), last), want: "posted"},
			{spec: dated(move("1", "wallet", "shop", "1"), last), want: closedNow, change: closed(february)},
			{spec: dated(move("0", "wallet", "shop", "1.00"), last), want: "replayed posted"},
			{spec: dated(move("1", "wallet", "shop", "1"), last), want: "replayed " + closedNow, change: closed(time.Time{})},
			{spec: dated(move("1", "wallet", "shop", "1"), february), want: "ALREADY_EXISTS effective_at"},
			{spec: dated(move("2", "wallet", "shop", "1"), last), want: "posted"},
		},
		"nothing has moved": {
			{spec: dated(move("1", "wallet", "shop", "5000"), last), want: closedNow, change: closed(february)},
			{spec: move("2", "shop", "wallet", "0.01"), want: "refused INSUFFICIENT_FUNDS shop"},
			{spec: move("3", "wallet", "shop", "5000"), want: "posted"},
		},
		"after accounts that take no such entry, and before what they have": {
			{spec: dated(move("1", "wallet", "shop", "1"), last), want: "refused ACCOUNT_FROZEN wallet", change: func(w *world) {
				closed(february)(w)
				frozen("wallet", ledger.FrozenDebits)(w)
			}},
			{spec: dated(move("2", "shop", "wallet", "1"), last), want: closedNow},
			{spec: dated(move("3", "wallet:jpy", "shop:jpy", "1001"), last), want: closedNow},
			{spec: dated(move("4", "cash", "jar", "101"), last), want: closedNow},
		},
		"a capture": {
			{spec: hold("h", "wallet", "shop", "10"), want: "posted"},
			{spec: dated(capture("1", "h", "10.01"), last), want: "refused CAPTURE_EXCEEDS_HOLD", change: closed(february)},
			{spec: dated(capture("2", "h", "4"), last), want: closedNow},
			{spec: dated(keepOpen(capture("3", "h", "4")), last), want: closedNow},
			{spec: dated(keepOpen(capture("4", "h", "4")), february), want: "posted"},
			{spec: keepOpen(capture("5", "h", "4")), want: "posted"},
			{spec: dated(capture("2", "h", "4"), last), want: "replayed " + closedNow},
			{spec: void("v", "h"), want: "posted"},
			{spec: dated(capture("6", "h", ""), last), want: "refused HOLD_ENDED"},
			{spec: move("m", "wallet", "cash", "4992"), want: "posted"},
		},
		"a capture that comes too late, too": {
			{spec: expiring(hold("h", "wallet", "shop", "10"), noon.Add(time.Hour)), want: "posted"},
			{spec: dated(capture("1", "h", ""), last), want: "refused HOLD_EXPIRED", change: func(w *world) {
				closed(february)(w)
				clock(noon.Add(time.Hour))(w)
			}},
			{spec: expiry("x", "h"), want: "posted"},
		},
		"a hold and its expiry have no value date": {
			{spec: expiring(hold("h", "wallet", "shop", "10"), noon.Add(time.Hour)), want: "posted", change: closed(noon.Add(time.Minute))},
			{spec: expiry("x", "h"), want: "posted", change: clock(noon.Add(time.Hour))},
		},
		"a refund": {
			{spec: dated(move("m", "wallet", "shop", "10"), last), want: "posted"},
			{spec: dated(refund("1", "m", "4", "0"), last), want: closedNow, change: closed(february)},
			{spec: dated(refund("2", "m", "4", "1"), last), want: "refused REFUNDED_CHANGED"},
			{spec: dated(refund("3", "m", "11", "0"), last), want: "refused REFUND_EXCEEDS_REST"},
			{spec: dated(refund("4", "m", "4", "0"), february), want: "posted"},
			{spec: refund("5", "m", "", "4"), want: "posted"},
		},
		"a reversal": {
			{spec: dated(move("m", "wallet", "shop", "10"), last), want: "posted"},
			{spec: dated(reversal("1", "m"), last), want: closedNow, change: closed(february)},
			{spec: reversal("2", "m"), want: "posted"}, // What is reversed may be of a closed period: it stays there.
			{spec: dated(reversal("3", "m"), last), want: "refused ALREADY_REVERSED"},
		},
		"a transfer with terms": {
			{spec: dated(balancing(move("1", "wallet", "shop", "9000")), last), want: closedNow, change: closed(february)},
			{spec: dated(balancing(move("2", "wallet", "shop", "9000")), february), want: "posted"},
			{spec: dated(given(move("3", "cash", "shop", "1"), "shop", "1", -1), last), want: closedNow},
			{spec: given(move("4", "cash", "shop", "1"), "shop", "1", -1), want: "refused CONDITION_FAILED shop"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, acts)
		})
	}
}

// The culprit of an atomic call, and what a gateway has declined.
func TestBooks_ClosedPeriod_Others(t *testing.T) {
	t.Parallel()
	last := february.Add(-time.Microsecond)
	w := bazaar()
	w.closedBefore = february
	b := w.books()
	got := verdicts(b.DecideAtomically([]ledger.TransferSpec{
		move("1", "wallet", "shop", "5"), dated(move("2", "wallet", "shop", "5"), last), move("3", "wallet", "shop", "5"),
	}, "local"))
	if want := "ATOMIC_CALL_REFUSED transfers[1]; refused PERIOD_CLOSED; ATOMIC_CALL_REFUSED transfers[1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if decided := b.Decided(); len(decided) != 1 || !decided[0].Atomic || *decided[0].Refusal != (ledger.Refusal{Reason: ledger.CodePeriodClosed}) {
		t.Errorf("%+v", decided)
	}
	declined := dated(move("4", "cash", "wallet", "5"), last)
	declined.Declined = "cash"
	if got, want := verdict(b.Decide(declined, "local")), "refused DECLINED_BY_GATEWAY cash"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPeriod_Validate(t *testing.T) {
	t.Parallel()
	day := february
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"close":                        {ledger.PeriodClose{Before: day}.Validate(), ""},
		"close, with a reason":         {ledger.PeriodClose{Before: day, Reason: "January"}.Validate(), ""},
		"close before no time":         {ledger.PeriodClose{}.Validate(), "closed_before"},
		"close before a fine time":     {ledger.PeriodClose{Before: day.Add(time.Nanosecond)}.Validate(), "closed_before"},
		"close before year 10000":      {ledger.PeriodClose{Before: day.AddDate(9000, 0, 0)}.Validate(), "closed_before"},
		"close before year 0":          {ledger.PeriodClose{Before: day.AddDate(-2026, 0, 0)}.Validate(), "closed_before"},
		"close with too much to say":   {ledger.PeriodClose{Before: day, Reason: strings.Repeat("x", 1025)}.Validate(), "reason"},
		"reopen":                       {ledger.PeriodReopen{Before: &day, Reason: "late invoice"}.Validate(), ""},
		"reopen everything":            {ledger.PeriodReopen{Everything: true, Reason: "restated"}.Validate(), ""},
		"reopen nothing in particular": {ledger.PeriodReopen{Reason: "late invoice"}.Validate(), "closed_before"},
		"reopen both":                  {ledger.PeriodReopen{Before: &day, Everything: true, Reason: "x"}.Validate(), "everything"},
		"reopen without a reason":      {ledger.PeriodReopen{Before: &day}.Validate(), "reason"},
		"reopen for blanks":            {ledger.PeriodReopen{Before: &day, Reason: " \t"}.Validate(), "reason"},
		"reopen for a NUL":             {ledger.PeriodReopen{Before: &day, Reason: "a\x00b"}.Validate(), "reason"},
		"reopen before a fine time":    {ledger.PeriodReopen{Before: pointer(day.Add(1)), Reason: "x"}.Validate(), "closed_before"},
	} {
		want := ""
		if c.want != "" {
			want = "INVALID_ARGUMENT " + c.want
		}
		got := ""
		if c.err != nil {
			got = fault(c.err)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Closing never opens, and opening never closes: whoever sends either again, or late, changes nothing of what is so already.
func TestPeriod_Done(t *testing.T) {
	t.Parallel()
	january, march := february.AddDate(0, -1, 0), february.AddDate(0, 1, 0)
	for _, c := range []struct {
		now                       *time.Time
		closing, opening, openAll bool
	}{
		{nil, false, true, true},
		{&january, false, true, false},
		{&february, true, true, false},
		{&march, true, false, false},
	} {
		if got := (ledger.PeriodClose{Before: february}).Done(c.now); got != c.closing {
			t.Errorf("close before %s, closed before %v: done %t", february, c.now, got)
		}
		if got := (ledger.PeriodReopen{Before: &february}).Done(c.now); got != c.opening {
			t.Errorf("open from %s, closed before %v: done %t", february, c.now, got)
		}
		if got := (ledger.PeriodReopen{Everything: true}).Done(c.now); got != c.openAll {
			t.Errorf("open all, closed before %v: done %t", c.now, got)
		}
		change := ledger.PeriodChange{ClosedBefore: &february, Previous: c.now}
		if got := change.Reopens(); got != (c.now == &march) {
			t.Errorf("from %v to %s: reopens %t", c.now, february, got)
		}
		if got := (ledger.PeriodChange{Previous: c.now}).Reopens(); got != (c.now != nil) {
			t.Errorf("from %v to nothing: reopens %t", c.now, got)
		}
	}
}
