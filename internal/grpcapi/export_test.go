package grpcapi

import (
	"context"
	"time"

	"google.golang.org/grpc"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// What the tests of package grpcapi_test need to put another service behind the same errors.
var (
	StatusCodes      = statusCodes
	ToStatus         = toStatus
	ErrorInterceptor = errorInterceptor
	PanicInterceptor = panicInterceptor
	Shorten          = shorten
)

// DeliverReport is deliver, of reports.
func DeliverReport(stream grpc.ServerStreamingServer[khatav1.RunReportResponse], patience time.Duration,
	produce func(ctx context.Context, send func(*khatav1.RunReportResponse) error) error,
) error {
	return deliver(stream, patience, produce)
}

// GuardStream gives a stream as a handler sees it.
func GuardStream(stream grpc.ServerStream, allow func(request any) error) grpc.ServerStream {
	return &guardedStream{ServerStream: stream, ctx: stream.Context(), allow: allow}
}

// NewImpatient is New, of a server that waits for a caller for as long as patience, and for a file for as long as uploadTime.
func NewImpatient(config Config, patience, uploadTime time.Duration) *grpc.Server {
	return newServer(nil, config, patience, uploadTime)
}

// GuardParts gives a stream as a handler sees it whose request comes in parts.
func GuardParts(stream grpc.ServerStream, allow func(request any) error) grpc.ServerStream {
	return &guardedStream{ServerStream: stream, ctx: stream.Context(), inParts: true, allow: allow}
}
