package client

import (
	"context"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/khata-ledger/khata/ledger"
)

// dialOptions says how to encrypt, and who is calling. A token is never sent over a network in plain text: whoever reads it there can
// do all that its owner can.
func (o Options) dialOptions(address string) ([]grpc.DialOption, error) {
	transport := insecure.NewCredentials()
	if o.TLS != nil {
		transport = credentials.NewTLS(o.TLS.Clone())
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport)}
	source := o.TokenSource
	if source == nil && o.Token != "" {
		source = func(context.Context) (string, error) { return o.Token, nil }
	}
	if source == nil {
		return options, nil
	}
	local := onLoopback(address)
	if !local && o.TLS == nil && len(o.DialOptions) == 0 {
		return nil, ledger.Errorf(ledger.CodeInvalidArgument, "the token would go to %s in plain text: use TLS", address)
	}
	return append(options, grpc.WithPerRPCCredentials(bearer{source, !local})), nil
}

// onLoopback reports whether what is sent to an address stays on this machine.
func onLoopback(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// bearer sends a token with each call.
type bearer struct {
	source func(context.Context) (string, error)
	secure bool
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.source(ctx)
	if err != nil {
		return nil, status.Errorf(codes.Unauthenticated, "there is no token to send: %v", err)
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (b bearer) RequireTransportSecurity() bool { return b.secure }
