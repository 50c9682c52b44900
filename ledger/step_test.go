package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/ledger"
)

// noon is the clock of the tests, until they move it.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// world is a ledger between two batches.
type world struct {
	accounts map[ledger.AccountID]*ledger.Account
	opening  map[ledger.AccountID]decimal.Decimal
	records  []*ledger.Transfer
	now      time.Time
	// closedBefore is how far the books are closed.
	closedBefore time.Time
}

// bazaar is the world of the tests below, with what is on each account.
func bazaar() *world {
	w := &world{accounts: map[ledger.AccountID]*ledger.Account{}, opening: map[ledger.AccountID]decimal.Decimal{}, now: noon}
	kwd := ledger.Currency{Code: "KWD", Scale: 3}
	for _, a := range []struct {
		id             ledger.AccountID
		kind           ledger.AccountType
		currency       ledger.Currency
		opening        string
		floor, ceiling string
		serialised     bool
	}{
		{"cash", ledger.Asset, bdt, "0", "", "", false},
		{"fees", ledger.Revenue, bdt, "0", "", "", false},
		{"stall", ledger.Liability, bdt, "0", "", "", false},
		{"wallet", ledger.Liability, bdt, "5000", "0", "", true},
		{"shop", ledger.Liability, bdt, "0", "0", "", true},
		{"till", ledger.Asset, bdt, "100", "20", "", true},
		{"box", ledger.Liability, bdt, "50", "", "", true},
		{"jar", ledger.Liability, bdt, "0", "", "100", true},
		{"vault", ledger.Asset, bdt, "40", "0", "100", true},
		{"cash:jpy", ledger.Asset, jpy, "0", "", "", false},
		{"wallet:jpy", ledger.Liability, jpy, "1000", "0", "", true},
		{"shop:jpy", ledger.Liability, jpy, "0", "0", "", true},
		{"wallet:kwd", ledger.Liability, kwd, "1000", "0", "", true},
		{"shop:kwd", ledger.Liability, kwd, "0", "", "", false},
		{"fees:kwd", ledger.Revenue, kwd, "0", "", "", false},
	} {
		account := ledger.Account{ID: a.id, Type: a.kind, Currency: a.currency, Serialised: a.serialised, Frozen: ledger.FrozenNone}
		if a.floor != "" {
			account.Floor = pointer(amount(a.floor))
		}
		if a.ceiling != "" {
			account.Ceiling = pointer(amount(a.ceiling))
		}
		w.accounts[a.id], w.opening[a.id] = &account, amount(a.opening)
	}
	return w
}

// change makes an account another one from the next batch on.
func (w *world) change(id ledger.AccountID, change func(*ledger.Account)) {
	changed := *w.accounts[id]
	change(&changed)
	w.accounts[id] = &changed
}

// funds sums up the records.
func (w *world) funds(id ledger.AccountID) ledger.Funds {
	a, f := w.accounts[id], ledger.Funds{Posted: w.opening[id]}
	for _, r := range w.records {
		if r.Refusal != nil {
			continue
		}
		for _, e := range r.Entries {
			if e.Account != id {
				continue
			}
			f.Last = r.Sequence
			if r.Kind().Moves() {
				f.Posted = f.Posted.Add(a.Type.Signed(e.Direction, e.Amount))
			}
			switch {
			case r.Step == nil:
			case a.Type.NormalBalance() == e.Direction:
				f.Incoming = f.Incoming.Add(r.Step.Reserved)
			default:
				f.Held = f.Held.Add(r.Step.Reserved)
			}
		}
	}
	return f
}

// steps are the posted steps of a transfer.
func (w *world) steps(id ledger.TransferID) []*ledger.Transfer {
	var list []*ledger.Transfer
	for _, r := range w.records {
		if r.Origin() == id && r.Refusal == nil {
			list = append(list, r)
		}
	}
	return list
}

