package report_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// oracle knows what was posted, by what it was told, and works out the figures of reports in plain Go: no database, no period, nothing clever.
type oracle struct {
	specs map[ledger.AccountID]ledger.AccountSpec
	scale map[ledger.CurrencyCode]int32
	lines []posted
	// last are the figures of a cut, when so many entries were known.
	last  map[ledger.AccountID]*figures
	cut   cut
	known int
}

// posted is an entry.
type posted struct {
	account ledger.AccountID
	// amount is positive for a debit.
	amount decimal.Decimal
	at     time.Time
	// effective is zero where there is none.
	effective   time.Time
	sequence    int64
	leg         int
	transfer    ledger.TransferID
	kind        ledger.Kind
	description string
	others      []ledger.AccountID
	// date is what a calendar says, in the figures of a cut.
	date string
}

func (p posted) when(basis report.Basis) time.Time {
	if basis == report.Value && !p.effective.IsZero() {
		return p.effective
	}
	return p.at
}

func newOracle() *oracle {
	return &oracle{
		specs: map[ledger.AccountID]ledger.AccountSpec{}, scale: map[ledger.CurrencyCode]int32{"BDT": 2, "JPY": 0, "KWD": 3, "USD": 2, "CZK": 2},
	}
}

func (o *oracle) open(specs ...ledger.AccountSpec) {
	for _, s := range specs {
		o.specs[s.ID] = s
	}
}

// learn takes a transfer that was decided.
func (o *oracle) learn(t *ledger.Transfer) {
	if t.Refusal != nil || !t.Kind().Moves() {
		return
	}
	for i, e := range t.Entries {
		p := posted{
			account: e.Account, amount: e.Amount, at: t.PostedAt, sequence: t.Sequence, leg: i + 1, transfer: t.ID, kind: t.Kind(), description: t.Description,
		}
		if e.Direction == ledger.Credit {
			p.amount = e.Amount.Neg()
		}
		if t.EffectiveAt != nil {
			p.effective = *t.EffectiveAt
		}
		for _, other := range t.Entries {
			if other.Account != e.Account && !slices.Contains(p.others, other.Account) {
				p.others = append(p.others, other.Account)
			}
		}
		o.lines = append(o.lines, p)
	}
}

func (o *oracle) results(results []journal.PostResult) {
	for _, r := range results {
		if r.Err == nil && !r.Replayed {
			o.learn(r.Transfer)
		}
	}
}

// ids lists the accounts in their order.
func (o *oracle) ids() []ledger.AccountID {
	ids := make([]ledger.AccountID, 0, len(o.specs))
	for id := range o.specs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// cut is what of it is asked for.
type cut struct {
	from, to time.Time
	basis    report.Basis
	through  int64 // 0 is all
	zone     *time.Location
}

func (c cut) String() string {
	return fmt.Sprintf("by %s from %q to %q through %d in %s", c.basis, instant(c.from), instant(c.to), c.through, c.zone)
}

func (c cut) period() report.Period { return report.Period{From: c.from, To: c.to, Zone: c.zone} }

// request asks for a report of it.
func (c cut) request(name report.Name) report.Request {
	q := report.Request{Report: name, Period: c.period(), Basis: c.basis, Through: c.through}
	if name == report.BalanceSheet || name == report.Clearing {
		q.Period.From = time.Time{}
	}
	return q
}

func (c cut) knows(p posted) bool { return c.through == 0 || p.sequence <= c.through }

// figures are those of an account.
type figures struct {
	opening, debits, credits, closing decimal.Decimal
	// lines are the entries in the period, by day and then by sequence.
	lines []posted
}

func (f figures) quiet() bool { return len(f.lines) == 0 && f.opening.IsZero() && f.closing.IsZero() }

// of gives the figures of each account.
func (o *oracle) of(c cut) map[ledger.AccountID]*figures {
	if o.last != nil && o.cut == c && o.known == len(o.lines) {
		return o.last
	}
	all := make(map[ledger.AccountID]*figures, len(o.specs))
	for id := range o.specs {
		all[id] = &figures{}
	}
	for _, p := range o.lines {
		f, at := all[p.account], p.when(c.basis)
		if !c.knows(p) || !c.to.IsZero() && !at.Before(c.to) {
			continue
		}
		f.closing = f.closing.Add(p.amount)
		switch {
		case !c.from.IsZero() && at.Before(c.from):
			f.opening = f.opening.Add(p.amount)
			continue
		case p.amount.IsPositive():
			f.debits = f.debits.Add(p.amount)
		default:
			f.credits = f.credits.Sub(p.amount)
		}
		f.lines = append(f.lines, p)
	}
	for _, f := range all {
		for i := range f.lines {
			f.lines[i].date = f.lines[i].when(c.basis).In(c.zone).Format(time.DateOnly)
		}
		slices.SortFunc(f.lines, func(a, b posted) int {
			return cmp.Or(cmp.Compare(a.date, b.date), cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.leg, b.leg))
		})
	}
	o.last, o.cut, o.known = all, c, len(o.lines)
	return all
}

