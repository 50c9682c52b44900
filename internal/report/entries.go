package report

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

var generalLedgerColumns = []sheet.Column{
	{ID: "account", Title: "Account", Kind: sheet.Text}, {ID: "date", Title: "Date", Kind: sheet.Date}, {ID: "sequence", Title: "Sequence", Kind: sheet.Count},
	{ID: "transfer", Title: "Transfer", Kind: sheet.Text}, {ID: "kind", Title: "Kind", Kind: sheet.Text}, {ID: "against", Title: "Against", Kind: sheet.Text},
	{ID: "description", Title: "Description", Kind: sheet.Text}, {ID: "currency", Title: "Currency", Kind: sheet.Text},
	{ID: "debit", Title: "Debit", Kind: sheet.Amount}, {ID: "credit", Title: "Credit", Kind: sheet.Amount}, {ID: "balance", Title: "Balance", Kind: sheet.Amount},
	{ID: "posted_at", Title: "Posted at", Kind: sheet.Time}, {ID: "effective_at", Title: "Value date", Kind: sheet.Time},
}

var debitIsPositive = sheet.Fact{ID: "signs", Title: "Signs", Value: "a balance on the debit side is positive, one on the credit side negative"}

func (r *run) generalLedger(ctx context.Context) error {
	days, err := r.days(ctx)
	if err != nil {
		return err
	}
	if r.Account != "" {
		if err := r.accountExists(ctx); err != nil {
			return err
		}
	}
	if err := r.begin(generalLedgerColumns, debitIsPositive); err != nil {
		return err
	}
	g := &generalLedger{run: r, days: days}
	err = r.accounts(ctx, r.filter(), func(a *journal.PeriodAccount) error {
		if a.Quiet() {
			return nil
		}
		return g.add(ctx, *a)
	})
	if err == nil {
		err = g.list(ctx)
	}
	if err != nil {
		return err
	}
	r.check(g.off == 0, "the entries of each account lead from its opening to its closing balance", "not for %d accounts; the first is %s. Run khata verify",
		g.off, g.firstOff)
	return r.end()
}

// accountExists returns CodeAccountNotFound for an account that does not exist, and CodeInvalidArgument for a currency that is not its, before
// anything is written.
func (r *run) accountExists(ctx context.Context) error {
	return r.period.Accounts(ctx, journal.AccountFilter{Account: r.Account}, func(page []journal.PeriodAccount) error {
		if code := page[0].Currency.Code; r.Currency != "" && r.Currency != code {
			return ledger.Invalid("currency", "%s is not that of account %s, which is %s", r.Currency, r.Account, code)
		}
		return nil
	})
}

// generalLedger lists entries of accounts, some accounts at a time.
type generalLedger struct {
	*run
	days     *days
	waiting  []journal.PeriodAccount
	entries  int64
	off      int
	firstOff ledger.AccountID
}

func (g *generalLedger) add(ctx context.Context, a journal.PeriodAccount) error {
	if g.entries > 0 && g.entries+a.Entries > g.limits.entries || len(g.waiting) >= 500 {
		if err := g.list(ctx); err != nil {
			return err
		}
	}
	g.waiting = append(g.waiting, a)
	g.entries += a.Entries
	return nil
}

// list writes the accounts that wait.
func (g *generalLedger) list(ctx context.Context) error {
	next := 0
	var balance decimal.Decimal
	open := func(i int) error {
		balance = g.waiting[i].Opening
		return g.opening(&g.waiting[i])
	}
	// until writes the accounts from the one that is open up to another one, which it opens.
	until := func(i int) error {
		for ; next <= i; next++ {
			if next > 0 {
				if err := g.closing(&g.waiting[next-1], balance); err != nil {
					return err
				}
			}
			if next < len(g.waiting) {
				if err := open(next); err != nil {
					return err
				}
			}
		}
		return nil
	}
	var withEntries []journal.PeriodAccount
	place := map[ledger.AccountID]int{}
	for i, a := range g.waiting {
		place[a.ID] = i
		if a.Entries != 0 {
			withEntries = append(withEntries, a)
		}
	}
	err := g.period.Entries(ctx, withEntries, g.days.begin, func(e journal.PeriodEntry) error {
		if err := until(place[e.Account.ID]); err != nil {
			return err
		}
		balance = balance.Add(e.Amount)
		return g.entry(e, balance)
	})
	if err == nil && len(g.waiting) > 0 {
		err = until(len(g.waiting))
	}
	g.waiting, g.entries = g.waiting[:0], 0
	return err
}

