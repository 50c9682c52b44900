package ledgertest

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Model is a ledger as one would write it on a napkin: one thing at a time, whole minor units, everything in memory. It is
// told what happened in the order of the sequence, and says what should have happened.
type Model struct {
	// ClosedBefore is the time before which the books are closed; zero is not at all.
	ClosedBefore time.Time
	accounts     map[string]*ModelAccount
	transfers    map[string]*ModelTransfer
}

// ModelAccount is an account of the model.
type ModelAccount struct {
	DebitNormal    bool
	Floor, Ceiling *int64
	Serialised     bool
	// Frozen has "debit" and "credit" in it.
	Frozen []string
	Closed bool
	// Balance is in the normal direction.
	Balance int64
	// Held is what open holds will take off the balance, and Incoming what they will add.
	Held, Incoming int64
	// Version is the sequence of the last transfer that moved, held or released anything.
	Version int64
}

// ModelEntry is an entry of the model: positive debits, negative credits.
type ModelEntry struct {
	Account string
	Signed  int64
}

// ModelRequest is a request for a transfer.
type ModelRequest struct {
	// Kind is "transfer", "hold", "capture", "void", "expiry", "refund" or "reversal".
	Kind    string
	Entries []ModelEntry
	Note    string
	// Effective is the value date; zero is none.
	Effective time.Time
	// Origin is what a step is of.
	Origin string
	// Amount is that of a capture or refund; 0 is all that is left.
	Amount   int64
	KeepOpen bool
	Deadline time.Time
	Expected int64
	// AtMost is whether less than the amount of the entries will do.
	AtMost     bool
	Conditions []ModelCondition
}

// ModelCondition is what a request expects of an account.
type ModelCondition struct {
	Account          string
	Balance, Version *int64
}

// ModelTransfer is a transfer and what became of it.
type ModelTransfer struct {
	ModelRequest
	// Outcome is "posted", or the reason of the refusal.
	Outcome string
	// Moved is what a posted transfer moved, or a hold reserved.
	Moved []ModelEntry
	// Of a hold: what is left of it, and whether it has ended.
	Left  int64
	Ended bool
	// Of an original: what has gone back of each account, and of all of it.
	Back             map[string]int64
	Refunded         int64
	Steps            int
	Reversed         bool
	Captured, Volume int64
}

// NewModel makes an empty ledger.
func NewModel() *Model {
	return &Model{accounts: map[string]*ModelAccount{}, transfers: map[string]*ModelTransfer{}}
}

// Clone copies the model.
func (m *Model) Clone() *Model {
	c := NewModel()
	c.ClosedBefore = m.ClosedBefore
	for id, a := range m.accounts {
		account := *a
		c.accounts[id] = &account
	}
	for id, t := range m.transfers {
		transfer := *t
		transfer.Back = maps.Clone(t.Back)
		c.transfers[id] = &transfer
	}
	return c
}

// Open makes an account.
func (m *Model) Open(id string, a ModelAccount) { m.accounts[id] = &a }

// Account returns an account, or nil.
func (m *Model) Account(id string) *ModelAccount { return m.accounts[id] }

// Transfer returns what became of an id.
func (m *Model) Transfer(id string) (ModelTransfer, bool) {
	t, ok := m.transfers[id]
	if !ok {
		return ModelTransfer{}, false
	}
	return *t, true
}

// Transfers goes through the ids that have been decided.
func (m *Model) Transfers() map[string]*ModelTransfer { return m.transfers }

// Refuse keeps an outcome that the model cannot tell by itself.
func (m *Model) Refuse(id string, r ModelRequest, reason string) {
	m.transfers[id] = &ModelTransfer{ModelRequest: r, Outcome: reason}
}

// Decide decides a new id and keeps the outcome. moved is what the transfer is said to have moved: of a refund that is divided among
// accounts, the model checks it instead of dividing.
func (m *Model) Decide(id string, r ModelRequest, sequence int64, at time.Time, moved []ModelEntry) string {
	if _, taken := m.transfers[id]; taken {
		panic("the model has decided " + id + " before")
	}
	t := &ModelTransfer{ModelRequest: r, Back: map[string]int64{}}
	m.transfers[id] = t
	t.Outcome = m.judge(t, at, moved)
	if t.Outcome != "posted" {
		return t.Outcome
	}
	for _, e := range t.Moved {
		a := m.accounts[e.Account]
		a.Version = sequence
		if r.Kind != "hold" && r.Kind != "void" && r.Kind != "expiry" {
			a.Balance += a.normal(e.Signed)
		}
		if e.Signed > 0 {
			t.Volume += e.Signed
		}
	}
	if r.Kind == "hold" {
		t.Left = t.Volume
		m.reserve(t.Moved, t.Volume)
	}
	if r.Origin != "" {
		m.step(t)
	}
	return t.Outcome
}

