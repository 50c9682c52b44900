package fraud_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/ledger"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// pay is a transfer of wallet:a, so long after noon.
func pay(sequence int64, after time.Duration, payee, amount string) *fraud.Payment {
	return &fraud.Payment{
		Ledger: "main", Transfer: ledger.TransferID(fmt.Sprint("t", sequence)), Sequence: sequence, Kind: ledger.Plain, Payer: "wallet:a", Payee: payee,
		Amount: decimal.RequireFromString(amount), Currency: "BDT", PostedAt: noon.Add(after),
	}
}

func in(currency string, p *fraud.Payment) *fraud.Payment {
	p.Currency = currency
	return p
}

func as(kind ledger.Kind, p *fraud.Payment) *fraud.Payment {
	p.Kind = kind
	return p
}

// judge judges transfers one after the other, and says of each which rules flag it; "-" of one that was judged before.
func judge(rules *fraud.Rules, payments ...*fraud.Payment) (verdicts []string) {
	state := &fraud.State{}
	for _, p := range payments {
		reasons, next, isNew := rules.Judge(state, p)
		state = next
		if !isNew {
			verdicts = append(verdicts, "-")
			continue
		}
		verdicts = append(verdicts, names(reasons))
	}
	return verdicts
}

func names(reasons []fraud.Reason) string {
	var list []string
	for _, r := range reasons {
		if r.Rule == "" {
			r.Rule = string(r.Kind)
		}
		list = append(list, r.Rule)
	}
	return strings.Join(list, " ")
}

const (
	m  = time.Minute
	us = time.Microsecond
)

