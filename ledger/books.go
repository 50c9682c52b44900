package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// Books is what must be known of a ledger to decide a batch of transfers: the accounts and the records that the batch
// names, as they are while the locks are held. Deciding changes it, so that later transfers of the batch see earlier ones.
//
// It is not safe for concurrent use.
type Books struct {
	accounts  map[AccountID]*bookAccount
	transfers map[TransferID]*Transfer
	origins   map[TransferID]*origin
	decided   []*Transfer
	now       time.Time
	// closedBefore is the time before which the books are closed; zero is not at all, since no effective_at is before that.
	closedBefore time.Time
	undo         *undo
}

// Funds are what an account has, in its normal direction: see Balance.
type Funds struct {
	Posted, Held, Incoming decimal.Decimal
	// Last is the sequence of the last transfer that changed any of these.
	Last int64
}

// add adds amounts, most of which are zero: of each transfer it is done twice and more.
func (f *Funds) add(g Funds) {
	if !g.Posted.IsZero() {
		f.Posted = f.Posted.Add(g.Posted)
	}
	if !g.Held.IsZero() {
		f.Held = f.Held.Add(g.Held)
	}
	if !g.Incoming.IsZero() {
		f.Incoming = f.Incoming.Add(g.Incoming)
	}
}

type bookAccount struct {
	*Account
	Funds
}

// available is what a floor is compared with, and expected what a ceiling is.
func (a *bookAccount) available() decimal.Decimal { return a.Posted.Sub(a.Held) }
func (a *bookAccount) expected() decimal.Decimal  { return a.Posted.Add(a.Incoming) }

// touched is the last transfer of an account that an earlier transfer of the batch has changed: its number is not drawn yet.
const touched = -1

// origin is a transfer that others are steps of, and what has become of it.
type origin struct {
	*Transfer
	Progress
}

// NewBooks makes empty books, with room for so many accounts and transfers.
func NewBooks(accounts, transfers int) *Books {
	return &Books{
		accounts: make(map[AccountID]*bookAccount, accounts), transfers: make(map[TransferID]*Transfer, transfers),
		decided: make([]*Transfer, 0, transfers),
	}
}

// AddAccount enters an account, which must not change any more, and its funds. These matter only if it is serialised, and only if
// it has a floor or a ceiling, or a transfer asks for them: see TransferSpec.NeedsFunds.
func (b *Books) AddAccount(a *Account, funds Funds) {
	b.accounts[a.ID] = &bookAccount{Account: a, Funds: funds}
}

// AddTransfer enters the record of a transfer that was decided earlier.
func (b *Books) AddTransfer(t *Transfer) { b.transfers[t.ID] = t }

// AddOrigin enters a transfer that the batch has steps of, and all its posted steps in their order. One that is decided by the batch
// itself need not be entered.
func (b *Books) AddOrigin(t *Transfer, steps []*Transfer) {
	if b.origins == nil {
		b.origins = map[TransferID]*origin{}
	}
	b.origins[t.ID] = &origin{t, ProgressOf(t, steps)}
}

// SetClock enters the time at which deadlines are judged.
func (b *Books) SetClock(now time.Time) { b.now = now }

// SetClosedBefore enters the time before which the books are closed: see PeriodChange. Without it they are open altogether.
func (b *Books) SetClosedBefore(closedBefore time.Time) { b.closedBefore = closedBefore }

// Decided returns the transfers that Decide has newly decided, in the order of decision. They have no sequence yet.
func (b *Books) Decided() []*Transfer { return b.decided }

// NeedsFunds lists the accounts whose funds the request asks for beyond their floors and ceilings.
func (s TransferSpec) NeedsFunds() []AccountID {
	if s.Terms == nil {
		return nil
	}
	var ids []AccountID
	for _, c := range s.Terms.Conditions {
		ids = append(ids, c.Account)
	}
	if s.Terms.Balancing {
		for _, e := range s.Entries {
			ids = append(ids, e.Account)
		}
	}
	return ids
}

