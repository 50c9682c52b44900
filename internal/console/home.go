package console

import (
	"net/http"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
)

const (
	homeRoute     = "GET /console/"
	overviewRoute = "GET /console/{ledger}/"
)

// ledgerCard is a ledger to pick.
type ledgerCard struct {
	Name        ledger.Name
	Path, Roles string
}

// home lists the ledgers that the visitor may look into. Who has one only is there at once.
func (v *visit) home() error {
	all, err := v.config.Books.Ledgers(v.r.Context())
	if err != nil {
		return err
	}
	var cards []ledgerCard
	for _, l := range all {
		if v.mayIn(overviewRoute, l.Name) {
			cards = append(cards, ledgerCard{l.Name, ledgerPath(l.Name, "", nil), v.session.Grants.On(l.Name).String()})
		}
	}
	if len(cards) == 1 && !v.r.URL.Query().Has("all") {
		return v.see(cards[0].Path)
	}
	return v.render(http.StatusOK, page{Name: "home", Title: "Ledgers", Main: map[string]any{"Ledgers": cards, "Roles": rolesOf(v.session.Grants)}})
}

// overview shows what the visitor may do in a ledger.
func (v *visit) overview() error {
	known, err := v.config.Books.Ledgers(v.r.Context())
	if err != nil {
		return err
	}
	found := false
	for _, l := range known {
		found = found || l.Name == v.ledger
	}
	if !found {
		return ledger.Errorf(ledger.CodeLedgerNotFound, "ledger %s does not exist", v.ledger)
	}
	var reports, others []link
	if v.may(reportRoute) {
		for _, d := range report.Definitions() {
			reports = append(reports, link{Title: d.Title, About: d.About, Path: v.path("reports/"+string(d.Name), nil)})
		}
	}
	for _, l := range v.navigation("") {
		if l.About != "" {
			others = append(others, l)
		}
	}
	return v.render(http.StatusOK, page{
		Name: "overview", Title: "Overview", Section: overviewRoute, Main: map[string]any{"Reports": reports, "Others": others},
	})
}
