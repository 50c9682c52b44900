-- A setting given to a role or a database is not to be seen in the sessions of others.
SELECT format('%s is set for %s: set it to on', s.setting, coalesce('role ' || r.rolname, 'database ' || current_database()))
  FROM pg_db_role_setting d LEFT JOIN pg_roles r ON r.oid = d.setrole, unnest(d.setconfig) AS s (setting)
 WHERE d.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
   AND s.setting ~* '^synchronous_commit=(off|false|no|0)$'
 ORDER BY 1
