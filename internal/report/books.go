package report

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/export"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// BookRequest asks for the books of a ledger in a period.
type BookRequest struct {
	Ledger ledger.Name
	Period Period
	Basis  Basis
	// Running asserts each account's balance after each posting, not only at the end.
	Running bool
	// Through is as in Request.
	Through int64
}

// Book writes a ledger for another accounting tool: accounts with their opening balances, transfers, closing balances. Postings are what the
// transfers say; balances, running ones too, come from the entries and the balance function. So whoever adds up the one finds the other, or a fault.
//
// It keeps three balances of each account in memory. It returns CodeInvalidArgument or CodeLedgerNotFound before anything is written.
func (r *Reports) Book(ctx context.Context, q BookRequest, w export.BookWriter) error {
	if q.Basis == "" {
		q.Basis = Booking
	}
	if _, err := ParseBasis(string(q.Basis)); err != nil {
		return err
	}
	if err := q.Period.Validate(); err != nil {
		return err
	}
	leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	p, err := r.journal.Period(ctx, q.Ledger, journal.PeriodSpec{From: q.Period.From, To: q.Period.To, ByValueDate: q.Basis == Value, Through: q.Through})
	if err != nil {
		return err
	}
	days, err := periodDays(ctx, p, q.Period)
	if err != nil {
		return err
	}
	b := &book{q: q, days: days, w: w, at: map[ledger.AccountID]*reached{}}
	return b.write(ctx, p)
}

type book struct {
	q    BookRequest
	days *days
	w    export.BookWriter
	// accounts are those that have anything to tell.
	accounts []journal.PeriodAccount
	at       map[ledger.AccountID]*reached
}

// reached is where an account has come to: by what the transfers say, and by its entries, which are the same unless somebody has tampered with them.
type reached struct{ transfers, entries decimal.Decimal }

func (b *book) write(ctx context.Context, p *journal.Period) error {
	if err := b.begin(ctx, p); err != nil {
		return err
	}
	for _, a := range b.accounts {
		b.at[a.ID] = &reached{a.Opening, a.Opening}
		if err := b.w.Account(export.BookAccount{ID: a.ID, Type: a.Type, Currency: a.Currency, Name: a.Name, Opening: a.Opening}); err != nil {
			return err
		}
	}
	if err := p.Transfers(ctx, b.days.begin, b.transfer); err != nil {
		return err
	}
	for _, a := range b.accounts {
		closing := a.Closing
		// An entry that was tampered with behind a snapshot does not show in the balance. It has to show here.
		if at := b.at[a.ID]; !at.entries.Equal(at.transfers) {
			closing = at.entries
		}
		if err := b.w.Closing(a.ID, closing); err != nil {
			return err
		}
	}
	return b.w.End()
}

// begin reads the accounts, and writes the head, which has their currencies.
func (b *book) begin(ctx context.Context, p *journal.Period) error {
	used := map[ledger.CurrencyCode]ledger.Currency{}
	err := p.Accounts(ctx, journal.AccountFilter{}, func(page []journal.PeriodAccount) error {
		for _, a := range page {
			if !a.Quiet() {
				b.accounts = append(b.accounts, a)
				used[a.Currency.Code] = a.Currency
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	head := export.BookHead{
		Ledger: b.q.Ledger.Or(), Basis: string(b.q.Basis), Zone: b.q.Period.zone().String(), From: b.days.name(0), To: b.days.next(len(b.days.list) - 1),
		Through: p.Horizon(),
	}
	for _, code := range slices.Sorted(maps.Keys(used)) {
		head.Currencies = append(head.Currencies, used[code])
	}
	return b.w.Begin(head)
}

func (b *book) transfer(t journal.PeriodTransfer) error {
	written := export.BookTransfer{Day: b.days.name(t.Day), Transfer: t.Transfer, Postings: make([]export.BookPosting, len(t.Transfer.Entries))}
	for i, e := range t.Transfer.Entries {
		amount := e.Amount
		if e.Direction == ledger.Credit {
			amount = amount.Neg()
		}
		written.Postings[i] = export.BookPosting{Account: e.Account, Amount: amount}
		at := b.at[e.Account]
		if at == nil { // Its entries are gone. The writer refuses an account that it does not know.
			continue
		}
		at.transfers = at.transfers.Add(amount)
		if i < len(t.Amounts) {
			at.entries = at.entries.Add(t.Amounts[i])
		}
		if b.q.Running {
			balance := at.entries
			written.Postings[i].Balance = &balance
		}
	}
	return b.w.Transfer(written)
}

// Entries gives the posted transfers of a ledger that move money, in the order of their sequences, after one of them, up to another or, for 0, the
// last one there is; and the types of accounts. What lies behind the sequence returned is final and was given: to go on, ask for what comes after it.
func (r *Reports) Entries(ctx context.Context, name ledger.Name, after, through int64,
	yield func(t *ledger.Transfer, typeOf func(ledger.AccountID) ledger.AccountType) error,
) (last int64, err error) {
	if after < 0 {
		return 0, ledger.Invalid("after", "is negative")
	}
	if through < 0 {
		return 0, ledger.Invalid("through", "is negative")
	}
	if through > 0 && after > through {
		return 0, ledger.Invalid("through", "%d is before after, %d", through, after)
	}
	leave, err := r.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	p, err := r.journal.Period(ctx, name, journal.PeriodSpec{Through: through})
	if err != nil {
		return 0, err
	}
	if after > p.Horizon() {
		return 0, ledger.Invalid("after", "%d is still to come: the last number is %d", after, p.Horizon())
	}
	for since := after; since < p.Horizon(); since += r.limits.window {
		window := p.Window(since, since+r.limits.window)
		err := window.Transfers(ctx, []time.Time{{}}, func(t journal.PeriodTransfer) error { return yield(t.Transfer, t.TypeOf) })
		if err != nil {
			return 0, err
		}
	}
	return max(after, p.Horizon()), nil
}
