package report_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// wallets are the smallest books with two customers.
func wallets(t testing.TB, b *books) *oracle {
	t.Helper()
	o := newOracle()
	for _, s := range []ledger.AccountSpec{
		{ID: "bank", Type: ledger.Asset, Currency: "BDT"}, {ID: "wallet:a", Type: ledger.Liability, Currency: "BDT", Name: "রহিম 🧾"},
		{ID: "wallet:b", Type: ledger.Liability, Currency: "BDT"},
	} {
		b.accounts(t, s)
		o.open(s)
	}
	return o
}

func spec(t testing.TB, account ledger.AccountID, basis report.Basis, from, to string) report.StatementSpec {
	t.Helper()
	return report.StatementSpec{Account: account, Basis: basis, Period: period(t, from, to, "Asia/Dhaka")}
}

// issue issues a statement that was not there.
func (b *books) issue(t testing.TB, spec report.StatementSpec) report.Statement {
	t.Helper()
	s, fresh, err := b.Issue(t.Context(), spec, "finance")
	if err != nil || !fresh {
		t.Fatalf("%+v: %t, %v", spec, fresh, err)
	}
	if hash := sha256.Sum256(s.Content); hex.EncodeToString(hash[:]) != s.SHA256 {
		t.Errorf("statement %d has the hash %s", s.Number, s.SHA256)
	}
	return s
}

// lines are the rows of a statement.
func lines(t testing.TB, s report.Statement) string {
	t.Helper()
	told, err := s.Sheet()
	if err != nil {
		t.Fatal(err)
	}
	return rows(told)
}

