package suspect

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

func TestMain(m *testing.M) {
	// Each example is a day of work on a database; make test-long has as many as there are elsewhere.
	if os.Getenv("KHATA_TEST_LONG") == "" {
		_ = flag.Set("rapid.checks", "30")
	}
	os.Exit(pgtest.Main(m))
}

const (
	main = ledger.DefaultLedger
	// clerk and colleague are people who decide.
	clerk, colleague = "clerk", "colleague"
)

// quiet is a journal that does nothing by itself.
var quiet = journal.Config{SnapshotEvery: -1, ExpireEvery: -1, Budget: time.Minute}

// desk is a ledger and what follows it.
type desk struct {
	*Detector
	db *pgtest.DB
}

// bare makes a desk without accounts.
func bare(t testing.TB, c journal.Config, faults ...*pgtest.Faults) *desk {
	t.Helper()
	db := pgtest.New(t)
	config := pg.Config{DSN: db.ServiceDSN()}
	if len(faults) > 0 {
		config.Dial = faults[0].DialFunc(nil)
	}
	pool, err := pg.Connect(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(pool, c)
	t.Cleanup(func() {
		j.Close()
		pool.Close()
	})
	return &desk{Detector: New(Config{Journal: j, Pool: pool}), db: db}
}

// setup makes a desk with the accounts payer, payee and fees, and some more. At the end of the test the books are verified.
func setup(t testing.TB, faults ...*pgtest.Faults) *desk {
	t.Helper()
	d := bare(t, journal.Config{}, faults...)
	t.Cleanup(func() { ledgertest.CheckBooks(t, d.db) })
	var specs []ledger.AccountSpec
	for _, id := range []ledger.AccountID{"payer", "payee", "fees", "other", "third"} {
		specs = append(specs, ledger.AccountSpec{ID: id, Type: ledger.Liability, Currency: "BDT"})
	}
	specs = append(specs, ledger.AccountSpec{ID: "payer-usd", Type: ledger.Liability, Currency: "USD"},
		ledger.AccountSpec{ID: "payee-usd", Type: ledger.Liability, Currency: "USD"})
	if _, err := d.journal.CreateAccounts(t.Context(), clerk, main, specs); err != nil {
		t.Fatal(err)
	}
	return d
}

// another is a Detector of another server on the same database.
func (d *desk) another() *Detector {
	return New(Config{Journal: d.journal, Pool: d.pool, Batch: d.config.Batch})
}

func dec(text string) decimal.Decimal { return decimal.RequireFromString(text) }

// noon is when histories begin.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// at inserts transfers of a history as a hand would: "id time amount [from>to] [key=value…]", the time being so long after noon, and "description"
// and "value" being keys of their own.
func (d *desk) at(t testing.TB, transfers ...string) {
	t.Helper()
	for _, text := range transfers {
		f := strings.Fields(text)
		after, err := time.ParseDuration(f[1])
		if err != nil {
			t.Fatal(err)
		}
		from, to := "payer", "payee"
		var description, value *string
		var pairs []string
		for _, extra := range f[3:] {
			if a, b, ok := strings.Cut(extra, ">"); ok {
				from, to = a, b
				continue
			}
			switch key, v, _ := strings.Cut(extra, "="); key {
			case "description":
				description = &v
			case "value":
				value = &v
			default:
				pairs = append(pairs, fmt.Sprintf("%q:%q", key, v))
			}
		}
		var metadata *string
		if len(pairs) > 0 {
			m, err := ledger.ParseMetadata("{"+strings.Join(pairs, ",")+"}", "metadata")
			if err != nil {
				t.Fatal(err)
			}
			text := string(m)
			metadata = &text
		}
		d.db.Exec(t, `INSERT INTO transfer (ledger_id, transfer_id, posted_at, effective_at, account_nos, amounts, caller, description, metadata)
			SELECT 1, $1, $2, $3::timestamptz, ARRAY[a.account_no, b.account_no], ARRAY[$4::numeric, -$4::numeric], 'psql', $5, $6::json
			  FROM account a, account b WHERE a.account_id = $7 AND b.account_id = $8`,
			f[0], noon.Add(after), value, f[2], description, metadata, from, to)
	}
}

func (d *desk) post(t testing.TB, specs ...ledger.TransferSpec) {
	t.Helper()
	results, err := d.journal.Post(t.Context(), clerk, main, specs)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil || r.Transfer.Refusal != nil {
			t.Fatalf("%v %+v", r.Err, r.Transfer)
		}
	}
}

