-- name: WalletState :many
-- The generation that is read, and how far the journal was read for it; a row without a ledger where that is nowhere.
SELECT s.generation, coalesce(c.ledger, '')::text AS ledger, coalesce(c.through, 0)::bigint AS through
  FROM khata_wallet.state s LEFT JOIN khata_wallet.covered c ON c.generation = s.generation;
