-- The queries of internal/journal about periods: what reports are made of. Each is of the transfers up to a sequence behind the safe horizon, so
-- that what it tells never changes, however many statements one report takes.

-- name: PeriodAccounts :many
-- Accounts in the order of their ids, after one of them, with their balances before and at the end of a period, and their debits and credits in
-- it. By posting time the numbers in the certain stretches are in the period, and of those in the doubtful ones the transfers whose time says so. By
-- value date, entries for which one of the two times lies in the period and the other does not are put right.
SELECT a.account_no, a.account_id, a.type, a.currency, a.scale, a.name, o.sum::numeric AS opening, c.sum::numeric AS closing,
       p.debit::numeric AS debit, p.credit::numeric AS credit, p.entries::bigint AS entries
  FROM (SELECT * FROM account n
         WHERE n.ledger_id = @ledger_id AND n.account_id > @after AND n.account_id >= @first AND n.account_id < @beyond
           AND (@currency::text = '' OR n.currency = @currency) AND (@type::text = '' OR n.type = @type)
           AND (@pattern::text = '' OR n.account_id ~ @pattern)
         ORDER BY n.account_id LIMIT @page_size) a
       CROSS JOIN LATERAL (SELECT @opening_at::timestamptz AS opening_at, @closing_at::timestamptz AS closing_at, @by_value_date::boolean AS by_value,
                                  @horizon::bigint AS horizon, @opening_base::bigint AS opening_base, @closing_base::bigint AS closing_base,
                                  @opening_afters::bigint[] AS opening_afters, @opening_throughs::bigint[] AS opening_throughs,
                                  @closing_afters::bigint[] AS closing_afters, @closing_throughs::bigint[] AS closing_throughs) x
       CROSS JOIN LATERAL balance_by_time(a.ledger_id, a.account_no, x.opening_at, x.by_value, x.horizon, x.opening_base, x.opening_afters,
                                          x.opening_throughs) AS o (sum, version)
       CROSS JOIN LATERAL balance_by_time(a.ledger_id, a.account_no, x.closing_at, x.by_value, x.horizon, x.closing_base, x.closing_afters,
                                          x.closing_throughs) AS c (sum, version)
       CROSS JOIN LATERAL (
           SELECT coalesce(sum(i.amount * i.n) FILTER (WHERE i.amount > 0), 0) AS debit,
                  coalesce(-sum(i.amount * i.n) FILTER (WHERE i.amount < 0), 0) AS credit,
                  coalesce(sum(i.n), 0) AS entries
             FROM (SELECT e.amount, 1 AS n
                     FROM (SELECT unnest(@certain_afters::bigint[]) AS after, unnest(@certain_throughs::bigint[]) AS through) r
                          CROSS JOIN LATERAL (SELECT f.amount FROM entry f
                                               WHERE f.ledger_id = a.ledger_id AND f.account_no = a.account_no
                                                 AND f.sequence > r.after AND f.sequence <= r.through OFFSET 0) e
                   UNION ALL
                   SELECT e.amount, 1
                     FROM (SELECT unnest(@doubtful_afters::bigint[]) AS after, unnest(@doubtful_throughs::bigint[]) AS through) r
                          CROSS JOIN LATERAL (SELECT f.sequence, f.amount FROM entry f
                                               WHERE f.ledger_id = a.ledger_id AND f.account_no = a.account_no
                                                 AND f.sequence > r.after AND f.sequence <= r.through OFFSET 0) e
                          CROSS JOIN LATERAL (SELECT u.posted_at FROM transfer u
                                               WHERE u.ledger_id = a.ledger_id AND u.sequence = e.sequence OFFSET 0) t
                    WHERE t.posted_at > x.opening_at AND t.posted_at <= x.closing_at
                   UNION ALL
                   SELECT d.amount, CASE WHEN d.effective_at > x.opening_at AND d.effective_at <= x.closing_at THEN 1 ELSE -1 END
                     FROM value_dated_entry d
                    WHERE x.by_value AND d.ledger_id = a.ledger_id AND d.account_no = a.account_no AND d.sequence <= x.horizon
                      AND (d.effective_at > x.opening_at AND d.effective_at <= x.closing_at)
                          <> (d.posted_at > x.opening_at AND d.posted_at <= x.closing_at)) i) p
 ORDER BY a.account_id;

