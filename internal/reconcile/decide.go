package reconcile

import (
	"context"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// LineTake names a line, and how much of it.
type LineTake struct {
	Line int64
	// Amount is in the line's own sign; zero is all that is open.
	Amount decimal.Decimal
}

// EntryTake names an entry, by its transfer or by its sequence, and how much of it.
type EntryTake struct {
	Transfer ledger.TransferID
	Sequence int64
	// Leg is which of several entries that the transfer has in the account; 0 if there is one.
	Leg int
	// Forward is what was brought forward, in place of the others.
	Forward bool
	// Amount is in the bank's sense; zero is all that is open.
	Amount decimal.Decimal
}

// ConfirmSpec asks for a match by a person: of what a run suggests, or of any lines and entries.
type ConfirmSpec struct {
	Ledger      ledger.Name
	BankAccount string
	// Request is what the caller knows the request by: with it again, it is the same decision. "" is one that is not repeated under a name; the same
	// person who confirms the same items again gets the same decision all the same.
	Request string
	// Run and Group name a suggestion, in place of Lines and Entries.
	Run   int64
	Group int
	// Lines and Entries together come to the same; or lines alone, or entries alone, to zero.
	Lines   []LineTake
	Entries []EntryTake
	// Difference approves that what the lines come to beyond the entries is posted. Without it they may differ by what the settings tolerate.
	Difference *DifferenceSpec
	Reason     string
}

// DifferenceSpec says how a difference is posted.
type DifferenceSpec struct {
	// Account is what it goes against, such as an expense for fees. It is of the bank account's currency.
	Account ledger.AccountID
	// EffectiveAt is the value date of the transfer; nil is none.
	EffectiveAt *time.Time
	Description string
}

// IgnoreSpec asks for an item to be ignored: it has no counterpart and needs none. Either Line or Entry is given.
type IgnoreSpec struct {
	Ledger      ledger.Name
	BankAccount string
	Request     string
	Line        *LineTake
	Entry       *EntryTake
	// Reason is required.
	Reason string
}

const maxTakes = 10_000

func (s *ConfirmSpec) validate() error {
	if err := validateRequest(s.Request); err != nil {
		return err
	}
	if err := validateText("reason", s.Reason, false); err != nil {
		return err
	}
	switch {
	case s.Group != 0 && (len(s.Lines) > 0 || len(s.Entries) > 0):
		return ledger.Invalid("group", "and lines or entries cannot be given together")
	case s.Group != 0 && s.Run <= 0:
		return ledger.Invalid("run", "is required with group")
	case s.Group == 0 && len(s.Lines)+len(s.Entries) < 2:
		return tooFew(len(s.Lines), len(s.Entries))
	case len(s.Lines)+len(s.Entries) > maxTakes:
		return ledger.Invalid("lines", "and entries name more than %d items", maxTakes)
	case s.Difference != nil:
		return s.Difference.validate()
	}
	return nil
}

// tooFew says what a match lacks.
func tooFew(lines, entries int) error {
	const or = "; an item that has no counterpart can be ignored"
	switch {
	case lines == 1:
		return ledger.Invalid("entries", "name none, and a match has two or more items: name an entry, too, or another line that the line cancels out with"+or)
	case entries == 1:
		return ledger.Invalid("lines", "name none, and a match has two or more items: name a line, too, or another entry that the entry cancels out with"+or)
	}
	return ledger.Invalid("lines", "and entries name none, and a match has two or more items"+or)
}

func (d *DifferenceSpec) validate() error {
	if err := d.Account.ValidateFormat("difference.account"); err != nil {
		return err
	}
	if d.EffectiveAt != nil && d.EffectiveAt.Nanosecond()%1000 != 0 {
		return ledger.Invalid("difference.effective_at", "is finer than a microsecond")
	}
	return validateText("difference.description", d.Description, false)
}

// Confirm matches lines and entries: a person says that they are the same movement.
//
// It returns CodeInvalidArgument; CodeConflict, naming who decided what and when, if somebody else has decided about one of the items first;
// CodeTransferNotFound; CodeAlreadyExists for a request of another content; and if the difference cannot be posted what the books say of that. Then
// the match is there, and its difference is open: see ApproveDifference.
func (r *Reconciler) Confirm(ctx context.Context, spec ConfirmSpec, caller string) (*Decision, error) {
	if err := spec.validate(); err != nil {
		return nil, err
	}
	a, err := r.BankAccount(ctx, spec.Ledger, spec.BankAccount)
	if err != nil {
		return nil, err
	}
	w := &decision{r: r, account: a, kind: kindManual, rule: RuleManual, request: spec.Request, reason: spec.Reason, caller: caller,
		difference: spec.Difference}
	if spec.Group != 0 {
		err = w.fromGroup(ctx, spec.Run, spec.Group)
	} else {
		err = w.fromTakes(ctx, spec.Lines, spec.Entries)
	}
	if err != nil {
		return nil, err
	}
	var against *journalAccount
	if spec.Difference != nil {
		if against, err = r.differenceAccount(ctx, a, spec.Difference.Account); err != nil {
			return nil, err
		}
	}
	w.against = against
	d, err := w.decide(ctx)
	if err != nil || spec.Difference == nil || d.Posted() || d.Undone != nil {
		return d, err
	}
	return r.postDifference(ctx, a, d)
}

// Ignore says that what is open of an item, or a part of it, has no counterpart and needs none. It returns what Confirm does.
func (r *Reconciler) Ignore(ctx context.Context, spec IgnoreSpec, caller string) (*Decision, error) {
	if err := validateRequest(spec.Request); err != nil {
		return nil, err
	}
	if err := validateText("reason", spec.Reason, true); err != nil {
		return nil, err
	}
	if (spec.Line == nil) == (spec.Entry == nil) {
		return nil, ledger.Invalid("line", "or entry: one of them is required")
	}
	a, err := r.BankAccount(ctx, spec.Ledger, spec.BankAccount)
	if err != nil {
		return nil, err
	}
	w := &decision{r: r, account: a, kind: kindIgnored, rule: RuleManual, request: spec.Request, reason: spec.Reason, caller: caller}
	var lines []LineTake
	var entries []EntryTake
	if spec.Line != nil {
		lines = append(lines, *spec.Line)
	} else {
		entries = append(entries, *spec.Entry)
	}
	if err := w.fromTakes(ctx, lines, entries); err != nil {
		return nil, err
	}
	return w.decide(ctx)
}
