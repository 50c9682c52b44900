package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// ApproveSpec asks for the difference of a match to be posted.
type ApproveSpec struct {
	Ledger      ledger.Name
	BankAccount string
	Match       int64
	DifferenceSpec
}

// journalAccount is an account of the books, and its number in the database.
type journalAccount struct {
	ledger.Account
	no int64
}

// differenceAccount finds the account that a difference goes against. It returns CodeAccountNotFound, CodeCurrencyMismatch or CodeInvalidArgument.
func (r *Reconciler) differenceAccount(ctx context.Context, a *BankAccount, id ledger.AccountID) (*journalAccount, error) {
	account, err := r.journal.Account(ctx, a.Ledger, id)
	switch {
	case err != nil:
		return nil, err
	case id == a.Account:
		return nil, ledger.Invalid("difference.account", "%s is the bank account's own", id)
	case account.Currency != a.Currency:
		return nil, ledger.Errorf(ledger.CodeCurrencyMismatch, "account %s is in %s, and bank account %s is in %s", id, account.Currency.Code, a.Name,
			a.Currency.Code)
	}
	ids, err := r.sql.BankLedgerAccount(ctx, r.pool, dbsqlc.BankLedgerAccountParams{Ledger: string(a.Ledger.Or()), AccountID: string(id)})
	return &journalAccount{account, ids.AccountNo}, public(ctx, "find the account", err)
}

// approve writes down that a difference may be posted, under which id.
func (r *Reconciler) approve(ctx context.Context, tx pgx.Tx, a *BankAccount, match int64, attempt int, amount decimal.Decimal,
	against *journalAccount,
	spec *DifferenceSpec, caller string) error {
	id := ledger.DerivedID("reconcile", "difference", strconv.FormatInt(match, 10), strconv.Itoa(attempt))
	description := spec.Description
	if description == "" {
		description = fmt.Sprintf("Difference of match %d of %s", match, a.Name)
	}
	return r.sql.ReconcileDifferenceInsert(ctx, tx, dbsqlc.ReconcileDifferenceInsertParams{
		LedgerID: a.ledgerID, BankAccountNo: a.no, MatchNo: match, Attempt: int32(attempt), AccountNo: against.no, Amount: amount, //nolint:gosec // few
		TransferID: string(id), EffectiveAt: spec.EffectiveAt, Description: description, Caller: caller,
	})
}

// ApproveDifference posts the difference of a match to an account: as a transfer under an id that follows from the match, so it happens once, however
// often this is called. It also ends what an earlier call has begun.
//
// It returns CodeInvalidArgument, CodeAccountNotFound or CodeCurrencyMismatch; CodeConflict if somebody has taken the match back, or has approved
// that the difference goes to another account; and what the books say if they refuse the transfer. That is final for this approval, and the next
// call is another one.
func (r *Reconciler) ApproveDifference(ctx context.Context, spec ApproveSpec, caller string) (*Decision, error) {
	if err := spec.validate(); err != nil {
		return nil, err
	}
	a, err := r.BankAccount(ctx, spec.Ledger, spec.BankAccount)
	if err != nil {
		return nil, err
	}
	against, err := r.differenceAccount(ctx, a, spec.Account)
	if err != nil {
		return nil, err
	}
	d, err := r.mustDecision(ctx, r.pool, a, spec.Match)
	if err != nil {
		return nil, public(ctx, "read the decision", err)
	}
	// refused is the attempt that another one may follow, 0 for none: by the time the lock is had, somebody else may have made that.
	refused := 0
	if no, err := r.lastRefused(ctx, a, d); err != nil {
		return nil, err
	} else if no {
		refused = len(d.Differences)
	}
	err = r.change(ctx, "approve the difference", func(tx pgx.Tx) error {
		if err := r.lock(ctx, tx, a); err != nil {
			return err
		}
		if d, err = r.mustDecision(ctx, tx, a, spec.Match); err != nil {
			return err
		}
		attempt := len(d.Differences) + 1
		switch {
		case d.Undone != nil:
			return takenBack(d)
		case d.Kind == kindIgnored || d.Difference().IsZero():
			return ledger.Invalid("match", "%d has no difference to post", d.No)
		case attempt > 1 && attempt-1 != refused:
			last := d.Differences[attempt-2]
			if last.Account != spec.Account {
				return ledger.Errorf(ledger.CodeConflict, "%s approved at %s that the difference of match %d goes to account %s", last.ApprovedBy,
					last.ApprovedAt.Format("2006-01-02 15:04:05Z"), d.No, last.Account)
			}
			return nil
		}
		if err := r.approve(ctx, tx, a, d.No, attempt, d.Difference(), against, &spec.DifferenceSpec, caller); err != nil {
			return err
		}
		d, err = r.mustDecision(ctx, tx, a, spec.Match)
		return err
	})
	if err != nil {
		return nil, err
	}
	if d.Posted() {
		d.Replayed = true
		return d, nil
	}
	return r.postDifference(ctx, a, d)
}

// postWhileMatched posts a transfer only if the match holds at its commit. Whoever takes the match back at the same time comes before it, and then
// nothing is posted; or after it, and then finds it in the books.
func (r *Reconciler) postWhileMatched(ctx context.Context, a *BankAccount, d *Decision, caller string, spec ledger.TransferSpec) error {
	const pause = 50 * time.Millisecond
	for until := time.Now().Add(lockTimeout); ; {
		result, err := r.journal.PostWith(ctx, caller, a.Ledger, spec, whileMatched, &match{a.no, d.No})
		switch {
		case err == nil && errors.Is(result.Err, errTakenBack):
			now, err := r.mustDecision(ctx, r.pool, a, d.No)
			if err != nil {
				return public(ctx, "read the decision", err)
			}
			return takenBack(now)
		case err != nil || !errors.Is(result.Err, errDeciding):
			return postError(result.Transfer, result.Err, err)
		case time.Now().After(until):
			return ledger.Errorf(ledger.CodeUnavailable, "others keep deciding about the same bank account: the difference is approved, and not posted yet")
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return public(ctx, "post the difference", ctx.Err())
		}
	}
}

