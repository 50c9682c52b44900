// Package wire gives the domain's types the form that they have on the wire, in gRPC's answers and in events.
package wire

import (
	"time"

	"github.com/shopspring/decimal"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

var (
	accountTypesOut  = Invert(AccountTypes)
	frozensOut       = Invert(Frozens)
	directionsOut    = Invert(Directions)
	refundReasonsOut = Invert(RefundReasons)
)

// Outcomes are the outcomes of transfers.
var Outcomes = map[ledger.Outcome]khatav1.Outcome{
	ledger.Posted: khatav1.Outcome_OUTCOME_POSTED, ledger.Refused: khatav1.Outcome_OUTCOME_REFUSED,
}

// Account is the wire's form of an account.
func Account(a ledger.Account) *khatav1.Account {
	out := &khatav1.Account{
		Account: string(a.ID), Type: accountTypesOut[a.Type], Currency: string(a.Currency.Code), Name: a.Name,
		Metadata: string(a.Metadata), Serialised: a.Serialised, Frozen: frozensOut[a.Frozen], Closed: a.Closed, Version: a.Version, Scale: a.Currency.Scale,
		CreatedAt: timestamppb.New(a.CreatedAt), UpdatedAt: timestamppb.New(a.UpdatedAt),
	}
	if a.Floor != nil {
		out.Floor = proto.String(ledger.FormatAmount(*a.Floor, a.Currency.Scale))
	}
	if a.Ceiling != nil {
		out.Ceiling = proto.String(ledger.FormatAmount(*a.Ceiling, a.Currency.Scale))
	}
	return out
}

// Transfer is the wire's form of the record of a transfer in a ledger.
func Transfer(name ledger.Name, t *ledger.Transfer) *khatav1.Transfer {
	out := &khatav1.Transfer{
		Ledger: string(name.Or()), TransferId: string(t.ID), Outcome: Outcomes[t.Outcome()], Sequence: t.Sequence,
		PostedAt: timestamppb.New(t.PostedAt), EffectiveAt: Time(t.EffectiveAt), Description: t.Description,
		Metadata: string(t.Metadata), Caller: t.Caller, Entries: Entries(t.Entries), Atomic: t.Atomic,
	}
	if t.Refusal != nil {
		out.Reason, out.ReasonAccount = string(t.Refusal.Reason), string(t.Refusal.Account)
	}
	terms(out, t)
	return out
}

// Direction is the wire's form of a side.
func Direction(d ledger.Direction) khatav1.Direction { return directionsOut[d] }

// Entry is the wire's form of an entry.
func Entry(e ledger.Entry) *khatav1.Entry {
	return &khatav1.Entry{
		Account: string(e.Account), Direction: directionsOut[e.Direction],
		Amount: ledger.FormatAmount(e.Amount, e.Currency.Scale), Currency: string(e.Currency.Code),
	}
}

// Entries are those of entries.
func Entries(list []ledger.Entry) []*khatav1.Entry {
	out := make([]*khatav1.Entry, len(list))
	for i, e := range list {
		out[i] = Entry(e)
	}
	return out
}

// Time is the wire's form of a time; nil is none.
func Time(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

// terms puts the kind of a record and what goes with it into out.
func terms(out *khatav1.Transfer, t *ledger.Transfer) {
	if t.Terms == nil {
		return
	}
	asked, origin, scale := t.Terms, string(t.Terms.Origin), t.Entries[0].Currency.Scale
	amount, everything := optional(asked.Amount, scale), asked.Amount == nil
	switch asked.Kind {
	case ledger.Hold:
		hold := &khatav1.Hold{ExpiresAt: Time(asked.ExpiresAt)}
		if asked.ExpiresAfter != 0 {
			hold.ExpiresAfter = durationpb.New(asked.ExpiresAfter)
		}
		out.Kind = &khatav1.Transfer_Hold{Hold: hold}
	case ledger.Capture:
		out.Kind = &khatav1.Transfer_Capture{Capture: &khatav1.Capture{
			Hold: origin, Amount: amount, Everything: everything, KeepOpen: asked.KeepOpen,
		}}
	case ledger.Void:
		out.Kind = &khatav1.Transfer_Void{Void: &khatav1.Void{Hold: origin}}
	case ledger.Expiry:
		out.Kind = &khatav1.Transfer_Expiry{Expiry: &khatav1.Expiry{Hold: origin}}
	case ledger.Refund:
		out.Kind = &khatav1.Transfer_Refund{Refund: &khatav1.Refund{
			Original: origin, Amount: amount, Everything: everything,
			ExpectedRefunded: optional(asked.ExpectedRefunded, scale), Reason: refundReasonsOut[asked.Reason],
		}}
	case ledger.Reversal:
		out.Kind = &khatav1.Transfer_Reversal{Reversal: &khatav1.Reversal{Original: origin}}
	case ledger.Plain:
	}
	for _, c := range asked.Conditions {
		out.Conditions = append(out.Conditions, condition(c, t.Entries))
	}
	if asked.Balancing {
		out.BalancingAmount = amount
	}
	if t.Step != nil {
		out.Ordinal, out.Ends, out.Deadline = int32(t.Step.Ordinal), t.Step.Ends, Time(t.Step.Deadline) //nolint:gosec // It counts rows.
	}
	if t.Step != nil && asked.Kind.OfHold() {
		out.Released = ledger.FormatAmount(t.Step.Reserved.Neg(), scale)
	}
}

func condition(c ledger.Condition, entries []ledger.Entry) *khatav1.Condition {
	out := &khatav1.Condition{Account: string(c.Account), Version: c.Version}
	for _, e := range entries {
		if e.Account == c.Account && c.Balance != nil {
			out.Balance = proto.String(asWritten(*c.Balance, e.Currency.Scale))
			break
		}
	}
	return out
}

// asWritten prints an amount of a request, which has more decimals than its currency where the request was refused before
// anyone looked.
func asWritten(amount decimal.Decimal, scale int32) string {
	return ledger.FormatAmount(amount, max(scale, -amount.Exponent()))
}

func optional(amount *decimal.Decimal, scale int32) string {
	if amount == nil {
		return ""
	}
	return asWritten(*amount, scale)
}
