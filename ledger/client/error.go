package client

import (
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// fallbacks has the code for errors without an ErrorInfo, which come from gRPC itself or from what stands between.
// Those not listed are CodeInternal, whose outcome is open.
var fallbacks = map[codes.Code]ledger.Code{
	codes.InvalidArgument:   ledger.CodeInvalidArgument,
	codes.Unauthenticated:   ledger.CodeUnauthenticated,
	codes.PermissionDenied:  ledger.CodePermissionDenied,
	codes.ResourceExhausted: ledger.CodeOverloaded,      // a proxy's limit; see tooLarge
	codes.Unimplemented:     ledger.CodeInvalidArgument, // an older server
	codes.Aborted:           ledger.CodeConflict,
	codes.Unavailable:       ledger.CodeUnavailable,
	codes.DeadlineExceeded:  ledger.CodeDeadlineExceeded,
	codes.Canceled:          ledger.CodeCancelled,
}

// fromGRPC turns an error of a call into a *ledger.Error.
func fromGRPC(err error) error {
	if err == nil {
		return nil
	}
	return fromStatus(status.Convert(err))
}

// tooLarge reports whether gRPC itself refused a message over the limit, for which it has no code of its own.
func tooLarge(st *status.Status) bool {
	return st.Code() == codes.ResourceExhausted && strings.Contains(st.Message(), "larger than max")
}

func fromStatus(st *status.Status) error {
	e := &ledger.Error{Code: ledger.CodeInternal, Message: st.Message()}
	if code, ok := fallbacks[st.Code()]; ok {
		e.Code = code
	}
	if tooLarge(st) {
		e.Code = ledger.CodeInvalidArgument // Again it would be as large. The server's own answers stay below the limit.
	}
	var refused *khatav1.BankFileRefusal
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			e.Code = ledger.Code(d.GetReason())
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations, ledger.Violation{Field: v.GetField(), Message: v.GetDescription()})
			}
		case *khatav1.BankFileRefusal:
			refused = d
		}
	}
	// The status carries the whole text, for those who see nothing else.
	e.Message = strings.TrimSuffix(e.Message, (&ledger.Error{Violations: e.Violations}).Error())
	if refused != nil {
		return decodeRefusedFile(refused, e)
	}
	return e
}
