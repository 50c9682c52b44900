package sms

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/inbox"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// The types of events on the topic of accounts.
const (
	accountTypes = "khata.account."
	movedType    = "khata.account.moved.v1"
)

var changeTypes = map[string]bool{
	"khata.account.opened.v1": true, "khata.account.updated.v1": true, "khata.account.frozen.v1": true, "khata.account.unfrozen.v1": true,
	"khata.account.closed.v1": true,
}

// handler turns events into messages that are to be sent.
type handler struct {
	language Language
	zone     *time.Location
	metrics  *metrics
}

// all gives several events of a partition their effects: first the changes of accounts, then the messages. A phone that changes within them is
// the new one for all: that is where its owner is now.
func (h *handler) all(ctx context.Context, tx pgx.Tx, events []inbox.Event) error {
	var changes []recipient
	var drafts []draft
	for _, e := range events {
		switch {
		case e.Type == movedType:
			d, err := readMovement(e)
			if err != nil {
				return inbox.Poison(err)
			}
			if d.kind != "" {
				drafts = append(drafts, d)
			}
		case changeTypes[e.Type]:
			r, err := readChange(e)
			if err != nil {
				return inbox.Poison(err)
			}
			changes = append(changes, r)
			if r.badPhone {
				h.metrics.badPhone(1)
			}
		case strings.HasPrefix(e.Type, accountTypes):
			return inbox.Poison(fmt.Errorf("events of type %.100q are not known to this version of the consumer", e.Type))
		}
	}
	if err := putRecipients(ctx, tx, changes); err != nil {
		return err
	}
	return h.queue(ctx, tx, drafts)
}

// draft is what may become a message, before it is known to whom.
type draft struct {
	notice
	eventID string
	to      place
	// with is the other account; empty if the event does not say.
	with    string
	version int64
}

// readMovement reads what moved an account. Its kind is empty if nobody is to be told. An error means that the event can never be read.
func readMovement(e inbox.Event) (draft, error) {
	var m khatav1.AccountMovement
	if err := proto.Unmarshal(e.Data, &m); err != nil {
		return draft{}, fmt.Errorf("the data is no AccountMovement: %w", err)
	}
	sign, amount, err := magnitude(m.Posted)
	if err := errors.Join(err, ledger.Name(m.Ledger).Validate("ledger"), ledger.AccountID(m.Account).ValidateFormat("account"),
		ledger.TransferID(m.TransferId).ValidateFormat("transfer_id"), ledger.CurrencyCode(m.Currency).Validate("currency"), validParty(m.Payer),
		validParty(m.Payee)); err != nil {
		return draft{}, fmt.Errorf("the data is no AccountMovement of Khata's: %w", err)
	}
	if m.Version <= 0 {
		return draft{}, fmt.Errorf("the movement has the version %d", m.Version)
	}
	d := draft{
		notice:  notice{amount: amount, currency: m.Currency, reference: m.TransferId, at: e.Time},
		eventID: e.ID, to: place{m.Ledger, m.Account}, version: m.Version,
	}
	if d.kind, err = kindOf(m.Kind, sign); err != nil {
		return draft{}, err
	}
	if d.kind == returned && ourMistake[m.RefundReason] {
		d.kind = apologised
	}
	d.with = m.Payer
	if d.kind == sent {
		d.with = m.Payee
	}
	if d.with == "" && len(m.Counterparties) > 0 { // From before events named both.
		d.with = m.Counterparties[0]
		if err := validParty(d.with); err != nil {
			return draft{}, fmt.Errorf("the data is no AccountMovement of Khata's: %w", err)
		}
	}
	if d.with == m.Account {
		d.kind = ""
	}
	return d, nil
}

// ourMistake are the reasons of refunds for which whoever is paid back has to hear that we are sorry. Of the others nobody knows whose fault it was.
var ourMistake = map[khatav1.RefundReason]bool{
	khatav1.RefundReason_REFUND_REASON_DUPLICATE: true, khatav1.RefundReason_REFUND_REASON_TECHNICAL_ERROR: true,
}

