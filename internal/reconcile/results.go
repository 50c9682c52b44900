package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// Result is what a run says of an item that is open after it.
type Result struct {
	// Line or Entry is the item. Of either, what has become of it since is not in Result.
	Line  *Line
	Entry *Entry
	Day   bankfile.Date
	// Open is what was open of it.
	Open    decimal.Decimal
	Outcome Outcome
	// Group is the suggestion that it is in, 0 for none; Rule is what that goes by, and Difference what its lines come to beyond its entries.
	Group      int
	Rule       Rule
	Difference decimal.Decimal
	// InTransit says that it is expected to be on its way to the bank.
	InTransit bool
	Note      string
	// Candidates are some of the items of the other side that it may be.
	Candidates []Candidate
}

// Candidate names an item: a line by its number, or an entry by sequence and leg.
type Candidate struct {
	Line, Sequence int64
	Leg            int
}

// ResultCursor is a place in the results of a run: after an item. The zero cursor is the beginning.
type ResultCursor struct {
	Entry bool
	// No is the number of a line, or the sequence of an entry.
	No  int64
	Leg int
}

// Side is one of the two sides.
type Side string

// The sides.
const (
	BothSides   Side = ""
	BankSide    Side = "bank"
	LedgerSide  Side = "ledger"
	maxPageSize      = 10_000
)

// ResultFilter says which results are meant. The zero filter is all of them.
type ResultFilter struct {
	Side Side
	// Outcomes has only those; none is all.
	Outcomes []Outcome
	// Suggested has only what is in a suggestion.
	Suggested bool
	After     ResultCursor
	Limit     int
}

// Results lists what a run says of what is open: lines, and then entries, in the order of their numbers. 0 is the last run. It returns
// CodeInvalidArgument.
func (r *Reconciler) Results(ctx context.Context, name ledger.Name, bankAccount string, run int64, filter ResultFilter) (list []Result, more bool,
	err error) {
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return nil, false, err
	}
	args, err := filter.args(a)
	if err != nil {
		return nil, false, err
	}
	found, err := r.run(ctx, a, run)
	if err != nil {
		return nil, false, err
	}
	args.RunNo = found.No
	rows, err := r.sql.ReconcileResults(ctx, r.pool, args)
	if err != nil {
		return nil, false, public(ctx, "list the results", err)
	}
	limit := int(args.PageSize) - 1
	more = len(rows) > limit
	suggestions := make([]dbsqlc.ReconcileSuggestionsRow, 0, len(rows))
	for _, row := range rows[:min(limit, len(rows))] {
		suggestions = append(suggestions, dbsqlc.ReconcileSuggestionsRow(row))
	}
	list, err = r.resultsOf(ctx, a, suggestions)
	return list, more, public(ctx, "list the results", err)
}

func (f *ResultFilter) args(a *BankAccount) (dbsqlc.ReconcileResultsParams, error) {
	args := dbsqlc.ReconcileResultsParams{
		LedgerID: a.ledgerID, BankAccountNo: a.no, OnlySide: -1, Suggested: f.Suggested, Outcomes: []string{},
		Item: f.After.No, Leg: int16(f.After.Leg), PageSize: int32(max(1, min(f.Limit, maxPageSize))) + 1, //nolint:gosec // bounded
	}
	if f.After.Entry {
		args.Side = sideEntry
	} else if f.After.No == 0 {
		args.Side, args.Item = -1, 0
	}
	switch f.Side {
	case BothSides:
	case BankSide:
		args.OnlySide = sideLine
	case LedgerSide:
		args.OnlySide = sideEntry
	default:
		return args, ledger.Invalid("side", "%.40q is not bank or ledger", string(f.Side))
	}
	for _, o := range f.Outcomes {
		if !slices.Contains(outcomes, o) {
			return args, ledger.Invalid("outcomes", "%.40q is none of %s", string(o), oneOf(outcomes))
		}
		args.Outcomes = append(args.Outcomes, string(o))
	}
	return args, nil
}

// resultsOf completes results with the items that they are about.
func (r *Reconciler) resultsOf(ctx context.Context, a *BankAccount, rows []dbsqlc.ReconcileSuggestionsRow) ([]Result, error) {
	var nos, sequences []int64
	for _, row := range rows {
		if row.Side == sideLine {
			nos = append(nos, row.Item)
		} else if row.Item > 0 {
			sequences = append(sequences, row.Item)
		}
	}
	lines, err := r.linesByNumber(ctx, a, nos)
	if err != nil {
		return nil, err
	}
	entries, err := r.entriesBySequence(ctx, a, sequences)
	if err != nil {
		return nil, err
	}
	list := make([]Result, len(rows))
	for i, row := range rows {
		one := Result{
			Day: fromDate(row.ItemOn), Open: row.Open, Outcome: Outcome(row.Outcome), Rule: Rule(row.Rule), InTransit: row.InTransit, Note: row.Note,
		}
		if row.GroupNo != nil {
			one.Group = int(*row.GroupNo)
		}
		if row.Difference != nil {
			one.Difference = *row.Difference
		}
		if row.Side == sideLine {
			one.Line = lines[row.Item]
		} else {
			one.Entry = entries[entryKey{row.Item, row.Leg}]
		}
		if one.Line == nil && one.Entry == nil {
			return nil, fmt.Errorf("item %d of a run is not there", row.Item)
		}
		if row.Candidates != "" {
			var stored []storedCandidate
			if err := json.Unmarshal([]byte(row.Candidates), &stored); err != nil {
				return nil, err
			}
			for _, c := range stored {
				one.Candidates = append(one.Candidates, Candidate{c.Line, c.Sequence, int(c.Leg)})
			}
		}
		list[i] = one
	}
	return list, nil
}

// Suggestion is a group of items that belong together, as a run suggests. Confirm takes it by run and group.
type Suggestion struct {
	Group   int
	Rule    Rule
	Lines   []Result
	Entries []Result
	// Difference is what the lines come to beyond the entries. Where there is one, Confirm needs to be told where it goes.
	Difference decimal.Decimal
}

// Suggestions lists the suggestions of a run in their order, after one; 0 is the last run. It returns CodeInvalidArgument.
func (r *Reconciler) Suggestions(ctx context.Context, name ledger.Name, bankAccount string, run int64, after, limit int) (list []Suggestion,
	more bool, err error) {
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return nil, false, err
	}
	found, err := r.run(ctx, a, run)
	if err != nil {
		return nil, false, err
	}
	after, limit = max(after, 0), max(1, min(limit, maxPageSize))
	last := min(int64(after)+int64(limit), found.Summary.Suggestions)
	rows, err := r.sql.ReconcileSuggestions(ctx, r.pool, dbsqlc.ReconcileSuggestionsParams{
		LedgerID: a.ledgerID, BankAccountNo: a.no, RunNo: found.No, After: int32(min(int64(after), last)), //nolint:gosec // as many as there are
		Last: int32(last),
	})
	if err != nil {
		return nil, false, public(ctx, "list the suggestions", err)
	}
	results, err := r.resultsOf(ctx, a, rows)
	if err != nil {
		return nil, false, public(ctx, "list the suggestions", err)
	}
	for _, one := range results {
		if n := len(list); n == 0 || list[n-1].Group != one.Group {
			list = append(list, Suggestion{Group: one.Group, Rule: one.Rule, Difference: one.Difference})
		}
		s := &list[len(list)-1]
		if one.Line != nil {
			s.Lines = append(s.Lines, one)
		} else {
			s.Entries = append(s.Entries, one)
		}
	}
	return list, last < found.Summary.Suggestions, nil
}
