package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

const (
	// MaxEntries is the most entries of one transfer.
	MaxEntries = 1000
	// MaxTransfersPerCall is the most transfers of one call.
	MaxTransfersPerCall = 10_000
)

// Entry is one debit or credit of a positive amount to one account.
type Entry struct {
	Account   AccountID
	Direction Direction
	// Amount is in the currency of the account.
	Amount decimal.Decimal
	// Currency is that of the account. A request gives at most its code, and if it does, it must be the account's.
	Currency Currency
}

// TransferSpec is the caller's request for a transfer. All of it but the order of the entries is the content that a later
// request of the same id is compared with.
type TransferSpec struct {
	ID      TransferID
	Entries []Entry
	// EffectiveAt is the value date, to the microsecond; nil is none, and is not the same as any time.
	EffectiveAt *time.Time
	Description string
	Metadata    Metadata
	// Terms is what the request asks for beyond moving its entries; nil for nothing. The entries of a step (see Kind.IsStep)
	// follow from its origin: a request has none.
	Terms *Terms
	// Declined is the account whose side has declined the transfer: somebody outside has decided, and the books only record it, as a
	// refusal with CodeDeclinedByGateway. It is not content: with it or without, it is the same request, and a record of its id stands.
	// No record has it.
	Declined AccountID
}

// Simple is the shorthand for the common case: one debit and one credit of the same amount.
func Simple(debit, credit AccountID, amount decimal.Decimal, currency CurrencyCode) []Entry {
	return []Entry{
		{Account: debit, Direction: Debit, Amount: amount, Currency: Currency{Code: currency}},
		{Account: credit, Direction: Credit, Amount: amount, Currency: Currency{Code: currency}},
	}
}

// Pair returns what Simple was made of, if the entries are a debit and then a credit of the same amount.
func (s TransferSpec) Pair() (debit, credit AccountID, amount decimal.Decimal, ok bool) {
	if !isSimple(s.Entries) || !s.Entries[0].Amount.Equal(s.Entries[1].Amount) {
		return "", "", decimal.Decimal{}, false
	}
	return s.Entries[0].Account, s.Entries[1].Account, s.Entries[0].Amount, true
}

// isSimple reports whether the entries are what Simple makes, so that errors can speak of the shorthand's fields.
func isSimple(entries []Entry) bool {
	return len(entries) == 2 && entries[0].Direction == Debit && entries[1].Direction == Credit
}

// Validate returns CodeInvalidArgument unless the request is well-formed. It looks at the request only, not at the books.
func (s TransferSpec) Validate() error {
	if s.Kind() == Expiry { // Its id is of Khata's own.
		return s.ValidateDerived()
	}
	if err := s.ID.Validate("transfer_id"); err != nil {
		return err
	}
	return s.validate()
}

// ValidateDerived is Validate for a request whose id may be one of Khata's own.
func (s TransferSpec) ValidateDerived() error {
	if err := s.ID.ValidateFormat("transfer_id"); err != nil {
		return err
	}
	return s.validate()
}

func (s TransferSpec) validate() error {
	if err := s.validateRest(); err != nil {
		return err
	}
	if s.Kind().IsStep() {
		if s.Declined != "" {
			return s.validateDeclined()
		}
		return s.validateTerms()
	}
	if len(s.Entries) < 2 || len(s.Entries) > MaxEntries {
		return Invalid("entries", "has %d entries, want 2 to %d", len(s.Entries), MaxEntries)
	}
	for i, e := range s.Entries {
		if err := e.validate(); err != nil {
			return atEntry(s.Entries, i, err)
		}
	}
	if i := onBothSides(s.Entries); i >= 0 {
		return atEntry(s.Entries, i, Invalid("account", "%s is on both sides of the transfer", s.Entries[i].Account))
	}
	if s.Declined != "" {
		return s.validateDeclined()
	}
	if s.Terms != nil {
		return s.validateTerms()
	}
	return nil
}

