package client

import (
	"context"
	"iter"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// LineTake names a line, and how much of it; zero is all that is open.
type LineTake struct {
	Line   int64
	Amount decimal.Decimal
}

// EntryTake names an entry, by its transfer or by its sequence, and how much of it; zero is all that is open.
type EntryTake struct {
	TransferID ledger.TransferID
	Sequence   int64
	// Leg is which of several entries that the transfer has in the account, from 1; 0 if there is one.
	Leg int
	// Forward is what was brought forward, in place of the others.
	Forward bool
	Amount  decimal.Decimal
}

// DifferenceSpec says how the difference of a match is posted.
type DifferenceSpec struct {
	// Account is what it goes against, such as an expense for fees.
	Account ledger.AccountID
	// EffectiveAt is the value date of the transfer; nil is none.
	EffectiveAt *time.Time
	Description string
}

// ConfirmSpec asks for a match: of what a run suggests, or of any lines and entries.
type ConfirmSpec struct {
	BankAccount string
	// RequestID is what the caller knows the request by: with it again, it is the same decision. "": the same caller who confirms the same items again
	// gets the same decision.
	RequestID string
	// Run and Group name a suggestion, in place of Lines and Entries.
	Run   int64
	Group int
	// Lines and Entries together come to the same; or lines alone, or entries alone, to zero.
	Lines   []LineTake
	Entries []EntryTake
	// Difference approves that what the lines come to beyond the entries is posted. Without it they may differ by what the settings tolerate.
	Difference *DifferenceSpec
	Reason     string
}

// IgnoreSpec says that an item has no counterpart and needs none. Either Line or Entry is given.
type IgnoreSpec struct {
	BankAccount string
	RequestID   string
	Line        *LineTake
	Entry       *EntryTake
	// Reason is required.
	Reason string
}

// UndoSpec asks for a decision to be taken back.
type UndoSpec struct {
	BankAccount string
	Decision    int64
	// Reason is required.
	Reason string
	// ReverseDifference reverses the transfer with which its difference was posted.
	ReverseDifference bool
}

// Decision is a match, or that an item is ignored. It stays what it is; Undone says that it holds no more.
type Decision struct {
	No          int64
	BankAccount string
	// Kind is "automatic", by a run, "manual" or "ignored".
	Kind          string
	Rule, Outcome string
	// Run is the run that made an automatic one.
	Run int64
	// Lines and Entries are what its items come to on each side, and Difference what the lines come to beyond the entries.
	Lines, Entries, Difference decimal.Decimal
	Items                      []DecisionItem
	// Approvals are those to post the difference, of which the last one counts.
	Approvals         []DifferenceApproval
	RequestID, Reason string
	DecidedAt         time.Time
	DecidedBy         string
	Undone            *DecisionUndone
	// Posted says that the difference has been posted, or there is none.
	Posted bool
}

// DecisionItem is a line, or an entry by sequence and leg, in a decision. Without line and sequence it is what was brought forward.
type DecisionItem struct {
	Line, Sequence int64
	Leg            int
	Amount         decimal.Decimal
	Day            string
	// PostsDifference says that it is the entry with which the difference was posted.
	PostsDifference bool
}

// DifferenceApproval is an approval to post a difference.
type DifferenceApproval struct {
	// Attempt counts those of one match, from 1: one is followed by another only if the books have refused its transfer.
	Attempt     int
	Account     ledger.AccountID
	Amount      decimal.Decimal
	TransferID  ledger.TransferID
	EffectiveAt *time.Time
	Description string
	ApprovedAt  time.Time
	ApprovedBy  string
}

// DecisionUndone says who took a decision back.
type DecisionUndone struct {
	No       int64
	Reason   string
	UndoneAt time.Time
	UndoneBy string
}

// Confirm says that lines and entries are the same movement. Replayed says that it was said before.
//
// It returns CodeInvalidArgument; CodeConflict, naming who decided what and when, if somebody else has decided about one of the items first, which is
// not tried again; CodeTransferNotFound; CodeAlreadyExists for a request id of another content; and what the books say if the difference cannot be
// posted. Then the match is there, and its difference is open: see ApproveDifference.
func (r *Reconciliation) Confirm(ctx context.Context, spec ConfirmSpec) (d Decision, replayed bool, err error) {
	in := &khatav1.ConfirmMatchRequest{
		Ledger: r.ledger(), BankAccount: spec.BankAccount, RequestId: spec.RequestID, Run: spec.Run, Group: encodeVersion(spec.Group),
		Lines: each(spec.Lines, encodeLineTake), Entries: each(spec.Entries, encodeEntryTake), Reason: spec.Reason,
	}
	if spec.Difference != nil {
		in.Difference = encodeDifference(*spec.Difference)
	}
	resp, err := settle(ctx, r.client, r.api.ConfirmMatch, in)
	if err != nil {
		return Decision{}, false, err
	}
	d, err = decodeDecision(resp.GetDecision())
	return d, resp.GetReplayed(), err
}

// Ignore says that what is open of an item, or a part of it, has no counterpart and needs none. It returns what Confirm does.
func (r *Reconciliation) Ignore(ctx context.Context, spec IgnoreSpec) (d Decision, replayed bool, err error) {
	in := &khatav1.IgnoreItemRequest{Ledger: r.ledger(), BankAccount: spec.BankAccount, RequestId: spec.RequestID, Reason: spec.Reason}
	if spec.Line != nil {
		in.Line = encodeLineTake(*spec.Line)
	}
	if spec.Entry != nil {
		in.Entry = encodeEntryTake(*spec.Entry)
	}
	resp, err := settle(ctx, r.client, r.api.IgnoreItem, in)
	if err != nil {
		return Decision{}, false, err
	}
	d, err = decodeDecision(resp.GetDecision())
	return d, resp.GetReplayed(), err
}

// Undo takes a decision back: its items are open again. The same caller with the same reason again gets the same answer. It returns
// CodeInvalidArgument; CodeConflict if somebody else has taken it back, which is not tried again; and what the books say if the difference cannot be
// reversed, when the decision has been taken back already.
func (r *Reconciliation) Undo(ctx context.Context, spec UndoSpec) (d Decision, replayed bool, err error) {
	resp, err := settle(ctx, r.client, r.api.UndoDecision, &khatav1.UndoDecisionRequest{
		Ledger: r.ledger(), BankAccount: spec.BankAccount, Decision: spec.Decision, Reason: spec.Reason, ReverseDifference: spec.ReverseDifference,
	})
	if err != nil {
		return Decision{}, false, err
	}
	d, err = decodeDecision(resp.GetDecision())
	return d, resp.GetReplayed(), err
}

// ApproveDifference posts the difference of a match to an account: once, however often it is asked for. It returns CodeInvalidArgument,
// CodeAccountNotFound or CodeCurrencyMismatch; CodeConflict if somebody has taken the match back, or has approved that the difference goes elsewhere,
// which is not tried again; and what the books say if they refuse the transfer. That is final for this approval, and the next call is another one.
func (r *Reconciliation) ApproveDifference(ctx context.Context, bankAccount string, decision int64, difference DifferenceSpec) (
	d Decision, replayed bool, err error,
) {
	resp, err := settle(ctx, r.client, r.api.ApproveDifference, &khatav1.ApproveDifferenceRequest{
		Ledger: r.ledger(), BankAccount: bankAccount, Decision: decision, Difference: encodeDifference(difference),
	})
	if err != nil {
		return Decision{}, false, err
	}
	d, err = decodeDecision(resp.GetDecision())
	return d, resp.GetReplayed(), err
}

// Decision gets a decision about a bank account. It returns CodeInvalidArgument or CodeNotFound.
func (r *Reconciliation) Decision(ctx context.Context, bankAccount string, no int64) (Decision, error) {
	resp, err := call(ctx, r.client, r.api.GetDecision, &khatav1.GetDecisionRequest{Ledger: r.ledger(), BankAccount: bankAccount, Decision: no})
	if err != nil {
		return Decision{}, err
	}
	return decodeDecision(resp.GetDecision())
}

// DecisionFilter says which decisions are meant. The zero filter is all of them.
type DecisionFilter struct {
	// Kind is one of Decision.Kind, or "".
	Kind string
	// Active leaves out those that were undone.
	Active bool
	// Line has only those about a line, and Sequence only those about entries of a transfer.
	Line, Sequence int64
}

// Decisions goes through decisions about a bank account, the newest first. It ends after an error.
func (r *Reconciliation) Decisions(ctx context.Context, bankAccount string, filter DecisionFilter) iter.Seq2[Decision, error] {
	return paged(func(token string) (*khatav1.ListDecisionsResponse, error) {
		in := &khatav1.ListDecisionsRequest{
			Ledger: r.ledger(), BankAccount: bankAccount, Kind: filter.Kind, Active: filter.Active, Line: filter.Line, Sequence: filter.Sequence,
			PageToken: token,
		}
		return call(ctx, r.client, r.api.ListDecisions, in)
	}, func(resp *khatav1.ListDecisionsResponse) ([]Decision, error) {
		return tryEach(resp.GetDecisions(), decodeDecision)
	})
}

func encodeLineTake(take LineTake) *khatav1.LineTake {
	return &khatav1.LineTake{Line: take.Line, Amount: encodeOpen(take.Amount)}
}

func encodeEntryTake(take EntryTake) *khatav1.EntryTake {
	return &khatav1.EntryTake{
		TransferId: string(take.TransferID), Sequence: take.Sequence, Leg: encodeVersion(take.Leg), Forward: take.Forward, Amount: encodeOpen(take.Amount),
	}
}

func encodeDifference(spec DifferenceSpec) *khatav1.DifferenceSpec {
	return &khatav1.DifferenceSpec{Account: string(spec.Account), EffectiveAt: encodeTime(spec.EffectiveAt), Description: spec.Description}
}

func decodeDecision(in *khatav1.Decision) (Decision, error) {
	var amount amounts
	out := Decision{
		No: in.GetNo(), BankAccount: in.GetBankAccount(), Kind: in.GetKind(), Rule: in.GetRule(), Outcome: in.GetOutcome(), Run: in.GetRun(),
		Lines: amount.of(in.GetLines()), Entries: amount.of(in.GetEntries()), Difference: amount.of(in.GetDifference()), RequestID: in.GetRequestId(),
		Reason: in.GetReason(), DecidedAt: in.GetDecidedAt().AsTime(), DecidedBy: in.GetDecidedBy(), Posted: in.GetPosted(),
		Items: each(in.GetItems(), func(i *khatav1.DecisionItem) DecisionItem {
			return DecisionItem{
				Line: i.GetLine(), Sequence: i.GetSequence(), Leg: int(i.GetLeg()), Amount: amount.of(i.GetAmount()), Day: i.GetDay(),
				PostsDifference: i.GetPostsDifference(),
			}
		}),
		Approvals: each(in.GetApprovals(), func(a *khatav1.DifferenceApproval) DifferenceApproval {
			return DifferenceApproval{
				Attempt: int(a.GetAttempt()), Account: ledger.AccountID(a.GetAccount()), Amount: amount.of(a.GetAmount()),
				TransferID: ledger.TransferID(a.GetTransferId()), EffectiveAt: decodeTime(a.GetEffectiveAt()), Description: a.GetDescription(),
				ApprovedAt: a.GetApprovedAt().AsTime(), ApprovedBy: a.GetApprovedBy(),
			}
		}),
	}
	if u := in.GetUndone(); u != nil {
		out.Undone = &DecisionUndone{No: u.GetNo(), Reason: u.GetReason(), UndoneAt: u.GetUndoneAt().AsTime(), UndoneBy: u.GetUndoneBy()}
	}
	return out, amount.err
}
