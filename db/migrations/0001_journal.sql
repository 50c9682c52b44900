-- +goose Up

-- The books: ledgers, currencies, accounts, and the journal of transfers and entries. internal/journal is the only
-- writer. The guards here stand below it: whatever a bug above or a hand in psql tries by plain DML, a transfer balances,
-- is there once, and stays as it is.
--
-- Migrations run as the owner of the database. The service connects as khata_service, which owns nothing and can only
-- insert into the journal.

-- +goose StatementBegin
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'khata_service') THEN
        RAISE EXCEPTION 'the role khata_service does not exist'
            USING HINT = 'Run as a superuser, once: CREATE ROLE khata_service LOGIN PASSWORD ''...''';
    END IF;
END
$$;
-- +goose StatementEnd

-- One counter for the whole database: transfers and changes of accounts take their place in the order of decision from
-- it. CACHE must stay 1, or a session could hold back low numbers and nothing would be a safe horizon.
CREATE SEQUENCE journal_sequence AS bigint CACHE 1;

-- A ledger is a separate set of books. Every other table leads with its number.
CREATE TABLE ledger (
    ledger_id  integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text        COLLATE "C" NOT NULL CONSTRAINT ledger_name_key UNIQUE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text        NOT NULL,
    CONSTRAINT ledger_name_check CHECK (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$')
);

-- The currencies of a ledger: those of ISO 4217 as they come into use, others as they are registered.
CREATE TABLE currency (
    ledger_id integer  NOT NULL REFERENCES ledger,
    code      text     COLLATE "C" NOT NULL,
    scale     smallint NOT NULL,
    PRIMARY KEY (ledger_id, code),
    -- So that an account can carry its scale, and cannot carry another than its currency's.
    CONSTRAINT currency_scale_key UNIQUE (ledger_id, code, scale),
    CONSTRAINT currency_code_check CHECK (code ~ '^[A-Z][A-Z0-9_]{2,15}$'),
    CONSTRAINT currency_scale_check CHECK (scale BETWEEN 0 AND 30)
);

-- Accounts as they are now. account_no is their short name inside the database: entries are many.
CREATE TABLE account (
    ledger_id  integer     NOT NULL REFERENCES ledger,
    account_no bigint      GENERATED ALWAYS AS IDENTITY,
    account_id text        COLLATE "C" NOT NULL,
    type       text        NOT NULL,
    currency   text        COLLATE "C" NOT NULL,
    scale      smallint    NOT NULL,
    name       text        NOT NULL DEFAULT '',
    metadata   json,
    floor      numeric,
    serialised boolean     NOT NULL DEFAULT false,
    frozen     text        NOT NULL DEFAULT 'none',
    closed     boolean     NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The next three are set by a trigger at each change.
    version    bigint      NOT NULL DEFAULT 0,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_by text        NOT NULL,
    PRIMARY KEY (ledger_id, account_no),
    CONSTRAINT account_id_key UNIQUE (ledger_id, account_id),
    CONSTRAINT account_currency_fkey FOREIGN KEY (ledger_id, currency, scale) REFERENCES currency (ledger_id, code, scale),
    CONSTRAINT account_id_check CHECK (length(account_id) BETWEEN 1 AND 128 AND account_id !~ '[^!-~]'),
    CONSTRAINT account_type_check CHECK (type IN ('asset', 'liability', 'equity', 'revenue', 'expense')),
    CONSTRAINT account_metadata_check CHECK (json_typeof(metadata) = 'object'),
    CONSTRAINT account_frozen_check CHECK (frozen IN ('none', 'debits', 'credits', 'both')),
    -- A floor can only be kept by deciding one transfer at a time.
    CONSTRAINT account_floor_serialised_check CHECK (floor IS NULL OR serialised),
    CONSTRAINT account_floor_check CHECK (floor = round(floor, scale) AND abs(floor) < 1e38)
);

-- Every state that an account has been in. Written by a trigger, so that no change goes without.
CREATE TABLE account_change (
    ledger_id  integer     NOT NULL,
    account_no bigint      NOT NULL,
    sequence   bigint      NOT NULL,
    type       text        NOT NULL,
    currency   text        COLLATE "C" NOT NULL,
    scale      smallint    NOT NULL,
    name       text        NOT NULL,
    metadata   json,
    floor      numeric,
    serialised boolean     NOT NULL,
    frozen     text        NOT NULL,
    closed     boolean     NOT NULL,
    changed_at timestamptz NOT NULL,
    changed_by text        NOT NULL,
    PRIMARY KEY (ledger_id, account_no, sequence),
    CONSTRAINT account_change_sequence_key UNIQUE (ledger_id, sequence)
);

-- The journal: a row for each decided transfer. The row carries its entries as arrays, and a trigger writes table entry
-- from them, so that a transfer and its entries cannot disagree.
CREATE TABLE transfer (
    ledger_id          integer     NOT NULL,
    transfer_id        text        COLLATE "C" NOT NULL,
    sequence           bigint      NOT NULL DEFAULT nextval('journal_sequence'),
    -- Read after the number was drawn: as-of queries narrow a time down to numbers and rely on it.
    posted_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    effective_at       timestamptz,
    -- NULL: posted. Otherwise the reason why it was refused, for ever.
    refusal            text,
    refused_account_no bigint,
    account_nos        bigint[]    NOT NULL,
    -- A debit is positive, a credit negative, so that a transfer sums to zero.
    amounts            numeric[]   NOT NULL,
    description        text,
    metadata           json,
    caller             text        NOT NULL,
    -- The heart of Khata: one id, one transfer.
    PRIMARY KEY (ledger_id, transfer_id),
    CONSTRAINT transfer_sequence_key UNIQUE (ledger_id, sequence),
    CONSTRAINT transfer_id_check CHECK (length(transfer_id) BETWEEN 1 AND 128 AND transfer_id !~ '[^!-~]'),
    CONSTRAINT transfer_refusal_check CHECK ((refusal IS NULL) = (refused_account_no IS NULL)),
    CONSTRAINT transfer_refused_account_check CHECK (refused_account_no = ANY (account_nos)),
    CONSTRAINT transfer_times_check CHECK (isfinite(posted_at) AND isfinite(effective_at)),
    CONSTRAINT transfer_metadata_check CHECK (json_typeof(metadata) = 'object'),
    CONSTRAINT transfer_entries_check CHECK (
        cardinality(account_nos) BETWEEN 2 AND 1000 AND cardinality(account_nos) = cardinality(amounts)
        AND array_ndims(account_nos) = 1 AND array_ndims(amounts) = 1
        AND array_lower(account_nos, 1) = 1 AND array_lower(amounts, 1) = 1
        AND array_position(account_nos, NULL) IS NULL AND array_position(amounts, NULL) IS NULL)
);

-- The entries of posted transfers. The primary key finds an account's entries in order, and sums them from the index alone.
-- There is no foreign key to account: it would lock the account's row for every entry, and one busy account would hold up
-- everybody.
CREATE TABLE entry (
    ledger_id  integer  NOT NULL,
    account_no bigint   NOT NULL,
    sequence   bigint   NOT NULL,
    leg        smallint NOT NULL,
    amount     numeric  NOT NULL,
    PRIMARY KEY (ledger_id, account_no, sequence, leg) INCLUDE (amount)
);

-- Writes the entries of new transfers, after checking what no CHECK can see: that the accounts exist, that each currency
-- sums to zero, and that no amount is finer than its currency. An amount that is zero, infinite or not a number is
-- refused too.
--
-- The planner is told to look accounts up one by one, by their key: with a million of them it would otherwise read the whole
-- table to check a batch of a hundred. OFFSET 0 keeps the look-up apart, or a table that was never analyzed is searched by
-- ledger alone, all accounts of it for every entry.
-- +goose StatementBegin
CREATE FUNCTION transfer_write_entries() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
    SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
DECLARE
    bad record;
BEGIN
    -- Anyone may hang a trigger function that he may execute on a table of his own.
    IF TG_RELID <> 'public.transfer'::regclass OR TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION 'transfer_write_entries belongs to table transfer';
    END IF;
    -- A number that was never drawn would sit ahead of every reader that goes by number.
    IF EXISTS (SELECT FROM new_transfers n, journal_sequence s WHERE n.sequence NOT BETWEEN 1 AND s.last_value) THEN
        RAISE EXCEPTION 'a transfer has a sequence that was not drawn from journal_sequence'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_sequence_drawn', TABLE = 'transfer';
    END IF;
    SELECT n.ledger_id, n.transfer_id, a.currency, sum(l.amount) AS off,
           bool_or(a.account_no IS NULL) AS unknown
      INTO bad
      FROM new_transfers n
           CROSS JOIN LATERAL unnest(n.account_nos, n.amounts) AS l (account_no, amount)
           LEFT JOIN LATERAL (SELECT b.account_no, b.currency, b.scale
                                FROM account b
                               WHERE b.ledger_id = n.ledger_id AND b.account_no = l.account_no
                              OFFSET 0) a ON true
     GROUP BY n.ledger_id, n.transfer_id, a.currency
    HAVING sum(l.amount) <> 0
        OR bool_or(a.account_no IS NULL)
        OR bool_or(l.amount = 0 OR abs(l.amount) >= 1e38 OR l.amount = 'NaN' OR l.amount <> trunc(l.amount, a.scale))
     ORDER BY unknown DESC
     LIMIT 1;
    IF FOUND AND bad.unknown THEN
        RAISE EXCEPTION 'transfer % names an account that ledger % does not have', bad.transfer_id, bad.ledger_id
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'transfer_accounts_exist', TABLE = 'transfer';
    ELSIF FOUND AND bad.off <> 0 THEN
        RAISE EXCEPTION 'transfer % does not balance: its % entries sum to %', bad.transfer_id, bad.currency, bad.off
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_balanced', TABLE = 'transfer';
    ELSIF FOUND THEN
        RAISE EXCEPTION 'transfer % has an amount that % does not allow', bad.transfer_id, bad.currency
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_amounts', TABLE = 'transfer';
    END IF;
    INSERT INTO entry (ledger_id, account_no, sequence, leg, amount)
    SELECT n.ledger_id, l.account_no, n.sequence, l.leg, l.amount
      FROM new_transfers n
           CROSS JOIN LATERAL unnest(n.account_nos, n.amounts) WITH ORDINALITY AS l (account_no, amount, leg)
     WHERE n.refusal IS NULL;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Only triggers of ours write to some tables: one trigger deep means a statement from outside.
-- +goose StatementBegin
CREATE FUNCTION refuse_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_trigger_depth() < 2 THEN
        RAISE EXCEPTION 'INSERT into table % is refused: a trigger writes it', TG_TABLE_NAME
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of table % is refused: it is append-only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege', HINT = 'A correction is a new transfer.';
END
$$;
-- +goose StatementEnd

-- Gives each new state of an account its place in the order of decision, and keeps what never changes. That the scale is the
-- currency's, the foreign key says too, but not under session_replication_role = replica.
-- +goose StatementBegin
CREATE FUNCTION account_next_version() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp
AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.ledger_id, NEW.account_no, NEW.account_id, NEW.type, NEW.currency, NEW.scale, NEW.created_at)
        IS DISTINCT FROM (OLD.ledger_id, OLD.account_no, OLD.account_id, OLD.type, OLD.currency, OLD.scale, OLD.created_at) THEN
        RAISE EXCEPTION 'the id, type and currency of account % never change', OLD.account_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'account_immutable', TABLE = 'account';
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.closed AND NOT NEW.closed THEN
        RAISE EXCEPTION 'account % is closed, and closing is final', OLD.account_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'account_closed_for_ever', TABLE = 'account';
    END IF;
    IF NOT EXISTS (SELECT FROM currency c WHERE c.ledger_id = NEW.ledger_id AND c.code = NEW.currency AND c.scale = NEW.scale) THEN
        RAISE EXCEPTION 'ledger % has no currency % with % decimals', NEW.ledger_id, NEW.currency, NEW.scale
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'account_currency_fkey', TABLE = 'account';
    END IF;
    NEW.version := nextval('journal_sequence');
    NEW.changed_at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION account_record_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
