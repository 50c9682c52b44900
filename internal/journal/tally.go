package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/periodic"
	"github.com/khata-ledger/khata/ledger"
)

// Guard is what stops a duplicate.
type Guard string

// The guards whose duplicates are counted in the database.
const (
	// LedgerGuard is the id of a transfer.
	LedgerGuard Guard = "ledger"
	// KeyGuard is the key of a payment.
	KeyGuard Guard = "key"
)

const (
	tallyEvery = time.Minute
	quarter    = 15 * time.Minute
	// tallyKept is for how many quarters a server keeps what it has counted: long enough to have written it.
	tallyKept = 8
)

// tallies counts the duplicates that this server stops. A duplicate writes nothing, and so leaves no trace of its own: the counts are written
// from time to time, each row by the one server that it is of, which sets it to what it has counted.
type tallies struct {
	run pgtype.UUID

	mu     sync.Mutex
	counts map[tallyKey]*tally
}

type tallyKey struct {
	ledgerID int32
	quarter  time.Time
	guard    Guard
}

type tally struct {
	replayed, taken int64
	written         bool
}

func newTallies() *tallies {
	t := &tallies{run: pgtype.UUID{Valid: true}, counts: map[tallyKey]*tally{}}
	_, _ = rand.Read(t.run.Bytes[:]) // It never fails.
	return t
}

// count adds to what was counted in the quarter of an hour that it is by this server's clock.
func (t *tallies) count(ledgerID int32, guard Guard, replayed, taken int64) {
	if replayed == 0 && taken == 0 {
		return
	}
	key := tallyKey{ledgerID, time.Now().UTC().Truncate(quarter), guard}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.counts[key]
	if n == nil {
		n = &tally{}
		t.counts[key] = n
	}
	n.replayed += replayed
	n.taken += taken
	n.written = false
}

// countResults counts the duplicates among answers.
func (t *tallies) countResults(ledgerID int32, results []PostResult) {
	var replayed, taken int64
	for i := range results {
		switch r := &results[i]; {
		case r.Replayed:
			replayed++
		case r.Err != nil && ledger.CodeOf(r.Err) == ledger.CodeAlreadyExists:
			taken++
		}
	}
	t.count(ledgerID, LedgerGuard, replayed, taken)
}

// unwritten gives what has to be written, by ledger, and forgets what is old.
func (t *tallies) unwritten() map[int32]dbsqlc.DuplicatesTallyParams {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := map[int32]dbsqlc.DuplicatesTallyParams{}
	for _, key := range slices.SortedFunc(maps.Keys(t.counts), func(a, b tallyKey) int { return a.quarter.Compare(b.quarter) }) {
		n := t.counts[key]
		if n.written {
			if time.Since(key.quarter) > tallyKept*quarter {
				delete(t.counts, key)
			}
			continue
		}
		n.written = true
		args := list[key.ledgerID]
		args.LedgerID, args.Run = key.ledgerID, t.run
		args.Quarters, args.Guards = append(args.Quarters, key.quarter), append(args.Guards, string(key.guard))
		args.Replayed, args.Taken = append(args.Replayed, n.replayed), append(args.Taken, n.taken)
		list[key.ledgerID] = args
	}
	return list
}

// failed has what was not written be written another time.
func (t *tallies) failed(args dbsqlc.DuplicatesTallyParams) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range args.Quarters {
		if n := t.counts[tallyKey{args.LedgerID, args.Quarters[i], Guard(args.Guards[i])}]; n != nil {
			n.written = false
		}
	}
}

// CountDuplicates notes duplicates that a guard before the ledger has stopped: those that were answered again, and those refused because the
// content was another.
func (j *Journal) CountDuplicates(ctx context.Context, name ledger.Name, guard Guard, replayed, taken int64) {
	if book, err := j.ledger(ctx, name); err == nil {
		j.tallies.count(book.id, guard, replayed, taken)
	}
}

// writeTallies writes what has been counted.
func (j *Journal) writeTallies(ctx context.Context) error {
	var failed error
	list := j.tallies.unwritten()
	for _, ledgerID := range slices.Sorted(maps.Keys(list)) {
		if err := j.sql.DuplicatesTally(ctx, j.pool, list[ledgerID]); err != nil {
			j.tallies.failed(list[ledgerID])
			failed = cmp.Or(failed, err)
		}
	}
	return failed
}

func (j *Journal) tallyJob() periodic.Job {
	return periodic.Job{Name: "write the duplicates that were stopped", Every: tallyEvery, Do: j.writeTallies, Log: j.log}
}

// Stopped is how many duplicates a guard has stopped in a quarter of an hour.
type Stopped struct {
	Since           time.Time
	Guard           Guard
	Replayed, Taken int64
}

// Duplicates tells what the servers have counted in the period, by booking time.
func (p *Period) Duplicates(ctx context.Context) ([]Stopped, error) {
	var list []Stopped
	err := p.read(ctx, "read the duplicates", func(ctx context.Context) error {
		rows, err := p.journal.sql.DuplicatesStopped(ctx, p.journal.pool, dbsqlc.DuplicatesStoppedParams{
			LedgerID: p.book, Since: p.opening.at.Add(time.Microsecond), Before: p.closing.at,
		})
		list = list[:0]
		for _, row := range rows {
			list = append(list, Stopped{row.Quarter.UTC(), Guard(row.Guard), row.Replayed, row.Taken})
		}
		return err
	})
	return list, err
}
