-- One counter serves all ledgers, and transfers and changes of accounts and periods alike. Its last value obeys no snapshot; read now,
-- it is no less than when the snapshot was taken, and every number that is visible had been drawn by then.
WITH numbered AS (
    SELECT ledger_id, sequence, transfer_id, NULL::bigint AS account_no FROM transfer
    UNION ALL
    SELECT ledger_id, sequence, NULL, account_no FROM account_change
    UNION ALL
    SELECT ledger_id, sequence, NULL, NULL FROM period_change),
drawn AS MATERIALIZED (
    SELECT coalesce(pg_sequence_last_value(to_regclass('public.journal_sequence')), 0) AS last),
twice AS (
    SELECT sequence FROM numbered GROUP BY sequence HAVING count(*) > 1)
SELECT min(n.ledger_id), n.sequence, min(n.transfer_id), min(a.account_id),
       format('%s rows have this number: %s', count(*),
              left(string_agg(concat_ws(' ', CASE WHEN n.transfer_id IS NOT NULL THEN 'transfer ' || n.transfer_id
                                                  WHEN n.account_no IS NULL THEN 'a change of a closed period'
                                                  ELSE 'a change of account ' || coalesce(a.account_id, 'number ' || n.account_no) END, 'of ledger number', n.ledger_id), ', '
                              ORDER BY n.ledger_id, n.transfer_id, n.account_no), 400))
  FROM numbered n JOIN twice USING (sequence) LEFT JOIN account a ON a.ledger_id = n.ledger_id AND a.account_no = n.account_no
 GROUP BY n.sequence
UNION ALL
SELECT n.ledger_id, n.sequence, n.transfer_id, a.account_id,
       concat_ws(' ', CASE WHEN n.transfer_id IS NOT NULL THEN NULL WHEN n.account_no IS NULL THEN 'a change of a closed period'
                      ELSE 'a change of the account' END,
                 CASE WHEN n.sequence > drawn.last THEN format('has a number above the last one drawn, which is %s', drawn.last)
                      ELSE 'has no number of 1 or more' END)
  FROM drawn JOIN numbered n ON n.sequence > drawn.last OR n.sequence < 1 OR n.sequence IS NULL
       LEFT JOIN account a ON a.ledger_id = n.ledger_id AND a.account_no = n.account_no
