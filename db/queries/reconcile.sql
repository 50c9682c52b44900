-- The queries of internal/reconcile, the only writer of its tables. What "as of a number" means: rows with numbers up to it, and of the matches those
-- that were not undone up to it. Amounts are positive where they are in the account holder's favour.

-- name: ReconcileLock :exec
-- One at a time decides about a bank account. The class of these locks is 4251.
SELECT pg_advisory_xact_lock(4251, @bank_account_no::integer);

-- name: ReconcileTryLock :one
-- The same for whoever must not wait: a batch of the journal, with others in it.
SELECT pg_try_advisory_xact_lock(4251, @bank_account_no::integer) AS locked;

-- name: ReconcileIsUndone :one
SELECT EXISTS (SELECT FROM reconcile_undo u WHERE u.match_no = @match_no AND u.ledger_id = @ledger_id) AS undone;

-- name: ReconcileNumbers :many
-- Draws numbers, behind the lock.
SELECT nextval('reconcile_sequence')::bigint AS number FROM generate_series(1, @how_many::integer);

-- name: ReconcileRunNumber :one
-- Draws the number of a run, which need not be behind the lock.
SELECT nextval('reconcile_sequence')::bigint AS number;

-- name: ReconcileNow :one
-- The state of a bank account: the last number that it has, of lines and decisions; where the last run begins to have open items, and what was undone
-- since below that; and the last day that its files cover. It is one statement, so all of it is of one moment: a run that is kept meanwhile settles
-- what is open as of an earlier number.
SELECT greatest(coalesce((SELECT max(l.line_no) FROM bank_line l WHERE l.ledger_id = @ledger_id AND l.bank_account_no = @bank_account_no), 0),
                coalesce((SELECT max(s.statement_no) FROM bank_statement s
                           WHERE s.ledger_id = @ledger_id AND s.bank_account_no = @bank_account_no), 0),
                coalesce((SELECT max(m.match_no) FROM reconcile_match m WHERE m.ledger_id = @ledger_id AND m.bank_account_no = @bank_account_no), 0),
                coalesce((SELECT max(u.undo_no) FROM reconcile_undo u WHERE u.ledger_id = @ledger_id AND u.bank_account_no = @bank_account_no), 0),
                coalesce((SELECT max(i.number) FROM reconcile_item i
                           WHERE i.ledger_id = @ledger_id AND i.bank_account_no = @bank_account_no AND i.posts_difference), 0))::bigint AS newest,
       coalesce(least(r.settled_line, u.line_no - 1), 0)::bigint AS line, coalesce(least(r.settled_entry, u.sequence - 1), 0)::bigint AS entry,
       (SELECT max(s.covers_on) FROM bank_statement s WHERE s.ledger_id = @ledger_id AND s.bank_account_no = @bank_account_no)::date AS covers
  FROM (SELECT) one
       LEFT JOIN LATERAL (SELECT * FROM reconcile_run n WHERE n.ledger_id = @ledger_id AND n.bank_account_no = @bank_account_no
                           ORDER BY n.ordinal DESC LIMIT 1) r ON true
       LEFT JOIN LATERAL (SELECT min(i.line_no) AS line_no, min(i.sequence) AS sequence
                            FROM reconcile_undo d
                                 CROSS JOIN LATERAL (SELECT * FROM reconcile_item k
                                                      WHERE k.ledger_id = d.ledger_id AND k.match_no = d.match_no OFFSET 0) i
                           WHERE d.ledger_id = r.ledger_id AND d.bank_account_no = r.bank_account_no AND d.undo_no > r.as_of) u ON true;

-- name: BankProfileLast :many
SELECT p.ledger_id, p.name, p.version, p.content::text AS content, p.saved_at, p.saved_by
  FROM bank_profile p JOIN ledger l USING (ledger_id)
 WHERE l.name = @ledger AND p.name = @name AND (@version::integer = 0 OR p.version = @version::integer)
 ORDER BY p.version DESC LIMIT 1;

-- name: BankProfileInsert :one
INSERT INTO bank_profile (ledger_id, name, version, content, saved_by)
SELECT l.ledger_id, @name::text, @version::integer, (@content::text)::json, @caller::text FROM ledger l WHERE l.name = @ledger
RETURNING saved_at;

-- name: BankProfileList :many
-- The last version of each.
SELECT DISTINCT ON (p.name) p.name, p.version, p.content::text AS content, p.saved_at, p.saved_by
  FROM bank_profile p JOIN ledger l USING (ledger_id)
 WHERE l.name = @ledger
 ORDER BY p.name, p.version DESC;

-- name: BankLedgerAccount :one
SELECT l.ledger_id, a.account_no
  FROM ledger l
       CROSS JOIN LATERAL (SELECT * FROM account b WHERE b.ledger_id = l.ledger_id AND b.account_id = @account_id OFFSET 0) a
 WHERE l.name = @ledger;

-- name: BankAccountInsert :many
INSERT INTO bank_account (ledger_id, name, account_no, money_in, basis, zone, begins_on, forward_through, forward, created_by)
VALUES (@ledger_id, @name, @account_no, @money_in, @basis, @zone, @begins_on, @forward_through, @forward, @caller)
ON CONFLICT DO NOTHING
RETURNING bank_account_no;

