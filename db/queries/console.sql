-- The queries of internal/auth about who is signed in to the console, whose only writer it is.

-- name: ConsoleSessionInsert :exec
INSERT INTO console_session (session_sha256, token_id, persona, oidc_issuer, oidc_subject, oidc_name, oidc_display, oidc_groups,
                             created_at, expires_at, used_at)
SELECT @session_sha256::bytea, sqlc.narg(token_id)::text, sqlc.narg(persona)::text, sqlc.narg(oidc_issuer)::text, sqlc.narg(oidc_subject)::text,
       sqlc.narg(oidc_name)::text, sqlc.narg(oidc_display)::text, sqlc.narg(oidc_groups)::text[],
       t.now, t.now + make_interval(secs => @seconds::double precision), t.now
  FROM clock_timestamp() AS t (now);

-- name: ConsoleSessionGet :one
-- The holder of a session that has not ended, and how long ago it was used.
SELECT token_id, persona, oidc_issuer, oidc_name, oidc_display, oidc_groups,
       extract(epoch FROM clock_timestamp() - used_at)::double precision AS idle_seconds
  FROM console_session
 WHERE session_sha256 = @session_sha256 AND expires_at > clock_timestamp()
   AND used_at > clock_timestamp() - make_interval(secs => @most_idle_seconds::double precision);

-- name: ConsoleSessionTouch :exec
UPDATE console_session SET used_at = clock_timestamp() WHERE session_sha256 = @session_sha256;

-- name: ConsoleSessionDelete :exec
DELETE FROM console_session WHERE session_sha256 = @session_sha256;

-- name: ConsoleSessionSweep :execrows
-- Those that have ended.
DELETE FROM console_session
 WHERE expires_at <= clock_timestamp() OR used_at <= clock_timestamp() - make_interval(secs => @most_idle_seconds::double precision);
