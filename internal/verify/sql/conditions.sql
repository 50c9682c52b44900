-- A condition of a posted transfer was true of its account before it: the accounts that any names are walked as for their floors.
WITH asked AS (
    SELECT ledger_id, sequence, transfer_id, account_nos,
           json_array_elements(CASE WHEN terms_readable(terms) THEN terms -> 'conditions' END) AS condition
      FROM transfer WHERE terms IS NOT NULL AND refusal IS NULL),
condition AS (
    SELECT c.ledger_id, c.sequence, c.transfer_id, c.condition ->> 'account' AS account_id, (c.condition ->> 'balance')::numeric AS balance,
           (c.condition ->> 'version')::bigint AS version, a.account_no, a.account_no = ANY (c.account_nos) AS inside
      FROM asked c LEFT JOIN account a ON a.ledger_id = c.ledger_id AND a.account_id = c.condition ->> 'account'),
named AS (
    SELECT DISTINCT ledger_id, account_no FROM condition),
step AS (
    SELECT e.ledger_id, e.account_no, e.sequence, true AS is_change, CASE WHEN a.type IN ('asset', 'expense') THEN e.amount ELSE -e.amount END AS change
      FROM entry e JOIN named USING (ledger_id, account_no) JOIN account a USING (ledger_id, account_no)
    UNION ALL
    SELECT h.ledger_id, h.account_no, h.sequence, true, 0 FROM hold_entry h JOIN named USING (ledger_id, account_no)
    UNION ALL
    SELECT ledger_id, account_no, sequence, false, NULL FROM condition),
walk AS (
    SELECT *, coalesce(sum(change) OVER so_far, 0) AS balance, coalesce(max(sequence) FILTER (WHERE is_change) OVER so_far, 0) AS version
      FROM step
    WINDOW so_far AS (PARTITION BY ledger_id, account_no ORDER BY sequence, is_change ROWS UNBOUNDED PRECEDING))
SELECT c.ledger_id, c.sequence, c.transfer_id, c.account_id,
       CASE WHEN w.sequence IS NULL OR c.inside IS NOT TRUE THEN 'has a condition, and is no account of the transfer'
            ELSE concat_ws('; ', CASE WHEN c.balance <> w.balance THEN format('was to have the balance %s, and had %s', left(c.balance::text, 60), left(w.balance::text, 60)) END,
                           CASE WHEN c.version <> w.version THEN format('was to have the version %s, and had %s', c.version, w.version) END) END
  FROM condition c
       LEFT JOIN walk w ON w.ledger_id = c.ledger_id AND w.account_no = c.account_no AND w.sequence = c.sequence AND NOT w.is_change
 WHERE (c.inside AND coalesce(c.balance = w.balance, c.balance IS NULL) AND coalesce(c.version = w.version, c.version IS NULL)) IS NOT TRUE
