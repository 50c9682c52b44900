package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// take is an item that a decision is about, and what is known of it.
type take struct {
	DecisionItem
	name string // for people
	// whole is all of it, and asked how much was asked for; zero is all that is open.
	whole, asked decimal.Decimal
	// exactly is what has to be open of it, where a suggestion has said so.
	exactly *decimal.Decimal
}

// decision is a decision being made.
type decision struct {
	r          *Reconciler
	account    *BankAccount
	kind       string
	rule       Rule
	request    string
	reason     string
	caller     string
	takes      []take
	difference *DifferenceSpec
	against    *journalAccount
}

// fromGroup takes the items of a suggestion.
func (w *decision) fromGroup(ctx context.Context, run int64, group int) error {
	a := w.account
	rows, err := w.r.sql.ReconcileGroup(ctx, w.r.pool, dbsqlc.ReconcileGroupParams{
		LedgerID: a.ledgerID, BankAccountNo: a.no, RunNo: run, GroupNo: int32(group), //nolint:gosec // another number finds nothing
	})
	if err != nil {
		return public(ctx, "read the suggestion", err)
	}
	if len(rows) == 0 {
		return ledger.Missing("group", "run %d of bank account %s has no suggestion %d", run, a.Name, group)
	}
	var lines []LineTake
	var entries []EntryTake
	for _, row := range rows {
		w.rule = Rule(row.Rule)
		if row.Side == sideLine {
			lines = append(lines, LineTake{Line: row.Item, Amount: row.Open})
		} else {
			entries = append(entries, EntryTake{Sequence: row.Item, Leg: int(row.Leg), Forward: row.Item == 0, Amount: row.Open})
		}
	}
	if err := w.fromTakes(ctx, lines, entries); err != nil {
		return err
	}
	for i := range w.takes {
		exactly := w.takes[i].asked
		w.takes[i].exactly = &exactly
	}
	return nil
}

// fromTakes takes lines and entries as they are named.
func (w *decision) fromTakes(ctx context.Context, lines []LineTake, entries []EntryTake) error {
	for _, l := range lines {
		w.takes = append(w.takes, take{DecisionItem: DecisionItem{Line: l.Line}, name: fmt.Sprintf("line %d", l.Line), asked: l.Amount})
	}
	for i, e := range entries {
		if err := w.takeEntry(ctx, i, e); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for _, t := range w.takes {
		if seen[t.name] {
			return ledger.Invalid("lines", "and entries name %s twice", t.name)
		}
		seen[t.name] = true
		if !t.asked.Equal(t.asked.Truncate(w.account.Currency.Scale)) {
			return &ledger.Error{Code: ledger.CodeAmountScale, Message: fmt.Sprintf("%s of %s has more decimals than %s, which has %d", t.asked, t.name,
				w.account.Currency.Code, w.account.Currency.Scale)}
		}
	}
	return nil
}

// takeEntry finds an entry in the books.
func (w *decision) takeEntry(ctx context.Context, i int, e EntryTake) error {
	a, field := w.account, fmt.Sprintf("entries[%d]", i)
	if e.Forward {
		if a.Forward.IsZero() {
			return ledger.Invalid(field, "nothing was brought forward")
		}
		day := dayOf(dayNumber(a.Begins) - 1)
		w.takes = append(w.takes, take{DecisionItem: DecisionItem{Day: day}, name: "the balance brought forward", whole: a.Forward, asked: e.Amount})
		return nil
	}
	var sequences []int64
	var transfers []ledger.TransferID
	switch {
	case e.Transfer != "" && e.Sequence != 0 || e.Transfer == "" && e.Sequence <= 0:
		return ledger.Invalid(field, "is named by its transfer or by its sequence")
	case e.Transfer != "":
		if err := e.Transfer.ValidateFormat(field + ".transfer"); err != nil {
			return err
		}
		transfers = append(transfers, e.Transfer)
	default:
		sequences = append(sequences, e.Sequence)
	}
	found, err := w.r.journal.AccountEntriesOf(ctx, a.Ledger, a.Account, sequences, transfers)
	if err != nil {
		return err
	}
	if e.Leg != 0 {
		found = slices.DeleteFunc(found, func(f journal.ReconcileEntry) bool { return f.Leg != e.Leg })
	}
	what := cmp.Or(string(e.Transfer), fmt.Sprintf("with sequence %d", e.Sequence))
	switch {
	case len(found) == 0:
		return ledger.Errorf(ledger.CodeTransferNotFound, "account %s has no entry of transfer %s", a.Account, what)
	case len(found) > 1:
		return ledger.Invalid(field, "transfer %s has %d entries in account %s: name the leg", what, len(found), a.Account)
	}
	day := a.dayOf(&found[0])
	if a.isForward(found[0].Sequence, day) {
		return ledger.Invalid(field, "transfer %s is of %s, before %s: it is in the balance brought forward", what, day, a.Begins)
	}
	w.takes = append(w.takes, take{
		DecisionItem: DecisionItem{Sequence: found[0].Sequence, Leg: found[0].Leg, Day: day},
		name:         fmt.Sprintf("entry %d leg %d (transfer %s)", found[0].Sequence, found[0].Leg, found[0].TransferID),
		whole:        a.sense(found[0].Amount), asked: e.Amount,
	})
	return nil
}
