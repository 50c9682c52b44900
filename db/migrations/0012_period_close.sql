-- +goose Up

-- Closed periods: the books of a ledger can be closed before a time, and then take no transfer any more that is to take effect before it.

-- No table is locked that posters write to; table ledger is, for the foreign key, and only who creates one waits.
SET LOCAL lock_timeout = '3s';

-- Who closed what when, and opened it again. The row with the highest number of a ledger says how far its books are closed.
CREATE TABLE period_change (
    ledger_id     integer     NOT NULL REFERENCES ledger,
    -- Set by a trigger, and so is changed_at: the place in the order of decision, among the transfers.
    sequence      bigint      NOT NULL,
    -- No transfer with a higher number takes effect before this time. NULL: the books are open altogether.
    closed_before timestamptz,
    -- The zone in which the time was given, and is told.
    zone          text        COLLATE "C" NOT NULL DEFAULT 'UTC',
    reason        text        NOT NULL DEFAULT '',
    changed_by    text        NOT NULL,
    changed_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (ledger_id, sequence),
    -- What is not over cannot be closed.
    CONSTRAINT period_change_closed_before_check CHECK (closed_before >= '0001-01-01T00:00:00Z' AND closed_before <= changed_at)
);

-- Gives a change its place in the order of decision. It races with no transfer: whoever posts holds the gate, and this takes it alone. It is
-- not waited for: everybody who posts would wait behind a hand that does.
-- +goose StatementBegin
CREATE FUNCTION period_change_next() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp
AS $$
DECLARE
    previous timestamptz;
BEGIN
    -- Otherwise this may look at the changes as they were before the gate was taken.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a period is closed or opened in a READ COMMITTED transaction only'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'period_change_read_committed', TABLE = 'period_change';
    END IF;
    IF NOT pg_try_advisory_xact_lock(4247, NEW.ledger_id) THEN
        RAISE EXCEPTION 'a period of ledger % cannot be closed or opened now: transfers of it are under way', NEW.ledger_id
            USING ERRCODE = 'lock_not_available', TABLE = 'period_change',
                  HINT = format('Use khata period close; or run SELECT pg_advisory_xact_lock(4247, %s) first, in the same transaction.',
                                NEW.ledger_id);
    END IF;
    SELECT p.closed_before INTO previous FROM period_change p WHERE p.ledger_id = NEW.ledger_id ORDER BY p.sequence DESC LIMIT 1;
    IF previous IS NOT NULL AND (NEW.closed_before >= previous) IS NOT TRUE AND btrim(NEW.reason) = '' THEN
        RAISE EXCEPTION 'what is closed is opened again for a reason only: the books are closed before %', previous
            USING ERRCODE = 'check_violation', CONSTRAINT = 'period_change_reason_check', TABLE = 'period_change';
    END IF;
    -- After the gate: whoever holds it draws higher numbers than all that was seen before.
    NEW.sequence := nextval('journal_sequence');
    NEW.changed_at := clock_timestamp();
    RETURN NEW;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION period_change_next() FROM PUBLIC;

CREATE TRIGGER period_change_next BEFORE INSERT ON period_change
    FOR EACH ROW EXECUTE FUNCTION period_change_next();
CREATE TRIGGER period_change_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON period_change
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE period_change ENABLE ALWAYS TRIGGER period_change_next;
ALTER TABLE period_change ENABLE ALWAYS TRIGGER period_change_refuse_change;
GRANT SELECT, INSERT ON period_change TO khata_service;