func TestJudge(t *testing.T) {
	t.Parallel()
	const (
		amount   = `{"name": "large", "kind": "amount", "limits": {"BDT": "500", "ETH": "1.000000000000000001"}}`
		velocity = `{"name": "fast", "kind": "velocity", "count": 2, "within": "10m"}`
		total    = `{"name": "much", "kind": "total", "limits": {"BDT": "100"}, "within": "10m"}`
		repeat   = `{"name": "twice", "kind": "repeat", "within": "10m"}`
		stranger = `{"name": "new", "kind": "new_payee", "limits": {"BDT": "50"}, "remember": "24h"}`
	)
	for name, c := range map[string]struct {
		rules    []string
		payments []*fraud.Payment
		want     []string
	}{
		"amount: at the limit and above": {
			[]string{amount}, []*fraud.Payment{pay(1, 0, "b", "500.00"), pay(2, 0, "b", "500.01"), pay(3, 0, "b", "499.99")}, []string{"", "large", ""},
		},
		"amount: eighteen decimals": {
			[]string{amount},
			[]*fraud.Payment{
				in("ETH", pay(1, 0, "b", "1.000000000000000001")), in("ETH", pay(2, 0, "b", "1.000000000000000002")), in("ETH", pay(3, 0, "b", "1")),
			},
			[]string{"", "large", ""},
		},
		"amount: a currency without a limit": {[]string{amount}, []*fraud.Payment{in("USD", pay(1, 0, "b", "1000000"))}, []string{""}},
		"velocity: more than the count": {
			[]string{velocity}, []*fraud.Payment{pay(1, 0, "b", "1"), pay(2, m, "c", "2"), pay(3, 2*m, "d", "3"), pay(4, 3*m, "e", "4")}, []string{"", "", "fast", "fast"},
		},
		"velocity: just in the window": {
			[]string{velocity}, []*fraud.Payment{pay(1, 0, "b", "1"), pay(2, 0, "b", "1"), pay(3, 10*m-us, "b", "1")}, []string{"", "", "fast"},
		},
		"velocity: exactly as old as the window": {
			[]string{velocity}, []*fraud.Payment{pay(1, 0, "b", "1"), pay(2, 0, "b", "1"), pay(3, 10*m, "b", "1")}, []string{"", "", ""},
		},
		"velocity: at once": {[]string{velocity}, []*fraud.Payment{pay(1, 0, "b", "1"), pay(2, 0, "b", "1"), pay(3, 0, "b", "1")}, []string{"", "", "fast"}},
		"velocity: every currency counts": {
			[]string{velocity}, []*fraud.Payment{pay(1, 0, "b", "1"), in("USD", pay(2, 0, "b", "1")), in("ETH", pay(3, 0, "b", "1"))}, []string{"", "", "fast"},
		},
		"velocity: a clock that steps back": {
			[]string{velocity}, []*fraud.Payment{pay(1, 9*m, "b", "1"), pay(2, 8*m, "b", "1"), pay(3, 0, "b", "1"), pay(4, 19*m, "b", "1")}, []string{"", "", "fast", ""},
		},
		"total: to the limit and above": {
			[]string{total}, []*fraud.Payment{pay(1, 0, "b", "60"), pay(2, m, "c", "40"), pay(3, 2*m, "d", "0.01")}, []string{"", "", "much"},
		},
		"total: alone": {[]string{total}, []*fraud.Payment{pay(1, 0, "b", "100.01"), pay(2, 10*m, "c", "100")}, []string{"much", ""}},
		"total: just in the window": {
			[]string{total}, []*fraud.Payment{pay(1, 0, "b", "60"), pay(2, 10*m-us, "c", "40.01")}, []string{"", "much"},
		},
		"total: another currency": {
			[]string{total}, []*fraud.Payment{pay(1, 0, "b", "60"), in("USD", pay(2, m, "c", "60")), pay(3, m, "c", "40")}, []string{"", "", ""},
		},
		"repeat": {
			[]string{repeat},
			[]*fraud.Payment{
				pay(1, 0, "b", "5"), pay(2, m, "c", "5"), pay(3, m, "b", "6"), in("USD", pay(4, m, "b", "5")), pay(5, 10*m-us, "b", "5.00"), pay(6, 11*m, "c", "5"),
			},
			[]string{"", "", "", "", "twice", ""},
		},
		"new payee: to the limit and above": {
			[]string{stranger},
			[]*fraud.Payment{pay(1, 0, "b", "50"), pay(2, 0, "c", "50.01"), pay(3, 0, "b", "1000"), pay(4, 0, "c", "1000"), in("USD", pay(5, 0, "d", "1000"))},
			[]string{"", "new", "", "", ""},
		},
		"new payee: remembered since the last time": {
			[]string{stranger},
			[]*fraud.Payment{pay(1, 0, "b", "1"), pay(2, 24*time.Hour-us, "b", "60"), pay(3, 47*time.Hour, "b", "60"), pay(4, 71*time.Hour, "b", "60")},
			[]string{"", "", "", "new"},
		},
		"several": {
			[]string{amount, velocity, total, repeat, stranger},
			[]*fraud.Payment{pay(1, 0, "b", "1"), pay(2, 0, "b", "1"), pay(3, 0, "c", "501"), pay(4, m, "c", "501")},
			[]string{"", "twice", "large fast much new", "large fast much twice"},
		},
		"what follows from a transfer is not judged, and not counted": {
			[]string{amount, velocity},
			[]*fraud.Payment{
				pay(1, 0, "b", "1"), as(ledger.Capture, pay(2, 0, "b", "1000")), as(ledger.Void, pay(3, 0, "b", "1000")), as(ledger.Expiry, pay(4, 0, "b", "1000")),
				as(ledger.Refund, pay(5, 0, "b", "1000")), as(ledger.Reversal, pay(6, 0, "b", "1000")), as(ledger.Hold, pay(7, 0, "b", "1000")), pay(8, 0, "b", "1"),
			},
			[]string{"", "", "", "", "", "", "large", "fast"},
		},
		"no rules": {nil, []*fraud.Payment{pay(1, 0, "b", "1"), pay(1, 0, "b", "1")}, []string{"", "-"}},
	} {
		if diff := cmp.Diff(c.want, judge(of(t, c.rules...), c.payments...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestJudge_OtherPayers(t *testing.T) {
	t.Parallel()
	rules := of(t, `{"name": "large", "kind": "amount", "limits": {"BDT": "500"}}`, `{"name": "twice", "kind": "repeat", "within": "10m"}`)
	first, again := pay(1, 0, "b", "501"), pay(2, 0, "b", "501")
	first.Payer, again.Payer = "shop", "shop"
	if diff := cmp.Diff([]string{"", "-", "", "-"}, judge(rules, first, first, again, again)); diff != "" {
		t.Error(diff)
	}
}

// What people read.
func TestJudge_Texts(t *testing.T) {
	t.Parallel()
	rules := of(t, `{"name": "large", "kind": "amount", "limits": {"BDT": "500"}}`, `{"name": "fast", "kind": "velocity", "count": 1, "within": "90m"}`,
		`{"name": "much", "kind": "total", "limits": {"BDT": "100"}, "within": "10m"}`, `{"name": "twice", "kind": "repeat", "within": "10m"}`,
		`{"name": "new", "kind": "new_payee", "limits": {"BDT": "50"}, "remember": "1h"}`)
	_, state, _ := rules.Judge(&fraud.State{}, pay(1, 0, "b", "501.50"))
	reasons, _, _ := rules.Judge(state, pay(2, m, "b", "501.50"))
	more, _, _ := rules.Judge(state, pay(2, m, "c", "51.00"))
	var got []string
	for _, r := range append(reasons, more[len(more)-1]) {
		got = append(got, string(r.Kind)+": "+r.Text)
	}
	if diff := cmp.Diff([]string{
		"amount: 501.50 BDT is more than 500 BDT",
		"velocity: it is the 2nd transfer of its payer within 1h30m, where 1 are usual",
		"total: with it its payer has paid 1003.00 BDT within 10m, which is more than 100 BDT",
		"repeat: its payer has paid 501.50 BDT to b before, within 10m",
		"new_payee: 51.00 BDT is more than 50 BDT, and its payer has not paid c within 1h",
	}, got); diff != "" {
		t.Error(diff)
	}
}

// A transfer that comes again changes nothing, whenever it comes.
func TestJudge_Duplicates(t *testing.T) {
	t.Parallel()
	rules := of(t, `{"name": "fast", "kind": "velocity", "count": 3, "within": "1h"}`)
	a, b, c, d := pay(5, 0, "b", "1"), pay(7, 0, "b", "2"), pay(9, m, "b", "3"), pay(11, 2*m, "b", "4")
	if diff := cmp.Diff([]string{"", "-", "", "-", "-", "-", "", "-", "-", "-", "fast", "-"}, judge(rules, a, a, b, a, b, a, c, b, a, c, d, d)); diff != "" {
		t.Error(diff)
	}
}

// Books that are restored from a backup give numbers again that they have given before. The transfers that get them are new, the clock says;
// those that had them are not, however often they come.
func TestJudge_RestoredBooks(t *testing.T) {
	t.Parallel()
	rules := of(t, `{"name": "fast", "kind": "velocity", "count": 5, "within": "24h"}`)
	kept, lost1, lost2 := pay(10, 0, "b", "1"), pay(50, m, "b", "2"), pay(60, 2*m, "b", "3")
	// At one time, as transfers of one batch are.
	again1, again2 := pay(45, 5*m, "c", "4"), pay(46, 5*m, "c", "5")
	later := pay(61, 6*m, "c", "6")
	if diff := cmp.Diff([]string{"", "", "", "", "-", "", "-", "-", "-", "-", "-", "fast", "-", "-", "-"},
		judge(rules, kept, lost1, lost2, again1, kept, again2, again1, again2, lost1, lost2, kept, later, lost2, again2, later)); diff != "" {
		t.Error(diff)
	}
	// And once more.
	third := pay(48, 9*m, "d", "7")
	if diff := cmp.Diff([]string{"", "", "", "", "-", "-", "-", "-"}, judge(rules, kept, lost2, again1, third, lost2, again1, kept, third)); diff != "" {
		t.Error(diff)
	}
}

// Rules that can no longer see everything say so, and never approve by that.
func TestJudge_Memory(t *testing.T) {
	t.Parallel()
	rules := of(t, `{"name": "fast", "kind": "velocity", "count": 499, "within": "1h"}`)
	var payments []*fraud.Payment
	for i := range fraud.MaxRecent + 2 {
		payments = append(payments, pay(int64(i+1), time.Duration(i)*time.Second, "b", "1"))
	}
	got := judge(rules, payments...)
	want := make([]string, fraud.MaxRecent+2)
	want[499], want[500], want[501] = "fast", "fast memory", "fast memory"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// history is what a model judges from: all that there was, and by the definition of each rule.
type history []*fraud.Payment

func near(a, b time.Time, d time.Duration) bool { return a.Sub(b).Abs() < d }

func (h history) judge(p *fraud.Payment) string {
	var list []string
	count, sum, twice, known := 0, p.Amount, false, false
	full := 0
	for _, before := range h {
		if near(before.PostedAt, p.PostedAt, 10*m) {
			count++
		}
		if before.Currency == p.Currency && near(before.PostedAt, p.PostedAt, 20*m) {
			sum = sum.Add(before.Amount)
		}
		if before.Payee == p.Payee && before.Currency == p.Currency && before.Amount.Equal(p.Amount) && near(before.PostedAt, p.PostedAt, 5*m) {
			twice = true
		}
		if near(before.PostedAt, p.PostedAt, 20*m+fraud.Slack) {
			full++
		}
	}
	// The last time counts.
	for i := len(h) - 1; i >= 0 && !known; i-- {
		if h[i].Payee == p.Payee {
			known = near(h[i].PostedAt, p.PostedAt, 60*m)
			break
		}
	}
	add := func(name string, yes bool) {
		if yes {
			list = append(list, name)
		}
	}
	bdt := p.Currency == "BDT"
	add("large", bdt && p.Amount.GreaterThan(decimal.New(70, 0)))
	add("fast", count >= 3)
	add("much", bdt && sum.GreaterThan(decimal.New(200, 0)))
	add("twice", twice)
	add("new", bdt && p.Amount.GreaterThan(decimal.New(40, 0)) && !known)
	add("memory", full >= fraud.MaxRecent)
	return strings.Join(list, " ")
}

func modelRules(t testing.TB) *fraud.Rules {
	return of(t, `{"name": "large", "kind": "amount", "limits": {"BDT": "70"}}`, `{"name": "fast", "kind": "velocity", "count": 3, "within": "10m"}`,
		`{"name": "much", "kind": "total", "limits": {"BDT": "200"}, "within": "20m"}`, `{"name": "twice", "kind": "repeat", "within": "5m"}`,
		`{"name": "new", "kind": "new_payee", "limits": {"BDT": "40"}, "remember": "1h"}`)
}

// The state, bounded as it is and through the changelog at every step, makes the same verdicts as all of the history; and what comes again,
// anywhere, changes nothing.
func TestJudge_Model(t *testing.T) {
	t.Parallel()
	rules := modelRules(t)
	rapid.Check(t, func(t *rapid.T) {
		state := &fraud.State{}
		var judged, all history
		at, greatest, sequence := noon, noon, int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "transfers") {
			// Clocks mostly go on, and step back by less than ten minutes.
			at = at.Add(rapid.SampledFrom([]time.Duration{0, us, time.Second, m, 3 * m, 5 * m, 5*m - us, 10 * m, 20 * m, 60 * m, -us, -m, -5 * m}).Draw(t, "step"))
			if floor := greatest.Add(-10*m + us); at.Before(floor) {
				at = floor
			}
			if at.After(greatest) {
				greatest = at
			}
			sequence += rapid.Int64Range(1, 3).Draw(t, "gap")
			p := pay(sequence, at.Sub(noon), rapid.SampledFrom([]string{"b", "c", "d"}).Draw(t, "payee"),
				rapid.SampledFrom([]string{"1", "1.00", "40", "40.01", "70", "70.01", "69.99"}).Draw(t, "amount"))
			p.Currency = rapid.SampledFrom([]string{"BDT", "BDT", "BDT", "USD"}).Draw(t, "currency")
			p.Kind = rapid.SampledFrom([]ledger.Kind{ledger.Plain, ledger.Plain, ledger.Plain, ledger.Hold, ledger.Refund}).Draw(t, "kind")

			want := ""
			if p.Kind != ledger.Refund {
				want = judged.judge(p)
				judged = append(judged, p)
			}
			reasons, next, isNew := rules.Judge(state, p)
			if got := names(reasons); !isNew || got != want {
				t.Fatalf("%v after %d: %q, want %q", p, len(all), got, want)
			}
			all = append(all, p)
			state = reencode(t, next)
			for _, again := range rapid.SliceOfN(rapid.SampledFrom(all), 0, 2).Draw(t, "again") {
				if _, after, isNew := rules.Judge(state, again); isNew || after != state {
					t.Fatalf("%v is judged again", again)
				}
			}
		}
	})
}

// The same with as many transfers as are remembered, and more.
func TestJudge_ModelOfMany(t *testing.T) {
	t.Parallel()
	rules := modelRules(t)
	state := &fraud.State{}
	var all history
	at := noon
	full := 0
	for i := range 4 * fraud.MaxRecent {
		step := 2 * time.Second
		if i%700 > 600 {
			step = 11 * time.Second
		}
		at = at.Add(step)
		p := pay(int64(i+1), at.Sub(noon), fmt.Sprint("p", i%50), fmt.Sprint(i%90+1))
		want := all.judge(p)
		reasons, next, _ := rules.Judge(state, p)
		got := names(reasons)
		if strings.Contains(want, "memory") {
			full++
			// It is flagged; which rules would have had something against it, too, is not known any more.
			want, got = "memory", got[max(0, strings.LastIndex(got, "memory")):]
		}
		if got != want {
			t.Fatalf("%d: %q, want %q", i, got, want)
		}
		all, state = append(all, p), next
		if recent, _ := state.Sizes(); recent > fraud.MaxRecent {
			t.Fatalf("%d transfers are remembered", recent)
		}
	}
	if full == 0 || full == len(all) {
		t.Errorf("%d of %d are more than are remembered: the test shows nothing", full, len(all))
	}
}

// Of payees those are remembered that were paid last.
func TestJudge_Payees(t *testing.T) {
	t.Parallel()
	rules := of(t, `{"name": "new", "kind": "new_payee", "limits": {"BDT": "40"}, "remember": "24h"}`)
	state := &fraud.State{}
	n := int64(0)
	step := func(payee string) string {
		n++
		reasons, next, _ := rules.Judge(state, pay(n, time.Duration(n)*time.Second, payee, "50"))
		state = next
		return names(reasons)
	}
	for i := range fraud.MaxPayees {
		step(fmt.Sprint("p", i))
	}
	got := []string{step("p0"), step("another"), step("p0"), step("p1"), step("p3")}
	if diff := cmp.Diff([]string{"", "new", "", "new", ""}, got); diff != "" {
		t.Error(diff)
	}
	if _, payees := state.Sizes(); payees != fraud.MaxPayees {
		t.Errorf("%d payees", payees)
	}
}

func reencode(t interface{ Fatal(...any) }, s *fraud.State) *fraud.State {
	value, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := fraud.DecodeState(value)
	if err != nil {
		t.Fatal(err)
	}
	if twice, err := again.Encode(); err != nil || !slices.Equal(value, twice) {
		t.Fatal("it is another state after it was read", err)
	}
	return again
}
