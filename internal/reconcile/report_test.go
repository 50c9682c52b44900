package reconcile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// statement makes a statement, whose checks must hold.
func (d *desk) statement(t testing.TB, spec StatementSpec) *sheet.Sheet {
	t.Helper()
	spec.BankAccount = d.account.Name
	var c sheet.Collector
	if err := d.Statement(t.Context(), spec, &c); err != nil {
		t.Fatal(err)
	}
	for _, bad := range sheet.Failed(c.Checks) {
		t.Errorf("%s: %s", bad.Name, bad.Detail)
	}
	if len(c.Checks) == 0 {
		t.Error("nothing was checked")
	}
	return &c.Sheet
}

// cells gives some columns of the rows, without empty ones.
func cells(s *sheet.Sheet, columns ...string) []string {
	var out []string
	for _, row := range s.Rows {
		var parts []string
		for i, c := range s.Head.Columns {
			for _, want := range columns {
				if c.ID == want && row.Cells[i] != "" {
					parts = append(parts, row.Cells[i])
				}
			}
		}
		out = append(out, strings.Join(parts, " | "))
	}
	return out
}

func TestStatement(t *testing.T) {
	t.Parallel()
	d := bank(t, func(s *BankAccountSpec) { s.Settings.Tolerance = dec("0.05") })
	d.post(t, "R1 2026-01-02 50", "R2 2026-01-02 20.04", "young 2026-01-09 7", "old 2025-11-01 -3", "later 2026-01-10 11", "after 2026-01-11 1000")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-10 68.00", "2026-01-03 50.00 R1", "2026-01-05 20.00 R2", "2026-01-06 -2.00 FEE",
		"2026-01-06 -4.00 OTHER", "2026-01-07 4.00 BACK"))
	d.importText(t, mt940(2, "2026-01-10 68.00", "2026-01-12 79.00", "2026-01-12 11.00 later"))
	d.match(t)
	must[*Decision](t)(d.Ignore(t.Context(), IgnoreSpec{BankAccount: "bank", Line: &LineTake{Line: d.lineNo(t, "OTHER")}, Reason: "theirs"}, clerk))
	s := d.statement(t, StatementSpec{Day: day("2026-01-10"), Items: true})
	want := []string{
		"Balance in the books | 85.04",
		"In the books, not at the bank | 1 | young | -7.00",
		"In the books, not at the bank | 70 | old | 3.00",
		"In the books, not at the bank | up to 1 | 1 | -7.00",
		"In the books, not at the bank | 31 to 90 | 1 | 3.00",
		"At the bank, not in the books | 4 | FEE | -2.00",
		"At the bank, not in the books | 3 | BACK | 4.00",
		"At the bank, not in the books | 2 to 7 | 2 | 2.00",
		"Ignored | 4 | match | -4.00", "Matched with what came after the day | 0 | match | -11.00",
		"Differences of matches, not posted | 8 | match | -0.04",
		"Matched with what came after the day | up to 1 | 1 | -11.00", "Ignored | 2 to 7 | 1 | -4.00",
		"Differences of matches, not posted | 8 to 30 | 1 | -0.04",
		"What that comes to | 68.00", "Balance at the bank | 68.00", "Unexplained | 0.00",
	}
	got := cells(s, "item", "age", "count", "reference", "amount")
	for i := range got {
		if before, _, found := strings.Cut(got[i], " | match "); found {
			got[i] = before + " | match" + got[i][strings.LastIndex(got[i], " | "):]
		}
	}
	// The sections come in an order; what is in them is what matters here.
	slices.Sort(want)
	slices.Sort(got)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The same again, as of the same numbers, whatever has happened since.
	spec := StatementSpec{Day: day("2026-01-10")}
	var first, again bytes.Buffer
	before := d.statement(t, spec)
	if err := before.WriteTo(sheet.NewJSON(&first)); err != nil {
		t.Fatal(err)
	}
	asOf, through := number(t, before.Head.Fact("as_of")), number(t, before.Head.Fact("through"))
	d.post(t, "back-dated 2026-01-08 5")
	must[*Decision](t)(d.Ignore(t.Context(), IgnoreSpec{BankAccount: "bank", Line: &LineTake{Line: d.lineNo(t, "FEE")}, Reason: "theirs"}, clerk))
	d.match(t)
	d.statement(t, spec)
	spec.AsOf, spec.Through = asOf, through
	if err := d.statement(t, spec).WriteTo(sheet.NewJSON(&again)); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(first.String(), again.String()); diff != "" {
		t.Errorf("as of the same numbers (-first +again):\n%s", diff)
	}
	for _, on := range []string{"2025-10-01", "2026-01-01", "2026-01-04", "2026-01-12", "2026-03-01"} {
		d.statement(t, StatementSpec{Day: day(on)})
	}
	d.statement(t, StatementSpec{})
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	d := dec(text)
	return d.IntPart()
}

