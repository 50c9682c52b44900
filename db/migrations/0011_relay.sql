-- +goose Up

-- Events: what the relay publishes to Kafka is the journal itself, a transfer or a change of an account at a time, in the order of
-- their numbers. Here are the few things that it needs beside the journal: which relay is at work, how far it has come, and what it
-- could not publish.

SET LOCAL lock_timeout = '3s';
SELECT pg_advisory_xact_lock(4247, ledger_id) FROM (SELECT ledger_id FROM ledger ORDER BY ledger_id) g; -- as in 0005

-- What makes the event of a change: numbers can be drawn again after an older backup was restored, this is not. The rows from before
-- have none, and go by their number: no event was published of any that a backup from before lacks.
ALTER TABLE account_change ADD COLUMN change_id uuid;
ALTER TABLE account_change ALTER change_id SET DEFAULT gen_random_uuid();

-- Whoever reads the journal by number goes as far as nobody is under way behind it, and knows who is by the gate. A hand that inserts
-- transfers takes the gate of their ledger at the end of its statement only, when the numbers have been drawn: see
-- transfer_write_entries. So it takes this one before the statement begins: 0 is the gate of all ledgers, which the horizon of each
-- waits for and nobody holds alone. Khata's posters hold their ledger's, and say so (khata.gate), so that those of one ledger are
-- not waited for by the readers of another.
-- To take it is all that the condition is for: it never holds.
CREATE FUNCTION hand_takes_gate() RETURNS boolean LANGUAGE sql
AS $$SELECT CASE WHEN coalesce(pg_catalog.current_setting('khata.gate', true), '') = ''
                 THEN pg_catalog.pg_advisory_xact_lock_shared(4247, 0) IS NULL ELSE false END$$;
CREATE TRIGGER transfer_gate BEFORE INSERT ON transfer
    FOR EACH STATEMENT WHEN (hand_takes_gate()) EXECUTE FUNCTION refuse_change();
ALTER TABLE transfer ENABLE ALWAYS TRIGGER transfer_gate;

-- As in 0007, and every change takes the gate before it draws its number: those of a name, too, or of a new account.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION account_next_version() RETURNS trigger LANGUAGE plpgsql
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
    IF TG_OP = 'UPDATE' AND (NEW.floor, NEW.ceiling, NEW.serialised, NEW.frozen, NEW.closed)
        IS DISTINCT FROM (OLD.floor, OLD.ceiling, OLD.serialised, OLD.frozen, OLD.closed) THEN
        IF NOT pg_try_advisory_xact_lock(4247, NEW.ledger_id) THEN
            RAISE EXCEPTION 'the rules of account % cannot change now: transfers of its ledger are under way', OLD.account_id
                USING ERRCODE = 'lock_not_available', TABLE = 'account',
                      HINT = format('Use khata account update; or run SELECT pg_advisory_xact_lock(4247, %s) first, in the same transaction.',
                                    NEW.ledger_id);
        END IF;
    ELSE
        PERFORM pg_advisory_xact_lock_shared(4247, NEW.ledger_id);
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.closed AND NOT OLD.closed
       AND EXISTS (SELECT FROM open_hold h WHERE h.ledger_id = NEW.ledger_id AND (h.debit_no = NEW.account_no OR h.credit_no = NEW.account_no)) THEN
        RAISE EXCEPTION 'account % has open holds, and cannot be closed', OLD.account_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'account_closed_without_holds', TABLE = 'account';
    END IF;
    -- After the gate: whoever holds it draws higher numbers than all that was seen before.
    NEW.version := nextval('journal_sequence');
    NEW.changed_at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- The relay that is at work. There is one row. A relay that takes over raises the term; whatever is written for a term that is not
-- the last one finds no row.
CREATE TABLE relay (
    one         boolean     PRIMARY KEY DEFAULT true CHECK (one),
    term        bigint      NOT NULL DEFAULT 0,
    holder      text        NOT NULL DEFAULT '',
    -- By the clock of the database.
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    -- What the cursors are about: the id of a Kafka cluster, the prefix of the topics in it, and how many partitions these have, since with
    -- another number the keys would lie elsewhere. NULL: whichever comes first.
    cluster     text,
    prefix      text,
    partitions  text
) WITH (fillfactor = 50);
INSERT INTO relay DEFAULT VALUES;

-- How far each ledger is published: all records through a number are acknowledged by Kafka, or parked.
CREATE TABLE relay_cursor (
    ledger_id integer     PRIMARY KEY,
    through   bigint      NOT NULL,
    -- How many records that are. The journal can be counted, and so khata verify finds one that came to lie behind the cursor.
    records   bigint      NOT NULL,
    moved_at  timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- Events that Kafka refuses for good, and those behind them: of the same topic and key, which have to stay in order. The journal has
-- what is in them.
CREATE TABLE relay_parked (
    event_id    text        COLLATE "C" PRIMARY KEY,
    ledger_id   integer     NOT NULL,
    sequence    bigint      NOT NULL,
    topic       text        COLLATE "C" NOT NULL,
    key         text        COLLATE "C" NOT NULL,
    type        text        NOT NULL,
    -- Why it is here; NULL: for what is parked before it.
    error       text,
    parked_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- What somebody has asked for, and the relay will do.
    request     text        CHECK (request IN ('retry', 'skip')),
    requested_at timestamptz,
    reason      text,
    -- What became of it; NULL: it waits.
    outcome     text        CHECK (outcome IN ('published', 'skipped', 'rewound')),
    settled_at  timestamptz,
    CONSTRAINT relay_parked_settled_check CHECK ((outcome IS NULL) = (settled_at IS NULL)),
    CONSTRAINT relay_parked_skip_check CHECK (request <> 'skip' OR reason <> '')
);
CREATE INDEX relay_parked_open ON relay_parked (topic, key, sequence) WHERE outcome IS NULL;

GRANT SELECT, UPDATE ON relay TO khata_service;
GRANT SELECT, INSERT, UPDATE ON relay_cursor, relay_parked TO khata_service;
