package client_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// posting is a server that counts what it is asked to post. With results it answers so, otherwise as one from before there were kinds.
type posting struct {
	khatav1.UnimplementedLedgerServiceServer
	posted  atomic.Int32
	results func(try int32, n int) []*khatav1.PostTransfersResult
	isNew   bool
}

func (p *posting) ListHolds(context.Context, *khatav1.ListHoldsRequest) (*khatav1.ListHoldsResponse, error) {
	if p.isNew {
		return nil, status.Error(codes.InvalidArgument, "account: is required")
	}
	return nil, status.Error(codes.Unimplemented, "unknown method ListHolds")
}

func (p *posting) PostTransfer(_ context.Context, in *khatav1.PostTransferRequest) (*khatav1.PostTransferResponse, error) {
	p.posted.Add(1)
	return &khatav1.PostTransferResponse{Result: moved(in.GetTransfer().GetTransferId())}, nil
}

func (p *posting) PostTransfers(_ context.Context, in *khatav1.PostTransfersRequest) (*khatav1.PostTransfersResponse, error) {
	return &khatav1.PostTransfersResponse{Results: p.results(p.posted.Add(1), len(in.GetTransfers()))}, nil
}

func (p *posting) CreateAccount(context.Context, *khatav1.CreateAccountRequest) (*khatav1.CreateAccountResponse, error) {
	p.posted.Add(1)
	return &khatav1.CreateAccountResponse{}, nil
}

func (p *posting) UpdateAccount(context.Context, *khatav1.UpdateAccountRequest) (*khatav1.UpdateAccountResponse, error) {
	p.posted.Add(1)
	return &khatav1.UpdateAccountResponse{}, nil
}

func moved(id string) *khatav1.TransferResult {
	return &khatav1.TransferResult{TransferId: id, Outcome: khatav1.Outcome_OUTCOME_POSTED, Sequence: 1}
}

func serve(t *testing.T, service khatav1.LedgerServiceServer, patience time.Duration) *client.Client {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	khatav1.RegisterLedgerServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	c, err := client.Dial(listener.Addr().String(), client.Options{Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var five = decimal.RequireFromString("5.00")

func pay(terms *ledger.Terms) ledger.TransferSpec {
	return ledger.TransferSpec{ID: "x", Entries: ledger.Simple("a", "b", five, ""), Terms: terms}
}

// What an old server would misunderstand is not sent to it: it would move the money that is to be held.
func TestTerms_OldServer(t *testing.T) {
	t.Parallel()
	server := &posting{}
	c := serve(t, server, -1)
	ctx := t.Context()
	version := int64(7)
	hold := pay(&ledger.Terms{Kind: ledger.Hold})
	for name, ask := range map[string]func() error{
		"hold": func() error { _, err := c.PostTransfer(ctx, hold); return err },
		"conditions": func() error {
			_, err := c.PostTransfer(ctx, pay(&ledger.Terms{Kind: ledger.Plain, Conditions: []ledger.Condition{{Account: "a", Version: &version}}}))
			return err
		},
		"balancing": func() error {
			_, err := c.PostTransfer(ctx, pay(&ledger.Terms{Kind: ledger.Plain, Balancing: true, Amount: &five}))
			return err
		},
		"one of many": func() error { _, err := c.PostTransfers(ctx, []ledger.TransferSpec{pay(nil), hold}); return err },
		"atomic":      func() error { _, err := c.PostAtomically(ctx, []ledger.TransferSpec{pay(nil)}); return err },
		"atomic, as it was read": func() error {
			r, err := client.ReadRequest([]byte(`{"transfer_id":"x"}`))
			if err != nil || r.TransferID() != "x" {
				t.Errorf("read: %v %v", r, err)
			}
			_, err = c.PostRequestsAtomically(ctx, []client.Request{r})
			return err
		},
		"ceiling": func() error { _, err := c.CreateAccount(ctx, ledger.AccountSpec{ID: "a", Ceiling: &five}); return err },
		"ceiling of many": func() error {
			_, err := c.CreateAccounts(ctx, []ledger.AccountSpec{{ID: "a", Ceiling: &five}})
			return err
		},
		"ceiling set": func() error { _, err := c.UpdateAccount(ctx, "a", ledger.AccountUpdate{Ceiling: &five}); return err },
		"ceiling removed": func() error {
			_, err := c.UpdateAccount(ctx, "a", ledger.AccountUpdate{RemoveCeiling: true})
			return err
		},
	} {
		if err := ask(); !errors.Is(err, ledger.CodeInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := server.posted.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	if r, err := c.PostTransfer(ctx, pay(nil)); err != nil || r.Sequence != 1 {
		t.Errorf("a plain transfer: %+v %v", r, err)
	}
}

// Where an old server stands behind the address of a newer one, what it did is not taken for what was asked, as far as that shows.
func TestTerms_OldServerBehindANewOne(t *testing.T) {
	t.Parallel()
	c := serve(t, &posting{isNew: true}, -1)
	for name, terms := range map[string]*ledger.Terms{
		"balancing": {Kind: ledger.Plain, Balancing: true, Amount: &five},
		"deadline":  {Kind: ledger.Hold, ExpiresAfter: time.Hour},
	} {
		if r, err := c.PostTransfer(t.Context(), pay(terms)); !errors.Is(err, ledger.CodeInternal) {
			t.Errorf("%s: %+v %v", name, r, err)
		}
	}
	if _, err := c.PostTransfer(t.Context(), pay(&ledger.Terms{Kind: ledger.Expiry, Origin: "h"})); !errors.Is(err, ledger.CodeInvalidArgument) {
		t.Errorf("an expiry: %v", err)
	}
}

// A part of an atomic call would be another call: while one transfer is open, all are sent again.
func TestPostAtomically_SendsTheWholeCallAgain(t *testing.T) {
	t.Parallel()
	open := &khatav1.PostTransfersResult{Kind: &khatav1.PostTransfersResult_Error{Error: status.New(codes.Unavailable, "down").Proto()}}
	known := &khatav1.PostTransfersResult{Kind: &khatav1.PostTransfersResult_Result{Result: moved("x")}}
	server := &posting{isNew: true, results: func(try int32, n int) []*khatav1.PostTransfersResult {
		if n != 2 {
			t.Errorf("try %d has %d transfers", try, n)
		}
		if try < 3 {
			return []*khatav1.PostTransfersResult{known, open}
		}
		return []*khatav1.PostTransfersResult{known, known}
	}}
	results, err := serve(t, server, time.Minute).PostAtomically(t.Context(), []ledger.TransferSpec{pay(nil), pay(nil)})
	if err != nil || len(results) != 2 || results[0].Err != nil || results[1].Err != nil || server.posted.Load() != 3 {
		t.Errorf("%+v %v after %d tries", results, err, server.posted.Load())
	}
	server.posted.Store(0)
	results, err = serve(t, server, -1).PostAtomically(t.Context(), []ledger.TransferSpec{pay(nil), pay(nil)})
	if err != nil || len(results) != 2 || results[0].Err != nil || !errors.Is(results[1].Err, ledger.CodeUnavailable) {
		t.Errorf("once: %+v %v", results, err)
	}
}

func TestReadRequest(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", "[]", "{} {}", `{"transfer_id":1}`, `{"transfer_id":"x","note":"5"}`, `{"hold":{},"void":{}}`} {
		if r, err := client.ReadRequest([]byte(text)); !errors.Is(err, ledger.CodeInvalidArgument) {
			t.Errorf("%s: %v %v", text, r, err)
		}
	}
}
