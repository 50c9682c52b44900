package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// transactionTimeout is after how long Kafka aborts a transaction of a relay that says nothing more. Until then readers of committed
	// records wait at it; a relay that takes over aborts it at once.
	transactionTimeout = 60 * time.Second
	// publishPatience bounds a transaction as a whole. A relay that cannot reach Kafka for so long gives up its lease: another one may
	// have a better network.
	publishPatience = 40 * time.Second
)

// largest is what a client takes of an event that is sent alone: whether it is too large is for Kafka to say.
const largest = 64 << 20

// publisher sends events, a transaction at a time. Its transactional id is that of all relays of these topics: see the package.
type publisher struct {
	options []kgo.Opt
	// maxBatch is the most bytes of a batch of events: one that is larger than its topic takes would be refused as a whole.
	maxBatch int32
	// mine reports whether the term is still ours.
	mine   func(context.Context) error
	client *kgo.Client
}

func newPublisher(options []kgo.Opt, prefix string, maxBatch int32, mine func(context.Context) error) *publisher {
	return &publisher{maxBatch: maxBatch, mine: mine, options: append([]kgo.Opt{
		kgo.TransactionalID("khata-relay-" + prefix),
		kgo.TransactionTimeout(transactionTimeout),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(5 * time.Millisecond), // of a large transaction; its end flushes
		kgo.MaxBufferedRecords(1 << 20),          // what is in a transaction, the window bounds
		// While brokers still put the markers of one transaction, they have the next one try again. The client does when it has asked for the
		// metadata once more, and for that it would wait 5 seconds.
		kgo.MetadataMinAge(50 * time.Millisecond),
		// Events are small, and the brokers look into what is compressed: it would take longer than to send it.
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		// Java's, and everybody's default but librdkafka's: a key is in the partition where others look for it.
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	}, options...)}
}

// start fences whoever used the transactional id before: what they have under way is aborted when it returns. Whoever has taken over
// meanwhile is fenced, too, and would be by a relay whose time is over; so only then is it asked whose time it is. Who takes over after that
// fences in turn.
func (p *publisher) start(ctx context.Context, maxBatch int32) error {
	p.close()
	client, err := kgo.NewClient(append(slices.Clip(p.options), kgo.ProducerBatchMaxBytes(maxBatch))...)
	if err != nil {
		return err
	}
	p.client = client
	if _, _, err := client.ProducerID(ctx); err != nil {
		p.close()
		return fmt.Errorf("begin to publish: %w", err)
	}
	if err := p.mine(ctx); err != nil {
		p.close()
		return err
	}
	return nil
}

func (p *publisher) close() {
	if p.client != nil {
		p.client.CloseAllowingRebalance()
		p.client = nil
	}
}

// refused is an error of a record, and not of the way to Kafka: it would be refused again.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

func asRefusal(err error) error {
	if errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.RecordListTooLarge) ||
		errors.Is(err, kerr.PolicyViolation) {
		return refused{err}
	}
	return err
}

// publish sends events in one transaction. After an error none of them is visible to those who read what is committed, unless its
// outcome was lost on the way; then the client is thrown away, since what it still believes about the transaction may be wrong.
func (p *publisher) publish(ctx context.Context, events []event) error {
	ctx, cancel := context.WithTimeout(ctx, publishPatience)
	defer cancel()
	if p.client == nil {
		if err := p.start(ctx, p.maxBatch); err != nil {
			return err
		}
	}
	err := p.transaction(ctx, events)
	if err != nil {
		p.close()
	}
	return err
}

// publishAlone sends one event, whatever its size, by a client of its own.
func (p *publisher) publishAlone(ctx context.Context, e event) error {
	ctx, cancel := context.WithTimeout(ctx, publishPatience)
	defer cancel()
	if err := p.start(ctx, largest); err != nil {
		return err
	}
	defer p.close()
	return p.transaction(ctx, []event{e})
}

func (p *publisher) transaction(ctx context.Context, events []event) error {
	if err := p.client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	var mu sync.Mutex
	var first error
	promise := func(_ *kgo.Record, err error) {
		if err == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		var r refused
		// What was refused tells more than what failed in its wake.
		if err = asRefusal(err); first == nil || errors.As(err, &r) {
			first = err
		}
	}
	for i := range events {
		// Not with the caller's patience: a record whose context has ended may be on its way all the same.
		p.client.Produce(context.WithoutCancel(ctx), events[i].record, promise)
	}
	if err := p.client.Flush(ctx); err != nil {
		return fmt.Errorf("publish %d events: %w", len(events), context.Cause(ctx))
	}
	mu.Lock()
	failed := first
	mu.Unlock()
	if failed != nil {
		// An abort that does not come about is done by who uses the id next.
		_ = p.client.EndTransaction(ctx, kgo.TryAbort)
		return fmt.Errorf("publish: %w", failed)
	}
	if err := p.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("commit to Kafka: %w", err)
	}
	return nil
}
