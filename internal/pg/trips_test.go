package pg_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
)

// statements makes what is sent together.
func statements(sql ...string) *pgx.Batch {
	b := &pgx.Batch{}
	for _, s := range sql {
		b.Queue(s)
	}
	return b
}

const ledgerInsert = "INSERT INTO ledger (name, created_by) VALUES ($1, 'test')"

// inserting is a transaction of two trips, of which the last one inserts.
func inserting(names ...string) func(pg.Trip) (*pgx.Batch, error) {
	return func(trip pg.Trip) (*pgx.Batch, error) {
		if err := trip(statements("SELECT 1")); err != nil {
			return nil, err
		}
		b := &pgx.Batch{}
		for _, name := range names {
			b.Queue(ledgerInsert, name)
		}
		return b, nil
	}
}

// trips is a database with a pool of one connection, so that what one transaction leaves behind the next one meets.
type trips struct {
	*pgxpool.Pool
	db *pgtest.DB
}

func newTrips(t testing.TB, dial pgconn.DialFunc) trips {
	t.Helper()
	db := pgtest.New(t)
	exec(t, db.SuperDSN(), "ALTER DATABASE "+db.Name+" SET default_transaction_isolation = 'serializable'")
	return trips{connect(t, pg.Config{DSN: db.ServiceDSN(), MaxConns: 1, Dial: dial}), db}
}

func (p trips) there(t testing.TB, name string) bool {
	t.Helper()
	return query[bool](t, p, "SELECT EXISTS (SELECT FROM ledger WHERE name = '"+name+"')")
}

// whole fails the test unless the pool is as it was: its connection, if it is the same one, in no transaction.
func (p trips) whole(t testing.TB, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := p.Acquire(ctx)
	if err != nil {
		t.Fatalf("after %s: %v", what, err)
	}
	defer conn.Release()
	if got := conn.Conn().PgConn().TxStatus(); got != 'I' {
		t.Errorf("after %s the connection is in state %c", what, got)
	}
	if n := query[int](t, conn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"); n > 0 {
		t.Errorf("after %s %d transactions are open", what, n)
	}
}

func (p trips) pid(t testing.TB) int {
	t.Helper()
	return query[int](t, p, "SELECT pg_backend_pid()")
}

