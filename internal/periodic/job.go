// Package periodic does what a server does from time to time beside its calls: take snapshots, expire holds, sweep, clear up. It knows
// nothing of what that is. Every server runs every job; what is done stands in the database, so that the second of two finds it done.
package periodic

import (
	"context"
	"log/slog"
	"time"
)

// sayAgainAfter is how often a failure that lasts is logged.
const sayAgainAfter = time.Minute

// Job is something that is done in rounds.
type Job struct {
	// Name is what it does, for the log.
	Name string
	// Every is how long a round begins after the one before, at the earliest; a negative one turns the job off.
	Every time.Duration
	// Do is one round.
	Do func(context.Context) error
	// Failed, where it is not nil, is called after each round that failed.
	Failed func()
	// Log says of a failure when it begins, once a minute while it lasts, and when it has ended.
	Log *slog.Logger

	failing bool
	saidAt  time.Time
}

// Start has the job done until ctx ends. The returned function waits until it has.
func (j Job) Start(ctx context.Context) (wait func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if j.Every >= 0 {
			j.run(ctx)
		}
	}()
	return func() { <-ended }
}

func (j *Job) run(ctx context.Context) {
	ticker := time.NewTicker(j.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			err := j.Do(ctx)
			if ctx.Err() != nil {
				return
			}
			j.roundEnded(err)
		}
	}
}

func (j *Job) roundEnded(err error) {
	switch {
	case err != nil:
		if j.Failed != nil {
			j.Failed()
		}
		if !j.failing || time.Since(j.saidAt) > sayAgainAfter {
			j.Log.Warn("job failed", "job", j.Name, "error", err)
			j.saidAt = time.Now()
		}
	case j.failing:
		j.Log.Info("job works again", "job", j.Name)
	}
	j.failing = err != nil
}