// Statements by either time form a chain of their own. What is recorded after one, with a time before its end, is a late item of the next, and the
// first one stays as it was.
func TestStatements_Chain(t *testing.T) {
	t.Parallel()
	for _, basis := range []report.Basis{report.Booking, report.Value} {
		t.Run(string(basis), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			o := wallets(t, b)
			put := func(id, debit, credit, amount, when string) {
				h := hand{id: ledger.TransferID(id), debit: ledger.AccountID(debit), credit: ledger.AccountID(credit), amount: amount, at: *at(when)}
				if basis == report.Value { // Booked on a day of its own.
					h.effective, h.at = h.at, *at("2025-06-01T00:00:00Z")
				}
				b.insert(t, o, h)
			}
			seq := func(id string) string { return sequence(o, ledger.TransferID(id)) }
			put("before", "bank", "wallet:a", "5", "2024-12-31T17:59:59.999999Z")
			put("in", "bank", "wallet:a", "100", "2024-12-31T18:00:00Z")
			put("out", "wallet:a", "wallet:b", "30.50", "2025-01-31T17:59:59.999999Z")
			put("next", "wallet:a", "bank", "1", "2025-01-31T18:00:00Z")
			put("other", "bank", "wallet:b", "1", "2025-01-15T18:00:00Z")

			first := b.issue(t, spec(t, "wallet:a", basis, "2025-01", "2025-02"))
			same(t, "the first", lines(t, first), `opening |||||Opening balance|||5.00
item 2025-01-01|`+seq("in")+`|in|transfer|bank|||100.00|105.00
item 2025-01-31|`+seq("out")+`|out|transfer|wallet:b||30.50||74.50
closing |||||Closing balance|30.50|100.00|74.50
`)
			told, err := first.Sheet()
			if err != nil {
				t.Fatal(err)
			}
			if got := facts(told.Head, "account", "name", "type", "currency", "ordinal", "from", "to", "zone", "held", "late", "provisional"); got !=
				"wallet:a; রহিম 🧾; liability; BDT; number 1; 2025-01-01; 2025-02-01; Asia/Dhaka; 0.00; ; " {
				t.Errorf("head: %s", got)
			}
			if first.Number != 1 || first.Ordinal != 1 || first.Ledger != main || first.Account != "wallet:a" || first.Basis != basis ||
				first.IssuedBy != "finance" ||
				first.Period.Zone.String() != "Asia/Dhaka" || !first.Period.From.Equal(*at("2024-12-31T18:00:00Z")) ||
				!first.Period.To.Equal(*at("2025-01-31T18:00:00Z")) {
				t.Errorf("%+v", first)
			}
			unchanged := b.run(t, report.Request{Report: report.ChangesSince, Statement: first.Number})
			if len(unchanged.Rows) != 0 || unchanged.Head.Fact("statement") != "1" || unchanged.Head.Fact("issued_through") != fmt.Sprint(first.Through) {
				t.Errorf("nothing has changed: %v", unchanged)
			}

			// Late: of the period, of the one before it, the last moment; not late: the first moment after it.
			put("late", "wallet:a", "wallet:b", "3", "2025-01-20T00:00:00Z")
			put("very-late", "bank", "wallet:a", "0.25", "2024-06-01T00:00:00Z")
			put("at-the-end", "bank", "wallet:a", "0.50", "2025-01-31T17:59:59.999999Z")
			put("new", "bank", "wallet:a", "9", "2025-02-10T00:00:00Z")
			put("elsewhere", "bank", "wallet:b", "9", "2025-01-10T00:00:00Z")

			again, fresh, err := b.Issue(t.Context(), spec(t, "wallet:a", basis, "2025-01", "2025-02"), "somebody else")
			if err != nil || fresh || !bytes.Equal(again.Content, first.Content) || again.Number != first.Number || again.IssuedBy != "finance" {
				t.Errorf("again: %t, %v, %+v", fresh, err, again)
			}
			changes := report.Request{Report: report.ChangesSince, Statement: first.Number}
			late := []string{
				"late 2024-06-01|" + seq("very-late") + "|very-late|transfer|bank|||0.25|%s\n", "late 2025-01-20|" + seq("late") +
					"|late|transfer|wallet:b||3.00||%s\n",
				"late 2025-01-31|" + seq("at-the-end") + "|at-the-end|transfer|bank|||0.50|%s\n",
			}
			same(t, "changes", withoutPosted(b.run(t, changes)), "late 2024-06-01|"+seq("very-late")+"|very-late|transfer|bank|||0.25|\nlate 2025-01-20|"+
				seq("late")+"|late|transfer|wallet:b||3.00||\nlate 2025-01-31|"+seq("at-the-end")+"|at-the-end|transfer|bank|||0.50|\n")

			second := b.issue(t, spec(t, "wallet:a", basis, "", "2025-03"))
			same(t, "the second", lines(t, second), `opening |||||Opening balance|||74.50
late 2024-06-01|`+seq("very-late")+`|very-late|transfer|bank|||0.25|74.75
late 2025-01-20|`+seq("late")+`|late|transfer|wallet:b||3.00||71.75
late 2025-01-31|`+seq("at-the-end")+`|at-the-end|transfer|bank|||0.50|72.25
item 2025-02-01|`+seq("next")+`|next|transfer|bank||1.00||71.25
item 2025-02-10|`+seq("new")+`|new|transfer|bank|||9.00|80.25
closing |||||Closing balance|4.00|9.75|80.25
`)
			if told, err := second.Sheet(); err != nil || !strings.HasPrefix(told.Head.Fact("late"), "were recorded after the statement before this one") {
				t.Errorf("%v, %v", told.Head.Facts, err)
			}
			var want strings.Builder
			for _, line := range late {
				fmt.Fprintf(&want, line, fmt.Sprint(second.Number))
			}
			same(t, "changes that were told", withoutPosted(b.run(t, changes)), want.String())

			put("later-still", "bank", "wallet:a", "0.01", "2025-01-05T00:00:00Z")
			third := b.issue(t, spec(t, "wallet:a", basis, "2025-03", "2025-03-02"))
			same(t, "the third", lines(t, third), `opening |||||Opening balance|||80.25
late 2025-01-05|`+seq("later-still")+`|later-still|transfer|bank|||0.01|80.26
closing |||||Closing balance|0.00|0.01|80.26
`)
			put("unknown", "bank", "wallet:a", "0.02", "2025-01-06T00:00:00Z")
			got := withoutPosted(b.run(t, changes))
			for id, number := range map[string]string{"late": fmt.Sprint(second.Number), "later-still": fmt.Sprint(third.Number), "unknown": ""} {
				if !strings.Contains(got, "|"+id+"|") || !strings.HasSuffix(strings.Split(got[strings.Index(got, "|"+id+"|"):], "\n")[0], "|"+number) {
					t.Errorf("%s is not told to be in %q:\n%s", id, number, got)
				}
			}
			// As of when the second one was issued, the latest two are not known.
			changes.Through = second.Through
			if got := withoutPosted(b.run(t, changes)); strings.Count(got, "\n") != 3 {
				t.Errorf("through %d:\n%s", second.Through, got)
			}
			changes.Through = first.Through - 1
			if err := b.refused(t, changes); !strings.HasPrefix(invalid(t, err), "through: ") {
				t.Errorf("before the statement: %v", err)
			}
			list, more, err := b.Statements(t.Context(), main, "", 0, 2)
			if err != nil || !more || len(list) != 2 || list[0].Number != third.Number || list[1].Number != second.Number || list[0].Content != nil ||
				list[0].SHA256 != third.SHA256 || !list[0].IssuedAt.Equal(third.IssuedAt) {
				t.Errorf("%+v, %t, %v", list, more, err)
			}
			list, more, err = b.Statements(t.Context(), main, "wallet:a", second.Number, 2)
			if err != nil || more || len(list) != 1 || list[0].Number != first.Number {
				t.Errorf("%+v, %t, %v", list, more, err)
			}
			if list, _, err = b.Statements(t.Context(), main, "wallet:b", 0, 2); err != nil || len(list) != 0 {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

// withoutPosted are the rows of changes without the times at which they were recorded.
func withoutPosted(s *sheet.Sheet) string {
	var out strings.Builder
	for _, row := range s.Rows {
		fmt.Fprintln(&out, row.Kind, strings.Join(append(row.Cells[:8:8], row.Cells[9]), "|"))
	}
	return out.String()
}

// A statement that was issued is found again, however its period is written.
func TestStatements_Again(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wallets(t, b)
	b.post(t, move("1", "bank", "wallet:a", "10", "2025-01-05T00:00:00Z"))
	first := b.issue(t, spec(t, "wallet:a", report.Value, "2025-01", "2025-02"))
	second := b.issue(t, spec(t, "wallet:a", report.Value, "", "2025-03"))
	for name, c := range map[string]struct {
		spec report.StatementSpec
		want report.Statement
	}{
		"the same": {spec(t, "wallet:a", report.Value, "2025-01", "2025-02"), first},
		"days":     {spec(t, "wallet:a", report.Value, "2025-01-01", "2025-02-01"), first},
		"instants": {report.StatementSpec{Account: "wallet:a", Basis: report.Value, Period: period(t, "2024-12-31T18:00:00Z",
			"2025-01-31T18:00:00Z", "UTC")}, first},
		"the end alone":      {spec(t, "wallet:a", report.Value, "", "2025-02"), first},
		"the end of a later": {spec(t, "wallet:a", report.Value, "", "2025-03"), second},
	} {
		got, fresh, err := b.Issue(t.Context(), c.spec, "x")
		if err != nil || fresh || got.Number != c.want.Number || !bytes.Equal(got.Content, c.want.Content) || got.Period.Zone.String() != "Asia/Dhaka" {
			t.Errorf("%s: %+v, %t, %v", name, got, fresh, err)
		}
	}
	// Another basis is another chain, and so is another account.
	for i, s := range []report.StatementSpec{spec(t, "wallet:a", report.Booking, "2025-01", "2025-02"), spec(t, "wallet:b", report.Value, "2025-01",
		"2025-02")} {
		if got := b.issue(t, s); got.Ordinal != 1 || got.Number != int64(3+i) {
			t.Errorf("%+v", got)
		}
	}
}

// What cannot be issued is refused with what to do instead, and leaves nothing behind.
func TestStatements_Refused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wallets(t, b)
	b.post(t, move("1", "bank", "wallet:a", "10", "2025-01-05T00:00:00Z"))
	b.issue(t, spec(t, "wallet:a", report.Value, "2025-01", "2025-02"))
	b.issue(t, spec(t, "wallet:a", report.Value, "2025-02", "2025-03"))
	soon := report.Period{From: *at("2025-03-01T00:00:00Z"), To: time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)}
	for _, c := range []struct {
		spec report.StatementSpec
		want string
	}{
		{spec(t, "wallet:b", report.Value, "", "2025-02"), "from: is required: it is the account's first statement by value"},
		{spec(t, "wallet:a", "", "", "2025-02"), "from: is required: it is the account's first statement by booking"},
		{spec(t, "wallet:a", report.Value, "2025-04", "2025-05"),
			"from: is not 2025-03-01, where the account's last statement by value ended (number 2): " +
				"the next one begins there. Leave it out to begin there"},
		{spec(t, "wallet:a", report.Value, "2025-02-28", "2025-05"),
			"from: is not 2025-03-01, where the account's last statement by value ended (number 2): "},
		{spec(t, "wallet:a", report.Value, "2025-03-01T00:00:00.000001+06:00", "2025-05"), "from: is not 2025-03-01, where"},
		{spec(t, "wallet:a", report.Value, "2025-01-15", "2025-02"), "from: is not 2025-03-01, where"},
		{spec(t, "wallet:a", report.Value, "", "2025-02-28"), "to: is not after 2025-03-01, where the account's last statement by value ended (number 2)"},
		{spec(t, "wallet:a", report.Value, "", "2024-01"), "to: is not after 2025-03-01, where"},
		{report.StatementSpec{Account: "wallet:b", Period: soon}, "to: " + soon.To.Format("2006-01-02T15:04:05.999999Z07:00") +
			" is still to come: a statement is of a period that is over"},
		{spec(t, "wallet:a", report.Value, "2025-03", ""), "to: is required: a statement ends"},
		{spec(t, "wallet:a", "both", "2025-03", "2025-04"), `basis: "both" is not booking or value`},
		{spec(t, "", report.Value, "2025-03", "2025-04"), "account: is required"},
		{spec(t, "nobody", report.Value, "2025-03", "2025-04"), "ACCOUNT_NOT_FOUND account nobody does not exist"},
		{report.StatementSpec{Ledger: "other", Account: "wallet:a", Period: period(t, "2025-03", "2025-04", "")},
			`LEDGER_NOT_FOUND ledger "other" does not exist`},
		{report.StatementSpec{Account: "wallet:a", Period: report.Period{From: soon.To, To: soon.From}}, "to: "},
		{spec(t, "wallet:b", report.Value, "1600-01-01", "2025-01"), "to: is more than 110000 days after from"},
	} {
		s, fresh, err := b.Issue(t.Context(), c.spec, "x")
		got := fmt.Sprint(string(ledger.CodeOf(err)), " ", err)
		if err != nil && ledger.CodeOf(err) == ledger.CodeInvalidArgument {
			got = invalid(t, err)
		}
		if err == nil || fresh || s.Content != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v: %s\nwant %s", c.spec, got, c.want)
		}
	}
	if n := read[int](t, b, "SELECT count(*) FROM statement"); n != 2 {
		t.Errorf("there are %d statements", n)
	}
	if b.Busy() != 0 {
		t.Errorf("%d reports are still being made", b.Busy())
	}
}

func TestStatements_Limit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wallets(t, b)
	for i := range 4 {
		b.post(t, move(ledger.TransferID(fmt.Sprint(i)), "bank", "wallet:a", "1", "2025-01-05T00:00:00Z"))
	}
	b.LimitTo(3)
	_, _, err := b.Issue(t.Context(), spec(t, "wallet:a", report.Value, "2025-01", "2025-02"), "x")
	if err == nil || invalid(t, err) != "to: gives more than 3 lines: ask for a shorter period, or for the general ledger" {
		t.Errorf("four lines: %v", err)
	}
	b.LimitTo(4)
	first := b.issue(t, spec(t, "wallet:a", report.Value, "2025-01", "2025-02"))
	for i := range 4 {
		b.post(t, move(ledger.TransferID(fmt.Sprint("late", i)), "bank", "wallet:a", "1", "2025-01-05T00:00:00Z"))
	}
	if s := b.issue(t, spec(t, "wallet:a", report.Value, "", "2025-03")); strings.Count(lines(t, s), "late ") != 4 {
		t.Errorf("%s", lines(t, s))
	}
	if s := b.run(t, report.Request{Report: report.ChangesSince, Statement: first.Number}); len(s.Rows) != 4 {
		t.Errorf("%d changes", len(s.Rows))
	}
	b.post(t, move("one-more", "bank", "wallet:a", "1", "2025-01-05T00:00:00Z"))
	if err := b.refused(t, report.Request{Report: report.ChangesSince, Statement: first.Number}); !strings.Contains(err.Error(), "more than 4 lines") {
		t.Errorf("five changes: %v", err)
	}
}

