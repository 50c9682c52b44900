package report_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// shop has small books in four currencies, for figures that were worked out by hand.
func shop(t testing.TB) (*books, *oracle) {
	t.Helper()
	b, o := setup(t), newOracle()
	o.scale["ETH"] = 18
	if err := b.RegisterCurrency(t.Context(), main, ledger.Currency{Code: "ETH", Scale: 18}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []ledger.AccountSpec{
		{ID: "assets:bank", Type: ledger.Asset, Currency: "BDT", Name: "Bank"},
		{ID: "assets:still", Type: ledger.Asset, Currency: "BDT"},
		{ID: "assets:turned", Type: ledger.Asset, Currency: "BDT"},
		{ID: "assets:gone", Type: ledger.Asset, Currency: "BDT"},
		{ID: "wallet:a", Type: ledger.Liability, Currency: "BDT", Name: "=cmd()"},
		{ID: "wallet:b", Type: ledger.Liability, Currency: "BDT"},
		{ID: "owner", Type: ledger.Equity, Currency: "BDT"},
		{ID: "fees", Type: ledger.Revenue, Currency: "BDT"},
		{ID: "costs", Type: ledger.Expense, Currency: "BDT"},
		{ID: "yen", Type: ledger.Asset, Currency: "JPY"},
		{ID: "yen:owner", Type: ledger.Equity, Currency: "JPY"},
		{ID: "dinar", Type: ledger.Asset, Currency: "KWD"},
		{ID: "dinar:owner", Type: ledger.Equity, Currency: "KWD"},
		{ID: "ether", Type: ledger.Asset, Currency: "ETH"},
		{ID: "ether:owner", Type: ledger.Equity, Currency: "ETH"},
		{ID: "idle", Type: ledger.Revenue, Currency: "USD"},
	} {
		b.accounts(t, s)
		o.open(s)
	}
	for i, h := range []hand{
		{debit: "assets:bank", credit: "owner", amount: "1000.00", at: *at("2025-01-05T10:00:00Z")},
		{debit: "assets:bank", credit: "wallet:a", amount: "100", at: *at("2025-01-10T10:00:00Z")},
		{debit: "assets:still", credit: "owner", amount: "77.7", at: *at("2025-01-11T10:00:00Z")},
		{debit: "assets:turned", credit: "owner", amount: "5", at: *at("2025-01-12T10:00:00Z")},
		{debit: "owner", credit: "assets:turned", amount: "5", at: *at("2025-02-01T00:00:00Z")},
		{debit: "assets:gone", credit: "owner", amount: "6", at: *at("2025-01-13T10:00:00Z")},
		{debit: "owner", credit: "assets:gone", amount: "10", at: *at("2025-01-14T10:00:00Z")},
		{debit: "assets:gone", credit: "owner", amount: "4", at: *at("2025-01-31T23:59:59.999999Z")},
		{debit: "wallet:a", credit: "wallet:b", amount: "40", at: *at("2025-02-03T10:00:00Z")},
		{debit: "wallet:a", credit: "fees", amount: "1.50", at: *at("2025-02-04T10:00:00Z")},
		{debit: "costs", credit: "assets:bank", amount: "0.75", at: *at("2025-02-05T10:00:00Z")},
		{debit: "yen", credit: "yen:owner", amount: "500", at: *at("2025-02-10T10:00:00Z")},
		{debit: "dinar", credit: "dinar:owner", amount: "0.125", at: *at("2025-02-11T10:00:00Z")},
		{debit: "ether", credit: "ether:owner", amount: "0.000000000000000001", at: *at("2025-02-12T10:00:00Z")},
		{debit: "assets:bank", credit: "wallet:b", amount: "7", at: *at("2025-03-01T00:00:00Z")},
		// Booked in March, and of February.
		{debit: "wallet:b", credit: "fees", amount: "2", at: *at("2025-03-02T10:00:00Z"), effective: *at("2025-02-28T23:59:59.999999Z")},
	} {
		h.id = ledger.TransferID(fmt.Sprint("t", i+1))
		b.insert(t, o, h)
	}
	return b, o
}

func february(name report.Name, basis report.Basis) report.Request {
	q := report.Request{Report: name, Basis: basis, Period: report.Period{From: *at("2025-02-01T00:00:00Z"), To: *at("2025-03-01T00:00:00Z"),
		Zone: time.UTC}}
	if d, err := report.Define(name); err == nil && d.Takes&report.AtOneMoment != 0 {
		q.Period.From = time.Time{}
	}
	return q
}

func TestTrialBalance(t *testing.T) {
	t.Parallel()
	b, _ := shop(t)
	for _, c := range []struct {
		basis report.Basis
		want  string
	}{
		{report.Booking, `item assets:bank|Bank|asset|BDT|1100.00|||0.75|1099.25|
item assets:still||asset|BDT|77.70||||77.70|
item assets:turned||asset|BDT|5.00|||5.00||
item costs||expense|BDT|||0.75||0.75|
item dinar||asset|KWD|||0.125||0.125|
item dinar:owner||equity|KWD||||0.125||0.125
item ether||asset|ETH|||0.000000000000000001||0.000000000000000001|
item ether:owner||equity|ETH||||0.000000000000000001||0.000000000000000001
item fees||revenue|BDT||||1.50||1.50
item owner||equity|BDT||1082.70|5.00|||1077.70
item wallet:a|=cmd()|liability|BDT||100.00|41.50|||58.50
item wallet:b||liability|BDT||||40.00||40.00
item yen||asset|JPY|||500||500|
item yen:owner||equity|JPY||||500||500
total Total BDT|||BDT|1182.70|1182.70|47.25|47.25|1177.70|1177.70
total Total ETH|||ETH|0.000000000000000000|0.000000000000000000|0.000000000000000001|0.000000000000000001|0.000000000000000001|0.000000000000000001
total Total JPY|||JPY|0|0|500|500|500|500
total Total KWD|||KWD|0.000|0.000|0.125|0.125|0.125|0.125
`},
		{report.Value, `item assets:bank|Bank|asset|BDT|1100.00|||0.75|1099.25|
item assets:still||asset|BDT|77.70||||77.70|
item assets:turned||asset|BDT|5.00|||5.00||
item costs||expense|BDT|||0.75||0.75|
item dinar||asset|KWD|||0.125||0.125|
item dinar:owner||equity|KWD||||0.125||0.125
item ether||asset|ETH|||0.000000000000000001||0.000000000000000001|
item ether:owner||equity|ETH||||0.000000000000000001||0.000000000000000001
item fees||revenue|BDT||||3.50||3.50
item owner||equity|BDT||1082.70|5.00|||1077.70
item wallet:a|=cmd()|liability|BDT||100.00|41.50|||58.50
item wallet:b||liability|BDT|||2.00|40.00||38.00
item yen||asset|JPY|||500||500|
item yen:owner||equity|JPY||||500||500
total Total BDT|||BDT|1182.70|1182.70|49.25|49.25|1177.70|1177.70
total Total ETH|||ETH|0.000000000000000000|0.000000000000000000|0.000000000000000001|0.000000000000000001|0.000000000000000001|0.000000000000000001
total Total JPY|||JPY|0|0|500|500|500|500
total Total KWD|||KWD|0.000|0.000|0.125|0.125|0.125|0.125
`},
	} {
		s := b.run(t, february(report.TrialBalance, c.basis))
		same(t, string(c.basis), rows(s), c.want)
		if names := checks(s); names != "opening + debits - credits = closing, for each account; debits equal credits in BDT; "+
			"debits equal credits in ETH; "+
			"debits equal credits in JPY; debits equal credits in KWD" {
			t.Errorf("checks: %s", names)
		}
	}
	// All there are, those with nothing to show too.
	q := february(report.TrialBalance, report.Booking)
	q.Empty = true
	s := b.run(t, q)
	for _, line := range []string{"item assets:gone||asset|BDT||||||\n", "item idle||revenue|USD||||||\n"} {
		if !strings.Contains(rows(s), line) {
			t.Errorf("no line %q among\n%s", line, rows(s))
		}
	}
	if !strings.Contains(rows(s), "total Total USD|||USD|0.00|0.00|0.00|0.00|0.00|0.00\n") || len(s.Rows) != 16+5 {
		t.Errorf("%d rows:\n%s", len(s.Rows), rows(s))
	}
	// Of one currency, and by the beginning of ids: a prefix is not a part of an id.
	q = february(report.TrialBalance, report.Booking)
	q.Currency = "JPY"
	same(t, "one currency", rows(b.run(t, q)), `item yen||asset|JPY|||500||500|
item yen:owner||equity|JPY||||500||500
total Total JPY|||JPY|0|0|500|500|500|500
`)
	q = february(report.TrialBalance, report.Booking)
	q.Prefix = "assets:t"
	s = b.run(t, q)
	same(t, "a prefix", rows(s), "item assets:turned||asset|BDT|5.00|||5.00||\ntotal Total BDT|||BDT|5.00|0.00|0.00|5.00|0.00|0.00\n")
	if names := checks(s); names != "opening + debits - credits = closing, for each account" {
		t.Errorf("of a part, debits need not equal credits: %s", names)
	}
	// A period from the beginning has no openings, and one up to now has everything.
	whole := b.run(t, report.Request{Report: report.TrialBalance})
	if line := "total Total BDT|||BDT|0.00|0.00|1258.95|1258.95|1184.70|1184.70\n"; !strings.Contains(rows(whole), line) {
		t.Errorf("no line %q among\n%s", line, rows(whole))
	}
	if head := facts(whole.Head, "ledger", "from", "to", "zone", "basis", "provisional"); head != "main; the beginning; now; UTC; "+
		"booking: the time at which Khata recorded the transfer; " {
		t.Errorf("head: %s", head)
	}
	if head := facts(b.run(t, february(report.TrialBalance, report.Value)).Head, "from", "to", "basis", "policy"); head != "2025-02-01; 2025-03-01; "+
		"value: the value date of the transfer, or else the time at which Khata recorded it; "+
		"are not closed: their opening balances are since the beginning" {
		t.Errorf("head: %s", head)
	}
}

func checks(s *sheet.Sheet) string {
	var names []string
	for _, c := range s.Checks {
		names = append(names, c.Name)
	}
	return strings.Join(names, "; ")
}

func facts(h sheet.Head, ids ...string) string {
	var values []string
	for _, id := range ids {
		values = append(values, h.Fact(id))
	}
	return strings.Join(values, "; ")
}

// Accounts are taken together by the parts of their ids, between colons: what an id begins with, letter by letter, does not matter. What is not an
// inner row comes to the totals.
func TestDepth(t *testing.T) {
	t.Parallel()
	b, o := setup(t), newOracle()
	for id, currency := range map[ledger.AccountID]ledger.CurrencyCode{
		"a": "BDT", "a:b": "BDT", "a:b-c": "BDT", "a:b:d": "BDT", "a:b:d:e": "BDT", "a:b:yen": "JPY", "ab": "BDT",
		"ab:c": "BDT", "z": "BDT", "zy": "JPY", "::": "BDT", "a:b-c:d": "BDT",
	} {
		spec := ledger.AccountSpec{ID: id, Type: ledger.Asset, Currency: currency}
		b.accounts(t, spec)
		o.open(spec)
	}
	for i, h := range []hand{
		{debit: "a", credit: "z", amount: "1"}, {debit: "a:b", credit: "z", amount: "10"}, {debit: "a:b-c", credit: "z", amount: "100"},
		{debit: "a:b:d", credit: "z", amount: "1000"}, {debit: "a:b:d:e", credit: "z", amount: "10000"}, {debit: "a:b:yen", credit: "zy", amount: "7"},
		{debit: "ab", credit: "z", amount: "100000"}, {debit: "ab:c", credit: "z", amount: "1000000"}, {debit: "::", credit: "z", amount: "0.01"},
		{debit: "a:b-c:d", credit: "z", amount: "0.10"},
	} {
		h.id, h.at = ledger.TransferID(fmt.Sprint(i)), *at("2025-01-05T10:00:00Z")
		b.insert(t, o, h)
	}
	for depth, want := range map[int]string{
		1: `0 item ||1 account|BDT|0.01
0 item a|6 accounts|BDT|11111.10
0 item a|1 account|JPY|7
0 item ab|2 accounts|BDT|1100000.00
0 item z|1 account|BDT|
0 item zy|1 account|JPY|
`,
		2: `1 item :|1 account|BDT|0.01
0 subtotal |1 account|BDT|0.01
1 item a:b|3 accounts|BDT|11010.00
1 item a:b|1 account|JPY|7
1 item a:b-c|2 accounts|BDT|100.10
1 item a|1 account|BDT|1.00
0 subtotal a|6 accounts|BDT|11111.10
0 subtotal a|1 account|JPY|7
1 item ab:c|1 account|BDT|1000000.00
1 item ab|1 account|BDT|100000.00
0 subtotal ab|2 accounts|BDT|1100000.00
0 item z|1 account|BDT|
0 item zy|1 account|JPY|
`,
		3: `2 item ::|1 account|BDT|0.01
1 subtotal :|1 account|BDT|0.01
0 subtotal |1 account|BDT|0.01
2 item a:b:d|2 accounts|BDT|11000.00
2 item a:b:yen|1 account|JPY|7
2 item a:b|1 account|BDT|10.00
1 subtotal a:b|3 accounts|BDT|11010.00
1 subtotal a:b|1 account|JPY|7
2 item a:b-c:d|1 account|BDT|0.10
2 item a:b-c|1 account|BDT|100.00
1 subtotal a:b-c|2 accounts|BDT|100.10
1 item a|1 account|BDT|1.00
0 subtotal a|6 accounts|BDT|11111.10
0 subtotal a|1 account|JPY|7
1 item ab:c|1 account|BDT|1000000.00
1 item ab|1 account|BDT|100000.00
0 subtotal ab|2 accounts|BDT|1100000.00
0 item z|1 account|BDT|
0 item zy|1 account|JPY|
`,
	} {
		s := b.run(t, report.Request{Report: report.TrialBalance, Depth: depth})
		var out strings.Builder
		sums, totals := map[string]string{}, map[string]string{}
		for _, row := range s.Rows {
			c := row.Cells
			if row.Kind == sheet.Total {
				totals[c[3]] = c[8]
				continue
			}
			fmt.Fprintf(&out, "%d %s %s|%s|%s|%s\n", row.Depth, row.Kind, c[0], c[1], c[3], c[8])
			if row.Kind == sheet.Item && c[8] != "" {
				sums[c[3]] = add(sums[c[3]], c[8])
			}
		}
		want = strings.Replace(want, "item ||1 account|BDT|0.01", "item |1 account|BDT|0.01", 1)
		same(t, fmt.Sprint("depth ", depth), out.String(), want)
		for currency, total := range totals {
			if !amount(sums[currency]).Equal(amount(total)) {
				t.Errorf("at depth %d the items in %s come to %s, and the total is %s", depth, currency, sums[currency], total)
			}
		}
	}
	// The other reports that take a depth.
	s := b.run(t, report.Request{Report: report.BalanceSheet, Depth: 1, Currency: "JPY"})
	same(t, "balance sheet", rows(s), `item assets|a|1 account|JPY|7
item assets|zy|1 account|JPY|-7
subtotal assets|Total assets JPY||JPY|0
`)
	for prefix, want := range map[string]string{
		"a:b": "a:b a:b-c a:b-c:d a:b:d a:b:d:e a:b:yen", "a:b:": "a:b:d a:b:d:e a:b:yen", "ab": "ab ab:c", "b": "", ":": "::", "a:b:d:e": "a:b:d:e",
	} {
		var ids []string
		for _, row := range b.run(t, report.Request{Report: report.TrialBalance, Prefix: prefix}).Rows {
			if row.Kind == sheet.Item {
				ids = append(ids, row.Cells[0])
			}
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("prefix %s: %s, want %s", prefix, got, want)
		}
	}
	b.LimitTo(5)
	if err := b.Run(t.Context(), report.Request{Report: report.TrialBalance, Depth: 2}, &sheet.Collector{}); err == nil ||
		invalid(t, err) != "depth: 2 gives more than 5 groups: give less, or a prefix" {
		t.Errorf("too many groups: %v", err)
	}
}

func add(a, b string) string {
	if a == "" {
		return b
	}
	return amount(a).Add(amount(b)).String()
}

func TestBalanceSheetAndIncomeStatement(t *testing.T) {
	t.Parallel()
	b, _ := shop(t)
	same(t, "balance sheet", rows(b.run(t, february(report.BalanceSheet, report.Value))), `item assets|assets:bank|Bank|BDT|1099.25
item assets|assets:still||BDT|77.70
item assets|dinar||KWD|0.125
item assets|ether||ETH|0.000000000000000001
item assets|yen||JPY|500
subtotal assets|Total assets BDT||BDT|1176.95
subtotal assets|Total assets ETH||ETH|0.000000000000000001
subtotal assets|Total assets JPY||JPY|500
subtotal assets|Total assets KWD||KWD|0.125
item liabilities|wallet:a|=cmd()|BDT|58.50
item liabilities|wallet:b||BDT|38.00
subtotal liabilities|Total liabilities BDT||BDT|96.50
item equity|dinar:owner||KWD|0.125
item equity|ether:owner||ETH|0.000000000000000001
item equity|owner||BDT|1077.70
item equity|yen:owner||JPY|500
item equity||Result not yet closed|BDT|2.75
subtotal equity|Total equity BDT||BDT|1080.45
subtotal equity|Total equity ETH||ETH|0.000000000000000001
subtotal equity|Total equity JPY||JPY|500
subtotal equity|Total equity KWD||KWD|0.125
total liabilities and equity|Total BDT||BDT|1176.95
total liabilities and equity|Total ETH||ETH|0.000000000000000001
total liabilities and equity|Total JPY||JPY|500
total liabilities and equity|Total KWD||KWD|0.125
`)
	s := b.run(t, february(report.BalanceSheet, report.Booking))
	if !strings.Contains(rows(s), "item equity||Result not yet closed|BDT|0.75\n") {
		t.Errorf("by booking time:\n%s", rows(s))
	}
	if facts(s.Head, "to", "from", "signs") != "2025-03-01; ; a balance on its account's normal side is positive" ||
		s.Head.Facts[1].Title != "As of the beginning of" {
		t.Errorf("head: %v", s.Head.Facts)
	}
	if now := b.run(t, report.Request{Report: report.BalanceSheet}).Head; now.Facts[1].Title != "As of" || now.Fact("to") != "now" {
		t.Errorf("head: %v", now.Facts)
	}
	same(t, "income statement", rows(b.run(t, february(report.IncomeStatement, report.Booking))), `item revenue|fees||BDT|1.50
subtotal revenue|Total revenue BDT||BDT|1.50
item expenses|costs||BDT|0.75
subtotal expenses|Total expenses BDT||BDT|0.75
total result|Result BDT||BDT|0.75
`)
	same(t, "a loss", rows(b.run(t, report.Request{Report: report.IncomeStatement, Prefix: "costs"})), `item expenses|costs||BDT|0.75
subtotal expenses|Total expenses BDT||BDT|0.75
total result|Result BDT||BDT|-0.75
`)
	q := february(report.IncomeStatement, report.Booking)
	q.Period.To, q.Period.From = q.Period.From, time.Time{}
	q.Empty = true
	same(t, "an income statement with nothing in it", rows(b.run(t, q)), `item revenue|fees||BDT|0.00
item revenue|idle||USD|0.00
subtotal revenue|Total revenue BDT||BDT|0.00
subtotal revenue|Total revenue USD||USD|0.00
item expenses|costs||BDT|0.00
subtotal expenses|Total expenses BDT||BDT|0.00
total result|Result BDT||BDT|0.00
total result|Result USD||USD|0.00
`)
}

func TestGeneralLedger(t *testing.T) {
	t.Parallel()
	b, o := shop(t)
	zone := time.UTC
	for _, basis := range []report.Basis{report.Booking, report.Value} {
		for _, c := range []cut{
			{from: *at("2025-02-01T00:00:00Z"),
				to: *at("2025-03-01T00:00:00Z")}, {}, {from: *at("2025-02-04T10:00:00Z")}, {to: *at("2025-01-10T10:00:00.000001Z")},
			{from: *at("2030-01-01T00:00:00Z")}, {to: *at("2020-01-01T00:00:00Z")}, {from: *at("2020-01-01T00:00:00Z"), to: *at("2020-01-02T00:00:00Z")},
		} {
			c.basis, c.zone = basis, zone
			b.checkGeneralLedger(t, o, c)
			b.checkTrialBalance(t, o, c)
		}
	}
	q := february(report.GeneralLedger, report.Value)
	q.Account = "wallet:b"
	same(t, "one account", rows(b.run(t, q)), `opening wallet:b||||||Opening balance|BDT|||0.00||
item wallet:b|2025-02-03|`+sequence(o, "t9")+`|t9|transfer|wallet:a||BDT||40.00|-40.00|2025-02-03T10:00:00Z|
item wallet:b|2025-02-28|`+sequence(o, "t16")+`|t16|transfer|fees||BDT|2.00||-38.00|2025-03-02T10:00:00Z|2025-02-28T23:59:59.999999Z
closing wallet:b||||||Closing balance|BDT|2.00|40.00|-38.00||
`)
	// An account without movement keeps its opening balance; one whose entries came to nothing before is not there.
	q = february(report.GeneralLedger, report.Booking)
	q.Prefix = "assets:"
	got := rows(b.run(t, q))
	for _, line := range []string{
		"opening assets:still||||||Opening balance|BDT|||77.70||\nclosing assets:still||||||Closing balance|BDT|0.00|0.00|77.70||\n",
		"closing assets:turned||||||Closing balance|BDT|0.00|5.00|0.00||\n", "opening assets:bank||||||Bank: opening balance|BDT|||1100.00||\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %q among\n%s", line, got)
		}
	}
	if strings.Contains(got, "assets:gone") {
		t.Errorf("an account with nothing to show:\n%s", got)
	}
	// Some accounts at a time, or all at once, is the same.
	whole := report.Request{Report: report.GeneralLedger, Period: report.Period{Zone: zone}}
	want := bytesOf(t, b.run(t, whole))
	b.LimitTo(1)
	if got := bytesOf(t, b.run(t, whole)); got != want {
		same(t, "one account at a time", got, want)
	}
}

