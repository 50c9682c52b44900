package journal

import (
	"context"
	"time"

	"github.com/khata-ledger/khata/internal/dbsqlc"
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

// Duplicates is how often a guard has stopped duplicates of a transfer.
type Duplicates struct {
	Transfer ledger.TransferID
	Guard    Guard
	// Replayed were answered again as the first time, and Taken refused because their content was another.
	Replayed, Taken int64
	// First and Last are when, by the servers' clocks.
	First, Last time.Time
}

// DuplicatesOf tells what the servers have counted of some transfers in the last 90 days, at most so many, the newest first. It is no proof that there
// were no others: a server that was killed has lost what it had counted last, and of thousands at once not all are counted one by one.
func (j *Journal) DuplicatesOf(ctx context.Context, name ledger.Name, ids []ledger.TransferID, most int) ([]Duplicates, error) {
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	args := dbsqlc.DuplicatesOfTransfersParams{LedgerID: book.id, TransferIds: texts(ids), Most: int32(most)} //nolint:gosec // It is a few hundred.
	var rows []dbsqlc.DuplicatesOfTransfersRow
	err = j.read(ctx, "read the duplicates of transfers", func(ctx context.Context) (err error) {
		rows, err = j.sql.DuplicatesOfTransfers(ctx, j.pool, args)
		return err
	})
	if err != nil {
		return nil, err
	}
	list := make([]Duplicates, len(rows))
	for i, row := range rows {
		list[i] = Duplicates{ledger.TransferID(row.TransferID), Guard(row.Guard), row.Replayed, row.Taken, row.FirstAt.UTC(), row.LastAt.UTC()}
	}
	return list, nil
}
