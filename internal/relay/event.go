package relay

import (
	"fmt"
	"slices"
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
	sequence int64
	// record is the event as Kafka takes it. Its key decides the partition, and so what stays in order: the life of a transfer, from a hold
	// to its end or from a payment to its refunds; or all that becomes of an account.
	record *kgo.Record
	fault  error // why it cannot be encoded
}

// place is a key of a topic: where order is kept.
type place struct{ topic, key string }

// size is roughly how many bytes it takes.
func (e *event) size() int64 {
	const headers = 250
	return int64(len(e.record.Key) + len(e.record.Value) + headers)
}

func (e *event) place() place { return place{e.record.Topic, string(e.record.Key)} }

// version is that of the messages in proto/khata/v1/events.proto. It is part of the type, and not of the id: a fact that is published
// again by a later version is the same fact.
const version = ".v1"

// eventID names a fact for ever: the same parts give the same id at every sending, by every relay, after every restore.
func eventID(name ledger.Name, fact string, parts ...string) string {
	return wire.EventID("khata.event", append([]string{string(name), fact}, parts...)...)
}

// Facts about transfers, by what was posted.
var transferFacts = map[ledger.Kind]string{
	ledger.Plain: "transfer.posted", ledger.Hold: "transfer.held", ledger.Capture: "transfer.captured", ledger.Void: "transfer.voided",
	ledger.Expiry: "transfer.expired", ledger.Refund: "transfer.refunded", ledger.Reversal: "transfer.reversed",
}

var (
	transferKinds = wire.Invert(wire.TransferKinds)
	refundReasons = wire.Invert(wire.RefundReasons)
)

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
	fact := transferFacts[record.Kind()]
	switch {
	case r.Fault != nil:
		fact = factUnreadable
	case record.Refusal != nil:
		fact = factRefused
	}
	lifeline := record.Origin()
	if lifeline == "" {
		lifeline = record.ID
	}
	of := newEnvelope(name, r.Sequence, record.PostedAt)
	e := of.event(t.Transfers, string(lifeline), fact, eventID(name, fact, string(record.ID)), string(record.ID))
	if e.fault = r.Fault; e.fault == nil {
		e.encode(&khatav1.TransferEvent{Transfer: wire.Transfer(name, record)})
	}
	events = append(events, e)
	if r.Fault != nil { // What it did to which account, nobody knows yet; but what comes later has to wait for it.
		for _, account := range accountsOf(record) {
			e := of.event(t.Accounts, account, factMoved, eventID(name, factMoved, string(record.ID), account), account)
			e.fault = r.Fault
			events = append(events, e)
		}
	}
	for i, m := range r.Movements {
		account := string(m.Account)
		e := of.event(t.Accounts, account, factMoved, eventID(name, factMoved, string(record.ID), account), account)
		e.encode(movement(name, record, r.Movements, i))
		events = append(events, e)
	}
	return events
}

func accountsOf(t *ledger.Transfer) (ids []string) {
	for _, e := range t.Entries {
		if id := string(e.Account); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// movement is what the event of a movement carries.
func movement(name ledger.Name, record *ledger.Transfer, movements []ledger.Movement, i int) *khatav1.AccountMovement {
	m := movements[i]
	out := &khatav1.AccountMovement{
		Ledger: string(name), Account: string(m.Account), Currency: string(m.Currency.Code), Version: record.Sequence,
		TransferId: string(record.ID), Kind: transferKinds[record.Kind()], Origin: string(record.Origin()),
		PostedAt: timestamppb.New(record.PostedAt), EffectiveAt: wire.Time(record.EffectiveAt), Description: record.Description,
		Posted: ledger.FormatAmount(m.Posted, m.Currency.Scale), Held: ledger.FormatAmount(m.Held, m.Currency.Scale),
		Incoming: ledger.FormatAmount(m.Incoming, m.Currency.Scale), Entries: wire.Entries(m.Entries),
		MoreCounterparties: len(movements)-1 > maxCounterparties,
	}
	out.Counterparties = make([]string, 0, min(len(movements)-1, maxCounterparties))
	for k := 0; k < len(movements) && len(out.Counterparties) < maxCounterparties; k++ {
		if k != i {
			out.Counterparties = append(out.Counterparties, string(movements[k].Account))
		}
	}
	payer, payee := record.Parties()
	out.Payer, out.Payee = string(payer), string(payee)
	if record.Terms != nil {
		out.RefundReason = refundReasons[record.Terms.Reason]
	}
	return out
}

func (t Topics) changed(name ledger.Name, c *journal.Change) event {
	account, number := string(c.Account.ID), c.Account.Version
	id := eventID(name, factChanged, c.ID)
	if c.ID == "" {
		id = eventID(name, factChanged, account, strconv.FormatInt(number, 10))
	}
	e := newEnvelope(name, number, c.Account.UpdatedAt).event(t.Accounts, account, changeFact(c), id, account)
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
	if e.record.Value, e.fault = proto.Marshal(m); e.fault != nil {
		e.fault = fmt.Errorf("encode the event: %w", e.fault)
	}
}

func typeName(fact string) string { return "khata." + fact + version }

func (e *event) typeName() string { return typeName(e.fact) }

// What is the same in the headers of all events.
var (
	specVersion = kgo.RecordHeader{Key: "ce_specversion", Value: []byte("1.0")}
	contentType = kgo.RecordHeader{Key: "content-type", Value: []byte("application/protobuf")}
)

// envelope is what the events of a record of the journal have in common.
type envelope struct {
	ledger                     ledger.Name
	number                     int64
	source, recorded, sequence kgo.RecordHeader
}

func newEnvelope(name ledger.Name, number int64, at time.Time) *envelope {
	return &envelope{
		ledger: name, number: number,
		source:   kgo.RecordHeader{Key: "ce_source", Value: []byte("/khata/ledgers/" + string(name))},
		recorded: kgo.RecordHeader{Key: "ce_time", Value: at.UTC().AppendFormat(make([]byte, 0, 32), "2006-01-02T15:04:05.000000Z")},
		sequence: kgo.RecordHeader{Key: "ce_sequence", Value: fmt.Appendf(nil, "%020d", number)},
	}
}

// event makes a CloudEvent in Kafka's binary mode. Kafka stamps it when it arrives: it ages by when it was published, not by when it
// happened.
func (n *envelope) event(topic, key, fact, id, subject string) event {
	return event{id: id, fact: fact, sequence: n.number, record: &kgo.Record{
		Topic: topic, Key: []byte(string(n.ledger) + "/" + key),
		Headers: []kgo.RecordHeader{
			specVersion, {Key: "ce_id", Value: []byte(id)}, n.source, {Key: "ce_type", Value: []byte(typeName(fact))},
			{Key: "ce_subject", Value: []byte(subject)}, n.recorded, n.sequence, contentType,
		},
	}}
}
