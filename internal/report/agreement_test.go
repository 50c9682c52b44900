package report_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/internal/verify"
	"github.com/khata-ledger/khata/ledger"
)

// nasty are texts that some format, tool or program has fallen over.
var nasty = []string{
	"=cmd()", "-1+1", "+1", "@SUM(1)", "; drop", "'; DROP TABLE entry; --", "first line\nsecond line", "\r\n    a:b  100.00 BDT",
	"]", "[2025-01-01]", "date:2025-01-01",
	"date2:2025-01-01, x:y", "(code) !", "* not a heading", "|payee | note", `"quoted" and \ more`, "tab\there",
	"1,234.50", "টাকা পাঠানো", "🧾💸", "\u202eright to left",
	"\u2028", " ", "<script>alert(1)</script>", "%s%n", "#tag ^link", "{{.}}", "",
}

// randomBooks posts random transfers, and tells an oracle what became of them.
type randomBooks struct {
	*books
	o     *oracle
	r     *rand.Rand
	codes []ledger.CurrencyCode
	// plain are accounts by currency that take anything; wallets have a floor.
	plain, wallets map[ledger.CurrencyCode][]ledger.AccountID
	month          time.Time // the first moment of this month in Dhaka
	zone           *time.Location
	closedBefore   time.Time
	sent           int
	before         []ledger.TransferSpec
	// moved are transfers of two entries, and how much of each went back.
	moved    []ledger.TransferID
	refunded map[ledger.TransferID]decimal.Decimal
	volume   map[ledger.TransferID]ledger.Entry
	holds    []openHold
	outcomes map[string]int
}

type openHold struct {
	id   ledger.TransferID
	left ledger.Entry
}

func newRandomBooks(t testing.TB, b *books, seed uint64) *randomBooks {
	t.Helper()
	g := &randomBooks{
		books: b, o: newOracle(), r: rand.New(rand.NewPCG(seed, 14)), codes: []ledger.CurrencyCode{"BDT", "JPY", "KWD", "ETH"},
		plain: map[ledger.CurrencyCode][]ledger.AccountID{}, wallets: map[ledger.CurrencyCode][]ledger.AccountID{}, zone: zoneOf(t, "Asia/Dhaka"),
		refunded: map[ledger.TransferID]decimal.Decimal{}, volume: map[ledger.TransferID]ledger.Entry{}, outcomes: map[string]int{},
	}
	now := time.Now().In(g.zone)
	g.month = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, g.zone)
	if err := b.RegisterCurrency(t.Context(), main, ledger.Currency{Code: "ETH", Scale: 18}); err != nil {
		t.Fatal(err)
	}
	g.o.scale["ETH"] = 18
	var specs []ledger.AccountSpec
	add := func(code ledger.CurrencyCode, id string, kind ledger.AccountType) {
		spec := ledger.AccountSpec{ID: ledger.AccountID(id), Type: kind, Currency: code, Name: strings.TrimSpace(nasty[len(specs)%len(nasty)])}
		if kind == ledger.Liability && strings.HasPrefix(id, "wallet") {
			zero := decimal.Decimal{}
			spec.Floor = &zero
			g.wallets[code] = append(g.wallets[code], spec.ID)
		} else if !strings.HasPrefix(id, "idle") && !strings.HasPrefix(id, "still") {
			g.plain[code] = append(g.plain[code], spec.ID)
		}
		specs = append(specs, spec)
	}
	for _, code := range g.codes {
		lower := strings.ToLower(string(code))
		add(code, "assets:bank:"+lower, ledger.Asset)
		add(code, "assets:clearing:"+lower, ledger.Asset)
		add(code, "wallet:"+lower+":1", ledger.Liability)
		add(code, "wallet:"+lower+":2", ledger.Liability)
		add(code, "revenue:fees:"+lower, ledger.Revenue)
		add(code, "costs:"+lower, ledger.Expense)
		add(code, "equity:"+lower, ledger.Equity)
		add(code, "idle:"+lower, ledger.Asset)
		add(code, "still:"+lower, ledger.Asset)
	}
	// Ids of which one begins with another, or looks like something else.
	for _, id := range []string{"a:b", "a:b-c", "a:b:d", "a", `odd:;#(x)[y]"z"%41\~=+-@`, "::", "date:2025-01-01", "Assets:Bank"} {
		add("BDT", id, ledger.Asset)
	}
	b.accounts(t, specs...)
	g.o.open(specs...)
	return g
}

