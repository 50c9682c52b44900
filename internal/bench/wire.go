package bench

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// The calls go through the generated stub and not through ledger/client: that one sends again what failed, and here every
// failure is to be seen. Requests are made once and filled again, so that the client takes little of the machine that it
// shares with what it measures.

const (
	maxMessage = 64 << 20 // the server's own limit
	// callTimeout bounds a call, so that a server that is stuck is seen as failures and not as silence.
	callTimeout = time.Minute
)

// wire is a bounded number of connections that all clients share, as those of a service would.
type wire struct {
	ledger string
	conns  []*grpc.ClientConn
	apis   []khatav1.LedgerServiceClient
}

func dial(address, ledger string, connections int) (*wire, error) {
	w := &wire{ledger: ledger}
	for range connections {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
		if err != nil {
			w.close()
			return nil, fmt.Errorf("server address %q: %w", address, err)
		}
		w.conns = append(w.conns, conn)
		w.apis = append(w.apis, khatav1.NewLedgerServiceClient(conn))
	}
	return w, nil
}

func (w *wire) close() {
	for _, conn := range w.conns {
		_ = conn.Close() // Nothing is under way any more.
	}
}

// of is the connection of a client by its number.
func (w *wire) of(client int) khatav1.LedgerServiceClient { return w.apis[client%len(w.apis)] }

// reports is the API of reports, on the first connection.
func (w *wire) reports() khatav1.ReportServiceClient {
	return khatav1.NewReportServiceClient(w.conns[0])
}

// patient gives a call its time, also after the run was interrupted: whoever has sent a transfer waits for the answer.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
}

// codeOf names the failure of a call: the ledger's code, or gRPC's where there is none.
func codeOf(err error) string { return codeOfStatus(status.Convert(err)) }

func codeOfStatus(st *status.Status) string {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return st.Code().String()
}

// What an answer can be that is no failure of the call, and was not expected all the same.
const (
	unexpectedReplay = "REPLAYED" // a new id that was not new
	unexpectedPost   = "POSTED"   // a duplicate that was posted again
	wrongBalance     = "WRONG_BALANCE"
)

// verdict is empty if a transfer was acknowledged as it should be: new ones are posted, and duplicates replayed.
func verdict(r *khatav1.TransferResult, err *rpcstatus.Status, duplicate bool) string {
	switch {
	case err != nil:
		return codeOfStatus(status.FromProto(err))
	case r.GetOutcome() != khatav1.Outcome_OUTCOME_POSTED:
		return "REFUSED_" + r.GetReason()
	case r.GetReplayed() && !duplicate:
		return unexpectedReplay
	case !r.GetReplayed() && duplicate:
		return unexpectedPost
	}
	return ""
}

// post sends one transfer.
func post(ctx context.Context, api khatav1.LedgerServiceClient, req *khatav1.PostTransferRequest, duplicate bool) (o outcome) {
	ctx, cancel := patient(ctx)
	defer cancel()
	resp, err := api.PostTransfer(ctx, req)
	if err != nil {
		o.fail(codeOf(err))
	} else if code := verdict(resp.GetResult(), nil, duplicate); code != "" {
		o.fail(code)
	} else {
		o.transfers = 1
	}
	return o
}

// postBatch sends many transfers in one call. What failed is counted by transfer, or once if it was the call.
func postBatch(ctx context.Context, api khatav1.LedgerServiceClient, req *khatav1.PostTransfersRequest, duplicate bool) (o outcome) {
	ctx, cancel := patient(ctx)
	defer cancel()
	resp, err := api.PostTransfers(ctx, req)
	if err != nil {
		o.fail(codeOf(err))
		return o
	}
	for _, r := range resp.GetResults() {
		if code := verdict(r.GetResult(), r.GetError(), duplicate); code != "" {
			o.fail(code)
		} else {
			o.transfers++
		}
	}
	return o
}

// makeAccounts makes accounts in calls of as many as the API takes.
func (w *wire) makeAccounts(ctx context.Context, names []string, kind khatav1.AccountType, floored bool) error {
	floor := "0"
	for len(names) > 0 {
		n := min(len(names), ledger.MaxTransfersPerCall)
		req := &khatav1.CreateAccountsRequest{Ledger: w.ledger}
		for _, name := range names[:n] {
			account := &khatav1.NewAccount{Account: name, Type: kind, Currency: currency}
			if floored {
				account.Floor = &floor
			}
			req.Accounts = append(req.Accounts, account)
		}
		if err := w.create(ctx, req); err != nil {
			return fmt.Errorf("make accounts: %w", err)
		}
		names = names[n:]
	}
	return nil
}

func (w *wire) create(ctx context.Context, req *khatav1.CreateAccountsRequest) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := w.of(0).CreateAccounts(ctx, req)
	return err
}

func (w *wire) makeLedger(ctx context.Context) error {
	const patience = 10 * time.Second // The server may have only just begun to listen.
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := w.of(0).CreateLedger(ctx, &khatav1.CreateLedgerRequest{Name: w.ledger}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("make ledger %s: %w", w.ledger, err)
	}
	return nil
}
