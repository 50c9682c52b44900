package console

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
)

const reportRoute = "GET /console/{ledger}/reports/{report}"

// reportMain is what the page of a report shows.
type reportMain struct {
	Definition report.Definition
	Form       *form
	Sheet      *sheetView
	// Others are the other reports, of the same period.
	Others []link
	// Account is the page of the account that the report is of, if it is of one.
	Account string
}

func (v *visit) report() error {
	d, err := report.Define(report.Name(v.r.PathValue("report")))
	if err != nil {
		return errNotFound
	}
	q := values(v.r.URL.Query())
	asked := v.r.URL.RawQuery != ""
	if !asked {
		q = v.proposal(d)
	}
	f := v.reportForm(d, q)
	main := &reportMain{Definition: d, Form: f}
	if !asked {
		f.Open = true
		return v.showReport(http.StatusOK, main)
	}
	request, err := v.reportRequest(d, q)
	if err != nil {
		return v.refuse(main, err)
	}
	if format := q.get("format"); format != "" {
		return v.download(request, format)
	}
	f.Summary = summary(d, request)
	if main.Sheet, err = v.run(request); err != nil {
		return v.refuse(main, err)
	}
	main.Sheet.Downloads, main.Sheet.Alone = v.downloads(url.Values(q), main.Sheet), true
	main.Others = v.otherReports(d, q)
	if request.Account != "" {
		main.Account = v.accountPath(request.Account, url.Values(q))
	}
	return v.showReport(main.Sheet.status(), main)
}

// otherReports are the reports that can be asked for with the same period.
func (v *visit) otherReports(d report.Definition, q values) []link {
	same := url.Values{}
	for _, name := range []string{"month", "from", "to", "zone", "basis"} {
		if value := q.get(name); value != "" {
			same.Set(name, value)
		}
	}
	var links []link
	for _, other := range report.Definitions() {
		query := same
		switch {
		case other.Takes&report.NeedsStatement != 0, d.Takes&report.NeedsStatement != 0:
			continue
		case other.Takes&report.NeedsAccount != 0:
			if q.get("account") == "" {
				continue
			}
			query = url.Values{"account": {q.get("account")}}
			for name, list := range same {
				query[name] = list
			}
		case other.Takes&report.AtOneMoment != 0:
			query = maps.Clone(same)
			query.Del("from")
		case other.Name == report.Growth:
			query = maps.Clone(same)
			query.Del("basis")
		}
		links = append(links, link{Title: other.Title, Path: v.reportPath(other.Name, query), Here: other.Name == d.Name})
	}
	return links
}

// refuse shows at the form what is wrong with what was asked.
func (v *visit) refuse(main *reportMain, err error) error {
	if !main.Form.blame(err) {
		return err
	}
	return v.showReport(statusOf(ledger.CodeOf(err)), main)
}

func (v *visit) showReport(status int, main *reportMain) error {
	p := page{Name: "report", Title: main.Definition.Title, Section: overviewRoute, Within: true, Wide: true, Main: main}
	return v.render(status, p)
}

// proposal is what a form has in it at first.
func (v *visit) proposal(d report.Definition) values {
	if d.Takes&report.NeedsStatement != 0 {
		return values{}
	}
	return values{"month": {lastMonth(time.Now(), v.defaultZone())}}
}