func (g *randomBooks) pick(ids []ledger.AccountID) ledger.AccountID { return ids[g.r.IntN(len(ids))] }

// sum is a random amount with the scale of a currency, of one to some digits.
func (g *randomBooks) sum(code ledger.CurrencyCode) decimal.Decimal {
	scale := g.o.scale[code]
	digits := 1 + g.r.IntN(int(scale)+5)
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
	n := new(big.Int).SetUint64(g.r.Uint64())
	n.Mul(n, new(big.Int).SetUint64(g.r.Uint64())).Mod(n, limit)
	return decimal.NewFromBigInt(n.Add(n, big.NewInt(1)), -scale)
}

// time is a random value date, mostly in the last months and some still to come; or none.
func (g *randomBooks) time() *time.Time {
	if g.r.IntN(5) < 3 {
		return nil
	}
	from := g.month.AddDate(0, -5, 0)
	if g.closedBefore.After(from) {
		from = g.closedBefore
	}
	at := from.Add(time.Duration(g.r.Int64N(int64(time.Until(from.AddDate(0, 6, 0)) + time.Since(from))))).Truncate(time.Microsecond)
	switch g.r.IntN(12) {
	case 0: // the first moment of a month, or the last one before it
		at = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, g.zone).AddDate(0, 1, 0).Add(time.Duration(-g.r.IntN(2)) * time.Microsecond)
	case 1:
		at = at.Truncate(24 * time.Hour)
	}
	if at.Before(from) {
		at = from
	}
	at = at.UTC()
	return &at
}

func (g *randomBooks) next() ledger.TransferSpec {
	g.sent++
	spec := ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprintf("t;%d", g.sent)), Description: nasty[g.r.IntN(len(nasty))], EffectiveAt: g.time()}
	switch n := g.r.IntN(100); {
	case n < 8 && len(g.moved) > 0:
		of := g.moved[g.r.IntN(len(g.moved))]
		refunded := g.refunded[of]
		spec.Terms = &ledger.Terms{Kind: ledger.Refund, Origin: of, ExpectedRefunded: &refunded, Reason: ledger.ReasonGoodwill}
		if rest := g.volume[of].Amount.Sub(refunded); g.r.IntN(3) > 0 && rest.IsPositive() {
			part := g.part(rest)
			spec.Terms.Amount = &part
		}
		return spec
	case n < 10 && len(g.moved) > 0:
		spec.Terms = &ledger.Terms{Kind: ledger.Reversal, Origin: g.moved[g.r.IntN(len(g.moved))]}
		return spec
	case n < 18 && len(g.holds) > 0:
		i := g.r.IntN(len(g.holds))
		h := &g.holds[i]
		spec.Terms = &ledger.Terms{Kind: ledger.Capture, Origin: h.id}
		if part := g.part(h.left.Amount); g.r.IntN(3) > 0 && part.LessThan(h.left.Amount) {
			spec.Terms.Amount, spec.Terms.KeepOpen = &part, true
			h.left.Amount = h.left.Amount.Sub(part)
		} else {
			g.holds = slices.Delete(g.holds, i, i+1)
		}
		return spec
	case n < 20 && len(g.holds) > 0:
		i := g.r.IntN(len(g.holds))
		spec.Terms, spec.EffectiveAt = &ledger.Terms{Kind: ledger.Void, Origin: g.holds[i].id}, nil
		g.holds = slices.Delete(g.holds, i, i+1)
		return spec
	case n < 22 && len(g.before) > 0:
		g.sent--
		return g.before[g.r.IntN(len(g.before))] // a duplicate
	case n < 24 && !g.closedBefore.IsZero():
		early := g.closedBefore.Add(-time.Duration(1+g.r.Int64N(int64(time.Hour)/1000)) * time.Microsecond)
		spec.EffectiveAt = &early
	case n < 36:
		spec.Entries = g.legs()
		return spec
	}
	code := g.codes[g.r.IntN(len(g.codes))]
	debit, credit := g.pick(g.plain[code]), g.pick(g.plain[code])
	switch g.r.IntN(3) {
	case 0:
		credit = g.pick(g.wallets[code])
	case 1:
		debit = g.pick(g.wallets[code])
	}
	if debit == credit {
		debit = g.wallets[code][0]
	}
	spec.Entries = ledger.Simple(debit, credit, g.sum(code), "")
	if g.r.IntN(10) == 0 {
		spec.Terms, spec.EffectiveAt = &ledger.Terms{Kind: ledger.Hold}, nil
	}
	return spec
}

