package report_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// What is left on an account are the newest entries on the side of its balance: the oldest are settled first.
func TestClearing(t *testing.T) {
	t.Parallel()
	b, o := setup(t), newOracle()
	for _, id := range []ledger.AccountID{
		"owner", "assets:clearing:gw", "suspense", "x:clearing", "a:suspense:b", "clearing:old", "clearing:turn", "clearing:v",
		"clearing:empty", "clearing:back",
		"clearings", "my-suspense", "clearing",
	} {
		b.account(t, id, ledger.Asset, "BDT")
	}
	b.account(t, "clearing:yen", ledger.Asset, "JPY")
	b.account(t, "yen", ledger.Equity, "JPY")
	n := 0
	put := func(account ledger.AccountID, amount, day, valued string) {
		n++
		h := hand{id: ledger.TransferID(fmt.Sprint("t", n)), debit: account, credit: "owner", amount: amount, at: *at("2025-" + day + "T12:00:00Z")}
		if account == "clearing:yen" {
			h.credit = "yen"
		}
		if positive, ok := strings.CutPrefix(amount, "-"); ok {
			h.debit, h.credit, h.amount = h.credit, h.debit, positive
		}
		if valued != "" {
			h.effective = *at("2025-" + valued + "T12:00:00Z")
		}
		b.insert(t, o, h)
	}
	put("assets:clearing:gw", "100", "01-01", "")
	put("assets:clearing:gw", "50", "06-01", "")
	put("assets:clearing:gw", "-120", "06-10", "")
	put("suspense", "-10", "06-29", "")
	put("suspense", "-5", "06-30", "")
	put("x:clearing", "1", "06-23", "")
	put("a:suspense:b", "2", "06-22", "")
	put("clearing:old", "7", "03-31", "")
	put("clearing:old", "8", "04-01", "")
	put("clearing:old", "9", "05-30", "")
	put("clearing:old", "11", "05-31", "")
	put("clearing:turn", "10", "06-28", "")
	put("clearing:turn", "-25", "06-29", "")
	put("clearing:turn", "4", "06-30", "")
	// Booked in another order than their value dates are.
	put("clearing:v", "100", "06-01", "06-20")
	put("clearing:v", "90", "06-15", "06-05")
	put("clearing:v", "-110", "06-25", "")
	put("clearing:empty", "5", "06-01", "")
	put("clearing:empty", "-5", "06-02", "")
	put("clearings", "5", "06-01", "")
	put("my-suspense", "5", "06-01", "")
	put("clearing", "3", "06-30", "")
	put("clearing:yen", "500", "06-30", "")
	// The clock was set back: it was decided later, and counts as what came later.
	put("clearing:back", "20", "06-20", "")
	put("clearing:back", "30", "06-10", "")
	put("clearing:back", "-20", "06-12", "")

	end := *at("2025-07-01T00:00:00Z")
	s := b.run(t, report.Request{Report: report.Clearing, Period: report.Period{To: end}})
	same(t, "by booking time", rows(s), `item a:suspense:b||BDT|2.00|1|2025-06-22|8|t7|||2.00||
item assets:clearing:gw||BDT|30.00|1|2025-06-01|29|t2|||30.00||
item clearing||BDT|3.00|1|2025-06-30|0|t22|3.00||||
item clearing:back||BDT|30.00|1|2025-06-10|20|t25|||30.00||
item clearing:old||BDT|35.00|4|2025-03-31|91|t8|||11.00|17.00|7.00
item clearing:turn||BDT|-11.00|1|2025-06-29|1|t13|-11.00||||
item clearing:v||BDT|80.00|1|2025-06-15|15|t16|||80.00||
item clearing:yen||JPY|500|1|2025-06-30|0|t23|500||||
item suspense||BDT|-15.00|2|2025-06-29|1|t4|-15.00||||
item x:clearing||BDT|1.00|1|2025-06-23|7|t6||1.00|||
total Total BDT|9 accounts|BDT|155.00|13|2025-03-31|91|t8|-23.00|1.00|153.00|17.00|7.00
total Total JPY|1 account|JPY|500|1|2025-06-30|0|t23|500||||
`)
	if got := facts(s.Head, "to", "accounts"); got != "2025-07-01; with clearing or suspense in their id" {
		t.Errorf("head: %s", got)
	}
	for _, c := range []struct {
		q    report.Request
		want string
	}{
		{report.Request{Basis: report.Value, Prefix: "clearing:v"}, "item clearing:v||BDT|80.00|1|2025-06-20|10|t15|||80.00||\n"},
		{report.Request{Basis: report.Value, Prefix: "clearing:old"}, "item clearing:old||BDT|35.00|4|2025-03-31|91|t8|||11.00|17.00|7.00\n"},
		{report.Request{Prefix: "clearing:empty"}, ""},
		{report.Request{Prefix: "clearing:empty", Empty: true}, "item clearing:empty||BDT|0.00|0||||||||\n"},
		{report.Request{Prefix: "my-"}, "item my-suspense||BDT|5.00|1|2025-06-01|29|t21|||5.00||\n"},
		{report.Request{Currency: "JPY"}, "item clearing:yen||JPY|500|1|2025-06-30|0|t23|500||||\n"},
		// As of the past, and in zones where it is another day.
		{report.Request{Prefix: "assets:", Period: report.Period{To: *at("2025-06-02T00:00:00Z")}},
			"item assets:clearing:gw||BDT|150.00|2|2025-01-01|151|t1|50.00||||100.00\n"},
		{report.Request{Prefix: "assets:", Period: report.Period{To: *at("2025-06-01T12:00:00Z")}},
			"item assets:clearing:gw||BDT|100.00|1|2025-01-01|151|t1|||||100.00\n"},
		{report.Request{Prefix: "clearing:v", Basis: report.Value, Period: report.Period{To: *at("2025-06-10T00:00:00Z")}},
			"item clearing:v||BDT|90.00|1|2025-06-05|4|t16||90.00|||\n"},
		{report.Request{Prefix: "clearing:v", Period: report.Period{To: *at("2025-06-10T00:00:00Z")}},
			"item clearing:v||BDT|100.00|1|2025-06-01|8|t15|||100.00||\n"},
		{report.Request{Prefix: "x:", Period: report.Period{Zone: zoneOf(t, "Pacific/Kiritimati")}},
			"item x:clearing||BDT|1.00|1|2025-06-24|7|t6||1.00|||\n"},
	} {
		c.q.Report = report.Clearing
		if c.q.Period.To.IsZero() {
			c.q.Period.To = end
		}
		s := b.run(t, c.q)
		if same(t, fmt.Sprintf("%+v", c.q), rows(s, sheet.Item), c.want); c.q.Prefix != "" &&
			s.Head.Fact("accounts") != "with clearing or suspense in their id, or beginning as asked" {
			t.Errorf("head: %v", s.Head.Facts)
		}
	}
	b.LimitTo(3)
	for _, basis := range []report.Basis{report.Booking, report.Value} {
		err := b.Run(t.Context(), report.Request{Report: report.Clearing, Basis: basis, Prefix: "clearing:old", Period: report.Period{To: end}},
			&sheet.Collector{})
		if ledger.CodeOf(err) != ledger.CodeInvalidArgument || !strings.Contains(fmt.Sprint(err), "account clearing:old has more than 3 open items") {
			t.Errorf("too many items: %v", err)
		}
	}
	b.LimitTo(4)
	b.run(t, report.Request{Report: report.Clearing, Prefix: "clearing:old", Period: report.Period{To: end}})
}