// Decide judges one well-formed request (see TransferSpec.Validate) by one caller. It returns the record of its id and
// whether that was there before: a new record, posted or refused, or the first answer again.
//
// It returns CodeAlreadyExists if the id is taken by other content, naming the fields that differ to the caller who posted
// the record, and to no one else; and, with nothing decided, CodeAccountNotFound, CodeCurrencyMismatch, CodeAmountScale,
// CodeUnbalanced, CodeTransferNotFound for an origin, CodeWrongOrigin, CodeNotSerialised; CodeHoldEnded for the expiry of a hold that
// has ended, and CodeConflict for one whose deadline is still to come; CodeInvalidArgument for a balancing transfer whose amount
// nothing limits.
func (b *Books) Decide(spec TransferSpec, caller string) (record *Transfer, replayed bool, err error) {
	record, err = b.recorded(spec, caller)
	if record != nil || err != nil {
		return record, record != nil, err
	}
	if spec.Kind().IsStep() {
		record, err = b.decideStep(spec)
	} else {
		record, err = b.decideEntries(spec)
	}
	if err != nil {
		return nil, false, err
	}
	record.Caller = caller
	b.enter(record)
	return record, false, nil
}

// enter takes a new record into the books.
func (b *Books) enter(record *Transfer) {
	if record.Refusal == nil {
		b.apply(record)
	}
	b.transfers[record.ID] = record
	b.decided = append(b.decided, record)
}

// recorded gives the record that a request repeats, or nil if its id is free.
func (b *Books) recorded(spec TransferSpec, caller string) (*Transfer, error) {
	record, taken := b.transfers[spec.ID]
	if !taken {
		return nil, nil
	}
	if err := sameRequest(record, spec, caller); err != nil {
		return nil, err
	}
	// What is no amount of its currency was never what was posted, whatever its value.
	if spec.Kind().IsStep() {
		if err := spec.Terms.checkScale(record.Entries[0].Currency); err != nil {
			return nil, err
		}
		return record, nil
	}
	if _, err := b.resolve(spec); err != nil {
		return nil, err
	}
	return record, nil
}

func sameRequest(record *Transfer, spec TransferSpec, caller string) error {
	taken := Errorf(CodeAlreadyExists, "transfer_id %q is taken", string(spec.ID))
	if record.Caller != caller {
		return taken
	}
	if diff := record.Differences(spec); len(diff) > 0 {
		taken.Message += " by a transfer with other content"
		taken.Violations = diff
		return taken
	}
	return nil
}

// resolve checks the entries, and what is expected of their accounts, against the immutable facts of these, and gives the entries
// their currency.
func (b *Books) resolve(spec TransferSpec) ([]Entry, error) {
	entries := spec.Entries
	resolved := slices.Clone(entries)
	var missing []Violation
	for i, e := range entries {
		a, ok := b.accounts[e.Account]
		if !ok {
			missing = append(missing, Violation{
				Field: fieldOf(entries, i, "account"), Message: fmt.Sprintf("%s does not exist", e.Account),
			})
			continue
		}
		if e.Currency.Code != "" && e.Currency.Code != a.Currency.Code {
			return nil, atEntry(entries, i, violation(CodeCurrencyMismatch, "currency", "is %s, but account %s is in %s",
				e.Currency.Code, e.Account, a.Currency.Code))
		}
		if err := checkScale(e.Amount, a.Currency, "amount"); err != nil {
			return nil, atEntry(entries, i, err)
		}
		resolved[i].Currency = a.Currency
	}
	if len(missing) > 0 {
		return nil, (&Error{Code: CodeAccountNotFound, Message: CodeAccountNotFound.Error(), Violations: missing}).capped()
	}
	if debit, credit := resolved[0].Currency.Code, resolved[1].Currency.Code; isSimple(resolved) && debit != credit {
		return nil, violation(CodeCurrencyMismatch, "currency", "the debit account is in %s, the credit account in %s", debit, credit)
	}
	if err := checkBalanced(resolved); err != nil || spec.Terms == nil {
		return resolved, err
	}
	for i, c := range spec.Terms.Conditions {
		if c.Balance == nil {
			continue
		}
		if err := checkScale(*c.Balance, b.accounts[c.Account].Currency, ConditionField(i, "balance")); err != nil {
			return nil, err
		}
	}
	return resolved, nil
}