-- name: BankAccountList :many
-- The bank accounts of a ledger, or the one of a name, or that of an account, each with its first and its last settings.
SELECT b.ledger_id, b.bank_account_no, b.name, b.account_no, a.account_id, a.type, a.currency, a.scale, b.money_in, b.basis, b.zone, b.begins_on,
       b.forward_through, b.forward, b.created_at, b.created_by, s.version, s.content::text AS content, s.changed_at, s.changed_by,
       f.content::text AS first
  FROM bank_account b
       JOIN ledger l USING (ledger_id)
       CROSS JOIN LATERAL (SELECT * FROM account c WHERE c.ledger_id = b.ledger_id AND c.account_no = b.account_no OFFSET 0) a
       CROSS JOIN LATERAL (SELECT * FROM bank_setting t WHERE t.ledger_id = b.ledger_id AND t.bank_account_no = b.bank_account_no
                            ORDER BY t.version DESC LIMIT 1) s
       JOIN bank_setting f ON f.ledger_id = b.ledger_id AND f.bank_account_no = b.bank_account_no AND f.version = 1
 WHERE l.name = @ledger AND (@name::text = '' OR b.name = @name::text) AND (@account_no::bigint = 0 OR b.account_no = @account_no::bigint)
 ORDER BY b.name;

-- name: BankSettingInsert :exec
INSERT INTO bank_setting (ledger_id, bank_account_no, version, content, changed_by)
VALUES (@ledger_id, @bank_account_no, @version, (@content::text)::json, @caller);

-- name: BankSetting :one
SELECT s.content::text AS content
  FROM bank_setting s WHERE s.ledger_id = @ledger_id AND s.bank_account_no = @bank_account_no AND s.version = @version;

-- name: BankFileBySHA :many
SELECT f.file_no FROM bank_file f
 WHERE f.ledger_id = @ledger_id AND f.bank_account_no = @bank_account_no AND f.sha256 = @sha256;

-- name: BankFileInsert :one
INSERT INTO bank_file (ledger_id, bank_account_no, sha256, archive, name, member, format, profile, profile_version, checks, imported_by)
VALUES (@ledger_id, @bank_account_no, @sha256, @archive, @name, @member, @format, @profile, @profile_version, (@checks::text)::json, @caller)
RETURNING file_no;

-- name: BankFileList :many
-- The files of a bank account, the newest first, before a number; or one of them.
SELECT f.file_no, f.sha256, f.archive, f.name, f.member, f.format, f.profile, f.profile_version, f.checks::text AS checks,
       f.imported_at, f.imported_by
  FROM bank_file f
 WHERE f.ledger_id = @ledger_id AND f.bank_account_no = @bank_account_no AND f.file_no < @before::bigint
   AND (@file_no::bigint = 0 OR f.file_no = @file_no::bigint)
 ORDER BY f.file_no DESC LIMIT @page_size;

-- name: BankStatementsOf :many
-- The statements of some files, in their order.
SELECT s.statement_no, s.file_no, s.ordinal, s.statement_id, s.label, s.number, s.from_on, s.to_on, s.opening, s.closing,
       s.balances::text AS balances, s.checks::text AS checks, s.flags::text AS flags, s.lines, s.added, s.added_sum,
       s.balance, s.covers_on, s.anchored
  FROM unnest(@file_nos::bigint[]) AS n (file_no)
       CROSS JOIN LATERAL (SELECT * FROM bank_statement t WHERE t.ledger_id = @ledger_id AND t.bank_account_no = @bank_account_no
                                                            AND t.file_no = n.file_no OFFSET 0) s
 ORDER BY s.file_no, s.ordinal;

-- name: BankStatementLast :many
-- The state after the last statement, and the number of the last one that has one.
SELECT s.balance, s.covers_on, s.anchored, coalesce(n.number, 0)::bigint AS number, coalesce(n.label, '')::text AS label
  FROM (SELECT * FROM bank_statement t WHERE t.ledger_id = @ledger_id AND t.bank_account_no = @bank_account_no ORDER BY t.statement_no DESC LIMIT 1) s
       LEFT JOIN LATERAL (SELECT t.number, t.label FROM bank_statement t
                           WHERE t.ledger_id = s.ledger_id AND t.bank_account_no = s.bank_account_no AND t.number > 0 AND (t.added > 0 OR t.lines = 0)
                           ORDER BY t.statement_no DESC LIMIT 1) n ON true;

-- name: BankLineFirst :one
-- The day of the earliest line; NULL if there is none.
SELECT min(l.booked_on)::date AS first FROM bank_line l WHERE l.ledger_id = @ledger_id AND l.bank_account_no = @bank_account_no;

-- name: BankStatementAgain :many
-- A statement that was imported before, and says the same of itself.
SELECT s.statement_no, f.file_no, f.name, f.imported_at, f.imported_by
  FROM bank_statement s
       JOIN bank_file f ON f.ledger_id = s.ledger_id AND f.bank_account_no = s.bank_account_no AND f.file_no = s.file_no
 WHERE s.ledger_id = @ledger_id AND s.bank_account_no = @bank_account_no
   AND (s.label = @label::text AND @label::text <> '' OR s.statement_id = @statement_id::text AND @statement_id::text <> '')
   AND s.from_on IS NOT DISTINCT FROM sqlc.narg('from_on')::date AND s.to_on IS NOT DISTINCT FROM sqlc.narg('to_on')::date
   AND s.opening IS NOT DISTINCT FROM sqlc.narg('opening')::numeric AND s.closing IS NOT DISTINCT FROM sqlc.narg('closing')::numeric
 ORDER BY s.statement_no LIMIT 1;

