package client

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// RefundState is where a request for a refund is on its way.
type RefundState string

// The states. RefundWaiting and RefundReady go on; all others are final.
const (
	// RefundWaiting is one that another person has to approve.
	RefundWaiting RefundState = "waiting"
	// RefundReady is one that is to be posted: by the same call again, or by itself.
	RefundReady RefundState = "ready"
	// RefundPosted is one whose money has moved.
	RefundPosted RefundState = "posted"
	// RefundRefused is one that the books have refused.
	RefundRefused  RefundState = "refused"
	RefundRejected RefundState = "rejected"
	// RefundWithdrawn is one that its maker has taken back.
	RefundWithdrawn RefundState = "withdrawn"
	// RefundExpired is one that nobody has approved, or that could not be posted, in time.
	RefundExpired RefundState = "expired"
)

// Final reports whether nothing more becomes of a request in the state.
func (s RefundState) Final() bool { return s != RefundWaiting && s != RefundReady }

// RefundApproval is whether a refund needs another person, and why.
type RefundApproval string

// The reasons.
const (
	// ApprovalNone: the maker alone is enough.
	ApprovalNone RefundApproval = "none"
	// ApprovalNoLimit: no limit is set for the currency.
	ApprovalNoLimit RefundApproval = "no_limit"
	// ApprovalAboveSingle: it is above the limit for one refund.
	ApprovalAboveSingle RefundApproval = "above_single"
	// ApprovalAboveDaily: with what the maker has refunded alone in the 24 hours before, it is above the limit for a day.
	ApprovalAboveDaily RefundApproval = "above_daily"
)

// RefundVerdict is what is decided about a request.
type RefundVerdict string

// The verdicts. The maker withdraws; others approve or reject.
const (
	RefundApprove  RefundVerdict = "approve"
	RefundReject   RefundVerdict = "reject"
	RefundWithdraw RefundVerdict = "withdraw"
)

var (
	refundStates = map[RefundState]khatav1.RefundState{
		RefundWaiting: khatav1.RefundState_REFUND_STATE_WAITING, RefundReady: khatav1.RefundState_REFUND_STATE_READY,
		RefundPosted: khatav1.RefundState_REFUND_STATE_POSTED, RefundRefused: khatav1.RefundState_REFUND_STATE_REFUSED,
		RefundRejected: khatav1.RefundState_REFUND_STATE_REJECTED, RefundWithdrawn: khatav1.RefundState_REFUND_STATE_WITHDRAWN,
		RefundExpired: khatav1.RefundState_REFUND_STATE_EXPIRED,
	}
	refundApprovals = map[RefundApproval]khatav1.RefundApproval{
		ApprovalNone: khatav1.RefundApproval_REFUND_APPROVAL_NONE, ApprovalNoLimit: khatav1.RefundApproval_REFUND_APPROVAL_NO_LIMIT,
		ApprovalAboveSingle: khatav1.RefundApproval_REFUND_APPROVAL_ABOVE_SINGLE, ApprovalAboveDaily: khatav1.RefundApproval_REFUND_APPROVAL_ABOVE_DAILY,
	}
	refundVerdicts = map[RefundVerdict]khatav1.RefundVerdict{
		RefundApprove: khatav1.RefundVerdict_REFUND_VERDICT_APPROVE, RefundReject: khatav1.RefundVerdict_REFUND_VERDICT_REJECT,
		RefundWithdraw: khatav1.RefundVerdict_REFUND_VERDICT_WITHDRAW,
	}
)

