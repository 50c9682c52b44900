package console_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// fakeBooks are books of a small wallet in Dhaka, as the console sees them: journal, reports and statements in one.
type fakeBooks struct {
	mu sync.Mutex
	// run makes a report instead of the fake, if it is not nil, and err fails all others.
	run        func(context.Context, report.Request, sheet.Writer) error
	err        error
	requests   []report.Request
	statements []report.Statement
	changes    []ledger.PeriodChange
	callers    []string
	ledgers    []ledger.Name
	accounts   []ledger.Account
}

func newFakeBooks() *fakeBooks {
	b := &fakeBooks{ledgers: []ledger.Name{"main", "shop"}}
	bdt := ledger.Currency{Code: "BDT", Scale: 2}
	for _, a := range fakeAccounts {
		b.accounts = append(b.accounts, ledger.Account{ID: ledger.AccountID(a.id), Type: ledger.AccountType(a.kind), Currency: bdt, Name: a.name,
			Frozen: ledger.FrozenNone})
	}
	return b
}

var fakeAccounts = []struct{ id, name, kind, opening, debit, credit, closing string }{
	{"assets:bank:brac", "BRAC Bank, settlement", "asset", "18400250.00", "5120000.00", "3870125.50", "19650124.50"},
	{"assets:bank:city", "The City Bank, operations", "asset", "942110.75", "210000.00", "388400.00", "763710.75"},
	{"assets:cash:dhaka", "Counter, Dhaka", "asset", "120000.00", "845500.00", "790000.00", "175500.00"},
	{"equity:capital", "Paid-in capital", "equity", "-5000000.00", "", "", "-5000000.00"},
	{"expenses:bank-charges", "", "expense", "10210.00", "1850.50", "", "12060.50"},
	{"fees", "Fees earned", "revenue", "-84210.75", "", "12644.25", "-96855.00"},
	{"gateway:clearing:BDT", "What the card gateway owes", "asset", "38500.00", "410250.00", "402750.00", "46000.00"},
	{"wallet:shimul", "Shimul", "liability", "-5000.00", "1500.00", "250.00", "-3750.00"},
	{"wallet:tithi", "তিথি রহমান", "liability", "-14421860.00", "5121894.75", "6245826.00", "-15545791.25"},
}

func (b *fakeBooks) Ledgers(context.Context) ([]journal.Ledger, error) {
	var list []journal.Ledger
	for _, name := range b.ledgers {
		list = append(list, journal.Ledger{Name: name})
	}
	return list, b.failure()
}

func (b *fakeBooks) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *fakeBooks) Account(_ context.Context, _ ledger.Name, id ledger.AccountID) (ledger.Account, error) {
	for _, a := range b.accounts {
		if a.ID == id {
			return a, b.failure()
		}
	}
	return ledger.Account{}, ledger.Errorf(ledger.CodeAccountNotFound, "account %s does not exist", id)
}

func (b *fakeBooks) Accounts(_ context.Context, _ ledger.Name, prefix string, after ledger.AccountID, limit int) ([]ledger.Account, error) {
	if prefix != "" {
		if err := ledger.AccountID(prefix).ValidateFormat("prefix"); err != nil {
			return nil, err
		}
	}
	var list []ledger.Account
	for _, a := range b.accounts {
		if strings.HasPrefix(string(a.ID), prefix) && a.ID > after && len(list) < limit {
			list = append(list, a)
		}
	}
	return list, b.failure()
}

func (b *fakeBooks) PeriodChanges(_ context.Context, _ ledger.Name, before int64, limit int) ([]ledger.PeriodChange, error) {
	var list []ledger.PeriodChange
	changes := b.history()
	for i := len(changes) - 1; i >= 0 && len(list) < limit; i-- {
		if before == 0 || changes[i].Sequence < before {
			list = append(list, changes[i])
		}
	}
	return list, b.failure()
}

// history gives the changes of periods so far.
func (b *fakeBooks) history() []ledger.PeriodChange {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.changes)
}

// issued gives the statements so far.
func (b *fakeBooks) issued() []report.Statement {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.statements)
}

func (b *fakeBooks) change(caller, zone, reason string, before *time.Time) ledger.PeriodChange {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := ledger.PeriodChange{
		Sequence: int64(len(b.changes) + 1), ClosedBefore: before, Zone: zone, Reason: reason, Caller: caller,
		ChangedAt: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC).AddDate(0, len(b.changes), 0),
	}
	if n := len(b.changes); n > 0 {
		c.Previous = b.changes[n-1].ClosedBefore
	}
	b.changes = append(b.changes, c)
	return c
}

