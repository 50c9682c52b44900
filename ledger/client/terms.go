package client

import (
	"context"
	"iter"

	"github.com/shopspring/decimal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

var refundReasons = map[ledger.RefundReason]khatav1.RefundReason{
	ledger.ReasonDuplicate:           khatav1.RefundReason_REFUND_REASON_DUPLICATE,
	ledger.ReasonRequestedByCustomer: khatav1.RefundReason_REFUND_REASON_REQUESTED_BY_CUSTOMER,
	ledger.ReasonFraudSuspected:      khatav1.RefundReason_REFUND_REASON_FRAUD_SUSPECTED,
	ledger.ReasonGoodsNotReceived:    khatav1.RefundReason_REFUND_REASON_GOODS_NOT_RECEIVED,
	ledger.ReasonWrongAmount:         khatav1.RefundReason_REFUND_REASON_WRONG_AMOUNT,
	ledger.ReasonWrongRecipient:      khatav1.RefundReason_REFUND_REASON_WRONG_RECIPIENT,
	ledger.ReasonServiceFailure:      khatav1.RefundReason_REFUND_REASON_SERVICE_FAILURE,
	ledger.ReasonGoodwill:            khatav1.RefundReason_REFUND_REASON_GOODWILL,
	ledger.ReasonTechnicalError:      khatav1.RefundReason_REFUND_REASON_TECHNICAL_ERROR,
	ledger.ReasonOther:               khatav1.RefundReason_REFUND_REASON_OTHER,
}

var holdStates = map[ledger.HoldState]khatav1.HoldState{
	ledger.HoldOpen: khatav1.HoldState_HOLD_STATE_OPEN, ledger.HoldCaptured: khatav1.HoldState_HOLD_STATE_CAPTURED,
	ledger.HoldVoided: khatav1.HoldState_HOLD_STATE_VOIDED, ledger.HoldExpired: khatav1.HoldState_HOLD_STATE_EXPIRED,
}

// OpenHold is a hold of which something is still reserved.
type OpenHold struct {
	Transfer ledger.Transfer
	Progress ledger.Progress
}

// Holds goes through the open holds of an account, on either side, in the order of decision. It ends after an error.
func (c *Client) Holds(ctx context.Context, id ledger.AccountID) iter.Seq2[OpenHold, error] {
	return func(yield func(OpenHold, error) bool) {
		req := &khatav1.ListHoldsRequest{Ledger: string(c.options.Ledger), Account: string(id)}
		for {
			resp, err := call(ctx, c, c.api.ListHolds, req)
			if err != nil {
				yield(OpenHold{}, err)
				return
			}
			for _, in := range resp.GetHolds() {
				if h, err := decodeHold(in); !yield(h, err) || err != nil {
					return
				}
			}
			if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
				return
			}
		}
	}
}

func decodeHold(in *khatav1.OpenHold) (OpenHold, error) {
	t, err := decodeTransfer(in.GetTransfer())
	if err != nil {
		return OpenHold{}, err
	}
	p, err := decodeProgress(in.GetProgress(), t.Entries)
	if err != nil || p == nil {
		return OpenHold{Transfer: t}, err
	}
	return OpenHold{Transfer: t, Progress: *p}, nil
}

// TransferWithProgress gets the record of a decided transfer and what has become of it since; nil where nothing can: of a refused
// transfer, and of a void, expiry, refund or reversal. It returns CodeTransferNotFound.
//
// Steps has at most the first 1,000 of them.
func (c *Client) TransferWithProgress(ctx context.Context, id ledger.TransferID) (ledger.Transfer, *ledger.Progress, error) {
	resp, err := call(ctx, c, c.api.GetTransfer, &khatav1.GetTransferRequest{
		Ledger: string(c.options.Ledger), TransferId: string(id),
	})
	if err != nil {
		return ledger.Transfer{}, nil, err
	}
	t, err := decodeTransfer(resp.GetTransfer())
	if err != nil {
		return ledger.Transfer{}, nil, err
	}
	p, err := decodeProgress(resp.GetProgress(), t.Entries)
	return t, p, err
}

