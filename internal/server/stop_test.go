package server_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/devpg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// TestGracefulStop stops one of two servers under load. Every call that it accepted it answers; every other was not begun,
// so that nothing of it is there; and the callers of the other server notice nothing.
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		start func(t *testing.T, db *pgtest.DB) (address string, stop func())
	}{
		{"Stop", func(t *testing.T, db *pgtest.DB) (string, func()) {
			s := startServer(t, db.ServiceDSN())
			return s.GRPCAddr(), s.Stop
		}},
		{"SIGTERM", func(t *testing.T, db *pgtest.DB) (string, func()) {
			p, address := startKhata(t, "serve", "--dsn", db.ServiceDSN())
			return address, func() { p.stop(t, syscall.SIGTERM) }
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			allHaveTurns(t, func(ctx context.Context, t *testing.T) *history {
				t.Helper()
				return stopUnderLoad(ctx, t, test.start)
			})
		})
	}
}

// stopUnderLoad gives what the callers of the other server heard.
func stopUnderLoad(ctx context.Context, t *testing.T, start func(t *testing.T, db *pgtest.DB) (address string, stop func())) *history {
	t.Helper()
	db := pgtest.New(t)
	b := newBench(t, db, db.ServiceDSN(), 1)
	going, stop := start(t, db)
	b.create(t, cash(), wallet("wallet:shimul", "0"), wallet("wallet:tithi", "0"))
	h, other := newHistory(ledger.CodeUnavailable), newHistory()
	opening := b.caller(t, other, random(1, 0))
	opening.post(ctx, move("opening", "cash", "wallet:shimul", "100000.00"))

	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	stopped := make(chan struct{})
	var turnedAway, theOthers sync.WaitGroup
	for n := range 20 {
		c := &caller{history: h, clients: []*client.Client{routeTo(going).dial(t)}, random: random(1, n)}
		turnedAway.Go(func() { postUntilTurnedAway(ctx, c, n) })
	}
	for n := range 4 {
		c := b.caller(t, other, random(2, n))
		theOthers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stopped:
					return
				default:
					c.post(ctx, move(ledger.TransferID(fmt.Sprintf("other-%d-%d", n, i)), "cash", "wallet:tithi", "1.00"))
				}
			}
		})
	}
	h.meter.wait(ctx, 300)
	asked := time.Now()
	stop()
	took := time.Since(asked)
	turnedAway.Wait()
	// Before anything is sent again.
	found := readBooks(t, b.superDSN)
	answers := other.meter.count()
	other.meter.wait(ctx, 100)
	close(stopped)
	theOthers.Wait()

	open := h.open()
	for _, spec := range open {
		if _, there := found.records[spec.ID]; there {
			t.Errorf("%s has taken effect, and its caller was turned away", spec.ID)
		}
	}
	t.Logf("%d were answered, and %d turned away while it stopped, in %s; the other server answered %d",
		h.meter.count(), len(open), took.Round(time.Millisecond), answers)
	if len(open) == 0 {
		t.Error("nobody was turned away: it was not stopped under load")
	}
	other.report(t)
	h.merge(other)
	h.finish(t, b, true)
	return other
}

// postUntilTurnedAway posts alone and in lists, until a call fails.
func postUntilTurnedAway(ctx context.Context, c *caller, n int) {
	for i := 0; ; i++ {
		var list []ledger.TransferSpec
		for k := range 1 + i%4 {
			id := ledger.TransferID(fmt.Sprintf("going-%d-%d-%d", n, i, k))
			list = append(list, move(id, "wallet:shimul", "wallet:tithi", "0.01"))
			c.history.sent(list[k])
		}
		if open := c.try(ctx, list); len(open) > 0 || ctx.Err() != nil {
			return
		}
	}
}

// merge takes over what another history of other ids has heard. Its faults are in its own report.
func (h *history) merge(other *history) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, x := range other.ids {
		h.ids[id] = x
	}
}

// TestUp_Restarts stops khata up with Ctrl-C, as a user does, and with SIGKILL: the next one goes on with the data.
func TestUp_Restarts(t *testing.T) {
	t.Parallel()
	// Not t.TempDir: PostgreSQL's user must be able to enter it.
	dir, err := os.MkdirTemp("", "khata-up-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // as said
		t.Fatal(err)
	}
	h := newHistory(ledger.CodeUnavailable)
	b := &bench{routes: []*route{routeTo("")}}
	w := workload{seed(t)}
	start := func() *process {
		p, address := startKhata(t, "up", "--data-dir", dir, "--kafka-listen", "127.0.0.1:0", "--pay", "127.0.0.1:0", "--sms-listen", "127.0.0.1:0",
			"--console", "127.0.0.1:0", "--identity-listen", "127.0.0.1:0")
		b.routes[0].address.Store(&address)
		return p
	}
	p := start()
	b.create(t, workloadAccounts()...)
	post := func(stream int) {
		c := b.caller(t, h, random(w.seed, stream))
		for i := range 30 {
			c.post(t.Context(), w.spec(stream, i))
		}
	}
	stopUnderLoad := func(stream int, stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for n := range 4 {
			c := b.caller(t, h, random(w.seed, stream+n))
			callers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					c.post(ctx, w.spec(stream+n, i))
				}
			})
		}
		h.meter.wait(ctx, 50)
		stop()
		cancel()
		callers.Wait()
	}
	post(0)
	stopUnderLoad(10, func() { p.stop(t, os.Interrupt) })
	p = start()
	post(0) // once more: it happens once
	post(1)
	stopUnderLoad(20, p.kill)
	p = start()
	post(1)
	database, running, err := devpg.Running(dir)
	if err != nil || !running {
		t.Fatalf("no PostgreSQL in %s: %v", dir, err)
	}
	b.superDSN = database.DSN(devpg.Superuser, server.Database)
	b.verify = func(t testing.TB) {
		t.Helper()
		verifyDirectory(t, dir)
	}
	h.finish(t, b, false)
	p.stop(t, os.Interrupt)
	verifyDirectory(t, dir) // also when nothing runs
}

func verifyDirectory(t testing.TB, dir string) {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary, "verify", "--data-dir", dir).CombinedOutput(); err != nil {
		t.Errorf("khata verify: %v\n%s", err, out)
	}
}
