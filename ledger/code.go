package ledger

import (
	"slices"
	"strings"
)

// Code is the one string by which an error is known from the rule that raised it to the reason of a gRPC ErrorInfo. A Code is itself
// an error, so that errors.Is(err, CodeAccountNotFound) works on both sides of the wire.
//
// Some codes are also the reason of a recorded refusal; see Reasons.
type Code string

// The codes. Each says whether anything can have been written. Where it says "open", the outcome is unknown and the same
// request under the same id finds it out.
const (
	// CodeInvalidArgument: the request is malformed. Nothing was written.
	CodeInvalidArgument Code = "INVALID_ARGUMENT"
	// CodeUnbalanced: debits and credits differ in a currency. Nothing was written.
	CodeUnbalanced Code = "UNBALANCED"
	// CodeCurrencyMismatch: an entry names another currency than its account has. Nothing was written.
	CodeCurrencyMismatch Code = "CURRENCY_MISMATCH"
	// CodeAmountScale: an amount has more decimals than its currency. Nothing was written.
	CodeAmountScale Code = "AMOUNT_SCALE"
	// CodeUnauthenticated: the caller is not known. Nothing was written.
	CodeUnauthenticated Code = "UNAUTHENTICATED"
	// CodePermissionDenied: the caller may not do this. Nothing was written.
	CodePermissionDenied Code = "PERMISSION_DENIED"
	// CodeLedgerNotFound: there is no such ledger. Nothing was written.
	CodeLedgerNotFound Code = "LEDGER_NOT_FOUND"
	// CodeAccountNotFound: an account does not exist (yet). Nothing was written, and nothing was decided.
	CodeAccountNotFound Code = "ACCOUNT_NOT_FOUND"
	// CodeTransferNotFound: no transfer of that id has been decided. Nothing is said of tries still under way.
	CodeTransferNotFound Code = "TRANSFER_NOT_FOUND"
	// CodeCurrencyNotFound: the currency is neither in ISO 4217 nor registered. Nothing was written.
	CodeCurrencyNotFound Code = "CURRENCY_NOT_FOUND"
	// CodeNotFound: something that has no code of its own is not there, such as a bank account or a suspected double charge. Nothing was written.
	CodeNotFound Code = "NOT_FOUND"
	// CodeAlreadyExists: the id is taken by other content. Nothing was written.
	CodeAlreadyExists Code = "ALREADY_EXISTS"
	// CodeInsufficientFunds: the account would go below its floor.
	CodeInsufficientFunds Code = "INSUFFICIENT_FUNDS"
	// CodeCeilingExceeded: the account would go above its ceiling.
	CodeCeilingExceeded Code = "CEILING_EXCEEDED"
	// CodeAccountClosed: the account is closed.
	CodeAccountClosed Code = "ACCOUNT_CLOSED"
	// CodeAccountFrozen: the account is frozen on the side that the entry is on.
	CodeAccountFrozen Code = "ACCOUNT_FROZEN"
	// CodePeriodClosed: the books are closed for the time at which the transfer is to take effect.
	CodePeriodClosed Code = "PERIOD_CLOSED"
	// CodeConditionFailed: an account is not as a condition of the transfer says.
	CodeConditionFailed Code = "CONDITION_FAILED"
	// CodeHoldEnded: the hold has been captured, voided or expired.
	CodeHoldEnded Code = "HOLD_ENDED"
	// CodeHoldExpired: the deadline of the hold has passed.
	CodeHoldExpired Code = "HOLD_EXPIRED"
	// CodeCaptureExceedsHold: the capture is for more than the hold has left.
	CodeCaptureExceedsHold Code = "CAPTURE_EXCEEDS_HOLD"
	// CodeRefundedChanged: something else has been refunded before than expected_refunded says.
	CodeRefundedChanged Code = "REFUNDED_CHANGED"
	// CodeRefundExceedsRest: the refund is for more than is left of the original.
	CodeRefundExceedsRest Code = "REFUND_EXCEEDS_REST"
	// CodeAlreadyReversed: the original has been reversed.
	CodeAlreadyReversed Code = "ALREADY_REVERSED"
	// CodeAlreadyRefunded: the original has been refunded, if only in part, and so cannot be reversed.
	CodeAlreadyRefunded Code = "ALREADY_REFUNDED"
	// CodeDeclinedByGateway: a payment gateway has declined the money that was to come in.
	CodeDeclinedByGateway Code = "DECLINED_BY_GATEWAY"
	// CodeWrongOrigin: the transfer that a step names can have no such step, and never could. Nothing was written.
	CodeWrongOrigin Code = "WRONG_ORIGIN"
	// CodeNotSerialised: the balance of an account is not known while a transfer is decided, and is needed. Nothing was written.
	CodeNotSerialised Code = "NOT_SERIALISED"
	// CodeAtomicCallRefused: another transfer of the atomic call could not be posted. Nothing was written of this one.
	CodeAtomicCallRefused Code = "ATOMIC_CALL_REFUSED"
	// CodeBalanceNotZero: an account with a balance cannot be closed. Nothing was written.
	CodeBalanceNotZero Code = "BALANCE_NOT_ZERO"
	// CodeConflict: retries of a serialization failure or deadlock are spent. Open.
	CodeConflict Code = "CONFLICT"
	// CodeOverloaded: the server, or what stands before it, cannot take more now. Nothing of this try was written; send it
	// again later.
	CodeOverloaded Code = "OVERLOADED"
	// CodeRateLimited: the caller calls too often. Nothing of this try was written; send it again later.
	CodeRateLimited Code = "RATE_LIMITED"
	// CodeUnavailable: the database did not answer in time, or the connection broke. Open.
	CodeUnavailable Code = "UNAVAILABLE"
	// CodeDeadlineExceeded: the caller's deadline passed first. Open.
	CodeDeadlineExceeded Code = "DEADLINE_EXCEEDED"
	// CodeCancelled: the caller went away first. Open.
	CodeCancelled Code = "CANCELLED"
	// CodeInternal: a fault of Khata. Open.
	CodeInternal Code = "INTERNAL"
)