func (b *fakeBooks) ClosePeriod(_ context.Context, caller string, _ ledger.Name, c ledger.PeriodClose) (ledger.PeriodChange, bool, error) {
	if err := c.Validate(); err != nil {
		return ledger.PeriodChange{}, false, err
	}
	if changes := b.history(); len(changes) > 0 && c.Done(changes[len(changes)-1].ClosedBefore) {
		return changes[len(changes)-1], true, nil
	}
	return b.change(caller, c.Zone, c.Reason, &c.Before), false, b.failure()
}

func (b *fakeBooks) ReopenPeriod(_ context.Context, caller string, _ ledger.Name, r ledger.PeriodReopen) (*ledger.PeriodChange, bool, error) {
	if err := r.Validate(); err != nil {
		return nil, false, err
	}
	c := b.change(caller, r.Zone, r.Reason, r.Before)
	return &c, false, b.failure()
}

func (b *fakeBooks) Issue(_ context.Context, spec report.StatementSpec, caller string) (report.Statement, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.callers = append(b.callers, caller)
	for _, s := range b.statements {
		if s.Account == spec.Account && s.Period.To.Equal(spec.Period.To) {
			return s, false, nil
		}
	}
	if spec.Period.To.IsZero() {
		return report.Statement{}, false, ledger.Invalid("to", "is required: a statement ends")
	}
	if b.err != nil {
		return report.Statement{}, false, b.err
	}
	number := int64(len(b.statements) + 1)
	if spec.Period.From.IsZero() {
		spec.Period.From = time.Date(2026, 1, 1, 0, 0, 0, 0, spec.Period.Zone)
	}
	content := statementContent(spec)
	hash := sha256.Sum256(content)
	s := report.Statement{
		Number: number, Ordinal: int(number), Ledger: spec.Ledger, Account: spec.Account, Period: spec.Period, Basis: spec.Basis, Through: 4711,
		IssuedAt: time.Date(2026, 2, 1, 3, 15, 9, 120000000, time.UTC), IssuedBy: caller, Content: content, SHA256: hex.EncodeToString(hash[:]),
	}
	b.statements = append(b.statements, s)
	return s, true, nil
}

func (b *fakeBooks) Statement(_ context.Context, name ledger.Name, number int64) (report.Statement, error) {
	for _, s := range b.issued() {
		if s.Number == number {
			return s, b.failure()
		}
	}
	return report.Statement{}, ledger.Missing("statement", "%d is no statement of ledger %s", number, name)
}

func (b *fakeBooks) Statements(_ context.Context, _ ledger.Name, account ledger.AccountID, before int64, limit int) ([]report.Statement, bool,
	error) {
	var list []report.Statement
	statements := b.issued()
	for i := len(statements) - 1; i >= 0; i-- {
		if s := statements[i]; (account == "" || s.Account == account) && (before == 0 || s.Number < before) {
			list = append(list, s)
		}
	}
	more := len(list) > limit
	return list[:min(limit, len(list))], more, b.failure()
}

func (b *fakeBooks) Run(ctx context.Context, request report.Request, w sheet.Writer) error {
	b.mu.Lock()
	b.requests = append(b.requests, request)
	run, err := b.run, b.err
	b.mu.Unlock()
	switch {
	case err != nil:
		return err
	case run != nil:
		return run(ctx, request, w)
	}
	return fakeReport(request, w)
}

// last is the report that was asked for last.
func (b *fakeBooks) last() report.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests[len(b.requests)-1]
}

// fakeReport writes what the reports of a month look like.
func fakeReport(q report.Request, w sheet.Writer) error {
	d, err := report.Define(q.Report)
	if err != nil {
		return err
	}
	if d.Takes&report.NeedsAccount != 0 && q.Account == "" {
		return ledger.Invalid("account", "is required: the report %s is of one account", d.Name)
	}
	if q.Account == "nobody" {
		return ledger.Errorf(ledger.CodeAccountNotFound, "account nobody does not exist")
	}
	s := &sheet.Sheet{Head: sheet.Head{Report: string(d.Name), Title: d.Title, Facts: fakeFacts(q)}, Checks: []sheet.Check{
		{Name: "opening + debits - credits = closing, for each account", OK: true}, {Name: "debits equal credits in BDT", OK: true},
	}}
	switch q.Report {
	case report.GeneralLedger:
		fakeGeneralLedger(s, q)
	case report.BalanceOverTime:
		fakeBalances(s)
	case report.BalanceSheet, report.IncomeStatement:
		fakeBalanceSheet(s)
	case report.ChangesSince:
		fakeChanges(s)
	default:
		fakeTrialBalance(s)
	}
	return s.WriteTo(w)
}

