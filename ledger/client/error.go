package client

import (
	"regexp"
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

// noAnswer begins the message where the server was not reached, or has not answered in time.
const noAnswer = "no answer from the server"

// dialing is what gRPC says where there is no connection, before what the network says of it.
var dialing = regexp.MustCompile(`(?s)^.*?connection error: desc = "(?:transport: )?(?:[Ee]rror while dialing:? )?(.*)"$`)

// notConnected is what gRPC says where there has been no connection.
var notConnected = regexp.MustCompile(`connection error: desc = "transport: (?:Error while dialing|authentication handshake failed)`)

// NotSent reports whether an error of gRPC's own says that there was no connection, so that the request of that try has not left. What it says of one
// that broke begins alike, and of such a request nobody knows.
func NotSent(err error) bool {
	st, ok := status.FromError(err)
	return ok && st.Code() == codes.Unavailable && len(st.Details()) == 0 && notConnected.MatchString(st.Message())
}

// plainly says in a sentence what gRPC itself says where it has no answer.
func plainly(st *status.Status) string {
	text := st.Message()
	switch st.Code() {
	case codes.Unavailable:
		found := dialing.FindStringSubmatch(text)
		if found == nil {
			return noAnswer + ": " + text
		}
		why := strings.ReplaceAll(found[1], `\"`, `"`)
		if at := strings.Index(why, "connect: "); strings.HasPrefix(why, "dial ") && at > 0 {
			why = why[at+len("connect: "):] // The address is that of the server, which the caller knows.
		}
		return noAnswer + ": " + why
	case codes.DeadlineExceeded:
		return noAnswer + " in time"
	}
	return text
}

func fromStatus(st *status.Status) error {
	e := &ledger.Error{Code: ledger.CodeInternal, Message: st.Message()}
	if len(st.Details()) == 0 {
		e.Message = plainly(st)
	}
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
