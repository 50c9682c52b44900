-- +goose Up

-- An account's rules change only while its ledger's gate is held alone, whoever changes them. Servers remember rules and ask for
-- changes by number: one that was numbered before, and committed after, a change that they have seen would never be asked for.

SET LOCAL lock_timeout = '3s';

-- As in 0001, and the gate. It is not waited for: the row is locked already, and a posting that holds the gate may be waiting
-- for the row.
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
    IF TG_OP = 'UPDATE' AND (NEW.floor, NEW.serialised, NEW.frozen, NEW.closed)
        IS DISTINCT FROM (OLD.floor, OLD.serialised, OLD.frozen, OLD.closed)
       AND NOT pg_try_advisory_xact_lock(4247, NEW.ledger_id) THEN
        RAISE EXCEPTION 'the rules of account % cannot change now: transfers of its ledger are under way', OLD.account_id
            USING ERRCODE = 'lock_not_available', TABLE = 'account',
                  HINT = format('Use khata account update; or run SELECT pg_advisory_xact_lock(4247, %s) first, in the same transaction.',
                                NEW.ledger_id);
    END IF;
    -- After the gate: whoever holds it draws higher numbers than all that was seen before.
    NEW.version := nextval('journal_sequence');
    NEW.changed_at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