var codes = []Code{
	CodeInvalidArgument, CodeUnbalanced, CodeCurrencyMismatch, CodeAmountScale, CodeUnauthenticated, CodePermissionDenied,
	CodeLedgerNotFound, CodeAccountNotFound, CodeTransferNotFound, CodeCurrencyNotFound, CodeNotFound, CodeAlreadyExists,
	CodeInsufficientFunds, CodeCeilingExceeded, CodeAccountClosed, CodeAccountFrozen, CodePeriodClosed, CodeConditionFailed,
	CodeHoldEnded, CodeHoldExpired, CodeCaptureExceedsHold, CodeRefundedChanged, CodeRefundExceedsRest, CodeAlreadyReversed, CodeAlreadyRefunded,
	CodeDeclinedByGateway, CodeWrongOrigin, CodeNotSerialised, CodeAtomicCallRefused, CodeBalanceNotZero, CodeConflict, CodeOverloaded,
	CodeRateLimited, CodeUnavailable, CodeDeadlineExceeded, CodeCancelled, CodeInternal,
}

// Codes returns every code, for tests that a mapping is complete.
func Codes() []Code { return slices.Clone(codes) }

// Error makes a Code usable as a sentinel with errors.Is.
func (c Code) Error() string { return strings.ToLower(strings.ReplaceAll(string(c), "_", " ")) }

// Open reports whether the outcome of a post that failed with this code is unknown, so that the same id must be sent
// again to learn it.
func (c Code) Open() bool {
	switch c {
	case CodeConflict, CodeUnavailable, CodeDeadlineExceeded, CodeCancelled, CodeInternal:
		return true
	}
	return false
}

// Retryable reports whether sending the same request again can succeed without anything else being changed.
func (c Code) Retryable() bool { return c.Open() || c == CodeOverloaded || c == CodeRateLimited }
