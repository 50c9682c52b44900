package client_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// old is a server from before there were balances as of a point: to it that is an unknown field.
type old struct {
	khatav1.UnimplementedLedgerServiceServer
}

func (old) GetBalance(context.Context, *khatav1.GetBalanceRequest) (*khatav1.GetBalanceResponse, error) {
	return &khatav1.GetBalanceResponse{Balance: &khatav1.Balance{Account: "a", Currency: "BDT", Posted: "5.00", Version: 7}}, nil
}

func (old) GetBalances(context.Context, *khatav1.GetBalancesRequest) (*khatav1.GetBalancesResponse, error) {
	return &khatav1.GetBalancesResponse{Balances: []*khatav1.Balance{{Account: "a", Currency: "BDT", Posted: "5.00", Version: 7}}}, nil
}

// The balance of now must not pass for that of a point of the past.
func TestBalanceAsOf_OldServer(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	khatav1.RegisterLedgerServiceServer(server, old{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	c, err := client.Dial(listener.Addr().String(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })

	if b, err := c.Balance(t.Context(), "a"); err != nil || b.Version != 7 {
		t.Errorf("now: %+v %v", b, err)
	}
	number, at := int64(7), time.Unix(1_780_000_000, 0)
	for name, point := range map[string]ledger.AsOf{"a sequence": {Sequence: &number}, "a time": {PostedAt: &at}, "an effective time": {EffectiveAt: &at}} {
		if b, err := c.BalanceAsOf(t.Context(), "a", point); !errors.Is(err, ledger.CodeInvalidArgument) {
			t.Errorf("%s: %+v %v", name, b, err)
		}
		if b, err := c.BalancesAsOf(t.Context(), []ledger.AccountID{"a"}, point); !errors.Is(err, ledger.CodeInvalidArgument) {
			t.Errorf("%s, of several: %+v %v", name, b, err)
		}
	}
}
