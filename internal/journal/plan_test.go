package journal_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// TestPlans: no query of the hot paths may read rows that it does not want. Without statistics some would, since the planner
// then takes a ledger to have a row or two; so the server sees to them, long before autovacuum comes round.
func TestPlans(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 500
	var accounts []ledger.AccountSpec
	var specs []ledger.TransferSpec
	var accountIDs, transferIDs []string
	var throughs, numbers []int64
	for i := range n {
		id := fmt.Sprintf("a%d", i)
		accounts = append(accounts, ledger.AccountSpec{ID: ledger.AccountID(id), Type: ledger.Asset, Currency: "BDT", Serialised: i%2 == 0})
		specs = append(specs, move(fmt.Sprintf("t%d", i), "a0", ledger.AccountID(fmt.Sprintf("a%d", 1+i%(n-1))), "1"))
		if i%10 == 0 {
			accountIDs, transferIDs = append(accountIDs, id), append(transferIDs, fmt.Sprintf("t%d", i))
			throughs, numbers = append(throughs, math.MaxInt64), append(numbers, int64(i))
		}
	}
	if _, err := b.CreateAccounts(t.Context(), "local", main, accounts); err != nil {
		t.Fatal(err)
	}
	if results, err := b.Post(t.Context(), "local", main, specs); err != nil || describe(results[n-1]) != "posted" {
		t.Fatal(results[n-1].Err, err)
	}
	b.closePeriod(t, month(2))
	b.closePeriod(t, month(3))
	for analyzed := false; !analyzed; {
		if err := b.pool.QueryRow(t.Context(), `SELECT bool_and(reltuples > 0) FROM pg_class WHERE relname IN ('account', 'transfer', 'entry')`).Scan(&analyzed); err != nil {
			t.Fatal(err)
		}
	}
	const one = int32(1) // the number of ledger main
	for name, q := range map[string]struct {
		sql  string
		args []any
	}{
		"AccountsLockSerialised": {dbsqlc.AccountsLockSerialised, []any{accountIDs, one}},
		"AccountsForPosting":     {dbsqlc.AccountsForPosting, []any{accountIDs, one}},
		"LastAccountChange":      {dbsqlc.LastAccountChange, []any{one}},
		"PeriodInForce":          {dbsqlc.PeriodInForce, []any{one}},
		"PeriodChangeList":       {dbsqlc.PeriodChangeList, []any{one, int64(math.MaxInt64), int32(1)}},
		"EntriesSince":           {dbsqlc.EntriesSince, []any{numbers, numbers, one}},
		"AccountsByID":           {dbsqlc.AccountsByID, []any{accountIDs, one}},
		"AccountsAsCreated":      {dbsqlc.AccountsAsCreated, []any{accountIDs, one}},
		"AccountIDs":             {dbsqlc.AccountIDs, []any{numbers, one}},
		"TransfersByID":          {dbsqlc.TransfersByID, []any{transferIDs, one}},
		"BalancesAt":             {dbsqlc.BalancesAt, []any{accountIDs, throughs, one}},
		"SumThrough":             {dbsqlc.SumThrough, []any{one, int64(1), int64(math.MaxInt64), int16(1)}},
		"LedgersDue":             {dbsqlc.LedgersDue, []any{int64(math.MaxInt64), int64(0)}},
		"MarkBehind":             {dbsqlc.MarkBehind, []any{one, int64(1)}},
		"StretchesAround":        {dbsqlc.StretchesAround, []any{one, time.Now(), int64(math.MaxInt64)}},
		"BalancesByTime": {dbsqlc.BalancesByTime, []any{
			accountIDs, int64(n), time.Now(), true, int64(math.MaxInt64), []int64{int64(n)}, []int64{math.MaxInt64}, one,
		}},
		"PeriodAccounts": {dbsqlc.PeriodAccounts, []any{
			one, "", "", "\x7f", "", "", "", int32(10), time.Now().Add(-time.Hour), time.Now(), true, int64(math.MaxInt64), int64(n / 2), int64(n),
			[]int64{int64(n / 2)}, []int64{int64(n/2 + 10)}, []int64{int64(n)}, []int64{math.MaxInt64}, []int64{int64(n/2 + 10)}, []int64{int64(n)},
			[]int64{int64(n / 2)}, []int64{int64(n/2 + 10)},
		}},
		"PeriodEntries": {dbsqlc.PeriodEntries, []any{
			numbers, time.Now().Add(-time.Hour), time.Now(), false, int64(math.MaxInt64), one, []time.Time{time.Now()}, []int64{0}, []int64{math.MaxInt64}, int64(0),
		}},
		"PeriodDays": {dbsqlc.PeriodDays, []any{
			numbers, time.Now().Add(-time.Hour), time.Now(), false, int64(math.MaxInt64), one, []time.Time{time.Now()}, []int64{0}, []int64{math.MaxInt64}, int64(0),
		}},
		"NewestEntries":     {dbsqlc.NewestEntries, []any{one, int64(1), int64(math.MaxInt64), int64(math.MaxInt64), int16(math.MaxInt16), int32(10)}},
		"FeedTransfers":     {dbsqlc.FeedTransfers, []any{one, int64(n / 2), int64(math.MaxInt64), int32(10), int64(1 << 20)}},
		"FeedTransfersAt":   {dbsqlc.FeedTransfersAt, []any{numbers, one}},
		"FeedChanges":       {dbsqlc.FeedChanges, []any{one, int64(n / 2), int64(math.MaxInt64), int32(10)}},
		"TransfersMoved":    {dbsqlc.TransfersMoved, []any{one, int64(n / 2), int64(math.MaxInt64), int32(10)}},
		"LedgersMovedAfter": {dbsqlc.LedgersMovedAfter, []any{[]int32{one}, []int64{n / 2}}},
		"LedgersAfter":      {dbsqlc.LedgersAfter, []any{[]int32{one}, []int64{n / 2}}},
		"MarkSince":         {dbsqlc.MarkSince, []any{one, time.Now(), int32(10)}},
		"EntriesAscending":  {dbsqlc.EntriesAscending, []any{one, int64(1), int64(0), int16(0), int64(math.MaxInt64), int32(10)}},
		"EntriesDescending": {dbsqlc.EntriesDescending, []any{
			one, int64(1), int64(math.MaxInt64), int16(math.MaxInt16), int64(math.MaxInt64), int32(10),
		}},
	} {
		var text string
		// Rolled back: AccountsLockSerialised locks.
		err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
			return tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+q.sql, q.args...).Scan(&text)
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var plans []struct{ Plan planNode }
		if err := json.Unmarshal([]byte(text), &plans); err != nil {
			t.Fatal(err)
		}
		// A sort reads everything, and nothing of it in vain.
		if found := plans[0].Plan.scanned("account_change", "period_change"); len(found) > 0 && name != "FeedChanges" && name != "LedgersAfter" {
			t.Errorf("%s reads all of %v:\n%s", name, found, text)
		}
		// Half of the accounts asked for are not serialised; that is all that may be read in vain.
		if read := plans[0].Plan.readInVain(); read > float64(len(accountIDs)) {
			t.Errorf("%s reads %.0f rows in vain:\n%s", name, read, text)
		}
	}
}

