package pg_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
)

func insertLedger(name string) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		_, err := tx.Exec(context.Background(), "INSERT INTO ledger (name, created_by) VALUES ($1, 'test')", name)
		return err
	}
}

func TestInTx(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.SuperDSN(), "ALTER DATABASE "+db.Name+" SET default_transaction_isolation = 'serializable'")
	pool := connect(t, pg.Config{DSN: db.ServiceDSN(), MaxConns: 1})
	there := func(name string) bool {
		t.Helper()
		return query[bool](t, pool, "SELECT EXISTS (SELECT FROM ledger WHERE name = '"+name+"')")
	}
	pid := query[int](t, pool, "SELECT pg_backend_pid()")
	if err := pg.InTx(t.Context(), pool, insertLedger("kept")); err != nil || !there("kept") {
		t.Errorf("commit: %v", err)
	}
	if err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		if got := query[string](t, tx, "SHOW transaction_isolation"); got != "read committed" {
			t.Errorf("isolation %s", got)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	mine := errors.New("mine")
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		if err := insertLedger("dropped")(tx); err != nil {
			return err
		}
		return mine
	})
	if !errors.Is(err, mine) || there("dropped") {
		t.Errorf("an error of the function: %v", err)
	}
	if err := pg.InTx(t.Context(), pool, insertLedger("kept")); pg.Constraint(err) != "ledger_name_key" || errors.Is(err, pg.ErrUnknown) {
		t.Errorf("an error of a statement: %v", err)
	}
	// Swallowed, the error comes back at the commit, which the server answers with ROLLBACK.
	err = pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		_ = insertLedger("kept")(tx)
		return nil
	})
	if !errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pg.ErrUnknown) {
		t.Errorf("a swallowed error: %v", err)
	}
	if got := query[int](t, pool, "SELECT pg_backend_pid()"); got != pid {
		t.Error("an error has cost the connection")
	}
	// Where even the rollback fails, the connection goes, and with it the transaction.
	err = pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		if err := insertLedger("lost")(tx); err != nil {
			return err
		}
		_ = tx.Conn().PgConn().Conn().Close()
		return mine
	})
	if !errors.Is(err, mine) || there("lost") {
		t.Errorf("a broken connection: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		defer cancel()
		return insertLedger("cancelled")(tx)
	})
	if err == nil || there("cancelled") && !errors.Is(err, pg.ErrUnknown) {
		t.Errorf("a context that ended before the commit: %v", err)
	}
	if err := pg.InTx(ctx, pool, insertLedger("never")); !errors.Is(err, context.Canceled) || there("never") {
		t.Errorf("a context that ended before: %v", err)
	}
}

func TestInTx_UnknownCommit(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	faults := pgtest.NewFaults(t)
	pool := connect(t, pg.Config{DSN: db.ServiceDSN(), Dial: faults.DialFunc(nil)})
	for name, c := range map[string]struct {
		cut     func(int)
		applied bool
	}{
		"before": {faults.CutBeforeCommit, false},
		"after":  {faults.CutAfterCommit, true},
	} {
		c.cut(1)
		err := pg.InTx(t.Context(), pool, insertLedger(name))
		if !errors.Is(err, pg.ErrUnknown) || pg.Classify(err) != pg.Unavailable {
			t.Errorf("cut %s the commit: %v", name, err)
		}
		if got := query[bool](t, pool, "SELECT EXISTS (SELECT FROM ledger WHERE name = '"+name+"')"); got != c.applied {
			t.Errorf("cut %s the commit: applied %v", name, got)
		}
	}
	// The control: the connections are not to blame.
	if err := pg.InTx(t.Context(), pool, insertLedger("whole")); err != nil {
		t.Error(err)
	}
}

// TestInTx_Notices uses deferred triggers: they speak during COMMIT, as a commit does that no standby has confirmed.
func TestInTx_Notices(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.SuperDSN(),
		"CREATE TABLE said (level text)", "GRANT INSERT, SELECT ON said TO khata_service",
		`CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.level = 'notice' THEN RAISE NOTICE 'hm'; END IF;
			IF NEW.level = 'warning' THEN RAISE WARNING 'look out'; END IF;
			IF NEW.level = 'exception' THEN RAISE EXCEPTION 'no'; END IF;
			RETURN NULL; END $$`,
		"CREATE CONSTRAINT TRIGGER say AFTER INSERT ON said DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION say()")
	pool := connect(t, pg.Config{DSN: db.ServiceDSN(), MaxConns: 1})
	say := func(level string) error {
		return pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO said VALUES ($1)", level)
			return err
		})
	}
	if err := say("warning"); !errors.Is(err, pg.ErrUnknown) {
		t.Errorf("a WARNING at the commit: %v", err)
	}
	if err := say("notice"); err != nil {
		t.Errorf("a NOTICE at the commit, after another's WARNING: %v", err)
	}
	if err := say("exception"); err == nil || errors.Is(err, pg.ErrUnknown) || pg.Classify(err) != pg.Fault {
		t.Errorf("an ERROR at the commit: %v", err)
	}
	if err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "DO 'BEGIN RAISE WARNING ''not about the commit''; END'")
		return err
	}); err != nil {
		t.Errorf("a WARNING before the commit: %v", err)
	}
	if got := query[string](t, pool, "SELECT string_agg(level, ' ' ORDER BY level) FROM said"); got != "notice warning" {
		t.Errorf("said: %s", got)
	}
	// Nobody who wants a quiet log may make the WARNING go unheard.
	exec(t, db.SuperDSN(), "ALTER DATABASE "+db.Name+" SET client_min_messages = 'error'")
	pool.Reset()
	if err := say("warning"); !errors.Is(err, pg.ErrUnknown) {
		t.Errorf("a WARNING at the commit, where the database sends errors only: %v", err)
	}
}