// checkBalanced returns CodeUnbalanced unless debits and credits agree in each currency.
func checkBalanced(entries []Entry) error {
	if isSimple(entries) && entries[0].Currency.Code == entries[1].Currency.Code && entries[0].Amount.Equal(entries[1].Amount) {
		return nil
	}
	sums := map[CurrencyCode]decimal.Decimal{}
	for _, e := range entries {
		amount := e.Amount
		if e.Direction == Credit {
			amount = amount.Neg()
		}
		sums[e.Currency.Code] = sums[e.Currency.Code].Add(amount)
	}
	var off []string
	for currency, sum := range sums {
		if !sum.IsZero() {
			off = append(off, fmt.Sprintf("%s by %s", currency, sum))
		}
	}
	if len(off) == 0 {
		return nil
	}
	slices.Sort(off)
	if more := len(off) - maxViolations; more > 0 {
		off = append(off[:maxViolations], fmt.Sprintf("and %d more", more))
	}
	return violation(CodeUnbalanced, "entries", "debits minus credits is off in %s; each currency must balance", strings.Join(off, ", "))
}

// decideEntries judges a request that brings its entries: a plain transfer or a hold.
func (b *Books) decideEntries(spec TransferSpec) (*Transfer, error) {
	entries, err := b.resolve(spec)
	if err != nil {
		return nil, err
	}
	declined := spec.Declined
	spec.Entries, spec.Declined = entries, ""
	record := &Transfer{TransferSpec: spec}
	if declined != "" {
		record.Refusal = &Refusal{Reason: CodeDeclinedByGateway, Account: declined}
		return record, nil
	}
	t := spec.Terms
	if t == nil {
		record.Refusal = b.judge(record)
		return record, nil
	}
	// First whether it can be decided at all.
	if err := b.checkFundsKnown(spec); err != nil {
		return nil, err
	}
	if record.Refusal = b.judgeOpen(record); record.Refusal != nil {
		return record, nil
	}
	if record.Refusal = b.judgeConditions(t.Conditions); record.Refusal != nil {
		return record, nil
	}
	if t.Kind == Hold {
		record.Step = b.newHold(spec)
		if record.Step.Deadline != nil && !b.now.Before(*record.Step.Deadline) {
			record.Refusal = &Refusal{Reason: CodeHoldExpired}
		} else {
			record.Refusal = b.judgeFunds(entries)
		}
		if record.Refusal != nil {
			record.Step = nil
		}
		return record, nil
	}
	if t.Balancing {
		amount, refusal := b.room(entries)
		if refusal != nil {
			record.Refusal = refusal
			return record, nil
		}
		record.Entries = withAmount(entries, amount)
	}
	record.Refusal = b.judgeFunds(record.Entries)
	return record, nil
}

// newHold gives what a hold does. A deadline that counts from posted_at is known when that is.
func (b *Books) newHold(spec TransferSpec) *Step {
	step := &Step{Reserved: spec.Entries[0].Amount}
	if at := spec.Terms.ExpiresAt; at != nil {
		utc := at.UTC()
		step.Deadline = &utc
	}
	return step
}

// judgeConditions compares accounts with what the caller expects of them.
func (b *Books) judgeConditions(conditions []Condition) *Refusal {
	for _, c := range conditions {
		a := b.accounts[c.Account]
		if c.Balance != nil && !c.Balance.Equal(a.Posted) || c.Version != nil && *c.Version != a.Last {
			return &Refusal{Reason: CodeConditionFailed, Account: c.Account}
		}
	}
	return nil
}

// checkFundsKnown returns an error unless the funds that the request asks for are known. At least one account must limit a balancing
// transfer.
func (b *Books) checkFundsKnown(spec TransferSpec) error {
	for i, c := range spec.Terms.Conditions {
		if !b.accounts[c.Account].Serialised {
			return notSerialised(ConditionField(i, "account"), c.Account)
		}
	}
	if !spec.Terms.Balancing {
		return nil
	}
	decreased := -1
	for i, e := range spec.Entries {
		a := b.accounts[e.Account]
		switch down := a.Type.NormalBalance() != e.Direction; {
		case down && a.Serialised, !down && a.Ceiling != nil:
			return nil
		case down:
			decreased = i
		}
	}
	if decreased >= 0 {
		return notSerialised(fieldOf(spec.Entries, decreased, "account"), spec.Entries[decreased].Account)
	}
	return Invalid("balancing", "cannot be asked here: the transfer decreases neither account, and neither has a ceiling")
}

