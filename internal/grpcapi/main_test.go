package grpcapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/khata-ledger/khata/internal/grpcapi"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// bench is a server on a database of its own, and a connection to it.
type bench struct {
	khatav1.LedgerServiceClient
	db   *pgtest.DB
	conn *grpc.ClientConn
	addr string
}

func setup(t testing.TB) *bench {
	t.Helper()
	return serve(t, pgtest.New(t))
}

// serve starts a server on a database, which may have others.
func serve(t testing.TB, db *pgtest.DB) *bench {
	t.Helper()
	s, err := server.Start(context.Background(), server.Config{
		DSN: db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	conn := connect(t, s.GRPCAddr())
	return &bench{LedgerServiceClient: khatav1.NewLedgerServiceClient(conn), db: db, conn: conn, addr: s.GRPCAddr()}
}

func connect(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(grpcapi.MaxMessage), grpc.MaxCallSendMsgSize(grpcapi.MaxMessage)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// account is an account without a floor: "cash BDT", with the type that its name suggests.
func account(text string) *khatav1.NewAccount {
	id, currency, _ := strings.Cut(text, " ")
	kind := khatav1.AccountType_ACCOUNT_TYPE_LIABILITY
	if strings.HasPrefix(id, "cash") {
		kind = khatav1.AccountType_ACCOUNT_TYPE_ASSET
	}
	return &khatav1.NewAccount{Account: id, Currency: currency, Type: kind}
}

func floored(text, floor string) *khatav1.NewAccount {
	a := account(text)
	a.Floor = proto.String(floor)
	return a
}

// accounts makes accounts in ledger main, each an "id CURRENCY" or a *khatav1.NewAccount.
func (b *bench) accounts(t testing.TB, list ...any) {
	t.Helper()
	req := &khatav1.CreateAccountsRequest{}
	for _, a := range list {
		switch a := a.(type) {
		case string:
			req.Accounts = append(req.Accounts, account(a))
		case *khatav1.NewAccount:
			req.Accounts = append(req.Accounts, a)
		}
	}
	if _, err := b.CreateAccounts(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

func move(id, debit, credit, amount string) *khatav1.NewTransfer {
	return &khatav1.NewTransfer{TransferId: id, DebitAccount: debit, CreditAccount: credit, Amount: amount}
}

func entries(id string, list ...*khatav1.Entry) *khatav1.NewTransfer {
	return &khatav1.NewTransfer{TransferId: id, Entries: list}
}

func debit(account, amount string) *khatav1.Entry {
	return &khatav1.Entry{Account: account, Direction: khatav1.Direction_DIRECTION_DEBIT, Amount: amount}
}

func credit(account, amount string) *khatav1.Entry {
	return &khatav1.Entry{Account: account, Direction: khatav1.Direction_DIRECTION_CREDIT, Amount: amount}
}

func (b *bench) try(t testing.TB, transfer *khatav1.NewTransfer) (*khatav1.TransferResult, error) {
	t.Helper()
	resp, err := b.PostTransfer(t.Context(), &khatav1.PostTransferRequest{Transfer: transfer})
	return resp.GetResult(), err
}

// post has a transfer decided, as posted or refused.
func (b *bench) post(t testing.TB, transfer *khatav1.NewTransfer) *khatav1.TransferResult {
	t.Helper()
	result, err := b.try(t, transfer)
	if err != nil {
		t.Fatalf("post %s: %v", transfer.GetTransferId(), err)
	}
	return result
}

func (b *bench) postAll(t testing.TB, transfers ...*khatav1.NewTransfer) []*khatav1.PostTransfersResult {
	t.Helper()
	resp, err := b.PostTransfers(t.Context(), &khatav1.PostTransfersRequest{Transfers: transfers})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.GetResults()) != len(transfers) {
		t.Fatalf("%d results for %d transfers", len(resp.GetResults()), len(transfers))
	}
	return resp.GetResults()
}

func (b *bench) balance(t testing.TB, account string) string {
	t.Helper()
	resp, err := b.GetBalance(t.Context(), &khatav1.GetBalanceRequest{Account: account})
	if err != nil {
		t.Fatalf("balance of %s: %v", account, err)
	}
	return resp.GetBalance().GetPosted()
}

// outcome describes a result: "posted", "replayed posted", "refused INSUFFICIENT_FUNDS wallet:x".
func outcome(r *khatav1.TransferResult) string {
	var words []string
	if r.GetReplayed() {
		words = append(words, "replayed")
	}
	switch r.GetOutcome() {
	case khatav1.Outcome_OUTCOME_POSTED:
		words = append(words, "posted")
	case khatav1.Outcome_OUTCOME_REFUSED:
		words = append(words, "refused", r.GetReason(), r.GetReasonAccount())
	default:
		words = append(words, r.GetOutcome().String())
	}
	return strings.Join(words, " ")
}

func outcomeOrFault(r *khatav1.PostTransfersResult) string {
	if r.GetError() != nil {
		return fault(status.FromProto(r.GetError()).Err())
	}
	return outcome(r.GetResult())
}

// fault describes an error as "InvalidArgument AMOUNT_SCALE amount,description": status, reason and fields. An error
// that does not carry what every error of the API carries is described so that it equals none.
func fault(err error) string {
	if err == nil {
		return "OK"
	}
	st := status.Convert(err)
	var reason, fields string
	infos := 0
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			infos++
			reason = d.GetReason()
			if d.GetDomain() != "khata" {
				reason += " of domain " + d.GetDomain()
			}
		case *errdetails.BadRequest:
			var names []string
			for _, v := range d.GetFieldViolations() {
				names = append(names, v.GetField())
				if v.GetDescription() == "" || !strings.Contains(st.Message(), v.GetDescription()) {
					reason += " (nothing said of " + v.GetField() + ")"
				}
			}
			fields = strings.Join(names, ",")
		case error:
			reason += " (unreadable detail: " + d.Error() + ")"
		}
	}
	if infos != 1 {
		reason = fmt.Sprintf("(%d ErrorInfo) %s", infos, st.Message())
	}
	return strings.TrimSpace(st.Code().String() + " " + reason + " " + fields)
}

func each[A, B any](list []A, f func(A) B) []B {
	out := make([]B, 0, len(list))
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}

// all goes through the pages of a listing.
func all[T any](t testing.TB, page func(token string) (rows []T, next string, err error)) []T {
	t.Helper()
	var list []T
	var tokens []string
	for token := ""; ; {
		rows, next, err := page(token)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, rows...)
		if next == "" {
			return list
		}
		if len(rows) == 0 || slices.Contains(tokens, next) {
			t.Fatalf("page after %q: %d rows and again the token %q", token, len(rows), next)
		}
		tokens = append(tokens, next)
		token = next
	}
}
