-- name: WalletGate :exec
-- Whoever changes the view by events holds this lock together with the others. Class 4250 is the wallet view's, as 4247 is that of the gates.
SELECT pg_advisory_xact_lock_shared(4250, 1);

-- name: WalletGateAlone :exec
-- Whoever brings it up to date from the journal holds it alone, until he unlocks it or his session ends.
SELECT pg_advisory_lock(4250, 1);

-- name: WalletGateLeave :one
SELECT pg_advisory_unlock(4250, 1) AS had;

-- name: WalletBuilder :one
-- One at a time reads the journal for the view.
SELECT pg_try_advisory_lock(4250, 2) AS alone;

-- name: WalletState :many
-- The generation that is read, and how far the journal was read for it; a row without a ledger where that is nowhere.
SELECT s.generation, s.built_at, coalesce(c.ledger, '')::text AS ledger, coalesce(c.through, 0)::bigint AS through
  FROM khata_wallet.state s LEFT JOIN khata_wallet.covered c ON c.generation = s.generation;

-- name: WalletLastGeneration :one
SELECT greatest((SELECT max(w.generation) FROM khata_wallet.wallet w), (SELECT max(c.generation) FROM khata_wallet.covered c),
                (SELECT s.generation FROM khata_wallet.state s), 0)::integer AS generation;

-- name: WalletSetGeneration :exec
INSERT INTO khata_wallet.state (generation) VALUES (@generation)
ON CONFLICT (only_one) DO UPDATE SET generation = EXCLUDED.generation, built_at = clock_timestamp();

-- name: WalletCover :exec
INSERT INTO khata_wallet.covered (generation, ledger, through) VALUES (@generation, @ledger, @through)
ON CONFLICT (generation, ledger) DO UPDATE SET through = EXCLUDED.through;

-- name: WalletsOf :many
-- The rows of accounts, locked in the order that is given. Each is looked up by its key: in a join the planner, who knows nothing yet of a table
-- that was just filled, reads all accounts of the ledger for each.
SELECT w.ledger, w.account, w.currency, w.scale, w.posted, w.held, w.incoming, w.version, w.moved_at, w.type, w.name, w.frozen, w.closed, w.account_version
  FROM (SELECT unnest(@ledgers::text[]) AS ledger, unnest(@accounts::text[]) AS account) n
       CROSS JOIN LATERAL (SELECT * FROM khata_wallet.wallet c
                            WHERE c.generation = coalesce(sqlc.narg(generation)::integer, (SELECT s.generation FROM khata_wallet.state s))
                              AND c.ledger = n.ledger AND c.account = n.account FOR UPDATE) w;

-- name: WalletsBegin :exec
-- The rows of accounts that have none yet.
INSERT INTO khata_wallet.wallet (generation, ledger, account)
SELECT @generation::integer, n.ledger, n.account
  FROM (SELECT unnest(@ledgers::text[]) AS ledger, unnest(@accounts::text[]) AS account) n
 ORDER BY n.ledger, n.account
ON CONFLICT DO NOTHING;

-- name: WalletsSet :exec
-- What the accounts have now. Their rows are there, and locked; said in this way, they are found by their key.
INSERT INTO khata_wallet.wallet AS w (generation, ledger, account, currency, scale, posted, held, incoming, version, moved_at, type, name, frozen,
                                      closed, account_version)
SELECT @generation::integer, n.ledger, n.account, n.currency, n.scale, n.posted, n.held, n.incoming, n.version,
       CASE WHEN n.version > 0 THEN n.moved_at END, n.type, n.name, n.frozen, n.closed, n.account_version
  FROM (SELECT unnest(@ledgers::text[]) AS ledger, unnest(@accounts::text[]) AS account, unnest(@currencies::text[]) AS currency,
               unnest(@scales::smallint[]) AS scale, unnest(@posteds::numeric[]) AS posted, unnest(@helds::numeric[]) AS held,
               unnest(@incomings::numeric[]) AS incoming, unnest(@versions::bigint[]) AS version, unnest(@moved_ats::timestamptz[]) AS moved_at,
               unnest(@types::text[]) AS type, unnest(@names::text[]) AS name, unnest(@frozens::text[]) AS frozen,
               unnest(@closeds::boolean[]) AS closed, unnest(@account_versions::bigint[]) AS account_version) n
ON CONFLICT (generation, ledger, account) DO UPDATE
   SET currency = EXCLUDED.currency, scale = EXCLUDED.scale, posted = EXCLUDED.posted, held = EXCLUDED.held, incoming = EXCLUDED.incoming,
       version = EXCLUDED.version, moved_at = EXCLUDED.moved_at, type = EXCLUDED.type, name = EXCLUDED.name, frozen = EXCLUDED.frozen,
       closed = EXCLUDED.closed, account_version = EXCLUDED.account_version;

-- name: WalletMovementsInsert :exec
INSERT INTO khata_wallet.movement (generation, ledger, account, version, transfer_id, kind, origin, posted, held, incoming, balance, posted_at,
                                   effective_at, description, payer, payee)
