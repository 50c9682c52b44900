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

-- Reports whether the accounts of a posted transfer get a snapshot: one number in 64 is drawn by lot, so that whatever rhythm
-- the entries of an account come in, it has a snapshot about every 64 of them. The lot is the cube of the number, times a
-- constant, modulo a prime: arithmetic of our own, which no version of PostgreSQL changes as it may change a hash function.
CREATE FUNCTION sampled(sequence bigint) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
'SELECT (sequence % 2147483647 * 1103515245 % 2147483647) * (sequence % 2147483647 * 1103515245 % 2147483647) % 2147483647
        * (sequence % 2147483647 * 1103515245 % 2147483647) % 2147483647 < 33554432';

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

-- A snapshot of an account is wrong if an entry comes to lie behind it later. Those who take the gate before they draw numbers
-- cannot bring that about. This is for everybody else: a transfer that is inserted by hand takes the gate here, and holds
-- it until it is committed, so that no mark goes past it; and a number that a mark has gone past is refused.
-- +goose StatementBegin
CREATE FUNCTION transfer_keep_horizon() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
AS $$
BEGIN
    IF TG_RELID <> 'public.transfer'::regclass OR TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION 'transfer_keep_horizon belongs to table transfer';
    END IF;
    PERFORM pg_advisory_xact_lock_shared(4247, n.ledger_id)
       FROM (SELECT DISTINCT ledger_id FROM new_transfers ORDER BY ledger_id) n;
    IF EXISTS (SELECT FROM (SELECT ledger_id, min(sequence) AS first FROM new_transfers GROUP BY ledger_id) n
                WHERE EXISTS (SELECT FROM mark m WHERE m.ledger_id = n.ledger_id AND m.horizon >= n.first)) THEN
        RAISE EXCEPTION 'a transfer has a sequence behind the last mark of its ledger: what lies there is final'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_horizon', TABLE = 'transfer';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION mark_take_snapshots(), transfer_keep_horizon() FROM PUBLIC;

CREATE TRIGGER mark_take_snapshots BEFORE INSERT ON mark
    FOR EACH ROW EXECUTE FUNCTION mark_take_snapshots();
CREATE TRIGGER mark_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON mark
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER snapshot_refuse_insert BEFORE INSERT ON snapshot
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_insert();
CREATE TRIGGER snapshot_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON snapshot
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER transfer_keep_horizon AFTER INSERT ON transfer
    REFERENCING NEW TABLE AS new_transfers FOR EACH STATEMENT EXECUTE FUNCTION transfer_keep_horizon();

ALTER TABLE mark ENABLE ALWAYS TRIGGER mark_take_snapshots;
ALTER TABLE mark ENABLE ALWAYS TRIGGER mark_refuse_change;
ALTER TABLE snapshot ENABLE ALWAYS TRIGGER snapshot_refuse_insert;
ALTER TABLE snapshot ENABLE ALWAYS TRIGGER snapshot_refuse_change;
ALTER TABLE transfer ENABLE ALWAYS TRIGGER transfer_keep_horizon;

-- Of a mark the service says where it is; the rest is the trigger's.
GRANT SELECT ON snapshot, mark TO khata_service;
GRANT INSERT (ledger_id, horizon) ON mark TO khata_service;
