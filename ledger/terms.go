package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// Kind is what a transfer does.
type Kind string

// The kinds. A hold reserves an amount, and moves nothing. Captures, a void or its expiry are the steps by which it ends; refunds
// or one reversal are the steps by which money that was moved goes back. Each is a transfer with an id of its own.
const (
	// Plain moves its entries.
	Plain Kind = "transfer"
	// Hold reserves the amount of its two entries until its steps capture or release it.
	Hold Kind = "hold"
	// Capture moves what a hold has reserved, or a part of it, and releases the rest unless it is to stay open.
	Capture Kind = "capture"
	// Void releases what is left of a hold.
	Void Kind = "void"
	// Expiry releases what is left of a hold whose deadline has passed. Only Khata itself posts it.
	Expiry Kind = "expiry"
	// Refund moves an amount of an earlier transfer back.
	Refund Kind = "refund"
	// Reversal is the exact mirror of an earlier transfer.
	Reversal Kind = "reversal"
)

// OfHold reports whether the kind is a step of a hold.
func (k Kind) OfHold() bool { return k == Capture || k == Void || k == Expiry }

// GoesBack reports whether the kind is a step of a transfer that moved money.
func (k Kind) GoesBack() bool { return k == Refund || k == Reversal }

// IsStep reports whether the kind is a step of another transfer, its origin.
func (k Kind) IsStep() bool { return k.OfHold() || k.GoesBack() }

// Moves reports whether a posted transfer of the kind has entries in its accounts.
func (k Kind) Moves() bool { return k == Plain || k == Capture || k.GoesBack() }

// RefundReason is why money goes back.
type RefundReason string

// The reasons. ReasonOther needs a description.
const (
	ReasonDuplicate           RefundReason = "duplicate"
	ReasonRequestedByCustomer RefundReason = "requested_by_customer"
	ReasonFraudSuspected      RefundReason = "fraud_suspected"
	ReasonGoodsNotReceived    RefundReason = "goods_not_received"
	ReasonWrongAmount         RefundReason = "wrong_amount"
	ReasonWrongRecipient      RefundReason = "wrong_recipient"
	ReasonServiceFailure      RefundReason = "service_failure"
	ReasonGoodwill            RefundReason = "goodwill"
	ReasonTechnicalError      RefundReason = "technical_error"
	ReasonOther               RefundReason = "other"
)

// RefundReasons returns every reason.
func RefundReasons() []RefundReason {
	return []RefundReason{
		ReasonDuplicate, ReasonRequestedByCustomer, ReasonFraudSuspected, ReasonGoodsNotReceived, ReasonWrongAmount,
		ReasonWrongRecipient, ReasonServiceFailure, ReasonGoodwill, ReasonTechnicalError, ReasonOther,
	}
}

// MinHold and MaxHold bound how long a hold can be given to live.
const (
	MinHold = time.Second
	MaxHold = 10 * 366 * 24 * time.Hour
)

// Terms is what a request asks for beyond moving its entries. All of it is content that a later request of the same id is
// compared with.
type Terms struct {
	Kind Kind
	// Origin is the hold of a capture, void or expiry; the original of a refund or reversal.
	Origin TransferID
	// Amount is how much a capture or refund is for; nil is all that is left. Of a balancing transfer it is the most that may be
	// moved, and also the amount of the entries.
	Amount *decimal.Decimal
	// Balancing moves as much of the amount as there is.
	Balancing bool
	// KeepOpen keeps what a capture leaves reserved.
	KeepOpen bool
	// ExpiresAt is the deadline of a hold, or ExpiresAfter how long after its posted_at that is; without either it has none.
	ExpiresAt    *time.Time
	ExpiresAfter time.Duration
	// ExpectedRefunded is how much the caller of a refund believes to have been refunded before. It is mandatory.
	ExpectedRefunded *decimal.Decimal
	Reason           RefundReason
	// Conditions are what must be true of accounts of the transfer when it is decided.
	Conditions []Condition
}

