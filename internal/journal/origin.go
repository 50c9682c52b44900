package journal

import (
	"context"
	"hash/fnv"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// originSizes finds how many entries the transfers have that requests are steps of, as far as they are there.
func (j *Journal) originSizes(ctx context.Context, book ledgerRow, specs []ledger.TransferSpec) (map[ledger.TransferID]int, error) {
	var ids []string
	asked := map[ledger.TransferID]bool{}
	for _, spec := range specs {
		if id := spec.Origin(); id != "" && !asked[id] && id.ValidateFormat("origin") == nil {
			asked[id] = true
			ids = append(ids, string(id))
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	sizes := make(map[ledger.TransferID]int, len(ids))
	err := j.read(ctx, "post", func(ctx context.Context) error {
		rows, err := j.sql.TransferSizes(ctx, j.pool, dbsqlc.TransferSizesParams{LedgerID: book.id, TransferIds: ids})
		for _, row := range rows {
			sizes[ledger.TransferID(row.TransferID)] = int(row.Entries)
		}
		return err
	})
	return sizes, err
}

// sizes gives how many entries each request has, or follows from: of a step of a transfer that is neither there nor in the call before it, as
// many as it can have at most.
func (j *Journal) sizes(ctx context.Context, book ledgerRow, specs []ledger.TransferSpec) ([]int, error) {
	known, err := j.originSizes(ctx, book, specs)
	if err != nil {
		return nil, err
	}
	sizes := make([]int, len(specs))
	for i, spec := range specs {
		origin, ok := known[spec.Origin()]
		switch {
		case !spec.Kind().IsStep():
			sizes[i] = len(spec.Entries)
		case ok:
			sizes[i] = origin
		case spec.Kind().OfHold():
			sizes[i] = 2
		default:
			sizes[i] = ledger.MaxEntries
		}
		if known == nil {
			known = map[ledger.TransferID]int{}
		}
		if _, ok := known[spec.ID]; !ok {
			known[spec.ID] = sizes[i]
		}
	}
	return sizes, nil
}

// findOrigins reads the transfers that requests are steps of, as many as there are: their records never change, and say which
// accounts the requests are about. One that is not there yet may be decided by the same call.
func (j *Journal) findOrigins(ctx context.Context, book ledgerRow, r *request) error {
	var ids []string
	asked := map[ledger.TransferID]bool{}
	for _, item := range r.items {
		if id := item.spec.Origin(); id != "" && !asked[id] {
			asked[id] = true
			ids = append(ids, string(id))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return j.read(ctx, "post", func(ctx context.Context) error {
		records, err := j.transfers(ctx, j.pool, book.id, ids)
		found := make(map[ledger.TransferID]*ledger.Transfer, len(records))
		for _, record := range records {
			found[record.ID] = record
		}
		for i := range r.items {
			r.items[i].origin = found[r.items[i].spec.Origin()]
		}
		return err
	})
}

// originLocks is how many locks the origins of a ledger share: PostgreSQL's table of locks is finite, and batches are large.
const originLocks = 512

// lockOrigins queues the locks of the batch's origins, and returns the ids of those that are known.
func (t *try) lockOrigins(b *pgx.Batch) []string {
	if len(t.origins) == 0 {
		return nil
	}
	var known []string
	hashes := make([]int32, 0, len(t.origins))
	for id, origin := range t.origins {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(id)) // It never fails.
		hashes = append(hashes, t.book.id*originLocks+int32(hash.Sum32()%originLocks))
		if origin != nil {
			known = append(known, string(id))
		}
	}
	b.Queue(dbsqlc.LockOrigins, hashes)
	return known
}

// loadOrigins queues what is read of origins: of those that are known their steps, of the others whether they are there by now.
func (t *try) loadOrigins(b *pgx.Batch, l *loaded, known []string) {
	if len(known) > 0 {
		pg.Ask(b, &l.steps, dbsqlc.StepsOf, known, t.book.id)
	}
	var unknown []string
	for id, origin := range t.origins {
		if origin == nil {
			unknown = append(unknown, string(id))
		}
	}
	if len(unknown) > 0 {
		pg.Ask(b, &l.origins, dbsqlc.TransfersByID, unknown, t.book.id)
	}
}

// noteOrigins takes in origins that were not known, and reports whether all that is needed of them has been read. Otherwise their
// accounts belong to the batch from now on.
func (t *try) noteOrigins(l *loaded) (known bool, err error) {
	if len(l.origins) == 0 {
		return true, nil
	}
	records, err := t.named(l.origins)
	if err != nil {
		return false, err
	}
	for _, record := range records {
		t.origins[record.ID] = record
		t.view.add(record.Entries)
	}
	return false, nil
}

// keepOrigins has the next try know the origins that this one has found.
func (t *try) keepOrigins() {
	for i := range t.items {
		if item := &t.items[i]; item.origin == nil {
			item.origin = t.origins[item.spec.Origin()]
		}
	}
}

func (t *try) enterOrigins(rows []dbsqlc.StepsOfRow) error {
	if len(t.origins) == 0 {
		return nil
	}
	converted := make([]dbsqlc.TransfersByIDRow, len(rows))
	for i, row := range rows {
		converted[i] = dbsqlc.TransfersByIDRow(row)
	}
	records, err := t.named(converted)
	if err != nil {
		return err
	}
	steps := map[ledger.TransferID][]*ledger.Transfer{}
	for _, record := range records {
		steps[record.Origin()] = append(steps[record.Origin()], record)
	}
	for id, origin := range t.origins {
		if origin != nil {
			t.books.AddOrigin(origin, steps[id])
		}
	}
	return nil
}
