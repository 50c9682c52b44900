package payapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

// The codes of problems that are not the ledger's. A client branches on the code, never on the status alone.
const (
	codeKeyMissing       = "IDEMPOTENCY_KEY_MISSING"
	codeKeyMalformed     = "IDEMPOTENCY_KEY_MALFORMED"
	codeKeyReused        = "IDEMPOTENCY_KEY_REUSED"
	codeInProgress       = "IDEMPOTENCY_IN_PROGRESS"
	codeNotAWallet       = "NOT_A_WALLET"
	codeNotFound         = "NOT_FOUND"
	codeMethodNotAllowed = "METHOD_NOT_ALLOWED"
	codeTooLarge         = "REQUEST_TOO_LARGE"
	codeMediaType        = "UNSUPPORTED_MEDIA_TYPE"
)

// problem is an answer of RFC 9457. It is an error until it is written.
type problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Code   string       `json:"code"`
	Detail string       `json:"detail,omitempty"`
	Fields []fieldError `json:"fields,omitempty"`
	// TransferID and Account are of a payment that was refused, which is on record.
	TransferID string `json:"transfer_id,omitempty"`
	Account    string `json:"account,omitempty"`

	retryAfter time.Duration
}

type fieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

func (p *problem) Error() string { return p.Title + ": " + p.Detail }

// encode gives the bytes of the answer.
func (p *problem) encode() []byte {
	p.Type = "urn:khata:problem:" + p.Code
	body, err := json.Marshal(p)
	if err != nil { // There is nothing in it that JSON does not have.
		panic(err)
	}
	return append(body, '\n')
}

func malformedKey(format string, args ...any) error {
	return &problem{
		Status: http.StatusBadRequest, Code: codeKeyMalformed, Title: "Idempotency-Key is malformed", Detail: fmt.Sprintf(format, args...),
	}
}

func errKeyReused() error {
	return &problem{
		Status: http.StatusUnprocessableEntity, Code: codeKeyReused, Title: "Idempotency-Key was used for another payment",
		Detail: "the first one under this key stands; a payment of other content needs a key of its own",
	}
}

func errInProgress(after time.Duration) error {
	return &problem{
		Status: http.StatusConflict, Code: codeInProgress, Title: "The payment under this key is still running",
		Detail: "send the same request again in a moment", retryAfter: after,
	}
}

// errInReview is of a payment that people look at. It is still running: whatever they find, the same request finds it.
func errInReview() error {
	p := errInProgress(time.Minute).(*problem) //nolint:forcetypeassert,errorlint // It makes one.
	p.Detail = "what became of it is being looked into: send the same request again later, under the same key"
	return p
}

// errOpen is for what may or may not have happened.
func errOpen(after time.Duration, format string, args ...any) error {
	return &ledger.Error{Code: ledger.CodeUnavailable, Message: fmt.Sprintf(format, args...), RetryAfter: after}
}

func invalid(field, format string, args ...any) error {
	return &problem{
		Status: http.StatusBadRequest, Code: string(ledger.CodeInvalidArgument), Title: "The request is malformed",
		Fields: []fieldError{{field, fmt.Sprintf(format, args...)}},
	}
}

// kindOf is what becomes of an error of the ledger.
type kindOf struct {
	status int
	title  string
}

