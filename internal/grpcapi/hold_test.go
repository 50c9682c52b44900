package grpcapi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/grpcapi"
	"github.com/khata-ledger/khata/internal/ledgertest"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// hold makes a hold of a transfer.
func hold(x *khatav1.NewTransfer, h *khatav1.Hold) *khatav1.NewTransfer {
	x.Kind = &khatav1.NewTransfer_Hold{Hold: h}
	return x
}

func balancing(x *khatav1.NewTransfer) *khatav1.NewTransfer {
	x.Balancing = true
	return x
}

// capture is for everything if amount is "".
func capture(id, of, amount string) *khatav1.NewTransfer {
	return &khatav1.NewTransfer{TransferId: id, Kind: &khatav1.NewTransfer_Capture{
		Capture: &khatav1.Capture{Hold: of, Amount: amount, Everything: amount == ""},
	}}
}

func keepOpen(x *khatav1.NewTransfer) *khatav1.NewTransfer {
	x.GetCapture().KeepOpen = true
	return x
}

func voids(id, of string) *khatav1.NewTransfer {
	return &khatav1.NewTransfer{TransferId: id, Kind: &khatav1.NewTransfer_Void{Void: &khatav1.Void{Hold: of}}}
}

// refund is for everything if amount is "".
func refund(id, of, amount, expected string) *khatav1.NewTransfer {
	return &khatav1.NewTransfer{TransferId: id, Kind: &khatav1.NewTransfer_Refund{Refund: &khatav1.Refund{
		Original: of, Amount: amount, Everything: amount == "", ExpectedRefunded: expected,
		Reason: khatav1.RefundReason_REFUND_REASON_GOODS_NOT_RECEIVED,
	}}}
}

func reverse(id, of string) *khatav1.NewTransfer {
	return &khatav1.NewTransfer{TransferId: id, Kind: &khatav1.NewTransfer_Reversal{Reversal: &khatav1.Reversal{Original: of}}}
}

// record gets a record and its progress.
func (b *bench) record(t testing.TB, id string) *khatav1.GetTransferResponse {
	t.Helper()
	resp, err := b.GetTransfer(t.Context(), &khatav1.GetTransferRequest{TransferId: id})
	if err != nil {
		t.Fatalf("get %s: %v", id, err)
	}
	return resp
}

// funds describes a balance as "posted/held/available/incoming".
func (b *bench) funds(t testing.TB, account string) string {
	t.Helper()
	resp, err := b.GetBalance(t.Context(), &khatav1.GetBalanceRequest{Account: account})
	if err != nil {
		t.Fatal(err)
	}
	f := resp.GetBalance()
	return strings.Join([]string{f.GetPosted(), f.GetHeld(), f.GetAvailable(), f.GetIncoming()}, "/")
}

// progress describes what has become of a transfer, with its steps.
func (b *bench) progress(t testing.TB, id string) string {
	t.Helper()
	p := b.record(t, id).GetProgress()
	if p == nil {
		return "none"
	}
	var words []string
	if p.GetHold() != 0 {
		words = append(words, strings.TrimPrefix(p.GetHold().String(), "HOLD_STATE_"), p.GetCaptured(), p.GetReleased(), p.GetReserved())
	}
	if p.GetRefundable() != "" {
		words = append(words, p.GetRefunded(), p.GetRefundable())
	}
	if p.GetReversed() {
		words = append(words, "reversed")
	}
	return strings.Join(append(words, p.GetSteps()...), " ")
}

// legs describes entries.
func legs(list []*khatav1.Entry) string {
	return strings.Join(each(list, func(e *khatav1.Entry) string {
		return strings.ToLower(strings.TrimPrefix(e.GetDirection().String(), "DIRECTION_")) + " " + e.GetAccount() + " " + e.GetAmount()
	}), ", ")
}

func holdBench(t *testing.T) *bench {
	t.Helper()
	b := setup(t)
	b.accounts(t, "cash BDT", floored("wallet:a BDT", "0"), floored("wallet:b BDT", "0"), "shop BDT", "fees BDT")
	b.post(t, move("top", "cash", "wallet:a", "500.00"))
	t.Cleanup(func() {
		if !t.Failed() {
			ledgertest.CheckBooks(t, b.db)
		}
	})
	return b
}

