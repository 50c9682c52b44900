SELECT e.ledger_id, NULL::bigint, NULL::text, NULL::text,
       format('%s: debits %s, credits %s, off by %s', coalesce(a.currency, 'accounts that do not exist'),
              left(coalesce(sum(e.amount) FILTER (WHERE e.amount > 0), 0)::text, 60),
              left((-coalesce(sum(e.amount) FILTER (WHERE e.amount < 0), 0))::text, 60), left(sum(e.amount)::text, 60))
  FROM entry e LEFT JOIN account a ON a.ledger_id = e.ledger_id AND a.account_no = e.account_no
 GROUP BY e.ledger_id, a.currency
HAVING sum(e.amount) <> 0