// statuses is the one place where a code of ours becomes a status. 409 is not among them: it means "still running" and nothing else,
// since clients send such requests again by themselves. A test checks that no code is missing.
var statuses = map[ledger.Code]kindOf{
	ledger.CodeInvalidArgument:    {http.StatusBadRequest, "The request is malformed"},
	ledger.CodeUnbalanced:         {http.StatusBadRequest, "The request is malformed"},
	ledger.CodeCurrencyMismatch:   {http.StatusUnprocessableEntity, "The currency is not that of the wallet"},
	ledger.CodeAmountScale:        {http.StatusUnprocessableEntity, "The amount is more precise than the currency"},
	ledger.CodeUnauthenticated:    {http.StatusUnauthorized, "The caller is not known"},
	ledger.CodePermissionDenied:   {http.StatusForbidden, "The caller may not do this"},
	ledger.CodeLedgerNotFound:     {http.StatusForbidden, "The caller may not do this"},
	ledger.CodeAccountNotFound:    {http.StatusUnprocessableEntity, "A wallet does not exist"},
	ledger.CodeTransferNotFound:   {http.StatusUnprocessableEntity, "The payment does not exist"},
	ledger.CodeCurrencyNotFound:   {http.StatusUnprocessableEntity, "The currency is not known"},
	ledger.CodeNotFound:           {http.StatusNotFound, "There is nothing here"},
	ledger.CodeAlreadyExists:      {http.StatusUnprocessableEntity, "Idempotency-Key was used for another payment"},
	ledger.CodeInsufficientFunds:  {http.StatusUnprocessableEntity, "There is not enough money"},
	ledger.CodeCeilingExceeded:    {http.StatusUnprocessableEntity, "The wallet would hold more than it may"},
	ledger.CodeAccountClosed:      {http.StatusUnprocessableEntity, "The wallet is closed"},
	ledger.CodeAccountFrozen:      {http.StatusUnprocessableEntity, "The wallet is frozen"},
	ledger.CodePeriodClosed:       {http.StatusUnprocessableEntity, "The books are closed for that time"},
	ledger.CodeConditionFailed:    {http.StatusUnprocessableEntity, "A condition does not hold"},
	ledger.CodeHoldEnded:          {http.StatusUnprocessableEntity, "The hold has ended"},
	ledger.CodeHoldExpired:        {http.StatusUnprocessableEntity, "The hold has expired"},
	ledger.CodeCaptureExceedsHold: {http.StatusUnprocessableEntity, "The hold has less left"},
	ledger.CodeRefundedChanged:    {http.StatusUnprocessableEntity, "Something else has been refunded meanwhile"},
	ledger.CodeRefundExceedsRest:  {http.StatusUnprocessableEntity, "Less than that is left to refund"},
	ledger.CodeAlreadyReversed:    {http.StatusUnprocessableEntity, "The payment has been reversed"},
	ledger.CodeAlreadyRefunded:    {http.StatusUnprocessableEntity, "The payment has been refunded"},
	ledger.CodeDeclinedByGateway:  {http.StatusUnprocessableEntity, "The card was declined"},
	ledger.CodeWrongOrigin:        {http.StatusUnprocessableEntity, "The payment cannot be refunded"},
	ledger.CodeNotSerialised:      {http.StatusUnprocessableEntity, "The balance of the wallet is not known while paying"},
	ledger.CodeAtomicCallRefused:  {http.StatusUnprocessableEntity, "Another part of the request was refused"},
	ledger.CodeBalanceNotZero:     {http.StatusUnprocessableEntity, "The wallet is not empty"},
	ledger.CodeConflict:           {http.StatusServiceUnavailable, "No answer yet"},
	ledger.CodeOverloaded:         {http.StatusServiceUnavailable, "Too much to do"},
	ledger.CodeRateLimited:        {http.StatusTooManyRequests, "Too many requests"},
	ledger.CodeUnavailable:        {http.StatusServiceUnavailable, "No answer yet"},
	ledger.CodeDeadlineExceeded:   {http.StatusServiceUnavailable, "No answer yet"},
	ledger.CodeCancelled:          {http.StatusServiceUnavailable, "No answer yet"},
	ledger.CodeInternal:           {http.StatusInternalServerError, "Something went wrong"},
}

// asProblem gives the problem that a caller sees for an error.
func asProblem(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	var typed *ledger.Error
	if !errors.As(err, &typed) {
		typed = ledger.Errorf(ledger.CodeInternal, "internal error")
	}
	kind := statuses[typed.Code]
	p = &problem{Status: kind.status, Code: string(typed.Code), Title: kind.title, Detail: typed.Message, retryAfter: typed.RetryAfter}
	for _, v := range typed.Violations {
		p.Fields = append(p.Fields, ours(v))
	}
	if len(p.Fields) > 0 {
		p.Detail = "" // The fields say it better.
	}
	switch {
	case typed.Code == ledger.CodeAlreadyExists:
		return errKeyReused().(*problem) //nolint:forcetypeassert,errorlint // It makes one.
	case typed.Code.Open():
		p.Detail = "whether the payment was made is not known yet: send the same request again, under the same key"
		p.retryAfter = max(p.retryAfter, time.Second)
	case typed.Code.Retryable():
		p.retryAfter = max(p.retryAfter, time.Second)
	}
	return p
}

// fieldNames are what this API calls the fields of the ledger's requests.
var fieldNames = map[string]string{"description": "note", "debit_account": "from", "credit_account": "to", "original": "transfer_id"}

// ours says in the words of this API what is wrong with a field.
func ours(v ledger.Violation) fieldError {
	field := strings.TrimPrefix(v.Field, "refund.")
	if name, ok := fieldNames[field]; ok {
		field = name
	}
	return fieldError{field, strings.ReplaceAll(v.Message, ledger.ReservedPrefix+numberPrefix, numberPrefix)}
}

func writeProblem(w http.ResponseWriter, err error) {
	p := asProblem(err)
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.encode()) // The client may have gone; it will ask again.
}