func (o *oracle) money(id ledger.AccountID, d decimal.Decimal) string {
	return d.StringFixed(o.scale[o.specs[id].Currency])
}

// side writes a balance in one of two columns.
func (o *oracle) side(id ledger.AccountID, d decimal.Decimal, sign int) string {
	if d.Sign() != sign {
		return ""
	}
	return o.money(id, d.Abs())
}

// natural turns a balance, a debit positive, into the account's own direction.
func (o *oracle) natural(id ledger.AccountID, d decimal.Decimal) decimal.Decimal {
	if kind := o.specs[id].Type; kind == ledger.Asset || kind == ledger.Expense {
		return d
	}
	return d.Neg()
}

// moved writes a movement, or nothing for none.
func (o *oracle) moved(id ledger.AccountID, d decimal.Decimal) string {
	if d.IsZero() {
		return ""
	}
	return o.money(id, d)
}

// trialBalance is the rows of the accounts.
func (o *oracle) trialBalance(c cut, empty bool) string {
	var out strings.Builder
	all := o.of(c)
	for _, id := range o.ids() {
		f, spec := all[id], o.specs[id]
		if f.quiet() && !empty {
			continue
		}
		fmt.Fprintln(&out, "item", strings.Join([]string{
			string(id), spec.Name, string(spec.Type), string(spec.Currency), o.side(id, f.opening, 1), o.side(id, f.opening, -1), o.moved(id, f.debits),
			o.moved(id, f.credits), o.side(id, f.closing, 1), o.side(id, f.closing, -1),
		}, "|"))
	}
	return out.String()
}

// generalLedger is all rows.
func (o *oracle) generalLedger(c cut, accounts ...ledger.AccountID) string {
	var out strings.Builder
	row := func(kind sheet.RowKind, cells ...string) { fmt.Fprintln(&out, kind, strings.Join(cells, "|")) }
	all := o.of(c)
	for _, id := range o.ids() {
		f, spec := all[id], o.specs[id]
		if f.quiet() || len(accounts) > 0 && !slices.Contains(accounts, id) {
			continue
		}
		title := "Opening balance"
		if spec.Name != "" {
			title = spec.Name + ": opening balance"
		}
		row(sheet.Opening, string(id), "", "", "", "", "", title, string(spec.Currency), "", "", o.money(id, f.opening), "", "")
		balance := f.opening
		for _, p := range f.lines {
			balance = balance.Add(p.amount)
			row(sheet.Item, string(id), p.date, fmt.Sprint(p.sequence), string(p.transfer), string(p.kind), against(p.others), p.description,
				string(spec.Currency), o.side(id, p.amount, 1), o.side(id, p.amount, -1), o.money(id, balance), instant(p.at), instant(p.effective))
		}
		row(sheet.Closing, string(id), "", "", "", "", "", "Closing balance", string(spec.Currency), o.money(id, f.debits), o.money(id, f.credits),
			o.money(id, f.closing), "", "")
	}
	return out.String()
}

func against(others []ledger.AccountID) string {
	var list []string
	for i, id := range others {
		if i == 3 {
			return fmt.Sprintf("%s and %d more", strings.Join(list, ", "), len(others)-3)
		}
		list = append(list, string(id))
	}
	return strings.Join(list, ", ")
}

// rows writes the rows of a sheet as the oracle does, those of some kinds.
func rows(s *sheet.Sheet, kinds ...sheet.RowKind) string {
	var out strings.Builder
	for _, row := range s.Rows {
		if len(kinds) == 0 || slices.Contains(kinds, row.Kind) {
			fmt.Fprintln(&out, row.Kind, strings.Join(row.Cells, "|"))
		}
	}
	return out.String()
}

// same compares two texts, and says where they part.
func same(t tester, what, got, want string) bool {
	t.Helper()
	if got == want {
		return true
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var x, y string
		if i < len(g) {
			x = g[i]
		}
		if i < len(w) {
			y = w[i]
		}
		if x != y {
			t.Errorf("%s, line %d of %d:\n   got %s\n  want %s", what, i+1, len(w)-1, x, y)
			break
		}
	}
	return false
}

// checkTrialBalance holds the trial balance of a cut against the oracle, its totals too.
func (b *books) checkTrialBalance(t tester, o *oracle, c cut) {
	t.Helper()
	q := c.request(report.TrialBalance)
	s := b.run(t, q)
	same(t, "trial balance "+c.String(), rows(s, sheet.Item), o.trialBalance(c, false))
	same(t, "totals of the trial balance "+c.String(), rows(s, sheet.Total), o.trialTotals(c))
}

