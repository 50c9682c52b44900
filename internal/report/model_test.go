package report_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// section writes the accounts of one type as the oracle has them, and what they come to by currency.
func (o *oracle) section(out *strings.Builder, c cut, id, title string, kind ledger.AccountType, value func(*figures) decimal.Decimal,
	results map[ledger.CurrencyCode]decimal.Decimal) map[ledger.CurrencyCode]decimal.Decimal {
	totals := map[ledger.CurrencyCode]decimal.Decimal{}
	all := o.of(c)
	for _, account := range o.ids() {
		f, spec := all[account], o.specs[account]
		if spec.Type != kind || f.quiet() {
			continue
		}
		v := o.natural(account, value(f))
		totals[spec.Currency] = totals[spec.Currency].Add(v)
		if !v.IsZero() {
			fmt.Fprintf(out, "item %s|%s|%s|%s|%s\n", id, account, spec.Name, spec.Currency, o.money(account, v))
		}
	}
	for _, code := range codesOf(results) {
		totals[code] = totals[code].Add(results[code])
		fmt.Fprintf(out, "item %s||Result not yet closed|%s|%s\n", id, code, results[code].StringFixed(o.scale[code]))
	}
	for _, code := range codesOf(totals) {
		fmt.Fprintf(out, "subtotal %[1]s|%[2]s %[3]s||%[3]s|%[4]s\n", id, title, code, totals[code].StringFixed(o.scale[code]))
	}
	return totals
}