AS $$
BEGIN
    IF TG_RELID <> 'public.account'::regclass THEN
        RAISE EXCEPTION 'account_record_change belongs to table account';
    END IF;
    INSERT INTO account_change (ledger_id, account_no, sequence, type, currency, scale, name, metadata, floor, serialised,
                                frozen, closed, changed_at, changed_by)
    VALUES (NEW.ledger_id, NEW.account_no, NEW.version, NEW.type, NEW.currency, NEW.scale, NEW.name, NEW.metadata,
            NEW.floor, NEW.serialised, NEW.frozen, NEW.closed, NEW.changed_at, NEW.changed_by);
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Until autovacuum comes round, a table has no statistics, and the planner takes a ledger to have a row or two: it then
-- searches all of it for each id. The service may not ANALYZE, so it does it through this, as its tables grow.
-- +goose StatementBegin
CREATE FUNCTION refresh_statistics() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
AS $$
BEGIN
    ANALYZE account, account_change, transfer, entry;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION refresh_statistics() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION refresh_statistics() TO khata_service;

-- Otherwise any role could run them, as their owner, from a table of its own.
REVOKE EXECUTE ON FUNCTION transfer_write_entries(), refuse_insert(), refuse_change(), account_next_version(),
    account_record_change() FROM PUBLIC;