func (w *world) record(id ledger.TransferID) *ledger.Transfer {
	for _, r := range w.records {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// books are those of a batch that names everything.
func (w *world) books() *ledger.Books {
	b := ledger.NewBooks(0, 0)
	b.SetClock(w.now)
	b.SetClosedBefore(w.closedBefore)
	for id, a := range w.accounts {
		b.AddAccount(a, w.funds(id))
	}
	for _, r := range w.records {
		b.AddTransfer(r)
		b.AddOrigin(r, w.steps(r.ID))
	}
	return b
}

// keep ends a batch: what it decided gets its numbers and its time.
func (w *world) keep(b *ledger.Books) {
	for _, r := range b.Decided() {
		r.Sequence, r.PostedAt = int64(101+len(w.records)), w.now
		if r.Step != nil && r.Terms.ExpiresAfter != 0 {
			r.Step.Deadline = pointer(w.now.Add(r.Terms.ExpiresAfter))
		}
		w.records = append(w.records, r)
	}
}

// act is a request and what is to come of it, after a change between two batches if there is one.
type act struct {
	spec   ledger.TransferSpec
	want   string
	change func(*world)
}

// play gives the acts in as few batches as can be, and then each in a batch of its own: it must not matter.
func play(t *testing.T, acts []act) *world {
	t.Helper()
	var last *world
	for _, together := range []bool{false, true} {
		w := bazaar()
		b := w.books()
		for i, a := range acts {
			if a.change != nil || !together {
				w.keep(b)
				if a.change != nil {
					a.change(w)
				}
				b = w.books()
			}
			if err := a.spec.Validate(); err != nil {
				t.Fatalf("act %d: %v", i, err)
			}
			if got := verdict(b.Decide(a.spec, "local")); got != a.want {
				t.Fatalf("act %d (%s), together %t: got %s, want %s", i, a.spec.ID, together, got, a.want)
			}
		}
		w.keep(b)
		last = w
	}
	return last
}

func clock(at time.Time) func(*world) { return func(w *world) { w.now = at } }

func frozen(id ledger.AccountID, f ledger.Frozen) func(*world) {
	return func(w *world) { w.change(id, func(a *ledger.Account) { a.Frozen = f }) }
}

func TestBooks_Decide_Steps(t *testing.T) {
	t.Parallel()
	hour := noon.Add(time.Hour)
	for name, acts := range map[string][]act{
		"six holds of 1,000 against 5,000": {
			{spec: hold("1", "wallet", "shop", "1000"), want: "posted"}, {spec: hold("2", "wallet", "shop", "1000"), want: "posted"},
			{spec: hold("3", "wallet", "shop", "1000"), want: "posted"}, {spec: hold("4", "wallet", "shop", "1000"), want: "posted"},
			{spec: hold("5", "wallet", "shop", "1000.00"), want: "posted"},
			{spec: hold("6", "wallet", "shop", "1000"), want: "refused INSUFFICIENT_FUNDS wallet"},
			{spec: move("7", "wallet", "shop", "0.01"), want: "refused INSUFFICIENT_FUNDS wallet"},
			{spec: move("8", "shop", "cash", "0.01"), want: "refused INSUFFICIENT_FUNDS shop"},
			{spec: void("9", "5"), want: "posted"},
			{spec: move("10", "wallet", "shop", "1000.01"), want: "refused INSUFFICIENT_FUNDS wallet"},
			{spec: hold("6", "wallet", "shop", "1000"), want: "replayed refused INSUFFICIENT_FUNDS wallet"},
			{spec: move("11", "wallet", "shop", "1000"), want: "posted"},
		},
		"captured as a whole": {
			{spec: hold("h", "wallet", "shop", "5000"), want: "posted"},
			{spec: capture("c", "h", ""), want: "posted"},
			{spec: capture("d", "h", ""), want: "refused HOLD_ENDED"}, {spec: capture("e", "h", "1"), want: "refused HOLD_ENDED"},
			{spec: void("v", "h"), want: "refused HOLD_ENDED"}, {spec: expiry("x", "h"), want: "HOLD_ENDED"},
			{spec: capture("c", "h", ""), want: "replayed posted"}, {spec: hold("h", "wallet", "shop", "5000.0"), want: "replayed posted"},
			{spec: capture("d", "h", ""), want: "replayed refused HOLD_ENDED"},
			{spec: move("m", "shop", "cash", "5000"), want: "posted"},
			{spec: move("n", "wallet", "cash", "0.01"), want: "refused INSUFFICIENT_FUNDS wallet"},
		},
		"captured in part: the rest is released": {
			{spec: hold("h", "wallet", "shop", "5000"), want: "posted"}, {spec: capture("c", "h", "1200.50"), want: "posted"},
			{spec: capture("d", "h", "1"), want: "refused HOLD_ENDED"},
			{spec: move("m", "wallet", "cash", "3799.51"), want: "refused INSUFFICIENT_FUNDS wallet"},
			{spec: move("n", "wallet", "cash", "3799.50"), want: "posted"},
			{spec: move("o", "shop", "cash", "1200.51"), want: "refused INSUFFICIENT_FUNDS shop"}, {spec: move("p", "shop", "cash", "1200.50"), want: "posted"},
		},
		"captured in parts": {
			{spec: hold("h", "wallet", "shop", "5000"), want: "posted"}, {spec: keepOpen(capture("1", "h", "2000")), want: "posted"},
			{spec: move("m", "wallet", "cash", "0.01"), want: "refused INSUFFICIENT_FUNDS wallet"},
			{spec: keepOpen(capture("2", "h", "3000.01")), want: "refused CAPTURE_EXCEEDS_HOLD"},
			{spec: keepOpen(capture("3", "h", "2000")), want: "posted"},
			{spec: capture("4", "h", "1000.01"), want: "refused CAPTURE_EXCEEDS_HOLD"},
			{spec: keepOpen(capture("5", "h", "")), want: "posted"}, // There is nothing to keep open.
			{spec: void("v", "h"), want: "refused HOLD_ENDED"},
			{spec: move("n", "shop", "cash", "5000"), want: "posted"},
		},
		"captured in part, and voided": {
			{spec: hold("h", "wallet", "shop", "5000"), want: "posted"}, {spec: keepOpen(capture("1", "h", "1")), want: "posted"},
			{spec: void("v", "h"), want: "posted"}, {spec: capture("2", "h", "1"), want: "refused HOLD_ENDED"},
			{spec: move("m", "wallet", "cash", "4999"), want: "posted"}, {spec: void("v", "h"), want: "replayed posted"},
			{spec: void("w", "h"), want: "refused HOLD_ENDED"},
		},
		"more than is held": {
			{spec: hold("h", "wallet", "shop", "10"), want: "posted"}, {spec: capture("c", "h", "10.01"), want: "refused CAPTURE_EXCEEDS_HOLD"},
			{spec: capture("d", "h", "10"), want: "posted"},
		},
		"a deadline": {
			{spec: expiring(hold("0", "wallet", "shop", "10"), noon), want: "refused HOLD_EXPIRED"},
			{spec: expiring(hold("h", "wallet", "shop", "5000"), hour), want: "posted"},
			{spec: expiry("x", "h"), want: "CONFLICT"}, {spec: keepOpen(capture("1", "h", "1")), want: "posted"},
			{spec: keepOpen(capture("2", "h", "1")), want: "posted", change: clock(hour.Add(-time.Microsecond))}, {spec: expiry("x", "h"), want: "CONFLICT"},
			{spec: capture("3", "h", "1"), want: "refused HOLD_EXPIRED", change: clock(hour)},
			{spec: move("m", "wallet", "cash", "0.01"), want: "refused INSUFFICIENT_FUNDS wallet"}, // Free only when the expiry is on record.
			{spec: capture("4", "h", "1"), want: "refused HOLD_EXPIRED", change: clock(hour.Add(time.Hour))},
			{spec: expiry("x", "h"), want: "posted"}, {spec: expiry("x", "h"), want: "replayed posted"}, {spec: expiry("y", "h"), want: "HOLD_ENDED"},
			{spec: capture("5", "h", "1"), want: "refused HOLD_ENDED"}, {spec: void("v", "h"), want: "refused HOLD_ENDED"},
			{spec: capture("3", "h", "1"), want: "replayed refused HOLD_EXPIRED"},
			{spec: move("n", "wallet", "cash", "4998"), want: "posted"},
			{spec: expiring(hold("h", "wallet", "shop", "5000"), hour), want: "replayed posted"},
		},
		"a deadline, exactly": {
			{spec: expiring(hold("h", "wallet", "shop", "1"), hour), want: "posted"}, {spec: expiry("x", "h"), want: "posted", change: clock(hour)},
		},
		"a void after the deadline, before its expiry": {
			{spec: expiring(hold("h", "wallet", "shop", "5000"), hour), want: "posted"}, {spec: void("v", "h"), want: "posted", change: clock(hour)},
			{spec: expiry("x", "h"), want: "HOLD_ENDED"}, {spec: move("m", "wallet", "cash", "5000"), want: "posted"},
		},
		"a deadline that counts from posted_at": {
			{spec: terms(hold("h", "wallet", "shop", "1"), func(t *ledger.Terms) { t.ExpiresAfter = time.Hour }), want: "posted"},
			{spec: expiry("x", "h"), want: "CONFLICT"},
			{spec: capture("c", "h", ""), want: "refused HOLD_EXPIRED", change: clock(hour)}, {spec: expiry("x", "h"), want: "posted"},
		},
		"a hold without a deadline never expires": {
			{spec: hold("h", "wallet", "shop", "1"), want: "posted"},
			{spec: expiry("x", "h"), want: "CONFLICT", change: clock(noon.AddDate(100, 0, 0))}, {spec: capture("c", "h", ""), want: "posted"},
		},
		"a frozen account": {
			{spec: hold("g", "wallet", "shop", "1"), want: "refused ACCOUNT_FROZEN wallet", change: frozen("wallet", ledger.FrozenDebits)},
			{spec: hold("h", "wallet", "shop", "1"), want: "posted", change: frozen("wallet", ledger.FrozenNone)},
			{spec: hold("i", "wallet", "shop", "1"), want: "posted"},
			{spec: capture("c", "h", "1"), want: "refused ACCOUNT_FROZEN shop", change: frozen("shop", ledger.FrozenCredits)},
			{spec: capture("d", "h", "2"), want: "refused CAPTURE_EXCEEDS_HOLD"},
			{spec: void("v", "i"), want: "posted"},
			{spec: capture("c", "h", "1"), want: "replayed refused ACCOUNT_FROZEN shop", change: frozen("shop", ledger.FrozenNone)},
			{spec: capture("e", "h", "1"), want: "posted"},
			{spec: refund("r", "e", "1", "0"), want: "refused ACCOUNT_FROZEN wallet", change: frozen("wallet", ledger.FrozenCredits)},
			{spec: reversal("s", "e"), want: "refused ACCOUNT_FROZEN wallet"},
			{spec: refund("t", "e", "1", "1"), want: "refused REFUNDED_CHANGED"},
		},
		"a closed account": {
			{spec: move("m", "cash", "stall", "5"), want: "posted"},
			{spec: hold("h", "wallet", "stall", "1"), want: "refused ACCOUNT_CLOSED stall", change: func(w *world) {
				w.change("stall", func(a *ledger.Account) { a.Closed = true })
			}},
			{spec: refund("r", "m", "", "0"), want: "refused ACCOUNT_CLOSED stall"}, {spec: reversal("s", "m"), want: "refused ACCOUNT_CLOSED stall"},
		},
		"a capture never lacks funds": {
			{spec: hold("h", "wallet", "shop", "4000"), want: "posted"}, {spec: hold("i", "wallet", "shop", "1000"), want: "posted"},
			{spec: keepOpen(capture("1", "h", "1000")), want: "posted", change: func(w *world) {
				w.change("wallet", func(a *ledger.Account) { a.Floor = pointer(amount("9000")) })
				w.change("shop", func(a *ledger.Account) { a.Floor = pointer(amount("9000")) })
			}},
			{spec: capture("2", "h", "10"), want: "posted"}, {spec: capture("3", "i", ""), want: "posted"},
		},
		"a capture in part needs no room where the money came from, and none where it goes": {
			{spec: move("m", "cash", "jar", "100"), want: "posted"}, {spec: hold("h", "jar", "shop", "60"), want: "posted"},
			{spec: hold("g", "shop", "jar", "0.01"), want: "refused INSUFFICIENT_FUNDS shop"},
			{spec: capture("c", "h", "20"), want: "posted"},
			{spec: hold("i", "wallet", "jar", "20"), want: "posted"},
			{spec: capture("d", "i", "20"), want: "posted", change: func(w *world) {
				w.change("jar", func(a *ledger.Account) { a.Ceiling = pointer(amount("1")) })
			}},
		},
		"a ceiling": {
			{spec: move("1", "wallet", "jar", "100.01"), want: "refused CEILING_EXCEEDED jar"}, {spec: move("2", "wallet", "jar", "60"), want: "posted"},
			{spec: hold("3", "wallet", "jar", "40.01"), want: "refused CEILING_EXCEEDED jar"}, {spec: hold("4", "wallet", "jar", "30"), want: "posted"},
			{spec: move("5", "wallet", "jar", "10.01"), want: "refused CEILING_EXCEEDED jar"}, {spec: move("6", "wallet", "jar", "10"), want: "posted"},
			{spec: move("7", "jar", "wallet", "5"), want: "posted"}, {spec: capture("8", "4", "10"), want: "posted"},
			{spec: move("9", "wallet", "jar", "25.01"), want: "refused CEILING_EXCEEDED jar"}, {spec: move("10", "wallet", "jar", "25"), want: "posted"},
			{spec: hold("11", "jar", "wallet", "50"), want: "posted"}, // It makes no room before it is captured.
			{spec: move("12", "wallet", "jar", "0.01"), want: "refused CEILING_EXCEEDED jar"}, {spec: capture("13", "11", "50"), want: "posted"},
			{spec: move("14", "wallet", "jar", "50"), want: "posted"},
		},
		"a ceiling of an asset, and one below the balance": {
			{spec: move("1", "vault", "shop", "60.01"), want: "refused CEILING_EXCEEDED vault"}, {spec: move("2", "vault", "shop", "60"), want: "posted"},
			{spec: move("3", "vault", "shop", "1"), want: "refused CEILING_EXCEEDED vault", change: func(w *world) {
				w.change("vault", func(a *ledger.Account) { a.Ceiling = pointer(amount("10")) })
			}},
			{spec: move("4", "shop", "vault", "50"), want: "posted"}, {spec: move("5", "vault", "shop", "1"), want: "refused CEILING_EXCEEDED vault"},
		},
		"refunds": {
			{spec: move("o", "wallet", "shop", "100"), want: "posted"},
			{spec: refund("1", "o", "30", "0"), want: "posted"}, {spec: refund("1", "o", "30.00", "0.0"), want: "replayed posted"},
			{spec: refund("2", "o", "30", "0"), want: "refused REFUNDED_CHANGED"}, {spec: refund("3", "o", "70.01", "30"), want: "refused REFUND_EXCEEDS_REST"},
			{spec: reversal("4", "o"), want: "refused ALREADY_REFUNDED"}, {spec: refund("5", "o", "", "30.00"), want: "posted"},
			{spec: refund("6", "o", "", "100"), want: "refused REFUND_EXCEEDS_REST"}, {spec: refund("7", "o", "0.01", "100"), want: "refused REFUND_EXCEEDS_REST"},
			{spec: refund("8", "o", "0.01", "30"), want: "refused REFUNDED_CHANGED"}, {spec: reversal("9", "o"), want: "refused ALREADY_REFUNDED"},
			{spec: refund("2", "o", "30", "0"), want: "replayed refused REFUNDED_CHANGED"},
			{spec: refund("1", "o", "30", "1"), want: "ALREADY_EXISTS refund.expected_refunded"},
			{spec: move("m", "wallet", "cash", "5000"), want: "posted"},
		},
		"a refund needs funds and room": {
			{spec: move("o", "wallet", "shop", "100"), want: "posted"}, {spec: move("p", "jar", "shop", "100"), want: "posted"},
			{spec: move("m", "shop", "cash", "150"), want: "posted"},
			{spec: refund("1", "o", "50.01", "0"), want: "refused INSUFFICIENT_FUNDS shop"}, {spec: reversal("2", "o"), want: "refused INSUFFICIENT_FUNDS shop"},
			{spec: refund("3", "o", "50", "0"), want: "posted"}, {spec: move("n", "cash", "jar", "150"), want: "posted"},
			{spec: move("q", "cash", "shop", "500"), want: "posted"}, {spec: refund("4", "p", "50.01", "0"), want: "refused CEILING_EXCEEDED jar"},
			{spec: refund("5", "p", "50", "0"), want: "posted"},
		},
		"what can be no origin": {
			{spec: refund("1", "o", "1", "0"), want: "TRANSFER_NOT_FOUND refund.original"}, {spec: reversal("2", "o"), want: "TRANSFER_NOT_FOUND reversal.original"},
			{spec: capture("3", "h", "1"), want: "TRANSFER_NOT_FOUND capture.hold"}, {spec: void("4", "h"), want: "TRANSFER_NOT_FOUND void.hold"},
			{spec: move("o", "wallet", "shop", "100"), want: "posted"}, {spec: hold("h", "wallet", "shop", "100"), want: "posted"},
			{spec: hold("i", "wallet", "shop", "10"), want: "posted"}, {spec: void("v", "i"), want: "posted"},
			{spec: capture("1", "o", "1"), want: "WRONG_ORIGIN capture.hold"}, {spec: void("2", "o"), want: "WRONG_ORIGIN void.hold"},
			{spec: expiry("2", "o"), want: "WRONG_ORIGIN expiry.hold"}, {spec: refund("3", "h", "1", "0"), want: "WRONG_ORIGIN refund.original"},
			{spec: reversal("3", "h"), want: "WRONG_ORIGIN reversal.original"}, {spec: refund("3", "v", "1", "0"), want: "WRONG_ORIGIN refund.original"},
			{spec: reversal("3", "v"), want: "WRONG_ORIGIN reversal.original"},
			{spec: capture("3", "v", "1"), want: "WRONG_ORIGIN capture.hold"},
			{spec: refund("r", "o", "1", "0"), want: "posted"}, {spec: refund("4", "r", "1", "0"), want: "WRONG_ORIGIN refund.original"},
			{spec: reversal("4", "r"), want: "WRONG_ORIGIN reversal.original"}, {spec: capture("c", "h", "5"), want: "posted"},
			{spec: capture("5", "c", "5"), want: "WRONG_ORIGIN capture.hold"},
			{spec: refund("s", "c", "", "0"), want: "posted"}, // A capture is no hold: it has moved money.
			{spec: move("x", "wallet", "shop", "9999"), want: "refused INSUFFICIENT_FUNDS wallet"},
			{spec: hold("y", "wallet", "shop", "9999"), want: "refused INSUFFICIENT_FUNDS wallet"},
			{spec: refund("6", "x", "1", "0"), want: "WRONG_ORIGIN refund.original"}, {spec: reversal("6", "x"), want: "WRONG_ORIGIN reversal.original"},
			{spec: capture("6", "y", "1"), want: "WRONG_ORIGIN capture.hold"}, {spec: void("6", "y"), want: "WRONG_ORIGIN void.hold"},
			{spec: move("6", "wallet", "shop", "1"), want: "posted"}, // An error has left the id free.
			{spec: capture("o", "h", "1"), want: "ALREADY_EXISTS kind"},
		},
		"several currencies": {
			{spec: transfer("o", debit("wallet", "5"), credit("shop", "5"), debit("wallet:jpy", "9"), credit("shop:jpy", "9")), want: "posted"},
			{spec: refund("1", "o", "1", "0"), want: "WRONG_ORIGIN refund.original"}, {spec: refund("1", "o", "", "0"), want: "WRONG_ORIGIN refund.original"},
			{spec: reversal("2", "o"), want: "posted"}, {spec: reversal("3", "o"), want: "refused ALREADY_REVERSED"},
			{spec: hold("h", "wallet", "shop:jpy", "5"), want: "CURRENCY_MISMATCH currency"},
			{spec: terms(transfer("h", credit("shop:jpy", "5"), debit("wallet", "5")), func(t *ledger.Terms) { t.Kind = ledger.Hold }), want: "UNBALANCED entries"},
		},
		"amounts that are none of the currency": {
			{spec: hold("h", "wallet", "shop", "5.000"), want: "AMOUNT_SCALE amount"}, {spec: hold("h", "wallet", "shop", "50"), want: "posted"},
			{spec: capture("c", "h", "5.000"), want: "AMOUNT_SCALE capture.amount"}, {spec: capture("c", "h", "5"), want: "posted"},
			{spec: capture("c", "h", "5.000"), want: "AMOUNT_SCALE capture.amount"}, {spec: capture("d", "h", "5.001"), want: "AMOUNT_SCALE capture.amount"},
			{spec: refund("r", "c", "1.000", "0"), want: "AMOUNT_SCALE refund.amount"}, {spec: refund("r", "c", "1", "0.000"), want: "AMOUNT_SCALE refund.expected_refunded"},
			{spec: refund("r", "c", "1", "0.00"), want: "posted"}, {spec: refund("r", "c", "1", "0.000"), want: "AMOUNT_SCALE refund.expected_refunded"},
			{spec: move("y", "wallet:jpy", "shop:jpy", "5"), want: "posted"}, {spec: refund("s", "y", "1.0", "0"), want: "AMOUNT_SCALE refund.amount"},
		},
		"a reversal": {
			{spec: move("o", "wallet", "shop", "5000"), want: "posted"}, {spec: reversal("1", "o"), want: "posted"}, {spec: reversal("1", "o"), want: "replayed posted"},
			{spec: reversal("2", "o"), want: "refused ALREADY_REVERSED"}, {spec: refund("3", "o", "1", "0"), want: "refused ALREADY_REVERSED"},
			{spec: refund("4", "o", "1", "5000"), want: "refused ALREADY_REVERSED"}, {spec: move("m", "wallet", "shop", "5000"), want: "posted"},
		},
		"balancing": {
			{spec: balancing(move("1", "wallet", "shop", "100")), want: "posted"}, {spec: hold("h", "wallet", "shop", "4000"), want: "posted"},
			{spec: balancing(move("2", "wallet", "shop", "901")), want: "posted"}, {spec: balancing(move("3", "wallet", "shop", "1")), want: "refused INSUFFICIENT_FUNDS wallet"},
			{spec: balancing(move("2", "wallet", "shop", "901.00")), want: "replayed posted"}, {spec: balancing(move("2", "wallet", "shop", "900")), want: "ALREADY_EXISTS amount"},
			{spec: move("2", "wallet", "shop", "901"), want: "ALREADY_EXISTS balancing"}, {spec: refund("r", "2", "900.01", "0"), want: "refused REFUND_EXCEEDS_REST"},
			{spec: refund("s", "2", "900", "0"), want: "posted"},
			{spec: balancing(move("4", "shop", "till", "1")), want: "posted"},
			{spec: balancing(move("4", "shop", "till", "1.000")), want: "AMOUNT_SCALE amount"},
		},
		"balancing, what limits it": {
			{spec: balancing(move("1", "stall", "shop", "1")), want: "NOT_SERIALISED debit_account"}, {spec: balancing(move("1", "stall", "cash", "1")), want: "NOT_SERIALISED credit_account"},
			{spec: balancing(move("0", "wallet", "cash", "1")), want: "posted"}, // The wallet limits it.
			{spec: balancing(transfer("1", credit("shop", "1"), debit("stall", "1"))), want: "NOT_SERIALISED entries[1].account"},
			{spec: balancing(move("1", "cash", "wallet", "1")), want: invalid("balancing")}, // Both grow, and nothing limits it.
			{spec: balancing(move("2", "cash", "jar", "101")), want: "posted"}, {spec: balancing(move("3", "cash", "jar", "1")), want: "refused CEILING_EXCEEDED jar"},
			{spec: balancing(move("4", "wallet", "nobody", "1")), want: "ACCOUNT_NOT_FOUND credit_account"},
			{spec: balancing(move("5", "stall", "jar", "1")), want: "refused CEILING_EXCEEDED jar"},
			{spec: balancing(move("1", "wallet", "shop", "1")), want: "posted"},
			{spec: balancing(move("1", "wallet", "shop", "1")), want: "replayed posted", change: func(w *world) {
				w.change("wallet", func(a *ledger.Account) { a.Floor, a.Serialised = nil, false })
			}},
			{spec: balancing(move("6", "wallet", "shop", "1")), want: "NOT_SERIALISED debit_account"},
			{spec: balancing(move("7", "box", "shop", "1")), want: "refused ACCOUNT_FROZEN box", change: frozen("box", ledger.FrozenBoth)},
		},
		"a condition of the balance": {
			{spec: given(move("1", "wallet", "shop", "1"), "wallet", "4999.99", -1), want: "refused CONDITION_FAILED wallet"},
			{spec: given(move("2", "wallet", "shop", "1"), "wallet", "5000.0", -1), want: "posted"},
			{spec: given(move("3", "wallet", "shop", "1"), "wallet", "5000", -1), want: "refused CONDITION_FAILED wallet"}, // Changed just now.
			{spec: given(move("4", "wallet", "shop", "1"), "shop", "1", -1), want: "posted"},
			{spec: given(given(move("5", "wallet", "shop", "1"), "shop", "2", -1), "wallet", "1", -1), want: "refused CONDITION_FAILED wallet"},
			{spec: hold("h", "wallet", "shop", "8"), want: "posted"},
			{spec: given(hold("6", "wallet", "shop", "1"), "wallet", "4998", -1), want: "posted"}, // What is held is posted all the same.
			{spec: given(hold("7", "wallet", "shop", "9999"), "wallet", "0", -1), want: "refused CONDITION_FAILED wallet"},
			{spec: given(balancing(move("8", "wallet", "shop", "1")), "wallet", "-4998", -1), want: "refused CONDITION_FAILED wallet"},
			{spec: given(move("2", "wallet", "shop", "1"), "wallet", "5000", -1), want: "replayed posted"},
			{spec: given(move("2", "wallet", "shop", "1"), "wallet", "5000.000", -1), want: "AMOUNT_SCALE conditions[0].balance"},
			{spec: given(move("2", "wallet", "shop", "1"), "wallet", "4998", -1), want: "ALREADY_EXISTS conditions"},
		},
		"a condition that cannot be judged": {
			{spec: given(move("1", "cash", "shop", "1"), "cash", "0", -1), want: "NOT_SERIALISED conditions[0].account"},
			{spec: given(given(move("1", "cash", "shop", "1"), "shop", "9", -1), "cash", "0", -1), want: "NOT_SERIALISED conditions[1].account"},
			{spec: given(given(move("1", "cash", "shop", "1"), "shop", "9", -1), "cash", "0.000", -1), want: "AMOUNT_SCALE conditions[1].balance"},
			{spec: given(move("1", "cash", "shop", "1"), "cash", "0", -1), want: "NOT_SERIALISED conditions[0].account", change: frozen("cash", ledger.FrozenBoth)},
			{spec: given(move("2", "cash", "shop", "1"), "shop", "9", -1), want: "refused ACCOUNT_FROZEN cash"},
			{spec: given(move("3", "wallet", "shop", "1"), "shop", "0", -1), want: "posted"},
			{spec: given(move("3", "wallet", "shop", "1"), "shop", "0", -1), want: "replayed posted", change: func(w *world) {
				w.change("shop", func(a *ledger.Account) { a.Floor, a.Serialised = nil, false })
			}},
		},
		"a condition of the version": {
			{spec: given(move("1", "wallet", "shop", "1"), "wallet", "", 1), want: "refused CONDITION_FAILED wallet"},
			{spec: given(move("2", "wallet", "shop", "1"), "wallet", "", 0), want: "posted"},
			{spec: given(move("3", "wallet", "shop", "1"), "wallet", "", 0), want: "refused CONDITION_FAILED wallet"},
			{spec: given(move("4", "wallet", "shop", "1"), "wallet", "4999", 102), want: "posted", change: func(*world) {}},
			{spec: hold("h", "wallet", "shop", "1"), want: "posted"},
			{spec: given(move("5", "wallet", "shop", "1"), "wallet", "4998", 104), want: "refused CONDITION_FAILED wallet"},
			{spec: void("v", "h"), want: "posted"},
			{spec: given(move("6", "wallet", "shop", "1"), "wallet", "4998", 107), want: "posted", change: func(*world) {}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := play(t, acts)
			for id, a := range w.accounts {
				if f := w.funds(id); a.Floor != nil && name != "a capture never lacks funds" && f.Posted.Sub(f.Held).LessThan(*a.Floor) {
					t.Errorf("%s is below its floor: %v", id, f)
				}
			}
		})
	}
}

// What a step does stands in its record.
func TestBooks_Decide_WhatAStepDoes(t *testing.T) {
	t.Parallel()
	hour := noon.Add(time.Hour)
	w := play(t, []act{
		{spec: expiring(hold("h", "wallet", "shop", "100"), hour.In(time.FixedZone("Dhaka", 6*3600))), want: "posted"},
		{spec: keepOpen(capture("1", "h", "30")), want: "posted"}, {spec: capture("2", "h", "20"), want: "posted"},
		{spec: hold("i", "wallet", "shop", "100"), want: "posted"}, {spec: capture("3", "i", ""), want: "posted"},
		{spec: hold("j", "wallet", "shop", "100"), want: "posted"}, {spec: keepOpen(capture("4", "j", "1")), want: "posted"},
		{spec: capture("5", "j", "99.01"), want: "refused CAPTURE_EXCEEDS_HOLD"}, {spec: void("6", "j"), want: "posted"},
		{spec: capture("7", "j", ""), want: "refused HOLD_ENDED"},
		{spec: refund("8", "2", "5", "0"), want: "posted"}, {spec: refund("9", "2", "", "5"), want: "posted"}, {spec: reversal("10", "3"), want: "posted"},
		{spec: refund("11", "2", "5", "0"), want: "refused REFUNDED_CHANGED"},
		{spec: terms(transfer("k", credit("shop", "7"), debit("wallet", "7")), func(t *ledger.Terms) { t.Kind = ledger.Hold }), want: "posted"},
		{spec: void("12", "k"), want: "posted"},
	})
	for id, want := range map[ledger.TransferID]string{
		"h": "0 false 100 by 13:00 UTC: debit wallet 100, credit shop 100", "1": "1 false -30: debit wallet 30, credit shop 30",
		"2": "2 true -70: debit wallet 20, credit shop 20", "3": "1 true -100: debit wallet 100, credit shop 100",
		"4": "1 false -1: debit wallet 1, credit shop 1", "5": "refused: debit wallet 99.01, credit shop 99.01",
		"6": "2 true -99: debit wallet 99, credit shop 99", "7": "refused: debit wallet 100, credit shop 100",
		"8": "1 false 0: debit shop 5, credit wallet 5", "9": "2 false 0: debit shop 15, credit wallet 15",
		"10": "1 true 0: credit wallet 100, debit shop 100", "11": "refused: credit wallet 20, debit shop 20",
		"k": "0 false 7: credit shop 7, debit wallet 7", "12": "1 true -7: credit shop 7, debit wallet 7",
	} {
		if got := told(w.record(id)); got != want {
			t.Errorf("%s: got %s, want %s", id, got, want)
		}
	}
	for _, r := range w.records {
		for _, e := range r.Entries {
			if e.Currency != bdt {
				t.Errorf("%s: an entry in %v", r.ID, e.Currency)
			}
		}
	}
}

// told describes what a record says was done: the ordinal, whether it ends something, what is reserved, and the entries.
func told(r *ledger.Transfer) string {
	what := string(r.Outcome())
	if s := r.Step; s != nil {
		what = fmt.Sprintf("%d %t %s", s.Ordinal, s.Ends, s.Reserved)
		if s.Deadline != nil {
			what += s.Deadline.Format(" by 15:04 MST")
		}
	}
	entries := make([]string, len(r.Entries))
	for i, e := range r.Entries {
		entries[i] = fmt.Sprintf("%s %s %s", e.Direction, e.Account, e.Amount)
	}
	return what + ": " + strings.Join(entries, ", ")
}

func TestBooks_Decide_Balancing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec ledger.TransferSpec
		want string
	}{
		"less than there is":        {move("x", "wallet", "shop", "10"), "posted: debit wallet 10, credit shop 10"},
		"down to the floor":         {move("x", "shop", "till", "1000"), "posted: debit shop 80, credit till 80"},
		"of that which is not held": {move("x", "wallet", "fees", "10000"), "posted: debit wallet 3890, credit fees 3890"},
		"to zero, without a floor":  {move("x", "box", "fees", "1000"), "posted: debit box 50, credit fees 50"},
		"up to a ceiling":           {move("x", "wallet", "jar", "1000"), "posted: debit wallet 60, credit jar 60"},
		"of both, the narrower":     {move("x", "box", "jar", "1000"), "posted: debit box 50, credit jar 50"},
		"an asset":                  {move("x", "vault", "till", "1000"), "posted: debit vault 60, credit till 60"},
		"both go down":              {move("x", "wallet", "vault", "1000"), "posted: debit wallet 40, credit vault 40"},
		"nothing left":              {move("x", "shop", "fees", "0.01"), "refused: debit shop 0.01, credit fees 0.01"},
		"in the other order":        {transfer("x", credit("fees", "1000"), debit("box", "1000")), "posted: credit fees 50, debit box 50"},
		"in three decimals":         {move("x", "wallet:kwd", "shop:kwd", "5000.001"), "posted: debit wallet:kwd 1000, credit shop:kwd 1000"},
		"a spelling in tens":        {ledger.TransferSpec{ID: "x", Entries: ledger.Simple("box", "fees", decimal.New(4, 1), "")}, "posted: debit box 40, credit fees 40"},
		"already below zero":        {move("x", "debtor", "fees", "5"), "refused: debit debtor 5, credit fees 5"},
	} {
		w := bazaar()
		w.accounts["debtor"], w.opening["debtor"] = &ledger.Account{ID: "debtor", Type: ledger.Liability, Currency: bdt, Serialised: true}, amount("-3")
		b := w.books()
		if name == "down to the floor" {
			decide(t, b, move("a", "wallet", "shop", "500"))
		}
		if name == "nothing left" {
			decide(t, b, hold("a", "wallet", "shop", "10")) // What is to come is not there yet.
		}
		decide(t, b, hold("h", "wallet", "shop", "1100"), hold("i", "wallet", "jar", "30"), void("v", "i"), move("m", "cash", "jar", "30"), hold("k", "wallet", "jar", "10"))
		r, _, err := b.Decide(balancing(c.spec), "local")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := told(r); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if diff := r.Differences(balancing(c.spec)); len(diff) > 0 || !r.Terms.Amount.Equal(c.spec.Entries[0].Amount) {
			t.Errorf("%s: as it was asked for, it differs: %v", name, diff)
		}
		w.keep(b)
		if got := verdict(w.books().Decide(balancing(c.spec), "local")); !strings.HasPrefix(got, "replayed") {
			t.Errorf("%s, again: %s", name, got)
		}
	}
}