func codesOf(m map[ledger.CurrencyCode]decimal.Decimal) []ledger.CurrencyCode {
	var codes []ledger.CurrencyCode
	for code := range m {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	return codes
}

func (o *oracle) balanceSheet(c cut) string {
	c.from = time.Time{}
	var out strings.Builder
	closing := func(f *figures) decimal.Decimal { return f.closing }
	o.section(&out, c, "assets", "Total assets", ledger.Asset, closing, nil)
	owed := o.section(&out, c, "liabilities", "Total liabilities", ledger.Liability, closing, nil)
	result := map[ledger.CurrencyCode]decimal.Decimal{}
	for id, f := range o.of(c) {
		if spec := o.specs[id]; !f.quiet() && (spec.Type == ledger.Revenue || spec.Type == ledger.Expense) {
			result[spec.Currency] = result[spec.Currency].Sub(f.closing)
		}
	}
	for code, sum := range o.section(&out, c, "equity", "Total equity", ledger.Equity, closing, result) {
		owed[code] = owed[code].Add(sum)
	}
	for _, code := range codesOf(owed) {
		fmt.Fprintf(&out, "total liabilities and equity|Total %[1]s||%[1]s|%[2]s\n", code, owed[code].StringFixed(o.scale[code]))
	}
	return out.String()
}

func (o *oracle) incomeStatement(c cut) string {
	var out strings.Builder
	change := func(f *figures) decimal.Decimal { return f.debits.Sub(f.credits) }
	result := o.section(&out, c, "revenue", "Total revenue", ledger.Revenue, change, nil)
	for code, sum := range o.section(&out, c, "expenses", "Total expenses", ledger.Expense, change, nil) {
		result[code] = result[code].Sub(sum)
	}
	for _, code := range codesOf(result) {
		fmt.Fprintf(&out, "total result|Result %[1]s||%[1]s|%[2]s\n", code, result[code].StringFixed(o.scale[code]))
	}
	return out.String()
}

// dates are those on calendars in the zone during the cut.
func (c cut) dates() (dates []string) {
	last := c.to.Add(-time.Microsecond).In(c.zone).Format(time.DateOnly)
	y, m, d := c.from.In(c.zone).Date()
	for n := 0; ; n++ {
		date := time.Date(y, m, d+n, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
		if dates = append(dates, date); date == last {
			return dates
		}
	}
}

// daily gives an account's figures of each date.
func (f *figures) daily(dates []string) []figures {
	list := make([]figures, len(dates))
	balance, next := f.opening, 0
	for i, date := range dates {
		day := figures{opening: balance}
		for ; next < len(f.lines) && f.lines[next].date == date; next++ {
			if p := f.lines[next]; p.amount.IsPositive() {
				day.debits = day.debits.Add(p.amount)
			} else {
				day.credits = day.credits.Sub(p.amount)
			}
		}
		balance = balance.Add(day.debits).Sub(day.credits)
		day.closing = balance
		list[i] = day
	}
	return list
}

func (o *oracle) dailyPosition(c cut, is func(ledger.AccountSpec) bool) string {
	var items, sums strings.Builder
	all, dates := o.of(c), c.dates()
	totals := make([]map[ledger.CurrencyCode]*figures, len(dates))
	counts := map[ledger.CurrencyCode]int{}
	for _, id := range o.ids() {
		f, spec := all[id], o.specs[id]
		if f.quiet() || !is(spec) {
			continue
		}
		counts[spec.Currency]++
		for i, day := range f.daily(dates) {
			fmt.Fprintf(&items, "item %s|%s|%s|%s|%s|%s|%s|%s\n", id, spec.Name, dates[i], spec.Currency, o.money(id, day.opening), o.moved(id, day.debits),
				o.moved(id, day.credits), o.money(id, day.closing))
			if totals[i] == nil {
				totals[i] = map[ledger.CurrencyCode]*figures{}
			}
			t := totals[i][spec.Currency]
			if t == nil {
				t = &figures{}
				totals[i][spec.Currency] = t
			}
			t.opening, t.closing = t.opening.Add(day.opening), t.closing.Add(day.closing)
			t.debits, t.credits = t.debits.Add(day.debits), t.credits.Add(day.credits)
		}
	}
	for i, date := range dates {
		var codes []ledger.CurrencyCode
		for code := range totals[i] {
			codes = append(codes, code)
		}
		slices.Sort(codes)
		for _, code := range codes {
			t := totals[i][code]
			account := ledger.AccountID("total")
			o.specs[account] = ledger.AccountSpec{Currency: code}
			fmt.Fprintf(&sums, "total Total %s|%s|%s|%s|%s|%s|%s|%s\n", code, counted(counts[code]), date, code, o.money(account, t.opening),
				o.moved(account, t.debits),
				o.moved(account, t.credits), o.money(account, t.closing))
			delete(o.specs, account)
		}
	}
	return items.String() + sums.String()
}

func counted(n int) string {
	if n == 1 {
		return "1 account"
	}
	return fmt.Sprint(n, " accounts")
}

func (o *oracle) balanceOverTime(c cut, id ledger.AccountID) string {
	var out strings.Builder
	f, spec, dates := o.of(c)[id], o.specs[id], c.dates()
	fmt.Fprintf(&out, "opening |%s|||%s\n", spec.Currency, o.money(id, o.natural(id, f.opening)))
	for i, day := range f.daily(dates) {
		fmt.Fprintf(&out, "item %s|%s|%s|%s|%s\n", dates[i], spec.Currency, o.moved(id, day.debits), o.moved(id, day.credits), o.money(id, o.natural(id,
			day.closing)))
	}
	return out.String()
}

// clearing settles the entries of accounts one after the other, the oldest first, and tells what is open in the end.
func (o *oracle) clearing(c cut, now time.Time) string {
	c.from = time.Time{}
	asOf := now
	if !c.to.IsZero() && c.to.Before(now) {
		asOf = c.to.Add(-time.Microsecond)
	}
	day := func(t time.Time) int {
		y, m, d := t.In(c.zone).Date()
		return int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
	}
	var out strings.Builder
	all := o.of(c)
	for _, id := range o.ids() {
		f, parts := all[id], strings.Split(string(id), ":")
		if f.closing.IsZero() || !slices.Contains(parts, "clearing") && !slices.Contains(parts, "suspense") {
			continue
		}
		list := slices.Clone(f.lines)
		slices.SortFunc(list, func(a, b posted) int {
			order := cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.leg, b.leg))
			if c.basis == report.Value {
				order = cmp.Or(a.when(c.basis).Compare(b.when(c.basis)), order)
			}
			return order
		})
		var open []posted
		for _, p := range list {
			for !p.amount.IsZero() && len(open) > 0 && open[0].amount.Sign() != p.amount.Sign() {
				part := decimal.Min(p.amount.Abs(), open[0].amount.Abs())
				if p.amount.IsNegative() {
					part = part.Neg()
				}
				p.amount, open[0].amount = p.amount.Sub(part), open[0].amount.Add(part)
				if open[0].amount.IsZero() {
					open = open[1:]
				}
			}
			if !p.amount.IsZero() {
				open = append(open, p)
			}
		}
		var buckets [5]decimal.Decimal
		oldest := open[0]
		for _, p := range open {
			if day(p.when(c.basis)) < day(oldest.when(c.basis)) {
				oldest = p
			}
			age, bucket := day(asOf)-day(p.when(c.basis)), 4
			for i, most := range []int{1, 7, 30, 90} {
				if age <= most {
					bucket = i
					break
				}
			}
			buckets[bucket] = buckets[bucket].Add(p.amount)
		}
		cells := []string{string(id), o.specs[id].Name, string(o.specs[id].Currency), o.money(id, f.closing), fmt.Sprint(len(open)),
			oldest.when(c.basis).In(c.zone).Format(time.DateOnly),
			fmt.Sprint(day(asOf) - day(oldest.when(c.basis))), string(oldest.transfer)}
		for _, sum := range buckets {
			cells = append(cells, o.moved(id, sum))
		}
		fmt.Fprintln(&out, "item", strings.Join(cells, "|"))
	}
	return out.String()
}

