package reconcile

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// UnmatchSpec asks for a decision to be taken back.
type UnmatchSpec struct {
	Ledger      ledger.Name
	BankAccount string
	Match       int64
	// Reason is required.
	Reason string
	// ReverseDifference reverses the transfer with which its difference was posted, and matches the two entries with each other. Otherwise that entry is
	// open afterwards, as all others of the match.
	ReverseDifference bool
}

// Unmatch takes a decision back: its items are open again. The decision stays where it is, with who took it back and why, and later runs do not
// confirm the same items again without a person.
//
// The same person with the same reason again gets the same answer. It returns CodeInvalidArgument; CodeConflict, naming who, if somebody else has
// taken it back; and what the books say if the difference cannot be reversed, when the decision has been taken back already.
func (r *Reconciler) Unmatch(ctx context.Context, spec UnmatchSpec, caller string) (*Decision, error) {
	if err := validateText("reason", spec.Reason, true); err != nil {
		return nil, err
	}
	a, err := r.BankAccount(ctx, spec.Ledger, spec.BankAccount)
	if err != nil {
		return nil, err
	}
	var d *Decision
	mine := false // An earlier try of this call may have done it.
	err = r.change(ctx, "take the decision back", func(tx pgx.Tx) error {
		if err := r.lock(ctx, tx, a); err != nil {
			return err
		}
		if d, err = r.mustDecision(ctx, tx, a, spec.Match); err != nil {
			return err
		}
		if u := d.Undone; u != nil {
			if u.By != caller || u.Reason != spec.Reason {
				return takenBack(d)
			}
			d.Replayed = !mine
			return nil
		}
		numbers, err := r.sql.ReconcileNumbers(ctx, tx, 1)
		if err != nil {
			return err
		}
		err = r.sql.ReconcileUndoInsert(ctx, tx, dbsqlc.ReconcileUndoInsertParams{
			LedgerID: a.ledgerID, BankAccountNo: a.no, MatchNo: d.No, UndoNo: numbers[0], Reason: spec.Reason, Caller: caller,
		})
		if err != nil {
			return err
		}
		mine = true
		d, err = r.mustDecision(ctx, tx, a, spec.Match)
		return err
	})
	if err != nil || !spec.ReverseDifference {
		return d, err
	}
	return d, r.reverseDifference(ctx, a, d, caller)
}

// reverseDifference reverses the transfer that posts the difference of a match that was taken back, and matches the two entries with each other.
func (r *Reconciler) reverseDifference(ctx context.Context, a *BankAccount, d *Decision, caller string) error {
	if len(d.Differences) == 0 {
		return nil
	}
	// It may have been posted, and whoever posted it may have been stopped before it was made part of the match: the books know.
	original := d.Differences[len(d.Differences)-1].Transfer
	found, err := r.journal.TransfersNamed(ctx, a.Ledger, []ledger.TransferID{original})
	if err != nil || len(found) == 0 || found[0].Refusal != nil {
		return err
	}
	reversal := ledger.DerivedID("reconcile", "undo", strconv.FormatInt(d.No, 10))
	result, err := r.journal.PostWith(ctx, caller, a.Ledger, ledger.TransferSpec{
		ID: reversal, Description: fmt.Sprintf("Difference of match %d of %s, taken back", d.No, a.Name),
		Terms: &ledger.Terms{Kind: ledger.Reversal, Origin: original},
	}, nil, nil)
	if err := postError(result.Transfer, result.Err, err); err != nil {
		return err
	}
	w := &decision{
		r: r, account: a, kind: kindManual, rule: RuleManual, request: requestUndo + strconv.FormatInt(d.No, 10), caller: caller,
		reason: fmt.Sprintf("match %d was taken back: %s", d.No, d.Undone.Reason),
	}
	if err := w.fromTakes(ctx, nil, []EntryTake{{Transfer: original}, {Transfer: reversal}}); err != nil {
		return err
	}
	_, err = w.decide(ctx)
	return err
}

// postError is why a transfer was not posted; nil if it was.
func postError(t *ledger.Transfer, result, err error) error {
	switch {
	case err != nil:
		return err
	case result != nil:
		return result
	case t != nil && t.Refusal != nil:
		return ledger.Errorf(t.Refusal.Reason, "transfer %s is refused: %s of account %s", t.ID, t.Refusal.Reason.Error(), t.Refusal.Account)
	}
	return nil
}