// What is on hold is told, and no entry.
func TestStatements_Holds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wallets(t, b)
	b.post(t, move("in", "bank", "wallet:a", "10", "2025-01-05T00:00:00Z"),
		ledger.TransferSpec{ID: "hold", Entries: ledger.Simple("wallet:a", "bank", amount("4"), ""), Terms: &ledger.Terms{Kind: ledger.Hold}})
	part := amount("1.5")
	b.post(t, ledger.TransferSpec{ID: "capture", EffectiveAt: at("2025-01-06T00:00:00Z"), Terms: &ledger.Terms{Kind: ledger.Capture, Origin: "hold",
		Amount: &part, KeepOpen: true}})
	expected := amount("0")
	b.post(t, ledger.TransferSpec{ID: "refund", EffectiveAt: at("2025-01-07T00:00:00Z"), Description: "twice\npaid", Terms: &ledger.Terms{
		Kind: ledger.Refund, Origin: "capture", ExpectedRefunded: &expected, Reason: ledger.ReasonDuplicate,
	}})
	s := b.issue(t, spec(t, "wallet:a", report.Value, "2025-01", "2025-02"))
	told, err := s.Sheet()
	if err != nil || told.Head.Fact("held") != "2.50" {
		t.Errorf("on hold is %s, %v", told.Head.Fact("held"), err)
	}
	var kinds []string
	for _, row := range told.Rows {
		kinds = append(kinds, fmt.Sprintf("%s %s %s %q", row.Cells[3], row.Cells[6], row.Cells[7], row.Cells[5]))
	}
	if got := strings.Join(kinds,
		", "); got != `   "Opening balance", transfer  10.00 "", capture 1.50  "", refund  1.50 "twice\npaid",  1.50 11.50 "Closing balance"` {
		t.Errorf("%s", got)
	}
}