// sequence is that of a transfer, as text.
func sequence(o *oracle, id ledger.TransferID) string {
	for _, p := range o.lines {
		if p.transfer == id {
			return fmt.Sprint(p.sequence)
		}
	}
	return ""
}

func TestDailyPositionAndBalanceOverTime(t *testing.T) {
	t.Parallel()
	b, _ := shop(t)
	q := report.Request{Report: report.DailyPosition, Account: "wallet:a", Period: period(t, "2025-02-02", "2025-02-06", "")}
	same(t, "one account", rows(b.run(t, q)), `item wallet:a|=cmd()|2025-02-02|BDT|-100.00|||-100.00
item wallet:a|=cmd()|2025-02-03|BDT|-100.00|40.00||-60.00
item wallet:a|=cmd()|2025-02-04|BDT|-60.00|1.50||-58.50
item wallet:a|=cmd()|2025-02-05|BDT|-58.50|||-58.50
total Total BDT|1 account|2025-02-02|BDT|-100.00|||-100.00
total Total BDT|1 account|2025-02-03|BDT|-100.00|40.00||-60.00
total Total BDT|1 account|2025-02-04|BDT|-60.00|1.50||-58.50
total Total BDT|1 account|2025-02-05|BDT|-58.50|||-58.50
`)
	// Without a choice it is of the assets, in all currencies.
	q = report.Request{Report: report.DailyPosition, Period: period(t, "2025-02-10", "2025-02-12", "")}
	s := b.run(t, q)
	same(t, "assets", rows(s), `item assets:bank|Bank|2025-02-10|BDT|1099.25|||1099.25
item assets:bank|Bank|2025-02-11|BDT|1099.25|||1099.25
item assets:still||2025-02-10|BDT|77.70|||77.70
item assets:still||2025-02-11|BDT|77.70|||77.70
item dinar||2025-02-10|KWD|0.000|||0.000
item dinar||2025-02-11|KWD|0.000|0.125||0.125
item yen||2025-02-10|JPY|0|500||500
item yen||2025-02-11|JPY|500|||500
total Total BDT|2 accounts|2025-02-10|BDT|1176.95|||1176.95
total Total JPY|1 account|2025-02-10|JPY|0|500||500
total Total KWD|1 account|2025-02-10|KWD|0.000|||0.000
total Total BDT|2 accounts|2025-02-11|BDT|1176.95|||1176.95
total Total JPY|1 account|2025-02-11|JPY|500|||500
total Total KWD|1 account|2025-02-11|KWD|0.000|0.125||0.125
`)
	if s.Head.Fact("accounts") != "assets" {
		t.Errorf("head: %v", s.Head.Facts)
	}
	q = report.Request{Report: report.DailyPosition, Prefix: "wallet:", Basis: report.Value, Period: period(t, "2025-02-28", "2025-03-02", "")}
	same(t, "a prefix, by value date", rows(b.run(t, q), sheet.Total), `total Total BDT|2 accounts|2025-02-28|BDT|-98.50|2.00||-96.50
total Total BDT|2 accounts|2025-03-01|BDT|-96.50||7.00|-103.50
`)
	for _, c := range []struct {
		account ledger.AccountID
		basis   report.Basis
		want    string
	}{
		{"wallet:b", report.Booking, `opening |BDT|||40.00
item 2025-02-28|BDT|||40.00
item 2025-03-01|BDT||7.00|47.00
item 2025-03-02|BDT|2.00||45.00
`},
		{"wallet:b", report.Value, `opening |BDT|||40.00
item 2025-02-28|BDT|2.00||38.00
item 2025-03-01|BDT||7.00|45.00
item 2025-03-02|BDT|||45.00
`},
		{"idle", report.Booking, `opening |USD|||0.00
item 2025-02-28|USD|||0.00
item 2025-03-01|USD|||0.00
item 2025-03-02|USD|||0.00
`},
	} {
		q := report.Request{Report: report.BalanceOverTime, Account: c.account, Basis: c.basis, Period: period(t, "2025-02-28", "2025-03-03", "")}
		same(t, fmt.Sprint(c.account, " by ", c.basis), rows(b.run(t, q)), c.want)
	}
	b.LimitTo(3)
	q = report.Request{Report: report.DailyPosition, Account: "wallet:a", Period: period(t, "2025-02-02", "2025-02-06", "")}
	if err := b.Run(t.Context(), q, &sheet.Collector{}); err == nil || invalid(t,
		err) != "prefix: gives more than 3 rows: give a longer prefix, or a shorter period" {
		t.Errorf("too many rows: %v", err)
	}
}

