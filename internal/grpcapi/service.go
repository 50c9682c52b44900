package grpcapi

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/proto"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// MaxMessage is the most bytes of a request or an answer. Ten thousand ordinary transfers take three to five MiB; calls
// with much metadata have to hold fewer.
const MaxMessage = 64 << 20

// Service serves khata.v1.LedgerService from a journal.
type Service struct {
	khatav1.UnimplementedLedgerServiceServer
	journal *journal.Journal
}

// Config is how to serve.
type Config struct {
	// Callers says who is calling; nil asks nobody, and lets everyone do everything.
	Callers *auth.Authenticator
	// Limiter bounds how often each caller calls; nil does not.
	Limiter *auth.Limiter
	// Denied, if it is not nil, is told of each call that is not let in.
	Denied func(ledger.Code)
	// Reports makes what khata.v1.ReportService serves; nil leaves that service out.
	Reports Reports
	// Reconciler does what khata.v1.ReconcileService serves; nil leaves that service out.
	Reconciler Reconciler
	// Suspects and Desk do what khata.v1.SupportService serves; nil leaves that service out.
	Suspects Suspects
	Desk     Desk
	// TLS encrypts; nil is plain text. With client certificates it verifies them.
	TLS *tls.Config
	// Logger gets what callers are not told. Required.
	Logger *slog.Logger
}

// New makes a gRPC server with the services on it, and nothing else; the caller adds health and reflection.
func New(j *journal.Journal, config Config) *grpc.Server {
	return newServer(j, config, streamPatience, uploadTime)
}

// newServer makes one that waits for a caller for as long as patience, and for a file for as long as uploadTime.
func newServer(j *journal.Journal, config Config, patience, uploadTime time.Duration) *grpc.Server {
	guard := guard{callers: config.Callers, limiter: config.Limiter, denied: config.Denied, log: config.Logger}
	options := []grpc.ServerOption{
		// Calls are served by goroutines that are there already, whose stacks have grown: 15 % of the cost of a small call.
		grpc.NumStreamWorkers(256),
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")}),
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage),
		grpc.ChainUnaryInterceptor(errorInterceptor(config.Logger), panicInterceptor(config.Logger), guard.unary),
		grpc.ChainStreamInterceptor(streamErrorInterceptor(config.Logger), streamPanicInterceptor(config.Logger), guard.stream),
		// A handshake that somebody does not finish is given up. gRPC's own default is two minutes.
		grpc.ConnectionTimeout(10 * time.Second),
	}
	if config.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config.TLS)))
	}
	server := grpc.NewServer(options...)
	desc := typedDecoding(khatav1.LedgerService_ServiceDesc, guard.admit)
	server.RegisterService(&desc, &Service{journal: j})
	if config.Reports != nil {
		desc := typedDecoding(khatav1.ReportService_ServiceDesc, guard.admit)
		server.RegisterService(&desc, &ReportService{reports: config.Reports, patience: patience})
	}
	if config.Reconciler != nil {
		desc := typedDecoding(khatav1.ReconcileService_ServiceDesc, guard.admit)
		server.RegisterService(&desc, &ReconcileService{
			reconciler: config.Reconciler, patience: patience, uploadTime: uploadTime,
		})
	}
	if config.Suspects != nil && config.Desk != nil {
		desc := typedDecoding(khatav1.SupportService_ServiceDesc, guard.admit)
		server.RegisterService(&desc, &SupportService{suspects: config.Suspects, desk: config.Desk})
	}
	return server
}

// CreateLedger implements khata.v1.LedgerService.
func (s *Service) CreateLedger(ctx context.Context, in *khatav1.CreateLedgerRequest) (*khatav1.CreateLedgerResponse, error) {
	l, err := s.journal.CreateLedger(ctx, caller(ctx), ledger.Name(in.GetName()))
	if err != nil {
		return nil, err
	}
	return &khatav1.CreateLedgerResponse{Ledger: encodeLedger(l)}, nil
}

// ListLedgers implements khata.v1.LedgerService.
func (s *Service) ListLedgers(ctx context.Context, _ *khatav1.ListLedgersRequest) (*khatav1.ListLedgersResponse, error) {
	list, err := s.journal.Ledgers(ctx)
	if err != nil {
		return nil, err
	}
	id, _ := auth.From(ctx)
	list = slices.DeleteFunc(list, func(l journal.Ledger) bool { return id.Grants.On(l.Name) == 0 })
	return &khatav1.ListLedgersResponse{Ledgers: each(list, encodeLedger)}, nil
}

