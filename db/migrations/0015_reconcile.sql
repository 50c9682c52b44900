-- +goose Up

-- Reconciliation with the bank: accounts at banks, the files that banks send, their lines, and who decided that which lines and which entries of
-- the books are the same movement. internal/reconcile is the only writer.
--
-- Everything here is inserted and never changed: a decision is taken back by another one. All of it takes its place from one counter, behind a lock
-- of the bank account, so that "as of number n" names one state for ever, and a run of the matching can be repeated.
--
-- Rows are looked up by ledger and number, behind an OFFSET 0, and their bank account is compared afterwards. Before there are statistics, the
-- planner takes a ledger to have a row or two, and would as soon go through all of its rows for each number. So each index begins with what it
-- is for, and is of no use for anything else: numbers of this file are unique beyond their ledger.
SET LOCAL lock_timeout = '3s';

CREATE SEQUENCE reconcile_sequence AS bigint CACHE 1;

-- How the CSV files of banks are read: internal/bankfile's profiles. A change is another version.
CREATE TABLE bank_profile (
    ledger_id integer     NOT NULL REFERENCES ledger,
    name      text        COLLATE "C" NOT NULL,
    version   integer     NOT NULL,
    content   json        NOT NULL,
    saved_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    saved_by  text        NOT NULL,
    PRIMARY KEY (ledger_id, name, version),
    CONSTRAINT bank_profile_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    CONSTRAINT bank_profile_version_check CHECK (version >= 1),
    CONSTRAINT bank_profile_content_check CHECK (json_typeof(content) = 'object')
);

-- An account at a bank, or at a payment processor, and the account of the books that mirrors it. One mirrors one, so that the lock of a bank account
-- stands before all that can be decided about either. What is here never changes: dates and signs of decisions rest on it.
CREATE TABLE bank_account (
    ledger_id       integer     NOT NULL REFERENCES ledger,
    bank_account_no integer     GENERATED ALWAYS AS IDENTITY,
    name            text        COLLATE "C" NOT NULL,
    account_no      bigint      NOT NULL,
    -- The side of the books on which money that comes in at the bank stands. It is credit where the books are the bank's own.
    money_in        text        COLLATE "C" NOT NULL,
    -- Which of a transfer's two times is the date of an entry, and the zone in which its day is told.
    basis           text        COLLATE "C" NOT NULL,
    zone            text        COLLATE "C" NOT NULL,
    -- Entries that are dated before this day and have a number up to forward_through are no items of their own, but together one: entry 0 of
    -- the amount "forward". NULL: every entry is an item.
    begins_on       date,
    forward_through bigint      NOT NULL DEFAULT 0,
    -- Positive where it is in the account holder's favour, as all amounts of this file.
    forward         numeric     NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by      text        NOT NULL,
    PRIMARY KEY (ledger_id, bank_account_no),
    CONSTRAINT bank_account_name_key UNIQUE (ledger_id, name),
    CONSTRAINT bank_account_account_key UNIQUE (ledger_id, account_no),
    CONSTRAINT bank_account_account_fkey FOREIGN KEY (ledger_id, account_no) REFERENCES account,
    CONSTRAINT bank_account_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    CONSTRAINT bank_account_money_in_check CHECK (money_in IN ('debit', 'credit')),
    CONSTRAINT bank_account_basis_check CHECK (basis IN ('booking', 'value')),
    CONSTRAINT bank_account_forward_check CHECK (begins_on IS NOT NULL OR forward_through = 0 AND forward = 0)
);

-- What can be set of a bank account: the numbers that files know it by, and how its lines are matched. A change is another version.
CREATE TABLE bank_setting (
    ledger_id       integer     NOT NULL,
    bank_account_no integer     NOT NULL,
    version         integer     NOT NULL,
    content         json        NOT NULL,
    changed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_by      text        NOT NULL,
    PRIMARY KEY (ledger_id, bank_account_no, version),
    CONSTRAINT bank_setting_account_fkey FOREIGN KEY (ledger_id, bank_account_no) REFERENCES bank_account,
    CONSTRAINT bank_setting_version_check CHECK (version >= 1),
    CONSTRAINT bank_setting_content_check CHECK (json_typeof(content) = 'object')
);

-- Files, as far as they are about one bank account. A file of several is here once for each; a zip once for each file in it.
CREATE TABLE bank_file (
    ledger_id       integer     NOT NULL,
    bank_account_no integer     NOT NULL,
    file_no         bigint      GENERATED ALWAYS AS IDENTITY,
    -- The hash of its bytes: the same bytes are the same file. "archive" is that of the zip that it came in.
    sha256          bytea       NOT NULL,
    archive         bytea,
    -- What the file was called by who sent it, and within the zip.
    name            text        NOT NULL DEFAULT '',
    member          text        NOT NULL DEFAULT '',
    format          text        NOT NULL,
    profile         text,
    profile_version integer,
    checks          json        NOT NULL,
    imported_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    imported_by     text        NOT NULL,
    PRIMARY KEY (ledger_id, bank_account_no, file_no),
    CONSTRAINT bank_file_sha256_key UNIQUE (ledger_id, bank_account_no, sha256),
    CONSTRAINT bank_file_account_fkey FOREIGN KEY (ledger_id, bank_account_no) REFERENCES bank_account,
    CONSTRAINT bank_file_sha256_check CHECK (length(sha256) = 32 AND length(archive) = 32)
);