// However many issue at once, on two servers: there is one chain without gaps, and whoever asked for the same has the same bytes.
func TestStatements_AtOnce(t *testing.T) {
	t.Parallel()
	one := setup(t)
	two := serve(t, one.db, pg.Config{DSN: one.db.ServiceDSN()})
	wallets(t, one)
	for month := 1; month <= 6; month++ {
		one.post(t, move(ledger.TransferID(fmt.Sprint(month)), "bank", "wallet:a", "1", fmt.Sprintf("2025-%02d-05T00:00:00Z", month)))
	}
	var mu sync.Mutex
	got := map[string]map[int64]string{}
	fresh := map[int64]int{}
	issue := func(b *books, from, to string) {
		s, new, err := b.Issue(context.Background(), spec(t, "wallet:a", report.Value, from, to), "x")
		mu.Lock()
		defer mu.Unlock()
		switch code := ledger.CodeOf(err); {
		case err == nil:
			if got[to] == nil {
				got[to] = map[int64]string{}
			}
			got[to][s.Number] = string(s.Content)
			if new {
				fresh[s.Number]++
			}
		case code == ledger.CodeConflict: // Others kept issuing.
		case code != ledger.CodeInvalidArgument || !strings.Contains(err.Error(), "where the account's last statement") && !strings.Contains(err.Error(),
			"first statement"):
			t.Errorf("from %s to %s: %v", from, to, err)
		}
	}
	var group sync.WaitGroup
	for i := range 10 { // all the same
		group.Go(func() { issue([]*books{one, two}[i%2], "2025-01", "2025-02") })
	}
	group.Wait()
	if len(got["2025-02"]) != 1 || len(fresh) != 1 {
		t.Errorf("%d statements for one, of which %v were new", len(got["2025-02"]), fresh)
	}
	for i := range 24 { // each after each other, in any order
		group.Go(func() {
			to := fmt.Sprintf("2025-%02d", 3+i%4)
			if i%3 == 0 {
				issue([]*books{one, two}[i%2], fmt.Sprintf("2025-%02d", 2+i%4), to)
			} else {
				issue([]*books{one, two}[i%2], "", to)
			}
		})
	}
	group.Wait()
	for to, statements := range got {
		if len(statements) != 1 {
			t.Errorf("%d statements end with %s", len(statements), to)
		}
	}
	for number, n := range fresh {
		if n != 1 {
			t.Errorf("statement %d was new %d times", number, n)
		}
	}
	list, _, err := one.Statements(t.Context(), main, "wallet:a", 0, 100)
	if err != nil || len(list) != len(fresh) {
		t.Fatalf("%d statements, of which %d were issued, %v", len(list), len(fresh), err)
	}
	for i, s := range list {
		if s.Ordinal != len(list)-i || i > 0 && !s.Period.To.Equal(list[i-1].Period.From) {
			t.Errorf("statement %d has the place %d and ends at %s", s.Number, s.Ordinal, s.Period.To)
		}
	}
}