-- name: BankStatementInsert :exec
INSERT INTO bank_statement (ledger_id, bank_account_no, statement_no, file_no, ordinal, statement_id, label, number, from_on, to_on, opening,
                            closing, balances, checks, flags, lines, added, added_sum, balance, covers_on, anchored)
VALUES (@ledger_id, @bank_account_no, @statement_no, @file_no, @ordinal, @statement_id, @label, @number, @from_on, @to_on, @opening, @closing,
        (@balances::text)::json, (@checks::text)::json, (@flags::text)::json, @lines, @added, @added_sum, @balance, @covers_on, @anchored);

-- name: BankLinesKnown :many
-- Which of some identities the bank account has.
SELECT l.identity
  FROM unnest(@identities::text[]) AS w (wanted)
       CROSS JOIN LATERAL (SELECT * FROM bank_line k WHERE k.ledger_id = @ledger_id AND k.identity = w.wanted OFFSET 0) l
 WHERE l.bank_account_no = @bank_account_no::integer;

-- name: BankLineOccurrences :many
-- How often each of some lines has occurred.
SELECT w.base::text AS base, count(*) AS occurrences
  FROM unnest(@bases::text[]) AS w (base)
       CROSS JOIN LATERAL (SELECT * FROM bank_line k
                            WHERE k.ledger_id = @ledger_id AND k.identity >= w.base || '#' AND k.identity < w.base || '$' OFFSET 0) l
 WHERE l.bank_account_no = @bank_account_no::integer AND l.kind = 'line'
 GROUP BY w.base;

-- name: ReconcileLines :many
-- The lines that count, by day, each with what matches have taken of it as of a number. A detail comes with the references of its line.
SELECT l.line_no, l.kind, l.booked_on, l.amount, l.external_id, l.refs::text AS refs, l.description, l.identity,
       coalesce(l.parent_no, 0)::bigint AS parent_no, coalesce(p.refs::text, '')::text AS parent_refs,
       coalesce(p.external_id, '')::text AS parent_id, t.taken::numeric AS taken
  FROM bank_line l
       LEFT JOIN LATERAL (SELECT * FROM bank_line k WHERE k.ledger_id = l.ledger_id AND k.line_no = l.parent_no OFFSET 0) p ON true
       CROSS JOIN LATERAL (SELECT coalesce(sum(i.amount), 0) AS taken FROM reconcile_item i
                            WHERE i.ledger_id = l.ledger_id AND i.line_no = l.line_no
                              AND i.number <= @as_of::bigint
                              AND NOT EXISTS (SELECT FROM reconcile_undo u
                                               WHERE u.ledger_id = i.ledger_id AND u.match_no = i.match_no AND u.undo_no + 0 <= @as_of::bigint)
                           OFFSET 0) t
 WHERE l.ledger_id = @ledger_id AND l.bank_account_no = @bank_account_no AND l.line_no > @since::bigint AND l.line_no <= @as_of::bigint AND l.counts
 ORDER BY l.booked_on, l.line_no;

-- name: ReconcileTaken :many
-- What matches have taken of entries as of a number, in the order of the entries.
SELECT i.sequence::bigint AS sequence, i.leg::smallint AS leg, sum(i.amount)::numeric AS taken
  FROM reconcile_item i
 WHERE i.ledger_id = @ledger_id AND i.bank_account_no = @bank_account_no AND i.sequence > @since::bigint AND i.sequence <= @through::bigint
   AND i.number <= @as_of::bigint
   AND NOT EXISTS (SELECT FROM reconcile_undo u WHERE u.ledger_id = i.ledger_id AND u.match_no = i.match_no AND u.undo_no + 0 <= @as_of::bigint)
 GROUP BY i.sequence, i.leg
 ORDER BY i.sequence, i.leg;

-- name: ReconcileUndone :many
-- The items of matches that were undone after one number, as of another.
SELECT i.match_no, coalesce(i.line_no, 0)::bigint AS line_no, coalesce(i.sequence, 0)::bigint AS sequence, coalesce(i.leg, 0)::smallint AS leg,
       (i.line_no IS NOT NULL)::boolean AS is_line
  FROM reconcile_undo u
       CROSS JOIN LATERAL (SELECT * FROM reconcile_item k WHERE k.ledger_id = u.ledger_id AND k.match_no = u.match_no OFFSET 0) i
 WHERE u.ledger_id = @ledger_id AND u.bank_account_no = @bank_account_no AND u.undo_no > @after::bigint AND u.undo_no <= @as_of::bigint
   AND NOT i.posts_difference
 ORDER BY i.match_no, i.item_no;

