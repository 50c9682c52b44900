-- The queries of internal/journal, the only writer of the books.
--
-- What is looked up by a list of keys is looked up key by key, in a LATERAL that OFFSET 0 keeps apart. As a join, or with
-- ANY, the planner may search a table by ledger alone, and compare every row of it with the list.

-- name: GateShare :exec
-- Every posting holds the gate of its ledger in share mode while it draws numbers and commits. The two-int form of
-- advisory locks has a key space of its own; 4247 is Khata's class in it.
SELECT pg_advisory_xact_lock_shared(4247, @ledger_id::integer);

-- name: GateShareForPosting :many
-- The same, and which run of PostgreSQL and which transaction this is. It says that the gate is held: see trigger transfer_gate.
SELECT pg_postmaster_start_time()::timestamptz AS started, (pg_current_xact_id()::text::bigint & x'ffffffff'::bigint)::bigint AS xid,
       set_config('khata.gate', 'held', true)::text AS gate
  FROM pg_advisory_xact_lock_shared(4247, @ledger_id::integer);

-- name: GateExclude :exec
-- A change of an account's rules holds the gate alone, and so never races with a posting.
SELECT pg_advisory_xact_lock(4247, @ledger_id::integer);

-- name: GateHolders :many
-- Who holds the gate, by virtual transaction: it names one transaction, where a process or connection would not. 0 is that of whoever
-- inserts transfers without Khata, and of no ledger in particular.
SELECT virtualtransaction::text AS holder
  FROM pg_catalog.pg_locks
 WHERE locktype = 'advisory' AND classid = 4247 AND objid IN ((@ledger_id::integer)::oid, 0) AND objsubid = 2 AND granted
   AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database());

-- name: LastSequence :one
-- The last number drawn; the function gives NULL before anything was.
SELECT coalesce(pg_sequence_last_value('journal_sequence'::regclass), 0)::bigint AS last;

-- name: TerminateStuckGateHolders :many
-- The janitor: a backend that has held a gate for too long keeps every close waiting and the horizon from moving.
SELECT a.pid::integer AS pid, pg_terminate_backend(a.pid) AS terminated
  FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.classid = 4247 AND l.objsubid = 2 AND l.granted
   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
   AND a.usename = current_user
   -- One that waits for a synchronous standby has committed: to terminate it would show the commit to everybody unreplicated.
   AND a.wait_event IS DISTINCT FROM 'SyncRep'
   AND a.xact_start < clock_timestamp() - make_interval(secs => @seconds::double precision)
 GROUP BY a.pid;

-- name: RefreshStatistics :exec
SELECT refresh_statistics();

-- name: LedgerInsert :many
INSERT INTO ledger (name, created_by) VALUES (@name, @caller)
ON CONFLICT (name) DO NOTHING
RETURNING ledger_id, name, created_at;

-- name: LedgerByName :one
SELECT ledger_id, name, created_at FROM ledger WHERE name = @name;

-- name: LedgerList :many
SELECT ledger_id, name, created_at FROM ledger ORDER BY name;

-- name: CurrencyInsert :exec
INSERT INTO currency (ledger_id, code, scale)
SELECT @ledger_id, n.code, n.scale
  FROM (SELECT unnest(@codes::text[]) AS code, unnest(@scales::smallint[]) AS scale) n
 ORDER BY n.code
ON CONFLICT (ledger_id, code) DO NOTHING;

-- name: CurrencyList :many
SELECT code, scale FROM currency WHERE ledger_id = @ledger_id ORDER BY code;

-- name: CurrencyByCode :many
SELECT code, scale FROM currency WHERE ledger_id = @ledger_id AND code = ANY (@codes::text[]);

