package wallet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/periodic"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/inbox"
)

// DefaultKeep is for how long movements are kept. Balances are not made of them.
const DefaultKeep = 90 * 24 * time.Hour

// leastKeep is longer than topics keep events: a movement that comes again has to be known.
const leastKeep = 15 * 24 * time.Hour

// Config is how the view is kept.
type Config struct {
	// Inbox is where events come from: its pool is the database of the view, and its topic that of accounts. Required, without a handler.
	Inbox inbox.Config
	// Journal is the books, for what the topic does not have (any more). Without it a view that was never built, or whose events are gone, is
	// a person's to mend.
	Journal *journal.Journal
	// Complete completes a view that is there from the journal before it follows the events, for a topic that may not have all of them.
	Complete bool
	// Keep is for how long movements are kept; 0 is DefaultKeep.
	Keep time.Duration
	// Metrics may be nil.
	Metrics *Metrics
}

// view is the view in a database.
type view struct {
	pool    *pgxpool.Pool
	sql     *dbsqlc.Queries
	journal *journal.Journal
	keep    time.Duration
	log     *slog.Logger
	metrics *Metrics
}

func newView(pool *pgxpool.Pool, j *journal.Journal, keep time.Duration, log *slog.Logger) (*view, error) {
	if keep == 0 {
		keep = DefaultKeep
	}
	if keep < leastKeep {
		return nil, fmt.Errorf("movements cannot be kept for %s: give at least %s", keep, leastKeep)
	}
	return &view{pool: pool, sql: dbsqlc.New(), journal: j, keep: keep, log: log}, nil
}

// ErrNeverBuilt says that there is no view yet.
var ErrNeverBuilt = errors.New("the wallet view was never built, and a topic has no beginning: give --ledger-dsn, or run khata consume wallet rebuild first")

// Run keeps the view until ctx ends. With the journal it first builds the view from there if there is none. The errors are those of
// inbox.New and Run; and where there is no journal ErrNeverBuilt, and an *inbox.LostError.
func Run(ctx context.Context, config Config) error {
	v, err := newView(config.Inbox.Pool, config.Journal, config.Keep, config.Inbox.Logger)
	if err != nil {
		return err
	}
	v.metrics = config.Metrics
	state, err := v.state(ctx, v.pool)
	switch {
	case err != nil:
		return err
	case v.journal != nil && (config.Complete || state.generation == 0):
		err = v.complete(ctx)
	case state.generation == 0:
		err = ErrNeverBuilt
	}
	if err != nil {
		return err
	}
	c := config.Inbox
	c.Consumer, c.KeepOrder, c.HandleAll, c.OnLost = Consumer, true, v.handle, v.lost
	// What an account has had its version says, and for ever. Markers would say it of books that are no more, when these are restored.
	c.NoMarkers = true
	in, err := inbox.New(ctx, c)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	forgotten := periodic.Job{Name: "forget old movements of the wallet view", Every: time.Hour, Do: v.forget, Log: v.log}.Start(running)
	defer forgotten()
	defer stop()
	return in.Run(ctx)
}

// handle gives events their effects.
func (v *view) handle(ctx context.Context, tx pgx.Tx, events []inbox.Event) error {
	facts := make([]fact, 0, len(events))
	for _, e := range events {
		f, err := ofEvent(e)
		if err != nil {
			return inbox.Poison(err)
		}
		facts = append(facts, f)
	}
	state, rows, err := v.enter(ctx, tx, facts)
	if err != nil {
		return err
	}
	beyond, covered := make([]fact, 0, len(facts)), []fact(nil)
	for _, f := range facts {
		switch {
		case f.version > state.covered[f.ledger]:
			beyond = append(beyond, f)
		case f.moved != nil:
			covered = append(covered, f)
		}
	}
	w := writer{v.sql, tx, state.generation, time.Now().Add(-v.keep)}
	done, err := w.apply(ctx, rows, beyond)
	if errors.Is(err, errOther) {
		return inbox.Poison(err)
	}
	if err == nil {
		err = v.doubt(ctx, tx, state.generation, append(covered, done.passed...))
	}
	if err == nil {
		v.metrics.came(done, len(events)-len(beyond), beyond)
	}
	return err
}

