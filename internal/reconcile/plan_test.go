package reconcile

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
)

// TestPlans reads the plans of what looks rows up: none goes through a table, or through all rows of a bank account for each key, before
// there are statistics. A table of a few rows is read as a whole for good reason, so that is made dear here.
func TestPlans(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.open(t, "EUR")
	d.usingCSV(t)
	for _, table := range []string{"bank_line", "bank_statement", "reconcile_match", "reconcile_item", "reconcile_undo", "reconcile_difference"} {
		if err := d.exec(t, "ALTER TABLE "+table+" SET (autovacuum_enabled = off)"); err != nil {
			t.Fatal(err)
		}
	}
	d.postMany(t, 5000)
	d.importText(t, largeFile(500))
	d.match(t)
	conn, err := pgx.Connect(t.Context(), d.db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	through := regexp.MustCompile(`Seq Scan on (bank_line|reconcile_\w+|entry|transfer) |Filter: .*\b(line_no|match_no|sequence|identity|sha256) (=|>=) `)
	parameter := regexp.MustCompile(`\$(\d+)`)
	for name, sql := range map[string]string{
		"AccountEntriesOf": dbsqlc.AccountEntriesOf, "AccountEntries": dbsqlc.AccountEntries, "BankFileBySHA": dbsqlc.BankFileBySHA,
		"BankLineFirst": dbsqlc.BankLineFirst, "BankLineNames": dbsqlc.BankLineNames, "BankLineOccurrences": dbsqlc.BankLineOccurrences,
		"BankLines": dbsqlc.BankLines, "BankLinesByNumber": dbsqlc.BankLinesByNumber, "BankLinesKnown": dbsqlc.BankLinesKnown,
		"BankStatementLast": dbsqlc.BankStatementLast, "ReconcileDifferencesOf": dbsqlc.ReconcileDifferencesOf,
		"ReconcileEntryStates": dbsqlc.ReconcileEntryStates, "ReconcileEntryMatches": dbsqlc.ReconcileEntryMatches, "ReconcileGroup": dbsqlc.ReconcileGroup,
		"ReconcileItemsOf": dbsqlc.ReconcileItemsOf, "ReconcileLineStates": dbsqlc.ReconcileLineStates, "ReconcileMatches": dbsqlc.ReconcileMatches,
		"ReconcileMatchNumbers": dbsqlc.ReconcileMatchNumbers, "ReconcileMatchNumbersOfEntry": dbsqlc.ReconcileMatchNumbersOfEntry,
		"ReconcileMatchNumbersOfLine": dbsqlc.ReconcileMatchNumbersOfLine, "ReconcileMatchOfRequest": dbsqlc.ReconcileMatchOfRequest,
		"ReconcileMatchesOfRun": dbsqlc.ReconcileMatchesOfRun, "ReconcileNow": dbsqlc.ReconcileNow, "ReconcileResults": dbsqlc.ReconcileResults,
		"ReconcileSuggestions": dbsqlc.ReconcileSuggestions, "ReconcileTaken": dbsqlc.ReconcileTaken,
		"ReconcileUndone": dbsqlc.ReconcileUndone,
	} {
		last := 0
		for _, found := range parameter.FindAllStringSubmatch(sql, -1) {
			last = max(last, int(number(t, found[1])))
		}
		nulls := strings.TrimSuffix(strings.Repeat("NULL, ", last), ", ")
		rows, err := conn.PgConn().Exec(t.Context(), "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; PREPARE one AS "+sql+"; EXPLAIN EXECUTE one ("+nulls+
			"); DEALLOCATE one").ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var plan strings.Builder
		for _, result := range rows {
			for _, row := range result.Rows {
				plan.Write(row[0])
				plan.WriteByte('\n')
			}
		}
		if bad := through.FindString(plan.String()); bad != "" {
			t.Errorf("%s: %s\n%s", name, bad, plan.String())
		}
	}
}