// RefundRequest is a request for a refund, and what has become of it. What stands before State never changes.
type RefundRequest struct {
	Ledger ledger.Name
	Number int64
	// Key is that of the form.
	Key string
	// TransferID is the transfer of which it is to be a refund.
	TransferID ledger.TransferID
	Amount     decimal.Decimal
	Currency   ledger.CurrencyCode
	// ExpectedRefunded is what had been refunded before, as its maker has seen it.
	ExpectedRefunded decimal.Decimal
	Reason           ledger.RefundReason
	Note, Ticket     string
	Maker            string
	MadeAt           time.Time
	ExpiresAt        time.Time
	// Approval is whether it needs another person, by which version of the limit.
	Approval     RefundApproval
	LimitVersion int
	// SHA256 is of all of the above: who decides, decides about this.
	SHA256 string

	State RefundState
	// Decision is nil where nobody has decided.
	Decision *RefundDecision
	// RefundID is the transfer that the refund is in the books; "" before.
	RefundID ledger.TransferID
	// Refusal is why the books have refused it, and Message says it to people.
	Refusal   ledger.Code
	Message   string
	SettledAt *time.Time

	// Warnings are as those of a Story. Lists do not have them.
	Warnings []string
	// Transfer and Progress are the transfer of which it is to be a refund, and what has become of that by now; and Obstacle says why the request would be
	// refused if it were approved now, "" where nothing is known that speaks against it. Only Support.RefundRequest gives them.
	Transfer *ledger.Transfer
	Progress *ledger.Progress
	Obstacle string
}

// RefundDecision is what somebody has decided about a request.
type RefundDecision struct {
	Verdict RefundVerdict
	By      string
	At      time.Time
	Note    string
}

// RefundForm is what a form for a refund has to have.
type RefundForm struct {
	// Key is minted for this form, and comes back with RequestRefund.
	Key      string
	Transfer ledger.Transfer
	Currency ledger.CurrencyCode
	// Refunded comes back as what is expected to have been refunded, and Refundable is the most that can be asked for.
	Refunded, Refundable decimal.Decimal
	// Closed says why nothing can be refunded; nil if something can.
	Closed *ledger.Error
	// Limit is the one in force; nil where none was ever set.
	Limit *RefundLimit
	// Alone is what the caller has refunded without another person in the last 24 hours.
	Alone decimal.Decimal
	// Requests are the last 200 that there were about the transfer, the newest first.
	Requests []RefundRequest
	// Warnings are as those of a Story.
	Warnings []string
}

// RefundForm gives what a form for a refund of a transfer has to have. It returns CodeTransferNotFound.
func (s *Support) RefundForm(ctx context.Context, id ledger.TransferID) (RefundForm, error) {
	resp, err := call(ctx, s.client, s.api.GetRefundForm, &khatav1.GetRefundFormRequest{Ledger: s.ledger(), TransferId: string(id)})
	if err != nil {
		return RefundForm{}, err
	}
	in := resp.GetForm()
	var a amounts
	out := RefundForm{
		Key: in.GetKey(), Currency: ledger.CurrencyCode(in.GetCurrency()), Refunded: a.of(in.GetRefunded()), Refundable: a.of(in.GetRefundable()),
		Alone: a.of(in.GetAlone()), Warnings: in.GetWarnings(),
	}
	if a.err != nil {
		return RefundForm{}, a.err
	}
	if out.Transfer, err = decodeTransfer(in.GetTransfer()); err != nil {
		return RefundForm{}, err
	}
	if in.GetClosed() != "" {
		out.Closed = &ledger.Error{Code: ledger.Code(in.GetClosed()), Message: in.GetClosedMessage()}
	}
	if in.GetLimit() != nil {
		limit, err := decodeRefundLimit(in.GetLimit())
		if err != nil {
			return RefundForm{}, err
		}
		out.Limit = &limit
	}
	out.Requests, err = tryEach(in.GetRequests(), decodeRefundRequest)
	return out, err
}

// RefundSpec asks for a refund.
type RefundSpec struct {
	// Key is that of the form, or another one that was drawn at random: with it again the request is the same one.
	Key        string
	TransferID ledger.TransferID
	// Amount is exact, and ExpectedRefunded what had been refunded before, as far as the maker knows.
	Amount, ExpectedRefunded decimal.Decimal
	Reason                   ledger.RefundReason
	// Note is for colleagues, and Ticket what the case has elsewhere.
	Note, Ticket string
}

