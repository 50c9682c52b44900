-- +goose Up

-- The columns of 0007: every way that money moves, beside the plain transfer: holds and how they end, refunds, reversals, balancing and conditional
-- transfers, ceilings. Each is a transfer with an id of its own, in the same journal.
--
-- A step is a transfer that names another one, its origin: a capture, void or expiry names its hold, a refund or reversal its
-- original. Which of two steps came first is decided by unique keys, (origin, ordinal) and, for what ends a hold, (origin): the
-- service cannot lock rows that it may not change.
--
-- It is three migrations: the columns, which take a moment; the keys, which are built beside all that goes on; and what uses them.

-- A table's posters are waited for, and wait: not for long, or not at all.
SET LOCAL lock_timeout = '3s';
-- Whoever posts holds an account's row, and then writes to the journal; this needs both tables in whatever order. So it takes all gates first,
-- which nobody waits for longer than for a transaction: posters, and these for it.
SELECT pg_advisory_xact_lock(4247, ledger_id) FROM (SELECT ledger_id FROM ledger ORDER BY ledger_id) g;

-- All NULL for a plain transfer.
ALTER TABLE transfer
    -- hold, capture, void, expiry, refund or reversal.
    ADD COLUMN kind     text COLLATE "C",
    ADD COLUMN origin   text COLLATE "C",
    -- Of a posted step: its place among the posted steps of the origin, from 1, without gaps.
    ADD COLUMN ordinal  integer,
    -- Whether this step ended its hold, or reversed its original.
    ADD COLUMN ends     boolean,
    -- Of a posted hold: its amount. Of its posted steps: what they take off what it reserves, negative.
    ADD COLUMN reserved numeric,
    -- Of a posted hold: when it expires. NULL is never.
    ADD COLUMN deadline timestamptz,
    -- What else the request asked for: a later one of the same id is compared with it. Also of a plain transfer.
    ADD COLUMN terms    json,
    -- Whether it was refused as the culprit of an atomic call: judged as if what came before it in the call had been posted.
    ADD COLUMN atomic   boolean;
