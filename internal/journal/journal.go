package journal

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// Config is how a Journal behaves. The zero value of each field is its default.
type Config struct {
	// Budget is how long a request may take, retries and waiting included, before it is given up with CodeUnavailable. A
	// posting waits at most a quarter of it for its turn. Default 8 s.
	Budget time.Duration
	// Posters is how many batches may be under way at once, and PostersPerLedger how many of one ledger. Default: three
	// quarters of the pool, so that reads go on, and 2, or all but one; where some of them are stuck, half of Posters.
	Posters, PostersPerLedger int
	// MaxWaiting bounds the memory of the calls whose transfers wait for their turn, in bytes. Beyond it they are refused with
	// CodeOverloaded. A ledger alone has four fifths of it, so that there is room for another. Default 64 MiB, which is about
	// 40,000 transfers of the usual kind.
	MaxWaiting int
	// StuckAfter is for how long a backend may hold a gate before the janitor terminates it. Default 30 s.
	StuckAfter time.Duration
	// SnapshotEvery is how often the job that takes snapshots looks whether some are due. Default 500 ms; a negative one turns
	// the job off.
	SnapshotEvery time.Duration
	// ExpireEvery is how often the job that expires holds looks whether some are due. Default 500 ms; a negative one turns the job
	// off.
	ExpireEvery time.Duration
	// CountEvery is how often the job that writes down the duplicates that were stopped does so: for how long support may wait to see one in a transfer's
	// story, and how much a server that is killed loses. Default 10 s; a negative one turns the job off, and what deletes old counts.
	CountEvery time.Duration
	// Logger gets what callers are not told. Default: discard.
	Logger *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics
}

func (c Config) withDefaults(pool *pgxpool.Pool) Config {
	if c.Budget == 0 {
		c.Budget = 8 * time.Second
	}
	if c.Posters == 0 {
		c.Posters = max(1, int(pool.Config().MaxConns)*3/4)
	}
	if c.PostersPerLedger == 0 {
		c.PostersPerLedger = max(1, min(2, c.Posters-1))
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = 64 << 20
	}
	if c.StuckAfter == 0 {
		c.StuckAfter = 30 * time.Second
	}
	if c.SnapshotEvery == 0 {
		c.SnapshotEvery = 500 * time.Millisecond
	}
	if c.ExpireEvery == 0 {
		c.ExpireEvery = 500 * time.Millisecond
	}
	if c.CountEvery == 0 {
		c.CountEvery = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Journal reads and writes the books. It is safe for concurrent use, and any number of servers may have one on the same
// database. Every error that its methods return is a *ledger.Error.
type Journal struct {
	pool   *pgxpool.Pool
	config Config
	sql    *dbsqlc.Queries
	log    *slog.Logger

	ledgers sync.Map // ledger.Name → ledgerRow; a ledger never changes
	charts  sync.Map // number of a ledger → *chart
	queue   *queue

	stop      context.CancelFunc
	janitor   *janitor
	snapshots snapshots
	tallies   *tallies
	// jobs wait for what runs beside the calls.
	jobs []func()
}

// New makes a Journal on a pool of package pg, which stays the caller's to close after Close.
func New(pool *pgxpool.Pool, config Config) *Journal {
	config = config.withDefaults(pool)
	ctx, stop := context.WithCancel(context.Background())
	j := &Journal{
		pool: pool, config: config, sql: dbsqlc.New(), log: config.Logger,
		stop: stop, janitor: newJanitor(), tallies: newTallies(),
	}
	j.queue = &queue{
		run: j.runBatch, lines: map[int32]*line{},
		places: config.Posters, perBook: config.PostersPerLedger, perBookStuck: config.Posters / 2, maxBytes: config.MaxWaiting,
	}
	go j.runJanitor(ctx)
	j.jobs = []func(){j.snapshots.job(j).Start(ctx), j.expiries().Start(ctx), j.tallyJob().Start(ctx), j.forgetJob().Start(ctx)}
	return j
}

// Close waits until all that was accepted is decided or given up. What a Post under way has not yet put into the queue gets
// CodeUnavailable. No method may be called afterwards.
func (j *Journal) Close() {
	j.queue.drain()
	j.stop()
	<-j.janitor.ended
	for _, wait := range j.jobs {
		wait()
	}
	// What was counted is worth a second, and no more.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := j.writeTallies(ctx); err != nil {
		j.log.Debug("duplicates that were stopped are not written", "error", err)
	}
}

func (j *Journal) chart(ledgerID int32) *chart {
	c, ok := j.charts.Load(ledgerID)
	if !ok {
		c, _ = j.charts.LoadOrStore(ledgerID, newChart())
	}
	return c.(*chart) //nolint:forcetypeassert // nothing else is put there
}

type budgetKey struct{}

// WithBudget starts the budget of a request. Whatever is done for it with this context shares that budget; without it each
// method has one of its own.
func (j *Journal) WithBudget(ctx context.Context) context.Context {
	if _, begun := ctx.Value(budgetKey{}).(time.Time); begun {
		return ctx
	}
	return context.WithValue(ctx, budgetKey{}, time.Now().Add(j.config.Budget))
}

// within bounds a request by its budget, on top of the caller's own deadline.
func (j *Journal) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, j.deadline(ctx))
}

