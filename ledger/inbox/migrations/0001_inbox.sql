-- +goose Up

-- The search_path is the inbox's schema while this runs, and the functions keep it.

-- The consumers, each with its window. Nobody deletes them but a person: the window of one that is gone for good keeps partitions.
CREATE TABLE consumer (
    name           text        COLLATE "C" PRIMARY KEY,
    window_seconds bigint      NOT NULL CONSTRAINT consumer_window CHECK (window_seconds > 0),
    -- Markers of days before this one have been dropped while the consumer existed: whether it knows an event of such a day can no longer
    -- be told, however long its window has become since.
    complete_from  date        NOT NULL DEFAULT '-infinity',
    registered_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The inbox: which events a consumer has taken. A marker is in the same commit as the effect.
--
-- A unique key on a partitioned table must hold the day, so the primary key does not stop the same event on another day, which happens when
-- its producer goes back to an older backup and records it anew. What does is an advisory lock on consumer and event while all days are
-- looked through (see take); the key is the last guard.
CREATE TABLE marker (
    consumer    text        COLLATE "C" NOT NULL,
    event_id    text        COLLATE "C" NOT NULL,
    -- Of the event's own time, in UTC, which is the same at every delivery.
    day         date        NOT NULL,
    -- Of the event's source: another source's event under the same id is another event.
    source_hash bigint      NOT NULL,
    taken_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer, event_id, day)
) PARTITION BY RANGE (day);

-- Events that had no effect, and why: dead letters, and those too old to be judged. They are kept until a person settles them, and after.
CREATE TABLE letter (
    -- In the order of the events, for those of one partition of a topic.
    number        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer      text        COLLATE "C" NOT NULL,
    event_id      text        COLLATE "C" NOT NULL,
    source_hash   bigint      NOT NULL,
    reason        text        NOT NULL CONSTRAINT letter_reason
                  CHECK (reason IN ('poison', 'failed', 'malformed', 'future', 'other_source', 'behind', 'too_old')),
    state         text        NOT NULL DEFAULT 'open' CONSTRAINT letter_state CHECK (state IN ('open', 'requested', 'replayed', 'discarded')),
    error         text        NOT NULL,
    attempts      integer     NOT NULL,
    -- For people. The record below is what counts.
    source        text        NOT NULL,
    type          text        NOT NULL,
    event_time    timestamptz,
    -- The record as it came.
    topic         text        NOT NULL,
    partition     integer     NOT NULL,
    "offset"      bigint      NOT NULL,
    key           bytea,
    value         bytea,
    header_keys   bytea[]     NOT NULL,
    header_values bytea[]     NOT NULL,
    recorded_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    requested_at  timestamptz,
    settled_at    timestamptz CONSTRAINT letter_settled CHECK ((settled_at IS NOT NULL) = (state IN ('replayed', 'discarded'))),
    -- Why it was discarded.
    note          text        NOT NULL DEFAULT '',
    -- A redelivery writes no second one.
    CONSTRAINT letter_once UNIQUE (consumer, event_id, source_hash)
);
CREATE INDEX letter_unsettled ON letter (consumer, number) WHERE state IN ('open', 'requested');
-- A key can be longer than an index takes.
CREATE INDEX letter_of_key ON letter (consumer, topic, sha256(key), number) WHERE state IN ('open', 'requested') AND key IS NOT NULL;

-- How far the groups have come, at least. Kafka forgets a group's offsets when it has been away for a week; then it would begin where the topic
-- does, and nobody would hear of the events that are gone.
CREATE TABLE progress (
    consumer    text        COLLATE "C" NOT NULL,
    group_id    text        COLLATE "C" NOT NULL,
    topic       text        COLLATE "C" NOT NULL,
    partition   integer     NOT NULL,
    next_offset bigint      NOT NULL,
    saved_at    timestamptz NOT NULL,
    PRIMARY KEY (consumer, group_id, topic, partition)
);

