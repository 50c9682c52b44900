package wallet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/inbox"
)

// Rebuild builds the view from the journal, beside the one that is there, and then has it take its place: who reads the view sees the one or the
// other. Consumers go on meanwhile, and wait only at the end, while the last of the journal is read.
func Rebuild(ctx context.Context, pool *pgxpool.Pool, j *journal.Journal, keep time.Duration, log *slog.Logger) error {
	v, err := newView(pool, j, keep, log)
	if err != nil {
		return err
	}
	return v.building(ctx, func(conn *pgx.Conn) error {
		return v.rebuild(ctx, conn)
	})
}

// complete brings the view up to what the journal has now, or builds it if there is none. Consumers wait meanwhile: it takes as long as there is
// of the journal since the last time.
func (v *view) complete(ctx context.Context) error {
	return v.building(ctx, func(conn *pgx.Conn) error {
		s, err := v.state(ctx, conn)
		switch {
		case err != nil:
			return err
		case s.generation == 0:
			return v.rebuild(ctx, conn)
		}
		switch behind, err := v.behind(ctx, s); {
		case err != nil:
			return err
		case behind > mostHeldOff:
			return v.rebuild(ctx, conn)
		}
		if err := v.alone(ctx, conn); err != nil {
			return err
		}
		// Whoever moved this account further by events has had all that lies between: nothing of it is lost to him.
		return v.read(ctx, conn, s.generation, s.covered)
	})
}

// mostHeldOff is how many numbers of the journal are read while consumers wait. Where there are more, a new view is built beside.
const mostHeldOff = 500_000

// SetBackError is that a ledger ends before what the view has of it: its books were restored from a backup.
type SetBackError struct {
	Ledger           ledger.Name
	Horizon, Covered int64
}

// Error implements error.
func (e *SetBackError) Error() string {
	return fmt.Sprintf("ledger %s ends at sequence %d, and the wallet view has it through %d: was a backup of the ledger restored? Build the view anew: "+
		"khata consume wallet rebuild", e.Ledger, e.Horizon, e.Covered)
}

// behind is how many numbers the view lacks of all ledgers.
func (v *view) behind(ctx context.Context, s state) (n int64, err error) {
	for name, covered := range s.covered {
		horizon, err := v.journal.Horizon(ctx, name)
		switch {
		case err != nil:
			return 0, fmt.Errorf("find the horizon of ledger %s: %w", name, err)
		case horizon < covered:
			return 0, &SetBackError{name, horizon, covered}
		}
		n += horizon - covered
	}
	return n, nil
}

// errBusy is that somebody else reads the journal for the view.
var errBusy = errors.New("the wallet view is being built by another process")