func fakeFacts(q report.Request) []sheet.Fact {
	day := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.DateOnly)
	}
	zone := "UTC"
	if q.Period.Zone != nil {
		zone = q.Period.Zone.String()
	}
	facts := []sheet.Fact{
		{ID: "ledger", Title: "Ledger", Value: string(q.Ledger)}, {ID: "from", Title: "From, inclusive", Value: day(q.Period.From)},
		{ID: "to", Title: "To, exclusive", Value: day(q.Period.To)}, {ID: "zone", Title: "Time zone", Value: zone},
		{ID: "basis", Title: "Dates are by", Value: "booking: the time at which Khata recorded the transfer"},
	}
	if q.Account != "" {
		facts = append(facts, sheet.Fact{ID: "account", Title: "Account", Value: string(q.Account)})
	}
	if q.Prefix != "" {
		facts = append(facts, sheet.Fact{ID: "prefix", Title: "Accounts beginning with", Value: q.Prefix})
	}
	return append(facts, sheet.Fact{ID: "through", Title: "Through sequence", Value: "482113"},
		sheet.Fact{ID: "read_at", Title: "Read at", Value: "2026-02-01T03:15:09.12Z"})
}

func textColumns(names ...string) (list []sheet.Column) {
	for _, name := range names {
		list = append(list, sheet.Column{ID: name, Title: strings.ToUpper(name[:1]) + name[1:], Kind: sheet.Text})
	}
	return list
}

func columnOf(id, title string, kind sheet.Kind) sheet.Column {
	return sheet.Column{ID: id, Title: title, Kind: kind}
}

func fakeTrialBalance(s *sheet.Sheet) {
	s.Head.Columns = textColumns("account", "name", "type", "currency")
	for _, side := range []string{"Opening debit", "Opening credit", "Debit", "Credit", "Closing debit", "Closing credit"} {
		s.Head.Columns = append(s.Head.Columns, columnOf(strings.ReplaceAll(strings.ToLower(side), " ", "_"), side, sheet.Amount))
	}
	sides := func(amount string) (string, string) {
		if credit, is := strings.CutPrefix(amount, "-"); is {
			return "", credit
		}
		return amount, ""
	}
	for _, a := range fakeAccounts {
		od, oc := sides(a.opening)
		cd, cc := sides(a.closing)
		s.Rows = append(s.Rows, sheet.Row{Kind: sheet.Item, Cells: []string{a.id, a.name, a.kind, "BDT", od, oc, a.debit, a.credit, cd, cc}})
	}
	s.Rows = append(s.Rows, sheet.Row{Kind: sheet.Total, Cells: []string{
		"Total BDT", "", "", "BDT", "19511070.75", "19511070.75", "11710995.25", "11710995.25", "20647395.75", "20647395.75",
	}})
}

func fakeBalanceSheet(s *sheet.Sheet) {
	s.Head.Columns = append(textColumns("section", "account", "name", "currency"), columnOf("amount", "Amount", sheet.Amount))
	add := func(kind sheet.RowKind, depth int, cells ...string) {
		s.Rows = append(s.Rows, sheet.Row{Kind: kind, Depth: depth, Cells: cells})
	}
	for _, a := range fakeAccounts[:3] {
		add(sheet.Item, 0, "assets", a.id, a.name, "BDT", a.closing)
	}
	add(sheet.Subtotal, 0, "assets", "Total assets BDT", "", "BDT", "20635335.25")
	for _, a := range fakeAccounts[7:] {
		add(sheet.Item, 1, "liabilities", a.id, a.name, "BDT", strings.TrimPrefix(a.closing, "-"))
	}
	add(sheet.Subtotal, 0, "liabilities", "Total liabilities BDT", "", "BDT", "15549541.25")
	add(sheet.Item, 0, "equity", "equity:capital", "Paid-in capital", "BDT", "5000000.00")
	add(sheet.Item, 0, "equity", "", "Result not yet closed", "BDT", "-84794.50")
	add(sheet.Subtotal, 0, "equity", "Total equity BDT", "", "BDT", "5084794.50")
	add(sheet.Total, 0, "liabilities and equity", "Total BDT", "", "BDT", "20635335.25")
}

var ledgerColumns = []sheet.Column{
	columnOf("account", "Account", sheet.Text), columnOf("date", "Date", sheet.Date), columnOf("sequence", "Sequence", sheet.Count),
	columnOf("transfer", "Transfer", sheet.Text), columnOf("kind", "Kind", sheet.Text), columnOf("against", "Against", sheet.Text),
	columnOf("description", "Description", sheet.Text), columnOf("currency", "Currency", sheet.Text), columnOf("debit", "Debit", sheet.Amount),
	columnOf("credit", "Credit", sheet.Amount), columnOf("balance", "Balance", sheet.Amount), columnOf("posted_at", "Posted at", sheet.Time),
	columnOf("effective_at", "Value date", sheet.Time),
}

