package sms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
)

// sender calls the gateway for the messages that are due. There can be many, in many processes: a message is taken by one at a time, by a
// short transaction before the call and another after it, and none during it.
type sender struct {
	pool    *pgxpool.Pool
	gateway Gateway
	pace    pace
	metrics *metrics
	log     *slog.Logger

	mu sync.Mutex
	// restUntil is until when the gateway is left alone, and failures are the calls in a row that came to nothing.
	restUntil time.Time
	failures  int
	saidAt    time.Time
}

// pace is how a sender works. Tests are in more of a hurry.
type pace struct {
	// senders is how many calls are under way at most.
	senders int
	// maxAge is after how long a message is of no use any more.
	maxAge time.Duration
	// lease is for how long a message is one sender's. call bounds a call; what is left of the lease is for the mark, and as much as a call at least.
	lease, call time.Duration
	// firstPause and longestPause bound the pause before a message is tried again.
	firstPause, longestPause time.Duration
	// poll is how often is looked for messages where there are none.
	poll time.Duration
	// stop is how long the calls under way have when the sender is to end.
	stop time.Duration
}

const (
	// maxSenders is how many calls of the gateway may be under way in a process.
	maxSenders = 64
	// longestWish is the longest that a message waits because the gateway wishes so, and longestRest the longest that all of them do.
	longestWish, longestRest = 15 * time.Minute, time.Minute
	// patientFailures is how many calls in a row may come to nothing before the gateway is given a rest.
	patientFailures = 10
	// claimTime bounds a transaction.
	claimTime = 5 * time.Second
	// markReserve is which part of a lease is kept for the mark: a fifth.
	markReserve  = 5
	sayEvery     = 10 * time.Second
	maxLastError = 300 // characters
)

func defaultPace() pace {
	return pace{
		senders: DefaultSenders, maxAge: DefaultMaxAge, lease: 30 * time.Second, call: 10 * time.Second, firstPause: time.Second,
		longestPause: 5 * time.Minute, poll: 200 * time.Millisecond, stop: 15 * time.Second,
	}
}

// run sends until ctx ends. Then it finishes the calls under way, within its time for that.
func (s *sender) run(ctx context.Context) {
	ending, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(s.pace.stop, end) })()
	var calls sync.WaitGroup
	defer calls.Wait()
	free := make(chan struct{}, s.pace.senders)
	for range s.pace.senders {
		free <- struct{}{}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-free:
		}
		if !sleep(ctx, s.rest()) {
			return
		}
		most := 1 + drain(free)
		taken, err := s.claim(ending, most)
		if err != nil && ctx.Err() == nil {
			s.say("cannot take messages to send", "error", err)
		}
		for range most - len(taken.list) {
			free <- struct{}{}
		}
		for _, m := range taken.list {
			calls.Go(func() {
				s.send(ending, m, taken.leaseEnds)
				free <- struct{}{}
			})
		}
		if len(taken.list)+taken.expired < most && !sleep(ctx, s.pace.poll) {
			return
		}
	}
}

// drain takes what can be had at once.
func drain(free chan struct{}) (n int) {
	for {
		select {
		case <-free:
			n++
		default:
			return n
		}
	}
}

// taken are messages that are this sender's until the lease ends.
type taken struct {
	list      []dbsqlc.SMSClaimRow
	leaseEnds time.Time
	expired   int
}

// claim takes messages. An error can leave some taken, and nobody knows: their lease ends.
func (s *sender) claim(ctx context.Context, most int) (taken, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	// The lease begins later, by the database's clock: ours is over first.
	t := taken{leaseEnds: time.Now().Add(s.pace.lease)}
	var rows []dbsqlc.SMSClaimRow
	err := pg.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		rows, err = queries.SMSClaim(ctx, tx, dbsqlc.SMSClaimParams{
			Lease: s.pace.lease.Seconds(), MaxAge: s.pace.maxAge.Seconds(), Most: int32(most), //nolint:gosec // at most maxSenders
		})
		return err
	})
	if err != nil {
		return t, err
	}
	for _, row := range rows {
		if row.TooOld {
			t.expired++
			s.log.Warn("a message has expired", "event", row.EventID, "attempts", row.Attempts)
			continue
		}
		t.list = append(t.list, row)
	}
	return t, nil
}

