package relay

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

var update = flag.Bool("update", false, "write golden files of types that have none")

// golden is an event as it was once published: what a consumer may have on a topic, or in its dead letters, for ever.
type golden struct {
	Topic   string            `json:"topic"`
	Key     string            `json:"key"`
	Headers map[string]string `json:"headers"`
	// Value is in base64, and Data what is in it.
	Value string          `json:"value"`
	Data  json.RawMessage `json:"data"`
}

const goldenDir = "testdata/events"

// addedLater are the fields that a type has got since its first golden file, which does not have them. Each time, the type gets another file:
// its name, a plus and a number.
var addedLater = map[string][]protoreflect.Name{"khata.account.moved.v1": {"payer", "payee"}}

// TestEvents_Golden decodes every event that was ever published, in each of its types: the files are added to, never changed. And each
// fact is published today as it was then.
func TestEvents_Golden(t *testing.T) {
	t.Parallel()
	today := map[string]event{}
	for _, r := range samples() {
		for _, e := range testTopics.appendEvents(nil, "main", r) {
			if _, known := today[e.typeName()]; !known && e.fault == nil {
				today[e.typeName()] = e
			}
		}
	}
	for name, e := range today {
		path := filepath.Join(goldenDir, name+".json")
		if len(addedLater[name]) > 0 {
			path = filepath.Join(goldenDir, name+"+2.json")
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			if !*update {
				t.Errorf("%s has no golden file: run with -update", name)
				continue
			}
			writeGolden(t, path, e)
		}
	}
	files, err := filepath.Glob(filepath.Join(goldenDir, "*.json"))
	if err != nil || len(files) < 15 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var old golden
		if err := json.Unmarshal(text, &old); err != nil {
			t.Fatal(err)
		}
		value, err := base64.StdEncoding.DecodeString(old.Value)
		if err != nil {
			t.Fatal(err)
		}
		name, form, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".json"), "+")
		got, want := Message(name), Message(name)
		if got == nil {
			t.Errorf("%s can no longer be decoded", name)
			continue
		}
		if err := proto.Unmarshal(value, got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := protojson.Unmarshal(old.Data, want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s means something else than it did (-then +now):\n%s", name, diff)
		}
		e, known := today[name]
		if !known {
			continue // of a version that is not published any more
		}
		now := Message(name)
		if err := proto.Unmarshal(e.record.Value, now); err != nil {
			t.Fatal(err)
		}
		if form == "" {
			for _, field := range addedLater[name] {
				now.ProtoReflect().Clear(now.ProtoReflect().Descriptor().Fields().ByName(field))
			}
		}
		if diff := cmp.Diff(want, now, protocmp.Transform()); diff != "" {
			t.Errorf("%s is published otherwise than it was (-then +now):\n%s", name, diff)
		}
		if diff := cmp.Diff(old, goldenOf(t, e), cmp.FilterPath(func(p cmp.Path) bool {
			return p.Last().String() == ".Value" || p.Last().String() == ".Data"
		}, cmp.Ignore())); diff != "" {
			t.Errorf("%s has other headers than it had (-then +now):\n%s", name, diff)
		}
	}
}

func goldenOf(t *testing.T, e event) golden {
	t.Helper()
	g := golden{Topic: e.record.Topic, Key: string(e.record.Key), Headers: map[string]string{}, Value: base64.StdEncoding.EncodeToString(e.record.Value)}
	for _, h := range e.record.Headers {
		g.Headers[h.Key] = string(h.Value)
	}
	m := Message(e.typeName())
	if err := proto.Unmarshal(e.record.Value, m); err != nil {
		t.Fatal(err)
	}
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	g.Data = data
	return g
}

func writeGolden(t *testing.T, path string, e event) {
	t.Helper()
	text, err := json.MarshalIndent(goldenOf(t, e), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, append(text, '\n'), 0o644)); err != nil { //nolint:gosec // for everybody to read
		t.Fatal(err)
	}
}

var testTopics = Topics{Transfers: "khata.transfers", Accounts: "khata.accounts", Prefix: "khata"}

