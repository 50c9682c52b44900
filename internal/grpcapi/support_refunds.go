package grpcapi

import (
	"context"

	"github.com/shopspring/decimal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

var (
	refundReasonsOut = wire.Invert(wire.RefundReasons)

	refundApprovals = map[support.Approval]khatav1.RefundApproval{
		support.ApprovalNone: khatav1.RefundApproval_REFUND_APPROVAL_NONE, support.ApprovalNoLimit: khatav1.RefundApproval_REFUND_APPROVAL_NO_LIMIT,
		support.ApprovalAboveSingle: khatav1.RefundApproval_REFUND_APPROVAL_ABOVE_SINGLE,
		support.ApprovalAboveDaily:  khatav1.RefundApproval_REFUND_APPROVAL_ABOVE_DAILY,
	}
	refundStates = map[khatav1.RefundState]support.State{
		khatav1.RefundState_REFUND_STATE_WAITING: support.Waiting, khatav1.RefundState_REFUND_STATE_READY: support.Ready,
		khatav1.RefundState_REFUND_STATE_POSTED: support.Posted, khatav1.RefundState_REFUND_STATE_REFUSED: support.RefusedByBooks,
		khatav1.RefundState_REFUND_STATE_REJECTED: support.Rejected, khatav1.RefundState_REFUND_STATE_WITHDRAWN: support.Withdrawn,
		khatav1.RefundState_REFUND_STATE_EXPIRED: support.Expired,
	}
	refundStatesOut = wire.Invert(refundStates)
	refundVerdicts  = map[khatav1.RefundVerdict]support.Verdict{
		khatav1.RefundVerdict_REFUND_VERDICT_APPROVE: support.Approve, khatav1.RefundVerdict_REFUND_VERDICT_REJECT: support.Reject,
		khatav1.RefundVerdict_REFUND_VERDICT_WITHDRAW: support.Withdraw,
	}
	refundVerdictsOut = wire.Invert(refundVerdicts)
)

// GetRefundForm implements khata.v1.SupportService.
func (s *SupportService) GetRefundForm(ctx context.Context, in *khatav1.GetRefundFormRequest) (*khatav1.GetRefundFormResponse, error) {
	name, err := supportLedger(in)
	if err != nil {
		return nil, err
	}
	f, err := s.desk.Form(ctx, actor(ctx), name, ledger.TransferID(in.GetTransferId()))
	if err != nil {
		return nil, err
	}
	out := &khatav1.RefundForm{Key: f.Key, Transfer: wire.Transfer(name, f.Transfer), Currency: string(f.Currency.Code), Warnings: f.Warnings}
	if f.Currency.Code != "" {
		format := func(amount decimal.Decimal) string { return ledger.FormatAmount(amount, f.Currency.Scale) }
		out.Refunded, out.Refundable, out.Alone = format(f.Refunded), format(f.Refundable), format(f.Alone)
	}
	if f.Closed != nil {
		out.Closed, out.ClosedMessage = string(f.Closed.Code), f.Closed.Message
	}
	if f.Limit.Version > 0 {
		out.Limit = encodeRefundLimit(f.Limit)
	}
	for i := range f.Requests {
		out.Requests = append(out.Requests, encodeRefundRequest(&f.Requests[i]))
	}
	return &khatav1.GetRefundFormResponse{Form: out}, nil
}

// RequestRefund implements khata.v1.SupportService.
func (s *SupportService) RequestRefund(ctx context.Context, in *khatav1.RequestRefundRequest) (*khatav1.RequestRefundResponse, error) {
	spec := support.RefundSpec{
		Key: in.GetKey(), Transfer: ledger.TransferID(in.GetTransferId()), Reason: wire.RefundReasons[in.GetReason()], Note: in.GetNote(), Ticket: in.GetTicket(),
	}
	var err error
	if spec.Ledger, err = supportLedger(in); err != nil {
		return nil, err
	}
	if in.GetAmount() == "" {
		return nil, ledger.Invalid("amount", "is required: all that is left is the number that the form shows")
	}
	if spec.Amount, err = ledger.ParseAmount(in.GetAmount(), "amount"); err != nil {
		return nil, err
	}
	// Left out it must not become zero: who does not know what was refunded before has not looked.
	if spec.ExpectedRefunded, err = decodeRequired(in.GetExpectedRefunded(), "expected_refunded"); err != nil {
		return nil, err
	}
	r, err := s.desk.Request(ctx, actor(ctx), spec)
	if err != nil {
		return nil, err
	}
	return &khatav1.RequestRefundResponse{Request: encodeRefundRequest(r), Replayed: r.Replayed}, nil
}

// DecideRefund implements khata.v1.SupportService.
func (s *SupportService) DecideRefund(ctx context.Context, in *khatav1.DecideRefundRequest) (*khatav1.DecideRefundResponse, error) {
	name, err := supportLedger(in)
	if err != nil {
		return nil, err
	}
	verdict, ok := refundVerdicts[in.GetVerdict()]
	if !ok {
		return nil, ledger.Invalid("verdict", "is required: APPROVE, REJECT or WITHDRAW")
	}
	r, err := s.desk.Decide(ctx, actor(ctx), support.DecisionSpec{
		Ledger: name, Number: in.GetNumber(), SHA256: in.GetSha256(), Verdict: verdict, Note: in.GetNote(),
	})
	if err != nil {
		return nil, err
	}
	return &khatav1.DecideRefundResponse{Request: encodeRefundRequest(r), Replayed: r.Replayed}, nil
}

// GetRefundRequest implements khata.v1.SupportService.
func (s *SupportService) GetRefundRequest(ctx context.Context, in *khatav1.GetRefundRequestRequest) (*khatav1.GetRefundRequestResponse, error) {
	name, err := supportLedger(in)
	if err != nil {
		return nil, err
	}
	r, err := s.desk.Refund(ctx, actor(ctx), name, in.GetNumber())
	if err != nil {
		return nil, err
	}
	return &khatav1.GetRefundRequestResponse{Request: encodeRefundRequest(r)}, nil
}

// ListRefundRequests implements khata.v1.SupportService.
func (s *SupportService) ListRefundRequests(
	ctx context.Context, in *khatav1.ListRefundRequestsRequest,
) (*khatav1.ListRefundRequestsResponse, error) {
	name, err := supportLedger(in)
	if err != nil {
		return nil, err
	}
	limit, token, err := readSupportPage(in, maxDeskPage, maxDeskPage)
	if err != nil {
		return nil, err
	}
	wanted := map[support.State]bool{}
	for _, state := range in.GetStates() {
		known, ok := refundStates[state]
		if !ok {
			return nil, ledger.Invalid("states", "%d is no state", state)
		}
		wanted[known] = true
	}
	list, err := s.desk.Refunds(ctx, actor(ctx), support.RefundFilter{
		Ledger: name, Transfer: ledger.TransferID(in.GetTransferId()), Before: token.No, Limit: limit,
	})
	if err != nil {
		return nil, err
	}
	out := &khatav1.ListRefundRequestsResponse{}
	for i := range list {
		if len(wanted) == 0 || wanted[list[i].State] {
			out.Requests = append(out.Requests, encodeRefundRequest(&list[i]))
		}
	}
	if len(list) == limit {
		out.NextPageToken = writeToken(supportToken{Of: token.Of, No: list[len(list)-1].Number})
	}
	return out, nil
}

// SetRefundLimit implements khata.v1.SupportService.
func (s *SupportService) SetRefundLimit(ctx context.Context, in *khatav1.SetRefundLimitRequest) (*khatav1.SetRefundLimitResponse, error) {
	spec := support.LimitSpec{Currency: ledger.CurrencyCode(in.GetCurrency()), Reason: in.GetReason()}
	var err error
	if spec.Ledger, err = supportLedger(in); err != nil {
		return nil, err
	}
	if err := spec.Currency.Validate("currency"); err != nil {
		return nil, err
	}
	if spec.Single, err = decodeRequired(in.GetSingle(), "single"); err != nil {
		return nil, err
	}
	if spec.Daily, err = decodeRequired(in.GetDaily(), "daily"); err != nil {
		return nil, err
	}
	limit, err := s.desk.SetLimit(ctx, actor(ctx), spec)
	if err != nil {
		return nil, err
	}
	return &khatav1.SetRefundLimitResponse{Limit: encodeRefundLimit(*limit)}, nil
}

// ListRefundLimits implements khata.v1.SupportService.
func (s *SupportService) ListRefundLimits(ctx context.Context, in *khatav1.ListRefundLimitsRequest) (*khatav1.ListRefundLimitsResponse, error) {
	name, err := supportLedger(in)
	if err != nil {
		return nil, err
	}
	currency := ledger.CurrencyCode(in.GetCurrency())
	if currency != "" {
		if err := currency.Validate("currency"); err != nil {
			return nil, err
		}
	}
	list, err := s.desk.Limits(ctx, name, currency)
	if err != nil {
		return nil, err
	}
	return &khatav1.ListRefundLimitsResponse{Limits: each(list, encodeRefundLimit)}, nil
}

func encodeRefundLimit(l support.Limit) *khatav1.RefundLimit {
	return &khatav1.RefundLimit{
		Currency: string(l.Currency.Code), Version: int32(l.Version), Single: ledger.FormatAmount(l.Single, l.Currency.Scale), //nolint:gosec // a count
		Daily: ledger.FormatAmount(l.Daily, l.Currency.Scale), Reason: l.Reason, SetAt: timestamppb.New(l.SetAt), SetBy: l.SetBy,
	}
}

func encodeRefundRequest(r *support.Refund) *khatav1.RefundRequest {
	out := &khatav1.RefundRequest{
		Ledger: string(r.Ledger), Number: r.Number, Key: r.Key, TransferId: string(r.Original), Amount: ledger.FormatAmount(r.Amount, r.Currency.Scale),
		Currency: string(r.Currency.Code), ExpectedRefunded: ledger.FormatAmount(r.ExpectedRefunded, r.Currency.Scale), Reason: refundReasonsOut[r.Reason],
		Note: r.Note, Ticket: r.Ticket, Maker: r.Maker, MadeAt: timestamppb.New(r.MadeAt), ExpiresAt: timestamppb.New(r.ExpiresAt),
		Approval: refundApprovals[r.Approval], LimitVersion: int32(r.LimitVersion), Sha256: r.SHA256, State: refundStatesOut[r.State], //nolint:gosec // a count
		RefundTransferId: string(r.Transfer), Refusal: string(r.Code), RefusalMessage: r.Message, SettledAt: wire.Time(r.SettledAt),
		Warnings: r.Warnings, Obstacle: r.Obstacle,
	}
	if p := r.Payment; p != nil {
		out.Transfer, out.Progress = wire.Transfer(r.Ledger, p.Transfer), encodeProgress(p.Transfer, p.Progress)
	}
	if d := r.Decision; d != nil {
		out.Decision = &khatav1.RefundDecision{Verdict: refundVerdictsOut[d.Verdict], DecidedBy: d.By, DecidedAt: timestamppb.New(d.At), Note: d.Note}
	}
	return out
}