-- As in 0007, with the refusal PERIOD_CLOSED, which is about the time of the transfer and names no account either.
CREATE OR REPLACE FUNCTION transfer_fault(transfer_id text, posted_at timestamptz, effective_at timestamptz, refusal text,
                               refused_account_no bigint, account_nos bigint[], amounts numeric[], metadata json)
    RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN NOT (length(transfer_id) BETWEEN 1 AND 128 AND transfer_id !~ '[^!-~]') THEN 'transfer_id_check'
        WHEN NOT (cardinality(account_nos) BETWEEN 2 AND 1000 AND cardinality(account_nos) = cardinality(amounts)
                  AND array_ndims(account_nos) = 1 AND array_ndims(amounts) = 1
                  AND array_lower(account_nos, 1) = 1 AND array_lower(amounts, 1) = 1
                  AND array_position(account_nos, NULL) IS NULL AND array_position(amounts, NULL) IS NULL)
            THEN 'transfer_entries_check'
        WHEN (refused_account_no IS NULL) <> (refusal IS NULL
              OR refusal IN ('HOLD_ENDED', 'HOLD_EXPIRED', 'CAPTURE_EXCEEDS_HOLD', 'REFUNDED_CHANGED', 'REFUND_EXCEEDS_REST',
                             'ALREADY_REVERSED', 'ALREADY_REFUNDED', 'PERIOD_CLOSED')) THEN 'transfer_refusal_check'
        WHEN NOT refused_account_no = ANY (account_nos) THEN 'transfer_refused_account_check'
        WHEN NOT (isfinite(posted_at) AND isfinite(effective_at)) THEN 'transfer_times_check'
        WHEN json_typeof(metadata) <> 'object' THEN 'transfer_metadata_check'
    END
$$;

-- As in 0007, and for transfers with a value date whether that is of a closed period. A statement without any of them pays nothing for it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION transfer_write_entries() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
    SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
DECLARE
    batch  record;
    bad    record;
    locked boolean;
    behind boolean;
