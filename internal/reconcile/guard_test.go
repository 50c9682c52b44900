package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// guarded is a desk with a match of line A and entry a, and B and b open.
func guarded(t *testing.T) (*desk, map[string]int64) {
	d := bank(t)
	d.post(t, "a 2026-01-02 50", "b 2026-01-20 50", "c 2026-01-20 10")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-30 100.00", "2026-01-02 50.00 a", "2026-01-25 50.00 LINE-B"))
	d.match(t)
	return d, map[string]int64{
		"A": d.lineNo(t, "a"), "B": d.lineNo(t, "LINE-B"), "a": number(t, d.query(t, `SELECT sequence::text FROM transfer WHERE transfer_id = 'a'`)),
		"b": number(t, d.query(t, `SELECT sequence::text FROM transfer WHERE transfer_id = 'b'`)),
		"c": number(t, d.query(t, `SELECT sequence::text FROM transfer WHERE transfer_id = 'c'`)),
	}
}

// TestGuards tries what nobody may do, in SQL, as the service and as the superuser, and as one who has switched ordinary triggers off.
func TestGuards(t *testing.T) {
	t.Parallel()
	d, n := guarded(t)
	match := `INSERT INTO reconcile_match (ledger_id, bank_account_no, kind, rule, outcome, lines, entries, decided_by)
		VALUES (1, 1, 'manual', 'manual', 'matched', %s, %s, 'hand');`
	numbered := `INSERT INTO reconcile_match (ledger_id, bank_account_no, match_no, kind, rule, outcome, lines, entries, decided_by)
		VALUES (1, 1, %d, 'manual', 'manual', 'matched', 0, 0, 'hand')`
	item := `INSERT INTO reconcile_item (ledger_id, bank_account_no, match_no, item_no, line_no, sequence, leg, amount, item_on, number) VALUES `
	undo := fmt.Sprintf(`INSERT INTO reconcile_undo (ledger_id, bank_account_no, match_no, reason, undone_by) VALUES (1, 1, %s, 'x', 'hand');`,
		`(SELECT max(match_no) FROM reconcile_match)`)
	// line inserts a line like the first one, but for some columns.
	line := func(changes ...string) string {
		columns := strings.Fields("ledger_id bank_account_no statement_no parent_no kind ordinal position identity status counts booked_on amount " +
			"currency refs party flags")
		values := slices.Clone(columns)
		for _, change := range changes {
			column, value, _ := strings.Cut(change, "=")
			values[slices.Index(columns, column)] = value
		}
		return "INSERT INTO bank_line (" + strings.Join(columns, ", ") + ") SELECT " + strings.Join(values, ", ") + " FROM bank_line LIMIT 1"
	}
	last := `(SELECT max(match_no) FROM reconcile_match)`
	approve := `INSERT INTO reconcile_difference (ledger_id, bank_account_no, match_no, attempt, account_no, amount, transfer_id, description, approved_by)
		SELECT 1, 1, %s, %d, account_no, %s, 'x', '', 'hand' FROM bank_account`
	// of and by are items of a match: of a line, and of an entry.
	of := func(match string, no int, line int64, amount string) string {
		return fmt.Sprintf(`(1, 1, %s, %d, %[3]d, NULL, NULL, %[4]s,
			coalesce((SELECT booked_on FROM bank_line WHERE line_no = %[3]d), '2026-01-02'), %[1]s)`, match, no, line, amount)
	}
	by := func(match string, no int, entry int64, leg int, amount string) string {
		return fmt.Sprintf(`(1, 1, %s, %d, NULL, %d, %d, %s, '2026-01-02', %s)`, match, no, entry, leg, amount, match)
	}
	pair := func(amount string, line, entry int64, leg int) string {
		return fmt.Sprintf(match, amount, amount) + item + of(last, 1, line, amount) + "," + by(last, 2, entry, leg, amount)
	}
	leg := int(number(t, d.query(t, `SELECT leg::text FROM entry e JOIN bank_account b USING (ledger_id, account_no) WHERE sequence = $1`, n["b"])))
	for name, c := range map[string]struct{ sql, want string }{
		"a line twice":                {pair("50", n["A"], n["b"], leg), "reconcile_line_taken_once"},
		"an entry twice":              {pair("50", n["B"], n["a"], leg), "reconcile_entry_taken_once"},
		"more than there is":          {pair("50.01", n["B"], n["b"], leg), "reconcile_line_taken_once"},
		"in the other direction":      {pair("-1", n["B"], n["b"], leg), "reconcile_line_taken_once"},
		"a line that is not there":    {pair("50", 99999, n["b"], leg), "reconcile_line_taken_once"},
		"an entry of another account": {pair("50", n["B"], n["b"], 3-leg), "reconcile_entry_taken_once"},
		"another sum": {
			fmt.Sprintf(match, "50", "50") + item + of(last, 1, n["B"], "50") + "," + by(last, 2, n["b"], leg, "49"), "reconcile_match_adds_up",
		},
		"half of it later":             {fmt.Sprintf(match, "50", "50") + item + of(last, 1, n["B"], "50"), "reconcile_match_adds_up"},
		"of a match that is not there": {item + of("99999", 1, n["B"], "50"), "reconcile_match_adds_up"},
		"of a match that was undone":   {undo + item + of(last, 9, n["B"], "50"), "reconcile_match_adds_up"},
		"of a match, with another number": {
			fmt.Sprintf(match, "50", "50") + item + strings.Replace(of(last, 1, n["B"], "50"), "'2026-01-02'), ", "'2026-01-02'), 1 + ", 1),
			"reconcile_item_difference_check",
		},
		"a difference under a number that was not drawn": {
			fmt.Sprintf(match, "50", "40") + item + of(last, 1, n["B"], "50") + "," + by(last, 2, n["b"], leg, "40") + ";" +
				strings.Replace(item, "item_on,", "item_on, posts_difference,", 1) +
				fmt.Sprintf(`(1, 1, %[1]s, 3, NULL, %[2]d, %[3]d, 10, '2026-01-02', true, %[1]s + 100000)`, last, n["c"], leg), "40001",
		},
		"another difference": {
			fmt.Sprintf(match, "50", "41") + item + of(last, 1, n["B"], "50") + "," + by(last, 2, n["b"], leg, "41") + ";" +
				strings.Replace(item, "item_on,", "item_on, posts_difference,", 1) +
				fmt.Sprintf(`(1, 1, %s, 3, NULL, %d, %d, 10, '2026-01-02', true, nextval('reconcile_sequence'))`, last, n["c"], leg), "reconcile_match_adds_up",
		},
		"a line under another day": {
			fmt.Sprintf(match, "50", "50") + item + strings.Replace(of(last, 1, n["B"], "50"), "coalesce((SELECT booked_on", "coalesce((SELECT booked_on + 1", 1) +
				"," + by(last, 2, n["b"], leg, "50"), "reconcile_line_taken_once",
		},
		"a difference that nobody approved": {
			fmt.Sprintf(match, "50", "40") + item + of(last, 1, n["B"], "50") + "," + by(last, 2, n["b"], leg, "40") + ";" +
				strings.Replace(item, "item_on,", "item_on, posts_difference,", 1) +
				fmt.Sprintf(`(1, 1, %s, 3, NULL, %d, %d, 10, '2026-01-02', true, nextval('reconcile_sequence'))`, last, n["c"], leg),
			"reconcile_difference_approved",
		},
		"an undoing under another bank account": {
			strings.Replace(undo, "VALUES (1, 1,", "VALUES (1, 2,", 1), "reconcile_undo_of_match",
		},
		"a difference of a match that has none": {fmt.Sprintf(approve, last, 1, "1"), "reconcile_difference_of_match"},
		"another difference than there is": {
			fmt.Sprintf(match, "50", "40") + fmt.Sprintf(approve, last, 1, "10.01"), "reconcile_difference_of_match",
		},
		"a second attempt without a first": {
			fmt.Sprintf(match, "50", "40") + fmt.Sprintf(approve, last, 2, "10"), "reconcile_difference_of_match",
		},
		"a difference of what was undone": {
			fmt.Sprintf(match, "50", "40") + undo + fmt.Sprintf(approve, last, 1, "10"), "reconcile_difference_of_match",
		},
		"details of a line of nothing": {
			line("amount=0", "identity='x'", "counts=false") + ";" +
				line("parent_no=(SELECT max(line_no) FROM bank_line)", "kind='detail'", "identity='y'", "statement_no=statement_no"),
			"bank_line_counts_once",
		},
		"an undoing twice": {undo + undo, "reconcile_undo_pkey"},
		"ignored without a reason": {
			strings.Replace(fmt.Sprintf(match, "50", "0"), "'manual', 'manual'", "'ignored', 'manual'", 1), "reconcile_match_reason_check",
		},
		"a number behind others":      {fmt.Sprintf(numbered, 1), "40001"},
		"a number that was not drawn": {fmt.Sprintf(numbered, 999999), "40001"},
		"in a snapshot": {"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; " + pair("50", n["B"], n["b"], leg),
			"reconcile_read_committed"},
		"the same line again":               {line(), "bank_line_identity_key"},
		"a line of no statement":            {line("statement_no=99999", "identity='x'"), "bank_line_statement_exists"},
		"a booked line that does not count": {line("counts=false", "identity='x'"), "bank_line_counts_once"},
		"a detail beside its line":          {line("parent_no=line_no", "kind='detail'", "identity='x'"), "bank_line_counts_once"},
		"a pending line that counts":        {line("status='pending'", "identity='x'"), "bank_line_counts_check"},
		"another result of a run": {
			`INSERT INTO reconcile_result (ledger_id, bank_account_no, run_no, side, item, leg, item_on, open, outcome)
			 SELECT 1, 1, run_no, 0, 1, 0, '2026-01-01', 1, 'ambiguous' FROM reconcile_run`,
			"reconcile_run_complete",
		},
		"a run without its results": {
			`INSERT INTO reconcile_run (ledger_id, bank_account_no, ordinal, request, as_of, through, setting_version, since_line, since_entry, settled_line,
			 settled_entry, confirmed, results, summary, run_by) VALUES (1, 1, 9, 'x', 1, 1, 1, 0, 0, 0, 0, 0, 5, '{}', 'hand')`, "reconcile_run_complete",
		},
		"two bank accounts of one account": {
			`INSERT INTO bank_account (ledger_id, name, account_no, money_in, basis, zone, created_by)
			 SELECT 1, 'other', account_no, 'debit', 'value', 'UTC', 'hand' FROM bank_account`,
			"bank_account_account_key",
		},
		"a file twice": {
			`INSERT INTO bank_file (ledger_id, bank_account_no, sha256, format, checks, imported_by)
			 SELECT 1, 1, sha256, 'mt940', '[]', 'hand' FROM bank_file`, "bank_file_sha256_key",
		},
	} {
		for who, dsn := range map[string]string{"service": d.db.ServiceDSN(), "superuser": d.db.SuperDSN()} {
			for _, replica := range []bool{false, true} {
				if replica && (who == "service" || strings.HasSuffix(c.want, "_fkey")) {
					continue
				}
				if err := tryAs(t, dsn, replica, c.sql); !isRefusedBy(err, c.want) {
					t.Errorf("%s, as %s (replica %t): %v", name, who, replica, err)
				}
			}
		}
	}
	// A hand can do what is right.
	if err := tryAs(t, d.db.ServiceDSN(), false, pair("50", n["B"], n["b"], leg)); err != nil {
		t.Error(err)
	}
}