// send calls the gateway for a message and marks what came of it.
func (s *sender) send(ctx context.Context, m dbsqlc.SMSClaimRow, leaseEnds time.Time) {
	// A process that was frozen since it took the message has lost it, and must not call.
	callEnds := leaseEnds.Add(-s.pace.lease / markReserve)
	if limit := time.Now().Add(s.pace.call); limit.Before(callEnds) {
		callEnds = limit
	}
	if !time.Now().Before(callEnds) {
		s.say("a message was taken too long ago to be sent", "event", m.EventID)
		return
	}
	if m.WasSending {
		s.metrics.calledAgain()
		s.log.Warn("the gateway is called again for a message that it may have", "event", m.EventID, "attempt", m.Attempts)
	}
	callCtx, cancel := context.WithDeadline(ctx, callEnds)
	reference, err := s.gateway.Send(callCtx, Message{Key: m.EventID, Phone: m.Phone, Text: m.Text})
	cancel()
	if err == nil {
		// From here on it must not be sent again, and until it is marked it may be.
		s.metrics.called(resultSent)
		s.went()
		s.mark(ctx, m.EventID, leaseEnds, func(ctx context.Context, tx pgx.Tx) error {
			_, err := queries.SMSSent(ctx, tx, dbsqlc.SMSSentParams{EventID: m.EventID, GatewayRef: reference})
			return err
		})
		s.metrics.sent(m.EventTime)
		return
	}
	not := s.notSent(m, err)
	s.mark(ctx, m.EventID, leaseEnds, func(ctx context.Context, tx pgx.Tx) error {
		_, err := queries.SMSNotSent(ctx, tx, not)
		return err
	})
}

// notSent says what becomes of a message that the gateway has not taken, as far as anybody knows.
func (s *sender) notSent(m dbsqlc.SMSClaimRow, err error) dbsqlc.SMSNotSentParams {
	not := dbsqlc.SMSNotSentParams{EventID: m.EventID, Attempt: m.Attempts, State: string(Queued), LastError: cutName(printable(err.Error()), maxLastError)}
	var refused *RefusedError
	if errors.As(err, &refused) {
		s.metrics.called(resultRefused)
		s.went()
		s.log.Warn("the gateway refuses a message", "event", m.EventID, "status", refused.Status, "reason", MaskNumbers(refused.Reason))
		not.State = string(Failed)
		return not
	}
	s.metrics.called(resultAgain)
	s.say("a message could not be sent, and is tried again", "event", m.EventID, "attempt", m.Attempts, "error", MaskNumbers(err.Error()))
	pause := s.pace.pause(int(m.Attempts))
	var later *LaterError
	if errors.As(err, &later) && later.After > 0 {
		pause = min(max(later.After, pause), longestWish)
	}
	s.hadTrouble(later)
	not.Pause = pause.Seconds()
	return not
}

// pause is how long a message waits after so many attempts: twice as long each time, and not all of them as long.
func (p pace) pause(attempts int) time.Duration {
	pause := p.longestPause
	if steps := attempts - 1; steps < 30 {
		pause = min(p.firstPause<<max(0, steps), p.longestPause)
	}
	return pause/2 + rand.N(pause/2+1)
}

// mark writes down what has become of a message, again and again while it is this sender's: the alternative is to call once more. It tries for a
// while also where the lease is over: what the gateway has said stays true.
func (s *sender) mark(ctx context.Context, event string, leaseEnds time.Time, write func(context.Context, pgx.Tx) error) {
	const firstPause, longestPause = 20 * time.Millisecond, time.Second
	if least := time.Now().Add(s.pace.call); leaseEnds.Before(least) {
		leaseEnds = least
	}
	bounded, cancel := context.WithDeadline(ctx, leaseEnds)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		try, cancel := context.WithTimeout(bounded, claimTime)
		err := pg.InTx(try, s.pool, func(tx pgx.Tx) error { return write(try, tx) })
		cancel()
		if err == nil {
			return
		}
		if !sleep(bounded, pause) {
			s.log.Error("what the gateway answered could not be written down: it will be asked again", "event", event, "error", err)
			return
		}
	}
}

// went notes that the gateway answers.
func (s *sender) went() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = 0
}

// hadTrouble notes that a call came to nothing, and gives the gateway a rest if it asks for one, or nothing has gone well for a while. Each message
// has a pause of its own besides.
func (s *sender) hadTrouble(later *LaterError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
	rest := time.Duration(0)
	switch {
	case later != nil && (later.Status == http.StatusTooManyRequests || later.Status == http.StatusServiceUnavailable):
		rest = min(max(later.After, s.pace.firstPause), longestRest)
	case s.failures >= patientFailures:
		rest = s.pace.firstPause
	}
	if until := time.Now().Add(rest); until.After(s.restUntil) {
		s.restUntil = until
	}
}

// rest is for how long the gateway is to be left alone.
func (s *sender) rest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.restUntil)
}

// say logs what may happen to thousands of messages at once, now and then.
func (s *sender) say(what string, args ...any) {
	s.mu.Lock()
	due := time.Since(s.saidAt) > sayEvery
	if due {
		s.saidAt = time.Now()
	}
	s.mu.Unlock()
	if due {
		s.log.Warn(what, args...)
	}
}

// sleep reports whether ctx is still at work after it. It does not wait for what is over.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
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

// clean deletes messages that nobody needs any more.
func clean(ctx context.Context, pool *pgxpool.Pool, keep time.Duration) error {
	const atOnce = 1000
	for {
		n, err := queries.SMSClean(ctx, pool, dbsqlc.SMSCleanParams{Keep: keep.Seconds(), Most: atOnce})
		if err != nil {
			return fmt.Errorf("delete old messages: %w", err)
		}
		if n < atOnce {
			return nil
		}
	}
}
