-- The queries of internal/support: the audit, and the refund desk.

-- name: AuditInsert :one
-- Writes an event of a ledger, or of none where no name is given. Once: a second try finds the first. It returns whether there is such a ledger.
WITH place AS (
    SELECT l.ledger_id FROM ledger l WHERE l.name = @ledger::text
    UNION ALL
    SELECT 0 WHERE @ledger::text = ''),
written AS (
    INSERT INTO audit_event (ledger_id, event_id, actor, action, object_kind, object_id, address, outcome, detail)
    SELECT p.ledger_id, CAST(@event_id::text AS uuid), @actor, @action, @object_kind, @object_id, @address, @outcome, CAST(NULLIF(@detail::text, '') AS json)
      FROM place p
    ON CONFLICT (ledger_id, event_id) DO NOTHING)
SELECT EXISTS (SELECT FROM place)::boolean AS known;

-- name: AuditPlace :many
-- The number of a ledger in the audit: 0 where no name is given.
SELECT l.ledger_id FROM ledger l WHERE l.name = @ledger::text
UNION ALL
SELECT 0 WHERE @ledger::text = '';

-- name: AuditByTime :many
SELECT e.audit_no, e.at, e.actor, e.action, e.object_kind, e.object_id, e.address, e.outcome, coalesce(e.detail::text, '')::text AS detail
  FROM audit_event e
 WHERE e.ledger_id = @ledger_id AND e.at >= @since AND (e.at, e.audit_no) < (@before::timestamptz, @before_no::bigint)
 ORDER BY e.at DESC, e.audit_no DESC LIMIT @look;

-- name: AuditByActor :many
SELECT e.audit_no, e.at, e.actor, e.action, e.object_kind, e.object_id, e.address, e.outcome, coalesce(e.detail::text, '')::text AS detail
  FROM audit_event e
 WHERE e.ledger_id = @ledger_id AND e.actor = @actor AND e.at >= @since AND (e.at, e.audit_no) < (@before::timestamptz, @before_no::bigint)
 ORDER BY e.at DESC, e.audit_no DESC LIMIT @look;

-- name: AuditByAction :many
SELECT e.audit_no, e.at, e.actor, e.action, e.object_kind, e.object_id, e.address, e.outcome, coalesce(e.detail::text, '')::text AS detail
  FROM audit_event e
 WHERE e.ledger_id = @ledger_id AND e.action = @action AND e.at >= @since AND (e.at, e.audit_no) < (@before::timestamptz, @before_no::bigint)
 ORDER BY e.at DESC, e.audit_no DESC LIMIT @look;

-- name: AuditByObject :many
SELECT e.audit_no, e.at, e.actor, e.action, e.object_kind, e.object_id, e.address, e.outcome, coalesce(e.detail::text, '')::text AS detail
  FROM audit_event e
 WHERE e.ledger_id = @ledger_id AND e.object_kind = @object_kind AND e.object_id = @object_id AND e.at >= @since
   AND (e.at, e.audit_no) < (@before::timestamptz, @before_no::bigint)
 ORDER BY e.at DESC, e.audit_no DESC LIMIT @look;

-- name: SupportLedger :many
SELECT l.ledger_id FROM ledger l WHERE l.name = @name;

-- name: SupportLimits :many
-- The versions of a currency's limit, or the one in force of each currency; the newest first.
SELECT l.currency, c.scale, l.version, l.single, l.daily, l.reason, l.set_at, l.set_by
  FROM support_limit l JOIN currency c ON c.ledger_id = l.ledger_id AND c.code = l.currency
 WHERE l.ledger_id = @ledger_id AND (@currency::text = '' OR l.currency = @currency::text)
   AND (@currency::text <> '' OR NOT EXISTS (SELECT FROM support_limit n
                                              WHERE n.ledger_id = l.ledger_id AND n.currency = l.currency AND n.version > l.version))
 ORDER BY l.currency, l.version DESC
 LIMIT @most;