func isRefusedBy(err error, want string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.ConstraintName == want || refused.Code == want)
}

// tryAs runs statements in a transaction that is rolled back.
func tryAs(t *testing.T, dsn string, replica bool, sql string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if replica {
		if _, err := conn.Exec(t.Context(), "SET session_replication_role = replica"); err != nil {
			t.Fatal(err)
		}
	}
	_, err = conn.Exec(t.Context(), "BEGIN; "+sql+"; ROLLBACK")
	return err
}

// TestGuards_NothingChanges tries to change what is there.
func TestGuards_NothingChanges(t *testing.T) {
	t.Parallel()
	d, _ := guarded(t)
	tables := strings.Fields("bank_profile bank_account bank_setting bank_file bank_statement bank_line reconcile_match reconcile_item reconcile_undo " +
		"reconcile_difference reconcile_run reconcile_result")
	for _, table := range tables {
		for _, sql := range []string{"UPDATE " + table + " SET ledger_id = 1", "DELETE FROM " + table, "TRUNCATE " + table + " CASCADE"} {
			if err := tryAs(t, d.db.ServiceDSN(), false, sql); !isRefusedBy(err, "42501") {
				t.Errorf("as the service: %s: %v", sql, err)
			}
			for _, replica := range []bool{false, true} {
				if err := tryAs(t, d.db.SuperDSN(), replica, sql); !isRefusedBy(err, "42501") {
					t.Errorf("as the superuser (replica %t): %s: %v", replica, sql, err)
				}
			}
		}
	}
	// The trigger functions are nobody's to hang on a table of his own.
	for _, f := range []string{"reconcile_place()", "bank_line_counts()", "reconcile_item_fits()", "reconcile_run_complete()"} {
		if got := d.query(t, `SELECT has_function_privilege('khata_service', $1, 'EXECUTE')::text`, f); got != "false" {
			t.Errorf("the service may execute %s", f)
		}
	}
}
