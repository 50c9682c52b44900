package reconcile

import (
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/ledger"
)

// lines gives what is stored of lines, in order: day, amount, whether it counts, and reference.
func (d *desk) lines(t testing.TB) string {
	t.Helper()
	return d.query(t, `SELECT string_agg(concat_ws(' ', booked_on, amount, kind, status, CASE WHEN counts THEN 'counts' END), E'\n' ORDER BY line_no)
		FROM bank_line`)
}

func TestImport_SameFileTwice(t *testing.T) {
	t.Parallel()
	d := bank(t)
	content := mt940(1, "2026-01-01 100.00", "2026-01-02 150.50", "2026-01-02 50.50 R1 hello")
	first := d.importText(t, content)
	if first.Replayed || len(first.Files) != 1 || first.Files[0].Added() != 1 || first.Files[0].Format != bankfile.FormatMT940 {
		t.Fatalf("%+v", first)
	}
	s := first.Files[0].Statements[0]
	if !equal(s.Balance, "150.50") || !s.Anchored || !equal(s.AddedSum, "150.50") || s.Covers.String() != "2026-01-02" {
		t.Errorf("%+v", s)
	}
	again := d.importText(t, content)
	if !again.Replayed || again.Files[0].No != first.Files[0].No || !again.Files[0].Replayed || again.Files[0].ImportedBy != clerk {
		t.Errorf("%+v", again)
	}
	if got, want := d.lines(t), "2026-01-01 100.00 opening booked counts\n2026-01-02 50.50 line booked counts"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestImport_Chain(t *testing.T) {
	t.Parallel()
	d := bank(t)
	january := mt940(1, "2026-01-01 100.00", "2026-01-31 150.00", "2026-01-02 30.00 R1", "2026-01-20 20.00 R2")
	d.importText(t, january)
	for name, c := range map[string]struct {
		content string
		reason  bankfile.Reason
		detail  string
	}{
		"a number is left out": {
			mt940(3, "2026-02-01 150.00", "2026-02-02 151.00", "2026-02-02 1.00 R3"), ReasonGap,
			"a statement: number 2 is missing: number 3 follows number 1, which is the last one imported",
		},
		"lines are left out": {
			mt940(2, "2026-02-01 160.00", "2026-02-02 161.00", "2026-02-02 1.00 R3"), ReasonGap,
			"it begins with a balance of 160.00 EUR, and what was imported ends with 150.00 EUR on 2026-01-31: lines that come to 10.00 EUR are missing " +
				"between them",
		},
		"it repeats": {"\n" + january, ReasonRepeated, "statement number 1 of 2026-01-01 to 2026-01-31 was imported before"},
		"it overlaps and a line is another one": {
			mt940(2, "2026-01-20 130.00", "2026-02-02 153.00", "2026-01-20 21.00 R2", "2026-01-02 30.00 R1", "2026-02-02 -28.00 R3"), ReasonOverlap,
			"1 of its 3 lines are known",
		},
		"it is from before": {
			mt940(9, "2025-12-01 90.00", "2025-12-31 100.00", "2025-12-20 10.00 R0"), ReasonTooEarly,
			"it begins on 2025-12-01, before what was imported, which begins on 2026-01-01: it cannot be imported any more",
		},
		"it does not add up": {mt940(2, "2026-02-01 150.00", "2026-02-02 152.00", "2026-02-02 1.00 R3"), bankfile.ReasonTotals,
			"closing balance 152.00 EUR"},
		"another account": {
			strings.Replace(mt940(2, "2026-02-01 150.00", "2026-02-02 151.00", "2026-02-02 1.00 R3"), ":25:ACC", ":25:OTHER", 1), ReasonAccount,
			`it is of account "OTHER", and bank account bank is known as ACC`,
		},
		"another currency": {
			mt940In("USD", 2, "2026-02-01 150.00", "2026-02-02 151.00", "2026-02-02 1.00 R3"), bankfile.ReasonCurrency,
			"it is in USD, and bank account bank is in EUR",
		},
	} {
		before := d.lines(t)
		if c.reason == ReasonTooEarly {
			d.set(t, func(s *Settings) { s.AnyNumbers = true })
		}
		refused := d.refusedText(t, c.content)
		if refused.Reason != c.reason || !strings.Contains(refused.Detail, c.detail) || !strings.Contains(refused.Error(), c.detail) {
			t.Errorf("%s: refused for %s: %s", name, refused.Reason, refused.Error())
		}
		if c.reason == ReasonTooEarly && (refused.Stated != "" || refused.Computed != "") {
			t.Errorf("%s: %s and %s are no two numbers that could be the same", name, refused.Stated, refused.Computed)
		}
		if c.reason == ReasonTooEarly {
			d.set(t, func(s *Settings) { s.AnyNumbers = false })
		}
		if after := d.lines(t); after != before {
			t.Errorf("%s: lines were written:\n%s", name, after)
		}
	}
	if n := d.query(t, `SELECT count(*)::text FROM bank_file`); n != "1" {
		t.Errorf("%s files are stored", n)
	}
	next := d.importText(t, mt940(2, "2026-02-01 150.00", "2026-02-02 151.00", "2026-02-02 1.00 R3"))
	if s := next.Files[0].Statements[0]; s.Added != 1 || !equal(s.Balance, "151") {
		t.Errorf("%+v", s)
	}
}

// TestImport_Overlap imports files whose periods overlap: what is known is not imported again.
func TestImport_Overlap(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.importText(t, mt940(1, "2026-01-01 100.00", "2026-01-20 150.00", "2026-01-02 30.00 R1", "2026-01-20 20.00 R2"))
	i := d.importText(t, mt940(2, "2026-01-20 130.00", "2026-02-02 152.00", "2026-01-20 20.00 R2", "2026-02-02 2.00 R3"))
	if s := i.Files[0].Statements[0]; s.Lines != 2 || s.Added != 1 || !equal(s.AddedSum, "2") || !equal(s.Balance, "152") {
		t.Errorf("%+v", s)
	}
	// All of it is known, from two files; no statement is the same.
	i = d.importText(t, mt940(2, "2026-01-01 100.00", "2026-02-02 152.00", "2026-01-02 30.00 R1", "2026-01-20 20.00 R2", "2026-02-02 2.00 R3"))
	if s := i.Files[0].Statements[0]; s.Lines != 3 || s.Added != 0 || !equal(s.Balance, "152") {
		t.Errorf("%+v", s)
	}
}

// TestImport_IdenticalRows imports rows that are the same word for word and are two movements all the same.
func TestImport_IdenticalRows(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.usingCSV(t)
	ticket := "2026-01-02;-2.80;;Ticket machine;"
	d.importText(t, csvFile("2026-01-01;-1.00;;Coffee;", ticket))
	i := d.importText(t, csvFile(ticket, ticket, "2026-01-03;5.00;;Refund;"))
	if f := i.Files[0]; f.Lines() != 3 || f.Added() != 2 || f.Profile != "plain" || f.ProfileVersion != 1 {
		t.Errorf("%+v", f)
	}
	i = d.importText(t, csvFile("2026-01-01;-1.00;;Coffee;", ticket, ticket, "2026-01-03;5.00;;Refund;"))
	if f := i.Files[0]; f.Added() != 0 {
		t.Errorf("%+v", f)
	}
	if sum := d.query(t, `SELECT sum(amount)::text FROM bank_line WHERE counts`); sum != "-1.60" {
		t.Errorf("the lines come to %s", sum)
	}
}

// TestImport_LooksLikeEarlier imports a second statement of a day, with a line that looks like one of the first. The balances say that it is another.
func TestImport_LooksLikeEarlier(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.importText(t, mt940(1, "2026-01-01 100.00", "2026-01-02 95.00", "2026-01-02 -5.00 NONREF fee"))
	i := d.importText(t, mt940(2, "2026-01-02 95.00", "2026-01-02 91.00", "2026-01-02 -5.00 NONREF fee", "2026-01-02 1.00 NONREF interest"))
	if s := i.Files[0].Statements[0]; s.Added != 2 || !equal(s.Balance, "91") {
		t.Errorf("%+v", s)
	}
	if n := d.query(t, `SELECT count(*)::text FROM bank_line WHERE amount = -5`); n != "2" {
		t.Errorf("%s lines", n)
	}
	// A file of both days has the same two.
	i = d.importText(t, mt940(3, "2026-01-01 100.00", "2026-01-03 92.00", "2026-01-02 -5.00 NONREF fee", "2026-01-02 -5.00 NONREF fee",
		"2026-01-02 1.00 NONREF interest", "2026-01-03 1.00 R"))
	if s := i.Files[0].Statements[0]; s.Added != 1 || !equal(s.Balance, "92") {
		t.Errorf("%+v", s)
	}
}

// TestImport_OnlyLooksLikeEarlier imports statements of one day of which every line looks like an earlier one. Numbers and balances say which are the
// same.
func TestImport_OnlyLooksLikeEarlier(t *testing.T) {
	t.Parallel()
	d := bank(t)
	first := mt940(1, "2026-01-01 100.00", "2026-01-02 95.00", "2026-01-02 -5.00 NONREF fee")
	second := mt940(2, "2026-01-02 95.00", "2026-01-02 90.00", "2026-01-02 -5.00 NONREF fee")
	back := mt940(3, "2026-01-02 90.00", "2026-01-02 90.00", "2026-01-02 -5.00 NONREF fee", "2026-01-02 5.00 NONREF refund")
	again := mt940(4, "2026-01-02 90.00", "2026-01-02 90.00", "2026-01-02 -5.00 NONREF fee", "2026-01-02 5.00 NONREF refund")
	for n, c := range []struct {
		file    string
		added   int
		balance string
	}{
		{first, 1, "95"}, {second, 1, "90"}, {back, 2, "90"}, {again, 2, "90"},
		// What was sent before is sent again, in another file: nothing of it is new.
		{strings.Replace(mt940(2, "2026-01-01 100.00", "2026-01-02 90.00", "2026-01-02 -5.00 NONREF fee", "2026-01-02 -5.00 NONREF fee"), "TEST", "X", 1),
			0, "90"},
		{mt940(5, "2026-01-02 90.00", "2026-01-02 85.00", "2026-01-02 -5.00 NONREF fee"), 1, "85"},
	} {
		if s := d.importText(t, c.file).Files[0].Statements[0]; s.Added != c.added || !equal(s.Balance, c.balance) {
			t.Errorf("%d: %+v", n, s)
		}
	}
	if gap := d.refusedText(t, mt940(7, "2026-01-02 85.00", "2026-01-02 80.00", "2026-01-02 -5.00 NONREF fee")); gap.Reason != ReasonGap {
		t.Errorf("%+v", gap)
	}
	if n := d.query(t, `SELECT count(*)::text FROM bank_line WHERE amount = -5`); n != "5" {
		t.Errorf("%s lines", n)
	}
}

func TestImport_Zeros(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-02 5.00", "2026-01-02 0.00 NONREF message", "2026-01-02 5.00 R"))
	if got, want := d.lines(t), "2026-01-02 0 line information\n2026-01-02 5 line booked counts"; strings.ReplaceAll(got, ".00", "") != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// camtBatch is a batch of 100.00 with details of some amounts.
func camtBatch(details ...string) string {
	out := `<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02"><BkToCstmrStmt>
<GrpHdr><MsgId>M</MsgId><CreDtTm>2026-01-03T00:00:00Z</CreDtTm></GrpHdr>
<Stmt><Id>S1</Id><CreDtTm>2026-01-03T00:00:00Z</CreDtTm><Acct><Id><IBAN>ACC</IBAN></Id><Ccy>EUR</Ccy></Acct>
<Bal><Tp><CdOrPrtry><Cd>OPBD</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">0.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2026-01-02</Dt></Dt></Bal>
<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">100.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2026-01-02</Dt></Dt></Bal>
<Ntry><Amt Ccy="EUR">100.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts><BookgDt><Dt>2026-01-02</Dt></BookgDt><ValDt><Dt>2026-01-02</Dt></ValDt>
<AcctSvcrRef>BATCH-9</AcctSvcrRef><BkTxCd><Prtry><Cd>1</Cd></Prtry></BkTxCd><NtryDtls>`
	for _, detail := range details {
		amount, reference, _ := strings.Cut(detail, " ")
		out += `<TxDtls><Refs><EndToEndId>` + reference + `</EndToEndId></Refs>
<AmtDtls><TxAmt><Amt Ccy="EUR">` + amount + `</Amt></TxAmt></AmtDtls></TxDtls>`
	}
	return out + `</NtryDtls></Ntry></Stmt></BkToCstmrStmt></Document>`
}

func TestImport_Batch(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.importText(t, camtBatch("30.00 E1", "70.00 E2"))
	want := "2026-01-02 100.00 line booked\n2026-01-02 30.00 detail booked counts\n2026-01-02 70.00 detail booked counts"
	if got := d.lines(t); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	d = bank(t)
	d.importText(t, camtBatch("30.00 E1", "69.00 E2"))
	want = "2026-01-02 100.00 line booked counts\n2026-01-02 30.00 detail booked\n2026-01-02 69.00 detail booked"
	if got := d.lines(t); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestImport_SeveralAccounts imports a file of two accounts without naming either.
func TestImport_SeveralAccounts(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.accounts(t, "assets:bank2", ledger.Asset, "EUR")
	settings := DefaultSettings()
	settings.Identifiers = []string{"ac c2"}
	second := BankAccountSpec{Name: "second", Account: "assets:bank2", Settings: &settings}
	if _, err := d.CreateBankAccount(t.Context(), second, clerk); err != nil {
		t.Fatal(err)
	}
	one := mt940(1, "2026-01-01 100.00", "2026-01-02 150.00", "2026-01-02 50.00 R1")
	two := strings.Replace(mt940(7, "2026-01-01 10.00", "2026-01-02 15.00", "2026-01-02 5.00 R1"), ":25:ACC", ":25:ACC2", 1)
	i, err := d.Import(t.Context(), ImportSpec{}, strings.NewReader(one+two), clerk)
	if err != nil || len(i.Files) != 2 || i.Files[0].BankAccount != "bank" || i.Files[1].BankAccount != "second" || i.Files[1].Added() != 1 {
		t.Fatalf("%+v, %v", i, err)
	}
	if i, err = d.Import(t.Context(), ImportSpec{}, strings.NewReader(one+two), clerk); err != nil || !i.Replayed {
		t.Fatalf("%+v, %v", i, err)
	}
	// Of a third account nobody knows, and then nothing is imported.
	next := mt940(2, "2026-01-02 150.00", "2026-01-03 151.00", "2026-01-03 1.00 R1")
	_, err = d.Import(t.Context(), ImportSpec{}, strings.NewReader(next+strings.Replace(two, "ACC2", "ACC3", 1)), clerk)
	if refused := mustRefuse(t, err); refused.Reason != ReasonAccount || refused.Statement != 2 {
		t.Errorf("%v", refused)
	}
	// One that is named takes no statement of another.
	_, err = d.Import(t.Context(), ImportSpec{BankAccount: "bank"}, strings.NewReader(next+two), clerk)
	if refused := mustRefuse(t, err); refused.Reason != ReasonAccount || refused.Statement != 2 {
		t.Errorf("%v", refused)
	}
}

// TestImport_AllOrNothing imports a file of which the second statement does not go on.
func TestImport_AllOrNothing(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.importText(t, mt940(1, "2026-01-01 100.00", "2026-01-02 150.00", "2026-01-02 50.00 R1"))
	two := mt940(2, "2026-01-02 150.00", "2026-01-03 151.00", "2026-01-03 1.00 R2")
	d.set(t, func(s *Settings) { s.AnyNumbers = true })
	refused := d.refusedText(t, two+mt940(3, "2026-01-03 151.00", "2026-01-04 150.00", "2026-01-04 -2.00 R3"))
	if refused.Reason != bankfile.ReasonTotals {
		t.Errorf("%v", refused)
	}
	if n := d.query(t, `SELECT count(*)::text FROM bank_line`); n != "2" {
		t.Errorf("%s lines", n)
	}
	i, err := d.Import(t.Context(), ImportSpec{BankAccount: "bank", DryRun: true}, strings.NewReader(two), clerk)
	if err != nil || i.Files[0].Added() != 1 || i.Replayed {
		t.Errorf("%+v, %v", i, err)
	}
	if n := d.query(t, `SELECT count(*)::text FROM bank_line`); n != "2" {
		t.Errorf("%s lines after a dry run", n)
	}
}

// TestImport_Samples imports every file of other people's.
func TestImport_Samples(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]struct {
		currency   ledger.CurrencyCode
		identifier string
		reason     bankfile.Reason
		statements int
		lines      int
		counting   string // how many lines count, and their sum
	}{
		"bai2-sample1.txt":                         {currency: "CAD", identifier: "10200123456", statements: 2, lines: 17, counting: "17 0"},
		"camt053-v2-multi-statement.xml":           {currency: "EUR", identifier: "NL26 VAYB 8060 4768 90", statements: 2, lines: 2, counting: "3 20"},
		"camt053-v2-five-decimals-wrong-total.xml": {currency: "EUR", identifier: "NL26VAYB8060476890", reason: bankfile.ReasonTotals},
		"camt053-v8.xml":                           {currency: "EUR", identifier: "NL26VAYB8060476890", reason: bankfile.ReasonTotals},
		"mt940-citi.txt":                           {currency: "USD", identifier: "123456789", statements: 1, lines: 5, counting: "4 16233.92"},
		"mt940-february-30.sta":                    {currency: "EUR", identifier: "12345678/1020304050", statements: 1, lines: 1, counting: "2 1194"},
		"mt940-mbank.sta": {currency: "PLN", identifier: "pl29114010810000267002001002", statements: 1, lines: 3,
			counting: "4 0.43"},
		"ofx-bank-medium.ofx": {currency: "CAD", identifier: "12300 000012345678", statements: 1, lines: 3, counting: "4 382.34"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			content := sample(t, "bank/"+file)
			d := setup(t)
			d.open(t, want.currency, func(s *BankAccountSpec) { s.Settings.Identifiers = []string{want.identifier} })
			i, err := d.Import(t.Context(), ImportSpec{BankAccount: "bank", FileName: file}, content, clerk)
			if want.reason != "" {
				if refused := mustRefuse(t, err); refused.Reason != want.reason {
					t.Errorf("refused for %s", refused.Reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if f := i.Files[0]; len(f.Statements) != want.statements || f.Lines() != want.lines || f.Added() != want.lines {
				t.Errorf("%d statements, %d lines, %d added", len(f.Statements), f.Lines(), f.Added())
			}
			if got := d.query(t, `SELECT concat_ws(' ', count(*), trim_scale(sum(amount))) FROM bank_line WHERE counts`); got != want.counting {
				t.Errorf("%s count, want %s", got, want.counting)
			}
		})
	}
}

func TestImport_Scales(t *testing.T) {
	t.Parallel()
	for currency, amounts := range map[ledger.CurrencyCode][3]string{
		"JPY": {"1000", "1", "1001"}, "KWD": {"1.005", "0.001", "1.006"}, "EUR": {"0.10", "0.01", "0.11"},
	} {
		d := setup(t)
		d.open(t, currency)
		d.importText(t, mt940In(string(currency), 1, "2026-01-01 "+amounts[0], "2026-01-02 "+amounts[2], "2026-01-02 "+amounts[1]+" R"))
		if got := d.query(t, `SELECT sum(amount)::text FROM bank_line WHERE counts`); !dec(got).Equal(dec(amounts[2])) {
			t.Errorf("%s: %s", currency, got)
		}
	}
	d := setup(t)
	d.open(t, "JPY")
	if refused := d.refusedText(t, mt940In("JPY", 1, "2026-01-01 100", "2026-01-02 101.5", "2026-01-02 1.5 R")); refused.Reason != bankfile.ReasonScale {
		t.Errorf("%v", refused)
	}
}
