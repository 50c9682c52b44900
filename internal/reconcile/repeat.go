package reconcile

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// maxTold is how many differences of a repeated run are told.
const maxTold = 20

// Repeat does a run again, of the same state and by the same settings, and gives what comes out otherwise, in words: nothing, unless somebody has
// changed what never changes, or another version of Khata matches otherwise. It keeps nothing. It returns CodeInvalidArgument.
func (r *Reconciler) Repeat(ctx context.Context, name ledger.Name, bankAccount string, no int64) ([]string, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return nil, err
	}
	run, err := r.run(ctx, a, no)
	if err != nil {
		return nil, err
	}
	w, err := r.solved(ctx, run.snapshot(a))
	if err != nil {
		return nil, public(ctx, "repeat the run", err)
	}
	c := &comparison{stored: map[resultKey]string{}}
	if err := c.read(ctx, r, a, run); err != nil {
		return nil, public(ctx, "repeat the run", err)
	}
	c.compare(w)
	return c.differences, nil
}

// snapshot is the state of which a run was.
func (run *Run) snapshot(a *BankAccount) *snapshot {
	return &snapshot{
		account: a, settings: run.Settings, version: run.SettingsVersion, asOf: run.AsOf, through: run.Through, sinceLine: run.sinceLine,
		sinceEntry: run.sinceEntry, covers: run.Covers,
	}
}

type resultKey struct {
	side int16
	item int64
	leg  int16
}

// comparison holds what a run has said against what it says now.
type comparison struct {
	stored      map[resultKey]string
	confirmed   map[string]bool
	differences []string
}

func (c *comparison) add(format string, args ...any) {
	if len(c.differences) < maxTold {
		c.differences = append(c.differences, fmt.Sprintf(format, args...))
	}
}

func said(outcome Outcome, rule Rule, open decimal.Decimal, group *int32, difference *decimal.Decimal, transit bool, note string) string {
	text := fmt.Sprintf("%s by %q, open %s, in transit %t, %q", outcome, rule, open, transit, note)
	if group != nil {
		text += fmt.Sprintf(", group %d", *group)
	}
	if difference != nil {
		text += fmt.Sprintf(", difference %s", difference)
	}
	return text
}

func (c *comparison) read(ctx context.Context, r *Reconciler, a *BankAccount, run *Run) error {
	args := []any{a.ledgerID, a.no, run.No, int16(-1), int64(0), int16(0), []string{}, int16(-1), false, int32(math.MaxInt32)}
	err := rowsOf(ctx, r.pool, dbsqlc.ReconcileResults, args, func(row dbsqlc.ReconcileResultsRow) error {
		c.stored[resultKey{row.Side, row.Item, row.Leg}] = said(Outcome(row.Outcome), Rule(row.Rule), row.Open, row.GroupNo, row.Difference,
			row.InTransit, row.Note)
		return nil
	})
	if err != nil {
		return err
	}
	rows, err := r.sql.ReconcileMatchesOfRun(ctx, r.pool, dbsqlc.ReconcileMatchesOfRunParams{LedgerID: a.ledgerID, BankAccountNo: a.no, RunNo: &run.No})
	if err != nil {
		return err
	}
	c.confirmed = map[string]bool{}
	var set decisionItems
	for i, row := range rows {
		item := DecisionItem{Sequence: row.Sequence, Leg: int(row.Leg)}
		if row.IsLine {
			item = DecisionItem{Line: row.LineNo}
		}
		set.add(item)
		if i == len(rows)-1 || rows[i+1].MatchNo != row.MatchNo {
			c.confirmed[set.key()] = true
			set = decisionItems{}
		}
	}
	return nil
}

func (c *comparison) compare(w *work) {
	_ = w.results(func(line bool, one result) error {
		k := resultKey{sideEntry, one.no, one.leg}
		if line {
			k.side = sideLine
		}
		now := said(one.outcome, one.rule, one.open, one.group, one.difference, one.transit, one.note)
		if stored, ok := c.stored[k]; !ok || stored != now {
			c.add("%s: was %s, is %s", k.name(), stored, now)
		}
		delete(c.stored, k)
		return nil
	})
	for k, stored := range c.stored {
		c.add("%s: was %s, is not there", k.name(), stored)
	}
	for i := range w.groups {
		g := &w.groups[i]
		if !g.confirmed {
			continue
		}
		var set decisionItems
		for _, l := range g.lines {
			set.lines = append(set.lines, w.lines[l].no)
		}
		for _, e := range g.entries {
			set.entries = append(set.entries, entryKey{w.entries[e].no, w.entries[e].leg})
		}
		if key := set.key(); c.confirmed[key] {
			delete(c.confirmed, key)
		} else {
			c.add("%s is confirmed, and was not", key)
		}
	}
	for key := range c.confirmed {
		c.add("%s was confirmed, and is not", key)
	}
	slices.Sort(c.differences)
}

