package grpcapi_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// deskBench is a server with people at its support desk, and a payment of 500 from mina to the shop.
type deskBench struct {
	*guarded
	khatav1.SupportServiceClient
	rina, karim, laila, tithi, boss context.Context
	// everybody has all the roles that there are at the desk, in all ledgers.
	everybody context.Context
}

func atDesk(t *testing.T) *deskBench {
	t.Helper()
	g := guard(t, nil)
	d := &deskBench{
		guarded: g, SupportServiceClient: khatav1.NewSupportServiceClient(g.conn), rina: g.as(t, "rina", "main:support"), karim: g.as(t, "karim", "main:support"),
		laila: g.as(t, "laila", "main:approver"), tithi: g.as(t, "tithi", "main:finance"), boss: g.as(t, "boss", "main:admin"), everybody: g.as(t, "everybody", "*:support", "*:finance", "*:admin"),
	}
	payments := g.as(t, "payments", "main:poster")
	if _, err := g.CreateAccounts(payments, &khatav1.CreateAccountsRequest{
		Accounts: []*khatav1.NewAccount{account("wallet:mina BDT"), account("shop BDT"), floored("poor BDT", "0")},
	}); err != nil {
		t.Fatal(err)
	}
	for _, transfer := range []*khatav1.NewTransfer{
		move("T-1", "wallet:mina", "shop", "500"), move("T-2", "wallet:mina", "shop", "500"), move("T-3", "wallet:mina", "poor", "50"),
		move("T-3-spent", "poor", "shop", "50"),
	} {
		transfer.Metadata = `{"phone":"01711000000"}`
		if _, err := g.PostTransfer(payments, &khatav1.PostTransferRequest{Transfer: transfer}); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// ask asks for a refund with a key of its own.
func (d *deskBench) ask(t *testing.T, ctx context.Context, of, amount, expected string) *khatav1.RefundRequest { //nolint:revive // as the methods of clients
	t.Helper()
	resp, err := d.RequestRefund(ctx, d.request(of, amount, expected))
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetRequest()
}

func (d *deskBench) request(of, amount, expected string) *khatav1.RequestRefundRequest {
	return &khatav1.RequestRefundRequest{
		Key: fmt.Sprintf("key-of-%s-%s-%s-0123456789", of, amount, expected), TransferId: of, Amount: amount, ExpectedRefunded: expected,
		Reason: khatav1.RefundReason_REFUND_REASON_DUPLICATE, Note: "paid twice", Ticket: "T-4711",
	}
}

func TestSupport_Tour(t *testing.T) {
	t.Parallel()
	d := atDesk(t)
	form, err := d.GetRefundForm(d.rina, &khatav1.GetRefundFormRequest{TransferId: "T-2"})
	f := form.GetForm()
	if err != nil || len(f.GetKey()) < 16 || f.GetRefundable() != "500.00" || f.GetRefunded() != "0.00" || f.GetCurrency() != "BDT" || f.GetClosed() != "" ||
		f.GetLimit() != nil || f.GetAlone() != "0.00" || f.GetTransfer().GetTransferId() != "T-2" {
		t.Fatal(form, err)
	}
	in := d.request("T-2", f.GetRefundable(), f.GetRefunded())
	in.Key = f.GetKey()
	asked, err := d.RequestRefund(d.rina, in)
	r := asked.GetRequest()
	if err != nil || asked.GetReplayed() || r.GetState() != khatav1.RefundState_REFUND_STATE_WAITING || r.GetMaker() != "rina" ||
		r.GetApproval() != khatav1.RefundApproval_REFUND_APPROVAL_NO_LIMIT || len(r.GetSha256()) != 64 || r.GetReason() != in.GetReason() || r.GetTicket() != "T-4711" {
		t.Fatal(asked, err)
	}
	if again, err := d.RequestRefund(d.rina, in); err != nil || !again.GetReplayed() || again.GetRequest().GetNumber() != r.GetNumber() {
		t.Fatal(again, err)
	}
	other := proto.CloneOf(in)
	other.Amount = "499"
	if _, err := d.RequestRefund(d.rina, other); fault(err) != "AlreadyExists ALREADY_EXISTS amount" {
		t.Error(err)
	}

	review, err := d.GetReviewList(d.laila, &khatav1.GetReviewListRequest{})
	if err != nil || review.GetHeaps()[0].GetKind() != "waiting_refunds" || review.GetHeaps()[0].GetCount() != 1 || review.GetHeaps()[0].GetOldest() == nil ||
		review.GetHeaps()[0].GetTasks()[0].GetTransferId() != "T-2" || !strings.Contains(review.GetHeaps()[0].GetNext(), "khata support decide") {
		t.Error(review, err)
	}
	decide := &khatav1.DecideRefundRequest{Number: r.GetNumber(), Sha256: r.GetSha256(), Verdict: khatav1.RefundVerdict_REFUND_VERDICT_APPROVE}
	if _, err := d.DecideRefund(d.rina, decide); fault(err) != "PermissionDenied PERMISSION_DENIED" || !strings.Contains(err.Error(), "yours") {
		t.Error(err)
	}
	unseen := proto.CloneOf(decide)
	unseen.Sha256 = strings.Repeat("0", 64)
	if _, err := d.DecideRefund(d.laila, unseen); fault(err) != "InvalidArgument INVALID_ARGUMENT sha256" {
		t.Error(err)
	}
	for i := range 2 {
		decided, err := d.DecideRefund(d.laila, decide)
		got := decided.GetRequest()
		if err != nil || decided.GetReplayed() != (i == 1) || got.GetState() != khatav1.RefundState_REFUND_STATE_POSTED || got.GetDecision().GetDecidedBy() != "laila" ||
			got.GetDecision().GetVerdict() != decide.GetVerdict() || got.GetRefundTransferId() != "khata:refund:"+f.GetKey() || got.GetSettledAt() == nil {
			t.Error(decided, err)
		}
	}
	decide.Verdict = khatav1.RefundVerdict_REFUND_VERDICT_REJECT
	decide.Note = "too late"
	if _, err := d.DecideRefund(d.karim, decide); fault(err) != "AlreadyExists ALREADY_EXISTS" || !strings.Contains(err.Error(), "laila") {
		t.Error(err)
	}
	// Another form would have nothing to give back, and one from before is told so.
	if form, err := d.GetRefundForm(d.karim, &khatav1.GetRefundFormRequest{TransferId: "T-2"}); err != nil || form.GetForm().GetClosed() != "REFUND_EXCEEDS_REST" ||
		form.GetForm().GetClosedMessage() == "" || form.GetForm().GetRequests()[0].GetNumber() != r.GetNumber() {
		t.Error(form, err)
	}

	story, err := d.GetStory(d.karim, &khatav1.GetStoryRequest{TransferId: "T-2"})
	s := story.GetStory()
	if err != nil || s.GetTransfer().GetTransferId() != "T-2" || s.GetProgress().GetRefunded() != "500.00" || s.GetOrigin() != nil || len(s.GetMissing()) != 0 {
		t.Fatal(story, err)
	}
	var told []string
	for _, i := range s.GetItems() {
		told = append(told, i.GetSource()+" "+i.GetWho()+" "+i.GetWhat())
	}
	for _, want := range []string{
		"ledger payments 500.00 BDT was moved", "refund rina a refund of 500.00 BDT was asked for", "audit rina was not allowed to approve the refund",
		"refund laila the refund of 500.00 BDT was approved", "ledger rina 500.00 BDT was refunded", "audit karim opened the refund form, looked at this story",
	} {
		if !slices.ContainsFunc(told, func(text string) bool { return strings.HasPrefix(text, want) }) {
			t.Errorf("the story does not tell %q: %q", want, told)
		}
	}
	if back, err := d.GetStory(d.karim, &khatav1.GetStoryRequest{TransferId: r.GetMaker()}); status.Code(err) != codes.NotFound {
		t.Error(back, err)
	}
	// As a text message calls it, too; the answer has the id of the books.
	if back, err := d.GetStory(d.karim, &khatav1.GetStoryRequest{TransferId: "refund:" + f.GetKey()}); err != nil || back.GetStory().GetTransferId() != "khata:refund:"+f.GetKey() {
		t.Error(back, err)
	}
	if back, err := d.GetStory(d.karim, &khatav1.GetStoryRequest{TransferId: "khata:refund:" + f.GetKey()}); err != nil || back.GetStory().GetOrigin().GetTransferId() != "T-2" {
		t.Error(back, err)
	}

	// Who it was, and from where.
	events, err := d.ListAuditEvents(d.tithi, &khatav1.ListAuditEventsRequest{ObjectKind: "transfer", ObjectId: "T-2", Action: "refund.approve"})
	if err != nil || len(events.GetEvents()) != 2 || events.GetEvents()[0].GetActor() != "laila" || events.GetEvents()[0].GetAddress() != "127.0.0.1" ||
		events.GetEvents()[0].GetOutcome() != khatav1.AuditOutcome_AUDIT_OUTCOME_DONE || events.GetEvents()[0].GetDetail()["maker"] != "rina" ||
		events.GetEvents()[1].GetOutcome() != khatav1.AuditOutcome_AUDIT_OUTCOME_REFUSED {
		t.Error(events, err)
	}
	looked, err := d.ListAuditEvents(d.tithi, &khatav1.ListAuditEventsRequest{Actor: "tithi"})
	if err != nil || len(looked.GetEvents()) != 2 || looked.GetEvents()[0].GetOutcome() != khatav1.AuditOutcome_AUDIT_OUTCOME_READ {
		t.Error(looked, err)
	}
}

func TestSupport_LimitsAndStates(t *testing.T) {
	t.Parallel()
	d := atDesk(t)
	if list, err := d.ListRefundLimits(d.rina, &khatav1.ListRefundLimitsRequest{}); err != nil || len(list.GetLimits()) != 0 {
		t.Error(list, err)
	}
	for i, daily := range []string{"150", "150.00", "160"} {
		set, err := d.SetRefundLimit(d.boss, &khatav1.SetRefundLimitRequest{Currency: "BDT", Single: "100", Daily: daily, Reason: "agreed"})
		if want := int32(1 + i/2); err != nil || set.GetLimit().GetVersion() != want || set.GetLimit().GetSetBy() != "boss" || set.GetLimit().GetSingle() != "100.00" { //nolint:gosec // 0 to 2
			t.Error(set, err)
		}
	}
	if list, err := d.ListRefundLimits(d.rina, &khatav1.ListRefundLimitsRequest{Currency: "BDT"}); err != nil || len(list.GetLimits()) != 2 || list.GetLimits()[0].GetDaily() != "160.00" {
		t.Error(list, err)
	}
	for _, c := range []struct {
		of, amount, expected string
		state                khatav1.RefundState
		approval             khatav1.RefundApproval
	}{
		{"T-1", "100", "0", khatav1.RefundState_REFUND_STATE_POSTED, khatav1.RefundApproval_REFUND_APPROVAL_NONE},
		{"T-1", "61", "100", khatav1.RefundState_REFUND_STATE_WAITING, khatav1.RefundApproval_REFUND_APPROVAL_ABOVE_DAILY},
		{"T-1", "101", "100", khatav1.RefundState_REFUND_STATE_WAITING, khatav1.RefundApproval_REFUND_APPROVAL_ABOVE_SINGLE},
		{"T-3", "50", "0", khatav1.RefundState_REFUND_STATE_REFUSED, khatav1.RefundApproval_REFUND_APPROVAL_NONE},
	} {
		r := d.ask(t, d.rina, c.of, c.amount, c.expected)
		if r.GetState() != c.state || r.GetApproval() != c.approval || r.GetLimitVersion() != 2 {
			t.Errorf("%+v: %v", c, r)
		}
		if c.state == khatav1.RefundState_REFUND_STATE_REFUSED && (r.GetRefusal() != "INSUFFICIENT_FUNDS" || r.GetRefusalMessage() == "") {
			t.Error(r)
		}
	}
	form, err := d.GetRefundForm(d.rina, &khatav1.GetRefundFormRequest{TransferId: "T-1"})
	if err != nil || form.GetForm().GetLimit().GetVersion() != 2 || form.GetForm().GetAlone() != "100.00" || form.GetForm().GetRefunded() != "100.00" {
		t.Error(form, err)
	}
	// Two that wait: the maker takes one back, and somebody else rejects the other.
	waiting, err := d.ListRefundRequests(d.laila, &khatav1.ListRefundRequestsRequest{States: []khatav1.RefundState{khatav1.RefundState_REFUND_STATE_WAITING}})
	if err != nil || len(waiting.GetRequests()) != 2 {
		t.Fatal(waiting, err)
	}
	for i, c := range []struct {
		by      context.Context
		verdict khatav1.RefundVerdict
		want    khatav1.RefundState
	}{
		{d.rina, khatav1.RefundVerdict_REFUND_VERDICT_WITHDRAW, khatav1.RefundState_REFUND_STATE_WITHDRAWN},
		{d.laila, khatav1.RefundVerdict_REFUND_VERDICT_REJECT, khatav1.RefundState_REFUND_STATE_REJECTED},
	} {
		r := waiting.GetRequests()[i]
		decided, err := d.DecideRefund(c.by, &khatav1.DecideRefundRequest{Number: r.GetNumber(), Sha256: r.GetSha256(), Verdict: c.verdict, Note: "no"})
		if err != nil || decided.GetRequest().GetState() != c.want {
			t.Error(decided, err)
		}
		got, err := d.GetRefundRequest(d.karim, &khatav1.GetRefundRequestRequest{Number: r.GetNumber()})
		if err != nil || got.GetRequest().GetTransfer().GetTransferId() != "T-1" || got.GetRequest().GetProgress().GetRefundable() != "400.00" {
			t.Error(got, err)
		}
		if got.GetRequest().Transfer, got.GetRequest().Progress = nil, nil; !proto.Equal(got.GetRequest(), decided.GetRequest()) {
			t.Error(got, decided)
		}
	}
	// Pages, with a state that only the last ones are in.
	numbers := func(states ...khatav1.RefundState) (list []int64) {
		for token, calls := "", 0; ; calls++ {
			page, err := d.ListRefundRequests(d.laila, &khatav1.ListRefundRequestsRequest{PageSize: 1, PageToken: token, States: states})
			if err != nil || calls > 6 {
				t.Fatal(calls, err)
			}
			for _, r := range page.GetRequests() {
				list = append(list, r.GetNumber())
			}
			if token = page.GetNextPageToken(); token == "" {
				return list
			}
		}
	}
	everything := numbers()
	if posted := numbers(khatav1.RefundState_REFUND_STATE_POSTED); len(everything) != 4 || !slices.IsSortedFunc(everything, func(a, b int64) int { return int(b - a) }) ||
		len(posted) != 1 || posted[0] != everything[3] {
		t.Error(everything, posted)
	}
	if of, err := d.ListRefundRequests(d.laila, &khatav1.ListRefundRequestsRequest{TransferId: "T-3"}); err != nil || len(of.GetRequests()) != 1 {
		t.Error(of, err)
	}
}

func TestSupport_FindAndPages(t *testing.T) {
	t.Parallel()
	d := atDesk(t)
	ids := func(in *khatav1.FindTransfersRequest) (list []string) {
		for calls := 0; ; calls++ {
			found, err := d.FindTransfers(d.rina, in)
			if err != nil || calls > 10 {
				t.Fatal(calls, err)
			}
			for _, hit := range found.GetTransfers() {
				if len(hit.GetWhy()) == 0 {
					t.Errorf("%v: found for no reason", hit)
				}
				list = append(list, hit.GetTransfer().GetTransferId())
			}
			if in.PageToken = found.GetNextPageToken(); in.GetPageToken() == "" {
				return list
			}
			if found.GetLooked() == 0 || found.GetLookedBackTo() == nil {
				t.Errorf("%v goes on and has not looked", found)
			}
		}
	}
	now := time.Now()
	for name, c := range map[string]struct {
		in   *khatav1.FindTransfersRequest
		want string
	}{
		"an id":                     {&khatav1.FindTransfersRequest{Text: "T-2"}, "T-2"},
		"nothing":                   {&khatav1.FindTransfersRequest{Text: "T-9"}, ""},
		"an account":                {&khatav1.FindTransfersRequest{Account: "poor"}, "T-3-spent T-3"},
		"an account, page by page":  {&khatav1.FindTransfersRequest{Account: "wallet:mina", PageSize: 1}, "T-3 T-2 T-1"},
		"an amount":                 {&khatav1.FindTransfersRequest{Account: "wallet:mina", Amount: "500.0"}, "T-2 T-1"},
		"a phone number and a time": {&khatav1.FindTransfersRequest{Text: "01711000000", Since: timestamppb.New(now.Add(-time.Hour)), Until: timestamppb.New(now.Add(time.Hour)), PageSize: 2}, "T-3-spent T-3 T-2 T-1"},
		"another time":              {&khatav1.FindTransfersRequest{Account: "poor", Until: timestamppb.New(now.Add(-time.Hour))}, ""},
	} {
		if got := strings.Join(ids(c.in), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// All that was looked for is in the audit, page by page, and each of its pages is in it, too.
	seen := map[int64]bool{}
	in := &khatav1.ListAuditEventsRequest{Action: "transfer.find", Actor: "rina", PageSize: 3}
	for calls := 0; ; calls++ {
		page, err := d.ListAuditEvents(d.tithi, in)
		if err != nil || calls > 10 {
			t.Fatal(calls, err)
		}
		for _, e := range page.GetEvents() {
			if seen[e.GetNumber()] {
				t.Errorf("twice: %v", e)
			}
			seen[e.GetNumber()] = true
		}
		if in.PageToken = page.GetNextPageToken(); in.GetPageToken() == "" {
			break
		}
	}
	if len(seen) < 7 {
		t.Errorf("%d looks are written down", len(seen))
	}
}

func TestSupport_WrongRequests(t *testing.T) {
	t.Parallel()
	d := atDesk(t)
	long := strings.Repeat("x", 1001)
	first, err := d.ListAuditEvents(d.tithi, &khatav1.ListAuditEventsRequest{PageSize: 1}) // Which is itself what it lists.
	if err != nil || first.GetNextPageToken() == "" {
		t.Fatal(first, err)
	}
	refund := func(change func(*khatav1.RequestRefundRequest)) *khatav1.RequestRefundRequest {
		in := d.request("T-1", "5", "0")
		change(in)
		return in
	}
	hash := strings.Repeat("a", 64)
	since := timestamppb.New(time.Unix(1e9, 0))
	for _, c := range []struct {
		in   proto.Message
		want string
	}{
		{&khatav1.FindTransfersRequest{}, "INVALID_ARGUMENT text"},
		{&khatav1.FindTransfersRequest{Text: "\xff"}, "INVALID_ARGUMENT text"},
		{&khatav1.FindTransfersRequest{Text: long}, "INVALID_ARGUMENT text"},
		{&khatav1.FindTransfersRequest{User: "x"}, "INVALID_ARGUMENT user"},
		{&khatav1.FindTransfersRequest{Text: "x", User: "\x00"}, "INVALID_ARGUMENT user"},
		{&khatav1.FindTransfersRequest{Account: " "}, "INVALID_ARGUMENT account"},
		{&khatav1.FindTransfersRequest{Account: "nobody"}, "ACCOUNT_NOT_FOUND"},
		{&khatav1.FindTransfersRequest{Account: "shop", Amount: "5,0"}, "INVALID_ARGUMENT amount"},
		{&khatav1.FindTransfersRequest{Account: "shop", Amount: "-5"}, "INVALID_ARGUMENT amount"},
		{&khatav1.FindTransfersRequest{Account: "shop", Since: since, Until: since}, "INVALID_ARGUMENT until"},
		{&khatav1.FindTransfersRequest{Since: since, Until: timestamppb.Now()}, "INVALID_ARGUMENT since"},
		{&khatav1.FindTransfersRequest{Text: "x", Since: &timestamppb.Timestamp{Seconds: 1 << 60}}, "INVALID_ARGUMENT since"},
		{&khatav1.FindTransfersRequest{Text: "x", PageSize: 101}, "INVALID_ARGUMENT page_size"},
		{&khatav1.FindTransfersRequest{Text: "x", PageSize: -1}, "INVALID_ARGUMENT page_size"},
		{&khatav1.FindTransfersRequest{Text: "x", PageToken: "x"}, "INVALID_ARGUMENT page_token"},
		{&khatav1.FindTransfersRequest{Text: "x", PageToken: first.GetNextPageToken()}, "INVALID_ARGUMENT page_token"},
		{&khatav1.GetStoryRequest{}, "INVALID_ARGUMENT transfer_id"},
		{&khatav1.GetStoryRequest{TransferId: "\xff"}, "INVALID_ARGUMENT transfer_id"},
		{&khatav1.GetStoryRequest{TransferId: "none"}, "TRANSFER_NOT_FOUND"},
		{&khatav1.GetRefundFormRequest{}, "INVALID_ARGUMENT transfer_id"},
		{&khatav1.GetRefundFormRequest{TransferId: "none"}, "TRANSFER_NOT_FOUND"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.Key = "short" }), "INVALID_ARGUMENT key"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.TransferId = "" }), "INVALID_ARGUMENT transfer_id"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.TransferId = "none" }), "TRANSFER_NOT_FOUND"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.Amount = "" }), "INVALID_ARGUMENT amount"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.Amount = "0" }), "INVALID_ARGUMENT amount"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.Amount = "1e3" }), "INVALID_ARGUMENT amount"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.Amount = "0.001" }), "AMOUNT_SCALE amount"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.Amount = "501" }), "REFUND_EXCEEDS_REST"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.ExpectedRefunded = "" }), "INVALID_ARGUMENT expected_refunded"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.ExpectedRefunded = "-1" }), "INVALID_ARGUMENT expected_refunded"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.ExpectedRefunded = "1" }), "REFUNDED_CHANGED"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.Reason = 0 }), "INVALID_ARGUMENT reason"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.Reason = 99 }), "INVALID_ARGUMENT reason"},
		{refund(func(in *khatav1.RequestRefundRequest) {
			in.Reason, in.Note = khatav1.RefundReason_REFUND_REASON_OTHER, ""
		}), "INVALID_ARGUMENT note"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.Note = "\xff" }), "INVALID_ARGUMENT note"},
		{refund(func(in *khatav1.RequestRefundRequest) { in.Ticket = long }), "INVALID_ARGUMENT ticket"},
		{&khatav1.DecideRefundRequest{Number: 1, Sha256: hash}, "INVALID_ARGUMENT verdict"},
		{&khatav1.DecideRefundRequest{Number: 1, Sha256: hash, Verdict: 9}, "INVALID_ARGUMENT verdict"},
		{&khatav1.DecideRefundRequest{Number: 1, Verdict: 1}, "INVALID_ARGUMENT sha256"},
		{&khatav1.DecideRefundRequest{Number: 1, Sha256: hash, Verdict: 2}, "INVALID_ARGUMENT note"},
		{&khatav1.DecideRefundRequest{Number: 1, Sha256: hash, Verdict: 1, Note: long}, "INVALID_ARGUMENT note"},
		{&khatav1.DecideRefundRequest{Number: 1, Sha256: hash, Verdict: 1}, "TRANSFER_NOT_FOUND"},
		{&khatav1.GetRefundRequestRequest{}, "TRANSFER_NOT_FOUND"},
		{&khatav1.GetRefundRequestRequest{Number: -1}, "TRANSFER_NOT_FOUND"},
		{&khatav1.ListRefundRequestsRequest{PageSize: 201}, "INVALID_ARGUMENT page_size"},
		{&khatav1.ListRefundRequestsRequest{States: []khatav1.RefundState{0}}, "INVALID_ARGUMENT states"},
		{&khatav1.ListRefundRequestsRequest{States: []khatav1.RefundState{8}}, "INVALID_ARGUMENT states"},
		{&khatav1.ListRefundRequestsRequest{TransferId: "\x00"}, "INVALID_ARGUMENT transfer_id"},
		{&khatav1.ListRefundRequestsRequest{PageToken: first.GetNextPageToken()}, "INVALID_ARGUMENT page_token"},
		{&khatav1.SetRefundLimitRequest{Single: "1", Daily: "1", Reason: "x"}, "INVALID_ARGUMENT currency"},
		{&khatav1.SetRefundLimitRequest{Currency: "XYZ", Single: "1", Daily: "1", Reason: "x"}, "CURRENCY_NOT_FOUND"},
		{&khatav1.SetRefundLimitRequest{Currency: "BDT", Daily: "1", Reason: "x"}, "INVALID_ARGUMENT single"},
		{&khatav1.SetRefundLimitRequest{Currency: "BDT", Single: "1", Daily: "-1", Reason: "x"}, "INVALID_ARGUMENT daily"},
		{&khatav1.SetRefundLimitRequest{Currency: "BDT", Single: "1", Daily: "1.001", Reason: "x"}, "AMOUNT_SCALE daily"},
		{&khatav1.SetRefundLimitRequest{Currency: "BDT", Single: "1", Daily: "1"}, "INVALID_ARGUMENT reason"},
		{&khatav1.ListRefundLimitsRequest{Currency: "\xff"}, "INVALID_ARGUMENT currency"},
		{&khatav1.ListAuditEventsRequest{ObjectKind: "transfer"}, "INVALID_ARGUMENT object_id"},
		{&khatav1.ListAuditEventsRequest{ObjectId: "T-1"}, "INVALID_ARGUMENT object_kind"},
		{&khatav1.ListAuditEventsRequest{ObjectKind: "transfer", ObjectId: "\xff"}, "INVALID_ARGUMENT object_id"},
		{&khatav1.ListAuditEventsRequest{Actor: "\x00"}, "INVALID_ARGUMENT actor"},
		{&khatav1.ListAuditEventsRequest{Action: long}, "INVALID_ARGUMENT action"},
		{&khatav1.ListAuditEventsRequest{Since: since, Until: since}, "INVALID_ARGUMENT until"},
		{&khatav1.ListAuditEventsRequest{PageSize: 201}, "INVALID_ARGUMENT page_size"},
		{&khatav1.ListAuditEventsRequest{PageToken: "x"}, "INVALID_ARGUMENT page_token"},
		{&khatav1.ListAuditEventsRequest{PageToken: first.GetNextPageToken(), Actor: "rina"}, "INVALID_ARGUMENT page_token"},
	} {
		if got := d.call(t, c.in); !strings.HasSuffix(got, " "+c.want) {
			t.Errorf("%T %v: %s, want %s", c.in, c.in, got, c.want)
		}
	}
	// A ledger that there cannot be.
	for i := range supportMethods().Len() {
		m := supportMethods().Get(i)
		in := dynamicpb.NewMessage(m.Input())
		in.Set(m.Input().Fields().ByName("ledger"), protoreflect.ValueOfString("no\xffwhere"))
		if err := d.conn.Invoke(d.everybody, path(m), in, dynamicpb.NewMessage(m.Output())); status.Code(err) == codes.Internal || status.Code(err) == codes.OK {
			t.Errorf("%s: %v", m.Name(), err)
		}
	}
}

func supportMethods() protoreflect.MethodDescriptors {
	return khatav1.File_khata_v1_support_proto.Services().ByName("SupportService").Methods()
}

// call sends a request to the method that it is of, as somebody who may do everything there, and describes the error.
func (d *deskBench) call(t *testing.T, in proto.Message) string {
	t.Helper()
	for i := range supportMethods().Len() {
		if m := supportMethods().Get(i); m.Input().FullName() == in.ProtoReflect().Descriptor().FullName() {
			return fault(d.conn.Invoke(d.everybody, path(m), in, dynamicpb.NewMessage(m.Output())))
		}
	}
	t.Fatalf("%T is of no method", in)
	return ""
}
