package grpcapi_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// rawCodec sends bytes as they are, where a client would send a message.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

func methods() protoreflect.MethodDescriptors {
	return khatav1.File_khata_v1_ledger_proto.Services().ByName("LedgerService").Methods()
}

func path(m protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
}

func TestMalformed_UndecodableIsInvalid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, raw := range map[string][]byte{
		"no tag":             {0xff, 0xff, 0xff},
		"truncated string":   {0x0a, 0x7f, 'x'},
		"endless length":     {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"field number 0":     {0x02, 0x00},
		"unmatched endgroup": {0x0c},
		"reserved wire type": {0x0f},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range methods().Len() {
				m := methods().Get(i)
				var answer []byte
				err := b.conn.Invoke(t.Context(), path(m), raw, &answer, grpc.ForceCodec(rawCodec{}))
				if got := fault(err); got != "InvalidArgument INVALID_ARGUMENT" {
					t.Errorf("%s: got %s", m.Name(), got)
				}
			}
		})
	}
}

// A request with nothing in it, not even the messages that it should hold.
func TestMalformed_EmptyRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	want := map[string]string{
		"CreateLedger": invalid("name"), "ListLedgers": "OK", "RegisterCurrency": invalid("code"), "ListCurrencies": "OK",
		"CreateAccount": invalid("account"), "CreateAccounts": invalid("accounts"), "GetAccount": invalid("account"), "ListAccounts": "OK",
		"UpdateAccount": invalid("account"), "PostTransfer": invalid("transfer_id"), "PostTransfers": "OK",
		"GetTransfer": invalid("transfer_id"), "GetBalance": invalid("account"), "GetBalances": invalid("accounts"), "ListEntries": invalid("account"),
		"ListHolds": invalid("account"), "ClosePeriod": invalid("closed_before"), "ReopenPeriod": invalid("closed_before"), "ListPeriodChanges": "OK",
	}
	for i := range methods().Len() {
		m := methods().Get(i)
		kind, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
		if err != nil {
			t.Fatal(err)
		}
		if got := b.call(t, m, kind.New().Interface()); got != want[string(m.Name())] {
			t.Errorf("%s: got %s, want %s", m.Name(), got, want[string(m.Name())])
		}
	}
}

// Unknown fields are no fault: a newer client may send some.
func TestMalformed_UnknownFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT")
	raw, err := proto.Marshal(&khatav1.PostTransferRequest{Transfer: move("T-1", "cash", "wallet:a", "5.00")})
	if err != nil {
		t.Fatal(err)
	}
	raw = append(raw, 0xf2, 0x3f, 0x03, 'n', 'e', 'w') // field 1022
	var answer []byte
	if err := b.conn.Invoke(t.Context(), khatav1.LedgerService_PostTransfer_FullMethodName, raw, &answer, grpc.ForceCodec(rawCodec{})); err != nil {
		t.Fatal(err)
	}
	if got := b.balance(t, "wallet:a"); got != "5.00" {
		t.Errorf("balance %s", got)
	}
}

