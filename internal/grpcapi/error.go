package grpcapi

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/ledger"
)

// domain is the domain of the ErrorInfo in every error.
const domain = "khata"

// statusCodes is the one place where a code of ours becomes one of gRPC's. A test checks that none is missing.
var statusCodes = map[ledger.Code]codes.Code{
	ledger.CodeInvalidArgument:    codes.InvalidArgument,
	ledger.CodeUnbalanced:         codes.InvalidArgument,
	ledger.CodeCurrencyMismatch:   codes.InvalidArgument,
	ledger.CodeAmountScale:        codes.InvalidArgument,
	ledger.CodeWrongOrigin:        codes.InvalidArgument,
	ledger.CodeUnauthenticated:    codes.Unauthenticated,
	ledger.CodePermissionDenied:   codes.PermissionDenied,
	ledger.CodeLedgerNotFound:     codes.NotFound,
	ledger.CodeAccountNotFound:    codes.NotFound,
	ledger.CodeTransferNotFound:   codes.NotFound,
	ledger.CodeCurrencyNotFound:   codes.NotFound,
	ledger.CodeNotFound:           codes.NotFound,
	ledger.CodeAlreadyExists:      codes.AlreadyExists,
	ledger.CodeInsufficientFunds:  codes.FailedPrecondition,
	ledger.CodeAccountClosed:      codes.FailedPrecondition,
	ledger.CodeAccountFrozen:      codes.FailedPrecondition,
	ledger.CodeBalanceNotZero:     codes.FailedPrecondition,
	ledger.CodeCeilingExceeded:    codes.FailedPrecondition,
	ledger.CodePeriodClosed:       codes.FailedPrecondition,
	ledger.CodeConditionFailed:    codes.FailedPrecondition,
	ledger.CodeHoldEnded:          codes.FailedPrecondition,
	ledger.CodeHoldExpired:        codes.FailedPrecondition,
	ledger.CodeCaptureExceedsHold: codes.FailedPrecondition,
	ledger.CodeRefundedChanged:    codes.FailedPrecondition,
	ledger.CodeRefundExceedsRest:  codes.FailedPrecondition,
	ledger.CodeAlreadyReversed:    codes.FailedPrecondition,
	ledger.CodeAlreadyRefunded:    codes.FailedPrecondition,
	ledger.CodeDeclinedByGateway:  codes.FailedPrecondition,
	ledger.CodeNotSerialised:      codes.FailedPrecondition,
	ledger.CodeAtomicCallRefused:  codes.FailedPrecondition,
	ledger.CodeConflict:           codes.Aborted,
	ledger.CodeOverloaded:         codes.ResourceExhausted,
	ledger.CodeRateLimited:        codes.ResourceExhausted,
	ledger.CodeUnavailable:        codes.Unavailable,
	ledger.CodeDeadlineExceeded:   codes.DeadlineExceeded,
	ledger.CodeCancelled:          codes.Canceled,
	ledger.CodeInternal:           codes.Internal,
}

// toStatus gives the status that a caller sees for an error. An error without a code is internal, and its text stays
// inside.
func toStatus(err error) *status.Status {
	var typed *ledger.Error
	if !errors.As(err, &typed) {
		typed = ledger.Errorf(ledger.CodeInternal, "internal error")
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: string(typed.Code), Domain: domain}}
	if len(typed.Violations) > 0 {
		fields := &errdetails.BadRequest{}
		for _, v := range typed.Violations {
			fields.FieldViolations = append(fields.FieldViolations,
				&errdetails.BadRequest_FieldViolation{Field: v.Field, Description: readable(v.Message)})
		}
		details = append(details, fields)
	}
	var refused *reconcile.RefusedFile
	if errors.As(err, &refused) {
		details = append(details, encodeRefusal(refused))
	}
	if typed.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(typed.RetryAfter)})
	}
	st := status.New(statusCodes[typed.Code], readable(typed.Error()))
	detailed, err := st.WithDetails(details...)
	if err != nil {
		return st
	}
	return detailed
}

// readable makes text that strangers have had a hand in fit for the details of a status, which cannot be sent with anything but UTF-8.
func readable(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

// errorInterceptor turns what handlers return into what callers see.
func errorInterceptor(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		resp, err := handler(ctx, req)
		if err != nil {
			return nil, seen(log, info.FullMethod, err)
		}
		return resp, nil
	}
}

// seen is what the caller of a method sees of an error.
func seen(log *slog.Logger, method string, err error) error {
	if _, isStatus := status.FromError(err); isStatus { // health and reflection speak for themselves
		return err
	}
	if ledger.CodeOf(err) == ledger.CodeInternal {
		log.Error("internal error", "method", method, "error", err)
	}
	return toStatus(err).Err()
}

// panicInterceptor keeps one request's bug from ending the server, and with it everybody's.
func panicInterceptor(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = panicked(log, info.FullMethod, p)
			}
		}()
		return handler(ctx, req)
	}
}

func panicked(log *slog.Logger, method string, p any) error {
	log.Error("panic", "method", method, "panic", p)
	return ledger.Errorf(ledger.CodeInternal, "internal error")
}

// received is a request on its way in, and what was wrong with it.
type received struct {
	message any
	fault   error
}

// codec reads messages as gRPC's own does, but for a request that is no message of ours it does not fail: gRPC would answer
// INTERNAL by itself, which promises nothing about what was written, and would not hear what we say.
type codec struct{ encoding.CodecV2 }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if in, ok := v.(*received); ok {
		in.fault = c.CodecV2.Unmarshal(data, in.message)
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// typedDecoding makes a request that is no message of ours an INVALID_ARGUMENT, as everything malformed is, once its caller is
// admitted. It needs codec.
func typedDecoding(desc grpc.ServiceDesc, admit func(ctx context.Context, method string) (context.Context, error)) grpc.ServiceDesc {
	methods := make([]grpc.MethodDesc, len(desc.Methods))
	for i, method := range desc.Methods {
		handler, name := method.Handler, "/"+desc.ServiceName+"/"+method.MethodName
		method.Handler = func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			ctx, err := admit(ctx, name)
			if err != nil {
				return nil, toStatus(err).Err()
			}
			return handler(srv, ctx, func(v any) error {
				in := &received{message: v}
				if err := dec(in); err != nil {
					return err
				}
				if in.fault != nil {
					return toStatus(ledger.Errorf(ledger.CodeInvalidArgument, "the request cannot be decoded")).Err()
				}
				return nil
			}, interceptor)
		}
		methods[i] = method
	}
	desc.Methods = methods
	return desc
}
