package report

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// atOnce is how many reports a server makes at the same time. Each reads a lot; those who post must not wait for them.
const atOnce = 3

// Reports makes reports. It is safe for concurrent use. Every error that its methods return, but for those of a sheet.Writer, is a *ledger.Error.
type Reports struct {
	journal *journal.Journal
	pool    *pgxpool.Pool
	sql     *dbsqlc.Queries
	slots   chan struct{}
	limits  limits
}

// limits bound what one report may take of the server.
type limits struct {
	// lines is how many entries a statement may have: it is kept whole.
	lines int
	// entries bounds of how many of them one statement of the database lists, if more than one account has them: it sorts them.
	entries int64
	// window is how many numbers of a ledger one statement of the database looks at.
	window int64
	// items is up to how many open items of one account are looked at.
	items int
	// groups bounds the memory that accounts taken together need.
	groups int
	// positions bounds how many rows a daily position has, and so how long it takes and what the totals of the days need.
	positions int
}

var usualLimits = limits{lines: 20_000, entries: 100_000, window: 20_000, items: 1_000_000, groups: 200_000, positions: 5_000_000}

// New makes Reports on a journal, and on the pool in which statements are.
func New(j *journal.Journal, pool *pgxpool.Pool) *Reports {
	// A report that lists entries looks up names beside them. One more connection than reports is enough for that: who waits for it gets it.
	slots := max(1, min(atOnce, int(pool.Config().MaxConns)-1))
	return &Reports{journal: j, pool: pool, sql: dbsqlc.New(), slots: make(chan struct{}, slots), limits: usualLimits}
}

// enter waits until there is room for one more report.
func (r *Reports) enter(ctx context.Context) (leave func(), err error) {
	if r.pool.Config().MaxConns < 2 { // A report that lists entries would wait for itself, and everybody for it.
		return nil, ledger.Errorf(ledger.CodeUnavailable, "reports need two connections to the database: start the server with --max-connections 2 or more")
	}
	select {
	case r.slots <- struct{}{}:
		return func() { <-r.slots }, nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, ledger.Errorf(ledger.CodeCancelled, "wait for other reports: the caller cancelled the request")
		}
		return nil, ledger.Errorf(ledger.CodeOverloaded, "%d reports are being made already, and this one's time is up", cap(r.slots))
	}
}

// Run makes a report and writes it row by row. It returns CodeInvalidArgument, CodeLedgerNotFound or CodeAccountNotFound, before anything is
// written; afterwards only what the database or the writer may say, and CodeInvalidArgument where it turns out to be too much.
func (r *Reports) Run(ctx context.Context, q Request, w sheet.Writer) error {
	d, err := Define(q.Report)
	if err != nil {
		return err
	}
	if err := q.validate(d); err != nil {
		return err
	}
	leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if q.Report == ChangesSince {
		return r.changesSince(ctx, q, w)
	}
	spec := journal.PeriodSpec{From: q.Period.From, To: q.Period.To, ByValueDate: q.Basis == Value, Through: q.Through}
	if d.Takes&AtOneMoment != 0 {
		spec.From = time.Time{}
	}
	p, err := r.journal.Period(ctx, q.Ledger, spec)
	if err != nil {
		return err
	}
	run := &run{Request: q, definition: d, period: p, w: w, limits: r.limits}
	return map[Name]func(context.Context) error{
		TrialBalance: run.trialBalance, BalanceSheet: run.balanceSheet, IncomeStatement: run.incomeStatement, GeneralLedger: run.generalLedger,
		Clearing: run.clearing, DailyPosition: run.dailyPosition, BalanceOverTime: run.balanceOverTime,
		Growth: run.growth,
	}[q.Report](ctx)
}

