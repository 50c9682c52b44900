-- +goose Up

-- Payments with a step outside the database: money that a gateway takes from a card. Before the gateway is called the key is claimed here,
-- in a commit of its own; the answer and the money are committed together with the end of the claim. What is here is not settled, and so
-- it is a table of its own: a day of payment_key can be dropped whatever is still open.
CREATE TABLE payment_claim (
    user_id     text   COLLATE "C" NOT NULL,
    idem_key    text   COLLATE "C" NOT NULL,
    -- As in payment_key.
    fingerprint bytea  NOT NULL,
    ledger      text   COLLATE "C" NOT NULL,
    transfer_id text   COLLATE "C" NOT NULL,
    -- What is to be posted, in JSON. The card is not in it: nobody but the request itself charges one.
    command     text   NOT NULL,
    -- charge: what the gateway did, or will do, is not known yet; or not recorded yet.
    -- give_back: charged, but the ledger has refused the money, which is on record and answered; the charge has to be given back.
    -- released: nothing was charged, and nothing will be; the key is free. It is kept for the sake of generation.
    step        text   NOT NULL CHECK (step IN ('charge', 'give_back', 'released')),
    -- How often the key was released. The gateway's key is made from it: a charge that was cancelled at the gateway stays so.
    generation  integer NOT NULL,
    gateway_key text   COLLATE "C" NOT NULL UNIQUE,
    -- Until when whoever has the claim is left alone. By the clock of the database.
    lease_until timestamptz NOT NULL,
    -- Who has the claim: only who knows the number may settle it. It is drawn anew with each takeover.
    fence       bigint NOT NULL,
    -- How often it was taken over in this step.
    attempts    integer NOT NULL,
    created_at  timestamptz NOT NULL,
    -- Since when people have to look; NULL is not yet.
    review_at   timestamptz,
    -- What went wrong last.
    detail      text   NOT NULL,
    -- Which request claimed it last: a commit whose answer was lost is recognised by it.
    attempt     uuid   NOT NULL,
    PRIMARY KEY (user_id, idem_key)
);
CREATE INDEX payment_claim_due ON payment_claim (lease_until) WHERE review_at IS NULL AND step <> 'released';
CREATE INDEX payment_claim_review ON payment_claim (review_at) WHERE review_at IS NOT NULL;

-- A number is never drawn twice, also for a key whose claim has gone and come again.
CREATE SEQUENCE payment_claim_fence AS bigint CACHE 1;

-- What people have decided about claims, and why.
CREATE TABLE payment_resolution (
    resolved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    user_id     text   COLLATE "C" NOT NULL,
    idem_key    text   COLLATE "C" NOT NULL,
    fence       bigint NOT NULL,
    transfer_id text   COLLATE "C" NOT NULL,
    gateway_key text   COLLATE "C" NOT NULL,
    resolved_as text   NOT NULL CHECK (resolved_as IN ('charged', 'declined', 'released', 'given-back')),
    reason      text   NOT NULL CHECK (reason <> ''),
    PRIMARY KEY (user_id, idem_key, fence)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON payment_claim TO khata_service;
GRANT USAGE ON SEQUENCE payment_claim_fence TO khata_service;
GRANT SELECT, INSERT ON payment_resolution TO khata_service;
