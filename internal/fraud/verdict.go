package fraud

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// The types of verdicts.
const (
	typeApproved   = "khata.fraud.approved.v1"
	typeFlagged    = "khata.fraud.flagged.v1"
	typeUnreadable = "khata.fraud.unreadable.v1"
)

var transferKinds = wire.Invert(wire.TransferKinds)

// verdict is the record of a judged transfer. Its id follows from that of the event alone: the same transfer has the same one when everything is
// judged anew, whatever the rules are then.
func (r *Rules) verdict(topic string, e *event, reasons []Reason) (*kgo.Record, error) {
	p := e.payment
	outcome, typeName := khatav1.FraudOutcome_FRAUD_OUTCOME_APPROVED, typeApproved
	if len(reasons) > 0 {
		outcome, typeName = khatav1.FraudOutcome_FRAUD_OUTCOME_FLAGGED, typeFlagged
	}
	out := &khatav1.FraudVerdict{
		Ledger: string(p.Ledger), TransferId: string(p.Transfer), Sequence: p.Sequence, Kind: transferKinds[p.Kind], Payer: p.Payer, Payee: p.Payee,
		Amount: ledger.FormatWritten(p.Amount), Currency: p.Currency, PostedAt: timestamppb.New(p.PostedAt), Outcome: outcome,
		Reasons: reasonsOut(reasons), Rules: r.identity, JudgedEvent: e.id,
	}
	return e.answer(topic, p.place(), wire.EventID("khata.fraud", e.id), typeName, string(p.Ledger), string(p.Transfer), out)
}

func reasonsOut(reasons []Reason) (out []*khatav1.FraudReason) {
	for _, r := range reasons {
		out = append(out, &khatav1.FraudReason{Rule: r.Rule, Kind: string(r.Kind), Text: r.Text})
	}
	return out
}

// unreadable is the record about an event that might have told of a transfer, and cannot be read. It says what its headers say. It is another event
// than a verdict about the transfer, which a later version of this check may come to.
func (r *Rules) unreadable(topic string, e *event) (*kgo.Record, error) {
	name := ledgerOf(e.record)
	out := &khatav1.FraudVerdict{
		Ledger: name, Sequence: e.number(), Outcome: khatav1.FraudOutcome_FRAUD_OUTCOME_FLAGGED,
		Reasons: []*khatav1.FraudReason{{Kind: string(Unreadable), Text: fmt.Sprintf("the event in %s, partition %d, offset %d, about %.200q: %.1000s",
			e.record.Topic, e.record.Partition, e.record.Offset, header(e.record, "ce_subject"), e.fault)}},
		Rules: r.identity, JudgedEvent: e.id,
	}
	return e.answer(topic, clip(string(e.record.Key)), e.unreadableID(), typeUnreadable, name, header(e.record, "ce_subject"), out)
}

func (e *event) unreadableID() string {
	if e.id == "" {
		return wire.EventID("khata.fraud.record", e.record.Topic, strconv.Itoa(int(e.record.Partition)), strconv.FormatInt(e.record.Offset, 10))
	}
	return wire.EventID("khata.fraud.unreadable", e.id)
}

// ledgerOf is the ledger that an event's key tells; "" if it tells none.
func ledgerOf(r *kgo.Record) string {
	name, _, found := strings.Cut(clip(string(r.Key)), "/")
	if !found || ledger.Name(name).Validate("ledger") != nil {
		return ""
	}
	return name
}

func clip(text string) string { return text[:min(len(text), maxHeader)] }

// answer makes a CloudEvent in Kafka's binary mode. Its time and sequence are those of the event that it is about, and so the same
// whenever that is judged.
func (e *event) answer(topic, key, id, typeName, name, subject string, data proto.Message) (*kgo.Record, error) {
	value, err := proto.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("encode a verdict: %w", err)
	}
	at := e.at
	if at == "" {
		at = e.time().UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	source := "/khata/fraud"
	if name != "" {
		source = "/khata/ledgers/" + name + "/fraud"
	}
	r := &kgo.Record{Topic: topic, Key: []byte(key), Value: value}
	for _, h := range [][2]string{
		{"ce_specversion", "1.0"}, {"ce_id", id}, {"ce_source", source}, {"ce_type", typeName}, {"ce_subject", subject}, {"ce_time", at},
		{"ce_sequence", e.sequence}, {"content-type", "application/protobuf"},
	} {
		if h[1] != "" { // An attribute of CloudEvents is not empty.
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
		}
	}
	return r, nil
}