// chain is what is known of the statements of an account.
type chain struct {
	numbers []int64
	last    report.Statement
	closing decimal.Decimal
}

// machine asks for reports of random books at random.
type machine struct {
	*books
	o       *oracle
	moments []time.Time // at which something may begin or end
	n       int
	chains  map[string]*chain
	issued  []report.Statement
}

var machineAccounts = []ledger.AccountSpec{
	{ID: "bank", Type: ledger.Asset, Currency: "BDT"}, {ID: "assets:clearing:gw", Type: ledger.Asset, Currency: "BDT", Name: "=1+1"},
	{ID: "a:b", Type: ledger.Liability, Currency: "BDT"}, {ID: "a:b-c", Type: ledger.Liability, Currency: "BDT"}, {ID: "fees", Type: ledger.Revenue,
		Currency: "BDT"},
	{ID: "costs", Type: ledger.Expense, Currency: "BDT"}, {ID: "owner", Type: ledger.Equity, Currency: "BDT"},
	{ID: "yen", Type: ledger.Asset, Currency: "JPY"}, {ID: "suspense", Type: ledger.Liability, Currency: "JPY"}, {ID: "yen:fees",
		Type: ledger.Revenue, Currency: "JPY"},
	{ID: "idle", Type: ledger.Asset, Currency: "KWD"},
}

func (m *machine) post(t *rapid.T) {
	var specs []ledger.TransferSpec
	for range rapid.IntRange(1, 5).Draw(t, "transfers") {
		m.n++
		x := ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprint("t", m.n))}
		accounts := machineAccounts[:7]
		if rapid.IntRange(0, 3).Draw(t, "currency") == 0 {
			accounts = machineAccounts[7:10]
		}
		order := rapid.Permutation(accounts).Draw(t, "accounts")
		parts := rapid.IntRange(1, min(3, len(order)-1)).Draw(t, "parts")
		total := decimal.Decimal{}
		for _, a := range order[:parts] {
			sum := decimal.NewFromInt(int64(rapid.IntRange(1, 50).Draw(t, "sum")))
			total = total.Add(sum)
			x.Entries = append(x.Entries, ledger.Entry{Account: a.ID, Direction: ledger.Debit, Amount: sum})
		}
		x.Entries = append(x.Entries, ledger.Entry{Account: order[parts].ID, Direction: ledger.Credit, Amount: total})
		if rapid.Bool().Draw(t, "turned") {
			for i := range x.Entries {
				x.Entries[i].Direction = map[ledger.Direction]ledger.Direction{ledger.Debit: ledger.Credit, ledger.Credit: ledger.Debit}[x.Entries[i].Direction]
			}
		}
		if rapid.Bool().Draw(t, "valued") {
			at := m.moment(t, "value date").Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "microseconds")) * time.Microsecond).UTC()
			x.EffectiveAt = &at
		}
		specs = append(specs, x)
	}
	results := m.books.post(t, specs...)
	m.o.results(results)
	m.moments = append(m.moments, results[len(results)-1].Transfer.PostedAt)
}

func (m *machine) moment(t *rapid.T, what string) time.Time {
	return rapid.SampledFrom(m.moments).Draw(t, what)
}

var machineZones = []string{"UTC", "Asia/Dhaka", "America/New_York", "Pacific/Kiritimati"}