// RegisterCurrency implements khata.v1.LedgerService.
func (s *Service) RegisterCurrency(ctx context.Context, in *khatav1.RegisterCurrencyRequest) (*khatav1.RegisterCurrencyResponse, error) {
	currency := ledger.Currency{Code: ledger.CurrencyCode(in.GetCurrency().GetCode()), Scale: in.GetCurrency().GetScale()}
	if err := s.journal.RegisterCurrency(ctx, ledger.Name(in.GetLedger()), currency); err != nil {
		return nil, err
	}
	return &khatav1.RegisterCurrencyResponse{Currency: encodeCurrency(currency)}, nil
}

// ListCurrencies implements khata.v1.LedgerService.
func (s *Service) ListCurrencies(ctx context.Context, in *khatav1.ListCurrenciesRequest) (*khatav1.ListCurrenciesResponse, error) {
	list, err := s.journal.Currencies(ctx, ledger.Name(in.GetLedger()))
	if err != nil {
		return nil, err
	}
	return &khatav1.ListCurrenciesResponse{Currencies: each(list, encodeCurrency)}, nil
}

// CreateAccount implements khata.v1.LedgerService.
func (s *Service) CreateAccount(ctx context.Context, in *khatav1.CreateAccountRequest) (*khatav1.CreateAccountResponse, error) {
	spec, err := decodeAccount(in.GetAccount())
	if err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	created, err := s.journal.CreateAccounts(ctx, caller(ctx), ledger.Name(in.GetLedger()), []ledger.AccountSpec{spec})
	if err != nil {
		return nil, ledger.Within("accounts[0].", err)
	}
	return encodeCreated(created[0]), nil
}

// CreateAccounts implements khata.v1.LedgerService.
func (s *Service) CreateAccounts(ctx context.Context, in *khatav1.CreateAccountsRequest) (*khatav1.CreateAccountsResponse, error) {
	specs := make([]ledger.AccountSpec, len(in.GetAccounts()))
	for i, a := range in.GetAccounts() {
		var err error
		if specs[i], err = decodeAccount(a); err != nil {
			return nil, ledger.At(fmt.Sprintf("accounts[%d]", i), err)
		}
	}
	created, err := s.journal.CreateAccounts(ctx, caller(ctx), ledger.Name(in.GetLedger()), specs)
	if err != nil {
		return nil, err
	}
	return &khatav1.CreateAccountsResponse{Results: each(created, encodeCreated)}, nil
}

// GetAccount implements khata.v1.LedgerService.
func (s *Service) GetAccount(ctx context.Context, in *khatav1.GetAccountRequest) (*khatav1.GetAccountResponse, error) {
	a, err := s.journal.Account(ctx, ledger.Name(in.GetLedger()), ledger.AccountID(in.GetAccount()))
	if err != nil {
		return nil, err
	}
	return &khatav1.GetAccountResponse{Account: wire.Account(a)}, nil
}

// ListAccounts implements khata.v1.LedgerService.
func (s *Service) ListAccounts(ctx context.Context, in *khatav1.ListAccountsRequest) (*khatav1.ListAccountsResponse, error) {
	limit, err := pageSize(in.GetPageSize())
	if err != nil {
		return nil, err
	}
	var after accountToken
	if err := readToken(in.GetPageToken(), &after); err != nil {
		return nil, err
	}
	list, err := s.journal.Accounts(ctx, ledger.Name(in.GetLedger()), in.GetPrefix(), after.Account, limit+1)
	if err != nil {
		return nil, err
	}
	out := &khatav1.ListAccountsResponse{}
	if len(list) > limit {
		list = list[:limit]
		out.NextPageToken = writeToken(accountToken{Account: list[limit-1].ID})
	}
	out.Accounts = each(list, wire.Account)
	return out, nil
}

// UpdateAccount implements khata.v1.LedgerService.
func (s *Service) UpdateAccount(ctx context.Context, in *khatav1.UpdateAccountRequest) (*khatav1.UpdateAccountResponse, error) {
	update, err := decodeUpdate(in)
	if err != nil {
		return nil, err
	}
	a, err := s.journal.UpdateAccount(ctx, caller(ctx), ledger.Name(in.GetLedger()), ledger.AccountID(in.GetAccount()), update)
	if err != nil {
		return nil, err
	}
	return &khatav1.UpdateAccountResponse{Account: wire.Account(a)}, nil
}

// PostTransfer implements khata.v1.LedgerService.
func (s *Service) PostTransfer(ctx context.Context, in *khatav1.PostTransferRequest) (*khatav1.PostTransferResponse, error) {
	results, err := s.post(ctx, in.GetLedger(), []*khatav1.NewTransfer{in.GetTransfer()}, in.GetIncludeBalances())
	if err != nil {
		return nil, err
	}
	if results[0].Err != nil {
		return nil, results[0].Err
	}
	return &khatav1.PostTransferResponse{Result: encodeResult(results[0])}, nil
}