-- name: ReconcileTotals :one
-- As of a number: all lines that count, and what is taken of lines and entries by matches and by what is ignored; with what a run has matched itself.
SELECT (SELECT count(*) FROM bank_line l WHERE l.ledger_id = @ledger_id AND l.bank_account_no = @bank_account_no AND l.line_no <= @as_of::bigint
                                           AND l.counts)::bigint AS lines,
       (SELECT coalesce(sum(l.amount), 0) FROM bank_line l WHERE l.ledger_id = @ledger_id AND l.bank_account_no = @bank_account_no
                                                             AND l.line_no <= @as_of::bigint AND l.counts)::numeric AS lines_sum,
       t.matched_lines::numeric AS matched_lines, t.ignored_lines::numeric AS ignored_lines, t.matched_entries::numeric AS matched_entries,
       t.ignored_entries::numeric AS ignored_entries
  FROM (SELECT coalesce(sum(i.amount) FILTER (WHERE i.line_no IS NOT NULL AND m.kind <> 'ignored'), 0) AS matched_lines,
               coalesce(sum(i.amount) FILTER (WHERE i.line_no IS NOT NULL AND m.kind = 'ignored'), 0) AS ignored_lines,
               coalesce(sum(i.amount) FILTER (WHERE i.sequence IS NOT NULL AND m.kind <> 'ignored'), 0) AS matched_entries,
               coalesce(sum(i.amount) FILTER (WHERE i.sequence IS NOT NULL AND m.kind = 'ignored'), 0) AS ignored_entries
          FROM reconcile_match m
               CROSS JOIN LATERAL (SELECT * FROM reconcile_item k WHERE k.ledger_id = m.ledger_id AND k.match_no = m.match_no OFFSET 0) i
         WHERE m.ledger_id = @ledger_id AND m.bank_account_no = @bank_account_no
           AND (i.number <= @as_of::bigint OR m.run_no = @run_no::bigint)
           AND (i.sequence IS NULL OR i.sequence <= @through::bigint)
           AND NOT EXISTS (SELECT FROM reconcile_undo u
                            WHERE u.ledger_id = m.ledger_id AND u.match_no = m.match_no AND u.undo_no + 0 <= @as_of::bigint)) t;

-- name: BankLineNames :many
-- The references of some lines.
SELECT l.line_no, l.external_id, l.refs::text AS refs
  FROM unnest(@line_nos::bigint[]) AS n (line_no)
       CROSS JOIN LATERAL (SELECT * FROM bank_line k WHERE k.ledger_id = @ledger_id AND k.line_no = n.line_no OFFSET 0) l
 WHERE l.bank_account_no = @bank_account_no::integer;

-- name: BankCovers :one
-- The last day that the files of a bank account cover, as of a number.
SELECT max(s.covers_on)::date AS covers FROM bank_statement s
 WHERE s.ledger_id = @ledger_id AND s.bank_account_no = @bank_account_no AND s.statement_no <= @as_of;

-- name: ReconcileRunInsert :one
INSERT INTO reconcile_run (ledger_id, bank_account_no, run_no, ordinal, request, as_of, through, setting_version, since_line, since_entry,
                           settled_line, settled_entry, covers_on, confirmed, results, summary, run_by)
SELECT @ledger_id::integer, @bank_account_no::integer, @run_no::bigint, coalesce(max(r.ordinal), 0) + 1, @request::text, @as_of::bigint,
       @through::bigint, @setting_version::integer, @since_line::bigint, @since_entry::bigint, @settled_line::bigint, @settled_entry::bigint,
       sqlc.narg('covers_on')::date, @confirmed::bigint, @results::bigint, (@summary::text)::json, @caller::text
  FROM reconcile_run r WHERE r.ledger_id = @ledger_id::integer AND r.bank_account_no = @bank_account_no::integer
RETURNING run_no;

-- name: ReconcileRuns :many
-- Runs of a bank account, the newest first, before a place; or one, by its number or its request.
SELECT r.run_no, r.ordinal, r.request, r.as_of, r.through, r.setting_version, r.since_line, r.since_entry, r.settled_line, r.settled_entry,
       r.covers_on, r.confirmed, r.results, r.summary::text AS summary, r.run_at, r.run_by
  FROM reconcile_run r
 WHERE r.ledger_id = @ledger_id AND r.bank_account_no = @bank_account_no AND r.ordinal < @before::integer
   AND (@run_no::bigint = 0 OR r.run_no = @run_no::bigint) AND (@request::text = '' OR r.request = @request::text)
 ORDER BY r.ordinal DESC LIMIT @page_size;

-- name: ReconcileLineStates :many
-- What matches have taken of some lines, and the last decision about each that is active.
SELECT n.line_no::bigint AS line_no, l.counts, l.status, l.kind, l.amount, l.booked_on, t.taken::numeric AS taken,
       coalesce(m.match_no, 0)::bigint AS match_no, coalesce(m.kind, '')::text AS match_kind, coalesce(m.decided_by, '')::text AS decided_by,
       coalesce(m.decided_at, 'epoch')::timestamptz AS decided_at
  FROM unnest(@line_nos::bigint[]) WITH ORDINALITY AS n (line_no, place)
       CROSS JOIN LATERAL (SELECT * FROM bank_line k WHERE k.ledger_id = @ledger_id AND k.line_no = n.line_no OFFSET 0) l
       CROSS JOIN LATERAL (SELECT coalesce(sum(i.amount), 0) AS taken, max(i.match_no) AS last FROM reconcile_item i
                            WHERE i.ledger_id = l.ledger_id AND i.line_no = l.line_no
                              AND NOT EXISTS (SELECT FROM reconcile_undo u WHERE u.ledger_id = i.ledger_id AND u.match_no = i.match_no) OFFSET 0) t
       LEFT JOIN LATERAL (SELECT * FROM reconcile_match k WHERE k.ledger_id = l.ledger_id AND k.match_no = t.last OFFSET 0) m ON true
 WHERE l.bank_account_no = @bank_account_no::integer
 ORDER BY n.place;

