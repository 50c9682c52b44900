-- As for floors: the accounts that ever had a ceiling, and what is expected of them, which is the balance and what open holds will
-- add to it.
WITH ceiled AS (
    SELECT DISTINCT ledger_id, account_no FROM account_change WHERE ceiling IS NOT NULL),
step AS (
    SELECT ledger_id, account_no, sequence, false AS is_rule, sum(change) AS change
      FROM (SELECT e.ledger_id, e.account_no, e.sequence, CASE WHEN a.type IN ('asset', 'expense') THEN e.amount ELSE -e.amount END AS change
              FROM entry e JOIN ceiled USING (ledger_id, account_no) JOIN account a USING (ledger_id, account_no)
            UNION ALL
            SELECT h.ledger_id, h.account_no, h.sequence, CASE WHEN a.type IN ('asset', 'expense') THEN h.debit ELSE h.credit END
              FROM hold_entry h JOIN ceiled USING (ledger_id, account_no) JOIN account a USING (ledger_id, account_no)) c
     GROUP BY ledger_id, account_no, sequence
    UNION ALL
    SELECT ledger_id, account_no, sequence, true, NULL FROM account_change JOIN ceiled USING (ledger_id, account_no)),
walk AS (
    SELECT *, sum(change) OVER so_far AS expected, max(sequence) FILTER (WHERE is_rule) OVER so_far AS rule
      FROM step
    WINDOW so_far AS (PARTITION BY ledger_id, account_no ORDER BY sequence, is_rule ROWS UNBOUNDED PRECEDING))
SELECT w.ledger_id, w.sequence, t.transfer_id, a.account_id,
       format('brought what is posted and incoming to %s, above the ceiling of %s', left(w.expected::text, 60), left(c.ceiling::text, 60))
  FROM walk w
       JOIN account_change c ON c.ledger_id = w.ledger_id AND c.account_no = w.account_no AND c.sequence = w.rule
       JOIN account a ON a.ledger_id = w.ledger_id AND a.account_no = w.account_no
       LEFT JOIN transfer t ON t.ledger_id = w.ledger_id AND t.sequence = w.sequence
 WHERE w.change > 0 AND w.expected > c.ceiling
