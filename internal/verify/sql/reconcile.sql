-- What is kept of banks' files and of decisions, held against itself and the books. All joins are by keys, so each table is read once or twice.
WITH item AS (
    -- Every item, also of what was undone, with all that there is of its line or entry; NULL if there is no such thing to take of.
    SELECT i.ledger_id, i.bank_account_no, i.match_no, i.line_no, i.sequence, i.leg, i.amount, i.item_on, i.posts_difference, u.undo_no,
           a.account_no, t.transfer_id,
           CASE WHEN i.line_no IS NOT NULL THEN CASE WHEN l.counts THEN l.amount END
                WHEN i.sequence = 0 THEN CASE WHEN i.leg = 0 THEN a.forward END
                WHEN i.sequence <= a.forward_through AND d.day < a.begins_on THEN NULL
                ELSE CASE a.money_in WHEN 'debit' THEN e.amount ELSE -e.amount END END AS whole,
           CASE WHEN i.line_no IS NOT NULL THEN l.booked_on WHEN i.sequence = 0 THEN a.begins_on - 1 ELSE d.day END AS day
      FROM reconcile_item i
           LEFT JOIN bank_account a ON a.ledger_id = i.ledger_id AND a.bank_account_no = i.bank_account_no
           LEFT JOIN bank_line l ON l.ledger_id = i.ledger_id AND l.line_no = i.line_no AND l.bank_account_no = i.bank_account_no
           LEFT JOIN entry e ON e.ledger_id = i.ledger_id AND e.account_no = a.account_no AND e.sequence = i.sequence AND e.leg = i.leg
           LEFT JOIN transfer t ON t.ledger_id = i.ledger_id AND t.sequence = i.sequence
           LEFT JOIN reconcile_undo u ON u.ledger_id = i.ledger_id AND u.match_no = i.match_no
           CROSS JOIN LATERAL (SELECT (CASE a.basis WHEN 'value' THEN coalesce(t.effective_at, t.posted_at) ELSE t.posted_at END
                                       AT TIME ZONE a.zone)::date AS day) d),
taken AS (
    SELECT ledger_id, bank_account_no, line_no, sequence, leg, min(account_no) AS account_no, min(transfer_id) AS transfer_id, min(whole) AS whole,
           coalesce(sum(amount) FILTER (WHERE undo_no IS NULL), 0) AS taken,
           bool_and(sign(amount) = sign(whole) AND abs(amount) <= abs(whole)) IS NOT TRUE AS amiss,
           bool_and(item_on = day) IS NOT TRUE AS dated
      FROM item GROUP BY ledger_id, bank_account_no, line_no, sequence, leg),
of_match AS (
    SELECT ledger_id, bank_account_no, match_no, count(*) AS items, coalesce(sum(amount) FILTER (WHERE line_no IS NOT NULL), 0) AS lines,
           coalesce(sum(amount) FILTER (WHERE sequence IS NOT NULL AND NOT posts_difference), 0) AS entries,
           sum(amount) FILTER (WHERE posts_difference) AS difference
      FROM item GROUP BY ledger_id, bank_account_no, match_no),
of_run AS (
    SELECT ledger_id, bank_account_no, run_no, count(*) AS matches FROM reconcile_match WHERE run_no IS NOT NULL
     GROUP BY ledger_id, bank_account_no, run_no),
said AS (
    SELECT ledger_id, bank_account_no, run_no, count(*) AS results FROM reconcile_result GROUP BY ledger_id, bank_account_no, run_no),
detail AS (
    SELECT ledger_id, parent_no, min(bank_account_no) AS bank_account_no, max(bank_account_no) AS other_account_no, min(statement_no) AS statement_no,
           max(statement_no) AS other_statement_no, count(*) FILTER (WHERE counts) AS counting, coalesce(sum(amount) FILTER (WHERE counts), 0) AS sum
      FROM bank_line WHERE parent_no IS NOT NULL GROUP BY ledger_id, parent_no),
added AS (
    SELECT ledger_id, bank_account_no, statement_no, coalesce(sum(amount) FILTER (WHERE counts), 0) AS sum, count(*) FILTER (WHERE kind = 'line') AS lines,
           min(line_no) AS first, max(line_no) AS last
      FROM bank_line GROUP BY ledger_id, bank_account_no, statement_no),
