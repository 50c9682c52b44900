package grpcapi

import (
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

var holdStatesOut = map[ledger.HoldState]khatav1.HoldState{
	ledger.HoldOpen: khatav1.HoldState_HOLD_STATE_OPEN, ledger.HoldCaptured: khatav1.HoldState_HOLD_STATE_CAPTURED,
	ledger.HoldVoided: khatav1.HoldState_HOLD_STATE_VOIDED, ledger.HoldExpired: khatav1.HoldState_HOLD_STATE_EXPIRED,
}

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
	t.Kind, t.Origin, t.Reason = ledger.Refund, ledger.TransferID(in.GetOriginal()), wire.RefundReasons[in.GetReason()]
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
		return &khatav1.OpenHold{Transfer: wire.Transfer(name, h.Transfer), Progress: encodeProgress(h.Transfer, h.Progress)}
	}
}