// A hold from its making to its end, each request twice, and what is said of it on the way.
func TestHold_CapturedInParts(t *testing.T) {
	t.Parallel()
	b := holdBench(t)
	for _, c := range []struct {
		transfer                        *khatav1.NewTransfer
		want, entries, funds, shopFunds string
		progress                        string
	}{
		{hold(move("H", "wallet:a", "shop", "300.00"), &khatav1.Hold{ExpiresAfter: durationpb.New(time.Hour)}),
			"posted", "", "500.00/300.00/200.00/0.00", "0.00/0.00/0.00/300.00", "OPEN 0.00 0.00 300.00"},
		{move("too much", "wallet:a", "cash", "200.01"),
			"", "", "500.00/300.00/200.00/0.00", "0.00/0.00/0.00/300.00", "OPEN 0.00 0.00 300.00"},
		{move("too-much", "wallet:a", "cash", "200.01"),
			"refused INSUFFICIENT_FUNDS wallet:a", "", "500.00/300.00/200.00/0.00", "0.00/0.00/0.00/300.00", "OPEN 0.00 0.00 300.00"},
		{keepOpen(capture("C-1", "H", "100.00")), "posted", "debit wallet:a 100.00, credit shop 100.00",
			"400.00/200.00/200.00/0.00", "100.00/0.00/100.00/200.00", "OPEN 100.00 0.00 200.00 C-1"},
		{capture("C-2", "H", "200.01"), "refused CAPTURE_EXCEEDS_HOLD ", "",
			"400.00/200.00/200.00/0.00", "100.00/0.00/100.00/200.00", "OPEN 100.00 0.00 200.00 C-1"},
		{capture("C-3", "H", "50"), "posted", "debit wallet:a 50.00, credit shop 50.00",
			"350.00/0.00/350.00/0.00", "150.00/0.00/150.00/0.00", "CAPTURED 150.00 150.00 0.00 C-1 C-3"},
		{voids("V", "H"), "refused HOLD_ENDED ", "",
			"350.00/0.00/350.00/0.00", "150.00/0.00/150.00/0.00", "CAPTURED 150.00 150.00 0.00 C-1 C-3"},
	} {
		id := c.transfer.GetTransferId()
		if c.want == "" {
			if _, err := b.try(t, c.transfer); fault(err) != invalid("transfer_id") {
				t.Errorf("%s: %s", id, fault(err))
			}
			continue
		}
		for _, before := range []string{"", "replayed "} {
			r := b.post(t, c.transfer)
			if got := outcome(r); got != before+c.want || legs(r.GetEntries()) != c.entries {
				t.Errorf("%s: %s, entries %q; want %s, %q", id, got, legs(r.GetEntries()), c.want, c.entries)
			}
			if (r.GetDeadline() != nil) != (id == "H") || r.GetDeadline() != nil && r.GetDeadline().AsTime() != r.GetPostedAt().AsTime().Add(time.Hour) {
				t.Errorf("%s: deadline %s, posted at %s", id, r.GetDeadline().AsTime(), r.GetPostedAt().AsTime())
			}
			if got := b.funds(t, "wallet:a"); got != c.funds {
				t.Errorf("%s: wallet:a has %s, want %s", id, got, c.funds)
			}
			if got := b.funds(t, "shop"); got != c.shopFunds {
				t.Errorf("%s: shop has %s, want %s", id, got, c.shopFunds)
			}
			if got := b.progress(t, "H"); got != c.progress {
				t.Errorf("%s: progress %s, want %s", id, got, c.progress)
			}
		}
	}
	ignored := protocmp.IgnoreFields(&khatav1.Transfer{}, "sequence", "posted_at", "deadline")
	pair := func(amount string) []*khatav1.Entry {
		list := []*khatav1.Entry{debit("wallet:a", amount), credit("shop", amount)}
		list[0].Currency, list[1].Currency = "BDT", "BDT"
		return list
	}
	posted, refused := khatav1.Outcome_OUTCOME_POSTED, khatav1.Outcome_OUTCOME_REFUSED
	for _, want := range []*khatav1.Transfer{
		{TransferId: "H", Outcome: posted, Entries: pair("300.00"), Kind: &khatav1.Transfer_Hold{Hold: &khatav1.Hold{ExpiresAfter: durationpb.New(time.Hour)}}},
		{TransferId: "C-1", Outcome: posted, Entries: pair("100.00"), Ordinal: 1, Released: "100.00",
			Kind: &khatav1.Transfer_Capture{Capture: &khatav1.Capture{Hold: "H", Amount: "100.00", KeepOpen: true}}},
		{TransferId: "C-2", Outcome: refused, Reason: "CAPTURE_EXCEEDS_HOLD", Entries: pair("200.01"),
			Kind: &khatav1.Transfer_Capture{Capture: &khatav1.Capture{Hold: "H", Amount: "200.01"}}},
		{TransferId: "C-3", Outcome: posted, Entries: pair("50.00"), Ordinal: 2, Released: "200.00", Ends: true,
			Kind: &khatav1.Transfer_Capture{Capture: &khatav1.Capture{Hold: "H", Amount: "50.00"}}},
		{TransferId: "V", Outcome: refused, Reason: "HOLD_ENDED", Entries: pair("300.00"), Kind: &khatav1.Transfer_Void{Void: &khatav1.Void{Hold: "H"}}},
	} {
		want.Ledger, want.Caller = "main", "local"
		if diff := cmp.Diff(want, b.record(t, want.GetTransferId()).GetTransfer(), protocmp.Transform(), ignored); diff != "" {
			t.Errorf("record of %s (-want +got):\n%s", want.GetTransferId(), diff)
		}
	}
	for id, want := range map[string]string{"C-1": "0.00 100.00", "C-2": "none", "V": "none", "too-much": "none", "top": "0.00 500.00"} {
		if got := b.progress(t, id); got != want {
			t.Errorf("progress of %s: %s, want %s", id, got, want)
		}
	}
}

