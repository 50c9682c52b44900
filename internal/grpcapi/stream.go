package grpcapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// stream admits the caller of a stream before anything of it is read, and authorises the request that comes in on it: only that says which
// ledger it is about. Where a request comes in parts, it is the first one that says so.
func (g guard) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, err := g.admit(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	id, ok := auth.From(ctx)
	if !ok { // Anyone may call it.
		return handler(srv, stream)
	}
	return handler(srv, &guardedStream{ServerStream: stream, ctx: ctx, inParts: info.IsClientStream, allow: func(request any) error {
		if info.IsClientStream {
			spec := specOf(request)
			if spec == nil { // Nothing says yet which ledger it is about.
				return ledger.Invalid("spec", "is required in the first message")
			}
			request = spec
		}
		err := id.Allow(about(info.FullMethod, request))
		g.count(err)
		return err
	}})
}

// specOf is the part of a request in parts that says what it is about; nil if a message is another part, or of a method that is not known here.
func specOf(message any) any {
	switch in := message.(type) {
	case *khatav1.ImportBankFileRequest:
		if spec := in.GetSpec(); spec != nil {
			return spec
		}
	case *khatav1.RunDriftReportRequest:
		if spec := in.GetSpec(); spec != nil {
			return spec
		}
	}
	return nil
}

// guardedStream is a stream whose caller is known.
type guardedStream struct {
	grpc.ServerStream
	ctx   context.Context
	allow func(request any) error
	// inParts says that messages after the first are parts of the same request. What they say of a ledger counts for nothing.
	inParts bool
	allowed atomic.Bool
}

// Context has the caller in it.
func (s *guardedStream) Context() context.Context { return s.ctx }

// RecvMsg gives the next request to a handler if the caller may make it. One that is no message of ours is an INVALID_ARGUMENT, as everywhere;
// that needs codec.
func (s *guardedStream) RecvMsg(m any) error {
	in := &received{message: m}
	err := s.ServerStream.RecvMsg(in)
	switch {
	case errors.Is(err, io.EOF) && !s.allowed.Load():
		return ledger.Errorf(ledger.CodeInvalidArgument, "the call has no request")
	case err != nil:
		return err
	case in.fault != nil:
		return ledger.Errorf(ledger.CodeInvalidArgument, "the request cannot be decoded")
	case s.inParts && s.allowed.Load():
		return nil
	}
	if err := s.allow(m); err != nil {
		return err
	}
	s.allowed.Store(true)
	return nil
}

// SendMsg sends nothing before a request was allowed, whatever a handler thinks.
func (s *guardedStream) SendMsg(m any) error {
	if !s.allowed.Load() {
		return ledger.Errorf(ledger.CodeInternal, "an answer before the caller was authorised")
	}
	return s.ServerStream.SendMsg(m)
}

// streamErrorInterceptor turns what handlers of streams return into what callers see.
func streamErrorInterceptor(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return seen(log, info.FullMethod, handler(srv, stream))
	}
}

// streamPanicInterceptor does for streams what panicInterceptor does for single calls.
func streamPanicInterceptor(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = panicked(log, info.FullMethod, p)
			}
		}()
		return handler(srv, stream)
	}
}

// streamPatience is for how long a caller may take nothing of a stream. Until then what makes it holds connections to the database.
const streamPatience = time.Minute

// sender is a stream on which answers go out.
type sender[M any] interface {
	Context() context.Context
	Send(*M) error
}

// deliver sends what produce gives, one message after the other. A caller that goes away, or that takes nothing for as long as patience, ends
// produce, and deliver returns when produce has. Nothing can interrupt a Send, so produce is not where it is waited for.
func deliver[M any](stream sender[M], patience time.Duration, produce func(ctx context.Context, send func(*M) error) error) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	messages := make(chan *M)
	send := func(m *M) error {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case messages <- m:
			return nil
		case <-timer.C:
			return ledger.Errorf(ledger.CodeDeadlineExceeded, "the caller has taken nothing of the answer for %v", patience)
		case <-ctx.Done():
			return gone(ctx)
		}
	}
	var ended struct {
		err      error
		panicked any
	}
	go func() {
		defer close(messages)
		defer func() { ended.panicked = recover() }()
		ended.err = produce(ctx, send)
	}()
	var failed error
	for m := range messages {
		if failed == nil {
			if failed = stream.Send(m); failed != nil {
				cancel()
			}
		}
	}
	switch {
	case ended.panicked != nil:
		panic(ended.panicked) // The interceptor is on this goroutine.
	case failed != nil:
		return failed
	}
	return ended.err
}

// gone is the error of a caller that does not wait any more.
func gone(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ledger.Errorf(ledger.CodeDeadlineExceeded, "the request's deadline passed")
	}
	return ledger.Errorf(ledger.CodeCancelled, "the caller cancelled the request")
}
