package importer_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/khata-ledger/khata/internal/grpcapi"
	"github.com/khata-ledger/khata/internal/importer"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// bench is a server on a database of its own, and a client of it.
type bench struct {
	*client.Client
	db      *pgtest.DB
	journal *journal.Journal
	grpc    *grpc.Server
	address string
}

func setup(t testing.TB) *bench {
	t.Helper()
	b := &bench{db: pgtest.New(t), address: "127.0.0.1:0"}
	pool, err := pg.Connect(context.Background(), pg.Config{DSN: b.db.ServiceDSN()})
	if err != nil {
		t.Fatal(err)
	}
	b.journal = journal.New(pool, journal.Config{})
	b.serve(t)
	b.Client = b.dial(t, client.Options{})
	t.Cleanup(func() {
		ledgertest.CheckBooks(t, b.db)
		b.grpc.Stop()
		b.journal.Close()
		pool.Close()
	})
	return b
}

// serve starts a gRPC server, in the place of one that was stopped if there was one. Meanwhile its port can be that of somebody who asked for any.
func (b *bench) serve(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", b.address)
	for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); listener, err = net.Listen("tcp", b.address) {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Error(err) // It may be called beside the test.
		return
	}
	b.address = listener.Addr().String()
	server := grpcapi.New(b.journal, grpcapi.Config{Logger: slog.New(slog.DiscardHandler)})
	b.grpc = server
	go func() { _ = server.Serve(listener) }()
}

func (b *bench) dial(t testing.TB, options client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(b.address, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// count runs a query that gives a number.
func (b *bench) count(t testing.TB, sql string) int {
	t.Helper()
	pool, err := pg.Connect(t.Context(), pg.Config{DSN: b.db.OwnerDSN(), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var n int
	if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (b *bench) balance(t testing.TB, id ledger.AccountID) string {
	t.Helper()
	balance, err := b.Balance(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return balance.Posted.String()
}

// watched is books that can be looked at while an import runs.
type watched struct {
	importer.Books
	calls  atomic.Int64
	before func(call int64, specs []ledger.TransferSpec)
	after  func(call int64)
}

func (w *watched) PostTransfers(ctx context.Context, specs []ledger.TransferSpec) ([]client.Result, error) {
	call := w.calls.Add(1)
	if w.before != nil {
		w.before(call, specs)
	}
	results, err := w.Books.PostTransfers(ctx, specs)
	if w.after != nil {
		w.after(call)
	}
	return results, err
}

const soon = 10 * time.Second
