package journal_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

// The guards of holds, their steps, refunds and reversals, tried by plain DML as in guard_test.go.

// insertKind inserts a transfer with columns given as "column=expression", separated by bars.
func insertKind(id string, columns ...string) string {
	names, values := "ledger_id, transfer_id, caller", "$main, '"+id+"', 'psql'"
	for _, column := range strings.Split(strings.Join(columns, "|"), "|") {
		name, value, _ := strings.Cut(column, "=")
		names, values = names+", "+name, values+", "+value
	}
	return "INSERT INTO transfer (" + names + ") VALUES (" + values + ")"
}

// legs are the columns of entries from the wallet to the till.
func legs(amount string) string {
	return "account_nos='{$wallet,$till}'|amounts=ARRAY[" + amount + ", -(" + amount + ")]::numeric[]"
}

// back are those of entries the other way round.
func back(amount string) string {
	return "account_nos='{$wallet,$till}'|amounts=ARRAY[-(" + amount + "), " + amount + "]::numeric[]"
}

func step(kind, origin, ordinal string) string {
	return "kind='" + kind + "'|origin='" + origin + "'|ordinal=" + ordinal
}

// setupSteps makes books with transfers that somebody may want to add wrong steps to.
func setupSteps(t *testing.T) *guarded {
	t.Helper()
	g := setupGuarded(t)
	g.account(t, "till", ledger.Liability, "BDT", nil)
	g.account(t, "fee", ledger.Revenue, "BDT", nil)
	var till, fee int64
	if err := g.super.QueryRow(t.Context(), `SELECT (SELECT account_no FROM account WHERE account_id = 'till'),
		(SELECT account_no FROM account WHERE account_id = 'fee')`).Scan(&till, &fee); err != nil {
		t.Fatal(err)
	}
	g.Close() // Or it expires what is due.
	names := g.names
	with := strings.NewReplacer("$till", fmt.Sprint(till), "$fee", fmt.Sprint(fee))
	for _, sql := range []string{
		insertKind("OPEN", legs("100"), "kind='hold'|reserved=100"),
		insertKind("PART", legs("100"), "kind='hold'|reserved=100"),
		insertKind("CAPTURED", legs("40"), step("capture", "PART", "1"), "reserved=-40"),
		insertKind("VOIDED", legs("100"), "kind='hold'|reserved=100"),
		insertKind("VOID", legs("100"), step("void", "VOIDED", "1"), "ends=true|reserved=-100"),
		insertKind("DUE", legs("100"), "kind='hold'|reserved=100|deadline=now() - interval '1 hour'"),
		insertKind("TIMED", legs("100"), "kind='hold'|reserved=100|deadline=now() + interval '1 hour'"),
		insertKind("NO", legs("100"), "kind='hold'|refusal='INSUFFICIENT_FUNDS'|refused_account_no=$wallet"),
		insertKind("PAID", "account_nos='{$wallet,$till,$fee}'|amounts='{100,-90,-10}'"),
		insertKind("REFUNDED", "account_nos='{$wallet,$till,$fee}'|amounts='{100,-90,-10}'"),
		insertKind("REFUND", "account_nos='{$till,$fee,$wallet}'|amounts='{54,6,-60}'", step("refund", "REFUNDED", "1")),
		insertKind("REVERSED", legs("100")),
		insertKind("PAIRS", "account_nos='{$wallet,$till,$cash,$fee}'|amounts='{10,-10,5,-5}'"),
		insertKind("REVERSAL", back("100"), step("reversal", "REVERSED", "1"), "ends=true"),
	} {
		if err := script(g.super, with.Replace(names.Replace(sql))); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	var pairs []string
	for _, name := range []string{"$main", "$other", "$cash", "$wallet", "$usdcash", "$usdwall", "$foreign", "$oldseq", "$refseq"} {
		pairs = append(pairs, name, names.Replace(name))
	}
	g.names = strings.NewReplacer(append(pairs, "$till", fmt.Sprint(till), "$fee", fmt.Sprint(fee))...)
	return g
}

func stepAttempts() []attempt {
	const (
		stepped  = "23514 transfer_step"
		reserved = "23514 transfer_reserved_check"
		again    = "40001"
	)
	hold := func(columns ...string) string {
		return insertKind("X", append([]string{"kind='hold'"}, columns...)...)
	}
	list := []attempt{
		// What a row says by itself.
		{name: "unknown kind", sql: insertKind("X", legs("5"), "kind='gift'"), want: "23514 transfer_kind_check"},
		{name: "empty kind", sql: insertKind("X", legs("5"), "kind=''"), want: "23514 transfer_kind_check"},
		{name: "unknown kind with an origin", sql: insertKind("X", legs("5"), step("gift", "PAID", "1")), want: "23514 transfer_kind_check"},
		{name: "plain with an origin", sql: insertKind("X", legs("5"), "origin='PAID'"), want: "23514 transfer_origin_check"},
		{name: "plain with an origin and an ordinal", sql: insertKind("X", legs("5"), "origin='PAID'|ordinal=1"), want: "23514 transfer_origin_check"},
		{name: "plain with an ordinal", sql: insertKind("X", legs("5"), "ordinal=1"), want: "23514 transfer_step_check"},
		{name: "plain that ends", sql: insertKind("X", legs("5"), "ends=true"), want: "23514 transfer_step_check"},
		{name: "plain that reserves", sql: insertKind("X", legs("5"), "reserved=5"), want: reserved},
		{name: "plain with a deadline", sql: insertKind("X", legs("5"), "deadline=now()"), want: "23514 transfer_deadline_check"},
		{name: "plain and atomic", sql: insertKind("X", legs("5"), "atomic=true"), want: "23514 transfer_atomic_check"},
		{name: "plain and not atomic", sql: insertKind("X", legs("5"), "atomic=false"), want: "23514 transfer_atomic_check"},
		{name: "hold with an origin", sql: hold(legs("5"), "reserved=5|origin='OPEN'"), want: "23514 transfer_origin_check"},
		{name: "hold with an ordinal", sql: hold(legs("5"), "reserved=5|ordinal=1"), want: "23514 transfer_step_check"},
		{name: "hold of three legs", sql: hold("reserved=5|account_nos='{$wallet,$till,$fee}'|amounts='{5,-4,-1}'"), want: "23514 transfer_pair_check"},
		{name: "hold of one account", sql: hold("reserved=5|account_nos='{$wallet,$wallet}'|amounts='{5,-5}'"), want: "23505 hold_entry_pkey"},
		{name: "hold of two currencies", sql: hold("reserved=5|account_nos='{$cash,$usdcash}'|amounts='{5,-5}'"), want: "23514 transfer_balanced"},
		{name: "hold that reserves nothing", sql: hold(legs("5")), want: reserved},
		{name: "hold that reserves more", sql: hold(legs("5"), "reserved=6"), want: reserved},
		{name: "hold that reserves less than nothing", sql: hold(legs("5"), "reserved=-5"), want: reserved},
		{name: "hold that reserves NaN", sql: hold(legs("5"), "reserved='NaN'"), want: reserved},
		{name: "hold of NaN", sql: hold("reserved='NaN'|account_nos='{$wallet,$till}'|amounts='{NaN,NaN}'"), want: "23514 transfer_balanced"},
		{name: "hold of infinity", sql: hold("reserved='Infinity'|account_nos='{$wallet,$till}'|amounts='{Infinity,-Infinity}'"), want: "23514 transfer_balanced"},
		{name: "hold finer than the currency", sql: hold(legs("0.001"), "reserved=0.001"), want: "23514 transfer_amounts"},
		{name: "hold until infinity", sql: hold(legs("5"), "reserved=5|deadline='infinity'"), want: "23514 transfer_deadline_check"},
		{name: "hold until another time than its terms say", sql: hold(legs("5"), `reserved=5|deadline='2999-01-02'|terms='{"expires_at":"2999-01-01T00:00:00Z"}'`), want: "23514 transfer_deadline_check"},
		{name: "hold for another time than its terms say", sql: hold(legs("5"), `reserved=5|posted_at=now()|deadline=now() + interval '1 hour'|terms='{"expires_after":"1h0m1s"}'`), want: "23514 transfer_deadline_check"},
		{name: "hold without the deadline of its terms", sql: hold(legs("5"), `reserved=5|terms='{"expires_at":"2999-01-01T00:00:00Z"}'`), want: "23514 transfer_deadline_check"},
		{name: "terms with the 31st of a shorter month", sql: hold(legs("5"), `reserved=5|terms='{"expires_at":"2999-02-31T00:00:00Z"}'`), want: "22008"},
		{name: "hold with a value date", sql: hold(legs("5"), "reserved=5|effective_at=now()"), want: "23514 transfer_effective_at_check"},
		{name: "refused hold that reserves", sql: hold(legs("5"), "reserved=5|refusal='INSUFFICIENT_FUNDS'|refused_account_no=$wallet"), want: reserved},
		{name: "refused hold with a deadline", sql: hold(legs("5"), "deadline=now()|refusal='INSUFFICIENT_FUNDS'|refused_account_no=$wallet"), want: "23514 transfer_deadline_check"},
		{name: "refused step with an ordinal", sql: insertKind("X", legs("5"), step("void", "OPEN", "1"), "refusal='HOLD_ENDED'"), want: "23514 transfer_step_check"},
		{name: "refused step that ends", sql: insertKind("X", legs("5"), "kind='void'|origin='OPEN'|ends=true|refusal='HOLD_ENDED'"), want: "23514 transfer_step_check"},
		{name: "refusal of an account without one", sql: insertKind("X", legs("5"), "refusal='ACCOUNT_CLOSED'"), want: "23514 transfer_refusal_check"},
		{name: "refusal of an origin with an account", sql: insertKind("X", legs("5"), "kind='void'|origin='VOIDED'|refusal='HOLD_ENDED'|refused_account_no=$wallet"), want: "23514 transfer_refusal_check"},
		{name: "unknown reason without an account", sql: insertKind("X", legs("5"), "kind='void'|origin='VOIDED'|refusal='BECAUSE'"), want: "23514 transfer_refusal_check"},
		{name: "posted and atomic", sql: insertKind("X", legs("100"), step("void", "OPEN", "1"), "ends=true|reserved=-100|atomic=true"), want: "23514 transfer_atomic_check"},

		// Steps of what cannot have them.
		{name: "capture of nothing", sql: insertKind("X", legs("5"), step("capture", "NOBODY", "1"), "reserved=-5"), want: stepped},
		{name: "refund of nothing", sql: insertKind("X", back("5"), step("refund", "NOBODY", "1")), want: stepped},
		{name: "step of itself", sql: insertKind("X", back("5"), step("refund", "X", "1")), want: stepped},
		{name: "capture without an origin", sql: insertKind("X", legs("5"), "kind='capture'|ordinal=1|reserved=-5"), want: "23514 transfer_origin_check"},
		{name: "capture of a plain transfer", sql: insertKind("X", legs("5"), step("capture", "PAID", "1"), "reserved=-5"), want: stepped},
		{name: "capture of a capture", sql: insertKind("X", legs("5"), step("capture", "CAPTURED", "1"), "reserved=-5"), want: stepped},
		{name: "void of a void", sql: insertKind("X", legs("100"), step("void", "VOID", "1"), "ends=true|reserved=-100"), want: stepped},
		{name: "refund of a hold", sql: insertKind("X", back("5"), step("refund", "OPEN", "1")), want: stepped},
		{name: "refund of a void", sql: insertKind("X", back("5"), step("refund", "VOID", "1")), want: stepped},
		{name: "refund of a refund", sql: insertKind("X", legs("5"), step("refund", "REFUND", "1")), want: stepped},
		{name: "reversal of a reversal", sql: insertKind("X", legs("100"), step("reversal", "REVERSAL", "1"), "ends=true"), want: stepped},
		{name: "capture of a refused hold", sql: insertKind("X", legs("5"), step("capture", "NO", "1"), "reserved=-5"), want: stepped},
		{name: "refund of a refused transfer", sql: insertKind("X", "account_nos='{$wallet,$cash}'|amounts='{-5,5}'", step("refund", "REFUSED", "1")), want: stepped},
		{
			name: "step of a transfer of another ledger", want: stepped,
			sql: "INSERT INTO transfer (ledger_id, transfer_id, caller, account_nos, amounts, kind, origin, ordinal) " +
				"SELECT $other, 'X', 'psql', array_agg(account_no ORDER BY account_no), '{5,-5}', 'refund', 'PAID', 1 FROM account WHERE ledger_id = $other",
		},
		{
			name: "step before its origin", want: stepped,
			sql: "WITH n AS MATERIALIZED (SELECT nextval('journal_sequence') AS first) " +
				"INSERT INTO transfer (ledger_id, transfer_id, sequence, caller, account_nos, amounts, kind, origin, ordinal) " +
				"SELECT $main, 'X', n.first + 1, 'psql', '{$wallet,$till}'::bigint[], '{5,-5}'::numeric[], NULL, NULL, NULL::integer FROM n, (SELECT nextval('journal_sequence') OFFSET 0) m " +
				"UNION ALL SELECT $main, 'Y', n.first, 'psql', '{$wallet,$till}', '{-5,5}', 'refund', 'X', 1 FROM n",
		},
		{
			name: "step before the step before it", want: stepped,
			sql: "WITH n AS MATERIALIZED (SELECT nextval('journal_sequence') AS first) " +
				"INSERT INTO transfer (ledger_id, transfer_id, sequence, caller, account_nos, amounts, kind, origin, ordinal) " +
				"SELECT $main, 'X', n.first + 1, 'psql', '{$wallet,$till}'::bigint[], '{-5,5}'::numeric[], 'refund', 'PAID', 1 FROM n, (SELECT nextval('journal_sequence') OFFSET 0) m " +
				"UNION ALL SELECT $main, 'Y', n.first, 'psql', '{$wallet,$till}', '{-5,5}', 'refund', 'PAID', 2 FROM n",
		},

		// Ordinals and ends.
		{name: "ordinal 0", sql: insertKind("X", back("5"), step("refund", "PAID", "0")), want: "23514 transfer_step_check"},
		{name: "ordinal NULL", sql: insertKind("X", back("5"), step("refund", "PAID", "NULL")), want: "23514 transfer_step_check"},
		{name: "no ordinal", sql: insertKind("X", back("5"), "kind='refund'|origin='PAID'"), want: "23514 transfer_step_check"},
		{name: "skipped ordinal", sql: insertKind("X", back("5"), step("refund", "PAID", "2")), want: stepped},
		{name: "skipped ordinal of a hold", sql: insertKind("X", legs("100"), step("void", "OPEN", "2"), "ends=true|reserved=-100"), want: stepped},
		{name: "ordinal taken", sql: insertKind("X", back("5"), step("refund", "REFUNDED", "1")), want: "23505 transfer_step_key"},
		{name: "ends false", sql: insertKind("X", legs("5"), step("capture", "OPEN", "1"), "ends=false|reserved=-5"), want: "23514 transfer_ends_check"},
		{name: "refund that ends", sql: insertKind("X", back("5"), step("refund", "PAID", "1"), "ends=true"), want: "23514 transfer_ends_check"},
		{name: "reversal that does not end", sql: insertKind("X", "account_nos='{$wallet,$till,$fee}'|amounts='{-100,90,10}'", step("reversal", "PAID", "1")), want: "23514 transfer_ends_check"},
		{name: "void that does not end", sql: insertKind("X", legs("100"), step("void", "OPEN", "1"), "reserved=-100"), want: reserved},
		{name: "second end", sql: insertKind("X", legs("100"), step("void", "VOIDED", "2"), "ends=true|reserved=-100"), want: "23505 transfer_end_key"},
		{name: "step after the end", sql: insertKind("X", legs("5"), step("capture", "VOIDED", "2"), "reserved=-5"), want: stepped},
		{name: "refund after the reversal", sql: insertKind("X", back("5"), step("refund", "REVERSED", "2")), want: stepped},
		{name: "reversal after a refund", sql: insertKind("X", "account_nos='{$wallet,$till,$fee}'|amounts='{-40,36,4}'", step("reversal", "REFUNDED", "2"), "ends=true"), want: "23514 transfer_ends_check"},

		// What a hold has.
		{name: "capture of more", sql: insertKind("X", legs("101"), step("capture", "OPEN", "1"), "reserved=-101"), want: stepped},
		{name: "capture of more, ending", sql: insertKind("X", legs("101"), step("capture", "OPEN", "1"), "ends=true|reserved=-101"), want: stepped},
		{name: "capture of more than is released", sql: insertKind("X", legs("101"), step("capture", "OPEN", "1"), "ends=true|reserved=-100"), want: reserved},
		{name: "capture of more than is left", sql: insertKind("X", legs("61"), step("capture", "PART", "2"), "reserved=-61"), want: stepped},
		{name: "capture that leaves something at its end", sql: insertKind("X", legs("50"), step("capture", "OPEN", "1"), "ends=true|reserved=-50"), want: stepped},
		{name: "capture of all without an end", sql: insertKind("X", legs("100"), step("capture", "OPEN", "1"), "reserved=-100"), want: stepped},
		{name: "capture that releases without an end", sql: insertKind("X", legs("50"), step("capture", "OPEN", "1"), "reserved=-60"), want: reserved},
		{name: "capture that reserves", sql: insertKind("X", legs("50"), step("capture", "OPEN", "1"), "reserved=50"), want: reserved},
		{name: "capture that releases NULL", sql: insertKind("X", legs("50"), step("capture", "OPEN", "1"), "reserved=NULL"), want: reserved},
		{name: "capture that releases NaN", sql: insertKind("X", legs("50"), step("capture", "OPEN", "1"), "ends=true|reserved='NaN'"), want: stepped},
		{name: "capture that releases without end", sql: insertKind("X", legs("50"), step("capture", "OPEN", "1"), "ends=true|reserved='-Infinity'"), want: stepped},
		{name: "capture the other way round", sql: insertKind("X", back("5"), step("capture", "OPEN", "1"), "reserved=-5"), want: stepped},
		{name: "capture of other accounts", sql: insertKind("X", "account_nos='{$wallet,$fee}'|amounts='{5,-5}'", step("capture", "OPEN", "1"), "reserved=-5"), want: stepped},
		{name: "capture of turned accounts", sql: insertKind("X", "account_nos='{$till,$wallet}'|amounts='{-5,5}'", step("capture", "OPEN", "1"), "reserved=-5"), want: stepped},
		{name: "capture of four legs", sql: insertKind("X", "account_nos='{$wallet,$wallet,$till,$till}'|amounts='{3,2,-3,-2}'", step("capture", "OPEN", "1"), "reserved=-5"), want: "23514 transfer_pair_check"},
		{name: "void of less", sql: insertKind("X", legs("50"), step("void", "OPEN", "1"), "ends=true|reserved=-50"), want: stepped},
		{name: "void of more than is left", sql: insertKind("X", legs("100"), step("void", "PART", "2"), "ends=true|reserved=-100"), want: stepped},
		{name: "void of other accounts", sql: insertKind("X", "account_nos='{$cash,$till}'|amounts='{100,-100}'", step("void", "OPEN", "1"), "ends=true|reserved=-100"), want: stepped},
		{name: "void with a value date", sql: insertKind("X", legs("100"), step("void", "OPEN", "1"), "ends=true|reserved=-100|effective_at=now()"), want: "23514 transfer_effective_at_check"},
		{
			name: "two captures of one statement", want: stepped,
			sql: "INSERT INTO transfer (ledger_id, transfer_id, caller, account_nos, amounts, kind, origin, ordinal, reserved) VALUES " +
				"($main, 'X', 'psql', '{$wallet,$till}', '{60,-60}', 'capture', 'OPEN', 1, -60), " +
				"($main, 'Y', 'psql', '{$wallet,$till}', '{60,-60}', 'capture', 'OPEN', 2, -60)",
		},

		// Deadlines.
		{name: "capture after the deadline", sql: insertKind("X", legs("100"), step("capture", "DUE", "1"), "ends=true|reserved=-100"), want: again},
		{name: "expiry before the deadline", sql: insertKind("X", legs("100"), step("expiry", "TIMED", "1"), "ends=true|reserved=-100"), want: again},
		{name: "expiry without a deadline", sql: insertKind("X", legs("100"), step("expiry", "OPEN", "1"), "ends=true|reserved=-100"), want: again},
		{name: "capture refused before the deadline", sql: insertKind("X", legs("100"), "kind='capture'|origin='TIMED'|refusal='HOLD_EXPIRED'"), want: again},
		{name: "capture refused without a deadline", sql: insertKind("X", legs("100"), "kind='capture'|origin='OPEN'|refusal='HOLD_EXPIRED'"), want: again},
		{name: "hold refused before its deadline", sql: hold(legs("5"), `refusal='HOLD_EXPIRED'|terms='{"expires_at":"2999-01-01T00:00:00Z"}'`), want: again},
		{name: "hold refused without a deadline", sql: hold(legs("5"), "refusal='HOLD_EXPIRED'"), want: again},

		// What goes back.
		{name: "refund of more", sql: insertKind("X", "account_nos='{$wallet,$till,$fee}'|amounts='{-101,90,11}'", step("refund", "PAID", "1")), want: stepped},
		{name: "refund of more than is left", sql: insertKind("X", "account_nos='{$wallet,$till,$fee}'|amounts='{-41,36.9,4.1}'", step("refund", "REFUNDED", "2")), want: stepped},
		{name: "refund of too much of one account", sql: insertKind("X", "account_nos='{$wallet,$fee}'|amounts='{-20,20}'", step("refund", "PAID", "1")), want: stepped},
		{name: "second refund of too much of one account", sql: insertKind("X", "account_nos='{$wallet,$fee}'|amounts='{-5,5}'", step("refund", "REFUNDED", "2")), want: stepped},
		{name: "refund to another account", sql: insertKind("X", "account_nos='{$cash,$till}'|amounts='{-5,5}'", step("refund", "PAID", "1")), want: stepped},
		{name: "refund from another account", sql: insertKind("X", "account_nos='{$wallet,$cash}'|amounts='{-5,5}'", step("refund", "PAID", "1")), want: stepped},
		{name: "refund to its payer and others", sql: insertKind("X", "account_nos='{$wallet,$cash,$till}'|amounts='{-5,-5,10}'", step("refund", "PAID", "1")), want: stepped},
		{name: "refund past another account", sql: insertKind("X", "account_nos='{$wallet,$till,$cash,$cash}'|amounts='{-5,5,7,-7}'", step("refund", "PAID", "1")), want: stepped},
		{name: "refund forwards", sql: insertKind("X", legs("5"), step("refund", "PAID", "1")), want: stepped},
		{name: "refund that takes back an earlier one", sql: insertKind("X", legs("5"), step("refund", "REFUNDED", "2")), want: stepped},
		{name: "refund that goes to and fro", sql: insertKind("X", "account_nos='{$wallet,$wallet,$till}'|amounts='{-15,5,10}'", step("refund", "PAID", "1")), want: stepped},
		{name: "refund that goes fro and to", sql: insertKind("X", "account_nos='{$wallet,$till,$till}'|amounts='{-5,7,-2}'", step("refund", "PAID", "1")), want: stepped},
		{name: "reversal of one pair of two", sql: insertKind("X", "account_nos='{$wallet,$till}'|amounts='{-10,10}'", step("reversal", "PAIRS", "1"), "ends=true"), want: stepped},
		{name: "refund that reserves", sql: insertKind("X", back("5"), step("refund", "PAID", "1"), "reserved=5"), want: reserved},
		{name: "reversal of less", sql: insertKind("X", "account_nos='{$wallet,$till,$fee}'|amounts='{-90,81,9}'", step("reversal", "PAID", "1"), "ends=true"), want: stepped},
		{name: "reversal without the fee", sql: insertKind("X", "account_nos='{$wallet,$till}'|amounts='{-90,90}'", step("reversal", "PAID", "1"), "ends=true"), want: stepped},
		{name: "reversal of a reversed one", sql: insertKind("X", back("100"), step("reversal", "REVERSED", "1"), "ends=true"), want: "23505 transfer_step_key"},
		{
			name: "two refunds of one statement", want: stepped,
			sql: "INSERT INTO transfer (ledger_id, transfer_id, caller, account_nos, amounts, kind, origin, ordinal) VALUES " +
				"($main, 'X', 'psql', '{$wallet,$till}', '{-60,60}', 'refund', 'PAID', 1), ($main, 'Y', 'psql', '{$wallet,$till}', '{-60,60}', 'refund', 'PAID', 2)",
		},

		// Tables that follow from the journal.
		{name: "INSERT into hold_entry", sql: "INSERT INTO hold_entry VALUES ($main, $wallet, 1, 5, 0)", want: denied},
		{name: "INSERT into hold_snapshot", sql: "INSERT INTO hold_snapshot VALUES ($main, $wallet, 1, 5, 0)", want: denied},
		{name: "INSERT into open_hold", sql: "INSERT INTO open_hold VALUES ($main, 1, $wallet, $till, NULL)", want: denied},
		{name: "COPY into open_hold", sql: "COPY open_hold FROM STDIN", copy: "$main\t1\t$wallet\t$till\t\\N\n", want: denied},
		{name: "COPY into hold_entry", sql: "COPY hold_entry FROM STDIN", copy: "$main\t$wallet\t1\t5\t0\n", want: denied},
	}
	for what, terms := range map[string]string{
		"an array": `[]`, "a string": `"x"`, "null": `null`, "an amount that is a number": `{"amount":5}`, "an amount that is none": `{"amount":"five"}`,
		"an exponent": `{"amount":"1e400000000"}`, "an unknown field": `{"gift":true}`, "a field twice": `{"amount":"5","amount":"6"}`,
		"balancing false": `{"balancing":false}`, "a deadline that is none": `{"expires_at":"tomorrow"}`, "a month 13": `{"expires_at":"2026-13-01T00:00:00Z"}`,
		"a duration that is none": `{"expires_after":"1 day"}`, "conditions that are none": `{"conditions":{}}`, "no conditions": `{"conditions":[]}`,
		"a condition of nothing": `{"conditions":[{"account":"wallet"}]}`, "a condition that is null": `{"conditions":[null]}`,
		"a version that is a string": `{"conditions":[{"account":"wallet","version":"5"}]}`, "a version past all": `{"conditions":[{"account":"wallet","version":9223372036854775808}]}`, "a version with decimals": `{"conditions":[{"account":"wallet","version":5.5}]}`,
		"a balance that is a number": `{"conditions":[{"account":"wallet","balance":5}]}`, "a reason that is none": `{"reason":null}`,
	} {
		list = append(list, attempt{name: "terms are " + what, sql: hold(legs("5"), "reserved=5|terms='"+terms+"'"), want: "23514 transfer_terms_check"})
	}
	for _, table := range []struct{ name, column string }{{"hold_entry", "debit"}, {"hold_snapshot", "debit"}, {"open_hold", "deadline"}} {
		list = append(list,
			attempt{name: "UPDATE " + table.name, sql: "UPDATE " + table.name + " SET " + table.column + " = " + table.column, want: denied},
			attempt{name: "DELETE from " + table.name, sql: "DELETE FROM " + table.name, want: denied},
			attempt{name: "DELETE of no row of " + table.name, sql: "DELETE FROM " + table.name + " WHERE false", want: denied},
			attempt{name: "TRUNCATE " + table.name, sql: "TRUNCATE " + table.name, want: denied},
		)
	}
	return list
}

func TestGuards_StepsByPlainDML(t *testing.T) {
	t.Parallel()
	for name, who := range map[string]struct {
		dsn   func(*bench) string
		first string
	}{
		"service":   {dsn: func(b *bench) string { return b.db.ServiceDSN() }},
		"owner":     {dsn: func(b *bench) string { return b.db.OwnerDSN() }},
		"superuser": {dsn: func(b *bench) string { return b.db.SuperDSN() }},
		"replica":   {dsn: func(b *bench) string { return b.db.SuperDSN() }, first: "SET session_replication_role = replica"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := setupSteps(t)
			conn := guardConn(t, who.dsn(g.bench), "")
			if err := script(conn, who.first); err != nil {
				t.Fatal(err)
			}
			before := g.fingerprint(t)
			for _, a := range stepAttempts() {
				t.Run(a.name, func(t *testing.T) {
					err := g.try(conn, a)
					if got := refusedWith(err); got != a.want {
						t.Errorf("%s, want %s (%v)", got, a.want, err)
					}
					if after := g.fingerprint(t); after != before {
						t.Errorf("the books have changed:\nbefore %s\nafter  %s", before, after)
						before = after
					}
				})
			}
			// What is right is let through, by the same columns.
			for _, sql := range []string{
				insertKind("R1", legs("60"), step("capture", "PART", "2"), "ends=true|reserved=-60"),
				insertKind("R2", legs("30"), step("capture", "TIMED", "1"), "ends=true|reserved=-100"),
				insertKind("R3", legs("100"), step("expiry", "DUE", "1"), "ends=true|reserved=-100"),
				insertKind("R4", legs("100"), step("void", "OPEN", "1"), "ends=true|reserved=-100"),
				insertKind("R5", "account_nos='{$wallet,$till,$fee}'|amounts='{-40,36,4}'", step("refund", "REFUNDED", "2"),
					`terms='{"amount":"40","expected_refunded":"60.00","reason":"goodwill"}'`),
				insertKind("R6", "account_nos='{$wallet,$till,$fee}'|amounts='{-100,90,10}'", step("reversal", "PAID", "1"), "ends=true"),
				insertKind("R7", back("40"), step("refund", "CAPTURED", "1")),
				insertKind("R8", legs("5"), "kind='void'|origin='VOIDED'|refusal='HOLD_ENDED'"),
				insertKind("R9", legs("5"), "kind='capture'|origin='UNDONE'|refusal='HOLD_EXPIRED'|atomic=true"),
				insertKind("R10", legs("5"), `terms='{"conditions":[{"account":"wallet","balance":"-5.10","version":7},{"account":"till","version":0}]}'`),
				insertKind("R11", legs("5"), `kind='hold'|reserved=5|posted_at=now()|deadline=now() + interval '90 min'|terms='{"expires_after":"1h30m0s"}'`),
			} {
				if err := g.try(conn, attempt{sql: sql}); err != nil {
					t.Errorf("%s: %v", sql, err)
				}
			}
			if n := read[int64](t, &rawConn{Conn: g.super}, "SELECT count(*) FROM open_hold"); n != 1 {
				t.Errorf("%d holds are open", n)
			}
			if held := read[string](t, &rawConn{Conn: g.super}, "SELECT sum(debit) || ' ' || sum(credit) FROM hold_entry"); held != "5 5" {
				t.Errorf("held: %s", held)
			}
		})
	}
}

