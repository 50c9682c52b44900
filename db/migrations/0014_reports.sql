-- +goose Up

-- What reports stand on: the one function that computes a balance as of a time, the statements that were issued, and how many duplicates were
-- stopped.
SET LOCAL lock_timeout = '3s';

-- The sum of an account's entries over the transfers whose time is at or before "at", as far as their numbers go up to a horizon; and the number
-- of the last of them, by posting time. Every balance as of a time is computed here, for GetBalance and for each report.
--
-- Numbers up to "base" are such, and outside of the stretches (afters, throughs) no other is: see stretches_around. By value date, entries for
-- which the two times lie on different sides of "at" are put right.
--
-- As with balance_through, the planner puts it in the place of a call.
CREATE FUNCTION balance_by_time(ledger_id integer, account_no bigint, at timestamptz, by_value_date boolean, horizon bigint, base bigint,
                                afters bigint[], throughs bigint[])
    RETURNS TABLE (sum numeric, version bigint)
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 1
AS 'SELECT b.sum + s.sum + v.sum, greatest(b.version, s.version)
      FROM (SELECT) one
           CROSS JOIN LATERAL public.balance_through($1, $2, $6) AS b (sum, version)
           CROSS JOIN LATERAL (
               SELECT coalesce(sum(e.amount), 0) AS sum, coalesce(max(e.sequence), 0) AS version
                 FROM unnest($7, $8) AS r (after, through)
                      CROSS JOIN LATERAL (SELECT f.sequence, f.amount FROM public.entry f
                                           WHERE f.ledger_id = $1 AND f.account_no = $2
                                             AND f.sequence > r.after AND f.sequence <= r.through OFFSET 0) e
                      CROSS JOIN LATERAL (SELECT u.posted_at FROM public.transfer u
                                           WHERE u.ledger_id = $1 AND u.sequence = e.sequence OFFSET 0) t
                WHERE t.posted_at <= $3) s
           CROSS JOIN LATERAL (
               SELECT CASE WHEN $4
                           THEN (SELECT coalesce(sum(CASE WHEN d.effective_at <= $3 THEN d.amount ELSE -d.amount END), 0)
                                   FROM public.value_dated_entry d
                                  WHERE d.ledger_id = $1 AND d.account_no = $2 AND d.sequence <= $5
                                    AND (d.effective_at <= $3) <> (d.posted_at <= $3))
                           ELSE 0 END AS sum) v';

-- Statements that were issued. (The foreign key has the creation of accounts wait for a moment, and nobody who posts.) Their bytes never change; a later one of the same account and basis begins where the last one ended.
CREATE TABLE statement (
    ledger_id    integer     NOT NULL REFERENCES ledger,
    statement_no bigint      GENERATED ALWAYS AS IDENTITY,
    account_no   bigint      NOT NULL,
    basis        text        COLLATE "C" NOT NULL,
    -- Its place among the statements of its account and basis, from 1, without gaps: two who issue the next one at once want the same place.
    ordinal      integer     NOT NULL,
    -- The period: from the first moment up to, and without, the second one. "zone" is how they are told.
    starts_at    timestamptz NOT NULL,
    ends_at      timestamptz NOT NULL,
    zone         text        COLLATE "C" NOT NULL,
    -- The last number that it has seen, and the balances that it tells, a debit positive.
    through      bigint      NOT NULL,
    opening      numeric     NOT NULL,
    closing      numeric     NOT NULL,
    content      bytea       NOT NULL,
    sha256       bytea       NOT NULL,
    issued_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    issued_by    text        NOT NULL,
    PRIMARY KEY (ledger_id, statement_no),
    CONSTRAINT statement_ordinal_key UNIQUE (ledger_id, account_no, basis, ordinal),
    CONSTRAINT statement_account_fkey FOREIGN KEY (ledger_id, account_no) REFERENCES account,
    CONSTRAINT statement_basis_check CHECK (basis IN ('booking', 'value')),
    CONSTRAINT statement_ordinal_check CHECK (ordinal >= 1),
    CONSTRAINT statement_period_check CHECK (starts_at < ends_at AND ends_at <= issued_at),
    CONSTRAINT statement_content_check CHECK (sha256 = pg_catalog.sha256(content))
);