// deadline is when the budget of a request is spent.
func (j *Journal) deadline(ctx context.Context) time.Time {
	return j.WithBudget(ctx).Value(budgetKey{}).(time.Time) //nolint:forcetypeassert // WithBudget sees to it
}

// inTx runs f in a transaction, again and again while that may help and time is left. f must leave nothing behind but what
// it returns at last. It is for changes that can be repeated: an outcome that is unknown is found out by repeating.
func (j *Journal) inTx(ctx context.Context, f func(pgx.Tx) error) error {
	ctx, cancel := j.within(ctx)
	defer cancel()
	return j.retry(ctx, func() error { return pg.InTx(ctx, j.pool, j.replicated(ctx, f)) })
}

// replicated makes a transaction of f wait for a synchronous standby even if it has found nothing to write: what it answers
// for must be there.
func (j *Journal) replicated(ctx context.Context, f func(pgx.Tx) error) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return j.sql.WaitForStandby(ctx, tx)
	}
}

// read runs f, which only reads, in the same way, and gives the error that the caller sees.
func (j *Journal) read(ctx context.Context, doing string, f func(context.Context) error) error {
	bounded, cancel := j.within(ctx)
	defer cancel()
	return j.public(ctx, doing, j.retry(bounded, func() error { return f(bounded) }))
}

func deadlineWithin(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= d
}

// public turns an error into the one that the caller sees. ctx is the caller's: it tells its own deadline from ours.
func (j *Journal) public(ctx context.Context, doing string, err error) error {
	var typed *ledger.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &typed):
		return typed
	case errors.Is(ctx.Err(), context.Canceled):
		return ledger.Errorf(ledger.CodeCancelled, "%s: the caller cancelled the request", doing)
	case ctx.Err() != nil:
		return ledger.Errorf(ledger.CodeDeadlineExceeded, "%s: the request's deadline passed", doing)
	}
	class := pg.Classify(err)
	switch {
	case class != pg.Fault && deadlineWithin(ctx, longestPause): // A pause that the deadline would cut short is not begun.
		return ledger.Errorf(ledger.CodeDeadlineExceeded, "%s: the request's deadline passed", doing)
	case class == pg.Again && !errors.Is(err, errNoTimeLeft):
		j.log.Warn("retries spent", "doing", doing, "error", err)
		return ledger.Errorf(ledger.CodeConflict, "%s: lost to concurrent transactions too often; send it again", doing)
	case class != pg.Fault:
		j.log.Warn("database unavailable", "doing", doing, "error", err)
		return &ledger.Error{
			Code:       ledger.CodeUnavailable,
			Message:    doing + ": the database did not answer in time; send it again",
			RetryAfter: time.Second,
		}
	default:
		j.log.Error("internal error", "doing", doing, "error", err)
		return ledger.Errorf(ledger.CodeInternal, "%s: internal error", doing)
	}
}
