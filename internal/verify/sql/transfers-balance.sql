-- Twice: as the transfers' rows say, refused ones included, and as the entries say.
WITH leg AS (
    SELECT ledger_id, sequence, unnest(account_nos) AS account_no, unnest(amounts) AS ordered, 0::numeric AS entered FROM transfer
    UNION ALL
    SELECT ledger_id, sequence, account_no, 0, amount FROM entry),
off AS (
    SELECT l.ledger_id, l.sequence, a.currency, sum(l.ordered) AS ordered, sum(l.entered) AS entered
      FROM leg l LEFT JOIN account a ON a.ledger_id = l.ledger_id AND a.account_no = l.account_no
     GROUP BY l.ledger_id, l.sequence, a.currency
    HAVING sum(l.ordered) <> 0 OR sum(l.entered) <> 0)
SELECT o.ledger_id, o.sequence, t.transfer_id, NULL::text,
       string_agg(format('%s: its row sums to %s, its entries to %s', coalesce(o.currency, 'accounts that do not exist'),
                         left(o.ordered::text, 60), left(o.entered::text, 60)), '; ' ORDER BY o.currency)
  FROM off o LEFT JOIN transfer t ON t.ledger_id = o.ledger_id AND t.sequence = o.sequence
 GROUP BY o.ledger_id, o.sequence, t.transfer_id
