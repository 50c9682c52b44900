package report

import (
	"context"
	"fmt"
	"strconv"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

var trialBalanceColumns = []sheet.Column{
	{ID: "account", Title: "Account", Kind: sheet.Text}, {ID: "name", Title: "Name", Kind: sheet.Text}, {ID: "type", Title: "Type", Kind: sheet.Text},
	{ID: "currency", Title: "Currency", Kind: sheet.Text},
	{ID: "opening_debit", Title: "Opening debit", Kind: sheet.Amount}, {ID: "opening_credit", Title: "Opening credit", Kind: sheet.Amount},
	{ID: "debit", Title: "Debit", Kind: sheet.Amount}, {ID: "credit", Title: "Credit", Kind: sheet.Amount},
	{ID: "closing_debit", Title: "Closing debit", Kind: sheet.Amount}, {ID: "closing_credit", Title: "Closing credit", Kind: sheet.Amount},
}

func (r *run) trialBalance(ctx context.Context) error {
	policy := sheet.Fact{ID: "policy", Title: "Revenue and expenses", Value: "are not closed: their opening balances are since the beginning"}
	if err := r.begin(trialBalanceColumns, policy); err != nil {
		return err
	}
	totals, folded := byCurrency{}, newGroups(r.Depth, r.limits.groups)
	err := r.accounts(ctx, r.filter(), func(a *journal.PeriodAccount) error {
		if a.Quiet() && !r.Empty {
			return nil
		}
		totals.add(a)
		if r.Depth > 0 {
			return folded.add(a)
		}
		s := &sums{}
		s.add(a)
		return r.trialRow(sheet.Item, 0, string(a.ID), a.Name, string(a.Type), s)
	})
	if err != nil {
		return err
	}
	for _, g := range folded.list() {
		for _, s := range g.sums.list() {
			kind := sheet.Item
			if g.inner {
				kind = sheet.Subtotal
			}
			if err := r.trialRow(kind, g.depth, g.path, accountsText(s.accounts), "", s); err != nil {
				return err
			}
		}
	}
	for _, s := range totals.list() {
		if err := r.trialTotal(s); err != nil {
			return err
		}
	}
	return r.end()
}

func accountsText(n int) string {
	if n == 1 {
		return "1 account"
	}
	return strconv.Itoa(n) + " accounts"
}

func (r *run) trialRow(kind sheet.RowKind, depth int, account, name, accountType string, s *sums) error {
	openingDebit, openingCredit := sides(s.opening, s.currency)
	closingDebit, closingCredit := sides(s.closing, s.currency)
	return r.w.Row(sheet.Row{Kind: kind, Depth: depth, Cells: []string{
		account, name, accountType, string(s.currency.Code), openingDebit, openingCredit, moved(s.debits, s.currency), moved(s.credits, s.currency),
		closingDebit, closingCredit,
	}})
}

// trialTotal writes the totals of a currency, debits and credits apart, and checks that they agree where all accounts are in.
func (r *run) trialTotal(s *sums) error {
	c := s.currency
	openingCredit, closingCredit := s.openingDebit.Sub(s.opening), s.closingDebit.Sub(s.closing)
	err := r.row(sheet.Total, "Total "+string(c.Code), "", "", string(c.Code), amount(s.openingDebit, c), amount(openingCredit, c), amount(s.debits, c),
		amount(s.credits, c), amount(s.closingDebit, c), amount(closingCredit, c))
	if r.Prefix == "" {
		off := []decimal.Decimal{s.opening, s.change(), s.closing}
		ok := off[0].IsZero() && off[1].IsZero() && off[2].IsZero()
		r.check(ok, fmt.Sprintf("debits equal credits in %s", c.Code), "they differ by %s before the period, %s in it and %s at its end. Run khata verify",
			off[0], off[1], off[2])
	}
	return err
}

// section is a part of a balance sheet or income statement.
type section struct {
	id, title string
	kind      ledger.AccountType
}

var (
	balanceSheetSections = []section{
		{"assets", "Total assets", ledger.Asset}, {"liabilities", "Total liabilities", ledger.Liability}, {"equity", "Total equity", ledger.Equity},
	}
	incomeSections   = []section{{"revenue", "Total revenue", ledger.Revenue}, {"expenses", "Total expenses", ledger.Expense}}
	statementColumns = []sheet.Column{
		{ID: "section", Title: "Section", Kind: sheet.Text}, {ID: "account", Title: "Account", Kind: sheet.Text}, {ID: "name", Title: "Name", Kind: sheet.Text},
		{ID: "currency", Title: "Currency", Kind: sheet.Text}, {ID: "amount", Title: "Amount", Kind: sheet.Amount},
	}
	inNormalDirection = sheet.Fact{ID: "signs", Title: "Signs", Value: "a balance on its account's normal side is positive"}
)

func (r *run) balanceSheet(ctx context.Context) error {
	if err := r.begin(statementColumns, inNormalDirection); err != nil {
		return err
	}
	var assets, owed byCurrency
	var err error
	closing := func(s *sums) decimal.Decimal { return s.closing }
	if assets, err = r.section(ctx, balanceSheetSections[0], closing); err == nil {
		owed, err = r.section(ctx, balanceSheetSections[1], closing)
	}
	if err != nil {
		return err
	}
	result, err := r.result(ctx)
	if err != nil {
		return err
	}
	equity, err := r.section(ctx, balanceSheetSections[2], closing, result.list()...)
	if err != nil {
		return err
	}
	all := byCurrency{}
	for _, part := range []byCurrency{owed, equity} {
		all.merge(part)
	}
	for _, s := range all.list() {
		total := s.closing.Neg()
		if err := r.row(sheet.Total, "liabilities and equity", "Total "+string(s.currency.Code), "", string(s.currency.Code), amount(total, s.currency)); err != nil {
			return err
		}
	}
	if r.Prefix == "" {
		all.merge(assets)
		for _, s := range all.list() {
			r.check(s.closing.IsZero(), fmt.Sprintf("assets equal liabilities and equity in %s", s.currency.Code), "they differ by %s. Run khata verify", s.closing)
		}
	}
	return r.end()
}

// merge adds sums of accounts to others.
func (b byCurrency) merge(other byCurrency) {
	for code, s := range other {
		to := b[code]
		if to == nil {
			to = &sums{currency: s.currency}
			b[code] = to
		}
		to.opening, to.debits, to.credits, to.closing = to.opening.Add(s.opening), to.debits.Add(s.debits), to.credits.Add(s.credits), to.closing.Add(s.closing)
		to.openingDebit, to.closingDebit = to.openingDebit.Add(s.openingDebit), to.closingDebit.Add(s.closingDebit)
		to.accounts += s.accounts
	}
}

// result is what revenue and expenses come to, without a row.
func (r *run) result(ctx context.Context) (byCurrency, error) {
	result := byCurrency{}
	for _, s := range incomeSections {
		filter := r.filter()
		filter.Type = s.kind
		err := r.accounts(ctx, filter, func(a *journal.PeriodAccount) error {
			if !a.Quiet() {
				result.add(a)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return result, nil
}

// section writes the accounts of one type and their totals. Value is the figure, a debit positive; results are written as further items.
func (r *run) section(ctx context.Context, s section, value func(*sums) decimal.Decimal, results ...*sums) (byCurrency, error) {
	filter, totals, folded := r.filter(), byCurrency{}, newGroups(r.Depth, r.limits.groups)
	filter.Type = s.kind
	write := func(kind sheet.RowKind, depth int, account, name string, of *sums) error {
		natural := s.kind.Signed(ledger.Debit, value(of))
		return r.w.Row(sheet.Row{Kind: kind, Depth: depth, Cells: []string{s.id, account, name, string(of.currency.Code), amount(natural, of.currency)}})
	}
	err := r.accounts(ctx, filter, func(a *journal.PeriodAccount) error {
		one := &sums{}
		one.add(a)
		if value(one).IsZero() && !r.Empty {
			if !a.Quiet() {
				totals.add(a)
			}
			return nil
		}
		totals.add(a)
		if r.Depth > 0 {
			return folded.add(a)
		}
		return write(sheet.Item, 0, string(a.ID), a.Name, one)
	})
	if err != nil {
		return nil, err
	}
	for _, g := range folded.list() {
		for _, of := range g.sums.list() {
			kind := sheet.Item
			if g.inner {
				kind = sheet.Subtotal
			}
			if err := write(kind, g.depth, g.path, accountsText(of.accounts), of); err != nil {
				return nil, err
			}
		}
	}
	for _, of := range results {
		if err := write(sheet.Item, 0, "", "Result not yet closed", of); err != nil {
			return nil, err
		}
		totals.merge(byCurrency{of.currency.Code: of})
	}
	for _, of := range totals.list() {
		if err := write(sheet.Subtotal, 0, s.title+" "+string(of.currency.Code), "", of); err != nil {
			return nil, err
		}
	}
	return totals, nil
}

func (r *run) incomeStatement(ctx context.Context) error {
	if err := r.begin(statementColumns, inNormalDirection); err != nil {
		return err
	}
	all := byCurrency{}
	for _, s := range incomeSections {
		part, err := r.section(ctx, s, (*sums).change)
		if err != nil {
			return err
		}
		all.merge(part)
	}
	for _, s := range all.list() {
		result := s.change().Neg()
		if err := r.row(sheet.Total, "result", "Result "+string(s.currency.Code), "", string(s.currency.Code), amount(result, s.currency)); err != nil {
			return err
		}
		r.check(s.closing.Sub(s.opening).Equal(s.change()), fmt.Sprintf("the result in %s is how the balances have changed", s.currency.Code),
			"they have changed by %s, and the result is %s. Run khata verify", s.closing.Sub(s.opening).Neg(), result)
	}
	return r.end()
}
