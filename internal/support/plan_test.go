package support

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// planNode is a part of a plan that was run.
type planNode struct {
	Relation string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Removed  float64 `json:"Rows Removed by Filter"`
	Recheck  float64 `json:"Rows Removed by Index Recheck"`
	Plans    []planNode
}

// read is how many rows of tables it has read.
func (n planNode) read() (rows float64) {
	if n.Relation != "" {
		rows = (n.Rows + n.Removed + n.Recheck) * n.Loops
	}
	for _, p := range n.Plans {
		rows += p.read()
	}
	return rows
}

// TestPlans: what people ask reads as many rows as it may, and not as many as there are; with statistics, and without.
func TestPlans(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	const many = 4000
	var specs []ledger.TransferSpec
	for n := range many {
		specs = append(specs, ledger.TransferSpec{
			ID: ledger.TransferID(fmt.Sprintf("t-%d", n)), Entries: ledger.Simple("wallet:shimul", "wallet:shop", dec("1"), "BDT"),
			Metadata: ledger.Metadata(fmt.Sprintf(`{"order":"o-%d"}`, n)),
		})
	}
	if _, err := o.journal.Post(t.Context(), "payments", main, specs); err != nil {
		t.Fatal(err)
	}
	o.db.Exec(t, fmt.Sprintf(`INSERT INTO audit_event (ledger_id, event_id, at, actor, action, object_kind, object_id, address, outcome)
		SELECT 1, gen_random_uuid(), now() - n * interval '1 second', 'a' || n %% 3, 'x.' || n %% 3, 'transfer', 't-' || n %% 7, '', 'read' FROM generate_series(1, %d) n`, many))
	o.db.Exec(t, fmt.Sprintf(`INSERT INTO support_refund_request (ledger_id, key, original, amount, currency, expected_refunded, reason, note, ticket, maker, made_at,
			expires_at, approval, limit_version, sha256)
		SELECT 1, 'a-key-of-a-hand-' || n, 't-' || n, 1, 'BDT', 0, 'duplicate', '', '', 'p' || n %% 50, now(), now() + interval '1 minute', 'no_limit', 0, '' FROM generate_series(1, %d) n`, many))
	o.db.Exec(t, fmt.Sprintf(`INSERT INTO support_refund_decision (ledger_id, request_no, verdict, sha256, note, decided_by, decided_at)
		SELECT 1, request_no, 'reject', sha256, 'x', 'karim', now() FROM support_refund_request WHERE request_no <= %d`, many-20))
	const one = int32(1)
	now := time.Now().Add(time.Minute)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			o.db.Exec(t, "ANALYZE audit_event, support_refund_request, support_refund_decision, support_refund_outcome, support_limit")
		}
		for name, q := range map[string]struct {
			sql  string
			most float64
			args []any
		}{
			"AuditByTime":         {dbsqlc.AuditByTime, 50, []any{one, time.Time{}, now, int64(0), int32(50)}},
			"AuditByActor":        {dbsqlc.AuditByActor, 50, []any{one, "a1", time.Time{}, now, int64(0), int32(50)}},
			"AuditByAction":       {dbsqlc.AuditByAction, 50, []any{one, "x.1", time.Time{}, now, int64(0), int32(50)}},
			"AuditByObject":       {dbsqlc.AuditByObject, 50, []any{one, "transfer", "t-1", time.Time{}, now, int64(0), int32(50)}},
			"SupportRequestByKey": {dbsqlc.SupportRequestByKey, 1, []any{one, "a-key-of-a-hand-7"}},
			"SupportRequestsOf":   {dbsqlc.SupportRequestsOf, 1, []any{one, "t-7", newest, int32(50)}},
			// The request, and a look for its decision and its outcome.
			"SupportRequestsStanding": {dbsqlc.SupportRequestsStanding, 4, []any{[]string{"t-7"}, one}},
			"SupportRequestsBefore":   {dbsqlc.SupportRequestsBefore, 50, []any{one, newest, int32(50)}},
			"SupportRefunds":          {dbsqlc.SupportRefunds, 8, []any{[]int64{7, 8}, one}},
			"LookBackLedger": {dbsqlc.LookBackLedger, 50, []any{
				`{"text":"o-7","number":7}`, decimal.New(1, 0), one, int64(0), int64(math.MaxInt64), int32(50),
			}},
			"LookBackAccount": {dbsqlc.LookBackAccount, 100, []any{
				`{"text":"o-7","number":7}`, decimal.New(1, 0), one, int64(1), int64(0), int64(math.MaxInt64), int32(50),
			}},
		} {
			conn, err := o.pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var text string
			if _, err := conn.Exec(t.Context(), "SET plan_cache_mode = force_generic_plan"); err != nil {
				t.Fatal(err)
			}
			err = conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+q.sql, q.args...).Scan(&text)
			conn.Release()
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var plans []struct{ Plan planNode }
			if err := json.Unmarshal([]byte(text), &plans); err != nil {
				t.Fatal(err)
			}
			// Before autovacuum has come round, the planner takes this to be a handful of requests, and it is as long as they are few.
			if got := plans[0].Plan.read(); got > q.most && (analyzed || name != "SupportRequestsBefore") {
				t.Errorf("%s (statistics: %t) reads %v rows, want %v at most:\n%s", name, analyzed, got, q.most, text)
			}
		}
	}
}