-- What a file says of the account over a period.
CREATE TABLE bank_statement (
    ledger_id       integer NOT NULL,
    bank_account_no integer NOT NULL,
    statement_no    bigint  NOT NULL DEFAULT nextval('reconcile_sequence'),
    file_no         bigint  NOT NULL,
    -- Its place in the file, from 1.
    ordinal         integer NOT NULL,
    -- In the words of the bank; "number" is 0 for none, or for one that is no number.
    statement_id    text    NOT NULL,
    label           text    NOT NULL,
    number          bigint  NOT NULL,
    from_on         date,
    to_on           date,
    opening         numeric,
    closing         numeric,
    balances        json    NOT NULL,
    checks          json    NOT NULL,
    flags           json    NOT NULL,
    -- How many lines it has, how many of them were new, and what the new ones that count come to.
    lines           integer NOT NULL,
    added           integer NOT NULL,
    added_sum       numeric NOT NULL,
    -- After it: all lines of the account that count, the last day that they cover, and whether the first of them is the bank's own opening
    -- balance, so that the sum is the balance at the bank.
    balance         numeric NOT NULL,
    covers_on       date,
    anchored        boolean NOT NULL,
    PRIMARY KEY (ledger_id, bank_account_no, statement_no),
    CONSTRAINT bank_statement_file_fkey FOREIGN KEY (ledger_id, bank_account_no, file_no) REFERENCES bank_file,
    CONSTRAINT bank_statement_ordinal_key UNIQUE (ledger_id, bank_account_no, file_no, ordinal),
    CONSTRAINT bank_statement_lines_check CHECK (added BETWEEN 0 AND lines)
);

-- The lines, each once. Amounts are positive where they are in the account holder's favour.
CREATE TABLE bank_line (
    ledger_id       integer NOT NULL,
    bank_account_no integer NOT NULL,
    line_no         bigint  NOT NULL DEFAULT nextval('reconcile_sequence'),
    statement_no    bigint  NOT NULL,
    -- The line of which it is a detail.
    parent_no       bigint,
    -- line, detail, or opening: the balance at the bank before the first line.
    kind            text    COLLATE "C" NOT NULL,
    ordinal         integer NOT NULL,
    position        integer NOT NULL,
    -- By what it is known again in another file: see internal/bankfile.LineIdentity.
    identity        text    COLLATE "C" NOT NULL,
    status          text    COLLATE "C" NOT NULL,
    -- Whether it counts towards the balance and is for matching. Of a batch that is broken down, the details count and not the line.
    counts          boolean NOT NULL,
    booked_on       date    NOT NULL,
    value_on        date,
    amount          numeric NOT NULL,
    currency        text    COLLATE "C" NOT NULL,
    gross           numeric NOT NULL DEFAULT 0,
    fee             numeric NOT NULL DEFAULT 0,
    reversal        boolean NOT NULL DEFAULT false,
    external_id     text    NOT NULL DEFAULT '',
    code            text    NOT NULL DEFAULT '',
    description     text    NOT NULL DEFAULT '',
    refs            json    NOT NULL,
    party           json    NOT NULL,
    flags           json    NOT NULL,
    PRIMARY KEY (line_no, ledger_id),
    CONSTRAINT bank_line_identity_key UNIQUE (identity, ledger_id, bank_account_no),
    CONSTRAINT bank_line_kind_check CHECK (kind IN ('line', 'detail', 'opening') AND (kind = 'detail') = (parent_no IS NOT NULL)),
    CONSTRAINT bank_line_counts_check CHECK (NOT counts OR status = 'booked' AND amount <> 0),
    CONSTRAINT bank_line_amount_check CHECK (abs(amount) < 1e38)
);
CREATE INDEX bank_line_account ON bank_line (bank_account_no, line_no, ledger_id);
CREATE INDEX bank_line_booked_on ON bank_line (bank_account_no, booked_on, line_no, ledger_id);
CREATE INDEX bank_line_parent ON bank_line (ledger_id, parent_no) WHERE parent_no IS NOT NULL;