func (g *randomBooks) part(of decimal.Decimal) decimal.Decimal {
	part := of.Mul(decimal.New(int64(1+g.r.IntN(99)), -2)).Truncate(-of.Exponent())
	if part.IsZero() {
		return of
	}
	return part
}

// legs are those of a transfer between several accounts, in one currency or two.
func (g *randomBooks) legs() []ledger.Entry {
	var entries []ledger.Entry
	for _, i := range g.r.Perm(len(g.codes))[:1+g.r.IntN(2)] {
		code := g.codes[i]
		accounts := slices.Clone(g.plain[code])
		g.r.Shuffle(len(accounts), func(i, k int) { accounts[i], accounts[k] = accounts[k], accounts[i] })
		parts := 1 + g.r.IntN(3)
		total := decimal.Decimal{}
		for _, id := range accounts[:parts] {
			part := g.sum(code)
			total = total.Add(part)
			entries = append(entries, ledger.Entry{Account: id, Direction: ledger.Debit, Amount: part})
			if g.r.IntN(8) == 0 { // the same account once more, on the same side
				entries = append(entries, entries[len(entries)-1])
				total = total.Add(part)
			}
		}
		entries = append(entries, ledger.Entry{Account: accounts[parts], Direction: ledger.Credit, Amount: total})
	}
	g.r.Shuffle(len(entries), func(i, k int) { entries[i], entries[k] = entries[k], entries[i] })
	return entries
}

// batch posts some, and remembers what can be refunded or captured.
func (g *randomBooks) batch(t testing.TB, n int) {
	t.Helper()
	specs := make([]ledger.TransferSpec, n)
	for i := range specs {
		specs[i] = g.next()
	}
	results := g.try(t, specs...)
	g.o.results(results)
	for i, r := range results {
		g.outcomes[g.outcome(t, specs[i], r)]++
		if i%50 == 0 && r.Err == nil && !r.Replayed {
			g.before = append(g.before, specs[i])
		}
	}
}

func (g *randomBooks) outcome(t testing.TB, spec ledger.TransferSpec, r journal.PostResult) string {
	switch {
	case r.Err != nil:
		t.Errorf("%s: %v", spec.ID, r.Err)
		return "error"
	case r.Replayed:
		return "replayed"
	case r.Transfer.Refusal != nil:
		return string(r.Transfer.Refusal.Reason)
	}
	switch kind := r.Transfer.Kind(); {
	case kind == ledger.Hold:
		g.holds = append(g.holds, openHold{spec.ID, r.Transfer.Entries[0]})
	case kind == ledger.Refund:
		g.refunded[spec.Terms.Origin] = g.refunded[spec.Terms.Origin].Add(r.Transfer.Entries[0].Amount)
	case kind == ledger.Plain && len(r.Transfer.Entries) == 2:
		g.moved = append(g.moved, spec.ID)
		g.volume[spec.ID] = r.Transfer.Entries[0]
	}
	return string(r.Transfer.Kind())
}

// hands inserts transfers with times of the last months, in disorder.
func (g *randomBooks) hands(t testing.TB, n int) {
	t.Helper()
	var list []hand
	for range n {
		g.sent++
		code := g.codes[g.r.IntN(len(g.codes))]
		h := hand{id: ledger.TransferID(fmt.Sprint("psql-", g.sent)), debit: g.pick(g.plain[code]), credit: g.plain[code][0], amount: g.sum(code).String()}
		if h.debit == h.credit {
			h.credit = g.plain[code][1]
		}
		h.at = g.month.AddDate(0, -5, 0).Add(time.Duration(g.r.Int64N(int64(150 * 24 * time.Hour)))).Truncate(time.Microsecond).UTC()
		if g.r.IntN(10) == 0 {
			h.at = g.month.AddDate(0, -g.r.IntN(5), 0).Add(time.Duration(-g.r.IntN(2)) * time.Microsecond).UTC()
		}
		if effective := g.time(); effective != nil {
			h.effective = *effective
		}
		list = append(list, h)
	}
	g.insert(t, g.o, list...)
	g.outcomes["psql"] += n
}