// DecideBefore decides an id again that was refused as too late: as if its time was before every deadline.
func (m *Model) DecideBefore(id string, r ModelRequest, sequence int64, moved []ModelEntry) string {
	delete(m.transfers, id)
	return m.Decide(id, r, sequence, time.Time{}, moved)
}

// Wrong says why a step can never be of its origin; "" if it can.
func (m *Model) Wrong(r ModelRequest) string {
	o, ok := m.transfers[r.Origin]
	switch {
	case !ok:
		return "TRANSFER_NOT_FOUND"
	case o.Outcome != "posted":
		return "WRONG_ORIGIN"
	case slices.Contains([]string{"capture", "void", "expiry"}, r.Kind) != (o.Kind == "hold"):
		return "WRONG_ORIGIN"
	case o.Kind == "hold", o.Kind == "transfer", o.Kind == "capture":
		return ""
	}
	return "WRONG_ORIGIN"
}

// step tells the origin of a posted step.
func (m *Model) step(t *ModelTransfer) {
	o := m.transfers[t.Origin]
	o.Steps++
	switch t.Kind {
	case "refund", "reversal":
		for _, e := range t.Moved {
			o.Back[e.Account] += e.Signed
		}
		o.Refunded += t.Volume
		o.Reversed = t.Kind == "reversal"
	default:
		released := o.Left
		if t.Kind == "capture" {
			o.Captured += t.Volume
			if t.KeepOpen {
				released = t.Volume
			}
		}
		o.Left -= released
		o.Ended = o.Left == 0
		m.reserve(o.Moved, -released)
	}
}

// reserve holds more of an amount, or less.
func (m *Model) reserve(entries []ModelEntry, amount int64) {
	for _, e := range entries {
		if a := m.accounts[e.Account]; a.normal(e.Signed) < 0 {
			a.Held += amount
		} else {
			a.Incoming += amount
		}
	}
}

func (a *ModelAccount) normal(signed int64) int64 {
	if a.DebitNormal {
		return signed
	}
	return -signed
}

func (m *Model) judge(t *ModelTransfer, at time.Time, moved []ModelEntry) string {
	t.Moved = t.Entries
	o := m.transfers[t.Origin]
	switch t.Kind {
	case "capture", "void", "expiry":
		amount := t.Amount
		if amount == 0 {
			amount = o.Left
		}
		t.Moved = pairOf(o.Moved, amount)
		switch late := !o.Deadline.IsZero() && !at.Before(o.Deadline); {
		case o.Ended:
			return "HOLD_ENDED"
		case t.Kind == "expiry" && !late:
			return "expired before its deadline"
		case t.Kind != "capture":
			return "posted"
		case late:
			return "HOLD_EXPIRED"
		case amount > o.Left:
			return "CAPTURE_EXCEEDS_HOLD"
		}
		return m.shut(t)
	case "reversal":
		t.Moved = nil
		for _, e := range o.Moved {
			t.Moved = append(t.Moved, ModelEntry{e.Account, -e.Signed})
		}
		switch {
		case o.Reversed:
			return "ALREADY_REVERSED"
		case o.Steps > 0:
			return "ALREADY_REFUNDED"
		}
	case "refund":
		rest := o.Volume - o.Refunded
		amount := t.Amount
		if amount == 0 {
			amount = rest
		}
		switch {
		case o.Reversed:
			return "ALREADY_REVERSED"
		case t.Expected != o.Refunded:
			return "REFUNDED_CHANGED"
		case amount > rest || rest == 0:
			return "REFUND_EXCEEDS_REST"
		}
		t.Moved = moved
		if fault := o.divided(moved, amount); fault != "" {
			return fault
		}
	}
	if shut := m.shut(t); shut != "posted" {
		return shut
	}
	for _, c := range t.Conditions {
		a := m.accounts[c.Account]
		if c.Balance != nil && *c.Balance != a.Balance || c.Version != nil && *c.Version != a.Version {
			return "CONDITION_FAILED"
		}
	}
	if t.Kind == "hold" && !t.Deadline.IsZero() && !at.Before(t.Deadline) {
		return "HOLD_EXPIRED"
	}
	if t.AtMost {
		return m.atMost(t)
	}
	return m.limits(t.Moved)
}

