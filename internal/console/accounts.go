package console

import (
	"net/http"
	"net/url"
	"time"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
)

const (
	accountsRoute = "GET /console/{ledger}/accounts"
	accountRoute  = "GET /console/{ledger}/account"
	// accountsShown is how many accounts a page lists.
	accountsShown = 200
)

// accountRow is an account in a list.
type accountRow struct {
	ledger.Account
	Path string
}

// accounts lists accounts, by how their ids begin.
func (v *visit) accounts() error {
	q := values(v.r.URL.Query())
	f := &form{Action: v.path("accounts", nil), Button: "Find", Open: true, Fields: []field{
		{Name: "prefix", Label: "Accounts beginning with", Help: "such as wallet:sh; empty is all of them", Kind: "text", Value: q.get("prefix")},
	}}
	main := map[string]any{"Form": f}
	list, more, err := v.listAccounts(q)
	if err != nil {
		if !f.blame(err) {
			return err
		}
		return v.render(http.StatusBadRequest, page{Name: "accounts", Title: "Accounts", Section: accountsRoute, Wide: true, Main: main})
	}
	if more {
		next := url.Values{"after": {string(list[len(list)-1].ID)}}
		if prefix := q.get("prefix"); prefix != "" {
			next.Set("prefix", prefix)
		}
		main["More"] = v.path("accounts", next)
	}
	var rows []accountRow
	for _, a := range list {
		rows = append(rows, accountRow{a, v.path("account", url.Values{"account": {string(a.ID)}})})
	}
	main["Rows"], main["After"], main["None"] = rows, q.get("after"), len(rows) == 0
	return v.render(http.StatusOK, page{Name: "accounts", Title: "Accounts", Section: accountsRoute, Wide: true, Main: main})
}

func (v *visit) listAccounts(q values) (list []ledger.Account, more bool, err error) {
	if err := q.check("prefix", "after"); err != nil {
		return nil, false, err
	}
	list, err = v.config.Books.Accounts(v.r.Context(), v.ledger, q.get("prefix"), ledger.AccountID(q.get("after")), accountsShown+1)
	if err == nil && len(list) > accountsShown {
		return list[:accountsShown], true, nil
	}
	return list, false, err
}

// accountMain is what the page of an account shows.
type accountMain struct {
	Account ledger.Account
	Form    *form
	// Balance is its balance over time, Entries its general ledger.
	Balance, Entries *sheetView
	Links            []link
}

// account shows one account in a period: its balance over time, and its entries.
func (v *visit) account() error {
	q := values(v.r.URL.Query())
	if err := q.check("account", "basis"); err != nil {
		return err
	}
	account, err := v.config.Books.Account(v.r.Context(), v.ledger, ledger.AccountID(q.get("account")))
	if err != nil {
		return err
	}
	if q.get("month") == "" && q.get("from") == "" && q.get("to") == "" {
		q["month"] = []string{time.Now().In(v.location(q)).Format("2006-01")}
	}
	main := &accountMain{Account: account, Form: v.accountForm(account.ID, q), Links: v.accountLinks(account.ID)}
	if err := v.fillAccount(main, q); err != nil {
		if !main.Form.blame(err) {
			return err
		}
		return v.showAccount(statusOf(ledger.CodeOf(err)), main)
	}
	return v.showAccount(main.Entries.status(), main)
}

func (v *visit) accountForm(id ledger.AccountID, q values) *form {
	f := &form{Action: v.path("account", nil), Button: "Show this period", Fields: append(v.periodFields(q, false), basisField(q))}
	f.Fields = append(f.Fields, field{Name: "account", Kind: "hidden", Value: string(id)})
	return f
}

// fillAccount makes the two reports of an account's page.
func (v *visit) fillAccount(main *accountMain, q values) error {
	period, err := v.period(q)
	if err != nil {
		return err
	}
	basis, err := report.ParseBasis(q.get("basis"))
	if err != nil {
		return err
	}
	request := report.Request{Report: report.BalanceOverTime, Ledger: v.ledger, Account: main.Account.ID, Period: period, Basis: basis}
	define, _ := report.Define(report.GeneralLedger) // It is one.
	main.Form.Summary = summary(define, request)
	if !period.From.IsZero() && !period.To.IsZero() {
		if main.Balance, err = v.run(request); err != nil {
			return err
		}
		main.Balance.Folded = main.Balance.Plot != ""
		main.Balance.Downloads = v.elsewhere(report.BalanceOverTime, main.Account.ID, q, main.Balance)
		// Both are of the same moment, or the one would have entries that the other does not know of.
		if request.Through, err = (values{"through": {main.Balance.head.Fact("through")}}).number("through"); err != nil {
			return err
		}
	}
	request.Report = report.GeneralLedger
	if main.Entries, err = v.run(request); err != nil {
		return err
	}
	main.Entries.Downloads = v.elsewhere(report.GeneralLedger, main.Account.ID, q, main.Entries)
	if main.Balance != nil {
		main.Entries.without(main.Balance)
	}
	return nil
}

// elsewhere are the files of a report that is shown on the page of an account.
func (v *visit) elsewhere(name report.Name, id ledger.AccountID, q values, s *sheetView) []link {
	query := url.Values{"account": {string(id)}}
	for _, field := range []string{"month", "from", "to", "zone", "basis"} {
		if value := q.get(field); value != "" {
			query.Set(field, value)
		}
	}
	if through := s.head.Fact("through"); through != "" {
		query.Set("through", through)
	}
	return formatLinks(v.path("reports/"+string(name), nil), query)
}

// accountLinks are where else there is something of the account.
func (v *visit) accountLinks(id ledger.AccountID) []link {
	var links []link
	if v.may(statementsRoute) {
		links = append(links, link{Title: "Statements", Path: v.path("statements", url.Values{"account": {string(id)}})})
	}
	return links
}

func (v *visit) showAccount(status int, main *accountMain) error {
	p := page{Name: "account", Title: string(main.Account.ID), Section: accountsRoute, Within: true, Wide: true, Main: main}
	return v.render(status, p)
}

// location is the zone that a form means, or UTC if it is none.
func (v *visit) location(q values) *time.Location {
	location, err := report.ParseZone(v.zone(q))
	if err != nil {
		return time.UTC
	}
	return location
}
