package sms

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/khata-ledger/khata/ledger/inbox"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// texts are the messages, as "phone kind text" without the reference.
func (b *bench) texts(t testing.TB) []string {
	t.Helper()
	return b.rows(t, `SELECT phone || ' ' || split_part(text, '. Ref', 1) FROM khata_sms.message ORDER BY event_time, event_id`)
}

func (b *bench) wantTexts(t testing.TB, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, append([]string(nil), b.texts(t)...)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// What each kind of transfer tells the payer and the payee.
func TestHandler_Kinds(t *testing.T) {
	t.Parallel()
	for kind, want := range map[khatav1.TransferKind][]string{
		khatav1.TransferKind_TRANSFER_KIND_PLAIN:    {"+8801711000011 ৳500.00 sent to Tithi", "+8801711000012 ৳500.00 received from Shimul"},
		khatav1.TransferKind_TRANSFER_KIND_CAPTURE:  {"+8801711000011 ৳500.00 sent to Tithi", "+8801711000012 ৳500.00 received from Shimul"},
		khatav1.TransferKind_TRANSFER_KIND_REFUND:   {"+8801711000012 ৳500.00 returned to you by Shimul"},
		khatav1.TransferKind_TRANSFER_KIND_REVERSAL: {"+8801711000012 ৳500.00 returned to you by Shimul"},
		khatav1.TransferKind_TRANSFER_KIND_HOLD:     nil,
		khatav1.TransferKind_TRANSFER_KIND_VOID:     nil,
		khatav1.TransferKind_TRANSFER_KIND_EXPIRY:   nil,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.people(t)
			b.mustHandle(t, moves("TXN-1", kind, "wallet:shimul", "wallet:tithi", "500.00", 10)...)
			b.wantTexts(t, want...)
		})
	}
}

// A refund of what was our mistake comes with an apology, once, in the language of who is paid back.
func TestHandler_Apology(t *testing.T) {
	t.Parallel()
	for reason, want := range map[khatav1.RefundReason]string{
		khatav1.RefundReason_REFUND_REASON_DUPLICATE:       "+8801711000012 Sorry for our mistake: ৳500.00 returned to you by Shimul",
		khatav1.RefundReason_REFUND_REASON_TECHNICAL_ERROR: "+8801711000012 Sorry for our mistake: ৳500.00 returned to you by Shimul",
		khatav1.RefundReason_REFUND_REASON_GOODWILL:        "+8801711000012 ৳500.00 returned to you by Shimul",
		khatav1.RefundReason_REFUND_REASON_UNSPECIFIED:     "+8801711000012 ৳500.00 returned to you by Shimul",
		99: "+8801711000012 ৳500.00 returned to you by Shimul",
	} {
		t.Run(reason.String(), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.people(t)
			list := moves("REF-1", khatav1.TransferKind_TRANSFER_KIND_REFUND, "wallet:shimul", "wallet:tithi", "500.00", 10)
			for i := range list {
				var m khatav1.AccountMovement
				if err := proto.Unmarshal(list[i].Data, &m); err != nil {
					t.Fatal(err)
				}
				m.RefundReason = reason
				var err error
				if list[i].Data, err = proto.Marshal(&m); err != nil {
					t.Fatal(err)
				}
			}
			b.mustHandle(t, list...)
			b.mustHandle(t, list...)
			b.wantTexts(t, want)
		})
	}
}

// Who is to be told, and how the other is called.
func TestHandler_Who(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.people(t)
	b.mustHandle(t, account("opened", "wallet:off", "Off", `{"phone":"+8801711000013","sms":"off"}`, 4),
		account("opened", "wallet:half", "Half", `{"phone":"+8801711000014","sms":"received","sms_language":"bn"}`, 5),
		account("opened", "wallet:bad", "Bad", `{"phone":"01711000015"}`, 6))
	b.mustHandle(t, slices.Concat(
		pay("a", "wallet:shimul", "shop:7", "1.00", 11), // The shop has no name.
		pay("b", "shop:never-seen", "wallet:shimul", "2.00", 12),
		pay("c", "wallet:half", "wallet:off", "3.00", 13), // Half wants to know what he receives only.
		pay("d", "wallet:off", "wallet:half", "4.00", 14),
		pay("e", "wallet:bad", "wallet:bad:savings", "5.00", 15),
		pay("f", "wallet:shimul", "wallet:shimul", "6.00", 16), // To oneself.
		pay("g", "wallet:shimul", "wallet:tithi", "0.00", 17),
		moves("h", khatav1.TransferKind_TRANSFER_KIND_REFUND, "wallet:off", "wallet:half", "8.00", 18),
	)...)
	b.wantTexts(t, "+8801711000011 ৳1.00 sent to 7", "+8801711000011 ৳2.00 received from never-seen", "+8801711000014 Off-এর কাছ থেকে ৳৪.০০ পেয়েছেন। রেফ d, ৩০ নভে ২০২৬ ১৫:০৪।",
		"+8801711000014 Off আপনাকে ৳৮.০০ ফেরত দিয়েছেন। রেফ h, ৩০ নভে ২০২৬ ১৫:০৪।")
}