// Condition is what must be true of a serialised account of a transfer for it to be posted. At least one field is set.
type Condition struct {
	Account AccountID
	// Balance is the posted balance.
	Balance *decimal.Decimal
	// Version is that of the balance: the sequence of the last transfer in it, of one that holds or releases included.
	Version *int64
}

// Kind is what the transfer does.
func (s TransferSpec) Kind() Kind {
	if s.Terms == nil {
		return Plain
	}
	return s.Terms.Kind
}

// Origin is the transfer that this one is a step of, or "".
func (s TransferSpec) Origin() TransferID {
	if s.Terms == nil {
		return ""
	}
	return s.Terms.Origin
}

// field is the path of a field of the terms, as the API spells it.
func (t *Terms) field(name string) string { return string(t.Kind) + "." + name }

// originField is the path of the origin.
func (t *Terms) originField() string {
	if t.Kind.OfHold() {
		return t.field("hold")
	}
	return t.field("original")
}

// validateTerms checks the terms against each other and the rest of the request.
func (s TransferSpec) validateTerms() error {
	t := s.Terms
	switch {
	case t.Kind.IsStep():
		return s.validateStep()
	case t.Kind != Plain && t.Kind != Hold:
		return Invalid("kind", "%.40q is not a kind of transfer", string(t.Kind))
	case t.Kind == Hold && s.EffectiveAt != nil:
		return Invalid("effective_at", "cannot be given for a hold, which moves nothing: give it when you capture")
	case t.Kind == Hold && t.Balancing:
		return Invalid("balancing", "cannot be asked of a hold")
	case t.Origin != "" || t.KeepOpen || t.ExpectedRefunded != nil || t.Reason != "":
		return Invalid(string(t.Kind), "has terms of another kind")
	}
	_, _, amount, pair := TransferSpec{Entries: sorted(s.Entries)}.Pair() // The order of entries never matters.
	if (t.Kind == Hold || t.Balancing) && !pair {
		return Invalid("entries", "must be a debit and a credit of the same amount")
	}
	if t.Balancing != (t.Amount != nil) || t.Balancing && !t.Amount.Equal(amount) {
		return Invalid("balancing", "must have the amount of the entries")
	}
	if err := t.validateDeadline(); err != nil {
		return err
	}
	return s.validateConditions()
}

func (s TransferSpec) validateStep() error {
	t := s.Terms
	if err := t.Origin.ValidateFormat(t.originField()); err != nil {
		return err
	}
	switch {
	case t.Origin == s.ID:
		return Invalid(t.originField(), "is the transfer itself")
	case len(s.Entries) > 0:
		return Invalid("entries", "cannot be given for a %s: they follow from %s", t.Kind, t.originField())
	case len(t.Conditions) > 0:
		return Invalid("conditions", "cannot be given for a %s", t.Kind)
	case t.Balancing || t.ExpiresAt != nil || t.ExpiresAfter != 0 || t.KeepOpen && t.Kind != Capture,
		(t.ExpectedRefunded != nil || t.Reason != "") && t.Kind != Refund, t.Amount != nil && t.Kind != Capture && t.Kind != Refund:
		return Invalid(string(t.Kind), "has terms of another kind")
	case s.EffectiveAt != nil && !t.Kind.Moves():
		return Invalid("effective_at", "cannot be given for a %s, which moves nothing", t.Kind)
	}
	if t.Amount != nil {
		if err := validateAmount(*t.Amount, t.field("amount")); err != nil {
			return err
		}
	}
	if t.Kind != Refund {
		return nil
	}
	switch {
	case t.ExpectedRefunded == nil:
		return Invalid(t.field("expected_refunded"), "is required: what has been refunded before, as far as you know; 0 if nothing")
	case t.ExpectedRefunded.IsNegative():
		return Invalid(t.field("expected_refunded"), "is negative")
	case !slices.Contains(RefundReasons(), t.Reason):
		return Invalid(t.field("reason"), "%.40q is not a reason: want one of %v", string(t.Reason), RefundReasons())
	case t.Reason == ReasonOther && s.Description == "":
		return Invalid("description", "is required where the reason is other")
	}
	return validateDigits(*t.ExpectedRefunded, t.field("expected_refunded"))
}