-- name: AccountInsert :many
-- The order is fixed here, not by the client: two calls that create the same accounts in opposite order would deadlock.
INSERT INTO account (ledger_id, account_id, type, currency, scale, name, metadata, floor, ceiling, serialised, changed_by)
SELECT @ledger_id, n.account_id, n.type, n.currency, n.scale, n.name, NULLIF(n.metadata, '')::json,
       NULLIF(n.floor, '')::numeric, NULLIF(n.ceiling, '')::numeric, n.serialised, @caller
  FROM (SELECT unnest(@account_ids::text[]) AS account_id, unnest(@types::text[]) AS type,
               unnest(@currencies::text[]) AS currency, unnest(@scales::smallint[]) AS scale,
               unnest(@names::text[]) AS name, unnest(@metadatas::text[]) AS metadata,
               unnest(@floors::text[]) AS floor, unnest(@ceilings::text[]) AS ceiling, unnest(@serialiseds::boolean[]) AS serialised) n
 ORDER BY n.account_id
ON CONFLICT (ledger_id, account_id) DO NOTHING
RETURNING account_id;

-- name: AccountList :many
SELECT account_no, account_id, type, currency, scale, name, coalesce(metadata::text, '')::text AS metadata, floor,
       ceiling, serialised, frozen, closed, created_at, version, changed_at
  FROM account
 WHERE ledger_id = @ledger_id AND account_id > @after
       -- As a range too, which the index can find. No id has a character above 0x7E.
   AND account_id >= @prefix AND account_id < @prefix || E'\x7f' AND starts_with(account_id, @prefix)
 ORDER BY account_id
 LIMIT @page_size;

-- name: AccountsByID :many
SELECT a.account_no, a.account_id, a.type, a.currency, a.scale, a.name, coalesce(a.metadata::text, '')::text AS metadata,
       a.floor, a.ceiling, a.serialised, a.frozen, a.closed, a.created_at, a.version, a.changed_at
  FROM (SELECT unnest(@account_ids::text[]) AS wanted) w
       CROSS JOIN LATERAL (SELECT * FROM account b
                            WHERE b.ledger_id = @ledger_id AND b.account_id = w.wanted OFFSET 0) a;

-- name: AccountsAsCreated :many
-- The first state of each account, which a repeated request to create it is compared with.
SELECT DISTINCT ON (c.account_no)
       a.account_id, c.type, c.currency, c.scale, c.name, coalesce(c.metadata::text, '')::text AS metadata, c.floor,
       c.ceiling, c.serialised
  FROM (SELECT unnest(@account_ids::text[]) AS wanted) w
       CROSS JOIN LATERAL (SELECT b.ledger_id, b.account_no, b.account_id FROM account b
                            WHERE b.ledger_id = @ledger_id AND b.account_id = w.wanted OFFSET 0) a
       CROSS JOIN LATERAL (SELECT * FROM account_change d
                            WHERE d.ledger_id = a.ledger_id AND d.account_no = a.account_no OFFSET 0) c
 ORDER BY c.account_no, c.sequence;

-- name: AccountIDs :many
SELECT a.account_no, a.account_id, a.type, a.currency, a.scale
  FROM (SELECT unnest(@account_nos::bigint[]) AS wanted) w
       CROSS JOIN LATERAL (SELECT * FROM account b
                            WHERE b.ledger_id = @ledger_id AND b.account_no = w.wanted OFFSET 0) a;

-- name: AccountUpdate :one
UPDATE account
   SET name = @name, metadata = NULLIF(@metadata::text, '')::json, floor = NULLIF(@floor::text, '')::numeric,
       ceiling = NULLIF(@ceiling::text, '')::numeric,
       serialised = @serialised, frozen = @frozen, closed = @closed, changed_by = @caller
 WHERE ledger_id = @ledger_id AND account_no = @account_no
RETURNING version, changed_at;

-- name: AccountLock :exec
-- One change of an account at a time. A change of name holds the gate only in share mode.
SELECT account_no FROM account WHERE ledger_id = @ledger_id AND account_id = @account_id FOR NO KEY UPDATE;

-- name: AccountsLockSerialised :many
-- Accounts with a floor take one posting at a time; others are not locked at all. Everybody locks in the order of the ids,
-- which the loop over the sorted list keeps.
SELECT a.account_no
  FROM (SELECT unnest(@account_ids::text[]) COLLATE "C" AS wanted ORDER BY 1) w
       CROSS JOIN LATERAL (SELECT b.account_no FROM account b
                            WHERE b.ledger_id = @ledger_id AND b.account_id = w.wanted AND b.serialised
                              FOR NO KEY UPDATE) a;

