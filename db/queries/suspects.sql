-- The queries of internal/suspect.

-- name: SuspectTryLock :one
-- One at a time changes what is known of the suspects of a ledger. The class of these locks is 4252. Whoever waits goes first.
SELECT pg_try_advisory_xact_lock(4252, @ledger_id::integer) AS taken;

-- name: SuspectLock :exec
SELECT pg_advisory_xact_lock(4252, @ledger_id::integer);

-- name: SuspectLedger :many
-- The number of a ledger.
SELECT ledger_id FROM ledger WHERE name = @name;

-- name: SuspectCursors :many
SELECT ledger_id, through, moved_at FROM suspect_cursor ORDER BY ledger_id;

-- name: SuspectThrough :one
-- How far a ledger has been followed.
SELECT coalesce(max(through), 0)::bigint AS through FROM suspect_cursor WHERE ledger_id = @ledger_id;

-- name: SuspectAdvance :many
-- Moves the cursor, unless somebody else has.
INSERT INTO suspect_cursor AS c (ledger_id, through) VALUES (@ledger_id, @through)
ON CONFLICT (ledger_id) DO UPDATE SET through = excluded.through, moved_at = clock_timestamp()
 WHERE c.through = @from_number::bigint
RETURNING c.through;

-- name: SuspectEqual :many
-- For each of some payments, those of the window that have the same fingerprint and were posted no more than so long before or after: the latest,
-- so many at most.
SELECT n.place::bigint AS place, w.posted_at, w.sequence
  FROM (SELECT unnest(@fingerprints::bigint[]) AS fingerprint, unnest(@posted_ats::timestamptz[]) AS posted_at,
               generate_series(1, cardinality(@fingerprints::bigint[])) AS place) n
       CROSS JOIN LATERAL (SELECT v.posted_at, v.sequence FROM suspect_window v
                            WHERE v.ledger_id = @ledger_id AND v.fingerprint = n.fingerprint
                              AND v.posted_at >= n.posted_at - make_interval(secs => @seconds::double precision)
                              AND v.posted_at <= n.posted_at + make_interval(secs => @seconds::double precision)
                            ORDER BY v.posted_at DESC, v.sequence DESC
                            LIMIT @at_most) w
 ORDER BY n.place, w.posted_at DESC, w.sequence DESC;

-- name: SuspectWindowInsert :exec
INSERT INTO suspect_window (ledger_id, fingerprint, posted_at, sequence)
SELECT @ledger_id, n.fingerprint, n.posted_at, n.sequence
  FROM (SELECT unnest(@fingerprints::bigint[]) AS fingerprint, unnest(@posted_ats::timestamptz[]) AS posted_at,
               unnest(@sequences::bigint[]) AS sequence) n;

-- name: SuspectWindowTrim :execrows
-- Deletes what was posted before a time, so many rows at most, and in no order: all of it has to go.
DELETE FROM suspect_window w
 WHERE w.ctid = ANY (ARRAY(SELECT v.ctid FROM suspect_window v
                            WHERE v.ledger_id = @ledger_id AND v.posted_at AT TIME ZONE 'UTC' < (SELECT @before::timestamptz) AT TIME ZONE 'UTC'
                            LIMIT @at_most));

-- name: SuspectGroupsOf :many
-- The groups that transfers are in.
SELECT w.sequence::bigint AS sequence, m.group_no
  FROM (SELECT unnest(@sequences::bigint[]) AS sequence) w
       CROSS JOIN LATERAL (SELECT n.group_no FROM suspect_member n WHERE n.ledger_id = @ledger_id AND n.sequence = w.sequence OFFSET 0) m
 ORDER BY w.sequence, m.group_no;

-- name: SuspectMembers :many
-- The members of groups.
SELECT m.group_no, m.ordinal, m.sequence, m.posted_at
  FROM (SELECT unnest(@group_nos::bigint[]) AS group_no) w
       CROSS JOIN LATERAL (SELECT * FROM suspect_member n WHERE n.ledger_id = @ledger_id AND n.group_no = w.group_no OFFSET 0) m
 ORDER BY m.group_no, m.ordinal;

