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

// How a duplicate was met.
type duplicate string

const (
	// replayed is of a request that was answered again, as the first time.
	replayed duplicate = "replayed"
	// taken is of one that was refused, because its id or key has other content.
	taken duplicate = "taken"
)

const (
	quarter = 15 * time.Minute
	// tallyKept is for how many quarters a server keeps what it could not write of single transfers.
	tallyKept = 8
	// maxTallied bounds of how many transfers of a ledger in a quarter a guard's duplicates are counted one by one. An import that is run again would have
	// millions.
	maxTallied = 4_000
	// tallySlice is how many of them are written, or forgotten, by one statement.
	tallySlice = 1_000
	// forgetAfter is for how long the database keeps what was counted of single transfers.
	forgetAfter, forgetEvery = 90 * 24 * time.Hour, time.Hour
)

// tallies counts the duplicates that this server stops. A duplicate writes nothing, and so leaves no trace of its own: the counts are written
// from time to time, each row by the one server that it is of, which sets it to what it has counted.
type tallies struct {
	run pgtype.UUID

	mu     sync.Mutex
	counts map[tallyKey]*tally
	// places has how many of the counts of a quarter are of single transfers, by ledger and guard.
	quarter time.Time
	places  map[place]int
}

type place struct {
	ledgerID int32
	guard    Guard
}

type tallyKey struct {
	place
	// transfer is empty for all of them together.
	transfer ledger.TransferID
	quarter  time.Time
}

type tally struct {
	replayed, taken int64
	first, last     time.Time
	written         bool
}

func newTallies() *tallies {
	t := &tallies{run: pgtype.UUID{Valid: true}, counts: map[tallyKey]*tally{}, places: map[place]int{}}
	_, _ = rand.Read(t.run.Bytes[:]) // It never fails.
	return t
}

// count counts a duplicate of a transfer, in the quarter of an hour that it is by this server's clock.
func (t *tallies) count(ledgerID int32, guard Guard, id ledger.TransferID, how duplicate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now().UTC()
	key := tallyKey{place: place{ledgerID, guard}, quarter: now.Truncate(quarter)}
	if !key.quarter.Equal(t.quarter) { // Another one, which may be an earlier one: clocks are put right.
		t.quarter = key.quarter
		clear(t.places)
	}
	t.add(key, how, now)
	if key.transfer = id; t.counts[key] == nil {
		if t.places[key.place] == maxTallied {
			return
		}
		t.places[key.place]++
	}
	t.add(key, how, now)
}

func (t *tallies) add(key tallyKey, how duplicate, now time.Time) {
	n := t.counts[key]
	if n == nil {
		n = &tally{first: now}
		t.counts[key] = n
	}
	switch how {
	case replayed:
		n.replayed++
	case taken:
		n.taken++
	}
	n.last, n.written = now, false
}

// countResults counts the duplicates among the answers to requests. Those that Khata's own rooms post are no duplicates that somebody sent: two servers
// expire the same hold, or finish the same refund; and a room that posts for others, with a hook, knows who has asked, and counts by itself.
func (t *tallies) countResults(ledgerID int32, items []item, results []PostResult) {
	for i := range results {
		if items[i].hook != nil || items[i].spec.Kind() == ledger.Expiry {
			continue
		}
		switch r := &results[i]; {
		case r.Replayed:
			t.count(ledgerID, LedgerGuard, items[i].spec.ID, replayed)
		case r.Err != nil && ledger.CodeOf(r.Err) == ledger.CodeAlreadyExists:
			t.count(ledgerID, LedgerGuard, items[i].spec.ID, taken)
		}
	}
}

// unwritten are the counts of a ledger that have to be written.
type unwritten struct {
	all dbsqlc.DuplicatesTallyParams
	of  []dbsqlc.DuplicatesTallyTransfersParams
	// keys are those of both.
	keys []tallyKey
}

