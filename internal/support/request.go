package support

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/suspect"
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
func (d *Desk) possible(ctx context.Context, spec *RefundSpec) (ledger.Currency, []*suspect.Group, error) {
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
func (d *Desk) request(ctx context.Context, ledgerID int32, who Actor, spec *RefundSpec, currency ledger.Currency, suspects []*suspect.Group) (*Refund, error) {
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
