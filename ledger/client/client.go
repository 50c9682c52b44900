package client

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Options is how a Client behaves. The zero value of each field is its default.
type Options struct {
	// Ledger is the ledger that all calls are about. Default: ledger.DefaultLedger.
	Ledger ledger.Name
	// AttemptTimeout bounds one attempt, after which the same request is sent again. Default 15 s, which is longer than
	// the server's own patience; -1 leaves it to the context.
	AttemptTimeout time.Duration
	// Patience is for how long requests whose outcome is open are sent again. Default 30 s; -1 sends each once.
	Patience time.Duration
	// OnRetry, if it is not nil, is called each time before a request is sent again: with the error of the try before, and for how long it may be
	// tried yet. It must be quick, and safe for concurrent use.
	OnRetry func(err error, left time.Duration)
	// OnAttempt, if it is not nil, is called after each try of a call has been sent, or could not be: with the method, as gRPC calls it, and gRPC's own
	// error, of which NotSent says whether it has left. Of a stream it is called when the stream is open. It must be quick, and safe for concurrent use.
	OnAttempt func(method string, err error)
	// Token says who is calling, where the server asks for it: one that khata token create has printed.
	Token string
	// TokenSource, if it is not nil, is asked for the token before each call, so that it can be replaced while the client is in
	// use. It must be quick, and safe for concurrent use.
	TokenSource func(context.Context) (string, error)
	// TLS encrypts, and may hold a client certificate. Default: plain text, over which a token is only sent on loopback.
	TLS *tls.Config
	// DialOptions are added to the client's own; transport credentials among them replace plain text.
	DialOptions []grpc.DialOption
}

func (o Options) withDefaults() Options {
	if o.AttemptTimeout == 0 {
		o.AttemptTimeout = 15 * time.Second
	}
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	o.Ledger = o.Ledger.Or()
	return o
}

// maxMessage is the server's limit too.
const maxMessage = 64 << 20

// Client is a connection to Khata. It is safe for concurrent use.
type Client struct {
	conn    *grpc.ClientConn
	api     khatav1.LedgerServiceClient
	options Options
	// isNew is whether the server was seen to know kinds of transfers; see knowsTerms.
	isNew *atomic.Bool
}

// Dial makes a client of the server at an address such as "127.0.0.1:7070". It does not connect yet; the first call does.
func Dial(address string, options Options) (*Client, error) {
	dial, err := options.dialOptions(address)
	if err != nil {
		return nil, err
	}
	dial = append(dial,
		// gRPC's own default waits up to two minutes between attempts to connect, long after the server is back.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 1.6, Jitter: 0.2, MaxDelay: longestPause},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
	if options.OnAttempt != nil {
		dial = append(dial, watched(options.OnAttempt)...)
	}
	dial = append(dial, options.DialOptions...)
	conn, err := grpc.NewClient(address, dial...)
	if err != nil {
		return nil, ledger.Errorf(ledger.CodeInvalidArgument, "server address %q: %v", address, err)
	}
	return &Client{conn: conn, api: khatav1.NewLedgerServiceClient(conn), options: options.withDefaults(), isNew: new(atomic.Bool)}, nil
}

// watched tells of each try.
func watched(tell func(method string, err error)) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
			options ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, conn, options...)
			tell(method, err)
			return err
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
			options ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := open(ctx, desc, conn, method, options...)
			tell(method, err)
			return stream, err
		}),
	}
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// WithLedger gives a client of the same connection for another ledger. Closing either closes both.
func (c *Client) WithLedger(name ledger.Name) *Client {
	other := *c
	other.options.Ledger = name.Or()
	return &other
}

const firstPause, longestPause = 20 * time.Millisecond, 2 * time.Second

// call sends a request, and sends it again while its outcome is open.
func call[Req, Resp any](
	ctx context.Context, c *Client, method func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req,
) (resp Resp, err error) {
	err = c.again(ctx, func() (final bool, err error) {
		resp, err = attempt(ctx, c, method, req)
		return false, err
	})
	return resp, err
}

// again does something until it succeeds, fails for good, or the client's patience is spent. It is not done again after an error that is final.
func (c *Client) again(ctx context.Context, do func() (final bool, err error)) error {
	giveUp := time.Now().Add(c.options.Patience)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		final, err := do()
		if err == nil || final {
			return err
		}
		wait := pause/2 + rand.N(pause/2)
		var typed *ledger.Error
		if errors.As(err, &typed) {
			wait = max(wait, typed.RetryAfter)
		}
		if !ledger.CodeOf(err).Retryable() || ctx.Err() != nil || time.Now().Add(wait).After(giveUp) {
			return err
		}
		if c.options.OnRetry != nil {
			c.options.OnRetry(err, time.Until(giveUp))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

func attempt[Req, Resp any](ctx context.Context, c *Client, method func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req) (Resp, error) {
	if c.options.AttemptTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.AttemptTimeout)
		defer cancel()
	}
	resp, err := method(ctx, req)
	return resp, fromGRPC(err)
}
