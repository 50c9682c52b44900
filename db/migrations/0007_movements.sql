-- +goose Up

-- What the columns of 0005 and the keys of 0006 are for: holds and how they end, refunds, reversals, balancing and conditional transfers,
-- ceilings.

SET LOCAL lock_timeout = '3s';
SELECT pg_advisory_xact_lock(4247, ledger_id) FROM (SELECT ledger_id FROM ledger ORDER BY ledger_id) g; -- as in 0005

-- What is reserved on an account, and what no longer is: to be debited, and to be credited. The rows of a hold sum to zero when it
-- has ended.
CREATE TABLE hold_entry (
    ledger_id  integer NOT NULL,
    account_no bigint  NOT NULL,
    sequence   bigint  NOT NULL,
    debit      numeric NOT NULL,
    credit     numeric NOT NULL,
    PRIMARY KEY (ledger_id, account_no, sequence) INCLUDE (debit, credit)
);

-- The sums of an account's hold entries, as table snapshot has those of its entries.
CREATE TABLE hold_snapshot (
    ledger_id  integer NOT NULL,
    account_no bigint  NOT NULL,
    through    bigint  NOT NULL,
    debit      numeric NOT NULL,
    credit     numeric NOT NULL,
    PRIMARY KEY (ledger_id, account_no, through) INCLUDE (debit, credit)
);

-- The holds that have not ended: a list for those who look for holds to expire, or for the holds of an account. It follows from the
-- journal, is kept by a trigger, and is the one table whose rows go away.
CREATE TABLE open_hold (
    ledger_id  integer NOT NULL,
    sequence   bigint  NOT NULL,
    debit_no   bigint  NOT NULL,
    credit_no  bigint  NOT NULL,
    deadline   timestamptz,
    PRIMARY KEY (ledger_id, sequence)
);
CREATE INDEX open_hold_deadline ON open_hold (deadline, sequence) WHERE deadline IS NOT NULL;
CREATE INDEX open_hold_debit ON open_hold (ledger_id, debit_no, sequence);
CREATE INDEX open_hold_credit ON open_hold (ledger_id, credit_no, sequence);

-- The sums of an account's hold entries through a number, and the number of the last of them (0: there is none). As
-- balance_through.
CREATE FUNCTION held_through(ledger_id integer, account_no bigint, through bigint)
    RETURNS TABLE (debit numeric, credit numeric, version bigint)
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 1
AS 'SELECT coalesce(s.debit, 0) + coalesce(e.debit, 0), coalesce(s.credit, 0) + coalesce(e.credit, 0), coalesce(e.last, s.through, 0)
      FROM (SELECT) one
           LEFT JOIN LATERAL (SELECT n.through, n.debit, n.credit FROM public.hold_snapshot n
                               WHERE n.ledger_id = held_through.ledger_id AND n.account_no = held_through.account_no
                                 AND n.through <= held_through.through
                               ORDER BY n.through DESC LIMIT 1) s ON true
           CROSS JOIN LATERAL (SELECT sum(t.debit) AS debit, sum(t.credit) AS credit, max(t.sequence) AS last FROM public.hold_entry t
                                WHERE t.ledger_id = held_through.ledger_id AND t.account_no = held_through.account_no
                                  AND t.sequence > coalesce(s.through, 0) AND t.sequence <= held_through.through) e';

-- Reports whether a posted transfer of this kind has entries in its accounts.
CREATE FUNCTION moves(kind text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$SELECT kind IS NULL OR kind NOT IN ('hold', 'void', 'expiry')$$;

-- Which rule of its own a transfer breaks, if any. A reason that is about the origin, or a deadline, names no account; every other
-- one does.
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
                             'ALREADY_REVERSED', 'ALREADY_REFUNDED')) THEN 'transfer_refusal_check'
        WHEN NOT refused_account_no = ANY (account_nos) THEN 'transfer_refused_account_check'
        WHEN NOT (isfinite(posted_at) AND isfinite(effective_at)) THEN 'transfer_times_check'
        WHEN json_typeof(metadata) <> 'object' THEN 'transfer_metadata_check'
    END
$$;

