-- Each hold and its steps, walked by their ordinals. What a hold reserves is captured, released or still open, and there is no other
-- way: each step takes no more than what is left, and the one that ends the hold takes all of that.
WITH hold AS (
    SELECT ledger_id, transfer_id, sequence, posted_at, account_nos, amounts, reserved, deadline,
           CASE WHEN terms_readable(terms) THEN terms END AS terms
      FROM transfer WHERE kind = 'hold' AND refusal IS NULL),
step AS (
    SELECT ledger_id, transfer_id, sequence, posted_at, kind, origin, ordinal, coalesce(ends, false) AS ends, account_nos, amounts, reserved,
           abs(amounts[1]) AS amount, CASE WHEN terms_readable(terms) THEN terms END AS terms
      FROM transfer WHERE kind IN ('capture', 'void', 'expiry') AND refusal IS NULL),
walk AS (
    SELECT s.*, h.sequence AS held_at, h.account_nos AS held_nos, sign(h.amounts[1]) AS side, h.deadline,
           row_number() OVER so_far AS place, lag(s.sequence) OVER so_far AS before, count(*) FILTER (WHERE s.ends) OVER so_far AS ended,
           -- What is left for this step, and after it.
           h.reserved + sum(s.reserved) OVER so_far - s.reserved AS had, h.reserved + sum(s.reserved) OVER so_far AS rest
      FROM step s LEFT JOIN hold h ON h.ledger_id = s.ledger_id AND h.transfer_id = s.origin
    WINDOW so_far AS (PARTITION BY s.ledger_id, s.origin ORDER BY s.ordinal, s.sequence ROWS UNBOUNDED PRECEDING)),
fault AS (
    SELECT ledger_id, sequence, transfer_id, concat_ws('; ',
           CASE WHEN held_at IS NULL THEN format('%s is no posted hold', origin)
                WHEN held_at >= sequence THEN format('has a lower number than hold %s', origin) END,
           CASE WHEN ordinal IS DISTINCT FROM place THEN format('is step %s of hold %s, but stands at place %s', coalesce(ordinal::text, 'NULL'), origin, place) END,
           CASE WHEN before >= sequence THEN format('has a lower number than the step of hold %s before it', origin) END,
           CASE WHEN ended - CASE WHEN ends THEN 1 ELSE 0 END > 0 THEN format('comes after hold %s had ended', origin) END,
           CASE WHEN account_nos <> held_nos OR sign(amounts[1]) <> side THEN format('has other entries than hold %s', origin) END,
           CASE WHEN rest < 0 OR (rest = 0) <> ends OR -reserved < amount OR NOT ends AND -reserved <> amount
                  OR kind <> 'capture' AND -reserved <> amount
                THEN format('takes %s off hold %s, which had %s left, to move %s%s', left((-reserved)::text, 60), origin, left(had::text, 60),
                            CASE WHEN kind = 'capture' THEN left(amount::text, 60) ELSE 'nothing' END, CASE WHEN ends THEN ' and end it' END) END,
           CASE WHEN kind = 'capture' AND amount <> coalesce((terms ->> 'amount')::numeric, had)
                THEN format('captures %s, and was to capture %s', left(amount::text, 60), left(coalesce(terms ->> 'amount', had::text), 60)) END,
           CASE WHEN kind = 'capture' AND ends <> ((terms ->> 'keep_open') IS NULL OR amount = had)
                THEN format('%s hold %s, and was not to', CASE WHEN ends THEN 'ends' ELSE 'keeps open' END, origin) END,
           CASE WHEN kind = 'capture' AND posted_at >= deadline THEN format('was posted at %s, after the deadline %s', posted_at, deadline)
                WHEN kind = 'expiry' AND held_at IS NOT NULL AND (posted_at >= deadline) IS NOT TRUE
                THEN format('was posted at %s, before the deadline %s', posted_at, coalesce(deadline::text, 'that there is not')) END) AS what
      FROM walk
    UNION ALL
    SELECT ledger_id, sequence, transfer_id,
           CASE WHEN deadline IS DISTINCT FROM coalesce((terms ->> 'expires_at')::timestamptz, posted_at + (terms ->> 'expires_after')::interval, deadline)
                THEN format('has the deadline %s, which is not what its terms say: %s', coalesce(deadline::text, 'NULL'), left(terms::text, 100)) END
      FROM hold),
