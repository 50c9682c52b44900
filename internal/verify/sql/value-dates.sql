-- As in entries-match: what is not on both sides does not come to nothing.
WITH leg AS (
    SELECT ledger_id, sequence, posted_at, effective_at, generate_series(1, greatest(cardinality(account_nos), cardinality(amounts))) AS leg,
           unnest(account_nos) AS account_no, unnest(amounts) AS amount, 1 AS surplus
      FROM transfer WHERE refusal IS NULL AND effective_at IS NOT NULL AND (kind IS NULL OR kind IN ('capture', 'refund', 'reversal'))
    UNION ALL
    SELECT ledger_id, sequence, posted_at, effective_at, leg, account_no, amount, -1 FROM value_dated_entry),
off AS (
    SELECT ledger_id, sequence, posted_at, effective_at, leg, account_no, amount, sum(surplus) AS surplus
      FROM leg GROUP BY ledger_id, sequence, posted_at, effective_at, leg, account_no, amount HAVING sum(surplus) <> 0)
SELECT o.ledger_id, o.sequence, t.transfer_id, NULL::text,
       left(concat_ws('; ',
            'missing among the value-dated entries: ' || string_agg(o.text, ', ' ORDER BY o.leg) FILTER (WHERE o.surplus > 0),
            'among the value-dated entries without being of the transfer: ' || string_agg(o.text, ', ' ORDER BY o.leg) FILTER (WHERE o.surplus < 0)), 600)
  FROM (SELECT o.*, format('leg %s %s %s, effective %s, posted %s', o.leg, coalesce(a.account_id, 'account number ' || o.account_no),
                           left(o.amount::text, 60), o.effective_at, o.posted_at) AS text
          FROM off o LEFT JOIN account a ON a.ledger_id = o.ledger_id AND a.account_no = o.account_no) o
       LEFT JOIN transfer t ON t.ledger_id = o.ledger_id AND t.sequence = o.sequence
 GROUP BY o.ledger_id, o.sequence, t.transfer_id