func pay(id ledger.TransferID, amount string) ledger.TransferSpec {
	return ledger.TransferSpec{ID: id, Entries: ledger.Simple("payer", "payee", dec(amount), "")}
}

func refund(id, original ledger.TransferID, amount, before string) ledger.TransferSpec {
	expected := dec(before)
	terms := &ledger.Terms{Kind: ledger.Refund, Origin: original, ExpectedRefunded: &expected, Reason: ledger.ReasonDuplicate}
	if amount != "" {
		a := dec(amount)
		terms.Amount = &a
	}
	return ledger.TransferSpec{ID: id, Terms: terms}
}

// follow follows all there is.
func (d *desk) follow(t testing.TB) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := d.Follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		l, err := d.Lag(t.Context())
		if err != nil || time.Since(begun) > 30*time.Second && len(l.Ledgers) > 0 {
			t.Fatalf("after following all: %+v, %v", l, err)
		}
		if len(l.Ledgers) == 0 { // Otherwise one who was cut off may still have the lock.
			return
		}
	}
}

// suspects lists groups as "state level: id id…", the latest first.
func (d *desk) suspectsOf(t testing.TB, filter Filter) []string {
	t.Helper()
	list := []string{}
	for {
		page, err := d.Suspects(t.Context(), main, filter)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range page.Groups {
			list = append(list, g.text())
		}
		if page.Next == nil {
			return list
		}
		filter.After = page.Next
	}
}

func (g *Group) text() string {
	text := fmt.Sprintf("%s %s:", g.State, g.Level)
	for _, m := range g.Members {
		text += " " + string(m.ID)
	}
	return text
}

// everything is a filter of all states.
var everything = Filter{States: States()}

// only gives the one group that there is.
func (d *desk) only(t testing.TB) *Group {
	t.Helper()
	page, err := d.Suspects(t.Context(), main, everything)
	if err != nil || len(page.Groups) != 1 {
		t.Fatalf("%d groups, %v", len(page.Groups), err)
	}
	return page.Groups[0]
}

// query runs a query as the superuser, and gives its one value.
func query[T any](t testing.TB, d *desk, sql string, args ...any) (value T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// mustCode fails the test unless an error has a code.
func mustCode(t testing.TB, err error, code ledger.Code) {
	t.Helper()
	if ledger.CodeOf(err) != code {
		t.Fatalf("want %s, got %v", code, err)
	}
}

// checkList compares the list with what its groups are worth when they are read anew.
func (d *desk) checkList(t testing.TB) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), `SELECT g.group_no, coalesce(string_agg(DISTINCT l.state || ' ' || l.level || ' ' || l.last_at, '; '), ''),
		       count(*), count(*) FILTER (WHERE l.account_no = 0), max(c.accounts)
		  FROM suspect_group g LEFT JOIN suspect_list l USING (ledger_id, group_no)
		       CROSS JOIN LATERAL (SELECT count(DISTINCT e.account_no) AS accounts, max(m.posted_at)
		                             FROM suspect_member m JOIN entry e USING (ledger_id, sequence) WHERE m.group_no = g.group_no) c
		 GROUP BY g.group_no, g.ledger_id ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		No                    int64
		Text                  string
		Rows, Any, OfAccounts int
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[line])
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		g, err := d.Suspect(t.Context(), main, l.No)
		if err != nil {
			t.Fatal(err)
		}
		last := g.Members[0].PostedAt
		for _, m := range g.Members {
			if m.PostedAt.After(last) {
				last = m.PostedAt
			}
		}
		want := fmt.Sprintf("%d %d %s", g.State, g.Level, query[string](t, d, `SELECT $1::timestamptz::text`, last))
		if l.Text != want || l.Any != 1 || l.Rows != 1+l.OfAccounts {
			t.Errorf("group %d is listed as %q, want %q; in %d rows, %d of them for any account, and it has %d accounts", l.No, l.Text, want, l.Rows, l.Any, l.OfAccounts)
		}
	}
}