-- name: AccountsForPosting :many
-- What deciding needs of the accounts: their rules and, where there is a floor or a ceiling, the sum of their entries, what is held,
-- and the last number of either.
SELECT a.account_no, a.account_id, a.type, a.currency, a.scale, a.floor, a.ceiling, a.serialised, a.frozen, a.closed, a.version,
       coalesce(s.sum, 0)::numeric AS sum, coalesce(h.debit, 0)::numeric AS held_debit, coalesce(h.credit, 0)::numeric AS held_credit,
       greatest(s.version, h.version, 0)::bigint AS through
  FROM (SELECT unnest(@account_ids::text[]) AS wanted) w
       CROSS JOIN LATERAL (SELECT * FROM account b
                            WHERE b.ledger_id = @ledger_id AND b.account_id = w.wanted OFFSET 0) a
       -- Without either the number is NULL, and there is nothing to sum. As a condition of the join it would be looked at last.
       CROSS JOIN LATERAL (SELECT CASE WHEN a.floor IS NOT NULL OR a.ceiling IS NOT NULL THEN a.account_no END AS account_no) n
       CROSS JOIN LATERAL balance_through(a.ledger_id, n.account_no, 9223372036854775807) s
       CROSS JOIN LATERAL held_through(a.ledger_id, n.account_no, 9223372036854775807) h;

-- name: LastAccountChange :many
-- The number of the last change of an account. It is at the end of an index, and most batches ask for no more.
SELECT d.sequence FROM account_change d WHERE d.ledger_id = @ledger_id ORDER BY d.sequence DESC LIMIT 1;

-- name: AccountsChangedSince :many
-- The accounts that were made or changed after a number, the latest first.
SELECT c.sequence, a.account_id
  FROM (SELECT d.ledger_id, d.sequence, d.account_no FROM account_change d
         WHERE d.ledger_id = @ledger_id AND d.sequence > @since::bigint
         ORDER BY d.sequence DESC
         LIMIT @most) c
       CROSS JOIN LATERAL (SELECT b.account_id FROM account b
                            WHERE b.ledger_id = c.ledger_id AND b.account_no = c.account_no OFFSET 0) a
 ORDER BY c.sequence DESC;

-- name: PeriodInForce :many
-- The time before which a ledger's books are closed: NULL, or no row, where they are open altogether.
SELECT p.closed_before FROM period_change p WHERE p.ledger_id = @ledger_id ORDER BY p.sequence DESC LIMIT 1;

-- name: PeriodChangeInsert :one
INSERT INTO period_change (ledger_id, closed_before, zone, reason, changed_by)
VALUES (@ledger_id, sqlc.narg(closed_before)::timestamptz, @zone, @reason, @caller)
RETURNING sequence, changed_at;

-- name: PeriodChangeList :many
-- The changes before a number, the last one first, each with how far the books were closed until then.
SELECT p.sequence, p.closed_before, q.closed_before AS previous, p.zone, p.reason, p.changed_by, p.changed_at
  FROM (SELECT * FROM period_change r
         WHERE r.ledger_id = @ledger_id AND r.sequence < @before::bigint
         ORDER BY r.sequence DESC
         LIMIT @page_size) p
       LEFT JOIN LATERAL (SELECT s.closed_before FROM period_change s
                           WHERE s.ledger_id = p.ledger_id AND s.sequence < p.sequence
                           ORDER BY s.sequence DESC LIMIT 1) q ON true
 ORDER BY p.sequence DESC;

