-- The queries of internal/relay. What is written for a term that is over finds no row.

-- name: RelayTake :many
-- Takes the lease, if nobody has it, and gives the new term.
UPDATE relay SET term = term + 1, holder = @holder, lease_until = clock_timestamp() + make_interval(secs => @seconds::double precision)
 WHERE lease_until < clock_timestamp()
RETURNING term;

-- name: RelayRenew :many
UPDATE relay SET lease_until = clock_timestamp() + make_interval(secs => @seconds::double precision)
 WHERE term = @term
RETURNING term;

-- name: RelayRelease :exec
UPDATE relay SET lease_until = '-infinity' WHERE term = @term;

-- name: RelayState :one
SELECT term, holder, CASE WHEN lease_until > clock_timestamp() THEN extract(epoch FROM lease_until - clock_timestamp()) ELSE 0 END::double precision AS seconds_left, cluster, prefix
  FROM relay;

-- name: RelayAdopt :many
-- Binds the cursors to a cluster and a prefix of topics, if they are bound to none.
UPDATE relay SET cluster = coalesce(cluster, @cluster::text), prefix = coalesce(prefix, @prefix::text)
 WHERE term = @term
RETURNING cluster::text AS cluster, prefix::text AS prefix;

-- name: RelayCursors :many
SELECT c.ledger_id, l.name, c.through, c.records, c.moved_at
  FROM relay_cursor c JOIN ledger l ON l.ledger_id = c.ledger_id
 ORDER BY c.ledger_id;

-- name: RelayMine :many
-- Holds the term until the end of the transaction: who wants to take over waits.
SELECT term FROM relay WHERE term = @term FOR SHARE;

-- name: RelayAdvance :many
-- Moves the cursor of a ledger behind what was published.
INSERT INTO relay_cursor AS c (ledger_id, through, records) VALUES (@ledger_id, @through, @records)
ON CONFLICT (ledger_id) DO UPDATE SET through = excluded.through, records = c.records + excluded.records, moved_at = clock_timestamp()
 WHERE c.through = @from_number::bigint
RETURNING c.through;

-- name: RelayPlace :exec
-- Puts the cursor of a ledger to a place of somebody's choice.
INSERT INTO relay_cursor AS c (ledger_id, through, records) VALUES (@ledger_id, @through, @records)
ON CONFLICT (ledger_id) DO UPDATE SET through = excluded.through, records = excluded.records, moved_at = clock_timestamp();

-- name: RelayExclude :one
-- Takes the row from whoever publishes: what is under way there will be too late.
UPDATE relay SET term = term + 1, holder = '', lease_until = '-infinity' RETURNING term;

-- name: RelayPark :exec
-- Parks events, again where they had been settled and were to be published once more.
INSERT INTO relay_parked (event_id, ledger_id, sequence, topic, key, type, error)
SELECT n.event_id, @ledger_id, n.sequence, n.topic, n.key, n.type, NULLIF(n.error, '')
  FROM (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@sequences::bigint[]) AS sequence, unnest(@topics::text[]) AS topic,
               unnest(@keys::text[]) AS key, unnest(@types::text[]) AS type, unnest(@errors::text[]) AS error) n
 ORDER BY n.event_id
ON CONFLICT (event_id) DO UPDATE
   SET error = excluded.error, sequence = excluded.sequence, parked_at = clock_timestamp(), request = NULL, requested_at = NULL, reason = NULL,
       outcome = NULL, settled_at = NULL, topic = excluded.topic, key = excluded.key
 WHERE relay_parked.outcome IS NOT NULL;

-- name: RelayParkedKeys :many
-- The keys that are in the way of later events, and what is to be done about each.
SELECT p.topic, p.key, bool_or(p.request IS NOT NULL)::boolean AS requested
  FROM relay_parked p WHERE p.outcome IS NULL
 GROUP BY p.topic, p.key;

-- name: RelayParkedOf :many
-- What is parked under a key, in order.
SELECT p.event_id, p.ledger_id, l.name AS ledger, p.sequence, coalesce(p.error, '')::text AS error, coalesce(p.request, '')::text AS request
  FROM relay_parked p JOIN ledger l ON l.ledger_id = p.ledger_id
 WHERE p.topic = @topic AND p.key = @key AND p.outcome IS NULL
 ORDER BY p.sequence, p.event_id
 LIMIT @at_most;

-- name: RelaySettle :exec
UPDATE relay_parked SET outcome = @outcome, settled_at = clock_timestamp()
 WHERE event_id = ANY (@event_ids::text[]) AND outcome IS NULL;

-- name: RelayStillParked :exec
-- It was tried again, in vain.
UPDATE relay_parked SET request = NULL, requested_at = NULL, error = @error
 WHERE event_id = @event_id AND outcome IS NULL;

-- name: RelayParked :many
SELECT p.event_id, l.name AS ledger, p.sequence, p.topic, p.key, p.type, coalesce(p.error, '')::text AS error, p.parked_at,
       coalesce(p.request, '')::text AS request, coalesce(p.reason, '')::text AS reason, coalesce(p.outcome, '')::text AS outcome, p.settled_at
  FROM relay_parked p JOIN ledger l ON l.ledger_id = p.ledger_id
 WHERE @settled::boolean OR p.outcome IS NULL
 ORDER BY p.outcome IS NOT NULL, p.topic, p.key, p.sequence
 LIMIT @at_most;

-- name: RelayRetry :many
-- Asks for events to be tried again, and with each what is parked before it at its place; an empty list is all that wait.
UPDATE relay_parked p SET request = 'retry', requested_at = clock_timestamp(), reason = NULL
 WHERE p.outcome IS NULL
   AND (cardinality(@event_ids::text[]) = 0
        OR EXISTS (SELECT FROM relay_parked q
                    WHERE q.event_id = ANY (@event_ids::text[]) AND q.outcome IS NULL
                      AND q.topic = p.topic AND q.key = p.key AND p.sequence <= q.sequence))
RETURNING p.event_id;

-- name: RelaySkip :many
UPDATE relay_parked SET request = 'skip', requested_at = clock_timestamp(), reason = @reason::text
 WHERE outcome IS NULL AND event_id = ANY (@event_ids::text[])
RETURNING event_id;

-- name: RelayWaiting :one
SELECT count(*)::bigint AS parked FROM relay_parked WHERE outcome IS NULL;

-- name: RelayUnbind :exec
-- The cursors are put anew, and belong to no cluster yet.
UPDATE relay SET cluster = NULL, prefix = NULL;
