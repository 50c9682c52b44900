-- A record that came to lie behind the relay's cursor after it had passed was never published.
SELECT c.ledger_id, c.through, NULL, NULL,
       format('the relay has published %s records through this number, and the journal has %s: publish them again with khata relay rewind',
              c.records, n.records)
  FROM relay_cursor c
       CROSS JOIN LATERAL (SELECT (SELECT count(*) FROM transfer t WHERE t.ledger_id = c.ledger_id AND t.sequence <= c.through)
                                  + (SELECT count(*) FROM account_change d WHERE d.ledger_id = c.ledger_id AND d.sequence <= c.through) AS records) n
 WHERE n.records <> c.records
