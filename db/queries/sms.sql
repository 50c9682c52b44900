-- name: SMSBegun :one
-- Whether the accounts of the books were read once.
SELECT EXISTS (SELECT FROM khata_sms.state)::boolean AS begun;

-- name: SMSBegin :execrows
-- One row for whoever is first; others wait for it to commit.
INSERT INTO khata_sms.state DEFAULT VALUES ON CONFLICT (only_one) DO NOTHING;

-- name: SMSCover :exec
INSERT INTO khata_sms.covered (ledger, through)
SELECT n.ledger, n.through
  FROM (SELECT unnest(@ledgers::text[]) AS ledger, unnest(@throughs::bigint[]) AS through) n
 ORDER BY n.ledger
ON CONFLICT (ledger) DO NOTHING;

-- name: SMSUncover :many
-- A ledger whose numbers end before what is covered has been restored from a backup: what it numbers anew is not covered.
UPDATE khata_sms.covered c SET through = n.through
  FROM (SELECT unnest(@ledgers::text[]) AS ledger, unnest(@throughs::bigint[]) AS through) n
 WHERE c.ledger = n.ledger AND c.through > n.through
RETURNING c.ledger;

-- name: SMSCovered :many
SELECT ledger, through FROM khata_sms.covered WHERE ledger = ANY (@ledgers::text[]);

-- name: SMSRecipientPut :exec
-- In one order for everybody, or two that put the same accounts would deadlock.
INSERT INTO khata_sms.recipient AS r (ledger, account, name, phone, language, wants, version)
SELECT n.ledger, n.account, n.name, n.phone, n.language, n.wants, n.version
  FROM (SELECT unnest(@ledgers::text[]) AS ledger, unnest(@accounts::text[]) AS account, unnest(@names::text[]) AS name,
               unnest(@phones::text[]) AS phone, unnest(@languages::text[]) AS language, unnest(@wants::text[]) AS wants,
               unnest(@versions::bigint[]) AS version) n
 ORDER BY n.ledger COLLATE "C", n.account COLLATE "C"
ON CONFLICT (ledger, account) DO UPDATE
   SET name = EXCLUDED.name, phone = EXCLUDED.phone, language = EXCLUDED.language, wants = EXCLUDED.wants, version = EXCLUDED.version
 WHERE r.version < EXCLUDED.version;

-- name: SMSRecipientForget :execrows
-- Those that a ledger cannot have: it was restored from a backup, and they are of what is lost.
DELETE FROM khata_sms.recipient WHERE ledger = @ledger AND version > @horizon;

-- name: SMSRecipients :many
SELECT r.ledger, r.account, r.name, r.phone, r.language, r.wants
  FROM (SELECT unnest(@ledgers::text[]) AS ledger, unnest(@accounts::text[]) AS account) n
  JOIN khata_sms.recipient r ON r.ledger = n.ledger AND r.account = n.account;

-- name: SMSQueue :execrows
INSERT INTO khata_sms.message (event_id, ledger, account, transfer_id, kind, phone, language, text, event_time, fresh_from)
SELECT n.event_id, n.ledger, n.account, n.transfer_id, n.kind, n.phone, n.language, n.text, n.event_time, n.event_time
  FROM (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@ledgers::text[]) AS ledger, unnest(@accounts::text[]) AS account,
               unnest(@transfer_ids::text[]) AS transfer_id, unnest(@kinds::text[]) AS kind, unnest(@phones::text[]) AS phone,
               unnest(@languages::text[]) AS language, unnest(@texts::text[]) AS text, unnest(@event_times::timestamptz[]) AS event_time) n
 ORDER BY n.event_id COLLATE "C"
ON CONFLICT (event_id) DO NOTHING;

-- name: SMSClaim :many
-- Takes messages that are due, those first that have waited longest, and none that somebody else is taking. One that is too old is not sent any more.
-- The index finds what is due by a time that stands still during the statement. was_sending is of one that was being sent, and nobody knows what became of it.
WITH due AS (
    SELECT event_id, state = 'sending' AS was_sending, fresh_from < clock_timestamp() - make_interval(secs => @max_age::double precision) AS too_old
      FROM khata_sms.message
     WHERE state IN ('queued', 'sending') AND next_attempt_at <= statement_timestamp()
     ORDER BY next_attempt_at
     LIMIT @most FOR UPDATE SKIP LOCKED)