// history posts so many transfers, closes a month half way, and issues statements meanwhile.
func (g *randomBooks) history(t testing.TB, transfers int) {
	t.Helper()
	for _, code := range g.codes {
		lower := strings.ToLower(string(code))
		g.insert(t, g.o, hand{
			id: ledger.TransferID("opening-" + lower), debit: ledger.AccountID("still:" + lower), credit: ledger.AccountID("equity:" + lower), amount: "7",
			at: g.month.AddDate(0, -8, 0).UTC(),
		})
	}
	const rounds = 20
	for round := range rounds {
		g.hands(t, transfers/rounds/10)
		for rest := transfers/rounds - transfers/rounds/10; rest > 0; rest -= 500 {
			g.batch(t, min(rest, 500))
		}
		switch round {
		case rounds * 3 / 10:
			g.issue(t, g.month.AddDate(0, -5, 0), g.month.AddDate(0, -3, 0))
		case rounds / 2:
			g.closedBefore = g.month.AddDate(0, -3, 0)
			_, _, err := g.ClosePeriod(t.Context(), "local", main, ledger.PeriodClose{Before: g.closedBefore, Zone: "Asia/Dhaka"})
			if err != nil {
				t.Fatal(err)
			}
		case rounds * 6 / 10:
			g.issue(t, time.Time{}, g.month.AddDate(0, -2, 0))
		}
	}
	for g.sent < transfers { // Some were duplicates.
		g.batch(t, min(transfers-g.sent, 500))
	}
	g.issue(t, time.Time{}, g.month)
}

// withStatements are accounts of which there are statements.
var withStatements = []ledger.AccountID{"assets:bank:bdt", "assets:clearing:jpy", "wallet:eth:1", "equity:eth", "a:b", "still:kwd", "idle:bdt"}

// issue issues a statement of each of some accounts, by both times.
func (g *randomBooks) issue(t testing.TB, from, to time.Time) {
	t.Helper()
	for _, id := range withStatements {
		for _, basis := range []report.Basis{report.Booking, report.Value} {
			spec := report.StatementSpec{Account: id, Basis: basis, Period: report.Period{From: from, To: to, Zone: g.zone}}
			s, fresh, err := g.Issue(t.Context(), spec, "finance")
			if err != nil || !fresh {
				t.Fatalf("%s by %s: %t, %v", id, basis, fresh, err)
			}
			g.checkStatement(t, s)
		}
	}
}

// checkStatement holds a statement against the oracle as of what the statement has seen.
func (g *randomBooks) checkStatement(t testing.TB, s report.Statement) {
	t.Helper()
	told, err := s.Sheet()
	if err != nil {
		t.Fatal(err)
	}
	f := g.o.of(cut{from: s.Period.From, to: s.Period.To, basis: s.Basis, through: s.Through, zone: g.zone})[s.Account]
	var items strings.Builder
	for _, p := range f.lines {
		fmt.Fprintln(&items, "item", p.date, p.sequence, p.transfer, string(p.kind), against(p.others), p.description, g.o.money(s.Account, p.amount.Abs()))
	}
	var got strings.Builder
	late := 0
	for _, row := range told.Rows {
		c := row.Cells
		switch row.Kind {
		case sheet.Item:
			sequence := c[1]
			fmt.Fprintln(&got, "item", c[0], sequence, c[2], c[3], c[4], c[5], c[6]+c[7])
		case sheet.Late:
			late++
		}
	}
	same(t, fmt.Sprintf("statement %d of %s by %s", s.Ordinal, s.Account, s.Basis), got.String(), items.String())
	last := told.Rows[len(told.Rows)-1]
	if closing := g.o.money(s.Account, g.o.natural(s.Account, f.closing)); last.Kind != sheet.Closing || last.Cells[8] != closing {
		t.Errorf("statement %d of %s by %s ends with %s, want %s", s.Ordinal, s.Account, s.Basis, last.Cells[8], closing)
	}
	g.outcomes[fmt.Sprint("late items by ", s.Basis)] += late
}

// cuts are the whole, and a month in the middle, by both times.
func (g *randomBooks) cuts(through int64) []cut {
	var list []cut
	for _, basis := range []report.Basis{report.Booking, report.Value} {
		list = append(list, cut{basis: basis, through: through, zone: g.zone},
			cut{from: g.month.AddDate(0, -2, 0), to: g.month.AddDate(0, -1, 0), basis: basis, through: through, zone: g.zone})
	}
	return list
}

// All say the same of random books: trial balance, general ledger, statements, balances as of a time, hledger, beancount and the oracle, as strings.
// Once an entry has been changed by a superuser, nobody takes the books for right any more.
func TestAgreement(t *testing.T) {
	t.Parallel()
	needTools(t)
	transfers := 20_000
	if testing.Short() {
		transfers = 2_000
	}
	agreement(t, 1, transfers)
}

