package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// desk is a server's support desk. Each call takes the next of its errors; one that is nil succeeds.
type desk struct {
	khatav1.UnimplementedSupportServiceServer
	errs  []error
	asked []string
}

func (d *desk) next(in fmt.Stringer) error {
	d.asked = append(d.asked, in.String())
	if len(d.errs) == 0 {
		return nil
	}
	err := d.errs[0]
	d.errs = d.errs[1:]
	return err
}

var someday = timestamppb.New(time.Unix(1_800_000_000, 0))

func payment() *khatav1.Transfer {
	entry := func(account string, direction khatav1.Direction) *khatav1.Entry {
		return &khatav1.Entry{Account: account, Direction: direction, Amount: "500.00", Currency: "BDT"}
	}
	return &khatav1.Transfer{
		Ledger: "shop", TransferId: "T-1", Outcome: khatav1.Outcome_OUTCOME_POSTED, Sequence: 7, PostedAt: someday,
		Entries: []*khatav1.Entry{entry("mina", khatav1.Direction_DIRECTION_DEBIT), entry("shop", khatav1.Direction_DIRECTION_CREDIT)},
	}
}

func requested(number int64, state khatav1.RefundState) *khatav1.RefundRequest {
	return &khatav1.RefundRequest{
		Ledger: "shop", Number: number, Key: "key-of-the-request", TransferId: "T-1", Amount: "500.00", Currency: "BDT", ExpectedRefunded: "0.00",
		Reason: khatav1.RefundReason_REFUND_REASON_DUPLICATE, Maker: "rina", MadeAt: someday, ExpiresAt: someday, State: state,
		Approval: khatav1.RefundApproval_REFUND_APPROVAL_ABOVE_DAILY, LimitVersion: 2, Sha256: "5f",
		Decision: &khatav1.RefundDecision{Verdict: khatav1.RefundVerdict_REFUND_VERDICT_APPROVE, DecidedBy: "laila", DecidedAt: someday, Note: "seen"},
		Warnings: []string{"belongs to suspect 3"},
	}
}

func (d *desk) FindTransfers(_ context.Context, in *khatav1.FindTransfersRequest) (*khatav1.FindTransfersResponse, error) {
	if err := d.next(in); err != nil {
		return nil, err
	}
	return &khatav1.FindTransfersResponse{
		Transfers: []*khatav1.FoundTransfer{{Transfer: payment(), Why: []string{"amount"}}}, Looked: 3, LookedBackTo: someday, NextPageToken: "on",
	}, nil
}

func (d *desk) GetStory(_ context.Context, in *khatav1.GetStoryRequest) (*khatav1.GetStoryResponse, error) {
	if err := d.next(in); err != nil {
		return nil, err
	}
	return &khatav1.GetStoryResponse{Story: &khatav1.Story{
		Ledger: "shop", TransferId: "T-1", Transfer: payment(), Progress: &khatav1.Progress{Refunded: "1.00", Refundable: "499.00"},
		Items: []*khatav1.StoryItem{{At: someday, Source: "ledger", TransferId: "T-1", Who: "app", What: "moved", Details: []*khatav1.StoryDetail{{Name: "a", Value: "b"}}}},
		Cut:   []string{"audit"}, Warnings: []string{"belongs to suspect 3"}, Missing: []*khatav1.MissingSource{{Source: "sms", Why: "away"}},
	}}, nil
}

func (d *desk) GetRefundForm(_ context.Context, in *khatav1.GetRefundFormRequest) (*khatav1.GetRefundFormResponse, error) {
	if err := d.next(in); err != nil {
		return nil, err
	}
	return &khatav1.GetRefundFormResponse{Form: &khatav1.RefundForm{
		Key: "key", Transfer: payment(), Currency: "BDT", Refunded: "0.00", Refundable: "500.00", Alone: "20.00", Closed: "ALREADY_REVERSED", ClosedMessage: "gone",
		Limit:    &khatav1.RefundLimit{Currency: "BDT", Version: 2, Single: "100.00", Daily: "200.00", SetAt: someday, SetBy: "boss"},
		Requests: []*khatav1.RefundRequest{requested(4, khatav1.RefundState_REFUND_STATE_REJECTED)}, Warnings: []string{"belongs to suspect 3"},
	}}, nil
}

func (d *desk) GetRefundRequest(_ context.Context, in *khatav1.GetRefundRequestRequest) (*khatav1.GetRefundRequestResponse, error) {
	if err := d.next(in); err != nil {
		return nil, err
	}
	r := requested(in.GetNumber(), khatav1.RefundState_REFUND_STATE_WAITING)
	r.Transfer, r.Progress, r.Obstacle = payment(), &khatav1.Progress{Refunded: "1.00", Refundable: "499.00"}, "1.00 BDT was refunded since it was asked for"
	return &khatav1.GetRefundRequestResponse{Request: r}, nil
}

