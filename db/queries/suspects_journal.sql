-- The queries of internal/journal about what the search for double charges has to know of transfers.

-- name: TransfersMoved :many
-- The transfers of a ledger between two numbers, so many at most: when each was posted; of a posted payment, a fingerprint of what it moves between
-- which accounts, whatever the order of its entries; of what a refund or a reversal takes back, the number.
SELECT t.sequence, t.posted_at, (t.refusal IS NULL AND (t.kind IS NULL OR t.kind = 'capture'))::boolean AS payment,
       coalesce(CASE WHEN t.refusal IS NULL AND (t.kind IS NULL OR t.kind = 'capture')
                     THEN hashtextextended(
                              CASE WHEN cardinality(t.account_nos) = 2 AND t.account_nos[1] < t.account_nos[2]
                                   THEN t.account_nos[1] || ' ' || trim_scale(t.amounts[1]) || ',' || t.account_nos[2] || ' ' || trim_scale(t.amounts[2])
                                   ELSE (SELECT string_agg(l.account_no || ' ' || trim_scale(l.amount), ',' ORDER BY l.account_no, l.amount)
                                           FROM (SELECT unnest(t.account_nos) AS account_no, unnest(t.amounts) AS amount) l) END, 0) END, 0)::bigint AS fingerprint,
       coalesce(o.sequence, 0)::bigint AS takes_back
  FROM (SELECT u.sequence, u.posted_at, u.refusal, u.kind, u.account_nos, u.amounts, u.ledger_id,
               CASE WHEN u.refusal IS NULL AND u.kind IN ('refund', 'reversal') THEN u.origin END AS origin
          FROM transfer u
         WHERE u.ledger_id = @ledger_id AND u.sequence > @after AND u.sequence <= @through::bigint
         ORDER BY u.sequence
         LIMIT @at_most) t
       LEFT JOIN LATERAL (SELECT v.sequence FROM transfer v WHERE v.ledger_id = t.ledger_id AND v.transfer_id = t.origin OFFSET 0) o ON true
 ORDER BY t.sequence;

-- name: LedgersMovedAfter :many
-- The ledgers that have a transfer after a number, each ledger its own (0 where none is given): since when they have, and the last number of all.
SELECT l.ledger_id, l.name, f.posted_at, z.sequence AS last
  FROM ledger l
       LEFT JOIN (SELECT unnest(@ledger_ids::integer[]) AS ledger_id, unnest(@afters::bigint[]) AS after) c ON c.ledger_id = l.ledger_id
       CROSS JOIN LATERAL (SELECT t.posted_at FROM transfer t WHERE t.ledger_id = l.ledger_id AND t.sequence > coalesce(c.after, 0)
                            ORDER BY t.sequence LIMIT 1) f
       CROSS JOIN LATERAL (SELECT t.sequence FROM transfer t WHERE t.ledger_id = l.ledger_id ORDER BY t.sequence DESC LIMIT 1) z
 ORDER BY l.ledger_id;
