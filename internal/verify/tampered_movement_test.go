package verify_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/pgtest"
)

// insertKind inserts a transfer by plain DML, with more columns.
func insertKind(id, debit, credit, amount, columns, values string) string {
	return strings.Replace(strings.Replace(posted(id, debit, credit, amount), "caller)", "caller, "+columns+")", 1), "'psql')", "'psql', "+values+")", 1)
}

// set changes columns of a transfer of ledger main.
func set(id, columns string) []string {
	return always("transfer", "UPDATE transfer SET "+columns+" WHERE ledger_id = 1 AND transfer_id = '"+id+"'")
}

// Each tampering with holds, refunds and limits is found by the checks that are named, in so many breaches, and by no other check.
func TestRun_TamperedMovements(t *testing.T) {
	t.Parallel()
	type found = map[string]int64
	original := newMovedBooks(t)
	original.close()
	entries := func(id, change string) []string {
		return always("entry", "UPDATE entry SET "+change+" WHERE ledger_id = 1 AND sequence = "+sequence(id))
	}
	held := func(id, change string) []string {
		return always("hold_entry", "UPDATE hold_entry SET "+change+" WHERE sequence = "+sequence(id))
	}
	list := func(id, change string) []string {
		return always("open_hold", "UPDATE open_hold SET "+change+" WHERE sequence = "+sequence(id))
	}
	newAccount := "INSERT INTO account (ledger_id, account_id, type, currency, scale, changed_by) VALUES (1, 'new', 'liability', 'BDT', 2, 'psql')"
	for _, c := range []struct {
		name string
		do   []string
		want found
		says string
	}{
		// What a row says.
		{"a kind that there is not", set("M-in", "kind = 'gift'"), found{"entries-match": 1, "transfers-well-formed": 1}, "there is no kind gift"},
		{"a plain transfer with an origin", set("M-in", "origin = 'P-1'"), found{"transfers-well-formed": 1}, "its origin cannot be P-1"},
		{"an ordinal of a plain transfer", set("M-in", "ordinal = 1"), found{"transfers-well-formed": 1}, "its ordinal cannot be 1"},
		{
			"a refund without an ordinal", set("R-4", "ordinal = NULL"),
			found{"transfers-well-formed": 1, "refunds": 1}, "is step NULL of C-1, but stands at place 1",
		},
		{"an end that is none", set("R-4", "ends = true"), found{"transfers-well-formed": 1}, "ends cannot be true"},
		{"an expiry that does not end", set("khata:expiry:H-5", "ends = NULL"), found{"transfers-well-formed": 1, "holds": 2, "refusals": 1}, "ends cannot be NULL"},
		{"a deadline of a refused hold", set("X-past", "deadline = now()"), found{"transfers-well-formed": 1}, "its deadline cannot be"},
		{"a value date of a hold", set("H-10", "effective_at = now()"), found{"transfers-well-formed": 1}, "it has a value date, and moves nothing"},
		{"atomic and posted", set("M-in", "atomic = true"), found{"transfers-well-formed": 1}, "atomic cannot be t"},
		{"terms that are no object", set("M-in", "terms = '[1]'"), found{"transfers-well-formed": 1}, "its terms cannot be read: [1]"},
		{"terms of another kind", set("M-in", `terms = '{"keep_open":true}'`), found{"transfers-well-formed": 1}, "its terms are those of another kind"},
		{
			"a balancing transfer that moved more", set("B-1", `terms = '{"amount":"69.99","balancing":true}'`),
			found{"transfers-well-formed": 1}, "it was to move at most 69.99, and is for 70",
		},
		{
			"a refused balancing transfer of another amount", set("X-empty", `terms = '{"amount":"5","balancing":true}'`),
			found{"transfers-well-formed": 1}, "it was to move at most 5, and is for 0.01",
		},

		// Holds. A capture less of H-4 makes a capture of the rest of it fit that was refused.
		{
			"a hold that reserves more than it says", set("H-10", "reserved = 2"), found{"transfers-well-formed": 1, "holds": 1},
			"missing among the hold entries: payer 2 to debit, 0 to credit, shop 0 to debit, 2 to credit",
		},
		{"a hold entry changed", held("H-10", "debit = 2 * debit"), found{"holds": 1, "floors": 0}, "without being of the transfer: payer 2 to debit"},
		{
			"a hold entry deleted", always("hold_entry", "DELETE FROM hold_entry WHERE sequence = "+sequence("C-1")+" AND debit <> 0"),
			found{"holds": 1}, "missing among the hold entries: payer -50 to debit",
		},
		{"hold entries of another account", held("H-10", "account_no = CASE WHEN credit > 0 THEN "+account("fees")+" ELSE account_no END"), found{"holds": 1}, "fees 0 to debit, 1 to credit"},
		{
			"hold entries of nothing", always("hold_entry", "INSERT INTO hold_entry VALUES (1, "+account("shop")+", "+sequence("M-in")+", 5, 0)"),
			found{"holds": 1}, "transfer M-in",
		},
		{
			"an open hold that is not in the list", always("open_hold", "DELETE FROM open_hold WHERE sequence = "+sequence("H-10")),
			found{"holds": 1}, "is open, and not in the list of open holds",
		},
		{
			"an ended hold in the list", always("open_hold", "INSERT INTO open_hold VALUES (1, "+sequence("H-3")+", "+account("payer")+", "+account("shop")+", NULL)"),
			found{"holds": 1}, "is in the list of open holds without being one",
		},
		{"another deadline in the list", list("H-7", "deadline = deadline + interval '1 s'"), found{"holds": 1}, "is open from account number"},
		{"no deadline in the list", list("H-7", "deadline = NULL"), found{"holds": 1}, "until ever"},
		{"other accounts in the list", list("H-7", "debit_no = credit_no, credit_no = debit_no"), found{"holds": 1}, "is open from account number"},
		{
			"a deadline moved", join(set("H-7", "deadline = deadline - interval '1 day'"), list("H-7", "deadline = deadline - interval '1 day'")),
			found{"holds": 1}, "which is not what its terms say",
		},
		{"a skipped step of a hold", set("C-2", "ordinal = 3"), found{"holds": 1}, "is step 3 of hold H-1, but stands at place 2"},
		{
			"steps of a hold that changed places", join(set("C-1", "ordinal = 9"), set("C-2", "ordinal = 1"), set("C-1", "ordinal = 2")),
			found{"holds": 2}, "has a lower number than the step of hold H-1 before it",
		},
		{"a step of another hold", set("C-4", "origin = 'H-9'"), found{"holds": 1, "refusals": 1}, "has other entries than hold H-9"},
		{"a step before its hold", set("C-4", "origin = 'H-10'"), found{"holds": 1, "refusals": 1}, "has a lower number than hold H-10"},
		{"a step of no hold", set("C-4", "origin = 'P-6'"), found{"holds": 1, "refusals": 1}, "P-6 is no posted hold"},
		{"a step of a refused hold", set("C-4", "origin = 'X-hold'"), found{"holds": 1, "refusals": 1}, "X-hold is no posted hold"},
		{
			"captured more than was held", join(set("H-1", "reserved = 100, amounts = ARRAY[100, -100]"), held("H-1", "debit = debit / 2, credit = credit / 2")),
			found{"holds": 1}, "takes 150 off hold H-1, which had 50 left, to move 60 and end it",
		},
		{
			"an end that leaves something", join(set("V-3", "reserved = -99"), held("V-3", "debit = sign(debit) * 99, credit = sign(credit) * 99")),
			found{"holds": 1}, "takes 99 off hold H-3, which had 100 left, to move nothing and end it",
		},
		{"a capture that releases without an end", set("C-2", "ends = NULL"), found{"holds": 2, "refusals": 1}, "takes 150 off hold H-1"},
		{
			"a step after the end", join(set("C-4", "origin = 'H-3', ordinal = 2"), set("V-3", "reserved = -99.5"), held("V-3", "debit = sign(debit) * 99.5, credit = sign(credit) * 99.5")),
			found{"holds": 2, "refusals": 1}, "comes after hold H-3 had ended",
		},
		{"another amount asked for", set("C-1", `terms = '{"amount":"51","keep_open":true}'`), found{"holds": 1}, "captures 50, and was to capture 51"},
		{"a hold to be kept open", set("C-2", `terms = '{"amount":"60","keep_open":true}'`), found{"holds": 1}, "ends hold H-1, and was not to"},
		{"a capture of other accounts", set("C-4", "account_nos[2] = "+account("fees")), found{"holds": 2, "entries-match": 1}, "has other entries than hold H-4"},
		{
			"a capture after the deadline", join(set("H-4", "deadline = posted_at"), list("H-4", "deadline = (SELECT posted_at FROM transfer WHERE transfer_id = 'H-4')")),
			found{"holds": 1}, "after the deadline",
		},
		{"an expiry before the deadline", set("khata:expiry:H-5", "posted_at = posted_at - interval '1 hour'"), found{"holds": 1}, "before the deadline"},
		{"an expiry without a deadline", set("V-3", "kind = 'expiry'"), found{"holds": 1}, "before the deadline that there is not"},
		{
			"entries of a hold", always("entry", "INSERT INTO entry VALUES (1, "+account("shop")+", "+sequence("H-10")+", 1, 1), (1, "+account("cash")+", "+sequence("H-10")+", 2, -1)"),
			found{"entries-match": 1}, "the transfer is of kind hold, and moves nothing",
		},
		{
			"entries of a capture deleted", always("entry", "DELETE FROM entry WHERE sequence = "+sequence("C-4")),
			found{"entries-match": 1}, "missing among the entries: leg 1 payer 0.5, leg 2 shop -0.5",
		},

		// What goes back.
		{
			"a refund of more", join(set("R-3", "amounts = ARRAY[sign(amounts[1]) * 21, sign(amounts[2]) * 21]"), entries("R-3", "amount = sign(amount) * 21")),
			found{"refunds": 6, "refusals": 1}, "refund gives",
		},
		{
			"refunds of more together", join(set("P-3", "amounts = ARRAY[9, -9]"), entries("P-3", "amount = sign(amount) * 9")),
			found{"refunds": 2}, "refund gives -5, which makes -10 of the 9 that P-3 moved",
		},
		{
			"refunds of more of one account", join(set("P-1", "amounts = ARRAY[100, -91, -9]"), entries("P-1", "amount = CASE leg WHEN 1 THEN 100 WHEN 2 THEN -91 ELSE -9 END")),
			found{"refunds": 1}, "of the -9 that P-1 moved",
		},
		{
			"a refund to another account", join(set("R-4", "account_nos = array_replace(account_nos, "+account("payer")+", "+account("frozen")+")"),
				entries("R-4", "account_no = CASE WHEN account_no = "+account("payer")+" THEN "+account("frozen")+" ELSE account_no END")),
			found{"refunds": 1}, "and C-1 moved nothing of this account",
		},
		{
			"a refund forwards", join(set("R-4", "amounts = ARRAY[-amounts[1], -amounts[2]]"), entries("R-4", "amount = -amount")),
			found{"refunds": 2}, "refund gives",
		},
		{"a refund of a hold", set("R-4", "origin = 'H-10'"), found{"refunds": 1}, "H-10 is no posted transfer of which money can go back"},
		{"a refund of a refused transfer", set("R-4", "origin = 'X-held'"), found{"refunds": 1}, "X-held is no posted transfer of which money can go back"},
		{"a refund of a refund", set("R-4", "origin = 'R-1'"), found{"refunds": 1}, "R-1 is no posted transfer of which money can go back"},
		{"a refund of a later transfer", set("R-4", "origin = 'K-3'"), found{"refunds": 3}, "has a lower number than its original K-3"},
		{
			"refunds that changed places", join(set("R-3", "ordinal = 9"), set("R-3b", "ordinal = 1"), set("R-3", "ordinal = 2")),
			found{"refunds": 2}, "has a lower number than the step of P-3 before it",
		},
		{"a skipped step", set("R-3b", "ordinal = 3"), found{"refunds": 1}, "is step 3 of P-3, but stands at place 2"},
		{
			"another expectation", set("R-3b", `terms = '{"amount":"5","expected_refunded":"4","reason":"goodwill"}'`),
			found{"refunds": 1}, "expected that 4 had been refunded of P-3, and it was 5",
		},
		{
			"another amount to be refunded", set("R-3b", `terms = '{"amount":"4","expected_refunded":"5","reason":"goodwill"}'`),
			found{"refunds": 1}, "is for 5, and was to be for 4",
		},
		{
			"a reversal of less", join(set("P-2", "amounts = ARRAY[21, -21]"), entries("P-2", "amount = sign(amount) * 21")),
			found{"refunds": 2}, "reversal gives -20, which makes -20 of the 21 that P-2 moved",
		},
		{
			"a reversal that is not alone", join(set("V-2", "ordinal = 2"), set("R-3", "origin = 'P-2'"), set("R-3b", "ordinal = 1, terms = NULL")),
			found{"refunds": 4, "refusals": 1}, "is the reversal of P-2, and not alone",
		},
		{"a refund after the reversal", set("R-4", "ordinal = 2, origin = 'P-2'"), found{"refunds": 3}, "comes after P-2 was reversed"},
		{
			"a refund in several currencies", set("V-4", `kind = 'refund', ends = NULL`),
			found{"refunds": 1}, "is a refund of P-4, which moved 2 currencies",
		},

		// Limits and conditions.
		{"more held than there is", []string{insertKind("T-psql", "payer", "shop", "5000", "kind, reserved", "'hold', 5000")}, found{"floors": 1}, "below the floor of 0"},
		{
			"a floor broken by a transfer of what is held", []string{
				"INSERT INTO transfer (ledger_id, transfer_id, account_nos, amounts, caller) SELECT 1, 'T-psql', ARRAY[" + account("payer") + ", " + account("cash") +
					"], ARRAY[-b.sum, b.sum], 'psql' FROM balance_through(1, " + account("payer") + ", 9223372036854775807) b",
			},
			found{"floors": 1}, "transfer T-psql, account payer",
		},
		{
			"a ceiling broken", []string{posted("T-psql", "cash", "savings", "0.01")}, found{"ceilings": 1},
			"brought what is posted and incoming to 1000.01, above the ceiling of 1000",
		},
		{
			"a ceiling broken by a hold", []string{insertKind("T-psql", "cash", "savings", "0.01", "kind, reserved", "'hold', 0.01")},
			found{"ceilings": 1}, "transfer T-psql, account savings",
		},
		{
			"a ceiling broken, then mended", []string{posted("T-psql", "drawer", "cash", "60"), posted("T-psql2", "cash", "drawer", "60")},
			found{"ceilings": 1}, "transfer T-psql, account drawer",
		},
		{
			"a ceiling of then, not of now", always("account_change", "UPDATE account_change SET ceiling = 900 WHERE ceiling = 1000"),
			found{"ceilings": 1, "account-history": 1}, "ceiling 1000, was 900",
		},
		{
			"a ceiling changed without a trace", always("account", "UPDATE account SET ceiling = 5000 WHERE account_id = 'savings'"),
			found{"account-history": 1}, "ceiling 5000, was 1000",
		},
		{
			"ceilings that cannot be", []string{
				"ALTER TABLE account DROP CONSTRAINT account_ceiling_check", "ALTER TABLE account DROP CONSTRAINT account_limits_check",
				"UPDATE account SET ceiling = 'NaN', serialised = true, changed_by = 'psql' WHERE ledger_id = 1 AND account_id = 'unused'",
				"UPDATE account SET ceiling = 1, floor = 2, serialised = true, changed_by = 'psql' WHERE ledger_id = 1 AND account_id = 'usd'",
			},
			found{"guards": 2, "accounts-well-formed": 2, "account-history": 2}, "its ceiling cannot be NaN",
		},
		{
			"a condition that was not true", set("K-1", `terms = '{"conditions":[{"account":"counted","balance":"1"}]}'`),
			found{"conditions": 1}, "was to have the balance 1, and had 0",
		},
		{
			"a condition of a version that was not true", set("K-2", `terms = '{"conditions":[{"account":"payer","version":1}]}'`),
			found{"conditions": 1}, "was to have the version 1, and had ",
		},
		{
			"a condition of another account", set("K-1", `terms = '{"conditions":[{"account":"shop","version":1}]}'`),
			found{"conditions": 1}, "is no account of the transfer",
		},
		{
			"a condition of no account", set("K-1", `terms = '{"conditions":[{"account":"nobody","version":1}]}'`),
			found{"conditions": 1}, "is no account of the transfer",
		},
		{"a hold on a frozen side", []string{insertKind("T-psql", "frozen", "shop", "1", "kind, reserved", "'hold', 1")}, found{"accounts-open": 1}, "had been frozen (debits)"},
		{"a hold on a closed account", []string{insertKind("T-psql", "cash", "closed", "1", "kind, reserved", "'hold', 1")}, found{"accounts-open": 1}, "account closed, sequence"},
		{
			"closed with an open hold", []string{
				newAccount, insertKind("T-psql", "cash", "new", "1", "kind, reserved", "'hold', 1"),
				"ALTER TABLE account DISABLE TRIGGER account_next_version",
				"UPDATE account SET closed = true, changed_by = 'psql', version = nextval('journal_sequence') WHERE ledger_id = 1 AND account_id = 'new'",
				"ALTER TABLE account ENABLE ALWAYS TRIGGER account_next_version",
			},
			found{"accounts-open": 1}, "was closed with holds open: 0 to debit, 1 to credit",
		},
		{
			"a hold before the account", append([]string{newAccount}, held("H-10", "account_no = CASE WHEN credit > 0 THEN "+account("new")+" ELSE account_no END")...),
			found{"holds": 1, "account-history": 1}, "has an entry before its first state",
		},

		// Refusals.
		{"refused with enough beside what is held", set("X-held", "amounts = ARRAY[100, -100]"), found{"refusals": 1}, "transfer X-held, account payer"},
		{"refused with room", set("X-savings", "amounts = ARRAY[400, -400]"), found{"refusals": 1}, "transfer X-savings, account savings"},
		{"a ceiling that the hold did not reach", set("X-savings-hold", "amounts = ARRAY[1, -1]"), found{"refusals": 1}, "transfer X-savings-hold"},
		{
			"refused though something could be moved", set("X-empty", "account_nos[1] = "+account("payer")+", refused_account_no = "+account("payer")),
			found{"refusals": 1}, "transfer X-empty, account payer",
		},
		{"a capture for lack of funds", set("X-more", "refusal = 'INSUFFICIENT_FUNDS', refused_account_no = account_nos[1]"), found{"refusals": 1}, "transfer X-more, account payer"},
		{
			"refused though the condition was true", set("X-condition", `terms = '{"conditions":[{"account":"counted","balance":"5.00"}]}'`),
			found{"refusals": 1}, "transfer X-condition, account counted",
		},
		{"a condition that is not there", set("X-version", `terms = NULL`), found{"refusals": 1}, "transfer X-version, account payer"},
		{"a hold that had not ended", set("X-ended", "origin = 'H-4'"), found{"refusals": 1}, "but H-4 was not so"},
		{"a hold that had not expired", set("X-late", "origin = 'H-7'"), found{"refusals": 1}, "but H-7 was not so"},
		{"a capture refused before the deadline", set("X-late", "posted_at = posted_at - interval '1 hour'"), found{"refusals": 1}, "but H-5 was not so"},
		{"a hold that was in time", set("X-past", `terms = '{"expires_at":"2999-01-01T00:00:00Z"}'`), found{"refusals": 1}, "but its terms are"},
		{"a capture of no more than there was", set("X-more", `terms = '{"amount":"299.5"}'`), found{"refusals": 1}, "transfer X-more"},
		{"a refused capture of other accounts", set("X-more", "account_nos[2] = "+account("fees")), found{"refusals": 1}, "is no posted transfer before it"},
		{
			"refunded as expected", set("X-changed", `terms = '{"amount":"1","expected_refunded":"10","reason":"goodwill"}'`),
			found{"refusals": 1}, "transfer X-changed",
		},
		{
			"a refund of no more than the rest", set("X-rest", `terms = '{"amount":"10","expected_refunded":"10","reason":"goodwill"}'`),
			found{"refusals": 1}, "transfer X-rest,",
		},
		{
			"a rest that there was", set("X-rest2", `origin = 'P-3', account_nos = account_nos[1:2], amounts = ARRAY[-100, 100], terms = '{"expected_refunded":"10","reason":"goodwill"}'`),
			found{"refusals": 1}, "transfer X-rest2",
		},
		{"not reversed", set("X-reversed", "origin = 'P-3'"), found{"refusals": 1}, "transfer X-reversed,"},
		{"not refunded", set("X-refunded", "origin = 'C-4'"), found{"refusals": 1}, "transfer X-refunded"},
		{"a step of nothing", set("X-ended", "origin = 'NOBODY'"), found{"refusals": 1}, "NOBODY is no posted transfer before it"},
		{"a reason of another kind", set("X-ended", "refusal = 'ALREADY_REVERSED'"), found{"refusals": 1}, "ALREADY_REVERSED, by account number NULL"},
		{"a reason that names an account", set("X-ended", "refused_account_no = account_nos[1]"), found{"refusals": 1}, "HOLD_ENDED, by account number"},
		{"a reason that names none", set("X-held", "refused_account_no = NULL"), found{"refusals": 1}, "INSUFFICIENT_FUNDS, by account number NULL"},
		{"not of an atomic call", set("X-atomic-ended", "atomic = NULL"), found{"refusals": 1}, "N-1 is no posted transfer before it"},
		{"not of an atomic call, and enough", set("X-atomic-funds", "atomic = NULL"), found{"refusals": 1}, "transfer X-atomic-funds, account payer"},
		{
			"an account that was open", set("X-atomic-closed", "account_nos[2] = "+account("shop")+", refused_account_no = "+account("shop")),
			found{"refusals": 1}, "transfer X-atomic-closed, account shop",
		},

		// Closed periods.
		{
			"posted in a closed period", []string{
				pgtest.Mutate("transfer_write_entries", "WHERE n.earliest < c.closed_before", "WHERE false"),
				insertKind("T-psql", "cash", "shop", "1", "effective_at", "'2025-02-28T23:59:59.999999Z'"),
				insertKind("T-psql2", "cash", "shop", "1", "effective_at", "'2025-03-01T00:00:00Z'"),
			},
			found{"guards": 1, "closed-period": 1}, "transfer T-psql, sequence",
		},
		{
			"posted in a closed period past all guards", append(always("transfer", insertKind("T-psql", "cash", "shop", "1", "effective_at", "'2024-12-31'")),
				always("entry", "INSERT INTO entry SELECT ledger_id, unnest(account_nos), sequence, generate_series(1, 2), unnest(amounts) FROM transfer WHERE transfer_id = 'T-psql'")...),
			found{"closed-period": 1, "value-dates": 1}, "took effect at 2024-12-31 00:00:00+00, and the books had been closed before 2025-03-01 00:00:00+00",
		},
		{"a value date moved", set("D-1", "effective_at = '2025-01-31'"), found{"closed-period": 1, "value-dates": 1}, "transfer D-1, sequence"},
		{"a value date moved, decided before", set("C-2", "effective_at = '2025-01-31'"), found{"value-dates": 1}, "2025-01-31"},
		{
			"closed further than it was", always("period_change", "UPDATE period_change SET closed_before = '2025-03-02' WHERE closed_before = '2025-03-01'"),
			found{"closed-period": 2}, "transfer D-3, sequence",
		},
		{
			"closed less far than it was", always("period_change", "UPDATE period_change SET closed_before = '2024-06-01' WHERE closed_before = '2025-02-01'"),
			found{"refusals": 6}, "but the books were closed before 2024-06-01 00:00:00+00",
		},
		{
			"never closed", always("period_change", "DELETE FROM period_change"),
			found{"refusals": 8}, "refused: PERIOD_CLOSED with the value date 2025-01-01 00:00:00+00, but the books were closed before no time",
		},
		{"opened for no reason", always("period_change", "UPDATE period_change SET reason = ' '"), found{"closed-period": 1}, "opened without a reason what had been closed before 2025-04-01"},
		{
			"closed early", append([]string{"ALTER TABLE period_change DROP CONSTRAINT period_change_closed_before_check"},
				"INSERT INTO period_change (ledger_id, closed_before, changed_by) VALUES (1, 'infinity', 'psql')"),
			found{"guards": 1, "closed-period": 1}, "closed the books before infinity, at 20",
		},
		{
			"closed at the number of a transfer", always("period_change", "UPDATE period_change SET sequence = "+sequence("X-expired")+" WHERE closed_before = '2025-02-01'"),
			found{"sequences": 1}, "a change of a closed period of ledger number 1",
		},
		{
			"closed at a number not drawn", always("period_change", "UPDATE period_change SET sequence = 100000 WHERE closed_before = '2025-03-01'"),
			found{"sequences": 1, "closed-period": 2, "refusals": 0}, "a change of a closed period has a number above the last one drawn",
		},
		{"refused for an open period", set("X-period2", "effective_at = '2025-04-01'"), found{"refusals": 1}, "transfer X-period2, sequence"},
		{"an atomic call refused for an open period", set("X-atomic-period", "effective_at = '2025-02-01'"), found{"refusals": 1}, "transfer X-atomic-period"},
		{"refused for a period without a value date", set("X-period", "effective_at = NULL"), found{"refusals": 1}, "PERIOD_CLOSED, by account number NULL"},
		{"a hold refused for a period", set("X-past", "refusal = 'PERIOD_CLOSED'"), found{"refusals": 1}, "PERIOD_CLOSED, by account number NULL"},
		{"a capture in a closed period, of nothing", set("X-period-capture", "origin = 'NOBODY'"), found{"refusals": 1}, "NOBODY is no posted transfer before it"},

		// The schema.
		{"changes of periods that anyone changes", []string{"ALTER TABLE period_change DISABLE TRIGGER period_change_refuse_change"}, found{"guards": 1}, "trigger period_change.period_change_refuse_change"},
		{"UPDATE and DELETE on period_change", []string{"GRANT UPDATE, DELETE ON period_change TO khata_service"}, found{"privileges": 2}, "khata_service may UPDATE period_change"},
		{"the key of steps dropped", []string{"DROP INDEX transfer_step_key"}, found{"guards": 1}, "index transfer.transfer_step_key is missing"},
		{"the key of ends dropped", []string{"DROP INDEX transfer_end_key"}, found{"guards": 1}, "index transfer.transfer_end_key is missing"},
		{"what is held", []string{"ALTER FUNCTION held_through(integer, bigint, bigint) SET search_path = public"}, found{"guards": 1}, "function held_through"},
		{"which kinds move", []string{pgtest.Mutate("moves", "'expiry'", "'expired'")}, found{"guards": 1}, "function moves(text)"},
		{"a list that anyone empties", []string{"ALTER TABLE open_hold DISABLE TRIGGER open_hold_refuse_delete"}, found{"guards": 1}, "trigger open_hold.open_hold_refuse_delete"},
		{"INSERT and DELETE on open_hold", []string{"GRANT INSERT, DELETE ON open_hold TO khata_service"}, found{"privileges": 2}, "khata_service may DELETE open_hold"},
		{"UPDATE on hold_entry", []string{"GRANT UPDATE (debit) ON hold_entry TO khata_service"}, found{"privileges": 1}, "khata_service may UPDATE hold_entry (debit)"},
		{"INSERT on hold_snapshot", []string{"GRANT INSERT ON hold_snapshot TO pg_monitor"}, found{"privileges": 1}, "pg_monitor may INSERT hold_snapshot"},
		{
			"a guard that looks away", []string{
				pgtest.Mutate("transfer_write_entries", "IF bad.fault IS NOT NULL THEN", "IF false THEN"),
				insertKind("T-psql", "shop", "payer", "50", "kind, origin, ordinal", "'refund', 'P-3', 3"),
				insertKind("T-psql2", "payer", "shop", "3", "kind, origin, ordinal, reserved, ends", "'capture', 'H-10', 1, -3, true"),
			},
			found{"guards": 1, "refunds": 3, "holds": 1}, "takes 3 off hold H-10, which had 1 left, to move 3 and end it",
		},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			copied := original.clone(t)
			tamper(t, copied.super, c.do...)
			got, all := breaches(run(t, copied.service))
			maps.DeleteFunc(c.want, func(_ string, n int64) bool { return n == 0 })
			if !maps.Equal(got, c.want) || !strings.Contains(all, c.says) {
				t.Errorf("breaches %v, want %v with %q:\n%s", got, c.want, c.says, all)
			}
		})
	}
}
