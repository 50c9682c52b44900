package grpcapi

import (
	"context"
	"slices"
	"strings"

	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// ConfirmMatch implements khata.v1.ReconcileService.
func (s *ReconcileService) ConfirmMatch(ctx context.Context, in *khatav1.ConfirmMatchRequest) (*khatav1.ConfirmMatchResponse, error) {
	spec, err := decodeConfirm(in)
	if err != nil {
		return nil, err
	}
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	spec.Ledger, spec.BankAccount = a.Ledger, a.Name
	d, err := s.reconciler.Confirm(ctx, spec, caller(ctx))
	if err != nil {
		return nil, calling(err, inTakes(amountsOf(in)))
	}
	return &khatav1.ConfirmMatchResponse{Decision: encodeDecision(d, a.Currency.Scale), Replayed: d.Replayed}, nil
}

// amountsOf is the field of the amount that a request asks for, or, if it asks for several, the field of all of them.
func amountsOf(in *khatav1.ConfirmMatchRequest) string {
	var asked []string
	for i, l := range in.GetLines() {
		if l.GetAmount() != "" {
			asked = append(asked, takeField("lines", i)+".amount")
		}
	}
	for i, e := range in.GetEntries() {
		if e.GetAmount() != "" {
			asked = append(asked, takeField("entries", i)+".amount")
		}
	}
	switch {
	case len(asked) == 1:
		return asked[0]
	case len(in.GetLines()) == 0 && len(asked) > 0:
		return "entries"
	}
	return "lines"
}

// inTakes calls the fields of lines and entries as the API does, where amount is about one of them.
func inTakes(amount string) func(string) string {
	return func(field string) string {
		switch {
		case field == "request":
			return "request_id"
		case field == "amount":
			return amount
		case strings.HasPrefix(field, "entries[") && strings.HasSuffix(field, ".transfer"):
			return field + "_id"
		}
		return field
	}
}

// IgnoreItem implements khata.v1.ReconcileService.
func (s *ReconcileService) IgnoreItem(ctx context.Context, in *khatav1.IgnoreItemRequest) (*khatav1.IgnoreItemResponse, error) {
	spec := reconcile.IgnoreSpec{Request: in.GetRequestId(), Reason: in.GetReason()}
	amount := "line.amount"
	if in.GetLine() != nil {
		line, err := decodeLineTake(in.GetLine(), "line")
		if err != nil {
			return nil, err
		}
		spec.Line = &line
	}
	if in.GetEntry() != nil {
		entry, err := decodeEntryTake(in.GetEntry(), "entry")
		if err != nil {
			return nil, err
		}
		spec.Entry, amount = &entry, "entry.amount"
	}
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	spec.Ledger, spec.BankAccount = a.Ledger, a.Name
	d, err := s.reconciler.Ignore(ctx, spec, caller(ctx))
	if err != nil {
		return nil, calling(err, func(field string) string {
			if field == "lines" {
				return "line"
			}
			field = inTakes(amount)(field)
			if rest, ok := strings.CutPrefix(field, "entries[0]"); ok {
				return "entry" + rest
			}
			return field
		})
	}
	return &khatav1.IgnoreItemResponse{Decision: encodeDecision(d, a.Currency.Scale), Replayed: d.Replayed}, nil
}

// UndoDecision implements khata.v1.ReconcileService.
func (s *ReconcileService) UndoDecision(ctx context.Context, in *khatav1.UndoDecisionRequest) (*khatav1.UndoDecisionResponse, error) {
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	d, err := s.reconciler.Unmatch(ctx, reconcile.UnmatchSpec{
		Ledger: a.Ledger, BankAccount: a.Name, Match: in.GetDecision(), Reason: in.GetReason(), ReverseDifference: in.GetReverseDifference(),
	}, caller(ctx))
	if err != nil {
		return nil, calling(err, called("match", "decision"))
	}
	return &khatav1.UndoDecisionResponse{Decision: encodeDecision(d, a.Currency.Scale), Replayed: d.Replayed}, nil
}

// ApproveDifference implements khata.v1.ReconcileService.
func (s *ReconcileService) ApproveDifference(ctx context.Context, in *khatav1.ApproveDifferenceRequest) (*khatav1.ApproveDifferenceResponse, error) {
	if in.GetDifference() == nil {
		return nil, ledger.Invalid("difference", "is required")
	}
	difference, err := decodeDifference(in.GetDifference())
	if err != nil {
		return nil, err
	}
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	d, err := s.reconciler.ApproveDifference(ctx, reconcile.ApproveSpec{
		Ledger: a.Ledger, BankAccount: a.Name, Match: in.GetDecision(), DifferenceSpec: *difference,
	}, caller(ctx))
	if err != nil {
		return nil, calling(err, called("match", "decision"))
	}
	return &khatav1.ApproveDifferenceResponse{Decision: encodeDecision(d, a.Currency.Scale), Replayed: d.Replayed}, nil
}

// GetDecision implements khata.v1.ReconcileService.
func (s *ReconcileService) GetDecision(ctx context.Context, in *khatav1.GetDecisionRequest) (*khatav1.GetDecisionResponse, error) {
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	d, err := s.reconciler.Decision(ctx, a.Ledger, a.Name, in.GetDecision())
	if err != nil {
		return nil, calling(err, called("match", "decision"))
	}
	return &khatav1.GetDecisionResponse{Decision: encodeDecision(d, a.Currency.Scale)}, nil
}

// decisionKinds are those that can be asked for; "" is all of them.
var decisionKinds = []string{"", "automatic", "manual", "ignored"}

// ListDecisions implements khata.v1.ReconcileService.
func (s *ReconcileService) ListDecisions(ctx context.Context, in *khatav1.ListDecisionsRequest) (*khatav1.ListDecisionsResponse, error) {
	limit, token, err := readPage(in)
	if err != nil {
		return nil, err
	}
	switch {
	case !slices.Contains(decisionKinds, in.GetKind()):
		return nil, ledger.Invalid("kind", "%.40q is none of %q", in.GetKind(), decisionKinds[1:])
	case in.GetLine() != 0 && in.GetSequence() != 0:
		return nil, ledger.Invalid("sequence", "and line cannot be given together")
	}
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	list, more, err := s.reconciler.Decisions(ctx, a.Ledger, a.Name, reconcile.DecisionFilter{
		Kind: in.GetKind(), Active: in.GetActive(), Line: in.GetLine(), Sequence: in.GetSequence(), Before: token.No, Limit: limit,
	})
	if err != nil {
		return nil, err
	}
	decisions := each(list, func(d *reconcile.Decision) *khatav1.Decision { return encodeDecision(d, a.Currency.Scale) })
	n := fitting(decisions)
	out := &khatav1.ListDecisionsResponse{Decisions: decisions[:n]}
	if more || n < len(decisions) {
		token.No = decisions[n-1].GetNo()
		out.NextPageToken = writeToken(token)
	}
	return out, nil
}