// The same with other books each time.
func TestAgreement_AnySeed(t *testing.T) {
	t.Parallel()
	needTools(t)
	agreement(t, uint64(time.Now().UnixNano()), 1_500)
}

func agreement(t *testing.T, seed uint64, transfers int) {
	t.Logf("seed %d", seed)
	b := open(t)
	g := newRandomBooks(t, b, seed)
	stage := func(what string) func() {
		started := time.Now()
		return func() { t.Logf("%s: %s", what, time.Since(started).Round(time.Millisecond)) }
	}
	done := stage("posting")
	g.history(t, transfers)
	done()
	t.Logf("%d transfers: %v", g.sent, g.outcomes)
	for _, outcome := range []string{
		"transfer", "hold", "capture", "void", "refund", "reversal", "replayed", "psql", "INSUFFICIENT_FUNDS", "PERIOD_CLOSED",
		"late items by booking", "late items by value",
	} {
		if g.outcomes[outcome] == 0 {
			t.Errorf("nothing was %s", outcome)
		}
	}
	if marks := b.marks(t); marks < transfers/300 {
		t.Errorf("only %d marks", marks)
	}
	through, err := b.Horizon(t.Context(), main)
	if err != nil {
		t.Fatal(err)
	}
	cuts := g.cuts(through)
	done = stage("reports")
	for _, c := range cuts {
		g.checkTrialBalance(t, g.o, c)
		g.checkGeneralLedger(t, g.o, c)
		g.checkBalancesAsOf(t, g.o, c)
	}
	g.checkChains(t)
	done()
	done = stage("tools")
	var group sync.WaitGroup
	for _, tool := range tools {
		group.Go(func() {
			for _, c := range cuts {
				if tool.name == "beancount" && transfers > 10_000 && c.basis == report.Value && c.from.IsZero() {
					continue // It takes a quarter of a minute, and the smaller books have it too.
				}
				started := time.Now()
				b.checkTool(t, tool, g.o, c)
				t.Logf("%s %s: %s", tool.name, c, time.Since(started).Round(time.Millisecond))
			}
		})
	}
	group.Wait()
	done()
	if t.Failed() {
		return
	}
	ledgertest.CheckBooks(t, b.db)
	done = stage("tampering")
	g.tamperings(t, transfers <= 2_000)
	done()
}

// checkChains holds the closing balances of the last statements against the trial balance as of their end, and what has changed since against
// the oracle.
func (g *randomBooks) checkChains(t testing.TB) {
	t.Helper()
	list, more, err := g.Statements(t.Context(), main, "", 0, 1000)
	if err != nil || more || len(list) != 3*2*len(withStatements) {
		t.Fatalf("%d statements, %t, %v", len(list), more, err)
	}
	for _, s := range list {
		whole, err := g.Statement(t.Context(), main, s.Number)
		if err != nil {
			t.Fatal(err)
		}
		g.checkStatement(t, whole)
	}
	for _, basis := range []report.Basis{report.Booking, report.Value} {
		c := cut{to: g.month, basis: basis, zone: g.zone}
		g.checkBalancesAsOf(t, g.o, c)
		for _, row := range g.run(t, c.request(report.TrialBalance)).Rows {
			for _, s := range list {
				if s.Ordinal != 3 || s.Basis != basis || string(s.Account) != row.Cells[0] {
					continue
				}
				whole, err := g.Statement(t.Context(), main, s.Number)
				if err != nil {
					t.Fatal(err)
				}
				told, err := whole.Sheet()
				if err != nil {
					t.Fatal(err)
				}
				closing := row.Cells[8]
				if row.Cells[9] != "" {
					closing = "-" + row.Cells[9]
				}
				if kind := ledger.AccountType(row.Cells[2]); kind.NormalBalance() == ledger.Credit { // The other way round.
					if closing = row.Cells[9]; row.Cells[8] != "" {
						closing = "-" + row.Cells[8]
					}
				}
				if closing == "" {
					closing = g.o.money(s.Account, decimal.Decimal{})
				}
				if last := told.Rows[len(told.Rows)-1]; last.Cells[8] != closing {
					t.Errorf("%s by %s: the statement ends with %s, the trial balance says %s", s.Account, basis, last.Cells[8], closing)
				}
			}
		}
	}
}

