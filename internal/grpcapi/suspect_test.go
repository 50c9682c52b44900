package grpcapi_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/auth"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// awaitSuspects lists groups until there are so many: the server looks for them every second.
func awaitSuspects(t *testing.T, c khatav1.SupportServiceClient, want int) []*khatav1.Suspect {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		resp, err := c.ListSuspects(t.Context(), &khatav1.ListSuspectsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.GetSuspects()) == want {
			return resp.GetSuspects()
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%d groups, want %d", len(resp.GetSuspects()), want)
		}
	}
}

// The ending of the train story, and a family that says what its gifts are.
func TestSuspects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := khatav1.NewSupportServiceClient(b.conn)
	b.accounts(t, "wallet:mina BDT", "wallet:rana BDT", "shop BDT")
	b.post(t, move("first-key", "wallet:mina", "wallet:rana", "500.00"))
	b.post(t, move("second-key", "wallet:mina", "wallet:rana", "500.00"))
	for i := range 2 {
		gift := move(fmt.Sprintf("gift-%d", i), "wallet:mina", "shop", "20.00")
		gift.Metadata = fmt.Sprintf(`{"order":"%d"}`, i)
		b.post(t, gift)
	}
	list := awaitSuspects(t, c, 2)
	double := list[1]
	if double.GetEarlier() != "first-key" || double.GetLater() != "second-key" || double.GetLevel() != khatav1.SuspectLevel_SUSPECT_LEVEL_HIGH ||
		double.GetState() != khatav1.SuspectState_SUSPECT_STATE_OPEN || len(double.GetMembers()) != 2 || double.GetMembers()[1].GetProgress().GetRefundable() != "500.00" {
		t.Errorf("%+v", double)
	}
	// Pages, and filters.
	first, err := c.ListSuspects(t.Context(), &khatav1.ListSuspectsRequest{PageSize: 1})
	if err != nil || first.GetNextPageToken() == "" || first.GetSuspects()[0].GetSuspect() != list[0].GetSuspect() {
		t.Fatal(first, err)
	}
	second, err := c.ListSuspects(t.Context(), &khatav1.ListSuspectsRequest{PageSize: 1, PageToken: first.GetNextPageToken()})
	if err != nil || second.GetNextPageToken() != "" || second.GetSuspects()[0].GetSuspect() != double.GetSuspect() {
		t.Fatal(second, err)
	}
	high, err := c.ListSuspects(t.Context(), &khatav1.ListSuspectsRequest{AtLeast: khatav1.SuspectLevel_SUSPECT_LEVEL_HIGH, Account: "wallet:rana"})
	if err != nil || len(high.GetSuspects()) != 1 {
		t.Fatal(high, err)
	}
	for name, in := range map[string]*khatav1.ListSuspectsRequest{
		"a page":   {PageSize: 201},
		"a token":  {PageToken: "x"},
		"a level":  {AtLeast: 4},
		"a state":  {States: []khatav1.SuspectState{4}},
		"no state": {States: []khatav1.SuspectState{0}},
		"a time":   {Since: &timestamppb.Timestamp{Seconds: 1 << 60}},
	} {
		if _, err := c.ListSuspects(t.Context(), in); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}

	gifts := &khatav1.DismissSuspectRequest{Suspect: list[0].GetSuspect(), Members: 2, Reason: "two orders"}
	if resp, err := c.DismissSuspect(t.Context(), gifts); err != nil || resp.GetReplayed() || resp.GetSuspect().GetDecisions()[0].GetReason() != "two orders" {
		t.Error(resp, err)
	}
	if resp, err := c.DismissSuspect(t.Context(), gifts); err != nil || !resp.GetReplayed() {
		t.Error(resp, err)
	}
	gifts.Members = 3
	if _, err := c.DismissSuspect(t.Context(), gifts); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	b.post(t, &khatav1.NewTransfer{TransferId: "refund", Kind: &khatav1.NewTransfer_Refund{Refund: &khatav1.Refund{
		Original: double.GetLater(), Everything: true, ExpectedRefunded: "0", Reason: khatav1.RefundReason_REFUND_REASON_DUPLICATE,
	}}})
	awaitSuspects(t, c, 0)
	got, err := c.GetSuspect(t.Context(), &khatav1.GetSuspectRequest{Suspect: double.GetSuspect()})
	if err != nil || got.GetSuspect().GetState() != khatav1.SuspectState_SUSPECT_STATE_REFUNDED || !got.GetSuspect().GetMembers()[1].GetWentBack() {
		t.Error(got, err)
	}
	back := &khatav1.UndismissSuspectRequest{Suspect: list[0].GetSuspect(), Reason: "one order after all"}
	if resp, err := c.UndismissSuspect(t.Context(), back); err != nil || resp.GetReplayed() || resp.GetSuspect().GetState() != khatav1.SuspectState_SUSPECT_STATE_OPEN {
		t.Error(resp, err)
	}
	if resp, err := c.UndismissSuspect(t.Context(), back); err != nil || !resp.GetReplayed() {
		t.Error(resp, err)
	}
	if _, err := c.GetSuspect(t.Context(), &khatav1.GetSuspectRequest{Suspect: 999}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
}

// Every method × role.
func TestRoles_EverySupportMethod(t *testing.T) {
	t.Parallel()
	g := guard(t, nil)
	methods := khatav1.File_khata_v1_support_proto.Services().ByName("SupportService").Methods()
	callers := map[string]context.Context{"": t.Context(), "elsewhere": g.as(t, "elsewhere", "other:support", "other:finance")}
	for _, role := range auth.RoleNames() {
		callers[role] = g.as(t, role, "main:"+role)
	}
	for i := range methods.Len() {
		m := methods.Get(i)
		rule, ok := auth.RuleOf(path(m))
		if !ok || rule.Scope != auth.InLedger || rule.Roles == 0 || m.Input().Fields().ByName(protoreflect.Name("ledger")) == nil {
			t.Errorf("%s: %+v", m.Name(), rule)
		}
		for name, ctx := range callers {
			want := codes.PermissionDenied
			role, err := auth.ParseRole(name)
			switch {
			case name == "":
				want = codes.Unauthenticated
			case err == nil && rule.Roles&role != 0:
				want = codes.OK
			}
			got := status.Code(askReports(ctx, g.conn, m, "main"))
			if denied := got == codes.PermissionDenied || got == codes.Unauthenticated; denied != (want != codes.OK) || denied && got != want {
				t.Errorf("%s by %q: %s, want %s", m.Name(), name, got, want)
			}
		}
	}
}