stated AS (
    -- A line has a number between those of its statement and of the next one.
    SELECT coalesce(s.ledger_id, n.ledger_id) AS ledger_id, coalesce(s.bank_account_no, n.bank_account_no) AS bank_account_no,
           coalesce(s.statement_no, n.statement_no) AS statement_no, s.statement_no IS NULL AS missing, s.balance, s.added, s.added_sum,
           coalesce(n.sum, 0) AS sum, coalesce(n.lines, 0) AS lines,
           sum(coalesce(n.sum, 0)) OVER account AS running,
           n.first <= s.statement_no OR n.last >= lead(s.statement_no) OVER account AS out_of_place
      FROM bank_statement s
           FULL JOIN added n ON n.ledger_id = s.ledger_id AND n.bank_account_no = s.bank_account_no AND n.statement_no = s.statement_no
    WINDOW account AS (PARTITION BY coalesce(s.ledger_id, n.ledger_id), coalesce(s.bank_account_no, n.bank_account_no)
                       ORDER BY coalesce(s.statement_no, n.statement_no))),
forward AS (
    SELECT a.ledger_id, a.bank_account_no, sum(CASE a.money_in WHEN 'debit' THEN e.amount ELSE -e.amount END) AS sum
      FROM bank_account a
           JOIN entry e ON e.ledger_id = a.ledger_id AND e.account_no = a.account_no
           JOIN transfer t ON t.ledger_id = e.ledger_id AND t.sequence = e.sequence
     WHERE e.sequence <= a.forward_through
       AND (CASE a.basis WHEN 'value' THEN coalesce(t.effective_at, t.posted_at) ELSE t.posted_at END AT TIME ZONE a.zone)::date < a.begins_on
     GROUP BY a.ledger_id, a.bank_account_no),