// samples are records that make an event of each type, with all fields that they can have.
func samples() []journal.Record {
	at := time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)
	value := at.Add(-36 * time.Hour)
	bdt := ledger.Currency{Code: "BDT", Scale: 2}
	amount := decimal.RequireFromString
	part := amount("1.5")
	none := decimal.Zero
	entries := func(text string) []ledger.Entry {
		return []ledger.Entry{
			{Account: "wallet:shimul", Direction: ledger.Debit, Amount: amount(text), Currency: bdt},
			{Account: "wallet:tithi", Direction: ledger.Credit, Amount: amount(text), Currency: bdt},
		}
	}
	spec := func(id string, terms *ledger.Terms) ledger.TransferSpec {
		return ledger.TransferSpec{ID: ledger.TransferID(id), Entries: entries("2.50"), Description: "চা", Metadata: `{"order":77}`, Terms: terms}
	}
	posted := spec("order-77", nil)
	posted.EffectiveAt = &value
	list := []*ledger.Transfer{
		{TransferSpec: posted},
		{TransferSpec: spec("refused", nil), Refusal: &ledger.Refusal{Reason: ledger.CodeInsufficientFunds, Account: "wallet:shimul"}},
		{TransferSpec: spec("hold", &ledger.Terms{Kind: ledger.Hold, ExpiresAfter: time.Hour}), Step: &ledger.Step{Reserved: amount("2.5"), Deadline: &at}},
		{TransferSpec: spec("capture", &ledger.Terms{Kind: ledger.Capture, Origin: "hold", Amount: &part, KeepOpen: true}), Step: &ledger.Step{Ordinal: 1, Reserved: amount("-1.5")}},
		{TransferSpec: spec("void", &ledger.Terms{Kind: ledger.Void, Origin: "hold"}), Step: &ledger.Step{Ordinal: 2, Ends: true, Reserved: amount("-1")}},
		{TransferSpec: spec("khata:expiry:hold-2", &ledger.Terms{Kind: ledger.Expiry, Origin: "hold-2"}), Step: &ledger.Step{Ordinal: 1, Ends: true, Reserved: amount("-2.5")}},
		{TransferSpec: spec("refund", &ledger.Terms{Kind: ledger.Refund, Origin: "order-77", Amount: &part, ExpectedRefunded: &none, Reason: ledger.ReasonDuplicate}), Step: &ledger.Step{Ordinal: 1}},
		{TransferSpec: spec("reversal", &ledger.Terms{Kind: ledger.Reversal, Origin: "order-78"}), Step: &ledger.Step{Ordinal: 1, Ends: true}},
	}
	var records []journal.Record
	for i, t := range list {
		t.Sequence, t.PostedAt, t.Caller = int64(1000+i), at.Add(time.Duration(i)*time.Second), "checkout"
		records = append(records, journal.Record{
			Sequence: t.Sequence, Transfer: t, Movements: t.Movements(func(ledger.AccountID) ledger.AccountType { return ledger.Liability }),
		})
	}
	before := ledger.Account{
		ID: "wallet:shimul", Type: ledger.Liability, Currency: bdt, Name: "Shimul", Metadata: `{"language":"bn"}`, Floor: &none, Serialised: true,
		Frozen: ledger.FrozenNone, CreatedAt: value, UpdatedAt: value, Version: 7,
	}
	change := func(n int64, id string, do func(*ledger.Account)) {
		after := before
		do(&after)
		after.Version, after.UpdatedAt = n, at.Add(time.Duration(n)*time.Second)
		earlier := before
		c := &journal.Change{ID: id, Account: after, Before: &earlier, Caller: "support"}
		if id == "" {
			c.Before = nil
		}
		records = append(records, journal.Record{Sequence: n, Change: c})
	}
	change(2000, "", func(*ledger.Account) {})
	change(2001, "0b1f6a4e-5b57-4b4a-9d5e-0a52cf2f7c11", func(a *ledger.Account) { a.Name, a.Ceiling = "Shimul A.", &part })
	change(2002, "0b1f6a4e-5b57-4b4a-9d5e-0a52cf2f7c12", func(a *ledger.Account) { a.Frozen = ledger.FrozenBoth })
	change(2003, "0b1f6a4e-5b57-4b4a-9d5e-0a52cf2f7c13", func(a *ledger.Account) { a.Closed, a.Frozen = true, ledger.FrozenDebits })
	before.Frozen = ledger.FrozenBoth
	change(2004, "0b1f6a4e-5b57-4b4a-9d5e-0a52cf2f7c14", func(a *ledger.Account) { a.Frozen = ledger.FrozenNone })
	return records
}

// The next version adds fields: today's readers pass over them, and its readers understand today's events.
func TestEvents_NextVersion(t *testing.T) {
	t.Parallel()
	for _, today := range []proto.Message{&khatav1.TransferEvent{}, &khatav1.AccountMovement{}, &khatav1.AccountEvent{}} {
		name := today.ProtoReflect().Descriptor().FullName()
		next := nextVersion(t, name)
		for _, r := range samples() {
			for _, e := range testTopics.appendEvents(nil, "main", r) {
				if Message(e.typeName()).ProtoReflect().Descriptor().FullName() != name {
					continue
				}
				later := dynamicpb.NewMessage(next)
				if err := proto.Unmarshal(e.record.Value, later); err != nil {
					t.Fatal(err)
				}
				if len(later.GetUnknown()) > 0 {
					t.Errorf("%s: the next version does not know a field of today's", name)
				}
				if _, err := protojson.Marshal(later); err != nil {
					t.Error(err)
				}
				later.Set(next.Fields().ByName("added_later"), protoreflect.ValueOfString("new"))
				value, err := proto.Marshal(later)
				if err != nil {
					t.Fatal(err)
				}
				read, want := Message(e.typeName()), Message(e.typeName())
				if err := errors.Join(proto.Unmarshal(value, read), proto.Unmarshal(e.record.Value, want)); err != nil {
					t.Fatal(err)
				}
				if len(read.ProtoReflect().GetUnknown()) == 0 {
					t.Errorf("%s: the next version adds nothing, and so proves nothing", name)
				}
				read.ProtoReflect().SetUnknown(nil)
				if diff := cmp.Diff(want, read, protocmp.Transform()); diff != "" {
					t.Errorf("%s of the next version reads otherwise (-today's +next):\n%s", name, diff)
				}
			}
		}
	}
}