// Events from before they named payer and payee.
func TestHandler_OldEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.people(t)
	for i, others := range [][]string{{"wallet:tithi", "fees"}, nil} {
		b.mustHandle(t, event(fmt.Sprint("old-", i), "moved", &khatav1.AccountMovement{
			Ledger: "main", Account: "wallet:shimul", Currency: "BDT", Version: 10, TransferId: "T", Kind: plain, Posted: "5.00", Counterparties: others,
		}))
	}
	b.wantTexts(t, "+8801711000011 ৳5.00 received from Tithi", "+8801711000011 ৳5.00 received")
}

// An event has one message, whoever handles it again.
func TestHandler_Again(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.people(t)
	list := pay("TXN-1", "wallet:shimul", "wallet:tithi", "500.00", 10)
	b.mustHandle(t, list...)
	b.mustHandle(t, slices.Concat(list, list)...)
	if n := len(b.texts(t)); n != 2 {
		t.Errorf("%d messages", n)
	}
}

// Only a later change of an account replaces what is known of it, also within one batch, and messages go to where its owner is now.
func TestHandler_Directory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.people(t)
	one := pay("a", "shop:7", "wallet:shimul", "1.00", 20)
	b.mustHandle(t, account("updated", "wallet:shimul", "Shimul R", withPhone("+8801711000022"), 9), one[1],
		account("updated", "wallet:shimul", "Shimul Rahman", withPhone("+8801711000023"), 21), account("frozen", "wallet:shimul", "Old", "", 8))
	// All of them again, as after a crash of the relay: what was is not what is.
	b.mustHandle(t, account("opened", "wallet:shimul", "Shimul", withPhone("+8801711000011"), 1))
	b.mustHandle(t, account("updated", "wallet:shimul", "Shimul R", withPhone("+8801711000022"), 9))
	b.mustHandle(t, pay("b", "wallet:shimul", "wallet:tithi", "2.00", 30)...)
	b.wantTexts(t, "+8801711000023 ৳1.00 received from 7", "+8801711000023 ৳2.00 sent to Tithi", "+8801711000012 ৳2.00 received from Shimul Rahman")
	// Nobody is told that he was frozen, or that his account is closed; and a phone that is taken out is not used.
	b.mustHandle(t, account("frozen", "wallet:shimul", "Shimul", withPhone("+8801711000011"), 31), account("closed", "wallet:shimul", "Shimul", "", 32))
	b.mustHandle(t, pay("c", "shop:7", "wallet:shimul", "3.00", 33)...)
	if n := len(b.texts(t)); n != 3 {
		t.Errorf("%q", b.texts(t))
	}
}

// Nothing that was before the consumer began, and everything of a ledger that came later.
func TestHandler_Covered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.people(t)
	b.db.Exec(t, "INSERT INTO khata_sms.covered VALUES ('main', 100), ('other', 7)")
	b.mustHandle(t, slices.Concat(pay("a", "shop:7", "wallet:shimul", "1.00", 99), pay("b", "shop:7", "wallet:shimul", "2.00", 100),
		pay("c", "shop:7", "wallet:shimul", "3.00", 101))...)
	b.wantTexts(t, "+8801711000011 ৳3.00 received from 7")
	young := func(kind string, m *khatav1.AccountMovement) inbox.Event { return event("young-"+kind, kind, m) }
	b.mustHandle(t, event("young", "opened", &khatav1.AccountEvent{Ledger: "young", Account: &khatav1.Account{Account: "wallet:shimul", Metadata: withPhone("+8801711000099"), Version: 1}}),
		young("moved", &khatav1.AccountMovement{Ledger: "young", Account: "wallet:shimul", Currency: "BDT", Version: 2, TransferId: "T", Kind: plain, Posted: "5.00", Payer: "x"}))
	b.wantTexts(t, "+8801711000011 ৳3.00 received from 7", "+8801711000099 ৳5.00 received from x")
}

