package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// DriftSpec asks how the balances beside the rows of a file differ from those of the books.
type DriftSpec struct {
	Ledger ledger.Name
	// Profile says how the file is read. It has a column for the balance, and one for the account or the account itself.
	Profile bankfile.Profile
	// Account is the account of the books that an account of the file is, with {account} in the place of its number, such as "customer:{account}".
	Account string
	// MoneyIn is the side on which money that comes in stands in the books; "" is the normal side of each account.
	MoneyIn ledger.Direction
	// Basis and Zone say when a day of the books ends; "" is report.Booking and nil is UTC.
	Basis report.Basis
	Zone  *time.Location
	// Through is the last sequence that counts: with it the report is the same whenever it is asked for. 0 is the last one there is.
	Through int64
	// All lists the accounts that agree, too.
	All    bool
	Limits bankfile.Limits
}

// DriftSummary is what a report of drift comes to.
type DriftSummary struct {
	// Accounts is how many the file has, Differ how many of them have another balance in the books, and Missing how many are not there.
	Accounts, Differ, Missing int
	// Largest is the largest difference, without its sign.
	Largest decimal.Decimal
	Through int64
}

// accountMark stands for the number of an account of the file.
const accountMark = "{account}"

var driftColumns = []sheet.Column{
	{ID: "account", Title: "Account of the file", Kind: sheet.Text}, {ID: "ledger_account", Title: "Account in the books", Kind: sheet.Text},
	{ID: "currency", Title: "Currency", Kind: sheet.Text}, {ID: "date", Title: "Last day", Kind: sheet.Date}, {ID: "rows", Title: "Rows on it",
		Kind: sheet.Count},
	{ID: "bank", Title: "Balance in the file", Kind: sheet.Amount}, {ID: "books", Title: "Balance in the books", Kind: sheet.Amount},
	{ID: "difference", Title: "Difference", Kind: sheet.Amount}, {ID: "movements", Title: "Sum of the file's rows", Kind: sheet.Amount},
	{ID: "note", Title: "Note", Kind: sheet.Text},
}

func (s *DriftSpec) validate() error {
	if s.Zone == nil {
		s.Zone = time.UTC
	}
	var err error
	if s.Basis, err = report.ParseBasis(string(s.Basis)); err != nil {
		return err
	}
	if err := s.Profile.Validate(); err != nil {
		return ledger.Invalid("profile", "%v", err)
	}
	switch {
	case s.Profile.Columns.Balance.IsZero():
		return ledger.Invalid("profile", "has no column for the balance")
	case s.Profile.Columns.Account.IsZero() && s.Profile.Account == "" && strings.Contains(s.Account, accountMark):
		return ledger.Invalid("profile", "has no column for the account")
	case s.MoneyIn != "" && s.MoneyIn != ledger.Debit && s.MoneyIn != ledger.Credit:
		return ledger.Invalid("money_in", "%.40q is not debit or credit", string(s.MoneyIn))
	}
	return ledger.AccountID(strings.ReplaceAll(s.Account, accountMark, "1")).ValidateFormat("account")
}

// Drift compares the balance that a file has beside the last rows of each account with the balance of the books at the end of that day. Of several
// rows on the day the nearest counts: files do not say which is the last. The file is not imported, and need not add up: that is what is looked at.
//
// It returns CodeInvalidArgument; a *RefusedFile for one that cannot be read; and what reading it returned.
func (r *Reconciler) Drift(ctx context.Context, spec DriftSpec, in io.Reader, w sheet.Writer) (DriftSummary, error) {
	var sum DriftSummary
	leave, err := r.enter(ctx)
	if err != nil {
		return sum, err
	}
	defer leave()
	if err := spec.validate(); err != nil {
		return sum, err
	}
	balances, movements, err := spec.read(ctx, in)
	if err != nil {
		return sum, err
	}
	p, err := r.journal.Period(ctx, spec.Ledger, journal.PeriodSpec{Through: spec.Through})
	if err != nil {
		return sum, err
	}
	sum.Through = p.Horizon()
	d := &drift{r: r, spec: spec, w: w, sum: &sum}
	if err := w.Begin(d.head(p)); err != nil {
		return sum, err
	}
	for n, s := range balances.Statements {
		if err := d.account(ctx, s, movements.Statements[n]); err != nil {
			return sum, err
		}
	}
	return sum, d.end()
}

// read reads the file twice: once with the balances in the place of the amounts, and once for the amounts. Neither reading compares the two.
func (s *DriftSpec) read(ctx context.Context, in io.Reader) (balances, movements *bankfile.File, err error) {
	const most = 256 << 20
	limit := s.Limits.Bytes
	if limit <= 0 {
		limit = most
	}
	raw, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, nil, err
	}
	plain := s.Profile
	plain.Columns.Balance, plain.Opening, plain.Closing = bankfile.Column{}, nil, nil
	balance := plain
	balance.Columns.Amount = s.Profile.Columns.Balance
	balance.Columns.Debit, balance.Columns.Credit, balance.Columns.Flag = bankfile.Column{}, bankfile.Column{}, bankfile.Column{}
	balance.DebitValues, balance.CreditValues, balance.SignedDebit, balance.InvertSign = nil, nil, false, s.Profile.InvertBalance
	if balances, err = parseFor(ctx, raw, &balance, s.Limits); err != nil {
		return nil, nil, err
	}
	movements, err = parseFor(ctx, raw, &plain, s.Limits)
	return balances, movements, err
}

func parseFor(ctx context.Context, raw []byte, profile *bankfile.Profile, limits bankfile.Limits) (*bankfile.File, error) {
	file, err := bankfile.Parse(ctx, bytes.NewReader(raw), bankfile.Options{Format: bankfile.FormatCSV, Profile: profile, Limits: limits})
	var refused *bankfile.Refusal
	if errors.As(err, &refused) {
		return nil, &RefusedFile{*refused, file}
	}
	return file, public(ctx, "read the file", err)
}

