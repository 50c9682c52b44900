package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/ledger"
)

func TestProgressOf_Hold(t *testing.T) {
	t.Parallel()
	ids := func(list ...ledger.TransferID) []ledger.TransferID { return list }
	for name, c := range map[string]struct {
		steps []ledger.TransferSpec
		want  ledger.Progress
	}{
		"open":                 {nil, ledger.Progress{Hold: ledger.HoldOpen, Reserved: amount("100")}},
		"captured":             {[]ledger.TransferSpec{capture("1", "h", "")}, ledger.Progress{Hold: ledger.HoldCaptured, Captured: amount("100"), Steps: ids("1")}},
		"captured in part":     {[]ledger.TransferSpec{capture("1", "h", "60.01")}, ledger.Progress{Hold: ledger.HoldCaptured, Captured: amount("60.01"), Released: amount("39.99"), Steps: ids("1")}},
		"captured, open":       {[]ledger.TransferSpec{keepOpen(capture("1", "h", "60"))}, ledger.Progress{Hold: ledger.HoldOpen, Captured: amount("60"), Reserved: amount("40"), Steps: ids("1")}},
		"captured twice":       {[]ledger.TransferSpec{keepOpen(capture("1", "h", "60")), capture("2", "h", "30")}, ledger.Progress{Hold: ledger.HoldCaptured, Captured: amount("90"), Released: amount("10"), Steps: ids("1", "2")}},
		"nothing to keep open": {[]ledger.TransferSpec{keepOpen(capture("1", "h", "100.00"))}, ledger.Progress{Hold: ledger.HoldCaptured, Captured: amount("100"), Steps: ids("1")}},
		"voided":               {[]ledger.TransferSpec{void("1", "h")}, ledger.Progress{Hold: ledger.HoldVoided, Released: amount("100"), Steps: ids("1")}},
		"captured and voided":  {[]ledger.TransferSpec{keepOpen(capture("1", "h", "60")), void("2", "h")}, ledger.Progress{Hold: ledger.HoldVoided, Captured: amount("60"), Released: amount("40"), Steps: ids("1", "2")}},
		"expired":              {[]ledger.TransferSpec{expiry("1", "h")}, ledger.Progress{Hold: ledger.HoldExpired, Released: amount("100"), Steps: ids("1")}},
	} {
		w := bazaar()
		b := w.books()
		decide(t, b, expiring(hold("h", "wallet", "shop", "100.00"), noon.Add(1)))
		if name == "expired" {
			b.SetClock(noon.Add(1))
		}
		decide(t, b, c.steps...)
		w.keep(b)
		c.want.Currency = bdt
		if diff := cmp.Diff(c.want, ledger.ProgressOf(w.record("h"), w.steps("h")), cmpopts.IgnoreUnexported(ledger.Progress{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestProgressOf_Refunds(t *testing.T) {
	t.Parallel()
	w := bazaar()
	b := w.books()
	decide(t, b,
		move("o", "wallet", "shop", "100"), refund("1", "o", "30", "0"), refund("2", "o", "0.50", "30"),
		move("p", "wallet", "shop", "100"), reversal("3", "p"), hold("h", "wallet", "shop", "50"), capture("c", "h", "20"), refund("4", "c", "", "0"),
		transfer("q", debit("wallet", "5"), credit("shop", "5"), debit("wallet:jpy", "9"), credit("shop:jpy", "9")), reversal("5", "q"),
		balancing(move("z", "box", "fees", "70")), refund("6", "z", "1", "0"))
	w.keep(b)
	for id, want := range map[ledger.TransferID]ledger.Progress{
		"o": {Currency: bdt, Refunded: amount("30.5"), Refundable: amount("69.5"), Steps: []ledger.TransferID{"1", "2"}},
		"p": {Currency: bdt, Refunded: amount("100"), Reversed: true, Steps: []ledger.TransferID{"3"}},
		"c": {Currency: bdt, Refunded: amount("20"), Steps: []ledger.TransferID{"4"}},
		"q": {Reversed: true, Steps: []ledger.TransferID{"5"}},
		"z": {Currency: bdt, Refunded: amount("1"), Refundable: amount("49"), Steps: []ledger.TransferID{"6"}},
		"1": {}, "3": {}, "4": {},
	} {
		if diff := cmp.Diff(want, ledger.ProgressOf(w.record(id), w.steps(id)), cmpopts.IgnoreUnexported(ledger.Progress{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	if diff := cmp.Diff(ledger.Progress{}, ledger.ProgressOf(&ledger.Transfer{
		TransferSpec: hold("x", "a", "b", "1"), Refusal: &ledger.Refusal{Reason: ledger.CodeAccountClosed},
	}, nil), cmpopts.IgnoreUnexported(ledger.Progress{})); diff != "" {
		t.Errorf("of a refused hold: %s", diff)
	}
}

// A reversal is the exact mirror, entry by entry.
func TestReversal(t *testing.T) {
	t.Parallel()
	w := bazaar()
	b := w.books()
	records := decide(t, b,
		transfer("o", debit("wallet", "5"), credit("fees", "1.50"), debit("wallet:jpy", "9"), credit("shop", "3.50"), credit("shop:jpy", "4"), credit("shop:jpy", "5")),
		reversal("r", "o"))
	if got := told(records[1]); got != "1 true 0: credit wallet 5, debit fees 1.5, credit wallet:jpy 9, debit shop 3.5, debit shop:jpy 4, debit shop:jpy 5" {
		t.Error(got)
	}
	if got := told(records[0]); got != "posted: debit wallet 5, credit fees 1.5, debit wallet:jpy 9, credit shop 3.5, credit shop:jpy 4, credit shop:jpy 5" {
		t.Errorf("the original has become %s", got)
	}
	w.keep(b)
	for id := range w.accounts {
		if f := w.funds(id); !f.Posted.Equal(w.opening[id]) {
			t.Errorf("%s is left with %s", id, f.Posted)
		}
	}
}

// A hundred refunds of what does not divide evenly end at zero for each account.
func TestRefunds_EndAtZero(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		original ledger.TransferSpec
		each     string
	}{
		"two decimals":                    {transfer("o", debit("wallet", "100"), credit("shop", "66.67"), credit("fees", "33.33")), "1"},
		"one unit each":                   {transfer("o", debit("wallet", "1"), credit("shop", "0.67"), credit("fees", "0.33")), "0.01"},
		"no decimals":                     {transfer("o", debit("wallet:jpy", "700"), credit("shop:jpy", "467"), credit("cash:jpy", "233")), "7"},
		"three decimals":                  {transfer("o", debit("wallet:kwd", "33.300"), credit("shop:kwd", "33.111"), credit("fees:kwd", "0.189")), "0.333"},
		"an account with several entries": {transfer("o", debit("wallet", "50"), credit("shop", "33.33"), debit("wallet", "50"), credit("fees", "33.34"), credit("shop", "33.33")), "1"},
		"several on both sides":           {transfer("o", debit("wallet", "99.99"), debit("cash", "0.01"), credit("shop", "33.33"), credit("stall", "33.33"), credit("fees", "33.34")), "1"},
	} {
		w := bazaar()
		b := w.books()
		decide(t, b, c.original)
		refunded := decimal.Zero
		for i := range 100 {
			spec := refund(ledger.TransferID(fmt.Sprint(i)), "o", c.each, refunded.String())
			if i == 99 {
				spec.Terms.Amount = nil
			}
			decide(t, b, spec)
			if refunded = refunded.Add(amount(c.each)); i%10 == 9 {
				w.keep(b)
				b = w.books()
			}
		}
		for id := range w.accounts {
			if f := w.funds(id); !f.Posted.Equal(w.opening[id]) {
				t.Errorf("%s: %s is left with %s", name, id, f.Posted)
			}
		}
		if p := ledger.ProgressOf(w.record("o"), w.steps("o")); !p.Refundable.IsZero() || !p.Refunded.Equal(refunded) || len(p.Steps) != 100 {
			t.Errorf("%s: %+v", name, p)
		}
		if got := verdict(b.Decide(refund("x", "o", c.each, refunded.String()), "local")); got != "refused REFUND_EXCEEDS_REST" {
			t.Errorf("%s: one more: %s", name, got)
		}
	}
}

// Who gets what is the same for ever: a retry, or an auditor, would find out otherwise.
func TestRefunds_Parts(t *testing.T) {
	t.Parallel()
	b := bazaar().books()
	decide(t, b, move("top-up", "cash", "shop", "1000"),
		transfer("o", debit("wallet", "10"), credit("shop", "3.34"), credit("fees", "3.33"), credit("stall", "3.33")),
		transfer("p", debit("wallet", "10"), credit("shop", "9.99"), credit("fees", "0.01")))
	for i, c := range []struct{ original, amount, expected, want string }{
		{"o", "1", "0", "1 false 0: debit fees 0.33, debit shop 0.34, debit stall 0.33, credit wallet 1"},
		{"o", "0.01", "1", "2 false 0: debit fees 0.01, credit wallet 0.01"}, // Of equal parts the first by name.
		{"o", "0.01", "1.01", "3 false 0: debit shop 0.01, credit wallet 0.01"},
		{"o", "", "1.02", "4 false 0: debit fees 2.99, debit shop 2.99, debit stall 3, credit wallet 8.98"},
		{"p", "5", "0", "1 false 0: debit fees 0.01, debit shop 4.99, credit wallet 5"},
		{"p", "5", "5", "2 false 0: debit shop 5, credit wallet 5"}, // The fee is back.
	} {
		r, _, err := b.Decide(refund(ledger.TransferID(fmt.Sprint(i)), ledger.TransferID(c.original), c.amount, c.expected), "local")
		if err != nil {
			t.Fatal(err)
		}
		if got := told(r); got != c.want {
			t.Errorf("refund %d: got %s, want %s", i, got, c.want)
		}
	}
}

// checkRefunds checks that no account has given back more than it got, and that it all adds up.
func checkRefunds(t *rapid.T, original *ledger.Transfer, steps []*ledger.Transfer, p ledger.Progress) {
	rest := map[ledger.AccountID]decimal.Decimal{}
	total := decimal.Zero
	for _, e := range original.Entries {
		rest[e.Account] = rest[e.Account].Add(ledger.Asset.Signed(e.Direction, e.Amount))
		if e.Direction == ledger.Debit {
			total = total.Add(e.Amount)
		}
	}
	sides := map[ledger.AccountID]int{}
	for id, share := range rest {
		sides[id] = share.Sign()
	}
	refunded := decimal.Zero
	for _, s := range steps {
		if s.Terms.ExpectedRefunded != nil && !s.Terms.ExpectedRefunded.Equal(refunded) {
			t.Fatalf("%s was posted, but expected other than %s", s.ID, refunded)
		}
		moved := decimal.Zero
		for _, e := range s.Entries {
			rest[e.Account] = rest[e.Account].Add(ledger.Asset.Signed(e.Direction, e.Amount))
			if e.Direction == ledger.Debit {
				moved = moved.Add(e.Amount)
			}
			if sign := rest[e.Account].Sign(); sign != 0 && sign != sides[e.Account] {
				t.Fatalf("%s takes more from %s than it got: %s", s.ID, e.Account, rest[e.Account])
			}
		}
		if want := s.Terms.Amount; want != nil && !moved.Equal(*want) || want == nil && !moved.Equal(total.Sub(refunded)) {
			t.Fatalf("%s moves %s, want %v of %s", s.ID, moved, want, total.Sub(refunded))
		}
		refunded = refunded.Add(moved)
	}
	if !p.Refunded.Equal(refunded) || !p.Refundable.Equal(total.Sub(refunded)) {
		t.Fatalf("refunded %s of %s: %+v", refunded, total, p)
	}
	for id, share := range rest {
		if p.Refundable.IsZero() && !share.IsZero() {
			t.Fatalf("nothing is left of %s, but %s of %s", original.ID, share, id)
		}
	}
}

// drawSide divides a total among accounts, some of them more than once.
func drawSide(t *rapid.T, direction ledger.Direction, total int64, scale int32, label string) []ledger.Entry {
	var entries []ledger.Entry
	for left := total; left > 0; {
		part := rapid.Int64Range(1, left).Draw(t, label)
		if len(entries) > 12 {
			part = left
		}
		left -= part
		account := ledger.AccountID(fmt.Sprintf("%s%d", direction, rapid.IntRange(0, 9).Draw(t, label+" account")))
		entries = append(entries, ledger.Entry{Account: account, Direction: direction, Amount: decimal.New(part, -scale)})
	}
	return entries
}

// Whatever is refunded of whatever transfer: each refund balances and is exactly its amount, no account gives back more than it got,
// and what is left at last is nothing. A refund that is too much, or expects something else, is refused.
func TestRefunds_Property(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.SampledFrom([]int32{0, 2, 3, 18, 30}).Draw(t, "scale")
		currency := ledger.Currency{Code: "ABC", Scale: scale}
		total := rapid.Int64Range(2, rapid.SampledFrom([]int64{10, 1000, 1 << 62}).Draw(t, "up to")).Draw(t, "total")
		b := ledger.NewBooks(0, 0)
		for _, d := range []ledger.Direction{ledger.Debit, ledger.Credit} {
			for i := range 10 {
				b.AddAccount(&ledger.Account{ID: ledger.AccountID(fmt.Sprint(d, i)), Type: ledger.Liability, Currency: currency, Frozen: ledger.FrozenNone}, ledger.Funds{})
			}
		}
		entries := slices.Concat(drawSide(t, ledger.Debit, total, scale, "debit"), drawSide(t, ledger.Credit, total, scale, "credit"))
		original := decide(t, b, ledger.TransferSpec{ID: "o", Entries: rapid.Permutation(entries).Draw(t, "order")})[0]
		var steps []*ledger.Transfer
		for i, left := 0, total; left > 0; i++ {
			part := rapid.Int64Range(1, left).Draw(t, "part")
			value := decimal.New(part, -scale)
			if part%10 == 0 && scale > 0 { // The same in another spelling.
				value = decimal.New(part/10, -scale+1)
			}
			spec := terms(refund(ledger.TransferID(fmt.Sprint(i)), "o", "", decimal.New(total-left, -scale).String()), func(t *ledger.Terms) { t.Amount = &value })
			if i > 30 {
				part, spec.Terms.Amount = left, nil
			}
			if err := spec.Validate(); err != nil {
				t.Fatal(err)
			}
			more, other := spec, spec
			more.ID, other.ID = spec.ID+"more", spec.ID+"other"
			more = terms(more, func(t *ledger.Terms) { t.Amount = pointer(decimal.New(left, -scale).Add(decimal.New(1, -scale))) })
			other = terms(other, func(t *ledger.Terms) { t.ExpectedRefunded = pointer(decimal.New(total-left+1, -scale)) })
			if got := verdict(b.Decide(more, "local")); got != "refused REFUND_EXCEEDS_REST" {
				t.Fatalf("one unit more than is left: %s", got)
			}
			if got := verdict(b.Decide(other, "local")); got != "refused REFUNDED_CHANGED" {
				t.Fatalf("expecting a unit more: %s", got)
			}
			before := ledger.ProgressOf(original, steps)
			steps = append(steps, decide(t, b, spec)...)
			checkRefunds(t, original, steps, ledger.ProgressOf(original, steps))
			if again := ledger.ProgressOf(original, steps[:len(steps)-1]); cmp.Diff(before, again, cmp.AllowUnexported(ledger.Progress{}), cmpopts.IgnoreFields(ledger.Progress{}, "rest")) != "" {
				t.Fatalf("what had become of it is now %+v, and was %+v", again, before)
			}
			left -= part
		}
		if got := verdict(b.Decide(refund("x", "o", "", decimal.New(total, -scale).String()), "local")); got != "refused REFUND_EXCEEDS_REST" {
			t.Fatalf("when nothing is left: %s", got)
		}
	})
}
