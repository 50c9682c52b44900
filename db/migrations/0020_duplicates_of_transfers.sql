-- +goose Up

-- How many duplicates of each transfer each server has stopped in each quarter of an hour, for the transfer's story: she pressed four times, and three of
-- them changed nothing. As in duplicate_tally a server sets its own rows to what it has counted, and nothing depends on them. What of a quarter is
-- beyond the first thousands of transfers is only counted there. Servers delete what is 90 days old.
SET LOCAL lock_timeout = '3s';
CREATE TABLE duplicate_transfer_tally (
    ledger_id   integer     NOT NULL REFERENCES ledger,
    -- A payment's too, that was answered without a record in the books.
    transfer_id text        COLLATE "C" NOT NULL,
    quarter     timestamptz NOT NULL,
    guard       text        COLLATE "C" NOT NULL,
    run         uuid        NOT NULL,
    replayed    bigint      NOT NULL,
    taken       bigint      NOT NULL,
    -- By the server's clock.
    first_at    timestamptz NOT NULL,
    last_at     timestamptz NOT NULL,
    PRIMARY KEY (ledger_id, transfer_id, quarter, guard, run),
    CONSTRAINT duplicate_transfer_tally_guard_check CHECK (guard IN ('ledger', 'key')),
    CONSTRAINT duplicate_transfer_tally_counts_check CHECK (replayed >= 0 AND taken >= 0)
);
CREATE INDEX duplicate_transfer_tally_quarter ON duplicate_transfer_tally (quarter);
GRANT SELECT, INSERT, UPDATE (replayed, taken, last_at), DELETE ON duplicate_transfer_tally TO khata_service;
