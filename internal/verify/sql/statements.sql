-- Each statement is held against the entries: all of them, whatever snapshots say, up to the number that it has seen.
WITH told AS (
    SELECT s.ledger_id, s.account_no, s.basis, s.ordinal, s.through, s.opening, s.closing, s.starts_at, s.ends_at, s.statement_no,
           s.sha256 IS DISTINCT FROM sha256(s.content) AS altered,
           lag(s.ordinal) OVER chain AS before, lag(s.closing) OVER chain AS previous_closing, lag(s.ends_at) OVER chain AS previous_end,
           lag(s.through) OVER chain AS previous_through
      FROM statement s
    WINDOW chain AS (PARTITION BY s.ledger_id, s.account_no, s.basis ORDER BY s.ordinal)),
summed AS (
    SELECT s.*, coalesce(e.sum, 0) AS sum
      FROM told s
           LEFT JOIN LATERAL (
               SELECT sum(e.amount) AS sum
                 FROM entry e JOIN transfer t ON t.ledger_id = e.ledger_id AND t.sequence = e.sequence
                WHERE e.ledger_id = s.ledger_id AND e.account_no = s.account_no AND e.sequence <= s.through
                  AND CASE WHEN s.basis = 'value' THEN coalesce(t.effective_at, t.posted_at) ELSE t.posted_at END < s.ends_at) e ON true)
SELECT s.ledger_id, NULL::bigint, NULL::text, a.account_id,
       concat_ws('; ',
           CASE WHEN s.altered THEN format('statement %s has other bytes than its hash is of', s.statement_no) END,
           CASE WHEN s.closing IS DISTINCT FROM s.sum THEN
               format('statement %s closes with %s, and the entries that it had seen come to %s', s.statement_no, s.closing, s.sum) END,
           CASE WHEN s.ordinal IS DISTINCT FROM coalesce(s.before, 0) + 1 THEN
               format('statement %s is number %s of its account, after number %s', s.statement_no, s.ordinal, coalesce(s.before, 0)) END,
           CASE WHEN s.before IS NOT NULL AND ((s.opening, s.starts_at) IS DISTINCT FROM (s.previous_closing, s.previous_end)
                                               OR s.through < s.previous_through) THEN
               format('statement %s does not begin where the one before it ended', s.statement_no) END)
  FROM summed s LEFT JOIN account a ON a.ledger_id = s.ledger_id AND a.account_no = s.account_no
 WHERE s.altered OR s.closing IS DISTINCT FROM s.sum OR s.ordinal IS DISTINCT FROM coalesce(s.before, 0) + 1
    OR s.before IS NOT NULL AND ((s.opening, s.starts_at) IS DISTINCT FROM (s.previous_closing, s.previous_end) OR s.through < s.previous_through)
