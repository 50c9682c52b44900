package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// bench is one database with servers on it.
type bench struct {
	// superDSN is for looking at the database around the service.
	superDSN string
	// verify checks the books with the service's own code.
	verify func(testing.TB)
	routes []*route
	// servers are those that run in this process, in the order of the routes.
	servers []*server.Server
}

// onDatabase is a bench without servers.
func onDatabase(db *pgtest.DB) *bench {
	return &bench{superDSN: db.SuperDSN(), verify: func(t testing.TB) {
		t.Helper()
		ledgertest.CheckBooks(t, db)
	}}
}

// newBench starts servers in this process; dsn is how they reach the database.
func newBench(t testing.TB, db *pgtest.DB, dsn string, servers int) *bench {
	t.Helper()
	b := onDatabase(db)
	for range servers {
		s := startServer(t, dsn)
		b.servers = append(b.servers, s)
		b.routes = append(b.routes, routeTo(s.GRPCAddr()))
	}
	return b
}

func startServer(t testing.TB, dsn string) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), server.Config{
		DSN: dsn, GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Logger: logger(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// logger fails the test on whatever a server logs as an error: nothing that these tests do is a fault of Khata. Why a transaction lost
// to others until it was given up is kept, since its callers are not told.
func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(failing{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type failing struct{ testing.TB }

func (f failing) Write(line []byte) (int, error) {
	switch {
	case bytes.Contains(line, []byte("level=ERROR")):
		f.Errorf("a server logged: %s", line)
	case bytes.Contains(line, []byte("retries spent")):
		f.Logf("a server logged: %s", line)
	}
	return len(line), nil
}

// route leads to a server whose address changes when it is started again.
type route struct{ address atomic.Pointer[string] }

func routeTo(address string) *route {
	r := new(route)
	r.address.Store(&address)
	return r
}

// dial makes a client that sends each request once, so that its caller sees every error and decides where to try again.
// It connects again at once: these tests are about servers that come and go, not about waiting for them.
func (r *route) dial(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.Dial("passthrough:///khata", client.Options{Patience: -1, DialOptions: []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", *r.address.Load())
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 100 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// clients makes a client for each server, each with a connection of its own.
func (b *bench) clients(t testing.TB) []*client.Client {
	t.Helper()
	list := make([]*client.Client, len(b.routes))
	for i, r := range b.routes {
		list[i] = r.dial(t)
	}
	return list
}

func (b *bench) create(t testing.TB, specs ...ledger.AccountSpec) {
	t.Helper()
	if _, err := b.routes[0].dial(t).CreateAccounts(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
}

func amount(text string) decimal.Decimal { return decimal.RequireFromString(text) }

// wallet is an account with a floor.
func wallet(id ledger.AccountID, floor string) ledger.AccountSpec {
	f := amount(floor)
	return ledger.AccountSpec{ID: id, Type: ledger.Liability, Currency: "BDT", Floor: &f}
}

func cash() ledger.AccountSpec {
	return ledger.AccountSpec{ID: "cash", Type: ledger.Asset, Currency: "BDT"}
}

func move(id ledger.TransferID, debit, credit ledger.AccountID, value string) ledger.TransferSpec {
	return ledger.TransferSpec{ID: id, Entries: ledger.Simple(debit, credit, amount(value), "BDT")}
}

// balance is what each server says, which must be the same.
func (b *bench) balance(t testing.TB, id ledger.AccountID) string {
	t.Helper()
	var first string
	for i, c := range b.clients(t) {
		got, err := c.Balance(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		text := ledger.FormatAmount(got.Posted, got.Currency.Scale)
		if i > 0 && text != first {
			t.Errorf("balance of %s: one server says %s, another %s", id, first, text)
		}
		first = text
	}
	return first
}