// knowsTerms returns CodeInvalidArgument unless the server knows kinds of transfers and atomic calls. To one that does not they are
// unknown fields, which it ignores: it would move what was to be held. So the first request of that sort is preceded by a call
// that such a server does not have. All servers behind one address must be new enough before clients use what is new.
func (c *Client) knowsTerms(ctx context.Context) error {
	if c.isNew.Load() {
		return nil
	}
	old := false
	probe := func(ctx context.Context, req *khatav1.ListHoldsRequest, options ...grpc.CallOption) (*khatav1.ListHoldsResponse, error) {
		resp, err := c.api.ListHolds(ctx, req, options...)
		switch status.Code(err) {
		case codes.Unimplemented:
			old = true
			return resp, nil
		case codes.InvalidArgument, codes.NotFound: // It is asked for the holds of no account.
			return resp, nil
		case codes.PermissionDenied: // Who may post need not be one who may read. A server that tells callers apart is new enough.
			if len(status.Convert(err).Details()) > 0 {
				return resp, nil
			}
		}
		return resp, err
	}
	if _, err := call(ctx, c, probe, &khatav1.ListHoldsRequest{Ledger: string(c.options.Ledger)}); err != nil {
		return err
	}
	if old {
		return ledger.Errorf(ledger.CodeInvalidArgument, "this server is too old for holds, refunds, conditions, balancing and atomic calls")
	}
	c.isNew.Store(true)
	return nil
}

// knowsTermsOf is knowsTerms if one of the requests has terms.
func (c *Client) knowsTermsOf(ctx context.Context, transfers ...*khatav1.NewTransfer) error {
	for _, t := range transfers {
		if t.GetKind() != nil || len(t.GetConditions()) > 0 || t.GetBalancing() {
			return c.knowsTerms(ctx)
		}
	}
	return nil
}

// encodeTerms puts what a request asks for beyond moving its entries into out. It returns CodeInvalidArgument for a kind that no caller
// can ask for: without its kind the request would be another.
func encodeTerms(out *khatav1.NewTransfer, t *ledger.Terms) error {
	if t == nil {
		return nil
	}
	origin, everything := string(t.Origin), t.Amount == nil
	switch t.Kind {
	case ledger.Plain:
	case ledger.Hold:
		hold := &khatav1.Hold{ExpiresAt: encodeTime(t.ExpiresAt)}
		if t.ExpiresAfter != 0 {
			hold.ExpiresAfter = durationpb.New(t.ExpiresAfter)
		}
		out.Kind = &khatav1.NewTransfer_Hold{Hold: hold}
	case ledger.Capture:
		out.Kind = &khatav1.NewTransfer_Capture{Capture: &khatav1.Capture{
			Hold: origin, Amount: encodeOptional(t.Amount), Everything: everything, KeepOpen: t.KeepOpen,
		}}
	case ledger.Void:
		out.Kind = &khatav1.NewTransfer_Void{Void: &khatav1.Void{Hold: origin}}
	case ledger.Refund:
		out.Kind = &khatav1.NewTransfer_Refund{Refund: &khatav1.Refund{
			Original: origin, Amount: encodeOptional(t.Amount), Everything: everything,
			ExpectedRefunded: encodeOptional(t.ExpectedRefunded), Reason: refundReasons[t.Reason],
		}}
	case ledger.Reversal:
		out.Kind = &khatav1.NewTransfer_Reversal{Reversal: &khatav1.Reversal{Original: origin}}
	case ledger.Expiry:
		return ledger.Invalid("kind", "expiry is not for callers to post: Khata expires holds by itself")
	default:
		return ledger.Invalid("kind", "%.40q is not a kind of transfer", string(t.Kind))
	}
	out.Balancing = t.Balancing
	for _, condition := range t.Conditions {
		c := &khatav1.Condition{Account: string(condition.Account), Version: condition.Version}
		if condition.Balance != nil {
			c.Balance = proto.String(ledger.FormatWritten(*condition.Balance))
		}
		out.Conditions = append(out.Conditions, c)
	}
	return nil
}

func encodeOptional(amount *decimal.Decimal) string {
	if amount == nil {
		return ""
	}
	return ledger.FormatWritten(*amount)
}

