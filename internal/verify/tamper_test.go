package verify_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/verify"
)

// always runs statements with the triggers of a table switched off, and switches them on again as they were.
func always(table string, statements ...string) []string {
	return append(append([]string{"ALTER TABLE " + table + " DISABLE TRIGGER USER"}, statements...),
		`DO $$ DECLARE t record; BEGIN
			FOR t IN SELECT tgname FROM pg_trigger WHERE tgrelid = '`+table+`'::regclass AND NOT tgisinternal LOOP
				EXECUTE format('ALTER TABLE `+table+` ENABLE ALWAYS TRIGGER %I', t.tgname);
			END LOOP;
		END $$`)
}

func join(lists ...[]string) (all []string) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// account gives the number of an account of ledger main, in SQL.
func account(id string) string {
	return "(SELECT account_no FROM account WHERE ledger_id = 1 AND account_id = '" + id + "')"
}

// sequence gives the sequence of a transfer of ledger main, in SQL.
func sequence(id string) string {
	return "(SELECT min(sequence) FROM transfer WHERE ledger_id = 1 AND transfer_id = '" + id + "')"
}

// posted inserts a transfer by plain DML, which the guards of the database allow.
func posted(id, debit, credit, amount string) string {
	return "INSERT INTO transfer (ledger_id, transfer_id, account_nos, amounts, caller) VALUES (1, '" + id + "', ARRAY[" +
		account(debit) + ", " + account(credit) + "], ARRAY[" + amount + ", -" + amount + "], 'psql')"
}

func refused(id, debit, credit, amount, reason, account string) string {
	return strings.Replace(strings.Replace(posted(id, debit, credit, amount), "caller)", "caller, refusal, refused_account_no)", 1),
		"'psql')", "'psql', '"+reason+"', "+account+")", 1)
}

func dropNotNull(table, column string) string {
	return "ALTER TABLE " + table + " ALTER COLUMN " + column + " DROP NOT NULL"
}

