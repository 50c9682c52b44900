package journal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/khata-ledger/khata/ledger"
)

// The guards of the schema, tried by plain DML as psql would send it: from the service's role, from the owner of the
// tables and from a superuser, who also tries it with ordinary triggers switched off.

// guardConn opens a connection of its own, for SQL that the journal would never send.
func guardConn(t testing.TB, dsn, role string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if role != "" {
		config.User = role
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	// Who does not say so is taken for a server from before holds.
	if err := script(conn, "SET khata.schema = '0007'"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// script runs statements as psql would: in one transaction, unless they say otherwise.
func script(conn *pgx.Conn, sql string) error {
	_, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
	return err
}

// refusedWith gives the SQLSTATE of an error and the name of the constraint, if one was broken.
func refusedWith(err error) string {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return "accepted"
	case !errors.As(err, &refused):
		return err.Error()
	case refused.ConstraintName != "":
		return refused.Code + " " + refused.ConstraintName
	default:
		return refused.Code
	}
}

// guarded is a database with books that somebody will try to spoil.
type guarded struct {
	*bench
	super *pgx.Conn
	// names are what the SQL of the cases says instead of numbers.
	names *strings.Replacer
}

func setupGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{bench: setup(t)}
	g.super = guardConn(t, g.db.SuperDSN(), "")
	g.account(t, "cash", ledger.Asset, "BDT", nil)
	g.account(t, "wallet", ledger.Liability, "BDT", floor("0"))
	g.account(t, "cash:usd", ledger.Asset, "USD", nil)
	g.account(t, "wallet:usd", ledger.Liability, "USD", nil)
	g.account(t, "cash:jpy", ledger.Asset, "JPY", nil)
	g.account(t, "wallet:jpy", ledger.Liability, "JPY", nil)
	g.account(t, "closed", ledger.Liability, "BDT", nil)
	yes := true
	if _, err := g.UpdateAccount(t.Context(), "local", main, "closed", ledger.AccountUpdate{Closed: &yes}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.CreateLedger(t.Context(), "local", "other"); err != nil {
		t.Fatal(err)
	}
	if _, err := g.CreateAccounts(t.Context(), "local", "other", []ledger.AccountSpec{
		{ID: "cash", Type: ledger.Asset, Currency: "BDT"}, {ID: "wallet", Type: ledger.Liability, Currency: "BDT"},
	}); err != nil {
		t.Fatal(err)
	}
	g.post(t, move("OLD", "cash", "wallet", "500"))
	if r := g.post(t, move("REFUSED", "wallet", "cash", "501")); r.Err != nil || r.Transfer.Refusal == nil {
		t.Fatalf("not refused: %s", describe(r))
	}
	var pairs []string
	for name, sql := range map[string]string{
		"$main":    "SELECT ledger_id FROM ledger WHERE name = 'main'",
		"$other":   "SELECT ledger_id FROM ledger WHERE name = 'other'",
		"$oldseq":  "SELECT sequence FROM transfer WHERE transfer_id = 'OLD'",
		"$refseq":  "SELECT sequence FROM transfer WHERE transfer_id = 'REFUSED'",
		"$cash":    "SELECT account_no FROM account WHERE ledger_id = 1 AND account_id = 'cash'",
		"$wallet":  "SELECT account_no FROM account WHERE ledger_id = 1 AND account_id = 'wallet'",
		"$usdcash": "SELECT account_no FROM account WHERE ledger_id = 1 AND account_id = 'cash:usd'",
		"$usdwall": "SELECT account_no FROM account WHERE ledger_id = 1 AND account_id = 'wallet:usd'",
		"$jpycash": "SELECT account_no FROM account WHERE ledger_id = 1 AND account_id = 'cash:jpy'",
		"$jpywall": "SELECT account_no FROM account WHERE ledger_id = 1 AND account_id = 'wallet:jpy'",
		"$foreign": "SELECT account_no FROM account WHERE ledger_id <> 1 AND account_id = 'wallet'",
	} {
		var number int64
		if err := g.super.QueryRow(t.Context(), sql).Scan(&number); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		pairs = append(pairs, name, fmt.Sprint(number))
	}
	g.names = strings.NewReplacer(pairs...)
	return g
}

// fingerprint is a digest of all the books.
func (g *guarded) fingerprint(t testing.TB) string {
	t.Helper()
	var digests []string
	for _, table := range []string{
		"ledger", "currency", "account", "account_change", "transfer", "entry", "snapshot", "mark", "value_dated_entry",
		"hold_entry", "hold_snapshot", "open_hold", "period_change",
	} {
		var digest string
		if err := g.super.QueryRow(context.Background(), "SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, E'\n' ORDER BY t::text)), '') FROM "+
			table+" t").Scan(&digest); err != nil {
			t.Fatal(err)
		}
		digests = append(digests, table+" "+digest)
	}
	return strings.Join(digests, ", ")
}

// attempt is SQL that has to be refused.
type attempt struct {
	name string
	sql  string
	// copy is what is sent after a COPY … FROM STDIN.
	copy string
	// want is the SQLSTATE, and the constraint if there is one.
	want string
	// service is what stops the service's role, if that is another guard: the lack of a grant, mostly.
	service string
}

func (g *guarded) try(conn *pgx.Conn, a attempt) error {
	sql := g.names.Replace(a.sql)
	if a.copy != "" {
		_, err := conn.PgConn().CopyFrom(context.Background(), strings.NewReader(g.names.Replace(a.copy)), sql)
		return err
	}
	return script(conn, sql)
}

const denied = "42501" // insufficient_privilege, by a missing grant or by one of the triggers

// insertTransfer inserts with the columns' defaults, as a tired engineer would.
func insertTransfer(id, accounts, amounts string) string {
	return "INSERT INTO transfer (ledger_id, transfer_id, account_nos, amounts, caller) VALUES ($main, '" + id + "', " +
		accounts + ", " + amounts + ", 'psql')"
}

const copyTransfer = "COPY transfer (ledger_id, transfer_id, account_nos, amounts, caller) FROM STDIN"

func attempts() []attempt {
	const (
		two   = "'{$cash,$wallet}'"
		with  = "INSERT INTO transfer (ledger_id, transfer_id, sequence, account_nos, amounts, caller) VALUES ($main, 'X', "
		after = ", '{$cash,$wallet}', '{5,-5}', 'psql')"
	)
	list := []attempt{
		// Zero-sum.
		{name: "unbalanced", sql: insertTransfer("X", two, "'{5,-4}'"), want: "23514 transfer_balanced"},
		{name: "two debits", sql: insertTransfer("X", two, "'{5,5}'"), want: "23514 transfer_balanced"},
		{
			name: "unbalanced in one of two currencies", want: "23514 transfer_balanced",
			sql: insertTransfer("X", "'{$cash,$wallet,$usdcash,$usdwall}'", "'{5,-5,7,-6}'"),
		},
		{
			name: "balanced across currencies only", want: "23514 transfer_balanced",
			sql: insertTransfer("X", "'{$cash,$usdwall}'", "'{5,-5}'"),
		},
		{
			name: "unbalanced among balanced ones", want: "23514 transfer_balanced",
			sql: `INSERT INTO transfer (ledger_id, transfer_id, account_nos, amounts, caller) VALUES
				($main, 'X', '{$cash,$wallet}', '{5,-5}', 'psql'), ($main, 'Y', '{$cash,$wallet}', '{5,-5.01}', 'psql')`,
		},
		{
			name: "two unbalanced that make up for each other", want: "23514 transfer_balanced",
			sql: `INSERT INTO transfer (ledger_id, transfer_id, account_nos, amounts, caller) VALUES
				($main, 'X', '{$cash,$wallet}', '{5,-4}', 'psql'), ($main, 'Y', '{$cash,$wallet}', '{4,-5}', 'psql')`,
		},
		{
			name: "unbalanced refusal", want: "23514 transfer_balanced",
			sql: `INSERT INTO transfer (ledger_id, transfer_id, refusal, refused_account_no, account_nos, amounts, caller)
				VALUES ($main, 'X', 'ACCOUNT_CLOSED', $wallet, '{$cash,$wallet}', '{5,-4}', 'psql')`,
		},
		{
			name: "second statement of a transaction", want: "23514 transfer_balanced",
			sql: insertTransfer("X", two, "'{5,-5}'") + "; " + insertTransfer("Y", two, "'{5,-4}'"),
		},

		// The shape of the arrays.
		{name: "no entries", sql: insertTransfer("X", "'{}'", "'{}'"), want: "23514 transfer_entries_check"},
		{name: "one entry", sql: insertTransfer("X", "'{$cash}'", "'{5}'"), want: "23514 transfer_entries_check"},
		{name: "NULL accounts", sql: insertTransfer("X", "NULL", "'{5,-5}'"), want: "23502"},
		{name: "NULL amounts", sql: insertTransfer("X", two, "NULL"), want: "23502"},
		{name: "a NULL account", sql: insertTransfer("X", "'{$cash,NULL}'", "'{5,-5}'"), want: "23514 transfer_entries_check"},
		{name: "a NULL amount", sql: insertTransfer("X", two, "'{5,NULL}'"), want: "23514 transfer_entries_check"},
		{
			name: "a NULL amount beside balanced ones", want: "23514 transfer_entries_check",
			sql: insertTransfer("X", "'{$cash,$wallet,$cash}'", "'{5,-5,NULL}'"),
		},
		{name: "more accounts", sql: insertTransfer("X", "'{$cash,$wallet,$cash}'", "'{5,-5}'"), want: "23514 transfer_entries_check"},
		{name: "more amounts", sql: insertTransfer("X", two, "'{5,-5,1}'"), want: "23514 transfer_entries_check"},
		{
			name: "two dimensions", want: "23514 transfer_entries_check",
			sql: insertTransfer("X", "'{{$cash,$wallet},{$cash,$wallet}}'", "'{{5,-5},{5,-5}}'"),
		},
		{
			name: "accounts in two dimensions", want: "23514 transfer_entries_check",
			sql: insertTransfer("X", "'{{$cash},{$wallet}}'", "'{5,-5}'"),
		},
		{
			name: "amounts in two dimensions", want: "23514 transfer_entries_check",
			sql: insertTransfer("X", two, "'{{5},{-5}}'"),
		},
		{name: "accounts from 0", sql: insertTransfer("X", "'[0:1]={$cash,$wallet}'", "'{5,-5}'"), want: "23514 transfer_entries_check"},
		{name: "amounts from 2", sql: insertTransfer("X", two, "'[2:3]={5,-5}'"), want: "23514 transfer_entries_check"},
		{
			name: "1001 entries", want: "23514 transfer_entries_check",
			sql: insertTransfer("X", "array_fill($cash, '{1001}')", "array_fill(5, '{500}') || array_fill(-5, '{500}') || 0"),
		},

		// Amounts and accounts.
		{name: "half a paisa", sql: insertTransfer("X", two, "'{0.005,-0.005}'"), want: "23514 transfer_amounts"},
		{
			name: "half a paisa beside another", want: "23514 transfer_amounts",
			sql: insertTransfer("X", "'{$cash,$cash,$wallet}'", "'{0.005,0.005,-0.01}'"),
		},
		{name: "half a yen", sql: insertTransfer("X", "'{$jpycash,$jpywall}'", "'{0.5,-0.5}'"), want: "23514 transfer_amounts"},
		{name: "zero", sql: insertTransfer("X", two, "'{0,0}'"), want: "23514 transfer_amounts"},
		{
			name: "one zero", want: "23514 transfer_amounts",
			sql: insertTransfer("X", "'{$cash,$wallet,$cash}'", "'{5,-5,0}'"),
		},
		{name: "NaN", sql: insertTransfer("X", two, "'{NaN,NaN}'"), want: "23514 transfer_balanced"},
		{name: "one NaN", sql: insertTransfer("X", two, "'{NaN,-5}'"), want: "23514 transfer_balanced"},
		{name: "Infinity", sql: insertTransfer("X", two, "'{Infinity,-Infinity}'"), want: "23514 transfer_balanced"},
		{name: "1e38", sql: insertTransfer("X", two, "'{1e38,-1e38}'"), want: "23514 transfer_amounts"},
		{name: "an unknown account", sql: insertTransfer("X", "'{$cash,999999}'", "'{5,-5}'"), want: "23503 transfer_accounts_exist"},
		{
			name: "two unknown accounts", want: "23503 transfer_accounts_exist",
			sql: insertTransfer("X", "'{999998,999999}'", "'{5,-5}'"),
		},
		{
			name: "an account of another ledger", want: "23503 transfer_accounts_exist",
			sql: insertTransfer("X", "'{$cash,$foreign}'", "'{5,-5}'"),
		},
		{
			name: "the accounts of another ledger", want: "23503 transfer_accounts_exist",
			sql: `INSERT INTO transfer (ledger_id, transfer_id, account_nos, amounts, caller)
				VALUES ($other, 'X', '{$cash,$wallet}', '{5,-5}', 'psql')`,
		},
		{
			name: "a ledger that does not exist", want: "23503 transfer_accounts_exist",
			sql: `INSERT INTO transfer (ledger_id, transfer_id, account_nos, amounts, caller)
				VALUES (99, 'X', '{$cash,$wallet}', '{5,-5}', 'psql')`,
		},

		// Ids and numbers.
		{name: "an id again", sql: insertTransfer("OLD", two, "'{5,-5}'"), want: "23505 transfer_pkey"},
		{name: "a refused id again", sql: insertTransfer("REFUSED", two, "'{5,-5}'"), want: "23505 transfer_pkey"},
		{
			name: "an id twice in a statement", want: "23505 transfer_pkey",
			sql: `INSERT INTO transfer (ledger_id, transfer_id, account_nos, amounts, caller) VALUES
				($main, 'X', '{$cash,$wallet}', '{5,-5}', 'psql'), ($main, 'X', '{$cash,$wallet}', '{5,-5}', 'psql')`,
		},
		{name: "an empty id", sql: insertTransfer("", two, "'{5,-5}'"), want: "23514 transfer_id_check"},
		{name: "an id with a space", sql: insertTransfer("a b", two, "'{5,-5}'"), want: "23514 transfer_id_check"},
		{name: "a number again", sql: with + "$oldseq" + after, want: "23505 transfer_sequence_key"},
		{
			name: "a number twice in a statement", want: "23505 transfer_sequence_key",
			sql: `WITH n AS MATERIALIZED (SELECT nextval('journal_sequence') AS sequence)
				INSERT INTO transfer (ledger_id, transfer_id, sequence, account_nos, amounts, caller)
				SELECT $main, id, n.sequence, '{$cash,$wallet}', '{5,-5}', 'psql' FROM n, (VALUES ('X'), ('Y')) v (id)`,
		},
		{
			name: "a number not drawn yet", want: "23514 transfer_sequence_drawn",
			sql: with + "(SELECT last_value + 1 FROM journal_sequence)" + after,
		},
		{name: "a number far ahead", sql: with + "9000000000000000000" + after, want: "23514 transfer_sequence_drawn"},
		{name: "number 0", sql: with + "0" + after, want: "23514 transfer_sequence_drawn"},
		{name: "a negative number", sql: with + "-1" + after, want: "23514 transfer_sequence_drawn"},
		{name: "no number", sql: with + "NULL" + after, want: "23502"},
		{
			name: "a refusal without its account", want: "23514 transfer_refusal_check",
			sql: `INSERT INTO transfer (ledger_id, transfer_id, refusal, account_nos, amounts, caller)
				VALUES ($main, 'X', 'ACCOUNT_CLOSED', '{$cash,$wallet}', '{5,-5}', 'psql')`,
		},
		{
			name: "a refusal because of another account", want: "23514 transfer_refused_account_check",
			sql: `INSERT INTO transfer (ledger_id, transfer_id, refusal, refused_account_no, account_nos, amounts, caller)
				VALUES ($main, 'X', 'ACCOUNT_CLOSED', $usdcash, '{$cash,$wallet}', '{5,-5}', 'psql')`,
		},
		{
			name: "a time without end", want: "23514 transfer_times_check",
			sql: `INSERT INTO transfer (ledger_id, transfer_id, posted_at, account_nos, amounts, caller)
				VALUES ($main, 'X', 'infinity', '{$cash,$wallet}', '{5,-5}', 'psql')`,
		},
		{
			name: "metadata that is no object", want: "23514 transfer_metadata_check",
			sql: `INSERT INTO transfer (ledger_id, transfer_id, metadata, account_nos, amounts, caller)
				VALUES ($main, 'X', '[]', '{$cash,$wallet}', '{5,-5}', 'psql')`,
		},

		// Entries from elsewhere.
		{
			name: "entries of an old transfer", want: denied,
			sql: `INSERT INTO entry (ledger_id, account_no, sequence, leg, amount)
				VALUES ($main, $cash, $oldseq, 3, 5), ($main, $wallet, $oldseq, 4, -5)`,
		},
		{
			name: "entries of a refused transfer", want: denied,
			sql: `INSERT INTO entry (ledger_id, account_no, sequence, leg, amount)
				VALUES ($main, $wallet, $refseq, 1, 501), ($main, $cash, $refseq, 2, -501)`,
		},
		{
			name: "entries of a refused transfer in its own transaction", want: denied,
			sql: `INSERT INTO transfer (ledger_id, transfer_id, refusal, refused_account_no, account_nos, amounts, caller)
				VALUES ($main, 'X', 'ACCOUNT_CLOSED', $wallet, '{$cash,$wallet}', '{5,-5}', 'psql');
				INSERT INTO entry (ledger_id, account_no, sequence, leg, amount)
				SELECT $main, unnest(account_nos), sequence, generate_series(1, 2), unnest(amounts) FROM transfer WHERE transfer_id = 'X'`,
		},
		{
			name: "entries without a transfer", want: denied,
			sql: `INSERT INTO entry (ledger_id, account_no, sequence, leg, amount)
				SELECT $main, a, nextval('journal_sequence'), 1, 5 FROM unnest('{$cash,$wallet}'::bigint[]) a`,
		},
		{
			name: "entries by a CTE", want: denied,
			sql: `WITH e AS (INSERT INTO entry (ledger_id, account_no, sequence, leg, amount)
				VALUES ($main, $cash, $oldseq, 3, 5), ($main, $wallet, $oldseq, 4, -5) RETURNING 1) SELECT * FROM e`,
		},
		{
			name: "entries by COPY", want: denied,
			sql:  "COPY entry (ledger_id, account_no, sequence, leg, amount) FROM STDIN",
			copy: "$main\t$cash\t$oldseq\t3\t5\n$main\t$wallet\t$oldseq\t4\t-5\n",
		},
		{
			name: "entries by MERGE", want: denied,
			sql: `MERGE INTO entry e USING (VALUES ($cash, 5), ($wallet, -5)) v (account_no, amount)
				ON e.account_no = v.account_no AND e.leg = 7
				WHEN NOT MATCHED THEN INSERT (ledger_id, account_no, sequence, leg, amount)
				VALUES ($main, v.account_no, $oldseq, 7, v.amount)`,
		},
		{
			name: "an account's history", want: denied,
			sql: `INSERT INTO account_change (ledger_id, account_no, sequence, name, serialised, frozen, closed, changed_at, changed_by)
				VALUES ($main, $cash, nextval('journal_sequence'), '', false, 'none', false, now(), 'psql')`,
		},

		// What balances are computed from.
		{name: "a snapshot", sql: "INSERT INTO snapshot (ledger_id, account_no, through, sum) VALUES ($main, $cash, $oldseq, 1)", want: denied},
		{
			name: "a snapshot by COPY", want: denied,
			sql: "COPY snapshot (ledger_id, account_no, through, sum) FROM STDIN", copy: "$main\t$cash\t$oldseq\t1\n",
		},
		{name: "a mark where none belongs", sql: "INSERT INTO mark (ledger_id, horizon) VALUES ($main, $oldseq)", want: "23514 mark_horizon"},
		{name: "a mark far ahead", sql: "INSERT INTO mark (ledger_id, horizon) VALUES ($main, 9000000000000000000)", want: "23514 mark_horizon"},
		{
			name: "a mark with times of one's own", want: "23514 mark_horizon", service: denied,
			sql: "INSERT INTO mark (ledger_id, snapshots, horizon, earliest, latest, goes_back) VALUES ($main, 0, $oldseq, now(), now(), false)",
		},
		{
			name: "a value-dated entry", want: denied,
			sql: `INSERT INTO value_dated_entry (ledger_id, account_no, effective_at, sequence, leg, posted_at, amount)
				VALUES ($main, $cash, now(), $oldseq, 1, now(), 500)`,
		},

		// Other ways to insert.
		{
			name: "unbalanced by COPY", sql: copyTransfer, want: "23514 transfer_balanced",
			copy: "$main\tX\t{$cash,$wallet}\t{5,-5}\tpsql\n$main\tY\t{$cash,$wallet}\t{5,-4}\tpsql\n",
		},
		{
			name: "unbalanced by a CTE", want: "23514 transfer_balanced",
			sql: "WITH t AS (" + insertTransfer("X", two, "'{5,-4}'") + " RETURNING sequence) SELECT * FROM t",
		},
		{
			name: "unbalanced by a CTE beside a balanced one", want: "23514 transfer_balanced",
			sql: "WITH t AS (" + insertTransfer("X", two, "'{5,-4}'") + " RETURNING sequence) " + insertTransfer("Y", two, "'{5,-5}'"),
		},
		{
			name: "unbalanced by MERGE", want: "23514 transfer_balanced",
			sql: `MERGE INTO transfer t USING (VALUES ('X')) v (id) ON t.transfer_id = v.id
				WHEN NOT MATCHED THEN INSERT (ledger_id, transfer_id, account_nos, amounts, caller)
				VALUES ($main, v.id, '{$cash,$wallet}', '{5,-4}', 'psql')`,
		},
		{
			name: "unbalanced with ON CONFLICT DO NOTHING", want: "23514 transfer_balanced",
			sql: insertTransfer("X", two, "'{5,-4}'") + " ON CONFLICT DO NOTHING",
		},
		{
			name: "ON CONFLICT DO UPDATE", want: denied,
			sql: insertTransfer("OLD", two, "'{5,-5}'") + " ON CONFLICT (ledger_id, transfer_id) DO UPDATE SET description = 'changed'",
		},
		{
			name: "ON CONFLICT DO UPDATE without a conflict", want: denied,
			sql: insertTransfer("X", two, "'{5,-5}'") + " ON CONFLICT (ledger_id, transfer_id) DO UPDATE SET description = 'changed'",
		},
		{
			name: "MERGE that updates", want: denied,
			sql: `MERGE INTO transfer t USING (VALUES ('OLD')) v (id) ON t.transfer_id = v.id
				WHEN MATCHED THEN UPDATE SET description = 'changed'`,
		},
		{
			name: "MERGE that deletes", want: denied,
			sql: `MERGE INTO entry e USING (VALUES ($cash)) v (account_no) ON e.account_no = v.account_no WHEN MATCHED THEN DELETE`,
		},
		{
			name: "DELETE by a CTE", want: denied,
			sql: "WITH gone AS (DELETE FROM entry WHERE sequence = $oldseq RETURNING *) SELECT count(*) FROM gone",
		},
		{
			name: "an amount", want: denied,
			sql: "UPDATE entry SET amount = amount * 2 WHERE sequence = $oldseq",
		},
		{
			name: "the arrays", want: denied,
			sql: "UPDATE transfer SET amounts = '{1,-1}' WHERE transfer_id = 'OLD'",
		},
		{name: "a currency's scale", sql: "UPDATE currency SET scale = 3 WHERE code = 'BDT'", want: denied},

		// What an account keeps. The service may update none of these columns, and so fails before the trigger.
		{name: "an account's currency", sql: "UPDATE account SET currency = 'USD' WHERE account_no = $cash", want: "23514 account_immutable", service: denied},
		{name: "an account's type", sql: "UPDATE account SET type = 'expense' WHERE account_no = $cash", want: "23514 account_immutable", service: denied},
		{name: "an account's id", sql: "UPDATE account SET account_id = 'mine' WHERE account_no = $cash", want: "23514 account_immutable", service: denied},
		{name: "an account's scale", sql: "UPDATE account SET scale = 3 WHERE account_no = $cash", want: "23514 account_immutable", service: denied},
		{name: "an account's ledger", sql: "UPDATE account SET ledger_id = $other WHERE account_no = $wallet", want: "23514 account_immutable", service: denied},
		{name: "an account's number", sql: "UPDATE account SET account_no = DEFAULT WHERE account_no = $cash", want: "23514 account_immutable", service: denied},
		{name: "an account's number, chosen", sql: "UPDATE account SET account_no = 12345 WHERE account_no = $cash", want: "428C9"},
		{
			name: "an account's currency by ON CONFLICT", want: "23514 account_immutable", service: denied,
			sql: `INSERT INTO account (ledger_id, account_id, type, currency, scale, changed_by) VALUES ($main, 'cash', 'asset', 'BDT', 2, 'psql')
				ON CONFLICT (ledger_id, account_id) DO UPDATE SET currency = 'USD'`,
		},
		{name: "a closed account reopened", sql: "UPDATE account SET closed = false WHERE account_id = 'closed'", want: "23514 account_closed_for_ever"},
		{
			name: "an account of another scale than its currency", want: "23503 account_currency_fkey",
			sql: `INSERT INTO account (ledger_id, account_id, type, currency, scale, changed_by) VALUES ($main, 'x1', 'asset', 'BDT', 4, 'psql')`,
		},
		{
			name: "an account of an unknown currency", want: "23503 account_currency_fkey",
			sql: `INSERT INTO account (ledger_id, account_id, type, currency, scale, changed_by) VALUES ($main, 'x2', 'asset', 'XYZ', 2, 'psql')`,
		},
		{
			name: "an account with a floor finer than its currency", want: "23514 account_floor_check",
			sql: `INSERT INTO account (ledger_id, account_id, type, currency, scale, floor, serialised, changed_by)
				VALUES ($main, 'x3', 'asset', 'BDT', 2, 0.005, true, 'psql')`,
		},
		{name: "a floor finer than the currency", sql: "UPDATE account SET floor = -0.001 WHERE account_no = $wallet", want: "23514 account_floor_check"},
		{name: "a floor that is no number", sql: "UPDATE account SET floor = 'NaN' WHERE account_no = $wallet", want: "23514 account_floor_check"},
		{name: "an infinite floor", sql: "UPDATE account SET floor = '-Infinity' WHERE account_no = $wallet", want: "23514 account_floor_check"},
		{name: "a floor without serialising", sql: "UPDATE account SET floor = 0 WHERE account_no = $cash", want: "23514 account_floor_serialised_check"},
		{
			name: "an account twice", want: "23505 account_id_key",
			sql: `INSERT INTO account (ledger_id, account_id, type, currency, scale, changed_by) VALUES ($main, 'cash', 'asset', 'BDT', 2, 'psql')`,
		},
		{name: "DELETE of accounts", sql: "DELETE FROM account WHERE account_id = 'wallet:usd'", want: denied},
		{name: "TRUNCATE account", sql: "TRUNCATE account", want: "0A000", service: denied}, // a foreign key points to it
		{name: "TRUNCATE account CASCADE", sql: "TRUNCATE account CASCADE", want: denied},
		{name: "TRUNCATE of all", sql: "TRUNCATE transfer, entry, account, account_change, currency, ledger CASCADE", want: denied},
	}
	for _, table := range []struct{ name, column, truncate string }{
		{"transfer", "caller", denied}, {"entry", "amount", denied}, {"account_change", "changed_by", denied},
		{"snapshot", "sum", denied}, {"mark", "latest", denied}, {"value_dated_entry", "amount", denied}, {"period_change", "reason", denied},
		{"currency", "scale", "0A000"}, {"ledger", "created_by", "0A000"}, // foreign keys point to these
	} {
		list = append(list,
			attempt{name: "UPDATE " + table.name, sql: "UPDATE " + table.name + " SET " + table.column + " = " + table.column, want: denied},
			attempt{name: "UPDATE of no row of " + table.name, sql: "UPDATE " + table.name + " SET " + table.column + " = " + table.column + " WHERE false", want: denied},
			attempt{name: "DELETE from " + table.name, sql: "DELETE FROM " + table.name, want: denied},
			attempt{name: "TRUNCATE " + table.name, sql: "TRUNCATE " + table.name, want: table.truncate, service: denied},
			attempt{name: "TRUNCATE " + table.name + " CASCADE", sql: "TRUNCATE " + table.name + " CASCADE", want: denied},
		)
	}
	return list
}

// TestGuards_PlainDML checks that nobody spoils the books by plain DML, whoever he is.
func TestGuards_PlainDML(t *testing.T) {
	t.Parallel()
	for _, who := range []struct {
		name    string
		dsn     func(*bench) string
		service bool
		first   string // run before the attempts
	}{
		{name: "service", dsn: func(b *bench) string { return b.db.ServiceDSN() }, service: true},
		{name: "owner", dsn: func(b *bench) string { return b.db.OwnerDSN() }},
		{name: "superuser", dsn: func(b *bench) string { return b.db.SuperDSN() }},
		{
			name: "superuser as replica", dsn: func(b *bench) string { return b.db.SuperDSN() },
			first: "SET session_replication_role = replica",
		},
	} {
		t.Run(who.name, func(t *testing.T) {
			t.Parallel()
			g := setupGuarded(t)
			conn := guardConn(t, who.dsn(g.bench), "")
			if err := script(conn, who.first); err != nil {
				t.Fatal(err)
			}
			before := g.fingerprint(t)
			for _, a := range attempts() {
				t.Run(a.name, func(t *testing.T) {
					want := a.want
					if who.service && a.service != "" {
						want = a.service
					}
					err := g.try(conn, a)
					if got := refusedWith(err); got != want {
						t.Errorf("%s, want %s (%v)", got, want, err)
					}
					if after := g.fingerprint(t); after != before {
						t.Errorf("the books have changed:\nbefore %s\nafter  %s", before, after)
						before = after
					}
				})
			}
			// The refusals have not spoilt the session: what is right is still accepted.
			if err := g.try(conn, attempt{sql: insertTransfer("RIGHT", "'{$cash,$wallet}'", "'{5,-5}'")}); err != nil {
				t.Errorf("a balanced insert: %v", err)
			}
		})
	}
}

// TestGuards_Accept checks that the guards let through what is right, by whatever statement it comes.
func TestGuards_Accept(t *testing.T) {
	t.Parallel()
	const two = "'{$cash,$wallet}'"
	for _, a := range []attempt{
		{name: "INSERT", sql: insertTransfer("NEW", two, "'{12.34,-12.34}'")},
		{name: "COPY", sql: copyTransfer, copy: "$main\tNEW\t{$cash,$wallet}\t{12.34,-12.34}\tpsql\n"},
		{name: "CTE", sql: "WITH t AS (" + insertTransfer("NEW", two, "'{12.34,-12.34}'") + " RETURNING sequence) SELECT * FROM t"},
		{name: "ON CONFLICT DO NOTHING", sql: insertTransfer("NEW", two, "'{12.34,-12.34}'") + " ON CONFLICT DO NOTHING"},
		{
			name: "MERGE",
			sql: `MERGE INTO transfer t USING (VALUES ('NEW')) v (id) ON t.transfer_id = v.id
				WHEN NOT MATCHED THEN INSERT (ledger_id, transfer_id, account_nos, amounts, caller)
				VALUES ($main, v.id, '{$cash,$wallet}', '{12.34,-12.34}', 'psql')`,
		},
	} {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			g := setupGuarded(t)
			for name, dsn := range map[string]string{"superuser": g.db.SuperDSN(), "owner": g.db.OwnerDSN(), "service": g.db.ServiceDSN()} {
				a := a
				a.sql, a.copy = strings.ReplaceAll(a.sql, "NEW", name), strings.ReplaceAll(a.copy, "NEW", name)
				if err := g.try(guardConn(t, dsn, ""), a); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				var entries, right int
				if err := g.super.QueryRow(t.Context(), g.names.Replace(`SELECT count(*),
					count(*) FILTER (WHERE (e.account_no, e.leg, e.amount) IN (($cash, 1, 12.34), ($wallet, 2, -12.34)))
					FROM entry e JOIN transfer t USING (ledger_id, sequence)
					WHERE t.transfer_id = $1 AND t.sequence > $oldseq AND t.posted_at > now() - interval '1 minute'`),
					name).Scan(&entries, &right); err != nil {
					t.Fatal(err)
				}
				if entries != 2 || right != 2 {
					t.Errorf("%s: %d entries, %d of them right", name, entries, right)
				}
			}
			if got := g.balance(t, "wallet"); got != "537.02" {
				t.Errorf("balance %s", got)
			}
			// What psql has posted is a transfer like any other.
			record, _, err := g.Transfer(t.Context(), main, "superuser")
			if err != nil || record.Refusal != nil || len(record.Entries) != 2 || record.Entries[0].Account != "cash" {
				t.Errorf("the record %+v %v", record, err)
			}
		})
	}
	t.Run("a change of an account is kept", func(t *testing.T) {
		t.Parallel()
		g := setupGuarded(t)
		for who, c := range map[string]struct{ dsn, first string }{
			"service": {dsn: g.db.ServiceDSN()}, "owner": {dsn: g.db.OwnerDSN()}, "superuser": {dsn: g.db.SuperDSN()},
			"replica": {dsn: g.db.SuperDSN(), first: "SET session_replication_role = replica;"},
		} {
			before := read[int64](t, &rawConn{Conn: g.super}, "SELECT last_value FROM journal_sequence")
			if err := script(guardConn(t, c.dsn, ""), c.first+"UPDATE account SET name = '"+who+"', changed_by = 'psql' WHERE account_id = 'wallet:usd'"); err != nil {
				t.Fatal(err)
			}
			if got := read[int64](t, &rawConn{Conn: g.super}, `SELECT count(*) FROM account a JOIN account_change c USING (ledger_id, account_no, name, changed_by, changed_at)
				WHERE a.name = '`+who+`' AND c.sequence = a.version AND a.changed_by = 'psql' AND a.version > `+fmt.Sprint(before)); got != 1 {
				t.Errorf("%s: %d states with a new number", who, got)
			}
		}
	})
	t.Run("a refusal has no entries", func(t *testing.T) {
		t.Parallel()
		g := setupGuarded(t)
		before := g.balance(t, "wallet")
		if err := g.try(g.super, attempt{sql: `INSERT INTO transfer (ledger_id, transfer_id, refusal, refused_account_no, account_nos, amounts, caller)
			VALUES ($main, 'NO', 'ACCOUNT_CLOSED', $wallet, '{$cash,$wallet}', '{5,-5}', 'psql')`}); err != nil {
			t.Fatal(err)
		}
		if after := g.balance(t, "wallet"); after != before {
			t.Errorf("balance %s, before %s", after, before)
		}
	})
	t.Run("two currencies", func(t *testing.T) {
		t.Parallel()
		g := setupGuarded(t)
		if err := g.try(g.super, attempt{sql: insertTransfer("FX", "'{$cash,$wallet,$jpycash,$jpywall}'", "'{0.01,-0.01,1,-1}'")}); err != nil {
			t.Error(err)
		}
	})
}