// What was posted before its end is in a statement, also if it was posted while the statement was being issued.
func TestStatements_EndsMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wallets(t, b)
	conn, err := b.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	exec := func(sql string) {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Error(err)
		}
	}
	exec("BEGIN")
	exec("SELECT pg_advisory_xact_lock_shared(4247, 1)") // Somebody posts: the horizon waits for him.
	to := time.Now().Add(400 * time.Millisecond).UTC().Truncate(time.Microsecond)
	type answer struct {
		s   report.Statement
		err error
	}
	asked := make(chan answer, 1)
	go func() {
		s, _, err := b.Issue(context.Background(), report.StatementSpec{Account: "wallet:a", Period: report.Period{From: to.AddDate(0, -1, 0), To: to}},
			"x")
		asked <- answer{s, err}
	}()
	time.Sleep(150 * time.Millisecond)
	other := b.post(t, move("meanwhile", "bank", "wallet:a", "1", ""))[0].Transfer
	time.Sleep(time.Until(to.Add(50 * time.Millisecond)))
	exec("COMMIT")
	got := <-asked
	switch {
	case got.err != nil:
		if !strings.Contains(got.err.Error(), "is still to come") {
			t.Error(got.err)
		}
	case other.PostedAt.Before(to) && !strings.Contains(lines(t, got.s), "|meanwhile|"):
		t.Errorf("the statement ends at %s, and lacks what was posted at %s:\n%s", to, other.PostedAt, lines(t, got.s))
	}
}

