package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/retry"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// atOnce is how many imports, runs and reports a server makes at the same time: each needs memory in proportion to what it looks at.
	atOnce = 2
	// lockTimeout is how long a change waits for the lock of its bank account. A large import or run holds it for some seconds.
	lockTimeout = 25 * time.Second
)

// Reconciler is what this package does. It is safe for concurrent use, and any number of servers may have one on the same database. Every error that
// its methods return, but for those of a sheet.Writer and of an io.Reader, is a *ledger.Error by errors.As. Beside those that each names they return
// CodeLedgerNotFound; CodeNotFound for a bank account that there is not, and for a profile, file, line, run, suggestion or decision of it; CodeUnavailable, CodeDeadlineExceeded, CodeCancelled or CodeOverloaded, after which the same may be asked again; and
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

// patience is how a Reconciler waits for the database. Whoever has waited for a lock for lockTimeout does not ask for it again.
var patience = retry.Policy{Budget: lockTimeout, Contended: "others keep deciding about the same bank account"}

// change runs f in a transaction, again while that may help: f must leave nothing behind but what it returns at last, and know its own work again.
func (r *Reconciler) change(ctx context.Context, doing string, f func(tx pgx.Tx) error) error {
	return patience.Do(ctx, doing, func(bool) error {
		return pg.InTx(ctx, r.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", lockTimeout.Milliseconds())); err != nil {
				return err
			}
			if err := f(tx); err != nil {
				return err
			}
			// What is answered for must be on the standby, too, even if it was there before.
			return r.sql.WaitForStandby(ctx, tx)
		})
	})
}

// public turns an error into one for callers.
func public(ctx context.Context, doing string, err error) error {
	return patience.Public(ctx, doing, err)
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