// wellFormed has requests that are in order, one or more for each method that takes text.
func wellFormed() map[string][]proto.Message {
	text := func(a *khatav1.NewAccount) *khatav1.NewAccount {
		a.Name, a.Metadata, a.Floor, a.Ceiling = "A", `{"a":1}`, proto.String("0"), proto.String("5")
		return a
	}
	full := func(x *khatav1.NewTransfer) *khatav1.NewTransfer {
		x.EffectiveAt, x.Description, x.Metadata = &timestamppb.Timestamp{Seconds: 1_780_000_000}, "for tea", `{"a":1}`
		return x
	}
	short := full(move("T-short", "cash", "wallet:a", "1.00"))
	short.Currency = "BDT"
	long := full(entries("T-long", debit("cash", "1.00"), credit("wallet:a", "1.00")))
	long.Entries[0].Currency, long.Entries[1].Currency = "BDT", "BDT"
	conditional := full(move("T-conditional", "cash", "wallet:u", "1.00"))
	conditional.Conditions = []*khatav1.Condition{{Account: "wallet:u", Balance: proto.String("0.00")}}
	// In this order each is posted.
	requests := []proto.Message{}
	for _, x := range []*khatav1.NewTransfer{
		short, long, conditional,
		hold(full(&khatav1.NewTransfer{TransferId: "T-hold", DebitAccount: "cash", CreditAccount: "wallet:a", Amount: "5.00"}), &khatav1.Hold{}),
		full(capture("T-capture", "T-hold", "1.00")), voids("T-void", "T-hold"), full(refund("T-refund", "T-short", "1.00", "0")), reverse("T-reversal", "T-long"),
	} {
		if x.GetHold() != nil {
			x.EffectiveAt = nil
		}
		if x.GetCapture() != nil {
			x.GetCapture().KeepOpen = true
		}
		requests = append(requests, &khatav1.PostTransferRequest{Ledger: "main", Transfer: x})
	}
	return map[string][]proto.Message{
		"CreateLedger":     {&khatav1.CreateLedgerRequest{Name: "books"}},
		"ListLedgers":      {},
		"RegisterCurrency": {&khatav1.RegisterCurrencyRequest{Ledger: "main", Currency: &khatav1.Currency{Code: "ETH", Scale: 18}}},
		"ListCurrencies":   {&khatav1.ListCurrenciesRequest{Ledger: "main"}},
		"CreateAccount":    {&khatav1.CreateAccountRequest{Ledger: "main", Account: text(account("wallet:n BDT"))}},
		"CreateAccounts":   {&khatav1.CreateAccountsRequest{Ledger: "main", Accounts: []*khatav1.NewAccount{text(account("wallet:m BDT"))}}},
		"GetAccount":       {&khatav1.GetAccountRequest{Ledger: "main", Account: "wallet:a"}},
		"ListAccounts":     {&khatav1.ListAccountsRequest{Ledger: "main", Prefix: "wallet"}},
		"UpdateAccount": {&khatav1.UpdateAccountRequest{
			Ledger: "main", Account: "wallet:u", Name: proto.String("U"), Metadata: proto.String("{}"), Floor: proto.String("0"), Ceiling: proto.String("5"),
		}, &khatav1.UpdateAccountRequest{Ledger: "main", Account: "wallet:u", Name: proto.String("V")}},
		"PostTransfer":  requests,
		"PostTransfers": {&khatav1.PostTransfersRequest{Ledger: "main", Transfers: []*khatav1.NewTransfer{short}}, &khatav1.PostTransfersRequest{Ledger: "main", Transfers: []*khatav1.NewTransfer{long}}},
		"GetTransfer":   {&khatav1.GetTransferRequest{Ledger: "main", TransferId: "T-short"}},
		"GetBalance":    {&khatav1.GetBalanceRequest{Ledger: "main", Account: "wallet:a"}},
		"GetBalances":   {&khatav1.GetBalancesRequest{Ledger: "main", Accounts: []string{"wallet:a", "cash"}}},
		"ListEntries":   {&khatav1.ListEntriesRequest{Ledger: "main", Account: "wallet:a"}},
		"ListHolds":     {&khatav1.ListHoldsRequest{Ledger: "main", Account: "wallet:a"}},
		"ClosePeriod": {&khatav1.ClosePeriodRequest{
			Ledger: "main", ClosedBefore: &timestamppb.Timestamp{Seconds: 1_780_000_000}, Zone: "Asia/Dhaka", Reason: "it is over",
		}},
		"ReopenPeriod": {&khatav1.ReopenPeriodRequest{
			Ledger: "main", ClosedBefore: &timestamppb.Timestamp{Seconds: 1_770_000_000}, Zone: "Asia/Dhaka", Reason: "a late invoice",
		}},
		"ListPeriodChanges": {&khatav1.ListPeriodChangesRequest{Ledger: "main"}},
	}
}

