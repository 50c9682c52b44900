-- The queries of internal/auth, the only writer of tokens.

-- name: TokenListValid :many
-- All that let somebody in now.
SELECT token_id, name, secret_sha256, certificate, grants, expires_at
  FROM token
 WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
 ORDER BY created_at, token_id
 LIMIT @most::integer;

-- name: TokenInsert :one
INSERT INTO token (token_id, name, secret_sha256, certificate, grants, expires_at)
VALUES (@token_id, @name, @secret_sha256, @certificate, @grants, clock_timestamp() + make_interval(secs => sqlc.narg(seconds)::double precision))
RETURNING created_at, created_by, expires_at;

-- name: TokenList :many
SELECT token_id, name, certificate, grants, created_at, created_by, expires_at, revoked_at
  FROM token
 ORDER BY created_at, token_id;

-- name: TokenRevoke :one
-- Revoking again keeps the time of the first.
UPDATE token SET revoked_at = coalesce(revoked_at, clock_timestamp())
 WHERE token_id = @token_id
RETURNING name, revoked_at;