// TestGuards_ServiceRole checks what the role that the service runs as is not given.
func TestGuards_ServiceRole(t *testing.T) {
	t.Parallel()
	g := setupGuarded(t)
	service := guardConn(t, g.db.ServiceDSN(), "")
	before := g.fingerprint(t)
	list := []string{
		"SET session_replication_role = replica",
		"ALTER TABLE transfer DISABLE TRIGGER transfer_write_entries",
		"ALTER TABLE entry DISABLE TRIGGER ALL",
		"ALTER TABLE entry ENABLE REPLICA TRIGGER entry_refuse_change",
		"ALTER TABLE transfer ADD COLUMN mine text",
		"ALTER TABLE transfer DROP CONSTRAINT transfer_pkey",
		"ALTER SEQUENCE journal_sequence RESTART",
		"ALTER SEQUENCE journal_sequence CACHE 10",
		"SELECT setval('journal_sequence', 1)",
		"DROP TABLE entry",
		"DROP TRIGGER entry_refuse_insert ON entry",
		"DROP FUNCTION refuse_insert() CASCADE",
		"CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"CREATE OR REPLACE FUNCTION public.refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
		"ALTER FUNCTION refuse_change() RENAME TO mine",
		"CREATE TABLE public.mine (n int)",
		"CREATE VIEW public.mine AS SELECT 1",
		"CREATE SCHEMA mine",
		"CREATE TEMP TABLE mine () INHERITS (entry)",
		"CREATE RULE mine AS ON INSERT TO entry DO INSTEAD NOTHING",
		"CREATE INDEX ON entry (amount)",
		"SET ROLE khata_owner",
		"SET SESSION AUTHORIZATION postgres",
		"DO 'BEGIN LOCK TABLE transfer IN EXCLUSIVE MODE; END'",
		"GRANT khata_owner TO khata_service",
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)",
		"UPDATE account SET version = 1",
		"UPDATE account SET changed_at = now()",
		"UPDATE account SET created_at = now()",
	}
	// P4 takes UPDATE away, and with it every kind of row lock.
	for _, table := range []string{"transfer", "entry", "account_change", "currency", "ledger", "period_change"} {
		for _, strength := range []string{"UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"} {
			list = append(list, "SELECT 1 FROM "+table+" FOR "+strength)
		}
	}
	for _, sql := range list {
		err := script(service, sql)
		if got := refusedWith(err); got != denied {
			t.Errorf("%s: %s, want %s (%v)", sql, got, denied, err)
		}
	}
	if after := g.fingerprint(t); after != before {
		t.Errorf("the books have changed:\nbefore %s\nafter  %s", before, after)
	}
	// A session that cached numbers would hand out low ones late, and nothing would be a safe horizon.
	var cache int64
	if err := g.super.QueryRow(t.Context(), "SELECT cache_size FROM pg_sequences WHERE sequencename = 'journal_sequence'").Scan(&cache); err != nil || cache != 1 {
		t.Errorf("journal_sequence: CACHE %d %v", cache, err)
	}
	// The denials are about these rights, not about everything: it does lock accounts.
	if err := script(service, "SELECT 1 FROM account FOR NO KEY UPDATE"); err != nil {
		t.Error(err)
	}
}