// decide has every request posted.
func decide(t fataler, b *ledger.Books, specs ...ledger.TransferSpec) []*ledger.Transfer {
	t.Helper()
	var list []*ledger.Transfer
	for _, spec := range specs {
		r, replayed, err := b.Decide(spec, "local")
		if err != nil || replayed || r.Refusal != nil {
			t.Fatalf("%s: %s", spec.ID, verdict(r, replayed, err))
		}
		list = append(list, r)
	}
	return list
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// verdicts describes what DecideAtomically returns.
func verdicts(list []ledger.Decision) string {
	texts := make([]string, len(list))
	for i, d := range list {
		texts[i] = verdict(d.Transfer, d.Replayed, d.Err)
	}
	return strings.Join(texts, "; ")
}

func TestBooks_DecideAtomically(t *testing.T) {
	t.Parallel()
	const off = "ATOMIC_CALL_REFUSED transfers"
	for name, c := range map[string]struct {
		before, call, after []ledger.TransferSpec
		want, wantAfter     string
		records             string
	}{
		"nothing": {nil, nil, nil, "", "", ""},
		"all of it": {nil,
			[]ledger.TransferSpec{move("1", "wallet", "shop", "5000"), move("2", "shop", "cash", "5000")}, nil, "posted; posted", "", "1 2"},
		"the last is refused": {nil,
			[]ledger.TransferSpec{move("1", "wallet", "shop", "5000"), move("2", "shop", "cash", "5000"), move("3", "wallet", "shop", "0.01"), move("4", "cash", "wallet", "1")},
			[]ledger.TransferSpec{move("5", "shop", "cash", "0.01"), move("1", "wallet", "shop", "5000"), move("3", "wallet", "shop", "0.01"), move("4", "cash", "wallet", "2")},
			off + "[2]; " + off + "[2]; refused INSUFFICIENT_FUNDS wallet; " + off + "[2]",
			"refused INSUFFICIENT_FUNDS shop; posted; replayed refused INSUFFICIENT_FUNDS wallet; posted", "3* 5 1 4"},
		"the first is refused": {nil,
			[]ledger.TransferSpec{move("1", "shop", "cash", "1"), move("2", "cash", "shop", "1")},
			[]ledger.TransferSpec{move("2", "cash", "shop", "1"), move("1", "shop", "cash", "1")},
			"refused INSUFFICIENT_FUNDS shop; " + off + "[0]", "posted; replayed refused INSUFFICIENT_FUNDS shop", "1* 2"},
		"an error of one": {nil,
			[]ledger.TransferSpec{move("1", "wallet", "shop", "5000"), move("2", "wallet", "nobody", "1"), move("3", "cash", "shop", "1.001")},
			[]ledger.TransferSpec{move("2", "wallet", "shop", "5000")}, off + "[1]; ACCOUNT_NOT_FOUND credit_account; " + off + "[1]", "posted", "2"},
		"a taken id": {[]ledger.TransferSpec{move("2", "cash", "shop", "1")},
			[]ledger.TransferSpec{move("1", "wallet", "shop", "1"), move("2", "cash", "shop", "2")}, nil, off + "[1]; ALREADY_EXISTS amount", "", "2"},
		"replays inside": {[]ledger.TransferSpec{move("1", "wallet", "shop", "1"), move("2", "wallet", "shop", "9999")},
			[]ledger.TransferSpec{move("1", "wallet", "shop", "1.0"), move("3", "wallet", "shop", "4999")}, nil, "replayed posted; posted", "", "1 2 3"},
		"all of it again": {[]ledger.TransferSpec{move("1", "wallet", "shop", "1"), move("2", "shop", "cash", "1")},
			[]ledger.TransferSpec{move("1", "wallet", "shop", "1"), move("2", "shop", "cash", "1")}, nil, "replayed posted; replayed posted", "", "1 2"},
		"a refusal of long ago, among replays": {[]ledger.TransferSpec{move("1", "wallet", "shop", "1"), move("2", "wallet", "shop", "9999")},
			[]ledger.TransferSpec{move("3", "wallet", "shop", "1"), move("2", "wallet", "shop", "9999"), move("1", "wallet", "shop", "1"), move("4", "cash", "shop", "1"), move("1", "wallet", "shop", "1.000")},
			[]ledger.TransferSpec{move("3", "wallet", "shop", "4999")},
			off + "[1]; replayed refused INSUFFICIENT_FUNDS wallet; replayed posted; " + off + "[1]; " + off + "[1]", "posted", "1 2 3"},
		"a refusal of long ago comes before a new one": {[]ledger.TransferSpec{move("2", "wallet", "shop", "9999")},
			[]ledger.TransferSpec{move("1", "shop", "cash", "1"), move("2", "wallet", "shop", "9999"), move("3", "shop", "nobody", "1")},
			[]ledger.TransferSpec{move("4", "cash", "shop", "1"), move("1", "shop", "cash", "1")},
			off + "[1]; replayed refused INSUFFICIENT_FUNDS wallet; " + off + "[1]", "posted; posted", "2 4 1"},
		"the same id twice": {nil,
			[]ledger.TransferSpec{move("1", "wallet", "shop", "3000"), move("1", "wallet", "shop", "3000.0"), move("2", "wallet", "shop", "2000")}, nil, "posted; replayed posted; posted", "", "1 2"},
		"the same id twice, refused": {nil,
			[]ledger.TransferSpec{move("1", "wallet", "shop", "5001"), move("1", "wallet", "shop", "5001"), move("1", "wallet", "shop", "1")}, nil,
			"refused INSUFFICIENT_FUNDS wallet; replayed refused INSUFFICIENT_FUNDS wallet; " + off + "[0]", "", "1*"},
		"the same id with other content": {nil,
			[]ledger.TransferSpec{move("1", "wallet", "shop", "3000"), move("1", "wallet", "shop", "3001")}, []ledger.TransferSpec{move("1", "wallet", "shop", "5000")},
			off + "[1]; ALREADY_EXISTS amount", "posted", "1"},
		"the same id twice, and a culprit": {nil,
			[]ledger.TransferSpec{move("1", "wallet", "shop", "3000"), move("1", "wallet", "shop", "3000"), move("2", "wallet", "shop", "3000")},
			[]ledger.TransferSpec{move("1", "wallet", "shop", "5000")}, off + "[2]; " + off + "[2]; refused INSUFFICIENT_FUNDS wallet", "posted", "2* 1"},
		"a hold and its capture": {nil,
			[]ledger.TransferSpec{hold("h", "wallet", "shop", "5000"), capture("c", "h", "4000"), refund("r", "c", "1000", "0"), move("m", "wallet", "cash", "2000")},
			[]ledger.TransferSpec{void("v", "h"), refund("s", "c", "", "1000"), move("n", "shop", "cash", "0.01")},
			"posted; posted; posted; posted", "refused HOLD_ENDED; posted; refused INSUFFICIENT_FUNDS shop", "h c r m v s n"},
		"a hold and a capture of more": {nil,
			[]ledger.TransferSpec{hold("h", "wallet", "shop", "5000"), capture("c", "h", "5000.01")},
			[]ledger.TransferSpec{capture("d", "h", "1"), move("m", "wallet", "cash", "5000"), capture("c", "h", "5000.01"), refund("r", "c", "1", "0")},
			off + "[1]; refused CAPTURE_EXCEEDS_HOLD", "TRANSFER_NOT_FOUND capture.hold; posted; replayed refused CAPTURE_EXCEEDS_HOLD; WRONG_ORIGIN refund.original", "c* m"},
		"steps taken back": {[]ledger.TransferSpec{hold("h", "wallet", "shop", "5000"), keepOpen(capture("c", "h", "100")), move("o", "cash", "jar", "90"), refund("r", "o", "10", "0")},
			[]ledger.TransferSpec{keepOpen(capture("d", "h", "900")), capture("e", "h", "1"), refund("s", "o", "", "10"), refund("q", "c", "50", "0"), void("v", "h")},
			[]ledger.TransferSpec{capture("e", "h", "4900.01"), refund("s", "o", "80", "10"), reversal("w", "c"), keepOpen(capture("d", "h", "900")), void("x", "h"), move("m", "wallet", "cash", "4100")},
			off + "[4]; " + off + "[4]; " + off + "[4]; " + off + "[4]; refused HOLD_ENDED",
			"refused CAPTURE_EXCEEDS_HOLD; posted; posted; posted; posted; posted", "h c o r v* e s w d x m"},
		"conditions see what came before in the call": {nil,
			[]ledger.TransferSpec{given(move("1", "wallet", "shop", "1"), "wallet", "5000", 0), given(move("2", "wallet", "shop", "1"), "wallet", "4999", -1), given(move("3", "wallet", "shop", "1"), "wallet", "5000", -1)},
			[]ledger.TransferSpec{given(move("4", "wallet", "shop", "1"), "wallet", "5000", 0)},
			off + "[2]; " + off + "[2]; refused CONDITION_FAILED wallet", "posted", "3* 4"},
	} {
		for _, batches := range []string{"one", "three"} {
			w := bazaar()
			b := w.books()
			next := func() {
				if batches == "three" {
					w.keep(b)
					b = w.books()
				}
			}
			for _, spec := range c.before {
				if _, _, err := b.Decide(spec, "local"); err != nil {
					t.Fatal(err)
				}
			}
			next()
			decisions := b.DecideAtomically(c.call, "local")
			if got := verdicts(decisions); got != c.want {
				t.Errorf("%s: got %s, want %s", name, got, c.want)
			}
			for i, d := range decisions {
				if d.Transfer != nil && d.Transfer.ID != c.call[i].ID || (d.Transfer == nil) != (d.Err != nil) {
					t.Errorf("%s: decision %d is %+v", name, i, d)
				}
			}
			next()
			var after []ledger.Decision
			for _, spec := range c.after {
				var d ledger.Decision
				d.Transfer, d.Replayed, d.Err = b.Decide(spec, "local")
				after = append(after, d)
			}
			if got := verdicts(after); got != c.wantAfter {
				t.Errorf("%s, after the call: got %s, want %s", name, got, c.wantAfter)
			}
			w.keep(b)
			var records []string
			for _, r := range w.records {
				id := string(r.ID)
				if r.Atomic {
					id += "*"
				}
				records = append(records, id)
			}
			if got := strings.Join(records, " "); got != c.records {
				t.Errorf("%s: the records are %s, want %s", name, got, c.records)
			}
		}
	}
}

// Who must not be posted because of another is told why that one was not.
func TestBooks_DecideAtomically_Culprit(t *testing.T) {
	t.Parallel()
	for want, culprit := range map[string]ledger.TransferSpec{
		`transfers[1]: "2" was refused: INSUFFICIENT_FUNDS of shop`:             move("2", "shop", "cash", "2"),
		`transfers[1]: "2" was refused: CAPTURE_EXCEEDS_HOLD`:                   capture("2", "h", "2"),
		`transfers[1]: amount scale: amount: has 3 decimals, BDT has 2`:         move("2", "shop", "cash", "2.000"),
		`transfers[1]: transfer not found: void.hold: there is no transfer "1"`: void("2", "1"),
	} {
		b := bazaar().books()
		decide(t, b, hold("h", "wallet", "shop", "1"))
		first := move("1", "cash", "shop", "1")
		if culprit.Origin() == "1" {
			first.ID = "0"
		}
		decisions := b.DecideAtomically([]ledger.TransferSpec{first, culprit}, "local")
		if got := fmt.Sprint(decisions[0].Err); got != "atomic call refused: "+want || ledger.CodeOf(decisions[0].Err) != ledger.CodeAtomicCallRefused {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	// Of others' transfers nothing is told.
	b := bazaar().books()
	decide(t, b, move("1", "cash", "shop", "1"))
	decisions := b.DecideAtomically([]ledger.TransferSpec{move("1", "cash", "shop", "1"), move("2", "cash", "shop", "1")}, "mallory")
	if got := verdicts(decisions); got != "ALREADY_EXISTS; ATOMIC_CALL_REFUSED transfers[0]" {
		t.Errorf("got %s", got)
	}
	if decisions = b.DecideAtomically([]ledger.TransferSpec{move("2", "shop", "cash", "9"), move("1", "cash", "shop", "1")}, "mallory"); decisions[1].Transfer != nil {
		t.Errorf("got %s", verdicts(decisions))
	}
}

// drawRequest makes a request of any kind, by an id and of an origin among a few, between accounts that are soon empty or full.
func drawRequest(t *rapid.T) ledger.TransferSpec {
	ids := rapid.Custom(func(t *rapid.T) ledger.TransferID {
		return ledger.TransferID(fmt.Sprint(rapid.IntRange(1, 25).Draw(t, "id")))
	})
	id, origin := ids.Draw(t, "transfer"), ids.Draw(t, "origin")
	pair := rapid.Permutation([]ledger.AccountID{"cash", "wallet", "shop", "till", "box", "jar", "vault", "stall"}).Draw(t, "accounts")
	text := decimal.New(rapid.Int64Range(1, 12000).Draw(t, "units"), -2).String()
	part := rapid.SampledFrom([]string{"", text, "0.01", "10"}).Draw(t, "part")
	switch rapid.IntRange(0, 13).Draw(t, "kind") {
	case 0, 1:
		return hold(id, pair[0], pair[1], text)
	case 2:
		return expiring(hold(id, pair[0], pair[1], text), noon)
	case 3:
		return capture(id, origin, part)
	case 4, 5:
		return keepOpen(capture(id, origin, part))
	case 6:
		return void(id, origin)
	case 7, 8:
		return refund(id, origin, part, rapid.SampledFrom([]string{"0", "0", "10", "0.01"}).Draw(t, "expected"))
	case 9:
		return reversal(id, origin)
	case 10:
		return balancing(move(id, pair[0], pair[1], text))
	case 11:
		return given(move(id, pair[0], pair[1], text), pair[rapid.IntRange(0, 1).Draw(t, "which")],
			rapid.SampledFrom([]string{"", "0", "50", "100"}).Draw(t, "balance"), 0)
	case 12:
		return transfer(id, debit(pair[0], text), debit(pair[1], "0.02"), credit(pair[2], text), credit(pair[3], "0.01"), credit(pair[4], "0.01"))
	default:
		return move(id, pair[0], pair[1], text)
	}
}

// It does not matter in which batches requests are decided, and whatever is decided, the limits hold and the sums are right.
func TestBooks_Decide_InAnyBatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		specs := rapid.SliceOfN(rapid.Custom(drawRequest), 1, 60).Draw(t, "requests")
		one, many := bazaar(), bazaar()
		b := one.books()
		for i, spec := range specs {
			got := verdict(b.Decide(spec, "local"))
			c := many.books()
			if want := verdict(c.Decide(spec, "local")); got != want {
				t.Fatalf("request %d of a batch: %s; by itself: %s", i, got, want)
			}
			many.keep(c)
			checkWorld(t, many)
		}
		one.keep(b)
		if len(one.records) != len(many.records) {
			t.Fatalf("%d and %d records", len(one.records), len(many.records))
		}
		for i, r := range one.records {
			if diff := cmp.Diff(r, many.records[i]); diff != "" {
				t.Fatalf("%s (-in one batch +by itself):\n%s", r.ID, diff)
			}
		}
	})
}