// enter holds off those who work on the view from the journal, and reads how far that is, and the accounts: in statements of their own, after the
// lock was had.
func (v *view) enter(ctx context.Context, tx pgx.Tx, facts []fact) (s state, rows map[key]*row, err error) {
	var states []dbsqlc.WalletStateRow
	var list []dbsqlc.WalletsOfRow
	var batch pgx.Batch
	batch.Queue(dbsqlc.WalletGate)
	pg.Ask(&batch, &states, dbsqlc.WalletState)
	var generation *int32
	ledgers, accounts := columns(keysOf(facts))
	pg.Ask(&batch, &list, dbsqlc.WalletsOf, ledgers, accounts, generation)
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return s, nil, fmt.Errorf("read the wallet view: %w", err)
	}
	s, rows = stateOf(states), rowsOf(list)
	if s.generation == 0 {
		return s, nil, inbox.Transient(ErrNeverBuilt)
	}
	return s, rows, nil
}

// doubt looks at movements that are not beyond what the view has: they are in it, or were and are too old to be kept. One that is not is of other
// books.
func (v *view) doubt(ctx context.Context, tx pgx.Tx, generation int32, list []fact) error {
	oldest := time.Now().Add(-v.keep)
	list = slices.DeleteFunc(list, func(f fact) bool { return f.at.Before(oldest) })
	if len(list) == 0 {
		return nil
	}
	args := dbsqlc.WalletMovementsUnknownParams{Generation: generation}
	for _, f := range list {
		args.Ledgers, args.Accounts = append(args.Ledgers, string(f.ledger)), append(args.Accounts, string(f.account))
		args.Versions, args.TransferIds = append(args.Versions, f.version), append(args.TransferIds, string(f.moved.transfer))
	}
	unknown, err := v.sql.WalletMovementsUnknown(ctx, tx, args)
	if err != nil {
		return fmt.Errorf("look for movements in the wallet view: %w", err)
	}
	if len(unknown) == 0 {
		return nil
	}
	u := unknown[0]
	return inbox.Poison(&ContradictionError{ledger.Name(u.Ledger), ledger.AccountID(u.Account), ledger.TransferID(u.TransferID), u.Version})
}

// builtLately is less than any topic of events keeps: what a topic has lost is behind the horizon of a view that was built since.
const builtLately = 24 * time.Hour

// lost makes up for events that are gone from the topic, from the journal.
func (v *view) lost(ctx context.Context, lost *inbox.LostError) error {
	if v.journal == nil {
		s, err := v.state(ctx, v.pool)
		switch {
		case err != nil:
			return err
		case time.Since(s.builtAt) < builtLately:
			return nil
		}
		return fmt.Errorf("%w. The wallet view has them from the journal: run khata consume wallet with --ledger-dsn, or khata consume wallet rebuild and then this again", lost)
	}
	v.log.Warn("events are gone from the topic: the wallet view reads the journal", "topic", lost.Topic, "partition", lost.Partition)
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		err := v.complete(ctx)
		var back *SetBackError
		if err == nil || ctx.Err() != nil || errors.As(err, &back) {
			return err
		}
		v.log.Warn("the wallet view cannot read the journal, and tries again", "error", err, "pause", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// state is which rows are read, and how far the journal was read for them. Generation 0 is none.
type state struct {
	generation int32
	builtAt    time.Time
	covered    map[ledger.Name]int64
}

func stateOf(rows []dbsqlc.WalletStateRow) state {
	s := state{covered: map[ledger.Name]int64{}}
	for _, r := range rows {
		s.generation, s.builtAt = r.Generation, r.BuiltAt
		if r.Ledger != "" {
			s.covered[ledger.Name(r.Ledger)] = r.Through
		}
	}
	return s
}

func (v *view) state(ctx context.Context, db dbsqlc.DBTX) (state, error) {
	rows, err := v.sql.WalletState(ctx, db)
	if err != nil {
		return state{}, fmt.Errorf("read the state of the wallet view: %w", err)
	}
	return stateOf(rows), nil
}

// forgetAtOnce is how many rows a transaction takes away.
const forgetAtOnce = 10_000

// forget takes away movements that are too old.
func (v *view) forget(ctx context.Context) error {
	return untilNone(func() (int64, error) {
		return v.sql.WalletMovementsForget(ctx, v.pool, dbsqlc.WalletMovementsForgetParams{Before: time.Now().Add(-v.keep), AtMost: forgetAtOnce})
	})
}

func untilNone(some func() (int64, error)) error {
	for {
		if n, err := some(); err != nil || n == 0 {
			return err
		}
	}
}
