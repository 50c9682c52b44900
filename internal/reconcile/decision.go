package reconcile

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// Decision is a match, or that an item is ignored. It stays what it is; Undone says that it holds no more.
type Decision struct {
	No          int64
	BankAccount string
	// Kind is "automatic" (by a run), "manual" or "ignored".
	Kind    string
	Rule    Rule
	Outcome Outcome
	// Run is the number of the run that made an automatic one.
	Run int64
	// Lines and Entries are what its items come to on each side, in the bank's sense; without the entry that posts their difference.
	Lines, Entries decimal.Decimal
	Items          []DecisionItem
	// Differences are the approvals to post the difference, of which the last one counts.
	Differences []Difference
	Request     string
	Reason      string
	DecidedAt   time.Time
	DecidedBy   string
	Undone      *Undone
	// Replayed says that it was there before the request that returns it.
	Replayed bool
}

// Difference is what the lines come to beyond the entries, before anything is posted for it.
func (d *Decision) Difference() decimal.Decimal {
	if d.Kind == kindIgnored {
		return decimal.Zero
	}
	return d.Lines.Sub(d.Entries)
}

// Posted reports whether the difference has been posted, or there is none.
func (d *Decision) Posted() bool {
	for _, i := range d.Items {
		if i.PostsDifference {
			return true
		}
	}
	return d.Difference().IsZero()
}

// DecisionItem is a line or an entry in a decision.
type DecisionItem struct {
	// Line is the number of a line; 0 for an entry.
	Line int64
	// Sequence and Leg name an entry; sequence 0 is what was brought forward.
	Sequence int64
	Leg      int
	// Amount is how much of it, in the bank's sense, and Day its date.
	Amount decimal.Decimal
	Day    bankfile.Date
	// PostsDifference says that it is the entry with which the difference was posted.
	PostsDifference bool
}

// IsLine reports whether it is a line.
func (i DecisionItem) IsLine() bool { return i.Line != 0 }

// Difference is an approval to post a difference.
type Difference struct {
	// Attempt counts the approvals of one match, from 1: one is followed by another only if the books have refused its transfer.
	Attempt int
	// Account is what it goes against, Amount what it is for, in the bank's sense, and Transfer the id of the transfer.
	Account     ledger.AccountID
	Amount      decimal.Decimal
	Transfer    ledger.TransferID
	EffectiveAt *time.Time
	Description string
	ApprovedAt  time.Time
	ApprovedBy  string
}

// Undone says who took a decision back.
type Undone struct {
	No     int64
	Reason string
	At     time.Time
	By     string
}

// DecisionFilter says which decisions are meant. The zero filter is all of them.
type DecisionFilter struct {
	// Kind is one of Decision.Kind, or "".
	Kind string
	// Active leaves out those that were undone.
	Active bool
	// Line has only those about a line, and Sequence only those about entries of a transfer.
	Line     int64
	Sequence int64
	// Before is the number before which they come; 0 is the beginning of the list.
	Before int64
	Limit  int
}

// Decisions lists decisions about a bank account, the newest first. It returns CodeInvalidArgument.
func (r *Reconciler) Decisions(ctx context.Context, name ledger.Name, bankAccount string, filter DecisionFilter) (list []*Decision, more bool,
	err error) {
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return nil, false, err
	}
	if filter.Before == 0 {
		filter.Before = math.MaxInt64
	}
	nos, err := r.decisionNumbers(ctx, a, filter)
	if err != nil {
		return nil, false, public(ctx, "list the decisions", err)
	}
	more = len(nos) > filter.Limit
	list, err = r.decisions(ctx, r.pool, a, nos[:min(filter.Limit, len(nos))])
	return list, more, public(ctx, "list the decisions", err)
}

// decisionNumbers gives the numbers of decisions, one more than are asked for if there are more.
func (r *Reconciler) decisionNumbers(ctx context.Context, a *BankAccount, filter DecisionFilter) ([]int64, error) {
	var nos []int64
	var err error
	switch {
	case filter.Line != 0:
		nos, err = r.sql.ReconcileMatchNumbersOfLine(ctx, r.pool, dbsqlc.ReconcileMatchNumbersOfLineParams{LedgerID: a.ledgerID, LineNo: filter.Line})
	case filter.Sequence != 0:
		nos, err = r.sql.ReconcileMatchNumbersOfEntry(ctx, r.pool, dbsqlc.ReconcileMatchNumbersOfEntryParams{
			LedgerID: a.ledgerID, BankAccountNo: a.no, Sequence: filter.Sequence,
		})
	default:
		return r.sql.ReconcileMatchNumbers(ctx, r.pool, dbsqlc.ReconcileMatchNumbersParams{
			LedgerID: a.ledgerID, BankAccountNo: a.no, Before: filter.Before, Kind: filter.Kind, Active: filter.Active,
			PageSize: int32(filter.Limit) + 1, //nolint:gosec // a few hundred
		})
	}
	if err != nil {
		return nil, err
	}
	// Of one item there are few.
	list, err := r.decisions(ctx, r.pool, a, nos)
	nos = nil
	for _, d := range list {
		if d.No < filter.Before && (filter.Kind == "" || d.Kind == filter.Kind) && (!filter.Active || d.Undone == nil) && len(nos) <= filter.Limit {
			nos = append(nos, d.No)
		}
	}
	return nos, err
}