-- Decisions. That one is active means that it was not undone.
CREATE TABLE reconcile_match (
    ledger_id       integer     NOT NULL,
    bank_account_no integer     NOT NULL,
    match_no        bigint      NOT NULL DEFAULT nextval('reconcile_sequence'),
    -- automatic: by a run. manual: by a person. ignored: a person has said that one item has no counterpart and needs none.
    kind            text        COLLATE "C" NOT NULL,
    rule            text        COLLATE "C" NOT NULL,
    outcome         text        COLLATE "C" NOT NULL,
    run_no          bigint,
    -- What its lines and its entries come to. The difference is what is left, and is never rounded away.
    lines           numeric     NOT NULL,
    entries         numeric     NOT NULL,
    -- Who asked sent this with it; the same request again is the same decision.
    request         text        COLLATE "C",
    reason          text        NOT NULL DEFAULT '',
    decided_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    decided_by      text        NOT NULL,
    PRIMARY KEY (match_no, ledger_id),
    CONSTRAINT reconcile_match_request_key UNIQUE (bank_account_no, request, ledger_id),
    CONSTRAINT reconcile_match_account_fkey FOREIGN KEY (ledger_id, bank_account_no) REFERENCES bank_account,
    CONSTRAINT reconcile_match_kind_check CHECK (kind IN ('automatic', 'manual', 'ignored') AND (kind = 'automatic') = (run_no IS NOT NULL)),
    CONSTRAINT reconcile_match_reason_check CHECK (kind <> 'ignored' OR btrim(reason) <> '')
);
CREATE INDEX reconcile_match_account ON reconcile_match (bank_account_no, match_no, ledger_id);
CREATE INDEX reconcile_match_run ON reconcile_match (ledger_id, run_no) WHERE run_no IS NOT NULL;

-- How much of a line, or of an entry, a match takes, in the sign of the line.
CREATE TABLE reconcile_item (
    ledger_id       integer  NOT NULL,
    bank_account_no integer  NOT NULL,
    match_no        bigint   NOT NULL,
    item_no         integer  NOT NULL,
    line_no         bigint,
    -- Sequence 0 is what was brought forward.
    sequence        bigint,
    leg             smallint,
    amount          numeric  NOT NULL,
    item_on         date     NOT NULL,
    -- The entry with which the difference of the match was posted. It comes later than the match, and has a number of its own; the others have that of
    -- the match.
    posts_difference boolean NOT NULL DEFAULT false,
    number          bigint   NOT NULL,
    PRIMARY KEY (ledger_id, match_no, item_no),
    CONSTRAINT reconcile_item_side_check CHECK ((line_no IS NULL) = (sequence IS NOT NULL) AND (sequence IS NULL) = (leg IS NULL)),
    CONSTRAINT reconcile_item_difference_check CHECK (posts_difference AND sequence IS NOT NULL AND number > match_no
                                                        OR NOT posts_difference AND number = match_no),
    CONSTRAINT reconcile_item_amount_check CHECK (amount <> 0 AND abs(amount) < 1e38)
);
CREATE UNIQUE INDEX reconcile_item_line ON reconcile_item (ledger_id, line_no, match_no) INCLUDE (amount, number) WHERE line_no IS NOT NULL;
CREATE UNIQUE INDEX reconcile_item_entry ON reconcile_item (ledger_id, sequence, leg, bank_account_no, match_no) INCLUDE (amount, number)
    WHERE sequence IS NOT NULL;
CREATE INDEX reconcile_item_difference ON reconcile_item (ledger_id, bank_account_no, number) WHERE posts_difference;

-- A match that was undone frees what it took. It is undone once.
CREATE TABLE reconcile_undo (
    ledger_id       integer     NOT NULL,
    bank_account_no integer     NOT NULL,
    match_no        bigint      NOT NULL,
    undo_no         bigint      NOT NULL DEFAULT nextval('reconcile_sequence'),
    reason          text        NOT NULL,
    undone_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    undone_by       text        NOT NULL,
    PRIMARY KEY (match_no, ledger_id),
    CONSTRAINT reconcile_undo_number_key UNIQUE (bank_account_no, undo_no, ledger_id),
    CONSTRAINT reconcile_undo_match_fkey FOREIGN KEY (match_no, ledger_id) REFERENCES reconcile_match,
    CONSTRAINT reconcile_undo_reason_check CHECK (btrim(reason) <> '')
);

-- That a person has approved that the difference of a match is posted to an account, under which id. An attempt that the books refused for ever is
-- followed by another one.
CREATE TABLE reconcile_difference (
    ledger_id       integer     NOT NULL,
    bank_account_no integer     NOT NULL,
    match_no        bigint      NOT NULL,
    attempt         integer     NOT NULL,
    account_no      bigint      NOT NULL,
    amount          numeric     NOT NULL,
    transfer_id     text        COLLATE "C" NOT NULL,
    effective_at    timestamptz,
    description     text        NOT NULL,
    approved_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    approved_by     text        NOT NULL,
    PRIMARY KEY (ledger_id, match_no, attempt),
    CONSTRAINT reconcile_difference_transfer_key UNIQUE (ledger_id, transfer_id),
    CONSTRAINT reconcile_difference_match_fkey FOREIGN KEY (match_no, ledger_id) REFERENCES reconcile_match,
    CONSTRAINT reconcile_difference_account_fkey FOREIGN KEY (ledger_id, account_no) REFERENCES account,
    CONSTRAINT reconcile_difference_attempt_check CHECK (attempt >= 1),
    CONSTRAINT reconcile_difference_amount_check CHECK (amount <> 0)
);

