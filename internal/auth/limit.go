package auth

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/khata-ledger/khata/ledger"
)

// Limiter bounds how many calls each caller makes. It remembers the maxLimited callers who called last: for whoever has been away for
// longer than that the bucket is full again, or as good as.
type Limiter struct {
	rate  rate.Limit
	burst int

	mu      sync.Mutex
	callers map[string]*list.Element
	recent  list.List // of *limited; the front called last
}

type limited struct {
	name string
	*rate.Limiter
}

const maxLimited = 10_000

// NewLimiter allows each caller perSecond calls a second, and burst at once (0: as many as in a second).
func NewLimiter(perSecond float64, burst int) *Limiter {
	if burst <= 0 {
		burst = max(1, int(perSecond))
	}
	return &Limiter{rate: rate.Limit(perSecond), burst: burst, callers: map[string]*list.Element{}}
}

// Take counts a call. It returns CodeRateLimited, with when to try again, for one too many. A nil Limiter allows everything.
func (l *Limiter) Take(name string) error {
	if l == nil {
		return nil
	}
	reservation := l.of(name).Reserve()
	wait := reservation.Delay()
	if wait == 0 {
		return nil
	}
	reservation.Cancel() // Whoever tries too early is not set back for it.
	err := ledger.Errorf(ledger.CodeRateLimited, "%s makes more than %v calls a second: try again in %v", name, float64(l.rate), wait.Round(time.Millisecond))
	err.RetryAfter = wait
	return err
}

func (l *Limiter) of(name string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.callers[name]; ok {
		l.recent.MoveToFront(e)
		return e.Value.(*limited).Limiter
	}
	c := &limited{name, rate.NewLimiter(l.rate, l.burst)}
	l.callers[name] = l.recent.PushFront(c)
	if oldest := l.recent.Back(); l.recent.Len() > maxLimited {
		delete(l.callers, l.recent.Remove(oldest).(*limited).name)
	}
	return c.Limiter
}