func TestStatement_Refuses(t *testing.T) {
	t.Parallel()
	d := bank(t)
	err := d.Statement(t.Context(), StatementSpec{BankAccount: "bank"}, &sheet.Collector{})
	mustCode(t, err, ledger.CodeInvalidArgument) // No file, and no day.
	d.statementNoChecks(t, StatementSpec{Day: day("2026-01-01")})
	for _, spec := range []StatementSpec{
		{Day: bankfile.Date{Year: 2026, Month: 2, Day: 30}}, {Day: day("2026-01-01"), AsOf: -1}, {Day: day("2026-01-01"), AsOf: 1 << 40},
		{Day: day("2026-01-01"), Through: 1 << 40},
	} {
		spec.BankAccount = "bank"
		mustCode(t, d.Statement(t.Context(), spec, &sheet.Collector{}), ledger.CodeInvalidArgument)
	}
	mustCode(t, d.Statement(t.Context(), StatementSpec{Day: day("2026-01-01"), BankAccount: "nowhere"}, &sheet.Collector{}), ledger.CodeNotFound)
}

func (d *desk) statementNoChecks(t testing.TB, spec StatementSpec) {
	t.Helper()
	spec.BankAccount = d.account.Name
	if err := d.Statement(t.Context(), spec, &sheet.Collector{}); err != nil {
		t.Error(err)
	}
}

// TestStatement_FindsTampering takes a line away behind everybody's back.
func TestStatement_FindsTampering(t *testing.T) {
	t.Parallel()
	d := setup(t) // The books are not verified at the end: they are not in order.
	d.open(t, "EUR")
	d.post(t, "R1 2026-01-02 50")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-10 60.00", "2026-01-03 50.00 R1", "2026-01-03 10.00 R2"))
	d.match(t)
	if err := d.exec(t, `ALTER TABLE bank_line DISABLE TRIGGER bank_line_refuse_change; DELETE FROM bank_line WHERE amount = 50`); err != nil {
		t.Fatal(err)
	}
	var c sheet.Collector
	if err := d.Statement(t.Context(), StatementSpec{BankAccount: "bank"}, &c); err != nil {
		t.Fatal(err)
	}
	if len(sheet.Failed(c.Checks)) == 0 {
		t.Errorf("%+v", c.Checks)
	}
}

