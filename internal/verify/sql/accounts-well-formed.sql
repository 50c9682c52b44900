-- Accounts, and the ledgers and currencies that they stand on.
SELECT a.ledger_id, NULL::bigint, NULL::text, a.account_id,
       concat_ws('; ',
           CASE WHEN l.ledger_id IS NULL THEN 'its ledger does not exist' END,
           CASE WHEN (length(a.account_id) BETWEEN 1 AND 128 AND a.account_id !~ '[^!-~]') IS NOT TRUE THEN 'its id is malformed' END,
           CASE WHEN (a.type IN ('asset', 'liability', 'equity', 'revenue', 'expense')) IS NOT TRUE
                THEN 'there is no type ' || coalesce(a.type, 'NULL') END,
           CASE WHEN (c.scale = a.scale) IS NOT TRUE
                THEN format('it has %s decimals, %s has %s', a.scale, a.currency, coalesce(c.scale::text, 'no row in its ledger')) END,
           CASE WHEN (a.frozen IN ('none', 'debits', 'credits', 'both')) IS NOT TRUE THEN 'it cannot be frozen ' || coalesce(a.frozen, 'NULL') END,
           CASE WHEN (a.closed IS NULL OR a.serialised IS NULL) THEN 'closed or serialised is NULL' END,
           CASE WHEN a.floor = 'NaN' OR abs(a.floor) = 'Infinity' OR a.floor <> trunc(a.floor, a.scale) THEN 'its floor cannot be ' || left(a.floor::text, 60) END,
           CASE WHEN a.ceiling = 'NaN' OR abs(a.ceiling) = 'Infinity' OR a.ceiling <> trunc(a.ceiling, a.scale) THEN 'its ceiling cannot be ' || left(a.ceiling::text, 60) END,
           CASE WHEN a.floor > a.ceiling THEN 'its floor is above its ceiling' END,
           CASE WHEN num_nonnulls(a.floor, a.ceiling) > 0 AND NOT a.serialised THEN 'it has a floor or a ceiling and is not serialised' END,
           CASE WHEN json_typeof(a.metadata) <> 'object' THEN 'its metadata is not an object' END)
  FROM account a
       LEFT JOIN (SELECT DISTINCT ledger_id FROM ledger) l ON l.ledger_id = a.ledger_id
       LEFT JOIN (SELECT ledger_id, code, min(scale) AS scale FROM currency GROUP BY ledger_id, code) c
            ON c.ledger_id = a.ledger_id AND c.code = a.currency
 WHERE l.ledger_id IS NULL
    OR (length(a.account_id) BETWEEN 1 AND 128 AND a.account_id !~ '[^!-~]' AND a.type IN ('asset', 'liability', 'equity', 'revenue', 'expense')
        AND c.scale = a.scale AND a.frozen IN ('none', 'debits', 'credits', 'both') AND a.closed IS NOT NULL AND a.serialised IS NOT NULL) IS NOT TRUE
    OR a.floor = 'NaN' OR abs(a.floor) = 'Infinity' OR a.floor <> trunc(a.floor, a.scale) OR num_nonnulls(a.floor, a.ceiling) > 0 AND NOT a.serialised
    OR a.ceiling = 'NaN' OR abs(a.ceiling) = 'Infinity' OR a.ceiling <> trunc(a.ceiling, a.scale) OR a.floor > a.ceiling
    OR json_typeof(a.metadata) <> 'object'
UNION ALL
SELECT c.ledger_id, NULL, NULL, NULL, format('currency %s with %s decimals is malformed, or its ledger does not exist', c.code, c.scale)
  FROM currency c LEFT JOIN (SELECT DISTINCT ledger_id FROM ledger) l ON l.ledger_id = c.ledger_id
 WHERE l.ledger_id IS NULL OR (c.code ~ '^[A-Z][A-Z0-9_]{2,15}$' AND c.scale BETWEEN 0 AND 30) IS NOT TRUE
UNION ALL
SELECT ledger_id, NULL, NULL, NULL, 'the name of the ledger is malformed'
  FROM ledger WHERE (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$') IS NOT TRUE