func TestInTrips(t *testing.T) {
	t.Parallel()
	p := newTrips(t, nil)
	pid := p.pid(t)

	// One transaction, with a snapshot for each statement.
	var xids []string
	var isolation string
	one := func(b *pgx.Batch) *pgx.Batch {
		b.Queue("SELECT pg_current_xact_id()::text").QueryRow(func(r pgx.Row) error {
			xids = append(xids, "")
			return r.Scan(&xids[len(xids)-1])
		})
		return b
	}
	err := pg.InTrips(t.Context(), p.Pool, func(trip pg.Trip) (*pgx.Batch, error) {
		first := one(&pgx.Batch{})
		first.Queue("SHOW transaction_isolation").QueryRow(func(r pgx.Row) error { return r.Scan(&isolation) })
		if err := trip(first); err != nil {
			return nil, err
		}
		if err := trip(one(&pgx.Batch{})); err != nil {
			return nil, err
		}
		return one(statements("INSERT INTO ledger (name, created_by) VALUES ('kept', 'test')")), nil
	})
	if err != nil || !p.there(t, "kept") {
		t.Errorf("commit: %v", err)
	}
	if len(xids) != 3 || xids[0] != xids[1] || xids[0] != xids[2] || isolation != "read committed" {
		t.Errorf("transactions %v, isolation %s", xids, isolation)
	}
	p.whole(t, "a commit")

	// The first trip may also be the last.
	if err := pg.InTrips(t.Context(), p.Pool, func(pg.Trip) (*pgx.Batch, error) {
		return statements("INSERT INTO ledger (name, created_by) VALUES ('at-once', 'test')"), nil
	}); err != nil || !p.there(t, "at-once") {
		t.Errorf("a single trip: %v", err)
	}

	mine := errors.New("mine")
	for _, c := range []struct {
		name string
		f    func(pg.Trip) (*pgx.Batch, error)
		want func(error) bool
	}{
		{"an error before any trip", func(pg.Trip) (*pgx.Batch, error) { return nil, mine }, is(mine)},
		{"an error between trips", func(trip pg.Trip) (*pgx.Batch, error) {
			b := &pgx.Batch{}
			b.Queue(ledgerInsert, "dropped")
			if err := trip(b); err != nil {
				return nil, err
			}
			return nil, mine
		}, is(mine)},
		{"an error of the first statement", func(trip pg.Trip) (*pgx.Batch, error) {
			return nil, trip(statements("SELECT 1/0"))
		}, refused("22012")},
		{"an error of a later one", func(trip pg.Trip) (*pgx.Batch, error) {
			b := &pgx.Batch{}
			b.Queue(ledgerInsert, "dropped")
			b.Queue(ledgerInsert, "kept")
			b.Queue("SELECT 1")
			return nil, trip(b)
		}, refused("23505")},
		{"an error of a statement that nobody has heard of", func(trip pg.Trip) (*pgx.Batch, error) {
			return nil, trip(statements("SELECT * FROM nothing"))
		}, refused("42P01")},
		{"an answer that cannot be read", func(trip pg.Trip) (*pgx.Batch, error) {
			b := &pgx.Batch{}
			b.Queue(ledgerInsert, "dropped")
			b.Queue("SELECT 'x'").QueryRow(func(pgx.Row) error { return mine })
			return nil, trip(b)
		}, is(mine)},
		{"an error of the last statements", inserting("dropped", "kept", "never"), refused("23505")},
	} {
		err := pg.InTrips(t.Context(), p.Pool, c.f)
		if !c.want(err) || errors.Is(err, pg.ErrUnknown) {
			t.Errorf("%s: %v", c.name, err)
		}
		p.whole(t, c.name)
		if p.there(t, "dropped") || p.there(t, "never") {
			t.Errorf("%s has left something behind", c.name)
		}
		if err := pg.InTrips(t.Context(), p.Pool, inserting(strings.ReplaceAll(c.name, " ", "-"))); err != nil {
			t.Errorf("after %s: %v", c.name, err)
		}
	}
	// A trip that failed and was not heeded: the commit is answered with ROLLBACK, or not reached.
	err = pg.InTrips(t.Context(), p.Pool, func(trip pg.Trip) (*pgx.Batch, error) {
		_ = trip(statements("INSERT INTO ledger (name, created_by) VALUES ('dropped', 'test')", "SELECT 1/0"))
		return &pgx.Batch{}, nil
	})
	if !errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pg.ErrUnknown) || p.there(t, "dropped") {
		t.Errorf("a swallowed error: %v", err)
	}
	p.whole(t, "a swallowed error")
	if got := p.pid(t); got != pid {
		t.Error("an error has cost the connection")
	}

	// A panic costs the connection, and with it the transaction.
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it did not panic")
			}
		}()
		_ = pg.InTrips(t.Context(), p.Pool, func(trip pg.Trip) (*pgx.Batch, error) {
			b := &pgx.Batch{}
			b.Queue(ledgerInsert, "dropped")
			_ = trip(b)
			panic("a bug")
		})
	}()
	p.awaitWhole(t, "a panic")
	if p.there(t, "dropped") {
		t.Error("a panic has left something behind")
	}
}

// awaitWhole is whole where the server may need a moment to notice that its client has gone.
func (p trips) awaitWhole(t testing.TB, what string) {
	t.Helper()
	const open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
	for deadline := time.Now().Add(10 * time.Second); query[int](t, p, open) > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	p.whole(t, what)
}

func is(want error) func(error) bool {
	return func(err error) bool { return errors.Is(err, want) }
}

func refused(code string) func(error) bool {
	return func(err error) bool {
		var e *pgconn.PgError
		return errors.As(err, &e) && e.Code == code
	}
}