BEGIN
    -- Anyone may hang a trigger function that he may execute on a table of his own.
    IF TG_RELID <> 'public.transfer'::regclass OR TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION 'transfer_write_entries belongs to table transfer';
    END IF;
    SELECT count(*) AS transfers, min(n.ledger_id) AS ledger_id, max(n.ledger_id) AS last_ledger_id,
           min(n.sequence) AS first, max(n.sequence) AS last, (SELECT s.last_value FROM journal_sequence s) AS drawn,
           count(*) FILTER (WHERE n.effective_at IS NOT NULL AND n.refusal IS NULL) AS value_dated,
           count(*) FILTER (WHERE num_nonnulls(n.kind, n.origin, n.ordinal, n.ends, n.reserved, n.deadline, n.terms, n.atomic) > 0) AS special,
           count(transfer_fault(n.transfer_id, n.posted_at, n.effective_at, n.refusal, n.refused_account_no, n.account_nos,
                                n.amounts, n.metadata)) AS faults
      INTO batch
      FROM new_transfers n;
    IF batch.transfers = 0 THEN
        RETURN NULL;
    END IF;
    IF batch.faults > 0 THEN
        SELECT n.transfer_id, f.fault INTO bad
          FROM new_transfers n,
               transfer_fault(n.transfer_id, n.posted_at, n.effective_at, n.refusal, n.refused_account_no, n.account_nos, n.amounts,
                              n.metadata) AS f (fault)
         WHERE f.fault IS NOT NULL LIMIT 1;
        RAISE EXCEPTION 'transfer % breaks the rule %', bad.transfer_id, bad.fault
            USING ERRCODE = 'check_violation', CONSTRAINT = bad.fault, TABLE = 'transfer';
    END IF;
    IF batch.special > 0 THEN
        SELECT n.transfer_id, f.fault INTO bad
          FROM new_transfers n,
               transfer_kind_fault(n.kind, n.origin, n.ordinal, n.ends, n.reserved, n.deadline, n.terms, n.atomic, n.refusal,
                                   n.account_nos, n.amounts, n.effective_at) AS f (fault)
         WHERE f.fault IS NOT NULL LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'transfer % breaks the rule %', bad.transfer_id, bad.fault
                USING ERRCODE = 'check_violation', CONSTRAINT = bad.fault, TABLE = 'transfer';
        END IF;
    END IF;
    -- A number that was never drawn would sit ahead of every reader that goes by number.
    IF batch.first < 1 OR batch.last > batch.drawn THEN
        RAISE EXCEPTION 'a transfer has a sequence that was not drawn from journal_sequence'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_sequence_drawn', TABLE = 'transfer';
    END IF;
    -- The marks are read by a later statement than that which may have waited for the gate.
    IF batch.ledger_id = batch.last_ledger_id THEN
        locked := pg_advisory_xact_lock_shared(4247, batch.ledger_id) IS NULL;
        -- The last one is at the end of an index. Whether there is one so high, the planner would look up otherwise.
        behind := coalesce((SELECT m.horizon FROM mark m WHERE m.ledger_id = batch.ledger_id ORDER BY m.horizon DESC LIMIT 1)
                           >= batch.first, false);
    ELSE
        PERFORM pg_advisory_xact_lock_shared(4247, n.ledger_id)
           FROM (SELECT DISTINCT ledger_id FROM new_transfers ORDER BY ledger_id) n;
        behind := EXISTS (SELECT FROM new_transfers n, mark m WHERE m.ledger_id = n.ledger_id AND m.horizon >= n.sequence);
    END IF;
    IF behind THEN
        RAISE EXCEPTION 'a transfer has a sequence behind the last mark of its ledger: what lies there is final'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_horizon', TABLE = 'transfer';
    END IF;
    SELECT n.ledger_id, n.sequence, a.currency, sum(l.amount) AS off, bool_or(a.currency IS NULL) AS unknown,
           (SELECT t.transfer_id FROM new_transfers t
             WHERE t.ledger_id = n.ledger_id AND t.sequence = n.sequence LIMIT 1) AS transfer_id
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
    -- A server from before holds and ceilings would give away what is held. One that knows them says so when it connects.
    IF coalesce(current_setting('khata.schema', true), '') < '0007' THEN
        SELECT n.transfer_id INTO bad
          FROM new_transfers n
               CROSS JOIN LATERAL unnest(n.account_nos) AS l (account_no)
         WHERE n.refusal IS NULL AND n.kind IS NULL
           AND (EXISTS (SELECT FROM open_hold h WHERE h.ledger_id = n.ledger_id AND h.debit_no = l.account_no)
                OR EXISTS (SELECT FROM open_hold h WHERE h.ledger_id = n.ledger_id AND h.credit_no = l.account_no)
                OR EXISTS (SELECT FROM account a WHERE a.ledger_id = n.ledger_id AND a.account_no = l.account_no AND a.ceiling IS NOT NULL))
         LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'transfer % touches an account with open holds or a ceiling, and comes from who may not know of them', bad.transfer_id
                USING ERRCODE = 'object_not_in_prerequisite_state', TABLE = 'transfer',
                      HINT = 'Replace the servers that are older than the schema. By hand: SET khata.schema = ''0007'', if the account can spare it.';
        END IF;
    END IF;
    INSERT INTO entry (ledger_id, account_no, sequence, leg, amount)
    SELECT n.ledger_id, l.account_no, n.sequence, l.leg, l.amount
      FROM new_transfers n
           CROSS JOIN LATERAL unnest(n.account_nos, n.amounts) WITH ORDINALITY AS l (account_no, amount, leg)
     WHERE n.refusal IS NULL AND (n.kind IS NULL OR moves(n.kind))
     ORDER BY l.account_no, n.sequence;
    IF batch.value_dated > 0 THEN
        -- Otherwise this may look at the books as they were before they were closed.
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            RAISE EXCEPTION 'a transfer with a value date is inserted in a READ COMMITTED transaction only'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_read_committed', TABLE = 'transfer';
        END IF;
        -- The gate is held, so how far the books are closed does not change before the commit. A hand has drawn its numbers before it
        -- had the gate: it is judged by what was in force from its first number on.
        SELECT n.ledger_id, c.closed_before INTO bad
          FROM (SELECT d.ledger_id, min(d.effective_at) AS earliest, min(d.sequence) AS first
                  FROM new_transfers d WHERE d.effective_at IS NOT NULL AND d.refusal IS NULL GROUP BY d.ledger_id) n
               CROSS JOIN LATERAL (SELECT max(p.closed_before) AS closed_before FROM period_change p
                                    WHERE p.ledger_id = n.ledger_id
                                      AND p.sequence >= coalesce((SELECT q.sequence FROM period_change q
                                                                   WHERE q.ledger_id = n.ledger_id AND q.sequence < n.first
                                                                   ORDER BY q.sequence DESC LIMIT 1), 0)) c
         WHERE n.earliest < c.closed_before LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'transfer % takes effect in a period that is closed: the books are closed before %',
                (SELECT min(n.transfer_id) FROM new_transfers n
                  WHERE n.ledger_id = bad.ledger_id AND n.effective_at < bad.closed_before AND n.refusal IS NULL), bad.closed_before
                USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_period_closed', TABLE = 'transfer';
        END IF;
        INSERT INTO value_dated_entry (ledger_id, account_no, effective_at, sequence, leg, posted_at, amount)
        SELECT n.ledger_id, l.account_no, n.effective_at, n.sequence, l.leg, n.posted_at, l.amount
          FROM new_transfers n
               CROSS JOIN LATERAL unnest(n.account_nos, n.amounts) WITH ORDINALITY AS l (account_no, amount, leg)
         WHERE n.effective_at IS NOT NULL AND n.refusal IS NULL;
    END IF;
    IF batch.special = 0 THEN
        RETURN NULL;
    END IF;

    -- Steps against their origins and the steps before them, all of which are committed or of this statement: an ordinal leaves no gap,
    -- and of two that take the same one the unique key lets one wait for the other.
    --
    -- An origin is looked up by a range in its order: as one value, the planner may look for it among all transfers of the ledger, in
    -- the order of another index, and keep to that plan from when they were few.
    SELECT n.transfer_id, n.origin, CASE
               WHEN (o.refusal IS NULL AND o.sequence < n.sequence) IS NOT TRUE THEN 'which is not a posted transfer before it'
               WHEN n.kind IN ('capture', 'void', 'expiry') AND (o.kind = 'hold') IS NOT TRUE THEN 'which is not a hold'
               WHEN n.kind IN ('refund', 'reversal') AND NOT (o.kind IS NULL OR o.kind = 'capture') THEN 'which has moved nothing that can go back'
               WHEN o.kind = 'hold' AND (n.account_nos <> o.account_nos OR sign(n.amounts[1]) <> sign(o.amounts[1])) THEN 'whose entries are others'
           END AS fault
      INTO bad
      FROM new_transfers n
           LEFT JOIN LATERAL (SELECT * FROM transfer t
                               WHERE t.ledger_id = n.ledger_id AND t.transfer_id BETWEEN n.origin AND n.origin
                               ORDER BY t.transfer_id LIMIT 1) o ON true
     WHERE n.ordinal IS NOT NULL
     ORDER BY fault NULLS LAST LIMIT 1;
    IF bad.fault IS NULL THEN
        -- All steps of an origin together, once for each.
        SELECT n.transfer_id, n.origin, CASE
                   WHEN s.steps <> s.last THEN 'of which it skips a step'
                   WHEN s.disorder THEN 'whose last step has a higher number'
                   WHEN s.ended <> s.last THEN 'which had ended before'
                   WHEN o.kind = 'hold' AND (o.reserved + s.reserved < 0 OR (o.reserved + s.reserved = 0) <> (s.ended IS NOT NULL))
                       THEN 'of which it takes too much or leaves something'
                   WHEN o.kind IS DISTINCT FROM 'hold'
                    AND EXISTS (SELECT FROM (SELECT b.account_no, sum(b.amount) AS amount,
                                                    -- Nor may one of them take back what an earlier one gave.
                                                    max(sign(b.amount)) AS highest, min(sign(b.amount)) AS lowest
                                               FROM transfer t
                                                    CROSS JOIN LATERAL unnest(t.account_nos, t.amounts) AS b (account_no, amount)
                                              WHERE t.ledger_id = n.ledger_id AND t.origin = n.origin AND t.ordinal IS NOT NULL
                                              GROUP BY b.account_no) back
                                            FULL JOIN (SELECT g.account_no, sum(g.amount) AS amount
                                                         FROM unnest(o.account_nos, o.amounts) AS g (account_no, amount)
                                                        GROUP BY g.account_no) gone ON gone.account_no = back.account_no
                                 WHERE (back.highest = -sign(gone.amount) AND back.lowest = back.highest
                                        AND abs(back.amount) <= abs(gone.amount)
                                        AND (s.ended IS NULL OR back.amount = -gone.amount)
                                        OR back.amount IS NULL AND s.ended IS NULL) IS NOT TRUE)
                       THEN 'of which more would go back than went, or to others'
               END AS fault
          INTO bad
          FROM (SELECT d.ledger_id, d.origin, min(d.transfer_id) AS transfer_id
                  FROM new_transfers d WHERE d.ordinal IS NOT NULL GROUP BY d.ledger_id, d.origin) n
               CROSS JOIN LATERAL (SELECT * FROM transfer t
                                    WHERE t.ledger_id = n.ledger_id AND t.transfer_id BETWEEN n.origin AND n.origin
                                    ORDER BY t.transfer_id LIMIT 1) o
               CROSS JOIN LATERAL (SELECT count(*) AS steps, max(t.ordinal) AS last, max(t.ordinal) FILTER (WHERE t.ends) AS ended,
                                          sum(t.reserved) AS reserved, bool_or(t.sequence < t.previous) AS disorder
                                     FROM (SELECT u.*, lag(u.sequence) OVER (ORDER BY u.ordinal) AS previous FROM transfer u
                                            WHERE u.ledger_id = n.ledger_id AND u.origin = n.origin AND u.ordinal IS NOT NULL) t) s
         ORDER BY fault NULLS LAST LIMIT 1;
    END IF;
    IF bad.fault IS NOT NULL THEN
        RAISE EXCEPTION 'transfer % is a step of %, %', bad.transfer_id, bad.origin, bad.fault
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_step', TABLE = 'transfer';
    END IF;
    -- On which side of a deadline a transfer lies, its posted_at says. Whoever decided a moment ago has to decide again. The hold of a
    -- refused capture may have been refused with it.
    SELECT n.transfer_id INTO bad
      FROM new_transfers n
           LEFT JOIN LATERAL (SELECT t.kind, t.deadline FROM transfer t
                               WHERE t.ledger_id = n.ledger_id AND t.transfer_id BETWEEN n.origin AND n.origin
                                 AND n.kind IN ('capture', 'expiry')
                               ORDER BY t.transfer_id LIMIT 1) o ON true
     WHERE n.kind = 'capture' AND n.refusal IS NULL AND n.posted_at >= o.deadline
        OR (n.kind = 'expiry' AND n.refusal IS NULL OR n.kind = 'capture' AND n.refusal = 'HOLD_EXPIRED' AND o.kind = 'hold')
           AND (n.posted_at >= o.deadline) IS NOT TRUE
        OR n.kind = 'hold' AND n.refusal = 'HOLD_EXPIRED' AND (n.posted_at >= (n.terms ->> 'expires_at')::timestamptz) IS NOT TRUE
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'transfer % lies on the other side of a deadline', bad.transfer_id
            USING ERRCODE = 'serialization_failure', TABLE = 'transfer';
    END IF;
    SELECT n.transfer_id INTO bad
      FROM new_transfers n
     WHERE n.kind = 'hold' AND n.refusal IS NULL AND n.terms IS NOT NULL
       AND coalesce((n.terms ->> 'expires_at')::timestamptz, n.posted_at + (n.terms ->> 'expires_after')::interval, n.deadline)
           IS DISTINCT FROM n.deadline
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'hold % has another deadline than its terms say', bad.transfer_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_deadline_check', TABLE = 'transfer';
    END IF;
    INSERT INTO hold_entry (ledger_id, account_no, sequence, debit, credit)
    SELECT n.ledger_id, l.account_no, n.sequence, CASE WHEN l.amount > 0 THEN n.reserved ELSE 0 END,
           CASE WHEN l.amount < 0 THEN n.reserved ELSE 0 END
      FROM new_transfers n
           CROSS JOIN LATERAL unnest(n.account_nos, n.amounts) AS l (account_no, amount)
     WHERE n.reserved IS NOT NULL
     ORDER BY l.account_no, n.sequence;
    INSERT INTO open_hold (ledger_id, sequence, debit_no, credit_no, deadline)
    SELECT n.ledger_id, n.sequence, n.account_nos[CASE WHEN n.amounts[1] > 0 THEN 1 ELSE 2 END],
           n.account_nos[CASE WHEN n.amounts[1] > 0 THEN 2 ELSE 1 END], n.deadline
      FROM new_transfers n WHERE n.kind = 'hold' AND n.refusal IS NULL;
    DELETE FROM open_hold h
     USING new_transfers n
           CROSS JOIN LATERAL (SELECT t.sequence FROM transfer t
                                WHERE t.ledger_id = n.ledger_id AND t.transfer_id BETWEEN n.origin AND n.origin
                                ORDER BY t.transfer_id LIMIT 1) o
     WHERE n.ends AND n.reserved IS NOT NULL AND h.ledger_id = n.ledger_id AND h.sequence = o.sequence;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
