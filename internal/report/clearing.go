package report

import (
	"cmp"
	"container/heap"
	"context"
	"sort"
	"strconv"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// clearingParts are the parts of an account's id that make it one whose balance should not stay.
const clearingParts = "clearing|suspense"

var clearingColumns = []sheet.Column{
	{ID: "account", Title: "Account", Kind: sheet.Text}, {ID: "name", Title: "Name", Kind: sheet.Text}, {ID: "currency", Title: "Currency", Kind: sheet.Text},
	{ID: "balance", Title: "Balance", Kind: sheet.Amount}, {ID: "items", Title: "Open items", Kind: sheet.Count},
	{ID: "oldest", Title: "Oldest", Kind: sheet.Date}, {ID: "age_days", Title: "Age in days", Kind: sheet.Count},
	{ID: "transfer", Title: "Oldest transfer", Kind: sheet.Text},
	{ID: "age_1", Title: "Up to 1 day", Kind: sheet.Amount}, {ID: "age_7", Title: "2 to 7", Kind: sheet.Amount},
	{ID: "age_30", Title: "8 to 30", Kind: sheet.Amount}, {ID: "age_90", Title: "31 to 90", Kind: sheet.Amount}, {ID: "older", Title: "Older", Kind: sheet.Amount},
}

var ages = []int{1, 7, 30, 90}

// clearing tells what is left on accounts that should come to nothing, and since when. Which entries are still open nobody has said, so the newest
// are: money that comes in pays for what is oldest.
func (r *run) clearing(ctx context.Context) error {
	filter := r.filter()
	accounts := sheet.Fact{ID: "accounts", Title: "Accounts", Value: "with clearing or suspense in their id, or beginning as asked"}
	if filter.Prefix == "" {
		filter.Part = clearingParts
		accounts.Value = "with clearing or suspense in their id"
	}
	items := sheet.Fact{ID: "items", Title: "Open items", Value: "the newest entries on the side of the balance that come to it: the oldest are settled first"}
	if err := r.begin(clearingColumns, accounts, debitIsPositive, items); err != nil {
		return err
	}
	totals := map[ledger.CurrencyCode]*openItems{}
	sums := byCurrency{}
	err := r.accounts(ctx, filter, func(a *journal.PeriodAccount) error {
		if a.Closing.IsZero() && !r.Empty {
			return nil
		}
		open, err := r.openItems(ctx, a)
		if err != nil {
			return err
		}
		sums.add(a)
		if totals[a.Currency.Code] == nil {
			totals[a.Currency.Code] = &openItems{}
		}
		totals[a.Currency.Code].add(open)
		return r.clearingRow(sheet.Item, string(a.ID), a.Name, a.Closing, a.Currency, open)
	})
	if err != nil {
		return err
	}
	for _, s := range sums.list() {
		code := s.currency.Code
		if err := r.clearingRow(sheet.Total, "Total "+string(code), accountsText(s.accounts), s.closing, s.currency, totals[code]); err != nil {
			return err
		}
	}
	return r.end()
}

// openItems are the entries that a balance is made of, by age.
type openItems struct {
	count    int
	oldest   day
	age      int
	transfer ledger.TransferID
	byAge    [5]decimal.Decimal
}

func (o *openItems) add(more *openItems) {
	if more.count > 0 && (o.count == 0 || more.oldest < o.oldest) {
		o.oldest, o.age, o.transfer = more.oldest, more.age, more.transfer
	}
	o.count += more.count
	for i := range o.byAge {
		o.byAge[i] = o.byAge[i].Add(more.byAge[i])
	}
}

func (r *run) openItems(ctx context.Context, a *journal.PeriodAccount) (*openItems, error) {
	open, zone := &openItems{}, r.Period.zone()
	asOf := r.period.Now()
	if to := r.Period.To; !to.IsZero() && to.Before(asOf) {
		asOf = to.Add(-time.Microsecond)
	}
	today, left := dayAt(asOf, zone), a.Closing
	if left.IsZero() {
		return open, nil
	}
	err := r.newest(ctx, a, func(item dated) (more bool, err error) {
		part := item.amount
		if part.Abs().GreaterThan(left.Abs()) {
			part = left
		}
		left = left.Sub(part)
		on := dayAt(item.at, zone)
		age, bucket := int(today-on), 0
		for bucket < len(ages) && age > ages[bucket] {
			bucket++
		}
		open.byAge[bucket] = open.byAge[bucket].Add(part)
		if open.count++; open.count == 1 || on <= open.oldest {
			open.oldest, open.age, open.transfer = on, age, item.transfer
		}
		return !left.IsZero(), r.tooMany(a, open.count)
	})
	return open, err
}

// dated is an entry with the time that counts.
type dated struct {
	at       time.Time
	sequence int64
	leg      int
	amount   decimal.Decimal
	transfer ledger.TransferID
}

// byTime has the oldest entry first; as a heap.
type byTime []dated

func (h byTime) Len() int      { return len(h) }
func (h byTime) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h byTime) Less(i, k int) bool {
	return cmp.Or(h[i].at.Compare(h[k].at), cmp.Compare(h[i].sequence, h[k].sequence), cmp.Compare(h[i].leg, h[k].leg)) < 0
}
func (h *byTime) Push(x any) { *h = append(*h, x.(dated)) } //nolint:forcetypeassert // nothing else is pushed
func (h *byTime) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// newest gives the entries on the side of an account's balance, the newest first, until yield has enough. By booking time that is the order of
// decision, backwards. A value date can be that of any entry: all are looked at, and as many kept as it takes to come to the balance.
func (r *run) newest(ctx context.Context, a *journal.PeriodAccount, yield func(dated) (more bool, err error)) error {
	var kept byTime
	sum, enough := decimal.Decimal{}, a.Closing.Abs()
	err := r.period.Newest(ctx, a, func(item journal.AccountItem) (more bool, err error) {
		e := dated{item.PostedAt, item.Sequence, item.Leg, item.Amount, item.TransferID}
		if r.Basis == Value && item.EffectiveAt != nil {
			e.at = *item.EffectiveAt
		}
		if e.amount.Sign() != a.Closing.Sign() || !r.Period.To.IsZero() && !e.at.Before(r.Period.To) {
			return true, nil
		}
		if r.Basis != Value {
			return yield(e)
		}
		heap.Push(&kept, e)
		sum = sum.Add(e.amount.Abs())
		for sum.Sub(kept[0].amount.Abs()).GreaterThanOrEqual(enough) {
			sum = sum.Sub(kept[0].amount.Abs())
			heap.Pop(&kept)
		}
		return true, r.tooMany(a, len(kept))
	})
	if err != nil {
		return err
	}
	sort.Sort(sort.Reverse(kept))
	for _, e := range kept {
		if more, err := yield(e); err != nil || !more {
			return err
		}
	}
	return nil
}

func (r *run) tooMany(a *journal.PeriodAccount, items int) error {
	if items > r.limits.items {
		return ledger.Errorf(ledger.CodeInvalidArgument, "account %s has more than %d open items", a.ID, r.limits.items)
	}
	return nil
}

func (r *run) clearingRow(kind sheet.RowKind, account, name string, balance decimal.Decimal, c ledger.Currency, open *openItems) error {
	cells := []string{account, name, string(c.Code), amount(balance, c), strconv.Itoa(open.count), "", "", ""}
	if open.count > 0 {
		cells[5], cells[6], cells[7] = open.oldest.String(), strconv.Itoa(open.age), string(open.transfer)
	}
	for _, part := range open.byAge {
		cells = append(cells, moved(part, c))
	}
	return r.row(kind, cells...)
}
