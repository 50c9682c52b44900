-- +goose Up

-- Balances as of a time: which numbers the time of posting comes down to, and what a value date changes.

-- A table's posters are waited for, and wait: not for long, or not at all.
SET LOCAL lock_timeout = '3s';

-- Which numbers of a ledger, up to a horizon, have to be looked at one by one to tell which of their transfers were posted at or
-- before a time. Up to the first of these stretches, all were; outside of them nothing else was.
--
-- First the stretch in which the time lies: from the last mark before which nothing is later, to the first one before which
-- something is later by more than the disorder that mark_take_snapshots puts up with. After that, only where the times go back
-- can one be earlier. Last, what has no mark yet.
CREATE FUNCTION stretches_around(ledger_id integer, at timestamptz, horizon bigint)
    RETURNS TABLE (after bigint, through bigint)
    LANGUAGE sql STABLE
    SET search_path = public, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
AS '
WITH bound AS (
    SELECT coalesce((SELECT m.horizon FROM mark m
                      WHERE m.ledger_id = $1 AND m.latest <= $2 AND m.horizon <= $3
                      ORDER BY m.latest DESC, m.horizon DESC LIMIT 1), 0) AS after,
           coalesce((SELECT m.horizon FROM mark m
                      WHERE m.ledger_id = $1 AND m.latest > $2 + interval ''100 milliseconds'' AND m.horizon <= $3
                      ORDER BY m.latest, m.horizon LIMIT 1), $3) AS through,
           coalesce((SELECT m.horizon FROM mark m
                      WHERE m.ledger_id = $1 AND m.horizon <= $3
                      ORDER BY m.horizon DESC LIMIT 1), 0) AS last)
SELECT b.after, b.through FROM bound b
UNION ALL
SELECT coalesce((SELECT n.horizon FROM mark n
                  WHERE n.ledger_id = $1 AND n.horizon < m.horizon
                  ORDER BY n.horizon DESC LIMIT 1), 0), m.horizon
  FROM bound b, mark m
 WHERE m.ledger_id = $1 AND m.goes_back AND m.earliest <= $2 AND m.horizon > b.through AND m.horizon <= $3
UNION ALL
SELECT b.last, $3 FROM bound b WHERE b.through < $3';

-- The entries of transfers that have a value date. A balance as of an effective time is the one as of the same posting time, but
-- for the entries for which the two times lie on different sides of it; only entries with a value date can be such. It lacks the
-- transfers from before this migration, which the next one fills in while posting goes on, before it guards the table.
CREATE TABLE value_dated_entry (
    ledger_id    integer     NOT NULL,
    account_no   bigint      NOT NULL,
    effective_at timestamptz NOT NULL,
    sequence     bigint      NOT NULL,
    leg          smallint    NOT NULL,
    posted_at    timestamptz NOT NULL,
    amount       numeric     NOT NULL,
    PRIMARY KEY (ledger_id, account_no, effective_at, sequence, leg) INCLUDE (posted_at, amount)
);

-- Writes the value-dated entries of new transfers. Most have none, and cost a look.
-- +goose StatementBegin
CREATE FUNCTION transfer_write_value_dates() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
AS $$
BEGIN
    -- Anyone may hang a trigger function that he may execute on a table of his own.
    IF TG_RELID <> 'public.transfer'::regclass OR TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION 'transfer_write_value_dates belongs to table transfer';
    END IF;
    IF EXISTS (SELECT FROM new_transfers WHERE effective_at IS NOT NULL AND refusal IS NULL) THEN
        INSERT INTO value_dated_entry (ledger_id, account_no, effective_at, sequence, leg, posted_at, amount)
        SELECT n.ledger_id, l.account_no, n.effective_at, n.sequence, l.leg, n.posted_at, l.amount
          FROM new_transfers n
               CROSS JOIN LATERAL unnest(n.account_nos, n.amounts) WITH ORDINALITY AS l (account_no, amount, leg)
         WHERE n.effective_at IS NOT NULL AND n.refusal IS NULL;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION refresh_statistics() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
AS $$
BEGIN
    ANALYZE account, account_change, transfer, entry, snapshot, mark, value_dated_entry;
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION transfer_write_value_dates() FROM PUBLIC;

CREATE TRIGGER transfer_write_value_dates AFTER INSERT ON transfer
    REFERENCING NEW TABLE AS new_transfers FOR EACH STATEMENT EXECUTE FUNCTION transfer_write_value_dates();
ALTER TABLE transfer ENABLE ALWAYS TRIGGER transfer_write_value_dates;

GRANT SELECT ON value_dated_entry TO khata_service;
