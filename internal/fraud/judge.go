package fraud

import (
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// Payment is a posted transfer, as its payer's movement tells of it.
type Payment struct {
	Ledger   ledger.Name
	Transfer ledger.TransferID
	// Sequence is its place in the order of decision of its ledger.
	Sequence int64
	Kind     ledger.Kind
	// Payer and Payee are the accounts of its first debit and of its first credit.
	Payer, Payee string
	// Amount is what the payer's entries debit, in the currency of his account.
	Amount   decimal.Decimal
	Currency string
	// PostedAt is when it was decided, to the microsecond.
	PostedAt time.Time
}

// Reason is why a transfer is flagged.
type Reason struct {
	// Rule is the name of the rule, and "" where it was none.
	Rule string `json:"rule,omitempty"`
	Kind Kind   `json:"kind"`
	// Text is for people.
	Text string `json:"text"`
}

// The kinds of reasons that no rule has.
const (
	// Memory is that the payer has paid more often than can be remembered.
	Memory Kind = "memory"
	// Unreadable is that the event of a transfer could not be read.
	Unreadable Kind = "unreadable"
)

// Judge judges a transfer of a payer of whom state is known, and gives the reasons to flag it and the state from there on; without reasons it is
// approved. It is not new if it was judged before: then there is no verdict, and the state stays.
//
// Transfers of a payer are to be given in the order of decision. It looks at nothing else, and at no clock.
func (r *Rules) Judge(state *State, p *Payment) (reasons []Reason, next *State, isNew bool) {
	if state.has(p) {
		return nil, state, false
	}
	next = state.with(p)
	// Steps of holds, refunds and reversals follow from a transfer that was judged.
	if p.Kind != ledger.Plain && p.Kind != ledger.Hold || !r.judges(p.Payer) {
		return nil, next, true
	}
	for _, rule := range r.rules {
		if text := rule.against(state, p); text != "" {
			reasons = append(reasons, Reason{rule.name, rule.kind, text})
		}
	}
	if state.isFull(r, p) {
		reasons = append(reasons, Reason{Kind: Memory, Text: fmt.Sprintf("its payer has paid at least %d times within %s, more than are remembered", maxRecent, shortTime(r.recent+slack))})
	}
	next.remember(r, p)
	return reasons, next, true
}

// isFull reports whether transfers may have been forgotten that lie in a window.
func (s *State) isFull(rules *Rules, p *Payment) bool {
	n := 0
	for _, before := range s.recent {
		if before.at.near(microsOf(p.PostedAt), rules.recent+slack) {
			n++
		}
	}
	return n >= maxRecent
}

// against says what a rule has against a transfer; nothing where it is "".
func (r rule) against(s *State, p *Payment) string {
	limit, limited := r.limits[p.Currency]
	if r.limits != nil && !limited {
		return ""
	}
	switch r.kind {
	case Amount:
		if p.Amount.GreaterThan(limit) {
			return fmt.Sprintf("%s is more than %s", money(p.Amount, p.Currency), money(limit, p.Currency))
		}
	case Velocity:
		if n := len(s.within(p, r.within)); n >= r.count {
			return fmt.Sprintf("it is the %s transfer of its payer within %s, where %d are usual", ordinal(n+1), shortTime(r.within), r.count)
		}
	case Total:
		return r.againstTotal(s, p, limit)
	case Repeat:
		for _, before := range s.within(p, r.within) {
			if before.payee == p.Payee && before.currency == p.Currency && before.amount.Equal(p.Amount) {
				return fmt.Sprintf("its payer has paid %s to %s before, within %s", money(p.Amount, p.Currency), p.Payee, shortTime(r.within))
			}
		}
	case NewPayee:
		if p.Amount.GreaterThan(limit) && !s.knows(p.Payee, microsOf(p.PostedAt), r.within) {
			return fmt.Sprintf("%s is more than %s, and its payer has not paid %s within %s", money(p.Amount, p.Currency), money(limit, p.Currency), p.Payee,
				shortTime(r.within))
		}
	}
	return ""
}

func (r rule) againstTotal(s *State, p *Payment, limit decimal.Decimal) string {
	sum := p.Amount
	for _, before := range s.within(p, r.within) {
		if before.currency == p.Currency {
			sum = sum.Add(before.amount)
		}
	}
	if !sum.GreaterThan(limit) {
		return ""
	}
	return fmt.Sprintf("with it its payer has paid %s within %s, which is more than %s", money(sum, p.Currency), shortTime(r.within), money(limit, p.Currency))
}

// within are the transfers before one that are less than a time away from it. One exactly as old is out of the window.
func (s *State) within(p *Payment, d time.Duration) []paid {
	at := microsOf(p.PostedAt)
	var list []paid
	for _, before := range s.recent {
		if before.at.near(at, d) {
			list = append(list, before)
		}
	}
	return list
}

func money(amount decimal.Decimal, currency string) string {
	return ledger.FormatWritten(amount) + " " + currency
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}