-- Runs of the matching: what each was of, so that it can be repeated, and what came out.
CREATE TABLE reconcile_run (
    ledger_id       integer     NOT NULL,
    bank_account_no integer     NOT NULL,
    run_no          bigint      NOT NULL DEFAULT nextval('reconcile_sequence'),
    -- Its place among those of its account, from 1.
    ordinal         integer     NOT NULL,
    request         text        COLLATE "C" NOT NULL,
    -- The state that it began from: lines and decisions up to a number, entries up to one of the journal, settings of a version.
    as_of           bigint      NOT NULL,
    through         bigint      NOT NULL,
    setting_version integer     NOT NULL,
    -- The last line and the last entry before which nothing was open or of the last days when it began; it has not looked at those.
    since_line      bigint      NOT NULL,
    since_entry     bigint      NOT NULL,
    -- The same after it.
    settled_line    bigint      NOT NULL,
    settled_entry   bigint      NOT NULL,
    -- The last day that the files of the bank cover; NULL before there is one.
    covers_on       date,
    -- How many matches it has confirmed, and how many results there are.
    confirmed       bigint      NOT NULL,
    results         bigint      NOT NULL,
    summary         json        NOT NULL,
    run_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    run_by          text        NOT NULL,
    PRIMARY KEY (ledger_id, bank_account_no, run_no),
    CONSTRAINT reconcile_run_ordinal_key UNIQUE (ledger_id, bank_account_no, ordinal),
    CONSTRAINT reconcile_run_request_key UNIQUE (ledger_id, bank_account_no, request),
    CONSTRAINT reconcile_run_setting_fkey FOREIGN KEY (ledger_id, bank_account_no, setting_version) REFERENCES bank_setting
);

-- What a run says of each item that is open after it. What is settled is in the matches that were active as of reconcile_run.as_of, and in its own.
CREATE TABLE reconcile_result (
    ledger_id       integer  NOT NULL,
    bank_account_no integer  NOT NULL,
    run_no          bigint   NOT NULL,
    -- 0: a line, by its number. 1: an entry, by its sequence and leg.
    side            smallint NOT NULL,
    item            bigint   NOT NULL,
    leg             smallint NOT NULL,
    item_on         date     NOT NULL,
    -- What of it is open.
    open            numeric  NOT NULL,
    outcome         text     COLLATE "C" NOT NULL,
    rule            text     COLLATE "C" NOT NULL DEFAULT '',
    -- Items of one group belong together, as the run suggests.
    group_no        integer,
    difference      numeric,
    in_transit      boolean  NOT NULL DEFAULT false,
    note            text     NOT NULL DEFAULT '',
    -- Some of the items of the other side that it may be: lines by number, entries by sequence and leg.
    candidates      json,
    PRIMARY KEY (ledger_id, bank_account_no, run_no, side, item, leg),
    CONSTRAINT reconcile_result_side_check CHECK (side IN (0, 1)),
    CONSTRAINT reconcile_result_outcome_check CHECK (outcome IN (
        'matched', 'matched_with_difference', 'partially_matched', 'missing_in_ledger', 'missing_at_bank', 'amount_mismatch', 'date_mismatch',
        'currency_mismatch', 'duplicate_bank_line', 'duplicate_ledger_entry', 'ambiguous'))
);
CREATE INDEX reconcile_result_group ON reconcile_result (ledger_id, bank_account_no, run_no, group_no) WHERE group_no IS NOT NULL;

-- Locks the bank account, and sees to it that new rows take their places after all others of it: what is there as of a number must never change.
-- A row whose number was drawn before somebody else's was committed has to draw another one.
-- +goose StatementBegin
CREATE FUNCTION reconcile_place() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp
AS $$
DECLARE
    one record;
    later bigint;
