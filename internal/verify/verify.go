package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/khata-ledger/khata/internal/pg"
)

// Options is how to verify. The zero value of each field is its default.
type Options struct {
	// MaxBreaches is how many breaches of each check are listed; all are counted. Default 20.
	MaxBreaches int
}

// Run verifies the books of a database. The DSN may be that of khata_service, of the owner or of a superuser; a standby
// will do. A breach is no error: the error is that of a database that could not be asked, and says nothing of the books.
//
// Nobody who posts waits for it. A migration that changes one of the tables does, and those who post would wait behind the
// migration: a million transfers take half a minute.
func Run(ctx context.Context, dsn string, options Options) (Report, error) {
	if options.MaxBreaches <= 0 {
		options.MaxBreaches = 20
	}
	conn, err := connect(ctx, dsn)
	if err != nil {
		return Report{}, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // It was only read.
	}()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return Report{}, fmt.Errorf("begin: %w", err)
	}
	v := verifier{tx: tx, options: options, counts: map[string]int64{}}
	if err := v.begin(ctx); err != nil {
		return Report{}, err
	}
	if err := v.checkAll(ctx, schemaChecks); err != nil {
		return Report{}, err
	}
	// From here whole tables are read. An index that has lost rows must not hide them, nor an old estimate turn a join of
	// two tables into a loop over both: a merge by ledger and account alone is one too, where one account has most rows.
	if err := v.set(ctx, map[string]string{
		"enable_indexscan": "off", "enable_indexonlyscan": "off", "enable_bitmapscan": "off", "enable_nestloop": "off",
		"enable_mergejoin": "off",
	}); err != nil {
		return Report{}, err
	}
	if err := v.checkAll(ctx, bookChecks); err != nil {
		return Report{}, err
	}
	return v.report, nil
}

func connect(ctx context.Context, dsn string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	for name, value := range map[string]string{
		"application_name": "khata verify",
		// A check of a large database that nobody waits for any more ends.
		"client_connection_check_interval": "1s",
	} {
		if _, given := config.RuntimeParams[name]; !given {
			config.RuntimeParams[name] = value
		}
	}
	// Each statement runs once, so to prepare it gains nothing, and fails behind pgbouncer.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

type verifier struct {
	tx      pgx.Tx
	options Options
	report  Report
	counts  map[string]int64 // by statement
}

// found is what a check found: how many things it looked at, how many breaches there are, and the first of these.
type found struct {
	checked  int64
	total    int64
	breaches []Breach
}

// begin takes the snapshot and prepares the session. A schema or a role of the same name as ours must not lead us astray,
// and a role's own limits are for short transactions.
func (v *verifier) begin(ctx context.Context) error {
	if err := v.set(ctx, map[string]string{
		"search_path":       "public, pg_temp",
		"TimeZone":          "UTC",
		"DateStyle":         "ISO, MDY",
		"statement_timeout": "0",
		"lock_timeout":      "10s",
		"jit":               "off",
		"work_mem":          "64MB",
	}); err != nil {
		return err
	}
	var migrated bool
	err := v.tx.QueryRow(ctx, `SELECT to_regclass('public.goose_db_version') IS NOT NULL, current_database(), current_user, now()`).
		Scan(&migrated, &v.report.Database, &v.report.Role, &v.report.At)
	switch {
	case err != nil:
		return fmt.Errorf("begin: %w", err)
	case !migrated:
		return errors.New("the database has no schema of Khata's: run khata migrate up as its owner")
	}
	v.report.At = v.report.At.UTC()
	return nil
}

func (v *verifier) set(ctx context.Context, settings map[string]string) error {
	for name, value := range settings {
		if _, err := v.tx.Exec(ctx, `SELECT set_config($1, $2, true)`, name, value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

func (v *verifier) checkAll(ctx context.Context, checks []check) error {
	for _, c := range checks {
		if err := v.check(ctx, c); err != nil {
			return fmt.Errorf("check %s: %w", c.name, err)
		}
	}
	return nil
}

// check runs one check and enters it in the report. What the server cannot compute, because a table is gone or a page is
// damaged, is a breach; what it was not asked, an error.
func (v *verifier) check(ctx context.Context, c check) error {
	started := time.Now()
	var got found
	err := pgx.BeginFunc(ctx, v.tx, func(pgx.Tx) (err error) {
		if c.run != nil {
			got, err = c.run(ctx, v)
		} else {
			got, err = bySQL(ctx, v, c)
		}
		return err
	})
	var refused *pgconn.PgError
	const insufficientPrivilege = "42501"
	switch {
	case err == nil:
	case errors.As(err, &refused) && pg.Classify(err) == pg.Fault && refused.Code != insufficientPrivilege:
		got = found{total: 1, breaches: []Breach{{Detail: "could not be checked: " + refused.Error()}}}
	default:
		return err
	}
	if got.breaches == nil {
		got.breaches = []Breach{} // [] in JSON
	}
	v.report.Checks = append(v.report.Checks, Check{
		Name: c.name, Says: c.says, Checked: got.checked, Of: c.of, Breached: got.total, Breaches: got.breaches,
		Took: time.Since(started),
	})
	return nil
}

// list collects breaches that are computed here.
func (v *verifier) list(checked int, details []string) found {
	f := found{checked: int64(checked), total: int64(len(details))}
	for _, detail := range details[:min(len(details), v.options.MaxBreaches)] {
		f.breaches = append(f.breaches, Breach{Detail: detail})
	}
	return f
}
