-- +goose Up

-- The keys of the payment API: what was answered under an Idempotency-Key, byte for byte, for as long as its window lasts. A payment that
-- only touches the ledger has its key row in the same commit as the money.
--
-- A unique key on a partitioned table must hold the day, so nothing here stops a second row of the same key on another day. What does is
-- an advisory lock on the key while it is looked up and inserted, and behind that, for ever, the transfer's own id, which follows from user
-- and key.
CREATE TABLE payment_key (
    user_id     text        COLLATE "C" NOT NULL,
    idem_key    text        COLLATE "C" NOT NULL,
    -- Of created_at, in UTC.
    day         date        NOT NULL,
    created_at  timestamptz NOT NULL,
    -- SHA-256 of the method, the route and the command in canonical form.
    fingerprint bytea       NOT NULL,
    ledger_id   integer     NOT NULL,
    transfer_id text        COLLATE "C" NOT NULL,
    -- The answer.
    status      smallint    NOT NULL,
    body        bytea       NOT NULL,
    -- Which try of which request wrote it: a commit whose answer was lost is recognised by it.
    attempt     uuid        NOT NULL,
    PRIMARY KEY (user_id, idem_key, day)
) PARTITION BY RANGE (day);

-- A partition for each day, made ahead: without one every payment of its day would be refused. It is made by itself and then attached:
-- CREATE TABLE ... PARTITION OF would wait for every reader of the keys, such as a backup that takes hours, and payments would wait behind
-- it. The lock that is taken instead lets all of them through, and makes servers that come at the same time take turns.
-- +goose StatementBegin
CREATE FUNCTION payment_key_make_partitions(days_ahead integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
    SET lock_timeout = '3s'
AS $$
DECLARE
    made  integer := 0;
    today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
    name  text;
BEGIN
    FOR d IN -1..least(days_ahead, 60) LOOP
        name := 'payment_key_' || to_char(today + d, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('public.' || name) IS NOT NULL;
        LOCK TABLE payment_key IN SHARE UPDATE EXCLUSIVE MODE;
        CONTINUE WHEN to_regclass('public.' || name) IS NOT NULL;
        EXECUTE format('CREATE TABLE %I (LIKE payment_key INCLUDING ALL)', name);
        EXECUTE format('ALTER TABLE payment_key ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, today + d, today + d + 1);
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;
-- +goose StatementEnd

-- Drops the partitions whose last moment lies more than the window in the past. The parent is locked before the child, and not waited for
-- long: a lock that queues stops every payment behind it.
-- +goose StatementBegin
CREATE FUNCTION payment_key_drop_partitions(window_seconds bigint) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp
    SET lock_timeout = '1s'
AS $$
DECLARE
    child record;
BEGIN
    IF window_seconds < 86400 THEN
        RAISE EXCEPTION 'a window of % seconds is shorter than a day', window_seconds USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR child IN
        SELECT c.relname AS name, to_date(right(c.relname, 8), 'YYYYMMDD') + 1 AS ends
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'public.payment_key'::regclass AND c.relname ~ '^payment_key_[0-9]{8}$'
         ORDER BY c.relname
    LOOP
        CONTINUE WHEN child.ends::timestamp AT TIME ZONE 'UTC' + make_interval(secs => window_seconds) > clock_timestamp();
        LOCK TABLE payment_key IN ACCESS EXCLUSIVE MODE;
        EXECUTE format('DROP TABLE IF EXISTS %I', child.name); -- Another server may have been first.
        RETURN NEXT child.name;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- The keys that are there, younger than the window, with their places in the list. A key has a row only if its transfer is there: most have
-- not, and where the ledger and the transfers' ids are given, no partition is looked at for those.
--
-- Each day begins with an empty partition, and an empty table looks to the planner as if reading all of it were best; the plan outlives
-- the morning. So it is told to look keys up by their index, and one day more on either side of the window, since now() stands still.
-- +goose StatementBegin
CREATE FUNCTION payment_keys_find(of_ledger integer, user_ids text[], idem_keys text[], transfer_ids text[], window_seconds double precision)
    RETURNS TABLE (n bigint, fingerprint bytea, transfer_id text, status smallint, body bytea, attempt uuid)
    LANGUAGE plpgsql STABLE
    SET search_path = public, pg_temp
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET enable_hashjoin = off
    SET enable_mergejoin = off
    SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT w.n, k.fingerprint, k.transfer_id, k.status, k.body, k.attempt
      FROM unnest(user_ids, idem_keys, transfer_ids) WITH ORDINALITY AS w (user_id, idem_key, transfer_id, n)
           CROSS JOIN LATERAL (SELECT * FROM payment_key p
                                WHERE p.user_id = w.user_id AND p.idem_key = w.idem_key
                                  AND p.day >= ((now() - make_interval(secs => window_seconds)) AT TIME ZONE 'UTC')::date - 1
                                  AND p.day <= (now() AT TIME ZONE 'UTC')::date + 1
                                  AND p.created_at > clock_timestamp() - make_interval(secs => window_seconds)
                                ORDER BY p.day DESC LIMIT 1) k
     WHERE of_ledger IS NULL
        OR EXISTS (SELECT FROM transfer t WHERE t.ledger_id = of_ledger AND t.transfer_id BETWEEN w.transfer_id AND w.transfer_id);
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION payment_key_make_partitions(integer), payment_key_drop_partitions(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION payment_key_make_partitions(integer), payment_key_drop_partitions(bigint) TO khata_service;
GRANT SELECT, INSERT ON payment_key TO khata_service;

SELECT payment_key_make_partitions(7);
