package journal

import "context"

// SnapshotRound runs one round of the snapshot job, over all ledgers and without its patience for hands in psql. The journal's own
// job must be off.
func (j *Journal) SnapshotRound(ctx context.Context) error {
	j.snapshots.rounds = 0
	return j.snapshotRound(ctx, 0)
}