-- name: ReconcileEntryStates :many
-- The same for some entries.
SELECT n.sequence::bigint AS sequence, n.leg::smallint AS leg, t.taken::numeric AS taken, coalesce(m.match_no, 0)::bigint AS match_no,
       coalesce(m.kind, '')::text AS match_kind, coalesce(m.decided_by, '')::text AS decided_by,
       coalesce(m.decided_at, 'epoch')::timestamptz AS decided_at
  FROM (SELECT unnest(@sequences::bigint[]) AS sequence, unnest(@legs::smallint[]) AS leg,
               generate_series(1, cardinality(@sequences::bigint[])) AS place) n
       CROSS JOIN LATERAL (SELECT coalesce(sum(i.amount), 0) AS taken, max(i.match_no) AS last FROM reconcile_item i
                            WHERE i.ledger_id = @ledger_id AND i.sequence = n.sequence AND i.leg = n.leg AND i.bank_account_no = @bank_account_no
                              AND NOT EXISTS (SELECT FROM reconcile_undo u WHERE u.ledger_id = i.ledger_id AND u.match_no = i.match_no) OFFSET 0) t
       LEFT JOIN LATERAL (SELECT * FROM reconcile_match k WHERE k.ledger_id = @ledger_id AND k.match_no = t.last OFFSET 0) m ON true
 ORDER BY n.place;

-- name: ReconcileMatchInsert :exec
INSERT INTO reconcile_match (ledger_id, bank_account_no, match_no, kind, rule, outcome, lines, entries, request, reason, decided_by)
VALUES (@ledger_id, @bank_account_no, @match_no, @kind, @rule, @outcome, @lines, @entries, @request, @reason, @caller);

-- name: ReconcileItemsInsert :exec
INSERT INTO reconcile_item (ledger_id, bank_account_no, match_no, item_no, line_no, sequence, leg, amount, item_on, posts_difference, number)
SELECT @ledger_id::integer, @bank_account_no::integer, @match_no::bigint, n.item_no, NULLIF(n.line_no, 0),
       CASE WHEN n.line_no = 0 THEN n.sequence END, CASE WHEN n.line_no = 0 THEN n.leg END, n.amount, n.item_on, @posts_difference::boolean,
       @number::bigint
  FROM (SELECT unnest(@item_nos::integer[]) AS item_no, unnest(@line_nos::bigint[]) AS line_no, unnest(@sequences::bigint[]) AS sequence,
               unnest(@legs::smallint[]) AS leg, unnest(@amounts::numeric[]) AS amount, unnest(@days::date[]) AS item_on) n;

-- name: ReconcileUndoInsert :exec
INSERT INTO reconcile_undo (ledger_id, bank_account_no, match_no, undo_no, reason, undone_by)
VALUES (@ledger_id, @bank_account_no, @match_no, @undo_no, @reason, @caller);

-- name: ReconcileDifferenceInsert :exec
INSERT INTO reconcile_difference (ledger_id, bank_account_no, match_no, attempt, account_no, amount, transfer_id, effective_at, description,
                                  approved_by)
VALUES (@ledger_id, @bank_account_no, @match_no, @attempt, @account_no, @amount, @transfer_id, @effective_at, @description, @caller);

-- name: ReconcileMatchNumbers :many
-- The numbers of decisions about a bank account, the newest first, before one.
SELECT m.match_no
  FROM reconcile_match m
 WHERE m.ledger_id = @ledger_id AND m.bank_account_no = @bank_account_no AND m.match_no < @before::bigint
   AND (@kind::text = '' OR m.kind = @kind::text)
   AND (NOT @active::boolean OR NOT EXISTS (SELECT FROM reconcile_undo u WHERE u.ledger_id = m.ledger_id AND u.match_no = m.match_no))
 ORDER BY m.match_no DESC LIMIT @page_size;

-- name: ReconcileMatchNumbersOfLine :many
-- The numbers of decisions about a line.
SELECT i.match_no FROM reconcile_item i WHERE i.ledger_id = @ledger_id AND i.line_no = @line_no::bigint AND i.line_no IS NOT NULL;

-- name: ReconcileMatchNumbersOfEntry :many
-- The numbers of decisions about the entries of a transfer.
SELECT DISTINCT i.match_no
  FROM reconcile_item i
 WHERE i.ledger_id = @ledger_id AND i.sequence = @sequence::bigint AND i.bank_account_no = @bank_account_no AND i.sequence IS NOT NULL;

-- name: ReconcileMatchOfRequest :many
SELECT m.match_no FROM reconcile_match m WHERE m.ledger_id = @ledger_id AND m.bank_account_no = @bank_account_no AND m.request = @request::text;

-- name: ReconcileMatches :many
-- Decisions about a bank account by their numbers, the newest first.
SELECT m.match_no, m.kind, m.rule, m.outcome, coalesce(m.run_no, 0)::bigint AS run_no, m.lines, m.entries, coalesce(m.request, '')::text AS request,
       m.reason, m.decided_at, m.decided_by, coalesce(u.undo_no, 0)::bigint AS undo_no, coalesce(u.reason, '')::text AS undo_reason,
       coalesce(u.undone_at, 'epoch')::timestamptz AS undone_at, coalesce(u.undone_by, '')::text AS undone_by
  FROM unnest(@match_nos::bigint[]) AS n (match_no)
       CROSS JOIN LATERAL (SELECT * FROM reconcile_match k WHERE k.ledger_id = @ledger_id AND k.match_no = n.match_no OFFSET 0) m
       LEFT JOIN LATERAL (SELECT * FROM reconcile_undo k WHERE k.ledger_id = m.ledger_id AND k.match_no = m.match_no OFFSET 0) u ON true
 WHERE m.bank_account_no = @bank_account_no::integer
 ORDER BY m.match_no DESC;