// What was posted, refused and stopped, day by day. Duplicates are counted by the servers, which write them down when they end.
func TestGrowth(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.account(t, "bank", ledger.Asset, "BDT")
	zero := amount("0")
	b.accounts(t, ledger.AccountSpec{ID: "wallet", Type: ledger.Liability, Currency: "BDT", Floor: &zero})
	b.account(t, "yen", ledger.Asset, "JPY")
	b.account(t, "yen:owner", ledger.Equity, "JPY")
	o := newOracle()
	b.insert(t, o, hand{"old", "yen", "yen:owner", "1", *at("2025-01-05T23:59:59.999999Z"), time.Time{}}, hand{"new", "yen", "yen:owner", "1",
		*at("2025-01-06T00:00:00Z"), time.Time{}})
	server := func(work func(j *journal.Journal)) {
		pool, err := pg.Connect(t.Context(), pg.Config{DSN: b.db.ServiceDSN()})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		j := journal.New(pool, journal.Config{})
		work(j)
		j.Close()
	}
	day := func() string { return time.Now().UTC().Format(time.DateOnly) }
	today := day()
	for range 2 { // two servers, each with counts of its own
		server(func(j *journal.Journal) {
			post := func(specs ...ledger.TransferSpec) {
				if _, err := j.Post(t.Context(), "local", main, specs); err != nil {
					t.Fatal(err)
				}
			}
			hold := ledger.TransferSpec{ID: "hold", Entries: ledger.Simple("wallet", "bank", amount("1"), ""), Terms: &ledger.Terms{Kind: ledger.Hold}}
			void := ledger.TransferSpec{ID: "void", Terms: &ledger.Terms{Kind: ledger.Void, Origin: "hold"}}
			post(move("in", "bank", "wallet", "10", ""), hold, void, move("too-much", "wallet", "bank", "11", ""))
			post(move("in", "bank", "wallet", "10", ""), move("too-much", "wallet", "bank", "11", ""))
			post(move("in", "bank", "wallet", "12", ""))
			post(move("nowhere", "bank", "nobody", "12", ""))
			for range 3 {
				j.CountReplay(t.Context(), main, journal.KeyGuard, "in")
			}
			j.CountTaken(t.Context(), main, journal.KeyGuard, "in")
			j.CountReplay(t.Context(), "nowhere", journal.KeyGuard, "in")
		})
	}
	if day() != today {
		t.Skip("a day ended meanwhile")
	}
	from, err := time.Parse(time.DateOnly, today)
	if err != nil {
		t.Fatal(err)
	}
	q := report.Request{Report: report.Growth, Period: report.Period{From: from.AddDate(0, 0, -1), To: from.AddDate(0, 0, 2)}}
	s := b.run(t, q)
	// The first server stopped two duplicates and a request with other content, the second one the first four requests too.
	same(t, "growth", rows(s), fmt.Sprintf(`item %s|0|0|0|0|0|0
item %s|3|1|2|6|8|4
item %s|0|0|0|0|0|0
total |3|1|2|6|8|4
`, from.AddDate(0, 0, -1).Format(time.DateOnly), today, from.AddDate(0, 0, 1).Format(time.DateOnly)))
	// The days of another zone, and the microseconds at their edges.
	for zone, want := range map[string]string{
		"UTC":        "item 2025-01-05|1|0|2|0|0|0\nitem 2025-01-06|1|0|2|0|0|0\ntotal |2|0|4|0|0|0\n",
		"Asia/Dhaka": "item 2025-01-05|0|0|0|0|0|0\nitem 2025-01-06|2|0|4|0|0|0\ntotal |2|0|4|0|0|0\n",
	} {
		got := rows(b.run(t, report.Request{Report: report.Growth, Period: period(t, "2025-01-05", "2025-01-07", zone)}))
		same(t, zone, got, want)
	}
	// Another ledger has none of it.
	if _, err := b.CreateLedger(context.Background(), "local", "other"); err != nil {
		t.Fatal(err)
	}
	q.Ledger = "other"
	if got := rows(b.run(t, q), sheet.Total); got != "total |0|0|0|0|0|0\n" {
		t.Errorf("the other ledger: %s", got)
	}
}
