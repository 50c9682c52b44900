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
