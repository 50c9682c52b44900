-- A refusal is for ever, so it must have been right: the account that it names is walked as for its floor, and the reason
-- is tried again with the rules and the balance that the account had. $1 are the reasons there are.
WITH refused AS (
    SELECT ledger_id, refused_account_no AS account_no, sequence, transfer_id, refusal, account_nos, amounts,
           (refusal = ANY ($1::text[]) AND refused_account_no = ANY (account_nos)) IS TRUE AS judged
      FROM transfer WHERE refusal IS NOT NULL OR refused_account_no IS NOT NULL),
named AS (
    SELECT DISTINCT ledger_id, account_no FROM refused WHERE judged),
step AS (
    SELECT e.ledger_id, e.account_no, e.sequence, 1 AS kind, sum(CASE WHEN a.type IN ('asset', 'expense') THEN e.amount ELSE -e.amount END) AS change
      FROM entry e JOIN named USING (ledger_id, account_no) JOIN account a USING (ledger_id, account_no)
     GROUP BY e.ledger_id, e.account_no, e.sequence
    UNION ALL
    SELECT ledger_id, account_no, sequence, 2, NULL FROM account_change JOIN named USING (ledger_id, account_no)
    UNION ALL
    SELECT ledger_id, account_no, sequence, 3, NULL FROM refused WHERE judged),
walk AS (
    SELECT *, coalesce(sum(change) OVER so_far, 0) AS balance, max(sequence) FILTER (WHERE kind = 2) OVER so_far AS rule
      FROM step
    WINDOW so_far AS (PARTITION BY ledger_id, account_no ORDER BY sequence, kind ROWS UNBOUNDED PRECEDING)),
attempt AS (
    SELECT l.ledger_id, l.sequence, l.transfer_id, sum(CASE WHEN a.type IN ('asset', 'expense') THEN l.amount ELSE -l.amount END) AS change,
           bool_or(l.amount > 0) AS debit, bool_or(l.amount < 0) AS credit
      FROM (SELECT ledger_id, sequence, transfer_id, account_no, unnest(account_nos) AS leg_account_no, unnest(amounts) AS amount
              FROM refused WHERE judged) l
           JOIN account a ON a.ledger_id = l.ledger_id AND a.account_no = l.account_no
     WHERE l.leg_account_no = l.account_no
     GROUP BY l.ledger_id, l.sequence, l.transfer_id)
SELECT r.ledger_id, r.sequence, r.transfer_id, NULL::text,
       format('refused: %s, by account number %s, which is no reason or not in the transfer', coalesce(r.refusal, 'NULL'), coalesce(r.account_no::text, 'NULL'))
  FROM refused r WHERE NOT judged
UNION ALL
SELECT r.ledger_id, r.sequence, r.transfer_id, a.account_id,
       format('refused: %s, but the account was not so: balance %s, change %s, floor %s, frozen %s, closed %s', r.refusal,
              left(w.balance::text, 60), left(x.change::text, 60), coalesce(left(c.floor::text, 60), 'none'), c.frozen, c.closed)
  FROM refused r
       JOIN walk w ON w.ledger_id = r.ledger_id AND w.account_no = r.account_no AND w.sequence = r.sequence AND w.kind = 3
       JOIN account_change c ON c.ledger_id = w.ledger_id AND c.account_no = w.account_no AND c.sequence = w.rule
       JOIN attempt x ON x.ledger_id = r.ledger_id AND x.sequence = r.sequence AND x.transfer_id = r.transfer_id
       JOIN account a ON a.ledger_id = r.ledger_id AND a.account_no = r.account_no
 WHERE r.judged
   AND CASE r.refusal
            WHEN 'INSUFFICIENT_FUNDS' THEN x.change < 0 AND w.balance + x.change < c.floor
            WHEN 'ACCOUNT_CLOSED' THEN c.closed
            WHEN 'ACCOUNT_FROZEN' THEN c.frozen = 'both' OR c.frozen = 'debits' AND x.debit OR c.frozen = 'credits' AND x.credit
            ELSE true END IS NOT TRUE
