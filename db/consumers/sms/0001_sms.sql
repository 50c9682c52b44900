-- +goose Up

-- Text messages that tell people what their accounts did, and whom to tell.
CREATE SCHEMA IF NOT EXISTS khata_sms;

-- That the accounts of the books were read once. Before that nobody knows who is who, and which movements are from before.
CREATE TABLE khata_sms.state (
    only_one boolean     PRIMARY KEY DEFAULT true CONSTRAINT state_only_one CHECK (only_one),
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- No message for movements of a ledger up to this sequence: they were before this consumer began. A ledger without a row is younger than it.
CREATE TABLE khata_sms.covered (
    ledger  text   COLLATE "C" PRIMARY KEY,
    through bigint NOT NULL
);

-- The accounts, all of them: those without a phone are named in the messages of others.
CREATE TABLE khata_sms.recipient (
    ledger   text   COLLATE "C" NOT NULL,
    account  text   COLLATE "C" NOT NULL,
    name     text   NOT NULL,
    -- Empty: none. E.164 otherwise.
    phone    text   NOT NULL CONSTRAINT recipient_phone CHECK (phone = '' OR phone ~ '^\+[1-9][0-9]{6,14}$'),
    -- Empty: as the consumer is told.
    language text   NOT NULL CONSTRAINT recipient_language CHECK (language IN ('', 'bn', 'en')),
    -- Which messages: all, received or off.
    wants    text   NOT NULL CONSTRAINT recipient_wants CHECK (wants IN ('all', 'received', 'off')),
    -- Of the account: the sequence of its last change that is known. Only a higher one replaces what is here.
    version  bigint NOT NULL,
    PRIMARY KEY (ledger, account)
);

-- The messages. The key is the last guard: an event has one message, whatever else fails.
CREATE TABLE khata_sms.message (
    -- The event's id, and the key at the gateway.
    event_id        text        COLLATE "C" PRIMARY KEY,
    ledger          text        COLLATE "C" NOT NULL,
    account         text        COLLATE "C" NOT NULL,
    transfer_id     text        COLLATE "C" NOT NULL,
    kind            text        NOT NULL,
    phone           text        NOT NULL,
    language        text        NOT NULL,
    -- As it is sent, at every try.
    text            text        NOT NULL,
    event_time      timestamptz NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- What its age is counted from: the event's time, or when somebody asked for it to be tried again.
    fresh_from      timestamptz NOT NULL,
    state           text        NOT NULL DEFAULT 'queued'
                    CONSTRAINT message_state CHECK (state IN ('queued', 'sending', 'sent', 'failed', 'expired')),
    -- How often a sender took it to call the gateway: at least as often as it was called.
    attempts        integer     NOT NULL DEFAULT 0,
    -- When a sender may take it: of one that is being sent, when nobody has heard of that in time.
    next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_until     timestamptz CONSTRAINT message_lease CHECK ((lease_until IS NOT NULL) = (state = 'sending')),
    sent_at         timestamptz CONSTRAINT message_sent CHECK ((sent_at IS NOT NULL) = (state = 'sent')),
    -- The gateway's name for it.
    gateway_ref     text        NOT NULL DEFAULT '',
    last_error      text        NOT NULL DEFAULT ''
);
-- For senders.
CREATE INDEX message_due ON khata_sms.message (next_attempt_at) WHERE state IN ('queued', 'sending');
-- For people: what did not go well, what an account was told, what came last and what is old enough to go.
CREATE INDEX message_not_sent ON khata_sms.message (state, created_at) WHERE state IN ('failed', 'expired');
CREATE INDEX message_account ON khata_sms.message (account, created_at);
CREATE INDEX message_created ON khata_sms.message (created_at);
