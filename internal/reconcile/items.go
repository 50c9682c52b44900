package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// ItemsSpec asks for the list of all lines and entries with their outcomes.
type ItemsSpec struct {
	Ledger      ledger.Name
	BankAccount string
	// Run is the run after which they are listed; 0 is the last one.
	Run  int64
	Side Side
	// Outcomes has only those; none is all.
	Outcomes []Outcome
	// From and To are the first and the last day of items.
	From, To bankfile.Date
	// Open leaves out what is settled. Then entries before all that is open need not be read.
	Open bool
}

var itemsColumns = []sheet.Column{
	{ID: "side", Title: "Side", Kind: sheet.Text}, {ID: "number", Title: "Line or sequence", Kind: sheet.Count}, {ID: "leg", Title: "Leg",
		Kind: sheet.Count},
	{ID: "date", Title: "Date", Kind: sheet.Date}, {ID: "reference", Title: "Reference", Kind: sheet.Text},
	{ID: "description", Title: "Description", Kind: sheet.Text}, {ID: "amount", Title: "Amount", Kind: sheet.Amount},
	{ID: "open", Title: "Open", Kind: sheet.Amount}, {ID: "outcome", Title: "Outcome", Kind: sheet.Text}, {ID: "state", Title: "State",
		Kind: sheet.Text},
	{ID: "rule", Title: "Rule", Kind: sheet.Text}, {ID: "group", Title: "Match or suggestion", Kind: sheet.Count}, {ID: "by", Title: "By",
		Kind: sheet.Text},
	{ID: "note", Title: "Note", Kind: sheet.Text},
}

// listing is a list of items being made.
type listing struct {
	r     *Reconciler
	spec  ItemsSpec
	a     *BankAccount
	run   *Run
	w     sheet.Writer
	lines Tally
	// writing is an error of the writer, which is not to be taken for one of the database.
	writing error
}

// listed is an item with what is known of it.
type listed struct {
	side                   Side
	number                 int64
	leg                    string
	day                    bankfile.Date
	reference, description string
	amount, open           decimal.Decimal
	outcome, rule          string
	group                  int32
	match                  int64
	kind, by, note         string
}

// Items writes all lines and entries with their outcomes after a run, lines first. It returns CodeInvalidArgument before anything is written.
func (r *Reconciler) Items(ctx context.Context, spec ItemsSpec, w sheet.Writer) error {
	leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := errors.Join(validateDay("from", spec.From), validateDay("to", spec.To)); err != nil {
		return err
	}
	if _, err := (&ResultFilter{Side: spec.Side, Outcomes: spec.Outcomes}).args(&BankAccount{}); err != nil {
		return err
	}
	a, err := r.BankAccount(ctx, spec.Ledger, spec.BankAccount)
	if err != nil {
		return err
	}
	run, err := r.run(ctx, a, spec.Run)
	if err != nil {
		return err
	}
	l := &listing{r: r, spec: spec, a: a, run: run, w: w}
	if err := w.Begin(l.head()); err != nil {
		return err
	}
	for _, part := range []struct {
		side Side
		list func(context.Context) error
	}{{BankSide, l.listLines}, {LedgerSide, l.listEntries}} {
		if spec.Side != BothSides && spec.Side != part.side {
			continue
		}
		err := part.list(ctx)
		if l.writing != nil {
			return l.writing
		}
		if err != nil {
			return public(ctx, "list the items", err)
		}
	}
	return w.End(l.checks())
}

func (l *listing) head() sheet.Head {
	facts := append(accountFacts(l.a),
		sheet.Fact{ID: "run", Title: "After run", Value: strconv.FormatInt(l.run.No, 10)},
		sheet.Fact{ID: "run_at", Title: "Run at", Value: sheet.TimeCell(l.run.RunAt)},
		sheet.Fact{ID: "as_of", Title: "Lines and decisions through number", Value: strconv.FormatInt(l.run.AsOf, 10)},
		sheet.Fact{ID: "through", Title: "Entries through sequence", Value: strconv.FormatInt(l.run.Through, 10)})
	return sheet.Head{Report: "reconciliation-items", Title: "Lines and entries with their outcomes", Facts: facts, Columns: itemsColumns}
}

// checks compares what was listed with what the run counted, if all lines were.
func (l *listing) checks() []sheet.Check {
	s := l.spec
	if s.Side == LedgerSide || len(s.Outcomes) > 0 || !s.From.IsZero() || !s.To.IsZero() || s.Open {
		return nil
	}
	c := sheet.Check{Name: "all lines are listed", OK: l.lines.Count == l.run.Summary.Lines.Count && l.lines.Sum.Equal(l.run.Summary.Lines.Sum)}
	if !c.OK {
		c.Detail = fmt.Sprintf("%d lines of %s, and the run had %d of %s", l.lines.Count, l.lines.Sum, l.run.Summary.Lines.Count, l.run.Summary.Lines.Sum)
	}
	return []sheet.Check{c}
}

// add writes an item, if it is meant.
func (l *listing) add(i listed) error {
	s := l.spec
	settled := i.open.IsZero()
	switch {
	case s.Open && settled,
		len(s.Outcomes) > 0 && !slices.Contains(s.Outcomes, Outcome(i.outcome)),
		!s.From.IsZero() && i.day.Compare(s.From) < 0, !s.To.IsZero() && i.day.Compare(s.To) > 0:
		return nil
	}
	state, group := "open", ""
	switch {
	case settled:
		state = map[string]string{kindAutomatic: "confirmed by a run", kindManual: "confirmed by a person", kindIgnored: "ignored"}[i.kind]
		group = strconv.FormatInt(i.match, 10)
	case i.group > 0:
		state, group = "suggested", strconv.Itoa(int(i.group))
	}
	l.writing = l.w.Row(sheet.Row{Kind: sheet.Item, Cells: []string{
		string(i.side), strconv.FormatInt(i.number, 10), i.leg, i.day.String(), i.reference, i.description, l.a.cell(i.amount), l.a.cell(i.open), i.outcome,
		state, i.rule, group, i.by, i.note,
	}})
	return l.writing
}

