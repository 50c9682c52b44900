package grpcapi

import (
	"github.com/shopspring/decimal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

func encodeLedger(l journal.Ledger) *khatav1.Ledger {
	return &khatav1.Ledger{Name: string(l.Name), CreatedAt: timestamppb.New(l.CreatedAt)}
}

func encodeCurrency(c ledger.Currency) *khatav1.Currency {
	return &khatav1.Currency{Code: string(c.Code), Scale: c.Scale}
}

func encodeCreated(c journal.CreatedAccount) *khatav1.CreateAccountResponse {
	return &khatav1.CreateAccountResponse{Account: wire.Account(c.Account), Created: c.Created}
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
		TransferId: string(t.ID), Outcome: wire.Outcomes[t.Outcome()], Sequence: t.Sequence, PostedAt: timestamppb.New(t.PostedAt),
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
		out.Entries = wire.Entries(t.Entries)
	}
	if t.Step != nil {
		out.Deadline = wire.Time(t.Step.Deadline)
	}
	return out
}

func encodeEntry(e journal.AccountEntry, scale int32) *khatav1.AccountEntry {
	return &khatav1.AccountEntry{
		Sequence: e.Cursor.Sequence, TransferId: string(e.TransferID), Direction: wire.Direction(e.Direction),
		Amount: ledger.FormatAmount(e.Amount, scale), Balance: ledger.FormatAmount(e.Balance, scale),
		PostedAt: timestamppb.New(e.PostedAt), EffectiveAt: wire.Time(e.EffectiveAt), Description: e.Description,
	}
}
