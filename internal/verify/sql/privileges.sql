-- What khata_service can do, by whatever grant or membership, and what others have been granted. The owner and
-- superusers can do everything, and are not the concern here; triggers stop them from doing it by accident.
WITH relation AS (
    SELECT oid AS relid, relname AS name, relkind, relowner AS owner, relacl AS acl
      FROM pg_class
     WHERE relnamespace = 'public'::regnamespace
       AND relname IN ('ledger', 'currency', 'account', 'account_change', 'transfer', 'entry',
                       'snapshot', 'mark', 'value_dated_entry', 'hold_entry', 'hold_snapshot', 'open_hold',
                       'period_change', 'statement', 'bank_profile', 'bank_account', 'bank_setting', 'bank_file', 'bank_statement', 'bank_line',
                       'reconcile_match', 'reconcile_item', 'reconcile_undo', 'reconcile_difference', 'reconcile_run', 'reconcile_result',
                       'audit_event', 'support_limit', 'support_refund_request', 'support_refund_decision', 'support_refund_outcome',
                       'suspect_group', 'suspect_member', 'suspect_decision',
                       'journal_sequence', 'account_account_no_seq', 'ledger_ledger_id_seq', 'reconcile_sequence', 'audit_event_audit_no_seq',
                       'support_refund_request_request_no_seq', 'suspect_sequence')),
function AS (
    SELECT DISTINCT p.oid AS funcid, p.proname AS name, p.proowner AS owner, p.proacl AS acl
      FROM relation r JOIN pg_trigger g ON g.tgrelid = r.relid AND NOT g.tgisinternal JOIN pg_proc p ON p.oid = g.tgfoid),
owned AS (
    SELECT CASE relkind WHEN 'S' THEN 'sequence ' ELSE 'table ' END || name AS what, owner FROM relation
    UNION ALL SELECT 'function ' || name, owner FROM function
    UNION ALL SELECT 'schema public', nspowner FROM pg_namespace WHERE nspname = 'public'
    UNION ALL SELECT 'the database', datdba FROM pg_database WHERE datname = current_database()),
service AS (
    SELECT oid AS roleid, rolsuper, rolcreaterole FROM pg_roles WHERE rolname = 'khata_service'),
-- Roles that khata_service must not be able to act as.
above AS (
    SELECT r.rolname FROM pg_roles r, service s
     WHERE NOT s.rolsuper AND r.oid <> s.roleid AND pg_has_role(s.roleid, r.oid, 'MEMBER')
       AND (r.rolsuper OR r.oid IN (SELECT owner FROM owned WHERE owner <> 'pg_database_owner'::regrole)
            OR r.rolname IN ('pg_write_all_data', 'pg_write_server_files', 'pg_execute_server_program'))),
privilege (name) AS (
    VALUES ('INSERT'), ('UPDATE'), ('DELETE'), ('TRUNCATE'), ('REFERENCES'), ('TRIGGER')),
-- What the migrations grant to it beyond reading is left out: INSERT on some tables, UPDATE on some columns of account, and
-- INSERT on some of mark and of three tables whose times are not for it to say.
granted AS (
    SELECT p.name AS privilege, r.name AS table,
           CASE WHEN p.name IN ('INSERT', 'UPDATE', 'REFERENCES') AND NOT has_table_privilege(s.roleid, r.relid, p.name)
                THEN (SELECT string_agg(a.attname, ', ' ORDER BY a.attnum) FROM pg_attribute a
                       WHERE a.attrelid = r.relid AND a.attnum > 0 AND NOT a.attisdropped
                         AND has_column_privilege(s.roleid, r.relid, a.attnum, p.name)
                         AND NOT (r.name = 'account' AND p.name = 'UPDATE'
                                  AND a.attname IN ('name', 'metadata', 'floor', 'ceiling', 'serialised', 'frozen', 'closed', 'changed_by'))
                         AND NOT (r.name = 'mark' AND p.name = 'INSERT' AND a.attname IN ('ledger_id', 'horizon'))
                         AND NOT (r.name IN ('audit_event', 'support_limit', 'support_refund_outcome') AND p.name = 'INSERT'
                                  AND a.attname NOT IN ('at', 'audit_no', 'set_at', 'settled_at')))
           END AS columns,
           has_table_privilege(s.roleid, r.relid, p.name) AS whole
      FROM relation r, privilege p, service s
     WHERE r.relkind <> 'S' AND NOT s.rolsuper AND NOT EXISTS (SELECT FROM above)
       AND r.owner <> s.roleid AND NOT has_table_privilege('public'::name, r.relid, p.name)
       AND NOT (p.name = 'INSERT' AND r.name IN ('ledger', 'currency', 'account', 'transfer', 'period_change', 'statement', 'bank_profile', 'bank_account', 'bank_setting', 'bank_file', 'bank_statement', 'bank_line',
                                               'reconcile_match', 'reconcile_item', 'reconcile_undo', 'reconcile_difference', 'reconcile_run', 'reconcile_result',
                                               'support_refund_request', 'support_refund_decision', 'suspect_group', 'suspect_member',
                                               'suspect_decision')))
