-- +goose Up

-- Snapshots: what makes the balance of an account of ten million entries as cheap as that of one of ten, now and at any point
-- of the past. A snapshot is the sum of an account's entries through one of them; a balance is the nearest snapshot before
-- the point, and the entries from there.
--
-- Marks divide the journal of a ledger, behind the safe horizon, into stretches of so many transfers each. Whoever inserts a
-- mark has a trigger take the snapshots of its stretch, and note its times. Where the marks are, which entries get a
-- snapshot, and everything in both tables follow from the journal alone: two servers that do it at once write the same rows,
-- one that is killed leaves nothing wrong behind, and khata verify computes all of it again.

-- A table's posters are waited for, and wait: not for long, or not at all.
SET LOCAL lock_timeout = '3s';

-- How many transfers of a ledger lie between two of its marks. It can only change together with all marks there are.
CREATE FUNCTION transfers_per_mark() RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 256::bigint';

-- Reports whether the accounts of a posted transfer get a snapshot: one number in 256 is drawn by lot, so that whatever rhythm
-- the entries of an account come in, it has a snapshot about every 256 of them. The lot is the cube of the number, times a
-- constant, modulo a prime: arithmetic of our own, which no version of PostgreSQL changes as it may change a hash function.
CREATE FUNCTION sampled(sequence bigint) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
'SELECT (sequence % 2147483647 * 1103515245 % 2147483647) * (sequence % 2147483647 * 1103515245 % 2147483647) % 2147483647
        * (sequence % 2147483647 * 1103515245 % 2147483647) % 2147483647 < 8388608';

-- The sum of an account's entries, a debit positive, from the first one through number "through".
CREATE TABLE snapshot (
    ledger_id  integer NOT NULL,
    account_no bigint  NOT NULL,
    through    bigint  NOT NULL,
    sum        numeric NOT NULL,
    PRIMARY KEY (ledger_id, account_no, through) INCLUDE (sum)
);

-- A mark stands at the last transfer of its stretch, and says about the stretch what narrows a time down to numbers.
--
-- The horizon is the number of a transfer that was committed before the mark was, and the log keeps that order. So no crash
-- can leave a mark behind and lose a number below it, to be drawn again: what lies behind a mark stays as it is.
CREATE TABLE mark (
    ledger_id integer     NOT NULL,
    -- How many snapshots the stretch has.
    snapshots integer     NOT NULL,
    horizon   bigint      NOT NULL,
    -- The first posted_at in the stretch, and the last one from the beginning through it. Numbers are drawn in one order and
    -- the clock read in another, and clocks are set back; these two hold whatever the clock did.
    earliest  timestamptz NOT NULL,
    latest    timestamptz NOT NULL,
    -- Whether the stretch has times before those of earlier ones, by more than the usual disorder.
    goes_back boolean     NOT NULL,
    PRIMARY KEY (ledger_id, horizon)
);
CREATE INDEX mark_latest ON mark (ledger_id, latest, horizon);
CREATE INDEX mark_goes_back ON mark (ledger_id, earliest, horizon) WHERE goes_back;

-- The sum of an account's entries through a number, and the number of the last of them (0: there is none). Every balance is
-- computed here, except that after one leg of several.
--
-- The planner puts it in the place of a call, so its speed is that of the query: at most one snapshot, and the entries after
-- it, both from the index alone. That takes LANGUAGE sql, STABLE, and no settings of its own; the schema is named, since the
-- caller's search_path applies.
CREATE FUNCTION balance_through(ledger_id integer, account_no bigint, through bigint)
    RETURNS TABLE (sum numeric, version bigint)
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 1
AS 'SELECT coalesce(s.sum, 0) + coalesce(e.sum, 0), coalesce(e.last, s.through, 0)
      FROM (SELECT) one
           LEFT JOIN LATERAL (SELECT n.through, n.sum FROM public.snapshot n
                               WHERE n.ledger_id = balance_through.ledger_id AND n.account_no = balance_through.account_no
                                 AND n.through <= balance_through.through
                               ORDER BY n.through DESC LIMIT 1) s ON true
           CROSS JOIN LATERAL (SELECT sum(t.amount) AS sum, max(t.sequence) AS last FROM public.entry t
                                WHERE t.ledger_id = balance_through.ledger_id AND t.account_no = balance_through.account_no
                                  AND t.sequence > coalesce(s.through, 0) AND t.sequence <= balance_through.through) e';

-- Takes the snapshots of a mark's stretch, and fills the mark in. The planner is told to look everything up by key: see
-- transfer_write_entries.
-- +goose StatementBegin
CREATE FUNCTION mark_take_snapshots() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
DECLARE
    previous mark;
    stretch  record;
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
           array_agg(t.sequence) FILTER (WHERE t.refusal IS NULL AND sampled(t.sequence)) AS sampled
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
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- Where the next marks of a ledger stand, as far as there are transfers for them up to a number. It reads these and no more,
-- however many are behind them: with a sort the planner would read all that there are.
-- +goose StatementBegin
CREATE FUNCTION next_marks(ledger_id integer, horizon bigint, at_most integer) RETURNS SETOF bigint LANGUAGE plpgsql STABLE
    SET search_path = public, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET enable_sort = off
AS $$
DECLARE
    mark bigint;