func fakeGeneralLedger(s *sheet.Sheet, q report.Request) {
	s.Head.Columns = ledgerColumns
	accounts := []string{"wallet:shimul", "wallet:tithi"}
	if q.Account != "" {
		accounts = []string{string(q.Account)}
	}
	for _, account := range accounts {
		s.Rows = append(s.Rows, sheet.Row{Kind: sheet.Opening, Cells: []string{account, "", "", "", "", "", "Opening balance", "BDT", "", "",
			"-5000.00", "", ""}})
		for i := range 12 {
			description, transfer := "Coaching fee", fmt.Sprintf("TXN-%04d-%s", i+1, "app")
			if i%3 == 1 {
				description = "বিকাশে পাঠানো টাকা, ধন্যবাদ"
			}
			if i%5 == 4 {
				transfer = "khata:refund:order-77-of-the-shop-at-the-corner-of-Mirpur-10:1"
			}
			s.Rows = append(s.Rows, sheet.Row{Kind: sheet.Item, Cells: []string{
				account, fmt.Sprintf("2026-01-%02d", 2+i*2), fmt.Sprint(480100 + i*37), transfer, "transfer", "wallet:tithi", description, "BDT", "500.00", "",
				fmt.Sprintf("-%d.00", 4500-i*250), fmt.Sprintf("2026-01-%02dT08:1%d:09.123456Z", 2+i*2, i%10), "",
			}})
		}
		s.Rows = append(s.Rows, sheet.Row{Kind: sheet.Closing, Cells: []string{account, "", "", "", "", "", "Closing balance", "BDT", "6000.00",
			"0.00", "-1750.00", "", ""}})
	}
}

func fakeBalances(s *sheet.Sheet) {
	s.Head.Columns = []sheet.Column{
		columnOf("date", "Date", sheet.Date), columnOf("currency", "Currency", sheet.Text), columnOf("debit", "Debit", sheet.Amount),
		columnOf("credit", "Credit", sheet.Amount), columnOf("balance", "Balance", sheet.Amount),
	}
	s.Rows = append(s.Rows, sheet.Row{Kind: sheet.Opening, Cells: []string{"", "BDT", "", "", "5000.00"}})
	balance := 5000
	for day := range 31 {
		step := []int{0, 500, -750, 0, 1250, -300, 0}[day%7]
		balance += step
		cells := []string{fmt.Sprintf("2026-01-%02d", day+1), "BDT", "", "", fmt.Sprintf("%d.00", balance)}
		switch {
		case step < 0:
			cells[2] = fmt.Sprintf("%d.00", -step)
		case step > 0:
			cells[3] = fmt.Sprintf("%d.00", step)
		}
		s.Rows = append(s.Rows, sheet.Row{Kind: sheet.Item, Cells: cells})
	}
}

func fakeChanges(s *sheet.Sheet) {
	s.Head.Columns = ledgerColumns[1:11]
	s.Rows = append(s.Rows, sheet.Row{Kind: sheet.Late, Cells: []string{
		"2026-01-30", "482090", "TXN-late", "transfer", "fees", "Fee that came late", "BDT", "", "15.00", "-1765.00",
	}})
}

// statementContent is a statement as it is stored.
func statementContent(spec report.StatementSpec) []byte {
	s := &sheet.Sheet{Head: sheet.Head{
		Report: string(report.AccountStatement), Title: "Account statement",
		Facts: append(fakeFacts(report.Request{Ledger: spec.Ledger, Account: spec.Account, Period: spec.Period}),
			sheet.Fact{ID: "name", Title: "Name", Value: "তিথি রহমান"},
			sheet.Fact{ID: "currency", Title: "Currency", Value: "BDT"}, sheet.Fact{ID: "held", Title: "On hold when issued", Value: "0.00"}),
	}}
	fakeGeneralLedger(s, report.Request{Account: spec.Account})
	late := s.Rows[1]
	late.Kind = sheet.Late
	s.Rows = append(s.Rows[:1:1], append([]sheet.Row{late}, s.Rows[1:]...)...)
	s.Checks = []sheet.Check{{Name: "the items lead from the opening to the closing balance", OK: true}}
	var content bytes.Buffer
	if err := s.WriteTo(sheet.NewJSON(&content)); err != nil {
		panic(err)
	}
	return content.Bytes()
}
