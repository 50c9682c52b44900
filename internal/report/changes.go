package report

import (
	"context"
	"slices"
	"strconv"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

var changesColumns = []sheet.Column{
	{ID: "date", Title: "Date", Kind: sheet.Date}, {ID: "sequence", Title: "Sequence", Kind: sheet.Count}, {ID: "transfer", Title: "Transfer", Kind: sheet.Text},
	{ID: "kind", Title: "Kind", Kind: sheet.Text}, {ID: "against", Title: "Against", Kind: sheet.Text},
	{ID: "description", Title: "Description", Kind: sheet.Text}, {ID: "debit", Title: "Debit", Kind: sheet.Amount},
	{ID: "credit", Title: "Credit", Kind: sheet.Amount}, {ID: "posted_at", Title: "Posted at", Kind: sheet.Time},
	{ID: "statement", Title: "Late item of statement", Kind: sheet.Count},
}

// changesSince lists what was recorded after a statement was issued, with a time before its end.
func (r *Reports) changesSince(ctx context.Context, q Request, w sheet.Writer) error {
	s, err := r.Statement(ctx, q.Ledger, q.Statement)
	if err != nil {
		return err
	}
	if q.Through > 0 && q.Through < s.Through {
		return ledger.Invalid("through", "%d is before %d, which is what the statement has seen", q.Through, s.Through)
	}
	now, err := r.journal.Period(ctx, q.Ledger, journal.PeriodSpec{To: s.Period.To, ByValueDate: s.Basis == Value, Through: q.Through})
	if err != nil {
		return err
	}
	var account journal.PeriodAccount
	err = now.Accounts(ctx, journal.AccountFilter{Account: s.Account}, func(page []journal.PeriodAccount) error {
		account = page[0]
		return nil
	})
	if err != nil {
		return err
	}
	told, err := s.closing()
	if err != nil {
		return err
	}
	spec := StatementSpec{Ledger: s.Ledger, Account: s.Account, Period: s.Period, Basis: s.Basis}
	late, err := r.lateEntries(ctx, spec, account, s.Period.To, s.Through, now.Horizon())
	if err != nil {
		return err
	}
	later, err := r.later(ctx, s, now.Horizon())
	if err != nil {
		return err
	}
	q.Account, q.Period, q.Basis = s.Account, s.Period, s.Basis
	run := &run{Request: q, definition: Definition{Name: ChangesSince, Title: "Changes since issued"}, period: now, w: w}
	issued := []sheet.Fact{
		{ID: "statement", Title: "Statement", Value: strconv.FormatInt(s.Number, 10)}, {ID: "issued_at", Title: "Issued at", Value: sheet.TimeCell(s.IssuedAt)},
		{ID: "issued_through", Title: "Issued through sequence", Value: strconv.FormatInt(s.Through, 10)},
	}
	if err := run.begin(changesColumns, issued...); err != nil {
		return err
	}
	var change decimal.Decimal
	for _, e := range late {
		change = change.Add(e.Amount)
		debit, credit := sides(e.Amount, account.Currency)
		err := run.row(sheet.Late, e.on.String(), strconv.FormatInt(e.Sequence, 10), string(e.TransferID), string(e.Kind), others(e.Others), e.Description,
			debit, credit, sheet.TimeCell(e.PostedAt), lateItemOf(later, e.Sequence))
		if err != nil {
			return err
		}
	}
	closing := account.Type.Signed(ledger.Debit, account.Closing)
	sum := account.Type.Signed(ledger.Debit, change).Add(told)
	run.check(sum.Equal(closing), "the closing balance as issued and the changes come to the balance as it is now", "%s and the changes come to %s, and it is %s. "+
		"Run khata verify", told, sum, closing)
	return run.end()
}

// closing is the closing balance that the statement tells, in the normal direction.
func (s Statement) closing() (decimal.Decimal, error) {
	told, err := s.Sheet()
	if err != nil {
		return decimal.Decimal{}, ledger.Errorf(ledger.CodeInternal, "statement %d cannot be read: %v", s.Number, err)
	}
	var text string
	if n := len(told.Rows); n > 0 {
		text = told.Rows[n-1].Cells[len(told.Head.Columns)-1]
	}
	balance, err := decimal.NewFromString(text)
	if err != nil {
		return decimal.Decimal{}, ledger.Errorf(ledger.CodeInternal, "statement %d cannot be read: %v", s.Number, err)
	}
	return balance, nil
}

// later gives the statements after one, in their order, as far as they were issued when the ledger had come to a horizon.
func (r *Reports) later(ctx context.Context, s Statement, horizon int64) ([]dbsqlc.StatementsOfAccountRow, error) {
	account, err := r.account(ctx, s.Ledger, s.Account)
	if err != nil {
		return nil, err
	}
	rows, err := r.sql.StatementsOfAccount(ctx, r.pool, dbsqlc.StatementsOfAccountParams{
		LedgerID: account.LedgerID, AccountNo: account.AccountNo, Basis: string(s.Basis), After: int32(s.Ordinal), PageSize: 10_000, //nolint:gosec // it was one
	})
	if err != nil {
		return nil, public(ctx, "list the statements", err)
	}
	return slices.DeleteFunc(rows, func(row dbsqlc.StatementsOfAccountRow) bool { return row.Through > horizon }), nil
}

// lateItemOf is the number of the first of these statements that has seen a sequence.
func lateItemOf(later []dbsqlc.StatementsOfAccountRow, sequence int64) string {
	for _, s := range later {
		if sequence <= s.Through {
			return strconv.FormatInt(s.StatementNo, 10)
		}
	}
	return ""
}
