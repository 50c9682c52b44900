package journal

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// Moved is a decided transfer, as the search for double charges looks at it.
type Moved struct {
	Sequence int64
	PostedAt time.Time
	// Payment says that it was posted, and is a plain transfer or the capture of a hold. Only of those there is a Fingerprint: equal for all that
	// move the same amounts between the same accounts, whatever the order of their entries, and rarely for others.
	Payment     bool
	Fingerprint int64
	// TakesBack is the number of the transfer that it is a posted refund or the reversal of; 0 if it is neither.
	TakesBack int64
}

// Moved reads up to limit transfers of a ledger after a number, in the order of decision, as Records does.
func (f *Feed) Moved(ctx context.Context, ledgerID int32, after int64, limit int) (list []Moved, err error) {
	err = f.behindHorizon(ctx, ledgerID, after, func(book *feedBook) (int, error) {
		err := f.journal.read(ctx, "read the journal", func(ctx context.Context) error {
			rows, err := f.journal.sql.TransfersMoved(ctx, f.journal.pool, dbsqlc.TransfersMovedParams{
				LedgerID: ledgerID, After: after, Through: book.horizon, AtMost: int32(limit), //nolint:gosec // a few thousand
			})
			list = make([]Moved, len(rows))
			for i, row := range rows {
				list[i] = Moved{row.Sequence, row.PostedAt.UTC(), row.Payment, row.Fingerprint, row.TakesBack}
			}
			return err
		})
		return len(list), err
	})
	return list, err
}

// Unmoved is a ledger that has transfers after a number.
type Unmoved struct {
	LedgerID int32
	Ledger   ledger.Name
	// Since is when the first of them was decided, by the database's clock, and Last the number of the last of them.
	Since time.Time
	Last  int64
}

// UnreadTransfers is Unread of transfers only: changes of accounts are as if they were not there.
func (f *Feed) UnreadTransfers(ctx context.Context, read map[int32]int64) (list []Unmoved, err error) {
	var args dbsqlc.LedgersMovedAfterParams
	for id, after := range read {
		args.LedgerIds, args.Afters = append(args.LedgerIds, id), append(args.Afters, after)
	}
	err = f.journal.read(ctx, "look for new transfers", func(ctx context.Context) error {
		rows, err := f.journal.sql.LedgersMovedAfter(ctx, f.journal.pool, args)
		list = make([]Unmoved, len(rows))
		for i, row := range rows {
			list[i] = Unmoved{row.LedgerID, ledger.Name(row.Name), row.PostedAt.UTC(), row.Last}
		}
		return err
	})
	return list, err
}

// ProgressAt gives the transfers of these numbers of a ledger, as far as they have been read before, and what has become of them since; in the order
// of their numbers.
func (j *Journal) ProgressAt(ctx context.Context, ledgerID int32, sequences []int64) (list []Progressed, err error) {
	err = j.read(ctx, "read transfers", func(ctx context.Context) error {
		rows, err := j.sql.FeedTransfersAt(ctx, j.pool, dbsqlc.FeedTransfersAtParams{LedgerID: ledgerID, Sequences: sequences})
		if err != nil {
			return err
		}
		records := make([]dbsqlc.TransfersByIDRow, len(rows))
		ids := make([]string, len(rows))
		for i, row := range rows {
			records[i], ids[i] = dbsqlc.TransfersByIDRow(row), row.TransferID
		}
		list, err = j.withProgress(ctx, ledgerID, records, ids)
		slices.SortFunc(list, func(a, b Progressed) int { return cmp.Compare(a.Sequence, b.Sequence) })
		return err
	})
	return list, err
}
