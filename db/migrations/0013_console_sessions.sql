-- +goose Up

-- Who is signed in to the console. Of what a browser shows there is only the hash, as with tokens: to read this table lets nobody in.
-- A session says whose it is and no more. What its holder may do is looked up at each request, so that a token that is revoked ends its
-- sessions, and one whose roles were changed has no others here.
--
-- It is no record of who has done what, which the books have themselves; so, unlike everywhere else, rows are deleted.
CREATE TABLE console_session (
    session_sha256 bytea       PRIMARY KEY,
    -- One of the two: which token it was, or, on a server that asks nobody who they are, whom its visitor has picked to be. Nothing refers to
    -- the other table: of what is looked up each time, a name that is not there is as good as one that was revoked.
    token_id       text        COLLATE "C",
    persona        text,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When it ends whatever happens; and when it was last used, to the minute, since it ends sooner when nobody uses it.
    expires_at     timestamptz NOT NULL,
    used_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT console_session_hash_check CHECK (length(session_sha256) = 32),
    CONSTRAINT console_session_holder_check CHECK (num_nonnulls(token_id, persona) = 1),
    CONSTRAINT console_session_expiry_check CHECK (created_at < expires_at AND expires_at <= created_at + interval '1 day')
);
CREATE INDEX console_session_expires_at ON console_session (expires_at);

GRANT SELECT, INSERT, UPDATE (used_at), DELETE ON console_session TO khata_service;