// decodeTerms reads the terms of a record, and what it did if it was posted.
func decodeTerms(t *ledger.Transfer, in *khatav1.Transfer) (err error) {
	if in.GetKind() == nil && len(in.GetConditions()) == 0 && in.GetBalancingAmount() == "" {
		return nil
	}
	terms := &ledger.Terms{Kind: ledger.Plain}
	t.Terms = terms
	switch kind := in.GetKind().(type) {
	case *khatav1.Transfer_Hold:
		terms.Kind, terms.ExpiresAt = ledger.Hold, decodeTime(kind.Hold.GetExpiresAt())
		terms.ExpiresAfter = kind.Hold.GetExpiresAfter().AsDuration()
	case *khatav1.Transfer_Capture:
		terms.Kind, terms.Origin, terms.KeepOpen = ledger.Capture, ledger.TransferID(kind.Capture.GetHold()), kind.Capture.GetKeepOpen()
		terms.Amount, err = decodeOptional(kind.Capture.GetAmount())
	case *khatav1.Transfer_Void:
		terms.Kind, terms.Origin = ledger.Void, ledger.TransferID(kind.Void.GetHold())
	case *khatav1.Transfer_Expiry:
		terms.Kind, terms.Origin = ledger.Expiry, ledger.TransferID(kind.Expiry.GetHold())
	case *khatav1.Transfer_Refund:
		terms.Kind, terms.Origin = ledger.Refund, ledger.TransferID(kind.Refund.GetOriginal())
		terms.Reason = keyOf(refundReasons, kind.Refund.GetReason())
		if terms.Amount, err = decodeOptional(kind.Refund.GetAmount()); err == nil {
			terms.ExpectedRefunded, err = decodeOptional(kind.Refund.GetExpectedRefunded())
		}
	case *khatav1.Transfer_Reversal:
		terms.Kind, terms.Origin = ledger.Reversal, ledger.TransferID(kind.Reversal.GetOriginal())
	}
	if err != nil {
		return err
	}
	if in.GetBalancingAmount() != "" {
		terms.Balancing = true
		if terms.Amount, err = decodeOptional(in.GetBalancingAmount()); err != nil {
			return err
		}
	}
	for _, c := range in.GetConditions() {
		condition := ledger.Condition{Account: ledger.AccountID(c.GetAccount()), Version: c.Version}
		if condition.Balance, err = decodeOptional(c.GetBalance()); err != nil {
			return err
		}
		terms.Conditions = append(terms.Conditions, condition)
	}
	if t.Refusal != nil || terms.Kind == ledger.Plain {
		return nil
	}
	t.Step, err = decodeStep(t, in)
	return err
}

func decodeStep(t *ledger.Transfer, in *khatav1.Transfer) (*ledger.Step, error) {
	step := &ledger.Step{Ordinal: int(in.GetOrdinal()), Ends: in.GetEnds(), Deadline: decodeTime(in.GetDeadline())}
	switch {
	case t.Terms.Kind == ledger.Hold && len(t.Entries) > 0:
		step.Reserved = t.Entries[0].Amount
	case t.Terms.Kind.OfHold():
		released, err := decodeAmount(in.GetReleased())
		if err != nil {
			return nil, err
		}
		step.Reserved = released.Neg()
	}
	return step, nil
}

// decodeProgress reads what has become of a transfer with these entries.
func decodeProgress(in *khatav1.Progress, entries []ledger.Entry) (*ledger.Progress, error) {
	if in == nil {
		return nil, nil
	}
	p := &ledger.Progress{Hold: keyOf(holdStates, in.GetHold()), Reversed: in.GetReversed()}
	for _, id := range in.GetSteps() {
		p.Steps = append(p.Steps, ledger.TransferID(id))
	}
	for i, e := range entries {
		if i > 0 && e.Currency.Code != p.Currency.Code {
			p.Currency = ledger.Currency{}
			break
		}
		p.Currency = e.Currency
	}
	for _, amount := range []struct {
		text string
		to   *decimal.Decimal
	}{
		{in.GetCaptured(), &p.Captured}, {in.GetReleased(), &p.Released}, {in.GetReserved(), &p.Reserved},
		{in.GetRefunded(), &p.Refunded}, {in.GetRefundable(), &p.Refundable},
	} {
		if amount.text == "" {
			continue
		}
		var err error
		if *amount.to, err = decodeAmount(amount.text); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func decodeOptional(text string) (*decimal.Decimal, error) {
	if text == "" {
		return nil, nil
	}
	amount, err := decodeAmount(text)
	if err != nil {
		return nil, err
	}
	return &amount, nil
}