breach AS (
    SELECT ledger_id, bank_account_no, NULLIF(sequence, 0) AS sequence, transfer_id,
           concat_ws('; ',
               CASE WHEN amiss THEN format('a match takes of %s, of which there is %s', w.what, coalesce(whole::text, 'nothing')) END,
               CASE WHEN abs(taken) > abs(whole) THEN format('matches take %s of %s of %s', taken, w.what, whole) END,
               CASE WHEN dated THEN format('%s is matched under another day than its own', w.what) END) AS detail
      FROM taken
           CROSS JOIN LATERAL (SELECT coalesce('line ' || line_no, 'entry ' || sequence || ' leg ' || leg) AS what) w
     WHERE amiss OR dated OR abs(taken) > abs(whole)
    UNION ALL
    SELECT coalesce(m.ledger_id, s.ledger_id), coalesce(m.bank_account_no, s.bank_account_no), NULL, NULL,
           CASE WHEN m.match_no IS NULL THEN format('match %s is not there, and has items', s.match_no)
                WHEN s.match_no IS NULL THEN format('match %s has no items', m.match_no)
                ELSE format('match %s is of lines of %s and entries of %s, and its items come to %s and %s, with %s posted', m.match_no, m.lines, m.entries,
                            s.lines, s.entries, coalesce(s.difference::text, 'nothing')) END
      FROM reconcile_match m
           FULL JOIN of_match s ON s.ledger_id = m.ledger_id AND s.bank_account_no = m.bank_account_no AND s.match_no = m.match_no
     WHERE (m.lines = s.lines AND m.entries = s.entries) IS NOT TRUE OR s.difference <> m.lines - m.entries OR m.kind = 'ignored' AND s.items <> 1
    UNION ALL
    -- What has no counterpart is ignored, for a reason, or its difference is approved.
    SELECT m.ledger_id, m.bank_account_no, NULL, NULL, format('match %s is of lines of %s and entries of %s', m.match_no, m.lines, m.entries)
      FROM reconcile_match m
           LEFT JOIN reconcile_difference d ON d.ledger_id = m.ledger_id AND d.match_no = m.match_no AND d.attempt = 1
     WHERE m.kind <> 'ignored' AND m.lines <> m.entries AND (m.lines = 0 OR m.entries = 0) AND d.match_no IS NULL
    UNION ALL
    SELECT u.ledger_id, u.bank_account_no, NULL, NULL, format('what was undone, match %s, is no earlier match of the bank account', u.match_no)
      FROM reconcile_undo u
           LEFT JOIN reconcile_match m ON m.ledger_id = u.ledger_id AND m.match_no = u.match_no AND m.bank_account_no = u.bank_account_no
     WHERE (m.match_no < u.undo_no) IS NOT TRUE
    UNION ALL
    SELECT d.ledger_id, d.bank_account_no, t.sequence, d.transfer_id, format('the difference of match %s is approved for %s, and is %s', d.match_no, d.amount,
           coalesce((m.lines - m.entries)::text, 'not there'))
      FROM reconcile_difference d
           LEFT JOIN reconcile_match m ON m.ledger_id = d.ledger_id AND m.match_no = d.match_no AND m.bank_account_no = d.bank_account_no
           LEFT JOIN transfer t ON t.ledger_id = d.ledger_id AND t.transfer_id = d.transfer_id
     WHERE (d.amount = m.lines - m.entries) IS NOT TRUE
    UNION ALL
    SELECT i.ledger_id, i.bank_account_no, i.sequence, i.transfer_id,
           format('posts the difference of match %s, and is no transfer that was approved for it', i.match_no)
      FROM item i
           LEFT JOIN reconcile_difference d ON d.ledger_id = i.ledger_id AND d.match_no = i.match_no AND d.transfer_id = i.transfer_id
     WHERE i.posts_difference AND d.match_no IS NULL
    UNION ALL
    SELECT coalesce(r.ledger_id, o.ledger_id), coalesce(r.bank_account_no, o.bank_account_no), NULL, NULL,
           CASE WHEN r.run_no IS NULL THEN format('run %s is not there, and has matches', o.run_no)
                ELSE format('run %s says that it has %s matches and %s results, and has %s and %s', r.run_no, r.confirmed, r.results,
                            coalesce(o.matches, 0), coalesce(s.results, 0)) END
      FROM reconcile_run r
           FULL JOIN of_run o ON o.ledger_id = r.ledger_id AND o.bank_account_no = r.bank_account_no AND o.run_no = r.run_no
           LEFT JOIN said s ON s.ledger_id = r.ledger_id AND s.bank_account_no = r.bank_account_no AND s.run_no = r.run_no
     WHERE r.run_no IS NULL OR r.confirmed <> coalesce(o.matches, 0) OR r.results <> coalesce(s.results, 0)
    UNION ALL
    SELECT coalesce(p.ledger_id, d.ledger_id), coalesce(p.bank_account_no, d.bank_account_no), NULL, NULL,
           CASE WHEN p.line_no IS NULL THEN format('line %s is not there, and has details', d.parent_no)
                ELSE format('line %s of %s, %s, %s, and its details count for %s', p.line_no, p.amount, p.status,
                            CASE WHEN p.counts THEN 'counts' ELSE 'does not count' END, coalesce(d.sum, 0)) END
      FROM (SELECT * FROM bank_line WHERE kind <> 'detail') p
           FULL JOIN detail d ON d.ledger_id = p.ledger_id AND d.parent_no = p.line_no
     WHERE p.line_no IS NULL OR d.counting > 0 AND (NOT p.counts AND p.status = 'booked' AND d.sum = p.amount) IS NOT TRUE
        OR coalesce(d.counting, 0) = 0 AND p.counts IS DISTINCT FROM (p.status = 'booked' AND p.amount <> 0)
        OR d.bank_account_no <> p.bank_account_no OR d.other_account_no <> p.bank_account_no
        OR d.statement_no <> p.statement_no OR d.other_statement_no <> p.statement_no
    UNION ALL
    SELECT s.ledger_id, s.bank_account_no, NULL, NULL,
           CASE WHEN s.missing THEN format('statement %s is not there, and has lines', s.statement_no)
                WHEN s.out_of_place THEN format('statement %s has a line that came before it, or after the next one', s.statement_no)
                ELSE format('statement %s has added %s lines of %s, up to a balance of %s, and there are %s lines of %s, up to %s', s.statement_no, s.added,
                            s.added_sum, s.balance, s.lines, s.sum, s.running) END
      FROM stated s
     WHERE s.missing OR s.out_of_place OR (s.balance, s.added_sum, s.added::bigint) IS DISTINCT FROM (s.running, s.sum, s.lines)
    UNION ALL
    SELECT l.ledger_id, l.bank_account_no, NULL, NULL, format('line %s counts, and is in %s', l.line_no, l.currency)
      FROM bank_line l
           LEFT JOIN bank_account b ON b.ledger_id = l.ledger_id AND b.bank_account_no = l.bank_account_no
           LEFT JOIN account a ON a.ledger_id = b.ledger_id AND a.account_no = b.account_no
     WHERE l.counts AND a.currency IS DISTINCT FROM l.currency
    UNION ALL
    SELECT a.ledger_id, a.bank_account_no, NULL, NULL, format('%s was brought forward, and the entries until then come to %s', a.forward,
           coalesce(f.sum, 0))
      FROM bank_account a
           LEFT JOIN forward f ON f.ledger_id = a.ledger_id AND f.bank_account_no = a.bank_account_no
     WHERE a.forward IS DISTINCT FROM coalesce(f.sum, 0))
SELECT b.ledger_id, b.sequence, b.transfer_id, a.account_id, format('bank account %s: %s', coalesce(n.name, b.bank_account_no::text), b.detail)
  FROM breach b
       LEFT JOIN bank_account n ON n.ledger_id = b.ledger_id AND n.bank_account_no = b.bank_account_no
       LEFT JOIN account a ON a.ledger_id = n.ledger_id AND a.account_no = n.account_no