-- name: EntriesSince :many
-- For each account, the sums of its entries and hold entries after a number, and the last of them.
SELECT w.account_no::bigint AS account_no, coalesce(s.sum, 0)::numeric AS sum, coalesce(h.debit, 0)::numeric AS held_debit,
       coalesce(h.credit, 0)::numeric AS held_credit, greatest(s.through, h.through)::bigint AS through
  FROM (SELECT unnest(@account_nos::bigint[]) AS account_no, unnest(@throughs::bigint[]) AS since) w
       CROSS JOIN LATERAL (SELECT sum(e.amount) AS sum, max(e.sequence) AS through
                             FROM entry e
                            WHERE e.ledger_id = @ledger_id AND e.account_no = w.account_no AND e.sequence > w.since) s
       CROSS JOIN LATERAL (SELECT sum(e.debit) AS debit, sum(e.credit) AS credit, max(e.sequence) AS through
                             FROM hold_entry e
                            WHERE e.ledger_id = @ledger_id AND e.account_no = w.account_no AND e.sequence > w.since) h
 WHERE s.through IS NOT NULL OR h.through IS NOT NULL;

-- name: TransfersByID :many
SELECT t.transfer_id, t.sequence, t.posted_at, t.effective_at, t.refusal, t.refused_account_no, t.account_nos, t.amounts,
       coalesce(t.description, '')::text AS description, coalesce(t.metadata::text, '')::text AS metadata, t.caller,
       coalesce(t.kind, '')::text AS kind, coalesce(t.origin, '')::text AS origin, coalesce(t.ordinal, 0)::integer AS ordinal,
       coalesce(t.ends, false)::boolean AS ends, t.reserved, t.deadline, coalesce(t.terms::text, '')::text AS terms,
       coalesce(t.atomic, false)::boolean AS atomic, t.xid::bigint AS xid
  FROM (SELECT unnest(@transfer_ids::text[]) AS wanted) w
       CROSS JOIN LATERAL (SELECT *, u.xmin::text::bigint AS xid FROM transfer u
                            WHERE u.ledger_id = @ledger_id AND u.transfer_id = w.wanted OFFSET 0) t;

-- name: StepsOf :many
-- The posted steps of transfers, in their order.
SELECT t.transfer_id, t.sequence, t.posted_at, t.effective_at, t.refusal, t.refused_account_no, t.account_nos, t.amounts,
       coalesce(t.description, '')::text AS description, coalesce(t.metadata::text, '')::text AS metadata, t.caller,
       coalesce(t.kind, '')::text AS kind, coalesce(t.origin, '')::text AS origin, coalesce(t.ordinal, 0)::integer AS ordinal,
       coalesce(t.ends, false)::boolean AS ends, t.reserved, t.deadline, coalesce(t.terms::text, '')::text AS terms,
       coalesce(t.atomic, false)::boolean AS atomic, t.xid::bigint AS xid
  FROM (SELECT unnest(@origins::text[]) AS wanted) w
       CROSS JOIN LATERAL (SELECT *, u.xmin::text::bigint AS xid FROM transfer u
                            WHERE u.ledger_id = @ledger_id AND u.origin = w.wanted AND u.ordinal IS NOT NULL OFFSET 0) t
 ORDER BY t.origin, t.ordinal;

-- name: LockOrigins :exec
-- Steps of one transfer are decided one after the other, also where none of its accounts is locked. The unique keys would see to it,
-- but who loses has to try again. 4249 is the class of these locks; two origins of one hash wait for each other in vain.
SELECT pg_advisory_xact_lock(4249, w.hash)
  FROM (SELECT DISTINCT unnest(@hashes::integer[]) AS hash ORDER BY 1) w;

-- name: HoldsDue :many
-- The open holds whose deadline has passed, after one of them, the longest first. A sequence is of one ledger only.
SELECT h.ledger_id, t.transfer_id, h.deadline, h.sequence
  FROM open_hold h
       CROSS JOIN LATERAL (SELECT u.transfer_id FROM transfer u
                            WHERE u.ledger_id = h.ledger_id AND u.sequence = h.sequence OFFSET 0) t
 WHERE h.deadline <= clock_timestamp() AND (h.deadline, h.sequence) > (@deadline::timestamptz, @sequence::bigint)
 ORDER BY h.deadline, h.sequence
 LIMIT @at_most;

-- name: TransferSizes :many
-- How many entries transfers have, posted or not.
SELECT t.transfer_id, cardinality(t.account_nos)::integer AS entries
  FROM (SELECT unnest(@transfer_ids::text[]) AS wanted) w
       CROSS JOIN LATERAL (SELECT u.transfer_id, u.account_nos FROM transfer u
                            WHERE u.ledger_id = @ledger_id AND u.transfer_id = w.wanted OFFSET 0) t;