// RequestRefund asks for a refund. One that needs nobody else is posted at once; the other waits for Decide. That the books have refused it is no error,
// but its state. replayed is that it had been made before.
//
// It returns CodeAlreadyExists, with the fields that differ, for a key that another request has. What cannot be as things stand is not written down:
// CodeInvalidArgument, CodeAmountScale, CodeTransferNotFound, CodeWrongOrigin, CodeAlreadyReversed, CodeRefundedChanged or CodeRefundExceedsRest.
func (s *Support) RequestRefund(ctx context.Context, spec RefundSpec) (r RefundRequest, replayed bool, err error) {
	reason, ok := refundReasons[spec.Reason]
	if !ok {
		var names []string
		for _, reason := range ledger.RefundReasons() {
			names = append(names, string(reason))
		}
		return r, false, ledger.Invalid("reason", "%.40q is not a reason: want one of %s", string(spec.Reason), strings.Join(names, ", "))
	}
	resp, err := call(ctx, s.client, s.api.RequestRefund, &khatav1.RequestRefundRequest{
		Ledger: s.ledger(), Key: spec.Key, TransferId: string(spec.TransferID), Amount: ledger.FormatWritten(spec.Amount),
		ExpectedRefunded: ledger.FormatWritten(spec.ExpectedRefunded), Reason: reason, Note: spec.Note, Ticket: spec.Ticket,
	})
	if err != nil {
		return r, false, err
	}
	r, err = decodeRefundRequest(resp.GetRequest())
	return r, resp.GetReplayed(), err
}

// RefundDecisionSpec says what somebody has decided about a request.
type RefundDecisionSpec struct {
	Number int64
	// SHA256 is that of the request as the decider has seen it.
	SHA256  string
	Verdict RefundVerdict
	// Note is why, and required to reject.
	Note string
}

// DecideRefund approves a request, and posts it; or rejects it; or withdraws it, by its maker. replayed is that the same person had decided the same
// before.
//
// It returns CodeInvalidArgument, also where the request is not as the decider has seen it, has expired or waits for nobody; CodePermissionDenied for a
// maker who approves or rejects, and for another one who withdraws; CodeAlreadyExists, naming who, where somebody has decided otherwise; and
// CodeTransferNotFound where there is no such request.
func (s *Support) DecideRefund(ctx context.Context, spec RefundDecisionSpec) (r RefundRequest, replayed bool, err error) {
	verdict, ok := refundVerdicts[spec.Verdict]
	if !ok {
		return r, false, ledger.Invalid("verdict", "%.40q is no verdict: want approve, reject or withdraw", string(spec.Verdict))
	}
	resp, err := call(ctx, s.client, s.api.DecideRefund, &khatav1.DecideRefundRequest{
		Ledger: s.ledger(), Number: spec.Number, Sha256: spec.SHA256, Verdict: verdict, Note: spec.Note,
	})
	if err != nil {
		return r, false, err
	}
	r, err = decodeRefundRequest(resp.GetRequest())
	return r, resp.GetReplayed(), err
}

// RefundRequest gets a request. It returns CodeTransferNotFound.
func (s *Support) RefundRequest(ctx context.Context, number int64) (RefundRequest, error) {
	resp, err := call(ctx, s.client, s.api.GetRefundRequest, &khatav1.GetRefundRequestRequest{Ledger: s.ledger(), Number: number})
	if err != nil {
		return RefundRequest{}, err
	}
	return decodeRefundRequest(resp.GetRequest())
}

// RefundFilter says which requests are meant. The zero filter is all of them.
type RefundFilter struct {
	// TransferID is of the transfer of which they are to be refunds.
	TransferID ledger.TransferID
	States     []RefundState
	// PageSize is how many are looked at in one call: 200 at most; 0 is 200. Each call is in the audit.
	PageSize int
}

// RefundRequests goes through requests, the newest first. It ends after an error.
func (s *Support) RefundRequests(ctx context.Context, f RefundFilter) iter.Seq2[RefundRequest, error] {
	in := &khatav1.ListRefundRequestsRequest{
		Ledger: s.ledger(), TransferId: string(f.TransferID), PageSize: int32(min(max(f.PageSize, -1), 1000)), //nolint:gosec // it is bounded
	}
	for _, state := range f.States {
		known, ok := refundStates[state]
		if !ok {
			return func(yield func(RefundRequest, error) bool) {
				yield(RefundRequest{}, ledger.Invalid("states", "%.40q is no state: want waiting, ready, posted, refused, rejected, withdrawn or expired", string(state)))
			}
		}
		in.States = append(in.States, known)
	}
	return paged(func(token string) (*khatav1.ListRefundRequestsResponse, error) {
		in.PageToken = token
		return call(ctx, s.client, s.api.ListRefundRequests, in)
	}, func(resp *khatav1.ListRefundRequestsResponse) ([]RefundRequest, error) {
		return tryEach(resp.GetRequests(), decodeRefundRequest)
	})
}