// nextVersion is a message as its next version may be: with a field more.
func nextVersion(t *testing.T, name protoreflect.FullName) protoreflect.MessageDescriptor {
	t.Helper()
	file := protodesc.ToFileDescriptorProto(khatav1.File_khata_v1_events_proto)
	for _, m := range file.GetMessageType() {
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
			Name: proto.String("added_later"), JsonName: proto.String("addedLater"), Number: proto.Int32(100),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		})
	}
	next, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return next.Messages().ByName(name.Name())
}

// Ids differ where any part does, wherever the parts are cut.
func TestEventID(t *testing.T) {
	t.Parallel()
	seen := map[string][]string{}
	for _, parts := range [][]string{
		{"main", "transfer.posted", "a"}, {"main", "transfer.refused", "a"}, {"other", "transfer.posted", "a"}, {"main", "transfer.posted", "b"},
		{"main", "account.moved", "a", "b"}, {"main", "account.moved", "ab", ""}, {"main", "account.moved", "a1:b"}, {"main", "account.moved", "a", "b", ""},
	} {
		id := eventID(ledger.Name(parts[0]), parts[1], parts[2:]...)
		if other, taken := seen[id]; taken {
			t.Errorf("%q and %q have one id", parts, other)
		}
		seen[id] = parts
		if len(id) != 36 || id[14] != '8' || !strings.ContainsRune("89ab", rune(id[19])) {
			t.Errorf("%s is not a UUID of version 8", id)
		}
	}
}

// The largest transfer there can be makes no event that the topics do not take.
func TestEvents_Largest(t *testing.T) {
	t.Parallel()
	const entries, metadata = 1000, 16 << 10
	transfer := &ledger.Transfer{TransferSpec: ledger.TransferSpec{
		ID: ledger.TransferID(strings.Repeat("t", ledger.MaxIDLength)), Description: strings.Repeat("d", ledger.MaxDescription),
		Metadata: ledger.Metadata(strings.Repeat("m", metadata)),
	}}
	for i := range entries {
		id := ledger.AccountID(strings.Repeat("a", ledger.MaxIDLength-4) + string(rune('0'+i/100%10)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10)) + "x")
		transfer.Entries = append(transfer.Entries, ledger.Entry{
			Account: id, Direction: ledger.Debit, Amount: decimal.RequireFromString(strings.Repeat("9", 38)), Currency: ledger.Currency{Code: "ABCDEFGHIJKLMNOP", Scale: 0},
		})
	}
	r := journal.Record{Transfer: transfer, Movements: transfer.Movements(func(ledger.AccountID) ledger.AccountType { return ledger.Asset })}
	largest := 0
	for _, e := range testTopics.appendEvents(nil, "main", r) {
		largest = max(largest, len(e.record.Value))
	}
	t.Logf("the largest event has %d bytes", largest)
	if largest > 1_000_000 || largest < 100_000 {
		t.Errorf("the largest event has %d bytes", largest)
	}
}

// Why money goes back, the movements of a refund say, and those of nothing else.
func TestEvents_RefundReason(t *testing.T) {
	t.Parallel()
	refunds := 0
	for _, r := range samples() {
		for _, e := range testTopics.appendEvents(nil, "main", r) {
			var m khatav1.AccountMovement
			if e.fact != factMoved {
				continue
			}
			if err := proto.Unmarshal(e.record.Value, &m); err != nil {
				t.Fatal(err)
			}
			want := khatav1.RefundReason_REFUND_REASON_UNSPECIFIED
			if m.Kind == khatav1.TransferKind_TRANSFER_KIND_REFUND {
				refunds++
				want = khatav1.RefundReason_REFUND_REASON_DUPLICATE
			}
			if m.RefundReason != want {
				t.Errorf("a movement of %s has the reason %s", m.TransferId, m.RefundReason)
			}
		}
	}
	if refunds != 2 {
		t.Errorf("%d movements of a refund", refunds)
	}
}

// The ids by which the events of a transfer are looked up are those under which they are published.
func TestEventIDsOf(t *testing.T) {
	t.Parallel()
	for _, r := range samples() {
		if r.Transfer == nil {
			continue
		}
		var want []string
		for _, e := range testTopics.appendEvents(nil, "main", r) {
			want = append(want, e.id+" "+e.typeName())
		}
		var got []string
		for _, e := range eventsOf("main", r.Transfer) {
			got = append(got, e.ID+" "+e.Type)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-published +looked up):\n%s", r.Transfer.ID, diff)
		}
	}
}
