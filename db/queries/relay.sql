-- The queries of internal/relay. What is written for a term that is over finds no row.

-- name: RelayTake :many
-- Takes the lease, if nobody has it, and gives the new term. It does not wait for a relay that has stopped in the middle of moving a cursor:
-- a statement that nobody waits for any more would take the lease for nobody when that one's session is ended.
UPDATE relay SET term = term + 1, holder = @holder, lease_until = clock_timestamp() + make_interval(secs => @seconds::double precision)
 WHERE one IN (SELECT r.one FROM relay r WHERE r.lease_until < clock_timestamp() FOR UPDATE SKIP LOCKED)
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
-- Binds the cursors to a cluster, a prefix of topics and their partitions, if they are bound to none.
UPDATE relay SET cluster = coalesce(cluster, @cluster::text), prefix = coalesce(prefix, @prefix::text),
       partitions = coalesce(partitions, @partitions::text)
 WHERE term = @term
RETURNING cluster::text AS cluster, prefix::text AS prefix, partitions::text AS partitions;

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
-- Parks events, again where they had been settled and were to be published once more. What waits keeps its reason.
INSERT INTO relay_parked AS p (event_id, ledger_id, sequence, topic, key, type, error)
SELECT n.event_id, @ledger_id, n.sequence, n.topic, n.key, n.type, NULLIF(n.error, '')
  FROM (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@sequences::bigint[]) AS sequence, unnest(@topics::text[]) AS topic,
               unnest(@keys::text[]) AS key, unnest(@types::text[]) AS type, unnest(@errors::text[]) AS error) n
 ORDER BY n.event_id
ON CONFLICT (event_id) DO UPDATE
   SET error = CASE WHEN p.outcome IS NULL THEN coalesce(excluded.error, p.error) ELSE excluded.error END,
       sequence = excluded.sequence, topic = excluded.topic, key = excluded.key, type = excluded.type,
       parked_at = CASE WHEN p.outcome IS NULL THEN p.parked_at ELSE clock_timestamp() END,
       request = CASE WHEN p.outcome IS NULL THEN p.request END, requested_at = CASE WHEN p.outcome IS NULL THEN p.requested_at END,
       reason = CASE WHEN p.outcome IS NULL THEN p.reason END, outcome = NULL, settled_at = NULL;

-- name: RelayParkedKeys :many
-- The keys that are in the way of later events, and whether there is something to do about each: somebody has asked, or what was in the
-- way of the first one is gone.
SELECT p.topic, p.key, (bool_or(p.request IS NOT NULL) OR (array_agg(p.error ORDER BY p.sequence))[1] IS NULL)::boolean AS due
  FROM relay_parked p WHERE p.outcome IS NULL
 GROUP BY p.topic, p.key;

-- name: RelayParkedOf :many
-- What is parked under a key, in order.
SELECT p.event_id, p.ledger_id, l.name AS ledger, p.sequence, coalesce(p.error, '')::text AS error, coalesce(p.request, '')::text AS request
  FROM relay_parked p JOIN ledger l ON l.ledger_id = p.ledger_id
 WHERE p.topic = @topic AND p.key = @key AND p.outcome IS NULL
 ORDER BY p.sequence, p.event_id
 LIMIT @at_most;

-- name: RelayRewound :exec
-- What lies behind the place to which a cursor goes back is published again, and parked again if need be.
UPDATE relay_parked SET outcome = 'rewound', settled_at = clock_timestamp()
 WHERE ledger_id = @ledger_id AND sequence > @through AND outcome IS NULL;

-- name: RelaySettle :exec
UPDATE relay_parked SET outcome = @outcome, settled_at = clock_timestamp()
 WHERE event_id = ANY (@event_ids::text[]) AND outcome IS NULL;

-- name: RelayStillParked :exec
-- It was tried again, in vain.
UPDATE relay_parked SET request = NULLIF(request, 'retry'), error = @error
 WHERE event_id = @event_id AND outcome IS NULL;

-- name: RelayTryAlone :exec
-- They were refused together, and are to be tried one by one.
UPDATE relay_parked SET error = @error::text, request = 'retry', requested_at = clock_timestamp()
 WHERE event_id = ANY (@event_ids::text[]) AND outcome IS NULL AND request IS DISTINCT FROM 'skip';

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
UPDATE relay SET cluster = NULL, prefix = NULL, partitions = NULL;

-- name: RelayCursorOf :many
SELECT c.through, c.moved_at FROM relay_cursor c JOIN ledger l ON l.ledger_id = c.ledger_id WHERE l.name = @ledger;

-- name: RelayParkedByID :many
SELECT p.event_id, p.type, coalesce(p.error, '')::text AS error, p.parked_at, coalesce(p.request, '')::text AS request,
       coalesce(p.reason, '')::text AS reason, coalesce(p.outcome, '')::text AS outcome, p.settled_at
  FROM unnest(@event_ids::text[]) AS w (event_id) JOIN relay_parked p ON p.event_id = w.event_id;
