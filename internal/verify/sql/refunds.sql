-- Each transfer that money went back of, and what went back, walked by the ordinals: account by account never more than what went, and
-- always in the other direction.
WITH step AS (
    SELECT ledger_id, transfer_id, sequence, kind, origin, ordinal, coalesce(ends, false) AS ends, account_nos, amounts,
           (SELECT sum(amount) FROM unnest(amounts) amount WHERE amount > 0) AS amount, CASE WHEN terms_readable(terms) THEN terms END AS terms
      FROM transfer WHERE kind IN ('refund', 'reversal') AND refusal IS NULL),
original AS (
    SELECT o.ledger_id, o.transfer_id, o.sequence, o.account_nos, o.amounts
      FROM transfer o JOIN (SELECT DISTINCT ledger_id, origin FROM step) s ON s.ledger_id = o.ledger_id AND s.origin = o.transfer_id
     WHERE o.refusal IS NULL AND (o.kind IS NULL OR o.kind = 'capture')),
gone AS (
    SELECT ledger_id, transfer_id, account_no, sum(amount) AS amount, sum(CASE WHEN amount > 0 THEN amount ELSE 0 END) AS debited
      FROM (SELECT ledger_id, transfer_id, unnest(account_nos) AS account_no, unnest(amounts) AS amount FROM original) l
     GROUP BY ledger_id, transfer_id, account_no),
went AS (
    SELECT g.ledger_id, g.transfer_id, sum(g.debited) AS amount, count(*) AS accounts, count(DISTINCT a.currency) AS currencies
      FROM gone g LEFT JOIN account a ON a.ledger_id = g.ledger_id AND a.account_no = g.account_no
     GROUP BY g.ledger_id, g.transfer_id),
walk AS (
    SELECT s.ledger_id, s.transfer_id, s.sequence, s.kind, s.origin, s.ordinal, s.ends, s.amount, s.terms, o.sequence AS went_at,
           w.amount AS went, w.currencies, row_number() OVER so_far AS place, lag(s.sequence) OVER so_far AS before,
           count(*) FILTER (WHERE s.ends) OVER so_far AS ended, sum(s.amount) OVER so_far - s.amount AS refunded
      FROM step s
           LEFT JOIN original o ON o.ledger_id = s.ledger_id AND o.transfer_id = s.origin
           LEFT JOIN went w ON w.ledger_id = s.ledger_id AND w.transfer_id = s.origin
    WINDOW so_far AS (PARTITION BY s.ledger_id, s.origin ORDER BY s.ordinal, s.sequence ROWS UNBOUNDED PRECEDING)),
returned AS (
    SELECT ledger_id, transfer_id, sequence, kind, origin, ordinal, account_no, sum(amount) AS amount, min(sign(amount)) AS lowest, max(sign(amount)) AS highest
      FROM (SELECT ledger_id, transfer_id, sequence, kind, origin, ordinal, unnest(account_nos) AS account_no, unnest(amounts) AS amount FROM step) l
     GROUP BY ledger_id, transfer_id, sequence, kind, origin, ordinal, account_no),
share AS (
    SELECT r.*, sum(r.amount) OVER (PARTITION BY r.ledger_id, r.origin, r.account_no ORDER BY r.ordinal, r.sequence ROWS UNBOUNDED PRECEDING) AS so_far,
           count(*) OVER (PARTITION BY r.ledger_id, r.sequence, r.transfer_id) AS accounts
      FROM returned r)
SELECT ledger_id, sequence, transfer_id, NULL::text, what
  FROM (SELECT ledger_id, sequence, transfer_id, concat_ws('; ',
               CASE WHEN went_at IS NULL THEN format('%s is no posted transfer of which money can go back', origin)
                    WHEN went_at >= sequence THEN format('has a lower number than its original %s', origin) END,
               CASE WHEN ordinal IS DISTINCT FROM place THEN format('is step %s of %s, but stands at place %s', coalesce(ordinal::text, 'NULL'), origin, place) END,
               CASE WHEN before >= sequence THEN format('has a lower number than the step of %s before it', origin) END,
               CASE WHEN kind = 'reversal' AND place > 1 THEN format('is the reversal of %s, and not alone', origin)
                    WHEN kind = 'refund' AND ended - CASE WHEN ends THEN 1 ELSE 0 END > 0 THEN format('comes after %s was reversed', origin) END,
               CASE WHEN kind = 'refund' AND currencies > 1 THEN format('is a refund of %s, which moved %s currencies', origin, currencies) END,
               CASE WHEN (terms ->> 'expected_refunded')::numeric <> refunded
                    THEN format('expected that %s had been refunded of %s, and it was %s', left(terms ->> 'expected_refunded', 60), origin, left(refunded::text, 60)) END,
               CASE WHEN kind = 'refund' AND amount <> coalesce((terms ->> 'amount')::numeric, went - refunded)
                    THEN format('is for %s, and was to be for %s', left(amount::text, 60), left(coalesce(terms ->> 'amount', (went - refunded)::text), 60)) END) AS what
          FROM walk) w
 WHERE what <> ''
UNION ALL
SELECT s.ledger_id, s.sequence, s.transfer_id, coalesce(a.account_id, 'number ' || s.account_no),
       CASE WHEN g.amount IS NULL THEN format('gives %s, and %s moved nothing of this account', left(s.amount::text, 60), s.origin)
            ELSE format('%s gives %s, which makes %s of the %s that %s moved', s.kind, left(s.amount::text, 60), left(s.so_far::text, 60),
                        left(g.amount::text, 60), s.origin) END
  FROM share s
       JOIN went w ON w.ledger_id = s.ledger_id AND w.transfer_id = s.origin
       LEFT JOIN gone g ON g.ledger_id = s.ledger_id AND g.transfer_id = s.origin AND g.account_no = s.account_no
       LEFT JOIN account a ON a.ledger_id = s.ledger_id AND a.account_no = s.account_no
 WHERE (s.highest = -sign(g.amount) AND s.lowest = s.highest AND abs(s.so_far) <= abs(g.amount)
        AND (s.kind = 'refund' OR s.amount = -g.amount AND s.accounts = w.accounts)) IS NOT TRUE
