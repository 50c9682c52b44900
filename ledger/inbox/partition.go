package inbox

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// firstPause and longestPause bound how long a partition rests whose work could not go on.
	firstPause, longestPause = 50 * time.Millisecond, 5 * time.Second
	// sayAgainAfter is how often it is logged that it still cannot.
	sayAgainAfter = time.Minute
)

// partition is what a member knows of a partition from one round to the next. It is of use only while the offsets fit: another member may have
// been at it meanwhile.
type partition struct {
	topic string
	id    int32

	// next is where to go on.
	next int64
	// size is how many events the next batch has: fewer than there may be where many take too long.
	size int
	// aloneFrom and aloneBefore are the offsets between which each event has a transaction of its own, since the batch that they were in failed.
	aloneFrom, aloneBefore int64
	// attempts counts the failures of the event at attemptsAt.
	attemptsAt int64
	attempts   int

	// setbacks are how often in a row it could not go on.
	setbacks int
	resumeAt time.Time // zero while it is not paused
	saidAt   time.Time
}

// progress is how far a round came with a partition.
type progress struct {
	*partition
	// done reports whether it has come any further, and epoch is that of the last record before its next.
	done  bool
	epoch int32
	// stopped reports whether some of the round's records are left, and err why, where it is not for the time.
	stopped bool
	err     error
}

// work gives the records of a partition their effects, batch by batch, until it is through, cannot go on, or go says that it is not to begin
// another batch.
func (b *Inbox) work(ctx context.Context, p *partition, records []*kgo.Record, more func() bool) progress {
	at := progress{partition: p}
	p.next = records[0].Offset
	list := make([]delivery, len(records))
	for i, r := range records {
		list[i] = read(r)
	}
	for len(list) > 0 {
		if !more() {
			at.stopped = true
			return at
		}
		n := min(len(list), p.size)
		if at := list[0].Offset; p.aloneFrom <= at && at < p.aloneBefore {
			n = 1
		}
		n = untilSourcesDiffer(list[:n])
		done, err := b.batch(ctx, list[:n])
		if n == 1 {
			done, err = b.judge(ctx, p, list[0], done, err)
		}
		if err == nil {
			b.metrics.came(done)
			at.next, at.epoch, at.done = list[n-1].Offset+1, list[n-1].epoch, true
			list = list[n:]
			p.size = min(2*p.size, b.config.BatchSize)
			p.setbacks = 0
			continue
		}
		b.metrics.retried(err)
		var f *failure
		var slow *errSlow
		switch {
		case errors.As(err, &slow):
			p.size = slow.done
		case n > 1 && (errors.As(err, &f) || lostRace(err)):
			// One bad event must not take its neighbours with it; and alone each holds fewer locks.
			p.aloneFrom, p.aloneBefore = list[0].Offset, list[n-1].Offset+1
		default:
			at.stopped, at.err = true, err
			return at
		}
	}
	return at
}

// judge counts the failures of an event that stands alone, and makes it a dead letter when there were enough.
func (b *Inbox) judge(ctx context.Context, p *partition, d delivery, done tally, err error) (tally, error) {
	var f *failure
	if !errors.As(err, &f) {
		return done, err
	}
	if p.attemptsAt != d.Offset {
		p.attemptsAt, p.attempts = d.Offset, 0
	}
	p.attempts++
	if !f.final && p.attempts < b.config.MaxAttempts {
		return done, err
	}
	done, err = b.bury(ctx, d, f, p.attempts)
	if err == nil {
		b.log.Error("an event became a dead letter", "event", d.ID, "topic", d.Topic, "partition", d.Partition, "offset", d.Offset,
			"attempts", p.attempts, "error", toText(f.Error()))
	}
	return done, err
}

// untilSourcesDiffer is how many deliveries can be taken at once: an id of two sources is looked up twice.
func untilSourcesDiffer(list []delivery) int {
	sources := make(map[string]string, len(list))
	for i, d := range list {
		if source, ok := sources[d.ID]; ok && source != d.Source {
			return i
		}
		sources[d.ID] = d.Source
	}
	return len(list)
}

// pause sets when a partition that could not go on is tried again, and returns how long that is.
func (p *partition) pause(now time.Time) time.Duration {
	d := jitter(min(firstPause<<min(p.setbacks, 10), longestPause))
	p.setbacks++
	p.resumeAt = now.Add(d)
	return d
}

// jitter is a random time between half of d and d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
