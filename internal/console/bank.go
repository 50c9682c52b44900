package console

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

const (
	reconcileRoute  = "GET /console/{ledger}/reconcile"
	createBankRoute = "POST /console/{ledger}/reconcile"
)

// bank is a bank account that pages are about.
type bank struct{ *reconcile.BankAccount }

// money is an amount as a page shows it.
type money struct{ Text, Class string }

func (b bank) money(d decimal.Decimal) money {
	return amountOf(sheet.AmountCell(d, b.Currency.Scale))
}

func amountOf(text string) money {
	m := money{grouped(text), "num"}
	if strings.HasPrefix(m.Text, "−") {
		m.Class = "num neg"
	}
	return m
}

// in is an amount with its currency, for sentences and buttons.
func (b bank) in(d decimal.Decimal) string { return b.money(d).Text + " " + string(b.Currency.Code) }

// bank finds the bank account that the address names.
func (v *visit) bank() (bank, error) {
	if v.config.Reconciler == nil {
		return bank{}, errNotFound
	}
	a, err := v.config.Reconciler.BankAccount(v.r.Context(), v.ledger, v.r.PathValue("bank"))
	if isAbsent(err) {
		return bank{}, errorPage{
			Status: http.StatusNotFound, Title: "There is no such bank account", Text: "Ledger " + string(v.ledger) + " has none of that name.",
		}
	}
	return bank{a}, err
}

// number reads a number in the address of something. What is no number is no page.
func (v *visit) number(name string) (int64, error) {
	n, err := strconv.ParseInt(v.r.PathValue(name), 10, 64)
	if err != nil || n <= 0 {
		return 0, errNotFound
	}
	return n, nil
}

// isAbsent reports whether an error says that what an address names is not there, or cannot be.
func isAbsent(err error) bool {
	code := ledger.CodeOf(err)
	return code == ledger.CodeNotFound || code == ledger.CodeInvalidArgument
}

// absent makes a page of an error about something that there is not, named in an address.
func absent(err error, what string) error {
	if isAbsent(err) {
		return errorPage{Status: http.StatusNotFound, Title: "There is no such " + what, Text: ledgerMessage(err)}
	}
	return err
}

// ledgerMessage is what an error of the ledger's says.
func ledgerMessage(err error) string {
	var known *ledger.Error
	if !errors.As(err, &known) {
		return ledger.CodeInternal.Error()
	}
	return known.Message
}

func (v *visit) bankPath(b bank, below string, query url.Values) string {
	path := "reconcile/bank/" + url.PathEscape(b.Name)
	if below != "" {
		path += "/" + below
	}
	return v.path(path, query)
}

// bankHead is what each page about a bank account begins with.
type bankHead struct {
	Name, AccountPath string
	Account           ledger.AccountID
	Currency          ledger.CurrencyCode
	Links             []link
}

func (v *visit) bankHead(b bank, here string) bankHead {
	h := bankHead{Name: b.Name, Account: b.Account, Currency: b.Currency.Code, AccountPath: v.path("account", url.Values{"account": {string(b.Account)}})}
	for _, l := range []struct{ title, below string }{
		{"Overview", ""}, {"Work list", "work"}, {"Decisions", "decisions"}, {"Statement", "statement"}, {"Items", "items"}, {"Changes", "changes"},
	} {
		h.Links = append(h.Links, link{Title: l.title, Path: v.bankPath(b, l.below, nil), Here: l.below == here})
	}
	return h
}

// newRequest is what a form knows its request by: sent twice, it is one.
func newRequest() string { return rand.Text() }

var requestPattern = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// request reads what a form knows its request by. In the books it has a name that no other program gives to its own.
func (q values) request() (string, error) {
	text := q.get("request")
	if !requestPattern.MatchString(text) {
		return "", errForeignForm
	}
	return "console:" + text, nil
}

// readDate reads a day; "" is none. It returns CodeInvalidArgument.
func (q values) date(name string) (bankfile.Date, error) {
	text := q.get(name)
	if text == "" {
		return bankfile.Date{}, nil
	}
	day, err := bankfile.ParseDate(text)
	if err != nil {
		return day, ledger.Invalid(name, "%.40q is no day: write it as 2026-01-31", text)
	}
	return day, nil
}