// validate returns CodeInvalidArgument unless the report can be asked for in this way.
func (q *Request) validate(d Definition) error {
	if q.Basis == "" {
		q.Basis = Booking
	}
	if _, err := ParseBasis(string(q.Basis)); err != nil {
		return err
	}
	if err := q.Period.Validate(); err != nil {
		return err
	}
	for _, wrong := range []struct {
		given bool
		by    Takes
		field string
	}{
		{q.Prefix != "", TakesPrefix, "prefix"},
		{q.Currency != "", TakesPrefix, "currency"},
		{q.Account != "", TakesAccount | NeedsAccount, "account"},
		{q.Depth != 0, TakesDepth, "depth"},
		{q.Empty, TakesEmpty, "empty"},
		{q.Statement != 0, NeedsStatement, "statement"},
	} {
		if wrong.given && d.Takes&wrong.by == 0 {
			return ledger.Invalid(wrong.field, "is nothing that the report %s can be asked for", d.Name)
		}
	}
	switch {
	case d.Takes&NeedsAccount != 0 && q.Account == "":
		return ledger.Invalid("account", "is required: the report %s is of one account", d.Name)
	case d.Takes&NeedsPeriod != 0 && (q.Period.From.IsZero() || q.Period.To.IsZero()):
		return ledger.Invalid("from", "and to are required: the report %s is of a period that begins and ends", d.Name)
	case d.Takes&NeedsStatement != 0 && (!q.Period.From.IsZero() || !q.Period.To.IsZero()):
		return ledger.Invalid("from", "and to are nothing that the report %s can be asked for: its period is the statement's", d.Name)
	case d.Takes&NeedsStatement != 0 && q.Statement <= 0:
		return ledger.Invalid("statement", "is required: the number of a statement that was issued")
	case d.Takes&AtOneMoment != 0 && !q.Period.From.IsZero():
		return ledger.Invalid("from", "is nothing that the report %s can be asked for: it is as of the moment to", d.Name)
	case d.Name == Growth && q.Basis == Value:
		return ledger.Invalid("basis", "is booking: the report %s is about what was posted, when it was", d.Name)
	case q.Depth < 0 || q.Depth > maxDepth:
		return ledger.Invalid("depth", "is not between 1 and %d, or 0 for every account", maxDepth)
	case q.Prefix != "" && q.Account != "":
		return ledger.Invalid("prefix", "and account cannot be given together")
	}
	if q.Prefix != "" {
		if err := ledger.AccountID(q.Prefix).ValidateFormat("prefix"); err != nil {
			return err
		}
	}
	if q.Currency != "" {
		if err := q.Currency.Validate("currency"); err != nil {
			return err
		}
	}
	if q.Account != "" {
		return q.Account.ValidateFormat("account")
	}
	return nil
}

// run is a report being made.
type run struct {
	Request
	definition Definition
	period     *journal.Period
	w          sheet.Writer
	limits     limits
	checks     []sheet.Check
}

// begin writes the head.
func (r *run) begin(columns []sheet.Column, more ...sheet.Fact) error {
	return r.w.Begin(sheet.Head{Report: string(r.definition.Name), Title: r.definition.Title, Facts: append(r.facts(), more...), Columns: columns})
}