func TestItems(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.post(t, "R1 2026-01-02 50", "R12 2026-01-02 50", "t5 2026-01-07 -9.99 reference=FEE-5")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-10 60.00", "2026-01-03 50.00 R1", "2026-01-07 -10.00 FEE-5", "2026-01-08 20.00 X"))
	d.match(t)
	must[*Decision](t)(d.Ignore(t.Context(), IgnoreSpec{BankAccount: "bank", Line: &LineTake{Line: d.lineNo(t, "X")}, Reason: "theirs"}, clerk))
	list := func(spec ItemsSpec) []string {
		t.Helper()
		spec.BankAccount = "bank"
		var c sheet.Collector
		if err := d.Items(t.Context(), spec, &c); err != nil {
			t.Fatal(err)
		}
		for _, bad := range sheet.Failed(c.Checks) {
			t.Errorf("%s: %s", bad.Name, bad.Detail)
		}
		return cells(&c.Sheet, "side", "date", "reference", "amount", "open", "outcome", "state", "rule", "by", "note")
	}
	want := []string{
		"bank | 2026-01-03 | R1 | 50.00 | 0.00 | matched | confirmed by a run | reference | clerk",
		"bank | 2026-01-07 | FEE-5 | -10.00 | -10.00 | amount_mismatch | suggested | reference",
		"bank | 2026-01-08 | X | 20.00 | 20.00 | missing_in_ledger | open",
		"ledger | 2026-01-02 | R1 | 50.00 | 0.00 | matched | confirmed by a run | reference | clerk",
		"ledger | 2026-01-02 | R12 | 50.00 | 50.00 | missing_at_bank | open",
		"ledger | 2026-01-07 | t5 | -9.99 | -9.99 | amount_mismatch | suggested | reference",
	}
	first := d.run1(t)
	if diff := gocmp.Diff(want, list(ItemsSpec{Run: first})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d.match(t)
	want[2] = "bank | 2026-01-08 | X | 20.00 | 0.00 | ignored | ignored | manual | clerk"
	if diff := gocmp.Diff(want, list(ItemsSpec{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]string{want[1], want[4], want[5]}, list(ItemsSpec{Open: true})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]string{want[5]}, list(ItemsSpec{Side: LedgerSide, Outcomes: []Outcome{AmountMismatch}})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]string{want[1], want[5]}, list(ItemsSpec{From: day("2026-01-04"), To: day("2026-01-07")})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	mustCode(t, d.Items(t.Context(), ItemsSpec{BankAccount: "bank", Side: "x"}, &sheet.Collector{}), ledger.CodeInvalidArgument)
	mustCode(t, d.Items(t.Context(), ItemsSpec{BankAccount: "bank", Outcomes: []Outcome{"x"}}, &sheet.Collector{}), ledger.CodeInvalidArgument)

	// What has changed from the first run to the second.
	var c sheet.Collector
	if err := d.Changes(t.Context(), main, "bank", first, 0, &c); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]string{"bank | 2026-01-08 | missing_in_ledger | 20.00 | settled"}, cells(&c.Sheet, "side", "date", "before",
		"open_before", "after")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	mustCode(t, d.Changes(t.Context(), main, "bank", 0, first, &c), ledger.CodeInvalidArgument)
}

// run1 is the number of the first run.
func (d *desk) run1(t testing.TB) int64 {
	t.Helper()
	runs, _, err := d.Runs(t.Context(), main, d.account.Name, 0, 100)
	if err != nil || len(runs) == 0 {
		t.Fatal(runs, err)
	}
	return runs[len(runs)-1].No
}

// berkaProfile is the one of the documentation.
func berkaProfile(t *testing.T) bankfile.Profile {
	text, err := os.ReadFile("../../docs/examples/berka-profile.json")
	if err != nil {
		t.Fatal(err)
	}
	return *must[*bankfile.Profile](t)(bankfile.ParseProfile(text))
}

