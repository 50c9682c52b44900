-- +goose Up

-- The same checks of new transfers, and the same entries, for about a tenth less of the database's time: one pass instead of
-- two, grouped by number instead of by id, and the entries are inserted in the order of their index.

SET LOCAL lock_timeout = '3s';

-- Writes the entries of new transfers, after checking what no CHECK can see: that the accounts exist, that each currency
-- sums to zero, that no amount is finer than its currency, and that the number was drawn. An amount that is zero, infinite
-- or not a number is refused too.
--
-- The planner is told to look accounts up one by one, by their key: with a million of them it would otherwise read the whole
-- table to check a batch of a hundred. OFFSET 0 keeps the look-up apart, or a table that was never analyzed is searched by
-- ledger alone, all accounts of it for every entry.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION transfer_write_entries() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
    SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
DECLARE
    bad record;
    id  text;
BEGIN
    -- Anyone may hang a trigger function that he may execute on a table of his own.
    IF TG_RELID <> 'public.transfer'::regclass OR TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION 'transfer_write_entries belongs to table transfer';
    END IF;
    SELECT n.ledger_id, n.sequence, a.currency, sum(l.amount) AS off, bool_or(a.currency IS NULL) AS unknown,
           -- A number that was never drawn would sit ahead of every reader that goes by number.
           n.sequence NOT BETWEEN 1 AND (SELECT s.last_value FROM journal_sequence s) AS not_drawn
      INTO bad
      FROM new_transfers n
           CROSS JOIN LATERAL unnest(n.account_nos, n.amounts) AS l (account_no, amount)
           LEFT JOIN LATERAL (SELECT b.currency, b.scale
                                FROM account b
                               WHERE b.ledger_id = n.ledger_id AND b.account_no = l.account_no
                              OFFSET 0) a ON true
     GROUP BY n.ledger_id, n.sequence, a.currency
    HAVING sum(l.amount) <> 0
        OR bool_or(a.currency IS NULL)
        OR bool_or(l.amount = 0 OR abs(l.amount) >= 1e38 OR l.amount = 'NaN' OR l.amount <> trunc(l.amount, a.scale))
        OR n.sequence NOT BETWEEN 1 AND (SELECT s.last_value FROM journal_sequence s)
     ORDER BY not_drawn DESC, unknown DESC
     LIMIT 1;
    IF FOUND THEN
        SELECT n.transfer_id INTO id FROM new_transfers n WHERE n.ledger_id = bad.ledger_id AND n.sequence = bad.sequence LIMIT 1;
        IF bad.not_drawn THEN
            RAISE EXCEPTION 'transfer % has sequence %, which was not drawn from journal_sequence', id, bad.sequence
                USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_sequence_drawn', TABLE = 'transfer';
        ELSIF bad.unknown THEN
            RAISE EXCEPTION 'transfer % names an account that ledger % does not have', id, bad.ledger_id
                USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'transfer_accounts_exist', TABLE = 'transfer';
        ELSIF bad.off <> 0 THEN
            RAISE EXCEPTION 'transfer % does not balance: its % entries sum to %', id, bad.currency, bad.off
                USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_balanced', TABLE = 'transfer';
        ELSE
            RAISE EXCEPTION 'transfer % has an amount that % does not allow', id, bad.currency
                USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_amounts', TABLE = 'transfer';
        END IF;
    END IF;
    INSERT INTO entry (ledger_id, account_no, sequence, leg, amount)
    SELECT n.ledger_id, l.account_no, n.sequence, l.leg, l.amount
      FROM new_transfers n
           CROSS JOIN LATERAL unnest(n.account_nos, n.amounts) WITH ORDINALITY AS l (account_no, amount, leg)
     WHERE n.refusal IS NULL
     ORDER BY l.account_no, n.sequence;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
