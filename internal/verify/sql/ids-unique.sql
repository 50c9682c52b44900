SELECT ledger_id, min(sequence), transfer_id, NULL::text,
       format('%s transfers have this id, with the sequences %s', count(*), left(string_agg(sequence::text, ', ' ORDER BY sequence), 200))
  FROM transfer GROUP BY ledger_id, transfer_id HAVING count(*) > 1
UNION ALL
SELECT ledger_id, NULL, NULL, account_id,
       format('%s accounts have this id, with the numbers %s', count(*), left(string_agg(account_no::text, ', ' ORDER BY account_no), 200))
  FROM account GROUP BY ledger_id, account_id HAVING count(*) > 1
UNION ALL
SELECT ledger_id, NULL, NULL, min(account_id),
       format('%s accounts have the number %s: %s', count(*), account_no, left(string_agg(account_id, ', ' ORDER BY account_id), 200))
  FROM account GROUP BY ledger_id, account_no HAVING count(*) > 1
UNION ALL
SELECT ledger_id, NULL, NULL, NULL, format('%s rows of currency %s', count(*), code)
  FROM currency GROUP BY ledger_id, code HAVING count(*) > 1
UNION ALL
SELECT min(ledger_id), NULL, NULL, NULL, format('%s ledgers have the name %s', count(*), name)
  FROM ledger GROUP BY name HAVING count(*) > 1
UNION ALL
SELECT ledger_id, NULL, NULL, NULL, format('%s ledgers have the number %s', count(*), ledger_id)
  FROM ledger GROUP BY ledger_id HAVING count(*) > 1
