package report_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

func TestMain(m *testing.M) {
	flag.Parse()
	checks := "12"
	if os.Getenv("KHATA_TEST_LONG") != "" {
		checks = "300"
	}
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := flag.Set("rapid.checks", checks); err != nil {
			panic(err)
		}
	}
	os.Exit(pgtest.Main(m))
}

const main = ledger.DefaultLedger

// tester is what testing.T and rapid.T have in common.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// books are a ledger, and the reports on it.
type books struct {
	*journal.Journal
	*report.Reports
	db   *pgtest.DB
	pool *pgxpool.Pool
	// name is the ledger's; "" is main.
	name ledger.Name
}

func setup(t testing.TB) *books {
	t.Helper()
	b := open(t)
	t.Cleanup(func() { ledgertest.CheckBooks(t, b.db) })
	return b
}

// open is setup for books that the test is going to spoil.
func open(t testing.TB) *books {
	t.Helper()
	db := pgtest.New(t)
	return serve(t, db, pg.Config{DSN: db.ServiceDSN()})
}

// serve is a server on a database.
func serve(t testing.TB, db *pgtest.DB, config pg.Config) *books {
	t.Helper()
	pool, err := pg.Connect(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(pool, journal.Config{})
	t.Cleanup(func() {
		j.Close()
		pool.Close()
	})
	return &books{j, report.New(j, pool), db, pool, main}
}

func (b *books) account(t testing.TB, id ledger.AccountID, kind ledger.AccountType, currency ledger.CurrencyCode) {
	t.Helper()
	b.accounts(t, ledger.AccountSpec{ID: id, Type: kind, Currency: currency})
}

func (b *books) accounts(t tester, specs ...ledger.AccountSpec) {
	t.Helper()
	if _, err := b.CreateAccounts(context.Background(), "local", b.name, specs); err != nil {
		t.Fatalf("%v", err)
	}
}

// post posts transfers, none of which may be refused.
func (b *books) post(t tester, specs ...ledger.TransferSpec) []journal.PostResult {
	t.Helper()
	results := b.try(t, specs...)
	for i, r := range results {
		if r.Err != nil {
			t.Fatalf("%s: %v", specs[i].ID, r.Err)
		}
		if r.Transfer.Refusal != nil {
			t.Fatalf("%s: refused %s", specs[i].ID, r.Transfer.Refusal.Reason)
		}
	}
	return results
}

func (b *books) try(t tester, specs ...ledger.TransferSpec) []journal.PostResult {
	t.Helper()
	results, err := b.Post(context.Background(), "local", b.name, specs)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return results
}

func amount(text string) decimal.Decimal { return decimal.RequireFromString(text) }

func at(text string) *time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return &t
}

func move(id ledger.TransferID, debit, credit ledger.AccountID, sum string, effective string) ledger.TransferSpec {
	spec := ledger.TransferSpec{ID: id, Entries: ledger.Simple(debit, credit, amount(sum), "")}
	if effective != "" {
		spec.EffectiveAt = at(effective)
	}
	return spec
}

// run makes a report, of which all checks hold.
func (b *books) run(t tester, q report.Request) *sheet.Sheet {
	t.Helper()
	s := b.doubtful(t, q)
	for _, bad := range sheet.Failed(s.Checks) {
		t.Errorf("%s: %s: %s", q.Report, bad.Name, bad.Detail)
	}
	return s
}

// doubtful makes a report of which a check may not hold.
func (b *books) doubtful(t tester, q report.Request) *sheet.Sheet {
	t.Helper()
	if q.Ledger == "" {
		q.Ledger = b.name
	}
	var c sheet.Collector
	if err := b.Run(context.Background(), q, &c); err != nil {
		t.Fatalf("%s: %v", q.Report, err)
	}
	for _, row := range c.Rows {
		if len(row.Cells) != len(c.Head.Columns) {
			t.Errorf("%s: a row of %d cells for %d columns", q.Report, len(row.Cells), len(c.Head.Columns))
		}
		for i, cell := range row.Cells {
			if kind := c.Head.Columns[i].Kind; kind == sheet.Amount && strings.HasPrefix(cell, "-") && strings.Trim(cell, "-0.") == "" {
				t.Errorf("%s: %s is a zero with a sign", q.Report, cell)
			}
		}
	}
	return &c.Sheet
}

// refused is the error of a request for a report, before which nothing was written.
func (b *books) refused(t testing.TB, q report.Request) error {
	t.Helper()
	w := &counter{}
	err := b.Run(t.Context(), q, w)
	if err == nil {
		t.Errorf("%s: no error", q.Report)
	}
	if w.heads+w.rows > 0 {
		t.Errorf("%s: %v came after something was written", q.Report, err)
	}
	return err
}

// counter counts what is written, and keeps nothing.
type counter struct {
	heads, rows, ends int
	// at is called for each row, if it is there.
	at func(row int) error
}

func (c *counter) Begin(sheet.Head) error {
	c.heads++
	return nil
}

func (c *counter) Row(sheet.Row) error {
	c.rows++
	if c.at != nil {
		return c.at(c.rows)
	}
	return nil
}

func (c *counter) End([]sheet.Check) error {
	c.ends++
	return nil
}

func period(t testing.TB, from, to, zone string) report.Period {
	t.Helper()
	p, err := report.ParsePeriod(from, to, zone)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// bytesOf is a sheet as JSON, without the fact that says when it was read.
func bytesOf(t tester, s *sheet.Sheet) string {
	t.Helper()
	same := *s
	same.Head.Facts = nil
	for _, f := range s.Head.Facts {
		if f.ID != "read_at" {
			same.Head.Facts = append(same.Head.Facts, f)
		}
	}
	var buf bytes.Buffer
	if err := same.WriteTo(sheet.NewJSON(&buf)); err != nil {
		t.Fatalf("%v", err)
	}
	return buf.String()
}

// do runs statements as somebody who may connect to the database.
func do(t testing.TB, dsn string, statements ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// read reads one value as the superuser.
func read[T any](t testing.TB, b *books, sql string, args ...any) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, b.db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var value T
	if err := conn.QueryRow(ctx, sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// tamper runs statements as a superuser who has switched the triggers of a table off, and switches them on again as they were.
func (b *books) tamper(t testing.TB, table string, statements ...string) {
	t.Helper()
	all := append([]string{"ALTER TABLE " + table + " DISABLE TRIGGER USER"}, statements...)
	all = append(all, `DO $$ DECLARE t record; BEGIN
		FOR t IN SELECT tgname FROM pg_trigger WHERE tgrelid = '`+table+`'::regclass AND NOT tgisinternal LOOP
			EXECUTE format('ALTER TABLE `+table+` ENABLE ALWAYS TRIGGER %I', t.tgname);
		END LOOP;
	END $$`)
	if err := do(t, b.db.SuperDSN(), all...); err != nil {
		t.Fatal(err)
	}
}

// marks takes the snapshots that are due, and says how many marks there are.
func (b *books) marks(t testing.TB) int {
	t.Helper()
	b.db.Exec(t, `INSERT INTO mark (ledger_id, horizon) SELECT l.ledger_id, m
		FROM ledger l, next_marks(l.ledger_id, (SELECT pg_sequence_last_value('journal_sequence')), 100000) m
		ORDER BY l.ledger_id, m ON CONFLICT DO NOTHING`)
	return read[int](t, b, "SELECT count(*) FROM mark")
}
