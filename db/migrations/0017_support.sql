-- +goose Up

-- What people who help customers do: refunds that they ask for, who approved them and what became of them; and the audit, which has every write by
-- a person and every sensitive read. internal/support is the only writer.
--
-- Everything here is inserted and never changed.
SET LOCAL lock_timeout = '3s';

-- Who did what, to what, from where. A write's row is in the write's own transaction, a read's is committed before the answer is given.
CREATE TABLE audit_event (
    -- 0: it concerns no one ledger.
    ledger_id   integer     NOT NULL,
    audit_no    bigint      GENERATED ALWAYS AS IDENTITY,
    -- Drawn by who writes the row: a commit whose answer was lost is recognised by it.
    event_id    uuid        NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor       text        COLLATE "C" NOT NULL,
    -- Such as refund.approve: the thing and the verb.
    action      text        COLLATE "C" NOT NULL,
    -- What it was done to, such as transfer and its id.
    object_kind text        COLLATE "C" NOT NULL,
    object_id   text        COLLATE "C" NOT NULL,
    -- The network address that the request came from; empty where there is none.
    address     text        NOT NULL,
    -- done: something was written. refused: a rule of ours said no. read: something was shown.
    outcome     text        COLLATE "C" NOT NULL,
    detail      json,
    PRIMARY KEY (ledger_id, audit_no),
    CONSTRAINT audit_event_id_key UNIQUE (ledger_id, event_id),
    CONSTRAINT audit_event_ledger_check CHECK (ledger_id >= 0),
    CONSTRAINT audit_event_actor_check CHECK (length(actor) BETWEEN 1 AND 256),
    CONSTRAINT audit_event_action_check CHECK (action ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    CONSTRAINT audit_event_object_check CHECK (object_kind ~ '^[a-z0-9][a-z0-9._-]{0,62}$' AND length(object_id) <= 256),
    CONSTRAINT audit_event_address_check CHECK (length(address) <= 256),
    CONSTRAINT audit_event_outcome_check CHECK (outcome IN ('done', 'refused', 'read')),
    CONSTRAINT audit_event_detail_check CHECK (json_typeof(detail) = 'object' AND octet_length(detail::text) <= 8192)
);
-- Each question that a list can be asked begins with one of these, and goes back in time.
CREATE INDEX audit_event_at ON audit_event (ledger_id, at, audit_no);
CREATE INDEX audit_event_actor ON audit_event (ledger_id, actor, at, audit_no);
CREATE INDEX audit_event_action ON audit_event (ledger_id, action, at, audit_no);
CREATE INDEX audit_event_object ON audit_event (ledger_id, object_kind, object_id, at, audit_no);

-- How much may be refunded by one person alone. A change is another version; without any, every refund needs a second person.
CREATE TABLE support_limit (
    ledger_id integer     NOT NULL,
    currency  text        COLLATE "C" NOT NULL,
    version   integer     NOT NULL,
    -- The most that one refund may be, and all refunds that a person makes alone within 24 hours.
    single    numeric     NOT NULL,
    daily     numeric     NOT NULL,
    reason    text        NOT NULL,
    set_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    set_by    text        COLLATE "C" NOT NULL,
    PRIMARY KEY (ledger_id, currency, version),
    CONSTRAINT support_limit_currency_fkey FOREIGN KEY (ledger_id, currency) REFERENCES currency (ledger_id, code),
    CONSTRAINT support_limit_version_check CHECK (version >= 1),
    CONSTRAINT support_limit_amounts_check CHECK (single >= 0 AND daily >= 0 AND single < 1e38 AND daily < 1e38),
    CONSTRAINT support_limit_reason_check CHECK (btrim(reason) <> '')
);

-- Who a name is of: somebody who has a token and signs in with an identity provider, or is written in capitals, is one person. The texts of this function
-- and of the next one are what verify looks at.
CREATE FUNCTION support_person(name text) RETURNS text LANGUAGE sql IMMUTABLE
    SET search_path = public, pg_temp
AS $$ SELECT lower(regexp_replace(name COLLATE "C", '^(oidc|local|user):', '', 'i')) $$;

-- Refunds that people ask for.
CREATE TABLE support_refund_request (
    ledger_id         integer     NOT NULL,
    request_no        bigint      GENERATED ALWAYS AS IDENTITY,
    -- Minted when the form was made: a form that is sent ten times is one request. The id of the refund in the books follows from it.
    key               text        COLLATE "C" NOT NULL,
    original          text        COLLATE "C" NOT NULL,
    amount            numeric     NOT NULL,
    currency          text        COLLATE "C" NOT NULL,
    -- What the maker believes to have been refunded before. The books look again.
    expected_refunded numeric     NOT NULL,
    reason            text        COLLATE "C" NOT NULL,
    note              text        NOT NULL,
    ticket            text        NOT NULL,
    maker             text        COLLATE "C" NOT NULL,
    -- Set by a trigger, as the hash is; the end is moved along.
    made_at           timestamptz NOT NULL,
    -- Nobody approves it afterwards, and nothing of it is posted any more.
    expires_at        timestamptz NOT NULL,
    -- none: the maker alone is enough. Otherwise why another person has to approve it: no_limit is set for the currency, the amount is above the
    -- limit for one refund, or it and the others of 24 hours are above_daily.
    approval          text        COLLATE "C" NOT NULL,
    -- The limit that was in force; 0 is none.
    limit_version     integer     NOT NULL,
    -- Of all of the above that says what is to be done. Who approves, approves this.
    sha256            bytea       NOT NULL,
    PRIMARY KEY (ledger_id, request_no),
    CONSTRAINT support_refund_request_key_key UNIQUE (ledger_id, key),
    CONSTRAINT support_refund_request_key_check CHECK (key ~ '^[A-Za-z0-9._-]{16,64}$'),
    CONSTRAINT support_refund_request_amount_check CHECK (amount > 0 AND amount < 1e38 AND expected_refunded >= 0 AND expected_refunded < 1e38),
    CONSTRAINT support_refund_request_reason_check CHECK (reason IN (
        'duplicate', 'requested_by_customer', 'fraud_suspected', 'goods_not_received', 'wrong_amount', 'wrong_recipient', 'service_failure',
        'goodwill', 'technical_error', 'other')),
    CONSTRAINT support_refund_request_note_check CHECK (reason <> 'other' OR btrim(note) <> ''),
    CONSTRAINT support_refund_request_texts_check CHECK (length(note) <= 1000 AND length(ticket) <= 100 AND length(maker) BETWEEN 1 AND 256),
    CONSTRAINT support_refund_request_expires_check CHECK (expires_at > made_at AND expires_at <= made_at + interval '31 days'),
    CONSTRAINT support_refund_request_approval_check CHECK (approval IN ('none', 'no_limit', 'above_single', 'above_daily'))
);
CREATE INDEX support_refund_request_original ON support_refund_request (ledger_id, original, request_no);
CREATE INDEX support_refund_request_maker ON support_refund_request (ledger_id, currency, support_person(maker), made_at);
-- For the sweep, and for the list of those that wait.
CREATE INDEX support_refund_request_expires ON support_refund_request (expires_at, ledger_id, request_no);

-- What another person said of a request that needs one; or that its maker has taken it back.
CREATE TABLE support_refund_decision (
    ledger_id  integer     NOT NULL,
    request_no bigint      NOT NULL,
    verdict    text        COLLATE "C" NOT NULL,
    -- Of the request, as the decider has seen it.
    sha256     bytea       NOT NULL,
    note       text        NOT NULL,
    decided_by text        COLLATE "C" NOT NULL,
    -- Set by a trigger.
    decided_at timestamptz NOT NULL,
    -- There is one decision: what was approved cannot be rejected any more.
    PRIMARY KEY (ledger_id, request_no),
    CONSTRAINT support_refund_decision_verdict_check CHECK (verdict IN ('approve', 'reject', 'withdraw')),
    CONSTRAINT support_refund_decision_note_check CHECK (length(note) <= 1000 AND (verdict <> 'reject' OR btrim(note) <> ''))
);

-- What became of a request in the books. Posted, or refused by them for ever under the transfer's id, it is in the transfer's own commit.
CREATE TABLE support_refund_outcome (
    ledger_id   integer     NOT NULL,
    request_no  bigint      NOT NULL,
    outcome     text        COLLATE "C" NOT NULL,
    -- NULL: the books would not even decide it.
    transfer_id text        COLLATE "C",
    -- Why it was refused.
    code        text        COLLATE "C",
    message     text        NOT NULL,
    settled_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (ledger_id, request_no),
    CONSTRAINT support_refund_outcome_transfer_key UNIQUE (ledger_id, transfer_id),
    CONSTRAINT support_refund_outcome_check CHECK (
        outcome = 'posted' AND transfer_id IS NOT NULL AND code IS NULL OR outcome = 'refused' AND code IS NOT NULL),
    CONSTRAINT support_refund_outcome_message_check CHECK (length(message) <= 1000)
);

-- The lock before the refunds that one person makes alone in one currency: two forms that are sent at once are counted one after the other.
CREATE FUNCTION support_maker_lock(of_ledger integer, of_currency text, of_maker text) RETURNS bigint LANGUAGE sql IMMUTABLE
    SET search_path = public, pg_temp
AS $$ SELECT hashtextextended('khata refunds of ' || support_person(of_maker) || ' in ' || of_currency || ' of ' || of_ledger::text, 0) $$;

-- What a person has refunded alone in the 24 hours before now, those included that are still to be posted.
-- +goose StatementBegin
CREATE FUNCTION support_made_alone(of_ledger integer, of_currency text, of_maker text) RETURNS numeric LANGUAGE plpgsql
    SET search_path = public, pg_temp
AS $$
BEGIN
    RETURN (SELECT coalesce(sum(r.amount), 0)
              FROM support_refund_request r
             WHERE r.ledger_id = of_ledger AND r.currency = of_currency
               AND support_person(r.maker) = support_person(of_maker) AND r.approval = 'none'
               AND r.made_at > clock_timestamp() - interval '24 hours'
               AND NOT EXISTS (SELECT FROM support_refund_outcome o
                                WHERE o.ledger_id = r.ledger_id AND o.request_no = r.request_no AND o.outcome = 'refused'));
END
$$;
-- +goose StatementEnd

-- Dates and seals a new request, and sees to it that one that is said to need nobody else does not.
-- +goose StatementBegin
CREATE FUNCTION support_refund_request_seal() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp
AS $$
DECLARE
    allowed record;
BEGIN
    -- Otherwise what follows may look at the rows as they were before the lock was taken.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'rows of table % are inserted in a READ COMMITTED transaction only', TG_TABLE_NAME
            USING ERRCODE = 'check_violation', CONSTRAINT = 'support_read_committed', TABLE = TG_TABLE_NAME;
    END IF;
    PERFORM pg_advisory_xact_lock(support_maker_lock(NEW.ledger_id, NEW.currency, NEW.maker));
    -- It was said for how long, not until when: nothing is lost by waiting for the lock.
    NEW.expires_at := clock_timestamp() + (NEW.expires_at - NEW.made_at);
    NEW.made_at := clock_timestamp();
    NEW.sha256 := sha256(convert_to(json_build_array(NEW.ledger_id, NEW.request_no, NEW.key, NEW.original, NEW.amount::text, NEW.currency,
        NEW.expected_refunded::text, NEW.reason, NEW.note, NEW.ticket, NEW.maker, extract(epoch FROM NEW.made_at)::text,
        extract(epoch FROM NEW.expires_at)::text)::text, 'UTF8'));
    IF NEW.approval = 'none' THEN
        SELECT l.version, l.single, l.daily INTO allowed
          FROM support_limit l WHERE l.ledger_id = NEW.ledger_id AND l.currency = NEW.currency ORDER BY l.version DESC LIMIT 1;
        IF NOT FOUND OR NEW.amount > allowed.single
           OR support_made_alone(NEW.ledger_id, NEW.currency, NEW.maker) + NEW.amount > allowed.daily THEN
            RAISE EXCEPTION 'a refund of % % by % needs another person', NEW.amount, NEW.currency, NEW.maker
                USING ERRCODE = 'check_violation', CONSTRAINT = 'support_needs_approval', TABLE = TG_TABLE_NAME;
        END IF;
        -- The one that has just been looked at, whatever was read before.
        NEW.limit_version := allowed.version;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- Four eyes: another person, of exactly what is there, in time.
-- +goose StatementBegin
CREATE FUNCTION support_refund_decision_four_eyes() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp
AS $$
DECLARE
    asked record;
BEGIN
    NEW.decided_at := clock_timestamp();
    SELECT * INTO asked FROM support_refund_request r WHERE r.ledger_id = NEW.ledger_id AND r.request_no = NEW.request_no;
    IF NOT FOUND OR asked.approval = 'none' THEN
        RAISE EXCEPTION 'nobody has to decide about request %', NEW.request_no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'support_decision_wanted', TABLE = TG_TABLE_NAME;
    ELSIF (support_person(NEW.decided_by) = support_person(asked.maker)) <> (NEW.verdict = 'withdraw') THEN
        RAISE EXCEPTION 'request % was made by %: another person approves or rejects it', NEW.request_no, asked.maker
            USING ERRCODE = 'check_violation', CONSTRAINT = 'support_maker_is_not_checker', TABLE = TG_TABLE_NAME;
    ELSIF NEW.sha256 <> asked.sha256 THEN
        RAISE EXCEPTION 'request % is another one than was decided about', NEW.request_no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'support_decision_of_content', TABLE = TG_TABLE_NAME;
    ELSIF NEW.decided_at >= asked.expires_at THEN
        RAISE EXCEPTION 'request % has expired', NEW.request_no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'support_decision_in_time', TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- A refund is posted under a request only if nobody else is needed, or has approved it; in time; and if it is what was asked for. This stands in the
-- transfer's own transaction: without it there is no refund.
-- +goose StatementBegin
CREATE FUNCTION support_refund_outcome_fits() RETURNS trigger LANGUAGE plpgsql
    SET search_path = public, pg_temp
AS $$
DECLARE
    asked record;
    t     record;
BEGIN
    SELECT r.*, d.verdict, d.sha256 AS approved INTO asked
      FROM support_refund_request r
           LEFT JOIN support_refund_decision d ON d.ledger_id = r.ledger_id AND d.request_no = r.request_no
     WHERE r.ledger_id = NEW.ledger_id AND r.request_no = NEW.request_no;
    IF NOT FOUND OR NOT (asked.approval = 'none' OR coalesce(asked.verdict = 'approve' AND asked.approved = asked.sha256, false)) THEN
        RAISE EXCEPTION 'request % is not approved', NEW.request_no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'support_outcome_approved', TABLE = TG_TABLE_NAME;
    END IF;
    IF NEW.transfer_id IS NULL THEN
        IF EXISTS (SELECT FROM transfer u WHERE u.ledger_id = NEW.ledger_id AND u.transfer_id = 'khata:refund:' || asked.key) THEN
            RAISE EXCEPTION 'the books have decided request %', NEW.request_no
                USING ERRCODE = 'check_violation', CONSTRAINT = 'support_outcome_of_content', TABLE = TG_TABLE_NAME;
        END IF;
        RETURN NEW;
    END IF;
    -- The key would see to it, but who loses against a key tries again. This one must fail for good, and its transfer with it.
    IF EXISTS (SELECT FROM support_refund_outcome o WHERE o.ledger_id = NEW.ledger_id AND o.request_no = NEW.request_no) THEN
        RAISE EXCEPTION 'request % is settled', NEW.request_no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'support_outcome_once', TABLE = TG_TABLE_NAME;
    END IF;
    SELECT u.refusal, u.kind, u.origin, u.terms, u.account_nos, u.amounts INTO t
      FROM transfer u WHERE u.ledger_id = NEW.ledger_id AND u.transfer_id = NEW.transfer_id;
    -- What was asked for, and if it moves anything, so much of this currency: the limits are those of the currency that stands in the request.
    IF (NEW.transfer_id = 'khata:refund:' || asked.key AND t.kind = 'refund' AND t.origin = asked.original
        AND (t.refusal IS NULL) = (NEW.outcome = 'posted') AND t.refusal IS NOT DISTINCT FROM NEW.code
        AND (t.terms ->> 'amount')::numeric = asked.amount AND (t.terms ->> 'expected_refunded')::numeric = asked.expected_refunded
        AND t.terms ->> 'reason' = asked.reason) IS NOT TRUE
       OR NEW.outcome = 'posted'
          AND ((SELECT sum(m.amount) FROM unnest(t.amounts) m (amount) WHERE m.amount > 0) IS DISTINCT FROM asked.amount
               OR EXISTS (SELECT FROM account a WHERE a.ledger_id = NEW.ledger_id AND a.account_no = ANY (t.account_nos) AND a.currency <> asked.currency)) THEN
        RAISE EXCEPTION 'transfer % is not what request % asks for', NEW.transfer_id, NEW.request_no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'support_outcome_of_content', TABLE = TG_TABLE_NAME;
    END IF;
    IF NEW.outcome = 'posted' AND clock_timestamp() >= asked.expires_at THEN
        RAISE EXCEPTION 'request % has expired', NEW.request_no
            USING ERRCODE = 'check_violation', CONSTRAINT = 'support_outcome_in_time', TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION support_refund_request_seal(), support_refund_decision_four_eyes(), support_refund_outcome_fits(),
    support_maker_lock(integer, text, text), support_made_alone(integer, text, text), support_person(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION support_maker_lock(integer, text, text), support_made_alone(integer, text, text), support_person(text) TO khata_service;

CREATE TRIGGER support_refund_request_seal BEFORE INSERT ON support_refund_request
    FOR EACH ROW EXECUTE FUNCTION support_refund_request_seal();
CREATE TRIGGER support_refund_decision_four_eyes BEFORE INSERT ON support_refund_decision
    FOR EACH ROW EXECUTE FUNCTION support_refund_decision_four_eyes();
CREATE TRIGGER support_refund_outcome_fits BEFORE INSERT ON support_refund_outcome
    FOR EACH ROW EXECUTE FUNCTION support_refund_outcome_fits();

CREATE TRIGGER audit_event_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_event
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER support_limit_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON support_limit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER support_refund_request_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON support_refund_request
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER support_refund_decision_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON support_refund_decision
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER support_refund_outcome_refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON support_refund_outcome
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- ALWAYS: also under session_replication_role = replica, which switches ordinary triggers off.
ALTER TABLE support_refund_request ENABLE ALWAYS TRIGGER support_refund_request_seal;
ALTER TABLE support_refund_decision ENABLE ALWAYS TRIGGER support_refund_decision_four_eyes;
ALTER TABLE support_refund_outcome ENABLE ALWAYS TRIGGER support_refund_outcome_fits;
ALTER TABLE audit_event ENABLE ALWAYS TRIGGER audit_event_refuse_change;
ALTER TABLE support_limit ENABLE ALWAYS TRIGGER support_limit_refuse_change;
ALTER TABLE support_refund_request ENABLE ALWAYS TRIGGER support_refund_request_refuse_change;
ALTER TABLE support_refund_decision ENABLE ALWAYS TRIGGER support_refund_decision_refuse_change;
ALTER TABLE support_refund_outcome ENABLE ALWAYS TRIGGER support_refund_outcome_refuse_change;

GRANT SELECT ON audit_event, support_limit, support_refund_request, support_refund_decision, support_refund_outcome TO khata_service;
GRANT INSERT ON support_refund_request, support_refund_decision TO khata_service;
-- Without the times and numbers, which are the database's own: nothing is written down as of yesterday.
GRANT INSERT (ledger_id, event_id, actor, action, object_kind, object_id, address, outcome, detail) ON audit_event TO khata_service;
GRANT INSERT (ledger_id, currency, version, single, daily, reason, set_by) ON support_limit TO khata_service;
GRANT INSERT (ledger_id, request_no, outcome, transfer_id, code, message) ON support_refund_outcome TO khata_service;
