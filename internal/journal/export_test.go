package journal

import "context"

// SnapshotRound runs one round of the snapshot job, over all ledgers and without its patience for hands in psql. The journal's own
// job must be off.
func (j *Journal) SnapshotRound(ctx context.Context) error {
	j.snapshots.rounds = 0
	return j.snapshotRound(ctx, 0)
}

// WriteTallies is a round of the job that writes down the duplicates that were stopped.
func (j *Journal) WriteTallies(ctx context.Context) error { return j.writeTallies(ctx) }

// ForgetTallies is a round of the job that deletes what was counted long ago.
func (j *Journal) ForgetTallies(ctx context.Context) error { return j.forgetTallies(ctx) }