func (g *generalLedger) opening(a *journal.PeriodAccount) error {
	return g.row(sheet.Opening, string(a.ID), "", "", "", "", "", openingText(a), string(a.Currency.Code), "", "", amount(a.Opening, a.Currency), "", "")
}

func openingText(a *journal.PeriodAccount) string {
	if a.Name == "" {
		return "Opening balance"
	}
	return a.Name + ": opening balance"
}

func (g *generalLedger) closing(a *journal.PeriodAccount, balance decimal.Decimal) error {
	if !balance.Equal(a.Closing) {
		if g.off++; g.firstOff == "" {
			g.firstOff = a.ID
		}
	}
	return g.row(sheet.Closing, string(a.ID), "", "", "", "", "", "Closing balance", string(a.Currency.Code), amount(a.Debits, a.Currency),
		amount(a.Credits, a.Currency), amount(a.Closing, a.Currency), "", "")
}

func (g *generalLedger) entry(e journal.PeriodEntry, balance decimal.Decimal) error {
	debit, credit := sides(e.Amount, e.Account.Currency)
	return g.row(sheet.Item, string(e.Account.ID), g.days.name(e.Day), strconv.FormatInt(e.Sequence, 10), string(e.TransferID), string(e.Kind),
		others(e.Others), e.Description, string(e.Account.Currency.Code), debit, credit, amount(balance, e.Account.Currency), sheet.TimeCell(e.PostedAt),
		optionalTime(e.EffectiveAt))
}

