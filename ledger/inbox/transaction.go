package inbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// lockTimeout is how long any statement waits for a lock, those of the handler included.
	lockTimeout = 2 * time.Second
	// rollbackTime is for a connection that may have gone silent.
	rollbackTime = 2 * time.Second
)

// settings are for one transaction. A pool that trades durability for speed must not: the offset moves on after the commit, and what a crash
// took back then would never come again.
const settings = `SELECT set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true),
	set_config('synchronous_commit', CASE s WHEN 'off' THEN 'on' ELSE s END, true) FROM current_setting('synchronous_commit') AS s`

// transact runs do in a READ COMMITTED transaction and commits it. If the commit's answer does not arrive, what became of it is open: doing the
// same again finds out.
func (b *Inbox) transact(ctx context.Context, do func(tx pgx.Tx) error) error {
	tx, err := b.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := do(tx); err != nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
		defer cancel()
		_ = tx.Rollback(limited) // Where it fails the connection is thrown away, and that takes it back too.
		return b.blame(ctx, err)
	}
	// From here the effects are durable, once the answer is there.
	if err := tx.Commit(ctx); err != nil {
		return commitError(err)
	}
	return nil
}

// blame finds out whether a handler that was late is at fault, or the database that it waited for. It is asked when the transaction is over, since a
// pool may have no other connection.
func (b *Inbox) blame(ctx context.Context, err error) error {
	var l *late
	if !errors.As(err, &l) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, rollbackTime)
	defer cancel()
	if pingErr := b.pool.Ping(ctx); pingErr != nil {
		return fmt.Errorf("the database does not answer: %w", errors.Join(l.error, pingErr))
	}
	return &failure{err: fmt.Errorf("the handler took longer than %v: %w", b.config.HandleTimeout, l.error)}
}

// commitError makes a failure of an error that says that the transaction was taken back for what is in it, such as a constraint that is
// checked last.
func commitError(err error) error {
	wrapped := fmt.Errorf("commit: %w", err)
	state := sqlState(err)
	if errors.Is(err, pgx.ErrTxCommitRollback) || state != "" && !isTransient(err) {
		return &failure{err: wrapped}
	}
	return wrapped
}

// queueSettings puts them before a transaction's first statement, on the same trip.
func (b *Inbox) queueSettings(batch *pgx.Batch) {
	milliseconds := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	batch.Queue(settings, milliseconds(lockTimeout), milliseconds(b.config.idleTime()))
}
