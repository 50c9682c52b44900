-- +goose Up

-- A view of the ledger's accounts, made of events: what each has, and what moved it last.
CREATE SCHEMA IF NOT EXISTS khata_wallet;

-- Which generation of the rows is read. A view that is built anew is another generation, beside the one that is read until it is done.
CREATE TABLE khata_wallet.state (
    only_one   boolean     PRIMARY KEY DEFAULT true CONSTRAINT state_only_one CHECK (only_one),
    generation integer     NOT NULL,
    built_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Through which sequence the journal itself was read. Events up to there are in the view already.
CREATE TABLE khata_wallet.covered (
    generation integer NOT NULL,
    ledger     text    COLLATE "C" NOT NULL,
    through    bigint  NOT NULL,
    PRIMARY KEY (generation, ledger)
);

-- An account is what all its movements up to its version make, and none after: its events come in their order.
CREATE TABLE khata_wallet.wallet (
    generation      integer     NOT NULL,
    ledger          text        COLLATE "C" NOT NULL,
    account         text        COLLATE "C" NOT NULL,
    currency        text        COLLATE "C" NOT NULL DEFAULT '',
    scale           smallint    NOT NULL DEFAULT 0,
    -- As GetBalance has them, in the account's normal direction. Available is posted - held.
    posted          numeric     NOT NULL DEFAULT 0,
    held            numeric     NOT NULL DEFAULT 0,
    incoming        numeric     NOT NULL DEFAULT 0,
    -- The sequence of the last movement; 0 before the first.
    version         bigint      NOT NULL DEFAULT 0,
    moved_at        timestamptz,
    -- Of the account, as far as its events were seen.
    type            text        NOT NULL DEFAULT '',
    name            text        NOT NULL DEFAULT '',
    frozen          text        NOT NULL DEFAULT '',
    closed          boolean     NOT NULL DEFAULT false,
    account_version bigint      NOT NULL DEFAULT 0,
    PRIMARY KEY (generation, ledger, account)
) WITH (fillfactor = 80);

-- What moved an account. The key is the last guard: no movement is there twice, whoever writes it.
CREATE TABLE khata_wallet.movement (
    generation   integer     NOT NULL,
    ledger       text        COLLATE "C" NOT NULL,
    account      text        COLLATE "C" NOT NULL,
    version      bigint      NOT NULL,
    transfer_id  text        COLLATE "C" NOT NULL,
    kind         text        NOT NULL,
    origin       text        NOT NULL,
    posted       numeric     NOT NULL,
    held         numeric     NOT NULL,
    incoming     numeric     NOT NULL,
    -- Of posted, after it.
    balance      numeric     NOT NULL,
    posted_at    timestamptz NOT NULL,
    effective_at timestamptz,
    description  text        NOT NULL,
    payer        text        NOT NULL,
    payee        text        NOT NULL,
    PRIMARY KEY (generation, ledger, account, version)
);
-- For those that are old enough to go. They come roughly in the order of their time.
CREATE INDEX movement_age ON khata_wallet.movement USING brin (posted_at) WITH (pages_per_range = 32);