-- The closing balance that the bytes of a statement tell, in the normal direction of its account; NULL if they are none of a statement.
CREATE FUNCTION statement_balance(content bytea) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$SELECT substring(encode(content, 'escape') FROM '"balance": "(-?[0-9]+(?:\.[0-9]+)?)"\}\],\n"checks": \[')::numeric$$;

-- A statement begins with the moment, and the balance, with which the one before it ended. The last place is read again here, so that a hand in
-- psql cannot break the chain either; that two cannot take one place, the unique key says.
-- +goose StatementBegin
CREATE FUNCTION statement_follows() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp
AS $$
DECLARE
    previous statement;
BEGIN
    SELECT * INTO previous FROM statement s
     WHERE s.ledger_id = NEW.ledger_id AND s.account_no = NEW.account_no AND s.basis = NEW.basis ORDER BY s.ordinal DESC LIMIT 1;
    -- What was not over when it was issued, or a number that was not drawn, would be believed by all statements after it, for ever.
    IF NOT (isfinite(NEW.starts_at) AND isfinite(NEW.ends_at) AND NEW.issued_at <= clock_timestamp() AND abs(NEW.opening) < 1e60 AND abs(NEW.closing) < 1e60
            AND NEW.through BETWEEN 0 AND (SELECT s.last_value FROM journal_sequence s)) THEN
        RAISE EXCEPTION 'a statement is of a period that is over, and of numbers that were drawn'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'statement_over', TABLE = 'statement';
    END IF;
    IF abs(NEW.closing) IS DISTINCT FROM abs(statement_balance(NEW.content)) THEN
        RAISE EXCEPTION 'the bytes of the statement do not tell its closing balance, %', NEW.closing
            USING ERRCODE = 'check_violation', CONSTRAINT = 'statement_content_check', TABLE = 'statement';
    END IF;
    IF NEW.ordinal <> coalesce(previous.ordinal, 0) + 1 THEN
        RAISE EXCEPTION 'the next statement of the account is number %', coalesce(previous.ordinal, 0) + 1
            USING ERRCODE = 'unique_violation', CONSTRAINT = 'statement_ordinal_key', TABLE = 'statement';
    END IF;
    IF previous.ordinal IS NOT NULL AND (NEW.starts_at, NEW.opening) IS DISTINCT FROM (previous.ends_at, previous.closing)
       OR NEW.through < previous.through THEN
        RAISE EXCEPTION 'the next statement of the account begins at % with %', previous.ends_at, previous.closing
            USING ERRCODE = 'check_violation', CONSTRAINT = 'statement_follows', TABLE = 'statement';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION statement_follows() FROM PUBLIC;
CREATE TRIGGER statement_follows BEFORE INSERT ON statement FOR EACH ROW EXECUTE FUNCTION statement_follows();
CREATE TRIGGER statement_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON statement
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE statement ENABLE ALWAYS TRIGGER statement_follows;
ALTER TABLE statement ENABLE ALWAYS TRIGGER statement_refuse_change;
GRANT SELECT, INSERT ON statement TO khata_service;

-- How many duplicates each server has stopped in each quarter of an hour, by which guard. A server sets its own rows, again and again, to what it has counted:
-- nothing is added up here, and a server that is killed loses what it has not written yet. A duplicate itself writes nothing, so there is no
-- exact record of them; these are for finance to see how much the guards are worth, and nothing depends on them.
CREATE TABLE duplicate_tally (
    ledger_id integer     NOT NULL REFERENCES ledger,
    -- Its first moment. The days of all zones begin at one.
    quarter   timestamptz NOT NULL,
    -- ledger: the id of a transfer came again. key: the key of a payment did.
    guard     text        COLLATE "C" NOT NULL,
    -- A server from its start to its end.
    run       uuid        NOT NULL,
    -- Answered with the first answer, and refused because the content was another.
    replayed  bigint      NOT NULL,
    taken     bigint      NOT NULL,
    PRIMARY KEY (ledger_id, quarter, guard, run),
    CONSTRAINT duplicate_tally_guard_check CHECK (guard IN ('ledger', 'key')),
    CONSTRAINT duplicate_tally_counts_check CHECK (replayed >= 0 AND taken >= 0)
);
GRANT SELECT, INSERT, UPDATE (replayed, taken) ON duplicate_tally TO khata_service;
