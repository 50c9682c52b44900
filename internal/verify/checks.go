package verify

import (
	"context"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

//go:embed sql/*.sql
var statements embed.FS

func statement(name string) string {
	text, err := statements.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // It is embedded.
	}
	return string(text)
}

// check is one check of the list. Without a function of its own, it is the statement that is named after it.
type check struct {
	name string
	says string
	// of is what is counted, and count the statement that counts it.
	of, count string
	args      []any
	run       func(context.Context, *verifier) (found, error)
}

// schemaChecks come first: what they find may explain the rest.
var schemaChecks = []check{
	{
		name: "guards", of: "objects", run: guards,
		says: "Tables, constraints, triggers and functions are those of the migrations, and switched on.",
	},
	{
		name: "privileges", of: "objects",
		count: `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace
			AND relname IN ('ledger', 'currency', 'account', 'account_change', 'transfer', 'entry',
			                'snapshot', 'mark', 'value_dated_entry', 'hold_entry', 'hold_snapshot', 'open_hold', 'period_change', 'statement',
			                'bank_profile', 'bank_account', 'bank_setting', 'bank_file', 'bank_statement', 'bank_line', 'reconcile_match',
			                'reconcile_item', 'reconcile_undo', 'reconcile_difference', 'reconcile_run', 'reconcile_result',
			                'audit_event', 'support_limit', 'support_refund_request', 'support_refund_decision', 'support_refund_outcome',
			                'suspect_group', 'suspect_member', 'suspect_decision',
			                'journal_sequence', 'account_account_no_seq', 'ledger_ledger_id_seq', 'reconcile_sequence', 'audit_event_audit_no_seq',
			                'support_refund_request_request_no_seq', 'suspect_sequence')`,
		says: "khata_service can add to the journal and no more, and nobody else is granted to change it.",
	},
	{
		name: "durability", of: "settings", run: durability,
		says: "An acknowledged commit is on disk.",
	},
}

// bookChecks read the books.
var bookChecks = []check{
	{
		name: "ids-unique", of: "ids",
		count: `SELECT (SELECT count(*) FROM transfer) + (SELECT count(*) FROM account) + (SELECT count(*) FROM currency) + (SELECT count(*) FROM ledger)`,
		says:  "Each id names one transfer, account, currency or ledger, counted without an index.",
	},
	{
		name: "sequences", of: "numbers",
		count: `SELECT (SELECT count(*) FROM transfer) + (SELECT count(*) FROM account_change) + (SELECT count(*) FROM period_change)`,
		says:  "Each number was drawn, and given to one transfer or one change of an account or a closed period.",
	},
	{
		name: "transfers-well-formed", of: "transfers", count: `SELECT count(*) FROM transfer`,
		says: "Each transfer has two or more entries of allowed amounts, to accounts of its ledger, each on one side, and what its kind has.",
	},
	{
		name: "transfers-balance", of: "transfers", count: `SELECT count(*) FROM transfer`,
		says: "Each transfer sums to zero in each currency, in its own row and among the entries.",
	},
	{
		name: "entries-match", of: "entries", count: `SELECT count(*) FROM entry`,
		says: "The entries are exactly those of the posted transfers that move anything.",
	},
	{
		name: "trial-balance", of: "entries", count: `SELECT count(*) FROM entry`,
		says: "All entries of a ledger sum to zero in each currency.",
	},
	{
		name: "holds", of: "holds and steps",
		count: `SELECT count(*) FROM transfer WHERE kind IN ('hold', 'capture', 'void', 'expiry') AND refusal IS NULL`,
		says:  "What each hold reserved is captured, released or open, step by step, and it ended once and in time.",
	},
	{
		name: "refunds", of: "refunds and reversals",
		count: `SELECT count(*) FROM transfer WHERE kind IN ('refund', 'reversal') AND refusal IS NULL`,
		says:  "No more went back of a transfer than it moved, account by account, and to where it came from.",
	},
	{
		name: "conditions", of: "transfers with terms", count: `SELECT count(*) FROM transfer WHERE terms IS NOT NULL AND refusal IS NULL`,
		says: "What a posted transfer was to find of its accounts was so.",
	},
	{
		name: "floors", of: "entries", count: `SELECT count(*) FROM entry`,
		says: "No transfer left less available of an account than the floor that it had then.",
	},
	{
		name: "ceilings", of: "entries", count: `SELECT count(*) FROM entry`,
		says: "No transfer brought an account, with what is incoming, above the ceiling that it had then.",
	},
	{
		name: "accounts-open", of: "entries", count: `SELECT count(*) FROM entry`,
		says: "Nothing was posted or held on a closed account or a frozen side, and nothing was closed with a balance or a hold.",
	},
	{
		name: "closed-period", of: "value dates", count: `SELECT count(*) FROM transfer WHERE effective_at IS NOT NULL AND refusal IS NULL`,
		says: "No transfer took effect in a period that was closed then, and nothing was closed early, or opened without a reason.",
	},
	{
		name: "refusals", of: "refusals", count: `SELECT count(*) FROM transfer WHERE refusal IS NOT NULL`,
		args: []any{reasons()},
		says: "Each refusal has a known reason, which held then for an account of the transfer, its origin, its deadline or its value date.",
	},
	{
		name: "accounts-well-formed", of: "accounts", count: `SELECT count(*) FROM account`,
		says: "Each account has a known type, and a currency of its ledger with that currency's scale.",
	},
	{
		name: "account-history", of: "states", count: `SELECT count(*) FROM account_change`,
		says: "Each account is as its last recorded change left it, and came before its entries.",
	},
	{
		name: "snapshots", of: "snapshots", count: `SELECT (SELECT count(*) FROM snapshot) + (SELECT count(*) FROM hold_snapshot)`,
		says: "Each snapshot is the sum of the account's entries, or of what is held, and none is missing or too many.",
	},
	{
		name: "marks", of: "marks", count: `SELECT count(*) FROM mark`,
		says: "Each mark stands where one belongs, and has the times of its transfers.",
	},
	{
		name: "value-dates", of: "entries", count: `SELECT count(*) FROM value_dated_entry`,
		says: "The value-dated entries are exactly those of the posted transfers with a value date.",
	},
	{
		name: "statements", of: "statements", count: `SELECT count(*) FROM statement`,
		says: "Each statement that was issued has the bytes of its hash, closes with the entries that it had seen, and follows the one before it.",
	},
	{
		name: "reconcile", of: "lines and items", count: `SELECT (SELECT count(*) FROM bank_line) + (SELECT count(*) FROM reconcile_item)`,
		says: "Each line of a bank counts once, up to the balance of its statement, and no more is matched of a line or an entry than there is.",
	},
	{
		name: "support", of: "requests", count: `SELECT count(*) FROM support_refund_request`,
		says: "Each refund by people is what was asked for, by one within the limit or approved by another in time, and in the audit.",
	},
	{
		name: "published", of: "ledgers", count: `SELECT count(*) FROM relay_cursor`,
		says: "Nothing lies behind the relay's cursors that it has not passed.",
	},
}