func notSerialised(field string, id AccountID) error {
	return violation(CodeNotSerialised, field, "%s is not serialised, so what it has is not known while a transfer is decided: set serialised, "+
		"or a floor or a ceiling", id)
}

// room gives how much of the amount of a pair can be moved: as far down as an account that it decreases has a floor, or to zero if
// that is serialised without one, and as far up as the other has a ceiling.
func (b *Books) room(entries []Entry) (decimal.Decimal, *Refusal) {
	room := entries[0].Amount
	for _, e := range entries {
		a := b.accounts[e.Account]
		reason, left := CodeInsufficientFunds, a.available()
		switch {
		case a.Type.NormalBalance() == e.Direction && a.Ceiling != nil:
			reason, left = CodeCeilingExceeded, a.Ceiling.Sub(a.expected())
		case a.Type.NormalBalance() == e.Direction, !a.Serialised:
			continue
		case a.Floor != nil:
			left = left.Sub(*a.Floor)
		}
		if room = decimal.Min(room, left); !room.IsPositive() {
			return room, &Refusal{Reason: reason, Account: e.Account}
		}
	}
	return room, nil
}

// judge applies the rules that depend on the state of the books. Accounts that take no such entry at all come first, then a
// period that takes none any more, and then accounts without the funds; among accounts the first in the order of the entries
// gives the reason.
func (b *Books) judge(t *Transfer) *Refusal {
	if refusal := b.judgeOpen(t); refusal != nil {
		return refusal
	}
	return b.judgeFunds(t.Entries)
}

// judgeOpen finds what takes no such transfer, whatever anybody has: an account, or the period in which it is to take effect.
func (b *Books) judgeOpen(t *Transfer) *Refusal {
	for _, e := range t.Entries {
		switch a := b.accounts[e.Account]; {
		case a.Closed:
			return &Refusal{Reason: CodeAccountClosed, Account: e.Account}
		case a.Frozen.Blocks(e.Direction):
			return &Refusal{Reason: CodeAccountFrozen, Account: e.Account}
		}
	}
	if at := t.EffectiveAt; at != nil && at.Before(b.closedBefore) {
		return &Refusal{Reason: CodePeriodClosed}
	}
	return nil
}

// judgeFunds compares what the entries leave available with the floors, and what they may bring an account to with the
// ceilings. A hold takes as much of either as if it moved its entries.
func (b *Books) judgeFunds(entries []Entry) *Refusal {
	for _, e := range entries {
		a := b.accounts[e.Account]
		if a.Floor == nil && a.Ceiling == nil {
			continue
		}
		change := b.change(entries, e.Account)
		if a.Floor != nil && change.IsNegative() && a.available().Add(change).LessThan(*a.Floor) {
			return &Refusal{Reason: CodeInsufficientFunds, Account: e.Account}
		}
		if a.Ceiling != nil && change.IsPositive() && a.expected().Add(change).GreaterThan(*a.Ceiling) {
			return &Refusal{Reason: CodeCeilingExceeded, Account: e.Account}
		}
	}
	return nil
}

// change sums what the entries do to an account, in its normal direction.
func (b *Books) change(entries []Entry, id AccountID) decimal.Decimal {
	sum := decimal.Zero
	for _, e := range entries {
		if e.Account == id {
			sum = sum.Add(b.accounts[id].Type.Signed(e.Direction, e.Amount))
		}
	}
	return sum
}

// apply changes the accounts and the origin as a posted transfer says.
func (b *Books) apply(t *Transfer) {
	for _, e := range t.Entries {
		a := b.accounts[e.Account]
		if !a.Serialised {
			continue
		}
		b.undo.account(a)
		a.Last = touched
		a.add(t.adds(a.Type, e))
	}
	if t.Kind().IsStep() {
		o := b.origins[t.Origin()]
		b.undo.origin(o)
		o.add(t)
	}
}
