-- +goose Up

-- Transfers that the fraud check has flagged, for people to settle. What it has approved is not here.
CREATE SCHEMA IF NOT EXISTS khata_fraud;

CREATE TABLE khata_fraud.flagged (
    -- In which order they came.
    number       bigint      NOT NULL GENERATED ALWAYS AS IDENTITY CONSTRAINT flagged_number UNIQUE,
    -- The id of the verdict, which follows from the event that was judged.
    verdict      text        COLLATE "C" PRIMARY KEY,
    -- Of what could not be read, only this and what the event's headers told is known.
    unreadable   boolean     NOT NULL,
    ledger       text        COLLATE "C" NOT NULL,
    transfer_id  text        COLLATE "C" NOT NULL,
    sequence     bigint      NOT NULL,
    kind         text        NOT NULL,
    payer        text        COLLATE "C" NOT NULL,
    payee        text        COLLATE "C" NOT NULL,
    amount       numeric,
    currency     text        COLLATE "C" NOT NULL,
    posted_at    timestamptz,
    -- A JSON array of rule, kind and text, as the check gave them.
    reasons      json        NOT NULL,
    -- Which rules judged.
    rules        text        COLLATE "C" NOT NULL,
    judged_event text        COLLATE "C" NOT NULL,
    recorded_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- What people have made of it.
    state        text        NOT NULL DEFAULT 'open' CONSTRAINT flagged_state CHECK (state IN ('open', 'cleared', 'confirmed')),
    note         text,
    settled_by   text,
    settled_at   timestamptz,
    CONSTRAINT flagged_settled CHECK (num_nonnulls(note, settled_by, settled_at) = CASE state WHEN 'open' THEN 0 ELSE 3 END),
    CONSTRAINT flagged_readable CHECK (unreadable OR num_nonnulls(amount, posted_at) = 2)
);
-- The last guard: no transfer is flagged twice, whatever the ids of its verdicts.
CREATE UNIQUE INDEX flagged_transfer ON khata_fraud.flagged (ledger, transfer_id) WHERE NOT unreadable;
CREATE INDEX flagged_open ON khata_fraud.flagged (number) WHERE state = 'open';
