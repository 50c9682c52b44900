package journal

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// maxLosses bounds how often in a row a transaction may lose to others. A batch that lost the race for an id sees the
	// winner's record the next time, so real retry storms need two or three.
	maxLosses = 50
	// firstPause and longestPause bound the pause before a database that does not answer is tried again.
	firstPause, longestPause = 10 * time.Millisecond, 500 * time.Millisecond
)

// errNoTimeLeft: a transaction that lost to others once or twice would have been tried again, had there been time. That is not to have
// lost too often: a database that stood still until the time of a batch was nearly over makes that of any loss.
var errNoTimeLeft = errors.New("no time was left to try it again")

// retry runs try until it succeeds, fails for good, or ctx ends. It returns the error of the last try.
func (j *Journal) retry(ctx context.Context, try func() error) error {
	pause := firstPause
	for losses := 0; ; {
		err := try()
		if err == nil {
			return nil
		}
		var decided *ledger.Error
		if errors.As(err, &decided) {
			return err
		}
		class := pg.Classify(err)
		j.config.Metrics.retried(class)
		switch {
		case class == pg.Again && losses < maxLosses:
			losses++
			// Two that deadlocked would meet again if they started again together.
			if losses > 1 && !sleep(ctx, jitter(time.Duration(losses)*time.Millisecond)) {
				return errors.Join(errNoTimeLeft, err)
			}
		case class == pg.Unavailable:
			if !sleep(ctx, jitter(pause)) {
				return err
			}
			pause = min(2*pause, longestPause)
		default:
			return err
		}
	}
}

// jitter is a random time between half of d and d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep reports whether it slept to the end; it does not begin what the context has no time for.
func sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
