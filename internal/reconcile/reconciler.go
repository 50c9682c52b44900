package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// atOnce is how many imports, runs and reports a server makes at the same time: each needs memory in proportion to what it looks at.
	atOnce = 2
	// budget is how long a change may be tried again where the database does not answer.
	budget = 30 * time.Second
	// lockTimeout is how long a change waits for the lock of its bank account. A large import or run holds it for some seconds.
	lockTimeout = "25s"
	// maxLosses is how often a change may lose to another one before it is given up.
	maxLosses = 20
)

// Reconciler is what this package does. It is safe for concurrent use, and any number of servers may have one on the same database. Every error that
// its methods return, but for those of a sheet.Writer and of an io.Reader, is a *ledger.Error by errors.As. Beside those that each names they return
// CodeLedgerNotFound; CodeUnavailable, CodeDeadlineExceeded, CodeCancelled or CodeOverloaded, after which the same may be asked again; and
// CodeInternal.
type Reconciler struct {
	journal *journal.Journal
	pool    *pgxpool.Pool
	sql     *dbsqlc.Queries
	slots   chan struct{}
}

// New makes a Reconciler on a journal, and on the pool in which its tables are.
func New(j *journal.Journal, pool *pgxpool.Pool) *Reconciler {
	// Each may read from three connections at once: those that wait for a third must not be all who have one.
	slots := max(1, min(atOnce, (int(pool.Config().MaxConns)-1)/2))
	return &Reconciler{journal: j, pool: pool, sql: dbsqlc.New(), slots: make(chan struct{}, slots)}
}

// enter waits until there is room for one more of what takes memory.
func (r *Reconciler) enter(ctx context.Context) (leave func(), err error) {
	select {
	case r.slots <- struct{}{}:
		return func() { <-r.slots }, nil
	case <-ctx.Done():
		return nil, ledger.Errorf(ledger.CodeOverloaded, "%d imports, runs and reports are being made already, and this one's time is up", cap(r.slots))
	}
}

// change runs f in a transaction, again while that may help: f must leave nothing behind but what it returns at last. Where the answer to a commit
// did not arrive, running f again finds out what became of it, so f must know its own work again.
func (r *Reconciler) change(ctx context.Context, doing string, f func(tx pgx.Tx) error) error {
	begun := time.Now()
	pause := 10 * time.Millisecond
	for losses := 0; ; {
		err := pg.InTx(ctx, r.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '"+lockTimeout+"'"); err != nil {
				return err
			}
			if err := f(tx); err != nil {
				return err
			}
			// What is answered for must be on the standby, too, even if it was there before.
			return r.sql.WaitForStandby(ctx, tx)
		})
		var typed *ledger.Error
		if err == nil || errors.As(err, &typed) {
			return err
		}
		switch class := pg.Classify(err); {
		case ctx.Err() != nil:
			return public(ctx, doing, err)
		case class == pg.Again && losses < maxLosses:
			losses++
		case class == pg.Unavailable && time.Since(begun) < budget:
			pause = min(2*pause, 500*time.Millisecond)
		default:
			return public(ctx, doing, err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
		}
	}
}

// public turns an error into one for callers.
func public(ctx context.Context, doing string, err error) error {
	var typed *ledger.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &typed):
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return ledger.Errorf(ledger.CodeCancelled, "%s: the caller cancelled the request", doing)
	case ctx.Err() != nil:
		return ledger.Errorf(ledger.CodeDeadlineExceeded, "%s: the request's deadline passed", doing)
	}
	switch pg.Classify(err) {
	case pg.Again:
		return ledger.Errorf(ledger.CodeConflict, "%s: others keep deciding about the same bank account; ask again", doing)
	case pg.Unavailable, pg.LockTimeout:
		unavailable := ledger.Errorf(ledger.CodeUnavailable, "%s: the database did not answer in time; ask again", doing)
		unavailable.RetryAfter = time.Second
		return fmt.Errorf("%w (%w)", unavailable, err)
	}
	return fmt.Errorf("%w (%w)", ledger.Errorf(ledger.CodeInternal, "%s: internal error", doing), err)
}

// lock locks a bank account until the end of the transaction. It is a statement of its own, so that later ones see what was committed before.
func (r *Reconciler) lock(ctx context.Context, tx pgx.Tx, account *BankAccount) error {
	return r.sql.ReconcileLock(ctx, tx, account.no)
}

// knownLedger returns CodeLedgerNotFound for a ledger that does not exist.
func (r *Reconciler) knownLedger(ctx context.Context, name ledger.Name) error {
	_, err := r.journal.Currencies(ctx, name)
	return err
}