// refusedStatus is the status of an action that was refused. What the books refuse is of their present state, like what somebody else was first to do.
func refusedStatus(err error) int {
	switch code := ledger.CodeOf(err); code {
	case ledger.CodeConflict:
		return http.StatusConflict
	case ledger.CodeAmountScale, ledger.CodeCurrencyMismatch:
		return http.StatusBadRequest
	default:
		if status, known := statuses[code]; known {
			return status
		}
		if code == ledger.CodeInternal {
			return http.StatusInternalServerError
		}
		return http.StatusConflict
	}
}

// ofForm turns errors into ones that a form can show at its fields: those of other codes are put at the fields that they are about.
func ofForm(err error, fields map[ledger.Code]string) error {
	var known *ledger.Error
	if !errors.As(err, &known) {
		return err
	}
	if field, ok := fields[known.Code]; ok {
		return ledger.Invalid(field, "%s", known.Message)
	}
	if known.Code != ledger.CodeInvalidArgument && known.Code != ledger.CodeNotFound {
		return err
	}
	same := *known
	same.Violations = slices.Clone(known.Violations)
	for i := range same.Violations {
		field, _, _ := strings.Cut(same.Violations[i].Field, "[")
		same.Violations[i].Field = strings.TrimPrefix(field, "difference.")
	}
	return &same
}

// bankRow is a bank account in the list.
type bankRow struct {
	bank
	Path, AccountPath string
	Balance           money
	Covers            bankfile.Date
	Run               *reconcile.Run
	RunAt             string
	Unexplained       money
	IsUnexplained     bool
	Newer             bool
}

// banksMain is what the page of bank accounts shows.
type banksMain struct {
	Rows []bankRow
	// Create is the form to add one; nil for who may not.
	Create   *form
	Profiles string
}

func (v *visit) bankAccounts() error { return v.showBankAccounts(http.StatusOK, values{}, nil) }

func (v *visit) showBankAccounts(status int, q values, refused error) error {
	if v.config.Reconciler == nil {
		return errNotFound
	}
	list, err := v.config.Reconciler.BankAccounts(v.r.Context(), v.ledger)
	if err != nil {
		return err
	}
	main := &banksMain{Profiles: v.path("reconcile/profiles", nil)}
	for _, a := range list {
		row, err := v.bankRow(bank{a})
		if err != nil {
			return err
		}
		main.Rows = append(main.Rows, row)
	}
	if v.may(createBankRoute) {
		main.Create = v.createBankForm(q)
		main.Create.Open = len(list) == 0
	}
	if refused != nil && (main.Create == nil || !main.Create.blame(refused)) {
		return refused
	}
	return v.render(status, page{Name: "banks", Title: "Reconciliation", Section: reconcileRoute, Wide: true, Main: main})
}

func (v *visit) bankRow(b bank) (bankRow, error) {
	row := bankRow{bank: b, Path: v.bankPath(b, "", nil), AccountPath: v.path("account", url.Values{"account": {string(b.Account)}})}
	last, err := v.lastStatement(b)
	if err != nil {
		return row, err
	}
	if last != nil {
		row.Balance, row.Covers = b.money(last.Balance), last.Covers
	}
	if row.Run, err = v.lastRun(b); err != nil || row.Run == nil {
		return row, err
	}
	s := row.Run.Summary
	unexplained := s.Lines.Sum.Sub(s.MatchedLines).Sub(s.IgnoredLines).Sub(s.OpenLines.Sum)
	row.RunAt = momentText(row.Run.RunAt, b.Zone)
	row.Unexplained, row.IsUnexplained = b.money(unexplained), !unexplained.IsZero()
	row.Newer = last != nil && !last.Balance.Equal(s.Lines.Sum)
	return row, nil
}

// lastStatement is the last one that was imported; nil is none.
func (v *visit) lastStatement(b bank) (*reconcile.FileStatement, error) {
	files, _, err := v.config.Reconciler.Files(v.r.Context(), v.ledger, b.Name, 0, 10)
	if err != nil {
		return nil, err
	}
	for i := range files { // A file may have none: nothing happened, and that is known.
		if n := len(files[i].Statements); n > 0 {
			return &files[i].Statements[n-1], nil
		}
	}
	return nil, nil
}