// PostTransfers implements khata.v1.LedgerService.
func (s *Service) PostTransfers(ctx context.Context, in *khatav1.PostTransfersRequest) (*khatav1.PostTransfersResponse, error) {
	post := s.post
	if in.GetAtomic() {
		post = s.postAtomically
	}
	results, err := post(ctx, in.GetLedger(), in.GetTransfers(), in.GetIncludeBalances())
	if err != nil {
		return nil, err
	}
	out := &khatav1.PostTransfersResponse{Results: each(results, func(r journal.PostResult) *khatav1.PostTransfersResult {
		if r.Err != nil {
			return &khatav1.PostTransfersResult{Kind: &khatav1.PostTransfersResult_Error{Error: toStatus(r.Err).Proto()}}
		}
		return &khatav1.PostTransfersResult{Kind: &khatav1.PostTransfersResult_Result{Result: encodeResult(r)}}
	})}
	shorten(out)
	return out, nil
}

// shorten makes an answer fit into a message. It has all happened, and must be told: balances and entries can be asked for again,
// outcomes are what the call is for.
func shorten(out *khatav1.PostTransfersResponse) {
	long := func(r *khatav1.PostTransfersResult) bool {
		return len(r.GetResult().GetBalances())+len(r.GetResult().GetEntries()) > 0
	}
	if !slices.ContainsFunc(out.GetResults(), long) || proto.Size(out) <= MaxMessage {
		return
	}
	for _, r := range out.GetResults() {
		if result := r.GetResult(); result != nil {
			result.Balances = nil
		}
	}
	if proto.Size(out) <= MaxMessage {
		return
	}
	for _, r := range out.GetResults() {
		if result := r.GetResult(); len(result.GetEntries()) > 2 { // Of a refund or reversal: those of others are two.
			result.Entries = nil
		}
	}
}

// post decodes requests and has the well-formed ones decided; a malformed one does not fail its neighbours.
func (s *Service) post(ctx context.Context, name string, in []*khatav1.NewTransfer, withBalances bool) ([]journal.PostResult, error) {
	if len(in) > ledger.MaxTransfersPerCall {
		return nil, ledger.Invalid("transfers", "has %d transfers, at most %d are allowed in a call", len(in), ledger.MaxTransfersPerCall)
	}
	results := make([]journal.PostResult, len(in))
	var specs []ledger.TransferSpec
	var places []int
	for i, t := range in {
		spec, err := decodeTransfer(t)
		if err != nil {
			results[i].Err = err
			continue
		}
		specs, places = append(specs, spec), append(places, i)
	}
	ctx = s.journal.WithBudget(ctx)
	decided, err := s.journal.Post(ctx, caller(ctx), ledger.Name(name), specs)
	if err == nil {
		err = s.addBalances(ctx, name, decided, withBalances)
	}
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		results[place] = decided[i]
	}
	return results, nil
}

// postAtomically decodes requests and has them decided all or nothing. One that cannot be decoded is the end of all.
func (s *Service) postAtomically(ctx context.Context, name string, in []*khatav1.NewTransfer, withBalances bool) ([]journal.PostResult, error) {
	if len(in) > ledger.MaxTransfersPerCall {
		return nil, ledger.Invalid("transfers", "has %d transfers, which is more than an atomic call can have", len(in))
	}
	specs := make([]ledger.TransferSpec, len(in))
	faults := make([]error, len(in))
	culprit := -1
	for i, t := range in {
		if specs[i], faults[i] = decodeTransfer(t); faults[i] != nil && culprit < 0 {
			culprit = i
		}
	}
	if culprit >= 0 {
		specs = nil // The journal still says whether there is such a ledger.
	}
	ctx = s.journal.WithBudget(ctx)
	results, err := s.journal.PostAtomically(ctx, caller(ctx), ledger.Name(name), specs)
	if err == nil {
		err = s.addBalances(ctx, name, results, withBalances)
	}
	if err != nil || culprit < 0 {
		return results, err
	}
	results = make([]journal.PostResult, len(in))
	for i := range results {
		if results[i].Err = faults[i]; faults[i] == nil {
			results[i].Err = ledger.AtomicCallRefused(culprit, faults[culprit])
		}
	}
	return results, nil
}

func (s *Service) addBalances(ctx context.Context, name string, results []journal.PostResult, wanted bool) error {
	if !wanted {
		return nil
	}
	return s.journal.WithBalances(ctx, ledger.Name(name), results)
}

