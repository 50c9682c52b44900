-- A refusal is for ever, so it must have been right. The account that it names is walked as for its floor, and its origin step by
-- step, and the reason is tried again with the rules, the balance, the steps and the closed periods that there were. $1 are the reasons there are.
--
-- A refusal of an atomic call was judged as if what came before it in the call had been posted. What it was judged by is not in the
-- books, then, but for the rules of accounts, the time and the closed periods.
WITH refused AS (
    SELECT ledger_id, refused_account_no AS account_no, sequence, transfer_id, posted_at, effective_at, refusal, kind, origin, account_nos, amounts,
           coalesce(atomic, false) AS atomic, CASE WHEN terms_readable(terms) THEN terms END AS terms,
           (refusal = ANY ($1::text[])
            AND CASE WHEN refusal IN ('INSUFFICIENT_FUNDS', 'CEILING_EXCEEDED', 'ACCOUNT_CLOSED', 'ACCOUNT_FROZEN')
                     THEN refused_account_no = ANY (account_nos) AND coalesce(kind NOT IN ('void', 'expiry'), true)
                     -- What somebody outside has decided cannot be tried again here.
                     WHEN refusal = 'DECLINED_BY_GATEWAY' THEN refused_account_no = ANY (account_nos) AND kind IS NULL
                     WHEN refusal = 'CONDITION_FAILED' THEN refused_account_no = ANY (account_nos) AND coalesce(kind = 'hold', true)
                     WHEN refusal = 'PERIOD_CLOSED'
                     THEN refused_account_no IS NULL AND effective_at IS NOT NULL AND coalesce(kind IN ('capture', 'refund', 'reversal'), true)
                     WHEN refusal = 'HOLD_ENDED' THEN refused_account_no IS NULL AND kind IN ('capture', 'void')
                     WHEN refusal = 'HOLD_EXPIRED' THEN refused_account_no IS NULL AND kind IN ('hold', 'capture')
                     WHEN refusal = 'CAPTURE_EXCEEDS_HOLD' THEN refused_account_no IS NULL AND kind = 'capture'
                     WHEN refusal IN ('REFUNDED_CHANGED', 'REFUND_EXCEEDS_REST') THEN refused_account_no IS NULL AND kind = 'refund'
                     WHEN refusal = 'ALREADY_REVERSED' THEN refused_account_no IS NULL AND kind IN ('refund', 'reversal')
                     WHEN refusal = 'ALREADY_REFUNDED' THEN refused_account_no IS NULL AND kind = 'reversal' END) IS TRUE AS judged
      FROM transfer WHERE refusal IS NOT NULL OR refused_account_no IS NOT NULL),
named AS (
    SELECT DISTINCT ledger_id, account_no FROM refused WHERE judged AND account_no IS NOT NULL),
step AS (
    SELECT ledger_id, account_no, sequence, 1 AS kind, sum(posted) AS posted, sum(held) AS held, sum(incoming) AS incoming
      FROM (SELECT e.ledger_id, e.account_no, e.sequence, CASE WHEN a.type IN ('asset', 'expense') THEN e.amount ELSE -e.amount END AS posted,
                   0 AS held, 0 AS incoming
              FROM entry e JOIN named USING (ledger_id, account_no) JOIN account a USING (ledger_id, account_no)
            UNION ALL
            SELECT h.ledger_id, h.account_no, h.sequence, 0, CASE WHEN a.type IN ('asset', 'expense') THEN h.credit ELSE h.debit END,
                   CASE WHEN a.type IN ('asset', 'expense') THEN h.debit ELSE h.credit END
              FROM hold_entry h JOIN named USING (ledger_id, account_no) JOIN account a USING (ledger_id, account_no)) m
     GROUP BY ledger_id, account_no, sequence
    UNION ALL
    SELECT ledger_id, account_no, sequence, 2, NULL, NULL, NULL FROM account_change JOIN named USING (ledger_id, account_no)
    UNION ALL
    SELECT ledger_id, account_no, sequence, 3, NULL, NULL, NULL FROM refused WHERE judged AND account_no IS NOT NULL),
walk AS (
    SELECT *, coalesce(sum(posted) OVER so_far, 0) AS balance, coalesce(sum(posted - held) OVER so_far, 0) AS available,
           coalesce(sum(posted + incoming) OVER so_far, 0) AS expected, coalesce(max(sequence) FILTER (WHERE kind = 1) OVER so_far, 0) AS version,
           max(sequence) FILTER (WHERE kind = 2) OVER so_far AS rule
      FROM step
    WINDOW so_far AS (PARTITION BY ledger_id, account_no ORDER BY sequence, kind ROWS UNBOUNDED PRECEDING)),
