-- +goose Up

-- The value-dated entries of the transfers that were there before 0002 had the trigger write them. Nobody who posts waits for this,
-- but for the moment in which the guards come up.
SET LOCAL lock_timeout = '3s';

INSERT INTO value_dated_entry (ledger_id, account_no, effective_at, sequence, leg, posted_at, amount)
SELECT t.ledger_id, l.account_no, t.effective_at, t.sequence, l.leg, t.posted_at, l.amount
  FROM transfer t CROSS JOIN LATERAL unnest(t.account_nos, t.amounts) WITH ORDINALITY AS l (account_no, amount, leg)
 WHERE t.effective_at IS NOT NULL AND t.refusal IS NULL
ON CONFLICT DO NOTHING;

CREATE TRIGGER value_dated_entry_refuse_insert BEFORE INSERT ON value_dated_entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_insert();
CREATE TRIGGER value_dated_entry_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON value_dated_entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE value_dated_entry ENABLE ALWAYS TRIGGER value_dated_entry_refuse_insert;
ALTER TABLE value_dated_entry ENABLE ALWAYS TRIGGER value_dated_entry_refuse_change;
