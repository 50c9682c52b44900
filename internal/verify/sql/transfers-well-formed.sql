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
                    THEN 'an account is on both sides of it' END,
               -- Nor is a plain one any of these.
               CASE WHEN num_nonnulls(t.kind, t.origin, t.ordinal, t.ends, t.reserved, t.deadline, t.terms, t.atomic) > 0 THEN NULLIF(concat_ws('; ',
                    CASE WHEN t.kind NOT IN ('hold', 'capture', 'void', 'expiry', 'refund', 'reversal') THEN 'there is no kind ' || left(t.kind, 60) END,
                    CASE WHEN (t.origin IS NOT NULL) <> (t.kind IS NOT NULL AND t.kind <> 'hold')
                         THEN format('its origin cannot be %s', coalesce(t.origin, 'NULL')) END,
                    CASE WHEN (t.ordinal IS NOT NULL) <> (t.origin IS NOT NULL AND t.refusal IS NULL) OR t.ordinal < 1
                         THEN format('its ordinal cannot be %s', coalesce(t.ordinal::text, 'NULL')) END,
                    CASE WHEN t.ends IS NOT NULL AND (t.ends AND t.ordinal IS NOT NULL AND t.kind IN ('capture', 'void', 'expiry', 'reversal')) IS NOT TRUE
                           OR t.ends IS NULL AND t.refusal IS NULL AND t.kind IN ('void', 'expiry', 'reversal')
                         THEN format('ends cannot be %s', coalesce(t.ends::text, 'NULL')) END,
                    CASE WHEN (t.reserved IS NOT NULL) <> (t.refusal IS NULL AND coalesce(t.kind IN ('hold', 'capture', 'void', 'expiry'), false))
                           OR t.kind = 'hold' AND t.reserved <> abs(t.amounts[1]) OR t.kind <> 'hold' AND t.reserved >= 0
                         THEN format('what it reserves cannot be %s', coalesce(left(t.reserved::text, 60), 'NULL')) END,
                    CASE WHEN t.deadline IS NOT NULL AND (t.kind = 'hold' AND t.refusal IS NULL AND isfinite(t.deadline)) IS NOT TRUE
                         THEN format('its deadline cannot be %s', t.deadline) END,
                    CASE WHEN t.effective_at IS NOT NULL AND t.kind IN ('hold', 'void', 'expiry') THEN 'it has a value date, and moves nothing' END,
                    CASE WHEN t.kind IN ('hold', 'capture', 'void', 'expiry') AND cardinality(t.account_nos) <> 2 THEN 'its entries are no pair' END,
                    CASE WHEN t.atomic IS NOT NULL AND NOT (t.atomic AND t.refusal IS NOT NULL) THEN format('atomic cannot be %s', t.atomic) END,
                    CASE WHEN t.terms IS NULL THEN NULL
                         WHEN NOT terms_readable(t.terms) THEN 'its terms cannot be read: ' || left(t.terms::text, 100)
                         WHEN EXISTS (SELECT FROM json_object_keys(t.terms) k
                                       WHERE k <> ALL (CASE coalesce(t.kind, 'transfer')
                                                            WHEN 'transfer' THEN '{amount,balancing,conditions}'
                                                            WHEN 'hold' THEN '{expires_at,expires_after,conditions}'
                                                            WHEN 'capture' THEN '{amount,keep_open}'
                                                            WHEN 'refund' THEN '{amount,expected_refunded,reason}'
                                                            ELSE '{}' END::text[]))
                         THEN 'its terms are those of another kind: ' || left(t.terms::text, 100)
                         WHEN t.kind IS NOT NULL OR num_nonnulls(t.terms -> 'amount', t.terms -> 'balancing') = 0 THEN NULL
                         WHEN (num_nonnulls(t.terms -> 'amount', t.terms -> 'balancing') = 2 AND cardinality(t.account_nos) = 2
                               AND CASE WHEN t.refusal IS NULL THEN abs(t.amounts[1]) <= (t.terms ->> 'amount')::numeric
                                        ELSE abs(t.amounts[1]) = (t.terms ->> 'amount')::numeric END) IS NOT TRUE
                         THEN format('it was to move at most %s, and is for %s', left(coalesce(t.terms ->> 'amount', 'NULL'), 60), left(abs(t.amounts[1])::text, 60)) END),
                    '') END) AS what
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
