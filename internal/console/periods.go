package console

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
)

const (
	periodsRoute = "GET /console/{ledger}/periods"
	closeRoute   = "POST /console/{ledger}/periods/close"
	reopenRoute  = "POST /console/{ledger}/periods/reopen"
	// changesShown is how many changes of periods a page lists.
	changesShown = 50
)

// changeRow is a change of periods in the history.
type changeRow struct {
	ledger.PeriodChange
	When, Before, Until string
}

// periodsMain is what the page of periods shows.
type periodsMain struct {
	// Now is the change in force; nil: nothing was ever closed.
	Now     *changeRow
	Changes []changeRow
	More    string
	// Close and Reopen are the forms; nil for who may not.
	Close, Reopen *form
	// Said is what has just been done.
	Said string
}

func (v *visit) periods() error { return v.showPeriods(http.StatusOK, nil, nil, nil) }

// showPeriods shows how far the books are closed. The form of which q is was refused, if there is one.
func (v *visit) showPeriods(status int, refused error, closing, reopening values) error {
	q := values(v.r.URL.Query())
	before, err := q.number("before")
	if err != nil {
		return err
	}
	main := &periodsMain{Said: q.get("done")}
	list, err := v.config.Books.PeriodChanges(v.r.Context(), v.ledger, before, changesShown+1)
	if err != nil {
		return err
	}
	if len(list) > changesShown {
		list = list[:changesShown]
		main.More = v.path("periods", url.Values{"before": {strconv.FormatInt(list[changesShown-1].Sequence, 10)}})
	}
	for _, change := range list {
		main.Changes = append(main.Changes, changeOf(change))
	}
	if before == 0 && len(main.Changes) > 0 {
		main.Now = &main.Changes[0]
	}
	if v.may(closeRoute) {
		main.Close = v.closeForm(closing)
	}
	if v.may(reopenRoute) && main.Now != nil && main.Now.ClosedBefore != nil || reopening != nil {
		main.Reopen = v.reopenForm(reopening)
	}
	blamed := map[bool]*form{true: main.Close, false: main.Reopen}[closing != nil]
	if refused != nil && (blamed == nil || !blamed.blame(refused)) {
		return refused
	}
	return v.render(status, page{Name: "periods", Title: "Periods", Section: periodsRoute, Main: main})
}

func changeOf(c ledger.PeriodChange) changeRow {
	zone, err := report.ParseZone(c.Zone)
	if err != nil {
		zone = time.UTC
	}
	row := changeRow{PeriodChange: c, When: momentText(c.ChangedAt, zone)}
	if c.ClosedBefore != nil {
		row.Before = dayText(*c.ClosedBefore, zone)
	}
	if c.Previous != nil {
		row.Until = dayText(*c.Previous, zone)
	}
	return row
}

func (v *visit) closeForm(q values) *form {
	f := &form{ID: "close-", Action: v.path("periods/close", nil), Button: "Close the books", Fields: []field{
		{Name: "month", Label: "Through the end of the month", Help: "such as " + lastMonth(time.Now(), v.zone(q)), Kind: "text", Value: q.get("month")},
		{Name: "closed_before", Label: "or before the day", Help: "the first day that stays open", Kind: "text", Value: q.get("closed_before")},
		{Name: "zone", Label: "Time zone", Help: "in which the day begins", Kind: "text", Value: v.zone(q), Suggestions: zones},
		{Name: "reason", Label: "Reason", Help: "if there is one to tell", Kind: "text", Value: q.get("reason")},
	}}
	return f
}

func (v *visit) reopenForm(q values) *form {
	return &form{ID: "reopen-", Action: v.path("periods/reopen", nil), Button: "Open the books again", Fields: []field{
		{Name: "closed_before", Label: "Stay closed before the day", Help: "the first one to be open", Kind: "text", Value: q.get("closed_before")},
		{Name: "zone", Label: "Time zone", Help: "in which the day begins", Kind: "text", Value: v.zone(q), Suggestions: zones},
		{Name: "reason", Label: "Reason", Help: "why it is opened again", Kind: "text", Value: q.get("reason")},
		{Name: "everything", Label: "Open everything", Kind: "tick", Checked: q.get("everything") != ""},
	}}
}

// boundary reads the time before which books are, or stay, closed. It returns CodeInvalidArgument.
func (v *visit) boundary(q values) (*time.Time, error) {
	if err := q.check("month", "closed_before", "zone"); err != nil {
		return nil, err
	}
	month, day := q.get("month"), q.get("closed_before")
	switch {
	case month != "" && day != "":
		return nil, ledger.Invalid("month", "and the day cannot be given together: leave one of the two empty")
	case month != "":
		p, err := report.Month(month, v.zone(q))
		return &p.To, err
	case day != "":
		p, err := report.ParsePeriod("", day, v.zone(q))
		return &p.To, renamed(err, "to", "closed_before")
	}
	return nil, nil
}

// renamed gives an error about one field as one about another, which the form has.
func renamed(err error, from, to string) error {
	var known *ledger.Error
	if !errors.As(err, &known) || len(known.Violations) == 0 || known.Violations[0].Field != from {
		return err
	}
	return ledger.Invalid(to, "%s", known.Violations[0].Message)
}

func (v *visit) closePeriod() error {
	q := values(v.r.PostForm)
	before, err := v.boundary(q)
	var closed bool
	if err == nil {
		request := ledger.PeriodClose{Zone: v.zone(q), Reason: q.get("reason")}
		if before != nil {
			request.Before = *before
		}
		_, already, refused := v.config.Books.ClosePeriod(v.r.Context(), v.session.Name, v.ledger, request)
		closed, err = !already, refused
	}
	if err != nil {
		return v.showPeriods(statusOf(ledger.CodeOf(err)), err, q, nil)
	}
	return v.see(v.path("periods", url.Values{"done": {map[bool]string{true: "closed", false: "unchanged"}[closed]}}))
}

func (v *visit) reopenPeriod() error {
	q := values(v.r.PostForm)
	before, err := v.boundary(q)
	var opened bool
	if err == nil {
		request := ledger.PeriodReopen{Before: before, Everything: q.get("everything") != "", Zone: v.zone(q), Reason: q.get("reason")}
		_, already, refused := v.config.Books.ReopenPeriod(v.r.Context(), v.session.Name, v.ledger, request)
		opened, err = !already, refused
	}
	if err != nil {
		return v.showPeriods(statusOf(ledger.CodeOf(err)), err, nil, q)
	}
	return v.see(v.path("periods", url.Values{"done": {map[bool]string{true: "opened", false: "unchanged"}[opened]}}))
}
