-- Which snapshots there are follows from the entries: those of the numbers that the lot falls on, as far as the ledger's marks go.
-- All are computed again, from the first entry on, and compared both ways. So are those of what is held.
WITH marked AS (
    SELECT ledger_id, max(horizon) AS horizon FROM mark GROUP BY ledger_id),
running AS (
    SELECT ledger_id, account_no, sequence, sum(sum(amount)) OVER (PARTITION BY ledger_id, account_no ORDER BY sequence) AS sum
      FROM entry GROUP BY ledger_id, account_no, sequence),
due AS (
    SELECT r.ledger_id, r.account_no, r.sequence AS through, r.sum
      FROM running r JOIN marked m ON m.ledger_id = r.ledger_id
     WHERE r.sequence <= m.horizon AND sampled(r.sequence)),
held AS (
    SELECT h.ledger_id, h.account_no, h.sequence AS through, h.debit, h.credit
      FROM (SELECT ledger_id, account_no, sequence, sum(sum(debit)) OVER so_far AS debit, sum(sum(credit)) OVER so_far AS credit
              FROM hold_entry GROUP BY ledger_id, account_no, sequence
            WINDOW so_far AS (PARTITION BY ledger_id, account_no ORDER BY sequence)) h
           JOIN marked m ON m.ledger_id = h.ledger_id
     WHERE h.sequence <= m.horizon AND sampled(h.sequence))
SELECT ledger_id, through, NULL::text, coalesce(a.account_id, 'number ' || account_no),
       CASE WHEN d.sum IS NULL THEN format('a snapshot of %s that belongs to no entry here, or lies above the last mark', left(s.sum::text, 60))
            WHEN s.sum IS NULL THEN format('has no snapshot; its entries sum to %s', left(d.sum::text, 60))
            ELSE format('its snapshot is %s, its entries sum to %s', left(s.sum::text, 60), left(d.sum::text, 60)) END
  FROM due d FULL JOIN snapshot s USING (ledger_id, account_no, through) LEFT JOIN account a USING (ledger_id, account_no)
 WHERE d.sum IS DISTINCT FROM s.sum
UNION ALL
SELECT ledger_id, through, NULL, coalesce(a.account_id, 'number ' || account_no),
       CASE WHEN d.debit IS NULL THEN 'a snapshot of what is held that belongs to no hold or step here, or lies above the last mark'
            WHEN s.debit IS NULL THEN format('has no snapshot of what is held: %s to debit, %s to credit', left(d.debit::text, 60), left(d.credit::text, 60))
            ELSE format('its snapshot says that %s is held to debit and %s to credit, its hold entries sum to %s and %s',
                        left(s.debit::text, 60), left(s.credit::text, 60), left(d.debit::text, 60), left(d.credit::text, 60)) END
  FROM held d FULL JOIN hold_snapshot s USING (ledger_id, account_no, through) LEFT JOIN account a USING (ledger_id, account_no)
 WHERE (d.debit, d.credit) IS DISTINCT FROM (s.debit, s.credit)
