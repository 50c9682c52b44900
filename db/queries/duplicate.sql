-- The queries of internal/journal by which servers keep how many duplicates they have stopped.

-- name: DuplicatesTally :exec
-- Sets what a server has counted.
INSERT INTO duplicate_tally (ledger_id, quarter, guard, run, replayed, taken)
SELECT @ledger_id::integer, n.quarter, n.guard, @run::uuid, n.replayed, n.taken
  FROM (SELECT unnest(@quarters::timestamptz[]) AS quarter, unnest(@guards::text[]) AS guard, unnest(@replayed::bigint[]) AS replayed,
               unnest(@taken::bigint[]) AS taken) n
 ORDER BY n.quarter, n.guard
ON CONFLICT (ledger_id, quarter, guard, run) DO UPDATE SET replayed = EXCLUDED.replayed, taken = EXCLUDED.taken;

-- name: DuplicatesStopped :many
-- What all servers have counted in a period, quarter of an hour by quarter.
SELECT quarter, guard, sum(replayed)::bigint AS replayed, sum(taken)::bigint AS taken
  FROM duplicate_tally
 WHERE ledger_id = @ledger_id AND quarter >= @since AND quarter < @before
 GROUP BY quarter, guard
 ORDER BY quarter, guard;

-- name: DuplicatesTallyTransfers :exec
-- Sets what a server has counted of each transfer.
INSERT INTO duplicate_transfer_tally (ledger_id, transfer_id, quarter, guard, run, replayed, taken, first_at, last_at)
SELECT @ledger_id::integer, n.transfer_id, n.quarter, n.guard, @run::uuid, n.replayed, n.taken, n.first_at, n.last_at
  FROM (SELECT unnest(@transfer_ids::text[]) AS transfer_id, unnest(@quarters::timestamptz[]) AS quarter, unnest(@guards::text[]) AS guard,
               unnest(@replayed::bigint[]) AS replayed, unnest(@taken::bigint[]) AS taken, unnest(@first_at::timestamptz[]) AS first_at,
               unnest(@last_at::timestamptz[]) AS last_at) n
 ORDER BY n.transfer_id, n.quarter, n.guard
ON CONFLICT (ledger_id, transfer_id, quarter, guard, run)
DO UPDATE SET replayed = GREATEST(duplicate_transfer_tally.replayed, EXCLUDED.replayed), -- A write that was given up may still come.
              taken    = GREATEST(duplicate_transfer_tally.taken, EXCLUDED.taken),
              last_at  = GREATEST(duplicate_transfer_tally.last_at, EXCLUDED.last_at);

-- name: DuplicatesOfTransfers :many
-- What all servers have counted of some transfers, the newest first.
SELECT transfer_id, guard, sum(replayed)::bigint AS replayed, sum(taken)::bigint AS taken, min(first_at)::timestamptz AS first_at,
       max(last_at)::timestamptz AS last_at
  FROM duplicate_transfer_tally
 WHERE ledger_id = @ledger_id AND transfer_id = ANY (@transfer_ids::text[])
 GROUP BY transfer_id, guard
 ORDER BY max(last_at) DESC, transfer_id, guard
 LIMIT @most;

-- name: DuplicatesForget :execrows
-- Deletes some of what was counted of transfers long ago.
DELETE FROM duplicate_transfer_tally
 WHERE ctid = ANY (ARRAY(SELECT d.ctid FROM duplicate_transfer_tally d
                          WHERE d.quarter < now() - make_interval(secs => @seconds::double precision) ORDER BY d.quarter LIMIT @most));
