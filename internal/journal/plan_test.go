package journal_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

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
		"AccountsByID":           {dbsqlc.AccountsByID, []any{accountIDs, one}},
		"AccountsAsCreated":      {dbsqlc.AccountsAsCreated, []any{accountIDs, one}},
		"AccountIDs":             {dbsqlc.AccountIDs, []any{numbers, one}},
		"TransfersByID":          {dbsqlc.TransfersByID, []any{transferIDs, one}},
		"BalancesAt":             {dbsqlc.BalancesAt, []any{accountIDs, throughs, one}},
		"EntriesAscending":       {dbsqlc.EntriesAscending, []any{one, int64(1), int64(0), int16(0), int64(math.MaxInt64), int32(10)}},
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
}

func (n planNode) readInVain() float64 {
	sum := n.Loops * (n.FilterOut + n.JoinOut)
	for _, child := range n.Plans {
		sum += child.readInVain()
	}
	return sum
}
