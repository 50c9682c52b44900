package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

const defaultAddress = "127.0.0.1:7070"

// clientFlags adds the flags that all client commands have.
func (a *app) clientFlags(cmd *cobra.Command) *cobra.Command {
	cmd.PersistentFlags().StringVar(&a.address, "addr", defaultAddress, "address of the server's gRPC API")
	cmd.PersistentFlags().StringVar(&a.ledger, "ledger", string(ledger.DefaultLedger), "the ledger")
	cmd.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON object a line, with the names of the API")
	cmd.PersistentFlags().StringVar(&a.tokenFile, "token-file", "", "file with the token that says who is calling; or have it in KHATA_TOKEN")
	cmd.PersistentFlags().BoolVar(&a.tls.on, "tls", false, "encrypt, and check the server's certificate")
	cmd.PersistentFlags().StringVar(&a.tls.ca, "tls-ca", "", "file in PEM with the authorities to trust instead of the system's; implies --tls")
	cmd.PersistentFlags().StringVar(&a.tls.cert, "tls-client-cert", "", "file in PEM with the client certificate; implies --tls")
	cmd.PersistentFlags().StringVar(&a.tls.key, "tls-client-key", "", "file in PEM with its key")
	return cmd
}

// security are the flags of how to reach a server. A token is no flag: everybody on the machine can read command lines.
type security struct {
	on            bool
	ca, cert, key string
}

// config gives nil for plain text.
func (s security) config() (*tls.Config, error) {
	if (s.cert == "") != (s.key == "") {
		return nil, usagef("--tls-client-cert and --tls-client-key go together")
	}
	if !s.on && s.ca == "" && s.cert == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if s.ca != "" {
		text, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, usagef("--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, usagef("--tls-ca: there is no PEM certificate in %s", s.ca)
		}
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, usagef("--tls-client-cert: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// dial makes a client of the server that the flags name.
func (a *app) dial(options client.Options) (*client.Client, error) {
	options.Ledger = ledger.Name(a.ledger)
	options.Token = a.getenv("KHATA_TOKEN")
	if a.tokenFile != "" {
		text, err := os.ReadFile(a.tokenFile)
		if err != nil {
			return nil, usagef("--token-file: %w", err)
		}
		options.Token = strings.TrimSpace(string(text))
	}
	var err error
	if options.TLS, err = a.tls.config(); err != nil {
		return nil, err
	}
	options.OnRetry, options.OnAttempt = a.sayWaiting, a.calls.note
	return client.Dial(a.address, options)
}

// sayWaiting says once why nothing happens, so that nobody takes a server that is not there for a command that hangs. Programs are not told.
func (a *app) sayWaiting(err error, left time.Duration) {
	if a.json || !a.waiting.CompareAndSwap(false, true) {
		return
	}
	what := "no answer from " + a.address + " yet"
	switch ledger.CodeOf(err) {
	case ledger.CodeUnavailable, ledger.CodeDeadlineExceeded:
	default:
		what = a.address + " cannot do it yet (" + err.Error() + ")"
	}
	// It has begun a moment ago, and people think in whole seconds.
	_, _ = fmt.Fprintf(a.Err, "%s, trying again for up to %d s%s\n", what, int64(math.Ceil(left.Seconds())), a.isItRunning(err))
}

// isItRunning asks what may have been forgotten, where nobody listens on this machine.
func (a *app) isItRunning(err error) string {
	host, _, _ := net.SplitHostPort(a.address)
	ip := net.ParseIP(host)
	if ledger.CodeOf(err) != ledger.CodeUnavailable || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return ""
	}
	return " (is khata up running?)"
}

// calls are what a command has asked of the server.
type calls struct {
	// wrote says that a request that writes was begun, and sent that one may have reached the server.
	wrote, sent atomic.Bool
}

func (c *calls) note(method string, err error) {
	if client.Reads(method) {
		return
	}
	c.wrote.Store(true)
	if !client.NotSent(err) {
		c.sent.Store(true)
	}
}

// withClient runs f with a connection to the server.
func (a *app) withClient(f func(*client.Client) error) error {
	c, err := a.dial(client.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return f(c)
}