BEGIN
    -- Otherwise what follows may look at the rows as they were before the lock was taken.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'rows of table % are inserted in a READ COMMITTED transaction only', TG_TABLE_NAME
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reconcile_read_committed', TABLE = TG_TABLE_NAME;
    END IF;
    FOR one IN EXECUTE format('SELECT ledger_id, bank_account_no, min(%1$I) AS first, max(%1$I) AS last, count(*) AS rows
                                 FROM new_rows GROUP BY ledger_id, bank_account_no ORDER BY ledger_id, bank_account_no', TG_ARGV[0]) LOOP
        -- 4251 is the class of these locks.
        PERFORM pg_advisory_xact_lock(4251, one.bank_account_no);
        SELECT (SELECT count(*) FROM bank_statement t WHERE t.ledger_id = one.ledger_id AND t.bank_account_no = one.bank_account_no
                                                        AND t.statement_no >= one.first)
             + (SELECT count(*) FROM bank_line t WHERE t.ledger_id = one.ledger_id AND t.bank_account_no = one.bank_account_no
                                                   AND t.line_no >= one.first)
             + (SELECT count(*) FROM reconcile_match t WHERE t.ledger_id = one.ledger_id AND t.bank_account_no = one.bank_account_no
                                                         AND t.match_no >= one.first)
             + (SELECT count(*) FROM reconcile_undo t WHERE t.ledger_id = one.ledger_id AND t.bank_account_no = one.bank_account_no
                                                        AND t.undo_no >= one.first)
             + (SELECT count(*) FROM reconcile_item t WHERE t.ledger_id = one.ledger_id AND t.bank_account_no = one.bank_account_no
                                                        AND t.number >= one.first AND t.posts_difference) - one.rows INTO later;
        IF later <> 0 OR one.first < 1 OR one.last > (SELECT s.last_value FROM reconcile_sequence s) THEN
            RAISE EXCEPTION 'a row of table % does not come after all others of its bank account', TG_TABLE_NAME
                USING ERRCODE = 'serialization_failure', TABLE = TG_TABLE_NAME,
                      HINT = format('SELECT pg_advisory_xact_lock(4251, %s) first, in the same transaction, and draw its number then.',
                                    one.bank_account_no);
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Of each booked line, either it counts or its details do; and then they come to it.
-- +goose StatementBegin
CREATE FUNCTION bank_line_counts() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp
AS $$
DECLARE
    bad record;
BEGIN
    SELECT n.statement_no INTO bad
      FROM (SELECT DISTINCT ledger_id, bank_account_no, statement_no FROM new_rows) n
     WHERE NOT EXISTS (SELECT FROM bank_statement s WHERE s.ledger_id = n.ledger_id AND s.bank_account_no = n.bank_account_no
                                                      AND s.statement_no = n.statement_no)
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a line belongs to statement %, which its bank account does not have', bad.statement_no
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'bank_line_statement_exists', TABLE = 'bank_line';
    END IF;
    SELECT n.line_no INTO bad
      FROM (SELECT ledger_id, bank_account_no, statement_no, line_no FROM new_rows
             WHERE parent_no IS NULL AND status = 'booked' AND amount <> 0 AND NOT counts
            UNION
            SELECT ledger_id, bank_account_no, statement_no, parent_no FROM new_rows WHERE parent_no IS NOT NULL) n
           LEFT JOIN LATERAL (SELECT * FROM bank_line l WHERE l.ledger_id = n.ledger_id AND l.line_no = n.line_no OFFSET 0) p ON true
           CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE d.counts) AS counting, sum(d.amount) FILTER (WHERE d.counts) AS sum
                                 FROM bank_line d WHERE d.ledger_id = n.ledger_id AND d.parent_no = n.line_no OFFSET 0) c
     WHERE p.line_no IS NULL OR p.parent_no IS NOT NULL OR p.statement_no <> n.statement_no OR p.bank_account_no <> n.bank_account_no
        OR p.counts AND c.counting > 0
        OR NOT p.counts AND p.status = 'booked' AND p.amount <> 0 AND (c.counting > 0 AND c.sum = p.amount) IS NOT TRUE
        OR c.counting > 0 AND (p.status = 'booked' AND c.sum = p.amount) IS NOT TRUE
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'line % and its details do not count once', bad.line_no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'bank_line_counts_once', TABLE = 'bank_line';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- The last guard: whatever is matched in whatever order by however many, no more is taken of a line or an entry than there is, in its own direction,
-- and a match comes to what it says.
-- +goose StatementBegin
CREATE FUNCTION reconcile_item_fits() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp
AS $$
DECLARE
    bad record;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'rows of table reconcile_item are inserted in a READ COMMITTED transaction only'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reconcile_read_committed', TABLE = 'reconcile_item';
    END IF;
    PERFORM pg_advisory_xact_lock(4251, n.bank_account_no)
       FROM (SELECT DISTINCT ledger_id, bank_account_no FROM new_rows ORDER BY ledger_id, bank_account_no) n;
    -- Statements of their own from here on: they see what was committed before the lock was had.
    SELECT n.match_no INTO bad
      FROM (SELECT DISTINCT ledger_id, bank_account_no, match_no FROM new_rows) n
           LEFT JOIN LATERAL (SELECT * FROM reconcile_match r WHERE r.ledger_id = n.ledger_id AND r.match_no = n.match_no OFFSET 0) m
                  ON m.bank_account_no = n.bank_account_no
           CROSS JOIN LATERAL (SELECT count(*) AS items, coalesce(sum(i.amount) FILTER (WHERE i.line_no IS NOT NULL), 0) AS lines,
                                      coalesce(sum(i.amount) FILTER (WHERE i.sequence IS NOT NULL AND NOT i.posts_difference), 0) AS entries,
                                      sum(i.amount) FILTER (WHERE i.posts_difference) AS difference
                                 FROM reconcile_item i WHERE i.ledger_id = n.ledger_id AND i.match_no = n.match_no OFFSET 0) s
     WHERE m.match_no IS NULL OR m.lines <> s.lines OR m.entries <> s.entries OR s.difference <> m.lines - m.entries
        OR m.kind = 'ignored' AND s.items <> 1
        OR EXISTS (SELECT FROM reconcile_undo u WHERE u.ledger_id = n.ledger_id AND u.match_no = n.match_no)
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'match % is not there, was undone, or its items do not come to what it says', bad.match_no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reconcile_match_adds_up', TABLE = 'reconcile_item';
    END IF;
    -- What comes later takes its place as reconcile_place has it.
    PERFORM FROM new_rows n
      WHERE n.posts_difference
        AND (n.number > (SELECT s.last_value FROM reconcile_sequence s)
             OR EXISTS (SELECT FROM bank_statement t
                         WHERE t.ledger_id = n.ledger_id AND t.bank_account_no = n.bank_account_no AND t.statement_no > n.number)
             OR EXISTS (SELECT FROM bank_line t WHERE t.ledger_id = n.ledger_id AND t.bank_account_no = n.bank_account_no AND t.line_no > n.number)
             OR EXISTS (SELECT FROM reconcile_match t
                         WHERE t.ledger_id = n.ledger_id AND t.bank_account_no = n.bank_account_no AND t.match_no > n.number)
             OR EXISTS (SELECT FROM reconcile_undo t
                         WHERE t.ledger_id = n.ledger_id AND t.bank_account_no = n.bank_account_no AND t.undo_no > n.number)
             OR EXISTS (SELECT FROM reconcile_item t
                         WHERE t.ledger_id = n.ledger_id AND t.bank_account_no = n.bank_account_no AND t.number > n.number AND t.posts_difference));
    IF FOUND THEN
        RAISE EXCEPTION 'an item that posts a difference does not come after all others of its bank account'
            USING ERRCODE = 'serialization_failure', TABLE = 'reconcile_item';
    END IF;
    -- The reconciliation statement of a day goes by the day of the item.
    SELECT n.line_no, l.amount, t.taken INTO bad
      FROM (SELECT DISTINCT ledger_id, bank_account_no, line_no, item_on FROM new_rows WHERE line_no IS NOT NULL) n
           LEFT JOIN LATERAL (SELECT * FROM bank_line b WHERE b.ledger_id = n.ledger_id AND b.line_no = n.line_no OFFSET 0) l
                  ON l.bank_account_no = n.bank_account_no AND l.counts AND l.booked_on = n.item_on
           CROSS JOIN LATERAL (SELECT sum(i.amount) AS taken, min(sign(i.amount)) AS lowest, max(sign(i.amount)) AS highest
                                 FROM reconcile_item i WHERE i.ledger_id = n.ledger_id AND i.line_no = n.line_no
                                                         AND NOT EXISTS (SELECT FROM reconcile_undo u
                                                                          WHERE u.ledger_id = i.ledger_id AND u.match_no = i.match_no) OFFSET 0) t
     WHERE (t.lowest = sign(l.amount) AND t.highest = t.lowest AND abs(t.taken) <= abs(l.amount)) IS NOT TRUE
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'line % of % would be matched with %', bad.line_no, coalesce(bad.amount::text, 'nothing that counts'), bad.taken
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reconcile_line_taken_once', TABLE = 'reconcile_item';
    END IF;
    SELECT n.sequence, n.leg, e.amount, t.taken INTO bad
      FROM (SELECT DISTINCT ledger_id, bank_account_no, sequence, leg FROM new_rows WHERE sequence IS NOT NULL) n
           CROSS JOIN LATERAL (SELECT * FROM bank_account b WHERE b.ledger_id = n.ledger_id AND b.bank_account_no = n.bank_account_no OFFSET 0) a
           LEFT JOIN LATERAL (SELECT CASE a.money_in WHEN 'debit' THEN f.amount ELSE -f.amount END AS amount
                                FROM entry f
                               WHERE f.ledger_id = n.ledger_id AND f.account_no = a.account_no AND f.sequence = n.sequence AND f.leg = n.leg
                                 -- What was brought forward is not an item of its own as well.
                                 AND NOT (f.sequence <= a.forward_through
                                          AND EXISTS (SELECT FROM transfer u
                                                       WHERE u.ledger_id = f.ledger_id AND u.sequence = f.sequence
                                                         AND (CASE a.basis WHEN 'value' THEN coalesce(u.effective_at, u.posted_at)
                                                                           ELSE u.posted_at END AT TIME ZONE a.zone)::date < a.begins_on))
                              UNION ALL
                              SELECT a.forward WHERE n.sequence = 0 AND n.leg = 0 OFFSET 0) e ON true
           CROSS JOIN LATERAL (SELECT sum(i.amount) AS taken, min(sign(i.amount)) AS lowest, max(sign(i.amount)) AS highest
                                 FROM reconcile_item i WHERE i.ledger_id = n.ledger_id AND i.sequence = n.sequence AND i.leg = n.leg
                                                         AND i.bank_account_no = n.bank_account_no
                                                         AND NOT EXISTS (SELECT FROM reconcile_undo u
                                                                          WHERE u.ledger_id = i.ledger_id AND u.match_no = i.match_no) OFFSET 0) t
     WHERE (t.lowest = sign(e.amount) AND t.highest = t.lowest AND abs(t.taken) <= abs(e.amount)) IS NOT TRUE
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'entry % leg % of % would be matched with %', bad.sequence, bad.leg, coalesce(bad.amount::text, 'nothing'), bad.taken
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reconcile_entry_taken_once', TABLE = 'reconcile_item';
    END IF;
    SELECT n.match_no INTO bad
      FROM new_rows n
     WHERE n.posts_difference
       AND NOT EXISTS (SELECT FROM reconcile_difference d JOIN transfer u ON u.ledger_id = d.ledger_id AND u.transfer_id = d.transfer_id
                        WHERE d.ledger_id = n.ledger_id AND d.match_no = n.match_no AND u.sequence = n.sequence)
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the difference of match % was not approved to be posted by that transfer', bad.match_no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reconcile_difference_approved', TABLE = 'reconcile_item';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- What is undone, and of what a difference is approved, is a match of that bank account; and a difference is what the match leaves open.
-- +goose StatementBegin
CREATE FUNCTION reconcile_of_match() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp
AS $$
DECLARE
    bad record;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'rows of table % are inserted in a READ COMMITTED transaction only', TG_TABLE_NAME
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reconcile_read_committed', TABLE = TG_TABLE_NAME;
    END IF;
    PERFORM pg_advisory_xact_lock(4251, n.bank_account_no)
       FROM (SELECT DISTINCT ledger_id, bank_account_no FROM new_rows ORDER BY ledger_id, bank_account_no) n;
    IF TG_TABLE_NAME = 'reconcile_undo' THEN
        SELECT n.match_no INTO bad
          FROM new_rows n
               LEFT JOIN LATERAL (SELECT * FROM reconcile_match r WHERE r.ledger_id = n.ledger_id AND r.match_no = n.match_no OFFSET 0) m
                      ON m.bank_account_no = n.bank_account_no
         WHERE (m.match_no < n.undo_no) IS NOT TRUE
         LIMIT 1;
    ELSE
        SELECT n.match_no INTO bad
          FROM new_rows n
               LEFT JOIN LATERAL (SELECT * FROM reconcile_match r WHERE r.ledger_id = n.ledger_id AND r.match_no = n.match_no OFFSET 0) m
                      ON m.bank_account_no = n.bank_account_no
         WHERE (m.kind <> 'ignored' AND n.amount = m.lines - m.entries) IS NOT TRUE
            OR n.attempt > 1 AND NOT EXISTS (SELECT FROM reconcile_difference d
                                              WHERE d.ledger_id = n.ledger_id AND d.match_no = n.match_no AND d.attempt = n.attempt - 1)
            OR EXISTS (SELECT FROM reconcile_undo u WHERE u.ledger_id = n.ledger_id AND u.match_no = n.match_no)
            OR EXISTS (SELECT FROM reconcile_item i WHERE i.ledger_id = n.ledger_id AND i.match_no = n.match_no AND i.posts_difference)
         LIMIT 1;
    END IF;
    IF FOUND THEN
        RAISE EXCEPTION 'match % is not there, or has no such difference', bad.match_no
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_of_match', TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- A run is written with all of its results, which come first, and gets no others afterwards.
-- +goose StatementBegin
CREATE FUNCTION reconcile_run_complete() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp
AS $$
DECLARE
    bad record;
