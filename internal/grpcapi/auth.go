package grpcapi

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// guard stands before every method. What it lets through is decided by the policy of package auth, and by nothing here.
type guard struct {
	callers *auth.Authenticator // nil: no identity is asked for
	limiter *auth.Limiter
	denied  func(ledger.Code) // may be nil
	log     *slog.Logger
}

// admit puts the caller into the context. It comes before a request is even decoded: nobody who is not known makes the server do more
// than read.
func (g guard) admit(ctx context.Context, method string) (_ context.Context, err error) {
	defer func() {
		if p := recover(); p != nil { // No interceptor stands around it, and it parses what strangers send.
			g.log.Error("panic", "method", method, "panic", p)
			err = ledger.Errorf(ledger.CodeInternal, "internal error")
		}
		g.count(err)
	}()
	rule, ok := auth.RuleOf(method)
	if !ok {
		return ctx, auth.Everyone().Allow(auth.Request{Method: method}) // Which says that nobody may.
	}
	if rule.Scope == auth.Anyone {
		return ctx, nil
	}
	id, err := g.identify(ctx)
	if err != nil {
		return ctx, err
	}
	if err := g.limiter.Take(id.Name); err != nil {
		return ctx, err
	}
	return auth.With(ctx, id), nil
}

// identify finds out who is calling. A token goes before a certificate; one that is not valid is not made up for by a certificate.
func (g guard) identify(ctx context.Context) (*auth.Identity, error) {
	if g.callers == nil {
		return auth.Everyone(), nil
	}
	headers := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(headers) == 0 {
		if p, ok := peer.FromContext(ctx); ok {
			if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
				return g.callers.Certificate(ctx, info.State.PeerCertificates[0])
			}
		}
		return g.callers.Bearer(ctx, "")
	}
	if len(headers) > 1 {
		return nil, ledger.Errorf(ledger.CodeUnauthenticated, "the call carries %d authorizations: send one", len(headers))
	}
	return g.callers.Bearer(ctx, headers[0])
}

// unary authorises a request that has been decoded.
func (g guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	id, ok := auth.From(ctx)
	if !ok { // A method of another service, which admits after it has decoded.
		var err error
		if ctx, err = g.admit(ctx, info.FullMethod); err != nil {
			return nil, err
		}
		if id, ok = auth.From(ctx); !ok {
			return handler(ctx, req)
		}
	}
	if err := id.Allow(about(info.FullMethod, req)); err != nil {
		g.count(err)
		return nil, err
	}
	return handler(ctx, req)
}

func (g guard) count(err error) {
	if err != nil && g.denied != nil {
		g.denied(ledger.CodeOf(err))
	}
}

// about says of a request what the policy has to know.
func about(method string, req any) auth.Request {
	r := auth.Request{Method: method}
	switch in := req.(type) {
	case *khatav1.CreateLedgerRequest:
		r.Ledger = ledger.Name(in.GetName())
	case interface{ GetLedger() string }:
		r.Ledger = ledger.Name(in.GetLedger())
	}
	switch in := req.(type) {
	case *khatav1.PostTransferRequest:
		r.Balances = in.GetIncludeBalances()
	case *khatav1.PostTransfersRequest:
		r.Balances = in.GetIncludeBalances()
	}
	return r
}

// caller is who is calling, as the books record it.
func caller(ctx context.Context) string {
	id, ok := auth.From(ctx)
	if !ok {
		panic("a handler was reached without an identity") // The guard is not in its place.
	}
	return id.Name
}
