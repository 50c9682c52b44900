package ledger

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// Step is what a posted transfer other than a plain one did to a hold, or to its original.
type Step struct {
	// Ordinal is the place among the posted steps of the origin, from 1; 0 of a hold itself.
	Ordinal int
	// Ends reports whether it ended its hold, or is the reversal of its original.
	Ends bool
	// Reserved is how much more is reserved by the hold: its amount when it is made, and then less than zero. It is zero for
	// refunds and reversals.
	Reserved decimal.Decimal
	// Deadline is that of a hold; nil is none.
	Deadline *time.Time
}

// HoldState is what has become of a hold.
type HoldState string

// The states of a hold. All but the first are final.
const (
	HoldOpen     HoldState = "open"
	HoldCaptured HoldState = "captured"
	HoldVoided   HoldState = "voided"
	HoldExpired  HoldState = "expired"
)

// Progress is what has become of a posted transfer by its steps. It grows in one direction: what was captured, released or refunded
// stays so.
type Progress struct {
	// Steps are the ids of its posted steps, in their order.
	Steps []TransferID
	// Currency is that of the amounts; the zero value where the transfer moved several.
	Currency Currency

	// Hold is the state of a hold; "" of other transfers.
	Hold HoldState
	// Captured, Released and Reserved are parts of a hold's amount, and sum to it: Reserved is what is still held.
	Captured, Released, Reserved decimal.Decimal

	// Refunded and Refundable are parts of the amount of a transfer that moved money in one currency, and sum to it, unless it was
	// reversed.
	Refunded, Refundable decimal.Decimal
	Reversed             bool

	// rest is what can still go back, account by account.
	rest []share
}

// share is what may go back of one account's entries.
type share struct {
	account   AccountID
	direction Direction // of the original
	currency  Currency
	amount    decimal.Decimal
}

// ProgressOf gives what has become of a posted transfer, by its posted steps in their order.
func ProgressOf(t *Transfer, steps []*Transfer) Progress {
	p := begin(t)
	for _, step := range steps {
		p.add(step)
	}
	return p
}

func begin(t *Transfer) Progress {
	kind := t.Kind()
	var p Progress
	switch {
	case t.Refusal != nil:
	case kind == Hold:
		p.Hold, p.Currency = HoldOpen, t.Entries[0].Currency
		p.Reserved = t.Entries[0].Amount
	case kind == Plain || kind == Capture:
		p.rest = shares(t.Entries)
		p.Currency = oneCurrency(t.Entries)
		p.Refundable = total(p.rest, p.Currency)
	}
	return p
}

// shares sums entries by account, in the order of the accounts.
func shares(entries []Entry) []share {
	var list []share
	at := make(map[AccountID]int, len(entries))
	for _, e := range entries {
		if i, ok := at[e.Account]; ok {
			list[i].amount = list[i].amount.Add(e.Amount)
			continue
		}
		at[e.Account] = len(list)
		list = append(list, share{e.Account, e.Direction, e.Currency, e.Amount})
	}
	slices.SortFunc(list, func(a, b share) int { return compareStrings(a.account, b.account) })
	return list
}

// oneCurrency is the currency of all entries; the zero value if there are several.
func oneCurrency(entries []Entry) Currency {
	for _, e := range entries {
		if e.Currency.Code != entries[0].Currency.Code {
			return Currency{}
		}
	}
	return entries[0].Currency
}

// total is the sum of the debits, and so of the credits; zero where there are several currencies.
func total(rest []share, currency Currency) decimal.Decimal {
	sum := decimal.Zero
	if currency.Code == "" {
		return sum
	}
	for _, s := range rest {
		if s.direction == Debit {
			sum = sum.Add(s.amount)
		}
	}
	return sum
}

func (p *Progress) add(step *Transfer) {
	p.Steps = append(p.Steps, step.ID)
	switch step.Kind() {
	case Capture:
		amount := step.Entries[0].Amount
		p.Captured = p.Captured.Add(amount)
		p.release(step, step.Step.Reserved.Add(amount).Neg(), HoldCaptured)
	case Void:
		p.release(step, step.Step.Reserved.Neg(), HoldVoided)
	case Expiry:
		p.release(step, step.Step.Reserved.Neg(), HoldExpired)
	case Refund:
		p.takeBack(step.Entries)
	case Reversal:
		p.takeBack(step.Entries)
		p.Reversed = true
	case Plain, Hold: // They are no steps.
	}
}

