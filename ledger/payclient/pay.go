package payclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// course is a payment being sent by this process, which has its lock.
type course struct {
	*Client
	name string
	*record

	// base is what had passed since the first sending when this process took the payment up, which was at start.
	base, start time.Duration
	unsaved     error // why the disk does not have what this has
}

// send takes a payment up and sends it until it is settled, or stops. again is whether a person asks for it: one that is Unknown is sent again
// only then.
func (c *Client) send(ctx context.Context, name, key string, again bool) (Result, error) {
	r, err := c.store.load(name)
	if err == nil && r.State.Final() {
		return r.result(), c.mine(r)
	}
	unlock, err := c.store.lock(ctx, c.clock, name)
	if err != nil {
		return Result{}, &UnfinishedError{Key: key, Cause: fmt.Errorf("another process is sending it: %w", err)}
	}
	defer unlock()
	if r, err = c.store.load(name); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Result{}, ErrNotFound
		}
		return Result{}, err
	}
	if err := c.mine(r); err != nil || r.State.Final() {
		return r.result(), err
	}
	s := c.takeUp(name, r)
	if r.State == Unknown && (!again || s.elapsed() >= c.config.Horizon) {
		return s.lookUp(ctx)
	}
	return s.run(ctx)
}

// takeUp begins a course. What has passed while no process had the payment only the wall clock knows, if it has not been set back. A start
// counts for a second, so that even then no number of them goes on for ever.
func (c *Client) takeUp(name string, r *record) *course {
	s := &course{Client: c, name: name, record: r, base: r.Elapsed, start: c.clock.since()}
	if !r.FirstSentAt.IsZero() {
		s.base += max(c.clock.wall().Sub(r.UpdatedAt), time.Second)
	}
	return s
}

// elapsed is what has passed since the first sending.
func (s *course) elapsed() time.Duration { return s.base + s.clock.since() - s.start }

// run sends the payment again and again. At least once: when the horizon seems to have passed since another process had it, that may be
// the clock.
func (s *course) run(ctx context.Context) (Result, error) {
	for n := 0; ; n++ {
		var turn time.Duration
		if s.Attempts > 0 {
			turn = s.budget.take(s.clock.since())
		}
		if err := s.wait(ctx, turn); err != nil {
			return s.stop(err)
		}
		o, err := s.tryOnce(ctx)
		if err != nil {
			return s.stop(err)
		}
		switch {
		case o.answer == nil:
		case o.verdict == done:
			return s.settle(Done, o.answer)
		case o.verdict == refused:
			return s.settle(Rejected, o.answer)
		case o.verdict == denied:
			s.Paused = true
			return s.stop(o.why())
		case o.verdict == undone && s.Unanswered == 0:
			return s.settle(Rejected, o.answer)
		case o.verdict == undone:
			// It says nothing of the tries that had no answer, and one of them may be on its way still. Another try would hear the same.
			return s.lookUp(ctx)
		}
		if err := ctx.Err(); err != nil {
			return s.stop(fmt.Errorf("%w; the last try: %w", err, o.why()))
		}
		if err := s.waitAfter(ctx, n, o); err != nil {
			return s.stop(fmt.Errorf("%w; the last try: %w", err, o.why()))
		}
		if s.elapsed() >= s.config.Horizon {
			return s.lookUp(ctx)
		}
	}
}

