-- +goose Up

-- The audit of what people write elsewhere than at the support desk: changing accounts, closing periods, issuing statements, reconciling, dismissing
-- suspects. Whoever writes such a row, by whatever program, has it in the audit, in the same transaction; if it cannot be there, the row is not.
--
-- Transfers and new accounts are not in it: each row names its caller, and there are too many of them that are no person's.
SET LOCAL lock_timeout = '3s';

-- Its arguments: the action, the kind of object, the column that names the object, the column that names the actor, and the columns that are told. An object
-- "bank_account_no" is told by its name.
-- +goose StatementBegin
CREATE FUNCTION audit_write() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp
AS $$
DECLARE
    written jsonb := to_jsonb(NEW);
    object  text  := coalesce(written ->> TG_ARGV[2], '');
    told    json;
BEGIN
    IF TG_ARGV[2] = 'bank_account_no' THEN
        -- One that is not there is refused by another guard.
        object := coalesce((SELECT b.name FROM bank_account b WHERE b.ledger_id = NEW.ledger_id AND b.bank_account_no = object::integer), object);
    END IF;
    SELECT json_object_agg(c.name, left(written ->> c.name, 500)) INTO told FROM unnest(TG_ARGV[4:]) AS c (name) WHERE written ->> c.name <> '';
    INSERT INTO audit_event (ledger_id, event_id, actor, action, object_kind, object_id, address, outcome, detail)
    VALUES (NEW.ledger_id, gen_random_uuid(), left(written ->> TG_ARGV[3], 256), TG_ARGV[0], TG_ARGV[1], left(object, 256), '', 'done', told);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION audit_write() FROM PUBLIC;

CREATE TRIGGER account_audit AFTER UPDATE ON account
    FOR EACH ROW EXECUTE FUNCTION audit_write('account.change', 'account', 'account_id', 'changed_by', 'version', 'name', 'frozen', 'closed', 'floor',
                                              'ceiling', 'serialised');
CREATE TRIGGER period_change_audit AFTER INSERT ON period_change
    FOR EACH ROW EXECUTE FUNCTION audit_write('period.change', 'period', 'closed_before', 'changed_by', 'sequence', 'zone', 'reason');
CREATE TRIGGER statement_audit AFTER INSERT ON statement
    FOR EACH ROW EXECUTE FUNCTION audit_write('statement.issue', 'statement', 'statement_no', 'issued_by', 'basis', 'starts_at', 'ends_at', 'zone');
CREATE TRIGGER bank_profile_audit AFTER INSERT ON bank_profile
    FOR EACH ROW EXECUTE FUNCTION audit_write('bank.profile', 'bank_profile', 'name', 'saved_by', 'version');
CREATE TRIGGER bank_account_audit AFTER INSERT ON bank_account
    FOR EACH ROW EXECUTE FUNCTION audit_write('bank.create', 'bank_account', 'name', 'created_by', 'money_in', 'basis', 'zone', 'begins_on');
CREATE TRIGGER bank_setting_audit AFTER INSERT ON bank_setting
    FOR EACH ROW EXECUTE FUNCTION audit_write('bank.set', 'bank_account', 'bank_account_no', 'changed_by', 'version');
CREATE TRIGGER bank_file_audit AFTER INSERT ON bank_file
    FOR EACH ROW EXECUTE FUNCTION audit_write('bank.import', 'bank_account', 'bank_account_no', 'imported_by', 'file_no', 'name', 'member', 'format');
CREATE TRIGGER reconcile_run_audit AFTER INSERT ON reconcile_run
    FOR EACH ROW EXECUTE FUNCTION audit_write('reconcile.match', 'bank_account', 'bank_account_no', 'run_by', 'run_no', 'confirmed');
CREATE TRIGGER reconcile_match_confirm_audit AFTER INSERT ON reconcile_match
    FOR EACH ROW WHEN (NEW.kind = 'manual')
    EXECUTE FUNCTION audit_write('reconcile.confirm', 'bank_account', 'bank_account_no', 'decided_by', 'match_no', 'lines', 'entries', 'reason');
CREATE TRIGGER reconcile_match_ignore_audit AFTER INSERT ON reconcile_match
    FOR EACH ROW WHEN (NEW.kind = 'ignored')
    EXECUTE FUNCTION audit_write('reconcile.ignore', 'bank_account', 'bank_account_no', 'decided_by', 'match_no', 'lines', 'entries', 'reason');
CREATE TRIGGER reconcile_undo_audit AFTER INSERT ON reconcile_undo
    FOR EACH ROW EXECUTE FUNCTION audit_write('reconcile.undo', 'bank_account', 'bank_account_no', 'undone_by', 'match_no', 'reason');
CREATE TRIGGER reconcile_difference_audit AFTER INSERT ON reconcile_difference
    FOR EACH ROW EXECUTE FUNCTION audit_write('reconcile.difference', 'bank_account', 'bank_account_no', 'approved_by', 'match_no', 'attempt', 'amount',
                                              'transfer_id');
CREATE TRIGGER suspect_decision_dismiss_audit AFTER INSERT ON suspect_decision
    FOR EACH ROW WHEN (NEW.dismissed) EXECUTE FUNCTION audit_write('suspect.dismiss', 'suspect', 'group_no', 'decided_by', 'members', 'reason');
CREATE TRIGGER suspect_decision_undismiss_audit AFTER INSERT ON suspect_decision
    FOR EACH ROW WHEN (NOT NEW.dismissed) EXECUTE FUNCTION audit_write('suspect.undismiss', 'suspect', 'group_no', 'decided_by', 'members', 'reason');

ALTER TABLE account ENABLE ALWAYS TRIGGER account_audit;
ALTER TABLE period_change ENABLE ALWAYS TRIGGER period_change_audit;
ALTER TABLE statement ENABLE ALWAYS TRIGGER statement_audit;
ALTER TABLE bank_profile ENABLE ALWAYS TRIGGER bank_profile_audit;
ALTER TABLE bank_account ENABLE ALWAYS TRIGGER bank_account_audit;
ALTER TABLE bank_setting ENABLE ALWAYS TRIGGER bank_setting_audit;
ALTER TABLE bank_file ENABLE ALWAYS TRIGGER bank_file_audit;
ALTER TABLE reconcile_run ENABLE ALWAYS TRIGGER reconcile_run_audit;
ALTER TABLE reconcile_match ENABLE ALWAYS TRIGGER reconcile_match_confirm_audit;
ALTER TABLE reconcile_match ENABLE ALWAYS TRIGGER reconcile_match_ignore_audit;
ALTER TABLE reconcile_undo ENABLE ALWAYS TRIGGER reconcile_undo_audit;
ALTER TABLE reconcile_difference ENABLE ALWAYS TRIGGER reconcile_difference_audit;
ALTER TABLE suspect_decision ENABLE ALWAYS TRIGGER suspect_decision_dismiss_audit;
ALTER TABLE suspect_decision ENABLE ALWAYS TRIGGER suspect_decision_undismiss_audit;