BEGIN
    SELECT coalesce(max(m.horizon), 0) INTO mark FROM mark m WHERE m.ledger_id = next_marks.ledger_id;
    FOR i IN 1..at_most LOOP
        SELECT t.sequence INTO mark FROM transfer t
         WHERE t.ledger_id = next_marks.ledger_id AND t.sequence > mark AND t.sequence <= next_marks.horizon
         ORDER BY t.sequence OFFSET transfers_per_mark() - 1 LIMIT 1;
        EXIT WHEN NOT FOUND;
        RETURN NEXT mark;
    END LOOP;
END
$$;
-- +goose StatementEnd

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

-- Which rule of its own a transfer breaks, if any. These were CHECKs of the table: PostgreSQL reads the text of each again for
-- every statement that inserts, and a statement that inserts one transfer spent a quarter of its time on that.
CREATE FUNCTION transfer_fault(transfer_id text, posted_at timestamptz, effective_at timestamptz, refusal text,
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
        WHEN (refusal IS NULL) <> (refused_account_no IS NULL) THEN 'transfer_refusal_check'
        WHEN NOT refused_account_no = ANY (account_nos) THEN 'transfer_refused_account_check'
        WHEN NOT (isfinite(posted_at) AND isfinite(effective_at)) THEN 'transfer_times_check'
        WHEN json_typeof(metadata) <> 'object' THEN 'transfer_metadata_check'
    END
$$;

-- Writes the entries of new transfers, after checking what may be wrong with them: their own rules, that the accounts exist, that
-- each currency sums to zero, that no amount is finer than its currency, and that the number was drawn and is not behind the last
-- mark. An amount that is zero, infinite or not a number is refused too.
--
-- A snapshot of an account is wrong if an entry comes to lie behind it later. Those who take the gate before they draw numbers
-- cannot bring that about. A transfer that is inserted by hand takes the gate here, and holds it until it is committed, so that
-- no mark goes past it.
--
-- The planner is told to look accounts up one by one, by their key: with a million of them it would otherwise read the whole
-- table to check a batch of a hundred. OFFSET 0 keeps the look-up apart, or a table that was never analyzed is searched by
-- ledger alone, all accounts of it for every entry. Entries are inserted in the order of their index.
--
-- It is one function and few statements, because each costs a lone transfer some ten microseconds.
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
    INSERT INTO entry (ledger_id, account_no, sequence, leg, amount)
    SELECT n.ledger_id, l.account_no, n.sequence, l.leg, l.amount
      FROM new_transfers n
           CROSS JOIN LATERAL unnest(n.account_nos, n.amounts) WITH ORDINALITY AS l (account_no, amount, leg)
     WHERE n.refusal IS NULL
     ORDER BY l.account_no, n.sequence;
    IF batch.value_dated > 0 THEN
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

-- The refusal of a direct insert into the entries is asked for by a condition, which costs less than a function that finds nothing
-- to refuse. In the condition the depth is one less than in the function.
DROP TRIGGER entry_refuse_insert ON entry;
CREATE TRIGGER entry_refuse_insert BEFORE INSERT ON entry
    FOR EACH STATEMENT WHEN (pg_trigger_depth() < 1) EXECUTE FUNCTION refuse_insert();
ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_refuse_insert;

ALTER TABLE transfer DROP CONSTRAINT transfer_id_check, DROP CONSTRAINT transfer_refusal_check,
    DROP CONSTRAINT transfer_refused_account_check, DROP CONSTRAINT transfer_times_check,
    DROP CONSTRAINT transfer_metadata_check, DROP CONSTRAINT transfer_entries_check;

-- The planner needs to know how many rows there are, and nothing of what is in the arrays: to study those took it longer, as a
-- table grew, than posting did meanwhile.
ALTER TABLE transfer ALTER account_nos SET STATISTICS 0, ALTER amounts SET STATISTICS 0, ALTER description SET STATISTICS 0,
    ALTER metadata SET STATISTICS 0, ALTER caller SET STATISTICS 0, ALTER refusal SET STATISTICS 0,
    ALTER refused_account_no SET STATISTICS 0, ALTER ledger_id SET STATISTICS 10, ALTER transfer_id SET STATISTICS 10,
    ALTER sequence SET STATISTICS 10, ALTER posted_at SET STATISTICS 10, ALTER effective_at SET STATISTICS 10;
ALTER TABLE entry ALTER ledger_id SET STATISTICS 10, ALTER account_no SET STATISTICS 10, ALTER sequence SET STATISTICS 10,
    ALTER leg SET STATISTICS 0, ALTER amount SET STATISTICS 0;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION refresh_statistics() RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
AS $$
BEGIN
    ANALYZE account, account_change, transfer, entry, snapshot, mark, value_dated_entry;
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION mark_take_snapshots() FROM PUBLIC;

CREATE TRIGGER mark_take_snapshots BEFORE INSERT ON mark
    FOR EACH ROW EXECUTE FUNCTION mark_take_snapshots();
CREATE TRIGGER mark_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON mark
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER snapshot_refuse_insert BEFORE INSERT ON snapshot
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_insert();
CREATE TRIGGER snapshot_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON snapshot
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

ALTER TABLE mark ENABLE ALWAYS TRIGGER mark_take_snapshots;
ALTER TABLE mark ENABLE ALWAYS TRIGGER mark_refuse_change;
ALTER TABLE snapshot ENABLE ALWAYS TRIGGER snapshot_refuse_insert;
ALTER TABLE snapshot ENABLE ALWAYS TRIGGER snapshot_refuse_change;

-- Of a mark the service says where it is; the rest is the trigger's.
GRANT SELECT ON snapshot, mark TO khata_service;
GRANT INSERT (ledger_id, horizon) ON mark TO khata_service;
GRANT SELECT ON value_dated_entry TO khata_service;
