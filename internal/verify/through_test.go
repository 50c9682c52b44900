package verify_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/verify"
)

// What the guards of the database let through by plain DML, whatever is in its columns, must not look wrong here: whoever can break
// the books past them has found a hole. Not guarded are the rules that need the state of an account, whether a refusal was right, and
// what terms say beside the deadline.
func TestRun_LetThrough(t *testing.T) {
	t.Parallel()
	const tries = 1000
	b := newBooks(t)
	b.close()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, b.db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(ctx, "SET khata.schema = '0007'"); err != nil {
		t.Fatal(err)
	}
	var nos [3]int64
	for i, id := range []string{"a", "b", "c"} {
		if err := conn.QueryRow(ctx, `INSERT INTO account (ledger_id, account_id, type, currency, scale, changed_by)
			VALUES (1, $1, 'liability', 'BDT', 2, 'psql') RETURNING account_no`, id).Scan(&nos[i]); err != nil {
			t.Fatal(err)
		}
	}
	names := strings.NewReplacer("$a", fmt.Sprint(nos[0]), "$b", fmt.Sprint(nos[1]), "$c", fmt.Sprint(nos[2]))
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // It is no secret.
	t.Logf("seed %d", seed)

	columns := map[string][]string{
		"kind":               {"NULL", "'hold'", "'capture'", "'void'", "'expiry'", "'refund'", "'reversal'", "'gift'", "''"},
		"origin":             {"NULL", "'H'", "'P'", "'HELD'", "'PAID'", "'nobody'", "'X'", "''"},
		"ordinal":            {"NULL", "-1", "0", "1", "2", "3"},
		"ends":               {"NULL", "true", "false"},
		"reserved":           {"NULL", "10", "-10", "5", "-5", "-4", "'NaN'", "'Infinity'", "'-Infinity'", "-10.001", "0"},
		"deadline":           {"NULL", "now() + interval '1 h'", "now() - interval '1 h'", "'infinity'"},
		"posted_at":          {"now()", "'infinity'", "now() - interval '2 h'", "now() + interval '2 h'"},
		"effective_at":       {"NULL", "now()", "'infinity'"},
		"terms":              {"NULL", "'{}'", "'[]'", "'null'", `'{"expires_at":"2030-01-01T00:00:00Z"}'`, `'{"expires_after":"1s"}'`},
		"atomic":             {"NULL", "true", "false"},
		"refusal":            {"NULL", "'HOLD_ENDED'", "'INSUFFICIENT_FUNDS'", "'HOLD_EXPIRED'", "''"},
		"refused_account_no": {"NULL", "$a", "$c"},
		"account_nos":        {"'{$a,$b}'", "'{$b,$a}'", "'{$a,$c}'", "'{$a,$a}'", "'{$a,$b,$c}'", "'{$a,$b,$b}'"},
		"amounts": {
			"'{10,-10}'", "'{-10,10}'", "'{5,-5}'", "'{-5,5}'", "'{11,-11}'", "'{10,-7,-3}'", "'{-10,7,3}'", "'{-5,3.5,1.5}'", "'{-9,5,4}'",
			"'{NaN,NaN}'", "'{0,0}'", "'{Infinity,-Infinity}'", "'{0.001,-0.001}'",
		},
	}
	// A column of accounts and one of amounts seldom fit each other by chance.
	together := []string{
		"'{$a,$b}' '{5,-5}'", "'{$a,$b}' '{-5,5}'", "'{$a,$b}' '{-10,10}'", "'{$a,$b}' '{11,-11}'", "'{$a,$c}' '{-3,3}'", "'{$a,$c}' '{-5,5}'", "'{$b,$a}' '{-4,4}'",
		"'{$b,$a}' '{4,-4}'", "'{$a,$b,$c}' '{-4,3,1}'", "'{$a,$b,$c}' '{-5,1,4}'", "'{$a,$b,$c}' '{5,-3.5,-1.5}'", "'{$a,$a,$b,$c}' '{-6,-4,7,3}'",
		"'{$a,$a,$b}' '{-6,1,5}'", "'{$a,$b,$b}' '{-5,7,-2}'", "'{$a,$a,$b,$b}' '{6,-1,-6,1}'",
	}
	var order []string
	for name := range columns {
		order = append(order, name)
	}
	// H and P have no steps yet, HELD and PAID have one.
	bases := []map[string]string{
		{"account_nos": "'{$a,$b}'", "amounts": "'{10,-10}'"},
		{"kind": "'hold'", "reserved": "10", "account_nos": "'{$a,$b}'", "amounts": "'{10,-10}'"},
		{"kind": "'capture'", "origin": "'H'", "ordinal": "1", "reserved": "-10", "ends": "true", "account_nos": "'{$a,$b}'", "amounts": "'{10,-10}'"},
		{"kind": "'capture'", "origin": "'HELD'", "ordinal": "2", "reserved": "-4", "account_nos": "'{$a,$b}'", "amounts": "'{4,-4}'"},
		{"kind": "'void'", "origin": "'H'", "ordinal": "1", "reserved": "-10", "ends": "true", "account_nos": "'{$a,$b}'", "amounts": "'{10,-10}'"},
		{"kind": "'void'", "origin": "'HELD'", "ordinal": "2", "reserved": "-5", "ends": "true", "account_nos": "'{$a,$b}'", "amounts": "'{5,-5}'"},
		{"kind": "'expiry'", "origin": "'H'", "ordinal": "1", "reserved": "-10", "ends": "true", "account_nos": "'{$a,$b}'", "amounts": "'{10,-10}'"},
		{"kind": "'refund'", "origin": "'P'", "ordinal": "1", "account_nos": "'{$a,$b,$c}'", "amounts": "'{-5,3.5,1.5}'"},
		{"kind": "'refund'", "origin": "'PAID'", "ordinal": "2", "account_nos": "'{$a,$b,$c}'", "amounts": "'{-5,3.5,1.5}'"},
		{"kind": "'reversal'", "origin": "'P'", "ordinal": "1", "ends": "true", "account_nos": "'{$a,$b,$c}'", "amounts": "'{-10,7,3}'"},
	}
	insert := func(id string, row map[string]string, suffix string) error {
		list, values := "ledger_id, transfer_id, caller", "1, '"+id+suffix+"', 'psql'"
		for name, value := range row {
			if name == "origin" && value != "NULL" && value != "''" {
				value = strings.TrimSuffix(value, "'") + suffix + "'"
			}
			list, values = list+", "+name, values+", "+names.Replace(value)
		}
		_, err := conn.PgConn().Exec(ctx, "INSERT INTO transfer ("+list+") VALUES ("+values+")").ReadAll()
		return err
	}
	deadlines := []string{"NULL", "now() - interval '1 h'", "now() + interval '1 h'"}
	passed := map[string]int{}
	for i := range tries {
		suffix := fmt.Sprintf("-%d", i)
		if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(ctx, strings.ReplaceAll(names.Replace(`INSERT INTO transfer
			(ledger_id, caller, transfer_id, account_nos, amounts, kind, origin, ordinal, reserved, deadline) VALUES
			(1, 'psql', 'H#', '{$a,$b}', '{10,-10}', 'hold', NULL, NULL, 10, `+deadlines[random.IntN(3)]+`),
			(1, 'psql', 'P#', '{$a,$b,$c}', '{10,-7,-3}', NULL, NULL, NULL, NULL, NULL),
			(1, 'psql', 'HELD#', '{$a,$b}', '{10,-10}', 'hold', NULL, NULL, 10, NULL),
			(1, 'psql', 'HELD1#', '{$a,$b}', '{5,-5}', 'capture', 'HELD#', 1, -5, NULL),
			(1, 'psql', 'PAID#', '{$a,$b,$c}', '{10,-7,-3}', NULL, NULL, NULL, NULL, NULL),
			(1, 'psql', 'PAID1#', '{$a,$b,$c}', '{-5,3.5,1.5}', 'refund', 'PAID#', 1, NULL, NULL)`), "#", suffix)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(ctx, "SAVEPOINT tried"); err != nil {
			t.Fatal(err)
		}
		row := map[string]string{}
		for name, value := range bases[random.IntN(len(bases))] {
			row[name] = value
		}
		for range random.IntN(4) {
			if random.IntN(3) == 0 {
				legs := strings.Fields(together[random.IntN(len(together))])
				row["account_nos"], row["amounts"] = legs[0], legs[1]
				continue
			}
			name := order[random.IntN(len(order))]
			row[name] = columns[name][random.IntN(len(columns[name]))]
		}
		if err := insert("X", row, suffix); err != nil {
			if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		passed[row["kind"]]++
		if _, err := conn.Exec(ctx, "COMMIT"); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("let through: %v", passed)
	report, err := verify.Run(ctx, b.db.SuperDSN(), verify.Options{MaxBreaches: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	// A capture or refund says in its terms for how much it is, or is for all that is left.
	for _, c := range report.Checks {
		if c.Name == "refusals" {
			continue
		}
		said := 0
		for _, breach := range c.Breaches {
			what := breach.Detail
			for _, unguarded := range []string{"captures ", "keeps open ", "is for ", "an account is on both sides", "its terms are those of another kind"} {
				if i := strings.Index(what, unguarded); i >= 0 {
					end := strings.Index(what[i:]+"; ", "; ")
					what = strings.Trim(strings.Replace(what, (what + "; ")[i:i+end], "", 1), "; ")
				}
			}
			if what == "" {
				continue
			}
			if said++; said > 10 {
				break
			}
			var text string
			_ = conn.QueryRow(ctx, "SELECT t::text FROM transfer t WHERE transfer_id = $1", breach.TransferID).Scan(&text)
			t.Errorf("%s: %s: %s\n%s", c.Name, breach.TransferID, breach.Detail, text)
		}
	}
}