// match is what rides with a transfer that posts the difference of a match.
type match struct {
	account int32
	no      int64
}

var (
	errDeciding  = errors.New("somebody decides about the bank account")
	errTakenBack = errors.New("the match was taken back")
)

// whileMatched takes transfers out of a batch whose match does not hold any more. It has the lock of the bank account until the commit, for which it
// does not wait: others would wait with it.
var whileMatched = &matchHook{}

type matchHook struct{ _ byte } // Hooks are told apart by their addresses.

// Begin implements journal.Hook.
func (*matchHook) Begin(b *pgx.Batch, ledgerID int32, passengers []journal.Passenger) func() []error {
	locked, undone := make([]bool, len(passengers)), make([]bool, len(passengers))
	of := func(i int) *match { return passengers[i].Baggage.(*match) } //nolint:forcetypeassert // nobody else has this hook
	for i := range passengers {
		b.Queue(dbsqlc.ReconcileTryLock, of(i).account).QueryRow(func(row pgx.Row) error { return row.Scan(&locked[i]) })
	}
	// Statements of their own: they must see what whoever had the lock before has committed.
	for i := range passengers {
		b.Queue(dbsqlc.ReconcileIsUndone, of(i).no, ledgerID).QueryRow(func(row pgx.Row) error { return row.Scan(&undone[i]) })
	}
	return func() []error {
		verdicts := make([]error, len(passengers))
		for i := range verdicts {
			switch {
			case !locked[i]:
				verdicts[i] = errDeciding
			case undone[i]:
				verdicts[i] = errTakenBack
			}
		}
		return verdicts
	}
}

// End implements journal.Hook.
func (*matchHook) End(*pgx.Batch, int32, []journal.Passenger) {}

// takenBack says who has taken a decision back.
func takenBack(d *Decision) error {
	return ledger.Errorf(ledger.CodeConflict, "match %d was taken back by %s at %s: %s", d.No, d.Undone.By, d.Undone.At.Format("2006-01-02 15:04:05Z"),
		d.Undone.Reason)
}

// lastRefused reports whether the books have refused the last transfer by which the difference of a match was to be posted.
func (r *Reconciler) lastRefused(ctx context.Context, a *BankAccount, d *Decision) (bool, error) {
	if len(d.Differences) == 0 {
		return false, nil
	}
	found, err := r.journal.TransfersNamed(ctx, a.Ledger, []ledger.TransferID{d.Differences[len(d.Differences)-1].Transfer})
	return len(found) > 0 && found[0].Refusal != nil, err
}

// postDifference posts what was approved, and makes its entry part of the match. Both can be done again.
func (r *Reconciler) postDifference(ctx context.Context, a *BankAccount, d *Decision) (*Decision, error) {
	if d.Undone != nil { // Nothing is posted for what holds no more.
		return nil, takenBack(d)
	}
	approved := d.Differences[len(d.Differences)-1]
	amount := a.sense(approved.Amount)
	debit, credit := a.Account, approved.Account
	if amount.IsNegative() {
		debit, credit, amount = credit, debit, amount.Neg()
	}
	err := r.postWhileMatched(ctx, a, d, approved.ApprovedBy, ledger.TransferSpec{
		ID: approved.Transfer, Entries: ledger.Simple(debit, credit, amount, a.Currency.Code), EffectiveAt: approved.EffectiveAt,
		Description: approved.Description,
	})
	if err != nil {
		return nil, err
	}
	found, err := r.journal.AccountEntriesOf(ctx, a.Ledger, a.Account, nil, []ledger.TransferID{approved.Transfer})
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, ledger.Errorf(ledger.CodeInternal, "transfer %s has %d entries in account %s", approved.Transfer, len(found), a.Account)
	}
	item := DecisionItem{Sequence: found[0].Sequence, Leg: found[0].Leg, Amount: a.sense(found[0].Amount), Day: a.dayOf(&found[0]),
		PostsDifference: true}
	err = r.change(ctx, "post the difference", func(tx pgx.Tx) error {
		if err := r.lock(ctx, tx, a); err != nil {
			return err
		}
		if d, err = r.mustDecision(ctx, tx, a, d.No); err != nil || d.Posted() {
			return err
		}
		if d.Undone != nil {
			return ledger.Errorf(ledger.CodeConflict, "match %d was taken back by %s at %s while its difference was posted: transfer %s is open", d.No,
				d.Undone.By,
				d.Undone.At.Format("2006-01-02 15:04:05Z"), approved.Transfer)
		}
		numbers, err := r.sql.ReconcileNumbers(ctx, tx, 1)
		if err != nil {
			return err
		}
		items := dbsqlc.ReconcileItemsInsertParams{
			LedgerID: a.ledgerID, BankAccountNo: a.no, MatchNo: d.No, PostsDifference: true, Number: numbers[0],
		}
		addItem(&items, len(d.Items)+1, item)
		if err := r.sql.ReconcileItemsInsert(ctx, tx, items); err != nil {
			return err
		}
		d, err = r.mustDecision(ctx, tx, a, d.No)
		return err
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}
