package grpcapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/khata-ledger/khata/internal/grpcapi"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// The contract of proto/khata/v1: after these statuses nothing was written, after all others the outcome is open.
var closedStatuses = []codes.Code{
	codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.PermissionDenied,
	codes.Unauthenticated, codes.ResourceExhausted,
}

func TestStatusCodes_AreCompleteAndKeepTheContract(t *testing.T) {
	t.Parallel()
	known := map[ledger.Code]bool{}
	for _, code := range ledger.Codes() {
		known[code] = true
		st, ok := grpcapi.StatusCodes[code]
		if !ok || st == codes.OK || st == codes.Unknown {
			t.Errorf("%s has status %s", code, st)
		}
		if slices.Contains(closedStatuses, st) == code.Open() {
			t.Errorf("%s: Open() is %t, but its status %s says otherwise", code, code.Open(), st)
		}
	}
	for code := range grpcapi.StatusCodes {
		if !known[code] {
			t.Errorf("%s has a status and is not in ledger.Codes()", code)
		}
	}
}

// failing is a service whose every answer is an error.
type failing struct {
	khatav1.UnimplementedLedgerServiceServer
	err   error
	panic any
}

func (f *failing) GetBalance(context.Context, *khatav1.GetBalanceRequest) (*khatav1.GetBalanceResponse, error) {
	if f.panic != nil {
		panic(f.panic)
	}
	return nil, f.err
}

func (f *failing) PostTransfers(context.Context, *khatav1.PostTransfersRequest) (*khatav1.PostTransfersResponse, error) {
	return &khatav1.PostTransfersResponse{Results: []*khatav1.PostTransfersResult{
		{Kind: &khatav1.PostTransfersResult_Error{Error: grpcapi.ToStatus(f.err).Proto()}},
	}}, nil
}

// wire serves a service with the interceptors of package grpcapi over TCP, and returns its address.
func wire(t *testing.T, service khatav1.LedgerServiceServer, log *slog.Logger) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(grpcapi.ErrorInterceptor(log), grpcapi.PanicInterceptor(log)))
	khatav1.RegisterLedgerServiceServer(s, service)
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	return listener.Addr().String()
}

// once is a client that sends every request once.
func once(t *testing.T, addr string) *client.Client {
	t.Helper()
	c, err := client.Dial(addr, client.Options{Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestError_EachCodeCrossesTheWire(t *testing.T) {
	t.Parallel()
	variants := map[string]ledger.Error{
		"plain":      {Message: "so it is"},
		"violations": {Message: "invalid argument", Violations: []ledger.Violation{{Field: "entries[1].amount", Message: "is \u09f3 5: odd"}, {Field: "description", Message: "x"}}},
		"retry":      {Message: "later", RetryAfter: 1500 * time.Millisecond},
		"all":        {Message: "all: of it", Violations: []ledger.Violation{{Field: "a", Message: "b; c: d"}}, RetryAfter: time.Second},
	}
	service := &failing{}
	c := once(t, wire(t, service, slog.New(slog.DiscardHandler)))
	for _, code := range ledger.Codes() {
		for name, sent := range variants {
			t.Run(fmt.Sprintf("%s/%s", code, name), func(t *testing.T) {
				sent.Code = code
				service.err = fmt.Errorf("while doing something: %w", &sent)
				check := func(err error) {
					t.Helper()
					if !errors.Is(err, code) {
						t.Fatalf("errors.Is(%v, %s) is false", err, code)
					}
					for _, other := range ledger.Codes() {
						if other != code && errors.Is(err, other) {
							t.Errorf("it is also %s", other)
						}
					}
					var got *ledger.Error
					if !errors.As(err, &got) {
						t.Fatalf("%T is not a *ledger.Error", err)
					}
					if diff := cmp.Diff(&sent, got); diff != "" {
						t.Errorf("sent and received differ (-sent +received):\n%s", diff)
					}
				}
				_, err := c.Balance(t.Context(), "a")
				check(err)
				results, err := c.PostTransfers(t.Context(), []ledger.TransferSpec{{ID: "x"}})
				if err != nil {
					t.Fatal(err)
				}
				check(results[0].Err)
			})
		}
	}
}

func TestError_DetailsOnTheWire(t *testing.T) {
	t.Parallel()
	service := &failing{err: &ledger.Error{
		Code: ledger.CodeUnavailable, Message: "down", RetryAfter: 1500 * time.Millisecond,
		Violations: []ledger.Violation{{Field: "amount", Message: "is odd"}},
	}}
	api := khatav1.NewLedgerServiceClient(connect(t, wire(t, service, slog.New(slog.DiscardHandler))))
	_, err := api.GetBalance(t.Context(), &khatav1.GetBalanceRequest{})
	if got := fault(err); got != "Unavailable UNAVAILABLE amount" {
		t.Errorf("got %s", got)
	}
	delays := 0
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			delays++
			if got := info.GetRetryDelay().AsDuration(); got != 1500*time.Millisecond {
				t.Errorf("RetryInfo says %s", got)
			}
		}
	}
	if delays != 1 {
		t.Errorf("%d RetryInfo", delays)
	}
}

// What has no code, and what panics, is internal: the caller learns nothing of it and the log all.
func TestError_UntypedStaysInside(t *testing.T) {
	t.Parallel()
	for name, service := range map[string]*failing{
		"untyped": {err: errors.New("password=hunter2")},
		"panic":   {panic: "password=hunter2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			addr := wire(t, service, slog.New(slog.NewTextHandler(&log, nil)))
			_, err := khatav1.NewLedgerServiceClient(connect(t, addr)).GetBalance(t.Context(), &khatav1.GetBalanceRequest{})
			if got := fault(err); got != "Internal INTERNAL" {
				t.Errorf("got %s", got)
			}
			if text := fmt.Sprint(status.Convert(err).Proto()); strings.Contains(text, "hunter2") {
				t.Errorf("the caller is told: %s", text)
			}
			if !strings.Contains(log.String(), "hunter2") {
				t.Errorf("the log is not told: %s", &log)
			}
		})
	}
}

// An error that is a status already, such as those of gRPC itself, is passed on as it is.
func TestError_StatusIsPassedOn(t *testing.T) {
	t.Parallel()
	addr := wire(t, &failing{err: status.Error(codes.OutOfRange, "as it is")}, slog.New(slog.DiscardHandler))
	_, err := khatav1.NewLedgerServiceClient(connect(t, addr)).GetBalance(t.Context(), &khatav1.GetBalanceRequest{})
	if st := status.Convert(err); st.Code() != codes.OutOfRange || st.Message() != "as it is" {
		t.Errorf("got %v", err)
	}
}
