package verify_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
)

// reconciledFile is a bank's statement, and reconciledBatch the next one: a batch of 100.00 with its two parts.
const (
	reconciledFile = `:20:ONE
:25:ACC
:28C:1/1
:60F:C260101EUR30,
:61:2601020102C50,NTRFR1
:61:2601030103D10,NTRFLINE-C
:61:2601040104C5,NTRFLINE-X
:61:2601040104D1,NTRFLINE-Y
:62F:C260105EUR74,
-
`
	reconciledBatch = `<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02"><BkToCstmrStmt>
<GrpHdr><MsgId>M</MsgId><CreDtTm>2026-01-06T00:00:00Z</CreDtTm></GrpHdr>
<Stmt><Id>S2</Id><CreDtTm>2026-01-06T00:00:00Z</CreDtTm><Acct><Id><IBAN>ACC</IBAN></Id><Ccy>EUR</Ccy></Acct>
<Bal><Tp><CdOrPrtry><Cd>OPBD</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">74.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2026-01-06</Dt></Dt></Bal>
<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">174.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2026-01-06</Dt></Dt></Bal>
<Ntry><Amt Ccy="EUR">100.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts><BookgDt><Dt>2026-01-06</Dt></BookgDt><ValDt><Dt>2026-01-06</Dt></ValDt>
<AcctSvcrRef>BATCH</AcctSvcrRef><BkTxCd><Prtry><Cd>1</Cd></Prtry></BkTxCd><NtryDtls>
<TxDtls><Refs><EndToEndId>E1</EndToEndId></Refs><AmtDtls><TxAmt><Amt Ccy="EUR">30.00</Amt></TxAmt></AmtDtls></TxDtls>
<TxDtls><Refs><EndToEndId>E2</EndToEndId></Refs><AmtDtls><TxAmt><Amt Ccy="EUR">70.00</Amt></TxAmt></AmtDtls></TxDtls>
</NtryDtls></Ntry></Stmt></BkToCstmrStmt></Document>`
)

// newReconciledBooks are books with a bank account of which there is everything: what was brought forward, a batch in parts, matches by a run and by
// a person, a difference that was posted, an item that is ignored, and a match that was undone. Nobody is connected to them.
func newReconciledBooks(t *testing.T) *books {
	t.Helper()
	db := pgtest.New(t)
	pool, err := pg.Connect(context.Background(), pg.Config{DSN: db.ServiceDSN()})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b := &books{Journal: journal.New(pool, journal.Config{ExpireEvery: -1}), db: db}
	defer b.Close()
	b.accounts(t, main,
		ledger.AccountSpec{ID: "bank", Type: ledger.Asset, Currency: "EUR"}, ledger.AccountSpec{ID: "wallet", Type: ledger.Liability, Currency: "EUR"},
		ledger.AccountSpec{ID: "fees", Type: ledger.Expense, Currency: "EUR"})
	post := func(id ledger.TransferID, amount string, day int) {
		at := time.Date(2026, 1, day, 10, 0, 0, 0, time.UTC)
		spec := move(id, "bank", "wallet", strings.TrimPrefix(amount, "-"))
		if strings.HasPrefix(amount, "-") {
			spec = move(id, "wallet", "bank", amount[1:])
		}
		spec.EffectiveAt = &at
		b.post(t, main, "posted", spec)
	}
	post("old", "30", -20)
	post("R1", "50", 2)
	post("c", "-9.99", 3)
	post("x", "5", 20)
	post("E1", "30", 6)
	post("E2", "70", 6)
	r := reconcile.New(b.Journal, pool)
	settings := reconcile.DefaultSettings()
	settings.Identifiers = []string{"ACC"}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(r.CreateBankAccount(t.Context(), reconcile.BankAccountSpec{
		Name: "main", Account: "bank", Basis: report.Value, Begins: bankfile.Date{Year: 2026, Month: 1, Day: 1}, Settings: &settings,
	}, "clerk"))
	for _, file := range []string{reconciledFile, reconciledBatch} {
		must(r.Import(t.Context(), reconcile.ImportSpec{BankAccount: "main"}, strings.NewReader(file), "clerk"))
	}
	run, err := r.Match(t.Context(), reconcile.MatchSpec{BankAccount: "main"}, "clerk")
	if err != nil || run.Confirmed != 4 {
		t.Fatalf("%+v, %v", run, err)
	}
	lines, _, err := r.Lines(t.Context(), main, "main", reconcile.LineFilter{Open: true, Limit: 10})
	if err != nil || len(lines) != 3 {
		t.Fatal(lines, err)
	}
	confirm := func(line int, transfer ledger.TransferID, difference *reconcile.DifferenceSpec) *reconcile.Decision {
		d, err := r.Confirm(t.Context(), reconcile.ConfirmSpec{
			BankAccount: "main", Lines: []reconcile.LineTake{{Line: lines[line].No}}, Entries: []reconcile.EntryTake{{Transfer: transfer}}, Difference: difference,
		}, "clerk")
		must(d, err)
		return d
	}
	confirm(0, "c", &reconcile.DifferenceSpec{Account: "fees"})
	undone := confirm(1, "x", nil)
	must(r.Unmatch(t.Context(), reconcile.UnmatchSpec{BankAccount: "main", Match: undone.No, Reason: "another customer's"}, "clerk"))
	must(r.Ignore(t.Context(), reconcile.IgnoreSpec{BankAccount: "main", Reason: "of no account",
		Line: &reconcile.LineTake{Line: lines[2].No, Amount: decimal.NewFromInt(-1)}}, "clerk"))
	must(r.Match(t.Context(), reconcile.MatchSpec{BankAccount: "main"}, "clerk"))
	return b
}

