package grpcapi

import (
	"context"

	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// MatchBankAccount implements khata.v1.ReconcileService.
func (s *ReconcileService) MatchBankAccount(ctx context.Context, in *khatav1.MatchBankAccountRequest) (*khatav1.MatchBankAccountResponse, error) {
	if in.GetRequestId() == "" { // Without one, an answer that is lost is a run that nobody knows of.
		return nil, ledger.Invalid("request_id", "is required")
	}
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	spec := reconcile.MatchSpec{Ledger: a.Ledger, BankAccount: a.Name, Request: in.GetRequestId()}
	run, err := s.reconciler.Match(ctx, spec, caller(ctx))
	if err != nil {
		return nil, calling(err, called("request", "request_id"))
	}
	return &khatav1.MatchBankAccountResponse{Run: encodeRun(run, a.Currency.Scale), Replayed: run.Replayed}, nil
}

// GetReconcileRun implements khata.v1.ReconcileService.
func (s *ReconcileService) GetReconcileRun(ctx context.Context, in *khatav1.GetReconcileRunRequest) (*khatav1.GetReconcileRunResponse, error) {
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	run, err := s.reconciler.Run(ctx, a.Ledger, a.Name, in.GetRun())
	if err != nil {
		return nil, err
	}
	return &khatav1.GetReconcileRunResponse{Run: encodeRun(run, a.Currency.Scale)}, nil
}

// ListReconcileRuns implements khata.v1.ReconcileService.
func (s *ReconcileService) ListReconcileRuns(ctx context.Context, in *khatav1.ListReconcileRunsRequest) (*khatav1.ListReconcileRunsResponse, error) {
	limit, token, err := readPage(in)
	if err != nil {
		return nil, err
	}
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	list, more, err := s.reconciler.Runs(ctx, a.Ledger, a.Name, int(token.No), limit)
	if err != nil {
		return nil, err
	}
	out := &khatav1.ListReconcileRunsResponse{}
	out.Runs = each(list, func(r *reconcile.Run) *khatav1.ReconcileRun { return encodeRun(r, a.Currency.Scale) })
	if more {
		token.No = int64(list[len(list)-1].Ordinal)
		out.NextPageToken = writeToken(token)
	}
	return out, nil
}

// RepeatReconcileRun implements khata.v1.ReconcileService.
func (s *ReconcileService) RepeatReconcileRun(ctx context.Context, in *khatav1.RepeatReconcileRunRequest) (*khatav1.RepeatReconcileRunResponse, error) {
	name, err := decodeLedger(in)
	if err != nil {
		return nil, err
	}
	differences, err := s.reconciler.Repeat(ctx, name, in.GetBankAccount(), in.GetRun())
	if err != nil {
		return nil, err
	}
	return &khatav1.RepeatReconcileRunResponse{Differences: differences}, nil
}

// ofRun is a request for a listing of a run.
type ofRun interface {
	listing
	ofBankAccount
	GetRun() int64
}

// runPage reads where a listing of a run is to go on. Pages are all of one run, also where the last one is asked for.
func (s *ReconcileService) runPage(ctx context.Context, in ofRun) (a *reconcile.BankAccount, limit int, token reconcileToken, err error) {
	if limit, token, err = readPage(in); err != nil {
		return nil, 0, token, err
	}
	if a, err = s.account(ctx, in); err != nil || token.Run != 0 {
		return a, limit, token, err
	}
	run, err := s.reconciler.Run(ctx, a.Ledger, a.Name, in.GetRun())
	if err != nil {
		return nil, 0, token, err
	}
	token.Run = run.No
	return a, limit, token, nil
}

// ListReconcileResults implements khata.v1.ReconcileService.
func (s *ReconcileService) ListReconcileResults(ctx context.Context, in *khatav1.ListReconcileResultsRequest) (*khatav1.ListReconcileResultsResponse,
	error) {
	a, limit, token, err := s.runPage(ctx, in)
	if err != nil {
		return nil, err
	}
	list, more, err := s.reconciler.Results(ctx, a.Ledger, a.Name, token.Run, reconcile.ResultFilter{
		Side: reconcile.Side(in.GetSide()), Outcomes: decodeOutcomes(in.GetOutcomes()), Suggested: in.GetSuggested(), Limit: limit,
		After: reconcile.ResultCursor{Entry: token.Entry, No: token.No, Leg: token.Leg},
	})
	if err != nil {
		return nil, err
	}
	results := each(list, encodeItem(a.Currency))
	n := fitting(results)
	out := &khatav1.ListReconcileResultsResponse{Results: results[:n]}
	if more || n < len(results) {
		last := results[n-1]
		token.Entry, token.No, token.Leg = last.GetLine() == nil, last.GetLine().GetNo(), 0
		if token.Entry {
			token.No, token.Leg = last.GetEntry().GetSequence(), int(last.GetEntry().GetLeg())
		}
		out.NextPageToken = writeToken(token)
	}
	return out, nil
}

// ListReconcileSuggestions implements khata.v1.ReconcileService.
func (s *ReconcileService) ListReconcileSuggestions(ctx context.Context, in *khatav1.ListReconcileSuggestionsRequest) (
	*khatav1.ListReconcileSuggestionsResponse, error) {
	a, limit, token, err := s.runPage(ctx, in)
	if err != nil {
		return nil, err
	}
	list, more, err := s.reconciler.Suggestions(ctx, a.Ledger, a.Name, token.Run, int(token.No), limit)
	if err != nil {
		return nil, err
	}
	suggestions := each(list, encodeSuggestion(a.Currency))
	n := fitting(suggestions)
	out := &khatav1.ListReconcileSuggestionsResponse{Suggestions: suggestions[:n]}
	if more || n < len(suggestions) {
		token.No = int64(suggestions[n-1].GetGroup())
		out.NextPageToken = writeToken(token)
	}
	return out, nil
}