// Each tampering is found by the checks that are named, in so many breaches, and by no other check.
func TestRun_Tamperings(t *testing.T) {
	t.Parallel()
	type found = map[string]int64
	original := newBooks(t)
	original.close()
	for _, c := range []struct {
		name string
		do   []string
		want found
		// says is part of one of the breaches.
		says string
	}{
		// The guards.
		{
			"disabled trigger", []string{"ALTER TABLE entry DISABLE TRIGGER entry_refuse_change"},
			found{"guards": 1}, "trigger entry.entry_refuse_change is CREATE TRIGGER",
		},
		{
			"dropped trigger", []string{"DROP TRIGGER transfer_write_entries ON transfer"},
			found{"guards": 1}, "trigger transfer.transfer_write_entries is missing",
		},
		{
			"trigger not ALWAYS", []string{"ALTER TABLE transfer ENABLE TRIGGER transfer_write_entries"},
			found{"guards": 1}, "enabled, but not ALWAYS, but should be",
		},
		{
			"trigger REPLICA", []string{"ALTER TABLE ledger ENABLE REPLICA TRIGGER ledger_refuse_change"},
			found{"guards": 1}, "enabled for replicas only",
		},
		{
			"trigger for fewer events", []string{
				"DROP TRIGGER entry_refuse_change ON entry",
				"CREATE TRIGGER entry_refuse_change BEFORE UPDATE OR TRUNCATE ON entry FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()",
				"ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_refuse_change",
			},
			found{"guards": 1}, "BEFORE UPDATE OR TRUNCATE ON entry",
		},
		{
			"trigger with a condition", []string{
				"DROP TRIGGER account_record_change ON account",
				"CREATE TRIGGER account_record_change AFTER INSERT OR UPDATE ON account FOR EACH ROW WHEN (NEW.account_id <> 'mine') EXECUTE FUNCTION account_record_change()",
				"ALTER TABLE account ENABLE ALWAYS TRIGGER account_record_change",
			},
			found{"guards": 1}, "WHEN (new.account_id <> 'mine'",
		},
		{
			"another trigger", []string{
				"CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
				"CREATE TRIGGER a_swallow BEFORE INSERT ON transfer FOR EACH ROW EXECUTE FUNCTION swallow()",
				"REVOKE EXECUTE ON FUNCTION swallow() FROM PUBLIC", "ALTER FUNCTION swallow() OWNER TO khata_owner",
			},
			found{"guards": 1}, "trigger transfer.a_swallow is not of the migrations",
		},
		{
			"function body", []string{"CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"},
			found{"guards": 1}, "function refuse_change() is",
		},
		{
			"function settings", []string{"ALTER FUNCTION transfer_write_entries() RESET search_path"},
			found{"guards": 1}, "function transfer_write_entries() is",
		},
		{
			"function security", []string{"ALTER FUNCTION account_record_change() SECURITY INVOKER"},
			found{"guards": 1}, "function account_record_change() is plpgsql, security invoker",
		},
		{
			"dropped check", []string{"ALTER TABLE account DROP CONSTRAINT account_id_check"},
			found{"guards": 1}, "constraint account.account_id_check is missing",
		},
		{
			"check that was not validated", []string{
				"ALTER TABLE account DROP CONSTRAINT account_floor_serialised_check",
				"ALTER TABLE account ADD CONSTRAINT account_floor_serialised_check CHECK (floor IS NULL OR serialised) NOT VALID",
			},
			found{"guards": 1}, "NOT VALID",
		},
		{
			"dropped unique constraint", []string{"ALTER TABLE transfer DROP CONSTRAINT transfer_sequence_key"},
			found{"guards": 1}, "constraint transfer.transfer_sequence_key is missing",
		},
		{
			"invalid index", []string{"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'transfer_pkey'::regclass"},
			found{"guards": 1}, "its index is not valid",
		},
		{
			"foreign key off", []string{
				`DO $$ DECLARE t text; BEGIN
					SELECT tgname INTO t FROM pg_trigger JOIN pg_constraint c ON c.oid = tgconstraint
					 WHERE conname = 'account_currency_fkey' AND tgrelid = 'account'::regclass LIMIT 1;
					EXECUTE format('ALTER TABLE account DISABLE TRIGGER %I', t);
				END $$`,
			},
			found{"guards": 1}, "its triggers are switched off",
		},
		{
			"dropped foreign key", []string{"ALTER TABLE account DROP CONSTRAINT account_ledger_id_fkey"},
			found{"guards": 1}, "constraint account.account_ledger_id_fkey is missing",
		},
		{
			"column type", []string{"ALTER TABLE entry ALTER COLUMN leg TYPE integer"},
			found{"guards": 1}, "column entry.leg is integer NOT NULL, but should be smallint NOT NULL",
		},
		{
			"unlogged table", []string{"ALTER TABLE account_change SET UNLOGGED"},
			found{"guards": 1}, "table account_change is kind r, persistence u",
		},
		{
			"rule", []string{"CREATE RULE nothing AS ON INSERT TO ledger DO INSTEAD NOTHING"},
			found{"guards": 1}, "rule ledger.nothing is not of the migrations",
		},
		{
			"another unique index", []string{"CREATE UNIQUE INDEX one_a_day ON transfer (ledger_id, description)"},
			found{"guards": 1}, "index transfer.one_a_day is not of the migrations",
		},
		{"an index for reports", []string{"CREATE INDEX for_reports ON transfer (posted_at)"}, found{}, ""},
		{
			"sequence with a cache", []string{"ALTER SEQUENCE journal_sequence CACHE 32"},
			found{"guards": 1}, "CACHE 32",
		},
		{
			"sequence that begins again", []string{"ALTER SEQUENCE journal_sequence CYCLE"},
			found{"guards": 1}, "CACHE 1 CYCLE",
		},
		{
			"session_replication_role of a role", []string{
				`DO $$ BEGIN EXECUTE format('ALTER ROLE khata_owner IN DATABASE %I SET session_replication_role = replica', current_database()); END $$`,
			},
			found{"guards": 1}, "setting of khata_owner",
		},
		{
			"a later schema", []string{"INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)"},
			found{"guards": 1}, "the schema is at version 99999",
		},
		{
			"child with rows", []string{
				"CREATE TABLE shadow () INHERITS (transfer)",
				"INSERT INTO shadow SELECT ledger_id, 'T-shadow', nextval('journal_sequence'), now(), NULL, NULL, NULL, account_nos, amounts, NULL, NULL, 'x' FROM transfer WHERE ledger_id = 1 AND transfer_id = 'T-in'",
			},
			found{"guards": 1, "entries-match": 1}, "child transfer.shadow is not of the migrations",
		},
		{
			"parent", []string{"CREATE TABLE parent (LIKE entry)", "ALTER TABLE entry INHERIT parent"},
			found{"guards": 1}, "parent entry.parent is not of the migrations",
		},
		{
			"policy", []string{"CREATE POLICY mine ON transfer USING (caller = current_user)"},
			found{"guards": 1}, "policy transfer.mine is not of the migrations",
		},
		{
			"row security", []string{"ALTER TABLE currency ENABLE ROW LEVEL SECURITY"},
			// Nobody but the owner sees a currency now.
			found{"guards": 1, "accounts-well-formed": 11}, "row security t",
		},
		{
			"dropped table", []string{"DROP TABLE account_change"},
			found{"guards": 1, "sequences": 1, "floors": 1, "ceilings": 1, "accounts-open": 1, "refusals": 1, "account-history": 1, "published": 1},
			`could not be checked: ERROR: relation "account_change" does not exist`,
		},

		// Who may do what.
		{
			"UPDATE on entry", []string{"GRANT UPDATE ON entry TO khata_service"},
			found{"privileges": 1}, "khata_service may UPDATE entry",
		},
		{
			"UPDATE on a column", []string{"GRANT UPDATE (amount) ON entry TO khata_service"},
			found{"privileges": 1}, "khata_service may UPDATE entry (amount)",
		},
		{
			"UPDATE on the currency of accounts", []string{"GRANT UPDATE (currency, scale) ON account TO khata_service"},
			found{"privileges": 1}, "khata_service may UPDATE account (currency, scale)",
		},
		{
			"DELETE and TRUNCATE", []string{"GRANT DELETE, TRUNCATE ON account TO khata_service"},
			found{"privileges": 2}, "khata_service may TRUNCATE account",
		},
		{
			"INSERT on entry", []string{"GRANT INSERT ON entry, account_change TO khata_service"},
			found{"privileges": 2}, "khata_service may INSERT entry",
		},
		{
			"setval", []string{"GRANT UPDATE ON SEQUENCE journal_sequence TO khata_service"},
			found{"privileges": 1}, "khata_service may set sequence journal_sequence",
		},
		{
			"PUBLIC", []string{"GRANT UPDATE ON transfer TO PUBLIC"},
			found{"privileges": 1}, "PUBLIC may UPDATE transfer",
		},
		{
			"another role", []string{"GRANT DELETE ON transfer TO pg_monitor"},
			found{"privileges": 1}, "pg_monitor may DELETE transfer",
		},
		{
			"EXECUTE for PUBLIC", []string{"GRANT EXECUTE ON FUNCTION transfer_write_entries() TO PUBLIC"},
			found{"privileges": 1}, "PUBLIC may EXECUTE transfer_write_entries",
		},
		{
			"owner of a table", []string{"ALTER TABLE currency OWNER TO khata_service"},
			found{"privileges": 1}, "khata_service owns table currency",
		},
		{
			"CREATE in the schema", []string{"GRANT CREATE ON SCHEMA public TO PUBLIC"},
			found{"privileges": 1}, "khata_service may CREATE in schema public",
		},

		// The books.
		{
			"entry changed", always("entry", "UPDATE entry SET amount = 500.01 WHERE ledger_id = 1 AND sequence = "+sequence("T-in")+" AND amount > 0"),
			found{"entries-match": 1, "transfers-balance": 1, "trial-balance": 1},
			"missing among the entries: leg 1 cash 500; among the entries without being of the transfer: leg 1 cash 500.01",
		},
		{
			"entry deleted", always("entry", "DELETE FROM entry WHERE ledger_id = 1 AND sequence = "+sequence("T-fee")+" AND leg = 3"),
			found{"entries-match": 1, "transfers-balance": 1, "trial-balance": 1}, "missing among the entries: leg 3 fees -1.5",
		},
		{
			"entries added in balance", always("entry", "INSERT INTO entry VALUES (1, "+account("cash")+", "+sequence("T-in")+", 3, 5), (1, "+account("fees")+", "+sequence("T-in")+", 4, -5)"),
			found{"entries-match": 1}, "among the entries without being of the transfer: leg 3 cash 5, leg 4 fees -5",
		},
		{
			"entries moved to another account", always("entry", "UPDATE entry SET account_no = "+account("coins")+" WHERE ledger_id = 1 AND sequence = "+sequence("T-vault-in")+" AND leg = 1"),
			found{"entries-match": 1, "floors": 1}, "leg 1 vault 1.000000000000000001; among the entries without being of the transfer: leg 1 coins",
		},
		{
			"entries of a refused transfer", always("entry", "INSERT INTO entry VALUES (1, "+account("cash")+", "+sequence("T-to-closed")+", 1, 1), (1, "+account("closed")+", "+sequence("T-to-closed")+", 2, -1)"),
			found{"entries-match": 1, "accounts-open": 1}, "the transfer was refused: ACCOUNT_CLOSED",
		},
		{
			"entries without a transfer", always("entry", "INSERT INTO entry VALUES (1, "+account("cash")+", 1, 1, 5), (1, "+account("fees")+", 1, 2, -5)"),
			found{"entries-match": 1, "account-history": 2}, "there is no such transfer",
		},
		{
			"NaN", always("entry", "UPDATE entry SET amount = 'NaN' WHERE ledger_id = 1 AND sequence = "+sequence("T-in")),
			// And no balance is too little for anything any more.
			found{"entries-match": 1, "transfers-balance": 1, "trial-balance": 1, "refusals": 2}, "its entries to NaN",
		},
		{
			"transfer deleted", always("transfer", "DELETE FROM transfer WHERE ledger_id = 1 AND transfer_id = 'T-top-up'"),
			found{"entries-match": 1}, "there is no such transfer",
		},
		{
			"refused transfer deleted: nothing is left to tell", always("transfer", "DELETE FROM transfer WHERE ledger_id = 1 AND transfer_id = 'T-too-much'"),
			found{}, "",
		},
		{
			"transfer and its entries deleted", join(
				always("entry", "DELETE FROM entry WHERE ledger_id = 1 AND sequence = "+sequence("T-closing-in")),
				always("transfer", "DELETE FROM transfer WHERE ledger_id = 1 AND transfer_id = 'T-closing-in'")),
			found{"floors": 1, "accounts-open": 1}, "was closed with a balance of -20",
		},
		{
			"transfer that does not balance", always("transfer", "UPDATE transfer SET amounts = ARRAY[500, -499] WHERE ledger_id = 1 AND transfer_id = 'T-in'"),
			found{"entries-match": 1, "transfers-balance": 1}, "BDT: its row sums to 1, its entries to 0",
		},
		{
			"refused transfer that does not balance", always("transfer", "UPDATE transfer SET amounts = ARRAY[1, -2] WHERE ledger_id = 1 AND transfer_id = 'T-to-closed'"),
			found{"transfers-balance": 1}, "BDT: its row sums to -1",
		},
		{
			"two currencies that balance only together", []string{
				"ALTER TABLE transfer DISABLE TRIGGER transfer_write_entries",
				posted("T-mixed", "cash", "usd", "5"),
				"ALTER TABLE transfer ENABLE ALWAYS TRIGGER transfer_write_entries",
				"ALTER TABLE entry DISABLE TRIGGER USER",
				"INSERT INTO entry VALUES (1, " + account("cash") + ", " + sequence("T-mixed") + ", 1, 5), (1, " + account("usd") + ", " + sequence("T-mixed") + ", 2, -5)",
				"ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_refuse_insert", "ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_refuse_change",
			},
			found{"transfers-balance": 1, "trial-balance": 2}, "BDT: its row sums to 5, its entries to 5; USD: its row sums to -5, its entries to -5",
		},
		{
			"NULL in the arrays", always("transfer", "UPDATE transfer SET amounts = ARRAY[500, NULL] WHERE ledger_id = 1 AND transfer_id = 'T-in'"),
			found{"entries-match": 1, "transfers-balance": 1, "transfers-well-formed": 1}, "its arrays make no entries",
		},
		{
			"arrays of other lengths", always("transfer", "UPDATE transfer SET account_nos = account_nos || 1::bigint WHERE ledger_id = 1 AND transfer_id = 'T-in'"),
			found{"entries-match": 1, "transfers-well-formed": 1}, "its arrays make no entries",
		},
		{
			"no arrays", join([]string{dropNotNull("transfer", "account_nos"), dropNotNull("transfer", "amounts")},
				always("transfer", "UPDATE transfer SET amounts = NULL, account_nos = NULL WHERE ledger_id = 1 AND transfer_id = 'T-in'")),
			found{"guards": 2, "entries-match": 1, "transfers-well-formed": 1}, "its arrays make no entries",
		},
		{
			"two-dimensional arrays", always("transfer", "UPDATE transfer SET account_nos = ARRAY[account_nos], amounts = ARRAY[amounts] WHERE ledger_id = 1 AND transfer_id = 'T-in'"),
			found{"transfers-well-formed": 1}, "its arrays make no entries",
		},
		{
			"amounts that cannot be", always("transfer",
				"UPDATE transfer SET amounts = ARRAY[0, 0] WHERE ledger_id = 1 AND transfer_id = 'T-too-much'",
				"UPDATE transfer SET amounts = ARRAY[0.001, -0.001] WHERE ledger_id = 1 AND transfer_id = 'T-to-closed'",
				"UPDATE transfer SET amounts = ARRAY['Infinity', '-Infinity']::numeric[] WHERE ledger_id = 1 AND transfer_id = 'T-from-frozen'",
				"UPDATE transfer SET amounts = ARRAY['NaN', 'NaN']::numeric[] WHERE ledger_id = 1 AND transfer_id = 'T-below-new-floor'",
			),
			found{"transfers-well-formed": 4, "transfers-balance": 2, "refusals": 2}, "0.001 BDT cannot be an amount of account cash",
		},
		{
			"an account that does not exist", always("transfer", "UPDATE transfer SET account_nos[1] = 999999 WHERE ledger_id = 1 AND transfer_id = 'T-to-closed'"),
			found{"transfers-well-formed": 1, "transfers-balance": 1}, "its ledger has no account number 999999",
		},
		{
			"an account of another ledger", always("transfer", "UPDATE transfer SET account_nos[1] = (SELECT account_no FROM account WHERE ledger_id = 2 AND account_id = 'cash') WHERE ledger_id = 1 AND transfer_id = 'T-to-closed'"),
			found{"transfers-well-formed": 1, "transfers-balance": 1}, "its ledger has no account number",
		},
		{
			"an account on both sides", []string{
				"INSERT INTO transfer (ledger_id, transfer_id, account_nos, amounts, caller) VALUES (1, 'T-both', ARRAY[" + account("cash") + ", " + account("cash") + "], ARRAY[1, -1], 'psql')",
			},
			found{"transfers-well-formed": 1}, "an account is on both sides of it",
		},
		{
			"times and metadata that cannot be", always("transfer",
				"UPDATE transfer SET posted_at = 'infinity' WHERE ledger_id = 1 AND transfer_id = 'T-in'",
				"UPDATE transfer SET posted_at = now() + interval '1 year' WHERE ledger_id = 1 AND transfer_id = 'T-fee'",
				"UPDATE transfer SET effective_at = '-infinity' WHERE ledger_id = 1 AND transfer_id = 'T-top-up'",
				"UPDATE transfer SET metadata = '[1]' WHERE ledger_id = 1 AND transfer_id = 'T-back'",
			),
			found{"transfers-well-formed": 4, "value-dates": 1}, "posted_at cannot be infinity",
		},
		{
			"posted_at is NULL", append([]string{dropNotNull("transfer", "posted_at")}, always("transfer", "UPDATE transfer SET posted_at = NULL WHERE ledger_id = 1 AND transfer_id = 'T-in'")...),
			found{"guards": 1, "transfers-well-formed": 1}, "posted_at cannot be NULL",
		},
		{
			"a ledger that does not exist", always("transfer", "UPDATE transfer SET ledger_id = 77 WHERE ledger_id = 1 AND transfer_id = 'T-to-closed'"),
			found{"transfers-well-formed": 1}, "ledger number 77, transfer T-to-closed",
		},
		{
			"malformed id", always("transfer", `UPDATE transfer SET transfer_id = E'T\x1b[2J' WHERE ledger_id = 1 AND transfer_id = 'T-in'`),
			found{"transfers-well-formed": 1}, `transfer "T\x1b[2J", sequence`,
		},
		{
			"duplicate id", []string{"ALTER TABLE transfer DROP CONSTRAINT transfer_pkey", posted("T-in", "cash", "fees", "3")},
			found{"guards": 1, "ids-unique": 1}, "transfer T-in, sequence",
		},
		{
			"duplicate id behind a damaged index", []string{
				// An index that is not ready takes no new rows, and afterwards lacks them.
				"UPDATE pg_index SET indisready = false WHERE indexrelid = 'transfer_pkey'::regclass",
				posted("T-in", "cash", "fees", "3"),
				"UPDATE pg_index SET indisready = true WHERE indexrelid = 'transfer_pkey'::regclass",
				`DO $$ BEGIN
					SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off;
					ASSERT (SELECT array_length(array_agg(transfer_id), 1) FROM (SELECT transfer_id FROM transfer
					         WHERE ledger_id = 1 AND transfer_id BETWEEN 'T-in' AND 'T-in' ORDER BY transfer_id) t) = 1, 'the index is not damaged';
				END $$`,
			},
			found{"ids-unique": 1}, "2 transfers have this id",
		},
		{
			"duplicate account id", []string{
				"ALTER TABLE account DROP CONSTRAINT account_id_key",
				"INSERT INTO account (ledger_id, account_id, type, currency, scale, changed_by) VALUES (1, 'cash', 'asset', 'BDT', 2, 'psql')",
			},
			found{"guards": 1, "ids-unique": 1}, "2 accounts have this id",
		},
		{
			"duplicate sequence", join([]string{"ALTER TABLE transfer DROP CONSTRAINT transfer_sequence_key"},
				always("transfer", "UPDATE transfer SET sequence = "+sequence("T-too-much")+" WHERE ledger_id = 1 AND transfer_id = 'T-to-closed'")),
			// The refusal came before the account was closed, if the number were right.
			found{"guards": 1, "sequences": 1, "refusals": 1}, "2 rows have this number: transfer T-to-closed of ledger number 1, transfer T-too-much",
		},
		{
			"sequence of two ledgers", []string{
				"INSERT INTO transfer (ledger_id, transfer_id, sequence, account_nos, amounts, caller) SELECT 2, 'T-again', " + sequence("T-in") + ", account_nos, amounts, 'psql' FROM transfer WHERE ledger_id = 2 AND refusal IS NULL",
			},
			found{"sequences": 1}, "transfer T-again of ledger number 2",
		},
		{
			"sequence of a transfer and a change", append(
				always("account_change", "UPDATE account_change SET sequence = "+sequence("T-in")+" WHERE ledger_id = 1 AND account_no = "+account("unused")),
				always("account", "UPDATE account SET version = "+sequence("T-in")+" WHERE ledger_id = 1 AND account_id = 'unused'")...),
			found{"sequences": 1}, "a change of account unused of ledger number 1",
		},
		{
			"sequence above the last", append(
				always("transfer", "UPDATE transfer SET sequence = 100000 WHERE ledger_id = 1 AND transfer_id = 'T-back'"),
				always("entry", "UPDATE entry SET sequence = 100000 WHERE ledger_id = 1 AND sequence = (SELECT max(sequence) FROM entry WHERE ledger_id = 1)")...),
			found{"sequences": 1}, "transfer T-back, sequence 100000: has a number above the last one drawn",
		},
		{
			"sequence below 1", always("transfer", "UPDATE transfer SET sequence = -5 WHERE ledger_id = 1 AND transfer_id = 'T-to-closed'"),
			// The account had no state then, so nothing is said of the refusal.
			found{"sequences": 1}, "has no number of 1 or more",
		},
		{
			"counter set back", []string{"SELECT setval('journal_sequence', (SELECT max(sequence) - 2 FROM account_change))"},
			found{"sequences": 2}, "above the last one drawn",
		},
		{
			"counter begun again", []string{"SELECT setval('journal_sequence', 1, false)"},
			found{"sequences": 36}, "above the last one drawn, which is 0",
		},
		{
			"floor broken", []string{posted("T-psql", "wallet", "cash", "1")},
			found{"floors": 1}, "ledger main, transfer T-psql, account wallet",
		},
		{
			"floor broken, then mended", []string{posted("T-psql", "wallet", "cash", "1"), posted("T-psql2", "cash", "wallet", "1000")},
			found{"floors": 1}, "below the floor of 0",
		},
		{
			"floor of then, not of now", always("account_change", "UPDATE account_change SET floor = -40 WHERE floor = -50"),
			found{"floors": 1}, "transfer T-overdraft, account wallet",
		},
		{
			"posted to a closed account", []string{posted("T-psql", "cash", "closed", "1")},
			found{"accounts-open": 1}, "account closed, sequence",
		},
		{
			"posted to a frozen side", []string{posted("T-psql", "frozen", "cash", "1"), posted("T-psql2", "cash", "frozen", "1")},
			found{"accounts-open": 1}, "had been frozen (debits)",
		},
		{
			"closed with a balance", []string{"UPDATE account SET closed = true, changed_by = 'psql' WHERE ledger_id = 1 AND account_id = 'coins'"},
			found{"accounts-open": 1}, "was closed with a balance of 0.500000000000000001",
		},
		{
			"a refusal without a reason", []string{
				pgtest.Mutate("transfer_fault", "'transfer_refused_account_check'", "NULL"),
				refused("R-1", "wallet", "cash", "1", "INSUFFICIENT_FUNDS", account("cash")),
				refused("R-2", "cash", "wallet", "1", "ACCOUNT_CLOSED", account("fees")),
			},
			found{"guards": 1, "refusals": 2}, "refused: ACCOUNT_CLOSED, by account number 4, which is no reason or not in the transfer",
		},
		{
			"refusals that were wrong", []string{
				pgtest.Mutate("transfer_fault", "'transfer_refused_account_check'", "NULL"),
				posted("T-psql", "cash", "wallet", "10"),
				refused("R-1", "wallet", "cash", "5", "INSUFFICIENT_FUNDS", account("wallet")),
				refused("R-2", "cash", "fees", "5", "ACCOUNT_CLOSED", account("fees")),
				refused("R-3", "cash", "frozen", "5", "ACCOUNT_FROZEN", account("frozen")),
				refused("R-4", "cash", "wallet", "5", "BECAUSE", account("wallet")),
				refused("R-5", "cash", "wallet", "5", "ACCOUNT_CLOSED", account("closed")),
				refused("R-right", "wallet", "cash", "50", "INSUFFICIENT_FUNDS", account("wallet")),
			},
			found{"guards": 1, "refusals": 5}, "transfer R-1, account wallet",
		},
		{
			"account's currency changed", always("account", "UPDATE account SET currency = 'USD' WHERE ledger_id = 1 AND account_id = 'fees'"),
			found{"transfers-balance": 1, "trial-balance": 2, "account-history": 1}, "transfer T-fee",
		},
		{
			"account's scale changed", join([]string{"ALTER TABLE account DROP CONSTRAINT account_currency_fkey"},
				always("account", "UPDATE account SET scale = 5 WHERE ledger_id = 1 AND account_id = 'unused'")),
			found{"guards": 1, "accounts-well-formed": 1, "account-history": 1}, "it has 5 decimals, JPY has 0",
		},
		{
			"account's currency gone", join([]string{"ALTER TABLE account DROP CONSTRAINT account_currency_fkey"},
				always("currency", "DELETE FROM currency WHERE code = 'JPY'")),
			found{"guards": 1, "accounts-well-formed": 1}, "JPY has no row in its ledger",
		},
		{
			"account's floor cannot be", []string{"ALTER TABLE account DROP CONSTRAINT account_floor_check", "UPDATE account SET floor = 'NaN', serialised = true, changed_by = 'psql' WHERE ledger_id = 1 AND account_id = 'unused'"},
			found{"guards": 1, "accounts-well-formed": 1, "account-history": 1}, "its floor cannot be NaN",
		},
		{
			"account changed without a trace", always("account", "UPDATE account SET floor = -1000 WHERE ledger_id = 1 AND account_id = 'wallet'"),
			found{"account-history": 1}, "floor -1000, was 0",
		},
		{
			"history changed", always("account_change", "UPDATE account_change SET changed_by = 'somebody' WHERE ledger_id = 1 AND account_no = "+account("unused")),
			found{"account-history": 1}, "changed_by local, was somebody",
		},
		{
			"history lost", always("account_change", "DELETE FROM account_change WHERE ledger_id = 1 AND account_no = "+account("unused")),
			found{"account-history": 1}, "no state of it was recorded",
		},
		{
			"account opened again", []string{
				"ALTER TABLE account DISABLE TRIGGER account_next_version",
				"UPDATE account SET closed = false, version = nextval('journal_sequence') WHERE ledger_id = 1 AND account_id = 'closed'",
				"ALTER TABLE account ENABLE ALWAYS TRIGGER account_next_version",
			},
			found{"account-history": 1}, "is open again",
		},
		{
			"account deleted", always("account", "DELETE FROM account WHERE ledger_id = 1 AND account_id = 'unused'"),
			found{"account-history": 1}, "which does not exist",
		},
		{
			"account with entries deleted", always("account", "DELETE FROM account WHERE ledger_id = 1 AND account_id = 'coins'"),
			found{"account-history": 1, "transfers-well-formed": 2, "transfers-balance": 2, "trial-balance": 2}, "accounts that do not exist: its row sums to",
		},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			copied := original.clone(t)
			tamper(t, copied.super, c.do...)
			report := run(t, copied.service)
			got := found{}
			var lines []string
			for _, check := range report.Checks {
				if check.Breached > 0 {
					got[check.Name] = check.Breached
				}
				for _, breach := range check.Breaches {
					lines = append(lines, check.Name+": "+breach.String())
				}
			}
			all := strings.Join(lines, "\n")
			maps.DeleteFunc(c.want, func(_ string, n int64) bool { return n == 0 })
			if !maps.Equal(got, c.want) || !strings.Contains(all, c.says) {
				t.Errorf("breaches %v, want %v with %q:\n%s", got, c.want, c.says, all)
			}
		})
	}
}

