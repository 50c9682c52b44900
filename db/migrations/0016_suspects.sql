-- +goose Up

-- Suspected double charges: transfers of different ids that move the same money between the same accounts within a day. internal/suspect is the only
-- writer. It follows the journal, as the relay does, so that posting pays nothing for it: no index of the journal is for this.
--
-- All of it but the decisions follows from the journal and could be computed again.
SET LOCAL lock_timeout = '3s';

-- How far each ledger has been followed. It moves in the transaction that writes what was found, and so all is found once.
CREATE TABLE suspect_cursor (
    ledger_id integer     PRIMARY KEY,
    through   bigint      NOT NULL,
    moved_at  timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- The payments of the last day, to find those of equal fingerprint. What is older is deleted: it is a list to look things up in, and no record of
-- anything.
CREATE TABLE suspect_window (
    ledger_id   integer     NOT NULL,
    -- A hash of the movement. Equal movements have equal ones; whether different ones do, too, is looked at when they meet.
    fingerprint bigint      NOT NULL,
    posted_at   timestamptz NOT NULL,
    sequence    bigint      NOT NULL,
    PRIMARY KEY (ledger_id, fingerprint, posted_at, sequence)
) WITH (autovacuum_vacuum_scale_factor = 0.05); -- All of it is new every day.
-- By what is to be deleted. It is an expression so that a look-up by fingerprint, which is bounded by time too, cannot take this index for its own
-- while there are no statistics yet.
CREATE INDEX suspect_window_old ON suspect_window (ledger_id, (posted_at AT TIME ZONE 'UTC'));

CREATE SEQUENCE suspect_sequence AS bigint CACHE 1;

-- Groups of equal transfers.
CREATE TABLE suspect_group (
    ledger_id integer     NOT NULL REFERENCES ledger,
    group_no  bigint      NOT NULL DEFAULT nextval('suspect_sequence'),
    found_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (ledger_id, group_no)
);

-- Their transfers, in the order in which they came. A group only grows, so that how many members it has says which.
CREATE TABLE suspect_member (
    ledger_id integer     NOT NULL,
    group_no  bigint      NOT NULL,
    ordinal   integer     NOT NULL,
    sequence  bigint      NOT NULL,
    posted_at timestamptz NOT NULL,
    PRIMARY KEY (ledger_id, group_no, ordinal),
    CONSTRAINT suspect_member_sequence_key UNIQUE (ledger_id, sequence, group_no),
    CONSTRAINT suspect_member_group_fkey FOREIGN KEY (ledger_id, group_no) REFERENCES suspect_group,
    CONSTRAINT suspect_member_ordinal_check CHECK (ordinal >= 1)
);

-- That a person says that a group is none, or takes that back. It is about the members that there were: with another one the group is a suspect again.
CREATE TABLE suspect_decision (
    ledger_id  integer     NOT NULL,
    group_no   bigint      NOT NULL,
    -- Its place among those of its group, from 1, without gaps: of two who decide at once, one has to look again.
    ordinal    integer     NOT NULL,
    dismissed  boolean     NOT NULL,
    members    integer     NOT NULL,
    reason     text        NOT NULL,
    -- Who asked sent this with it; the same request again is the same decision.
    request    text        COLLATE "C" NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    decided_by text        NOT NULL,
    PRIMARY KEY (ledger_id, group_no, ordinal),
    CONSTRAINT suspect_decision_request_key UNIQUE (ledger_id, group_no, request),
    CONSTRAINT suspect_decision_group_fkey FOREIGN KEY (ledger_id, group_no) REFERENCES suspect_group,
    CONSTRAINT suspect_decision_ordinal_check CHECK (ordinal >= 1),
    CONSTRAINT suspect_decision_members_check CHECK (members >= 2),
    CONSTRAINT suspect_decision_reason_check CHECK (btrim(reason) <> ''),
    CONSTRAINT suspect_decision_request_check CHECK (request <> '')
);

-- What is listed, in its order, so that a page is read from the end of an index: a row for each group and each of its accounts, and one of account 0
-- for all accounts. It is written anew whenever something becomes of the group.
CREATE TABLE suspect_list (
    ledger_id  integer     NOT NULL,
    account_no bigint      NOT NULL,
    -- 1: open, 2: dismissed, 3: all but one have gone back.
    state      smallint    NOT NULL,
    -- 1: low, 2: medium, 3: high.
    level      smallint    NOT NULL,
    -- When the last member was posted.
    last_at    timestamptz NOT NULL,
    group_no   bigint      NOT NULL,
    PRIMARY KEY (ledger_id, account_no, state, level, last_at, group_no),
    CONSTRAINT suspect_list_group_fkey FOREIGN KEY (ledger_id, group_no) REFERENCES suspect_group,
    CONSTRAINT suspect_list_state_check CHECK (state BETWEEN 1 AND 3),
    CONSTRAINT suspect_list_level_check CHECK (level BETWEEN 1 AND 3)
);
CREATE INDEX suspect_list_group ON suspect_list (ledger_id, group_no);

CREATE TRIGGER suspect_group_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON suspect_group
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER suspect_member_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON suspect_member
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER suspect_decision_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON suspect_decision
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE suspect_group ENABLE ALWAYS TRIGGER suspect_group_refuse_change;
ALTER TABLE suspect_member ENABLE ALWAYS TRIGGER suspect_member_refuse_change;
ALTER TABLE suspect_decision ENABLE ALWAYS TRIGGER suspect_decision_refuse_change;

GRANT SELECT ON suspect_cursor, suspect_window, suspect_group, suspect_member, suspect_decision, suspect_list TO khata_service;
GRANT INSERT ON suspect_cursor, suspect_window, suspect_group, suspect_member, suspect_decision, suspect_list TO khata_service;
GRANT UPDATE (through, moved_at) ON suspect_cursor TO khata_service;
GRANT DELETE ON suspect_window, suspect_list TO khata_service;
GRANT USAGE ON SEQUENCE suspect_sequence TO khata_service;