// cut draws a part of the books. Bounded is one that begins and ends.
func (m *machine) cut(t *rapid.T, bounded bool) cut {
	zone, err := report.ParseZone(rapid.SampledFrom(machineZones).Draw(t, "zone"))
	if err != nil {
		t.Fatalf("%v", err)
	}
	c := cut{basis: rapid.SampledFrom([]report.Basis{report.Booking, report.Value}).Draw(t, "basis"), zone: zone}
	c.from, c.to = m.moment(t, "from"), m.moment(t, "to")
	if c.to.Before(c.from) {
		c.from, c.to = c.to, c.from
	}
	if c.from.Equal(c.to) {
		c.to = c.to.Add(time.Microsecond)
	}
	if !bounded {
		switch rapid.IntRange(0, 4).Draw(t, "open") {
		case 0:
			c.from = time.Time{}
		case 1:
			c.to = time.Time{}
		}
	}
	if n := len(m.o.lines); n > 0 && rapid.IntRange(0, 3).Draw(t, "through") == 0 {
		c.through = m.o.lines[rapid.IntRange(0, n-1).Draw(t, "line")].sequence
	}
	return c
}

func (m *machine) balances(t *rapid.T) {
	c := m.cut(t, false)
	m.checkTrialBalance(t, m.o, c)
	if c.through == 0 && !c.to.IsZero() && (c.basis == report.Value || c.to.Before(time.Now())) {
		m.checkBalancesAsOf(t, m.o, c)
	}
	same(t, "balance sheet "+c.String(), rows(m.run(t, c.request(report.BalanceSheet))), m.o.balanceSheet(c))
	same(t, "income statement "+c.String(), rows(m.run(t, c.request(report.IncomeStatement))), m.o.incomeStatement(c))
}

func (m *machine) entries(t *rapid.T) {
	c := m.cut(t, false)
	q := c.request(report.GeneralLedger)
	var accounts []ledger.AccountID
	if rapid.Bool().Draw(t, "one account") {
		q.Account = rapid.SampledFrom(machineAccounts).Draw(t, "account").ID
		accounts = []ledger.AccountID{q.Account}
	}
	same(t, "general ledger "+c.String(), rows(m.run(t, q)), m.o.generalLedger(c, accounts...))
	now := time.Now()
	s := m.run(t, c.request(report.Clearing))
	if read, err := time.Parse(time.RFC3339Nano, s.Head.Fact("read_at")); err == nil {
		now = read
	}
	same(t, "clearing "+c.String(), rows(s, sheet.Item), m.o.clearing(c, now))
}

func (m *machine) days(t *rapid.T) {
	c := m.cut(t, true)
	same(t, "daily position "+c.String(), rows(m.run(t, c.request(report.DailyPosition))), m.o.dailyPosition(c,
		func(s ledger.AccountSpec) bool { return s.Type == ledger.Asset }))
	q := c.request(report.BalanceOverTime)
	q.Account = rapid.SampledFrom(machineAccounts).Draw(t, "account").ID
	same(t, "balance over time "+c.String(), rows(m.run(t, q)), m.o.balanceOverTime(c, q.Account))
}