func (t *Terms) validateDeadline() error {
	after := t.ExpiresAfter
	switch {
	case t.Kind != Hold && (t.ExpiresAt != nil || after != 0):
		return Invalid(string(t.Kind), "has terms of another kind")
	case t.ExpiresAt != nil && after != 0:
		return Invalid("hold.expires_after", "cannot be given together with hold.expires_at")
	case after != 0 && after < MinHold || after > MaxHold:
		return Invalid("hold.expires_after", "is %s, want 1s to ten years", after)
	case after%time.Microsecond != 0:
		return Invalid("hold.expires_after", "%s is finer than a microsecond", after)
	}
	return validateTime(t.ExpiresAt, "hold.expires_at")
}

// checkScale returns CodeAmountScale for an amount of a step that is more precise than the currency.
func (t *Terms) checkScale(currency Currency) error {
	if t.Amount != nil {
		if err := checkScale(*t.Amount, currency, t.field("amount")); err != nil {
			return err
		}
	}
	if t.ExpectedRefunded == nil {
		return nil
	}
	return checkScale(*t.ExpectedRefunded, currency, t.field("expected_refunded"))
}

// ConditionField is the path of a field of condition i, as errors about it name it.
func ConditionField(i int, field string) string { return fmt.Sprintf("conditions[%d].%s", i, field) }

// maxConditions is the most conditions of a transfer.
const maxConditions = 100

func (s TransferSpec) validateConditions() error {
	if n := len(s.Terms.Conditions); n > maxConditions {
		return Invalid("conditions", "has %d conditions, at most %d are allowed", n, maxConditions)
	}
	seen := map[AccountID]bool{}
	for i, c := range s.Terms.Conditions {
		in := slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.Account == c.Account })
		switch {
		case !in:
			return Invalid(ConditionField(i, "account"), "%.200q is no account of the transfer", string(c.Account))
		case seen[c.Account]:
			return Invalid(ConditionField(i, "account"), "%s has a condition already", c.Account)
		case c.Balance == nil && c.Version == nil:
			return Invalid(ConditionField(i, "balance"), "is required, or a version")
		case c.Version != nil && *c.Version < 0:
			return Invalid(ConditionField(i, "version"), "is negative")
		}
		seen[c.Account] = true
		if c.Balance != nil {
			if err := validateDigits(*c.Balance, ConditionField(i, "balance")); err != nil {
				return err
			}
		}
	}
	return nil
}

// terms compares the terms of a request with those of the record.
func (d *differences) terms(recorded, given TransferSpec) {
	if recorded.Kind() != given.Kind() {
		*d = append(*d, Violation{Field: "kind", Message: fmt.Sprintf("is %s, the record is a %s", given.Kind(), recorded.Kind())})
		return
	}
	r, g := recorded.Terms.orEmpty(), given.Terms.orEmpty()
	d.add(r.Origin != g.Origin, g.originField())
	d.add(r.Balancing != g.Balancing, "balancing")
	if !r.Balancing && !g.Balancing { // Otherwise it is that of the entries.
		d.add(!sameAmount(r.Amount, g.Amount), g.field("amount"))
	}
	d.add(r.KeepOpen != g.KeepOpen, g.field("keep_open"))
	d.add(!sameTime(r.ExpiresAt, g.ExpiresAt), g.field("expires_at"))
	d.add(r.ExpiresAfter != g.ExpiresAfter, g.field("expires_after"))
	d.add(!sameAmount(r.ExpectedRefunded, g.ExpectedRefunded), g.field("expected_refunded"))
	d.add(r.Reason != g.Reason, g.field("reason"))
	d.add(!slices.EqualFunc(sortedConditions(r.Conditions), sortedConditions(g.Conditions), Condition.same), "conditions")
}

