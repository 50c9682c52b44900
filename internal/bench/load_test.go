package bench

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Answers count if they come within the window, and only transfers that were acknowledged.
func TestLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		steady := func(ctx context.Context) outcome {
			time.Sleep(100 * time.Millisecond)
			return outcome{transfers: 5}
		}
		n := 0
		half := func(ctx context.Context) (o outcome) {
			time.Sleep(190 * time.Millisecond)
			if n++; n%2 == 0 { // and rests for 10 ms
				o.fail("AWAY")
				return o
			}
			time.Sleep(10 * time.Millisecond)
			return outcome{kind: 1, transfers: 1}
		}
		l := load{warmup: 1050 * time.Millisecond, duration: 2 * time.Second, kinds: 2}
		w := l.run(t.Context(), []step{steady, steady, half})
		if w.took != 2*time.Second {
			t.Errorf("took %s", w.took)
		}
		if a, b := w.kinds[0], w.kinds[1]; a.calls != 40 || a.transfers != 200 || b.calls != 5 || b.transfers != 5 {
			t.Errorf("steady: %d calls, %d transfers; half: %d calls, %d transfers", a.calls, a.transfers, b.calls, b.transfers)
		}
		if w.kinds[0].latency.longest != 100*time.Millisecond || w.kinds[1].latency.longest != 200*time.Millisecond {
			t.Errorf("the longest took %s and %s", w.kinds[0].latency.longest, w.kinds[1].latency.longest)
		}
		// What began within the window and ended after it is acknowledged too, and not counted.
		if want := int64(2*31*5 + 8); w.acknowledged != want {
			t.Errorf("acknowledged %d, want %d", w.acknowledged, want)
		}
		if diff := cmp.Diff(map[string]int64{"AWAY": 8}, w.failures); diff != "" {
			t.Errorf("failures (-want +got):\n%s", diff)
		}
	})
}

// Whoever interrupts a run waits for the calls under way, which are not cancelled.
func TestLoad_Interrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		cut := false
		w := load{warmup: time.Second, duration: time.Hour}.run(ctx, []step{func(ctx context.Context) outcome {
			ctx, done := patient(ctx)
			defer done()
			select {
			case <-ctx.Done():
				cut = true
			case <-time.After(time.Second):
			}
			return outcome{transfers: 1}
		}})
		if cut || w.took != 1500*time.Millisecond || w.acknowledged != 3 {
			t.Errorf("cut %t, took %s, %d acknowledged", cut, w.took, w.acknowledged)
		}
	})
}

func TestEach(t *testing.T) {
	t.Parallel()
	var left, done atomic.Int64
	left.Store(100)
	failures := each(t.Context(), 7, func(int) (step, bool) {
		return func(context.Context) outcome {
			done.Add(1)
			return outcome{transfers: 1}
		}, left.Add(-1) >= 0
	})
	if done.Load() != 100 || failed(failures) != nil {
		t.Errorf("%d done, %v", done.Load(), failures)
	}
	err := failed(each(t.Context(), 2, func(int) (step, bool) {
		return func(context.Context) (o outcome) {
			o.fail("AWAY")
			return o
		}, true
	}))
	if err == nil || err.Error() != "preparing failed: 2 AWAY" {
		t.Errorf("after failures: %v", err)
	}
}
