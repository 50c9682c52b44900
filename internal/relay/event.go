package relay

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// event is what is published of one fact of the journal. A decided transfer is one event, and one more for each account whose balance
// it changed; a change of an account is one.
type event struct {
	id, fact string
	topic    string
	// key decides the partition, and so what stays in order: the life of a transfer, from a hold to its end or from a payment to its
	// refunds; or all that becomes of an account.
	key      string
	ledger   ledger.Name
	subject  string
	sequence int64
	at       time.Time
	data     []byte
	fault    error // why it cannot be encoded
}

// version is that of the messages in proto/khata/v1/events.proto. It is part of the type, and not of the id: a fact that is published
// again by a later version is the same fact.
const version = ".v1"

// eventID names a fact for ever: the same parts give the same id at every sending, by every relay, after every restore. It is a UUID of
// version 8, made of a SHA-256.
func eventID(name ledger.Name, fact string, parts ...string) string {
	h := sha256.New()
	for _, part := range append([]string{"khata.event", string(name), fact}, parts...) {
		_, _ = h.Write(strconv.AppendInt(nil, int64(len(part)), 10))
		_, _ = h.Write([]byte{':'})
		_, _ = h.Write([]byte(part))
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	var text [36]byte
	at := 0
	for _, group := range [][]byte{sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]} {
		if at > 0 {
			text[at] = '-'
			at++
		}
		at += hex.Encode(text[at:], group)
	}
	return string(text[:])
}

// Facts about transfers, by what was posted.
var transferFacts = map[ledger.Kind]string{
	ledger.Plain: "transfer.posted", ledger.Hold: "transfer.held", ledger.Capture: "transfer.captured", ledger.Void: "transfer.voided",
	ledger.Expiry: "transfer.expired", ledger.Refund: "transfer.refunded", ledger.Reversal: "transfer.reversed",
}

var transferKinds = map[ledger.Kind]khatav1.TransferKind{
	ledger.Plain: khatav1.TransferKind_TRANSFER_KIND_PLAIN, ledger.Hold: khatav1.TransferKind_TRANSFER_KIND_HOLD,
	ledger.Capture: khatav1.TransferKind_TRANSFER_KIND_CAPTURE, ledger.Void: khatav1.TransferKind_TRANSFER_KIND_VOID,
	ledger.Expiry: khatav1.TransferKind_TRANSFER_KIND_EXPIRY, ledger.Refund: khatav1.TransferKind_TRANSFER_KIND_REFUND,
	ledger.Reversal: khatav1.TransferKind_TRANSFER_KIND_REVERSAL,
}

const (
	factRefused = "transfer.refused"
	// factUnreadable is of a record that cannot be read, and never published: it is parked.
	factUnreadable = "transfer.unreadable"
	factMoved      = "account.moved"
	// factChanged is what the ids of changes are made with; their types say more.
	factChanged = "account.changed"
)

// maxCounterparties bounds what a movement says of the other accounts: a transfer of a thousand entries makes a thousand movements.
const maxCounterparties = 10

// appendEvents makes the events of a record.
func (t Topics) appendEvents(events []event, name ledger.Name, r journal.Record) []event {
	if r.Change != nil {
		return append(events, t.changed(name, r.Change))
	}
	record := r.Transfer
	lifeline := record.Origin()
	if lifeline == "" {
		lifeline = record.ID
	}
	e := event{
		fact: transferFacts[record.Kind()], topic: t.Transfers, key: string(name) + "/" + string(lifeline), ledger: name, subject: string(record.ID),
		sequence: r.Sequence, at: record.PostedAt, fault: r.Fault,
	}
	switch {
	case r.Fault != nil:
		e.fact = factUnreadable
	case record.Refusal != nil:
		e.fact = factRefused
	}
	e.id = eventID(name, e.fact, string(record.ID))
	if e.fault == nil {
		e.encode(&khatav1.TransferEvent{Transfer: wire.Transfer(name, record)})
	}
	events = append(events, e)
	for i := range r.Movements {
		events = append(events, t.moved(name, record, r.Movements, i))
	}
	return events
}