func TestInTrips_UnknownCommit(t *testing.T) {
	t.Parallel()
	faults := pgtest.NewFaults(t)
	p := newTrips(t, faults.DialFunc(nil))
	for name, c := range map[string]struct {
		cut     func(int)
		applied bool
	}{
		"before": {faults.CutBeforeCommit, false},
		"after":  {faults.CutAfterCommit, true},
	} {
		c.cut(1)
		err := pg.InTrips(t.Context(), p.Pool, inserting(name))
		if !errors.Is(err, pg.ErrUnknown) || pg.Classify(err) != pg.Unavailable {
			t.Errorf("cut %s the commit: %v", name, err)
		}
		if got := p.there(t, name); got != c.applied {
			t.Errorf("cut %s the commit: applied %v", name, got)
		}
		p.awaitWhole(t, "a cut "+name+" the commit")
	}
	if err := pg.InTrips(t.Context(), p.Pool, inserting("whole")); err != nil {
		t.Error(err)
	}

	// Where nothing was to be committed, nothing is unknown.
	err := pg.InTrips(t.Context(), p.Pool, func(trip pg.Trip) (*pgx.Batch, error) {
		faults.CutAll()
		return nil, trip(statements("SELECT 1"))
	})
	if err == nil || errors.Is(err, pg.ErrUnknown) || pg.Classify(err) != pg.Unavailable {
		t.Errorf("cut before the first trip: %v", err)
	}
	err = pg.InTrips(t.Context(), p.Pool, func(trip pg.Trip) (*pgx.Batch, error) {
		if err := trip(statements("SELECT 1")); err != nil {
			return nil, err
		}
		faults.CutAll()
		return nil, trip(statements("SELECT 1"))
	})
	if err == nil || errors.Is(err, pg.ErrUnknown) || pg.Classify(err) != pg.Unavailable {
		t.Errorf("cut before a later trip: %v", err)
	}
	p.awaitWhole(t, "a cut before a trip")

	// A backend that is terminated says so, and not whether it had committed.
	err = pg.InTrips(t.Context(), p.Pool, func(trip pg.Trip) (*pgx.Batch, error) {
		if err := trip(statements("SELECT 1")); err != nil {
			return nil, err
		}
		p.db.KillBackends(t)
		b := &pgx.Batch{}
		b.Queue(ledgerInsert, "terminated")
		return b, nil
	})
	if !errors.Is(err, pg.ErrUnknown) || p.there(t, "terminated") {
		t.Errorf("terminated before the commit: %v", err)
	}
	err = pg.InTrips(t.Context(), p.Pool, func(trip pg.Trip) (*pgx.Batch, error) {
		b := &pgx.Batch{}
		b.Queue(ledgerInsert, "terminated")
		b.Queue("SELECT pg_terminate_backend(pg_backend_pid())")
		return b, trip(statements("SELECT 1"))
	})
	// Its last words are lost where they cross what was still being sent to it.
	if !errors.Is(err, pg.ErrUnknown) || p.there(t, "terminated") {
		t.Errorf("terminated on the way to the commit: %v", err)
	}
}

// An answer of the last statements that cannot be read says nothing of the commit behind them, which has happened.
func TestInTrips_UnreadableAnswer(t *testing.T) {
	t.Parallel()
	p := newTrips(t, nil)
	pid := p.pid(t)
	mine := errors.New("mine")
	last := func(name string, read func(pgx.Row) error) error {
		return pg.InTrips(t.Context(), p.Pool, func(trip pg.Trip) (*pgx.Batch, error) {
			b := &pgx.Batch{}
			b.Queue(ledgerInsert+" RETURNING name", name).QueryRow(read)
			return b, trip(statements("SELECT 1"))
		})
	}
	err := last("own-error", func(pgx.Row) error { return mine })
	if !errors.Is(err, pg.ErrUnknown) || !errors.Is(err, mine) || !p.there(t, "own-error") {
		t.Errorf("an error of who reads: %v", err)
	}
	p.whole(t, "an error of who reads")
	err = last("wrong-type", func(r pgx.Row) error {
		var n int
		return r.Scan(&n)
	})
	if !errors.Is(err, pg.ErrUnknown) || pg.Classify(err) != pg.Unavailable || !p.there(t, "wrong-type") {
		t.Errorf("an answer of another type: %v", err)
	}
	p.whole(t, "an answer of another type")
	if got := p.pid(t); got != pid {
		t.Error("it has cost the connection")
	}
	// What cannot be sent was not sent. It may be called unknown, but must not stay open.
	err = pg.InTrips(t.Context(), p.Pool, func(trip pg.Trip) (*pgx.Batch, error) {
		b := &pgx.Batch{}
		b.Queue(ledgerInsert, "sent")
		b.Queue("SELECT $1::integer", "no number")
		return b, trip(statements("SELECT 1"))
	})
	if err == nil || p.there(t, "sent") {
		t.Errorf("an argument of the wrong type: %v", err)
	}
	p.awaitWhole(t, "an argument of the wrong type")
}

// TestInTrips_Notices is TestInTx_Notices for transactions whose commit travels with the last statements.
func TestInTrips_Notices(t *testing.T) {
	t.Parallel()
	p := newTrips(t, nil)
	exec(t, p.db.SuperDSN(),
		"CREATE TABLE said (level text)", "GRANT INSERT, SELECT ON said TO khata_service",
		`CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.level = 'notice' THEN RAISE NOTICE 'hm'; END IF;
			IF NEW.level = 'warning' THEN RAISE WARNING 'look out'; END IF;
			IF NEW.level = 'exception' THEN RAISE EXCEPTION 'no'; END IF;
			IF NEW.level = 'serialization' THEN RAISE serialization_failure; END IF;
			RETURN NULL; END $$`,
		"CREATE CONSTRAINT TRIGGER say AFTER INSERT ON said DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION say()")
	say := func(level string) error {
		return pg.InTrips(t.Context(), p.Pool, func(trip pg.Trip) (*pgx.Batch, error) {
			b := &pgx.Batch{}
			b.Queue("INSERT INTO said VALUES ($1)", level)
			return b, trip(statements("DO 'BEGIN RAISE WARNING ''not about the commit''; END'"))
		})
	}
	if err := say("warning"); !errors.Is(err, pg.ErrUnknown) || pg.Classify(err) != pg.Unavailable {
		t.Errorf("a WARNING at the commit: %v", err)
	}
	if err := say("notice"); err != nil {
		t.Errorf("a NOTICE at the commit, after another's WARNING and one before the commit: %v", err)
	}
	if err := say("exception"); err == nil || errors.Is(err, pg.ErrUnknown) || pg.Classify(err) != pg.Fault {
		t.Errorf("an ERROR at the commit: %v", err)
	}
	if err := say("serialization"); err == nil || errors.Is(err, pg.ErrUnknown) || pg.Classify(err) != pg.Again {
		t.Errorf("a lost race at the commit: %v", err)
	}
	p.whole(t, "errors at the commit")
	if got := query[string](t, p, "SELECT string_agg(level, ' ' ORDER BY level) FROM said"); got != "notice warning" {
		t.Errorf("said: %s", got)
	}
}