type planNode struct {
	NodeType     string     `json:"Node Type"`
	Loops        float64    `json:"Actual Loops"`
	FilterOut    float64    `json:"Rows Removed by Filter"`
	JoinOut      float64    `json:"Rows Removed by Join Filter"`
	Plans        []planNode `json:"Plans"`
	RelationName string     `json:"Relation Name"`
	Rows         float64    `json:"Actual Rows"`
	Hit          float64    `json:"Shared Hit Blocks"`
	Read         float64    `json:"Shared Read Blocks"`
}

// scanned lists which of these tables were read from one end to the other.
func (n planNode) scanned(tables ...string) (found []string) {
	if slices.Contains(tables, n.RelationName) && n.Loops > 0 && n.NodeType == "Seq Scan" {
		found = append(found, n.RelationName)
	}
	for _, child := range n.Plans {
		found = append(found, child.scanned(tables...)...)
	}
	return found
}

func (n planNode) readInVain() float64 {
	sum := n.Loops * (n.FilterOut + n.JoinOut)
	for _, child := range n.Plans {
		sum += child.readInVain()
	}
	return sum
}

// TestPlans_BalanceIsFlat: what a balance costs does not depend on how many entries an account has, now and as of any point, with
// statistics and without.
func TestPlans_BalanceIsFlat(t *testing.T) {
	t.Parallel()
	for _, analyzed := range []bool{false, true} {
		t.Run(fmt.Sprintf("analyzed=%v", analyzed), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var specs []ledger.AccountSpec
			for _, id := range []string{"large", "other", "small", "tiny"} {
				specs = append(specs, ledger.AccountSpec{ID: ledger.AccountID(id), Type: ledger.Asset, Currency: "BDT"})
			}
			if _, err := b.CreateAccounts(t.Context(), "local", main, specs); err != nil {
				t.Fatal(err)
			}
			service, owner := b.raw(t), rawAs(t, b.db.OwnerDSN())
			if !analyzed { // Nor is it by autovacuum meanwhile.
				for _, table := range []string{"account", "transfer", "entry", "snapshot", "mark"} {
					owner.do(t, "ALTER TABLE "+table+" SET (autovacuum_enabled = off)")
				}
			}
			insert := func(what, debit, credit string, n int) {
				service.do(t, fmt.Sprintf(`INSERT INTO transfer (ledger_id, transfer_id, account_nos, amounts, caller)
					SELECT 1, '%s' || i, ARRAY[d.account_no, c.account_no], ARRAY[1, -1], 'local'
					  FROM generate_series(1, %d) i, account d, account c WHERE d.account_id = '%s' AND c.account_id = '%s'`, what, n, debit, credit))
			}
			entries := storm(40_000, 200_000)
			insert("s", "small", "tiny", 100)
			insert("l", "large", "other", entries)
			insert("t", "small", "tiny", 100)
			watcher := rawAs(t, b.db.SuperDSN())
			watcher.await(t, "NOT EXISTS (SELECT FROM next_marks(1, (SELECT pg_sequence_last_value('journal_sequence')), 1))")
			if analyzed {
				owner.do(t, "VACUUM ANALYZE")
			}
			middle := read[int64](t, watcher, "SELECT last_value / 2 FROM journal_sequence")
			const one = int32(1)
			for _, through := range []int64{math.MaxInt64, middle} {
				for _, q := range []struct {
					name, sql string
					args      func(account string) []any
					most      float64 // buffers
				}{
					{"BalancesAt", dbsqlc.BalancesAt, func(account string) []any {
						return []any{[]string{account}, []int64{through}, one}
					}, 60},
					{"BalancesByTime", dbsqlc.BalancesByTime, func(account string) []any {
						return []any{[]string{account}, through - 256, time.Now(), true, through, []int64{through - 256}, []int64{through}, one}
						// The transfers of a stretch are looked up one by one.
					}, 1300},
				} {
					var buffers []float64
					for _, account := range []string{"small", "large"} {
						var text string
						if err := b.pool.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+q.sql, q.args(account)...).Scan(&text); err != nil {
							t.Fatal(err)
						}
						var plans []struct{ Plan planNode }
						if err := json.Unmarshal([]byte(text), &plans); err != nil {
							t.Fatal(err)
						}
						plan := plans[0].Plan
						buffers = append(buffers, plan.Hit+plan.Read)
						if scanned := plan.scanned("entry", "snapshot", "transfer"); len(scanned) > 0 {
							t.Errorf("%s of %s scans %v:\n%s", q.name, account, scanned, text)
						}
					}
					if buffers[1] > q.most {
						t.Errorf("%s through %d reads %.0f buffers for an account of %d entries, %.0f for one of 200", q.name, through, buffers[1], entries, buffers[0])
					}
					t.Logf("%s through %d: %.0f buffers for 200 entries, %.0f for %d", q.name, through, buffers[0], buffers[1], entries)
				}
			}
		})
	}
}
