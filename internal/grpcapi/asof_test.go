package grpcapi_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

func TestGetBalance_AsOf(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT")
	first := b.post(t, move("T-1", "cash", "wallet:a", "5.00"))
	dated := move("T-2", "cash", "wallet:a", "30.00")
	dated.EffectiveAt = timestamppb.New(first.GetPostedAt().AsTime().Add(-24 * time.Hour))
	second := b.post(t, dated)
	last := second.GetSequence()
	if after := second.GetPostedAt().AsTime(); !after.After(first.GetPostedAt().AsTime()) {
		t.Fatalf("posted at %v, then at %v", first.GetPostedAt(), second.GetPostedAt())
	}
	type point struct {
		sequence          *int64
		posted, effective *timestamppb.Timestamp
	}
	yesterday := timestamppb.New(dated.GetEffectiveAt().AsTime())
	for name, c := range map[string]struct {
		at   point
		want string // posted, version and as_of_sequence, or the fault
	}{
		"now":                   {point{}, fmt.Sprint("35.00 ", last, " 0")},
		"the first":             {point{sequence: proto.Int64(first.GetSequence())}, fmt.Sprint("5.00 ", first.GetSequence(), " ", first.GetSequence())},
		"the beginning":         {point{sequence: proto.Int64(0)}, "0.00 0 0"},
		"posted by the first":   {point{posted: first.GetPostedAt()}, fmt.Sprint("5.00 ", first.GetSequence(), " ", last)},
		"posted by yesterday":   {point{posted: yesterday}, fmt.Sprint("0.00 0 ", last)},
		"in effect yesterday":   {point{effective: yesterday}, fmt.Sprint("30.00 ", last, " ", last)},
		"in effect before":      {point{effective: timestamppb.New(yesterday.AsTime().Add(-1))}, fmt.Sprint("0.00 ", last, " ", last)},
		"in effect next year":   {point{effective: timestamppb.New(time.Now().AddDate(1, 0, 0))}, fmt.Sprint("35.00 ", last, " ", last)},
		"a number to come":      {point{sequence: proto.Int64(last + 1)}, "InvalidArgument INVALID_ARGUMENT as_of_sequence"},
		"a number below 0":      {point{sequence: proto.Int64(-1)}, "InvalidArgument INVALID_ARGUMENT as_of_sequence"},
		"a time to come":        {point{posted: timestamppb.New(time.Now().Add(time.Hour))}, "InvalidArgument INVALID_ARGUMENT as_of_posted_at"},
		"no time of posting":    {point{posted: &timestamppb.Timestamp{Nanos: -1}}, "InvalidArgument INVALID_ARGUMENT as_of_posted_at"},
		"no effective time":     {point{effective: &timestamppb.Timestamp{Seconds: 1 << 60}}, "InvalidArgument INVALID_ARGUMENT as_of_effective_at"},
		"two points":            {point{posted: yesterday, effective: yesterday}, "InvalidArgument INVALID_ARGUMENT as_of"},
		"a number and a time":   {point{sequence: proto.Int64(1), posted: yesterday}, "InvalidArgument INVALID_ARGUMENT as_of"},
		"a number 0 and a time": {point{sequence: proto.Int64(0), effective: yesterday}, "InvalidArgument INVALID_ARGUMENT as_of"},
	} {
		describe := func(balance *khatav1.Balance, err error) string {
			if err != nil {
				return fault(err)
			}
			return fmt.Sprint(balance.GetPosted(), " ", balance.GetVersion(), " ", balance.GetAsOfSequence())
		}
		one, err := b.GetBalance(t.Context(), &khatav1.GetBalanceRequest{
			Account: "wallet:a", AsOfSequence: c.at.sequence, AsOfPostedAt: c.at.posted, AsOfEffectiveAt: c.at.effective,
		})
		if got := describe(one.GetBalance(), err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		many, err := b.GetBalances(t.Context(), &khatav1.GetBalancesRequest{
			Accounts: []string{"cash", "wallet:a", "cash"}, AsOfSequence: c.at.sequence, AsOfPostedAt: c.at.posted, AsOfEffectiveAt: c.at.effective,
		})
		if err == nil && len(many.GetBalances()) != 3 {
			t.Errorf("%s: %d balances", name, len(many.GetBalances()))
			continue
		}
		for i := range 3 {
			balance := &khatav1.Balance{}
			if err == nil {
				balance = many.GetBalances()[i]
			}
			if got := describe(balance, err); got != c.want {
				t.Errorf("%s, balance %d of several: %s, want %s", name, i, got, c.want)
			}
		}
	}
	if _, err := b.GetBalance(t.Context(), &khatav1.GetBalanceRequest{Account: "nobody", AsOfPostedAt: yesterday}); fault(err) != "NotFound ACCOUNT_NOT_FOUND" {
		t.Errorf("an account that does not exist: %s", fault(err))
	}
}
