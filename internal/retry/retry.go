// Package retry does again what the database did not do at once, and turns its errors into those that callers see. It is for whatever a
// person or a program waits for beside posting, whose batches have a time and a log of their own (internal/journal).
package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// maxLosses is how often something may lose to others before it is given up.
	maxLosses = 20
	// firstPause and longestPause bound the pause before a database that does not answer is asked again.
	firstPause, longestPause = 10 * time.Millisecond, 500 * time.Millisecond
)

// Policy is how long a capability tries, and what it says of its rivals.
type Policy struct {
	// Budget is how long something is begun anew where the database does not answer, or somebody holds a lock. 0: it is not.
	Budget time.Duration
	// Contended is what callers are told who lost to others again and again, such as "others keep changing the same".
	Contended string
}

// Do runs do, and again while that may help. Where the answer to a commit did not arrive, doing it again finds out what became of it: do must
// know its own work again, and tried tells it that it may be there.
//
// It returns a *ledger.Error of do's as it is, and what Public makes of any other.
func (p Policy) Do(ctx context.Context, doing string, do func(tried bool) error) error {
	begun, pause, tried := time.Now(), firstPause, false
	for losses := 0; ; {
		err := do(tried)
		tried = tried || errors.Is(err, pg.ErrUnknown)
		var decided *ledger.Error
		if err == nil || errors.As(err, &decided) {
			return err
		}
		switch class := pg.Classify(err); {
		case ctx.Err() != nil:
			return p.Public(ctx, doing, err)
		case class == pg.Again && losses < maxLosses:
			losses++
		case (class == pg.Unavailable || class == pg.LockTimeout) && time.Since(begun) < p.Budget:
			pause = min(2*pause, longestPause)
		default:
			return p.Public(ctx, doing, err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
		}
	}
}

// Public turns an error into one for callers, a *ledger.Error by errors.As: CodeCancelled or CodeDeadlineExceeded if it is the caller's context that has
// ended, CodeConflict, CodeUnavailable, or CodeInternal. One that is a *ledger.Error already stays.
func (p Policy) Public(ctx context.Context, doing string, err error) error {
	var decided *ledger.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &decided):
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return ledger.Errorf(ledger.CodeCancelled, "%s: the caller cancelled the request", doing)
	case ctx.Err() != nil:
		return ledger.Errorf(ledger.CodeDeadlineExceeded, "%s: the request's deadline passed", doing)
	}
	switch pg.Classify(err) {
	case pg.Again:
		return ledger.Errorf(ledger.CodeConflict, "%s: %s; ask again", doing, p.Contended)
	case pg.Unavailable, pg.LockTimeout:
		unavailable := ledger.Errorf(ledger.CodeUnavailable, "%s: the database did not answer in time; ask again", doing)
		unavailable.RetryAfter = time.Second
		return fmt.Errorf("%w (%w)", unavailable, err)
	}
	return fmt.Errorf("%w (%w)", ledger.Errorf(ledger.CodeInternal, "%s: internal error", doing), err)
}
