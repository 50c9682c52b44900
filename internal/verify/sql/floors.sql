-- The accounts that ever had a floor are walked in the order of decision: at each step what is available, which is the balance in
-- the normal direction less what is held of it, and the change of rules that was in force. Rules change while nothing is being
-- posted, and an account with a floor takes one posting at a time, so what is visible is all there was when a transfer was decided.
WITH floored AS (
    SELECT DISTINCT ledger_id, account_no FROM account_change WHERE floor IS NOT NULL),
step AS (
    SELECT ledger_id, account_no, sequence, false AS is_rule, sum(change) AS change
      FROM (SELECT e.ledger_id, e.account_no, e.sequence, CASE WHEN a.type IN ('asset', 'expense') THEN e.amount ELSE -e.amount END AS change
              FROM entry e JOIN floored USING (ledger_id, account_no) JOIN account a USING (ledger_id, account_no)
            UNION ALL
            SELECT h.ledger_id, h.account_no, h.sequence, CASE WHEN a.type IN ('asset', 'expense') THEN -h.credit ELSE -h.debit END
              FROM hold_entry h JOIN floored USING (ledger_id, account_no) JOIN account a USING (ledger_id, account_no)) c
     GROUP BY ledger_id, account_no, sequence
    UNION ALL
    SELECT ledger_id, account_no, sequence, true, NULL FROM account_change JOIN floored USING (ledger_id, account_no)),
walk AS (
    SELECT *, sum(change) OVER so_far AS available, max(sequence) FILTER (WHERE is_rule) OVER so_far AS rule
      FROM step
    WINDOW so_far AS (PARTITION BY ledger_id, account_no ORDER BY sequence, is_rule ROWS UNBOUNDED PRECEDING))
SELECT w.ledger_id, w.sequence, t.transfer_id, a.account_id,
       format('left %s available, below the floor of %s', left(w.available::text, 60), left(c.floor::text, 60))
  FROM walk w
       JOIN account_change c ON c.ledger_id = w.ledger_id AND c.account_no = w.account_no AND c.sequence = w.rule
       JOIN account a ON a.ledger_id = w.ledger_id AND a.account_no = w.account_no
       LEFT JOIN transfer t ON t.ledger_id = w.ledger_id AND t.sequence = w.sequence
 WHERE w.change < 0 AND w.available < c.floor