CREATE TRIGGER transfer_write_entries AFTER INSERT ON transfer
    REFERENCING NEW TABLE AS new_transfers FOR EACH STATEMENT EXECUTE FUNCTION transfer_write_entries();
CREATE TRIGGER transfer_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON transfer
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER entry_refuse_insert BEFORE INSERT ON entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_insert();
CREATE TRIGGER entry_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER account_next_version BEFORE INSERT OR UPDATE ON account
    FOR EACH ROW EXECUTE FUNCTION account_next_version();
CREATE TRIGGER account_record_change AFTER INSERT OR UPDATE ON account
    FOR EACH ROW EXECUTE FUNCTION account_record_change();
CREATE TRIGGER account_refuse_change BEFORE DELETE OR TRUNCATE ON account
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER account_change_refuse_insert BEFORE INSERT ON account_change
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_insert();
CREATE TRIGGER account_change_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON account_change
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER currency_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON currency
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- ALWAYS: also under session_replication_role = replica, which switches ordinary triggers off.
ALTER TABLE transfer ENABLE ALWAYS TRIGGER transfer_write_entries;
ALTER TABLE transfer ENABLE ALWAYS TRIGGER transfer_refuse_change;
ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_refuse_insert;
ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_refuse_change;
ALTER TABLE account ENABLE ALWAYS TRIGGER account_next_version;
ALTER TABLE account ENABLE ALWAYS TRIGGER account_record_change;
ALTER TABLE account ENABLE ALWAYS TRIGGER account_refuse_change;
ALTER TABLE account_change ENABLE ALWAYS TRIGGER account_change_refuse_insert;
ALTER TABLE account_change ENABLE ALWAYS TRIGGER account_change_refuse_change;
ALTER TABLE currency ENABLE ALWAYS TRIGGER currency_refuse_change;
ALTER TABLE ledger ENABLE ALWAYS TRIGGER ledger_refuse_change;

-- What the service may do: read everything, insert, and change the state of an account. Not the journal, and not entries
-- and account_change at all: those are written by triggers.
GRANT SELECT ON ledger, currency, account, account_change, transfer, entry, journal_sequence, goose_db_version TO khata_service;
GRANT USAGE ON SEQUENCE journal_sequence TO khata_service;
GRANT INSERT ON ledger, currency, account, transfer TO khata_service;
GRANT UPDATE (name, metadata, floor, serialised, frozen, closed, changed_by) ON account TO khata_service;

-- The ledger that is meant when none is named.
INSERT INTO ledger (name, created_by) VALUES ('main', 'khata');
