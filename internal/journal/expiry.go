package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/periodic"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// expiryBatch is how many holds are expired at once.
	expiryBatch = 1000
	// expirer is who posts expiries.
	expirer = "khata"
	// expiryLimit bounds the search for holds that are due.
	expiryLimit = 5 * time.Second
)

// ExpiryID is the id of the expiry of a hold.
func ExpiryID(hold ledger.TransferID) ledger.TransferID {
	return ledger.DerivedID("expiry", string(hold))
}

// expiries is the job that expires holds. What is due stands in the database, and each expiry has an id that follows from its hold:
// any number of servers may run one on the same database, and the second of two only replays the first.
func (j *Journal) expiries() periodic.Job {
	return periodic.Job{
		Name: "expire holds", Every: j.config.ExpireEvery, Do: j.ExpireHolds, Failed: j.config.Metrics.expiryRoundFailed, Log: j.log,
	}
}

// ExpireHolds expires the holds of all ledgers whose deadline has passed by the database's clock. It goes through all of them once:
// where some cannot be expired just now, the others are all the same. It returns the first error.
func (j *Journal) ExpireHolds(ctx context.Context) error {
	var first error
	cursor := dbsqlc.HoldsDueParams{AtMost: expiryBatch}
	for {
		due, err := j.holdsDue(ctx, &cursor)
		if err != nil {
			return err
		}
		total := 0
		for ledgerID, specs := range due {
			total += len(specs)
			if err := j.expire(ctx, ledgerID, specs); err != nil && first == nil {
				first = err
			}
		}
		if total < expiryBatch || ctx.Err() != nil {
			return first
		}
	}
}

// expire posts expiries of holds of one ledger.
func (j *Journal) expire(ctx context.Context, ledgerID int32, specs []ledger.TransferSpec) error {
	results, err := j.post(j.WithBudget(ctx), expirer, ledgerRow{ledgerID}, specs)
	if err != nil {
		return err
	}
	for _, r := range results {
		switch ledger.CodeOf(r.Err) {
		case "", ledger.CodeHoldEnded, ledger.CodeConflict: // Or it was captured or voided meanwhile, or the clock was set back.
		default:
			return r.Err
		}
	}
	return nil
}

// holdsDue finds holds to expire after a cursor, by ledger, and moves the cursor behind them.
func (j *Journal) holdsDue(ctx context.Context, cursor *dbsqlc.HoldsDueParams) (map[int32][]ledger.TransferSpec, error) {
	ctx, cancel := context.WithTimeout(ctx, expiryLimit)
	defer cancel()
	rows, err := j.sql.HoldsDue(ctx, j.pool, *cursor)
	if err != nil {
		return nil, fmt.Errorf("look which holds are due: %w", err)
	}
	due := map[int32][]ledger.TransferSpec{}
	for _, row := range rows {
		hold := ledger.TransferID(row.TransferID)
		due[row.LedgerID] = append(due[row.LedgerID], ledger.TransferSpec{
			ID: ExpiryID(hold), Terms: &ledger.Terms{Kind: ledger.Expiry, Origin: hold},
		})
		cursor.Deadline, cursor.Sequence = *row.Deadline, row.Sequence
	}
	return due, nil
}
