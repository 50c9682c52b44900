package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/periodic"
	"github.com/khata-ledger/khata/internal/pg"
)

const (
	// marksPerTransaction bounds a transaction of the snapshot job: some 16,000 transfers, a tenth of a second.
	marksPerTransaction = 64
	// snapshotStepLimit bounds each step of a round, the wait for a horizon or a transaction: a connection that has gone
	// silent must not stop the job.
	snapshotStepLimit = 30 * time.Second
	// everyRounds is how many rounds go by before all ledgers are looked at, whether or not they have new transfers.
	everyRounds = 10
)

// snapshots is the job that takes snapshots: the sums from which balances are computed. Where they are taken, and what is in
// them, follows from the journal alone (see the migration), so a job may stop anywhere, and any number of servers may run one
// on the same database: at worst one does again what another has done.
type snapshots struct {
	// lasts are the last numbers drawn when the two rounds before began, the older first. A ledger without transfers above that
	// had nothing due then, and mostly has nothing now: two rounds, since what had drawn its number when a round began may
	// have become visible after it.
	lasts [2]int64
	// rounds counts up to everyRounds. Then all ledgers are looked at: where something became visible later still, or another
	// server has given up.
	rounds int
}

// job is how they are taken.
func (s *snapshots) job(j *Journal) periodic.Job {
	return periodic.Job{
		Name: "take snapshots", Every: j.config.SnapshotEvery, Log: j.log,
		Do: func(ctx context.Context) error { return j.snapshotRound(ctx, j.config.SnapshotEvery) },
		Failed: func() {
			s.rounds = 0 // What was due still is.
			j.config.Metrics.snapshotRoundFailed()
		},
	}
}

// snapshotRound takes the snapshots that are due in all ledgers.
//
// grace is for whoever inserts transfers by hand without taking the gate before anything else. A trigger takes it for him at the
// end of his statement; a horizon that was read within the statement did not wait for him. So the job waits until such a
// statement has ended, and then for whoever holds the gate once more.
func (j *Journal) snapshotRound(ctx context.Context, grace time.Duration) error {
	due, err := j.snapshotsDue(ctx)
	if err != nil || len(due) == 0 {
		return err
	}
	horizons := make([]int64, len(due))
	for i, ledgerID := range due {
		if horizons[i], err = j.horizonWithin(ctx, ledgerID); err != nil {
			return err
		}
	}
	if !sleep(ctx, grace) {
		return ctx.Err()
	}
	for i, ledgerID := range due {
		if _, err := j.horizonWithin(ctx, ledgerID); err != nil {
			return err
		}
		if err := j.takeSnapshots(ctx, ledgerID, horizons[i]); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) horizonWithin(ctx context.Context, ledgerID int32) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotStepLimit)
	defer cancel()
	return j.horizon(ctx, ledgerID)
}

// snapshotsDue finds the ledgers that have the transfers for another mark.
func (j *Journal) snapshotsDue(ctx context.Context) ([]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotStepLimit)
	defer cancel()
	last, err := j.sql.LastSequence(ctx, j.pool)
	if err != nil {
		return nil, fmt.Errorf("read the last sequence: %w", err)
	}
	s := &j.snapshots
	since := s.lasts[0]
	if s.rounds == 0 {
		since = 0
	}
	s.rounds = (s.rounds + 1) % everyRounds
	if last == since {
		return nil, nil
	}
	rows, err := j.sql.LedgersDue(ctx, j.pool, dbsqlc.LedgersDueParams{Last: last, Since: since})
	if err != nil {
		return nil, fmt.Errorf("look which ledgers have snapshots due: %w", err)
	}
	ledgers := make([]int32, len(rows))
	lag := 0.0
	for i, row := range rows {
		ledgers[i] = row.LedgerID
		lag = max(lag, row.Seconds)
	}
	// A round that looks at some ledgers only cannot say that nothing is due.
	if len(rows) > 0 || since == 0 {
		j.config.Metrics.snapshotsLag(lag)
	}
	s.lasts = [2]int64{s.lasts[1], last}
	return ledgers, nil
}

// takeSnapshots takes the snapshots of a ledger up to a horizon, in transactions that all begin after the wait for it: one that
// had begun before would look at the books as they were then.
func (j *Journal) takeSnapshots(ctx context.Context, ledgerID int32, horizon int64) error {
	for {
		started := time.Now()
		marks, err := j.takeSome(ctx, ledgerID, horizon)
		if err != nil || marks < marksPerTransaction {
			return err
		}
		// There is more to do than usual, on a database that was there before its snapshots. Posting goes first.
		if !sleep(ctx, time.Since(started)) {
			return ctx.Err()
		}
	}
}

// takeSome returns how many marks it has set; none if another server is at it.
func (j *Journal) takeSome(ctx context.Context, ledgerID int32, horizon int64) (marks int, err error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotStepLimit)
	defer cancel()
	var taken []int32
	err = pg.InTx(ctx, j.pool, func(tx pgx.Tx) error {
		// A statement of its own: the next one must see the marks of whoever had the lease before.
		ours, err := j.sql.SnapshotLease(ctx, tx, ledgerID)
		if err != nil || !ours {
			return err
		}
		taken, err = j.sql.MarkInsert(ctx, tx, dbsqlc.MarkInsertParams{
			LedgerID: ledgerID, Horizon: horizon, AtMost: marksPerTransaction,
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("take the snapshots of ledger %d: %w", ledgerID, err)
	}
	for _, n := range taken {
		j.config.Metrics.snapshotsTaken(int(n))
	}
	return len(taken), nil
}
