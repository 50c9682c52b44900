package server_test

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// load is callers that post until they are told to end.
type load struct {
	t      testing.TB
	enough chan struct{}
	wg     sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc
}

// startLoad has callers post the streams of a workload. Two callers share a stream, one in each direction, so that the
// same ids meet on the two servers while these come and go.
func startLoad(t testing.TB, b *bench, h *history, w workload, callers int) *load {
	t.Helper()
	l := &load{t: t, enough: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(t.Context())
	t.Cleanup(l.cancel)
	for n := range callers {
		r := random(w.seed, n)
		c := b.caller(t, h, r)
		l.wg.Go(func() {
			const stretch = 12
			for from := 0; !l.isEnough(); from += stretch {
				list := make([]ledger.TransferSpec, stretch)
				for i := range list {
					list[i] = w.spec(n/2, from+i)
				}
				if n%2 == 1 {
					slices.Reverse(list)
				}
				for _, call := range calls(r, list) {
					c.post(l.ctx, call...)
				}
			}
		})
	}
	return l
}

func (l *load) isEnough() bool {
	select {
	case <-l.enough:
		return true
	default:
		return l.ctx.Err() != nil
	}
}

// stop lets every caller wait for its last answers. One that is not told what became of its transfer is a failure.
func (l *load) stop() {
	l.t.Helper()
	close(l.enough)
	watchdog := time.AfterFunc(time.Minute, func() {
		l.t.Error("a minute after the last fault callers still have no answer")
		l.cancel()
	})
	l.wg.Wait()
	watchdog.Stop()
}

// abandon has the callers go away in the middle of what they do.
func (l *load) abandon() {
	l.cancel()
	l.wg.Wait()
}

// TestStorm_KillServer kills servers with SIGKILL while they post, one after the other. In the end the callers go away too.
func TestStorm_KillServer(t *testing.T) {
	kills := count(12, 100)
	w := workload{seed(t)}
	db := pgtest.New(t)
	b := onDatabase(db)
	var servers []*process
	start := func() (*process, string) { return startKhata(t, "serve", "--dsn", db.ServiceDSN()) }
	for range 2 {
		p, address := start()
		servers = append(servers, p)
		b.routes = append(b.routes, routeTo(address))
	}
	b.create(t, workloadAccounts()...)
	h := newHistory(ledger.CodeUnavailable)
	ctx, cancel := stormLimit(t)
	defer cancel()
	r := random(w.seed, 1000)
	l := startLoad(t, b, h, w, 16)
	restart := func(n int) {
		servers[n].kill()
		var address string
		servers[n], address = start()
		b.routes[n].address.Store(&address)
	}
	for i := range kills {
		// Under load, at a place of nobody's choosing.
		if !h.meter.wait(ctx, 200+r.IntN(200)) {
			t.Error("no answers come any more")
			break
		}
		if i < kills-1 {
			restart(i % len(servers))
			continue
		}
		l.abandon()
		servers[1].stop(t, syscall.SIGTERM) // It brings to an end what it has begun, for whomever.
		restart(0)
		restart(1)
	}
	h.finish(t, b, false)
}

// TestStorm_KillPostgres kills PostgreSQL's postmaster with SIGKILL while transfers are posted, and starts it again on the
// same directory.
func TestStorm_KillPostgres(t *testing.T) {
	kills := count(6, 60)
	w := workload{seed(t)}
	pg := pgtest.NewServer(t, nil)
	b := newBench(t, pg.DB, pg.ServiceDSN(), 2)
	b.create(t, workloadAccounts()...)
	h := newHistory(ledger.CodeUnavailable)
	ctx, cancel := stormLimit(t)
	defer cancel()
	r := random(w.seed, 1000)
	l := startLoad(t, b, h, w, 16)
	for range kills {
		if !h.meter.wait(ctx, 200+r.IntN(400)) {
			t.Error("no answers come any more")
			break
		}
		pg.Kill(t)
		pg.Restart(t)
	}
	l.stop()
	h.finish(t, b, false)
}