func (k resultKey) name() string {
	if k.side == sideLine {
		return fmt.Sprintf("line %d", k.item)
	}
	return fmt.Sprintf("entry %d leg %d", k.item, k.leg)
}

var changeColumns = []sheet.Column{
	{ID: "side", Title: "Side", Kind: sheet.Text}, {ID: "number", Title: "Number", Kind: sheet.Count}, {ID: "leg", Title: "Leg", Kind: sheet.Count},
	{ID: "date", Title: "Date", Kind: sheet.Date}, {ID: "before", Title: "Before", Kind: sheet.Text}, {ID: "open_before", Title: "Open before",
		Kind: sheet.Amount},
	{ID: "after", Title: "After", Kind: sheet.Text}, {ID: "open_after", Title: "Open after", Kind: sheet.Amount},
}

// Changes lists what a run says of open items otherwise than an earlier one: what was new, what has been settled, what is open again, and what has
// become something else. It returns CodeInvalidArgument.
func (r *Reconciler) Changes(ctx context.Context, name ledger.Name, bankAccount string, older, newer int64, w sheet.Writer) error {
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return err
	}
	before, err := r.run(ctx, a, older)
	if err != nil {
		return err
	}
	after, err := r.run(ctx, a, newer)
	if err != nil {
		return err
	}
	if before.Ordinal >= after.Ordinal {
		return ledger.Invalid("older", "run %d is not before run %d", before.No, after.No)
	}
	head := sheet.Head{Report: "reconciliation-changes", Title: "Changes between runs", Columns: changeColumns, Facts: append(accountFacts(a),
		sheet.Fact{ID: "before", Title: "Run before", Value: fmt.Sprint(before.No)}, sheet.Fact{ID: "after", Title: "Run after",
			Value: fmt.Sprint(after.No)})}
	if err := w.Begin(head); err != nil {
		return err
	}
	args := []any{a.ledgerID, a.no, before.No, after.No}
	var writing error
	err = rowsOf(ctx, r.pool, dbsqlc.ReconcileChanges, args, func(row dbsqlc.ReconcileChangesRow) error {
		writing = w.Row(sheet.Row{Kind: sheet.Item, Cells: changeCells(a, before, row)})
		return writing
	})
	if writing != nil {
		return writing
	}
	if err != nil {
		return public(ctx, "compare the runs", err)
	}
	return w.End(nil)
}

func changeCells(a *BankAccount, before *Run, row dbsqlc.ReconcileChangesRow) []string {
	side, leg, limit := string(BankSide), "", before.AsOf
	if row.Side == sideEntry {
		side, leg, limit = string(LedgerSide), fmt.Sprint(row.Leg), before.Through
	}
	was, openBefore := row.OutcomeBefore, a.cell(row.OpenBefore)
	if was == "" {
		was, openBefore = "new", ""
		if row.Item <= limit {
			was = "settled"
		}
	}
	is, openAfter := row.OutcomeAfter, a.cell(row.OpenAfter)
	if is == "" {
		is, openAfter = "settled", ""
	}
	return []string{side, fmt.Sprint(row.Item), leg, fromDate(row.ItemOn).String(), was, openBefore, is, openAfter}
}

// cell is an amount of a bank account in a sheet.
func (a *BankAccount) cell(d decimal.Decimal) string { return sheet.AmountCell(d, a.Currency.Scale) }

// accountFacts are what every sheet about a bank account begins with.
func accountFacts(a *BankAccount) []sheet.Fact {
	basis := "booking: the time at which Khata recorded the transfer"
	if a.Basis == "value" {
		basis = "value: the value date of the transfer, or else the time at which Khata recorded it"
	}
	return []sheet.Fact{
		{ID: "ledger", Title: "Ledger", Value: string(a.Ledger)}, {ID: "bank_account", Title: "Bank account", Value: a.Name},
		{ID: "account", Title: "Account", Value: string(a.Account)}, {ID: "currency", Title: "Currency", Value: string(a.Currency.Code)},
		{ID: "zone", Title: "Time zone", Value: a.Zone.String()}, {ID: "basis", Title: "Dates of entries are by", Value: basis},
		{ID: "signs", Title: "Signs", Value: "an amount in the account holder's favour is positive, on both sides"},
	}
}