func (u *unwritten) add(key tallyKey, n *tally) {
	u.keys = append(u.keys, key)
	if key.transfer == "" {
		a := &u.all
		a.Quarters, a.Guards = append(a.Quarters, key.quarter), append(a.Guards, string(key.guard))
		a.Replayed, a.Taken = append(a.Replayed, n.replayed), append(a.Taken, n.taken)
		return
	}
	if last := len(u.of) - 1; last < 0 || len(u.of[last].Quarters) == tallySlice {
		u.of = append(u.of, dbsqlc.DuplicatesTallyTransfersParams{LedgerID: u.all.LedgerID, Run: u.all.Run})
	}
	a := &u.of[len(u.of)-1]
	a.TransferIds, a.Quarters, a.Guards = append(a.TransferIds, string(key.transfer)), append(a.Quarters, key.quarter), append(a.Guards, string(key.guard))
	a.Replayed, a.Taken = append(a.Replayed, n.replayed), append(a.Taken, n.taken)
	a.FirstAt, a.LastAt = append(a.FirstAt, n.first), append(a.LastAt, n.last)
}

// unwritten gives what has to be written, by ledger, and forgets what is old: what was written and is added to no more, and of single transfers what
// could not be written for long.
func (t *tallies) unwritten() map[int32]*unwritten {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := map[int32]*unwritten{}
	for key, n := range t.counts {
		age := time.Since(key.quarter)
		if n.written && age > 2*quarter || key.transfer != "" && age > tallyKept*quarter {
			delete(t.counts, key)
			continue
		}
		if n.written {
			continue
		}
		n.written = true
		u := list[key.ledgerID]
		if u == nil {
			u = &unwritten{all: dbsqlc.DuplicatesTallyParams{LedgerID: key.ledgerID, Run: t.run}}
			list[key.ledgerID] = u
		}
		u.add(key, n)
	}
	return list
}

// failed has what was not written be written another time.
func (t *tallies) failed(u *unwritten) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range u.keys {
		if n := t.counts[key]; n != nil {
			n.written = false
		}
	}
}

// CountReplay notes that a guard has answered a request for a transfer again, where a room posts for others: of what was asked of the journal itself, it
// counts by itself.
func (j *Journal) CountReplay(ctx context.Context, name ledger.Name, guard Guard, id ledger.TransferID) {
	j.count(ctx, name, guard, id, replayed)
}

// CountTaken notes in the same way that a guard has refused a request, because the transfer of its id has other content.
func (j *Journal) CountTaken(ctx context.Context, name ledger.Name, guard Guard, id ledger.TransferID) {
	j.count(ctx, name, guard, id, taken)
}

func (j *Journal) count(ctx context.Context, name ledger.Name, guard Guard, id ledger.TransferID, how duplicate) {
	if book, err := j.ledger(ctx, name); err == nil {
		j.tallies.count(book.id, guard, id, how)
	}
}

// writeTallies writes what has been counted.
func (j *Journal) writeTallies(ctx context.Context) error {
	var failed error
	list := j.tallies.unwritten()
	for _, ledgerID := range slices.Sorted(maps.Keys(list)) {
		if err := j.writeTally(ctx, list[ledgerID]); err != nil {
			j.tallies.failed(list[ledgerID])
			failed = cmp.Or(failed, err)
		}
	}
	return failed
}

func (j *Journal) writeTally(ctx context.Context, u *unwritten) error {
	err := j.sql.DuplicatesTally(ctx, j.pool, u.all)
	for i := 0; err == nil && i < len(u.of); i++ {
		err = j.sql.DuplicatesTallyTransfers(ctx, j.pool, u.of[i])
	}
	return err
}

func (j *Journal) tallyJob() periodic.Job {
	return periodic.Job{Name: "write the duplicates that were stopped", Every: j.config.CountEvery, Do: j.writeTallies, Log: j.log}
}

// forgetTallies deletes what was counted of single transfers long ago.
func (j *Journal) forgetTallies(ctx context.Context) error {
	for {
		n, err := j.sql.DuplicatesForget(ctx, j.pool, dbsqlc.DuplicatesForgetParams{Seconds: forgetAfter.Seconds(), Most: tallySlice})
		if err != nil || n < tallySlice {
			return err
		}
	}
}

func (j *Journal) forgetJob() periodic.Job {
	every := forgetEvery
	if j.config.CountEvery < 0 {
		every = -1
	}
	return periodic.Job{Name: "forget the duplicates of long ago", Every: every, Do: j.forgetTallies, Log: j.log}
}
