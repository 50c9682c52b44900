package relay

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// EventIDs are the ids of the events of a record.
func EventIDs(topics Topics, name ledger.Name, r journal.Record) []string {
	var ids []string
	for _, e := range topics.appendEvents(nil, name, r) {
		ids = append(ids, e.id)
	}
	return ids
}

// Publisher is a publisher as a relay has one in its term.
type Publisher struct {
	*publisher
	topics Topics
}

// NewPublisher makes one.
func NewPublisher(t testing.TB, options []kgo.Opt, topics Topics) Publisher {
	p := Publisher{newPublisher(options, topics.Prefix, 1<<20, func(context.Context) error { return nil }), topics}
	t.Cleanup(p.close)
	return p
}

func (p Publisher) events(name ledger.Name, records []journal.Record) (events []event) {
	for _, r := range records {
		events = p.topics.appendEvents(events, name, r)
	}
	return events
}

// Publish publishes the events of records.
func (p Publisher) Publish(name ledger.Name, records []journal.Record) error {
	return p.publish(context.Background(), p.events(name, records))
}

// PublishAgain is Publish with the client that it has.
func (p Publisher) PublishAgain(name ledger.Name, records []journal.Record) error {
	return p.transaction(context.Background(), p.events(name, records))
}

// Begin sends the events of records, and returns what commits them.
func (p Publisher) Begin(name ledger.Name, records []journal.Record) (commit func() error) {
	ctx := context.Background()
	if err := p.client.BeginTransaction(); err != nil {
		return func() error { return err }
	}
	for _, e := range p.events(name, records) {
		p.client.Produce(ctx, e.record, nil)
	}
	if err := p.client.Flush(ctx); err != nil {
		return func() error { return err }
	}
	return func() error { return p.client.EndTransaction(ctx, kgo.TryCommit) }
}

// PublishInTerm publishes the events of records as a relay would that has just begun in this term.
func (r *Relay) PublishInTerm(ctx context.Context, term int64, name ledger.Name, records []journal.Record) error {
	p := newPublisher(r.config.Kafka, r.config.Topics.Prefix, 1<<20, func(ctx context.Context) error {
		return r.inTerm(ctx, term, func(pgx.Tx) error { return nil })
	})
	defer p.close()
	return p.publish(ctx, Publisher{p, r.config.Topics}.events(name, records))
}

// ErrDeposed is that a term is over.
var ErrDeposed = errDeposed

// BatchSizes cuts records into batches of so many bytes, and gives the size of each, and that of the largest record.
func BatchSizes(topics Topics, most int64, records []journal.Record) (sizes []int64, largest int64) {
	l := &leader{Relay: New(Config{Topics: topics})}
	for _, r := range records {
		size := int64(0)
		for _, e := range topics.appendEvents(nil, "main", r) {
			size += e.size()
		}
		largest = max(largest, size)
	}
	for len(records) > 0 {
		l.bytes.Store(most)
		b := l.nextBatch(journal.Unread{Ledger: "main"}, 0, &records)
		size := int64(0)
		for _, e := range b.events {
			size += e.size()
		}
		sizes = append(sizes, size)
	}
	return sizes, largest
}
