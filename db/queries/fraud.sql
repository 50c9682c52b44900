-- The queries of internal/fraud.

-- name: FraudFlag :execrows
INSERT INTO khata_fraud.flagged (verdict, unreadable, ledger, transfer_id, sequence, kind, payer, payee, amount, currency, posted_at, reasons, rules, judged_event)
VALUES (@verdict, @unreadable, @ledger, @transfer_id, @sequence, @kind, @payer, @payee, NULLIF(@amount::text, '')::numeric,
        @currency, @posted_at, @reasons, @rules, @judged_event)
ON CONFLICT (verdict) DO NOTHING;

-- name: FraudFlagged :many
-- In the order in which they came. Amounts are text, with the decimals that they have.
SELECT f.number, f.verdict, f.unreadable, f.ledger, f.transfer_id, f.sequence, f.kind, f.payer, f.payee, coalesce(f.amount::text, '')::text AS amount, f.currency,
       f.posted_at, f.reasons, f.rules, f.judged_event, f.recorded_at, f.state, coalesce(f.note, '')::text AS note,
       coalesce(f.settled_by, '')::text AS settled_by, f.settled_at
  FROM khata_fraud.flagged f
 WHERE (@settled::boolean OR f.state = 'open') AND f.number > @after::bigint
 ORDER BY f.number
 LIMIT @at_most;

-- name: FraudSettle :many
-- Those that are settled already stay as they are.
UPDATE khata_fraud.flagged SET state = @state, note = @note::text, settled_by = @settled_by::text, settled_at = clock_timestamp()
 WHERE verdict = ANY (@verdicts::text[]) AND state = 'open'
RETURNING verdict;

-- name: FraudStates :many
SELECT f.verdict, f.state FROM khata_fraud.flagged f WHERE f.verdict = ANY (@verdicts::text[]);

-- name: FraudFlaggedOf :many
-- What is flagged of some transfers.
SELECT f.number, f.verdict, f.unreadable, f.ledger, f.transfer_id, f.sequence, f.kind, f.payer, f.payee, coalesce(f.amount::text, '')::text AS amount, f.currency,
       f.posted_at, f.reasons, f.rules, f.judged_event, f.recorded_at, f.state, coalesce(f.note, '')::text AS note,
       coalesce(f.settled_by, '')::text AS settled_by, f.settled_at
  FROM unnest(@transfer_ids::text[]) AS w (transfer_id)
       JOIN khata_fraud.flagged f ON f.ledger = @ledger AND f.transfer_id = w.transfer_id AND NOT f.unreadable
 ORDER BY f.number;