// The days on which clocks change have 23 and 25 hours, and each hour is on one of them.
func TestDailyPosition_ClocksChange(t *testing.T) {
	t.Parallel()
	b, o := setup(t), newOracle()
	b.account(t, "bank", ledger.Asset, "BDT")
	b.account(t, "wallet", ledger.Liability, "BDT")
	var hands []hand
	for _, day := range []string{"2025-03-08T00:00:00-05:00", "2025-11-01T00:00:00-04:00"} {
		for hour := range 72 {
			hands = append(hands, hand{id: ledger.TransferID(fmt.Sprint(day[:10], hour)), debit: "bank", credit: "wallet", amount: "1",
				at: at(day).Add(time.Duration(hour) * time.Hour).UTC()})
		}
	}
	b.insert(t, o, hands...)
	for _, c := range []struct{ from, to, want string }{
		{"2025-03-08", "2025-03-11", "2025-03-08 24.00, 2025-03-09 23.00, 2025-03-10 24.00"},
		{"2025-11-01", "2025-11-04", "2025-11-01 24.00, 2025-11-02 25.00, 2025-11-03 23.00"},
	} {
		var got []string
		q := report.Request{Report: report.DailyPosition, Account: "bank", Period: period(t, c.from, c.to, "America/New_York")}
		for _, row := range b.run(t, q).Rows {
			if row.Kind == sheet.Item {
				got = append(got, row.Cells[2]+" "+row.Cells[5])
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s, want %s", text, c.want)
		}
	}
}

// Whatever cannot be asked is refused before anything is written.
func TestRun_Refused(t *testing.T) {
	t.Parallel()
	b, _ := shop(t)
	whole, month := report.Period{}, report.Period{From: *at("2025-02-01T00:00:00Z"), To: *at("2025-03-01T00:00:00Z")}
	upTo := report.Period{To: month.To}
	for _, c := range []struct {
		q    report.Request
		want string
	}{
		{report.Request{}, `report: "" is no report`},
		{report.Request{Report: "trial"}, `report: "trial" is no report`},
		{report.Request{Report: report.AccountStatement}, `report: "account-statement" is no report`},
		{report.Request{Report: report.TrialBalance, Basis: "posted"}, `basis: "posted" is not booking or value`},
		{report.Request{Report: report.TrialBalance, Period: report.Period{From: month.To, To: month.From}},
			"to: 2025-02-01 is not after from, 2025-03-01"},
		{report.Request{Report: report.TrialBalance, Period: report.Period{From: month.To.Add(1)}},
			"from: 2025-03-01T00:00:00.000000001Z is finer than a microsecond"},
		{report.Request{Report: report.TrialBalance, Account: "wallet:a"}, "account: is nothing that the report trial-balance can be asked for"},
		{report.Request{Report: report.TrialBalance, Statement: 1}, "statement: is nothing that the report trial-balance can be asked for"},
		{report.Request{Report: report.TrialBalance, Depth: -1}, "depth: is not between 1 and 16, or 0 for every account"},
		{report.Request{Report: report.TrialBalance, Depth: 17}, "depth: is not between 1 and 16, or 0 for every account"},
		{report.Request{Report: report.TrialBalance, Prefix: "a b"}, "prefix: has byte 0x20 at position 1"},
		{report.Request{Report: report.TrialBalance, Prefix: strings.Repeat("a", 129)}, "prefix: has 129 bytes"},
		{report.Request{Report: report.TrialBalance, Currency: "bdt"}, `currency: "bdt" is not a currency code`},
		{report.Request{Report: report.TrialBalance, Through: -1}, "through: is negative"},
		{report.Request{Report: report.TrialBalance, Through: 1 << 40}, "through: 1099511627776 is still to come: the last number is "},
		{report.Request{Report: report.TrialBalance, Ledger: "Main"}, `ledger: "Main" is not a ledger name`},
		{report.Request{Report: report.TrialBalance, Ledger: "other"}, `LEDGER_NOT_FOUND ledger "other" does not exist`},
		{report.Request{Report: report.BalanceSheet, Period: month},
			"from: is nothing that the report balance-sheet can be asked for: it is as of the moment to"},
		{report.Request{Report: report.Clearing, Period: month}, "from: is nothing that the report clearing can be asked for: it is as of the moment to"},
		{report.Request{Report: report.Clearing, Depth: 1}, "depth: is nothing that the report clearing can be asked for"},
		{report.Request{Report: report.GeneralLedger, Depth: 1}, "depth: is nothing that the report general-ledger can be asked for"},
		{report.Request{Report: report.GeneralLedger, Empty: true}, "empty: is nothing that the report general-ledger can be asked for"},
		{report.Request{Report: report.GeneralLedger, Account: "wallet:a", Prefix: "wallet:"}, "prefix: and account cannot be given together"},
		{report.Request{Report: report.GeneralLedger, Account: "no one"}, "account: has byte 0x20"},
		{report.Request{Report: report.GeneralLedger, Account: "wallet"}, "ACCOUNT_NOT_FOUND "},
		{report.Request{Report: report.GeneralLedger, Account: "wallet:"}, "ACCOUNT_NOT_FOUND "},
		{report.Request{Report: report.GeneralLedger, Account: "wallet:aa", Period: month}, "ACCOUNT_NOT_FOUND "},
		{report.Request{Report: report.GeneralLedger, Account: "wallet:a", Currency: "JPY"}, "currency: JPY is not that of account wallet:a, which is BDT"},
		{report.Request{Report: report.DailyPosition, Period: whole},
			"from: and to are required: the report daily-position is of a period that begins and ends"},
		{report.Request{Report: report.DailyPosition, Period: upTo}, "from: and to are required"},
		{report.Request{Report: report.DailyPosition, Account: "nobody", Period: month}, "ACCOUNT_NOT_FOUND "},
		{report.Request{Report: report.BalanceOverTime, Period: month}, "account: is required: the report balance-over-time is of one account"},
		{report.Request{Report: report.BalanceOverTime, Account: "nobody", Period: month}, "ACCOUNT_NOT_FOUND "},
		{report.Request{Report: report.BalanceOverTime, Account: "wallet:a", Prefix: "wallet", Period: month}, "prefix: is nothing that the report"},
		{report.Request{Report: report.BalanceOverTime, Account: "wallet:a", Period: period(t, "1700-01-01", "2020-01-01", "")},
			"to: is more than 110000 days after from"},
		{report.Request{Report: report.Growth, Period: month, Basis: report.Value}, "basis: is booking"},
		{report.Request{Report: report.Growth, Period: whole}, "from: and to are required"},
		{report.Request{Report: report.Growth, Period: month, Currency: "BDT"}, "currency: is nothing that the report growth can be asked for"},
		{report.Request{Report: report.ChangesSince}, "statement: is required: the number of a statement that was issued"},
		{report.Request{Report: report.ChangesSince, Statement: -1}, "statement: is required"},
		{report.Request{Report: report.ChangesSince, Statement: 1}, "NOT_FOUND not found: statement: 1 is no statement of ledger main"},
		{report.Request{Report: report.ChangesSince, Statement: 1, Period: upTo},
			"from: and to are nothing that the report changes-since-issued can be asked for"},
	} {
		err := b.refused(t, c.q)
		got := fmt.Sprint(string(ledger.CodeOf(err)), " ", err)
		if ledger.CodeOf(err) == ledger.CodeInvalidArgument {
			got = invalid(t, err)
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v: %s\nwant %s", c.q, got, c.want)
		}
	}
	if n := b.Busy(); n != 0 {
		t.Errorf("%d reports are still being made", n)
	}
	for _, d := range report.Definitions() {
		if got, err := report.Define(d.Name); err != nil || got != d || d.Title == "" || d.About == "" {
			t.Errorf("%s: %v, %v", d.Name, got, err)
		}
	}
}

// With the last sequence that counts, a report is the same whenever it is asked for, byte by byte, whatever is posted meanwhile.
func TestThrough(t *testing.T) {
	t.Parallel()
	b, o := shop(t)
	through, err := b.Horizon(t.Context(), main)
	if err != nil {
		t.Fatal(err)
	}
	var requests []report.Request
	for _, d := range report.Definitions() {
		for _, basis := range []report.Basis{report.Booking, report.Value} {
			q := february(d.Name, basis)
			q.Through = through
			switch {
			case d.Takes&report.NeedsStatement != 0 || d.Name == report.Growth && basis == report.Value:
				continue
			case d.Takes&report.NeedsAccount != 0:
				q.Account = "wallet:b"
			case d.Takes&report.TakesDepth != 0:
				deep := q
				deep.Depth = 1
				requests = append(requests, deep)
			}
			requests = append(requests, q)
			if d.Takes&report.NeedsPeriod == 0 {
				q.Period = report.Period{}
				requests = append(requests, q)
			}
		}
	}
	before := make([]string, len(requests))
	for i, q := range requests {
		before[i] = steady(t, b.run(t, q))
	}
	b.insert(t, o, hand{"late", "wallet:b", "fees", "3", *at("2025-02-07T10:00:00Z"), time.Time{}},
		hand{"valued", "wallet:b", "fees", "4", *at("2025-06-07T10:00:00Z"), *at("2025-02-07T10:00:00Z")})
	b.post(t, move("today", "assets:bank", "wallet:b", "5", ""), move("back", "assets:bank", "wallet:b", "6", "2025-02-15T00:00:00Z"))
	changed := 0
	for i, q := range requests {
		if got := steady(t, b.run(t, q)); got != before[i] {
			same(t, fmt.Sprintf("%+v", q), got, before[i])
		}
		q.Through = 0
		s := b.run(t, q)
		if got := steady(t, s); got != before[i] {
			changed++
		}
		if s.Head.Fact("through") == fmt.Sprint(through) {
			t.Errorf("%s is through %d still", q.Report, through)
		}
	}
	if changed < len(requests) {
		t.Errorf("only %d of %d reports are others without it", changed, len(requests))
	}
}

// steady is a sheet without what depends on when it was read: growth also tells the size of the journal.
func steady(t testing.TB, s *sheet.Sheet) string {
	t.Helper()
	for i, f := range s.Head.Facts {
		if f.ID == "bytes" {
			s.Head.Facts[i].Value = ""
		}
	}
	return bytesOf(t, s)
}

// What is not over is marked.
func TestProvisional(t *testing.T) {
	t.Parallel()
	b, _ := shop(t)
	now := time.Now().UTC()
	for name, c := range map[string]struct {
		period report.Period
		want   string
	}{
		"over":         {report.Period{To: now.Add(-time.Minute).Truncate(time.Microsecond)}, ""},
		"still to end": {report.Period{To: now.Add(time.Hour).Truncate(time.Microsecond)}, "the period is not over"},
		"without end":  {report.Period{}, ""},
	} {
		for _, report := range []report.Request{{Report: report.TrialBalance, Period: c.period}, {Report: report.BalanceSheet, Period: c.period}} {
			head := b.run(t, report).Head
			if got := head.Fact("provisional"); got != c.want {
				t.Errorf("%s: %q", name, got)
			}
			if read, err := time.Parse(time.RFC3339Nano, head.Fact("read_at")); err != nil || read.Before(now.Add(-time.Minute)) ||
				read.After(time.Now().Add(time.Minute)) {
				t.Errorf("%s: read at %s", name, head.Fact("read_at"))
			}
		}
	}
}

// Several ledgers in one database do not mix.
func TestLedgers(t *testing.T) {
	t.Parallel()
	b, _ := shop(t)
	if _, err := b.CreateLedger(t.Context(), "local", "other"); err != nil {
		t.Fatal(err)
	}
	before := bytesOf(t, b.run(t, report.Request{Report: report.GeneralLedger, Through: 20}))
	other := *b
	other.name = "other"
	other.account(t, "assets:bank", ledger.Asset, "BDT")
	other.account(t, "wallet:a", ledger.Liability, "BDT")
	other.post(t, move("t1", "assets:bank", "wallet:a", "9", "2025-02-01T00:00:00Z"))
	same(t, "the other ledger", rows(other.run(t, report.Request{Report: report.TrialBalance})), `item assets:bank||asset|BDT|||9.00||9.00|
item wallet:a||liability|BDT||||9.00||9.00
total Total BDT|||BDT|0.00|0.00|9.00|9.00|9.00|9.00
`)
	if got := bytesOf(t, b.run(t, report.Request{Report: report.GeneralLedger, Through: 20})); got != before {
		same(t, "main", got, before)
	}
	if _, fresh, err := other.Issue(context.Background(), report.StatementSpec{
		Ledger: "other", Account: "wallet:a", Period: period(t, "2025-01", "2025-03", ""), Basis: report.Value,
	}, "me"); err != nil || !fresh {
		t.Fatal(err)
	}
	if list, _, err := b.Statements(t.Context(), main, "", 0, 10); err != nil || len(list) != 0 {
		t.Errorf("main has the statements %v, %v", list, err)
	}
	if _, err := b.Statement(t.Context(), main, 1); err == nil || invalid(t, err) != "statement: 1 is no statement of ledger main" {
		t.Errorf("of another ledger: %v", err)
	}
}
