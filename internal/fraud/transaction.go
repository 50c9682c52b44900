package fraud

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// transactionTimeout is after how long Kafka aborts a transaction of an instance that says nothing more. Until then who reads committed
	// records waits at it, and so does who takes over its partitions.
	transactionTimeout = 10 * time.Second
	// transactionPatience bounds a transaction as a whole: Kafka's own time for it is over long before.
	transactionPatience = 30 * time.Second
)

// errNotCommitted is that a transaction was taken back for no fault of its own: the group has gone on without this instance.
var errNotCommitted = errors.New("the transaction was aborted: the group has other plans for its partitions")

// transact writes records and the offsets of what was polled in one transaction. After an error nobody here knows what is true: the
// transaction may be committed all the same, if only the answer was lost. Then the session and all that is remembered are to be thrown away.
//
// It and reset are the only place that begins, produces and ends. A transaction in which a record was refused can be committed without it, and
// nothing but the record's promise says so; so no promise is left unheard.
func (s *session) transact(records []*kgo.Record) error {
	// Not with the context of Run: what has begun is brought to its end, and a context that ends in the middle leaves it open.
	ctx, cancel := context.WithTimeout(context.Background(), transactionPatience)
	defer cancel()
	if err := s.kafka.Begin(); err != nil {
		s.metrics.ended(failed)
		return fmt.Errorf("begin a transaction: %w", err)
	}
	var promises promises
	for _, r := range records {
		s.kafka.Produce(ctx, r, promises.keep)
	}
	if err := s.client.Flush(ctx); err != nil {
		s.metrics.ended(failed)
		return fmt.Errorf("write %d records: %w", len(records), err)
	}
	if s.beforeEnd != nil {
		s.beforeEnd()
	}
	if err := promises.broken(len(records)); err != nil {
		// An abort that does not come about is done by whoever uses the transactional id next, or by Kafka when the time is up.
		_, _ = s.kafka.End(ctx, kgo.TryAbort)
		s.metrics.ended(aborted)
		return fmt.Errorf("write %d records: %w", len(records), err)
	}
	done, err := s.kafka.End(ctx, kgo.TryCommit)
	switch {
	case err != nil:
		s.metrics.ended(failed)
		return fmt.Errorf("commit to Kafka: %w", err)
	case !done:
		s.metrics.ended(aborted)
		return errNotCommitted
	}
	s.metrics.ended(committed)
	return nil
}

// reset has the session forget that partitions were taken from it, which it would otherwise hold against the next transaction, though
// nothing of that is about them: while records are worked on, nobody takes any (kgo.BlockRebalanceOnPoll). It does so by a transaction of
// nothing. What was polled is polled again.
func (s *session) reset() error {
	ctx, cancel := context.WithTimeout(context.Background(), transactionPatience)
	defer cancel()
	if err := s.kafka.Begin(); err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	if _, err := s.kafka.End(ctx, kgo.TryAbort); err != nil {
		return fmt.Errorf("go back to what is committed: %w", err)
	}
	return nil
}

// promises are what becomes of the records of a transaction.
type promises struct {
	mu    sync.Mutex
	kept  int
	first error
}

// keep hears what became of a record.
func (p *promises) keep(_ *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.kept++
	case p.first == nil:
		p.first = err
	}
}

// broken is why not all of so many records are written; nil if they are.
func (p *promises) broken(of int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == nil && p.kept != of {
		return fmt.Errorf("of %[2]d records Kafka has taken %[1]d", p.kept, of)
	}
	return p.first
}
