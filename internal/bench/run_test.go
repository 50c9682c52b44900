package bench

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// fake is a server that acknowledges a part of what it gets.
type fake struct {
	khatav1.UnimplementedLedgerServiceServer
	calls, acknowledged atomic.Int64
}

func (f *fake) CreateLedger(context.Context, *khatav1.CreateLedgerRequest) (*khatav1.CreateLedgerResponse, error) {
	return &khatav1.CreateLedgerResponse{}, nil
}

func (f *fake) CreateAccounts(context.Context, *khatav1.CreateAccountsRequest) (*khatav1.CreateAccountsResponse, error) {
	return &khatav1.CreateAccountsResponse{}, nil
}

// PostTransfers fails every third call, and of the others the second transfer.
func (f *fake) PostTransfers(_ context.Context, in *khatav1.PostTransfersRequest) (*khatav1.PostTransfersResponse, error) {
	time.Sleep(time.Millisecond)
	if f.calls.Add(1)%3 == 0 {
		return nil, status.Error(codes.Unavailable, "away")
	}
	out := &khatav1.PostTransfersResponse{}
	for i, t := range in.GetTransfers() {
		r := &khatav1.PostTransfersResult{Kind: &khatav1.PostTransfersResult_Result{
			Result: &khatav1.TransferResult{TransferId: t.GetTransferId(), Outcome: khatav1.Outcome_OUTCOME_POSTED},
		}}
		if i == 1 {
			st, err := status.New(codes.Aborted, "lost").WithDetails(&errdetails.ErrorInfo{Reason: "CONFLICT", Domain: "khata"})
			if err != nil {
				return nil, err
			}
			r.Kind = &khatav1.PostTransfersResult_Error{Error: st.Proto()}
		} else {
			f.acknowledged.Add(1)
		}
		out.Results = append(out.Results, r)
	}
	return out, nil
}

// Only what was acknowledged is counted, and every failure is, by its code.
func TestRun_CountsFailures(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, server := new(fake), grpc.NewServer()
	khatav1.RegisterLedgerServiceServer(server, f)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	var out strings.Builder
	report, err := Run(t.Context(), Config{
		Target: Target{Addr: listener.Addr().String(), Ledger: "bench"}, Modes: []string{ModeBatch}, IDs: V7, Duration: 200 * time.Millisecond,
		Accounts: 10, Clients: 1, Connections: 2, Batch: 10, InFlight: 3, History: 1, Readers: 1, Rounds: 1, Rate: 1, GrowthFrom: 1, Verify: true, Out: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := report.Results[0]
	// Of calls that were under way at the end, the fake has acknowledged more than was counted.
	if acknowledged := f.acknowledged.Load(); r.Transfers == 0 || r.Transfers != 9*r.Calls || r.Transfers > acknowledged || r.Transfers < acknowledged-9*6 {
		t.Errorf("%d calls with %d transfers were counted, %d acknowledged", r.Calls, r.Transfers, acknowledged)
	}
	calls := f.calls.Load()
	if report.Failures["Unavailable"] != calls/3 || report.Failures["CONFLICT"] != calls-calls/3 || len(report.Failures) != 2 {
		t.Errorf("failures %v of %d calls", report.Failures, calls)
	}
	if report.OK() || !strings.Contains(out.String(), "FAILED: ") || !strings.Contains(out.String(), " CONFLICT, ") {
		t.Errorf("the failures are not shown:\n%s", &out)
	}
}

func TestRun_ServerEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	close(ended)
	report, err := Run(t.Context(), Config{
		Target: Target{Addr: "127.0.0.1:1", Ledger: "bench", Ended: ended}, Modes: []string{ModeBatch}, IDs: V7, Duration: time.Second,
		Accounts: 10, Clients: 1, Connections: 1, Batch: 10, InFlight: 1, History: 1, Readers: 1, Rounds: 1, Rate: 1, GrowthFrom: 1,
	})
	if err != nil || report.Stopped != "the server has ended" || report.OK() {
		t.Errorf("stopped %q, %v", report.Stopped, err)
	}
}