// validateDeclined checks what somebody outside can have decided: whether an amount comes in, and no more.
func (s TransferSpec) validateDeclined() error {
	if s.Terms != nil {
		return Invalid("declined", "cannot be given together with terms")
	}
	if !slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.Account == s.Declined }) {
		return Invalid("declined", "%.200q is no account of the transfer", string(s.Declined))
	}
	return nil
}

func (s TransferSpec) validateRest() error {
	if err := validateText(s.Description, "description", MaxDescription); err != nil {
		return err
	}
	return validateTime(s.EffectiveAt, "effective_at")
}

// onBothSides returns the first entry whose account was on the other side before, or -1.
func onBothSides(entries []Entry) int {
	if a, b := entries[0], entries[1]; len(entries) == 2 && (a.Account != b.Account || a.Direction == b.Direction) {
		return -1
	}
	sides := make(map[AccountID]Direction, len(entries))
	for i, e := range entries {
		if side, seen := sides[e.Account]; seen && side != e.Direction {
			return i
		}
		sides[e.Account] = e.Direction
	}
	return -1
}

func (e Entry) validate() error {
	if err := e.Account.Validate("account"); err != nil {
		return err
	}
	if e.Direction != Debit && e.Direction != Credit {
		return Invalid("direction", "is required: debit or credit")
	}
	if e.Currency.Code != "" {
		if err := e.Currency.Code.Validate("currency"); err != nil {
			return err
		}
	}
	return validateAmount(e.Amount, "amount")
}

// validateTime refuses what PostgreSQL would round or cannot hold: nothing is rounded silently.
func validateTime(t *time.Time, field string) error {
	switch {
	case t == nil:
		return nil
	case t.Nanosecond()%1000 != 0:
		return Invalid(field, "%s is finer than a microsecond", t.Format(time.RFC3339Nano))
	case outOfRange(t):
		return Invalid(field, "is outside the years 1 to 9999")
	}
	return nil
}

// EntryField is the path of a field of entry i, as errors about it name it.
func EntryField(i int, field string) string { return fmt.Sprintf("entries[%d].%s", i, field) }

// atEntry names the field of an error about entry i. Of two entries of one amount it speaks in the words of the shorthand,
// whichever form the caller used: they are the same request.
func atEntry(entries []Entry, i int, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	return e.rename(func(field string) string { return fieldOf(entries, i, field) })
}

func fieldOf(entries []Entry, i int, field string) string {
	switch {
	case !isSimple(entries):
		return EntryField(i, field)
	case field == "account" && i == 0:
		return "debit_account"
	case field == "account":
		return "credit_account"
	default:
		return field
	}
}

// Outcome is what became of a transfer that was decided.
type Outcome string

// The outcomes.
const (
	Posted  Outcome = "posted"
	Refused Outcome = "refused"
)

// Refusal is why a transfer was refused: a code that is also a reason, and the account that it is about.
type Refusal struct {
	// Reason is one of Reasons.
	Reason Code
	// Account is "" where the reason is about the transfer's origin, a deadline or its effective_at.
	Account AccountID
}

// Reasons returns every reason of a refusal.
func Reasons() []Code {
	return []Code{
		CodeInsufficientFunds, CodeCeilingExceeded, CodeAccountClosed, CodeAccountFrozen, CodePeriodClosed, CodeConditionFailed,
		CodeHoldEnded, CodeHoldExpired, CodeCaptureExceedsHold,
		CodeRefundedChanged, CodeRefundExceedsRest, CodeAlreadyReversed, CodeAlreadyRefunded,
		CodeDeclinedByGateway,
	}
}

// Transfer is the record of a decided transfer. Once it has a sequence, nothing in it ever changes.
type Transfer struct {
	TransferSpec
	// Refusal is nil for a posted transfer.
	Refusal *Refusal
	// Sequence is the transfer's place in the order of decision; one counter per database, with gaps.
	Sequence int64
	// PostedAt is the database's clock when the transfer was decided, posted or refused. It orders nothing.
	PostedAt time.Time
	// Caller is the authenticated name of who posted it.
	Caller string
	// Step is what a posted transfer of another kind than Plain did; nil otherwise.
	Step *Step
	// Atomic reports whether the transfer was refused as the culprit of an atomic call: it was judged as if what came before it in
	// the call had been posted.
	Atomic bool
}