func (t Topics) moved(name ledger.Name, record *ledger.Transfer, movements []ledger.Movement, i int) event {
	m := movements[i]
	account := string(m.Account)
	e := event{
		id:   eventID(name, factMoved, string(record.ID), account),
		fact: factMoved, topic: t.Accounts, key: string(name) + "/" + account, ledger: name, subject: account, sequence: record.Sequence, at: record.PostedAt,
	}
	out := &khatav1.AccountMovement{
		Ledger: string(name), Account: account, Currency: string(m.Currency.Code), Version: record.Sequence,
		TransferId: string(record.ID), Kind: transferKinds[record.Kind()], Origin: string(record.Origin()),
		PostedAt: timestamppb.New(record.PostedAt), EffectiveAt: wire.Time(record.EffectiveAt), Description: record.Description,
		Posted: ledger.FormatAmount(m.Posted, m.Currency.Scale), Held: ledger.FormatAmount(m.Held, m.Currency.Scale),
		Incoming: ledger.FormatAmount(m.Incoming, m.Currency.Scale), Entries: wire.Entries(m.Entries),
		MoreCounterparties: len(movements)-1 > maxCounterparties,
	}
	for k := 0; k < len(movements) && len(out.Counterparties) < maxCounterparties; k++ {
		if k != i {
			out.Counterparties = append(out.Counterparties, string(movements[k].Account))
		}
	}
	e.encode(out)
	return e
}

func (t Topics) changed(name ledger.Name, c *journal.Change) event {
	account := string(c.Account.ID)
	e := event{
		fact: changeFact(c), topic: t.Accounts, key: string(name) + "/" + account, ledger: name, subject: account,
		sequence: c.Account.Version, at: c.Account.UpdatedAt,
	}
	if c.ID != "" {
		e.id = eventID(name, factChanged, c.ID)
	} else {
		e.id = eventID(name, factChanged, account, strconv.FormatInt(c.Account.Version, 10))
	}
	out := &khatav1.AccountEvent{Ledger: string(name), Account: wire.Account(c.Account), Caller: c.Caller}
	if c.Before != nil {
		out.Changed = c.Account.ChangedFrom(*c.Before)
	}
	e.encode(out)
	return e
}

// changeFact gives a change the name of the most that happened in it.
func changeFact(c *journal.Change) string {
	switch before := c.Before; {
	case before == nil:
		return "account.opened"
	case c.Account.Closed && !before.Closed:
		return "account.closed"
	case c.Account.Frozen == before.Frozen:
		return "account.updated"
	case c.Account.Frozen == ledger.FrozenNone:
		return "account.unfrozen"
	}
	return "account.frozen"
}

func (e *event) encode(m proto.Message) {
	if e.data, e.fault = proto.Marshal(m); e.fault != nil {
		e.fault = fmt.Errorf("encode the event: %w", e.fault)
	}
}

func (e *event) typeName() string { return "khata." + e.fact + version }

// record is the event as a CloudEvent in Kafka's binary mode. Kafka stamps it when it arrives: it ages by when it was published, not by
// when it happened.
func (e *event) record() *kgo.Record {
	return &kgo.Record{
		Topic: e.topic, Key: []byte(e.key), Value: e.data,
		Headers: []kgo.RecordHeader{
			{Key: "ce_specversion", Value: []byte("1.0")},
			{Key: "ce_id", Value: []byte(e.id)},
			{Key: "ce_source", Value: []byte("/khata/ledgers/" + string(e.ledger))},
			{Key: "ce_type", Value: []byte(e.typeName())},
			{Key: "ce_subject", Value: []byte(e.subject)},
			{Key: "ce_time", Value: e.at.UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000Z")},
			{Key: "ce_sequence", Value: fmt.Appendf(nil, "%020d", e.sequence)},
			{Key: "content-type", Value: []byte("application/protobuf")},
		},
	}
}