// validParty checks an account that need not be named.
func validParty(id string) error {
	if id == "" {
		return nil
	}
	return ledger.AccountID(id).ValidateFormat("payer, payee or counterparty")
}

// kindOf is what an account is told of a transfer of a kind that posted something with a sign to it; nothing of most.
func kindOf(k khatav1.TransferKind, sign int) (kind, error) {
	switch k {
	case khatav1.TransferKind_TRANSFER_KIND_PLAIN, khatav1.TransferKind_TRANSFER_KIND_CAPTURE:
		switch {
		case sign > 0:
			return received, nil
		case sign < 0:
			return sent, nil
		}
		return "", nil
	case khatav1.TransferKind_TRANSFER_KIND_REFUND, khatav1.TransferKind_TRANSFER_KIND_REVERSAL:
		if sign > 0 {
			return returned, nil
		}
		return "", nil
	case khatav1.TransferKind_TRANSFER_KIND_HOLD, khatav1.TransferKind_TRANSFER_KIND_VOID, khatav1.TransferKind_TRANSFER_KIND_EXPIRY:
		return "", nil
	}
	return "", fmt.Errorf("transfers of kind %d are not known to this version of the consumer", k)
}

// readChange reads what has become of an account. An error means that the event can never be read.
func readChange(e inbox.Event) (recipient, error) {
	var m khatav1.AccountEvent
	if err := proto.Unmarshal(e.Data, &m); err != nil {
		return recipient{}, fmt.Errorf("the data is no AccountEvent: %w", err)
	}
	a := m.GetAccount()
	if err := errors.Join(ledger.Name(m.Ledger).Validate("ledger"), ledger.AccountID(a.GetAccount()).ValidateFormat("account")); err != nil {
		return recipient{}, fmt.Errorf("the data is no AccountEvent of Khata's: %w", err)
	}
	if a.GetVersion() <= 0 {
		return recipient{}, fmt.Errorf("the account has the version %d", a.GetVersion())
	}
	return newRecipient(place{m.Ledger, a.GetAccount()}, a.GetName(), a.GetMetadata(), a.GetVersion()), nil
}

// queue writes the messages of those drafts whose accounts want one.
func (h *handler) queue(ctx context.Context, tx pgx.Tx, drafts []draft) error {
	if len(drafts) == 0 {
		return nil
	}
	places := map[place]bool{}
	var ledgers []string
	for _, d := range drafts {
		places[d.to] = true
		if d.with != "" {
			places[place{d.to.ledger, d.with}] = true
		}
		ledgers = append(ledgers, d.to.ledger)
	}
	covered, err := queries.SMSCovered(ctx, tx, ledgers)
	if err != nil {
		return fmt.Errorf("read how far the ledgers are covered: %w", err)
	}
	through := map[string]int64{}
	for _, c := range covered {
		through[c.Ledger] = c.Through
	}
	known, err := findRecipients(ctx, tx, places)
	if err != nil {
		return err
	}
	var args dbsqlc.SMSQueueParams
	for _, d := range drafts {
		to, ok := known[d.to]
		if !ok || to.phone == "" || !to.setting.wants(d.kind) || d.version <= through[d.to.ledger] {
			continue
		}
		if d.with != "" {
			with, ok := known[place{d.to.ledger, d.with}]
			if !ok {
				with.account = d.with
			}
			d.other = with.shown()
		}
		language := to.language
		if language == "" {
			language = h.language
		}
		args.EventIds, args.Ledgers, args.Accounts = append(args.EventIds, d.eventID), append(args.Ledgers, d.to.ledger), append(args.Accounts, d.to.account)
		args.TransferIds, args.Kinds = append(args.TransferIds, d.reference), append(args.Kinds, string(d.kind))
		args.Phones, args.Languages = append(args.Phones, to.phone), append(args.Languages, string(language))
		args.Texts, args.EventTimes = append(args.Texts, d.text(language, h.zone)), append(args.EventTimes, d.at)
	}
	if len(args.EventIds) == 0 {
		return nil
	}
	if _, err := queries.SMSQueue(ctx, tx, args); err != nil {
		return fmt.Errorf("write the messages: %w", err)
	}
	return nil
}