attempt AS (
    SELECT l.ledger_id, l.sequence, l.transfer_id, sum(CASE WHEN a.type IN ('asset', 'expense') THEN l.amount ELSE -l.amount END) AS change,
           bool_or(l.amount > 0) AS debit, bool_or(l.amount < 0) AS credit
      FROM (SELECT ledger_id, sequence, transfer_id, account_no, unnest(account_nos) AS leg_account_no, unnest(amounts) AS amount
              FROM refused WHERE judged AND account_no IS NOT NULL) l
           JOIN account a ON a.ledger_id = l.ledger_id AND a.account_no = l.account_no
     WHERE l.leg_account_no = l.account_no
     GROUP BY l.ledger_id, l.sequence, l.transfer_id),
-- How far the books were closed: see closed-period.
dated AS (
    SELECT ledger_id, sequence, transfer_id, max(sequence) FILTER (WHERE is_change) OVER so_far AS change
      FROM (SELECT ledger_id, sequence, transfer_id, false AS is_change FROM refused WHERE judged AND refusal = 'PERIOD_CLOSED'
            UNION ALL
            SELECT ledger_id, sequence, NULL, true FROM period_change) n
    WINDOW so_far AS (PARTITION BY ledger_id ORDER BY sequence, is_change ROWS UNBOUNDED PRECEDING)),
-- Steps that were refused, and the posted ones of the same origins.
stepped AS (
    SELECT DISTINCT ledger_id, origin FROM refused WHERE origin IS NOT NULL AND NOT atomic),
original AS (
    SELECT o.ledger_id, o.transfer_id, o.sequence, o.kind, o.account_nos, o.reserved, o.deadline,
           (SELECT sum(amount) FROM unnest(o.amounts) amount WHERE amount > 0) AS amount
      FROM transfer o JOIN stepped s ON s.ledger_id = o.ledger_id AND s.origin = o.transfer_id WHERE o.refusal IS NULL),
progress AS (
    SELECT ledger_id, origin, sequence, transfer_id, is_refused, count(*) FILTER (WHERE NOT is_refused) OVER so_far AS steps,
           coalesce(bool_or(ends) OVER so_far, false) AS ended, coalesce(sum(reserved) OVER so_far, 0) AS taken, coalesce(sum(amount) OVER so_far, 0) AS refunded
      FROM (SELECT t.ledger_id, t.origin, t.sequence, t.transfer_id, false AS is_refused, t.ends, t.reserved,
                   (SELECT sum(amount) FROM unnest(t.amounts) amount WHERE amount > 0) AS amount
              FROM transfer t JOIN stepped s ON s.ledger_id = t.ledger_id AND s.origin = t.origin WHERE t.refusal IS NULL AND t.kind IS NOT NULL
            UNION ALL
            SELECT ledger_id, origin, sequence, transfer_id, true, NULL, NULL, NULL FROM refused WHERE origin IS NOT NULL AND NOT atomic) p
    WINDOW so_far AS (PARTITION BY ledger_id, origin ORDER BY sequence, is_refused ROWS UNBOUNDED PRECEDING))
SELECT r.ledger_id, r.sequence, r.transfer_id, NULL::text,
       format('refused: %s, by account number %s, which is no reason or not in the transfer', coalesce(r.refusal, 'NULL'), coalesce(r.account_no::text, 'NULL'))
  FROM refused r WHERE NOT judged
UNION ALL
SELECT r.ledger_id, r.sequence, r.transfer_id, a.account_id,
       format('refused: %s, but the account was not so: balance %s, available %s, expected %s, version %s, change %s, floor %s, ceiling %s, frozen %s, closed %s',
              r.refusal, left(w.balance::text, 60), left(w.available::text, 60), left(w.expected::text, 60), w.version, left(x.change::text, 60),
              coalesce(left(c.floor::text, 60), 'none'), coalesce(left(c.ceiling::text, 60), 'none'), c.frozen, c.closed)
  FROM refused r
       JOIN walk w ON w.ledger_id = r.ledger_id AND w.account_no = r.account_no AND w.sequence = r.sequence AND w.kind = 3
       JOIN account_change c ON c.ledger_id = w.ledger_id AND c.account_no = w.account_no AND c.sequence = w.rule
       JOIN attempt x ON x.ledger_id = r.ledger_id AND x.sequence = r.sequence AND x.transfer_id = r.transfer_id
       JOIN account a ON a.ledger_id = r.ledger_id AND a.account_no = r.account_no
 WHERE r.judged
   AND CASE WHEN r.refusal = 'ACCOUNT_CLOSED' THEN c.closed
            WHEN r.refusal = 'ACCOUNT_FROZEN' THEN c.frozen = 'both' OR c.frozen = 'debits' AND x.debit OR c.frozen = 'credits' AND x.credit
            WHEN r.atomic THEN true
            -- What a capture moves was counted when it was held.
            WHEN r.kind = 'capture' THEN false
            -- Of a balancing transfer any amount would have been too much, and an account without a floor gives what it has.
            WHEN r.refusal = 'INSUFFICIENT_FUNDS' AND r.terms ->> 'balancing' = 'true'
            THEN x.change < 0 AND c.serialised AND w.available <= coalesce(c.floor, 0)
            WHEN r.refusal = 'CEILING_EXCEEDED' AND r.terms ->> 'balancing' = 'true' THEN x.change > 0 AND w.expected >= c.ceiling
            WHEN r.refusal = 'INSUFFICIENT_FUNDS' THEN x.change < 0 AND w.available + x.change < c.floor
            WHEN r.refusal = 'CEILING_EXCEEDED' THEN x.change > 0 AND w.expected + x.change > c.ceiling
            WHEN r.refusal = 'CONDITION_FAILED'
            THEN EXISTS (SELECT FROM json_array_elements(r.terms -> 'conditions') k
                          WHERE k ->> 'account' = a.account_id AND ((k ->> 'balance')::numeric <> w.balance OR (k ->> 'version')::bigint <> w.version))
            ELSE true END IS NOT TRUE
