package pgtest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Through returns the same database with DSNs that lead through the faults, for
// code that takes a DSN and no DialFunc. It lasts until the end of the test.
func (db *DB) Through(t testing.TB, f *Faults) *DB {
	t.Helper()
	// Not t.TempDir: a test's name can make it too long for a socket's address.
	dir, err := os.MkdirTemp("", "khata-faults-")
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	const name = ".s.PGSQL.5432"
	listener, err := net.Listen("unix", filepath.Join(dir, name))
	if err != nil {
		os.RemoveAll(dir)
		t.Fatalf("pgtest: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f.serve(ctx, listener, filepath.Join(db.socketDir, name), &wg) })
	t.Cleanup(func() {
		cancel()
		listener.Close()
		wg.Wait()
		f.Close()
		os.RemoveAll(dir)
	})
	through := *db
	through.socketDir = dir
	return &through
}

// serve accepts clients until the listener is closed.
func (f *Faults) serve(ctx context.Context, listener net.Listener, target string, wg *sync.WaitGroup) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			var server net.Conn
			err := f.waitThaw(ctx)
			if err == nil {
				server, err = new(net.Dialer).DialContext(ctx, "unix", target)
			}
			if err != nil {
				client.Close()
				return
			}
			f.join(client, server)
		})
	}
}