-- name: ReconcileItemsOf :many
-- The items of some matches.
SELECT i.match_no, i.item_no, coalesce(i.line_no, 0)::bigint AS line_no, coalesce(i.sequence, 0)::bigint AS sequence,
       coalesce(i.leg, 0)::smallint AS leg, i.amount, i.item_on, i.posts_difference
  FROM unnest(@match_nos::bigint[]) AS n (match_no)
       CROSS JOIN LATERAL (SELECT * FROM reconcile_item k WHERE k.ledger_id = @ledger_id AND k.match_no = n.match_no OFFSET 0) i
 WHERE i.bank_account_no = @bank_account_no::integer
 ORDER BY i.match_no, i.item_no;

-- name: ReconcileDifferencesOf :many
-- The attempts to post the differences of some matches.
SELECT d.match_no, d.attempt, a.account_id, d.account_no, d.amount, d.transfer_id, d.effective_at, d.description, d.approved_at, d.approved_by
  FROM unnest(@match_nos::bigint[]) AS n (match_no)
       CROSS JOIN LATERAL (SELECT * FROM reconcile_difference k WHERE k.ledger_id = @ledger_id AND k.match_no = n.match_no OFFSET 0) d
       JOIN account a ON a.ledger_id = d.ledger_id AND a.account_no = d.account_no
 WHERE d.bank_account_no = @bank_account_no::integer
 ORDER BY d.match_no, d.attempt;

-- name: ReconcileGroup :many
-- The items of a suggestion.
SELECT r.side, r.item, r.leg, r.open, r.item_on, r.rule, r.outcome, r.difference
  FROM reconcile_result r
 WHERE r.ledger_id = @ledger_id AND r.bank_account_no = @bank_account_no AND r.run_no = @run_no AND r.group_no = @group_no::integer
 ORDER BY r.side, r.item, r.leg;

-- name: BankLines :many
-- Lines of a bank account, in the order of their numbers, after one, each with what active matches have taken of it; or some of them.
SELECT l.line_no, l.statement_no, s.file_no, coalesce(l.parent_no, 0)::bigint AS parent_no, l.kind, l.ordinal, l.position, l.identity, l.status,
       l.counts, l.booked_on, l.value_on, l.amount, l.currency, l.gross, l.fee, l.reversal, l.external_id, l.code, l.description,
       l.refs::text AS refs, l.party::text AS party, l.flags::text AS flags, t.taken::numeric AS taken
  FROM bank_line l
       CROSS JOIN LATERAL (SELECT k.file_no FROM bank_statement k WHERE k.ledger_id = l.ledger_id AND k.bank_account_no = l.bank_account_no
                                                                    AND k.statement_no = l.statement_no OFFSET 0) s
       CROSS JOIN LATERAL (SELECT coalesce(sum(i.amount), 0) AS taken FROM reconcile_item i
                            WHERE i.ledger_id = l.ledger_id AND i.line_no = l.line_no
                              AND NOT EXISTS (SELECT FROM reconcile_undo u WHERE u.ledger_id = i.ledger_id AND u.match_no = i.match_no) OFFSET 0) t
 WHERE l.ledger_id = @ledger_id AND l.bank_account_no = @bank_account_no AND l.line_no > @after::bigint
   AND (sqlc.narg('from_on')::date IS NULL OR l.booked_on >= sqlc.narg('from_on')::date)
   AND (sqlc.narg('to_on')::date IS NULL OR l.booked_on <= sqlc.narg('to_on')::date)
   AND (NOT @counting::boolean OR l.counts) AND (NOT @open::boolean OR l.counts AND t.taken <> l.amount)
   AND (@file_no::bigint = 0 OR s.file_no = @file_no::bigint)
 ORDER BY l.line_no LIMIT @page_size;

-- name: BankLinesByNumber :many
SELECT l.line_no, l.statement_no, s.file_no, coalesce(l.parent_no, 0)::bigint AS parent_no, l.kind, l.ordinal, l.position, l.identity, l.status,
       l.counts, l.booked_on, l.value_on, l.amount, l.currency, l.gross, l.fee, l.reversal, l.external_id, l.code, l.description,
       l.refs::text AS refs, l.party::text AS party, l.flags::text AS flags, t.taken::numeric AS taken
  FROM unnest(@line_nos::bigint[]) AS n (line_no)
       CROSS JOIN LATERAL (SELECT * FROM bank_line k WHERE k.ledger_id = @ledger_id AND k.line_no = n.line_no OFFSET 0) l
       CROSS JOIN LATERAL (SELECT k.file_no FROM bank_statement k WHERE k.ledger_id = l.ledger_id AND k.bank_account_no = l.bank_account_no
                                                                    AND k.statement_no = l.statement_no OFFSET 0) s
       CROSS JOIN LATERAL (SELECT coalesce(sum(i.amount), 0) AS taken FROM reconcile_item i
                            WHERE i.ledger_id = l.ledger_id AND i.line_no = l.line_no
                              AND NOT EXISTS (SELECT FROM reconcile_undo u WHERE u.ledger_id = i.ledger_id AND u.match_no = i.match_no) OFFSET 0) t
 WHERE l.bank_account_no = @bank_account_no::integer
 ORDER BY l.line_no;