// Decision gives a decision about a bank account. It returns CodeInvalidArgument or CodeNotFound.
func (r *Reconciler) Decision(ctx context.Context, name ledger.Name, bankAccount string, no int64) (*Decision, error) {
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return nil, err
	}
	d, err := r.mustDecision(ctx, r.pool, a, no)
	return d, public(ctx, "read the decision", err)
}

func (r *Reconciler) mustDecision(ctx context.Context, db dbsqlc.DBTX, a *BankAccount, no int64) (*Decision, error) {
	list, err := r.decisions(ctx, db, a, []int64{no})
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, ledger.Missing("match", "%d is no match of bank account %s", no, a.Name)
	}
	return list[0], nil
}

// decisionOf finds the decision of a request; nil is none.
func (r *Reconciler) decisionOf(ctx context.Context, db dbsqlc.DBTX, a *BankAccount, request string) (*Decision, error) {
	nos, err := r.sql.ReconcileMatchOfRequest(ctx, db, dbsqlc.ReconcileMatchOfRequestParams{LedgerID: a.ledgerID, BankAccountNo: a.no, Request: request})
	if err != nil || len(nos) == 0 {
		return nil, err
	}
	list, err := r.decisions(ctx, db, a, nos)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

// decisions reads decisions by their numbers, the newest first.
func (r *Reconciler) decisions(ctx context.Context, db dbsqlc.DBTX, a *BankAccount, nos []int64) ([]*Decision, error) {
	if len(nos) == 0 {
		return nil, nil
	}
	rows, err := r.sql.ReconcileMatches(ctx, db, dbsqlc.ReconcileMatchesParams{LedgerID: a.ledgerID, BankAccountNo: a.no, MatchNos: nos})
	if err != nil {
		return nil, err
	}
	list, places := make([]*Decision, len(rows)), map[int64]*Decision{}
	for i, row := range rows {
		d := &Decision{
			No: row.MatchNo, BankAccount: a.Name, Kind: row.Kind, Rule: Rule(row.Rule), Outcome: Outcome(row.Outcome), Run: row.RunNo, Lines: row.Lines,
			Entries: row.Entries, Request: row.Request, Reason: row.Reason, DecidedAt: row.DecidedAt.UTC(), DecidedBy: row.DecidedBy,
		}
		if isOwnRequest(d.Request) {
			d.Request = ""
		}
		if row.UndoNo != 0 {
			d.Undone = &Undone{row.UndoNo, row.UndoReason, row.UndoneAt.UTC(), row.UndoneBy}
		}
		list[i], places[d.No] = d, d
	}
	items, err := r.sql.ReconcileItemsOf(ctx, db, dbsqlc.ReconcileItemsOfParams{LedgerID: a.ledgerID, BankAccountNo: a.no, MatchNos: nos})
	if err != nil {
		return nil, err
	}
	for _, row := range items {
		d := places[row.MatchNo]
		d.Items = append(d.Items, DecisionItem{row.LineNo, row.Sequence, int(row.Leg), row.Amount, fromDate(row.ItemOn), row.PostsDifference})
	}
	differences, err := r.sql.ReconcileDifferencesOf(ctx, db, dbsqlc.ReconcileDifferencesOfParams{
		LedgerID: a.ledgerID, BankAccountNo: a.no, MatchNos: nos,
	})
	if err != nil {
		return nil, err
	}
	for _, row := range differences {
		d := places[row.MatchNo]
		d.Differences = append(d.Differences, Difference{
			int(row.Attempt), ledger.AccountID(row.AccountID), row.Amount, ledger.TransferID(row.TransferID), row.EffectiveAt, row.Description,
			row.ApprovedAt.UTC(), row.ApprovedBy,
		})
	}
	return list, nil
}

// decided says who has decided what, and when.
func decided(kind string, no int64, by string, at time.Time) string {
	did := "matched it"
	switch kind {
	case kindAutomatic:
		did = "matched it with a run"
	case kindIgnored:
		did = "ignored it"
	}
	return fmt.Sprintf("%s %s at %s (match %d)", by, did, at.UTC().Format("2006-01-02 15:04:05Z"), no)
}