func (t *Terms) orEmpty() *Terms {
	if t == nil {
		return &Terms{Kind: Plain}
	}
	return t
}

func sortedConditions(list []Condition) []Condition {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Condition) int { return compareStrings(a.Account, b.Account) })
	return list
}

func (c Condition) same(o Condition) bool {
	return c.Account == o.Account && sameAmount(c.Balance, o.Balance) &&
		(c.Version == nil && o.Version == nil || c.Version != nil && o.Version != nil && *c.Version == *o.Version)
}

func sameAmount(a, b *decimal.Decimal) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// storedTerms is what a record keeps of its terms beside its kind and origin. Amounts are strings, and times too: a JSON number
// has no exact form.
type storedTerms struct {
	Amount           *decimal.Decimal  `json:"amount,omitempty"`
	Balancing        bool              `json:"balancing,omitempty"`
	KeepOpen         bool              `json:"keep_open,omitempty"`
	ExpiresAt        *time.Time        `json:"expires_at,omitempty"`
	ExpiresAfter     string            `json:"expires_after,omitempty"`
	ExpectedRefunded *decimal.Decimal  `json:"expected_refunded,omitempty"`
	Reason           RefundReason      `json:"reason,omitempty"`
	Conditions       []storedCondition `json:"conditions,omitempty"`
}

type storedCondition struct {
	Account AccountID        `json:"account"`
	Balance *decimal.Decimal `json:"balance,omitempty"`
	Version *int64           `json:"version,omitempty"`
}

// StoredTerms writes what a record keeps of its terms, as a JSON object; "" is nothing.
func (s TransferSpec) StoredTerms() string {
	if s.Terms == nil {
		return ""
	}
	t := s.Terms
	stored := storedTerms{
		Amount: t.Amount, Balancing: t.Balancing, KeepOpen: t.KeepOpen, ExpectedRefunded: t.ExpectedRefunded, Reason: t.Reason,
	}
	if t.ExpiresAt != nil {
		at := t.ExpiresAt.UTC()
		stored.ExpiresAt = &at
	}
	if t.ExpiresAfter != 0 {
		stored.ExpiresAfter = t.ExpiresAfter.String()
	}
	for _, c := range t.Conditions {
		stored.Conditions = append(stored.Conditions, storedCondition(c))
	}
	text, err := json.Marshal(stored)
	if err != nil || string(text) == "{}" { // It cannot fail: there is nothing in it that JSON does not have.
		return ""
	}
	return string(text)
}

// ReadTerms reads back what StoredTerms wrote, with the kind ("" is Plain) and the origin of the record.
func ReadTerms(kind Kind, origin TransferID, text string) (*Terms, error) {
	if kind == "" && text == "" {
		return nil, nil
	}
	t := Terms{Kind: kind, Origin: origin}
	if kind == "" {
		t.Kind = Plain
	}
	if text == "" {
		return &t, nil
	}
	var stored storedTerms
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return nil, fmt.Errorf("read the terms of a transfer: %w", err)
	}
	t.Amount, t.Balancing, t.KeepOpen = stored.Amount, stored.Balancing, stored.KeepOpen
	t.ExpiresAt, t.ExpectedRefunded, t.Reason = stored.ExpiresAt, stored.ExpectedRefunded, stored.Reason
	if stored.ExpiresAfter != "" {
		after, err := time.ParseDuration(stored.ExpiresAfter)
		if err != nil {
			return nil, fmt.Errorf("read the terms of a transfer: %w", err)
		}
		t.ExpiresAfter = after
	}
	for _, c := range stored.Conditions {
		t.Conditions = append(t.Conditions, Condition(c))
	}
	return &t, nil
}