// GetTransfer implements khata.v1.LedgerService.
func (s *Service) GetTransfer(ctx context.Context, in *khatav1.GetTransferRequest) (*khatav1.GetTransferResponse, error) {
	name := ledger.Name(in.GetLedger())
	t, progress, err := s.journal.Transfer(ctx, name, ledger.TransferID(in.GetTransferId()))
	if err != nil {
		return nil, err
	}
	return &khatav1.GetTransferResponse{Transfer: wire.Transfer(name, t), Progress: encodeProgress(t, progress)}, nil
}

// ListHolds implements khata.v1.LedgerService.
func (s *Service) ListHolds(ctx context.Context, in *khatav1.ListHoldsRequest) (*khatav1.ListHoldsResponse, error) {
	limit, err := pageSize(in.GetPageSize())
	if err != nil {
		return nil, err
	}
	name, token := ledger.Name(in.GetLedger()), holdToken{}
	if in.GetPageToken() == "" {
		token.Account = ledger.AccountID(in.GetAccount())
	}
	if err := readToken(in.GetPageToken(), &token); err != nil {
		return nil, err
	}
	if token.Account != ledger.AccountID(in.GetAccount()) {
		return nil, ledger.Invalid("page_token", "is of a listing of another account")
	}
	holds, more, err := s.journal.OpenHolds(ctx, name, token.Account, token.Sequence, limit)
	if err != nil {
		return nil, err
	}
	out := &khatav1.ListHoldsResponse{Holds: each(holds, encodeHold(name))}
	if more {
		token.Sequence = holds[len(holds)-1].Sequence
		out.NextPageToken = writeToken(token)
	}
	return out, nil
}

// GetBalance implements khata.v1.LedgerService.
func (s *Service) GetBalance(ctx context.Context, in *khatav1.GetBalanceRequest) (*khatav1.GetBalanceResponse, error) {
	at, err := decodeAsOf(in.AsOfSequence, in.GetAsOfPostedAt(), in.GetAsOfEffectiveAt())
	if err != nil {
		return nil, err
	}
	balances, err := s.journal.BalancesAsOf(ctx, ledger.Name(in.GetLedger()), []ledger.AccountID{ledger.AccountID(in.GetAccount())}, at)
	if err != nil {
		return nil, err
	}
	return &khatav1.GetBalanceResponse{Balance: encodeBalance(balances[0])}, nil
}

// GetBalances implements khata.v1.LedgerService.
func (s *Service) GetBalances(ctx context.Context, in *khatav1.GetBalancesRequest) (*khatav1.GetBalancesResponse, error) {
	at, err := decodeAsOf(in.AsOfSequence, in.GetAsOfPostedAt(), in.GetAsOfEffectiveAt())
	if err != nil {
		return nil, err
	}
	ids := each(in.GetAccounts(), func(id string) ledger.AccountID { return ledger.AccountID(id) })
	balances, err := s.journal.BalancesAsOf(ctx, ledger.Name(in.GetLedger()), ids, at)
	if err != nil {
		return nil, err
	}
	return &khatav1.GetBalancesResponse{Balances: each(balances, encodeBalance)}, nil
}

// ListEntries implements khata.v1.LedgerService.
func (s *Service) ListEntries(ctx context.Context, in *khatav1.ListEntriesRequest) (*khatav1.ListEntriesResponse, error) {
	limit, err := pageSize(in.GetPageSize())
	if err != nil {
		return nil, err
	}
	id := ledger.AccountID(in.GetAccount())
	var token entryToken
	if in.GetPageToken() == "" {
		token = entryToken{Account: id, NewestFirst: in.GetNewestFirst()}
	}
	if err := readToken(in.GetPageToken(), &token); err != nil {
		return nil, err
	}
	if token.Account != id || token.NewestFirst != in.GetNewestFirst() {
		return nil, ledger.Invalid("page_token", "is of a listing of another account or in another order")
	}
	after := journal.EntryCursor{Sequence: token.Sequence, Leg: token.Leg}
	page, err := s.journal.Entries(ctx, ledger.Name(in.GetLedger()), id, after, token.NewestFirst, limit)
	if err != nil {
		return nil, err
	}
	out := &khatav1.ListEntriesResponse{Account: string(id), Currency: string(page.Currency.Code)}
	for _, e := range page.Entries {
		out.Entries = append(out.Entries, encodeEntry(e, page.Currency.Scale))
	}
	if page.More {
		last := page.Entries[len(page.Entries)-1].Cursor
		token.Sequence, token.Leg = last.Sequence, last.Leg
		out.NextPageToken = writeToken(token)
	}
	return out, nil
}

func each[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}