// others names the other accounts of a transfer, some of them.
func others(ids []ledger.AccountID) string {
	const most = 3
	names := make([]string, 0, most)
	for _, id := range ids[:min(most, len(ids))] {
		names = append(names, string(id))
	}
	text := strings.Join(names, ", ")
	if more := len(ids) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

var dailyPositionColumns = []sheet.Column{
	{ID: "account", Title: "Account", Kind: sheet.Text}, {ID: "name", Title: "Name", Kind: sheet.Text}, {ID: "date", Title: "Date", Kind: sheet.Date},
	{ID: "currency", Title: "Currency", Kind: sheet.Text}, {ID: "opening", Title: "Opening", Kind: sheet.Amount}, {ID: "debit", Title: "Debit", Kind: sheet.Amount},
	{ID: "credit", Title: "Credit", Kind: sheet.Amount}, {ID: "closing", Title: "Closing", Kind: sheet.Amount},
}

// dailyPosition lists each account day by day, and then what all of them come to, day by day. Where no accounts are named it is of the assets.
func (r *run) dailyPosition(ctx context.Context) error {
	days, err := r.days(ctx)
	if err != nil {
		return err
	}
	filter := r.filter()
	more := []sheet.Fact{debitIsPositive}
	if r.Prefix == "" && r.Account == "" {
		filter.Type = ledger.Asset
		more = append(more, sheet.Fact{ID: "accounts", Title: "Accounts", Value: "assets"})
	}
	if r.Account != "" {
		if err := r.accountExists(ctx); err != nil {
			return err
		}
	}
	if err := r.begin(dailyPositionColumns, more...); err != nil {
		return err
	}
	totals := make([]byCurrency, len(days.begin))
	off, rows := 0, 0
	err = r.accounts(ctx, filter, func(a *journal.PeriodAccount) error {
		if a.Quiet() {
			return nil
		}
		if rows += len(days.begin); rows > r.limits.positions {
			return ledger.Invalid("prefix", "gives more than %d rows: give a longer prefix, or a shorter period", r.limits.positions)
		}
		balance, err := r.daily(ctx, a, days, func(i int, day *journal.PeriodAccount) error {
			if totals[i] == nil {
				totals[i] = byCurrency{}
			}
			totals[i].add(day)
			return r.position(sheet.Item, string(a.ID), a.Name, days.name(i), day)
		})
		if !balance.Equal(a.Closing) {
			off++
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, total := range totals {
		for _, s := range total.list() {
			day := &journal.PeriodAccount{Currency: s.currency, Opening: s.opening, Debits: s.debits, Credits: s.credits, Closing: s.closing}
			if err := r.position(sheet.Total, "Total "+string(s.currency.Code), accountsText(s.accounts), days.name(i), day); err != nil {
				return err
			}
		}
	}
	r.check(off == 0, "the days of each account lead from its opening to its closing balance", "not for %d accounts. Run khata verify", off)
	return r.end()
}

func (r *run) position(kind sheet.RowKind, account, name, date string, day *journal.PeriodAccount) error {
	c := day.Currency
	return r.row(kind, account, name, date, string(c.Code), amount(day.Opening, c), moved(day.Debits, c), moved(day.Credits, c), amount(day.Closing, c))
}

// daily gives an account day by day, the days without entries too, and the balance that these lead to.
func (r *run) daily(ctx context.Context, a *journal.PeriodAccount, days *days, yield func(i int, day *journal.PeriodAccount) error) (decimal.Decimal, error) {
	next, balance := 0, a.Opening
	one := func(debits, credits decimal.Decimal) error {
		day := &journal.PeriodAccount{ID: a.ID, Type: a.Type, Currency: a.Currency, Opening: balance, Debits: debits, Credits: credits}
		balance = balance.Add(debits).Sub(credits)
		day.Closing = balance
		next++
		return yield(next-1, day)
	}
	quietUntil := func(i int) error {
		for next < i {
			if err := one(decimal.Decimal{}, decimal.Decimal{}); err != nil {
				return err
			}
		}
		return nil
	}
	err := r.period.Days(ctx, []journal.PeriodAccount{*a}, days.begin, func(d journal.PeriodDay) error {
		if err := quietUntil(d.Day); err != nil {
			return err
		}
		return one(d.Debits, d.Credits)
	})
	if err == nil {
		err = quietUntil(len(days.begin))
	}
	return balance, err
}

var balanceOverTimeColumns = []sheet.Column{
	{ID: "date", Title: "Date", Kind: sheet.Date}, {ID: "currency", Title: "Currency", Kind: sheet.Text}, {ID: "debit", Title: "Debit", Kind: sheet.Amount},
	{ID: "credit", Title: "Credit", Kind: sheet.Amount}, {ID: "balance", Title: "Balance", Kind: sheet.Amount},
}

func (r *run) balanceOverTime(ctx context.Context) error {
	days, err := r.days(ctx)
	if err != nil {
		return err
	}
	if err := r.accountExists(ctx); err != nil {
		return err
	}
	if err := r.begin(balanceOverTimeColumns, inNormalDirection); err != nil {
		return err
	}
	err = r.accounts(ctx, r.filter(), func(a *journal.PeriodAccount) error {
		natural := func(d decimal.Decimal) string { return amount(a.Type.Signed(ledger.Debit, d), a.Currency) }
		code := string(a.Currency.Code)
		if err := r.row(sheet.Opening, "", code, "", "", natural(a.Opening)); err != nil {
			return err
		}
		balance, err := r.daily(ctx, a, days, func(i int, day *journal.PeriodAccount) error {
			return r.row(sheet.Item, days.name(i), code, moved(day.Debits, a.Currency), moved(day.Credits, a.Currency), natural(day.Closing))
		})
		r.check(balance.Equal(a.Closing), "the days lead from the opening to the closing balance", "they lead to %s, and it is %s. Run khata verify", balance,
			a.Closing)
		return err
	})
	if err != nil {
		return err
	}
	return r.end()
}
