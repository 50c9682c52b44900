package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/pg"
)

// firstGatePatience is how long a request for the gate alone stands in the queue before it steps aside, the first time.
// Everybody who posts to the ledger waits behind it meanwhile. Large batches can take longer than that to end, and there
// are always some under way, so each time it stands twice as long: it must get its turn, and lastGatePatience is still
// less than the lock_timeout of those who wait behind it.
const firstGatePatience, lastGatePatience = 100 * time.Millisecond, 4 * time.Second

// errGateBusy: the gate was not to be had alone in time.
var errGateBusy = errors.New("the gate of the ledger is busy")

// inTxAlone is inTx with the gate of the ledger held alone: no posting of the ledger is under way while f runs.
func (j *Journal) inTxAlone(ctx context.Context, ledgerID int32, f func(pgx.Tx) error) error {
	ctx, cancel := j.within(ctx)
	defer cancel()
	for patience := firstGatePatience; ; patience = min(2*patience, lastGatePatience) {
		err := j.retry(ctx, func() error {
			return pg.InTx(ctx, j.pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", patience.Milliseconds())); err != nil {
					return err
				}
				if err := j.sql.GateExclude(ctx, tx, ledgerID); err != nil {
					if pg.Classify(err) == pg.LockTimeout {
						return errors.Join(errGateBusy, err)
					}
					return err
				}
				return j.replicated(ctx, f)(tx)
			})
		})
		// Those who queued behind us get their turn before we ask again.
		if !errors.Is(err, errGateBusy) || !sleep(ctx, jitter(firstGatePatience)) {
			return err
		}
	}
}

// horizon returns a sequence such that every row of the ledger up to it is either visible to a statement begun now, or will
// never exist. It is no lower than the last number drawn when it was called, so all that anyone has been told of lies
// behind it.
//
// Numbers are drawn before their rows become visible. So: first the last number drawn; then, in a later statement, who
// holds the gate; then wait until these are gone. Whoever takes the gate later draws higher numbers. No lock is asked for,
// so nobody ever waits for a reader.
func (j *Journal) horizon(ctx context.Context, ledgerID int32) (int64, error) {
	started := time.Now()
	last, err := j.sql.LastSequence(ctx, j.pool)
	if err != nil {
		return 0, fmt.Errorf("read the last sequence: %w", err)
	}
	var waitingFor []string
	for pause := 500 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		holders, err := j.sql.GateHolders(ctx, j.pool, ledgerID)
		if err != nil {
			return 0, fmt.Errorf("read who holds the gate: %w", err)
		}
		if waitingFor == nil {
			waitingFor = holders
		} else {
			waitingFor = slices.DeleteFunc(waitingFor, func(h string) bool { return !slices.Contains(holders, h) })
		}
		if len(waitingFor) == 0 {
			j.config.Metrics.horizonWaited(time.Since(started))
			return last, nil
		}
		if !sleep(ctx, pause) {
			return 0, fmt.Errorf("wait for %d transactions that draw numbers: %w", len(waitingFor), context.DeadlineExceeded)
		}
	}
}
