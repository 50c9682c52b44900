package grpcapi

import (
	"time"

	"github.com/shopspring/decimal"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

var (
	accountTypesOut = invert(accountTypes)
	frozensOut      = invert(frozens)
	directionsOut   = invert(directions)
	outcomesOut     = map[ledger.Outcome]khatav1.Outcome{
		ledger.Posted: khatav1.Outcome_OUTCOME_POSTED, ledger.Refused: khatav1.Outcome_OUTCOME_REFUSED,
	}
)

func encodeLedger(l journal.Ledger) *khatav1.Ledger {
	return &khatav1.Ledger{Name: string(l.Name), CreatedAt: timestamppb.New(l.CreatedAt)}
}

func encodeCurrency(c ledger.Currency) *khatav1.Currency {
	return &khatav1.Currency{Code: string(c.Code), Scale: c.Scale}
}

func encodeAccount(a ledger.Account) *khatav1.Account {
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

func encodeCreated(c journal.CreatedAccount) *khatav1.CreateAccountResponse {
	return &khatav1.CreateAccountResponse{Account: encodeAccount(c.Account), Created: c.Created}
}

func encodeBalance(b ledger.Balance) *khatav1.Balance {
	format := func(amount decimal.Decimal) string { return ledger.FormatAmount(amount, b.Currency.Scale) }
	return &khatav1.Balance{
		Account: string(b.Account), Currency: string(b.Currency.Code), Posted: format(b.Posted), Held: format(b.Held),
		Available: format(b.Available()), Incoming: format(b.Incoming), Version: b.Version, AsOfSequence: b.AsOf,
	}
}

func encodeResult(r journal.PostResult) *khatav1.TransferResult {
	t := r.Transfer
	out := &khatav1.TransferResult{
		TransferId: string(t.ID), Outcome: outcomesOut[t.Outcome()], Sequence: t.Sequence, PostedAt: timestamppb.New(t.PostedAt),
		Replayed: r.Replayed,
	}
	if t.Refusal != nil {
		out.Reason, out.ReasonAccount = string(t.Refusal.Reason), string(t.Refusal.Account)
	}
	for _, b := range r.Balances {
		out.Balances = append(out.Balances, encodeBalance(b))
	}
	if t.Terms == nil || t.Refusal != nil {
		return out
	}
	if t.Terms.Kind.IsStep() || t.Terms.Balancing { // The request does not say what was moved.
		out.Entries = each(t.Entries, encodeLeg)
	}
	if t.Step != nil {
		out.Deadline = encodeTime(t.Step.Deadline)
	}
	return out
}

func encodeTransfer(name ledger.Name, t *ledger.Transfer) *khatav1.Transfer {
	out := &khatav1.Transfer{
		Ledger: string(name.Or()), TransferId: string(t.ID), Outcome: outcomesOut[t.Outcome()], Sequence: t.Sequence,
		PostedAt: timestamppb.New(t.PostedAt), EffectiveAt: encodeTime(t.EffectiveAt), Description: t.Description,
		Metadata: string(t.Metadata), Caller: t.Caller, Entries: each(t.Entries, encodeLeg), Atomic: t.Atomic,
	}
	if t.Refusal != nil {
		out.Reason, out.ReasonAccount = string(t.Refusal.Reason), string(t.Refusal.Account)
	}
	encodeTerms(out, t)
	return out
}

func encodeLeg(e ledger.Entry) *khatav1.Entry {
	return &khatav1.Entry{
		Account: string(e.Account), Direction: directionsOut[e.Direction],
		Amount: ledger.FormatAmount(e.Amount, e.Currency.Scale), Currency: string(e.Currency.Code),
	}
}

func encodeEntry(e journal.AccountEntry, scale int32) *khatav1.AccountEntry {
	return &khatav1.AccountEntry{
		Sequence: e.Cursor.Sequence, TransferId: string(e.TransferID), Direction: directionsOut[e.Direction],
		Amount: ledger.FormatAmount(e.Amount, scale), Balance: ledger.FormatAmount(e.Balance, scale),
		PostedAt: timestamppb.New(e.PostedAt), EffectiveAt: encodeTime(e.EffectiveAt), Description: e.Description,
	}
}

func encodeTime(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}
