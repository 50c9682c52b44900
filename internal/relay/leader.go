package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// cursor is how far a ledger has been read or published.
type cursor map[int32]int64

// batch is what is published at once: events of records of one ledger.
type batch struct {
	ledgerID int32
	ledger   ledger.Name
	// from is the cursor before, and through the last record.
	from, through int64
	records       int64
	oldest        time.Time
	events        []event
}

// leader is a relay that has the lease.
type leader struct {
	*Relay
	term      int64
	publisher *publisher
	published cursor
	// blocked are the places at which something is parked.
	blocked map[place]bool
	// refusals counts the events that Kafka has refused one after the other.
	refusals int
}

func (l *leader) load(ctx context.Context) error {
	return l.inTerm(ctx, l.term, func(tx pgx.Tx) error {
		rows, err := l.sql.RelayCursors(ctx, tx)
		if err != nil {
			return err
		}
		l.published = cursor{}
		for _, row := range rows {
			l.published[row.LedgerID] = row.Through
		}
		keys, err := l.sql.RelayParkedKeys(ctx, tx)
		for _, key := range keys {
			l.blocked[place{key.Topic, key.Key}] = true
		}
		return err
	})
}

// settleEvery is how often to look whether somebody wants parked events to be tried again.
const settleEvery = time.Second

// run publishes until something fails or ctx ends. One goroutine reads ahead while another one waits for Kafka.
func (l *leader) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	batches := make(chan batch, 1)
	read := cursor{}
	for id, through := range l.published {
		read[id] = through
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop(l.read(ctx, read, batches))
	}()
	defer func() {
		stop(nil)
		<-ended
	}()
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	for settling := false; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			settling = len(l.blocked) > 0
		case b := <-batches:
			if err := l.publish(ctx, b); err != nil {
				return err
			}
		case <-next(settling):
		}
		if settling { // In turn with what is new: nobody else waits for a key with many events.
			var err error
			if settling, err = l.settle(ctx); err != nil {
				return err
			}
		}
	}
}

// next is ready at once, or never.
func next(now bool) <-chan struct{} {
	if !now {
		return nil
	}
	ready := make(chan struct{})
	close(ready)
	return ready
}

// publish sends a batch, parks what Kafka refuses, and moves the cursor.
func (l *leader) publish(ctx context.Context, b batch) error {
	parked, err := l.send(ctx, b.events)
	if err != nil {
		if less := l.bytes.Load() / 2; less >= leastBytes {
			l.bytes.Store(less)
			l.log.Warn("the next transactions are smaller, in case that Kafka does not take as much in time", "bytes", less)
		}
		return err
	}
	l.bytes.Store(min(mostBytes, l.bytes.Load()*5/4))
	if err := l.inTerm(ctx, l.term, func(tx pgx.Tx) error {
		moved, err := l.sql.RelayAdvance(ctx, tx, dbsqlc.RelayAdvanceParams{
			LedgerID: b.ledgerID, Through: b.through, Records: b.records, FromNumber: b.from,
		})
		if err != nil {
			return err
		}
		if len(moved) == 0 {
			return fmt.Errorf("%w: somebody else has moved the cursor of ledger %s", errDeposed, b.ledger)
		}
		return l.park(ctx, tx, b.ledgerID, parked)
	}); err != nil {
		return err
	}
	l.published[b.ledgerID] = b.through
	l.config.Metrics.published(b, len(parked))
	return nil
}

// mostRefusals is how many events in a row may be at fault themselves.
const mostRefusals = 100

// send publishes events in their order. It returns those that have to be parked: what Kafka refuses, and what may not overtake it.
func (l *leader) send(ctx context.Context, events []event) (parked []parkedEvent, err error) {
	clear := events
	if len(l.blocked) > 0 || anyFault(events) {
		clear = make([]event, 0, len(events))
		for _, e := range events {
			switch at := e.place(); {
			case l.blocked[at]:
				parked = append(parked, parkedEvent{e, nil})
			case e.fault != nil:
				l.blocked[at] = true
				parked = append(parked, parkedEvent{e, e.fault})
			default:
				clear = append(clear, e)
			}
		}
	}
	if len(clear) == 0 {
		return parked, nil
	}
	err = l.publisher.publish(ctx, clear)
	var no refused
	switch {
	case err == nil:
		l.refusals = 0
		return parked, nil
	case !errors.As(err, &no):
		return nil, err
	case len(clear) == 1:
		if err = l.publisher.publishAlone(ctx, clear[0]); !errors.As(err, &no) {
			return parked, err
		}
		if l.refusals++; l.refusals > mostRefusals {
			return nil, fmt.Errorf("%d events were refused by Kafka one after the other, so it is not about them: see khata topics ensure. The last one: %w",
				l.refusals, no.error)
		}
		l.blocked[clear[0].place()] = true
		return append(parked, parkedEvent{clear[0], no.error}), nil
	}
	half := len(clear) / 2
	for _, part := range [][]event{clear[:half], clear[half:]} {
		more, err := l.send(ctx, part)
		if err != nil {
			return nil, err
		}
		parked = append(parked, more...)
	}
	return parked, nil
}

func anyFault(events []event) bool {
	for i := range events {
		if events[i].fault != nil {
			return true
		}
	}
	return false
}
