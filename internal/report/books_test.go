package report_test

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/export"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/internal/verify"
	"github.com/khata-ledger/khata/ledger"
)

// clerk writes down what a writer of books is told.
type clerk struct {
	strings.Builder
	head export.BookHead
	// fail is which of its calls fails, from 1.
	fail, calls int
}

var errClerk = errors.New("the clerk is ill")

func (c *clerk) note(format string, args ...any) error {
	if c.calls++; c.calls == c.fail {
		return errClerk
	}
	fmt.Fprintf(c, format+"\n", args...)
	return nil
}

func (c *clerk) Begin(head export.BookHead) error {
	c.head = head
	return c.note("%s by %s in %s from %s to %s", head.Ledger, head.Basis, head.Zone, head.From, head.To)
}

func (c *clerk) Account(a export.BookAccount) error {
	return c.note("account %s %s %s %s %q", a.ID, a.Type, a.Currency.Code, a.Opening, a.Name)
}

func (c *clerk) Transfer(t export.BookTransfer) error {
	var postings []string
	for _, p := range t.Postings {
		text := fmt.Sprintf("%s %s", p.Account, p.Amount)
		if p.Balance != nil {
			text += " = " + p.Balance.String()
		}
		postings = append(postings, text)
	}
	return c.note("%s %s %s: %s", t.Day, t.Transfer.Kind(), t.Transfer.ID, strings.Join(postings, ", "))
}

func (c *clerk) Closing(account ledger.AccountID, balance decimal.Decimal) error {
	return c.note("closing %s %s", account, balance)
}

func (c *clerk) End() error { return c.note("end") }

// auditor is a tool that adds up what it is told, and compares. It finds what hledger and beancount find, in less time.
type auditor struct {
	balances map[ledger.AccountID]decimal.Decimal
	currency map[ledger.AccountID]ledger.CurrencyCode
	sums     map[ledger.CurrencyCode]decimal.Decimal
	faults   []string
}