// No hand in psql changes a statement, takes one away, or puts one where none belongs.
func TestStatements_Guards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wallets(t, b)
	b.post(t, move("1", "bank", "wallet:a", "10", "2025-01-05T00:00:00Z"))
	s := b.issue(t, spec(t, "wallet:a", report.Value, "2025-01", "2025-02"))
	insert := func(what ...string) string {
		columns := map[string]string{
			"ordinal": "2", "starts_at": "s.ends_at", "ends_at": "s.ends_at + interval '1 month'",
			"through": "s.through", "opening": "s.closing", "closing": "s.closing",
			"content": "s.content", "sha256": "s.sha256", "issued_at": "clock_timestamp()", "basis": "s.basis", "account_no": "s.account_no",
		}
		for i := 0; i < len(what); i += 2 {
			columns[what[i]] = what[i+1]
		}
		return fmt.Sprintf(`INSERT INTO statement (ledger_id, account_no, basis, ordinal, starts_at, ends_at, zone, through, opening, closing, content,
			sha256, issued_at, issued_by)
			SELECT 1, %s, %s, %s, %s, %s, 'UTC', %s, %s, %s, %s, %s, %s, 'psql' FROM statement s WHERE s.statement_no = 1`,
			columns["account_no"], columns["basis"],
			columns["ordinal"], columns["starts_at"], columns["ends_at"], columns["through"], columns["opening"], columns["closing"], columns["content"],
			columns["sha256"], columns["issued_at"])
	}
	for _, c := range []struct{ name, service, owner, sql string }{
		{"UPDATE", "42501", "42501", "UPDATE statement SET zone = 'UTC'"},
		{"UPDATE of nothing", "42501", "42501", "UPDATE statement SET zone = 'UTC' WHERE false"},
		{"DELETE", "42501", "42501", "DELETE FROM statement"},
		{"TRUNCATE", "42501", "42501", "TRUNCATE statement"},
		{"a first one again", "23505 statement_ordinal_key", "23505 statement_ordinal_key", insert("ordinal", "1")},
		{"a gap", "23505 statement_ordinal_key", "23505 statement_ordinal_key", insert("ordinal", "3")},
		{"a place before the first", "23505 statement_ordinal_key", "23505 statement_ordinal_key", insert("ordinal", "0")},
		{"another beginning", "23514 statement_follows", "23514 statement_follows", insert("starts_at", "s.ends_at + interval '1 microsecond'")},
		{"an overlap", "23514 statement_follows", "23514 statement_follows", insert("starts_at", "s.starts_at")},
		{"another opening balance", "23514 statement_follows", "23514 statement_follows", insert("opening", "s.closing + 0.01")},
		{"one that has seen less", "23514 statement_follows", "23514 statement_follows", insert("through", "s.through - 1")},
		{"no period", "23514 statement_period_check", "23514 statement_period_check", insert("ends_at", "s.ends_at")},
		{"what is not over", "23514 statement_period_check", "23514 statement_period_check", insert("ends_at", "'2999-01-01'")},
		{"other content", "23514 statement_content_check", "23514 statement_content_check", insert("content", "'x'")},
		{"another hash", "23514 statement_content_check", "23514 statement_content_check", insert("sha256", "sha256('x')")},
		{"another basis", "23514 statement_basis_check", "23514 statement_basis_check", insert("basis", "'both'", "ordinal", "1")},
		{"no account", "23503 statement_account_fkey", "23503 statement_account_fkey", insert("account_no", "77", "ordinal", "1")},
	} {
		for dsn, want := range map[string]string{b.db.ServiceDSN(): c.service, b.db.OwnerDSN(): c.owner} {
			err := do(t, dsn, "BEGIN", c.sql)
			got := "accepted"
			var refused *pgconn.PgError
			if errors.As(err, &refused) {
				got = strings.TrimSpace(refused.Code + " " + refused.ConstraintName)
			}
			if got != want {
				t.Errorf("%s: %s, want %s (%v)", c.name, got, want, err)
			}
		}
	}
	if err := do(t, b.db.ServiceDSN(), "BEGIN", insert(), "ROLLBACK"); err != nil {
		t.Errorf("one that follows: %v", err)
	}
	if got, err := b.Statement(t.Context(), main, s.Number); err != nil || !bytes.Equal(got.Content, s.Content) {
		t.Errorf("%v, %v", got, err)
	}
}