func TestHold_VoidedAndExpired(t *testing.T) {
	t.Parallel()
	b := holdBench(t)
	b.post(t, hold(move("V-H", "wallet:a", "shop", "10.00"), &khatav1.Hold{}))
	if r := b.post(t, voids("V", "V-H")); outcome(r) != "posted" || legs(r.GetEntries()) != "debit wallet:a 10.00, credit shop 10.00" {
		t.Errorf("void: %s %s", outcome(r), legs(r.GetEntries()))
	}
	if got := b.progress(t, "V-H"); got != "VOIDED 0.00 10.00 0.00 V" {
		t.Errorf("after the void: %s", got)
	}
	if v := b.record(t, "V"); v.GetTransfer().GetReleased() != "10.00" || !v.GetTransfer().GetEnds() || v.GetProgress() != nil {
		t.Errorf("the void: %v", v)
	}

	at := time.Now().Add(1500 * time.Millisecond).Truncate(time.Microsecond)
	b.post(t, hold(move("E-H", "wallet:a", "shop", "20.00"), &khatav1.Hold{ExpiresAt: timestamppb.New(at)}))
	if got := b.record(t, "E-H").GetTransfer(); !got.GetDeadline().AsTime().Equal(at) || !got.GetHold().GetExpiresAt().AsTime().Equal(at) {
		t.Errorf("the deadline is %s and %s, want %s", got.GetDeadline().AsTime(), got.GetHold().GetExpiresAt().AsTime(), at)
	}
	if !within(10*time.Second, func() bool { return strings.HasPrefix(b.progress(t, "E-H"), "EXPIRED 0.00 20.00 0.00 khata:expiry") }) {
		t.Fatalf("not expired: %s", b.progress(t, "E-H"))
	}
	id := b.record(t, "E-H").GetProgress().GetSteps()[0]
	if e := b.record(t, id); e.GetTransfer().GetExpiry().GetHold() != "E-H" || e.GetTransfer().GetReleased() != "20.00" || e.GetProgress() != nil {
		t.Errorf("the expiry: %v", e)
	}
	if got := outcome(b.post(t, capture("late", "E-H", ""))); got != "refused HOLD_ENDED " {
		t.Errorf("a late capture: %s", got)
	}
	if got := b.funds(t, "wallet:a"); got != "500.00/0.00/500.00/0.00" {
		t.Errorf("wallet:a has %s", got)
	}
}

func TestRefundAndReversal(t *testing.T) {
	t.Parallel()
	b := holdBench(t)
	b.post(t, entries("P", debit("wallet:a", "100.00"), credit("shop", "97.00"), credit("fees", "3.00")))
	for _, c := range []struct {
		transfer            *khatav1.NewTransfer
		want, legs, remains string
	}{
		{refund("R-1", "P", "10.00", "0"), "posted", "debit fees 0.30, debit shop 9.70, credit wallet:a 10.00", "10.00 90.00 R-1"},
		{refund("R-2", "P", "10.00", "0"), "refused REFUNDED_CHANGED ", "", "10.00 90.00 R-1"},
		{refund("R-3", "P", "90.01", "10.00"), "refused REFUND_EXCEEDS_REST ", "", "10.00 90.00 R-1"},
		{reverse("X-1", "P"), "refused ALREADY_REFUNDED ", "", "10.00 90.00 R-1"},
		{refund("R-4", "P", "", "10"), "posted", "debit fees 2.70, debit shop 87.30, credit wallet:a 90.00", "100.00 0.00 R-1 R-4"},
		{refund("R-5", "P", "", "100"), "refused REFUND_EXCEEDS_REST ", "", "100.00 0.00 R-1 R-4"},
	} {
		r := b.post(t, c.transfer)
		if outcome(r) != c.want || legs(r.GetEntries()) != c.legs {
			t.Errorf("%s: %s %q, want %s %q", c.transfer.GetTransferId(), outcome(r), legs(r.GetEntries()), c.want, c.legs)
		}
		if got := b.progress(t, "P"); got != c.remains {
			t.Errorf("after %s: %s, want %s", c.transfer.GetTransferId(), got, c.remains)
		}
		if got := b.progress(t, c.transfer.GetTransferId()); got != "none" {
			t.Errorf("progress of %s: %s", c.transfer.GetTransferId(), got)
		}
	}
	if got := b.record(t, "R-4").GetTransfer(); got.GetRefund().GetExpectedRefunded() != "10.00" || !got.GetRefund().GetEverything() || got.GetOrdinal() != 2 ||
		got.GetReleased() != "" || got.GetRefund().GetReason() != khatav1.RefundReason_REFUND_REASON_GOODS_NOT_RECEIVED {
		t.Errorf("the record of a refund: %v", got)
	}

	if got := outcome(b.post(t, reverse("X-2", "top"))); got != "posted" {
		t.Errorf("reversal: %s", got)
	}
	if got := b.progress(t, "top"); got != "500.00 0.00 reversed X-2" {
		t.Errorf("after the reversal: %s", got)
	}
	if got := outcome(b.post(t, reverse("X-3", "top"))); got != "refused ALREADY_REVERSED " {
		t.Errorf("again: %s", got)
	}
	for _, c := range []struct {
		transfer *khatav1.NewTransfer
		want     string
	}{
		{reverse("W-1", "X-2"), "InvalidArgument WRONG_ORIGIN reversal.original"},
		{refund("W-2", "R-1", "1", "0"), "InvalidArgument WRONG_ORIGIN refund.original"},
		{capture("W-3", "P", ""), "InvalidArgument WRONG_ORIGIN capture.hold"},
		{voids("W-4", "nothing"), "NotFound TRANSFER_NOT_FOUND void.hold"},
	} {
		if _, err := b.try(t, c.transfer); fault(err) != c.want {
			t.Errorf("%s: got %s, want %s", c.transfer.GetTransferId(), fault(err), c.want)
		}
	}
}

