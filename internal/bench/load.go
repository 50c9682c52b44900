package bench

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// outcome is what became of one call.
type outcome struct {
	// kind tells apart what a mode mixes; 0 where it mixes nothing.
	kind int
	// transfers are those that were acknowledged as they should be.
	transfers int
	failures  map[string]int64 // by code
}

func (o *outcome) fail(code string) {
	if o.failures == nil {
		o.failures = map[string]int64{}
	}
	o.failures[code]++
}

// step makes a call and waits for its answer. Each client has its own.
type step func(ctx context.Context) outcome

// tally is what calls came to within a timed window.
type tally struct {
	latency          histogram
	calls, transfers int64
}

func (t *tally) merge(other *tally) {
	t.latency.merge(&other.latency)
	t.calls += other.calls
	t.transfers += other.transfers
}

// window is what was measured.
type window struct {
	took  time.Duration
	cpu   CPU
	kinds []tally
	// failures are those of the whole load, the warm-up included: none may pass unseen.
	failures map[string]int64
	// acknowledged counts the transfers of the whole load.
	acknowledged int64
}

// load is how long clients work.
type load struct {
	warmup, duration time.Duration
	processes        processes
	kinds            int
}

// The phases of a load.
const (
	warming int32 = iota
	timing
	over
)

// afterFailure is how long a client rests after a call that failed, so that a server that is gone is not asked a million
// times.
const afterFailure = 10 * time.Millisecond

// run lets the clients work in a closed loop. An answer counts if it comes within the window, whenever its call began. When
// ctx ends, the window ends there, and the calls under way are waited for.
func (l load) run(ctx context.Context, clients []step) window {
	var phase atomic.Int32
	type worker struct {
		kinds        []tally
		failures     map[string]int64
		acknowledged int64
	}
	workers := make([]worker, len(clients))
	var wg sync.WaitGroup
	for i, call := range clients {
		w := &workers[i]
		w.kinds, w.failures = make([]tally, max(l.kinds, 1)), map[string]int64{}
		wg.Go(func() {
			for phase.Load() != over {
				began := time.Now()
				o := call(ctx)
				took := time.Since(began)
				w.acknowledged += int64(o.transfers)
				for code, n := range o.failures {
					w.failures[code] += n
				}
				if phase.Load() == timing && (len(o.failures) == 0 || o.transfers > 0) {
					t := &w.kinds[o.kind]
					t.latency.add(took)
					t.calls++
					t.transfers += int64(o.transfers)
				}
				if len(o.failures) > 0 {
					time.Sleep(afterFailure)
				}
			}
		})
	}
	pause(ctx, l.warmup)
	before, began := l.processes.read(), time.Now()
	phase.Store(timing)
	pause(ctx, l.duration)
	phase.Store(over)
	took, after := time.Since(began), l.processes.read()
	wg.Wait()

	out := window{took: took, cpu: after.since(before), kinds: make([]tally, max(l.kinds, 1)), failures: map[string]int64{}}
	for i := range workers {
		for k := range out.kinds {
			out.kinds[k].merge(&workers[i].kinds[k])
		}
		addAll(out.failures, workers[i].failures)
		out.acknowledged += workers[i].acknowledged
	}
	return out
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func addAll(to, from map[string]int64) {
	for code, n := range maps.All(from) {
		to[code] += n
	}
}

// each lets as many clients work until there is nothing more to take, and returns what failed. It is for what is not timed.
// A client that has had a failure, or whose ctx has ended, takes no more.
func each(ctx context.Context, clients int, take func(client int) (step, bool)) map[string]int64 {
	var mu sync.Mutex
	failures := map[string]int64{}
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				call, ok := take(i)
				if !ok {
					return
				}
				if o := call(ctx); len(o.failures) > 0 {
					mu.Lock()
					addAll(failures, o.failures)
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return failures
}
