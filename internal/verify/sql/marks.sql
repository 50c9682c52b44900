-- A mark stands at every so many transfers of a ledger, up to its last one, and says of its stretch what the transfers say.
WITH numbered AS (
    SELECT ledger_id, sequence, posted_at, (row_number() OVER (PARTITION BY ledger_id ORDER BY sequence) - 1) / transfers_per_mark() AS stretch,
           -- Of a capture both tables have snapshots.
           CASE WHEN refusal IS NULL AND sampled(sequence)
                THEN (SELECT count(DISTINCT no) FROM unnest(account_nos) no)
                     * (CASE WHEN kind IS NULL OR kind IN ('capture', 'refund', 'reversal') THEN 1 ELSE 0 END + CASE WHEN reserved IS NULL THEN 0 ELSE 1 END)
                ELSE 0 END AS snapshots
      FROM transfer),
stretch AS (
    SELECT ledger_id, max(sequence) AS horizon, min(posted_at) AS earliest, max(posted_at) AS latest, sum(snapshots) AS snapshots
      FROM numbered GROUP BY ledger_id, stretch HAVING count(*) = transfers_per_mark()),
due AS (
    SELECT s.ledger_id, s.horizon, s.snapshots, s.earliest, max(s.latest) OVER (so_far) AS latest,
           coalesce(s.earliest < max(s.latest) OVER (so_far ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) - interval '100 ms', false) AS goes_back
      FROM stretch s JOIN (SELECT ledger_id, max(horizon) AS horizon FROM mark GROUP BY ledger_id) m ON m.ledger_id = s.ledger_id
     WHERE s.horizon <= m.horizon
    WINDOW so_far AS (PARTITION BY s.ledger_id ORDER BY s.horizon))
SELECT ledger_id, horizon, NULL::text, NULL::text,
       CASE WHEN d.latest IS NULL THEN 'no mark belongs here'
            WHEN m.latest IS NULL THEN 'there is no mark here'
            ELSE format('the mark says %s snapshots from %s to %s%s, the transfers %s from %s to %s%s',
                        m.snapshots, m.earliest, m.latest, CASE WHEN m.goes_back THEN ', going back' END,
                        d.snapshots, d.earliest, d.latest, CASE WHEN d.goes_back THEN ', going back' END) END
  FROM due d FULL JOIN mark m USING (ledger_id, horizon)
 WHERE (d.snapshots, d.earliest, d.latest, d.goes_back) IS DISTINCT FROM (m.snapshots, m.earliest, m.latest, m.goes_back)