UPDATE khata_sms.message m
   SET state = CASE WHEN d.too_old THEN 'expired' ELSE 'sending' END,
       attempts = m.attempts + CASE WHEN d.too_old THEN 0 ELSE 1 END,
       lease_until = CASE WHEN d.too_old THEN NULL ELSE clock_timestamp() + make_interval(secs => @lease::double precision) END,
       next_attempt_at = clock_timestamp() + make_interval(secs => @lease::double precision),
       last_error = CASE WHEN d.too_old AND d.was_sending THEN 'the gateway was called, and nobody knows what it answered' ELSE m.last_error END
  FROM due d
 WHERE m.event_id = d.event_id
RETURNING m.event_id, m.phone, m.text, m.event_time, m.attempts, d.was_sending::boolean AS was_sending, d.too_old::boolean AS too_old;

-- name: SMSSent :execrows
-- Whoever else has taken it meanwhile: it is sent.
UPDATE khata_sms.message
   SET state = 'sent', sent_at = clock_timestamp(), lease_until = NULL, gateway_ref = @gateway_ref, last_error = ''
 WHERE event_id = @event_id AND state <> 'sent';

-- name: SMSNotSent :execrows
-- The number of the attempt is the token of who has taken it: another one who has taken it since is not disturbed.
UPDATE khata_sms.message
   SET state = @state, lease_until = NULL, last_error = @last_error,
       next_attempt_at = clock_timestamp() + make_interval(secs => @pause::double precision)
 WHERE event_id = @event_id AND state = 'sending' AND attempts = @attempt;

-- name: SMSRetry :execrows
UPDATE khata_sms.message
   SET state = 'queued', fresh_from = clock_timestamp(), next_attempt_at = clock_timestamp()
 WHERE state IN ('failed', 'expired') AND event_id = ANY (@event_ids::text[]);

-- name: SMSRetryFailed :execrows
UPDATE khata_sms.message
   SET state = 'queued', fresh_from = clock_timestamp(), next_attempt_at = clock_timestamp()
 WHERE state = 'failed';

-- name: SMSList :many
-- An empty text is any.
SELECT event_id, ledger, account, transfer_id, kind, phone, language, text, event_time, created_at, state, attempts, next_attempt_at, sent_at,
       gateway_ref, last_error
  FROM khata_sms.message
 WHERE (@state::text = '' OR state = @state::text) AND (@account::text = '' OR account = @account::text)
   AND (@ledger::text = '' OR ledger = @ledger::text)
 ORDER BY created_at DESC, event_id
 LIMIT @most;

-- name: SMSMeasure :many
-- Of those that were sent there are too many to count.
SELECT state, count(*) AS messages, min(event_time)::timestamptz AS oldest FROM khata_sms.message WHERE state IN ('queued', 'sending') GROUP BY state
UNION ALL
SELECT state, count(*), min(event_time)::timestamptz FROM khata_sms.message WHERE state IN ('failed', 'expired') GROUP BY state;

-- name: SMSClean :execrows
DELETE FROM khata_sms.message
 WHERE event_id IN (SELECT event_id FROM khata_sms.message
                     WHERE created_at < statement_timestamp() - make_interval(secs => @keep::double precision) AND state IN ('sent', 'expired')
                     ORDER BY created_at LIMIT @most);

-- name: SMSOf :many
-- The messages about some events.
SELECT m.event_id, m.ledger, m.account, m.transfer_id, m.kind, m.phone, m.language, m.text, m.event_time, m.created_at, m.state, m.attempts,
       m.next_attempt_at, m.sent_at, m.gateway_ref, m.last_error
  FROM unnest(@event_ids::text[]) AS w (event_id) JOIN khata_sms.message m ON m.event_id = w.event_id
 ORDER BY m.created_at, m.event_id;