// checkWorld checks what must be true of any ledger.
func checkWorld(t *rapid.T, w *world) {
	for id, a := range w.accounts {
		f := w.funds(id)
		if f.Held.IsNegative() || f.Incoming.IsNegative() {
			t.Fatalf("%s holds %s, and %s is to come", id, f.Held, f.Incoming)
		}
		if a.Floor != nil && f.Posted.Sub(f.Held).LessThan(*a.Floor) || a.Ceiling != nil && f.Posted.Add(f.Incoming).GreaterThan(*a.Ceiling) {
			t.Fatalf("%s is beyond its limits: %+v", id, f)
		}
	}
	held := decimal.Zero
	for _, r := range w.records {
		balance := decimal.Zero
		for _, e := range r.Entries {
			balance = balance.Add(ledger.Asset.Signed(e.Direction, e.Amount))
			if !e.Amount.IsPositive() || -e.Amount.Exponent() > e.Currency.Scale {
				t.Fatalf("%s has an entry of %s", r.ID, e.Amount)
			}
		}
		if !balance.IsZero() {
			t.Fatalf("%s is off by %s", r.ID, balance)
		}
		if (r.Step != nil) != (r.Refusal == nil && r.Kind() != ledger.Plain) {
			t.Fatalf("%s, a %s that was %s, has the step %+v", r.ID, r.Kind(), r.Outcome(), r.Step)
		}
		steps := w.steps(r.ID)
		p := ledger.ProgressOf(r, steps)
		for i, s := range steps {
			if s.Step.Ordinal != i+1 || p.Steps[i] != s.ID || s.Step.Ends && i < len(steps)-1 {
				t.Fatalf("%s, step %d of %s, is %+v", s.ID, i, r.ID, s.Step)
			}
		}
		switch {
		case r.Refusal != nil && (len(steps) > 0 || p.Hold != "" || !p.Refundable.IsZero()):
			t.Fatalf("%s was refused, but: %+v", r.ID, p)
		case r.Refusal == nil && r.Kind() == ledger.Hold:
			held = held.Add(p.Reserved)
			if sum := p.Captured.Add(p.Released).Add(p.Reserved); !sum.Equal(r.Step.Reserved) || (p.Hold == ledger.HoldOpen) != p.Reserved.IsPositive() {
				t.Fatalf("hold %s: %+v", r.ID, p)
			}
		case r.Refusal == nil && !r.Kind().IsStep() || r.Kind() == ledger.Capture && r.Refusal == nil:
			checkRefunds(t, r, steps, p)
		}
	}
	sum := decimal.Zero
	for id := range w.accounts {
		f := w.funds(id)
		sum = sum.Add(f.Held).Add(f.Incoming)
	}
	if !sum.Equal(held.Add(held)) {
		t.Fatalf("%s is held on accounts, %s by holds", sum, held)
	}
}