func reasons() []string {
	var texts []string
	for _, code := range ledger.Reasons() {
		texts = append(texts, string(code))
	}
	return texts
}

// bySQL makes a check by its statement, which gives the breaches.
func bySQL(ctx context.Context, v *verifier, c check) (f found, err error) {
	if f.checked, err = v.count(ctx, c.count); err != nil {
		return found{}, err
	}
	rows, err := v.tx.Query(ctx, fmt.Sprintf(
		`SELECT coalesce(l.name, 'number ' || b.ledger_id, ''), coalesce(b.sequence, 0), coalesce(b.transfer_id, ''),
		        coalesce(b.account_id, ''), coalesce(b.detail, ''), count(*) OVER ()
		   FROM (%s) b (ledger_id, sequence, transfer_id, account_id, detail)
		        LEFT JOIN (SELECT ledger_id, min(name) AS name FROM ledger GROUP BY ledger_id) l ON l.ledger_id = b.ledger_id
		  ORDER BY b.ledger_id, b.sequence, b.transfer_id, b.account_id, b.detail
		  LIMIT %d`, statement(c.name), v.options.MaxBreaches), c.args...)
	if err != nil {
		return found{}, err
	}
	f.breaches, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Breach, err error) {
		err = row.Scan(&b.Ledger, &b.Sequence, &b.TransferID, &b.AccountID, &b.Detail, &f.total)
		return b, err
	})
	return f, err
}

// count counts rows, the same ones once.
func (v *verifier) count(ctx context.Context, sql string) (int64, error) {
	n, known := v.counts[sql]
	if known {
		return n, nil
	}
	if err := v.tx.QueryRow(ctx, sql).Scan(&n); err != nil {
		return 0, err
	}
	v.counts[sql] = n
	return n, nil
}

// durability looks at the settings in force here, and at those that other sessions get.
func durability(ctx context.Context, v *verifier) (found, error) {
	lax, err := pg.NotDurable(ctx, v.tx)
	if err != nil {
		return found{}, err
	}
	rows, err := v.tx.Query(ctx, statement("durability"))
	if err != nil {
		return found{}, err
	}
	others, err := pgx.CollectRows(rows, pgx.RowTo[string])
	const settings = 3
	return v.list(settings, append(lax, others...)), err
}
