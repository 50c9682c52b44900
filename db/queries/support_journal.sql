-- The queries of internal/journal by which people find transfers: back in time over a bounded number of rows, by the indexes that there are.

-- name: LookBackLedger :many
-- The transfers of a ledger before a number, the newest first, refused ones included; and of each whether its metadata has a text or number anywhere, in
-- full, and whether one of its entries is of an amount. What is wanted is a JSON object of the text, and of the number that it is, if it is one.
SELECT t.sequence, t.transfer_id, t.caller, t.posted_at,
       (@wanted::text <> '' AND t.metadata IS NOT NULL
        AND jsonb_path_exists(t.metadata::jsonb, '$.** ? (@ == $text || @ == $number)', CAST(NULLIF(@wanted::text, '') AS jsonb)))::boolean AS by_text,
       (@amount::numeric = ANY (t.amounts) OR (0 - @amount::numeric) = ANY (t.amounts))::boolean AS by_amount
  FROM (SELECT * FROM transfer u
         WHERE u.ledger_id = @ledger_id AND u.sequence > @after::bigint AND u.sequence < @before::bigint
         ORDER BY u.sequence DESC LIMIT @look) t
 ORDER BY t.sequence DESC;

-- name: LookBackAccount :many
-- The same of the entries of an account.
SELECT e.sequence, t.transfer_id, t.caller, t.posted_at,
       (@wanted::text <> '' AND t.metadata IS NOT NULL
        AND jsonb_path_exists(t.metadata::jsonb, '$.** ? (@ == $text || @ == $number)', CAST(NULLIF(@wanted::text, '') AS jsonb)))::boolean AS by_text,
       (abs(e.amount) = @amount::numeric)::boolean AS by_amount
  FROM (SELECT f.ledger_id, f.sequence, f.leg, f.amount FROM entry f
         WHERE f.ledger_id = @ledger_id AND f.account_no = @account_no AND f.sequence > @after::bigint AND f.sequence < @before::bigint
         ORDER BY f.sequence DESC, f.leg DESC LIMIT @look) e
       CROSS JOIN LATERAL (SELECT * FROM transfer u WHERE u.ledger_id = e.ledger_id AND u.sequence = e.sequence OFFSET 0) t
 ORDER BY e.sequence DESC, e.leg DESC;