func (l *listing) listLines(ctx context.Context) error {
	args := []any{l.run.No, l.run.AsOf, l.a.ledgerID, l.a.no, toDate(l.spec.From), toDate(l.spec.To)}
	return rowsOf(ctx, l.r.pool, dbsqlc.ReconcileLineOutcomes, args, func(row dbsqlc.ReconcileLineOutcomesRow) error {
		l.lines.add(row.Amount)
		i := listed{
			side: BankSide, number: row.LineNo, day: fromDate(row.BookedOn), reference: lineReference(row.ExternalID, row.Refs), description: row.Description,
			amount: row.Amount, open: row.Open, outcome: row.Outcome, rule: row.Rule, group: row.GroupNo, note: row.Note, match: row.MatchNo,
			kind: row.MatchKind, by: row.DecidedBy,
		}
		if i.open.IsZero() {
			i.outcome, i.rule = row.MatchOutcome, row.MatchRule
		}
		return l.add(i)
	})
}

// cursor goes through rows in order.
type cursor[Row any] struct {
	rows pgx.Rows
	next Row
	more bool
}

func open[Row any](ctx context.Context, db dbsqlc.DBTX, sql string, args ...any) (*cursor[Row], error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	c := &cursor[Row]{rows: rows}
	if err := c.read(); err != nil {
		return nil, err
	}
	return c, rows.Err()
}

func (c *cursor[Row]) read() (err error) {
	if c.more = c.rows.Next(); !c.more {
		return c.rows.Err()
	}
	c.next, err = pgx.RowToStructByPos[Row](c.rows)
	return err
}

// forward reads on to a key, and gives the last row that has it.
func (c *cursor[Row]) forward(key entryKey, of func(*Row) entryKey) (row Row, found bool, err error) {
	for c.more {
		switch order := compareEntries(of(&c.next), key); {
		case order > 0:
			return row, found, nil
		case order == 0:
			row, found = c.next, true
		}
		if err := c.read(); err != nil {
			return row, found, err
		}
	}
	return row, found, nil
}

func compareEntries(a, b entryKey) int {
	return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.leg, b.leg))
}

func (l *listing) listEntries(ctx context.Context) error {
	since := int64(0)
	if l.spec.Open {
		since = l.run.sinceEntry
	}
	results, err := open[dbsqlc.ReconcileEntryOutcomesRow](ctx, l.r.pool, dbsqlc.ReconcileEntryOutcomes, l.a.ledgerID, l.a.no, l.run.No, int64(-1))
	if err != nil {
		return err
	}
	defer results.rows.Close()
	matches, err := open[dbsqlc.ReconcileEntryMatchesRow](ctx, l.r.pool, dbsqlc.ReconcileEntryMatches, l.a.ledgerID, l.a.no, int64(-1), l.run.AsOf,
		l.run.No)
	if err != nil {
		return err
	}
	defer matches.rows.Close()
	one := func(e *Entry) error {
		key := entryKey{e.Sequence, int16(e.Leg)} //nolint:gosec // a leg of a transfer
		result, isOpen, err := results.forward(key, func(r *dbsqlc.ReconcileEntryOutcomesRow) entryKey { return entryKey{r.Sequence, r.Leg} })
		if err != nil {
			return err
		}
		match, _, err := matches.forward(key, func(r *dbsqlc.ReconcileEntryMatchesRow) entryKey { return entryKey{r.Sequence, r.Leg} })
		if err != nil {
			return err
		}
		i := listed{
			side: LedgerSide, number: e.Sequence, leg: strconv.Itoa(e.Leg), day: e.Day, reference: string(e.Transfer), description: e.Description,
			amount: e.Amount, match: match.MatchNo, kind: match.Kind, by: match.DecidedBy, outcome: match.Outcome, rule: match.Rule,
		}
		if isOpen {
			i.open, i.outcome, i.rule, i.group, i.note = result.Open, result.Outcome, result.Rule, result.GroupNo, result.Note
			if result.InTransit && i.note == "" {
				i.note = "in transit"
			}
		}
		return l.add(i)
	}
	if forward, err := l.r.entriesBySequence(ctx, l.a, nil); err != nil {
		return err
	} else if e := forward[entryKey{}]; e != nil {
		if err := one(e); err != nil {
			return err
		}
	}
	p, err := l.r.journal.Period(ctx, l.a.Ledger, journal.PeriodSpec{Through: l.run.Through, Since: since})
	if err != nil {
		return err
	}
	return p.AccountEntries(ctx, l.a.Account, nil, func(e journal.ReconcileEntry) error {
		entry := entryOf(l.a, &e)
		if l.a.isForward(entry.Sequence, entry.Day) {
			return nil
		}
		return one(entry)
	})
}

// lineReference is what a line is best known by.
func lineReference(externalID, stored string) string {
	var refs storedRefs
	if err := json.Unmarshal([]byte(stored), &refs); err != nil {
		return externalID
	}
	return cmp.Or(refs.EndToEnd, refs.Customer, refs.Creditor, refs.Batch, refs.Source, refs.Bank, externalID)
}