func (d *desk) RequestRefund(_ context.Context, in *khatav1.RequestRefundRequest) (*khatav1.RequestRefundResponse, error) {
	if err := d.next(in); err != nil {
		return nil, err
	}
	return &khatav1.RequestRefundResponse{Request: requested(4, khatav1.RefundState_REFUND_STATE_WAITING), Replayed: true}, nil
}

func (d *desk) DecideRefund(_ context.Context, in *khatav1.DecideRefundRequest) (*khatav1.DecideRefundResponse, error) {
	if err := d.next(in); err != nil {
		return nil, err
	}
	return &khatav1.DecideRefundResponse{Request: requested(in.GetNumber(), khatav1.RefundState_REFUND_STATE_POSTED)}, nil
}

func (d *desk) ListRefundRequests(_ context.Context, in *khatav1.ListRefundRequestsRequest) (*khatav1.ListRefundRequestsResponse, error) {
	if err := d.next(in); err != nil {
		return nil, err
	}
	switch in.GetPageToken() { // The second page is empty, and not the last one.
	case "":
		return &khatav1.ListRefundRequestsResponse{NextPageToken: "2", Requests: []*khatav1.RefundRequest{requested(9, khatav1.RefundState_REFUND_STATE_WAITING)}}, nil
	case "2":
		return &khatav1.ListRefundRequestsResponse{NextPageToken: "3"}, nil
	}
	return &khatav1.ListRefundRequestsResponse{Requests: []*khatav1.RefundRequest{requested(3, khatav1.RefundState_REFUND_STATE_WAITING)}}, nil
}

func (d *desk) SetRefundLimit(_ context.Context, in *khatav1.SetRefundLimitRequest) (*khatav1.SetRefundLimitResponse, error) {
	if err := d.next(in); err != nil {
		return nil, err
	}
	return &khatav1.SetRefundLimitResponse{Limit: &khatav1.RefundLimit{Currency: in.GetCurrency(), Version: 1, Single: in.GetSingle(), Daily: in.GetDaily(), SetAt: someday}}, nil
}

func (d *desk) GetReviewList(_ context.Context, in *khatav1.GetReviewListRequest) (*khatav1.GetReviewListResponse, error) {
	if err := d.next(in); err != nil {
		return nil, err
	}
	return &khatav1.GetReviewListResponse{Heaps: []*khatav1.ReviewHeap{
		{Kind: "waiting_refunds", Count: 1, Oldest: someday, Next: "decide", Tasks: []*khatav1.ReviewTask{{Since: someday, What: "what", Id: "4", TransferId: "T-1"}}}, {Kind: "breaks"},
	}}, nil
}

func (d *desk) ListAuditEvents(_ context.Context, in *khatav1.ListAuditEventsRequest) (*khatav1.ListAuditEventsResponse, error) {
	if err := d.next(in); err != nil {
		return nil, err
	}
	event := &khatav1.AuditEvent{
		Number: 8, At: someday, Actor: "rina", Address: "192.0.2.1", Action: "refund.approve", ObjectKind: "transfer", ObjectId: "T-1",
		Outcome: khatav1.AuditOutcome_AUDIT_OUTCOME_REFUSED, Detail: map[string]string{"why": "yours"},
	}
	if in.GetPageToken() == "" {
		return &khatav1.ListAuditEventsResponse{Events: []*khatav1.AuditEvent{event}, NextPageToken: "2"}, nil
	}
	return &khatav1.ListAuditEventsResponse{Events: []*khatav1.AuditEvent{event, event}}, nil
}

func serveDesk(t *testing.T, service *desk) *client.Support {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	khatav1.RegisterSupportServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	c, err := client.Dial(listener.Addr().String(), client.Options{Ledger: "shop", Patience: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.Support()
}

// A request is sent again while its outcome is open, under the same key, and not after a word that is final.
func TestSupport_RequestAndDecide(t *testing.T) {
	t.Parallel()
	d := &desk{errs: []error{away, status.Error(codes.Aborted, "others")}}
	s := serveDesk(t, d)
	spec := client.RefundSpec{
		Key: "key-of-the-request", TransferID: "T-1", Amount: decimal.RequireFromString("500.00"), Reason: ledger.ReasonDuplicate, Note: "n", Ticket: "t",
	}
	r, replayed, err := s.RequestRefund(t.Context(), spec)
	if err != nil || !replayed || r.Number != 4 || r.State != client.RefundWaiting || r.State.Final() || r.Approval != client.ApprovalAboveDaily || r.Amount.String() != "500" ||
		r.Reason != ledger.ReasonDuplicate || r.SettledAt != nil || r.Decision.Verdict != client.RefundApprove || r.Decision.By != "laila" {
		t.Errorf("%+v, %v, %v", r, replayed, err)
	}
	if len(d.asked) != 3 || d.asked[0] != d.asked[2] || !strings.Contains(d.asked[0], `"500.00"`) || !strings.Contains(d.asked[0], `expected_refunded:"0"`) {
		t.Errorf("%q", d.asked)
	}
	taken, err := status.New(codes.AlreadyExists, "taken").WithDetails(&errdetails.ErrorInfo{Domain: "khata", Reason: "ALREADY_EXISTS"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "amount", Description: "differs"}}})
	if err != nil {
		t.Fatal(err)
	}
	d.asked, d.errs = nil, []error{taken.Err()}
	var typed *ledger.Error
	if _, _, err := s.RequestRefund(t.Context(), spec); !errors.Is(err, ledger.CodeAlreadyExists) || !errors.As(err, &typed) || typed.Violations[0].Field != "amount" || len(d.asked) != 1 {
		t.Error(err, d.asked)
	}
	spec.Reason = "because"
	if _, _, err := s.RequestRefund(t.Context(), spec); !errors.Is(err, ledger.CodeInvalidArgument) || len(d.asked) != 1 {
		t.Error(err, d.asked)
	}
	d.errs = []error{away}
	got, replayed, err := s.DecideRefund(t.Context(), client.RefundDecisionSpec{Number: 4, SHA256: "5f", Verdict: client.RefundApprove})
	if err != nil || replayed || got.Number != 4 || got.State != client.RefundPosted || !got.State.Final() {
		t.Errorf("%+v, %v, %v", got, replayed, err)
	}
	if _, _, err := s.DecideRefund(t.Context(), client.RefundDecisionSpec{Number: 4, Verdict: "maybe"}); !errors.Is(err, ledger.CodeInvalidArgument) {
		t.Error(err)
	}
}

