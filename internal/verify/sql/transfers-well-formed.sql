-- What a transfer's row says by itself, refused ones included.
WITH fault AS (
    SELECT * FROM (
        SELECT t.ledger_id, t.sequence, t.transfer_id, concat_ws('; ',
               CASE WHEN g.ledger_id IS NULL THEN 'its ledger does not exist' END,
               CASE WHEN (length(t.transfer_id) BETWEEN 1 AND 128 AND t.transfer_id !~ '[^!-~]') IS NOT TRUE THEN 'its id is malformed' END,
               CASE WHEN t.posted_at IS NULL OR NOT isfinite(t.posted_at) OR t.posted_at > clock_timestamp() + interval '1 day'
                    THEN 'posted_at cannot be ' || coalesce(t.posted_at::text, 'NULL') END,
               CASE WHEN NOT isfinite(t.effective_at) OR t.effective_at < '0001-01-01' OR t.effective_at >= '10000-01-01'
                    THEN 'effective_at cannot be ' || t.effective_at END,
               CASE WHEN json_typeof(t.metadata) <> 'object' THEN 'its metadata is not an object' END,
               CASE WHEN t.caller IS NULL THEN 'it has no caller' END,
               CASE WHEN (cardinality(t.account_nos) BETWEEN 2 AND 1000 AND cardinality(t.account_nos) = cardinality(t.amounts)
                          AND array_ndims(t.account_nos) = 1 AND array_ndims(t.amounts) = 1
                          AND array_position(t.account_nos, NULL) IS NULL AND array_position(t.amounts, NULL) IS NULL) IS NOT TRUE
                    THEN format('its arrays make no entries: accounts %s, amounts %s',
                                left(t.account_nos::text, 100), left(t.amounts::text, 100)) END,
               -- Most transfers have two entries, and need no look at each.
               CASE WHEN cardinality(t.account_nos) = 2 AND t.account_nos[1] <> t.account_nos[2] THEN NULL
                    WHEN EXISTS (SELECT FROM unnest(t.account_nos, t.amounts) l (account_no, amount)
                                  GROUP BY l.account_no HAVING count(*) > 1 AND min(l.amount) < 0 AND max(l.amount) > 0)
                    THEN 'an account is on both sides of it' END) AS what
          FROM transfer t LEFT JOIN (SELECT DISTINCT ledger_id FROM ledger) g ON g.ledger_id = t.ledger_id) t
     WHERE what <> ''
    UNION ALL
    SELECT l.ledger_id, l.sequence, l.transfer_id,
           CASE WHEN a.account_no IS NULL THEN format('its ledger has no account number %s', l.account_no)
                ELSE format('%s %s cannot be an amount of account %s', left(l.amount::text, 60), a.currency, a.account_id) END
      FROM (SELECT ledger_id, sequence, transfer_id, unnest(account_nos) AS account_no, unnest(amounts) AS amount FROM transfer) l
           LEFT JOIN account a ON a.ledger_id = l.ledger_id AND a.account_no = l.account_no
     WHERE a.account_no IS NULL AND l.account_no IS NOT NULL
        OR l.amount = 0 OR abs(l.amount) >= 1e38 OR l.amount = 'NaN' OR l.amount <> trunc(l.amount, a.scale))
SELECT ledger_id, sequence, transfer_id, NULL::text, left(string_agg(DISTINCT what, '; '), 400)
  FROM fault GROUP BY ledger_id, sequence, transfer_id
