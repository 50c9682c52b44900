-- The queries of internal/journal about what reconciliation has to know of an account's entries.

-- name: AccountEntries :many
-- The entries of an account between two numbers, in their order, with what a bank may know them by: the texts that some keys have in the metadata.
SELECT e.sequence, e.leg, e.amount, t.transfer_id, coalesce(t.kind, '')::text AS kind, coalesce(t.origin, '')::text AS origin, t.posted_at,
       t.effective_at, coalesce(t.description, '')::text AS description,
       CASE WHEN t.metadata IS NULL THEN '{}'
            ELSE (SELECT coalesce(array_agg(v.text ORDER BY v.place), '{}')
                    FROM (SELECT t.metadata ->> k.key AS text, k.place FROM unnest(@keys::text[]) WITH ORDINALITY AS k (key, place)) v
                   WHERE v.text <> '') END::text[] AS texts
  FROM entry e
       CROSS JOIN LATERAL (SELECT * FROM transfer u WHERE u.ledger_id = e.ledger_id AND u.sequence = e.sequence OFFSET 0) t
 WHERE e.ledger_id = @ledger_id AND e.account_no = @account_no AND e.sequence > @after::bigint AND e.sequence <= @through::bigint
 ORDER BY e.sequence, e.leg;

-- name: AccountEntriesOf :many
-- The entries that an account has of some transfers, given by number or by id.
SELECT e.sequence, e.leg, e.amount, t.transfer_id, coalesce(t.kind, '')::text AS kind, coalesce(t.origin, '')::text AS origin, t.posted_at,
       t.effective_at, coalesce(t.description, '')::text AS description, t.account_nos
  FROM (SELECT unnest(@sequences::bigint[]) AS sequence
        UNION
        SELECT s.sequence
          FROM unnest(@transfer_ids::text[]) AS w (wanted)
               CROSS JOIN LATERAL (SELECT u.sequence FROM transfer u WHERE u.ledger_id = @ledger_id AND u.transfer_id = w.wanted OFFSET 0) s) n
       CROSS JOIN LATERAL (SELECT * FROM entry f
                            WHERE f.ledger_id = @ledger_id AND f.account_no = @account_no AND f.sequence = n.sequence OFFSET 0) e
       CROSS JOIN LATERAL (SELECT * FROM transfer u WHERE u.ledger_id = e.ledger_id AND u.sequence = e.sequence OFFSET 0) t
 ORDER BY e.sequence, e.leg;