func TestSupport_Reads(t *testing.T) {
	t.Parallel()
	d := &desk{}
	s := serveDesk(t, d)
	amount := decimal.RequireFromString("500")
	found, err := s.Find(t.Context(), client.FindQuery{Account: "mina", Amount: &amount, Page: "here", Limit: 7})
	if err != nil || len(found.Transfers) != 1 || found.Transfers[0].ID != "T-1" || found.Transfers[0].Why[0] != "amount" || found.Looked != 3 || found.LookedBackTo == nil ||
		found.Next != "on" || !strings.Contains(d.asked[0], `page_token:"here"`) || !strings.Contains(d.asked[0], "page_size:7") || strings.Contains(d.asked[0], "since") {
		t.Errorf("%+v, %v, %q", found, err, d.asked)
	}
	story, err := s.Story(t.Context(), "T-1")
	if err != nil || story.Transfer.ID != "T-1" || story.Progress.Refundable.String() != "499" || story.Origin != nil || story.Items[0].Details[0].Value != "b" ||
		story.Cut[0] != "audit" || story.Warnings[0] != "belongs to suspect 3" || story.Missing[0].Source != "sms" {
		t.Errorf("%+v, %v", story, err)
	}
	form, err := s.RefundForm(t.Context(), "T-1")
	if err != nil || form.Key != "key" || form.Refundable.String() != "500" || !errors.Is(form.Closed, ledger.CodeAlreadyReversed) || form.Limit.Daily.String() != "200" ||
		form.Requests[0].State != client.RefundRejected || form.Warnings[0] != "belongs to suspect 3" {
		t.Errorf("%+v, %v", form, err)
	}
	one, err := s.RefundRequest(t.Context(), 4)
	if err != nil || one.Number != 4 || one.Transfer.ID != "T-1" || one.Progress.Refundable.String() != "499" || one.Warnings[0] != "belongs to suspect 3" ||
		!strings.Contains(one.Obstacle, "since it was asked for") {
		t.Errorf("%+v, %v", one, err)
	}
	var numbers []int64
	for r, err := range s.RefundRequests(t.Context(), client.RefundFilter{States: []client.RefundState{client.RefundWaiting}}) {
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, r.Number)
	}
	if len(numbers) != 2 || numbers[1] != 3 {
		t.Error(numbers)
	}
	for _, err := range s.RefundRequests(t.Context(), client.RefundFilter{States: []client.RefundState{"gone"}}) {
		if !errors.Is(err, ledger.CodeInvalidArgument) {
			t.Error(err)
		}
	}
	events := 0
	for e, err := range s.Audit(t.Context(), client.AuditFilter{Actor: "rina", Since: time.Unix(1, 0)}) {
		if err != nil || e.Outcome != client.AuditRefused || e.Detail["why"] != "yours" || e.ObjectID != "T-1" {
			t.Fatalf("%+v, %v", e, err)
		}
		events++
	}
	if events != 3 {
		t.Errorf("%d events", events)
	}
	review, err := s.Review(t.Context())
	if err != nil || review.Heaps[0].Tasks[0].TransferID != "T-1" || review.Heaps[0].Oldest == nil || review.Heaps[1].Oldest != nil {
		t.Errorf("%+v, %v", review, err)
	}
	limit, err := s.SetRefundLimit(t.Context(), "BDT", decimal.NewFromInt(100), decimal.RequireFromString("200.00"), "agreed")
	if err != nil || limit.Single.String() != "100" || limit.Daily.String() != "200" {
		t.Errorf("%+v, %v", limit, err)
	}
	if _, err := s.RefundLimits(t.Context(), ""); !errors.Is(err, ledger.CodeInvalidArgument) { // a server from before
		t.Error(err)
	}
}