-- name: OpenHolds :many
-- The open holds of an account after a number, in the order of decision.
SELECT t.transfer_id, h.sequence, h.deadline
  FROM (SELECT o.ledger_id, o.sequence, o.deadline FROM open_hold o
         WHERE o.ledger_id = @ledger_id AND o.debit_no = @account_no AND o.sequence > @after::bigint
        UNION ALL
        SELECT o.ledger_id, o.sequence, o.deadline FROM open_hold o
         WHERE o.ledger_id = @ledger_id AND o.credit_no = @account_no AND o.sequence > @after::bigint) h
       CROSS JOIN LATERAL (SELECT u.transfer_id FROM transfer u
                            WHERE u.ledger_id = h.ledger_id AND u.sequence = h.sequence OFFSET 0) t
 ORDER BY h.sequence
 LIMIT @page_size;

-- name: TransferInsert :many
-- A number and a time for each, in the order of decision; then the rows in the order of the key, so that two servers
-- with the same ids in opposite order wait for each other in one direction only. An id that exists fails the statement:
-- what was decided counted on its being new.
--
-- Most transfers are a debit and a credit of one amount, and their entries are made of these three. Those of others come as text,
-- since arrays of arrays would all have to have the same length. An array that is NULL is as one of NULLs.
INSERT INTO transfer (ledger_id, transfer_id, sequence, posted_at, effective_at, refusal, refused_account_no,
                      account_nos, amounts, description, metadata, caller,
                      kind, origin, ordinal, ends, reserved, deadline, terms, atomic)
SELECT @ledger_id, d.transfer_id, d.sequence, d.posted_at, NULLIF(d.effective_at, '')::timestamptz,
       NULLIF(d.refusal, ''), NULLIF(d.refused_account_no, 0),
       CASE WHEN d.debit_no > 0 THEN ARRAY[d.debit_no, d.credit_no] ELSE d.account_nos::bigint[] END,
       CASE WHEN d.debit_no > 0 THEN ARRAY[d.amount::numeric, -d.amount::numeric] ELSE d.amounts::numeric[] END,
       NULLIF(d.description, ''), NULLIF(d.metadata, '')::json, coalesce(NULLIF(d.caller, ''), @caller::text),
       NULLIF(d.kind, ''), NULLIF(d.origin, ''), NULLIF(d.ordinal, 0), NULLIF(d.ends, false), NULLIF(d.reserved, '')::numeric,
       CASE WHEN d.expires_after > 0 THEN d.posted_at + d.expires_after * interval '1 microsecond'
            ELSE NULLIF(d.expires_at, '')::timestamptz END,
       NULLIF(d.terms, '')::json, NULLIF(d.atomic, false)
  FROM (SELECT nextval('journal_sequence') AS sequence, clock_timestamp() AS posted_at, n.*
          FROM (SELECT unnest(@transfer_ids::text[]) AS transfer_id, unnest(@effective_ats::text[]) AS effective_at,
                       unnest(@refusals::text[]) AS refusal, unnest(@refused_account_nos::bigint[]) AS refused_account_no,
                       unnest(@debit_nos::bigint[]) AS debit_no, unnest(@credit_nos::bigint[]) AS credit_no,
                       unnest(@pair_amounts::text[]) AS amount,
                       unnest(@account_nos::text[]) AS account_nos, unnest(@amounts::text[]) AS amounts,
                       unnest(@descriptions::text[]) AS description, unnest(@metadatas::text[]) AS metadata,
                       unnest(@callers::text[]) AS caller, unnest(@kinds::text[]) AS kind, unnest(@origins::text[]) AS origin,
                       unnest(@ordinals::integer[]) AS ordinal, unnest(@ends::boolean[]) AS ends, unnest(@reserveds::text[]) AS reserved,
                       unnest(@expires_ats::text[]) AS expires_at, unnest(@expires_afters::bigint[]) AS expires_after,
                       unnest(@terms::text[]) AS terms, unnest(@atomics::boolean[]) AS atomic) n) d
 ORDER BY d.transfer_id