// tryOnce sends it once. The disk knows of a try before it begins, and for the first one that is a condition. An error is a reason to stop.
func (s *course) tryOnce(ctx context.Context) (outcome, error) {
	token, err := s.config.Token(ctx)
	if err != nil {
		if errors.Is(err, ErrNoToken) {
			s.Paused = true
			return outcome{}, err
		}
		return outcome{err: fmt.Errorf("get a token: %w", err)}, nil
	}
	first := s.FirstSentAt.IsZero()
	before := *s.record
	s.State, s.Paused, s.FinishedAt = InFlight, false, time.Time{}
	s.Attempts++
	s.Unanswered++
	if first {
		s.FirstSentAt, s.base, s.start = s.clock.wall().UTC(), 0, s.clock.since()
	}
	// What is on disk already has the key and says that it may have been sent: a later try needs no more than that.
	if err := s.save(); err != nil && first {
		*s.record = before
		return outcome{}, fmt.Errorf("nothing was sent: %w", err)
	}
	o := s.try(ctx, s.record, token)
	s.Sent += o.sent
	if o.answer != nil {
		s.Answer = o.answer
	}
	// An answer that says that this try did nothing takes it back; but not what the transport had sent before it, which had none.
	if said := o.answer != nil && (o.verdict == undone || o.verdict == denied); !o.left || said && o.sent <= 1 {
		s.Unanswered--
	}
	return o, nil
}

// waitAfter waits for the next try, and not beyond the horizon.
func (s *course) waitAfter(ctx context.Context, n int, o outcome) error {
	var asked time.Duration
	if o.answer != nil {
		asked = o.retryAfter
	}
	d := pause(n, s.elapsed(), asked, s.clock.chance)
	return s.wait(ctx, max(0, min(d, s.config.Horizon-s.elapsed())))
}

func (s *course) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	return s.clock.sleep(ctx, d)
}

// lookUp asks the server what became of the key, and settles the payment by what it says. If it does not say, the payment is Unknown.
func (s *course) lookUp(ctx context.Context) (Result, error) {
	for n := 0; ; n++ {
		var o outcome
		token, err := s.config.Token(ctx)
		if err == nil {
			o = s.look(ctx, s.Key, s.Body, token)
		} else {
			o.err = fmt.Errorf("get a token: %w", err)
		}
		switch {
		case ctx.Err() != nil:
			return s.stop(ctx.Err())
		case o.answer == nil:
		case o.verdict == done:
			return s.settle(Done, o.answer)
		case o.verdict == refused:
			return s.settle(Rejected, o.answer)
		case o.verdict == undone: // Nothing is decided yet, and if a try is on its way still, may be later.
			return s.settle(Unknown, s.Answer)
		case o.verdict == denied:
			s.Paused = true
			return s.stop(o.why())
		}
		if errors.Is(err, ErrNoToken) {
			s.Paused = true
			return s.stop(err)
		}
		if n+1 == lookups {
			return s.settle(Unknown, s.Answer)
		}
		var asked time.Duration
		if o.answer != nil {
			asked = o.retryAfter
		}
		if err := s.wait(ctx, pause(n, 0, asked, s.clock.chance)); err != nil {
			return s.stop(err)
		}
	}
}

// save writes how it stands. What could not be written is kept for the next time.
func (s *course) save() error {
	s.UpdatedAt = s.clock.wall().UTC()
	if !s.FirstSentAt.IsZero() {
		s.Elapsed = s.elapsed()
	}
	s.unsaved = s.store.save(s.name, s.record)
	return s.unsaved
}

// settle ends it. An answer that is on record holds whether or not it can be written here: if not, the next start asks for it again. A rejection
// that is not on record is only true if it is written: the next start would send the payment again, and that try may be accepted.
func (s *course) settle(to State, a *answer) (Result, error) {
	before := *s.record
	s.finish(to, a, s.clock.wall().UTC())
	if err := s.save(); err != nil && to == Rejected && s.TransferID == "" {
		*s.record = before
		s.Answer = a
		r := s.result()
		r.Unsaved = err
		return r, &UnfinishedError{Key: s.Key, Cause: fmt.Errorf("it was not accepted, and this cannot be written: %w", err)}
	}
	r := s.result()
	r.Unsaved = s.unsaved
	return r, nil
}

// stop leaves it for later.
func (s *course) stop(cause error) (Result, error) {
	if !s.FirstSentAt.IsZero() { // Otherwise nothing has changed.
		_ = s.save()
	}
	r := s.result()
	r.Unsaved = s.unsaved
	return r, &UnfinishedError{Key: s.Key, Paused: s.Paused, Cause: cause}
}
