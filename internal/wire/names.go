package wire

import (
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// AccountTypes are the types of accounts.
var AccountTypes = map[khatav1.AccountType]ledger.AccountType{
	khatav1.AccountType_ACCOUNT_TYPE_ASSET:     ledger.Asset,
	khatav1.AccountType_ACCOUNT_TYPE_LIABILITY: ledger.Liability,
	khatav1.AccountType_ACCOUNT_TYPE_EQUITY:    ledger.Equity,
	khatav1.AccountType_ACCOUNT_TYPE_REVENUE:   ledger.Revenue,
	khatav1.AccountType_ACCOUNT_TYPE_EXPENSE:   ledger.Expense,
}

// Frozens are the states of freezing.
var Frozens = map[khatav1.Frozen]ledger.Frozen{
	khatav1.Frozen_FROZEN_NONE:    ledger.FrozenNone,
	khatav1.Frozen_FROZEN_DEBITS:  ledger.FrozenDebits,
	khatav1.Frozen_FROZEN_CREDITS: ledger.FrozenCredits,
	khatav1.Frozen_FROZEN_BOTH:    ledger.FrozenBoth,
}

// Directions are the sides of an entry.
var Directions = map[khatav1.Direction]ledger.Direction{
	khatav1.Direction_DIRECTION_DEBIT:  ledger.Debit,
	khatav1.Direction_DIRECTION_CREDIT: ledger.Credit,
}

// TransferKinds are the kinds of transfers, as events name them.
var TransferKinds = map[khatav1.TransferKind]ledger.Kind{
	khatav1.TransferKind_TRANSFER_KIND_PLAIN:    ledger.Plain,
	khatav1.TransferKind_TRANSFER_KIND_HOLD:     ledger.Hold,
	khatav1.TransferKind_TRANSFER_KIND_CAPTURE:  ledger.Capture,
	khatav1.TransferKind_TRANSFER_KIND_VOID:     ledger.Void,
	khatav1.TransferKind_TRANSFER_KIND_EXPIRY:   ledger.Expiry,
	khatav1.TransferKind_TRANSFER_KIND_REFUND:   ledger.Refund,
	khatav1.TransferKind_TRANSFER_KIND_REVERSAL: ledger.Reversal,
}

// Invert turns such a table round.
func Invert[K, V comparable](m map[K]V) map[V]K {
	inverse := make(map[V]K, len(m))
	for k, v := range m {
		inverse[v] = k
	}
	return inverse
}

// RefundReasons are the reasons of refunds.
var RefundReasons = map[khatav1.RefundReason]ledger.RefundReason{
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