// What is malformed in the terms of a transfer decides nothing, and is said of the right field.
func TestTerms_BadInput(t *testing.T) {
	t.Parallel()
	b := holdBench(t)
	b.post(t, hold(move("H", "wallet:a", "shop", "5.00"), &khatav1.Hold{}))
	pay := func(change func(*khatav1.NewTransfer)) *khatav1.NewTransfer {
		return changed(move("x", "wallet:a", "shop", "5.00"), change)
	}
	conditions := func(list ...*khatav1.Condition) *khatav1.NewTransfer {
		return pay(func(x *khatav1.NewTransfer) { x.Conditions = list })
	}
	holds := func(h *khatav1.Hold) *khatav1.NewTransfer { return hold(move("x", "wallet:a", "shop", "5.00"), h) }
	for name, c := range map[string]struct {
		transfer *khatav1.NewTransfer
		want     string
	}{
		"capture of nothing":    {&khatav1.NewTransfer{TransferId: "x", Kind: &khatav1.NewTransfer_Capture{}}, invalid("capture.amount")},
		"capture without hold":  {capture("x", "", ""), invalid("capture.hold")},
		"capture of both":       {changed(capture("x", "H", "1"), func(x *khatav1.NewTransfer) { x.GetCapture().Everything = true }), invalid("capture.amount")},
		"capture of neither":    {changed(capture("x", "H", ""), func(x *khatav1.NewTransfer) { x.GetCapture().Everything = false }), invalid("capture.amount")},
		"capture of -1":         {capture("x", "H", "-1"), invalid("capture.amount")},
		"capture of 0":          {capture("x", "H", "0"), invalid("capture.amount")},
		"capture of 0.001":      {capture("x", "H", "0.001"), "InvalidArgument AMOUNT_SCALE capture.amount"},
		"capture of itself":     {capture("x", "x", ""), invalid("capture.hold")},
		"capture with entries":  {changed(capture("x", "H", ""), entriesAre(debit("wallet:a", "5"), credit("shop", "5"))), invalid("entries")},
		"capture with accounts": {changed(capture("x", "H", ""), func(x *khatav1.NewTransfer) { x.DebitAccount = "wallet:a" }), invalid("debit_account")},
		"capture, credit":       {changed(capture("x", "H", ""), func(x *khatav1.NewTransfer) { x.CreditAccount = "shop" }), invalid("credit_account")},
		"capture with amount":   {changed(capture("x", "H", ""), func(x *khatav1.NewTransfer) { x.Amount = "5" }), invalid("amount")},
		"capture with currency": {changed(capture("x", "H", ""), func(x *khatav1.NewTransfer) { x.Currency = "BDT" }), invalid("currency")},
		"capture, balancing":    {changed(capture("x", "H", ""), func(x *khatav1.NewTransfer) { x.Balancing = true }), invalid("balancing")},
		"capture on condition": {changed(capture("x", "H", ""), func(x *khatav1.NewTransfer) {
			x.Conditions = []*khatav1.Condition{{Account: "wallet:a", Version: proto.Int64(1)}}
		}), invalid("conditions")},
		"void of nothing":        {&khatav1.NewTransfer{TransferId: "x", Kind: &khatav1.NewTransfer_Void{}}, invalid("void.hold")},
		"void with a value date": {changed(voids("x", "H"), effectiveIs(&timestamppb.Timestamp{Seconds: 1})), invalid("effective_at")},
		"reversal of nothing":    {&khatav1.NewTransfer{TransferId: "x", Kind: &khatav1.NewTransfer_Reversal{}}, invalid("reversal.original")},

		"refund of nothing":            {&khatav1.NewTransfer{TransferId: "x", Kind: &khatav1.NewTransfer_Refund{}}, invalid("refund.amount")},
		"refund of both":               {changed(refund("x", "top", "1", "0"), func(x *khatav1.NewTransfer) { x.GetRefund().Everything = true }), invalid("refund.amount")},
		"refund of neither":            {changed(refund("x", "top", "", "0"), func(x *khatav1.NewTransfer) { x.GetRefund().Everything = false }), invalid("refund.amount")},
		"refund that expects nothing":  {refund("x", "top", "1", ""), invalid("refund.expected_refunded")},
		"refund that expects -1":       {refund("x", "top", "1", "-1"), invalid("refund.expected_refunded")},
		"refund that expects x":        {refund("x", "top", "1", "x"), invalid("refund.expected_refunded")},
		"refund without a reason":      {changed(refund("x", "top", "1", "0"), func(x *khatav1.NewTransfer) { x.GetRefund().Reason = 0 }), invalid("refund.reason")},
		"refund with a reason unknown": {changed(refund("x", "top", "1", "0"), func(x *khatav1.NewTransfer) { x.GetRefund().Reason = 99 }), invalid("refund.reason")},
		"refund for another reason": {changed(refund("x", "top", "1", "0"), func(x *khatav1.NewTransfer) {
			x.GetRefund().Reason = khatav1.RefundReason_REFUND_REASON_OTHER
		}), invalid("description")},

		"hold with two deadlines": {holds(&khatav1.Hold{ExpiresAt: timestamppb.Now(), ExpiresAfter: durationpb.New(time.Hour)}), invalid("hold.expires_after")},
		"hold of no time":         {holds(&khatav1.Hold{ExpiresAfter: durationpb.New(0)}), invalid("hold.expires_after")},
		"hold of less than 1 s":   {holds(&khatav1.Hold{ExpiresAfter: durationpb.New(time.Second - time.Microsecond)}), invalid("hold.expires_after")},
		"hold backwards":          {holds(&khatav1.Hold{ExpiresAfter: durationpb.New(-time.Hour)}), invalid("hold.expires_after")},
		"hold for ages":           {holds(&khatav1.Hold{ExpiresAfter: &durationpb.Duration{Seconds: 315_576_000_000}}), invalid("hold.expires_after")},
		"hold of no duration":     {holds(&khatav1.Hold{ExpiresAfter: &durationpb.Duration{Seconds: 1, Nanos: -1}}), invalid("hold.expires_after")},
		"hold of nanoseconds":     {holds(&khatav1.Hold{ExpiresAfter: durationpb.New(time.Second + 1)}), invalid("hold.expires_after")},
		"hold until no time":      {holds(&khatav1.Hold{ExpiresAt: &timestamppb.Timestamp{Nanos: -1}}), invalid("hold.expires_at")},
		"hold of three entries":   {hold(entries("x", debit("wallet:a", "3"), credit("shop", "2"), credit("fees", "1")), &khatav1.Hold{}), invalid("entries")},
		"hold of nothing":         {hold(&khatav1.NewTransfer{TransferId: "x"}, &khatav1.Hold{}), invalid("amount")},
		"hold, balancing":         {changed(holds(&khatav1.Hold{}), func(x *khatav1.NewTransfer) { x.Balancing = true }), invalid("balancing")},
		"hold with a value date":  {changed(holds(&khatav1.Hold{}), effectiveIs(&timestamppb.Timestamp{Seconds: 1})), invalid("effective_at")},

		"condition of nothing":  {conditions(&khatav1.Condition{Account: "wallet:a"}), invalid("conditions[0].balance")},
		"condition of no one":   {conditions(&khatav1.Condition{Version: proto.Int64(1)}), invalid("conditions[0].account")},
		"condition of another":  {conditions(&khatav1.Condition{Account: "wallet:b", Version: proto.Int64(1)}), invalid("conditions[0].account")},
		"condition twice":       {conditions(&khatav1.Condition{Account: "wallet:a", Version: proto.Int64(1)}, &khatav1.Condition{Account: "wallet:a", Version: proto.Int64(1)}), invalid("conditions[1].account")},
		"condition of version":  {conditions(&khatav1.Condition{Account: "wallet:a", Version: proto.Int64(-1)}), invalid("conditions[0].version")},
		"condition of words":    {conditions(&khatav1.Condition{Account: "wallet:a", Balance: proto.String("much")}), invalid("conditions[0].balance")},
		"condition of ''":       {conditions(&khatav1.Condition{Account: "wallet:a", Balance: proto.String("")}), invalid("conditions[0].balance")},
		"condition too fine":    {conditions(&khatav1.Condition{Account: "wallet:a", Balance: proto.String("0.001")}), "InvalidArgument AMOUNT_SCALE conditions[0].balance"},
		"condition unsupported": {conditions(&khatav1.Condition{Account: "shop", Version: proto.Int64(1)}), "FailedPrecondition NOT_SERIALISED conditions[0].account"},
		"balancing three": {changed(entries("x", debit("wallet:a", "3"), credit("shop", "2"), credit("fees", "1")),
			func(x *khatav1.NewTransfer) { x.Balancing = true }), invalid("entries")},
	} {
		if _, err := b.try(t, c.transfer); fault(err) != c.want {
			t.Errorf("%s: got %s, want %s", name, fault(err), c.want)
		}
	}
	if _, err := b.GetTransfer(t.Context(), &khatav1.GetTransferRequest{TransferId: "x"}); fault(err) != "NotFound TRANSFER_NOT_FOUND" {
		t.Errorf("something was decided: %s", fault(err))
	}
	// The terms are content, as all else is.
	for name, c := range map[string]struct {
		transfer *khatav1.NewTransfer
		want     string
	}{
		"a plain transfer": {move("H", "wallet:a", "shop", "5.00"), "AlreadyExists ALREADY_EXISTS kind"},
		"another deadline": {hold(move("H", "wallet:a", "shop", "5.00"), &khatav1.Hold{ExpiresAfter: durationpb.New(time.Hour)}), "AlreadyExists ALREADY_EXISTS hold.expires_after"},
		"a hold":           {hold(move("top", "cash", "wallet:a", "500.00"), &khatav1.Hold{}), "AlreadyExists ALREADY_EXISTS kind"},
	} {
		if _, err := b.try(t, c.transfer); fault(err) != c.want {
			t.Errorf("%s under a taken id: got %s, want %s", name, fault(err), c.want)
		}
	}
}