// guardRole creates a role that may log in and nothing else, for one test.
func (g *guarded) guardRole(t testing.TB) string {
	t.Helper()
	role := "plain_" + g.db.Name[len(g.db.Name)-20:]
	if err := script(g.super, "CREATE ROLE "+role+" LOGIN"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := script(g.super, "DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	return role
}

var triggerFunctions = []string{
	"transfer_write_entries", "account_record_change", "account_next_version", "refuse_insert", "refuse_change",
	"mark_take_snapshots", "period_change_next",
}

// TestGuards_BorrowedTriggers checks that nobody gets the rights of the owner by hanging his trigger functions on a table
// of one's own: with the entries of an old transfer in it, that would add to them.
func TestGuards_BorrowedTriggers(t *testing.T) {
	t.Parallel()
	g := setupGuarded(t)
	before := g.fingerprint(t)
	plain := guardConn(t, g.db.SuperDSN(), g.guardRole(t))
	const like = `CREATE TEMP TABLE bait (ledger_id integer, transfer_id text, sequence bigint, refusal text,
		account_nos bigint[], amounts numeric[])`
	const hang = `CREATE TRIGGER t AFTER INSERT ON bait REFERENCING NEW TABLE AS new_transfers
		FOR EACH STATEMENT EXECUTE FUNCTION public.`
	for name, conn := range map[string]*pgx.Conn{
		"service": guardConn(t, g.db.ServiceDSN(), ""), "plain role": plain,
	} {
		if err := script(conn, like); err != nil {
			t.Fatal(err)
		}
		for _, function := range triggerFunctions {
			err := script(conn, hang+function+"()")
			if got := refusedWith(err); got != denied {
				t.Errorf("%s hangs %s on a table of its own: %s (%v)", name, function, got, err)
			}
		}
		// A trigger function of one's own is deep enough for refuse_insert; the grants stop it.
		if err := script(conn, `CREATE FUNCTION pg_temp.add() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				INSERT INTO public.entry (ledger_id, account_no, sequence, leg, amount) SELECT NEW.ledger_id, 1, NEW.sequence, 3, 5;
				RETURN NULL; END $$;
			CREATE TRIGGER mine AFTER INSERT ON bait FOR EACH ROW EXECUTE FUNCTION pg_temp.add()`); err != nil {
			t.Fatal(err)
		}
		if got := refusedWith(g.try(conn, attempt{sql: "INSERT INTO bait VALUES ($main, 'X', $oldseq)"})); got != denied {
			t.Errorf("%s adds entries by a trigger of its own: %s", name, got)
		}
		// Or the role could not be dropped.
		if err := script(conn, "DROP TABLE bait; DROP FUNCTION pg_temp.add()"); err != nil {
			t.Error(err)
		}
	}
	// Whoever may execute them is stopped by the functions themselves.
	if err := script(g.super, like+"; "+hang+"transfer_write_entries()"); err != nil {
		t.Fatal(err)
	}
	err := g.try(g.super, attempt{sql: "INSERT INTO bait VALUES ($main, 'X', $oldseq, NULL, '{$cash,$wallet}', '{5,-5}')"})
	if got := refusedWith(err); got != "P0001" {
		t.Errorf("transfer_write_entries works on another table: %s (%v)", got, err)
	}
	if err := script(g.super, `CREATE TEMP TABLE bait3 AS SELECT * FROM mark WITH NO DATA;
		CREATE TRIGGER t BEFORE INSERT ON bait3 FOR EACH ROW EXECUTE FUNCTION public.mark_take_snapshots()`); err != nil {
		t.Fatal(err)
	}
	err = g.try(g.super, attempt{sql: "INSERT INTO bait3 (ledger_id, horizon) VALUES ($main, $oldseq)"})
	if got := refusedWith(err); got != "P0001" {
		t.Errorf("mark_take_snapshots works on another table: %s (%v)", got, err)
	}
	if err := script(g.super, `CREATE TEMP TABLE bait2 AS SELECT * FROM account WITH NO DATA;
		CREATE TRIGGER t AFTER INSERT ON bait2 FOR EACH ROW EXECUTE FUNCTION public.account_record_change()`); err != nil {
		t.Fatal(err)
	}
	err = script(g.super, "INSERT INTO bait2 SELECT * FROM account LIMIT 1")
	if got := refusedWith(err); got != "P0001" {
		t.Errorf("account_record_change works on another table: %s (%v)", got, err)
	}
	if after := g.fingerprint(t); after != before {
		t.Errorf("the books have changed:\nbefore %s\nafter  %s", before, after)
	}
}

// TestGuards_Shadows checks that the functions that run as their owner do not look into the caller's temporary schema
// first: with tables of his own there, he would choose what they find.
func TestGuards_Shadows(t *testing.T) {
	t.Parallel()
	g := setupGuarded(t)
	service := guardConn(t, g.db.ServiceDSN(), "")
	if err := script(service, `CREATE TEMP TABLE account AS SELECT * FROM public.account;
		UPDATE pg_temp.account SET currency = 'BDT', scale = 30;
		CREATE TEMP TABLE entry (LIKE public.entry);
		CREATE TEMP TABLE new_transfers (LIKE public.transfer);
		CREATE TEMP TABLE mark AS SELECT 1 AS ledger_id, 9000000000000000000 AS horizon;
		CREATE TEMP TABLE value_dated_entry (LIKE public.value_dated_entry);
		CREATE TEMP TABLE period_change AS SELECT 1 AS ledger_id, 1 AS sequence, now() + interval '1 h' AS closed_before;
		CREATE TEMP TABLE snapshot AS SELECT 1 AS ledger_id, account_no, 1::bigint AS through, 77::numeric AS sum FROM public.account;
		CREATE TEMP SEQUENCE journal_sequence START 1000000000;
		SELECT nextval('pg_temp.journal_sequence');
		SET search_path = pg_temp, public`); err != nil {
		t.Fatal(err)
	}
	insert := strings.Replace(insertTransfer("X", "'{$cash,$usdwall}'", "'{0.001,-0.001}'"), "INTO transfer", "INTO public.transfer", 1)
	if got := refusedWith(g.try(service, attempt{sql: insert})); got != "23514 transfer_balanced" {
		t.Errorf("with tables of its own: %s", got)
	}
	insert = strings.NewReplacer("INTO transfer", "INTO public.transfer", "caller)", "caller, effective_at)", "'psql')", "'psql', now())").
		Replace(insertTransfer("X", "'{$cash,$wallet}'", "'{5,-5}'"))
	if err := g.try(service, attempt{sql: insert}); err != nil {
		t.Error(err)
	}
	for sql, want := range map[string]string{
		"SELECT count(*)::text FROM public.value_dated_entry":                           "2",
		"SELECT sum::text FROM public.balance_through(1, $wallet, 9223372036854775807)": "-505",
	} {
		var got string
		if err := service.QueryRow(t.Context(), g.names.Replace(sql)).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %s %v", sql, got, err)
		}
	}
	if got := g.balance(t, "wallet"); got != "505.00" {
		t.Errorf("balance %s", got)
	}
}

// TestGuards_BehindAMark checks that nobody, by whatever number, gets an entry behind a mark: the snapshots there would be wrong.
func TestGuards_BehindAMark(t *testing.T) {
	t.Parallel()
	b := setupDense(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "shop", ledger.Liability, "BDT", nil)
	super := guardConn(t, b.db.SuperDSN(), "")
	// Numbers that were drawn and not used.
	if err := script(super, "SELECT nextval('journal_sequence') FROM generate_series(1, 10)"); err != nil {
		t.Fatal(err)
	}
	insert := func(id, sequence string) string { return insertMove(id, "cash", "shop", "1", sequence) }
	if err := script(super, insert("EARLIER", "5")); err != nil {
		t.Errorf("before there is a mark: %v", err)
	}
	for i := range 12 {
		b.post(t, move(fmt.Sprint(i), "cash", "shop", "1"))
	}
	if err := b.SnapshotRound(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, dsn := range map[string]string{"service": b.db.ServiceDSN(), "owner": b.db.OwnerDSN(), "superuser": b.db.SuperDSN(), "replica": b.db.SuperDSN()} {
		conn := guardConn(t, dsn, "")
		if name == "replica" {
			if err := script(conn, "SET session_replication_role = replica"); err != nil {
				t.Fatal(err)
			}
		}
		for _, sequence := range []string{"6", "7"} {
			if got := refusedWith(script(conn, insert("LOW", sequence))); got != "23514 transfer_horizon" {
				t.Errorf("%s, number %s: %s", name, sequence, got)
			}
		}
		// Among others that are right.
		both := insert("HIGH", "nextval('journal_sequence')") + "; " + insert("LOW", "8")
		if got := refusedWith(script(conn, both)); got != "23514 transfer_horizon" {
			t.Errorf("%s, among others: %s", name, got)
		}
	}
	if err := script(super, insert("HIGH", "nextval('journal_sequence')")); err != nil {
		t.Errorf("above the marks: %v", err)
	}
	checkDense(t, b.db)
}