// reportForm is the form of a report, with what was asked.
func (v *visit) reportForm(d report.Definition, q values) *form {
	f := &form{Action: v.path("reports/"+string(d.Name), nil), Button: "Show the report"}
	takes := func(t report.Takes) bool { return d.Takes&t != 0 }
	text := func(name, label, help string) {
		f.Fields = append(f.Fields, field{Name: name, Label: label, Help: help, Kind: "text", Value: q.get(name)})
	}
	if takes(report.NeedsStatement) {
		f.Fields = append(f.Fields, field{Name: "statement", Label: "Statement", Help: "its number", Kind: "number", Value: q.get("statement")})
		return f
	}
	f.Fields = v.periodFields(q, takes(report.AtOneMoment))
	if d.Name != report.Growth { // What was posted was posted at one time only.
		f.Fields = append(f.Fields, basisField(q))
	}
	if takes(report.TakesAccount | report.NeedsAccount) {
		help := "its id; empty is all of them"
		if takes(report.NeedsAccount) {
			help = "its id, such as wallet:shimul"
		}
		text("account", "Account", help)
	}
	if takes(report.TakesPrefix) {
		text("prefix", "Accounts beginning with", "such as wallet: for all wallets")
		text("currency", "Currency", "such as BDT; empty is all of them")
	}
	if takes(report.TakesDepth) {
		f.Fields = append(f.Fields, field{
			Name: "depth", Label: "Depth", Help: "1 sums up wallet:…; empty: each account", Kind: "number", Value: q.get("depth"),
		})
	}
	if q.get("through") != "" {
		f.Fields = append(f.Fields, field{
			Name: "through", Label: "Through sequence", Help: "the last one that counts; empty is the last there is", Kind: "number", Value: q.get("through"),
		})
	}
	if takes(report.TakesEmpty) {
		f.Fields = append(f.Fields, field{Name: "empty", Label: "Include empty accounts", Kind: "tick", Checked: q.get("empty") != ""})
	}
	return f
}

// reportRequest reads what was asked. It returns CodeInvalidArgument, with all that is wrong.
func (v *visit) reportRequest(d report.Definition, q values) (request report.Request, err error) {
	var wrong faults
	request = report.Request{Report: d.Name, Ledger: v.ledger}
	wrong.add(q.check("prefix", "account", "currency", "basis"))
	if d.Takes&report.NeedsStatement != 0 {
		request.Statement, err = q.number("statement")
		wrong.add(err)
		return request, wrong.err()
	}
	read := v.period
	if d.Takes&report.AtOneMoment != 0 {
		read = v.moment
	}
	request.Period, err = read(q)
	wrong.add(err)
	request.Basis, err = report.ParseBasis(q.get("basis"))
	wrong.add(err)
	depth, err := q.number("depth")
	wrong.add(err)
	request.Through, err = q.number("through")
	wrong.add(err)
	request.Depth = int(min(depth, 1000)) // The report says what is too deep.
	request.Prefix, request.Account = q.get("prefix"), ledger.AccountID(q.get("account"))
	request.Currency = ledger.CurrencyCode(strings.ToUpper(q.get("currency")))
	request.Empty = q.get("empty") != ""
	return request, wrong.err()
}

// summary says in a line what was asked.
func summary(d report.Definition, request report.Request) string {
	if request.Statement > 0 {
		return "statement " + strconv.FormatInt(request.Statement, 10)
	}
	from, to := dayText(request.Period.From, request.Period.Zone), dayText(request.Period.To, request.Period.Zone)
	var words []string
	switch {
	case d.Takes&report.AtOneMoment != 0 && to == "":
		words = append(words, "as of now")
	case d.Takes&report.AtOneMoment != 0:
		words = append(words, "as of the beginning of "+to)
	case from == "" && to == "":
		words = append(words, "from the beginning to now")
	case from == "":
		words = append(words, "up to "+to)
	case to == "":
		words = append(words, "from "+from)
	default:
		words = append(words, from+" to "+to)
	}
	words = append(words, zoneName(request.Period.Zone))
	if d.Name != report.Growth {
		words = append(words, map[report.Basis]string{report.Booking: "booking time", report.Value: "value date"}[request.Basis])
	}
	if request.Account != "" {
		words = append(words, string(request.Account))
	}
	if request.Prefix != "" {
		words = append(words, "accounts "+request.Prefix+"…")
	}
	if request.Currency != "" {
		words = append(words, string(request.Currency))
	}
	return strings.Join(words, " · ")
}

func zoneName(zone *time.Location) string {
	if zone == nil {
		return "UTC"
	}
	return zone.String()
}

// dayText is a moment of a period for people: the day, if it begins then.
func dayText(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return ""
	}
	if zone == nil {
		zone = time.UTC
	}
	local := t.In(zone)
	if h, m, s := local.Clock(); h == 0 && m == 0 && s == 0 && local.Nanosecond() == 0 {
		return local.Format(time.DateOnly)
	}
	return local.Format("2006-01-02 15:04:05")
}