func TestConditionsBalancingAndCeilings(t *testing.T) {
	t.Parallel()
	b := holdBench(t)
	version := b.record(t, "top").GetTransfer().GetSequence()
	given := func(id string, c *khatav1.Condition) *khatav1.NewTransfer {
		return changed(move(id, "wallet:a", "shop", "100.00"), func(x *khatav1.NewTransfer) { x.Conditions = []*khatav1.Condition{c} })
	}
	for _, c := range []struct {
		transfer *khatav1.NewTransfer
		want     string
	}{
		{given("C-1", &khatav1.Condition{Account: "wallet:a", Balance: proto.String("499.99")}), "refused CONDITION_FAILED wallet:a"},
		{given("C-2", &khatav1.Condition{Account: "wallet:a", Balance: proto.String("500"), Version: &version}), "posted"},
		{given("C-3", &khatav1.Condition{Account: "wallet:a", Version: &version}), "refused CONDITION_FAILED wallet:a"},
	} {
		if got := outcome(b.post(t, c.transfer)); got != c.want {
			t.Errorf("%s: %s, want %s", c.transfer.GetTransferId(), got, c.want)
		}
	}
	if _, err := b.try(t, balancing(move("B-0", "shop", "fees", "5"))); !strings.HasPrefix(fault(err), "FailedPrecondition NOT_SERIALISED ") {
		t.Errorf("balancing an account that is not serialised: %s", fault(err))
	}
	want := []*khatav1.Condition{{Account: "wallet:a", Balance: proto.String("500.00"), Version: &version}}
	if diff := cmp.Diff(want, b.record(t, "C-2").GetTransfer().GetConditions(), protocmp.Transform()); diff != "" {
		t.Errorf("the conditions of the record (-want +got):\n%s", diff)
	}

	sweep := balancing(move("B-1", "wallet:a", "shop", "1000"))
	for range 2 {
		if r := b.post(t, sweep); r.GetOutcome() != khatav1.Outcome_OUTCOME_POSTED || legs(r.GetEntries()) != "debit wallet:a 400.00, credit shop 400.00" {
			t.Errorf("balancing: %s %s", outcome(r), legs(r.GetEntries()))
		}
	}
	if got := b.record(t, "B-1").GetTransfer(); got.GetBalancingAmount() != "1000.00" || legs(got.GetEntries()) != "debit wallet:a 400.00, credit shop 400.00" {
		t.Errorf("the record: %v", got)
	}

	ctx := t.Context()
	limited := account("wallet:c BDT")
	limited.Ceiling = proto.String("50")
	b.accounts(t, limited)
	a, err := b.GetAccount(ctx, &khatav1.GetAccountRequest{Account: "wallet:c"})
	if err != nil || a.GetAccount().GetCeiling() != "50.00" || !a.GetAccount().GetSerialised() || a.GetAccount().Floor != nil {
		t.Errorf("an account with a ceiling: %v %v", a, err)
	}
	if got := outcome(b.post(t, move("L-1", "cash", "wallet:c", "50.01"))); got != "refused CEILING_EXCEEDED wallet:c" {
		t.Errorf("above the ceiling: %s", got)
	}
	for _, c := range []struct {
		update *khatav1.UpdateAccountRequest
		want   string
	}{
		{&khatav1.UpdateAccountRequest{Ceiling: proto.String("60.00")}, "OK"},
		{&khatav1.UpdateAccountRequest{Ceiling: proto.String("60.001")}, "InvalidArgument AMOUNT_SCALE ceiling"},
		{&khatav1.UpdateAccountRequest{Ceiling: proto.String("x")}, invalid("ceiling")},
	} {
		c.update.Account = "wallet:c"
		if _, err := b.UpdateAccount(ctx, c.update); fault(err) != c.want {
			t.Errorf("%v: %s, want %s", c.update, fault(err), c.want)
		}
	}
	u, err := b.UpdateAccount(ctx, &khatav1.UpdateAccountRequest{Account: "wallet:c", Ceiling: proto.String("")})
	if err != nil || u.GetAccount().Ceiling != nil {
		t.Errorf("without a ceiling: %v %v", u, err)
	}
}