-- name: SupportLimitInForce :many
SELECT l.version, l.single, l.daily
  FROM support_limit l WHERE l.ledger_id = @ledger_id AND l.currency = @currency ORDER BY l.version DESC LIMIT 1;

-- name: SupportLimitInsert :one
INSERT INTO support_limit (ledger_id, currency, version, single, daily, reason, set_by)
VALUES (@ledger_id, @currency, @version, @single, @daily, @reason, @set_by)
RETURNING set_at;

-- name: SupportLockMaker :exec
-- Until the end of the transaction: what a person refunds alone is counted by one at a time.
SELECT pg_advisory_xact_lock(support_maker_lock(@ledger_id, @currency, @maker));

-- name: SupportMadeAlone :one
SELECT support_made_alone(@ledger_id, @currency, @maker)::numeric AS total;

-- name: SupportRequestInsert :one
INSERT INTO support_refund_request (ledger_id, key, original, amount, currency, expected_refunded, reason, note, ticket, maker, made_at, expires_at,
                                    approval, limit_version, sha256)
VALUES (@ledger_id, @key, @original, @amount, @currency, @expected_refunded, @reason, @note, @ticket, @maker, statement_timestamp(),
        statement_timestamp() + make_interval(secs => @seconds::double precision), @approval, @limit_version, '')
RETURNING request_no;

-- name: SupportRequestByKey :many
SELECT r.request_no FROM support_refund_request r WHERE r.ledger_id = @ledger_id AND r.key = @key;

-- name: SupportRefunds :many
-- Requests by their numbers, with what became of them.
SELECT r.request_no, r.key, r.original, r.amount, r.currency, c.scale, r.expected_refunded, r.reason, r.note, r.ticket, r.maker, r.made_at,
       r.expires_at, r.approval, r.limit_version, r.sha256, (clock_timestamp() >= r.expires_at)::boolean AS over,
       coalesce(d.verdict, '')::text AS verdict, coalesce(d.note, '')::text AS decision_note, coalesce(d.decided_by, '')::text AS decided_by, d.decided_at,
       coalesce(o.outcome, '')::text AS outcome, coalesce(o.transfer_id, '')::text AS transfer_id, coalesce(o.code, '')::text AS code,
       coalesce(o.message, '')::text AS message, o.settled_at
  FROM unnest(@request_nos::bigint[]) WITH ORDINALITY AS w (request_no, place)
       CROSS JOIN LATERAL (SELECT * FROM support_refund_request q WHERE q.ledger_id = @ledger_id AND q.request_no = w.request_no OFFSET 0) r
       JOIN currency c ON c.ledger_id = r.ledger_id AND c.code = r.currency
       LEFT JOIN support_refund_decision d ON d.ledger_id = r.ledger_id AND d.request_no = r.request_no
       LEFT JOIN support_refund_outcome o ON o.ledger_id = r.ledger_id AND o.request_no = r.request_no
 ORDER BY w.place;

-- name: SupportRequestsBefore :many
-- The last requests of a ledger before a number.
SELECT r.request_no FROM support_refund_request r
 WHERE r.ledger_id = @ledger_id AND r.request_no < @before
 ORDER BY r.request_no DESC LIMIT @most;

-- name: SupportRequestsOf :many
-- The last requests of a transfer before a number.
SELECT r.request_no FROM support_refund_request r
 WHERE r.ledger_id = @ledger_id AND r.original = @original AND r.request_no < @before
 ORDER BY r.request_no DESC LIMIT @most;