BEGIN
    IF TG_TABLE_NAME = 'reconcile_result' THEN
        SELECT r.run_no INTO bad
          FROM (SELECT DISTINCT ledger_id, bank_account_no, run_no FROM new_rows) n
               JOIN reconcile_run r ON r.ledger_id = n.ledger_id AND r.bank_account_no = n.bank_account_no AND r.run_no = n.run_no
         LIMIT 1;
    ELSE
        SELECT n.run_no INTO bad
          FROM new_rows n
               CROSS JOIN LATERAL (SELECT count(*) AS results FROM reconcile_result r
                                    WHERE r.ledger_id = n.ledger_id AND r.bank_account_no = n.bank_account_no AND r.run_no = n.run_no) c
         WHERE c.results <> n.results
         LIMIT 1;
    END IF;
    IF FOUND THEN
        RAISE EXCEPTION 'run % has other results than it says', bad.run_no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reconcile_run_complete', TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION reconcile_place(), bank_line_counts(), reconcile_item_fits(), reconcile_of_match(), reconcile_run_complete() FROM PUBLIC;

CREATE TRIGGER bank_statement_place AFTER INSERT ON bank_statement
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION reconcile_place('statement_no');
CREATE TRIGGER bank_line_place AFTER INSERT ON bank_line
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION reconcile_place('line_no');
CREATE TRIGGER bank_line_counts AFTER INSERT ON bank_line
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION bank_line_counts();
CREATE TRIGGER reconcile_match_place AFTER INSERT ON reconcile_match
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION reconcile_place('match_no');
CREATE TRIGGER reconcile_undo_place AFTER INSERT ON reconcile_undo
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION reconcile_place('undo_no');
CREATE TRIGGER reconcile_undo_of_match AFTER INSERT ON reconcile_undo
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION reconcile_of_match();
CREATE TRIGGER reconcile_difference_of_match AFTER INSERT ON reconcile_difference
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION reconcile_of_match();
CREATE TRIGGER reconcile_item_fits AFTER INSERT ON reconcile_item
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION reconcile_item_fits();
CREATE TRIGGER reconcile_result_complete AFTER INSERT ON reconcile_result
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION reconcile_run_complete();
CREATE TRIGGER reconcile_run_complete AFTER INSERT ON reconcile_run
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION reconcile_run_complete();