// What cannot be read is a dead letter, and not left out.
func TestHandler_Poison(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.people(t)
	good := func() *khatav1.AccountMovement {
		return &khatav1.AccountMovement{
			Ledger: "main", Account: "wallet:shimul", Currency: "BDT", Version: 10, TransferId: "T", Kind: plain, Posted: "5.00", Payer: "shop:7", Payee: "wallet:shimul",
		}
	}
	b.mustHandle(t, event("good", "moved", good()))
	bad := map[string]func(*khatav1.AccountMovement){
		"no amount":           func(m *khatav1.AccountMovement) { m.Posted = "" },
		"an amount with e":    func(m *khatav1.AccountMovement) { m.Posted = "1e3" },
		"an amount with +":    func(m *khatav1.AccountMovement) { m.Posted = "+5.00" },
		"no ledger":           func(m *khatav1.AccountMovement) { m.Ledger = "" },
		"no account":          func(m *khatav1.AccountMovement) { m.Account = "" },
		"an account with NUL": func(m *khatav1.AccountMovement) { m.Account = "a\x00b" },
		"no transfer":         func(m *khatav1.AccountMovement) { m.TransferId = "" },
		"no version":          func(m *khatav1.AccountMovement) { m.Version = 0 },
		"no kind":             func(m *khatav1.AccountMovement) { m.Kind = 0 },
		"a kind of later":     func(m *khatav1.AccountMovement) { m.Kind = 99 },
		"no currency":         func(m *khatav1.AccountMovement) { m.Currency = "" },
		"a payer of bytes":    func(m *khatav1.AccountMovement) { m.Payer = "\xff" },
		"a payee of lines":    func(m *khatav1.AccountMovement) { m.Payee = "a\nb" },
	}
	var events []inbox.Event
	for name, spoil := range bad {
		m := good()
		spoil(m)
		events = append(events, event(name, "moved", m))
	}
	events = append(events,
		inbox.Event{ID: "garbage", Type: "khata.account.moved.v1", Data: []byte("\xff\xff\xff")},
		inbox.Event{ID: "no data", Type: "khata.account.moved.v1"},
		inbox.Event{ID: "garbage of an account", Type: "khata.account.opened.v1", Data: []byte("\xff\xff\xff")},
		inbox.Event{ID: "no account", Type: "khata.account.closed.v1"},
		event("another version", "moved.v2", good()),
		inbox.Event{ID: "version 2", Type: "khata.account.moved.v2"},
		inbox.Event{ID: "something of Khata's", Type: "khata.account.merged.v1"},
		event("an account without version", "opened", &khatav1.AccountEvent{Ledger: "main", Account: &khatav1.Account{Account: "a"}}),
	)
	for _, e := range events {
		e.Time = at
		if err := b.handle(t, e); !errors.Is(err, errPoison(err)) {
			t.Errorf("%s: %v", e.ID, err)
		}
	}
	for _, e := range []inbox.Event{{ID: "theirs", Type: "com.example.thing.v7"}, {ID: "a transfer", Type: "khata.transfer.posted.v1"}, {ID: "nothing"}} {
		if err := b.handle(t, e); err != nil {
			t.Errorf("%s: %v", e.ID, err)
		}
	}
	b.wantTexts(t, "+8801711000011 ৳5.00 received from 7")
}

// errPoison is err if it is one that Poison has made, and something else if not.
func errPoison(err error) error {
	if err != nil && fmt.Sprintf("%T", err) == "*inbox.poison" {
		return err
	}
	return errors.New("not poison")
}

// Names from events may be anything.
func TestHandler_Hostile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.people(t)
	b.mustHandle(t, account("opened", "wallet:eve", "Eve\x00\xff\n"+strings.Repeat("\u202Ex", 500), "\xff{", 4),
		account("opened", "wallet:zwj", "\u200D", `{"phone":["+8801711000001"],"sms":{}}`, 5))
	b.mustHandle(t, slices.Concat(pay("a", "wallet:eve", "wallet:shimul", "1.00", 10), pay("b", "wallet:zwj", "wallet:tithi", "1.00", 11))...)
	b.wantTexts(t, "+8801711000011 ৳1.00 received from Eve "+strings.Repeat("x", 35)+"…", "+8801711000012 ৳1.00 received from zwj")
}

func TestHandler_BadPhones(t *testing.T) {
	t.Parallel()
	b := setup(t)
	registry := prometheus.NewRegistry()
	b.handler.metrics = newMetrics(registry)
	b.mustHandle(t, account("opened", "a", "", `{"phone":"123"}`, 1), account("opened", "b", "", withPhone("+8801711000011"), 2), account("opened", "c", "", "", 3))
	if n := metric(t, registry, "khata_sms_bad_phones_total", ""); n != 1 {
		t.Errorf("%v bad phones", n)
	}
	if n := b.rows(t, "SELECT phone FROM khata_sms.recipient ORDER BY account"); !slices.Equal(n, []string{"", "+8801711000011", ""}) {
		t.Errorf("%q", n)
	}
}

// A batch is a handful of statements, whatever is in it.
func TestHandler_Many(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.people(t)
	var list []inbox.Event
	for i := range 1000 {
		list = append(list, pay(fmt.Sprint("T-", i), "wallet:shimul", "wallet:tithi", "1.00", int64(10+i))...)
	}
	began := time.Now()
	b.mustHandle(t, list...)
	if n := len(b.texts(t)); n != 2000 {
		t.Errorf("%d messages", n)
	}
	t.Logf("2000 movements in %s", time.Since(began))
}