// drift is a report being made.
type drift struct {
	r       *Reconciler
	spec    DriftSpec
	w       sheet.Writer
	sum     *DriftSummary
	missing string // the first account that is missing
}

func (d *drift) head(p *journal.Period) sheet.Head {
	basis := "booking: the time at which Khata recorded the transfer"
	if d.spec.Basis == report.Value {
		basis = "value: the value date of the transfer, or else the time at which Khata recorded it"
	}
	return sheet.Head{Report: "drift", Title: "Balances of the bank against the books", Columns: driftColumns, Facts: []sheet.Fact{
		{ID: "ledger", Title: "Ledger", Value: string(d.spec.Ledger.Or())}, {ID: "zone", Title: "Time zone", Value: d.spec.Zone.String()},
		{ID: "basis", Title: "Dates are by", Value: basis},
		{ID: "rows", Title: "Of several rows on the last day", Value: "the one whose balance is nearest to the books"},
		{ID: "through", Title: "Through sequence", Value: strconv.FormatInt(p.Horizon(), 10)},
		{ID: "read_at", Title: "Read at", Value: sheet.TimeCell(p.Now())},
	}}
}

// account compares one account, of which one statement has the balances and the other the amounts.
func (d *drift) account(ctx context.Context, s, movements *bankfile.Statement) error {
	d.sum.Accounts++
	last, rows := s.Lines[0].BookingDate, 0
	for i := range s.Lines {
		last = later(last, s.Lines[i].BookingDate)
	}
	id := ledger.AccountID(strings.ReplaceAll(d.spec.Account, accountMark, s.AccountID))
	books, currency, err := d.books(ctx, id, last)
	note := ""
	switch code := ledger.CodeOf(err); {
	case code == ledger.CodeAccountNotFound, code == ledger.CodeInvalidArgument && id.ValidateFormat("account") != nil:
		note = "the books do not have the account"
	case err != nil:
		return err
	case string(currency.Code) != s.Currency:
		note = "in the books the account is in " + string(currency.Code)
	}
	var nearest *decimal.Decimal
	for i := range s.Lines {
		if s.Lines[i].BookingDate != last {
			continue
		}
		rows++
		balance := &s.Lines[i].Amount
		if nearest == nil || balance.Sub(books).Abs().LessThan(nearest.Sub(books).Abs()) {
			nearest = balance
		}
	}
	moved := decimal.Zero
	for i := range movements.Lines {
		moved = moved.Add(movements.Lines[i].Amount)
	}
	cells := []string{s.AccountID, string(id), s.Currency, last.String(), strconv.Itoa(rows), sheet.AmountCell(*nearest, currency.Scale), "", "",
		sheet.AmountCell(moved, currency.Scale), note}
	if note != "" {
		if d.sum.Missing++; d.missing == "" {
			d.missing = fmt.Sprintf("%.80q", s.AccountID)
		}
		return d.w.Row(sheet.Row{Kind: sheet.Item, Cells: cells})
	}
	difference := nearest.Sub(books)
	if difference.IsZero() && !d.spec.All {
		return nil
	}
	if !difference.IsZero() {
		d.sum.Differ++
		d.sum.Largest = decimal.Max(d.sum.Largest, difference.Abs())
	}
	cells[6], cells[7] = sheet.AmountCell(books, currency.Scale), sheet.AmountCell(difference, currency.Scale)
	return d.w.Row(sheet.Row{Kind: sheet.Item, Cells: cells})
}

// books is the balance of an account of the books at the end of a day, in the sense of the file.
func (d *drift) books(ctx context.Context, id ledger.AccountID, day bankfile.Date) (decimal.Decimal, ledger.Currency, error) {
	if err := id.ValidateFormat("account"); err != nil {
		return decimal.Zero, ledger.Currency{}, err
	}
	at, err := beginOf(dayOf(dayNumber(day)+1), d.spec.Zone)
	if err != nil {
		return decimal.Zero, ledger.Currency{}, err
	}
	p, err := d.r.journal.Period(ctx, d.spec.Ledger, journal.PeriodSpec{To: at, ByValueDate: d.spec.Basis == report.Value, Through: d.sum.Through})
	if err != nil {
		return decimal.Zero, ledger.Currency{}, err
	}
	var found journal.PeriodAccount
	err = p.Accounts(ctx, journal.AccountFilter{Account: id}, func(page []journal.PeriodAccount) error {
		found = page[0]
		return nil
	})
	side := d.spec.MoneyIn
	if side == "" {
		side = found.Type.NormalBalance()
	}
	if side == ledger.Credit {
		return found.Closing.Neg(), found.Currency, err
	}
	return found.Closing, found.Currency, err
}

// end writes what it comes to.
func (d *drift) end() error {
	s := d.sum
	text := fmt.Sprintf("%d of %d accounts differ, by at most %s", s.Differ, s.Accounts, s.Largest)
	cells := make([]string, len(driftColumns))
	cells[0], cells[9] = "Total", text
	if err := d.w.Row(sheet.Row{Kind: sheet.Total, Cells: cells}); err != nil {
		return err
	}
	checks := []sheet.Check{
		{Name: "the books have every account of the file", OK: s.Missing == 0}, {Name: "every balance is that of the books", OK: s.Differ == 0},
	}
	if s.Missing > 0 {
		checks[0].Detail = fmt.Sprintf("%d accounts are missing; the first is %s", s.Missing, d.missing)
	}
	if s.Differ > 0 {
		checks[1].Detail = text
	}
	return d.w.End(slices.Clone(checks))
}