func (r *run) facts() []sheet.Fact {
	zone := r.Period.zone()
	facts := []sheet.Fact{{ID: "ledger", Title: "Ledger", Value: string(r.Ledger.Or())}}
	end := r.Period.text(r.Period.To)
	switch {
	case r.definition.Takes&AtOneMoment != 0 && end == "":
		facts = append(facts, sheet.Fact{ID: "to", Title: "As of", Value: "now"})
	case r.definition.Takes&AtOneMoment != 0:
		facts = append(facts, sheet.Fact{ID: "to", Title: "As of the beginning of", Value: end})
	default:
		from := r.Period.text(r.Period.From)
		if from == "" {
			from = "the beginning"
		}
		if end == "" {
			end = "now"
		}
		facts = append(facts, sheet.Fact{ID: "from", Title: "From, inclusive", Value: from}, sheet.Fact{ID: "to", Title: "To, exclusive", Value: end})
	}
	basis := "booking: the time at which Khata recorded the transfer"
	if r.Basis == Value {
		basis = "value: the value date of the transfer, or else the time at which Khata recorded it"
	}
	facts = append(facts, sheet.Fact{ID: "zone", Title: "Time zone", Value: zone.String()}, sheet.Fact{ID: "basis", Title: "Dates are by", Value: basis})
	for _, f := range []sheet.Fact{
		{ID: "account", Title: "Account", Value: string(r.Account)}, {ID: "prefix", Title: "Accounts beginning with", Value: r.Prefix},
		{ID: "currency", Title: "Currency", Value: string(r.Currency)},
	} {
		if f.Value != "" {
			facts = append(facts, f)
		}
	}
	facts = append(facts, sheet.Fact{ID: "through", Title: "Through sequence", Value: strconv.FormatInt(r.period.Horizon(), 10)},
		sheet.Fact{ID: "read_at", Title: "Read at", Value: sheet.TimeCell(r.period.Now())})
	if !r.Period.To.IsZero() && r.Period.To.After(r.period.Now()) {
		facts = append(facts, sheet.Fact{ID: "provisional", Title: "Provisional", Value: "the period is not over"})
	}
	return facts
}

func (r *run) row(kind sheet.RowKind, cells ...string) error {
	return r.w.Row(sheet.Row{Kind: kind, Cells: cells})
}

// check notes what must hold of the report.
func (r *run) check(ok bool, name, detail string, args ...any) {
	c := sheet.Check{Name: name, OK: ok}
	if !ok {
		c.Detail = fmt.Sprintf(detail, args...)
	}
	r.checks = append(r.checks, c)
}

func (r *run) end() error { return r.w.End(r.checks) }

func (r *run) filter() journal.AccountFilter {
	return journal.AccountFilter{Prefix: r.Prefix, Account: r.Account, Currency: r.Currency}
}

// accounts gives the accounts that the report is of, and notes those of which opening, movements and closing do not go together.
func (r *run) accounts(ctx context.Context, filter journal.AccountFilter, yield func(*journal.PeriodAccount) error) error {
	wrong := wrongs{}
	err := r.period.Accounts(ctx, filter, func(page []journal.PeriodAccount) error {
		for i := range page {
			wrong.note(&page[i])
			if err := yield(&page[i]); err != nil {
				return err
			}
		}
		return nil
	})
	wrong.check(r)
	return err
}

// wrongs are accounts whose figures do not go together.
type wrongs struct {
	first *journal.PeriodAccount
	count int
}

func (w *wrongs) note(a *journal.PeriodAccount) {
	if a.Opening.Add(a.Debits).Sub(a.Credits).Equal(a.Closing) {
		return
	}
	if w.count++; w.first == nil {
		w.first = a
	}
}

func (w *wrongs) check(r *run) {
	const name = "opening + debits - credits = closing, for each account"
	for i := range r.checks {
		if r.checks[i].Name == name && (!r.checks[i].OK || w.count == 0) {
			return
		}
	}
	if w.count == 0 {
		r.check(true, name, "")
		return
	}
	a := w.first
	r.check(false, name, "not for %d accounts; the first is %s: %s + %s - %s is not %s. Run khata verify", w.count, a.ID, a.Opening, a.Debits, a.Credits,
		a.Closing)
}

// amount is the cell of an amount; nothing for none where blank says so.
func amount(d decimal.Decimal, c ledger.Currency) string { return sheet.AmountCell(d, c.Scale) }

// sides are the cells of a balance, a debit positive, in two columns of which one is empty.
func sides(d decimal.Decimal, c ledger.Currency) (debit, credit string) {
	switch {
	case d.IsPositive():
		return amount(d, c), ""
	case d.IsNegative():
		return "", amount(d.Neg(), c)
	}
	return "", ""
}

// moved is the cell of a movement, empty for none.
func moved(d decimal.Decimal, c ledger.Currency) string {
	if d.IsZero() {
		return ""
	}
	return amount(d, c)
}

func optionalTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return sheet.TimeCell(*t)
}