func (a *auditor) fault(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

func (a *auditor) Begin(export.BookHead) error {
	a.balances, a.currency = map[ledger.AccountID]decimal.Decimal{}, map[ledger.AccountID]ledger.CurrencyCode{}
	a.sums = map[ledger.CurrencyCode]decimal.Decimal{}
	return nil
}

func (a *auditor) Account(of export.BookAccount) error {
	a.balances[of.ID], a.currency[of.ID] = of.Opening, of.Currency.Code
	a.sums[of.Currency.Code] = a.sums[of.Currency.Code].Add(of.Opening)
	return nil
}

func (a *auditor) Transfer(t export.BookTransfer) error {
	for _, p := range t.Postings {
		code, ok := a.currency[p.Account]
		if !ok {
			return fmt.Errorf("there is no account %s", p.Account)
		}
		a.sums[code] = a.sums[code].Add(p.Amount)
		a.balances[p.Account] = a.balances[p.Account].Add(p.Amount)
		if p.Balance != nil && !p.Balance.Equal(a.balances[p.Account]) {
			a.fault("after %s %s has %s, and not %s", t.Transfer.ID, p.Account, a.balances[p.Account], *p.Balance)
		}
	}
	for code, sum := range a.sums {
		if !sum.IsZero() {
			a.fault("%s does not balance in %s: %s", t.Transfer.ID, code, sum)
		}
	}
	return nil
}

func (a *auditor) Closing(account ledger.AccountID, balance decimal.Decimal) error {
	if !balance.Equal(a.balances[account]) {
		a.fault("at the end %s has %s, and not %s", account, a.balances[account], balance)
	}
	return nil
}

func (a *auditor) End() error {
	if len(a.faults) > 0 {
		return errors.New(a.faults[0])
	}
	return nil
}

func (b *books) dictate(t testing.TB, q report.BookRequest) *clerk {
	t.Helper()
	c := &clerk{}
	if err := b.Book(t.Context(), q, c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestBook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := wallets(t, b)
	b.account(t, "idle", ledger.Asset, "BDT")
	b.account(t, "gone", ledger.Asset, "BDT")
	b.insert(t, o,
		hand{"in", "bank", "wallet:a", "100", *at("2025-01-05T00:00:00Z"), time.Time{}},
		hand{"gone-in", "gone", "bank", "5", *at("2025-01-06T00:00:00Z"), time.Time{}},
		hand{"gone-out", "bank", "gone", "5", *at("2025-01-07T00:00:00Z"), time.Time{}},
		hand{"feb", "wallet:a", "wallet:b", "30", *at("2025-02-28T19:00:00Z"), time.Time{}},
		hand{"back", "wallet:a", "wallet:b", "2", *at("2025-03-05T00:00:00Z"), *at("2025-02-01T00:00:00Z")},
		hand{"early", "wallet:a", "wallet:b", "1", *at("2025-02-01T01:00:00Z"), time.Time{}})
	for _, c := range []struct {
		name string
		q    report.BookRequest
		want string
	}{
		{"a month by booking time", report.BookRequest{Period: period(t, "2025-02", "2025-03", "UTC"), Running: true},
			`main by booking in UTC from 2025-02-01 to 2025-03-01
account bank asset BDT 100 ""
account wallet:a liability BDT -100 "রহিম 🧾"
account wallet:b liability BDT 0 ""
2025-02-01 transfer early: wallet:a 1 = -99, wallet:b -1 = -1
2025-02-28 transfer feb: wallet:a 30 = -69, wallet:b -30 = -31
closing bank 100
closing wallet:a -69
closing wallet:b -31
end
`},
		{"the same in a zone where it is March", report.BookRequest{Period: period(t, "2025-02", "2025-03", "Asia/Dhaka")},
			`main by booking in Asia/Dhaka from 2025-02-01 to 2025-03-01
account bank asset BDT 100 ""
account wallet:a liability BDT -100 "রহিম 🧾"
account wallet:b liability BDT 0 ""
2025-02-01 transfer early: wallet:a 1, wallet:b -1
closing bank 100
closing wallet:a -99
closing wallet:b -1
end
`},
		{"by value date", report.BookRequest{Period: period(t, "2025-02", "2025-03", "UTC"), Basis: report.Value, Running: true},
			`main by value in UTC from 2025-02-01 to 2025-03-01
account bank asset BDT 100 ""
account wallet:a liability BDT -100 "রহিম 🧾"
account wallet:b liability BDT 0 ""
2025-02-01 transfer back: wallet:a 2 = -98, wallet:b -2 = -2
2025-02-01 transfer early: wallet:a 1 = -97, wallet:b -1 = -3
2025-02-28 transfer feb: wallet:a 30 = -67, wallet:b -30 = -33
closing bank 100
closing wallet:a -67
closing wallet:b -33
end
`},
		{"all", report.BookRequest{}, `main by booking in UTC from 2025-01-05 to 2025-03-06
account bank asset BDT 0 ""
account gone asset BDT 0 ""
account wallet:a liability BDT 0 "রহিম 🧾"
account wallet:b liability BDT 0 ""
2025-01-05 transfer in: bank 100, wallet:a -100
2025-01-06 transfer gone-in: gone 5, bank -5
2025-01-07 transfer gone-out: bank 5, gone -5
2025-02-01 transfer early: wallet:a 1, wallet:b -1
2025-02-28 transfer feb: wallet:a 30, wallet:b -30
2025-03-05 transfer back: wallet:a 2, wallet:b -2
closing bank 100
closing gone 0
closing wallet:a -67
closing wallet:b -33
end
`},
		{"a part of a day", report.BookRequest{Period: period(t, "2025-02-28T18:59:59Z", "2025-02-28T19:00:00.000001Z", "Asia/Dhaka")},
			`main by booking in Asia/Dhaka from 2025-03-01 to 2025-03-02
account bank asset BDT 100 ""
account wallet:a liability BDT -99 "রহিম 🧾"
account wallet:b liability BDT -1 ""
2025-03-01 transfer feb: wallet:a 30, wallet:b -30
closing bank 100
closing wallet:a -69
closing wallet:b -31
end
`},
		{"before everything", report.BookRequest{Period: period(t, "", "2025-01-01", "")}, "main by booking in UTC from 2024-12-31 to 2025-01-01\nend\n"},
		{"after everything", report.BookRequest{Period: period(t, "2025-06-01", "", "")}, `main by booking in UTC from 2025-06-01 to 2025-06-02
account bank asset BDT 100 ""
account wallet:a liability BDT -67 "রহিম 🧾"
account wallet:b liability BDT -33 ""
closing bank 100
closing wallet:a -67
closing wallet:b -33
end
`},
	} {
		got := b.dictate(t, c.q)
		same(t, c.name, got.String(), c.want)
		if currencies := fmt.Sprint(got.head.Currencies); got.head.Through == 0 || currencies != "[{BDT 2}]" && strings.Contains(c.want, "account ") {
			t.Errorf("%s: through %d in %s", c.name, got.head.Through, currencies)
		}
		// Whatever the writer says ends it.
		for call := 1; call <= got.calls; call++ {
			ill := &clerk{fail: call}
			if err := b.Book(t.Context(), c.q, ill); !errors.Is(err, errClerk) || ill.calls != call {
				t.Errorf("%s: call %d of %d failed: %v after %d", c.name, call, got.calls, err, ill.calls)
			}
		}
	}
	for _, c := range []struct {
		q    report.BookRequest
		want string
	}{
		{report.BookRequest{Basis: "both"}, `basis: "both" is not booking or value`},
		{report.BookRequest{Period: report.Period{From: *at("2025-01-01T00:00:00Z"), To: *at("2025-01-01T00:00:00Z")}}, "to: 2025-01-01 is not after from"},
		{report.BookRequest{Through: -1}, "through: is negative"},
		{report.BookRequest{Through: 1 << 40}, "through: 1099511627776 is still to come"},
		{report.BookRequest{Period: period(t, "1600-01-01", "2025-01-01", "")}, "to: is more than 110000 days after from"},
	} {
		ill := &clerk{}
		if err := b.Book(t.Context(), c.q, ill); err == nil || !strings.HasPrefix(invalid(t, err), c.want) || ill.calls > 0 {
			t.Errorf("%+v: %v", c.q, err)
		}
	}
	if err := b.Book(t.Context(), report.BookRequest{Ledger: "other"}, &clerk{}); ledger.CodeOf(err) != ledger.CodeLedgerNotFound {
		t.Errorf("another ledger: %v", err)
	}
	if _, err := b.CreateLedger(t.Context(), "local", "empty"); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	today, tomorrow := now.Format(time.DateOnly), now.AddDate(0, 0, 1).Format(time.DateOnly)
	same(t, "an empty ledger", b.dictate(t, report.BookRequest{Ledger: "empty"}).String(), fmt.Sprintf("empty by booking in UTC from %s to %s\nend\n",
		today, tomorrow))
	if b.Busy() != 0 {
		t.Errorf("%d reports are still being made", b.Busy())
	}
}

// An entry that was changed, taken away or put there, a transfer that says something else, a balance that is another: the tools refuse the books,
// also
// where a snapshot hides it from the balances and all is of one day.
func TestBook_Tampered(t *testing.T) {
	t.Parallel()
	needTools(t)
	b := open(t)
	o := wallets(t, b)
	b.account(t, "bank:main", ledger.Asset, "BDT") // so that "bank" has a child
	var hands []hand
	for i := range 600 {
		h := hand{id: ledger.TransferID(fmt.Sprint(i)), debit: "bank", credit: "wallet:a", amount: "10",
			at: at("2025-01-05T06:00:00Z").Add(time.Duration(i) * time.Second)}
		if i%2 == 1 {
			h.credit, h.effective = "wallet:b", h.at.Add(-time.Hour)
		}
		if i%100 == 0 {
			h.debit = "bank:main"
		}
		hands = append(hands, h)
	}
	b.insert(t, o, hands...)
	if n := b.marks(t); n != 2 {
		t.Fatalf("%d marks", n)
	}
	const (
		first  = "(SELECT min(sequence) FROM transfer WHERE transfer_id = '%d')"
		leg    = "sequence = " + first + " AND leg = 1"
		number = "(SELECT account_no FROM account WHERE account_id = '%s')"
		wher   = "account_no = (SELECT account_no FROM account WHERE account_id = 'wallet:b')"
	)
	for i, c := range []struct {
		name, table, change, back string
		check                     string // what verify says
		trial, tools              bool
	}{
		{"an entry before the snapshots", "entry", "UPDATE entry SET amount = 10.01 WHERE " + fmt.Sprintf(leg, 2),
			"UPDATE entry SET amount = 10 WHERE " + fmt.Sprintf(leg, 2),
			"entries-match", true, true},
		{"an entry after the snapshots", "entry", "UPDATE entry SET amount = 10.01 WHERE " + fmt.Sprintf(leg, 599),
			"UPDATE entry SET amount = 10 WHERE " + fmt.Sprintf(leg, 599),
			"entries-match", true, true},
		{"both entries of a transfer", "entry", "UPDATE entry SET amount = amount * 2 WHERE sequence = " + fmt.Sprintf(first, 2),
			"UPDATE entry SET amount = amount / 2 WHERE sequence = " + fmt.Sprintf(first, 2), "entries-match", true, true},
		{"both entries of a transfer after the snapshots", "entry", "UPDATE entry SET amount = amount * 2 WHERE sequence = " + fmt.Sprintf(first, 598),
			"UPDATE entry SET amount = amount / 2 WHERE sequence = " + fmt.Sprintf(first, 598), "entries-match", false, true},
		{"an entry taken away", "entry", "DELETE FROM entry WHERE " + fmt.Sprintf(leg, 2),
			"INSERT INTO entry SELECT ledger_id, account_nos[1], sequence, 1, 10 FROM transfer WHERE transfer_id = '2'", "entries-match", true, true},
		{"all entries of an account taken away", "entry", "DELETE FROM entry WHERE " + wher,
			"INSERT INTO entry SELECT ledger_id, account_nos[2], sequence, 2, -10 FROM transfer WHERE account_nos[2] = " + fmt.Sprintf(number, "wallet:b"),
			"entries-match", true, true},
		{"an entry too many", "entry", "INSERT INTO entry SELECT ledger_id, account_nos[1], sequence, 3, 10 FROM transfer WHERE transfer_id = '599'",
			"DELETE FROM entry WHERE leg = 3",
			"entries-match", true, true},
		{"a transfer's amount", "transfer", "UPDATE transfer SET amounts[1] = 10.01 WHERE transfer_id = '2'",
			"UPDATE transfer SET amounts[1] = 10 WHERE transfer_id = '2'",
			"transfers-balance", false, true},
		{"a transfer's amounts", "transfer", "UPDATE transfer SET amounts = '{20, -20}' WHERE transfer_id = '2'",
			"UPDATE transfer SET amounts = '{10, -10}' WHERE transfer_id = '2'", "entries-match", false, true},
		{"a transfer's accounts", "transfer",
			"UPDATE transfer SET account_nos[2] = (SELECT account_no FROM account WHERE account_id = 'wallet:b') WHERE transfer_id = '2'",
			"UPDATE transfer SET account_nos[2] = " + fmt.Sprintf(number, "wallet:a") + " WHERE transfer_id = '2'", "entries-match", false, true},
		{"the last snapshot", "snapshot", "UPDATE snapshot s SET sum = sum + 1 WHERE through = (SELECT max(through) FROM snapshot) AND sum < 0",
			"UPDATE snapshot s SET sum = sum - 1 WHERE through = (SELECT max(through) FROM snapshot) AND sum < 0", "snapshots", true, true},
		{"a value-dated entry", "value_dated_entry", "UPDATE value_dated_entry SET amount = 11 WHERE " + fmt.Sprintf(leg, 3),
			"UPDATE value_dated_entry SET amount = 10 WHERE " + fmt.Sprintf(leg, 3), "value-dates", false, false},
	} {
		b.tamper(t, c.table, c.change)
		verified, err := verify.Run(t.Context(), b.db.ServiceDSN(), verify.Options{})
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, check := range verified.Checks {
			if check.Breached > 0 {
				found += " " + check.Name
			}
		}
		if !strings.Contains(found+" ", " "+c.check+" ") || strings.Contains(found, "guards") {
			t.Errorf("%s: verify finds%s", c.name, found)
		}
		failed := sheet.Failed(b.doubtful(t, report.Request{Report: report.TrialBalance}).Checks)
		if (len(failed) > 0) != c.trial {
			t.Errorf("%s: the trial balance says %v", c.name, failed)
		}
		for _, running := range []bool{true, false} {
			if err := b.Book(t.Context(), report.BookRequest{Running: running}, &auditor{}); (err != nil) != c.tools {
				t.Errorf("%s: the auditor says %v (balances after each posting: %t)", c.name, err, running)
			}
		}
		if i%4 == 0 {
			for _, tool := range tools {
				if err := b.refuses(t, tool, report.BookRequest{Running: i == 0}); (err != nil) != c.tools {
					t.Errorf("%s: %s says %v", c.name, tool.name, err)
				}
			}
		}
		b.tamper(t, c.table, c.back)
	}
	if verified, err := verify.Run(t.Context(), b.db.ServiceDSN(), verify.Options{}); err != nil || !verified.OK() {
		t.Fatalf("not all was put back: %v, %v", verified, err)
	}
	// A value date that was changed is seen where it counts.
	b.tamper(t, "value_dated_entry", "UPDATE value_dated_entry SET amount = 11 WHERE "+fmt.Sprintf(leg, 3))
	q := report.Request{Report: report.TrialBalance, Basis: report.Value, Period: period(t, "", "2025-01-05T06:00:00Z", "")}
	if failed := sheet.Failed(b.doubtful(t, q).Checks); len(failed) == 0 {
		t.Error("a value-dated entry: the trial balance says nothing")
	}
	if err := b.Book(t.Context(), report.BookRequest{Basis: report.Value, Period: q.Period}, &auditor{}); err == nil {
		t.Error("a value-dated entry: the auditor takes the books")
	}
}

// The journal's entries come some numbers at a time, each once, and from where the last call ended.
func TestEntries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wallets(t, b)
	zero := amount("0")
	b.accounts(t, ledger.AccountSpec{ID: "floored", Type: ledger.Liability, Currency: "BDT", Floor: &zero})
	for i := range 25 {
		n := ledger.TransferID(fmt.Sprint(i))
		b.try(t, move("in"+n, "bank", "wallet:a", "1", "2025-01-05T00:00:00Z"), move("no"+n, "floored", "bank", "1", ""),
			ledger.TransferSpec{ID: "hold" + n, Entries: ledger.Simple("bank", "wallet:b", amount("4"), ""), Terms: &ledger.Terms{Kind: ledger.Hold}},
			ledger.TransferSpec{ID: "capture" + n, Terms: &ledger.Terms{Kind: ledger.Capture, Origin: "hold" + n}})
	}
	horizon, err := b.Horizon(t.Context(), main)
	if err != nil {
		t.Fatal(err)
	}
	entries := func(after, through int64) (ids []string, sequences []int64, last int64) {
		last, err := b.Reports.Entries(t.Context(), main, after, through, func(x *ledger.Transfer, typeOf func(ledger.AccountID) ledger.AccountType) error {
			ids, sequences = append(ids, string(x.ID)), append(sequences, x.Sequence)
			if typeOf(x.Entries[0].Account) == "" {
				t.Errorf("%s has no type", x.Entries[0].Account)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return ids, sequences, last
	}
	want, sequences, last := entries(0, 0)
	if len(want) != 50 || want[0] != "in0" || want[1] != "capture0" || want[49] != "capture24" || last != horizon {
		t.Fatalf("%d entries through %d of %d: %q", len(want), last, horizon, want)
	}
	b.LimitTo(7)
	if got, _, last := entries(0, 0); fmt.Sprint(got) != fmt.Sprint(want) || last != horizon {
		t.Errorf("seven numbers at a time: %q", got)
	}
	for _, through := range []int64{sequences[0], sequences[0] + 7, sequences[20], sequences[49], horizon} {
		first, _, last := entries(0, through)
		rest, _, end := entries(last, 0)
		if fmt.Sprint(append(first, rest...)) != fmt.Sprint(want) || last != through || end != horizon {
			t.Errorf("through %d: %q, and %q", through, first, rest)
		}
	}
	if got, _, last := entries(horizon, 0); len(got) != 0 || last != horizon {
		t.Errorf("after all: %q through %d", got, last)
	}
	stop := errors.New("enough")
	if _, err := b.Reports.Entries(t.Context(), main, 0, 0, func(*ledger.Transfer,
		func(ledger.AccountID) ledger.AccountType) error {
		return stop
	}); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	for _, c := range []struct{ after, through int64 }{{-1, 0}, {0, -1}, {0, 1 << 40}, {1 << 40, 0}, {horizon, 5}} {
		if _, err := b.Reports.Entries(t.Context(), main, c.after, c.through, nil); ledger.CodeOf(err) != ledger.CodeInvalidArgument {
			t.Errorf("after %d through %d: %v", c.after, c.through, err)
		}
	}
}

// One transfer with a value date long ago does not make a report impossible, nor its days a million.
func TestDays_LongAgo(t *testing.T) {
	b := setup(t)
	b.account(t, "bank", ledger.Asset, "BDT")
	b.account(t, "wallet", ledger.Liability, "BDT")
	b.post(t, move("first", "bank", "wallet", "1", "0001-02-01T00:00:00Z"), move("last", "bank", "wallet", "2", "9998-12-31T23:59:59.999999Z"),
		move("now", "bank", "wallet", "4", ""))
	for _, zone := range []string{"UTC", "Asia/Dhaka", "America/New_York"} {
		for _, q := range []report.Request{
			{Period: period(t, "", "", zone)}, {Period: period(t, "", "2999-01-01", zone)}, {Period: period(t, "1900-01-01", "", zone), Account: "bank"},
		} {
			q.Report, q.Basis = report.GeneralLedger, report.Value
			items := 0
			for _, row := range b.run(t, q).Rows {
				if row.Kind == sheet.Item {
					items++
				}
			}
			if want := map[bool]int{true: 2, false: 6}[q.Account != ""] - map[bool]int{true: 2}[!q.Period.To.IsZero()]; items != want {
				t.Errorf("%+v: %d items, want %d", q, items, want)
			}
		}
		got := b.dictate(t, report.BookRequest{Basis: report.Value, Period: period(t, "", "", zone)}).String()
		if from := map[string]string{"America/New_York": "0001-01-31"}[zone]; !strings.Contains(got, "from "+cmp.Or(from, "0001-02-01")) {
			t.Errorf("%s: %s", zone, got)
		}
	}
}

// A statement that nothing could follow, or that nobody could read, is refused whoever writes it.
func TestStatements_GuardedAgainstNonsense(t *testing.T) {
	b := setup(t)
	b.account(t, "wallet", ledger.Liability, "BDT")
	insert := func(starts, ends, issued, through, closing string, said bool) error {
		_, err := b.pool.Exec(t.Context(),
			`INSERT INTO statement (ledger_id, account_no, basis, ordinal, starts_at, ends_at, zone, through, opening, closing,
			content, sha256, issued_at, issued_by) SELECT 1, account_no, 'value', 1, $1::text::timestamptz, $2::text::timestamptz, 'UTC', $4::text::bigint, 0,
			$5::text::numeric, c, sha256(c), coalesce(nullif($3::text, '')::timestamptz, clock_timestamp()), 'psql'
			FROM account, convert_to(CASE WHEN $6 THEN E'"balance": "0"}],\n"checks": [' ELSE 'x' END, 'UTF8') c`, starts, ends, issued, through, closing, said)
		return err
	}
	for _, c := range [][5]string{
		{"2025-01-01", "2998-01-01", "2999-01-01", "1", "0"}, {"-infinity", "2025-01-01", "", "1", "0"}, {"2025-01-01", "infinity", "infinity", "1", "0"},
		{"2025-01-01", "2025-02-01", "", "9000000000000000000", "0"}, {"2025-01-01", "2025-02-01", "", "-1", "0"}, {"2025-01-01", "2025-02-01", "", "1",
			"NaN"},
		{"2025-01-01", "2025-02-01", "2999-01-01", "1", "0"},
	} {
		if err := insert(c[0], c[1], c[2], c[3], c[4], true); err == nil {
			t.Errorf("%q was taken", c)
		}
	}
	if err := insert("2025-01-01", "2025-02-01", "", "1", "0", false); err == nil {
		t.Error("bytes that are none of a statement were taken")
	}
	if err := insert("2025-01-01", "2025-02-01", "", "1", "0", true); err != nil {
		t.Errorf("what is wrong with none of it: %v", err)
	}
}