func pairOf(entries []ModelEntry, amount int64) []ModelEntry {
	var pair []ModelEntry
	for _, e := range entries {
		if e.Signed < 0 {
			pair = append(pair, ModelEntry{e.Account, -amount})
		} else {
			pair = append(pair, ModelEntry{e.Account, amount})
		}
	}
	return pair
}

// divided says what is wrong with how a refund was divided among the accounts of its original; "" is nothing. Each has its part in
// proportion to what is left of its own, to less than one unit.
func (t *ModelTransfer) divided(moved []ModelEntry, amount int64) string {
	gone := map[string]int64{}
	for _, e := range t.Moved {
		gone[e.Account] += e.Signed
	}
	rest := t.Volume - t.Refunded
	sums := map[bool]int64{}
	for _, e := range moved {
		left := -(gone[e.Account] + t.Back[e.Account]) // to be moved, with the sign of the refund
		sums[e.Signed > 0] += max(e.Signed, -e.Signed)
		switch {
		case left == 0 || (left > 0) != (e.Signed > 0) || max(e.Signed, -e.Signed) > max(left, -left):
			return fmt.Sprintf("%s gets %d back, of %d", e.Account, e.Signed, left)
		case max(e.Signed*rest-left*amount, left*amount-e.Signed*rest) >= rest:
			return fmt.Sprintf("%s gets %d back, of %d, in a refund of %d of %d", e.Account, e.Signed, left, amount, rest)
		}
	}
	if sums[true] != amount || sums[false] != amount {
		return fmt.Sprintf("a refund of %d moves %d and %d", amount, sums[true], sums[false])
	}
	return ""
}

// shut is the first reason why an account takes no such entry, or else the period no transfer; "posted" if all do.
func (m *Model) shut(t *ModelTransfer) string {
	for _, e := range t.Moved {
		side := "debit"
		if e.Signed < 0 {
			side = "credit"
		}
		a := m.accounts[e.Account]
		if a.Closed {
			return "ACCOUNT_CLOSED"
		}
		if slices.Contains(a.Frozen, side) {
			return "ACCOUNT_FROZEN"
		}
	}
	if !t.Effective.IsZero() && t.Effective.Before(m.ClosedBefore) {
		return "PERIOD_CLOSED"
	}
	return "posted"
}

func (m *Model) limits(entries []ModelEntry) string {
	changes := map[string]int64{}
	for _, e := range entries {
		changes[e.Account] += m.accounts[e.Account].normal(e.Signed)
	}
	for _, e := range entries {
		a, change := m.accounts[e.Account], changes[e.Account]
		if a.Floor != nil && change < 0 && a.Balance-a.Held+change < *a.Floor {
			return "INSUFFICIENT_FUNDS"
		}
		if a.Ceiling != nil && change > 0 && a.Balance+a.Incoming+change > *a.Ceiling {
			return "CEILING_EXCEEDED"
		}
	}
	return "posted"
}

// atMost cuts a transfer down to what there is.
func (m *Model) atMost(t *ModelTransfer) string {
	amount := max(t.Entries[0].Signed, -t.Entries[0].Signed)
	for _, e := range t.Entries {
		a := m.accounts[e.Account]
		change := a.normal(e.Signed)
		switch {
		case change > 0 && a.Ceiling != nil:
			if amount = min(amount, *a.Ceiling-a.Balance-a.Incoming); amount <= 0 {
				return "CEILING_EXCEEDED"
			}
		case change < 0 && a.Serialised:
			least := int64(0)
			if a.Floor != nil {
				least = *a.Floor
			}
			if amount = min(amount, a.Balance-a.Held-least); amount <= 0 {
				return "INSUFFICIENT_FUNDS"
			}
		}
	}
	t.Moved = pairOf(t.Entries, amount)
	return "posted"
}

// Same reports whether a request is the same, whatever the order of its entries and conditions.
func (r ModelRequest) Same(o ModelRequest) bool { return r.key() == o.key() }

func (r ModelRequest) key() string {
	var entries, conditions []string
	for _, e := range r.Entries {
		entries = append(entries, fmt.Sprint(e.Account, " ", e.Signed))
	}
	for _, c := range r.Conditions {
		conditions = append(conditions, fmt.Sprint(c.Account, " ", value(c.Balance), " ", value(c.Version)))
	}
	slices.Sort(entries)
	slices.Sort(conditions)
	return fmt.Sprint(r.Kind, entries, r.Note, r.Effective.UnixMicro(), r.Origin, r.Amount, r.KeepOpen, r.Deadline.UnixMicro(), r.Expected, r.AtMost, conditions)
}

func value(n *int64) string {
	if n == nil {
		return "any"
	}
	return fmt.Sprint(*n)
}