-- What they reserve and take off is counted against the hold entries, as in entries-match.
leg AS (
    SELECT ledger_id, sequence, account_no, CASE WHEN amount > 0 THEN reserved ELSE 0 END AS debit, CASE WHEN amount < 0 THEN reserved ELSE 0 END AS credit,
           1 AS surplus
      FROM (SELECT ledger_id, sequence, reserved, unnest(account_nos) AS account_no, unnest(amounts) AS amount FROM hold
            UNION ALL
            SELECT ledger_id, sequence, reserved, unnest(account_nos), unnest(amounts) FROM step) l
    UNION ALL
    SELECT ledger_id, sequence, account_no, debit, credit, -1 FROM hold_entry),
off AS (
    SELECT ledger_id, sequence, account_no, debit, credit, sum(surplus) AS surplus
      FROM leg GROUP BY ledger_id, sequence, account_no, debit, credit HAVING sum(surplus) <> 0),
open AS (
    SELECT h.ledger_id, h.sequence, h.deadline, h.account_nos[CASE WHEN h.amounts[1] > 0 THEN 1 ELSE 2 END] AS debit_no,
           h.account_nos[CASE WHEN h.amounts[1] > 0 THEN 2 ELSE 1 END] AS credit_no, h.transfer_id
      FROM hold h LEFT JOIN (SELECT DISTINCT ledger_id, origin FROM step WHERE ends) e ON e.ledger_id = h.ledger_id AND e.origin = h.transfer_id
     WHERE e.origin IS NULL)
SELECT ledger_id, sequence, transfer_id, NULL::text, what FROM fault WHERE what <> ''
UNION ALL
SELECT o.ledger_id, o.sequence, t.transfer_id, NULL,
       left(concat_ws('; ',
            CASE WHEN t.transfer_id IS NULL THEN 'there is no such transfer' END,
            'missing among the hold entries: ' || string_agg(o.text, ', ' ORDER BY o.text) FILTER (WHERE o.surplus > 0),
            'among the hold entries without being of the transfer: ' || string_agg(o.text, ', ' ORDER BY o.text) FILTER (WHERE o.surplus < 0)), 600)
  FROM (SELECT o.*, format('%s %s to debit, %s to credit', coalesce(a.account_id, 'account number ' || o.account_no),
                           left(o.debit::text, 60), left(o.credit::text, 60)) AS text
          FROM off o LEFT JOIN account a ON a.ledger_id = o.ledger_id AND a.account_no = o.account_no) o
       LEFT JOIN transfer t ON t.ledger_id = o.ledger_id AND t.sequence = o.sequence
 GROUP BY o.ledger_id, o.sequence, t.transfer_id
UNION ALL
SELECT ledger_id, sequence, h.transfer_id, NULL,
       CASE WHEN o.debit_no IS NULL THEN 'is open, and not in the list of open holds'
            WHEN h.debit_no IS NULL THEN 'is in the list of open holds without being one'
            ELSE format('is open from account number %s to %s until %s, and in the list of open holds from %s to %s until %s', h.debit_no, h.credit_no,
                        coalesce(h.deadline::text, 'ever'), o.debit_no, o.credit_no, coalesce(o.deadline::text, 'ever')) END
  FROM open h FULL JOIN open_hold o USING (ledger_id, sequence)
 WHERE (h.debit_no, h.credit_no, h.deadline) IS DISTINCT FROM (o.debit_no, o.credit_no, o.deadline)
