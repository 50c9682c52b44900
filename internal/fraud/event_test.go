package fraud_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/shopspring/decimal"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// A verdict as it is on Kafka, to the last header.
func TestVerdict(t *testing.T) {
	t.Parallel()
	b := onFake(t)
	b.start(t, "one")
	p := &fraud.Payment{
		Ledger: "main", Transfer: "order-77", Sequence: 88412, Kind: ledger.Hold, Payer: "wallet:shimul", Payee: "shop", Currency: "BDT",
		PostedAt: time.Date(2026, 9, 30, 8, 12, 44, 18231000, time.UTC), Amount: decimal.RequireFromString("90.50"),
	}
	b.publish(t, []*fraud.Payment{p})
	b.check(t)
	v := b.verdicts(t)[0]
	if diff := cmp.Diff(map[string]string{
		"ce_specversion": "1.0", "ce_id": wire.EventID("khata.fraud", eventID(p, "wallet:shimul")), "ce_source": "/khata/ledgers/main/fraud", "ce_type": "khata.fraud.flagged.v1",
		"ce_subject": "order-77", "ce_time": "2026-09-30T08:12:44.018231Z", "ce_sequence": "00000000000000088412", "content-type": "application/protobuf",
	}, v.headers); diff != "" {
		t.Error(diff)
	}
	if string(v.record.Key) != "main/wallet:shimul" {
		t.Errorf("key %s", v.record.Key)
	}
	if diff := cmp.Diff(&khatav1.FraudVerdict{
		Ledger: "main", TransferId: "order-77", Sequence: 88412, Kind: khatav1.TransferKind_TRANSFER_KIND_HOLD, Payer: "wallet:shimul", Payee: "shop", Amount: "90.50",
		Currency: "BDT", PostedAt: timestamppb.New(p.PostedAt), Outcome: khatav1.FraudOutcome_FRAUD_OUTCOME_FLAGGED,
		Reasons: []*khatav1.FraudReason{
			{Rule: "large", Kind: "amount", Text: "90.50 BDT is more than 90 BDT"},
			{Rule: "new", Kind: "new_payee", Text: "90.50 BDT is more than 50 BDT, and its payer has not paid shop within 1h"},
		},
		Rules: b.rules.Identity(), JudgedEvent: eventID(p, "wallet:shimul"),
	}, v.FraudVerdict, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// The id of a verdict follows from that of the event. It must not change from version to version.
func TestVerdict_ID(t *testing.T) {
	t.Parallel()
	if got := wire.EventID("khata.fraud", "0b2bd3c0-0000-8000-8000-000000000001"); got != "c1442502-c1eb-8040-980e-76b083a13c68" {
		t.Error(got)
	}
}

// What cannot be read, and might have been a payment, is flagged, once, and stops nobody. What is no payment is passed over.
func TestCheck_Unreadable(t *testing.T) {
	t.Parallel()
	b := onFake(t)
	registry := prometheus.NewRegistry()
	config := b.config(t, "one")
	config.Metrics = fraud.NewMetrics(registry)
	one := run(t, config, nil)
	p := b.transfers(1, 1)[0]
	p.Payer = "wallet:garbled"
	movement := func(change func(*khatav1.AccountMovement, *kgo.Record)) *kgo.Record {
		r := b.movement(p, p.Payer)
		var m khatav1.AccountMovement
		if err := proto.Unmarshal(r.Value, &m); err != nil {
			t.Fatal(err)
		}
		change(&m, r)
		var err error
		if r.Value, err = proto.Marshal(&m); err != nil {
			t.Fatal(err)
		}
		return r
	}
	set := func(key, value string) func(*khatav1.AccountMovement, *kgo.Record) {
		return func(_ *khatav1.AccountMovement, r *kgo.Record) {
			r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == key })
			if value != "" {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
			}
		}
	}
	data := func(change func(*khatav1.AccountMovement)) func(*khatav1.AccountMovement, *kgo.Record) {
		return func(m *khatav1.AccountMovement, _ *kgo.Record) { change(m) }
	}
	n := 0
	for _, c := range []struct {
		name   string
		change func(*khatav1.AccountMovement, *kgo.Record)
		want   string // part of the reason; "" for no verdict
	}{
		{"another major version", set("ce_type", "khata.account.moved.v2"), "it is of type khata.account.moved.v2, and this check reads khata.account.moved.v1 only"},
		{"no type", set("ce_type", ""), "it is no CloudEvent: it has no ce_type"},
		{"no id", set("ce_id", ""), "it is no CloudEvent: it has no ce_id"},
		{"another type", set("ce_type", "khata.account.exploded.v1"), ""},
		{"another type like it", set("ce_type", "khata.account.movedon.v1"), ""},
		{"no payer", data(func(m *khatav1.AccountMovement) { m.Payer, m.Payee = "", "" }), ""},
		{"another account", func(m *khatav1.AccountMovement, r *kgo.Record) { m.Account, r.Key = "shop", []byte("main/shop") }, ""},
		{"no protobuf", data(func(*khatav1.AccountMovement) {}), "its data is no AccountMovement"},
		{"another key", func(_ *khatav1.AccountMovement, r *kgo.Record) { r.Key = []byte("main/wallet:b") }, `its key is "main/wallet:b" and not main/wallet:garbled`},
		{"no ledger", data(func(m *khatav1.AccountMovement) { m.Ledger = "" }), "its data is no movement of a ledger: invalid argument: ledger"},
		{"no transfer", data(func(m *khatav1.AccountMovement) { m.TransferId = "" }), "its data is no movement of a ledger: invalid argument: transfer_id"},
		{"no payee", data(func(m *khatav1.AccountMovement) { m.Payee = "" }), "its data is no movement of a ledger: invalid argument: payee"},
		{"no currency", data(func(m *khatav1.AccountMovement) { m.Currency = "" }), "its data is no movement of a ledger: invalid argument: currency"},
		{"no version", data(func(m *khatav1.AccountMovement) { m.Version = 0 }), "its version is 0"},
		{"no kind", data(func(m *khatav1.AccountMovement) { m.Kind = 0 }), "it is a transfer of kind 0, which this check does not know"},
		{"a new kind", data(func(m *khatav1.AccountMovement) { m.Kind = 77 }), "it is a transfer of kind 77"},
		{"no time", data(func(m *khatav1.AccountMovement) { m.PostedAt = nil }), "it has no posted_at"},
		{"no entries", data(func(m *khatav1.AccountMovement) { m.Entries = nil }), "none of its entries is a debit of his"},
		{"an amount that is none", data(func(m *khatav1.AccountMovement) { m.Entries[0].Amount = "1e1000000000" }), "is not an amount"},
	} {
		r := movement(c.change)
		if c.name == "no protobuf" {
			r.Value = []byte("\xff\xff")
		}
		if c.want != "" {
			n++
		}
		for i := range r.Headers { // Each is an event of its own.
			if r.Headers[i].Key == "ce_id" {
				r.Headers[i].Value = []byte("id-" + c.name)
			}
		}
		before := b.unreadable(t)
		for range 3 {
			again := *r
			b.produce(t, &again)
			if c.name == "no id" { // Only its place tells it from another.
				break
			}
		}
		b.flush(t)
		b.drained(t)
		got := b.unreadable(t)[len(before):]
		if c.want == "" {
			if len(got) > 0 {
				t.Errorf("%s: %v", c.name, got[0])
			}
			continue
		}
		if len(got) != 1 {
			t.Errorf("%s: %d verdicts", c.name, len(got))
			continue
		}
		v := got[0]
		want := wire.EventID("khata.fraud.unreadable", "id-"+c.name)
		if len(v.Reasons) != 1 || v.Reasons[0].Kind != "unreadable" || !strings.Contains(v.Reasons[0].Text, c.want) || v.Outcome != khatav1.FraudOutcome_FRAUD_OUTCOME_FLAGGED ||
			c.name != "no id" && v.headers["ce_id"] != want || v.headers["ce_time"] == "" || v.headers["ce_source"] != "/khata/ledgers/main/fraud" {
			t.Errorf("%s: %v %v", c.name, v.FraudVerdict, v.headers)
		}
	}
	// It has stopped nobody, and the same transfer, when it can be read, is judged.
	b.publish(t, []*fraud.Payment{p})
	b.publish(t, b.transfers(2, 20))
	b.check(t)
	if got := gather(t, registry); got["khata_fraud_unreadable_total"] != float64(n) || got["khata_fraud_without_payer_total"] != 3 {
		t.Errorf("%d are unreadable, counted: %v", n, got)
	}
	// Another instance knows which were flagged.
	one.end(t)
	b.start(t, "two")
	before := len(b.unreadable(t))
	again := movement(set("ce_type", "khata.account.moved.v2"))
	for i := range again.Headers {
		if again.Headers[i].Key == "ce_id" {
			again.Headers[i].Value = []byte("id-another major version")
		}
	}
	b.produce(t, again)
	b.flush(t)
	b.drained(t)
	if got := len(b.unreadable(t)); got != before {
		t.Errorf("%d are flagged again", got-before)
	}
}

func (b *bench) unreadable(t testing.TB) []verdict {
	t.Helper()
	list := slices.DeleteFunc(b.verdicts(t), func(v verdict) bool { return v.headers["ce_type"] != "khata.fraud.unreadable.v1" })
	slices.SortStableFunc(list, func(a, b verdict) int { return a.record.Timestamp.Compare(b.record.Timestamp) })
	return list
}