// A context that ends closes the connection, at once and without a request to cancel: that would release a commit which
// waits for its standby.
func TestInTrips_ContextEnds(t *testing.T) {
	t.Parallel()
	var cancels atomic.Int32
	p := newTrips(t, func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &cancelSpy{Conn: conn, seen: &cancels}, err
	})
	watch := connect(t, pg.Config{DSN: p.db.ServiceDSN(), MaxConns: 1})
	for _, c := range []struct {
		name string
		// first is in an earlier trip, last goes with the commit.
		first, last string
		unknown     bool
	}{
		{"in an earlier trip", "SELECT pg_sleep(30)", "SELECT 1", false},
		{"in the last trip", "SELECT 1", "SELECT pg_sleep(30)", true},
	} {
		run := func(ctx context.Context, name string) (firstDone bool, err error) {
			err = pg.InTrips(ctx, p.Pool, func(trip pg.Trip) (*pgx.Batch, error) {
				b := &pgx.Batch{}
				b.Queue(ledgerInsert, name)
				b.Queue(c.last)
				err := trip(statements(c.first))
				firstDone = err == nil
				return b, err
			})
			return firstDone, err
		}
		check := func(how, name string, err error, took time.Duration) {
			t.Helper()
			if errors.Is(err, pg.ErrUnknown) != c.unknown || pg.Classify(err) != pg.Unavailable {
				t.Errorf("%s, %s: %v", how, c.name, err)
			}
			if took > 10*time.Second {
				t.Errorf("%s, %s: it took %v", how, c.name, took)
			}
			if p.there(t, name) {
				t.Errorf("%s, %s: it is there", how, c.name)
			}
		}
		for limit := 100 * time.Millisecond; ; limit *= 2 { // A slow machine needs more for what comes before the last trip.
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			began := time.Now()
			firstDone, err := run(ctx, "late")
			took := time.Since(began) - limit
			cancel()
			if firstDone == c.unknown || limit > 10*time.Second {
				check("a deadline", "late", err, took)
				break
			}
		}
		// The server is at work on the statement, for certain.
		asleep := fmt.Sprintf("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %d AND wait_event = 'PgSleep')", p.pid(t))
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() {
			_, err := run(ctx, "gone")
			result <- err
		}()
		for end := time.Now().Add(20 * time.Second); !query[bool](t, watch, asleep); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: the statement does not begin", c.name)
			}
		}
		began := time.Now()
		cancel()
		err := <-result
		check("a caller who goes", "gone", err, time.Since(began))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pg.InTrips(ctx, p.Pool, inserting("never")); !errors.Is(err, context.Canceled) || p.there(t, "never") {
		t.Errorf("a context that ended before: %v", err)
	}
	// One that ends between the trips: the last one does not leave any more.
	ctx, cancel = context.WithCancel(t.Context())
	err := pg.InTrips(ctx, p.Pool, func(trip pg.Trip) (*pgx.Batch, error) {
		defer cancel()
		return inserting("between")(trip)
	})
	if err == nil || p.there(t, "between") && !errors.Is(err, pg.ErrUnknown) {
		t.Errorf("a context that ended between the trips: %v", err)
	}
	if err := pg.InTrips(t.Context(), p.Pool, inserting("afterwards")); err != nil {
		t.Error(err)
	}
	if got := cancels.Load(); got > 0 {
		t.Errorf("%d requests to cancel", got)
	}
}

// cancelSpy counts requests to cancel: their first message has 80877102 where another has the version of the protocol.
type cancelSpy struct {
	net.Conn
	seen *atomic.Int32
}

func (c *cancelSpy) Write(b []byte) (int, error) {
	if len(b) == 16 && binary.BigEndian.Uint32(b[4:]) == 80877102 {
		c.seen.Add(1)
	}
	return c.Conn.Write(b)
}
