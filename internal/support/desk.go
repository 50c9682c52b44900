package support

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// Request asks for a refund. One that needs nobody else is posted at once; the other waits for Decide. Where the books refuse it, that is its answer:
// State is RefusedByBooks, with Code and Message, and no error.
//
// The same request under the same key, by the same person, is the same refund, however often it comes; it also ends what an earlier call has begun.
// It returns CodeAlreadyExists, with the fields that differ, for a key that is taken by another request. What cannot be refunded as things stand is
// not written down: CodeInvalidArgument, about the reason for the last one that stands of payments that may be one, CodeAmountScale, CodeTransferNotFound,
// CodeWrongOrigin, CodeAlreadyReversed, CodeRefundedChanged or CodeRefundExceedsRest. After an error that may be asked again the request may be there.
func (d *Desk) Request(ctx context.Context, who Actor, spec RefundSpec) (*Refund, error) {
	if err := first(who.validate(), spec.validate()); err != nil {
		return nil, err
	}
	id, err := d.ledgerID(ctx, spec.Ledger)
	if err != nil {
		return nil, err
	}
	if spec.Transfer, err = d.resolve(ctx, spec.Ledger, spec.Transfer); err != nil {
		return nil, err
	}
	// What is there already is answered whatever has become of the original since.
	r, err := d.requested(ctx, d.pool, id, who, &spec)
	if err != nil {
		return nil, public(ctx, "find the request", err)
	}
	if r == nil {
		currency, suspects, impossible := d.possible(ctx, &spec)
		if impossible == nil {
			r, err = d.request(ctx, id, who, &spec, currency, suspects)
		} else if r, err = d.requested(ctx, d.pool, id, who, &spec); r == nil && err == nil {
			// Had it been there now, the button would have been pressed twice, and the first press have made it impossible to ask again.
			err = impossible
		}
		if err != nil {
			return nil, public(ctx, "ask for the refund", err)
		}
	}
	if r, err = d.settle(ctx, id, r); err == nil {
		d.warned(ctx, id, r)
	}
	return r, err
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// requested finds the request that a key has already; nil is none.
func (d *Desk) requested(ctx context.Context, db dbsqlc.DBTX, ledgerID int32, who Actor, spec *RefundSpec) (*Refund, error) {
	numbers, err := d.sql.SupportRequestByKey(ctx, db, dbsqlc.SupportRequestByKeyParams{LedgerID: ledgerID, Key: spec.Key})
	if err != nil || len(numbers) == 0 {
		return nil, err
	}
	r, err := d.refund(ctx, db, spec.Ledger, ledgerID, numbers[0])
	if err != nil {
		return nil, err
	}
	if differ := spec.differences(r, who.Name); len(differ) > 0 {
		taken := ledger.Errorf(ledger.CodeAlreadyExists, "the key is taken by another request, number %d: take another key", r.Number)
		taken.Violations = differ
		return nil, taken
	}
	r.Replayed = true
	return r, nil
}

// possible looks whether the books would take a refund as things stand, so that what cannot be is told at once and bothers nobody. They look again. It also
// gives what the payment may be one with, where that makes a difference.
func (d *Desk) possible(ctx context.Context, spec *RefundSpec) (ledger.Currency, []Suspect, error) {
	t, p, err := d.journal.Transfer(ctx, spec.Ledger, spec.Transfer)
	if err != nil {
		return ledger.Currency{}, nil, err
	}
	if closed := refundable(t, p); closed != nil {
		return ledger.Currency{}, nil, closed
	}
	for _, a := range []struct {
		field  string
		amount decimal.Decimal
	}{{"amount", spec.Amount}, {"expected_refunded", spec.ExpectedRefunded}} {
		if err := checkScale(a.field, a.amount, p.Currency); err != nil {
			return p.Currency, nil, err
		}
	}
	show := func(a decimal.Decimal) string { return inCurrency(a, p.Currency) }
	switch {
	case !spec.ExpectedRefunded.Equal(p.Refunded):
		return p.Currency, nil, ledger.Errorf(ledger.CodeRefundedChanged, "%s of transfer %s has been refunded, and not %s as the form says: look again",
			show(p.Refunded), t.ID, show(spec.ExpectedRefunded))
	case spec.Amount.GreaterThan(p.Refundable):
		return p.Currency, nil, ledger.Errorf(ledger.CodeRefundExceedsRest, "%s of transfer %s is left, and %s is asked for", show(p.Refundable), t.ID,
			show(spec.Amount))
	}
	if spec.Reason != ledger.ReasonDuplicate {
		return p.Currency, nil, nil
	}
	suspects, err := d.suspectsOf(ctx, spec.Ledger, t)
	return p.Currency, suspects, err
}

// checkScale returns CodeAmountScale for an amount that has more decimals than its currency.
func checkScale(field string, a decimal.Decimal, c ledger.Currency) error {
	if a.Equal(a.Truncate(c.Scale)) {
		return nil
	}
	err := ledger.Errorf(ledger.CodeAmountScale, "too many decimals")
	err.Violations = []ledger.Violation{{Field: field, Message: fmt.Sprintf("%s has more decimals than %s, which has %d", a, c.Code, c.Scale)}}
	return err
}

// request writes a request down, and with it who has asked.
func (d *Desk) request(ctx context.Context, ledgerID int32, who Actor, spec *RefundSpec, currency ledger.Currency, suspects []Suspect) (*Refund, error) {
	var r *Refund
	mine := false // An earlier try of this call may have done it.
	err := change(ctx, d.pool, "ask for the refund", func(tx pgx.Tx) error {
		maker := dbsqlc.SupportLockMakerParams{LedgerID: ledgerID, Currency: string(currency.Code), Maker: who.Name}
		if err := d.sql.SupportLockMaker(ctx, tx, maker); err != nil {
			return err
		}
		var err error
		if r, err = d.requested(ctx, tx, ledgerID, who, spec); err != nil {
			return err
		}
		if r != nil {
			r.Replayed = !mine
			return nil
		}
		if err := d.lockSuspects(ctx, tx, suspects); err != nil {
			return err
		}
		if err := d.twinsToAsk(ctx, tx, ledgerID, spec, suspects); err != nil {
			return err
		}
		approval, version, err := d.approval(ctx, tx, ledgerID, currency.Code, who.Name, spec.Amount)
		if err != nil {
			return err
		}
		number, err := d.sql.SupportRequestInsert(ctx, tx, dbsqlc.SupportRequestInsertParams{
			LedgerID: ledgerID, Key: spec.Key, Original: string(spec.Transfer), Amount: atScale(spec.Amount, currency), Currency: string(currency.Code),
			ExpectedRefunded: atScale(spec.ExpectedRefunded, currency), Reason: string(spec.Reason), Note: spec.Note, Ticket: spec.Ticket, Maker: who.Name,
			Seconds: d.config.Lifetime.Seconds(), Approval: string(approval), LimitVersion: version,
		})
		if isViolation(err, "support_needs_approval") { // The limit has been lowered since it was read.
			return pg.ErrAgain
		}
		if err != nil {
			return err
		}
		if r, err = d.refund(ctx, tx, spec.Ledger, ledgerID, number); err != nil {
			return err
		}
		mine = true
		return d.audit.Record(ctx, tx, r.event(who, ActionRefundRequest, Done, map[string]string{"approval": string(approval)}))
	})
	return r, err
}

// atScale writes an amount with the decimals of its currency.
func atScale(a decimal.Decimal, currency ledger.Currency) decimal.Decimal {
	return decimal.RequireFromString(ledger.FormatAmount(a, currency.Scale))
}

// event is the audit's about a request: the object is the transfer whose money goes back.
func (r *Refund) event(who Actor, action string, outcome Outcome, more map[string]string) Event {
	detail := map[string]string{
		"request": strconv.FormatInt(r.Number, 10), "amount": r.amountText(), "expected_refunded": ledger.FormatAmount(r.ExpectedRefunded, r.Currency.Scale),
		"reason": string(r.Reason), "sha256": r.SHA256,
	}
	if r.Ticket != "" {
		detail["ticket"] = r.Ticket
	}
	for k, v := range more {
		detail[k] = v
	}
	return Event{Ledger: r.Ledger, Actor: who, Action: action, Object: Object{ObjectTransfer, string(r.Original)}, Outcome: outcome, Detail: detail}
}

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
	var suspects []Suspect
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

// sweepBatch is how many requests a sweep posts at most.
const sweepBatch = 100

// sweepPlace is a place among the requests that are to be posted.
type sweepPlace struct {
	at     time.Time
	ledger int32
	no     int64
}

// Sweep posts what was left between its approval and its posting, by a server that died or a database that was away. It goes through up to 100 of
// them, of all ledgers, and returns how many it has settled and the first error. The next one of this desk goes on behind them, and after the last begins
// anew: those that fail again and again do not hold up the others. Any number of servers may sweep at once.
func (d *Desk) Sweep(ctx context.Context) (settled int, err error) {
	d.sweeping.Lock()
	after := d.swept
	d.sweeping.Unlock()
	rows, err := d.toSweep(ctx, after)
	if err == nil && len(rows) == 0 && after != (sweepPlace{}) {
		rows, err = d.toSweep(ctx, sweepPlace{})
	}
	if err != nil {
		return 0, public(ctx, "look for refunds to be posted", err)
	}
	after = sweepPlace{}
	if n := len(rows); n == int(d.sweepBatch) {
		after = sweepPlace{rows[n-1].ExpiresAt, rows[n-1].LedgerID, rows[n-1].RequestNo}
	}
	d.sweeping.Lock()
	d.swept = after
	d.sweeping.Unlock()
	var failed error
	for _, row := range rows {
		r, err := d.refund(ctx, d.pool, ledger.Name(row.Ledger), row.LedgerID, row.RequestNo)
		if err == nil {
			r, err = d.settle(ctx, row.LedgerID, r)
		}
		switch {
		case err != nil:
			failed = first(failed, public(ctx, "post a refund that was left", err))
		case r.State.Final():
			settled++
		}
	}
	return settled, failed
}

func (d *Desk) toSweep(ctx context.Context, after sweepPlace) ([]dbsqlc.SupportRequestsUnsettledRow, error) {
	return d.sql.SupportRequestsUnsettled(ctx, d.pool, dbsqlc.SupportRequestsUnsettledParams{
		Ready: true, Most: d.sweepBatch, AfterAt: after.at, AfterLedger: after.ledger, AfterNo: after.no,
	})
}
