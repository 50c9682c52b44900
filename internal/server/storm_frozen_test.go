package server_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// TestStorm_PostgresFrozen stops every process of PostgreSQL in the middle of the load of 200 callers, for longer than a
// batch may take, and lets it go on. Every call is answered in time, as open; what was on its way then is found
// out afterwards; and however long it stands still, what the servers hold does not grow.
func TestStorm_PostgresFrozen(t *testing.T) {
	const callers, growth = 200, 16 << 20
	frozen := time.Duration(count(7, 30)) * time.Second
	w := workload{seed(t)}
	pg := pgtest.NewServer(t, nil)
	b := newBench(t, pg.DB, pg.ServiceDSN(), 2)
	b.create(t, workloadAccounts()...)
	h := newHistory(ledger.CodeUnavailable, ledger.CodeOverloaded)
	ctx, cancel := stormLimit(t)
	defer cancel()
	l := startLoad(t, b, h, w, callers)
	if !h.meter.wait(ctx, 2000) {
		t.Fatal("no answers come")
	}
	thaw := freeze(t, pg)
	time.Sleep(frozen / 2)
	answered, half := h.meter.count(), heap()
	time.Sleep(frozen / 2)
	grown := heap() - half
	if n := h.meter.count() - answered; n > 0 {
		t.Errorf("%d answers while PostgreSQL stood still", n)
	}
	thaw()
	if !h.meter.wait(ctx, 2000) {
		t.Error("no answers come any more")
	}
	l.stop()
	slowest := h.slowestCall()
	t.Logf("the slowest call took %s; the heap had %d bytes, and %d more after another %s", slowest.Round(time.Millisecond), half, grown, frozen/2)
	if slowest > inTime {
		t.Errorf("a call took %s, more than %s", slowest, inTime)
	}
	if grown > growth {
		t.Errorf("the heap grew by %d bytes in %s", grown, frozen/2)
	}
	h.finish(t, b, false)
}

// heap is what is in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // not that large
}