SELECT NULL::integer, NULL::bigint, NULL::text, NULL::text, b.detail
  FROM (
    SELECT 'the role khata_service does not exist' AS detail WHERE NOT EXISTS (SELECT FROM service)
    UNION ALL
    SELECT 'khata_service is a superuser' FROM service WHERE rolsuper
    UNION ALL
    SELECT 'khata_service has CREATEROLE, and so can make itself a member of the owner' FROM service WHERE rolcreaterole
    UNION ALL
    SELECT 'khata_service can act as ' || rolname FROM above
    UNION ALL
    SELECT 'khata_service owns ' || o.what FROM owned o, service s WHERE o.owner = s.roleid
    UNION ALL
    SELECT format('khata_service may %s %s%s', privilege, "table", ' (' || columns || ')')
      FROM granted WHERE whole OR columns IS NOT NULL
    UNION ALL
    SELECT 'khata_service may set sequence ' || r.name FROM relation r, service s
     WHERE NOT s.rolsuper AND NOT EXISTS (SELECT FROM above) AND r.owner <> s.roleid
       AND CASE WHEN r.relkind = 'S' THEN has_sequence_privilege(s.roleid, r.relid, 'UPDATE')
                                          AND NOT has_sequence_privilege('public'::name, r.relid, 'UPDATE') END
    UNION ALL
    -- What could be created there would be found first by functions that run as the owner.
    SELECT 'khata_service may CREATE in schema public' FROM service s
     WHERE NOT s.rolsuper AND NOT EXISTS (SELECT FROM above) AND has_schema_privilege(s.roleid, 'public', 'CREATE')
       AND NOT EXISTS (SELECT FROM owned o WHERE o.what IN ('schema public', 'the database') AND o.owner = s.roleid)
    UNION ALL
    SELECT DISTINCT format('%s may %s %s%s', CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE g.grantee::regrole::text END,
                           g.privilege_type, g.name, ' (' || g.attname || ')')
      FROM (SELECT r.name, NULL AS attname, r.owner, x.grantee, x.privilege_type
              FROM relation r, aclexplode(r.acl) x
            UNION ALL
            SELECT r.name, a.attname, r.owner, x.grantee, x.privilege_type
              FROM relation r JOIN pg_attribute a ON a.attrelid = r.relid AND a.attnum > 0 AND NOT a.attisdropped,
                   aclexplode(a.attacl) x) g
     WHERE g.grantee <> g.owner AND g.grantee NOT IN (SELECT roleid FROM service)
       AND (g.privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER')
            OR g.privilege_type = 'INSERT'
               AND (g.grantee = 0 OR g.name IN ('entry', 'account_change', 'snapshot', 'mark', 'value_dated_entry', 'hold_entry', 'hold_snapshot', 'open_hold')))
    UNION ALL
    SELECT format('%s may EXECUTE %s, and hang it on a table of its own', CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE x.grantee::regrole::text END, f.name)
      FROM function f, aclexplode(coalesce(f.acl, acldefault('f', f.owner))) x
     WHERE x.grantee <> f.owner) b
