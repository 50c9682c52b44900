package pg_test

import (
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/khata-ledger/khata/db"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
)

// emptyDatabase makes a database without a schema beside another one, and gives the owner's DSN.
func emptyDatabase(t testing.TB, beside *pgtest.DB) string {
	t.Helper()
	name := "e" + beside.Name[1:]
	exec(t, beside.SuperDSN(), "CREATE DATABASE "+name+" OWNER khata_owner")
	t.Cleanup(func() { exec(t, beside.SuperDSN(), "DROP DATABASE "+name+" WITH (FORCE)") })
	return beside.OwnerDSN() + " dbname=" + name
}

func serviceOf(ownerDSN string) string {
	return strings.Replace(ownerDSN, "khata_owner", "khata_service", 1)
}

// files counts the migrations that are embedded.
func files(t testing.TB) int {
	t.Helper()
	names, err := fs.Glob(db.Migrations, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d migrations: %v", len(names), err)
	}
	return len(names)
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t, pgtest.New(t))
	pending := func() int {
		t.Helper()
		list, err := pg.Migrations(t.Context(), dsn)
		if err != nil || len(list) != files(t) {
			t.Fatalf("%d migrations: %v", len(list), err)
		}
		n := 0
		for i, m := range list {
			if m.Version == 0 || m.Name == "" || i > 0 && m.Version <= list[i-1].Version {
				t.Errorf("listed: %+v", m)
			}
			if m.AppliedAt.IsZero() {
				n++
			}
		}
		return n
	}
	if got := pending(); got != files(t) {
		t.Errorf("%d pending before", got)
	}
	applied, err := pg.Migrate(t.Context(), dsn)
	if err != nil || len(applied) != files(t) {
		t.Fatalf("applied %d: %v", len(applied), err)
	}
	if got := pending(); got != 0 {
		t.Errorf("%d pending afterwards", got)
	}
	if again, err := pg.Migrate(t.Context(), dsn); err != nil || len(again) != 0 {
		t.Errorf("applied %d the second time: %v", len(again), err)
	}
	if said := preflight(t, serviceOf(dsn)); said != "" {
		t.Errorf("a migrated database is not fit to be served from: %s", said)
	}
}

func TestMigrate_Concurrently(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t, pgtest.New(t))
	var mu sync.Mutex
	applied := 0
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			list, err := pg.Migrate(t.Context(), dsn)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			applied += len(list)
		})
	}
	wg.Wait()
	if applied != files(t) {
		t.Errorf("%d steps were applied, there are %d", applied, files(t))
	}
	if got := query[int](t, connect(t, pg.Config{DSN: dsn}), "SELECT count(*) FROM ledger"); got != 1 {
		t.Errorf("%d ledgers", got)
	}
}

func TestMigrate_Refused(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t, pgtest.New(t))
	if _, err := pg.Migrate(t.Context(), serviceOf(dsn)); err == nil {
		t.Error("the service's role migrates")
	}
	if _, err := pg.Migrate(t.Context(), "port=none"); err == nil {
		t.Error("a bad DSN is accepted")
	}
	if _, err := pg.Migrations(t.Context(), "host=/nonexistent user=x dbname=x"); err == nil {
		t.Error("no server, no error")
	}
	// Nothing is half done.
	if said := preflight(t, serviceOf(dsn)); !strings.Contains(said, "version 0") {
		t.Errorf("said %q", said)
	}
}

// Transfers that were posted before there was a trigger to write their value-dated entries get them too, each once.
func TestMigrate_ValueDatesOfOld(t *testing.T) {
	t.Parallel()
	dsn := emptyDatabase(t, pgtest.New(t))
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pool := stdlib.OpenDB(*config)
	defer pool.Close()
	migrations, err := fs.Sub(db.Migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := goose.NewProvider(goose.DialectPostgres, pool, migrations)
	if err != nil {
		t.Fatal(err)
	}
	upTo := func(version int64) {
		t.Helper()
		if _, err := steps.UpTo(t.Context(), version); err != nil {
			t.Fatal(err)
		}
	}
	post := func(id, effectiveAt, refusal string) {
		t.Helper()
		exec(t, dsn, `INSERT INTO transfer (ledger_id, transfer_id, effective_at, refusal, refused_account_no, account_nos, amounts, caller)
			SELECT 1, '`+id+`', `+effectiveAt+`, `+refusal+`, CASE WHEN `+refusal+` IS NOT NULL THEN min(account_no) END, array_agg(account_no), '{5,-5}', 'psql'
			  FROM account`)
	}
	upTo(1)
	exec(t, dsn, `INSERT INTO currency VALUES (1, 'BDT', 2);
		INSERT INTO account (ledger_id, account_id, type, currency, scale, changed_by) VALUES (1, 'a', 'asset', 'BDT', 2, 'x'), (1, 'b', 'asset', 'BDT', 2, 'x')`)
	post("OLD", "'2026-01-31'", "NULL")
	post("OLD-REFUSED", "'2026-01-31'", "'INSUFFICIENT_FUNDS'")
	post("OLD-UNDATED", "NULL", "NULL")
	upTo(2)
	post("BETWEEN", "'2026-02-01'", "NULL")
	if _, err := pg.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	post("NEW", "'2026-02-02'", "NULL")
	if got := query[string](t, connect(t, pg.Config{DSN: dsn}), `SELECT string_agg(concat_ws(' ', t.transfer_id, v.leg, v.amount, v.effective_at::date), ', ' ORDER BY v.sequence, v.leg)
		FROM value_dated_entry v JOIN transfer t USING (ledger_id, sequence, effective_at, posted_at)`); got !=
		"OLD 1 5 2026-01-31, OLD 2 -5 2026-01-31, BETWEEN 1 5 2026-02-01, BETWEEN 2 -5 2026-02-01, NEW 1 5 2026-02-02, NEW 2 -5 2026-02-02" {
		t.Errorf("value-dated entries: %s", got)
	}
}