// What concerns the whole server needs one of its own.
func TestRun_TamperedServer(t *testing.T) {
	t.Parallel()
	s := pgtest.NewServer(t, map[string]string{"full_page_writes": "off", "max_prepared_transactions": "2"})
	for _, c := range []struct{ do, undo, check, want string }{
		{"SELECT 1", "SELECT 1", "durability", "[full_page_writes is off: set it to on]"},
		{
			"BEGIN; SELECT nextval('journal_sequence'); PREPARE TRANSACTION 'forgotten'", "ROLLBACK PREPARED 'forgotten'", "guards",
			"[prepared transaction forgotten is not of the migrations: of postgres",
		},
		{"ALTER ROLE khata_service SUPERUSER", "ALTER ROLE khata_service NOSUPERUSER", "privileges", "[khata_service is a superuser]"},
		{
			"ALTER ROLE khata_service CREATEROLE", "ALTER ROLE khata_service NOCREATEROLE", "privileges",
			"[khata_service has CREATEROLE, and so can make itself a member of the owner]",
		},
		{"GRANT khata_owner TO khata_service", "REVOKE khata_owner FROM khata_service", "privileges", "[khata_service can act as khata_owner]"},
		{
			"ALTER ROLE khata_service NOINHERIT; GRANT khata_owner TO khata_service",
			"ALTER ROLE khata_service INHERIT; REVOKE khata_owner FROM khata_service", "privileges", "[khata_service can act as khata_owner]",
		},
		{
			"GRANT pg_write_all_data TO khata_service", "REVOKE pg_write_all_data FROM khata_service", "privileges",
			"[khata_service can act as pg_write_all_data]",
		},
		{
			"ALTER DATABASE khata OWNER TO khata_service", "ALTER DATABASE khata OWNER TO khata_owner", "privileges",
			"[khata_service owns the database]",
		},
		{
			"ALTER ROLE khata_service RENAME TO khata_other", "ALTER ROLE khata_other RENAME TO khata_service", "privileges",
			"the role khata_service does not exist",
		},
	} {
		if got := details(run(t, s.OwnerDSN()), "guards") + details(run(t, s.OwnerDSN()), "privileges"); got != "[][]" {
			t.Fatalf("before %s: %s", c.do, got)
		}
		tamper(t, s.SuperDSN(), c.do)
		if got := details(run(t, s.OwnerDSN()), c.check); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.do, got, c.want)
		}
		tamper(t, s.SuperDSN(), c.undo)
	}
}

func TestRun_NotDurable(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	tamper(t, b.db.SuperDSN(), `DO $$ BEGIN EXECUTE format('ALTER ROLE khata_service IN DATABASE %I SET synchronous_commit = off', current_database()); END $$`)
	for dsn, want := range map[string]string{
		b.db.OwnerDSN():   "[synchronous_commit=off is set for role khata_service: set it to on]",
		b.db.ServiceDSN(): "[synchronous_commit is off: set it to on synchronous_commit=off is set for role khata_service: set it to on]",
	} {
		report := run(t, dsn)
		if got := details(report, "durability"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func details(report verify.Report, name string) string {
	var list []string
	for _, c := range report.Checks {
		if c.Name != name {
			continue
		}
		for _, b := range c.Breaches {
			list = append(list, b.String())
		}
	}
	return "[" + strings.Join(list, " ") + "]"
}