CREATE TRIGGER bank_profile_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON bank_profile
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER bank_account_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON bank_account
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER bank_setting_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON bank_setting
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER bank_file_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON bank_file
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER bank_statement_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON bank_statement
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER bank_line_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON bank_line
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER reconcile_match_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON reconcile_match
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER reconcile_item_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON reconcile_item
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER reconcile_undo_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON reconcile_undo
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER reconcile_difference_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON reconcile_difference
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER reconcile_run_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON reconcile_run
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER reconcile_result_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON reconcile_result
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- ALWAYS: also under session_replication_role = replica, which switches ordinary triggers off.
ALTER TABLE bank_profile ENABLE ALWAYS TRIGGER bank_profile_refuse_change;
ALTER TABLE bank_account ENABLE ALWAYS TRIGGER bank_account_refuse_change;
ALTER TABLE bank_setting ENABLE ALWAYS TRIGGER bank_setting_refuse_change;
ALTER TABLE bank_file ENABLE ALWAYS TRIGGER bank_file_refuse_change;
ALTER TABLE bank_statement ENABLE ALWAYS TRIGGER bank_statement_refuse_change;
ALTER TABLE bank_line ENABLE ALWAYS TRIGGER bank_line_refuse_change;
ALTER TABLE reconcile_match ENABLE ALWAYS TRIGGER reconcile_match_refuse_change;
ALTER TABLE reconcile_item ENABLE ALWAYS TRIGGER reconcile_item_refuse_change;
ALTER TABLE reconcile_undo ENABLE ALWAYS TRIGGER reconcile_undo_refuse_change;
ALTER TABLE reconcile_difference ENABLE ALWAYS TRIGGER reconcile_difference_refuse_change;
ALTER TABLE reconcile_run ENABLE ALWAYS TRIGGER reconcile_run_refuse_change;
ALTER TABLE reconcile_result ENABLE ALWAYS TRIGGER reconcile_result_refuse_change;
ALTER TABLE bank_statement ENABLE ALWAYS TRIGGER bank_statement_place;
ALTER TABLE bank_line ENABLE ALWAYS TRIGGER bank_line_place;
ALTER TABLE bank_line ENABLE ALWAYS TRIGGER bank_line_counts;
ALTER TABLE reconcile_match ENABLE ALWAYS TRIGGER reconcile_match_place;
ALTER TABLE reconcile_undo ENABLE ALWAYS TRIGGER reconcile_undo_place;
ALTER TABLE reconcile_undo ENABLE ALWAYS TRIGGER reconcile_undo_of_match;
ALTER TABLE reconcile_difference ENABLE ALWAYS TRIGGER reconcile_difference_of_match;
ALTER TABLE reconcile_item ENABLE ALWAYS TRIGGER reconcile_item_fits;
ALTER TABLE reconcile_result ENABLE ALWAYS TRIGGER reconcile_result_complete;
ALTER TABLE reconcile_run ENABLE ALWAYS TRIGGER reconcile_run_complete;

GRANT SELECT, INSERT ON bank_profile, bank_account, bank_setting, bank_file, bank_statement, bank_line,
    reconcile_match, reconcile_item, reconcile_undo, reconcile_difference, reconcile_run, reconcile_result TO khata_service;
GRANT SELECT, USAGE ON SEQUENCE reconcile_sequence TO khata_service;
