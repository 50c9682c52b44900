-- Each statement is held against the entries: all of them, whatever snapshots say, up to the number that it has seen. Along the statements of an
-- account both the number and the end rise, so each entry belongs to the first that has seen it and ends after it, and to all after that: every
-- entry is read once for each basis, however many statements there are.
WITH told AS (
    SELECT s.ledger_id, s.account_no, s.basis, s.ordinal, s.through, s.opening, s.closing, s.starts_at, s.ends_at, s.statement_no,
           s.sha256 IS DISTINCT FROM sha256(s.content) AS altered,
           statement_balance(s.content) AS written,
           lag(s.ordinal) OVER chain AS before, lag(s.closing) OVER chain AS previous_closing, lag(s.ends_at) OVER chain AS previous_end,
           lag(s.through) OVER chain AS previous_through
      FROM statement s
    WINDOW chain AS (PARTITION BY s.ledger_id, s.account_no, s.basis ORDER BY s.ordinal)),
chain AS (
    SELECT ledger_id, account_no, basis, array_agg(through ORDER BY ordinal) AS throughs, array_agg(ends_at ORDER BY ordinal) AS ends,
           array_agg(ordinal ORDER BY ordinal) AS ordinals
      FROM told GROUP BY ledger_id, account_no, basis),
part AS (
    SELECT c.ledger_id, c.account_no, c.basis, c.ordinals[p.place] AS ordinal, sum(e.amount) AS sum
      FROM chain c
           JOIN entry e ON e.ledger_id = c.ledger_id AND e.account_no = c.account_no
           JOIN transfer t ON t.ledger_id = e.ledger_id AND t.sequence = e.sequence
           CROSS JOIN LATERAL (SELECT CASE WHEN c.basis = 'value' THEN coalesce(t.effective_at, t.posted_at) ELSE t.posted_at END AS at) b
           CROSS JOIN LATERAL (SELECT greatest(width_bucket(e.sequence - 1, c.throughs), width_bucket(b.at, c.ends)) + 1 AS place) p
     GROUP BY c.ledger_id, c.account_no, c.basis, c.ordinals[p.place]),
summed AS (
    SELECT s.*, coalesce(sum(p.sum) OVER (PARTITION BY s.ledger_id, s.account_no, s.basis ORDER BY s.ordinal), 0) AS sum
      FROM told s LEFT JOIN part p ON p.ledger_id = s.ledger_id AND p.account_no = s.account_no AND p.basis = s.basis AND p.ordinal = s.ordinal)
SELECT s.ledger_id, NULL::bigint, NULL::text, a.account_id,
       concat_ws('; ',
           CASE WHEN s.altered THEN format('statement %s has other bytes than its hash is of', s.statement_no) END,
           CASE WHEN s.closing IS DISTINCT FROM s.sum THEN
               format('statement %s closes with %s, and the entries that it had seen come to %s', s.statement_no, s.closing, s.sum) END,
           CASE WHEN abs(s.written) IS DISTINCT FROM abs(s.closing) THEN
               format('statement %s closes with %s, and its bytes say %s', s.statement_no, s.closing, s.written) END,
           CASE WHEN s.ordinal IS DISTINCT FROM coalesce(s.before, 0) + 1 THEN
               format('statement %s is number %s of its account, after number %s', s.statement_no, s.ordinal, coalesce(s.before, 0)) END,
           CASE WHEN s.before IS NOT NULL AND ((s.opening, s.starts_at) IS DISTINCT FROM (s.previous_closing, s.previous_end)
                                               OR s.through < s.previous_through OR s.ends_at <= s.previous_end) THEN
               format('statement %s does not begin where the one before it ended', s.statement_no) END)
  FROM summed s LEFT JOIN account a ON a.ledger_id = s.ledger_id AND a.account_no = s.account_no
 WHERE s.altered OR s.closing IS DISTINCT FROM s.sum OR abs(s.written) IS DISTINCT FROM abs(s.closing)
    OR s.ordinal IS DISTINCT FROM coalesce(s.before, 0) + 1
    OR s.before IS NOT NULL AND ((s.opening, s.starts_at) IS DISTINCT FROM (s.previous_closing, s.previous_end)
                                 OR s.through < s.previous_through OR s.ends_at <= s.previous_end)