// tamperings change one row each, see who finds it, and put it back.
func (g *randomBooks) tamperings(t *testing.T, all bool) {
	// random gives the columns of a row's key, and their values in a row by chance, as a condition.
	random := func(table, key, where string) string {
		n := read[int](t, g.books, "SELECT count(*) FROM "+table+" x WHERE "+where)
		return read[string](t, g.books, fmt.Sprintf("SELECT format('(%s) = (%%s)', concat_ws(', ', %s)) FROM %s x WHERE %s ORDER BY %s OFFSET %d LIMIT 1",
			key, key, table, where, key, g.r.IntN(n)))
	}
	type tampering struct {
		name                      string
		table, row, cell, account string // an amount in the row of a table, and the account it is of
		check                     string // of verify, that finds it
		trial                     bool   // whether the trial balance finds it
	}
	list := []tampering{
		{"an entry", "entry", random("entry", "ledger_id, account_no, sequence, leg", "true"), "amount", "account_no", "entries-match", true},
	}
	if all {
		const last = "through = (SELECT max(y.through) FROM snapshot y WHERE (y.ledger_id, y.account_no) = (x.ledger_id, x.account_no))"
		list = append(
			list,
			tampering{
				"a transfer's amounts", "transfer", random("transfer", "ledger_id, sequence", "refusal IS NULL AND moves(kind)"), "amounts[1]",
				"account_nos[1]", "transfers-balance", false,
			},
			tampering{
				"the last snapshot of an account", "snapshot", random("snapshot", "ledger_id, account_no, through", last), "sum",
				"account_no", "snapshots", true,
			},
		)
	}
	digest := func(table string) string {
		return read[string](t, g.books, "SELECT md5(string_agg(x::text, '' ORDER BY x::text)) FROM "+table+" x")
	}
	for _, c := range list {
		before := digest(c.table)
		// The old amount goes back digit by digit: a hand may have written 3680.46 where the currency has three decimals, and
		// adding 0.001 and taking it away again leaves 3680.460.
		old := read[string](t, g.books, fmt.Sprintf("SELECT (%s)::text FROM %s x WHERE %s", c.cell, c.table, c.row))
		g.tamper(t, c.table, fmt.Sprintf(`UPDATE %s x SET %s = %s + (SELECT ('1e-' || a.scale)::numeric FROM account a
			WHERE (a.ledger_id, a.account_no) = (x.ledger_id, x.%s)) WHERE %s`, c.table, c.cell, c.cell, c.account, c.row))
		if digest(c.table) == before {
			t.Fatalf("%s: nothing was changed where %s", c.name, c.row)
		}
		verified, err := verify.Run(t.Context(), g.db.ServiceDSN(), verify.Options{})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, check := range verified.Checks {
			if check.Breached > 0 {
				t.Logf("%s: verify: %s: %s", c.name, check.Name, check.Breaches[0])
			}
			found = found || check.Breached > 0 && check.Name == c.check
			if check.Name == "guards" && check.Breached > 0 {
				t.Errorf("%s: the triggers were not switched on again", c.name)
			}
		}
		if !found {
			t.Errorf("%s: verify does not find it", c.name)
		}
		for _, basis := range []report.Basis{report.Booking, report.Value} {
			if !all && basis == report.Value { // It takes the tools their time.
				continue
			}
			whole := cut{basis: basis, zone: g.zone}
			failed := sheet.Failed(g.doubtful(t, whole.request(report.TrialBalance)).Checks)
			for _, f := range failed {
				t.Logf("%s: trial balance by %s: %s: %s", c.name, basis, f.Name, f.Detail)
			}
			if (len(failed) > 0) != c.trial {
				t.Errorf("%s: trial balance by %s: %v", c.name, basis, failed)
			}
			var group sync.WaitGroup
			for _, tool := range tools {
				group.Go(func() {
					err := g.refuses(t, tool, report.BookRequest{Period: whole.period(), Basis: basis, Running: true})
					if err == nil {
						t.Errorf("%s: %s takes the books by %s", c.name, tool.name, basis)
					} else {
						t.Logf("%s: %.200s", c.name, strings.ReplaceAll(err.Error(), "\n", " "))
					}
				})
			}
			group.Wait()
		}
		g.tamper(t, c.table, fmt.Sprintf("UPDATE %s x SET %s = %s WHERE %s", c.table, c.cell, old, c.row))
		if digest(c.table) != before {
			t.Fatalf("%s: it was not put back where %s", c.name, c.row)
		}
	}
}
