-- +goose Up

-- A third holder of a session of the console: a person whom an identity provider knows. What it said of them at sign-in is all that there is of
-- them here; there is no table of people, and no token of the provider's is kept.
SET LOCAL lock_timeout = '3s';

ALTER TABLE console_session
    -- Whose subject it is: to one provider the subjects of another say nothing.
    ADD COLUMN oidc_issuer  text COLLATE "C",
    ADD COLUMN oidc_subject text COLLATE "C",
    -- What is recorded as who has done something, after "oidc:"; and a name to be read, which people may have chosen themselves, or ''.
    ADD COLUMN oidc_name    text COLLATE "C",
    ADD COLUMN oidc_display text,
    -- The person's groups that had a role. What they may do is looked up at each request, by what the servers are configured with then.
    ADD COLUMN oidc_groups  text[] COLLATE "C",
    DROP CONSTRAINT console_session_holder_check,
    ADD CONSTRAINT console_session_holder_check CHECK (num_nonnulls(token_id, persona, oidc_subject) = 1),
    ADD CONSTRAINT console_session_oidc_check CHECK (num_nonnulls(oidc_issuer, oidc_subject, oidc_name, oidc_display, oidc_groups) IN (0, 5));
