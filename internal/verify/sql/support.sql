-- Refunds that people have asked for: each request with its decision, what became of it, and the refund in the books.
WITH asked AS (
    SELECT r.*, support_person(r.maker) AS person,
           sha256(convert_to(json_build_array(ledger_id, request_no, key, original, amount::text, currency, expected_refunded::text, reason, note, ticket, maker,
               extract(epoch FROM made_at)::text, extract(epoch FROM expires_at)::text)::text, 'UTF8')) = r.sha256 AS sealed
      FROM support_refund_request r),
-- What was refunded alone in 24 hours, but a second: the clock was read more than once. What was refused since was counted then, so this is no more than it was.
alone AS (
    SELECT a.ledger_id, a.request_no, a.amount, a.limit_version,
           sum(a.amount) OVER (PARTITION BY a.ledger_id, a.currency, a.person ORDER BY a.made_at
                               RANGE BETWEEN interval '23:59:59' PRECEDING AND CURRENT ROW) AS day, a.currency
      FROM asked a
     WHERE a.approval = 'none'
       AND NOT EXISTS (SELECT FROM support_refund_outcome o WHERE o.ledger_id = a.ledger_id AND o.request_no = a.request_no AND o.outcome = 'refused')),
booked AS (
    SELECT ledger_id, transfer_id, sequence, kind, origin, refusal, terms, substr(transfer_id, length('khata:refund:') + 1) AS key,
           (SELECT sum(m.amount) FROM unnest(amounts) m (amount) WHERE m.amount > 0) AS amount,
           (SELECT min(a.currency) FROM account a WHERE a.ledger_id = t.ledger_id AND a.account_no = ANY (t.account_nos)) AS currency,
           CASE WHEN terms_readable(terms) THEN terms END AS readable
      FROM transfer t WHERE kind = 'refund' AND transfer_id LIKE 'khata:refund:%'),
told AS (
    SELECT ledger_id, detail ->> 'request' AS request, count(*) AS times FROM audit_event WHERE action = 'refund.post' GROUP BY ledger_id, detail ->> 'request'),
breach AS (
    SELECT ledger_id, request_no, original, 'its hash is not that of its content' AS detail FROM asked WHERE sealed IS NOT TRUE
    UNION ALL
    SELECT a.ledger_id, a.request_no, r.original,
           CASE WHEN l.version IS NULL THEN 'nobody has approved it, and there was no limit'
                ELSE format('nobody has approved it: it is %s of %s, with all of a day %s of %s', a.amount, l.single, a.day, l.daily) END
      FROM alone a
           JOIN asked r ON r.ledger_id = a.ledger_id AND r.request_no = a.request_no
           LEFT JOIN support_limit l ON l.ledger_id = a.ledger_id AND l.currency = a.currency AND l.version = a.limit_version
     WHERE (a.amount <= l.single AND a.day <= l.daily) IS NOT TRUE
    UNION ALL
    SELECT d.ledger_id, d.request_no, a.original,
           concat_ws('; ',
               CASE WHEN a.request_no IS NULL THEN 'it is not there, and somebody has decided about it' END,
               CASE WHEN a.approval = 'none' THEN 'it needs nobody else, and somebody has decided about it' END,
               CASE WHEN (a.person = support_person(d.decided_by)) <> (d.verdict = 'withdraw')
                    THEN format('%s made it, and %s decided: %s', a.maker, d.decided_by, d.verdict) END,
               CASE WHEN d.sha256 <> a.sha256 THEN 'something else was decided about' END,
               CASE WHEN d.decided_at >= a.expires_at THEN 'it was decided about when it had expired' END)
      FROM support_refund_decision d
           LEFT JOIN asked a ON a.ledger_id = d.ledger_id AND a.request_no = d.request_no
    UNION ALL
    SELECT o.ledger_id, o.request_no, a.original,
           concat_ws('; ',
               CASE WHEN a.request_no IS NULL THEN 'it is not there, and something has become of it' END,
               CASE WHEN a.approval <> 'none' AND (d.verdict = 'approve') IS NOT TRUE THEN format('it was %s, and nobody had approved it', o.outcome) END,
               CASE WHEN o.outcome = 'posted' AND o.settled_at >= a.expires_at THEN 'it was posted when it had expired' END,
               CASE WHEN o.transfer_id IS NOT NULL
                     AND (o.transfer_id = 'khata:refund:' || a.key AND t.origin = a.original AND (t.refusal IS NULL) = (o.outcome = 'posted')
                          AND t.refusal IS NOT DISTINCT FROM o.code AND (t.readable ->> 'amount')::numeric = a.amount
                          AND (t.readable ->> 'expected_refunded')::numeric = a.expected_refunded AND t.readable ->> 'reason' = a.reason
                          AND (o.outcome <> 'posted' OR t.amount = a.amount AND t.currency = a.currency)) IS NOT TRUE
                    THEN format('transfer %s is not what was asked for: %s %s of %s', o.transfer_id, a.amount, a.currency, a.original) END,
               CASE WHEN coalesce(n.times, 0) <> 1 THEN format('the audit has %s times what became of it', coalesce(n.times, 0)) END)
      FROM support_refund_outcome o
           LEFT JOIN asked a ON a.ledger_id = o.ledger_id AND a.request_no = o.request_no
           LEFT JOIN support_refund_decision d ON d.ledger_id = o.ledger_id AND d.request_no = o.request_no
           LEFT JOIN booked t ON t.ledger_id = o.ledger_id AND t.transfer_id = o.transfer_id
           LEFT JOIN told n ON n.ledger_id = o.ledger_id AND n.request = o.request_no::text
    UNION ALL
    SELECT t.ledger_id, a.request_no, t.transfer_id,
           format('transfer %s is in the books, and %s', t.transfer_id, CASE WHEN a.request_no IS NULL THEN 'nobody has asked for it' ELSE 'not among what became of it' END)
      FROM booked t
           LEFT JOIN asked a ON a.ledger_id = t.ledger_id AND a.key = t.key
           LEFT JOIN support_refund_outcome o ON o.ledger_id = t.ledger_id AND o.transfer_id = t.transfer_id
     WHERE o.transfer_id IS NULL)
SELECT b.ledger_id, t.sequence, b.original, NULL::text, CASE WHEN b.request_no IS NULL THEN b.detail ELSE format('request %s: %s', b.request_no, b.detail) END
  FROM breach b
       LEFT JOIN transfer t ON t.ledger_id = b.ledger_id AND t.transfer_id = b.original
 WHERE b.detail <> ''