// Of two sessions that add a step at once, whatever they believe its place to be, one gets it.
func TestGuards_StepsAtOnce(t *testing.T) {
	t.Parallel()
	refund := func(id, ordinal string) string {
		return insertKind(id, back("60"), step("refund", "OLD2", ordinal))
	}
	for _, isolation := range []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
		for _, c := range []struct{ name, first, second, want string }{
			{"both the first", refund("A", "1"), refund("B", "1"), "23505 transfer_step_key"},
			{"one the second", refund("A", "1"), refund("B", "2"), "23514 transfer_step"},
			{"a refund and the reversal", refund("A", "1"), insertKind("B", back("100"), step("reversal", "OLD2", "1"), "ends=true"), "23505 transfer_step_key"},
			{
				"two ends", insertKind("A", legs("100"), step("void", "OPEN", "1"), "ends=true|reserved=-100"),
				insertKind("B", legs("100"), step("capture", "OPEN", "1"), "ends=true|reserved=-100"), "23505 transfer_step_key",
			},
			{
				"two ends with places of their own", insertKind("A", legs("100"), step("void", "OPEN", "1"), "ends=true|reserved=-100"),
				insertKind("B", legs("100"), step("capture", "OPEN", "2"), "ends=true|reserved=-100"), "23505 transfer_end_key",
			},
		} {
			t.Run(isolation+" "+c.name, func(t *testing.T) {
				t.Parallel()
				g := setupSteps(t)
				if err := g.try(g.super, attempt{sql: insertKind("OLD2", legs("100"))}); err != nil {
					t.Fatal(err)
				}
				first, second := guardConn(t, g.db.ServiceDSN(), ""), guardConn(t, g.db.ServiceDSN(), "")
				begin := "BEGIN ISOLATION LEVEL " + isolation + "; SELECT count(*) FROM transfer"
				if err := script(first, begin); err != nil {
					t.Fatal(err)
				}
				if err := script(second, begin); err != nil {
					t.Fatal(err)
				}
				if err := g.try(first, attempt{sql: c.first}); err != nil {
					t.Fatal(err)
				}
				answer := make(chan error, 1)
				go func() {
					err := g.try(second, attempt{sql: c.second})
					if err == nil {
						err = script(second, "COMMIT")
					}
					answer <- err
				}()
				time.Sleep(100 * time.Millisecond) // For the second one to wait, if it does.
				if err := script(first, "COMMIT"); err != nil {
					t.Fatal(err)
				}
				got := refusedWith(<-answer)
				// Where a snapshot is kept, PostgreSQL may say that instead.
				if got != c.want && (isolation == "READ COMMITTED" || got != "40001") {
					t.Errorf("%s, want %s", got, c.want)
				}
			})
		}
	}
}