// A transfer is judged alike in an atomic call and by itself, but a call of which one is refused leaves nothing but that refusal:
// the books are as those of a twin that has never heard of the others.
func TestBooks_DecideAtomically_LeavesNothing(t *testing.T) {
	t.Parallel()
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		requests := rapid.SliceOfN(rapid.Custom(drawRequest), 0, 20)
		w := bazaar()
		b := w.books()
		for _, spec := range requests.Draw(t, "earlier") {
			_, _, _ = b.Decide(spec, "local")
		}
		w.keep(b)
		b, twin := w.books(), w.books()
		same := func(specs []ledger.TransferSpec) {
			for _, spec := range specs {
				r, replayed, err := b.Decide(spec, "local")
				twinned, again, wrong := twin.Decide(spec, "local")
				if replayed != again || fmt.Sprint(err) != fmt.Sprint(wrong) || cmp.Diff(r, twinned) != "" {
					t.Fatalf("%s: %s, of the twin: %s\n%s", spec.ID, verdict(r, replayed, err), verdict(twinned, again, wrong), cmp.Diff(r, twinned))
				}
			}
		}
		same(requests.Draw(t, "in the batch"))
		call := rapid.SliceOfN(rapid.Custom(drawRequest), 1, 8).Draw(t, "call")
		before := len(b.Decided())
		decisions := b.DecideAtomically(call, "local")
		culprit := slices.IndexFunc(decisions, func(d ledger.Decision) bool {
			return d.Err != nil && !errors.Is(d.Err, ledger.CodeAtomicCallRefused) || d.Err == nil && d.Transfer.Refusal != nil
		})
		want := slices.Clone(twin.Decided())
		if culprit < 0 {
			for i, spec := range call {
				r, replayed, err := twin.Decide(spec, "local")
				if d := decisions[i]; err != nil || replayed != d.Replayed || cmp.Diff(r, d.Transfer) != "" {
					t.Fatalf("%s: %s; by itself: %s", spec.ID, verdict(d.Transfer, d.Replayed, d.Err), verdict(r, replayed, err))
				}
			}
			want = slices.Clone(twin.Decided())
		} else {
			refused++
			for i, d := range decisions {
				if d.Err == nil && !d.Replayed && (i != culprit || !d.Transfer.Atomic) {
					t.Fatalf("the culprit is %d, but %d: %s", culprit, i, verdict(d.Transfer, d.Replayed, d.Err))
				}
			}
			if d := decisions[culprit]; d.Err == nil && !d.Replayed {
				twin.AddTransfer(d.Transfer)
				want = append(want, d.Transfer)
			}
		}
		if len(b.Decided()) != len(want) || culprit >= 0 && len(want) > before+1 {
			t.Fatalf("%d decided, of the twin %d", len(b.Decided()), len(want))
		}
		for i, r := range b.Decided() {
			if cmp.Diff(r, want[i]) != "" {
				t.Fatalf("decided as number %d: %+v, of the twin: %+v", i, r, want[i])
			}
		}
		same(slices.Concat(call, requests.Draw(t, "later"), call))
		again := requests.Draw(t, "another call")
		if got, want := verdicts(b.DecideAtomically(again, "local")), verdicts(twin.DecideAtomically(again, "local")); got != want {
			t.Fatalf("another call: %s, of the twin: %s", got, want)
		}
		same(requests.Draw(t, "at last"))
	})
	if refused == 0 {
		t.Error("no call was refused")
	}
}
