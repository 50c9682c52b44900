package grpcapi_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

func day(month time.Month, d int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2025, month, d, 0, 0, 0, 0, time.UTC))
}

func TestPeriod(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	b.accounts(t, "cash BDT", "wallet:a BDT")
	at := func(id string, at *timestamppb.Timestamp) *khatav1.NewTransfer {
		transfer := move(id, "cash", "wallet:a", "5.00")
		transfer.EffectiveAt = at
		return transfer
	}
	resp, err := b.ReopenPeriod(ctx, &khatav1.ReopenPeriodRequest{Everything: true, Reason: "x"})
	if err != nil || resp.GetChange() != nil || !resp.GetReplayed() {
		t.Errorf("opened what never was closed: %v %v", resp, err)
	}
	january := &khatav1.ClosePeriodRequest{ClosedBefore: day(2, 1), Zone: "Asia/Dhaka", Reason: "January"}
	first, err := b.ClosePeriod(ctx, january)
	if err != nil {
		t.Fatal(err)
	}
	if c := first.GetChange(); first.GetReplayed() || c.GetLedger() != "main" || c.GetSequence() == 0 ||
		!c.GetClosedBefore().AsTime().Equal(day(2, 1).AsTime()) || c.PreviousClosedBefore != nil || c.GetZone() != "Asia/Dhaka" ||
		c.GetReason() != "January" || c.GetCaller() != "local" || time.Since(c.GetChangedAt().AsTime()) > time.Minute {
		t.Errorf("closed: %v", first)
	}
	for range 3 {
		again, err := b.ClosePeriod(ctx, january)
		if err != nil || !again.GetReplayed() || again.GetChange().GetSequence() != first.GetChange().GetSequence() {
			t.Errorf("again: %v %v", again, err)
		}
	}
	late := at("T-1", day(1, 31))
	for _, want := range []string{"refused PERIOD_CLOSED ", "replayed refused PERIOD_CLOSED "} {
		if got := outcome(b.post(t, late)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := outcome(b.post(t, at("T-2", day(2, 1)))); got != "posted" {
		t.Errorf("in what is open: %s", got)
	}
	record, err := b.GetTransfer(ctx, &khatav1.GetTransferRequest{TransferId: "T-1"})
	if r := record.GetTransfer(); err != nil || r.GetReason() != "PERIOD_CLOSED" || r.GetReasonAccount() != "" ||
		r.GetOutcome() != khatav1.Outcome_OUTCOME_REFUSED {
		t.Errorf("the record: %v %v", record, err)
	}
	opened, err := b.ReopenPeriod(ctx, &khatav1.ReopenPeriodRequest{Ledger: "main", ClosedBefore: day(1, 15), Reason: "a late invoice"})
	if c := opened.GetChange(); err != nil || opened.GetReplayed() || c.GetZone() != "UTC" || !c.GetClosedBefore().AsTime().Equal(day(1, 15).AsTime()) ||
		!c.GetPreviousClosedBefore().AsTime().Equal(day(2, 1).AsTime()) {
		t.Errorf("opened: %v %v", opened, err)
	}
	if got := outcome(b.post(t, late)); got != "replayed refused PERIOD_CLOSED " {
		t.Errorf("when it is open again: %s", got)
	}
	if got := outcome(b.post(t, at("T-3", day(1, 31)))); got != "posted" {
		t.Errorf("under another id: %s", got)
	}
	all, err := b.ReopenPeriod(ctx, &khatav1.ReopenPeriodRequest{Everything: true, Reason: "restated"})
	if err != nil || all.GetReplayed() || all.GetChange().ClosedBefore != nil {
		t.Errorf("opened altogether: %v %v", all, err)
	}
	var listed []int64
	for token, pages := "", 0; token != "" || pages == 0; pages++ {
		page, err := b.ListPeriodChanges(ctx, &khatav1.ListPeriodChangesRequest{PageSize: 2, PageToken: token})
		if err != nil || len(page.GetChanges()) > 2 {
			t.Fatalf("%v %v", page, err)
		}
		for _, c := range page.GetChanges() {
			listed = append(listed, c.GetSequence())
		}
		token = page.GetNextPageToken()
	}
	if len(listed) != 3 || listed[0] != all.GetChange().GetSequence() || listed[1] != opened.GetChange().GetSequence() ||
		listed[2] != first.GetChange().GetSequence() {
		t.Errorf("listed %v", listed)
	}
}

func TestPeriod_Malformed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	future := timestamppb.New(time.Now().Add(time.Hour))
	for name, c := range map[string]struct {
		in   any
		want string
	}{
		"no time":           {&khatav1.ClosePeriodRequest{}, invalid("closed_before")},
		"the future":        {&khatav1.ClosePeriodRequest{ClosedBefore: future}, invalid("closed_before")},
		"no such time":      {&khatav1.ClosePeriodRequest{ClosedBefore: &timestamppb.Timestamp{Nanos: -1}}, invalid("closed_before")},
		"a fine time":       {&khatav1.ClosePeriodRequest{ClosedBefore: &timestamppb.Timestamp{Nanos: 1}}, invalid("closed_before")},
		"a zone":            {&khatav1.ClosePeriodRequest{ClosedBefore: day(1, 1), Zone: "Dhaka"}, invalid("zone")},
		"an absolute zone":  {&khatav1.ClosePeriodRequest{ClosedBefore: day(1, 1), Zone: "/etc/passwd"}, invalid("zone")},
		"neither":           {&khatav1.ReopenPeriodRequest{Reason: "x"}, invalid("closed_before")},
		"both":              {&khatav1.ReopenPeriodRequest{ClosedBefore: day(1, 1), Everything: true, Reason: "x"}, invalid("everything")},
		"no reason":         {&khatav1.ReopenPeriodRequest{ClosedBefore: day(1, 1)}, invalid("reason")},
		"no such time here": {&khatav1.ReopenPeriodRequest{ClosedBefore: &timestamppb.Timestamp{Nanos: -1}, Reason: "x"}, invalid("closed_before")},
		"a page":            {&khatav1.ListPeriodChangesRequest{PageSize: 1001}, invalid("page_size")},
		"a token":           {&khatav1.ListPeriodChangesRequest{PageToken: "?"}, invalid("page_token")},
		"a ledger":          {&khatav1.ListPeriodChangesRequest{Ledger: "nowhere"}, "NotFound LEDGER_NOT_FOUND"},
	} {
		var err error
		switch in := c.in.(type) {
		case *khatav1.ClosePeriodRequest:
			_, err = b.ClosePeriod(t.Context(), in)
		case *khatav1.ReopenPeriodRequest:
			_, err = b.ReopenPeriod(t.Context(), in)
		case *khatav1.ListPeriodChangesRequest:
			_, err = b.ListPeriodChanges(t.Context(), in)
		}
		if got := fault(err); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// Finance closes, and only an admin opens again; both are named in the record.
func TestPeriod_Callers(t *testing.T) {
	t.Parallel()
	g := guard(t, nil)
	finance, admin := g.as(t, "books", "main:finance"), g.as(t, "boss", "main:admin")
	if _, err := g.ClosePeriod(finance, &khatav1.ClosePeriodRequest{ClosedBefore: day(2, 1)}); err != nil {
		t.Fatal(err)
	}
	reopen := &khatav1.ReopenPeriodRequest{Everything: true, Reason: "x"}
	if _, err := g.ReopenPeriod(finance, reopen); fault(err) != "PermissionDenied PERMISSION_DENIED" {
		t.Errorf("finance opens: %v", err)
	}
	if _, err := g.ReopenPeriod(admin, reopen); err != nil {
		t.Fatal(err)
	}
	list, err := g.ListPeriodChanges(finance, &khatav1.ListPeriodChangesRequest{})
	if err != nil || len(list.GetChanges()) != 2 || list.GetChanges()[0].GetCaller() != "boss" || list.GetChanges()[1].GetCaller() != "books" {
		t.Errorf("%v %v", list, err)
	}
}