RETURNING transfer_id, sequence, posted_at;

-- name: WaitForStandby :exec
-- A commit that wrote nothing does not wait for a synchronous standby, and the transfers that it answers for may not be
-- there yet. A message in the log makes it wait.
SELECT CASE WHEN current_setting('synchronous_standby_names') <> ''
            THEN pg_logical_emit_message(true, 'khata', '')::text END AS position;

-- name: EntriesAscending :many
SELECT e.sequence, e.leg, e.amount, t.transfer_id, t.posted_at, t.effective_at,
       coalesce(t.description, '')::text AS description
  FROM (SELECT * FROM entry f
         WHERE f.ledger_id = @ledger_id AND f.account_no = @account_no
           AND (f.sequence, f.leg) > (@sequence::bigint, @leg::smallint) AND f.sequence <= @horizon::bigint
         ORDER BY f.sequence, f.leg
         LIMIT @page_size) e
       CROSS JOIN LATERAL (SELECT * FROM transfer u
                            WHERE u.ledger_id = e.ledger_id AND u.sequence = e.sequence OFFSET 0) t
 ORDER BY e.sequence, e.leg;

-- name: EntriesDescending :many
SELECT e.sequence, e.leg, e.amount, t.transfer_id, t.posted_at, t.effective_at,
       coalesce(t.description, '')::text AS description
  FROM (SELECT * FROM entry f
         WHERE f.ledger_id = @ledger_id AND f.account_no = @account_no
           AND (f.sequence, f.leg) < (@sequence::bigint, @leg::smallint) AND f.sequence <= @horizon::bigint
         ORDER BY f.sequence DESC, f.leg DESC
         LIMIT @page_size) e
       CROSS JOIN LATERAL (SELECT * FROM transfer u
                            WHERE u.ledger_id = e.ledger_id AND u.sequence = e.sequence OFFSET 0) t
 ORDER BY e.sequence DESC, e.leg DESC;

-- name: LedgersAfter :many
-- The ledgers that have a record after a number, each ledger its own (0 where none is given), and since when they have.
SELECT l.ledger_id, l.name, r.at::timestamptz AS at
  FROM ledger l
       LEFT JOIN (SELECT unnest(@ledger_ids::integer[]) AS ledger_id, unnest(@afters::bigint[]) AS after) c ON c.ledger_id = l.ledger_id
       CROSS JOIN LATERAL (SELECT min(f.at) AS at
                             FROM ((SELECT t.posted_at AS at FROM transfer t
                                     WHERE t.ledger_id = l.ledger_id AND t.sequence > coalesce(c.after, 0)
                                     ORDER BY t.sequence LIMIT 1)
                                   UNION ALL
                                   (SELECT d.changed_at FROM account_change d
                                     WHERE d.ledger_id = l.ledger_id AND d.sequence > coalesce(c.after, 0)
                                     ORDER BY d.sequence LIMIT 1)) f) r
 WHERE r.at IS NOT NULL
 ORDER BY l.ledger_id;

-- name: RecordsBetween :one
-- How many records a ledger has after a number, through another one.
SELECT ((SELECT count(*) FROM transfer t WHERE t.ledger_id = @ledger_id AND t.sequence > @after AND t.sequence <= @through)
        + (SELECT count(*) FROM account_change d WHERE d.ledger_id = @ledger_id AND d.sequence > @after AND d.sequence <= @through))::bigint AS records;

-- name: MarkSince :one
-- The last mark through which nothing was posted at or after a time; or, if it comes later, the one after which there are no more than so
-- many. 0 if there is none.
SELECT greatest((SELECT m.horizon FROM mark m WHERE m.ledger_id = @ledger_id AND m.latest < @at
                  ORDER BY m.latest DESC, m.horizon DESC LIMIT 1),
                (SELECT m.horizon FROM mark m WHERE m.ledger_id = @ledger_id ORDER BY m.horizon DESC OFFSET @most::integer LIMIT 1), 0)::bigint AS horizon;

