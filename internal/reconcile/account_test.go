package reconcile

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/ledger"
)

func TestBankAccounts(t *testing.T) {
	t.Parallel()
	d := bank(t)
	settings := DefaultSettings()
	settings.Identifiers = []string{"ACC"}
	spec := BankAccountSpec{Name: "bank", Account: "assets:bank", Basis: "value", Settings: &settings}
	again, err := d.CreateBankAccount(t.Context(), spec, colleague)
	if err != nil || again.CreatedBy != clerk || again.SettingsVersion != 1 {
		t.Fatalf("%+v, %v", again, err)
	}
	// What has been set since makes no difference to who repeats the first request.
	d.set(t, func(s *Settings) { s.Tolerance = dec("0.10") })
	d.set(t, func(s *Settings) { s.Tolerance = dec("0.1") })
	if d.account.SettingsVersion != 2 || !equal(d.account.Settings.Tolerance, "0.1") {
		t.Errorf("%+v", d.account)
	}
	if _, err := d.CreateBankAccount(t.Context(), spec, colleague); err != nil {
		t.Error(err)
	}
	d.accounts(t, "assets:other", ledger.Asset, "EUR")
	for name, c := range map[string]struct {
		change func(*BankAccountSpec)
		code   ledger.Code
	}{
		"another zone":             {func(s *BankAccountSpec) { s.Zone, _ = time.LoadLocation("Asia/Dhaka") }, ledger.CodeAlreadyExists},
		"another account":          {func(s *BankAccountSpec) { s.Account = "assets:other" }, ledger.CodeAlreadyExists},
		"another name":             {func(s *BankAccountSpec) { s.Name = "other" }, ledger.CodeAlreadyExists},
		"other settings":           {func(s *BankAccountSpec) { s.Settings = nil }, ledger.CodeAlreadyExists},
		"no name":                  {func(s *BankAccountSpec) { s.Name = "" }, ledger.CodeInvalidArgument},
		"a name that is none":      {func(s *BankAccountSpec) { s.Name = "My Bank" }, ledger.CodeInvalidArgument},
		"no such account":          {func(s *BankAccountSpec) { s.Name, s.Account = "x", "nowhere" }, ledger.CodeAccountNotFound},
		"no such ledger":           {func(s *BankAccountSpec) { s.Ledger = "nowhere" }, ledger.CodeLedgerNotFound},
		"a side that is none":      {func(s *BankAccountSpec) { s.MoneyIn = "left" }, ledger.CodeInvalidArgument},
		"a basis that is none":     {func(s *BankAccountSpec) { s.Basis = "x" }, ledger.CodeInvalidArgument},
		"a beginning that is none": {func(s *BankAccountSpec) { s.Begins = bankfile.Date{Year: 2026, Month: 13, Day: 1} }, ledger.CodeInvalidArgument},
		"a beginning to come":      {func(s *BankAccountSpec) { s.Begins = bankfile.Date{Year: 9000, Month: 1, Day: 1} }, ledger.CodeInvalidArgument},
		"a tolerance that is too fine": {func(s *BankAccountSpec) {
			s.Settings = &Settings{Tolerance: dec("0.001")}
		}, ledger.CodeAmountScale},
		"a rule that is none": {func(s *BankAccountSpec) { s.Settings = &Settings{Confirm: []Rule{"x"}} }, ledger.CodeInvalidArgument},
		"by hand":             {func(s *BankAccountSpec) { s.Settings = &Settings{Confirm: []Rule{RuleManual}} }, ledger.CodeInvalidArgument},
	} {
		other := spec
		c.change(&other)
		if _, err := d.CreateBankAccount(t.Context(), other, clerk); ledger.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	list, err := d.BankAccounts(t.Context(), main)
	if err != nil || len(list) != 1 || list[0].Account != "assets:bank" {
		t.Errorf("%+v, %v", list, err)
	}
	_, err = d.BankAccounts(t.Context(), "nowhere")
	mustCode(t, err, ledger.CodeLedgerNotFound)
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	d := setup(t)
	profile := csvProfile()
	first, err := d.SaveProfile(t.Context(), main, profile, clerk)
	if err != nil || first.Version != 1 || first.SavedBy != clerk {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := d.SaveProfile(t.Context(), main, profile, colleague); err != nil || again.Version != 1 || again.SavedBy != clerk {
		t.Fatalf("%+v, %v", again, err)
	}
	profile.Delimiter = ","
	if second, err := d.SaveProfile(t.Context(), main, profile, colleague); err != nil || second.Version != 2 {
		t.Fatalf("%+v, %v", second, err)
	}
	if old, err := d.Profile(t.Context(), main, "plain", 1); err != nil || old.Delimiter != ";" {
		t.Fatalf("%+v, %v", old, err)
	}
	if last, err := d.Profile(t.Context(), main, "plain", 0); err != nil || last.Delimiter != "," || last.SavedBy != colleague {
		t.Fatalf("%+v, %v", last, err)
	}
	if list, err := d.Profiles(t.Context(), main); err != nil || len(list) != 1 || list[0].Version != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for name, c := range map[string]struct {
		profile string
		version int
		says    string
	}{
		"none of that name":     {"other", 0, "ledger main has no profile other"},
		"nor a version of it":   {"other", 3, "ledger main has no profile other"},
		"none of that version":  {"plain", 3, "profile plain has no version 3: the last is 2"},
		"a version that cannot": {"plain", -1, "profile plain has no version -1: the last is 2"},
	} {
		if _, err := d.Profile(t.Context(), main, c.profile, c.version); ledger.CodeOf(err) != ledger.CodeNotFound || !strings.HasSuffix(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = d.SaveProfile(t.Context(), main, bankfile.Profile{Name: "bad"}, clerk)
	mustCode(t, err, ledger.CodeInvalidArgument)
	_, err = d.SaveProfile(t.Context(), "nowhere", profile, clerk)
	mustCode(t, err, ledger.CodeLedgerNotFound)
}

// TestMoneyIn has the books be the bank's own: what comes in for the customer is a credit.
func TestMoneyIn(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.accounts(t, "customer", ledger.Liability, "EUR")
	d.accounts(t, "till", ledger.Asset, "EUR")
	settings := DefaultSettings()
	settings.Identifiers = []string{"ACC"}
	a, err := d.CreateBankAccount(t.Context(), BankAccountSpec{Name: "bank", Account: "customer", MoneyIn: ledger.Credit, Settings: &settings}, clerk)
	if err != nil {
		t.Fatal(err)
	}
	d.account = a
	results, err := d.journal.Post(t.Context(), clerk, main, []ledger.TransferSpec{{ID: "R1", Entries: ledger.Simple("till", "customer", dec("50"),
		"")}})
	if err != nil || results[0].Err != nil {
		t.Fatal(err)
	}
	today := dateIn(results[0].Transfer.PostedAt, time.UTC).String()
	d.importText(t, mt940(1, today+" 0.00", today+" 50.00", today+" 50.00 R1"))
	d.match(t)
	d.wantState(t, "automatic reference matched: line R1 50 = entry R1 50")
	d.statement(t, StatementSpec{})
}

// TestMatch_Scales matches yen and dinars, and what is off by their smallest unit.
func TestMatch_Scales(t *testing.T) {
	t.Parallel()
	for currency, unit := range map[ledger.CurrencyCode]string{"JPY": "1", "KWD": "0.001"} {
		d := setup(t)
		d.open(t, currency)
		d.post(t, "R1 2026-01-02 1500", "R2 2026-01-02 "+dec("2500").Add(dec(unit)).String())
		d.importText(t, mt940In(string(currency), 1, "2026-01-01 0", "2026-01-10 4000", "2026-01-03 1500 R1", "2026-01-03 2500 R2"))
		d.match(t)
		d.wantState(t, "automatic reference matched: line R1 1500 = entry R1 1500", "line R2: amount_mismatch suggested -"+unit,
			"entry R2: amount_mismatch suggested -"+unit)
		d.statement(t, StatementSpec{})
	}
}

// zipOf packs files.
func zipOf(t testing.TB, files ...[2]string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		one, err := w.Create(f[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := one.Write([]byte(f[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestImport_Zip imports statements in a zip, in no order, of which one came alone before.
func TestImport_Zip(t *testing.T) {
	t.Parallel()
	d := bank(t)
	one := mt940(1, "2026-01-01 0.00", "2026-01-02 5.00", "2026-01-02 5.00 NONREF fee")
	two := mt940(2, "2026-01-02 5.00", "2026-01-03 15.00", "2026-01-03 10.00 R2")
	three := mt940(3, "2026-01-03 15.00", "2026-01-04 16.00", "2026-01-04 1.00 R3")
	d.importText(t, one)
	i := d.importText(t, zipOf(t, [2]string{"c.sta", three}, [2]string{"a.sta", one}, [2]string{"b.sta", two}))
	if len(i.Files) != 3 || i.Replayed || !i.Files[0].Replayed || i.Files[1].Added() != 1 || i.Files[2].Member != "c.sta" || i.Files[2].Archive == "" {
		t.Fatalf("%+v", i)
	}
	again := d.importText(t, zipOf(t, [2]string{"c.sta", three}, [2]string{"a.sta", one}, [2]string{"b.sta", two}))
	if !again.Replayed {
		t.Errorf("%+v", again)
	}
	if sum := d.query(t, `SELECT sum(amount)::text FROM bank_line WHERE counts`); !equal(dec(sum), "16") {
		t.Errorf("%s", sum)
	}
	files, more, err := d.Files(t.Context(), main, "bank", 0, 2)
	if err != nil || !more || len(files) != 2 || files[0].Member != "c.sta" {
		t.Errorf("%+v %v %v", files, more, err)
	}
	f, err := d.File(t.Context(), main, "bank", files[0].No)
	if err != nil || len(f.Statements) != 1 || f.Statements[0].Number != "3" || len(f.Statements[0].Checks) == 0 {
		t.Errorf("%+v %v", f, err)
	}
	_, err = d.File(t.Context(), main, "bank", 99999)
	mustCode(t, err, ledger.CodeNotFound)
	lines, _, err := d.Lines(t.Context(), main, "bank", LineFilter{File: f.No, Limit: 10})
	if err != nil || len(lines) != 1 || lines[0].References.Customer != "R3" {
		t.Errorf("%+v %v", lines, err)
	}
}

// TestImport_EmptyFile imports a file in which nothing has happened, and refuses one that does not say so: it may be cut off.
func TestImport_EmptyFile(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.usingCSV(t)
	for content, says := range map[string]string{"day;amount;reference;text;id\n": "the file has a header and no rows", "": "the file is empty"} {
		if refused := d.refusedText(t, content); refused.Reason != bankfile.ReasonEmpty || refused.Detail != says {
			t.Errorf("%q: %v", content, refused)
		}
	}
	nothing := mt940(1, "2026-01-01 100.00", "2026-01-02 100.00")
	i := d.importText(t, nothing)
	if s := i.Files[0].Statements[0]; s.Lines != 0 || !s.Anchored || !equal(s.Balance, "100") {
		t.Errorf("%+v", s)
	}
	if i := d.importText(t, nothing); !i.Replayed {
		t.Errorf("%+v", i)
	}
	// A file without balances, of days that are known to the cent, cannot bring anything new.
	i = d.importText(t, csvFile("2026-01-05;7.00;;later;"))
	if i.Files[0].Added() != 1 {
		t.Errorf("%+v", i)
	}
	if refused := d.refusedText(t, csvFile("2026-01-03;7.00;;earlier;")); refused.Reason != ReasonOverlap {
		t.Errorf("%v", refused)
	}
	if refused := d.refusedText(t, csvFile("2025-12-03;7.00;;much earlier;")); refused.Reason != ReasonTooEarly {
		t.Errorf("%v", refused)
	}
	_, err := d.Import(t.Context(), ImportSpec{}, strings.NewReader(csvFile("2026-01-03;7.00;;earlier;")), clerk)
	if refused := mustRefuse(t, err); refused.Reason != bankfile.ReasonNotThisFormat ||
		!strings.HasSuffix(refused.Detail, "CSV needs a profile: name one in profile, or in bank_account one whose settings name one") {
		t.Errorf("%v", refused)
	}
}

// TestSettings_NoSuchProfile refuses a profile that is not there when it is set, and not at each import afterwards.
func TestSettings_NoSuchProfile(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.accounts(t, "assets:other", ledger.Asset, "EUR")
	settings := DefaultSettings()
	settings.Profile = "nope"
	_, err := d.CreateBankAccount(t.Context(), BankAccountSpec{Name: "other", Account: "assets:other", Settings: &settings}, clerk)
	mustCode(t, err, ledger.CodeNotFound)
	if list, err := d.BankAccounts(t.Context(), main); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	if _, err = d.Set(t.Context(), main, "bank", settings, clerk); ledger.CodeOf(err) != ledger.CodeNotFound ||
		!strings.Contains(err.Error(), "profile: ledger main has no profile nope") {
		t.Errorf("%v", err)
	}
}
