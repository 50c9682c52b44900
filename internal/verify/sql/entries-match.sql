-- What the transfers' rows order is counted against what the entries are, leg by leg; whatever does not come to nothing is
-- on one side only. Grouping takes a NULL as a value, and so misses nothing. A hold, a void and an expiry move nothing.
WITH leg AS (
    SELECT ledger_id, sequence, generate_series(1, greatest(cardinality(account_nos), cardinality(amounts))) AS leg,
           unnest(account_nos) AS account_no, unnest(amounts) AS amount, 1 AS surplus
      FROM transfer WHERE refusal IS NULL AND (kind IS NULL OR kind IN ('capture', 'refund', 'reversal'))
    UNION ALL
    SELECT ledger_id, sequence, leg, account_no, amount, -1 FROM entry),
off AS (
    SELECT ledger_id, sequence, leg, account_no, amount, sum(surplus) AS surplus
      FROM leg GROUP BY ledger_id, sequence, leg, account_no, amount HAVING sum(surplus) <> 0)
SELECT o.ledger_id, o.sequence, t.transfer_id, NULL::text,
       left(concat_ws('; ',
            CASE WHEN t.transfer_id IS NULL THEN 'there is no such transfer'
                 WHEN t.refusal IS NOT NULL THEN 'the transfer was refused: ' || t.refusal
                 WHEN t.kind IN ('hold', 'void', 'expiry') THEN format('the transfer is of kind %s, and moves nothing', t.kind) END,
            'missing among the entries: ' || string_agg(o.text, ', ' ORDER BY o.leg) FILTER (WHERE o.surplus > 0),
            'among the entries without being of the transfer: ' || string_agg(o.text, ', ' ORDER BY o.leg) FILTER (WHERE o.surplus < 0)), 600)
  FROM (SELECT o.*, format('leg %s %s %s', o.leg, coalesce(a.account_id, 'account number ' || o.account_no), left(o.amount::text, 60)) AS text
          FROM off o LEFT JOIN account a ON a.ledger_id = o.ledger_id AND a.account_no = o.account_no) o
       LEFT JOIN transfer t ON t.ledger_id = o.ledger_id AND t.sequence = o.sequence
 GROUP BY o.ledger_id, o.sequence, t.transfer_id, t.refusal, t.kind
