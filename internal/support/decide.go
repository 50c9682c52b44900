package support

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/suspect"
	"github.com/khata-ledger/khata/ledger"
)

// DecisionSpec says what somebody has decided about a request.
type DecisionSpec struct {
	Ledger ledger.Name
	Number int64
	// SHA256 is that of the request as the decider has seen it: see Refund.
	SHA256  string
	Verdict Verdict
	// Note is required to reject.
	Note string
}

var verdictActions = map[Verdict]string{Approve: ActionRefundApprove, Reject: ActionRefundReject, Withdraw: ActionRefundWithdraw}

// Decide approves a request, and posts it; or rejects it; or withdraws it, by its maker. The same decision by the same person again is the same one.
//
// It returns CodeInvalidArgument, also where the request is not as the decider has seen it, has expired, waits for nobody, or is of the last one that stands of
// payments that may be one, as a duplicate; CodeTransferNotFound; CodePermissionDenied for a maker who approves or rejects, and for another one who
// withdraws, which the audit keeps; and CodeAlreadyExists, naming who, where somebody has decided otherwise.
func (d *Desk) Decide(ctx context.Context, who Actor, spec DecisionSpec) (*Refund, error) {
	if err := who.validate(); err != nil {
		return nil, err
	}
	action, ok := verdictActions[spec.Verdict]
	if !ok {
		return nil, ledger.Invalid("verdict", "%.40q is no verdict: want approve, reject or withdraw", string(spec.Verdict))
	}
	if err := validateText("note", spec.Note, spec.Verdict == Reject, maxNote); err != nil {
		return nil, err
	}
	sum, err := hex.DecodeString(spec.SHA256)
	if err != nil || len(sum) != 32 {
		return nil, ledger.Invalid("sha256", "this is not the hash of request %d: that has 64 hexadecimal digits", spec.Number)
	}
	id, err := d.ledgerID(ctx, spec.Ledger)
	if err != nil {
		return nil, err
	}
	r, err := d.refund(ctx, d.pool, spec.Ledger, id, spec.Number)
	if err != nil {
		return nil, public(ctx, "read the request", err)
	}
	var suspects []*suspect.Group
	if spec.Verdict == Approve && r.State == Waiting {
		if suspects, err = d.suspectsOfRequest(ctx, r); err != nil {
			return nil, err
		}
	}
	var denied error
	mine := false
	refusal := newEventID() // Of all tries: that somebody was not allowed to is written down once.
	err = change(ctx, d.pool, "decide about the refund", func(tx pgx.Tx) error {
		denied = nil
		if r, err = d.refund(ctx, tx, spec.Ledger, id, spec.Number); err != nil {
			return err
		}
		if got := r.Decision; got != nil {
			if got.Verdict != spec.Verdict || got.By != who.Name || hex.EncodeToString(sum) != r.SHA256 {
				return ledger.Errorf(ledger.CodeAlreadyExists, "%s has decided about request %d at %s: %s", got.By, r.Number, formatTime(got.At), got.Verdict)
			}
			r.Replayed = !mine
			return nil
		}
		if err := r.decidable(sum); err != nil {
			return err
		}
		if denied = r.fourEyes(who, spec.Verdict); denied != nil {
			e := r.event(who, action, Refused, map[string]string{"why": denied.Error()})
			e.id = refusal
			return d.audit.Record(ctx, tx, e)
		}
		if err := d.lockSuspects(ctx, tx, suspects); err != nil {
			return err
		}
		groups, err := d.groups(ctx, tx, spec.Ledger, id, r.Original, suspects)
		if err != nil {
			return err
		}
		if why := r.twinsToPost(groups); why != "" {
			return ledger.Invalid("number", "request %d cannot be approved as one of a payment that was made twice: %s; reject it, and if this payment is to go "+
				"back, too, ask for it with another reason", r.Number, why)
		}
		err = d.sql.SupportDecisionInsert(ctx, tx, dbsqlc.SupportDecisionInsertParams{
			LedgerID: id, RequestNo: r.Number, Verdict: string(spec.Verdict), Sha256: sum, Note: spec.Note, DecidedBy: who.Name,
		})
		if isViolation(err, "support_decision_in_time") { // It has expired since it was read.
			return r.expired()
		}
		if err != nil {
			return err
		}
		if err := d.audit.Record(ctx, tx, r.event(who, action, Done, map[string]string{"maker": r.Maker})); err != nil {
			return err
		}
		mine = true
		r, err = d.refund(ctx, tx, spec.Ledger, id, spec.Number)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case denied != nil:
		return nil, denied
	}
	if r, err = d.settle(ctx, id, r); err == nil {
		d.warned(ctx, id, r)
	}
	return r, err
}

// decidable looks whether there is anything to decide about a request, and whether it is what the decider has seen.
func (r *Refund) decidable(sum []byte) error {
	switch {
	case r.Approval == ApprovalNone:
		return ledger.Invalid("number", "request %d waits for nobody: it needs no second person", r.Number)
	case hex.EncodeToString(sum) != r.SHA256:
		return ledger.Invalid("sha256", "this is not the hash of request %d: it is another one than was decided about, so look at it again", r.Number)
	case r.State == Expired:
		return r.expired()
	}
	return nil
}

func (r *Refund) expired() error {
	return ledger.Invalid("number", "request %d has expired at %s: if it is still needed, a new one has to be made", r.Number, formatTime(r.ExpiresAt))
}

func isViolation(err error, constraint string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.ConstraintName == constraint
}

// fourEyes says who may not come to a verdict; nil if they may. The database does it again.
func (r *Refund) fourEyes(who Actor, v Verdict) error {
	switch mine := SamePerson(who.Name, r.Maker); {
	case mine && v != Withdraw:
		return ledger.Errorf(ledger.CodePermissionDenied, "request %d is yours: another person has to approve or reject it", r.Number)
	case !mine && v == Withdraw:
		return ledger.Errorf(ledger.CodePermissionDenied, "request %d is by %s, and only they can withdraw it: reject it instead", r.Number, r.Maker)
	}
	return nil
}