-- A partition for each day. It is made by itself and then attached: CREATE TABLE ... PARTITION OF would wait for everyone who has looked for
-- a marker in a transaction that is still open, and everybody behind it. The lock that is taken instead lets them through, and makes those
-- who come at the same time take turns.
-- +goose StatementBegin
CREATE FUNCTION make_partitions(days_back integer, days_ahead integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT
    SET lock_timeout = '3s'
AS $$
DECLARE
    made  integer := 0;
    today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
    name  text;
BEGIN
    FOR d IN -least(days_back, 400)..least(days_ahead, 60) LOOP
        name := 'marker_' || to_char(today + d, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(name) IS NOT NULL;
        LOCK TABLE marker IN SHARE UPDATE EXCLUSIVE MODE;
        CONTINUE WHEN to_regclass(name) IS NOT NULL;
        EXECUTE format('CREATE TABLE %I (LIKE marker INCLUDING ALL)', name);
        EXECUTE format('ALTER TABLE marker ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, today + d, today + d + 1);
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;
-- +goose StatementEnd

-- Drops the partitions whose day has been over for longer than the longest window of all consumers, and a day more. The parent is locked
-- before the child, and not waited for long: a lock that queues stops every consumer behind it. What is dropped is written down with those
-- who had it.
-- +goose StatementBegin
CREATE FUNCTION drop_partitions() RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT
    SET lock_timeout = '1s'
AS $$
DECLARE
    child  record;
    longest double precision;
BEGIN
    FOR child IN
        SELECT c.relname AS name, to_date(right(c.relname, 8), 'YYYYMMDD') + 1 AS ends
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'marker'::regclass AND c.relname ~ '^marker_[0-9]{8}$'
         ORDER BY c.relname
    LOOP
        SELECT max(window_seconds) INTO longest FROM consumer;
        CONTINUE WHEN longest IS NULL
            OR child.ends::timestamp AT TIME ZONE 'UTC' + make_interval(secs => longest + 86400) > clock_timestamp();
        LOCK TABLE marker IN ACCESS EXCLUSIVE MODE;
        UPDATE consumer SET complete_from = child.ends WHERE complete_from < child.ends;
        EXECUTE format('DROP TABLE IF EXISTS %I', child.name); -- Another may have been first.
        RETURN NEXT child.name;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- Takes events of one partition of a topic, which come in the order of their offsets, and no id twice: it says what is to be done with each,
-- and marks those that are new.
--
-- duplicate: known. other_source: known, of another source. unmarked: it has no time, so it can have no marker. future: it was recorded more
-- than a day ahead. too_old: older than the window, or than what is still known. behind: with in_order, one of its key waits. new: the rest.
--
-- Each day begins with an empty partition, and an empty table looks to the planner as if reading all of it were best; the plan outlives the
-- morning. So it is told to look markers up by their index.
-- +goose StatementBegin
CREATE FUNCTION take(of_consumer text, window_seconds double precision, in_order boolean, of_topic text, locks bigint[],
                     ids text[], sources bigint[], times timestamptz[], keys bytea[])
    RETURNS TABLE (n bigint, verdict text)
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET enable_hashjoin = off
    SET enable_mergejoin = off
    SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    -- In their order, which is the same for everybody. The statement after it sees what was committed before the last of them was had.
    PERFORM pg_advisory_xact_lock(l) FROM unnest(locks) AS l;
    RETURN QUERY
    WITH event AS MATERIALIZED (
        SELECT e.n, e.id, e.source, e.at, e.key, (e.at AT TIME ZONE 'UTC')::date AS day,
               e.at < clock_timestamp() - make_interval(secs => window_seconds) OR (e.at AT TIME ZONE 'UTC')::date < c.complete_from AS too_old
          FROM unnest(ids, sources, times, keys) WITH ORDINALITY AS e (id, source, at, key, n)
               CROSS JOIN (SELECT complete_from FROM consumer WHERE name = of_consumer) AS c
    ), judged AS MATERIALIZED (
        SELECT e.n, e.id, e.source, e.day,
               CASE WHEN known.same THEN 'duplicate'
                    WHEN NOT known.same THEN 'other_source'
                    WHEN e.at IS NULL THEN 'unmarked'
                    WHEN e.at > clock_timestamp() + interval '1 day' THEN 'future'
                    WHEN e.too_old THEN 'too_old'
                    WHEN in_order AND e.key IS NOT NULL AND EXISTS (
                        SELECT FROM letter w WHERE w.consumer = of_consumer AND w.topic = of_topic AND sha256(w.key) = sha256(e.key)
                                               AND w.key IS NOT NULL AND w.state IN ('open', 'requested') AND w.reason <> 'too_old') THEN 'behind'
                    ELSE 'new' END AS verdict
          FROM event e
               CROSS JOIN LATERAL (
                   SELECT bool_or(k.source_hash = e.source) AS same
                     FROM (SELECT m.source_hash FROM marker m WHERE m.consumer = of_consumer AND m.event_id = e.id
                           UNION ALL
                           SELECT l.source_hash FROM letter l WHERE l.consumer = of_consumer AND l.event_id = e.id) AS k) AS known
    ), marked AS (
        INSERT INTO marker (consumer, event_id, day, source_hash)
        SELECT of_consumer, j.id, j.day, j.source FROM judged j WHERE j.verdict = 'new' ORDER BY j.n
    )
    SELECT j.n, j.verdict FROM judged j ORDER BY j.n;
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION make_partitions(integer, integer), drop_partitions(),
    take(text, double precision, boolean, text, bigint[], text[], bigint[], timestamptz[], bytea[]) FROM PUBLIC;
