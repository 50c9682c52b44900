-- The queries of internal/payapi: the keys of the payment API.

-- name: PaymentKeysLock :many
-- Whether nobody else is at these keys. It does not wait: who is, will have an answer soon. The locks are in the key space of one bigint;
-- gates and leases are in that of two integers.
SELECT pg_try_advisory_xact_lock(w.hash) AS locked
  FROM (SELECT h.hash, h.n FROM unnest(@hashes::bigint[]) WITH ORDINALITY AS h (hash, n) ORDER BY h.n) w;

-- name: PaymentKeysFind :many
-- The keys that are there, younger than the window, with their places in the list. With a ledger, which is not 0, those whose transfer is
-- not there are not looked for.
SELECT k.n::bigint AS n, k.fingerprint::bytea AS fingerprint, k.transfer_id::text AS transfer_id, k.status::smallint AS status, k.body::bytea AS body, k.attempt::uuid AS attempt
  FROM payment_keys_find(NULLIF(@ledger_id::integer, 0), @user_ids::text[], @idem_keys::text[], @transfer_ids::text[], @window_seconds::double precision)
       AS k (n, fingerprint, transfer_id, status, body, attempt);

-- name: PaymentKeysInsert :exec
-- The answers to payments that were decided in this transaction: all that comes before the time of posting, the time, and all that comes
-- after it. A refusal tells no time, and has nothing after it.
INSERT INTO payment_key (user_id, idem_key, day, created_at, fingerprint, ledger_id, transfer_id, status, body, attempt)
SELECT w.user_id, w.idem_key, (w.now AT TIME ZONE 'UTC')::date, w.now, w.fingerprint, @ledger_id, w.transfer_id, w.status,
       convert_to(w.before || CASE WHEN w.after = '' THEN ''
                                   ELSE to_char(t.posted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || w.after END, 'UTF8'),
       w.attempt
  FROM (SELECT unnest(@user_ids::text[]) AS user_id, unnest(@idem_keys::text[]) AS idem_key,
               unnest(@fingerprints::bytea[]) AS fingerprint, unnest(@transfer_ids::text[]) AS transfer_id,
               unnest(@statuses::smallint[]) AS status, unnest(@befores::text[]) AS before, unnest(@afters::text[]) AS after,
               unnest(@attempts::uuid[]) AS attempt, clock_timestamp() AS now) w
       CROSS JOIN LATERAL (SELECT u.posted_at FROM transfer u
                            WHERE u.ledger_id = @ledger_id AND u.transfer_id = w.transfer_id OFFSET 0) t;

-- name: PaymentKeysMakePartitions :one
SELECT payment_key_make_partitions(@days_ahead::integer) AS made;

-- name: PaymentKeysDropPartitions :many
SELECT dropped.name::text AS name FROM payment_key_drop_partitions(@window_seconds::bigint) AS dropped (name);

-- name: PaymentClaimsFind :many
-- The claims of these keys that are not settled, with their places in the list, and for how many seconds they are left alone.
SELECT w.n::bigint AS n, c.fingerprint, c.fence, c.step, c.attempt, c.gateway_key,
       greatest(extract(epoch FROM c.lease_until - clock_timestamp()), 0)::double precision AS seconds, (c.review_at IS NOT NULL)::boolean AS in_review
  FROM (SELECT unnest(@user_ids::text[]) AS user_id, unnest(@idem_keys::text[]) AS idem_key,
               generate_series(1, cardinality(@user_ids::text[])) AS n) w
       CROSS JOIN LATERAL (SELECT * FROM payment_claim p WHERE p.user_id = w.user_id AND p.idem_key = w.idem_key OFFSET 0) c;

-- name: PaymentClaimsMake :many
-- Claims a key that is free: no claim, or one that was released, whose next generation this is. The gateway's key is its prefix and that.
INSERT INTO payment_claim AS c (user_id, idem_key, fingerprint, ledger, transfer_id, command, step, generation, gateway_key, lease_until, fence,
                                attempts, created_at, detail, attempt)
VALUES (@user_id, @idem_key, @fingerprint, @ledger, @transfer_id, @command, 'charge', 0, @gateway_prefix::text || 0,
        clock_timestamp() + make_interval(secs => @lease_seconds::double precision), nextval('payment_claim_fence'), 0, clock_timestamp(), '', @attempt)
ON CONFLICT (user_id, idem_key) DO UPDATE
   SET fingerprint = excluded.fingerprint, ledger = excluded.ledger, transfer_id = excluded.transfer_id, command = excluded.command, step = 'charge',
       generation = c.generation + 1, gateway_key = @gateway_prefix::text || (c.generation + 1), lease_until = excluded.lease_until,
       fence = excluded.fence, attempts = 0, created_at = excluded.created_at, review_at = NULL, detail = '', attempt = excluded.attempt
 WHERE c.step = 'released'
RETURNING fence, gateway_key;

-- name: PaymentClaimsDue :many
-- Claims whose lease has ended, the longest waiting first.
SELECT user_id, idem_key, fence FROM payment_claim
 WHERE review_at IS NULL AND step <> 'released' AND ledger = @ledger AND lease_until < clock_timestamp()
 ORDER BY lease_until LIMIT @most;

-- name: PaymentClaimsTake :many
-- Takes over a claim that is still as it was seen: its lease has ended, or it is in review and somebody has decided.
UPDATE payment_claim
   SET fence = nextval('payment_claim_fence'), lease_until = clock_timestamp() + make_interval(secs => @lease_seconds::double precision),
       attempts = attempts + 1
 WHERE user_id = @user_id AND idem_key = @idem_key AND fence = @fence AND lease_until < clock_timestamp()
   AND (review_at IS NOT NULL) = @in_review::boolean AND step <> 'released'
RETURNING user_id, idem_key, fingerprint, ledger, transfer_id, command, step, gateway_key, fence, attempts, created_at, detail;

-- name: PaymentClaimsPut :exec
-- What has become of claims: settled, given back, or released. Whoever does not have the fence any more changes nothing.
WITH asked AS (
    SELECT unnest(@user_ids::text[]) AS user_id, unnest(@idem_keys::text[]) AS idem_key, unnest(@fences::bigint[]) AS fence, unnest(@steps::text[]) AS step),
gone AS (
    DELETE FROM payment_claim c USING asked a
     WHERE c.user_id = a.user_id AND c.idem_key = a.idem_key AND c.fence = a.fence AND a.step = '')
UPDATE payment_claim c SET step = a.step, lease_until = clock_timestamp(), attempts = 0, review_at = NULL, detail = ''
  FROM asked a WHERE c.user_id = a.user_id AND c.idem_key = a.idem_key AND c.fence = a.fence AND a.step <> '';

-- name: PaymentClaimsPostpone :exec
-- Leaves a claim alone for a while, or for people to look at.
UPDATE payment_claim
   SET lease_until = clock_timestamp() + make_interval(secs => @pause_seconds::double precision), detail = @detail,
       review_at = CASE WHEN @review::boolean THEN coalesce(review_at, clock_timestamp()) ELSE review_at END
 WHERE user_id = @user_id AND idem_key = @idem_key AND fence = @fence;

-- name: PaymentClaimsInReview :many
SELECT user_id, idem_key, fence, ledger, transfer_id, command, step, gateway_key, attempts, created_at, review_at::timestamptz AS review_at, detail
  FROM payment_claim WHERE review_at IS NOT NULL ORDER BY review_at, transfer_id LIMIT @most;

-- name: PaymentResolutionInsert :exec
INSERT INTO payment_resolution (user_id, idem_key, fence, transfer_id, gateway_key, resolved_as, reason)
VALUES (@user_id, @idem_key, @fence, @transfer_id, @gateway_key, @resolved_as, @reason);

-- name: PaymentClaimsForget :exec
-- Keys that were released and have not come again for so long that no client tries them any more.
DELETE FROM payment_claim WHERE step = 'released' AND lease_until < clock_timestamp() - make_interval(secs => @window_seconds::double precision);

-- name: PaymentKeysOfTransfers :many
-- The keys under which transfers were answered, as far as their window goes. A key is in the commit of its transfer, so it is among those that its user
-- had on that day.
SELECT k.user_id, k.idem_key, k.created_at, k.transfer_id, k.status
  FROM (SELECT unnest(@transfer_ids::text[]) AS transfer_id, unnest(@user_ids::text[]) AS user_id, unnest(@days::date[]) AS day) w
       CROSS JOIN LATERAL (SELECT p.user_id, p.idem_key, p.created_at, p.transfer_id, p.status
                             FROM payment_key p
                            WHERE p.user_id = w.user_id AND p.day BETWEEN w.day - 1 AND w.day + 1 AND p.ledger_id = @ledger_id
                              AND p.transfer_id = w.transfer_id
                            LIMIT 1) k;

-- name: PaymentClaimsOfTransfers :many
-- Claims are those that are not settled, and a few days of released ones: there are not many.
SELECT c.user_id, c.idem_key, c.transfer_id, c.step, c.generation, c.gateway_key, c.lease_until, c.attempts, c.created_at, c.review_at, c.detail
  FROM payment_claim c
 WHERE c.ledger = @ledger AND c.transfer_id = ANY (@transfer_ids::text[])
 LIMIT @most;

-- name: PaymentResolutionsOfTransfers :many
SELECT r.user_id, r.idem_key, r.transfer_id, r.gateway_key, r.resolved_as, r.reason, r.resolved_at
  FROM payment_resolution r
 WHERE r.user_id = ANY (@user_ids::text[]) AND r.transfer_id = ANY (@transfer_ids::text[])
 LIMIT @most;

-- name: PaymentLedger :many
SELECT l.ledger_id FROM ledger l WHERE l.name = @name;
