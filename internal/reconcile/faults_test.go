package reconcile

import (
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// TestFaults cuts the connection before and after the commit of each change. The call finds out what became of it, and it has happened once.
func TestFaults(t *testing.T) {
	t.Parallel()
	faults := pgtest.NewFaults(t)
	d := setup(t, faults)
	t.Cleanup(func() { ledgertest.CheckBooks(t, d.db) })
	d.open(t, "EUR")
	d.post(t, "R1 2026-01-02 50", "R2 2026-01-02 20", "c 2026-01-20 -9.99", "D1 2026-01-02 7")
	content := mt940(1, "2026-01-01 0.00", "2026-01-05 67.00", "2026-01-02 50.00 R1", "2026-01-02 20.00 LINE-B", "2026-01-03 -10.00 LINE-C",
		"2026-01-03 7.00 D1")
	for name, cut := range map[string]func(int){"before": faults.CutBeforeCommit, "after": faults.CutAfterCommit} {
		// Each change is made under a cut, and the books count what has come of it.
		step := func(what string, do func() error, count, want string) {
			t.Helper()
			cut(1)
			before := faults.Cuts()
			if err := do(); err != nil {
				t.Fatalf("cut %s the commit of %s: %v", name, what, err)
			}
			if faults.Cuts() == before {
				t.Errorf("nothing was cut %s the commit of %s", name, what)
			}
			if got := d.query(t, count); got != want {
				t.Errorf("cut %s the commit of %s: there are %s, want %s", name, what, got, want)
			}
		}
		tag := name
		file := strings.Replace(content, ":20:TEST1", ":20:"+tag, 1)
		if d.query(t, `SELECT count(*)::text FROM bank_file`) == "1" {
			step("another import", func() error {
				i, err := d.Import(t.Context(), ImportSpec{BankAccount: "bank"}, strings.NewReader(mt940(2, "2026-01-05 67.00", "2026-01-06 67.00")), clerk)
				if err == nil && (i.Replayed || i.Files[0].Replayed) {
					t.Error("its own work is taken for an earlier one")
				}
				return err
			}, `SELECT count(*)::text FROM bank_file`, "2")
		} else {
			step("an import", func() error {
				i, err := d.Import(t.Context(), ImportSpec{BankAccount: "bank"}, strings.NewReader(file), clerk)
				if err == nil && (i.Replayed || i.Files[0].Replayed) {
					t.Error("its own work is taken for an earlier one")
				}
				return err
			}, `SELECT count(*)::text FROM bank_line`, "4")
		}
		step("a run", func() error {
			_, err := d.Match(t.Context(), MatchSpec{BankAccount: "bank", Request: tag}, clerk)
			return err
		}, `SELECT count(*)::text FROM reconcile_run WHERE request = '`+tag+`'`, "1")
		var made *Decision
		step("a decision", func() (err error) {
			made, err = d.confirm(t, []string{"LINE-B"}, []string{"R2"}, func(s *ConfirmSpec) { s.Request = "confirm " + tag })
			if err == nil && made.Replayed {
				t.Error("its own work is taken for somebody else's")
			}
			return err
		}, `SELECT count(*)::text FROM reconcile_match m WHERE lines = 20 AND NOT EXISTS (SELECT FROM reconcile_undo u WHERE u.match_no = m.match_no)`, "1")
		step("an undoing", func() error {
			undone, err := d.Unmatch(t.Context(), UnmatchSpec{BankAccount: "bank", Match: made.No, Reason: "test"}, clerk)
			if err == nil && undone.Replayed {
				t.Error("its own work is taken for an earlier one")
			}
			return err
		}, `SELECT count(*)::text FROM reconcile_match m WHERE lines = 20 AND NOT EXISTS (SELECT FROM reconcile_undo u WHERE u.match_no = m.match_no)`, "0")
		step("a difference", func() (err error) {
			made, err = d.confirm(t, []string{"LINE-C"}, []string{"c"}, func(s *ConfirmSpec) { s.Difference = &DifferenceSpec{Account: "expense:fees"} })
			return err
		}, `SELECT count(*)::text FROM reconcile_item WHERE posts_difference AND match_no = (SELECT max(match_no) FROM reconcile_match)`, "1")
		step("an undoing with its difference", func() error {
			_, err := d.Unmatch(t.Context(), UnmatchSpec{BankAccount: "bank", Match: made.No, Reason: "test", ReverseDifference: true}, clerk)
			return err
		}, `SELECT sum(amount)::text FROM entry JOIN account USING (ledger_id, account_no) WHERE account_id = 'expense:fees'`, "0.00")
		step("settings", func() error {
			s := d.account.Settings
			s.DaysAfter++
			a, err := d.Set(t.Context(), main, "bank", s, clerk)
			if err == nil {
				d.account = a
			}
			return err
		}, `SELECT (count(*) - (SELECT count(DISTINCT content::text) FROM bank_setting))::text FROM bank_setting`, "0")
	}
	run := d.match(t)
	if !equal(run.Summary.OpenLines.Sum, "10") || !equal(run.Summary.Lines.Sum, "67") {
		t.Errorf("%+v", run.Summary)
	}
	d.statement(t, StatementSpec{})
}

// TestFaults_Unreachable has the database go away for good: the answer says that the outcome is open.
func TestFaults_Unreachable(t *testing.T) {
	t.Parallel()
	faults := pgtest.NewFaults(t)
	d := setup(t, faults)
	d.open(t, "EUR")
	d.db.Exec(t, `SELECT 1`)
	faults.CutBeforeCommit(1_000_000)
	begun := budgetForTests(t)
	_, err := d.Import(begun, ImportSpec{BankAccount: "bank"}, strings.NewReader(mt940(1, "2026-01-01 0.00", "2026-01-05 1.00",
		"2026-01-02 1.00 R1")), clerk)
	if code := ledger.CodeOf(err); code != ledger.CodeUnavailable && code != ledger.CodeDeadlineExceeded {
		t.Errorf("%v", err)
	}
	faults.CutBeforeCommit(0)
	if n := d.query(t, `SELECT count(*)::text FROM bank_line`); n != "0" {
		t.Errorf("%s lines", n)
	}
}