-- name: SuspectDecisions :many
-- What was decided of groups.
SELECT d.group_no, d.ordinal, d.dismissed, d.members, d.reason, d.request, d.decided_at, d.decided_by
  FROM (SELECT unnest(@group_nos::bigint[]) AS group_no) w
       CROSS JOIN LATERAL (SELECT * FROM suspect_decision n WHERE n.ledger_id = @ledger_id AND n.group_no = w.group_no OFFSET 0) d
 ORDER BY d.group_no, d.ordinal;

-- name: SuspectNumbers :many
-- Draws numbers for groups.
SELECT nextval('suspect_sequence')::bigint AS number FROM generate_series(1, @how_many::integer);

-- name: SuspectGroupInsert :exec
INSERT INTO suspect_group (ledger_id, group_no)
SELECT @ledger_id, n.group_no FROM (SELECT unnest(@group_nos::bigint[]) AS group_no) n;

-- name: SuspectMemberInsert :exec
INSERT INTO suspect_member (ledger_id, group_no, ordinal, sequence, posted_at)
SELECT @ledger_id, n.group_no, n.ordinal, n.sequence, n.posted_at
  FROM (SELECT unnest(@group_nos::bigint[]) AS group_no, unnest(@ordinals::integer[]) AS ordinal, unnest(@sequences::bigint[]) AS sequence,
               unnest(@posted_ats::timestamptz[]) AS posted_at) n
 ORDER BY n.group_no, n.ordinal;

-- name: SuspectDecisionInsert :exec
INSERT INTO suspect_decision (ledger_id, group_no, ordinal, dismissed, members, reason, request, decided_by)
VALUES (@ledger_id, @group_no, @ordinal, @dismissed, @members, @reason, @request, @decided_by);

-- name: SuspectListDelete :exec
DELETE FROM suspect_list l
 WHERE l.ledger_id = @ledger_id AND l.group_no = ANY (@group_nos::bigint[]);

-- name: SuspectListInsert :exec
-- An empty account is all of them together.
INSERT INTO suspect_list (ledger_id, account_no, state, level, last_at, group_no)
SELECT @ledger_id, CASE WHEN n.account_id = '' THEN 0 ELSE a.account_no END, n.state, n.level, n.last_at, n.group_no
  FROM (SELECT unnest(@account_ids::text[]) AS account_id, unnest(@states::smallint[]) AS state, unnest(@levels::smallint[]) AS level,
               unnest(@last_ats::timestamptz[]) AS last_at, unnest(@group_nos::bigint[]) AS group_no) n
       LEFT JOIN LATERAL (SELECT b.account_no FROM account b
                           WHERE b.ledger_id = @ledger_id AND b.account_id = n.account_id OFFSET 0) a ON true
 ORDER BY 2, n.state, n.level, n.last_at, n.group_no;

-- name: SuspectAccount :many
SELECT account_no FROM account WHERE ledger_id = @ledger_id AND account_id = @account_id;

-- name: SuspectPage :many
-- Groups of these states and levels, in which an account takes part (0: any), the latest first, from a place in the list on and down to a time.
-- Each state and level is an end of the index.
SELECT s.group_no, s.last_at
  FROM (SELECT unnest(@states::smallint[]) AS state) st
       CROSS JOIN (SELECT unnest(@levels::smallint[]) AS level) lv
       CROSS JOIN LATERAL (SELECT l.group_no, l.last_at FROM suspect_list l
                            WHERE l.ledger_id = @ledger_id AND l.account_no = @account_no AND l.state = st.state AND l.level = lv.level
                              AND (l.last_at, l.group_no) < (@before_at::timestamptz, @before_no::bigint) AND l.last_at >= @since::timestamptz
                            ORDER BY l.last_at DESC, l.group_no DESC
                            LIMIT @page_size) s
 ORDER BY s.last_at DESC, s.group_no DESC
 LIMIT @page_size;
