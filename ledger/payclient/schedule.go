package payclient

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// The schedule of tries. docs/client-protocol.md has it too, and the vectors hold both against each other.
const (
	firstPause   = 500 * time.Millisecond
	longestPause = time.Minute
	// quickFor is for how long from the first sending tries follow each other quickly. Later they are between slowLeast and slowMost apart.
	quickFor  = 10 * time.Minute
	slowLeast = 5 * time.Minute
	slowMost  = 15 * time.Minute
	// Retry-After counts within these.
	leastRetryAfter = time.Second
	mostRetryAfter  = 15 * time.Minute
	// DefaultHorizon is for how long from its first sending a payment is sent again. The server keeps its answers for twice as long.
	DefaultHorizon = 24 * time.Hour
	// lookups is how often it is asked what became of a key before the answer is UNKNOWN.
	lookups = 3
)

// clock is where time comes from, and what waits.
type clock struct {
	// wall may jump.
	wall func() time.Time
	// since is what has passed since the start of the process, and never jumps.
	since func() time.Duration
	// sleep waits, and returns the context's error if that ends first.
	sleep func(context.Context, time.Duration) error
	// chance is in [0, 1).
	chance func() float64
}

func systemClock() clock {
	start := time.Now()
	return clock{time.Now, func() time.Duration { return time.Since(start) }, sleep, rand.Float64}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ctx.Err()
	}
}

// pause is how long to wait after a try without an answer: the n-th of this run, counted from 0. asked is Retry-After, or 0.
//
// Full jitter: all of it is chance, so that clients which a failure has brought into step fall out of it. On top of a Retry-After, which is the
// same for everybody, it is there for the same reason.
func pause(n int, elapsed, asked time.Duration, chance func() float64) time.Duration {
	least, most := time.Duration(0), longestPause
	if n < 7 { // firstPause << 7 is more than a minute.
		most = firstPause << n
	}
	if elapsed >= quickFor {
		least, most = slowLeast, slowMost
	}
	if asked > 0 {
		least = max(min(max(asked, leastRetryAfter), mostRetryAfter), least)
		most = max(min(least+most, mostRetryAfter), least)
	}
	return least + time.Duration(chance()*float64(most-least))
}

// budget bounds how many tries again a Client sends, over all payments: when a server is down, each payment's own patience would add up.
type budget struct {
	every time.Duration // between two tries, once the burst is spent
	burst time.Duration

	mu   sync.Mutex
	next time.Duration
}

const (
	defaultRetryRate = 10
	retryBurst       = 20
)

func newBudget(perSecond int) *budget {
	every := time.Second / time.Duration(perSecond)
	burst := retryBurst * every
	return &budget{every: every, burst: burst, next: -burst}
}

// take takes the next place, and says how long to wait for it.
func (b *budget) take(now time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = max(b.next, now-b.burst) + b.every
	return max(0, b.next-now)
}