// issue issues the next statement of an account, if there can be one.
func (m *machine) issue(t *rapid.T) {
	account := rapid.SampledFrom(machineAccounts[:4]).Draw(t, "account").ID
	basis := rapid.SampledFrom([]report.Basis{report.Booking, report.Value}).Draw(t, "basis")
	key := fmt.Sprint(account, " ", basis)
	known := m.chains[key]
	if known == nil {
		known = &chain{}
		m.chains[key] = known
	}
	past := slices.DeleteFunc(slices.Clone(m.moments), func(at time.Time) bool {
		return at.After(time.Now().Add(-time.Second)) &&
			basis == report.Value
	})
	to := rapid.SampledFrom(past).Draw(t, "to")
	spec := report.StatementSpec{Ledger: m.name, Account: account, Basis: basis, Period: report.Period{To: to, Zone: time.UTC}}
	if len(known.numbers) == 0 {
		spec.Period.From = to.AddDate(0, 0, -rapid.IntRange(1, 100).Draw(t, "days"))
	} else if !to.After(known.last.Period.To) {
		return
	}
	s, fresh, err := m.Issue(context.Background(), spec, "x")
	if err != nil || !fresh {
		t.Fatalf("%+v: %t, %v", spec, fresh, err)
	}
	c := cut{from: s.Period.From, to: s.Period.To, basis: basis, through: s.Through, zone: time.UTC}
	f := m.o.of(c)[account]
	opening, late := f.opening, []posted(nil)
	if len(known.numbers) > 0 {
		opening = known.closing
		late = m.late(account, basis, known.last.Period.To, known.last.Through, s.Through)
	}
	told, err := s.Sheet()
	if err != nil {
		t.Fatalf("%v", err)
	}
	var want strings.Builder
	fmt.Fprintf(&want, "opening |||||Opening balance|||%s\n", m.o.money(account, m.o.natural(account, opening)))
	balance, debits, credits := opening, decimal.Decimal{}, decimal.Decimal{}
	row := func(kind sheet.RowKind, p posted) {
		balance = balance.Add(p.amount)
		debits, credits = debits.Add(positive(p.amount)), credits.Add(positive(p.amount.Neg()))
		fmt.Fprintf(&want, "%s %s|%d|%s|%s|%s|%s|%s|%s|%s\n", kind, p.when(basis).UTC().Format(time.DateOnly), p.sequence, p.transfer, p.kind,
			against(p.others), p.description,
			m.o.side(account, p.amount, 1), m.o.side(account, p.amount, -1), m.o.money(account, m.o.natural(account, balance)))
	}
	for _, p := range late {
		row(sheet.Late, p)
	}
	for _, p := range f.lines {
		row(sheet.Item, p)
	}
	fmt.Fprintf(&want, "closing |||||Closing balance|%s|%s|%s\n", m.o.money(account, debits), m.o.money(account, credits), m.o.money(account,
		m.o.natural(account, f.closing)))
	same(t, fmt.Sprintf("statement %d of %s", s.Ordinal, key), rows(told), want.String())
	known.numbers, known.last, known.closing = append(known.numbers, s.Number), s, f.closing
	m.issued = append(m.issued, s)
}

// late are the entries of an account with a time before a moment that were recorded after one sequence, through another.
func (m *machine) late(account ledger.AccountID, basis report.Basis, before time.Time, after, through int64) []posted {
	var list []posted
	for _, p := range m.o.lines {
		if p.account == account && p.sequence > after && (through == 0 || p.sequence <= through) && p.when(basis).Before(before) {
			list = append(list, p)
		}
	}
	slices.SortStableFunc(list, func(a, b posted) int {
		return cmp.Compare(a.when(basis).UTC().Format(time.DateOnly), b.when(basis).UTC().Format(time.DateOnly))
	})
	return list
}

// changes looks at what has changed since a statement, which itself has not.
func (m *machine) changes(t *rapid.T) {
	if len(m.issued) == 0 {
		return
	}
	s := rapid.SampledFrom(m.issued).Draw(t, "statement")
	again, fresh, err := m.Issue(context.Background(), report.StatementSpec{Ledger: m.name, Account: s.Account, Basis: s.Basis, Period: s.Period}, "y")
	if err != nil || fresh || again.Number != s.Number || string(again.Content) != string(s.Content) {
		t.Fatalf("statement %d again: %t, %v", s.Number, fresh, err)
	}
	var want strings.Builder
	for _, p := range m.late(s.Account, s.Basis, s.Period.To, s.Through, 0) {
		in := ""
		for _, other := range m.issued {
			if other.Account == s.Account && other.Basis == s.Basis && other.Ordinal > s.Ordinal && other.Through >= p.sequence {
				in = fmt.Sprint(other.Number)
				break
			}
		}
		fmt.Fprintf(&want, "late %s|%d|%s|%s|%s|%s|%s|%s|%s|%s\n", p.when(s.Basis).UTC().Format(time.DateOnly), p.sequence, p.transfer, p.kind,
			against(p.others), p.description,
			m.o.side(s.Account, p.amount, 1), m.o.side(s.Account, p.amount, -1), instant(p.at), in)
	}
	same(t, fmt.Sprintf("changes since statement %d", s.Number), rows(m.run(t, report.Request{Report: report.ChangesSince, Statement: s.Number})),
		want.String())
}

func (m *machine) growth(t *rapid.T) {
	transfers, entries := 0, 0
	seen := map[int64]bool{}
	for _, p := range m.o.lines {
		entries++
		if !seen[p.sequence] {
			seen[p.sequence] = true
			transfers++
		}
	}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	q := report.Request{Report: report.Growth, Period: report.Period{From: today.AddDate(0, 0, -1), To: today.AddDate(0, 0, 2)}}
	same(t, "growth", rows(m.run(t, q), sheet.Total), fmt.Sprintf("total |%d|0|%d|0|0|0\n", transfers, entries))
}

