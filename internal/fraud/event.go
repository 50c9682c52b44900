package fraud

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// The type of the events that are judged, but for its version.
const (
	movedType    = "khata.account.moved."
	movedVersion = "v1"
)

// maxHeader bounds what is taken over from a header.
const maxHeader = 256

// event is a record of the topic of accounts.
type event struct {
	record *kgo.Record
	// id, sequence and at are attributes of the event, "" where it has none that can be used. at is a time of RFC 3339.
	id, sequence, at string
	kind             eventKind
	payment          *Payment // of an event of kind aPayment
	fault            error    // of one of kind aFault
}

// eventKind is what an event is to the check.
type eventKind int

const (
	// other is an event of another type, or the movement of somebody who is not the payer.
	other eventKind = iota
	// aPayment is the movement of a payer.
	aPayment
	// payerless is a movement from before movements told the payer.
	payerless
	// aFault is what cannot be read, and might have been a payment.
	aFault
)

func readEvent(r *kgo.Record) event {
	e := event{record: r, id: header(r, "ce_id"), sequence: header(r, "ce_sequence"), at: header(r, "ce_time")}
	if _, err := time.Parse(time.RFC3339Nano, e.at); err != nil {
		e.at = ""
	}
	typeName := header(r, "ce_type")
	version, moved := strings.CutPrefix(typeName, movedType)
	switch {
	case typeName == "":
		e.fail(errors.New("it is no CloudEvent: it has no ce_type"))
	case !moved:
		e.kind = other
	case version != movedVersion:
		e.fail(fmt.Errorf("it is of type %s, and this check reads %s%s only: a later one may know it", typeName, movedType, movedVersion))
	case e.id == "":
		e.fail(errors.New("it is no CloudEvent: it has no ce_id"))
	default:
		e.readMovement()
	}
	return e
}

func (e *event) fail(err error) { e.kind, e.fault = aFault, err }

// header is the text of a header, or "" if there is none that can be used.
func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name && len(h.Value) <= maxHeader && utf8.Valid(h.Value) && !bytes.Contains(h.Value, []byte{0}) {
			return string(h.Value)
		}
	}
	return ""
}

func (e *event) readMovement() {
	var m khatav1.AccountMovement
	if err := proto.Unmarshal(e.record.Value, &m); err != nil {
		e.fail(fmt.Errorf("its data is no AccountMovement: %w", err))
		return
	}
	switch m.Payer {
	case "":
		e.kind = payerless
	case m.Account:
		payment, err := paymentOf(&m)
		if err == nil && string(e.record.Key) != payment.place() {
			err = fmt.Errorf("its key is %.200q and not %s: in another partition it might be judged a second time", e.record.Key, payment.place())
		}
		if err != nil {
			e.fail(err)
			return
		}
		e.kind, e.payment = aPayment, payment
	}
}

// place is where order is kept, and what is remembered of a payer.
func (p *Payment) place() string { return string(p.Ledger) + "/" + p.Payer }

func paymentOf(m *khatav1.AccountMovement) (*Payment, error) {
	p := &Payment{
		Ledger: ledger.Name(m.Ledger), Transfer: ledger.TransferID(m.TransferId), Sequence: m.Version, Kind: wire.TransferKinds[m.Kind],
		Payer: m.Payer, Payee: m.Payee, Currency: m.Currency, PostedAt: m.PostedAt.AsTime(),
	}
	for _, err := range []error{
		p.Ledger.Validate("ledger"), p.Transfer.ValidateFormat("transfer_id"), ledger.AccountID(p.Payer).ValidateFormat("payer"),
		ledger.AccountID(p.Payee).ValidateFormat("payee"), ledger.CurrencyCode(p.Currency).Validate("currency"),
	} {
		if err != nil {
			return nil, fmt.Errorf("its data is no movement of a ledger: %w", err)
		}
	}
	switch {
	case p.Sequence < 1:
		return nil, fmt.Errorf("its version is %d", p.Sequence)
	case p.Kind == "":
		return nil, fmt.Errorf("it is a transfer of kind %d, which this check does not know: a later one may", m.Kind)
	case m.PostedAt == nil || m.PostedAt.CheckValid() != nil:
		return nil, errors.New("it has no posted_at")
	}
	for _, entry := range m.Entries {
		if entry.Account != p.Payer || entry.Direction != khatav1.Direction_DIRECTION_DEBIT {
			continue
		}
		amount, err := ledger.ParseAmount(entry.Amount, "amount")
		if err != nil {
			return nil, err
		}
		p.Amount = p.Amount.Add(amount)
	}
	if !p.Amount.IsPositive() {
		return nil, errors.New("it is said to be of the payer, and none of its entries is a debit of his")
	}
	return p, nil
}

// number is the sequence that the headers tell; 0 if they do not.
func (e *event) number() int64 {
	n, err := strconv.ParseInt(e.sequence, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// time is when the event was recorded, or, if it does not say so, when Kafka got it.
func (e *event) time() time.Time {
	at, err := time.Parse(time.RFC3339Nano, e.at)
	if err != nil {
		return e.record.Timestamp
	}
	return at
}
