-- The queries of internal/journal about balances, and about what makes them cheap: snapshots and marks.
--
-- A balance is computed by balance_through. sqlc has to be told its columns, and trips over parameters among its arguments.

-- name: BalancesAt :many
-- The balance of each account as of a sequence, and what is held.
SELECT n.through::bigint AS through, a.account_no, a.account_id, a.type, a.currency, a.scale, b.sum::numeric AS sum,
       h.debit::numeric AS held_debit, h.credit::numeric AS held_credit, greatest(b.version, h.version)::bigint AS version
  FROM (SELECT unnest(@account_ids::text[]) AS account_id, unnest(@throughs::bigint[]) AS through) n
       CROSS JOIN LATERAL (SELECT * FROM account c
                            WHERE c.ledger_id = @ledger_id AND c.account_id = n.account_id OFFSET 0) a
       CROSS JOIN LATERAL balance_through(a.ledger_id, a.account_no, n.through) AS b (sum, version)
       CROSS JOIN LATERAL held_through(a.ledger_id, a.account_no, n.through) AS h (debit, credit, version);

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

-- name: Clock :one
SELECT clock_timestamp()::timestamptz AS now;

-- name: MarkBehind :one
-- Whether a ledger has a mark at or above a number: what lies below is then final.
SELECT EXISTS (SELECT FROM mark m WHERE m.ledger_id = @ledger_id AND m.horizon >= @sequence) AS behind;

-- name: FlushNumbers :exec
-- Makes sure that the numbers drawn so far are never drawn again, whatever crashes: a number of which nothing was committed
-- may be in the log only. A message in the log has its commit flush all before it.
SELECT pg_logical_emit_message(true, 'khata', '')::text AS position;

-- name: StretchesAround :many
-- Which numbers have to be looked at one by one to tell which transfers were posted at or before a time.
SELECT r.after::bigint AS after, r.through::bigint AS through
  FROM (SELECT @ledger_id::integer AS ledger_id, @at::timestamptz AS at, @horizon::bigint AS horizon) p
       CROSS JOIN LATERAL stretches_around(p.ledger_id, p.at, p.horizon) AS r (after, through)
 ORDER BY r.after;

-- name: BalancesByTime :many
-- The balance of each account over the transfers posted at or before a time: those up to number "base", and of those in the
-- stretches the ones that were; or by value date. What is held has no value date.
SELECT a.account_no, a.account_id, a.type, a.currency, a.scale, b.sum::numeric AS sum,
       (h.debit + k.debit)::numeric AS held_debit, (h.credit + k.credit)::numeric AS held_credit,
       (CASE WHEN n.by_value_date
             THEN greatest((SELECT e.sequence FROM entry e
                             WHERE e.ledger_id = a.ledger_id AND e.account_no = a.account_no AND e.sequence <= n.horizon
                             ORDER BY e.sequence DESC LIMIT 1),
                           (SELECT e.sequence FROM hold_entry e
                             WHERE e.ledger_id = a.ledger_id AND e.account_no = a.account_no AND e.sequence <= n.horizon
                             ORDER BY e.sequence DESC LIMIT 1), 0)
             ELSE greatest(b.version, h.version, k.version) END)::bigint AS version
  FROM (SELECT unnest(@account_ids::text[]) AS account_id, @base::bigint AS base, @at::timestamptz AS at, @by_value_date::boolean AS by_value_date,
               @horizon::bigint AS horizon, @afters::bigint[] AS afters, @throughs::bigint[] AS throughs) n
       CROSS JOIN LATERAL (SELECT * FROM account c
                            WHERE c.ledger_id = @ledger_id AND c.account_id = n.account_id OFFSET 0) a
       CROSS JOIN LATERAL balance_by_time(a.ledger_id, a.account_no, n.at, n.by_value_date, n.horizon, n.base, n.afters, n.throughs) AS b (sum, version)
       CROSS JOIN LATERAL held_through(a.ledger_id, a.account_no, n.base) AS h (debit, credit, version)
       CROSS JOIN LATERAL (
           SELECT coalesce(sum(e.debit), 0) AS debit, coalesce(sum(e.credit), 0) AS credit, max(e.sequence) AS version
             FROM (SELECT unnest(n.afters) AS after, unnest(n.throughs) AS through) r
                  CROSS JOIN LATERAL (SELECT f.sequence, f.debit, f.credit FROM hold_entry f
                                       WHERE f.ledger_id = a.ledger_id AND f.account_no = a.account_no
                                         AND f.sequence > r.after AND f.sequence <= r.through OFFSET 0) e
                  CROSS JOIN LATERAL (SELECT u.posted_at FROM transfer u
                                       WHERE u.ledger_id = a.ledger_id AND u.sequence = e.sequence OFFSET 0) t
            WHERE t.posted_at <= n.at) k;