SELECT @generation::integer, n.ledger, n.account, n.version, n.transfer_id, n.kind, n.origin, n.posted, n.held, n.incoming, n.balance, n.posted_at,
       CASE WHEN n.back_dated THEN n.effective_at END, n.description, n.payer, n.payee
  FROM (SELECT unnest(@ledgers::text[]) AS ledger, unnest(@accounts::text[]) AS account, unnest(@versions::bigint[]) AS version,
               unnest(@transfer_ids::text[]) AS transfer_id, unnest(@kinds::text[]) AS kind, unnest(@origins::text[]) AS origin,
               unnest(@posteds::numeric[]) AS posted, unnest(@helds::numeric[]) AS held, unnest(@incomings::numeric[]) AS incoming,
               unnest(@balances::numeric[]) AS balance, unnest(@posted_ats::timestamptz[]) AS posted_at,
               unnest(@back_dateds::boolean[]) AS back_dated, unnest(@effective_ats::timestamptz[]) AS effective_at,
               unnest(@descriptions::text[]) AS description, unnest(@payers::text[]) AS payer, unnest(@payees::text[]) AS payee) n;

-- name: WalletMovementsUnknown :many
-- Those of some movements that the view does not have.
SELECT n.ledger::text AS ledger, n.account::text AS account, n.version::bigint AS version, n.transfer_id::text AS transfer_id
  FROM (SELECT unnest(@ledgers::text[]) AS ledger, unnest(@accounts::text[]) AS account, unnest(@versions::bigint[]) AS version,
               unnest(@transfer_ids::text[]) AS transfer_id) n
 WHERE NOT EXISTS (SELECT FROM khata_wallet.movement m
                    WHERE m.generation = @generation AND m.ledger = n.ledger AND m.account = n.account AND m.version = n.version
                      AND m.transfer_id = n.transfer_id);

-- name: WalletMovementsForget :execrows
-- Movements that are old, some at a time. A balance is not made of them.
DELETE FROM khata_wallet.movement
 WHERE ctid = ANY (ARRAY(SELECT m.ctid FROM khata_wallet.movement m WHERE m.posted_at < @before LIMIT @at_most));

-- name: WalletGenerationForget :execrows
-- Rows of generations that nobody reads, nor builds.
WITH w AS (
    DELETE FROM khata_wallet.wallet d
     WHERE d.ctid = ANY (ARRAY(SELECT o.ctid FROM khata_wallet.wallet o WHERE o.generation <> @keep LIMIT @at_most))
    RETURNING 1
), m AS (
    DELETE FROM khata_wallet.movement d
     WHERE d.ctid = ANY (ARRAY(SELECT o.ctid FROM khata_wallet.movement o WHERE o.generation <> @keep LIMIT @at_most))
    RETURNING 1
), c AS (
    DELETE FROM khata_wallet.covered d WHERE d.generation <> @keep
)
SELECT 1 FROM w UNION ALL SELECT 1 FROM m;

-- name: WalletByAccount :one
SELECT w.ledger, w.account, w.currency, w.scale, w.posted, w.held, w.incoming, w.version, w.moved_at, w.type, w.name, w.frozen, w.closed, w.account_version
  FROM khata_wallet.wallet w
 WHERE w.generation = (SELECT s.generation FROM khata_wallet.state s) AND w.ledger = @ledger AND w.account = @account;

-- name: WalletMovements :many
-- The last movements of an account, the newest first.
SELECT m.version, m.transfer_id, m.kind, m.origin, m.posted, m.held, m.incoming, m.balance, m.posted_at, m.effective_at, m.description, m.payer, m.payee
  FROM khata_wallet.movement m
 WHERE m.generation = (SELECT s.generation FROM khata_wallet.state s) AND m.ledger = @ledger AND m.account = @account
 ORDER BY m.version DESC
 LIMIT @at_most;

-- name: WalletPage :many
-- Accounts in their order, with the balance after their last movement as far as that is kept.
SELECT w.account, w.currency, w.posted, w.held, w.incoming, w.version, w.account_version, w.name, w.type, w.frozen, w.closed,
       l.balance AS last_balance
  FROM khata_wallet.wallet w
       LEFT JOIN khata_wallet.movement l
              ON l.generation = w.generation AND l.ledger = w.ledger AND l.account = w.account AND l.version = w.version
 WHERE w.generation = @generation AND w.ledger = @ledger AND w.account > @after
 ORDER BY w.account
 LIMIT @at_most;

-- name: WalletLedgers :many
SELECT DISTINCT w.ledger FROM khata_wallet.wallet w WHERE w.generation = @generation ORDER BY w.ledger;

-- name: WalletWrongMovements :many
-- Movements whose balance is not that of the one before them and what they added.
SELECT v.ledger, v.account, v.version, v.balance, (v.before + v.posted)::numeric AS should
  FROM (SELECT m.ledger, m.account, m.version, m.posted, m.balance,
               lag(m.balance) OVER (PARTITION BY m.ledger, m.account ORDER BY m.version) AS before
          FROM khata_wallet.movement m WHERE m.generation = @generation) v
 WHERE v.before + v.posted <> v.balance
 LIMIT @at_most;

-- name: WalletMovementCount :one
SELECT count(*) FROM khata_wallet.movement m WHERE m.generation = @generation;
