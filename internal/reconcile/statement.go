package reconcile

import (
	"context"
	"fmt"
	"strconv"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// StatementSpec asks for a reconciliation statement.
type StatementSpec struct {
	Ledger      ledger.Name
	BankAccount string
	// Day is that at whose end the balances are; none is the last day that the bank's files cover.
	Day bankfile.Date
	// Items lists each item, and not only what they come to by age.
	Items bool
	// AsOf is the number up to which lines and decisions count, and Through that for entries: with both, a statement is the same whenever it is asked
	// for. Zero is all that there is.
	AsOf, Through int64
}

var statementColumns = []sheet.Column{
	{ID: "item", Title: "Item", Kind: sheet.Text}, {ID: "age", Title: "Age in days", Kind: sheet.Text}, {ID: "count", Title: "Count", Kind: sheet.Count},
	{ID: "date", Title: "Date", Kind: sheet.Date}, {ID: "number", Title: "Line or sequence", Kind: sheet.Count},
	{ID: "reference", Title: "Reference", Kind: sheet.Text}, {ID: "description", Title: "Description", Kind: sheet.Text},
	{ID: "amount", Title: "Amount", Kind: sheet.Amount},
}

// ages are the last days of the age groups, as in the report of clearing accounts.
var ages = []int{1, 7, 30, 90}

// ageGroup is the place of an age among the groups, and ageNames what these are called.
func ageGroup(days int) int {
	for i, last := range ages {
		if days <= last {
			return i
		}
	}
	return len(ages)
}

var ageNames = []string{"up to 1", "2 to 7", "8 to 30", "31 to 90", "older"}

// section is a kind of items between the balance of the books and that of the bank.
type section struct {
	title  string
	groups [5]Tally
	total  decimal.Decimal
}

func (s *section) add(age int, amount decimal.Decimal) {
	s.groups[ageGroup(age)].add(amount)
	s.total = s.total.Add(amount)
}

// statement is a reconciliation statement being made.
type statement struct {
	*snapshot
	spec   StatementSpec
	r      *Reconciler
	w      sheet.Writer
	day    int
	sum    decimal.Decimal // from the balance of the books on
	checks []sheet.Check
}

// Statement writes the reconciliation statement of a bank account: from the balance in the books, over all that the two sides do not have in common,
// to the balance at the bank. What is not explained is zero, or a check of the sheet has failed.
//
// Decisions are those that are known now, or as of spec.AsOf: an item that was matched with one after the day was in transit on the day. It returns
// CodeInvalidArgument before anything is written.
func (r *Reconciler) Statement(ctx context.Context, spec StatementSpec, w sheet.Writer) error {
	leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	a, err := r.BankAccount(ctx, spec.Ledger, spec.BankAccount)
	if err != nil {
		return err
	}
	s := &statement{spec: spec, r: r, w: w}
	if s.snapshot, err = r.stateOf(ctx, a, spec.AsOf, spec.Through); err != nil {
		return public(ctx, "make the statement", err)
	}
	if spec.Day.IsZero() {
		s.spec.Day = s.covers
	}
	if err := validateDay("day", s.spec.Day); err != nil {
		return err
	}
	switch {
	case s.spec.Day.IsZero():
		return ledger.Invalid("day", "is required: no file of bank account %s has been imported", a.Name)
	case !a.Begins.IsZero() && dayNumber(s.spec.Day) < dayNumber(a.Begins)-1:
		return ledger.Invalid("day", "%s is before %s, with which bank account %s begins", s.spec.Day, a.Begins, a.Name)
	}
	s.day = dayNumber(s.spec.Day)
	return s.write(ctx)
}

// stateOf is the state as of two numbers, or as it is now.
func (r *Reconciler) stateOf(ctx context.Context, a *BankAccount, asOf, through int64) (*snapshot, error) {
	s, err := r.now(ctx, a)
	if err != nil {
		return nil, err
	}
	switch {
	case asOf < 0 || asOf > s.asOf:
		return nil, ledger.Invalid("as_of", "%d is not between 0 and %d", asOf, s.asOf)
	case through < 0 || through > s.through:
		return nil, ledger.Invalid("through", "%d is not between 0 and %d", through, s.through)
	case through > 0 && through < a.ForwardThrough:
		return nil, ledger.Invalid("through", "%d is before %d, the last sequence in the balance brought forward", through, a.ForwardThrough)
	}
	if asOf > 0 && asOf < s.asOf { // What was settled since was open then.
		s.asOf, s.sinceLine, s.sinceEntry = asOf, 0, 0
		covers, err := r.sql.BankCovers(ctx, r.pool, dbsqlc.BankCoversParams{LedgerID: a.ledgerID, BankAccountNo: a.no, AsOf: asOf})
		if err != nil {
			return nil, err
		}
		s.covers = fromDate(covers)
	}
	if through > 0 {
		s.through = through
	}
	return s, nil
}

func (s *statement) write(ctx context.Context) error {
	next, err := beginOf(dayOf(s.day+1), s.account.Zone)
	if err != nil {
		return err
	}
	books, _, err := s.r.ledgerBalance(ctx, s.account, next, s.through)
	if err != nil {
		return err
	}
	atBank, err := s.r.sql.BankBalance(ctx, s.r.pool, dbsqlc.BankBalanceParams{
		LedgerID: s.account.ledgerID, BankAccountNo: s.account.no, Day: toDate(s.spec.Day), AsOf: s.asOf,
	})
	if err != nil {
		return public(ctx, "make the statement", err)
	}
	if err := s.w.Begin(s.head()); err != nil {
		return err
	}
	s.sum = books
	if err := s.row(sheet.Opening, "Balance in the books", "", "", "", "", "", "", books); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{s.openEntries, s.openLines, s.lopsided} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	unexplained := atBank.Balance.Sub(s.sum)
	for _, row := range []struct {
		kind  sheet.RowKind
		title string
		sum   decimal.Decimal
	}{{sheet.Total, "What that comes to", s.sum}, {sheet.Closing, "Balance at the bank", atBank.Balance}, {sheet.Total, "Unexplained", unexplained}} {
		if err := s.row(row.kind, row.title, "", "", "", "", "", "", row.sum); err != nil {
			return err
		}
	}
	s.check(unexplained.IsZero(), "nothing is unexplained",
		"%s is: the balance in the books and the items come to %s, and the balance at the bank is %s. Run khata verify",
		unexplained, s.sum, atBank.Balance)
	if err := s.stated(ctx, atBank); err != nil {
		return err
	}
	return s.w.End(s.checks)
}

func (s *statement) head() sheet.Head {
	facts := append(accountFacts(s.account),
		sheet.Fact{ID: "day", Title: "At the end of", Value: s.spec.Day.String()},
		sheet.Fact{ID: "covers", Title: "The bank's files cover", Value: s.covers.String()},
		sheet.Fact{ID: "rows", Title: "Rows", Value: "lead from the balance in the books to that at the bank: what only the books have is taken off"},
		sheet.Fact{ID: "as_of", Title: "Lines and decisions through number", Value: strconv.FormatInt(s.asOf, 10)},
		sheet.Fact{ID: "through", Title: "Entries through sequence", Value: strconv.FormatInt(s.through, 10)})
	if s.day > dayNumber(s.covers) || s.covers.IsZero() {
		facts = append(facts, sheet.Fact{ID: "provisional", Title: "Provisional", Value: "the bank's files do not cover the day"})
	}
	return sheet.Head{Report: "reconciliation-statement", Title: "Reconciliation statement", Facts: facts, Columns: statementColumns}
}

func (s *statement) row(kind sheet.RowKind, item, age, count, date, number, reference, description string, amount decimal.Decimal) error {
	return s.w.Row(sheet.Row{Kind: kind, Cells: []string{item, age, count, date, number, reference, description, s.account.cell(amount)}})
}

func (s *statement) check(ok bool, name, detail string, args ...any) {
	c := sheet.Check{Name: name, OK: ok}
	if !ok {
		c.Detail = fmt.Sprintf(detail, args...)
	}
	s.checks = append(s.checks, c)
}

// end writes what a section comes to.
func (s *statement) end(section *section) error {
	for i, g := range section.groups {
		if g.Count == 0 {
			continue
		}
		if err := s.row(sheet.Subtotal, section.title, ageNames[i], strconv.FormatInt(g.Count, 10), "", "", "", "", g.Sum); err != nil {
			return err
		}
	}
	s.sum = s.sum.Add(section.total)
	return nil
}

// item adds an item to a section, and writes it if each is wanted.
func (s *statement) item(section *section, day int, number int64, reference, description string, amount decimal.Decimal) error {
	age := max(0, s.day-day)
	section.add(age, amount)
	if !s.spec.Items {
		return nil
	}
	return s.row(sheet.Item, section.title, strconv.Itoa(age), "", dayOf(day).String(), strconv.FormatInt(number, 10), reference, description, amount)
}

// openEntries writes what is in the books and not at the bank.
func (s *statement) openEntries(ctx context.Context) error {
	section := &section{title: "In the books, not at the bank"}
	err := s.r.openEntries(ctx, s.snapshot, func(e *journal.ReconcileEntry, i item) error {
		if i.day > s.day || i.open.IsZero() {
			return nil
		}
		return s.item(section, i.day, i.no, string(e.TransferID), e.Description, i.open.Neg())
	})
	if err != nil {
		return public(ctx, "make the statement", err)
	}
	return s.end(section)
}

// openLines writes what is at the bank and not in the books.
func (s *statement) openLines(ctx context.Context) error {
	section := &section{title: "At the bank, not in the books"}
	args := []any{s.asOf, s.account.ledgerID, s.account.no, s.sinceLine}
	err := rowsOf(ctx, s.r.pool, dbsqlc.ReconcileLines, args, func(row dbsqlc.ReconcileLinesRow) error {
		day, open := dayNumber(fromDate(row.BookedOn)), row.Amount.Sub(row.Taken)
		if day > s.day || open.IsZero() {
			return nil
		}
		return s.item(section, day, row.LineNo, lineReference(row.ExternalID, row.Refs), row.Description, open)
	})
	if err != nil {
		return public(ctx, "make the statement", err)
	}
	return s.end(section)
}

// lopsided writes matches that on the day had not the same on both sides: what was on its way then, what was ignored, and differences.
func (s *statement) lopsided(ctx context.Context) error {
	sections := []*section{{title: "Matched with what came after the day"}, {title: "Ignored"}, {title: "Differences of matches, not posted"}}
	next := 0
	args := []any{toDate(s.spec.Day), s.account.ledgerID, s.account.no, s.asOf, s.through}
	err := rowsOf(ctx, s.r.pool, dbsqlc.ReconcileLopsided, args, func(row dbsqlc.ReconcileLopsidedRow) error {
		for ; next < int(row.Class); next++ {
			if err := s.end(sections[next]); err != nil {
				return err
			}
		}
		reference := fmt.Sprintf("match %d", row.MatchNo)
		return s.item(sections[next], dayNumber(fromDate(row.FirstOn)), row.MatchNo, reference, row.Reason, row.Lines.Sub(row.Entries))
	})
	if err != nil {
		return public(ctx, "make the statement", err)
	}
	for ; next < len(sections); next++ {
		if err := s.end(sections[next]); err != nil {
			return err
		}
	}
	return nil
}

// stated compares the lines with what the bank has stated.
func (s *statement) stated(ctx context.Context, atBank dbsqlc.BankBalanceRow) error {
	rows, err := s.r.sql.BankStated(ctx, s.r.pool, dbsqlc.BankStatedParams{LedgerID: s.account.ledgerID, BankAccountNo: s.account.no, AsOf: s.asOf})
	if err != nil {
		return public(ctx, "make the statement", err)
	}
	if len(rows) == 0 {
		return nil
	}
	last := rows[0]
	s.check(last.Balance.Equal(atBank.Total), "the lines are those that the files were imported with",
		"they come to %s, and came to %s. Run khata verify", atBank.Total,
		last.Balance)
	if last.Closing != nil && last.Anchored && !s.settings.IgnoreBalances {
		s.check(last.Closing.Equal(last.ClosingComputed), "the lines come to the closing balance that the bank states",
			"through %s they come to %s, and it states %s",
			fromDate(last.ClosingOn), last.ClosingComputed, *last.Closing)
	}
	return nil
}