// A superuser can do what he likes, but not without being noticed.
func TestStatements_Corrupted(t *testing.T) {
	t.Parallel()
	b := open(t)
	wallets(t, b)
	b.post(t, move("1", "bank", "wallet:a", "10", "2025-01-05T00:00:00Z"))
	s := b.issue(t, spec(t, "wallet:a", report.Value, "2025-01", "2025-02"))
	const change = "UPDATE statement SET content = replace(convert_from(content, 'UTF8'), '10.00', '70.00')::bytea"
	if err := do(t, b.db.SuperDSN(), "ALTER TABLE statement DISABLE TRIGGER USER", change); err == nil || !strings.Contains(err.Error(),
		"statement_content_check") {
		t.Errorf("with the triggers off: %v", err)
	}
	b.tamper(t, "statement", "ALTER TABLE statement DROP CONSTRAINT statement_content_check", change)
	for what, err := range map[string]error{
		"read": func() error { _, err := b.Statement(t.Context(), main, s.Number); return err }(),
		"reissue": func() error {
			_, _, err := b.Issue(t.Context(), spec(t, "wallet:a", report.Value, "2025-01", "2025-02"), "x")
			return err
		}(),
		"changes": b.refused(t, report.Request{Report: report.ChangesSince, Statement: s.Number}),
	} {
		if ledger.CodeOf(err) != ledger.CodeInternal || err.Error() != "the bytes of statement 1 are not those that were issued. Run khata verify" {
			t.Errorf("%s: %v", what, err)
		}
	}
	// With a hash of his own it can be read, but does not lead to the balance; and what is no statement is no more than an error.
	b.tamper(t, "statement", "UPDATE statement SET sha256 = sha256(content)")
	if s := b.doubtful(t, report.Request{Report: report.ChangesSince, Statement: s.Number}); len(sheet.Failed(s.Checks)) != 1 ||
		!strings.Contains(s.Checks[0].Detail, "70 and the changes come to 70, and it is 10") {
		t.Errorf("changes: %v", s.Checks)
	}
	for _, content := range []string{"", "{}", "no JSON", `{"report": "x", "columns": [{"id": "a"}]}`,
		`{"report": "x", "columns": [{"id": "a"}], "rows": [{"row": "item"}]}`} {
		b.tamper(t, "statement", "UPDATE statement SET content = '"+content+"', sha256 = sha256('"+content+"')")
		if err := b.refused(t, report.Request{Report: report.ChangesSince, Statement: s.Number}); ledger.CodeOf(err) != ledger.CodeInternal {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// Books that do not add up have no statements.
func TestStatements_BooksDoNotAddUp(t *testing.T) {
	t.Parallel()
	b := open(t)
	o := wallets(t, b)
	var hands []hand
	for i := range 600 {
		hands = append(hands, hand{id: ledger.TransferID(fmt.Sprint(i)), debit: "bank", credit: "wallet:a", amount: "1",
			at: at("2025-01-05T00:00:00Z").Add(time.Duration(i) * time.Second)})
	}
	b.insert(t, o, hands...)
	if n := b.marks(t); n != 2 {
		t.Fatalf("%d marks", n)
	}
	b.tamper(t, "snapshot", "UPDATE snapshot SET sum = sum + 1")
	_, _, err := b.Issue(t.Context(), spec(t, "wallet:a", report.Booking, "2025-01", "2025-02"), "x")
	if ledger.CodeOf(err) != ledger.CodeInternal || !strings.Contains(fmt.Sprint(err),
		"the statement does not add up: its items lead from 0 to -600, and the balance is -599. Run khata verify") {
		t.Errorf("%v", err)
	}
	if n := read[int](t, b, "SELECT count(*) FROM statement"); n != 0 {
		t.Errorf("%d statements", n)
	}
}

// cutter breaks a connection when a statement is being inserted: before the server hears of it, or when it has answered.
type cutter struct {
	after bool
	armed atomic.Bool
	cuts  atomic.Int64
}

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, by: c}, nil
}

type cutConn struct {
	net.Conn
	by   *cutter
	drop atomic.Bool
}

func (c *cutConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"report": "account-statement"`)) && c.by.armed.CompareAndSwap(true, false) {
		c.by.cuts.Add(1)
		if !c.by.after {
			_ = c.Conn.Close()
			return c.Conn.Write(p)
		}
		c.drop.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.drop.Load() {
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// A statement whose insert fails is there or is not there, and whoever asks again gets it either way: once.
func TestStatements_Faults(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"failed, not applied": false, "failed, but applied": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			wallets(t, b)
			b.post(t, move("1", "bank", "wallet:a", "10", "2025-01-05T00:00:00Z"))
			cut := &cutter{after: after}
			faulty := serve(t, b.db, pg.Config{DSN: b.db.ServiceDSN(), Dial: cut.dial})
			for i, month := range []string{"2025-02", "2025-03", "2025-04"} {
				from := ""
				if i == 0 {
					from = "2025-01"
				}
				cut.armed.Store(true)
				_, fresh, err := faulty.Issue(t.Context(), spec(t, "wallet:a", report.Value, from, month), "x")
				if err == nil || fresh || ledger.CodeOf(err) != ledger.CodeUnavailable {
					t.Fatalf("%s: %t, %v", month, fresh, err)
				}
				stored := i
				if after {
					stored++
				}
				if n := read[int](t, b, "SELECT count(*) FROM statement"); n != stored {
					t.Errorf("%s: %d statements, want %d", month, n, stored)
				}
				s, fresh, err := faulty.Issue(t.Context(), spec(t, "wallet:a", report.Value, from, month), "x")
				if err != nil || fresh == after || s.Ordinal != i+1 || !strings.HasSuffix(lines(t, s), "10.00\n") {
					t.Errorf("%s again: %t, %v, %+v", month, fresh, err, s)
				}
				if n := read[int](t, b, "SELECT count(*) FROM statement"); n != i+1 {
					t.Errorf("%s: %d statements, want %d", month, n, i+1)
				}
			}
			if n := cut.cuts.Load(); n != 3 {
				t.Errorf("%d cuts", n)
			}
		})
	}
}

// Every statement of a database that was taken away meanwhile is an error with a code, and the place of the report is free again.
func TestStatements_DatabaseGone(t *testing.T) {
	t.Parallel()
	b := open(t)
	wallets(t, b)
	b.post(t, move("1", "bank", "wallet:a", "10", "2025-01-05T00:00:00Z"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{
		"issue": func() error {
			_, _, err := b.Issue(ctx, spec(t, "wallet:a", report.Value, "2025-01", "2025-02"), "x")
			return err
		}(),
		"statement":  func() error { _, err := b.Statement(ctx, main, 1); return err }(),
		"statements": func() error { _, _, err := b.Statements(ctx, main, "", 0, 10); return err }(),
		"run":        b.Run(ctx, report.Request{Report: report.TrialBalance}, &sheet.Collector{}),
	} {
		if ledger.CodeOf(err) != ledger.CodeCancelled {
			t.Errorf("%s: %s, %v", what, ledger.CodeOf(err), err)
		}
	}
	if err := do(t, b.db.SuperDSN(), "DROP TABLE statement"); err != nil {
		t.Fatal(err)
	}
	_, _, err := b.Issue(t.Context(), spec(t, "wallet:a", report.Value, "2025-01", "2025-02"), "x")
	if ledger.CodeOf(err) != ledger.CodeInternal {
		t.Errorf("without the table: %v", err)
	}
	if b.Busy() != 0 {
		t.Errorf("%d reports are still being made", b.Busy())
	}
}