// Outcome is Posted or Refused.
func (t *Transfer) Outcome() Outcome {
	if t.Refusal != nil {
		return Refused
	}
	return Posted
}

// Balance is the balance of an account at a point in the journal.
type Balance struct {
	Account  AccountID
	Currency Currency
	// Posted is the sum of the entries, in the account's normal direction.
	Posted decimal.Decimal
	// Held is what open holds have reserved of it, and Incoming what open holds will add to it if they are captured.
	Held, Incoming decimal.Decimal
	// Version is the sequence of the last transfer that changed any of these; 0 where there is none. Of a balance as of an effective
	// time it is that of the last one through AsOf: only a later one can change the balance.
	Version int64
	// AsOf is the number of the last transfer that the balance takes notice of, if it was asked for as of a point; otherwise 0.
	AsOf int64
}

// Available is what is posted and not held. A floor is compared with it.
func (b Balance) Available() decimal.Decimal { return b.Posted.Sub(b.Held) }

// Differences names the fields in which a request differs from the record of its id: entries by value and without their
// order, the time to the instant, metadata by meaning. It is empty when the request repeats the record.
func (t *Transfer) Differences(s TransferSpec) []Violation {
	var diff differences
	if t.Terms != nil || s.Terms != nil {
		diff.terms(t.TransferSpec, s)
		if len(diff) > 0 && diff[0].Field == "kind" {
			return diff
		}
	}
	switch {
	case t.Kind().IsStep(): // They follow from the origin.
	case t.Terms != nil && t.Terms.Balancing: // It may have moved less than it was asked for.
		diff.entries(withAmount(t.Entries, *t.Terms.Amount), s.Entries)
	default:
		diff.entries(t.Entries, s.Entries)
	}
	diff.add(!sameTime(t.EffectiveAt, s.EffectiveAt), "effective_at")
	diff.add(t.Description != s.Description, "description")
	diff.add(t.Metadata != s.Metadata, "metadata")
	return diff
}

// withAmount gives the entries of a pair with another amount.
func withAmount(entries []Entry, amount decimal.Decimal) []Entry {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Amount = amount
	}
	return entries
}

type differences []Violation

func (d *differences) add(differs bool, field string) {
	if differs {
		*d = append(*d, Violation{Field: field, Message: "differs from the record"})
	}
}

func (d *differences) entries(recorded, given []Entry) {
	recorded, given = sorted(recorded), sorted(given)
	if isSimple(recorded) && isSimple(given) {
		d.add(recorded[0].Account != given[0].Account, "debit_account")
		d.add(recorded[1].Account != given[1].Account, "credit_account")
		d.add(!recorded[0].Amount.Equal(given[0].Amount) || !recorded[1].Amount.Equal(given[1].Amount), "amount")
		d.add(otherCurrency(recorded[0], given[0]) || otherCurrency(recorded[1], given[1]), "currency")
		return
	}
	d.add(!slices.EqualFunc(recorded, given, func(a, b Entry) bool {
		return compareEntries(a, b) == 0 && !otherCurrency(a, b)
	}), "entries")
}

// otherCurrency reports whether a request names another currency than the record has. Not to name one is no difference.
func otherCurrency(recorded, given Entry) bool {
	return given.Currency.Code != "" && given.Currency.Code != recorded.Currency.Code
}

func sorted(entries []Entry) []Entry {
	if slices.IsSortedFunc(entries, compareEntries) {
		return entries
	}
	entries = slices.Clone(entries)
	slices.SortFunc(entries, compareEntries)
	return entries
}

// compareEntries puts debits first, so that a sorted pair has the shape of the shorthand.
func compareEntries(a, b Entry) int {
	if a.Direction != b.Direction {
		return -strings.Compare(string(a.Direction), string(b.Direction))
	}
	return cmp.Or(strings.Compare(string(a.Account), string(b.Account)), a.Amount.Cmp(b.Amount))
}

func sameTime(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}
