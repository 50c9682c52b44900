-- +goose NO TRANSACTION
-- +goose Up

-- The keys of steps: see 0005. Most transfers are not in them, but all are looked at once, and nobody waits for that. What an earlier try that was
-- cut short has left is no index.
DROP INDEX IF EXISTS transfer_step_key;
DROP INDEX IF EXISTS transfer_end_key;
CREATE UNIQUE INDEX CONCURRENTLY transfer_step_key ON transfer (ledger_id, origin, ordinal) WHERE origin IS NOT NULL;
CREATE UNIQUE INDEX CONCURRENTLY transfer_end_key ON transfer (ledger_id, origin) WHERE ends;