// release takes off what a step takes off the reserve, of which so much goes back to where it was.
func (p *Progress) release(step *Transfer, released decimal.Decimal, ended HoldState) {
	p.Reserved = p.Reserved.Add(step.Step.Reserved)
	p.Released = p.Released.Add(released)
	if step.Step.Ends {
		p.Hold = ended
	}
}

func (p *Progress) takeBack(entries []Entry) {
	p.rest = slices.Clone(p.rest) // It may be shared with a copy that is to be kept.
	for _, e := range entries {
		i, found := slices.BinarySearchFunc(p.rest, e.Account, func(s share, id AccountID) int { return compareStrings(s.account, id) })
		if found {
			p.rest[i].amount = p.rest[i].amount.Sub(e.Amount)
		}
	}
	was := p.Refundable
	p.Refundable = total(p.rest, p.Currency)
	p.Refunded = p.Refunded.Add(was.Sub(p.Refundable))
}

// ended reports whether nothing can follow any more.
func (p *Progress) ended() bool { return p.Reversed || p.Hold != "" && p.Hold != HoldOpen }

// opposite is the other side.
func (d Direction) opposite() Direction {
	if d == Debit {
		return Credit
	}
	return Debit
}

// mirror gives the entries the other way round.
func mirror(entries []Entry) []Entry {
	mirrored := slices.Clone(entries)
	for i := range mirrored {
		mirrored[i].Direction = mirrored[i].Direction.opposite()
	}
	return mirrored
}

// refund gives the entries that take an amount, at most Refundable, back: from each account in proportion to what is left of
// its share, in whole units of the currency, so that nothing is lost and the last refund takes the rest of everything.
func (p *Progress) refund(amount decimal.Decimal) []Entry {
	var entries []Entry
	for _, side := range []Direction{Debit, Credit} {
		var of []share
		for _, s := range p.rest {
			if s.direction == side && s.amount.IsPositive() {
				of = append(of, s)
			}
		}
		parts := allocate(amount, of, p.Currency.Scale)
		for i, s := range of {
			if parts[i].IsPositive() {
				entries = append(entries, Entry{Account: s.account, Direction: side.opposite(), Amount: parts[i], Currency: s.currency})
			}
		}
	}
	// Debits first, as in the shorthand.
	slices.SortStableFunc(entries, func(a, b Entry) int { return -strings.Compare(string(a.Direction), string(b.Direction)) })
	return entries
}

// allocate divides an amount in proportion to shares, which sum to no less, by the method of the largest remainder: no part is
// more than its share, and the parts sum to the amount exactly. Of equal remainders the first gets the unit.
func allocate(amount decimal.Decimal, of []share, scale int32) []decimal.Decimal {
	units := func(d decimal.Decimal) *big.Int { return d.Shift(scale).BigInt() }
	whole, sum := units(amount), new(big.Int)
	for _, s := range of {
		sum.Add(sum, units(s.amount))
	}
	type part struct {
		place           int
		units, fraction *big.Int
	}
	parts := make([]part, len(of))
	left := new(big.Int).Set(whole)
	for i, s := range of {
		product := new(big.Int).Mul(whole, units(s.amount))
		parts[i] = part{i, new(big.Int), new(big.Int)}
		parts[i].units.QuoRem(product, sum, parts[i].fraction)
		left.Sub(left, parts[i].units)
	}
	byFraction := slices.Clone(parts)
	slices.SortStableFunc(byFraction, func(a, b part) int {
		return cmp.Or(b.fraction.Cmp(a.fraction), cmp.Compare(a.place, b.place))
	})
	one := big.NewInt(1)
	for _, p := range byFraction[:left.Int64()] { // Fewer than there are parts with a fraction.
		p.units.Add(p.units, one)
	}
	amounts := make([]decimal.Decimal, len(of))
	for i, p := range parts {
		amounts[i] = decimal.NewFromBigInt(p.units, -scale)
	}
	return amounts
}

func compareStrings[S ~string](a, b S) int { return strings.Compare(string(a), string(b)) }
