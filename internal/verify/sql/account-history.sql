WITH life AS (
    SELECT ledger_id, account_no, min(sequence) AS first, max(sequence) AS last, min(sequence) FILTER (WHERE closed) AS closed_at
      FROM account_change GROUP BY ledger_id, account_no),
used AS (
    SELECT ledger_id, account_no, min(first) AS first
      FROM (SELECT ledger_id, account_no, min(sequence) AS first FROM entry GROUP BY ledger_id, account_no
            UNION ALL
            SELECT ledger_id, account_no, min(sequence) FROM hold_entry GROUP BY ledger_id, account_no) u
     GROUP BY ledger_id, account_no)
-- Accounts against their last state.
SELECT a.ledger_id, c.sequence, NULL::text, a.account_id,
       CASE WHEN c.sequence IS NULL THEN 'no state of it was recorded'
            ELSE 'is not as its last change left it: ' || concat_ws(', ',
                CASE WHEN a.version IS DISTINCT FROM c.sequence THEN format('version %s', coalesce(a.version::text, 'NULL')) END,
                CASE WHEN a.type IS DISTINCT FROM c.type THEN format('type %s, was %s', a.type, c.type) END,
                CASE WHEN (a.currency, a.scale) IS DISTINCT FROM (c.currency, c.scale)
                     THEN format('currency %s with %s decimals, was %s with %s', a.currency, a.scale, c.currency, c.scale) END,
                CASE WHEN a.name IS DISTINCT FROM c.name THEN format('name %s, was %s', a.name, c.name) END,
                CASE WHEN a.metadata::text IS DISTINCT FROM c.metadata::text THEN 'metadata' END,
                CASE WHEN a.floor IS DISTINCT FROM c.floor
                     THEN format('floor %s, was %s', coalesce(left(a.floor::text, 60), 'none'), coalesce(left(c.floor::text, 60), 'none')) END,
                CASE WHEN a.ceiling IS DISTINCT FROM c.ceiling
                     THEN format('ceiling %s, was %s', coalesce(left(a.ceiling::text, 60), 'none'), coalesce(left(c.ceiling::text, 60), 'none')) END,
                CASE WHEN a.serialised IS DISTINCT FROM c.serialised THEN format('serialised %s, was %s', a.serialised, c.serialised) END,
                CASE WHEN a.frozen IS DISTINCT FROM c.frozen THEN format('frozen %s, was %s', a.frozen, c.frozen) END,
                CASE WHEN a.closed IS DISTINCT FROM c.closed THEN format('closed %s, was %s', a.closed, c.closed) END,
                CASE WHEN a.changed_at IS DISTINCT FROM c.changed_at THEN format('changed_at %s, was %s', a.changed_at, c.changed_at) END,
                CASE WHEN a.changed_by IS DISTINCT FROM c.changed_by THEN format('changed_by %s, was %s', a.changed_by, c.changed_by) END) END
  FROM account a
       LEFT JOIN life l ON l.ledger_id = a.ledger_id AND l.account_no = a.account_no
       LEFT JOIN account_change c ON c.ledger_id = a.ledger_id AND c.account_no = a.account_no AND c.sequence = l.last
 WHERE (a.version, a.type, a.currency, a.scale, a.name, a.metadata::text, a.floor, a.ceiling, a.serialised, a.frozen, a.closed, a.changed_at, a.changed_by)
       IS DISTINCT FROM (c.sequence, c.type, c.currency, c.scale, c.name, c.metadata::text, c.floor, c.ceiling, c.serialised, c.frozen, c.closed, c.changed_at, c.changed_by)
UNION ALL
SELECT c.ledger_id, c.sequence, NULL, a.account_id,
       CASE WHEN a.account_no IS NULL THEN format('a change of account number %s, which does not exist', c.account_no)
            WHEN NOT c.closed AND c.sequence > l.closed_at THEN 'is open again, but had been closed at sequence ' || l.closed_at
            ELSE format('was in no state to be in: floor %s, ceiling %s, serialised %s, frozen %s, closed %s', coalesce(left(c.floor::text, 60), 'none'),
                        coalesce(left(c.ceiling::text, 60), 'none'),
                        c.serialised, c.frozen, c.closed) END
  FROM account_change c
       LEFT JOIN account a ON a.ledger_id = c.ledger_id AND a.account_no = c.account_no
       LEFT JOIN life l ON l.ledger_id = c.ledger_id AND l.account_no = c.account_no
 WHERE a.account_no IS NULL
    OR NOT c.closed AND c.sequence > l.closed_at
    OR (c.frozen IN ('none', 'debits', 'credits', 'both') AND c.closed IS NOT NULL AND (c.floor IS NULL AND c.ceiling IS NULL OR c.serialised)) IS NOT TRUE
    OR c.floor = 'NaN' OR abs(c.floor) = 'Infinity' OR c.floor <> trunc(c.floor, a.scale)
    OR c.ceiling = 'NaN' OR abs(c.ceiling) = 'Infinity' OR c.ceiling <> trunc(c.ceiling, a.scale) OR c.floor > c.ceiling
UNION ALL
SELECT u.ledger_id, u.first, NULL, a.account_id,
       format('has an entry before its first state, which came at sequence %s', l.first)
  FROM used u
       JOIN life l ON l.ledger_id = u.ledger_id AND l.account_no = u.account_no
       LEFT JOIN account a ON a.ledger_id = u.ledger_id AND a.account_no = u.account_no
 WHERE u.first <= l.first