// TestDrift_Berka compares a bank's own balances with the books: 254 of 354 accounts differ, by 0.60 at most, since the bank rounded its interest.
func TestDrift_Berka(t *testing.T) {
	t.Parallel()
	text, err := io.ReadAll(sample(t, "berka/trans.csv"))
	if err != nil {
		t.Fatal(err)
	}
	d := setup(t)
	d.accounts(t, "cash", ledger.Asset, "CZK")
	r := csv.NewReader(bytes.NewReader(text))
	r.Comma = ';'
	records, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var specs []ledger.TransferSpec
	seen := map[string]bool{}
	var accounts []ledger.AccountSpec
	for _, record := range records[1:] {
		if !seen[record[1]] {
			seen[record[1]] = true
			accounts = append(accounts, ledger.AccountSpec{ID: ledger.AccountID("customer:" + record[1]), Type: ledger.Liability, Currency: "CZK"})
		}
		at, err := time.Parse("060102", record[2])
		if err != nil {
			t.Fatal(err)
		}
		debit, credit := ledger.AccountID("cash"), ledger.AccountID("customer:"+record[1])
		if record[3] != "credit" {
			debit, credit = credit, debit
		}
		specs = append(specs, ledger.TransferSpec{ID: ledger.TransferID("berka-" + record[0]), Entries: ledger.Simple(debit, credit, dec(record[5]),
			""), EffectiveAt: &at})
	}
	if _, err := d.journal.CreateAccounts(t.Context(), clerk, main, accounts); err != nil {
		t.Fatal(err)
	}
	for begin := 0; begin < len(specs); begin += 5000 {
		results, err := d.journal.Post(t.Context(), clerk, main, specs[begin:min(begin+5000, len(specs))])
		if err != nil || results[0].Err != nil {
			t.Fatal(err, results[0].Err)
		}
	}
	var c sheet.Collector
	spec := DriftSpec{Profile: berkaProfile(t), Account: "customer:{account}", Basis: "value"}
	begun := time.Now()
	sum, err := d.Drift(t.Context(), spec, bytes.NewReader(text), &c)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d accounts in %s", sum.Accounts, time.Since(begun))
	if sum.Accounts != 354 || sum.Differ != 254 || sum.Missing != 0 || !equal(sum.Largest, "0.60") {
		t.Errorf("%+v", sum)
	}
	if len(c.Rows) != 255 || len(sheet.Failed(c.Checks)) != 1 || !strings.Contains(c.Checks[1].Detail, "254 of 354 accounts differ, by at most 0.6") {
		t.Errorf("%d rows, %+v", len(c.Rows), c.Checks)
	}
	for _, row := range c.Rows[:254] {
		if row.Cells[6] != row.Cells[8] {
			t.Errorf("%v: the books have %s, and the rows of the file come to %s", row.Cells[0], row.Cells[6], row.Cells[8])
		}
	}
	spec.All = true
	var all sheet.Collector
	if _, err := d.Drift(t.Context(), spec, bytes.NewReader(text), &all); err != nil || len(all.Rows) != 355 {
		t.Errorf("%d rows, %v", len(all.Rows), err)
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.accounts(t, "c:1", ledger.Liability, "CZK")
	d.accounts(t, "c:2", ledger.Liability, "EUR")
	d.accounts(t, "cash", ledger.Asset, "CZK")
	at := time.Date(2026, 1, 2, 23, 0, 0, 0, time.UTC)
	results, err := d.journal.Post(t.Context(), clerk, main, []ledger.TransferSpec{{ID: "x", Entries: ledger.Simple("cash", "c:1", dec("10.50"), ""),
		EffectiveAt: &at}})
	if err != nil || results[0].Err != nil {
		t.Fatal(err)
	}
	file := "date;account_id;trans_id;type;amount;balance;k_symbol\n260102;1;a;credit;20.50;20.50;\n260102;1;b;withdrawal;10.00;10.50;\n" +
		"260102;2;c;credit;1;1;\n260102;3 x;d;credit;1;1;\n"
	spec := DriftSpec{Profile: berkaProfile(t), Account: "c:{account}", Basis: "value", All: true}
	var c sheet.Collector
	sum, err := d.Drift(t.Context(), spec, strings.NewReader(file), &c)
	if err != nil || sum.Accounts != 3 || sum.Differ != 0 || sum.Missing != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	want := []string{
		"1 | 2 | 10.50 | 10.50 | 0.00", "2 | 1 | 1.00 | in the books the account is in EUR", "3 x | 1 | 1 | the books do not have the account",
		"Total | 0 of 3 accounts differ, by at most 0",
	}
	if diff := gocmp.Diff(want, cells(&c.Sheet, "account", "rows", "bank", "books", "difference", "note")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A day of the zone: at 23:00 in UTC the next one has begun in Dhaka.
	spec.Zone, _ = time.LoadLocation("Asia/Dhaka")
	if sum, err := d.Drift(t.Context(), spec, strings.NewReader(file), &sheet.Collector{}); err != nil || sum.Differ != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	spec.Profile.Columns.Balance = bankfile.Column{}
	_, err = d.Drift(t.Context(), spec, strings.NewReader(file), &sheet.Collector{})
	mustCode(t, err, ledger.CodeInvalidArgument)
	_, err = d.Drift(t.Context(), DriftSpec{Profile: berkaProfile(t), Account: "c:{account}"}, strings.NewReader("date;account_id\n"), &sheet.Collector{})
	_ = mustRefuse(t, err)
	_, err = d.Drift(t.Context(), DriftSpec{Profile: berkaProfile(t), Account: "c:{account}"}, brokenReader{}, &sheet.Collector{})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// exec runs statements as the superuser.
func (d *desk) exec(t testing.TB, sql string) error {
	t.Helper()
	return execAs(t, d.db.SuperDSN(), sql)
}
