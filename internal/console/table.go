package console

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// tableMaker makes the table of a sheet.
type tableMaker struct {
	*visit
	head sheet.Head
	zone *time.Location
	// shown are the columns that are shown, by their places in the sheet, and facts what is said once instead of in a column.
	shown  []int
	facts  []sheet.Fact
	titles []columnView
	// group is the column by whose cells the rows are put together under headings; -1 is none. Said is the last heading.
	group int
	said  string
	// link gives the page about what a cell names; nil gives none.
	link func(column sheet.Column, row sheet.Row) string
}

// sayOnce are columns that say the same in every row of most sheets.
var sayOnce = map[string]bool{"account": true, "currency": true}

// groupedBy are the columns whose cells are headings, in sheets in which rows with the same ones come together.
var groupedBy = map[report.Name]string{
	report.BalanceSheet: "section", report.IncomeStatement: "section", report.GeneralLedger: "account", report.DailyPosition: "account",
}

// choose picks the columns to show. A column without anything is left out, and one that says the same everywhere is said once, above. Of a sheet
// that is cut nobody knows that.
func (t *tableMaker) choose(rows []sheet.Row, cut bool) {
	t.group = -1
	for i, column := range t.head.Columns {
		var values []string
		same := true
		for _, row := range rows {
			if cell := row.Cells[i]; cell != "" {
				values = append(values, cell)
				same = same && cell == values[0]
			}
		}
		switch number := column.Kind == sheet.Amount || column.Kind == sheet.Count; {
		case !cut && len(rows) > 0 && len(values) == 0 && !number:
			continue
		case !cut && sayOnce[column.ID] && same && len(values) == len(rows) && len(rows) > 1:
			if t.head.Fact(column.ID) == "" {
				t.facts = append(t.facts, sheet.Fact{ID: column.ID, Title: column.Title, Value: values[0]})
			}
			continue
		case groupedBy[report.Name(t.head.Report)] == column.ID:
			t.group = i
			continue
		}
		t.shown = append(t.shown, i)
	}
}

func (t *tableMaker) columns() []columnView {
	for _, i := range t.shown {
		t.titles = append(t.titles, columnView{t.head.Columns[i].Title, columnClass(t.head.Columns[i])})
	}
	return t.titles
}

// columnClass is how the cells of a column are set.
func columnClass(c sheet.Column) string {
	switch c.Kind {
	case sheet.Amount, sheet.Count:
		return "num"
	case sheet.Date, sheet.Time:
		return "when"
	}
	switch c.ID {
	case "kind", "type", "currency", "section", "side", "outcome", "rule":
		return "word"
	case "account", "transfer", "against":
		return "id"
	}
	return "long"
}

// numbersOfThings are columns of whole numbers that count nothing: to put commas into them would be as into a telephone number.
var numbersOfThings = map[string]bool{"sequence": true, "statement": true, "number": true, "leg": true, "group": true}

// kindNames are what a row is called that has no name of its own.
var kindNames = map[sheet.RowKind]string{
	sheet.Opening: "Opening balance", sheet.Closing: "Closing balance", sheet.Subtotal: "Subtotal", sheet.Total: "Total",
}

// heading makes the heading that comes before a row, if it is another one than before.
func (t *tableMaker) heading(row sheet.Row) (rowView, bool) {
	if t.group < 0 || row.Cells[t.group] == t.said {
		return rowView{}, false
	}
	t.said = row.Cells[t.group]
	cell := t.cell(t.head.Columns[t.group], t.said)
	if cell.Text == "" {
		return rowView{}, false
	}
	cell.Text = strings.ToUpper(cell.Text[:1]) + cell.Text[1:]
	if cell.Link != "" {
		cell.Text = t.said
	}
	return rowView{Heading: true, Cells: []cellView{cell}}, true
}

// row makes a row of the table.
func (t *tableMaker) row(row sheet.Row) rowView {
	view := rowView{Class: string(row.Kind)}
	if row.Depth > 0 {
		view.Class += " d" + strconv.Itoa(min(row.Depth, 8))
	}
	named := false
	for n, i := range t.shown {
		column := t.head.Columns[i]
		cell := t.cell(column, row.Cells[i])
		cell.Class = t.titles[n].Class
		if t.link != nil && cell.Text != "" && cell.Link == "" {
			cell.Link = t.link(column, row)
		}
		if strings.HasPrefix(cell.Text, "−") {
			cell.Class += " neg"
		}
		named = named || column.Kind == sheet.Text && cell.Text != "" && column.ID != "currency"
		view.Cells = append(view.Cells, cell)
	}
	if name := kindNames[row.Kind]; name != "" && !named && len(view.Cells) > 0 {
		t.name(&view, name)
	}
	// What a row is called is what it has first. A header without a text would be read out as one.
	for n := range view.Cells {
		if cell := &view.Cells[n]; cell.Text != "" && !strings.Contains(cell.Class, "num") {
			cell.Heads = true
			break
		}
	}
	if row.Kind == sheet.Late && len(view.Cells) > 0 {
		view.Cells[0].Tag = "late"
	}
	return view
}

// name says in a row without a name what it is.
func (t *tableMaker) name(view *rowView, name string) {
	for n := range view.Cells {
		if cell := &view.Cells[n]; cell.Text == "" && !strings.Contains(cell.Class, "num") {
			cell.Text = name
			return
		}
	}
	view.Cells[0].Tag = name
}

func (t *tableMaker) cell(column sheet.Column, text string) cellView {
	switch {
	case text == "":
		return cellView{}
	case numbersOfThings[column.ID]:
	case column.Kind == sheet.Amount, column.Kind == sheet.Count:
		return cellView{Text: grouped(text)}
	case column.Kind == sheet.Time:
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return cellView{Text: at.In(t.zone).Format(time.DateTime), Time: text}
		}
	case column.ID == "account" && t.isAccount(text):
		return cellView{Text: text, Link: t.accountPath(ledger.AccountID(text), t.r.URL.Query())}
	}
	return cellView{Text: text}
}

// isAccount reports whether a cell names an account: those of totals and of parts of ids have names that accounts cannot have, or do not.
func (t *tableMaker) isAccount(text string) bool {
	return t.may(accountRoute) && t.r.URL.Query().Get("depth") == "" && ledger.AccountID(text).ValidateFormat("account") == nil
}

// accountPath is the page of an account, for the period that is asked for in a query.
func (v *visit) accountPath(account ledger.AccountID, query url.Values) string {
	q := url.Values{"account": {string(account)}}
	for _, name := range []string{"month", "from", "to", "zone", "basis"} {
		if value := query.Get(name); value != "" {
			q.Set(name, value)
		}
	}
	return v.path("account", q)
}

// reportPath is the page of a report.
func (v *visit) reportPath(name report.Name, query url.Values) string {
	return v.path("reports/"+string(name), query)
}

// grouped writes a number for people: with a comma between thousands, and a minus sign that is as wide as a digit and is read out.
func grouped(number string) string {
	digits, negative := strings.CutPrefix(number, "-")
	whole, fraction, decimals := strings.Cut(digits, ".")
	for _, c := range []byte(whole + fraction) {
		if c < '0' || c > '9' { // It is shown as it is.
			return number
		}
	}
	var out strings.Builder
	if negative {
		out.WriteString("−")
	}
	for i, c := range []byte(whole) {
		if i > 0 && (len(whole)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteByte(c)
	}
	if decimals {
		out.WriteString("." + fraction)
	}
	return out.String()
}