func TestPostTransfers_Atomic(t *testing.T) {
	t.Parallel()
	b := holdBench(t)
	atomically := func(transfers ...*khatav1.NewTransfer) string {
		resp, err := b.PostTransfers(t.Context(), &khatav1.PostTransfersRequest{Transfers: transfers, Atomic: true})
		if err != nil {
			return fault(err)
		}
		return strings.Join(each(resp.GetResults(), outcomeOrFault), ", ")
	}
	refusedBy := func(i int) string { return fmt.Sprintf("FailedPrecondition ATOMIC_CALL_REFUSED transfers[%d]", i) }
	for _, c := range []struct {
		name      string
		transfers []*khatav1.NewTransfer
		want      string
	}{
		{"all good", []*khatav1.NewTransfer{move("A-1", "cash", "wallet:b", "10"), move("A-2", "wallet:b", "shop", "10")}, "posted, posted"},
		{"again", []*khatav1.NewTransfer{move("A-1", "cash", "wallet:b", "10"), move("A-2", "wallet:b", "shop", "10")}, "replayed posted, replayed posted"},
		{"one refused", []*khatav1.NewTransfer{move("A-3", "cash", "wallet:b", "10"), move("A-4", "wallet:b", "shop", "10.01"), move("A-5", "cash", "wallet:b", "10")},
			refusedBy(1) + ", refused INSUFFICIENT_FUNDS wallet:b, " + refusedBy(1)},
		{"one malformed", []*khatav1.NewTransfer{move("A-6", "cash", "wallet:b", "10"), move("A-7", "cash", "cash", "10")},
			refusedBy(1) + ", " + invalid("credit_account")},
		{"two cannot be decoded", []*khatav1.NewTransfer{move("A-6", "cash", "wallet:b", "10"), move("A-7", "cash", "shop", "x"), move("A-8", "cash", "shop", "1"), move("a b", "cash", "shop", "1")},
			refusedBy(1) + ", " + invalid("amount") + ", " + refusedBy(1) + ", " + invalid("transfer_id")},
		{"nothing", nil, ""},
		{"too many", func() []*khatav1.NewTransfer {
			list := make([]*khatav1.NewTransfer, 1001)
			for i := range list {
				list[i] = move(fmt.Sprintf("A-%d", 10+i), "cash", "shop", "1")
			}
			return list
		}(), invalid("transfers")},
	} {
		if got := atomically(c.transfers...); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if got := b.record(t, "A-4").GetTransfer(); !got.GetAtomic() {
		t.Errorf("the culprit: %v", got)
	}
	if got := b.funds(t, "wallet:b"); got != "0.00/0.00/0.00/0.00" {
		t.Errorf("wallet:b has %s", got)
	}
	for _, id := range []string{"A-3", "A-5", "A-6", "A-7", "A-8", "A-10"} {
		if _, err := b.GetTransfer(t.Context(), &khatav1.GetTransferRequest{TransferId: id}); fault(err) != "NotFound TRANSFER_NOT_FOUND" {
			t.Errorf("%s: %s", id, fault(err))
		}
	}
	for _, bad := range []string{"1", "x"} { // Whether or not it can be decoded.
		_, err := b.PostTransfers(t.Context(), &khatav1.PostTransfersRequest{Ledger: "nowhere", Atomic: true, Transfers: []*khatav1.NewTransfer{move("A", "cash", "shop", bad)}})
		if fault(err) != "NotFound LEDGER_NOT_FOUND" {
			t.Errorf("in no ledger: %s", fault(err))
		}
	}
}

func TestListHolds_EachExactlyOnce(t *testing.T) {
	t.Parallel()
	b := holdBench(t)
	var want []string
	for i := range 25 {
		id := fmt.Sprintf("H-%02d", i)
		b.post(t, hold(move(id, "wallet:a", "shop", "1.00"), &khatav1.Hold{}))
		if i%5 == 0 {
			b.post(t, voids("V"+id, id))
			continue
		}
		want = append(want, id)
	}
	b.post(t, keepOpen(capture("C", "H-01", "0.25")))
	list := func(account string, size int32) []*khatav1.OpenHold {
		return all(t, func(token string) ([]*khatav1.OpenHold, string, error) {
			resp, err := b.ListHolds(t.Context(), &khatav1.ListHoldsRequest{Account: account, PageSize: size, PageToken: token})
			return resp.GetHolds(), resp.GetNextPageToken(), err
		})
	}
	for _, account := range []string{"wallet:a", "shop"} {
		for _, size := range []int32{1, 7, 20, 0} {
			holds := list(account, size)
			if got := each(holds, func(h *khatav1.OpenHold) string { return h.GetTransfer().GetTransferId() }); !cmp.Equal(got, want) {
				t.Errorf("%s in pages of %d: %v, want %v", account, size, got, want)
			}
		}
	}
	h := list("shop", 0)[0]
	if p := h.GetProgress(); p.GetHold() != khatav1.HoldState_HOLD_STATE_OPEN || p.GetCaptured() != "0.25" || p.GetReserved() != "0.75" {
		t.Errorf("the first has progress %v", p)
	}
	if diff := cmp.Diff(b.record(t, "H-01"), &khatav1.GetTransferResponse{Transfer: h.GetTransfer(), Progress: h.GetProgress()}, protocmp.Transform()); diff != "" {
		t.Errorf("listed and gotten differ:\n%s", diff)
	}
	if got := list("fees", 0); len(got) != 0 {
		t.Errorf("holds of fees: %v", got)
	}
	first, err := b.ListHolds(context.Background(), &khatav1.ListHoldsRequest{Account: "shop", PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		req  *khatav1.ListHoldsRequest
		want string
	}{
		{&khatav1.ListHoldsRequest{Account: "nobody"}, "NotFound ACCOUNT_NOT_FOUND"},
		{&khatav1.ListHoldsRequest{Account: "shop", Ledger: "nowhere"}, "NotFound LEDGER_NOT_FOUND"},
		{&khatav1.ListHoldsRequest{Account: "shop", PageSize: 1001}, invalid("page_size")},
		{&khatav1.ListHoldsRequest{Account: "shop", PageSize: -1}, invalid("page_size")},
		{&khatav1.ListHoldsRequest{Account: "shop", PageToken: "x"}, invalid("page_token")},
		{&khatav1.ListHoldsRequest{Account: "wallet:a", PageToken: first.GetNextPageToken()}, invalid("page_token")},
	} {
		if _, err := b.ListHolds(t.Context(), c.req); fault(err) != c.want {
			t.Errorf("%v: %s, want %s", c.req, fault(err), c.want)
		}
	}
}

// An answer that would be too large to be sent is told without what can be asked for again.
func TestShorten(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	answer := func(balances, entries int) *khatav1.PostTransfersResponse {
		out := &khatav1.PostTransfersResponse{}
		for range 2 {
			r := &khatav1.TransferResult{TransferId: "x", Outcome: khatav1.Outcome_OUTCOME_POSTED}
			for range balances {
				r.Balances = append(r.Balances, &khatav1.Balance{Account: long})
			}
			for range entries {
				r.Entries = append(r.Entries, debit(long, "1"))
			}
			out.Results = append(out.Results, &khatav1.PostTransfersResult{Kind: &khatav1.PostTransfersResult_Result{Result: r}})
		}
		// A pair says what a balancing transfer has moved, and stays.
		pair := &khatav1.TransferResult{Entries: []*khatav1.Entry{debit("a", "1"), credit("b", "1")}}
		out.Results = append(out.Results, &khatav1.PostTransfersResult{Kind: &khatav1.PostTransfersResult_Result{Result: pair}},
			&khatav1.PostTransfersResult{Kind: &khatav1.PostTransfersResult_Error{Error: status.New(codes.NotFound, "x").Proto()}})
		return out
	}
	for _, c := range []struct{ balances, entries, wantBalances, wantEntries int }{
		{3, 3, 3, 3}, {400, 3, 0, 3}, {3, 400, 0, 0}, {0, 400, 0, 0}, {200, 200, 0, 200},
	} {
		out := answer(c.balances, c.entries)
		grpcapi.Shorten(out)
		r := out.GetResults()[0].GetResult()
		if len(r.GetBalances()) != c.wantBalances || len(r.GetEntries()) != c.wantEntries || r.GetTransferId() != "x" ||
			len(out.GetResults()[2].GetResult().GetEntries()) != 2 || proto.Size(out) > grpcapi.MaxMessage {
			t.Errorf("%+v: %d balances, %d entries, %d bytes", c, len(r.GetBalances()), len(r.GetEntries()), proto.Size(out))
		}
	}
}
