package grpcapi

import (
	"github.com/shopspring/decimal"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

var refundReasons = map[khatav1.RefundReason]ledger.RefundReason{
	khatav1.RefundReason_REFUND_REASON_DUPLICATE:             ledger.ReasonDuplicate,
	khatav1.RefundReason_REFUND_REASON_REQUESTED_BY_CUSTOMER: ledger.ReasonRequestedByCustomer,
	khatav1.RefundReason_REFUND_REASON_FRAUD_SUSPECTED:       ledger.ReasonFraudSuspected,
	khatav1.RefundReason_REFUND_REASON_GOODS_NOT_RECEIVED:    ledger.ReasonGoodsNotReceived,
	khatav1.RefundReason_REFUND_REASON_WRONG_AMOUNT:          ledger.ReasonWrongAmount,
	khatav1.RefundReason_REFUND_REASON_WRONG_RECIPIENT:       ledger.ReasonWrongRecipient,
	khatav1.RefundReason_REFUND_REASON_SERVICE_FAILURE:       ledger.ReasonServiceFailure,
	khatav1.RefundReason_REFUND_REASON_GOODWILL:              ledger.ReasonGoodwill,
	khatav1.RefundReason_REFUND_REASON_TECHNICAL_ERROR:       ledger.ReasonTechnicalError,
	khatav1.RefundReason_REFUND_REASON_OTHER:                 ledger.ReasonOther,
}

var (
	refundReasonsOut = invert(refundReasons)
	holdStatesOut    = map[ledger.HoldState]khatav1.HoldState{
		ledger.HoldOpen: khatav1.HoldState_HOLD_STATE_OPEN, ledger.HoldCaptured: khatav1.HoldState_HOLD_STATE_CAPTURED,
		ledger.HoldVoided: khatav1.HoldState_HOLD_STATE_VOIDED, ledger.HoldExpired: khatav1.HoldState_HOLD_STATE_EXPIRED,
	}
)

// decodeTerms reads what a request asks for beyond moving its entries. Most ask for nothing, and have no terms.
func decodeTerms(in *khatav1.NewTransfer) (*ledger.Terms, error) {
	if in.GetKind() == nil && len(in.GetConditions()) == 0 && !in.GetBalancing() {
		return nil, nil
	}
	t := &ledger.Terms{Kind: ledger.Plain}
	var err error
	switch kind := in.GetKind().(type) {
	case *khatav1.NewTransfer_Hold:
		t.Kind = ledger.Hold
		err = decodeDeadline(t, kind.Hold)
	case *khatav1.NewTransfer_Capture:
		t.Kind, t.Origin, t.KeepOpen = ledger.Capture, ledger.TransferID(kind.Capture.GetHold()), kind.Capture.GetKeepOpen()
		t.Amount, err = decodePart("capture", kind.Capture)
	case *khatav1.NewTransfer_Void:
		t.Kind, t.Origin = ledger.Void, ledger.TransferID(kind.Void.GetHold())
	case *khatav1.NewTransfer_Refund:
		err = decodeRefund(t, kind.Refund)
	case *khatav1.NewTransfer_Reversal:
		t.Kind, t.Origin = ledger.Reversal, ledger.TransferID(kind.Reversal.GetOriginal())
	}
	if err != nil {
		return nil, err
	}
	if t.Conditions, err = decodeConditions(in.GetConditions()); err != nil {
		return nil, err
	}
	if t.Kind.IsStep() {
		err = noEntries(in, t.Kind)
	}
	return t, err
}

func decodeDeadline(t *ledger.Terms, in *khatav1.Hold) (err error) {
	if t.ExpiresAt, err = decodeTime(in.GetExpiresAt(), "hold.expires_at"); err != nil || in.GetExpiresAfter() == nil {
		return err
	}
	if in.GetExpiresAfter().CheckValid() != nil {
		return ledger.Invalid("hold.expires_after", "is not a duration")
	}
	t.ExpiresAfter = in.GetExpiresAfter().AsDuration()
	if t.ExpiresAfter == 0 {
		// To the domain this is no deadline at all, and the money would be held for ever.
		return ledger.Invalid("hold.expires_after", "is 0s, want 1s to ten years; leave it out for a hold that does not expire")
	}
	return nil
}

func decodeRefund(t *ledger.Terms, in *khatav1.Refund) (err error) {
	t.Kind, t.Origin, t.Reason = ledger.Refund, ledger.TransferID(in.GetOriginal()), refundReasons[in.GetReason()]
	if t.Amount, err = decodePart("refund", in); err != nil || in.GetExpectedRefunded() == "" {
		return err
	}
	expected, err := ledger.ParseBalance(in.GetExpectedRefunded(), "refund.expected_refunded")
	t.ExpectedRefunded = &expected
	return err
}

// decodePart reads how much of what is left a step is for; nil is all of it. That has to be said: an amount that was forgotten must not
// become everything.
func decodePart(kind string, in interface {
	GetAmount() string
	GetEverything() bool
}) (*decimal.Decimal, error) {
	field := kind + ".amount"
	switch {
	case in.GetEverything() && in.GetAmount() != "":
		return nil, ledger.Invalid(field, "cannot be given together with %s.everything", kind)
	case in.GetEverything():
		return nil, nil
	case in.GetAmount() == "":
		return nil, ledger.Invalid(field, "is required, or %s.everything", kind)
	}
	amount, err := ledger.ParseAmount(in.GetAmount(), field)
	return &amount, err
}

func decodeConditions(in []*khatav1.Condition) ([]ledger.Condition, error) {
	var conditions []ledger.Condition
	for i, c := range in {
		condition := ledger.Condition{Account: ledger.AccountID(c.GetAccount())}
		if c.Balance != nil {
			balance, err := ledger.ParseBalance(c.GetBalance(), ledger.ConditionField(i, "balance"))
			if err != nil {
				return nil, err
			}
			condition.Balance = &balance
		}
		if c.Version != nil {
			version := c.GetVersion()
			condition.Version = &version
		}
		conditions = append(conditions, condition)
	}
	return conditions, nil
}

// noEntries refuses what a step cannot have, whose entries follow from its origin: to ignore it would be to decide something else
// than the caller has in mind.
func noEntries(in *khatav1.NewTransfer, kind ledger.Kind) error {
	for _, field := range []struct {
		name  string
		given bool
	}{
		{"entries", len(in.GetEntries()) > 0}, {"debit_account", in.GetDebitAccount() != ""}, {"credit_account", in.GetCreditAccount() != ""},
		{"amount", in.GetAmount() != ""}, {"currency", in.GetCurrency() != ""}, {"balancing", in.GetBalancing()},
	} {
		if field.given {
			return ledger.Invalid(field.name, "cannot be given for a %s: what it moves follows from the transfer that it names", kind)
		}
	}
	return nil
}

// encodeTerms puts the kind of a record and what goes with it into out.
func encodeTerms(out *khatav1.Transfer, t *ledger.Transfer) {
	if t.Terms == nil {
		return
	}
	terms, origin, scale := t.Terms, string(t.Terms.Origin), t.Entries[0].Currency.Scale
	amount, everything := encodeOptional(terms.Amount, scale), terms.Amount == nil
	switch terms.Kind {
	case ledger.Hold:
		hold := &khatav1.Hold{ExpiresAt: encodeTime(terms.ExpiresAt)}
		if terms.ExpiresAfter != 0 {
			hold.ExpiresAfter = durationpb.New(terms.ExpiresAfter)
		}
		out.Kind = &khatav1.Transfer_Hold{Hold: hold}
	case ledger.Capture:
		out.Kind = &khatav1.Transfer_Capture{Capture: &khatav1.Capture{
			Hold: origin, Amount: amount, Everything: everything, KeepOpen: terms.KeepOpen,
		}}
	case ledger.Void:
		out.Kind = &khatav1.Transfer_Void{Void: &khatav1.Void{Hold: origin}}
	case ledger.Expiry:
		out.Kind = &khatav1.Transfer_Expiry{Expiry: &khatav1.Expiry{Hold: origin}}
	case ledger.Refund:
		out.Kind = &khatav1.Transfer_Refund{Refund: &khatav1.Refund{
			Original: origin, Amount: amount, Everything: everything,
			ExpectedRefunded: encodeOptional(terms.ExpectedRefunded, scale), Reason: refundReasonsOut[terms.Reason],
		}}
	case ledger.Reversal:
		out.Kind = &khatav1.Transfer_Reversal{Reversal: &khatav1.Reversal{Original: origin}}
	case ledger.Plain:
	}
	for _, c := range terms.Conditions {
		out.Conditions = append(out.Conditions, encodeCondition(c, t.Entries))
	}
	if terms.Balancing {
		out.BalancingAmount = amount
	}
	if t.Step != nil {
		out.Ordinal, out.Ends, out.Deadline = int32(t.Step.Ordinal), t.Step.Ends, encodeTime(t.Step.Deadline) //nolint:gosec // It counts rows.
	}
	if t.Step != nil && terms.Kind.OfHold() {
		out.Released = ledger.FormatAmount(t.Step.Reserved.Neg(), scale)
	}
}

func encodeCondition(c ledger.Condition, entries []ledger.Entry) *khatav1.Condition {
	out := &khatav1.Condition{Account: string(c.Account), Version: c.Version}
	for _, e := range entries {
		if e.Account == c.Account && c.Balance != nil {
			out.Balance = proto.String(encodeAsWritten(*c.Balance, e.Currency.Scale))
			break
		}
	}
	return out
}

// encodeAsWritten prints an amount of a request, which has more decimals than its currency where the request was refused before
// anyone looked.
func encodeAsWritten(amount decimal.Decimal, scale int32) string {
	return ledger.FormatAmount(amount, max(scale, -amount.Exponent()))
}

func encodeOptional(amount *decimal.Decimal, scale int32) string {
	if amount == nil {
		return ""
	}
	return encodeAsWritten(*amount, scale)
}

// maxSteps is how many steps an answer names.
const maxSteps = 1000

// encodeProgress gives what has become of a transfer; nil where nothing can.
func encodeProgress(t *ledger.Transfer, p ledger.Progress) *khatav1.Progress {
	kind := t.Kind()
	if t.Refusal != nil || kind != ledger.Hold && kind != ledger.Plain && kind != ledger.Capture {
		return nil
	}
	out := &khatav1.Progress{Hold: holdStatesOut[p.Hold], Reversed: p.Reversed}
	for _, id := range p.Steps[:min(len(p.Steps), maxSteps)] {
		out.Steps = append(out.Steps, string(id))
	}
	format := func(amount decimal.Decimal) string { return ledger.FormatAmount(amount, p.Currency.Scale) }
	switch {
	case kind == ledger.Hold:
		out.Captured, out.Released, out.Reserved = format(p.Captured), format(p.Released), format(p.Reserved)
	case p.Currency.Code != "":
		out.Refunded, out.Refundable = format(p.Refunded), format(p.Refundable)
	}
	return out
}

func encodeHold(name ledger.Name) func(journal.Progressed) *khatav1.OpenHold {
	return func(h journal.Progressed) *khatav1.OpenHold {
		return &khatav1.OpenHold{Transfer: encodeTransfer(name, h.Transfer), Progress: encodeProgress(h.Transfer, h.Progress)}
	}
}