// RefundLimit is how much one person alone may refund in a currency.
type RefundLimit struct {
	Currency ledger.CurrencyCode
	Version  int
	// Single is the most that one refund may be, and Daily the most that a person's refunds without another one may come to within 24 hours.
	Single, Daily decimal.Decimal
	Reason        string
	SetAt         time.Time
	SetBy         string
}

// SetRefundLimit sets the limit of a currency, from now on. What is in force already is not set again. It returns CodeInvalidArgument, CodeAmountScale or
// CodeCurrencyNotFound.
func (s *Support) SetRefundLimit(ctx context.Context, currency ledger.CurrencyCode, single, daily decimal.Decimal, reason string) (RefundLimit, error) {
	resp, err := call(ctx, s.client, s.api.SetRefundLimit, &khatav1.SetRefundLimitRequest{
		Ledger: s.ledger(), Currency: string(currency), Single: ledger.FormatWritten(single), Daily: ledger.FormatWritten(daily), Reason: reason,
	})
	if err != nil {
		return RefundLimit{}, err
	}
	return decodeRefundLimit(resp.GetLimit())
}

// RefundLimits lists the limits in force; or with a currency its versions, the newest first.
func (s *Support) RefundLimits(ctx context.Context, currency ledger.CurrencyCode) ([]RefundLimit, error) {
	resp, err := call(ctx, s.client, s.api.ListRefundLimits, &khatav1.ListRefundLimitsRequest{Ledger: s.ledger(), Currency: string(currency)})
	if err != nil {
		return nil, err
	}
	return tryEach(resp.GetLimits(), decodeRefundLimit)
}

func decodeRefundLimit(in *khatav1.RefundLimit) (RefundLimit, error) {
	var a amounts
	out := RefundLimit{
		Currency: ledger.CurrencyCode(in.GetCurrency()), Version: int(in.GetVersion()), Single: a.of(in.GetSingle()), Daily: a.of(in.GetDaily()),
		Reason: in.GetReason(), SetAt: in.GetSetAt().AsTime(), SetBy: in.GetSetBy(),
	}
	return out, a.err
}

func decodeRefundRequest(in *khatav1.RefundRequest) (RefundRequest, error) {
	var a amounts
	out := RefundRequest{
		Ledger: ledger.Name(in.GetLedger()), Number: in.GetNumber(), Key: in.GetKey(), TransferID: ledger.TransferID(in.GetTransferId()),
		Amount: a.of(in.GetAmount()), Currency: ledger.CurrencyCode(in.GetCurrency()), ExpectedRefunded: a.of(in.GetExpectedRefunded()),
		Reason: keyOf(refundReasons, in.GetReason()), Note: in.GetNote(), Ticket: in.GetTicket(), Maker: in.GetMaker(), MadeAt: in.GetMadeAt().AsTime(),
		ExpiresAt: in.GetExpiresAt().AsTime(), Approval: keyOf(refundApprovals, in.GetApproval()), LimitVersion: int(in.GetLimitVersion()),
		SHA256: in.GetSha256(), State: keyOf(refundStates, in.GetState()), RefundID: ledger.TransferID(in.GetRefundTransferId()),
		Refusal: ledger.Code(in.GetRefusal()), Message: in.GetRefusalMessage(), SettledAt: decodeTime(in.GetSettledAt()),
		Warnings: in.GetWarnings(), Obstacle: in.GetObstacle(),
	}
	var err error
	if out.Transfer, err = decodeOptionalTransfer(in.GetTransfer()); err != nil {
		return out, err
	}
	if out.Transfer != nil {
		if out.Progress, err = decodeProgress(in.GetProgress(), out.Transfer.Entries); err != nil {
			return out, err
		}
	}
	if d := in.GetDecision(); d != nil {
		out.Decision = &RefundDecision{keyOf(refundVerdicts, d.GetVerdict()), d.GetDecidedBy(), d.GetDecidedAt().AsTime(), d.GetNote()}
	}
	return out, a.err
}