-- name: FeedTransfers :many
-- The transfers of a ledger after a number, through another one: so many at most, and of so many bytes, roughly and but for the last one.
-- Considered is how many there are without the second bound.
SELECT t.transfer_id, t.sequence, t.posted_at, t.effective_at, t.refusal, t.refused_account_no, t.account_nos, t.amounts,
       coalesce(t.description, '')::text AS description, coalesce(t.metadata::text, '')::text AS metadata, t.caller,
       coalesce(t.kind, '')::text AS kind, coalesce(t.origin, '')::text AS origin, coalesce(t.ordinal, 0)::integer AS ordinal,
       coalesce(t.ends, false)::boolean AS ends, t.reserved, t.deadline, coalesce(t.terms::text, '')::text AS terms,
       coalesce(t.atomic, false)::boolean AS atomic, 0::bigint AS xid, t.considered::bigint AS considered
  FROM (SELECT w.*, count(*) OVER () AS considered, sum(w.weight) OVER (ORDER BY w.sequence) - w.weight AS before
          FROM (SELECT u.*, 400 * cardinality(u.account_nos) + coalesce(octet_length(u.metadata::text), 0) AS weight
                  FROM transfer u
                 WHERE u.ledger_id = @ledger_id AND u.sequence > @after AND u.sequence <= @through::bigint
                 ORDER BY u.sequence
                 LIMIT @at_most) w) t
 WHERE t.before < @most_bytes::bigint
 ORDER BY t.sequence;

-- name: FeedTransfersAt :many
-- The transfers of these numbers.
SELECT t.transfer_id, t.sequence, t.posted_at, t.effective_at, t.refusal, t.refused_account_no, t.account_nos, t.amounts,
       coalesce(t.description, '')::text AS description, coalesce(t.metadata::text, '')::text AS metadata, t.caller,
       coalesce(t.kind, '')::text AS kind, coalesce(t.origin, '')::text AS origin, coalesce(t.ordinal, 0)::integer AS ordinal,
       coalesce(t.ends, false)::boolean AS ends, t.reserved, t.deadline, coalesce(t.terms::text, '')::text AS terms,
       coalesce(t.atomic, false)::boolean AS atomic, 0::bigint AS xid
  FROM (SELECT unnest(@sequences::bigint[]) AS wanted) w
       CROSS JOIN LATERAL (SELECT * FROM transfer u
                            WHERE u.ledger_id = @ledger_id AND u.sequence = w.wanted OFFSET 0) t
 ORDER BY t.sequence;

-- name: FeedChanges :many
-- The changes of accounts of a ledger after a number, through another one, each with the state before it: a version of 0 if it is new.
SELECT a.account_no, a.account_id, c.type, c.currency, c.scale, c.name, coalesce(c.metadata::text, '')::text AS metadata, c.floor,
       c.ceiling, c.serialised, c.frozen, c.closed, a.created_at, c.sequence AS version, c.changed_at,
       c.changed_by, coalesce(c.change_id::text, '')::text AS change_id,
       coalesce(p.sequence, 0)::bigint AS before_version, coalesce(p.name, '')::text AS before_name,
       coalesce(p.metadata::text, '')::text AS before_metadata, p.floor AS before_floor, p.ceiling AS before_ceiling,
       coalesce(p.serialised, false)::boolean AS before_serialised, coalesce(p.frozen, '')::text AS before_frozen,
       coalesce(p.closed, false)::boolean AS before_closed
  FROM (SELECT * FROM account_change d
         WHERE d.ledger_id = @ledger_id AND d.sequence > @after AND d.sequence <= @through::bigint
         ORDER BY d.sequence
         LIMIT @at_most) c
       CROSS JOIN LATERAL (SELECT b.account_no, b.account_id, b.created_at FROM account b
                            WHERE b.ledger_id = c.ledger_id AND b.account_no = c.account_no OFFSET 0) a
       LEFT JOIN LATERAL (SELECT * FROM account_change e
                           WHERE e.ledger_id = c.ledger_id AND e.account_no = c.account_no AND e.sequence < c.sequence
                           ORDER BY e.sequence DESC LIMIT 1) p ON true
 ORDER BY c.sequence;
