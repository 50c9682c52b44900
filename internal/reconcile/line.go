package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// Line is a line of the bank, as it is kept. Its texts are the bank's, or a stranger's: nothing in them is to be trusted.
type Line struct {
	No, Statement, File int64
	// Kind is "line", "detail", or "opening": the balance at the bank before the first line. Parent is the line that a detail is of.
	Kind   string
	Parent int64
	// Counts says whether it adds to the balance and is for matching. Of a batch that is broken down its details count.
	Counts bool
	// Taken is what active matches have taken of it, or what is ignored, in its own sign.
	Taken decimal.Decimal
	bankfile.Line
}

// Open is what no decision has taken.
func (l *Line) Open() decimal.Decimal {
	if !l.Counts {
		return decimal.Zero
	}
	return l.Amount.Sub(l.Taken)
}

// LineFilter says which lines are meant. The zero filter is all of them.
type LineFilter struct {
	// From and To are the first and the last booking date.
	From, To bankfile.Date
	// File has only those that were new in a file.
	File int64
	// Counting leaves out those that do not count, and Open those of which nothing is open.
	Counting, Open bool
	// After is the number after which they come.
	After int64
	Limit int
}

// Lines lists lines of a bank account, in the order of their numbers, which is that in which they were imported. It returns CodeInvalidArgument.
func (r *Reconciler) Lines(ctx context.Context, name ledger.Name, bankAccount string, filter LineFilter) (list []*Line, more bool, err error) {
	if err := errors.Join(validateDay("from", filter.From), validateDay("to", filter.To)); err != nil {
		return nil, false, err
	}
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return nil, false, err
	}
	rows, err := r.sql.BankLines(ctx, r.pool, dbsqlc.BankLinesParams{
		LedgerID: a.ledgerID, BankAccountNo: a.no, After: filter.After, FromOn: toDate(filter.From), ToOn: toDate(filter.To), Counting: filter.Counting,
		Open: filter.Open, FileNo: filter.File, PageSize: int32(filter.Limit) + 1, //nolint:gosec // a few hundred
	})
	if err != nil {
		return nil, false, public(ctx, "list the lines", err)
	}
	more = len(rows) > filter.Limit
	for _, row := range rows[:min(filter.Limit, len(rows))] {
		l, err := lineOf(dbsqlc.BankLinesByNumberRow(row))
		if err != nil {
			return nil, false, public(ctx, "list the lines", err)
		}
		list = append(list, l)
	}
	return list, more, nil
}

// Line gives a line of a bank account. It returns CodeInvalidArgument or CodeNotFound.
func (r *Reconciler) Line(ctx context.Context, name ledger.Name, bankAccount string, no int64) (*Line, error) {
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return nil, err
	}
	found, err := r.linesByNumber(ctx, a, []int64{no})
	if err != nil {
		return nil, public(ctx, "read the line", err)
	}
	if found[no] == nil {
		return nil, ledger.Missing("line", "%d is no line of bank account %s", no, a.Name)
	}
	return found[no], nil
}

func (r *Reconciler) linesByNumber(ctx context.Context, a *BankAccount, nos []int64) (map[int64]*Line, error) {
	found := make(map[int64]*Line, len(nos))
	if len(nos) == 0 {
		return found, nil
	}
	rows, err := r.sql.BankLinesByNumber(ctx, r.pool, dbsqlc.BankLinesByNumberParams{LedgerID: a.ledgerID, BankAccountNo: a.no, LineNos: nos})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if found[row.LineNo], err = lineOf(row); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func lineOf(row dbsqlc.BankLinesByNumberRow) (*Line, error) {
	l := &Line{
		No: row.LineNo, Statement: row.StatementNo, File: row.FileNo, Kind: row.Kind, Parent: row.ParentNo, Counts: row.Counts, Taken: row.Taken,
		Line: bankfile.Line{
			Ordinal: int(row.Ordinal), Position: int(row.Position), BookingDate: fromDate(row.BookedOn), ValueDate: fromDate(row.ValueOn), Amount: row.Amount,
			Currency: row.Currency, Gross: row.Gross, Fee: row.Fee, Status: bankfile.Status(row.Status), Reversal: row.Reversal, ExternalID: row.ExternalID,
			Code: row.Code, Description: row.Description, Identity: row.Identity,
		},
	}
	var refs storedRefs
	var party storedParty
	var errs [3]error
	errs[0] = json.Unmarshal([]byte(row.Refs), &refs)
	errs[1] = json.Unmarshal([]byte(row.Party), &party)
	l.Flags, errs[2] = decodeList(row.Flags, func(f storedFlag) bankfile.Flag { return bankfile.Flag(f) })
	l.References, l.Counterparty = bankfile.References(refs), bankfile.Party(party)
	return l, errors.Join(errs[:]...)
}

// Entry is an entry of the books, as reconciliation looks at it.
type Entry struct {
	// Sequence is 0 for what was brought forward.
	Sequence int64
	Leg      int
	// Amount is in the bank's sense, and Day its date by the basis of the bank account.
	Amount      decimal.Decimal
	Day         bankfile.Date
	Transfer    ledger.TransferID
	Kind        ledger.Kind
	Origin      ledger.TransferID
	PostedAt    time.Time
	EffectiveAt *time.Time
	Description string
	// Others are the other accounts of the transfer.
	Others []ledger.AccountID
}

func entryOf(a *BankAccount, e *journal.ReconcileEntry) *Entry {
	out := &Entry{
		Sequence: e.Sequence, Leg: e.Leg, Amount: a.sense(e.Amount), Day: a.dayOf(e), Transfer: e.TransferID, Kind: e.Kind, Origin: e.Origin,
		PostedAt: e.PostedAt.UTC(), Description: e.Description, Others: e.Others,
	}
	if e.EffectiveAt != nil {
		at := e.EffectiveAt.UTC()
		out.EffectiveAt = &at
	}
	return out
}

// Entries gives the entries that transfers have in the account which mirrors a bank account, by the sequences of the transfers, in their order; 0 is what
// was brought forward. Sequences without such an entry have none. It returns CodeInvalidArgument.
func (r *Reconciler) Entries(ctx context.Context, name ledger.Name, bankAccount string, sequences []int64) ([]*Entry, error) {
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return nil, err
	}
	found, err := r.entriesBySequence(ctx, a, slices.DeleteFunc(slices.Clone(sequences), func(n int64) bool { return n <= 0 }))
	if err != nil {
		return nil, public(ctx, "read the entries", err)
	}
	if !slices.Contains(sequences, 0) {
		delete(found, entryKey{})
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *Entry) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Leg, b.Leg))
	}), nil
}

// entriesBySequence finds entries of a bank account's account in the books.
func (r *Reconciler) entriesBySequence(ctx context.Context, a *BankAccount, sequences []int64) (map[entryKey]*Entry, error) {
	found := make(map[entryKey]*Entry, len(sequences))
	if !a.Forward.IsZero() {
		found[entryKey{}] = &Entry{Amount: a.Forward, Day: dayOf(dayNumber(a.Begins) - 1), Description: "Balance brought forward"}
	}
	if len(sequences) == 0 {
		return found, nil
	}
	list, err := r.journal.AccountEntriesOf(ctx, a.Ledger, a.Account, sequences, nil)
	for i := range list {
		found[entryKey{list[i].Sequence, int16(list[i].Leg)}] = entryOf(a, &list[i]) //nolint:gosec // a leg of a transfer
	}
	return found, err
}