// Each tampering with what is kept of the bank, and of decisions, is found, and nothing else is said.
func TestRun_TamperedReconciliation(t *testing.T) {
	t.Parallel()
	original := newReconciledBooks(t)
	report := run(t, original.db.ServiceDSN())
	if _, all := breaches(report); !report.OK() {
		t.Fatal(all)
	}
	const (
		r1      = "(SELECT line_no FROM bank_line WHERE refs->>'customer' = 'R1' OR refs->>'end_to_end' = 'R1')"
		batch   = "kind = 'line' AND amount = 100"
		matchR1 = "(SELECT match_no FROM reconcile_item WHERE line_no = " + r1 + ")"
	)
	set := func(table, change, where string) []string {
		return always(table, "UPDATE "+table+" SET "+change+" WHERE "+where)
	}
	matched := `INSERT INTO reconcile_match (ledger_id, bank_account_no, kind, rule, outcome, lines, entries, decided_by)
		VALUES (1, 1, 'manual', 'manual', 'matched', %LINES%, %ENTRIES%, 'psql')`
	double := strings.NewReplacer("%LINES%", "50", "%ENTRIES%", "50").Replace(matched)
	for _, c := range []struct {
		name string
		do   []string
		want map[string]int64
		says string
	}{
		{"a line of less", set("bank_line", "amount = 49", "line_no = "+r1), map[string]int64{"reconcile": 3}, "of which there is 49"},
		{"a line on another day", set("bank_line", "booked_on = '2026-01-09'", "line_no = "+r1), map[string]int64{"reconcile": 1}, "under another day than its own"},
		{"a line that is taken twice", join(always("reconcile_match", double), always("reconcile_item",
			`INSERT INTO reconcile_item SELECT ledger_id, bank_account_no, (SELECT max(match_no) FROM reconcile_match), item_no, line_no, sequence, leg, amount,
			 item_on, false, (SELECT max(match_no) FROM reconcile_match) FROM reconcile_item WHERE match_no = `+matchR1)),
			map[string]int64{"reconcile": 2}, "matches take 100.00 of line "},
		{"more than a match says", set("reconcile_item", "amount = 40", "line_no = "+r1), map[string]int64{"reconcile": 1}, "is of lines of 50.00 and entries of 50"},
		{"a match of more than there is", join(set("reconcile_item", "amount = 60", "match_no = "+matchR1), set("reconcile_match", "lines = 60, entries = 60",
			"match_no = "+matchR1)), map[string]int64{"reconcile": 2}, "a match takes of entry "},
		{"in the other direction", join(set("reconcile_item", "amount = -50", "match_no = "+matchR1), set("reconcile_match", "lines = -50, entries = -50",
			"match_no = "+matchR1)), map[string]int64{"reconcile": 2}, "a match takes of line "},
		{"the entry of another account", set("reconcile_item", "leg = 3 - leg", "sequence = "+sequence("R1")), map[string]int64{"reconcile": 1}, "of which there is nothing"},
		{"an entry that is not there", set("reconcile_item", "sequence = 9999", "sequence = "+sequence("R1")), map[string]int64{"reconcile": 1}, "of which there is nothing"},
		{"an entry that was brought forward", set("reconcile_item", "sequence = "+sequence("old"), "sequence = "+sequence("R1")),
			map[string]int64{"reconcile": 1}, "under another day than its own"},
		{"a match without items", always("reconcile_item", "DELETE FROM reconcile_item WHERE match_no = "+matchR1), map[string]int64{"reconcile": 1}, "has no items"},
		{"items without a match", always("reconcile_match", "DELETE FROM reconcile_match WHERE match_no = "+matchR1),
			map[string]int64{"reconcile": 2}, "is not there, and has items"},
		{"a match of nothing with something", join(always("reconcile_match", strings.NewReplacer("%LINES%", "1", "%ENTRIES%", "0").Replace(matched)),
			always("reconcile_item", `INSERT INTO reconcile_item (ledger_id, bank_account_no, match_no, item_no, line_no, amount, item_on, number)
				SELECT 1, 1, m.no, 1, line_no, 1, booked_on, m.no FROM bank_line, (SELECT max(match_no) AS no FROM reconcile_match) m WHERE amount = 5`)),
			map[string]int64{"reconcile": 1}, "is of lines of 1 and entries of 0"},
		{"an undoing of another account", set("reconcile_undo", "bank_account_no = 2", "true"), map[string]int64{"reconcile": 1}, "is no earlier match of the bank account"},
		{"a balance", set("bank_statement", "balance = balance + 1", "ordinal = 1 AND anchored AND closing = 74"), map[string]int64{"reconcile": 1}, "up to a balance of 75"},
		{"a line that is gone", always("bank_line", "DELETE FROM bank_line WHERE amount = 5"), map[string]int64{"reconcile": 3}, "has added 4 lines"},
		{"a line in another statement", set("bank_line", "statement_no = (SELECT max(statement_no) FROM bank_statement)", "amount = 5"),
			map[string]int64{"reconcile": 2}, "has a line that came before it"},
		{"a statement that is gone", join(always("bank_statement", "DELETE FROM bank_statement WHERE closing = 74")), map[string]int64{"reconcile": 1}, "is not there, and has lines"},
		{"a line in another currency", set("bank_line", "currency = 'USD'", "amount = 5"), map[string]int64{"reconcile": 1}, "counts, and is in USD"},
		{"details whose line is gone", always("bank_line", "DELETE FROM bank_line WHERE "+batch), map[string]int64{"reconcile": 2}, "is not there, and has details"},
		{"a batch beside its details", set("bank_line", "counts = true", batch), map[string]int64{"reconcile": 2}, "counts, and its details count for 100"},
		{"a detail that does not count", set("bank_line", "counts = false", "kind = 'detail' AND amount = 30"), map[string]int64{"reconcile": 3},
			"does not count, and its details count for 70"},
		{"another difference", set("reconcile_difference", "amount = -1", "true"), map[string]int64{"reconcile": 1}, "is approved for -1, and is -0.01"},
		{"another transfer for a difference", set("reconcile_difference", "transfer_id = 'R1'", "true"), map[string]int64{"reconcile": 1},
			"is no transfer that was approved for it"},
		{"a result that is gone", always("reconcile_result", "DELETE FROM reconcile_result WHERE run_no = (SELECT max(run_no) FROM reconcile_run) AND side = 0"),
			map[string]int64{"reconcile": 1}, "and has 0 and "},
		{"a run that is gone", always("reconcile_run", "DELETE FROM reconcile_run WHERE ordinal = 1"), map[string]int64{"reconcile": 1}, "is not there, and has matches"},
		{"another balance brought forward", set("bank_account", "forward = 31", "true"), map[string]int64{"reconcile": 1}, "31 was brought forward"},
		{"a guard switched off", []string{"ALTER TABLE reconcile_item DISABLE TRIGGER reconcile_item_fits"}, map[string]int64{"guards": 1}, "reconcile_item_fits"},
		{"a guard that is gone", []string{"ALTER TABLE bank_line DROP CONSTRAINT bank_line_identity_key"}, map[string]int64{"guards": 1}, "bank_line_identity_key is missing"},
		{"UPDATE on bank_line", []string{"GRANT UPDATE ON bank_line TO khata_service"}, map[string]int64{"privileges": 1}, "khata_service may UPDATE bank_line"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			copied := original.clone(t)
			tamper(t, copied.super, c.do...)
			got, all := breaches(run(t, copied.service))
			if !maps.Equal(got, c.want) || !strings.Contains(all, c.says) {
				t.Errorf("breaches %v, want %v with %q:\n%s", got, c.want, c.says, all)
			}
		})
	}
}
