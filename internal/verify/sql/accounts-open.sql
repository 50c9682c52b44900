-- The accounts that were ever closed or frozen are walked as for their floors. What a hold reserves on a side counts as an entry there
-- too; what is released does not.
WITH shut AS (
    SELECT ledger_id, account_no, min(sequence) FILTER (WHERE closed) AS closed_at
      FROM account_change WHERE closed OR frozen <> 'none' GROUP BY ledger_id, account_no),
step AS (
    SELECT ledger_id, account_no, sequence, false AS is_rule, sum(change) AS change, sum(to_debit) AS to_debit, sum(to_credit) AS to_credit,
           bool_or(change > 0 OR to_debit > 0) AS debit, bool_or(change < 0 OR to_credit > 0) AS credit
      FROM (SELECT e.ledger_id, e.account_no, e.sequence, e.amount AS change, 0 AS to_debit, 0 AS to_credit
              FROM entry e JOIN shut USING (ledger_id, account_no)
            UNION ALL
            SELECT h.ledger_id, h.account_no, h.sequence, 0, h.debit, h.credit
              FROM hold_entry h JOIN shut USING (ledger_id, account_no)) m
     GROUP BY ledger_id, account_no, sequence
    UNION ALL
    SELECT ledger_id, account_no, sequence, true, NULL, NULL, NULL, NULL, NULL FROM account_change JOIN shut USING (ledger_id, account_no)),
walk AS (
    SELECT *, sum(change) OVER so_far AS sum, sum(to_debit) OVER so_far AS held_debit, sum(to_credit) OVER so_far AS held_credit,
           max(sequence) FILTER (WHERE is_rule) OVER so_far AS rule
      FROM step
    WINDOW so_far AS (PARTITION BY ledger_id, account_no ORDER BY sequence, is_rule ROWS UNBOUNDED PRECEDING))
SELECT w.ledger_id, w.sequence, t.transfer_id, a.account_id,
       CASE WHEN w.is_rule
            THEN 'was closed with ' || concat_ws(' and ',
                 CASE WHEN w.sum <> 0 THEN format('a balance of %s', left((CASE WHEN a.type IN ('asset', 'expense') THEN w.sum ELSE -w.sum END)::text, 60)) END,
                 CASE WHEN w.held_debit <> 0 OR w.held_credit <> 0
                      THEN format('holds open: %s to debit, %s to credit', left(w.held_debit::text, 60), left(w.held_credit::text, 60)) END)
            WHEN c.closed THEN 'was posted to, but had been closed at sequence ' || s.closed_at
            ELSE format('was posted to, but had been frozen (%s) at sequence %s', c.frozen, w.rule) END
  FROM walk w
       JOIN shut s ON s.ledger_id = w.ledger_id AND s.account_no = w.account_no
       JOIN account_change c ON c.ledger_id = w.ledger_id AND c.account_no = w.account_no AND c.sequence = w.rule
       LEFT JOIN account a ON a.ledger_id = w.ledger_id AND a.account_no = w.account_no
       LEFT JOIN transfer t ON t.ledger_id = w.ledger_id AND t.sequence = w.sequence AND NOT w.is_rule
 WHERE w.is_rule AND w.sequence = s.closed_at AND (w.sum <> 0 OR w.held_debit <> 0 OR w.held_credit <> 0)
    OR NOT w.is_rule AND (c.closed OR c.frozen = 'both' AND (w.debit OR w.credit) OR c.frozen = 'debits' AND w.debit OR c.frozen = 'credits' AND w.credit)
