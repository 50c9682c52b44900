-- +goose Up

-- Who may call: the tokens and certificates of services. Several may bear one name, so that a new one is handed out before the
-- old one is revoked. What a token is and may do never changes; it is revoked, and another one made.
--
-- Only the owner of the database writes here (khata token). The service reads, and what it reads does not let anyone in: of a
-- secret of 32 random bytes the hash is enough to know it again, and no hint of it.
CREATE TABLE token (
    token_id      text        COLLATE "C" PRIMARY KEY,
    -- The caller, as it is recorded in transfers. Neither a user's, which has a colon, nor Khata's own.
    name          text        COLLATE "C" NOT NULL,
    -- One of the two: of a secret, or the name in a client certificate (a DNS name, a URI, or the common name). Rows that are valid
    -- for one certificate add up if they have one name; a certificate with two names lets nobody in.
    secret_sha256 bytea,
    certificate   text        COLLATE "C",
    -- Each a ledger, or * for all, a colon and a role.
    grants        text[]      COLLATE "C" NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by    text        NOT NULL DEFAULT session_user,
    expires_at    timestamptz,
    revoked_at    timestamptz,
    CONSTRAINT token_id_check CHECK (token_id ~ '^[a-z0-9]{1,32}$'),
    CONSTRAINT token_name_check CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$' AND name <> 'khata'),
    CONSTRAINT token_kind_check CHECK (num_nonnulls(secret_sha256, certificate) = 1),
    CONSTRAINT token_secret_check CHECK (length(secret_sha256) = 32),
    CONSTRAINT token_certificate_check CHECK (certificate <> ''),
    CONSTRAINT token_grants_check CHECK (array_to_string(grants, ' ', '?') ~
        '^((^| )(\*|[a-z0-9][a-z0-9_-]{0,62}):(poster|reader|finance|support|approver|admin))+$')
);

-- Who could do what, and when, can still be told of years ago.
CREATE TRIGGER token_refuse_change BEFORE DELETE OR TRUNCATE ON token
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE token ENABLE ALWAYS TRIGGER token_refuse_change;

GRANT SELECT ON token TO khata_service;