-- name: PeriodEntries :many
-- The entries of accounts in a period, account by account in the order given, by day and then by number. Days are counted by where they begin, so
-- that it is the caller's zones that count.
SELECT a.account_no::bigint AS account_no, i.day::integer AS day, i.sequence::bigint AS sequence, i.leg::smallint AS leg, i.amount::numeric AS amount,
       i.transfer_id, coalesce(i.kind, '')::text AS kind, coalesce(i.origin, '')::text AS origin, i.posted_at::timestamptz AS posted_at, i.effective_at,
       coalesce(i.description, '')::text AS description, i.account_nos
  FROM unnest(@account_nos::bigint[]) WITH ORDINALITY AS a (account_no, place)
       CROSS JOIN LATERAL (SELECT @opening_at::timestamptz AS opening_at, @closing_at::timestamptz AS closing_at, @by_value_date::boolean AS by_value,
                                  @horizon::bigint AS horizon, @ledger_id::integer AS ledger_id, @days::timestamptz[] AS days) x
       CROSS JOIN LATERAL (
           SELECT width_bucket(t.posted_at, x.days) AS day, e.sequence, e.leg, e.amount, t.transfer_id, t.kind, t.origin, t.posted_at, t.effective_at,
                  t.description, t.account_nos
             FROM (SELECT unnest(@afters::bigint[]) AS after, unnest(@throughs::bigint[]) AS through) r
                  CROSS JOIN LATERAL (SELECT f.sequence, f.leg, f.amount FROM entry f
                                       WHERE f.ledger_id = x.ledger_id AND f.account_no = a.account_no
                                         AND f.sequence > r.after AND f.sequence <= r.through OFFSET 0) e
                  CROSS JOIN LATERAL (SELECT * FROM transfer u WHERE u.ledger_id = x.ledger_id AND u.sequence = e.sequence OFFSET 0) t
            WHERE t.posted_at > x.opening_at AND t.posted_at <= x.closing_at AND NOT (x.by_value AND t.effective_at IS NOT NULL)
           UNION ALL
           SELECT width_bucket(d.effective_at, x.days), d.sequence, d.leg, d.amount, t.transfer_id, t.kind, t.origin, t.posted_at, t.effective_at,
                  t.description, t.account_nos
             FROM value_dated_entry d
                  CROSS JOIN LATERAL (SELECT * FROM transfer u WHERE u.ledger_id = x.ledger_id AND u.sequence = d.sequence OFFSET 0) t
            WHERE x.by_value AND d.ledger_id = x.ledger_id AND d.account_no = a.account_no AND d.sequence <= x.horizon
              AND d.sequence > @since::bigint AND d.effective_at > x.opening_at AND d.effective_at <= x.closing_at) i
 ORDER BY a.place, i.day, i.sequence, i.leg;

-- name: PeriodDays :many
-- The debits and credits of accounts in a period, day by day, for days that have any.
SELECT a.account_no::bigint AS account_no, i.day::integer AS day, coalesce(sum(i.amount) FILTER (WHERE i.amount > 0), 0)::numeric AS debit,
       coalesce(-sum(i.amount) FILTER (WHERE i.amount < 0), 0)::numeric AS credit, count(*) AS entries
  FROM unnest(@account_nos::bigint[]) WITH ORDINALITY AS a (account_no, place)
       CROSS JOIN LATERAL (SELECT @opening_at::timestamptz AS opening_at, @closing_at::timestamptz AS closing_at, @by_value_date::boolean AS by_value,
                                  @horizon::bigint AS horizon, @ledger_id::integer AS ledger_id, @days::timestamptz[] AS days) x
       CROSS JOIN LATERAL (
           SELECT width_bucket(t.posted_at, x.days) AS day, e.amount
             FROM (SELECT unnest(@afters::bigint[]) AS after, unnest(@throughs::bigint[]) AS through) r
                  CROSS JOIN LATERAL (SELECT f.sequence, f.amount FROM entry f
                                       WHERE f.ledger_id = x.ledger_id AND f.account_no = a.account_no
                                         AND f.sequence > r.after AND f.sequence <= r.through OFFSET 0) e
                  CROSS JOIN LATERAL (SELECT u.posted_at, u.effective_at FROM transfer u
                                       WHERE u.ledger_id = x.ledger_id AND u.sequence = e.sequence OFFSET 0) t
            WHERE t.posted_at > x.opening_at AND t.posted_at <= x.closing_at AND NOT (x.by_value AND t.effective_at IS NOT NULL)
           UNION ALL
           SELECT width_bucket(d.effective_at, x.days), d.amount
             FROM value_dated_entry d
            WHERE x.by_value AND d.ledger_id = x.ledger_id AND d.account_no = a.account_no AND d.sequence <= x.horizon
              AND d.sequence > @since::bigint AND d.effective_at > x.opening_at AND d.effective_at <= x.closing_at) i
 GROUP BY a.place, a.account_no, i.day
 ORDER BY a.place, i.day;

