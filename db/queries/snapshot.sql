-- The queries of internal/journal about balances, and about what makes them cheap: snapshots and marks.
--
-- A balance is computed by balance_through. sqlc has to be told its columns, and trips over parameters among its arguments.

-- name: BalancesAt :many
-- The balance of each account as of a sequence.
SELECT n.through::bigint AS through, a.account_no, a.account_id, a.type, a.currency, a.scale, b.sum::numeric AS sum, b.version::bigint AS version
  FROM (SELECT unnest(@account_ids::text[]) AS account_id, unnest(@throughs::bigint[]) AS through) n
       CROSS JOIN LATERAL (SELECT * FROM account c
                            WHERE c.ledger_id = @ledger_id AND c.account_id = n.account_id OFFSET 0) a
       CROSS JOIN LATERAL balance_through(a.ledger_id, a.account_no, n.through) AS b (sum, version);

-- name: SumThrough :one
-- The balance after one entry: after all transfers before it, and the legs of its own through it.
SELECT (b.sum + l.sum)::numeric AS sum
  FROM (SELECT @ledger_id::integer AS ledger_id, @account_no::bigint AS account_no, @sequence::bigint AS sequence) p
       CROSS JOIN LATERAL balance_through(p.ledger_id, p.account_no, p.sequence - 1) AS b (sum, version)
       CROSS JOIN LATERAL (SELECT sum(e.amount) AS sum FROM entry e
                            WHERE e.ledger_id = p.ledger_id AND e.account_no = p.account_no AND e.sequence = p.sequence
                              AND e.leg <= @leg::smallint) l;

-- name: LedgersDue :many
-- The ledgers that have the transfers for another mark up to a number, and the seconds since the last of these was posted. Only
-- ledgers that have transfers after number "since" are looked at.
SELECT l.ledger_id, extract(epoch FROM clock_timestamp() - t.posted_at)::double precision AS seconds
  FROM (SELECT g.ledger_id, @last::bigint AS last FROM ledger g) l
       CROSS JOIN LATERAL (SELECT max(u.sequence) AS sequence FROM transfer u WHERE u.ledger_id = l.ledger_id OFFSET 0) n
       CROSS JOIN LATERAL next_marks(l.ledger_id, CASE WHEN n.sequence > @since::bigint THEN l.last END, 1) AS m (horizon)
       CROSS JOIN LATERAL (SELECT v.posted_at FROM transfer v
                            WHERE v.ledger_id = l.ledger_id AND v.sequence = m.horizon OFFSET 0) t;

-- name: SnapshotLease :one
-- One server at a time takes the snapshots of a ledger: two would only do the same work twice. 4248 is the class of these
-- locks, as 4247 is that of the gates. It falls with the transaction, whatever becomes of the server.
SELECT pg_try_advisory_xact_lock(4248, @ledger_id::integer) AS taken;

-- name: MarkInsert :many
-- The next marks of a ledger, behind a horizon that was waited for. A trigger takes their snapshots.
INSERT INTO mark (ledger_id, horizon)
SELECT p.ledger_id, m.horizon::bigint
  FROM (SELECT @ledger_id::integer AS ledger_id, @horizon::bigint AS horizon, @at_most::integer AS at_most) p
       CROSS JOIN LATERAL next_marks(p.ledger_id, p.horizon, p.at_most) AS m (horizon)
 ORDER BY m.horizon
ON CONFLICT (ledger_id, horizon) DO NOTHING
RETURNING snapshots;
