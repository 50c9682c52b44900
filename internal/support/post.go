package support

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// settle posts a refund that is ready.
func (d *Desk) settle(ctx context.Context, ledgerID int32, r *Refund) (*Refund, error) {
	if r.State != Ready {
		return r, nil
	}
	// What the last one that stands was approved for may have changed until it is posted, or have been found since.
	suspects, err := d.suspectsOfRequest(ctx, r)
	var groups []group
	if err == nil {
		groups, err = d.groups(ctx, d.pool, r.Ledger, ledgerID, r.Original, suspects)
	}
	if err != nil {
		return d.undecided(ctx, ledgerID, r, public(ctx, "look for suspects", err))
	}
	if why := r.twinsToPost(groups); why != "" {
		err = ledger.Errorf(ledger.CodeInvalidArgument, "it is of a payment that was made twice, as its reason says, and %s; if this payment is to go back, "+
			"too, ask for it with another reason", why)
	} else {
		var result error
		if result, err = d.post(ctx, r); err == nil {
			err = result
		}
	}
	var typed *ledger.Error
	if errors.As(err, &typed) && !typed.Code.Retryable() {
		// The books would not even decide it, and never will.
		if err := d.refused(ctx, ledgerID, r, typed); err != nil {
			return nil, err
		}
	} else if err != nil {
		return d.undecided(ctx, ledgerID, r, err)
	}
	after, err := d.refund(ctx, d.pool, r.Ledger, ledgerID, r.Number)
	if err != nil {
		return nil, public(ctx, "read the request", err)
	}
	after.Replayed = r.Replayed
	return after, nil
}

// undecided is the answer about a posting that failed. Another call may have ended it meanwhile; and one that expired in the middle will never happen,
// which is told.
func (d *Desk) undecided(ctx context.Context, ledgerID int32, r *Refund, why error) (*Refund, error) {
	after, err := d.refund(ctx, d.pool, r.Ledger, ledgerID, r.Number)
	switch {
	case err != nil || !after.State.Final():
		return nil, why
	case after.State == Expired:
		return nil, r.expired()
	}
	after.Replayed = r.Replayed
	return after, nil
}

// post posts a refund under the id that follows from its key: it happens once, and whoever posts it again finds out what became of it.
func (d *Desk) post(ctx context.Context, r *Refund) (result, err error) {
	metadata, err := r.metadata()
	if err != nil {
		return nil, err
	}
	posted, err := d.journal.PostWith(ctx, r.Maker, r.Ledger, ledger.TransferSpec{
		ID: RefundID(r.Key), Description: fmt.Sprintf("Refund of %s (%s)", publicID(r.Original), r.Reason), Metadata: metadata,
		Terms: &ledger.Terms{
			Kind: ledger.Refund, Origin: r.Original, Amount: &r.Amount, ExpectedRefunded: &r.ExpectedRefunded, Reason: r.Reason,
		},
	}, d.hook, r)
	return posted.Err, err
}

// metadata is what the transfer says of where it comes from. The note is not in it: it is for colleagues, and the books are read by others.
func (r *Refund) metadata() (ledger.Metadata, error) {
	says := map[string]string{"request": strconv.FormatInt(r.Number, 10), "reason": string(r.Reason), "maker": r.Maker}
	if r.Ticket != "" {
		says["ticket"] = r.Ticket
	}
	if by := r.Approver(); by != "" {
		says["approver"] = by
	}
	text, err := json.Marshal(map[string]any{"refund": says})
	if err != nil {
		return "", err
	}
	return ledger.ParseMetadata(string(text), "metadata")
}

// outcomeHook writes what became of a request, and the audit of it, in the transaction of its transfer. So there is no refund without an approval,
// and none that the audit does not have: the triggers look at each.
type outcomeHook struct{}

// Begin lets all of them through.
func (*outcomeHook) Begin(_ *pgx.Batch, _ int32, passengers []journal.Passenger) func() []error {
	return func() []error { return make([]error, len(passengers)) }
}

// End queues the outcomes.
func (*outcomeHook) End(b *pgx.Batch, ledgerID int32, passengers []journal.Passenger) {
	for _, p := range passengers {
		if !p.New { // What became of it is in the commit of the record that was found.
			continue
		}
		r, _ := p.Baggage.(*Refund)
		outcome, code, message := "posted", "", ""
		if refusal := p.Transfer.Refusal; refusal != nil {
			outcome, code, message = "refused", string(refusal.Reason), refusalText(refusal.Reason, refusal.Account)
		}
		queueOutcome(b, ledgerID, r, outcome, string(p.Transfer.ID), code, message)
	}
}

func queueOutcome(b *pgx.Batch, ledgerID int32, r *Refund, outcome, transfer, code, message string) {
	a := outcomeArgs(ledgerID, r, outcome, transfer, code, message)
	b.Queue(dbsqlc.SupportOutcomeInsert, a.Actor, a.Original, a.AuditOutcome, a.Detail, a.LedgerID, a.RequestNo, a.Outcome, a.TransferID, a.Code,
		a.Message)
}

func outcomeArgs(ledgerID int32, r *Refund, outcome, transfer, code, message string) dbsqlc.SupportOutcomeInsertParams {
	more := map[string]string{"maker": r.Maker}
	if by := r.Approver(); by != "" {
		more["approver"] = by
	}
	if transfer != "" {
		more["transfer"] = transfer
	}
	did := Done
	if code != "" {
		did, more["code"] = Refused, code
	}
	detail, err := json.Marshal(r.event(Actor{Name: r.Maker}, ActionRefundPost, did, more).Detail)
	if err != nil { // It is made of strings.
		panic(err)
	}
	return dbsqlc.SupportOutcomeInsertParams{
		Actor: r.Maker, Original: string(r.Original), AuditOutcome: string(did), Detail: string(detail), LedgerID: ledgerID, RequestNo: r.Number,
		Outcome: outcome, TransferID: transfer, Code: code, Message: message,
	}
}

// refused writes down that the books would not decide a refund.
func (d *Desk) refused(ctx context.Context, ledgerID int32, r *Refund, why *ledger.Error) error {
	message := []rune(why.Error())
	a := outcomeArgs(ledgerID, r, "refused", "", string(why.Code), string(message[:min(len(message), 1000)]))
	err := change(ctx, d.pool, "write down the refusal", func(tx pgx.Tx) error {
		return d.sql.SupportRefusedInsert(ctx, tx, dbsqlc.SupportRefusedInsertParams{
			Actor: a.Actor, Original: a.Original, Detail: a.Detail, LedgerID: a.LedgerID, RequestNo: a.RequestNo, Code: a.Code, Message: a.Message,
		})
	})
	if isViolation(err, "support_outcome_of_content") { // The books have decided it meanwhile, for another server, and what they say counts.
		return nil
	}
	return err
}
