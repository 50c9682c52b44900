package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// TestPostgresAway stops PostgreSQL, first cleanly and then by freezing it in the middle of transactions: callers are told
// in time that it is away, /readyz says so too, and afterwards the same requests go through.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	pg := pgtest.NewServer(t, nil)
	b := newBench(t, pg.DB, pg.ServiceDSN(), 2)
	b.create(t, workloadAccounts()...)
	h := newHistory(ledger.CodeUnavailable, ledger.CodeOverloaded)
	b.caller(t, h, random(1, 0)).post(t.Context(), move("opening", "cash", walletID(0), "1000.00"))
	b.waitReady(t, http.StatusOK)

	pg.Stop(t)
	b.askAll(t, h, "stopped")
	b.waitReady(t, http.StatusServiceUnavailable)
	pg.Restart(t)
	b.waitReady(t, http.StatusOK)
	h.askAgain(t, b)

	// Some have begun when it freezes, and some may even be committed.
	l := startLoad(t, b, h, workload{seed(t)}, 8)
	h.meter.wait(t.Context(), 100)
	thaw := freeze(t, pg)
	b.askAll(t, h, "frozen")
	b.waitReady(t, http.StatusServiceUnavailable)
	thaw()
	b.waitReady(t, http.StatusOK)
	l.stop()
	h.askAgain(t, b)
	h.finish(t, b, false)
}

// waitReady waits until /readyz of each server answers with a status.
func (b *bench) waitReady(t testing.TB, want int) {
	t.Helper()
	const atMost = 10 * time.Second
	web := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	for _, s := range b.servers {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(atMost); ; <-tick.C {
			got, err := readyz(t.Context(), &web, s)
			if got == want {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("after %s /readyz still answers %d, %v, want %d", atMost, got, err, want)
			}
		}
	}
}

func readyz(ctx context.Context, web *http.Client, s *server.Server) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.HTTPAddr()+"/readyz", nil)
	if err != nil {
		return 0, err
	}
	resp, err := web.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// inTime is how long a call may take that the database keeps waiting. The server ends each by its budget, 8 seconds. This is
// more, for a machine that has other things to do just then, and less than the 15 seconds after which a client gives up a call that hangs.
const inTime = 14 * time.Second

// askAll asks everything of every server at once, and expects to be told in time that the database is away.
func (b *bench) askAll(t testing.TB, h *history, label string) {
	t.Helper()
	var wg sync.WaitGroup
	ask := func(what string, f func() error) {
		wg.Go(func() {
			asked := time.Now()
			err := f()
			took := time.Since(asked)
			if ledger.CodeOf(err) != ledger.CodeUnavailable || took > inTime {
				t.Errorf("PostgreSQL %s: %s brings %v, code %q, after %s; want %s within %s", label, what, err,
					ledger.CodeOf(err), took.Round(time.Millisecond), ledger.CodeUnavailable, inTime)
			}
		})
	}
	ctx := t.Context()
	for n, c := range b.clients(t) {
		post := func(spec ledger.TransferSpec, do func(context.Context, ledger.TransferSpec) (client.Result, error)) func() error {
			h.sent(spec)
			return func() error {
				r, err := do(ctx, spec)
				h.heard(spec, r, err)
				return err
			}
		}
		// More than may be under way at once.
		for i := range 20 {
			spec := move(ledger.TransferID(fmt.Sprintf("%s-%d-%d", label, n, i)), walletID(0), "cash", "1.00")
			ask("PostTransfer", post(spec, c.PostTransfer))
		}
		spec := move(ledger.TransferID(fmt.Sprintf("%s-%d-balances", label, n)), walletID(0), "cash", "1.00")
		ask("PostTransfer with balances", post(spec, c.PostTransferWithBalances))
		var many []ledger.TransferSpec
		for i := range 2500 {
			many = append(many, move(ledger.TransferID(fmt.Sprintf("%s-%d-many-%d", label, n, i)), "cash", "fees", "0.01"))
			h.sent(many[i])
		}
		ask("PostTransfers", func() error {
			results, err := c.PostTransfers(ctx, many)
			for i, r := range results {
				h.heard(many[i], r, err)
				err = r.Err
			}
			return err
		})
		ask("GetTransfer", func() error { _, err := c.Transfer(ctx, "opening"); return err })
		ask("GetBalance", func() error { _, err := c.Balance(ctx, "cash"); return err })
		ask("ListEntries", func() error {
			for _, err := range c.Entries(ctx, "cash", false) {
				return err
			}
			return nil
		})
		frozen := ledger.FrozenNone
		ask("UpdateAccount", func() error {
			_, err := c.UpdateAccount(ctx, "cash", ledger.AccountUpdate{Frozen: &frozen})
			return err
		})
		ask("CreateAccount", func() error { _, err := c.CreateAccount(ctx, cash()); return err })
	}
	wg.Wait()
}

// askAgain sends what is open again, as whoever was told that the database is away has to.
func (h *history) askAgain(t testing.TB, b *bench) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := b.caller(t, h, random(1, 0))
	if open := h.open(); len(open) > 0 {
		c.post(ctx, open...)
	}
	if open := h.open(); len(open) > 0 {
		t.Errorf("PostgreSQL is back, and %d transfers are still open", len(open))
	}
}

// freeze stops every process of a PostgreSQL with SIGSTOP, which nothing can catch: it answers nobody and closes nothing.
func freeze(t testing.TB, pg *pgtest.Server) (thaw func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pg.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var file string
	if err := conn.QueryRow(t.Context(), "SELECT pg_read_file('postmaster.pid')").Scan(&file); err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(file, "\n")
	postmaster, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	// The postmaster first, so that there are no new ones.
	signalAll(t, syscall.SIGSTOP, postmaster)
	stopped := append(children(t, postmaster), postmaster)
	signalAll(t, syscall.SIGSTOP, stopped...)
	thaw = sync.OnceFunc(func() { signalAll(t, syscall.SIGCONT, stopped...) })
	t.Cleanup(thaw)
	return thaw
}

// children lists the processes that a process has started.
func children(t testing.TB, parent int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Fatalf("no processes in /proc: %v", err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // It has ended.
		}
		// pid (name) state ppid; the name may hold anything.
		_, rest, _ := strings.Cut(string(text), ") ")
		var state byte
		var ppid int
		if _, err := fmt.Sscanf(rest, "%c %d", &state, &ppid); err == nil && ppid == parent {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}