// lastRun is the last run of a bank account; nil is none.
func (v *visit) lastRun(b bank) (*reconcile.Run, error) {
	runs, _, err := v.config.Reconciler.Runs(v.r.Context(), v.ledger, b.Name, 0, 1)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	return runs[0], nil
}

func (v *visit) createBankForm(q values) *form {
	moneyIn, basis := q.get("money_in"), q.get("basis")
	return &form{ID: "create-", Action: v.path("reconcile", nil), Button: "Add the bank account", Fields: []field{
		{Name: "name", Label: "Name", Help: "a-z, 0-9, dots and dashes, such as brac-main", Kind: "text", Value: q.get("name")},
		{Name: "account", Label: "Account", Help: "the one of the books that mirrors it, such as assets:bank:brac", Kind: "text", Value: q.get("account")},
		{Name: "identifiers", Label: "Known to the bank as", Help: "its IBAN or number, one a line; a file of another one is refused", Kind: "area",
			Value: q.get("identifiers")},
		{Name: "begins", Label: "Begins on", Help: "a day; entries before it are one item. Empty: each is one", Kind: "text", Value: q.get("begins")},
		{Name: "zone", Label: "Time zone", Help: "of the bank, in which days begin", Kind: "text", Value: v.zone(q), Suggestions: zones},
		{Name: "money_in", Label: "Money that comes in is", Help: "a credit where the books are the bank's own", Kind: "choice", Options: []option{
			{"debit", "a debit", moneyIn != "credit"}, {"credit", "a credit", moneyIn == "credit"},
		}},
		{Name: "basis", Label: "Dates of entries are by", Kind: "choice", Options: []option{
			{"booking", "booking time", basis != "value"}, {"value", "value date", basis == "value"},
		}},
	}}
}

func (v *visit) createBankAccount() error {
	if v.config.Reconciler == nil {
		return errNotFound
	}
	q := values(v.r.PostForm)
	spec, err := v.bankSpec(q)
	var a *reconcile.BankAccount
	if err == nil {
		a, err = v.config.Reconciler.CreateBankAccount(v.r.Context(), spec, v.session.Name)
	}
	if err != nil {
		fields := map[ledger.Code]string{ledger.CodeAlreadyExists: "name"}
		if strings.Contains(ledgerMessage(err), "is mirrored by") {
			fields[ledger.CodeAlreadyExists] = "account"
		}
		return v.showBankAccounts(refusedStatus(err), q, ofForm(err, fields))
	}
	return v.see(v.bankPath(bank{a}, "", url.Values{"done": {"created"}}))
}

// bankSpec reads a request for a bank account. It returns CodeInvalidArgument, with all that is wrong.
func (v *visit) bankSpec(q values) (reconcile.BankAccountSpec, error) {
	settings := reconcile.DefaultSettings()
	settings.Identifiers = listOf(q.get("identifiers"))
	spec := reconcile.BankAccountSpec{
		Ledger: v.ledger, Name: q.get("name"), Account: ledger.AccountID(q.get("account")), MoneyIn: ledger.Direction(q.get("money_in")),
		Settings: &settings,
	}
	var wrong faults
	wrong.add(q.check("name", "account", "money_in", "basis"))
	var err error
	spec.Basis, err = report.ParseBasis(q.get("basis"))
	wrong.add(err)
	spec.Zone, err = report.ParseZone(v.zone(q))
	wrong.add(err)
	spec.Begins, err = q.date("begins")
	wrong.add(err)
	return spec, wrong.err()
}

// listOf reads a list of which each line is an item.
func listOf(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// plural says how many there are of something.
func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(strconv.Itoa(n)) + " " + more
}

// dayOf is a day in a zone, as its first moment.
func dayOf(day bankfile.Date, zone *time.Location) time.Time {
	return time.Date(day.Year, day.Month, day.Day, 0, 0, 0, 0, zone)
}
