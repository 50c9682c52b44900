-- The ledgers whose books were ever closed are walked in the order of decision: at each posted transfer with a value date the change
-- that was in force. Periods are closed while nothing is being posted, so what has a higher number was judged by it.
WITH walk AS (
    SELECT ledger_id, sequence, transfer_id, effective_at, max(sequence) FILTER (WHERE is_change) OVER so_far AS change
      FROM (SELECT t.ledger_id, t.sequence, t.transfer_id, t.effective_at, false AS is_change
              FROM transfer t JOIN (SELECT DISTINCT ledger_id FROM period_change) p ON p.ledger_id = t.ledger_id
             WHERE t.effective_at IS NOT NULL AND t.refusal IS NULL
            UNION ALL
            SELECT ledger_id, sequence, NULL, NULL, true FROM period_change) n
    WINDOW so_far AS (PARTITION BY ledger_id ORDER BY sequence, is_change ROWS UNBOUNDED PRECEDING))
SELECT w.ledger_id, w.sequence, w.transfer_id, NULL::text,
       format('took effect at %s, and the books had been closed before %s (at sequence %s)', w.effective_at, c.closed_before, c.sequence)
  FROM walk w JOIN period_change c ON c.ledger_id = w.ledger_id AND c.sequence = w.change
 WHERE w.effective_at < c.closed_before
UNION ALL
SELECT p.ledger_id, p.sequence, NULL, NULL,
       CASE WHEN p.opened THEN format('opened without a reason what had been closed before %s', p.previous)
            ELSE format('closed the books before %s, at %s', coalesce(p.closed_before::text, 'NULL'), coalesce(p.changed_at::text, 'NULL')) END
  FROM (SELECT *, previous IS NOT NULL AND (closed_before >= previous) IS NOT TRUE AND coalesce(btrim(reason), '') = '' AS opened
          FROM (SELECT *, lag(closed_before) OVER (PARTITION BY ledger_id ORDER BY sequence) AS previous FROM period_change) c) p
 WHERE p.opened OR p.closed_before < '0001-01-01T00:00:00Z' OR p.closed_before > p.changed_at OR p.changed_at IS NULL