-- Reports whether terms can be read back: one record that cannot would stop whoever reads it among others, as the job that expires
-- holds does. Amounts are strings, since a JSON number has no exact form.
CREATE FUNCTION terms_readable(terms json) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT coalesce(json_typeof(terms) = 'object'
           AND (SELECT count(*) = count(DISTINCT t.key) AND coalesce(bool_and(coalesce(CASE
                    WHEN t.key IN ('amount', 'expected_refunded')
                    THEN json_typeof(t.value) = 'string' AND t.value #>> '{}' ~ '^[0-9]{1,38}(\.[0-9]{1,38})?$'
                    WHEN t.key IN ('balancing', 'keep_open') THEN t.value #>> '{}' = 'true' AND json_typeof(t.value) = 'boolean'
                    WHEN t.key = 'expires_at' AND t.value #>> '{}' ~ '^[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?Z$'
                    -- The 31st of a shorter month is an error.
                    THEN make_date(substr(t.value #>> '{}', 1, 4)::integer, substr(t.value #>> '{}', 6, 2)::integer,
                                   substr(t.value #>> '{}', 9, 2)::integer) IS NOT NULL
                    WHEN t.key = 'expires_after' THEN t.value #>> '{}' ~ '^([0-9]{1,6}h)?([0-9]{1,2}m)?[0-9]{1,2}(\.[0-9]{1,6})?s$'
                    WHEN t.key = 'reason' THEN json_typeof(t.value) = 'string'
                    WHEN t.key = 'conditions'
                    THEN (SELECT bool_and(coalesce(json_typeof(c) = 'object' AND json_typeof(c -> 'account') = 'string'
                                 AND num_nonnulls(c -> 'balance', c -> 'version') > 0
                                 AND coalesce(json_typeof(c -> 'balance') = 'string' AND c ->> 'balance' ~ '^-?[0-9]{1,38}(\.[0-9]{1,38})?$', true)
                                 AND coalesce(json_typeof(c -> 'version') = 'number' AND c ->> 'version' ~ '^[0-9]{1,19}$'
                                          AND (c ->> 'version')::numeric <= 9223372036854775807, true), false))
                            FROM json_array_elements(CASE json_typeof(t.value) WHEN 'array' THEN t.value ELSE '[null]' END) c)
                    END, false)), true)
                  FROM json_each(CASE json_typeof(terms) WHEN 'object' THEN terms END) t), false)
$$;

-- The same of what only other kinds than plain transfers have.
CREATE FUNCTION transfer_kind_fault(kind text, origin text, ordinal integer, ends boolean, reserved numeric, deadline timestamptz,
                                    terms json, atomic boolean, refusal text, account_nos bigint[], amounts numeric[],
                                    effective_at timestamptz)
    RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN NOT coalesce(kind, 'refund') IN ('hold', 'capture', 'void', 'expiry', 'refund', 'reversal') THEN 'transfer_kind_check'
        WHEN (origin IS NULL) <> (kind IS NULL OR kind = 'hold') THEN 'transfer_origin_check'
        WHEN terms IS NOT NULL AND NOT terms_readable(terms) THEN 'transfer_terms_check'
        WHEN refusal IS NULL AND atomic OR NOT atomic THEN 'transfer_atomic_check'
        WHEN (refusal IS NOT NULL OR origin IS NULL) AND num_nonnulls(ordinal, ends) > 0 THEN 'transfer_step_check'
        WHEN refusal IS NULL AND origin IS NOT NULL AND (ordinal >= 1) IS NOT TRUE THEN 'transfer_step_check'
        WHEN NOT ends THEN 'transfer_ends_check'
        WHEN (reserved IS NULL) <> (refusal IS NOT NULL OR kind IS NULL OR kind IN ('refund', 'reversal')) THEN 'transfer_reserved_check'
        WHEN deadline IS NOT NULL AND (kind = 'hold' AND refusal IS NULL AND isfinite(deadline)) IS NOT TRUE THEN 'transfer_deadline_check'
        WHEN effective_at IS NOT NULL AND NOT moves(kind) THEN 'transfer_effective_at_check'
        WHEN kind IN ('hold', 'capture', 'void', 'expiry') AND cardinality(account_nos) <> 2 THEN 'transfer_pair_check'
        WHEN refusal IS NOT NULL OR kind IS NULL THEN NULL
        WHEN kind = 'hold' AND reserved <> abs(amounts[1]) THEN 'transfer_reserved_check'
        WHEN kind = 'capture' AND (CASE WHEN ends THEN -reserved >= abs(amounts[1]) ELSE -reserved = abs(amounts[1]) END) IS NOT TRUE
            THEN 'transfer_reserved_check'
        WHEN kind IN ('void', 'expiry') AND (ends AND -reserved = abs(amounts[1])) IS NOT TRUE THEN 'transfer_reserved_check'
        WHEN kind = 'refund' AND ends THEN 'transfer_ends_check'
        WHEN kind = 'reversal' AND (ends AND ordinal = 1) IS NOT TRUE THEN 'transfer_ends_check'
    END
$$;

-- As in 0002, and for the other kinds: their own rules, what they do to their origin, what is reserved, and the list of open holds.
-- A statement without any of them pays for one count more.
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

-- As in 0002, and snapshots of what is held, by the same lot.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION mark_take_snapshots() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
DECLARE
    previous mark;
    stretch  record;
    held     integer;
BEGIN
    -- Anyone may hang a trigger function that he may execute on a table of his own.
    IF TG_RELID <> 'public.mark'::regclass OR TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION 'mark_take_snapshots belongs to table mark';
    END IF;
    -- Otherwise this may look at the books as they were before the wait for the horizon.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a mark is inserted in a READ COMMITTED transaction only'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'mark_read_committed', TABLE = 'mark';
    END IF;
    SELECT * INTO previous FROM mark m
     WHERE m.ledger_id = NEW.ledger_id AND m.horizon < NEW.horizon ORDER BY m.horizon DESC LIMIT 1;
    SELECT count(*) AS transfers, max(t.sequence) AS last, min(t.posted_at) AS earliest, max(t.posted_at) AS latest,
           array_agg(t.sequence) FILTER (WHERE t.refusal IS NULL AND sampled(t.sequence) AND moves(t.kind)) AS sampled,
           array_agg(t.sequence) FILTER (WHERE t.reserved IS NOT NULL AND sampled(t.sequence)) AS held
      INTO stretch
      FROM transfer t
     WHERE t.ledger_id = NEW.ledger_id AND t.sequence > coalesce(previous.horizon, 0) AND t.sequence <= NEW.horizon;
    IF stretch.transfers <> transfers_per_mark() OR stretch.last <> NEW.horizon THEN
        RAISE EXCEPTION 'ledger % has no mark at %: a mark stands at every %th transfer',
            NEW.ledger_id, NEW.horizon, transfers_per_mark()
            USING ERRCODE = 'check_violation', CONSTRAINT = 'mark_horizon', TABLE = 'mark';
    END IF;
    NEW.earliest := stretch.earliest;
    NEW.latest := greatest(stretch.latest, previous.latest);
    NEW.goes_back := coalesce(stretch.earliest < previous.latest - interval '100 milliseconds', false);
    -- The first snapshot of an account in the stretch is a balance, and each later one adds the entries since: an account that
    -- is in every transfer is read once. The order is fixed, or two servers that do this at once might deadlock.
    WITH point AS MATERIALIZED (
        SELECT DISTINCT l.account_no, s.sequence AS through
          FROM unnest(stretch.sampled) s (sequence)
               CROSS JOIN LATERAL (SELECT u.account_nos FROM transfer u
                                    WHERE u.ledger_id = NEW.ledger_id AND u.sequence = s.sequence OFFSET 0) t
               CROSS JOIN LATERAL unnest(t.account_nos) l (account_no)),
    step AS (
        SELECT p.account_no, p.through, lag(p.through) OVER (PARTITION BY p.account_no ORDER BY p.through) AS after
          FROM point p),
    written AS (
        INSERT INTO snapshot (ledger_id, account_no, through, sum)
        SELECT NEW.ledger_id, s.account_no, s.through, sum(s.change) OVER (PARTITION BY s.account_no ORDER BY s.through)
          FROM (SELECT p.account_no, p.through,
                       CASE WHEN p.after IS NULL
                            THEN (SELECT b.sum FROM balance_through(NEW.ledger_id, p.account_no, p.through) b)
                            ELSE (SELECT sum(e.amount) FROM entry e
                                   WHERE e.ledger_id = NEW.ledger_id AND e.account_no = p.account_no
                                     AND e.sequence > p.after AND e.sequence <= p.through) END AS change
                  FROM step p) s
         ORDER BY s.account_no, s.through
        ON CONFLICT (ledger_id, account_no, through) DO NOTHING)
    SELECT count(*) INTO NEW.snapshots FROM point;
    IF stretch.held IS NOT NULL THEN
        WITH point AS MATERIALIZED (
            SELECT DISTINCT l.account_no, s.sequence AS through
              FROM unnest(stretch.held) s (sequence)
                   CROSS JOIN LATERAL (SELECT u.account_nos FROM transfer u
                                        WHERE u.ledger_id = NEW.ledger_id AND u.sequence = s.sequence OFFSET 0) t
                   CROSS JOIN LATERAL unnest(t.account_nos) l (account_no)),
        written AS (
            INSERT INTO hold_snapshot (ledger_id, account_no, through, debit, credit)
            SELECT NEW.ledger_id, p.account_no, p.through, b.debit, b.credit
              FROM point p CROSS JOIN LATERAL held_through(NEW.ledger_id, p.account_no, p.through) b
             ORDER BY p.account_no, p.through
            ON CONFLICT (ledger_id, account_no, through) DO NOTHING)
        SELECT count(*) INTO held FROM point;
        NEW.snapshots := NEW.snapshots + held;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- A ceiling: the most balance. As a floor, it can only be kept by deciding one transfer at a time.
ALTER TABLE account ADD COLUMN ceiling numeric;
ALTER TABLE account ADD CONSTRAINT account_ceiling_serialised_check CHECK (ceiling IS NULL OR serialised) NOT VALID,
    ADD CONSTRAINT account_ceiling_check CHECK (ceiling = round(ceiling, scale) AND abs(ceiling) < 1e38) NOT VALID,
    ADD CONSTRAINT account_limits_check CHECK (floor <= ceiling) NOT VALID;
ALTER TABLE account VALIDATE CONSTRAINT account_ceiling_serialised_check, VALIDATE CONSTRAINT account_ceiling_check,
    VALIDATE CONSTRAINT account_limits_check;
ALTER TABLE account_change ADD COLUMN ceiling numeric;

-- As in 0004, with the ceiling.
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
        IS DISTINCT FROM (OLD.floor, OLD.ceiling, OLD.serialised, OLD.frozen, OLD.closed)
       AND NOT pg_try_advisory_xact_lock(4247, NEW.ledger_id) THEN
        RAISE EXCEPTION 'the rules of account % cannot change now: transfers of its ledger are under way', OLD.account_id
            USING ERRCODE = 'lock_not_available', TABLE = 'account',
                  HINT = format('Use khata account update; or run SELECT pg_advisory_xact_lock(4247, %s) first, in the same transaction.',
                                NEW.ledger_id);
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION account_record_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
AS $$
BEGIN
    IF TG_RELID <> 'public.account'::regclass THEN
        RAISE EXCEPTION 'account_record_change belongs to table account';
    END IF;
    INSERT INTO account_change (ledger_id, account_no, sequence, type, currency, scale, name, metadata, floor, ceiling, serialised,
                                frozen, closed, changed_at, changed_by)
    VALUES (NEW.ledger_id, NEW.account_no, NEW.version, NEW.type, NEW.currency, NEW.scale, NEW.name, NEW.metadata,
            NEW.floor, NEW.ceiling, NEW.serialised, NEW.frozen, NEW.closed, NEW.changed_at, NEW.changed_by);
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- See 0002.
ALTER TABLE transfer ALTER kind SET STATISTICS 0, ALTER origin SET STATISTICS 10, ALTER ordinal SET STATISTICS 0,
    ALTER ends SET STATISTICS 0, ALTER reserved SET STATISTICS 0, ALTER deadline SET STATISTICS 0, ALTER terms SET STATISTICS 0,
    ALTER atomic SET STATISTICS 0;
ALTER TABLE hold_entry ALTER ledger_id SET STATISTICS 10, ALTER account_no SET STATISTICS 10, ALTER sequence SET STATISTICS 10,
    ALTER debit SET STATISTICS 0, ALTER credit SET STATISTICS 0;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION refresh_statistics() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
AS $$
BEGIN
    ANALYZE account, account_change, transfer, entry, snapshot, mark, value_dated_entry, hold_entry, hold_snapshot, open_hold;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER hold_entry_refuse_insert BEFORE INSERT ON hold_entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_insert();
CREATE TRIGGER hold_entry_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON hold_entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER hold_snapshot_refuse_insert BEFORE INSERT ON hold_snapshot
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_insert();
CREATE TRIGGER hold_snapshot_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON hold_snapshot
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER open_hold_refuse_insert BEFORE INSERT ON open_hold
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_insert();
-- Its rows go away by trigger only; in the condition the depth is one less than in a function.
CREATE TRIGGER open_hold_refuse_delete BEFORE DELETE ON open_hold
    FOR EACH STATEMENT WHEN (pg_trigger_depth() < 1) EXECUTE FUNCTION refuse_change();
CREATE TRIGGER open_hold_refuse_change BEFORE UPDATE OR TRUNCATE ON open_hold
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE hold_entry ENABLE ALWAYS TRIGGER hold_entry_refuse_insert;
ALTER TABLE hold_entry ENABLE ALWAYS TRIGGER hold_entry_refuse_change;
ALTER TABLE hold_snapshot ENABLE ALWAYS TRIGGER hold_snapshot_refuse_insert;
ALTER TABLE hold_snapshot ENABLE ALWAYS TRIGGER hold_snapshot_refuse_change;
ALTER TABLE open_hold ENABLE ALWAYS TRIGGER open_hold_refuse_insert;
ALTER TABLE open_hold ENABLE ALWAYS TRIGGER open_hold_refuse_delete;
ALTER TABLE open_hold ENABLE ALWAYS TRIGGER open_hold_refuse_change;

GRANT SELECT ON hold_entry, hold_snapshot, open_hold TO khata_service;
GRANT UPDATE (ceiling) ON account TO khata_service;