// building has a connection that nobody else builds with. If somebody does, it waits.
func (v *view) building(ctx context.Context, do func(*pgx.Conn) error) error {
	for said := false; ; said = true {
		err := v.tryBuilding(ctx, do)
		if !errors.Is(err, errBusy) {
			return err
		}
		if !said {
			v.log.Info("waiting for another process that builds the wallet view")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (v *view) tryBuilding(ctx context.Context, do func(*pgx.Conn) error) error {
	held, err := v.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to the wallet view: %w", err)
	}
	// Its locks are those of the session, and end with it, whatever becomes of this process; PostgreSQL ends it where nothing more is heard.
	conn := held.Hijack()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "SET idle_session_timeout = '30s'"); err != nil {
		return fmt.Errorf("begin to build the wallet view: %w", err)
	}
	alone, err := v.sql.WalletBuilder(ctx, conn)
	switch {
	case err != nil:
		return fmt.Errorf("begin to build the wallet view: %w", err)
	case !alone:
		return errBusy
	}
	return do(conn)
}

// alone holds off those who change the view by events, for as long as the session lasts.
func (v *view) alone(ctx context.Context, conn *pgx.Conn) error {
	for ctx.Err() == nil {
		err := v.sql.WalletGateAlone(ctx, conn)
		switch {
		case err == nil:
			return nil
		case pg.Classify(err) != pg.LockTimeout:
			return fmt.Errorf("hold the consumers of the wallet view off: %w", err)
		}
	}
	return ctx.Err()
}

// rebuild builds another generation and has it read.
func (v *view) rebuild(ctx context.Context, conn *pgx.Conn) error {
	s, err := v.state(ctx, conn)
	if err != nil {
		return err
	}
	// What is left of somebody who did not come to the end.
	if err := v.forgetOthers(ctx, conn, s.generation); err != nil {
		return err
	}
	last, err := v.sql.WalletLastGeneration(ctx, conn)
	if err != nil {
		return fmt.Errorf("read the state of the wallet view: %w", err)
	}
	next, covered := last+1, map[ledger.Name]int64{}
	started := time.Now()
	v.log.Info("building the wallet view", "generation", next)
	if err := v.read(ctx, conn, next, covered); err != nil {
		return err
	}
	if err := v.alone(ctx, conn); err != nil {
		return err
	}
	// All that consumers have had was published, and so lies behind the horizon that is read now.
	if err := v.read(ctx, conn, next, covered); err != nil {
		return err
	}
	if err := v.sql.WalletSetGeneration(ctx, conn, next); err != nil {
		return fmt.Errorf("have the new wallet view read: %w", err)
	}
	if _, err := v.sql.WalletGateLeave(ctx, conn); err != nil {
		return fmt.Errorf("let the consumers go on: %w", err)
	}
	v.log.Info("the wallet view is built", "generation", next, "took", time.Since(started).Round(time.Millisecond))
	// What the old one could not take, the new one has.
	which := inbox.Selection{Consumer: Consumer}
	if _, err := inbox.RequestReplay(ctx, v.pool, which); err != nil {
		v.log.Warn("ask for the letters of the wallet view to be handled again", "error", err)
	}
	return v.forgetOthers(ctx, conn, next)
}

func (v *view) forgetOthers(ctx context.Context, conn *pgx.Conn, keep int32) error {
	err := untilNone(func() (int64, error) {
		return v.sql.WalletGenerationForget(ctx, conn, dbsqlc.WalletGenerationForgetParams{Keep: keep, AtMost: forgetAtOnce})
	})
	if err != nil {
		return fmt.Errorf("take the rest of an older wallet view away: %w", err)
	}
	return nil
}

// readAtOnce is how many records of the journal share a transaction.
const readAtOnce = 2000

// read reads the journal into a generation: of each ledger what lies between what is covered and the horizon. It notes how far it came in
// covered, too.
func (v *view) read(ctx context.Context, conn *pgx.Conn, generation int32, covered map[ledger.Name]int64) error {
	feed := v.journal.Feed()
	// No ledger is asked about by its number here, so all that have any record are listed.
	list, err := feed.Unread(ctx, nil)
	if err != nil {
		return fmt.Errorf("list the ledgers: %w", err)
	}
	for _, l := range list {
		horizon, err := v.journal.Horizon(ctx, l.Ledger)
		if err != nil {
			return fmt.Errorf("find the horizon of ledger %s: %w", l.Ledger, err)
		}
		if err := v.readLedger(ctx, conn, feed, generation, l, covered, horizon); err != nil {
			return fmt.Errorf("read ledger %s into the wallet view: %w", l.Ledger, err)
		}
	}
	return nil
}

// sayEvery is how often it is said how far it is.
const sayEvery = 5 * time.Second

func (v *view) readLedger(ctx context.Context, conn *pgx.Conn, feed *journal.Feed, generation int32, l journal.Unread, covered map[ledger.Name]int64, horizon int64) error {
	said, records := time.Now(), 0
	for covered[l.Ledger] < horizon {
		list, err := feed.RecordsThrough(ctx, l.LedgerID, covered[l.Ledger], horizon, readAtOnce)
		if err != nil {
			return err
		}
		through := horizon
		if len(list) > 0 {
			through = list[len(list)-1].Sequence
		}
		if err := v.take(ctx, conn, generation, l.Ledger, list, through); err != nil {
			return err
		}
		covered[l.Ledger] = through
		if records += len(list); time.Since(said) > sayEvery {
			said = time.Now()
			v.log.Info("reading the journal into the wallet view", "ledger", l.Ledger, "records", records, "through", through, "of", horizon)
		}
	}
	return nil
}

// take has records take effect, and notes that they have.
func (v *view) take(ctx context.Context, conn *pgx.Conn, generation int32, name ledger.Name, list []journal.Record, through int64) error {
	var facts []fact
	for _, r := range list {
		if r.Fault != nil {
			return fmt.Errorf("record %d cannot be read: use a khata that knows it: %w", r.Sequence, r.Fault)
		}
		facts = ofRecord(facts, name, r)
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		w := writer{v.sql, tx, generation, time.Now().Add(-v.keep)}
		if len(facts) > 0 {
			rows, err := w.lock(ctx, keysOf(facts))
			if err != nil {
				return err
			}
			if _, err := w.apply(ctx, rows, facts); err != nil {
				return err
			}
		}
		return v.sql.WalletCover(ctx, tx, dbsqlc.WalletCoverParams{Generation: generation, Ledger: string(name), Through: through})
	})
}
