package relay

import (
	"context"
	"errors"
	"time"

	"github.com/khata-ledger/khata/internal/journal"
)

const (
	// mostBytes and leastBytes bound a transaction; one event may have more.
	mostBytes, leastBytes = 16 << 20, 256 << 10
	// underWayEvery is how often to look again whether a ledger's numbers have been committed, and sayEvery how often to say that they are not.
	underWayEvery, sayEvery = 500 * time.Millisecond, time.Minute
)

// read reads the ledgers from where they are on, in turn, and makes events of what is there.
func (l *leader) read(ctx context.Context, read cursor, out chan<- batch) error {
	feed := l.config.Journal.Feed()
	later := map[int32]time.Time{} // when to look at a ledger again that has something under way
	var said time.Time
	for {
		unread, err := feed.Unread(ctx, read)
		if err != nil {
			return err
		}
		idle := true
		for _, u := range unread {
			if time.Now().Before(later[u.LedgerID]) {
				continue
			}
			records, err := feed.Records(ctx, u.LedgerID, read[u.LedgerID], l.config.Window)
			if errors.Is(err, journal.ErrUnderWay) {
				later[u.LedgerID] = time.Now().Add(underWayEvery)
				if time.Since(u.Since) > 10*time.Second && time.Since(said) > sayEvery {
					said = time.Now()
					l.log.Warn("a ledger waits to be published: a transaction that has drawn numbers does not end (see pg_locks, advisory, class 4247)",
						"ledger", u.Ledger, "since", u.Since)
				}
				continue
			}
			if err != nil {
				return err
			}
			idle = idle && len(records) == 0
			for len(records) > 0 {
				b := l.nextBatch(u, read[u.LedgerID], &records)
				select {
				case out <- b:
				case <-ctx.Done():
					return ctx.Err()
				}
				read[u.LedgerID] = b.through
			}
		}
		if idle && !sleep(ctx, l.config.Poll) {
			return ctx.Err()
		}
	}
}

// nextBatch makes events of records, and takes these off, until they are as large as a transaction may be.
func (l *leader) nextBatch(u journal.Unread, from int64, records *[]journal.Record) batch {
	b := batch{ledgerID: u.LedgerID, ledger: u.Ledger, from: from, oldest: u.Since}
	most := l.bytes.Load()
	for size := int64(0); len(*records) > 0 && size < most; *records = (*records)[1:] {
		before := len(b.events)
		b.events = l.config.Topics.appendEvents(b.events, u.Ledger, (*records)[0])
		b.through, b.records = (*records)[0].Sequence, b.records+1
		for _, e := range b.events[before:] {
			size += e.size()
		}
	}
	return b
}