UNION ALL
SELECT r.ledger_id, r.sequence, r.transfer_id, NULL,
       CASE WHEN r.kind = 'hold' THEN format('refused: %s at %s, but its terms are %s', r.refusal, r.posted_at, coalesce(left(r.terms::text, 100), 'NULL'))
            WHEN o.sequence IS NULL THEN format('refused: %s, but %s is no posted transfer before it that can have such a step', r.refusal, r.origin)
            ELSE format('refused: %s at %s, but %s was not so: kind %s, amount %s, deadline %s, %s steps before, ended %s, taken off %s, gone back %s', r.refusal,
                        r.posted_at, r.origin, coalesce(o.kind, 'transfer'), left(o.amount::text, 60), coalesce(o.deadline::text, 'none'), p.steps, p.ended,
                        left((-p.taken)::text, 60), left(p.refunded::text, 60)) END
  FROM refused r
       LEFT JOIN progress p ON p.ledger_id = r.ledger_id AND p.origin = r.origin AND p.sequence = r.sequence AND p.transfer_id = r.transfer_id AND p.is_refused
       LEFT JOIN original o ON o.ledger_id = r.ledger_id AND o.transfer_id = r.origin AND o.sequence < r.sequence
        AND CASE WHEN r.kind IN ('capture', 'void') THEN o.kind = 'hold' AND o.account_nos = r.account_nos
                 ELSE (o.kind IS NULL OR o.kind = 'capture') AND r.account_nos <@ o.account_nos END
 WHERE r.judged
   AND CASE WHEN r.kind = 'hold' AND r.refusal = 'HOLD_EXPIRED' THEN r.posted_at >= (r.terms ->> 'expires_at')::timestamptz
            WHEN r.kind IS NULL OR r.kind = 'hold' OR r.atomic THEN true
            WHEN o.sequence IS NULL THEN false
            WHEN r.refusal = 'HOLD_ENDED' THEN p.ended
            WHEN r.refusal = 'ALREADY_REVERSED' THEN p.ended
            -- Whatever comes after the end is refused for that.
            WHEN p.ended THEN false
            WHEN r.refusal = 'HOLD_EXPIRED' THEN r.posted_at >= o.deadline
            WHEN r.refusal = 'CAPTURE_EXCEEDS_HOLD' THEN (r.terms ->> 'amount')::numeric > o.reserved + p.taken
            WHEN r.refusal = 'ALREADY_REFUNDED' THEN p.steps > 0
            WHEN r.refusal = 'REFUNDED_CHANGED' THEN (r.terms ->> 'expected_refunded')::numeric <> p.refunded
            WHEN r.refusal = 'REFUND_EXCEEDS_REST'
            THEN (r.terms ->> 'expected_refunded')::numeric = p.refunded
                 AND ((r.terms ->> 'amount')::numeric > o.amount - p.refunded OR o.amount = p.refunded)
            ELSE true END IS NOT TRUE
UNION ALL
SELECT r.ledger_id, r.sequence, r.transfer_id, NULL,
       format('refused: %s with the value date %s, but the books were closed before %s', r.refusal, r.effective_at, coalesce(c.closed_before::text, 'no time'))
  FROM refused r
       JOIN dated d ON d.ledger_id = r.ledger_id AND d.sequence = r.sequence AND d.transfer_id = r.transfer_id
       LEFT JOIN period_change c ON c.ledger_id = d.ledger_id AND c.sequence = d.change
 WHERE (r.effective_at < c.closed_before) IS NOT TRUE