// Random books and random reports agree with an oracle that knows no database.
func TestModel(t *testing.T) {
	t.Parallel()
	b := open(t)
	var count atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		name := ledger.Name(fmt.Sprint("model-", count.Add(1)))
		if _, err := b.CreateLedger(context.Background(), "local", name); err != nil {
			t.Fatalf("%v", err)
		}
		own := *b
		own.name = name
		m := &machine{books: &own, o: newOracle(), chains: map[string]*chain{}}
		m.accounts(t, machineAccounts...)
		m.o.open(machineAccounts...)
		now := time.Now().UTC()
		for _, back := range []int{0, 1, 2, 3, 8, 30, 31, 90, 92} {
			day := time.Date(now.Year(), now.Month(), now.Day()-back, 0, 0, 0, 0, time.UTC)
			m.moments = append(m.moments, day.Add(-6*time.Hour), day.AddDate(0, 0, -1).Add(5*time.Hour))
		}
		t.Repeat(map[string]func(*rapid.T){
			"post": m.post, "post more": m.post, "balances": m.balances, "entries": m.entries, "days": m.days, "issue": m.issue,
			"changes": m.changes, "growth": m.growth,
		})
	})
	ledgertest.CheckBooks(t, b.db)
}

// While others post, what a report says through one sequence stays as it is, and what it says now always adds up.
func TestWhilePosting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wallets(t, b)
	b.account(t, "suspense", ledger.Asset, "BDT")
	ids := []ledger.AccountID{"bank", "wallet:a", "wallet:b", "suspense"}
	ctx, stop := context.WithCancel(t.Context())
	var posted atomic.Int64
	var group sync.WaitGroup
	for n := range 2 {
		group.Go(func() {
			for i := 0; ctx.Err() == nil && posted.Load() < 3_000; i++ {
				var specs []ledger.TransferSpec
				for k := range 20 {
					x := move(ledger.TransferID(fmt.Sprintf("%d-%d-%d", n, i, k)), ids[(i+k)%4], ids[(i+k+1+i%3)%4], fmt.Sprint(1+k), "")
					if k%3 == 0 {
						x.EffectiveAt = at(fmt.Sprintf("2025-%02d-%02dT00:00:00Z", 1+k%6, 1+i%28))
					}
					specs = append(specs, x)
				}
				if _, err := b.Post(context.Background(), "local", main, specs); err != nil {
					t.Error(err)
				}
				posted.Add(20)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	for posted.Load() < 200 {
		time.Sleep(time.Millisecond)
	}
	through, err := b.Horizon(ctx, main)
	if err != nil {
		t.Fatal(err)
	}
	month := period(t, "2025-02", "2025-03", "Asia/Dhaka")
	now := report.Period{From: time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -1), To: time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 2)}
	var requests []report.Request
	for _, name := range []report.Name{report.TrialBalance, report.GeneralLedger, report.IncomeStatement, report.DailyPosition} {
		requests = append(requests, report.Request{Report: name, Basis: report.Value, Period: month}, report.Request{Report: name, Basis: report.Booking,
			Period: now})
	}
	requests = append(requests, report.Request{Report: report.BalanceSheet}, report.Request{Report: report.Clearing})
	first := make([]string, len(requests))
	// Until there are marks behind the sequence, too.
	statements := 0
	for round := 0; round < 3 || posted.Load() < 1_000; round++ {
		for i, q := range requests {
			// What is recorded while a statement is being issued is not in it, and so among the late items of the next one.
			next := report.StatementSpec{Account: "wallet:a", Basis: report.Value, Period: report.Period{To: month.From.AddDate(0, 0, statements),
				Zone: month.Zone}}
			if statements == 0 {
				next.Period.From = month.From.AddDate(0, -1, 0)
			}
			b.issue(t, next)
			statements++
			b.run(t, q)
			q.Through = through
			got := bytesOf(t, b.run(t, q))
			if first[i] == "" {
				first[i] = got
			}
			same(t, fmt.Sprintf("%s through %d", q.Report, through), got, first[i])
		}
		var clerk auditor
		if err := b.Book(ctx, report.BookRequest{Running: true, Basis: []report.Basis{report.Booking, report.Value}[round%2]}, &clerk); err != nil {
			t.Error(err)
		}
		if t.Failed() || round > 200 {
			break
		}
	}
	stop()
	group.Wait()
	t.Logf("%d transfers meanwhile, %d statements", posted.Load(), statements)
}
