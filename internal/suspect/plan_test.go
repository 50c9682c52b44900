package suspect

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
)

// planNode is a part of a plan, as EXPLAIN says it.
type planNode struct {
	NodeType  string     `json:"Node Type"`
	Index     string     `json:"Index Name"`
	Relation  string     `json:"Relation Name"`
	Condition string     `json:"Index Cond"`
	Rows      float64    `json:"Actual Rows"`
	Loops     float64    `json:"Actual Loops"`
	FilterOut float64    `json:"Rows Removed by Filter"`
	Plans     []planNode `json:"Plans"`
}

func (n planNode) each(visit func(planNode)) {
	visit(n)
	for _, p := range n.Plans {
		p.each(visit)
	}
}

// TestPlans: a page of the list and a look-up in the window read what they want from the end of an index and no more, from the first transfer on,
// when the planner knows nothing of the tables yet, and when there is much.
func TestPlans(t *testing.T) {
	t.Parallel()
	d := bare(t, quiet)
	conn, err := pgx.Connect(t.Context(), d.db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	explain := func(sql string, args ...any) planNode {
		t.Helper()
		var text string
		if err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+sql, args...).Scan(&text); err != nil {
			t.Fatal(err)
		}
		var plans []struct{ Plan planNode }
		if err := json.Unmarshal([]byte(text), &plans); err != nil {
			t.Fatal(err)
		}
		return plans[0].Plan
	}
	const perPage = 51
	states, levels := []int16{1, 2, 3}, []int16{3, 2, 1}
	check := func(what string) {
		t.Helper()
		for name, q := range map[string]struct {
			sql                  string
			args                 []any
			table, index, needed string
			most                 float64
		}{
			"SuspectPage": {
				dbsqlc.SuspectPage, []any{states, levels, int32(1), int64(0), forEver, int64(0), time.Time{}, int32(perPage)},
				"suspect_list", "suspect_list_pkey", "account_no|state|level|last_at", perPage * 9,
			},
			"SuspectPage of an account": {
				dbsqlc.SuspectPage, []any{states, levels, int32(1), int64(7), forEver, int64(0), time.Time{}, int32(perPage)},
				"suspect_list", "suspect_list_pkey", "account_no|state|level|last_at", perPage * 9,
			},
			"SuspectEqual": {
				dbsqlc.SuspectEqual, []any{[]int64{1, 2, 3}, []time.Time{noon, noon, noon}, int32(1), Window.Seconds(), int32(maxEqual)},
				"suspect_window", "suspect_window_pkey", "fingerprint|posted_at", 3 * maxEqual,
			},
		} {
			q := q
			found := false
			explain(q.sql, q.args...).each(func(n planNode) {
				if n.Relation != q.table {
					return
				}
				found = true
				if n.NodeType != "Index Only Scan" || n.Index != q.index || n.FilterOut > 0 || n.Rows*n.Loops > q.most {
					t.Errorf("%s, %s: %+v", name, what, n)
				}
				for _, column := range strings.Split(q.needed, "|") {
					if !strings.Contains(n.Condition, column) {
						t.Errorf("%s, %s: the index is not searched by %s: %+v", name, what, column, n)
					}
				}
			})
			if !found {
				t.Errorf("%s, %s: %s is not read", name, what, q.table)
			}
		}
		// A prepared statement may be planned once for all arguments.
		for index, q := range map[string]struct{ sql, args string }{
			"suspect_list_pkey":   {dbsqlc.SuspectPage, `'{1,2,3}', '{3,2,1}', 1, 0, '9999-01-01', 0, '2000-01-01', 51`},
			"suspect_window_pkey": {dbsqlc.SuspectEqual, `'{1,2}', '{2026-01-01,2026-01-01}', 1, 86400, 100`},
		} {
			results, err := conn.PgConn().Exec(t.Context(), "SET plan_cache_mode = force_generic_plan; PREPARE q AS "+q.sql+"; EXPLAIN EXECUTE q ("+
				q.args+"); DEALLOCATE q; RESET plan_cache_mode").ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, row := range results[2].Rows {
				lines = append(lines, string(row[0]))
			}
			if plan := strings.Join(lines, "\n"); !strings.Contains(plan, "Index Only Scan Backward using "+index) || strings.Contains(plan, "Filter") {
				t.Errorf("%s, the plan for all arguments is\n%s", what, plan)
			}
		}
	}
	check("without anything")
	d.db.Exec(t, `INSERT INTO suspect_group (ledger_id, group_no) SELECT 1, i FROM generate_series(1, 20000) i`)
	d.db.Exec(t, `INSERT INTO suspect_list (ledger_id, account_no, state, level, last_at, group_no)
		SELECT 1, a, 1 + i % 3, 1 + i / 3 % 3, $1::timestamptz + i * interval '1 second', i FROM generate_series(1, 20000) i, (VALUES (0), (7)) v (a)`, noon)
	d.db.Exec(t, `INSERT INTO suspect_window (ledger_id, fingerprint, posted_at, sequence)
		SELECT 1, CASE WHEN i % 10 = 0 THEN 2 ELSE i END, $1::timestamptz - i * interval '1 second', i FROM generate_series(1, 50000) i`, noon)
	check("without statistics")
	d.db.Exec(t, `ANALYZE suspect_list, suspect_window`)
	check("with statistics")
}
