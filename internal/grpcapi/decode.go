package grpcapi

import (
	"time"

	"github.com/shopspring/decimal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

func decodeAccount(in *khatav1.NewAccount) (ledger.AccountSpec, error) {
	spec := ledger.AccountSpec{
		ID: ledger.AccountID(in.GetAccount()), Type: wire.AccountTypes[in.GetType()], Currency: ledger.CurrencyCode(in.GetCurrency()),
		Name: in.GetName(), Serialised: in.GetSerialised(),
	}
	var err error
	if spec.Metadata, err = ledger.ParseMetadata(in.GetMetadata(), "metadata"); err != nil {
		return spec, err
	}
	if in != nil && in.Floor != nil {
		if spec.Floor, err = decodeLimit(in.GetFloor(), "floor"); err != nil {
			return spec, err
		}
	}
	if in != nil && in.Ceiling != nil {
		spec.Ceiling, err = decodeLimit(in.GetCeiling(), "ceiling")
	}
	return spec, err
}

func decodeLimit(text, field string) (*decimal.Decimal, error) {
	limit, err := ledger.ParseBalance(text, field)
	return &limit, err
}

// decodeLimitUpdate reads a floor or ceiling of an update: absent leaves it, present and empty removes it.
func decodeLimitUpdate(text *string, field string) (limit *decimal.Decimal, remove bool, err error) {
	switch {
	case text == nil:
		return nil, false, nil
	case *text == "":
		return nil, true, nil
	}
	limit, err = decodeLimit(*text, field)
	return limit, false, err
}

func decodeUpdate(in *khatav1.UpdateAccountRequest) (ledger.AccountUpdate, error) {
	var update ledger.AccountUpdate
	if in.Name != nil {
		name := in.GetName()
		update.Name = &name
	}
	if in.Metadata != nil {
		metadata, err := ledger.ParseMetadata(in.GetMetadata(), "metadata")
		if err != nil {
			return update, err
		}
		update.Metadata = &metadata
	}
	var err error
	if update.Floor, update.RemoveFloor, err = decodeLimitUpdate(in.Floor, "floor"); err != nil {
		return update, err
	}
	if update.Ceiling, update.RemoveCeiling, err = decodeLimitUpdate(in.Ceiling, "ceiling"); err != nil {
		return update, err
	}
	if in.Serialised != nil {
		serialised := in.GetSerialised()
		update.Serialised = &serialised
	}
	if in.GetFrozen() != khatav1.Frozen_FROZEN_UNSPECIFIED {
		frozen := wire.Frozens[in.GetFrozen()]
		update.Frozen = &frozen
	}
	if in.Closed != nil {
		closed := in.GetClosed()
		update.Closed = &closed
	}
	return update, nil
}

func decodeTransfer(in *khatav1.NewTransfer) (ledger.TransferSpec, error) {
	spec := ledger.TransferSpec{ID: ledger.TransferID(in.GetTransferId()), Description: in.GetDescription()}
	// The id first: an error about anything else is looked up by it.
	if err := spec.ID.Validate("transfer_id"); err != nil {
		return spec, err
	}
	var err error
	if spec.Terms, err = decodeTerms(in); err != nil {
		return spec, err
	}
	if !spec.Kind().IsStep() {
		if spec.Entries, err = decodeEntries(in); err != nil {
			return spec, err
		}
	}
	if in.GetBalancing() {
		spec.Terms.Balancing, spec.Terms.Amount = true, &spec.Entries[0].Amount
	}
	if spec.EffectiveAt, err = decodeTime(in.GetEffectiveAt(), "effective_at"); err != nil {
		return spec, err
	}
	spec.Metadata, err = ledger.ParseMetadata(in.GetMetadata(), "metadata")
	return spec, err
}

func decodeEntries(in *khatav1.NewTransfer) ([]ledger.Entry, error) {
	shorthand := in.GetDebitAccount() != "" || in.GetCreditAccount() != "" || in.GetAmount() != "" || in.GetCurrency() != ""
	switch {
	case shorthand && len(in.GetEntries()) > 0:
		return nil, ledger.Invalid("entries", "cannot be given together with debit_account, credit_account, amount or currency")
	case len(in.GetEntries()) > ledger.MaxEntries:
		return nil, ledger.Invalid("entries", "has %d entries, want 2 to %d", len(in.GetEntries()), ledger.MaxEntries)
	case len(in.GetEntries()) == 0:
		amount, err := ledger.ParseAmount(in.GetAmount(), "amount")
		if err != nil {
			return nil, err
		}
		return ledger.Simple(ledger.AccountID(in.GetDebitAccount()), ledger.AccountID(in.GetCreditAccount()), amount,
			ledger.CurrencyCode(in.GetCurrency())), nil
	}
	entries := make([]ledger.Entry, len(in.GetEntries()))
	for i, e := range in.GetEntries() {
		amount, err := ledger.ParseAmount(e.GetAmount(), ledger.EntryField(i, "amount"))
		if err != nil {
			return nil, err
		}
		entries[i] = ledger.Entry{
			Account: ledger.AccountID(e.GetAccount()), Direction: wire.Directions[e.GetDirection()], Amount: amount,
			Currency: ledger.Currency{Code: ledger.CurrencyCode(e.GetCurrency())},
		}
	}
	return entries, nil
}

func decodeAsOf(sequence *int64, postedAt, effectiveAt *timestamppb.Timestamp) (at ledger.AsOf, err error) {
	at.Sequence = sequence
	if at.PostedAt, err = decodeTime(postedAt, "as_of_posted_at"); err != nil {
		return at, err
	}
	at.EffectiveAt, err = decodeTime(effectiveAt, "as_of_effective_at")
	return at, err
}

func decodeTime(in *timestamppb.Timestamp, field string) (*time.Time, error) {
	if in == nil {
		return nil, nil
	}
	if err := in.CheckValid(); err != nil {
		return nil, ledger.Invalid(field, "is not a time between the years 1 and 9999")
	}
	t := in.AsTime()
	return &t, nil
}