-- name: PeriodTransfers :many
-- The posted transfers of a period that move money, by day and then by number, each with its entries as the entries' own table has them.
SELECT i.day::integer AS day, t.transfer_id, t.sequence, t.posted_at, t.effective_at, t.account_nos, t.amounts, e.amounts::numeric[] AS entries,
       coalesce(t.description, '')::text AS description, coalesce(t.metadata::text, '')::text AS metadata, t.caller, coalesce(t.kind, '')::text AS kind,
       coalesce(t.origin, '')::text AS origin, coalesce(t.ordinal, 0)::integer AS ordinal, coalesce(t.ends, false)::boolean AS ends, t.reserved, t.deadline,
       coalesce(t.terms::text, '')::text AS terms, coalesce(t.atomic, false)::boolean AS atomic
  FROM (SELECT @opening_at::timestamptz AS opening_at, @closing_at::timestamptz AS closing_at, @by_value_date::boolean AS by_value,
               @days::timestamptz[] AS days) x
       CROSS JOIN transfer t
       CROSS JOIN LATERAL (SELECT CASE WHEN x.by_value THEN coalesce(t.effective_at, t.posted_at) ELSE t.posted_at END AS at) b
       CROSS JOIN LATERAL (SELECT width_bucket(b.at, x.days) AS day) i
       CROSS JOIN LATERAL (SELECT array_agg(f.amount ORDER BY f.leg) AS amounts
                             FROM unnest(t.account_nos) WITH ORDINALITY AS l (account_no, leg)
                                  CROSS JOIN LATERAL (SELECT n.leg, n.amount FROM entry n
                                                       WHERE n.ledger_id = t.ledger_id AND n.account_no = l.account_no AND n.sequence = t.sequence
                                                         AND n.leg = l.leg OFFSET 0) f) e
 WHERE t.ledger_id = @ledger_id AND t.sequence > @after AND t.sequence <= @through AND t.refusal IS NULL AND moves(t.kind)
   AND b.at > x.opening_at AND b.at <= x.closing_at
 ORDER BY i.day, t.sequence;

-- name: PeriodDates :many
-- The first and the last time of the posted transfers of a period, for each day of UTC that has any.
SELECT min(b.at)::timestamptz AS first, max(b.at)::timestamptz AS last
  FROM (SELECT @opening_at::timestamptz AS opening_at, @closing_at::timestamptz AS closing_at, @by_value_date::boolean AS by_value) x
       CROSS JOIN transfer t
       CROSS JOIN LATERAL (SELECT CASE WHEN x.by_value THEN coalesce(t.effective_at, t.posted_at) ELSE t.posted_at END AS at) b
 WHERE t.ledger_id = @ledger_id AND t.sequence > @after AND t.sequence <= @through AND t.refusal IS NULL
   AND b.at > x.opening_at AND b.at <= x.closing_at
 GROUP BY date_trunc('day', b.at, 'UTC')
 ORDER BY 1;

-- name: PeriodActivity :many
-- How many transfers were decided in a period, day by day, by kind and refusal.
SELECT i.day::integer AS day, coalesce(t.kind, '')::text AS kind, coalesce(t.refusal, '')::text AS refusal, count(*) AS transfers,
       coalesce(sum(CASE WHEN t.refusal IS NULL AND moves(t.kind) THEN cardinality(t.account_nos) ELSE 0 END), 0)::bigint AS entries
  FROM (SELECT @opening_at::timestamptz AS opening_at, @closing_at::timestamptz AS closing_at, @days::timestamptz[] AS days) x
       CROSS JOIN transfer t
       CROSS JOIN LATERAL (SELECT width_bucket(t.posted_at, x.days) AS day) i
 WHERE t.ledger_id = @ledger_id AND t.sequence > @after AND t.sequence <= @through AND t.posted_at > x.opening_at AND t.posted_at <= x.closing_at
 GROUP BY i.day, t.kind, t.refusal
 ORDER BY i.day, kind, refusal;

-- name: NewestEntries :many
-- The entries of an account on one side up to a number, the newest first, after a place.
SELECT e.sequence, e.leg, e.amount, t.transfer_id, t.posted_at, t.effective_at, coalesce(t.description, '')::text AS description
  FROM (SELECT f.ledger_id, f.sequence, f.leg, f.amount FROM entry f
         WHERE f.ledger_id = @ledger_id AND f.account_no = @account_no AND f.sequence <= @horizon::bigint
           AND (f.sequence, f.leg) < (@sequence::bigint, @leg::smallint)
         ORDER BY f.sequence DESC, f.leg DESC LIMIT @page_size) e
       CROSS JOIN LATERAL (SELECT * FROM transfer u WHERE u.ledger_id = e.ledger_id AND u.sequence = e.sequence OFFSET 0) t
 ORDER BY e.sequence DESC, e.leg DESC;