func (o *oracle) trialTotals(c cut) string {
	type total struct{ cells [6]decimal.Decimal }
	totals := map[ledger.CurrencyCode]*total{}
	for id, f := range o.of(c) {
		if f.quiet() {
			continue
		}
		code := o.specs[id].Currency
		if totals[code] == nil {
			totals[code] = &total{}
		}
		for i, d := range []decimal.Decimal{positive(f.opening), positive(f.opening.Neg()), f.debits, f.credits, positive(f.closing),
			positive(f.closing.Neg())} {
			totals[code].cells[i] = totals[code].cells[i].Add(d)
		}
	}
	var lines []string
	for code, sum := range totals {
		var cells []string
		for _, d := range sum.cells {
			cells = append(cells, d.StringFixed(o.scale[code]))
		}
		lines = append(lines, fmt.Sprintf("total Total %[1]s|||%[1]s|%s\n", code, strings.Join(cells, "|")))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func positive(d decimal.Decimal) decimal.Decimal {
	if d.IsNegative() {
		return decimal.Decimal{}
	}
	return d
}

// checkGeneralLedger holds the general ledger of a cut against the oracle, entry by entry.
func (b *books) checkGeneralLedger(t tester, o *oracle, c cut) {
	t.Helper()
	same(t, "general ledger "+c.String(), rows(b.run(t, c.request(report.GeneralLedger))), o.generalLedger(c))
}

// checkBalancesAsOf holds the balances as of the end of a cut against the oracle.
func (b *books) checkBalancesAsOf(t tester, o *oracle, c cut) {
	t.Helper()
	last := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	if !c.to.IsZero() {
		last = c.to.Add(-time.Microsecond)
	}
	asOf := ledger.AsOf{PostedAt: &last}
	switch {
	case c.basis == report.Value:
		asOf = ledger.AsOf{EffectiveAt: &last}
	case c.to.IsZero():
		asOf = ledger.AsOf{Sequence: &c.through}
	}
	balances, err := b.BalancesAsOf(context.Background(), b.name, o.ids(), asOf)
	if err != nil {
		t.Fatalf("%v", err)
	}
	all := o.of(c)
	for i, id := range o.ids() {
		got, want := balances[i].Posted.StringFixed(balances[i].Currency.Scale), o.money(id, o.natural(id, all[id].closing))
		if got != want {
			t.Errorf("%s as of %s: %s, want %s", id, c, got, want)
		}
	}
}

// hand is a transfer of two entries that somebody inserts in psql, at whatever time.
type hand struct {
	id            ledger.TransferID
	debit, credit ledger.AccountID
	amount        string
	at            time.Time
	effective     time.Time
}

// insert inserts transfers in their order, and tells the oracle.
func (b *books) insert(t testing.TB, o *oracle, hands ...hand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, b.db.OwnerDSN()+" options='-c khata.schema=9999'")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var ids, debits, credits, amounts []string
	var posted []time.Time
	var effective []*time.Time
	for _, h := range hands {
		ids, debits, credits = append(ids, string(h.id)), append(debits, string(h.debit)), append(credits, string(h.credit))
		amounts, posted = append(amounts, h.amount), append(posted, h.at)
		var e *time.Time
		if !h.effective.IsZero() {
			e = &h.effective
		}
		effective = append(effective, e)
	}
	rows, err := conn.Query(ctx, `WITH n AS (
			INSERT INTO transfer (ledger_id, transfer_id, posted_at, effective_at, account_nos, amounts, caller)
			SELECT 1, h.id, h.posted, h.effective, ARRAY[d.account_no, c.account_no], ARRAY[h.amount, -h.amount], 'psql'
			  FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[], $4::text[], $5::text[], $6::text[]::numeric[])
			         WITH ORDINALITY AS h (id, posted, effective, debit, credit, amount, place)
			       JOIN account d ON d.ledger_id = 1 AND d.account_id = h.debit
			       JOIN account c ON c.ledger_id = 1 AND c.account_id = h.credit
			 ORDER BY h.place
			RETURNING transfer_id, sequence)
		SELECT transfer_id, sequence FROM n`, ids, posted, effective, debits, credits, amounts)
	if err != nil {
		t.Fatal(err)
	}
	sequences := map[string]int64{}
	for rows.Next() {
		var id string
		var sequence int64
		if err := rows.Scan(&id, &sequence); err != nil {
			t.Fatal(err)
		}
		sequences[id] = sequence
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, h := range hands {
		transfer := &ledger.Transfer{
			TransferSpec: ledger.TransferSpec{ID: h.id, Entries: ledger.Simple(h.debit, h.credit, amount(h.amount),
				"")}, PostedAt: h.at, Sequence: sequences[string(h.id)],
		}
		if !h.effective.IsZero() {
			transfer.EffectiveAt = &h.effective
		}
		if transfer.Sequence == 0 {
			t.Fatalf("%s was not inserted", h.id)
		}
		o.learn(transfer)
	}
}