-- name: ReconcileResults :many
-- What a run says, lines and then entries by their numbers, after a place.
SELECT r.side, r.item, r.leg, r.item_on, r.open, r.outcome, r.rule, r.group_no, r.difference, r.in_transit, r.note,
       coalesce(r.candidates::text, '')::text AS candidates
  FROM reconcile_result r
 WHERE r.ledger_id = @ledger_id AND r.bank_account_no = @bank_account_no AND r.run_no = @run_no
   AND (r.side, r.item, r.leg) > (@side::smallint, @item::bigint, @leg::smallint)
   AND (cardinality(@outcomes::text[]) = 0 OR r.outcome = ANY (@outcomes::text[])) AND (@only_side::smallint < 0 OR r.side = @only_side::smallint)
   AND (NOT @suggested::boolean OR r.group_no IS NOT NULL)
 ORDER BY r.side, r.item, r.leg LIMIT @page_size;

-- name: ReconcileSuggestions :many
-- The items of the suggestions of a run, some of these, after one.
SELECT r.side, r.item, r.leg, r.item_on, r.open, r.outcome, r.rule, r.group_no, r.difference, r.in_transit, r.note,
       coalesce(r.candidates::text, '')::text AS candidates
  FROM reconcile_result r
 WHERE r.ledger_id = @ledger_id AND r.bank_account_no = @bank_account_no AND r.run_no = @run_no
   AND r.group_no > @after::integer AND r.group_no <= @last::integer
 ORDER BY r.group_no, r.side, r.item, r.leg;

-- name: ReconcileChanges :many
-- What one run says otherwise than another one.
SELECT coalesce(a.side, b.side)::smallint AS side, coalesce(a.item, b.item)::bigint AS item, coalesce(a.leg, b.leg)::smallint AS leg,
       coalesce(a.item_on, b.item_on)::date AS item_on, coalesce(a.outcome, '')::text AS outcome_before, coalesce(a.open, 0)::numeric AS open_before,
       coalesce(b.outcome, '')::text AS outcome_after, coalesce(b.open, 0)::numeric AS open_after
  FROM (SELECT * FROM reconcile_result x WHERE x.ledger_id = @ledger_id AND x.bank_account_no = @bank_account_no AND x.run_no = @older::bigint) a
       FULL JOIN (SELECT * FROM reconcile_result y
                   WHERE y.ledger_id = @ledger_id AND y.bank_account_no = @bank_account_no AND y.run_no = @newer::bigint) b
              ON a.side = b.side AND a.item = b.item AND a.leg = b.leg
 WHERE a.outcome IS DISTINCT FROM b.outcome OR a.open IS DISTINCT FROM b.open
 ORDER BY 1, 2, 3;

-- name: ReconcileMatchesOfRun :many
-- The items of what a run has confirmed.
SELECT m.match_no, coalesce(i.line_no, 0)::bigint AS line_no, coalesce(i.sequence, 0)::bigint AS sequence, coalesce(i.leg, 0)::smallint AS leg,
       (i.line_no IS NOT NULL)::boolean AS is_line
  FROM reconcile_match m
       CROSS JOIN LATERAL (SELECT * FROM reconcile_item k WHERE k.ledger_id = m.ledger_id AND k.match_no = m.match_no OFFSET 0) i
 WHERE m.ledger_id = @ledger_id AND m.bank_account_no = @bank_account_no AND m.run_no = @run_no AND NOT i.posts_difference
 ORDER BY m.match_no, i.item_no;

-- name: BankBalance :one
-- What the lines of a bank account come to through a day, and altogether, as of a number.
SELECT coalesce(sum(l.amount) FILTER (WHERE l.booked_on <= @day::date), 0)::numeric AS balance, coalesce(sum(l.amount), 0)::numeric AS total,
       count(*) AS lines
  FROM bank_line l
 WHERE l.ledger_id = @ledger_id AND l.bank_account_no = @bank_account_no AND l.line_no <= @as_of AND l.counts;

-- name: BankStated :many
-- As of a number: to what the statements have come, and the last statement with a closing balance that has added to it.
SELECT s.balance, s.anchored, c.closing, coalesce(c.balance, 0)::numeric AS closing_computed, c.covers_on AS closing_on,
       coalesce(c.label, '')::text AS label
  FROM (SELECT * FROM bank_statement t WHERE t.ledger_id = @ledger_id AND t.bank_account_no = @bank_account_no AND t.statement_no <= @as_of
         ORDER BY t.statement_no DESC LIMIT 1) s
       LEFT JOIN LATERAL (SELECT * FROM bank_statement t
                           WHERE t.ledger_id = s.ledger_id AND t.bank_account_no = s.bank_account_no AND t.statement_no <= s.statement_no
                             AND t.closing IS NOT NULL AND t.added > 0 AND t.anchored
                           ORDER BY t.statement_no DESC LIMIT 1) c ON true;