-- name: SupportRequestsStanding :many
-- The requests of some transfers that are posted, or still may be.
SELECT r.request_no
  FROM unnest(@originals::text[]) AS w (original)
       CROSS JOIN LATERAL (SELECT q.request_no, q.expires_at FROM support_refund_request q
                            WHERE q.ledger_id = @ledger_id AND q.original = w.original OFFSET 0) r
       LEFT JOIN support_refund_outcome o ON o.ledger_id = @ledger_id AND o.request_no = r.request_no
       LEFT JOIN support_refund_decision d ON d.ledger_id = @ledger_id AND d.request_no = r.request_no
 WHERE o.outcome = 'posted' OR o.outcome IS NULL AND coalesce(d.verdict, 'approve') = 'approve' AND r.expires_at > clock_timestamp()
 ORDER BY r.request_no;

-- name: SupportLockSuspect :exec
-- Until the end of the transaction: of payments that may be one, one at a time is asked back, or approved. The class of these locks is 4253.
SELECT pg_advisory_xact_lock(4253, mod(@group_no::bigint, 2147483647)::integer);

-- name: SupportRequestsUnsettled :many
-- Requests of a ledger, or of all, that have neither an outcome nor a decision against them, and end after a time. The oldest first, from a place on.
SELECT r.ledger_id, l.name AS ledger, r.request_no, r.expires_at
  FROM support_refund_request r JOIN ledger l ON l.ledger_id = r.ledger_id
 WHERE r.expires_at > clock_timestamp() - make_interval(secs => @over_for::double precision)
   AND (r.expires_at, r.ledger_id, r.request_no) > (@after_at::timestamptz, @after_ledger::integer, @after_no::bigint)
   AND (@ledger_id::integer = 0 OR r.ledger_id = @ledger_id::integer)
   AND NOT EXISTS (SELECT FROM support_refund_outcome o WHERE o.ledger_id = r.ledger_id AND o.request_no = r.request_no)
   AND NOT EXISTS (SELECT FROM support_refund_decision d
                    WHERE d.ledger_id = r.ledger_id AND d.request_no = r.request_no AND d.verdict <> 'approve')
   -- Only those that wait for nothing but to be posted.
   AND (NOT @ready::boolean OR r.approval = 'none'
        OR EXISTS (SELECT FROM support_refund_decision d WHERE d.ledger_id = r.ledger_id AND d.request_no = r.request_no AND d.verdict = 'approve'))
 ORDER BY r.expires_at, r.ledger_id, r.request_no
 LIMIT @most;

-- name: SupportDecisionInsert :exec
INSERT INTO support_refund_decision (ledger_id, request_no, verdict, sha256, note, decided_by, decided_at)
VALUES (@ledger_id, @request_no, @verdict, @sha256, @note, @decided_by, clock_timestamp());

-- name: SupportOutcomeInsert :exec
-- What became of a request, and the audit of it, in the transaction of its transfer: where something else has become of it meanwhile this fails, and the
-- transfer with it.
WITH settled AS (
    INSERT INTO support_refund_outcome (ledger_id, request_no, outcome, transfer_id, code, message)
    VALUES (@ledger_id, @request_no, @outcome, CAST(@transfer_id::text AS text), NULLIF(@code::text, ''), @message)
    RETURNING ledger_id)
INSERT INTO audit_event (ledger_id, event_id, actor, action, object_kind, object_id, address, outcome, detail)
SELECT s.ledger_id, gen_random_uuid(), @actor, 'refund.post', 'transfer', @original, '',
       @audit_outcome, CAST(@detail::text AS json)
  FROM settled s;

-- name: SupportRefusedInsert :exec
-- That the books would not even decide a request, and the audit of it: both, or neither where something is known to have become of it already.
WITH settled AS (
    INSERT INTO support_refund_outcome (ledger_id, request_no, outcome, code, message)
    VALUES (@ledger_id, @request_no, 'refused', @code::text, @message)
    ON CONFLICT (ledger_id, request_no) DO NOTHING
    RETURNING ledger_id)
INSERT INTO audit_event (ledger_id, event_id, actor, action, object_kind, object_id, address, outcome, detail)
SELECT s.ledger_id, gen_random_uuid(), @actor, 'refund.post', 'transfer', @original, '', 'refused', CAST(@detail::text AS json)
  FROM settled s;
