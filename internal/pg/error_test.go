package pg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]pg.Class{
		// https://www.postgresql.org/docs/15/errcodes-appendix.html
		"40001": pg.Again, // serialization_failure
		"40P01": pg.Again, // deadlock_detected
		"23505": pg.Again, // unique_violation
		"55P03": pg.LockTimeout,
		"08000": pg.Unavailable, "08006": pg.Unavailable, "08P01": pg.Unavailable,
		"53100": pg.Unavailable, // disk_full
		"53200": pg.Unavailable, // out_of_memory
		"53300": pg.Unavailable, // too_many_connections
		"57014": pg.Unavailable, // query_canceled
		"57P01": pg.Unavailable, // admin_shutdown
		"57P02": pg.Unavailable, // crash_shutdown
		"57P03": pg.Unavailable, // cannot_connect_now
		"57P05": pg.Unavailable, // idle_session_timeout
		"58030": pg.Unavailable, // io_error
		"25P03": pg.Unavailable, // idle_in_transaction_session_timeout
		"25P04": pg.Unavailable, // transaction_timeout
		"25006": pg.Unavailable, // read_only_sql_transaction
		"25P02": pg.Fault,       // in_failed_sql_transaction
		"22003": pg.Fault,       // numeric_value_out_of_range
		"23502": pg.Fault,       // not_null_violation
		"23503": pg.Fault,       // foreign_key_violation
		"23514": pg.Fault,       // check_violation
		"42501": pg.Fault,       // insufficient_privilege
		"42P01": pg.Fault,       // undefined_table
		"40002": pg.Fault,       // transaction_integrity_constraint_violation
		"55006": pg.Fault,       // object_in_use
		"XX000": pg.Fault,       // internal_error
		"":      pg.Fault,
	} {
		for _, err := range []error{&pgconn.PgError{Code: code}, fmt.Errorf("insert: %w", &pgconn.PgError{Code: code})} {
			if got := pg.Classify(err); got != want {
				t.Errorf("%q: class %d, want %d", code, got, want)
			}
		}
	}
	for name, c := range map[string]struct {
		err  error
		want pg.Class
	}{
		"unknown commit":          {fmt.Errorf("commit: %w: %w", pg.ErrUnknown, io.ErrUnexpectedEOF), pg.Unavailable},
		"unknown commit, a code":  {fmt.Errorf("commit: %w: %w", pg.ErrUnknown, &pgconn.PgError{Code: "23505"}), pg.Unavailable},
		"EOF":                     {fmt.Errorf("receive: %w", io.EOF), pg.Unavailable},
		"unexpected EOF":          {io.ErrUnexpectedEOF, pg.Unavailable},
		"reset":                   {&net.OpError{Op: "read", Err: os.NewSyscallError("read", errors.New("reset"))}, pg.Unavailable},
		"closed socket":           {net.ErrClosed, pg.Unavailable},
		"deadline":                {fmt.Errorf("query: %w", context.DeadlineExceeded), pg.Unavailable},
		"cancelled":               {context.Canceled, pg.Unavailable},
		"no rows":                 {pgx.ErrNoRows, pg.Fault},
		"rolled back":             {pgx.ErrTxCommitRollback, pg.Fault},
		"anything else":           {errors.New("anything else"), pg.Fault},
		"a code among two errors": {errors.Join(errors.New("busy"), &pgconn.PgError{Code: "55P03"}), pg.LockTimeout},
	} {
		if got := pg.Classify(c.err); got != c.want {
			t.Errorf("%s: class %d, want %d", name, got, c.want)
		}
	}
}

// TestClassify_Real checks the errors that a real server and a real driver give.
func TestClassify_Real(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ctx := t.Context()
	check := func(name string, err error, want pg.Class) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if got := pg.Classify(err); got != want {
			t.Errorf("%s: class %d, want %d (%v)", name, got, want, err)
		}
	}
	_, err := connect(t, pg.Config{DSN: "host=/nonexistent user=khata_service dbname=x"}).Exec(ctx, "SELECT 1")
	check("no server", err, pg.Unavailable)
	_, err = connect(t, pg.Config{DSN: db.ServiceDSN() + " dbname=nonexistent"}).Exec(ctx, "SELECT 1")
	check("no database", err, pg.Unavailable)

	pool := connect(t, pg.Config{DSN: db.ServiceDSN() + " lock_timeout=10ms", MaxConns: 4})
	holder, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(ctx, "SELECT pg_advisory_xact_lock(1, 1)"); err != nil {
		t.Fatal(err)
	}
	_, err = pool.Exec(ctx, "SELECT pg_advisory_xact_lock(1, 1)")
	check("lock_timeout", err, pg.LockTimeout)
	_, err = pool.Exec(ctx, "INSERT INTO ledger (name, created_by) VALUES ('main', 'x')")
	check("duplicate key", err, pg.Again)
	if got := pg.Constraint(fmt.Errorf("insert: %w", err)); got != "ledger_name_key" {
		t.Errorf("constraint %q", got)
	}
	_, err = pool.Exec(ctx, "INSERT INTO ledger (name, created_by) VALUES ('NO', 'x')")
	check("check", err, pg.Fault)
	_, err = pool.Exec(ctx, "DELETE FROM ledger")
	check("no right", err, pg.Fault)
	if got := pg.Constraint(err) + pg.Constraint(errors.New("other")); got != "" {
		t.Errorf("constraint %q", got)
	}
	db.KillBackends(t)
	_, err = holder.Exec(ctx, "SELECT 1")
	check("terminated", err, pg.Unavailable)
	_ = holder.Rollback(ctx)
	pool.Close()
	_, err = pool.Exec(ctx, "SELECT 1")
	check("closed pool", err, pg.Unavailable)
}
