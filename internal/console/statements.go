package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/khata-ledger/khata/internal/export"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

const (
	statementsRoute = "GET /console/{ledger}/statements"
	statementRoute  = "GET /console/{ledger}/statements/{no}"
	issueRoute      = "POST /console/{ledger}/statements"
	// statementsShown is how many statements a page lists.
	statementsShown = 100
)

// statementRow is a statement in a list.
type statementRow struct {
	report.Statement
	Path, AccountPath, From, To, IssuedAt, BasisName string
}

// statementsMain is what the page of statements shows.
type statementsMain struct {
	Find *form
	// Issue is the form to issue one; nil for who may not.
	Issue   *form
	Account string
	Rows    []statementRow
	More    string
}

func (v *visit) statements() error {
	return v.showStatements(http.StatusOK, values(v.r.URL.Query()), nil)
}

// showStatements lists statements, and shows at the form to issue one why it was not.
func (v *visit) showStatements(status int, q values, refused error) error {
	account := q.get("account")
	main := &statementsMain{Account: account, Find: &form{Action: v.path("statements", nil), Button: "List", Open: true, Fields: []field{
		{Name: "account", Label: "Of the account", Help: "its id; empty is all of them", Kind: "text", Value: account},
	}}}
	if v.may(issueRoute) {
		main.Issue = v.issueForm(q)
		if refused != nil && !main.Issue.blame(refused) {
			return refused
		}
	}
	if refused == nil {
		if err := v.listStatements(main, q); err != nil {
			if !main.Find.blame(err) {
				return err
			}
			status = statusOf(ledger.CodeOf(err))
		}
	}
	return v.render(status, page{Name: "statements", Title: "Statements", Section: statementsRoute, Wide: true, Main: main})
}

func (v *visit) listStatements(main *statementsMain, q values) error {
	if main.Account != "" {
		if err := ledger.AccountID(main.Account).ValidateFormat("account"); err != nil {
			return err
		}
	}
	before, err := q.number("before")
	if err != nil {
		return err
	}
	list, more, err := v.config.Reports.Statements(v.r.Context(), v.ledger, ledger.AccountID(main.Account), before, statementsShown)
	if err != nil {
		return err
	}
	for _, s := range list {
		main.Rows = append(main.Rows, v.statementRow(s))
	}
	if more {
		next := url.Values{"before": {strconv.FormatInt(list[len(list)-1].Number, 10)}}
		if main.Account != "" {
			next.Set("account", main.Account)
		}
		main.More = v.path("statements", next)
	}
	return nil
}

func (v *visit) statementRow(s report.Statement) statementRow {
	return statementRow{
		Statement: s, Path: v.statementPath(s.Number, nil), AccountPath: v.path("account", url.Values{"account": {string(s.Account)}}),
		From: dayText(s.Period.From, s.Period.Zone), To: dayText(s.Period.To, s.Period.Zone), IssuedAt: momentText(s.IssuedAt, s.Period.Zone),
		BasisName: basisNames[s.Basis],
	}
}

var basisNames = map[report.Basis]string{report.Booking: "booking time", report.Value: "value date"}

// momentText is an instant for people.
func momentText(t time.Time, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	return t.In(zone).Format(time.DateTime)
}

func (v *visit) statementPath(number int64, query url.Values) string {
	return v.path("statements/"+strconv.FormatInt(number, 10), query)
}

// issueForm is the form to issue a statement, with what was asked.
func (v *visit) issueForm(q values) *form {
	fields := append([]field{{Name: "account", Label: "Account", Help: "its id, such as wallet:shimul", Kind: "text", Value: q.get("account")}},
		v.periodFields(q, false)...)
	for i := range fields {
		if fields[i].Name == "from" {
			fields[i].Help = "empty: where the account's last statement ended"
		}
	}
	return &form{ID: "issue-", Action: v.path("statements", nil), Button: "Issue the statement", Fields: append(fields, basisField(q))}
}

// issue issues a statement. Whoever does it twice is shown the same one.
func (v *visit) issue() error {
	q := values(v.r.PostForm)
	spec, err := v.statementSpec(q)
	if err != nil {
		return v.showStatements(http.StatusBadRequest, q, err)
	}
	s, issued, err := v.config.Reports.Issue(v.r.Context(), spec, v.session.Name)
	if err != nil {
		return v.showStatements(statusOf(ledger.CodeOf(err)), q, err)
	}
	said := "before"
	if issued {
		said = "now"
	}
	return v.see(v.statementPath(s.Number, url.Values{"issued": {said}}))
}

func (v *visit) statementSpec(q values) (report.StatementSpec, error) {
	if err := q.check("account", "basis"); err != nil {
		return report.StatementSpec{}, err
	}
	spec := report.StatementSpec{Ledger: v.ledger, Account: ledger.AccountID(q.get("account"))}
	if err := spec.Account.ValidateFormat("account"); err != nil {
		return spec, err
	}
	var err error
	if spec.Period, err = v.period(q); err != nil {
		return spec, err
	}
	spec.Basis, err = report.ParseBasis(q.get("basis"))
	return spec, err
}

// statementMain is what the page of a statement shows.
type statementMain struct {
	statementRow
	Sheet   *sheetView
	Changes string
	All     string
	// Said is what has just been done: now, before or nothing.
	Said string
}

func (v *visit) statement() error {
	number, err := strconv.ParseInt(v.r.PathValue("no"), 10, 64)
	if err != nil || number <= 0 {
		return errNotFound
	}
	s, err := v.config.Reports.Statement(v.r.Context(), v.ledger, number)
	if err != nil {
		if ledger.CodeOf(err) == ledger.CodeNotFound {
			return errorPage{
				Status: http.StatusNotFound, Title: "There is no such statement", Text: "Ledger " + string(v.ledger) + " has none of that number.",
			}
		}
		return err
	}
	if format := v.r.URL.Query().Get("format"); format != "" {
		return v.statementFile(s, format)
	}
	content, err := s.Sheet()
	if err != nil {
		return err
	}
	shown := &screen{}
	if err := content.WriteTo(shown); err != nil && !shown.enough {
		return err
	}
	main := &statementMain{
		statementRow: v.statementRow(s), Sheet: v.view(shown), All: v.path("statements", url.Values{"account": {string(s.Account)}}),
		Changes: v.reportPath(report.ChangesSince, url.Values{"statement": {strconv.FormatInt(number, 10)}}), Said: v.r.URL.Query().Get("issued"),
	}
	main.Sheet.Downloads = formatLinks(v.statementPath(number, nil), url.Values{})
	main.Sheet.Alone = true
	main.Sheet.Printed += " · statement " + strconv.FormatInt(number, 10)
	return v.render(http.StatusOK, page{
		Name: "statement", Title: "Statement " + strconv.FormatInt(number, 10), Section: statementsRoute, Within: true, Wide: true, Main: main,
	})
}

// statementFile sends a statement as a file: as JSON the very bytes whose hash was taken.
func (v *visit) statementFile(s report.Statement, format string) error {
	f, err := fileFormat(format)
	if err != nil {
		return err
	}
	content, err := s.Sheet()
	if err != nil {
		return err
	}
	if f != export.JSON {
		return v.attach(f, func(_ context.Context, w sheet.Writer) error { return content.WriteTo(w) })
	}
	v.announce(export.FileName(content.Head, f), f.ContentType())
	_, _ = v.w.Write(s.Content) // The browser may have gone.
	return nil
}