-- name: ReconcileLopsided :many
-- The matches, as of a number, whose items through a day do not come to the same on both sides: 0 what was matched with what came after the day,
-- 1 what is ignored, 2 differences.
SELECT (CASE WHEN s.kind = 'ignored' THEN 1 WHEN s.after THEN 0 ELSE 2 END)::integer AS class, s.match_no, s.reason, s.lines::numeric AS lines,
       s.entries::numeric AS entries, s.first_on::date AS first_on
  FROM (SELECT m.match_no, m.kind, m.reason,
               coalesce(sum(i.amount) FILTER (WHERE i.line_no IS NOT NULL AND i.item_on <= @day::date), 0) AS lines,
               coalesce(sum(i.amount) FILTER (WHERE i.sequence IS NOT NULL AND i.item_on <= @day::date), 0) AS entries,
               min(i.item_on) AS first_on, bool_or(i.item_on > @day::date) AS after
          FROM reconcile_match m
               CROSS JOIN LATERAL (SELECT * FROM reconcile_item k WHERE k.ledger_id = m.ledger_id AND k.match_no = m.match_no OFFSET 0) i
         WHERE m.ledger_id = @ledger_id AND m.bank_account_no = @bank_account_no AND i.number <= @as_of::bigint
           AND (i.sequence IS NULL OR i.sequence <= @through::bigint)
           AND NOT EXISTS (SELECT FROM reconcile_undo u
                            WHERE u.ledger_id = m.ledger_id AND u.match_no = m.match_no AND u.undo_no + 0 <= @as_of::bigint)
         GROUP BY m.match_no, m.kind, m.reason) s
 WHERE s.lines <> s.entries
 ORDER BY class, s.match_no;

-- name: ReconcileLineOutcomes :many
-- All lines that count, by day, with what a run says of each: in a result, or by the matches that were active after it.
SELECT l.line_no, l.booked_on, l.amount, l.external_id, l.refs::text AS refs, l.description, l.kind, coalesce(r.open, 0)::numeric AS open,
       coalesce(r.outcome, '')::text AS outcome, coalesce(r.rule, '')::text AS rule, coalesce(r.group_no, 0)::integer AS group_no,
       coalesce(r.note, '')::text AS note, coalesce(m.match_no, 0)::bigint AS match_no, coalesce(m.kind, '')::text AS match_kind,
       coalesce(m.outcome, '')::text AS match_outcome, coalesce(m.rule, '')::text AS match_rule, coalesce(m.decided_by, '')::text AS decided_by
  FROM bank_line l
       LEFT JOIN LATERAL (SELECT * FROM reconcile_result x
                           WHERE x.ledger_id = l.ledger_id AND x.bank_account_no = l.bank_account_no AND x.run_no = @run_no::bigint AND x.side = 0
                             AND x.item = l.line_no AND x.leg = 0 OFFSET 0) r ON true
       LEFT JOIN LATERAL (SELECT n.*
                            FROM reconcile_item i
                                 CROSS JOIN LATERAL (SELECT * FROM reconcile_match k
                                                      WHERE k.ledger_id = i.ledger_id AND k.match_no = i.match_no OFFSET 0) n
                           WHERE i.ledger_id = l.ledger_id AND i.line_no = l.line_no
                             AND (i.number <= @as_of::bigint OR n.run_no = @run_no::bigint)
                             AND NOT EXISTS (SELECT FROM reconcile_undo u
                                              WHERE u.ledger_id = i.ledger_id AND u.match_no = i.match_no AND u.undo_no + 0 <= @as_of::bigint)
                           ORDER BY i.match_no DESC LIMIT 1) m ON true
 WHERE l.ledger_id = @ledger_id AND l.bank_account_no = @bank_account_no AND l.line_no <= @as_of::bigint AND l.counts
   AND (sqlc.narg('from_on')::date IS NULL OR l.booked_on >= sqlc.narg('from_on')::date)
   AND (sqlc.narg('to_on')::date IS NULL OR l.booked_on <= sqlc.narg('to_on')::date)
 ORDER BY l.booked_on, l.line_no;

-- name: ReconcileEntryOutcomes :many
-- What a run says of entries after a number, in their order.
SELECT r.item AS sequence, r.leg, r.open, r.outcome, r.rule, coalesce(r.group_no, 0)::integer AS group_no, r.in_transit, r.note
  FROM reconcile_result r
 WHERE r.ledger_id = @ledger_id AND r.bank_account_no = @bank_account_no AND r.run_no = @run_no AND r.side = 1 AND r.item > @since::bigint
 ORDER BY r.item, r.leg;

-- name: ReconcileEntryMatches :many
-- By which matches entries after a number were taken after a run, in the order of the entries.
SELECT i.sequence::bigint AS sequence, i.leg::smallint AS leg, m.match_no, m.kind, m.outcome, m.rule, m.decided_by
  FROM reconcile_item i
       CROSS JOIN LATERAL (SELECT * FROM reconcile_match k WHERE k.ledger_id = i.ledger_id AND k.match_no = i.match_no OFFSET 0) m
 WHERE i.ledger_id = @ledger_id AND i.bank_account_no = @bank_account_no AND i.sequence > @since::bigint
   AND (i.number <= @as_of::bigint OR m.run_no = @run_no::bigint)
   AND NOT EXISTS (SELECT FROM reconcile_undo u WHERE u.ledger_id = i.ledger_id AND u.match_no = i.match_no AND u.undo_no + 0 <= @as_of::bigint)
 ORDER BY i.sequence, i.leg, m.match_no;