// eachString calls f for every text in m, filled in or not, with its path, after setting it to value in a copy of m.
func eachString(m proto.Message, value string, f func(path string, changed proto.Message)) {
	var walk func(at string, prefix protoreflect.Message, root func() (proto.Message, protoreflect.Message))
	walk = func(at string, now protoreflect.Message, root func() (proto.Message, protoreflect.Message)) {
		fields := now.Descriptor().Fields()
		for i := range fields.Len() {
			field := fields.Get(i)
			name := at + string(field.Name())
			switch {
			case field.IsList() && field.Kind() == protoreflect.StringKind:
				for k := range now.Get(field).List().Len() {
					copied, parent := root()
					parent.Mutable(field).List().Set(k, protoreflect.ValueOfString(value))
					f(fmt.Sprintf("%s[%d]", name, k), copied)
				}
			case field.IsList() && field.Kind() == protoreflect.MessageKind:
				for k := range now.Get(field).List().Len() {
					walk(fmt.Sprintf("%s[%d].", name, k), now.Get(field).List().Get(k).Message(), func() (proto.Message, protoreflect.Message) {
						copied, parent := root()
						return copied, parent.Mutable(field).List().Get(k).Message()
					})
				}
			case field.Kind() == protoreflect.MessageKind && now.Has(field):
				walk(name+".", now.Get(field).Message(), func() (proto.Message, protoreflect.Message) {
					copied, parent := root()
					return copied, parent.Mutable(field).Message()
				})
			case field.Kind() == protoreflect.StringKind:
				copied, parent := root()
				parent.Set(field, protoreflect.ValueOfString(value))
				f(name, copied)
			}
		}
	}
	walk("", m.ProtoReflect(), func() (proto.Message, protoreflect.Message) {
		copied := proto.Clone(m)
		return copied, copied.ProtoReflect()
	})
}

// Every text of every request, set to what cannot be stored or is far too long: an INVALID_ARGUMENT about a field, and never
// INTERNAL, after which a client would try for ever.
func TestMalformed_EveryTextOfEveryRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT", "wallet:u BDT")
	for name, value := range map[string]string{
		"not UTF-8":  "a\xff\xfe",
		"cut UTF-8":  "\xe0\xa6",
		"surrogates": "\xed\xa0\x80",
		"NUL":        "a\x00b",
		"100 kB":     strings.Repeat("a", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tried := 0
			for i := range methods().Len() {
				m := methods().Get(i)
				requests, ok := wellFormed()[string(m.Name())]
				if !ok {
					t.Errorf("no well-formed %s to alter", m.Name())
				}
				for _, request := range requests {
					eachString(request, value, func(field string, changed proto.Message) {
						tried++
						got := b.call(t, m, changed)
						if reason, at, _ := strings.Cut(got, " INVALID_ARGUMENT"); reason != "InvalidArgument" || at == "" {
							t.Errorf("%s with %s altered: got %s", m.Name(), field, got)
						}
					})
				}
			}
			if tried < 60 {
				t.Errorf("only %d texts altered", tried)
			}
		})
	}
	// The requests that were altered are in order, or the above proves nothing.
	for i := range methods().Len() {
		m := methods().Get(i)
		for _, request := range wellFormed()[string(m.Name())] {
			if got := b.call(t, m, request); got != "OK" {
				t.Errorf("%s unaltered: got %s", m.Name(), got)
			}
		}
	}
}

// call sends a request and describes the error, that of its one transfer if it is a PostTransfers.
func (b *bench) call(t *testing.T, m protoreflect.MethodDescriptor, request proto.Message) string {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil {
		t.Fatal(err)
	}
	answer := kind.New().Interface()
	err = b.conn.Invoke(t.Context(), path(m), request, answer)
	if many, ok := answer.(*khatav1.PostTransfersResponse); ok && err == nil {
		for _, r := range many.GetResults() {
			if r.GetError() != nil {
				return outcomeOrFault(r)
			}
		}
	}
	return fault(err)
}

// Text that can be stored is kept as it is, however odd.
func TestMalformed_OddTextIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT")
	for i, text := range []string{
		"খাতা", "\u202e right to left", "a\tb\nc\r", "\u0001\u007f", "\ufffd\uffff", "🧾", `"\\'; DROP TABLE entry; --`, " spaces ", strings.Repeat("ক", 341),
	} {
		id := fmt.Sprintf("T-%d", i)
		transfer := move(id, "cash", "wallet:a", "1.00")
		transfer.Description = text
		b.post(t, transfer)
		if again := b.post(t, transfer); !again.GetReplayed() {
			t.Errorf("%q: not replayed", text)
		}
		got, err := b.GetTransfer(t.Context(), &khatav1.GetTransferRequest{TransferId: id})
		if err != nil || got.GetTransfer().GetDescription() != text {
			t.Errorf("sent %q, got %q %v", text, got.GetTransfer().GetDescription(), err)
		}
	}
}
