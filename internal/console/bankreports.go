package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

const (
	bankStatementRoute = "GET /console/{ledger}/reconcile/bank/{bank}/statement"
	bankItemsRoute     = "GET /console/{ledger}/reconcile/bank/{bank}/items"
	bankChangesRoute   = "GET /console/{ledger}/reconcile/bank/{bank}/changes"
)

// bankReportMain is what the page of a report about a bank account shows.
type bankReportMain struct {
	bankHead
	Title, About string
	Form         *form
	Sheet        *sheetView
	// Empty says why there is nothing to show yet, and EmptyPath leads to what is to be done first.
	Empty, EmptyPath string
	// Same is the address of this very sheet, whatever is imported, posted or decided later; "" where the page has it already.
	Same string
	Kept bool
}

// bankReport is a report about a bank account: how it is asked for.
type bankReport struct {
	below, title, about string
	// form is the form with what was asked, and write gives the report of it. asked is whether it was.
	form  func(b bank, q values) (*form, error)
	write func(b bank, q values) (func(context.Context, sheet.Writer) error, error)
	asked func(q values) bool
	// empty is whether there is nothing that the report could be of; nil is never.
	empty func(b bank, q values) (bool, error)
	// same are the fields, and the facts of the sheet that they have for it to be the same for ever.
	same map[string]string
	// keeps are the other fields that are part of the question.
	keeps []string
}

func (v *visit) bankStatement() error {
	return v.bankReport(bankReport{
		below: "statement", title: "Reconciliation statement", about: "From the balance in the books, over all that the two sides do not have in common, to the balance at the bank.",
		form: v.statementForm, write: v.writeStatement, asked: func(values) bool { return true }, empty: v.noStatement,
		same: map[string]string{"day": "day", "as_of": "as_of", "through": "through"}, keeps: []string{"items"},
	})
}

// noStatement reports whether no day is asked for, and no file says which is the last.
func (v *visit) noStatement(b bank, q values) (bool, error) {
	if q.get("day") != "" || q.get("format") != "" {
		return false, nil
	}
	files, _, err := v.config.Reconciler.Files(v.r.Context(), v.ledger, b.Name, 0, 1)
	return len(files) == 0, err
}

func (v *visit) statementForm(b bank, q values) (*form, error) {
	f := &form{Action: v.bankPath(b, "statement", nil), Button: "Show the statement", Fields: []field{
		{Name: "day", Label: "At the end of", Help: "a day; empty is the last one that the bank’s files cover", Kind: "text", Value: q.get("day")},
		{Name: "items", Label: "With each item", Kind: "tick", Checked: q.get("items") != ""},
	}}
	if q.get("as_of") != "" || q.get("through") != "" {
		f.Fields = append(f.Fields,
			field{Name: "as_of", Label: "Lines and decisions through", Help: "a number; empty is now", Kind: "number", Value: q.get("as_of")},
			field{Name: "through", Label: "Entries through sequence", Help: "empty is now", Kind: "number", Value: q.get("through")})
	}
	return f, nil
}

func (v *visit) writeStatement(b bank, q values) (func(context.Context, sheet.Writer) error, error) {
	spec := reconcile.StatementSpec{Ledger: v.ledger, BankAccount: b.Name, Items: q.get("items") != ""}
	var wrong faults
	var err error
	spec.Day, err = q.date("day")
	wrong.add(err)
	spec.AsOf, err = q.number("as_of")
	wrong.add(err)
	spec.Through, err = q.number("through")
	wrong.add(err)
	return func(ctx context.Context, w sheet.Writer) error { return v.config.Reconciler.Statement(ctx, spec, w) }, wrong.err()
}

func (v *visit) bankItems() error {
	return v.bankReport(bankReport{
		below: "items", title: "Lines and entries", about: "All lines and entries with what became of them: outcome, decision, rule and who.",
		form: v.itemsForm, write: v.writeItems, asked: func(q values) bool { return len(q) > 0 }, same: map[string]string{"run": "run"},
		keeps: []string{"side", "outcome", "from", "to", "open"},
	})
}

func (v *visit) itemsForm(b bank, q values) (*form, error) {
	side, outcome := q.get("side"), q.get("outcome")
	outcomes := []option{{"", "all", outcome == ""}}
	for _, o := range reconcile.Outcomes() {
		outcomes = append(outcomes, option{string(o), outcomeNames[o], string(o) == outcome})
	}
	return &form{Action: v.bankPath(b, "items", nil), Button: "Show the list", Fields: []field{
		{Name: "run", Label: "After run", Help: "its number; empty is the last one", Kind: "number", Value: q.get("run")},
		{Name: "side", Label: "Side", Kind: "choice", Options: []option{
			{"", "both", side == ""}, {"bank", "at the bank", side == "bank"}, {"ledger", "in the books", side == "ledger"},
		}},
		{Name: "outcome", Label: "What is", Kind: "choice", Options: outcomes},
		{Name: "from", Label: "From, inclusive", Help: "a day", Kind: "text", Value: q.get("from")},
		{Name: "to", Label: "To, inclusive", Help: "a day", Kind: "text", Value: q.get("to")},
		{Name: "open", Label: "Only what is open", Kind: "tick", Checked: q.get("open") != ""},
	}}, nil
}

func (v *visit) writeItems(b bank, q values) (func(context.Context, sheet.Writer) error, error) {
	spec := reconcile.ItemsSpec{Ledger: v.ledger, BankAccount: b.Name, Side: reconcile.Side(q.get("side")), Open: q.get("open") != ""}
	if outcome := q.get("outcome"); outcome != "" {
		spec.Outcomes = []reconcile.Outcome{reconcile.Outcome(outcome)}
	}
	var wrong faults
	var err error
	spec.Run, err = q.number("run")
	wrong.add(err)
	spec.From, err = q.date("from")
	wrong.add(err)
	spec.To, err = q.date("to")
	wrong.add(err)
	return func(ctx context.Context, w sheet.Writer) error {
		return renamed(v.config.Reconciler.Items(ctx, spec, w), "outcomes", "outcome")
	}, wrong.err()
}

func (v *visit) bankChanges() error {
	return v.bankReport(bankReport{
		below: "changes", title: "Changes between runs", about: "What a run says of open items otherwise than an earlier one.",
		form: v.changesForm, write: v.writeChanges, asked: func(q values) bool { return len(q) > 0 },
		same: map[string]string{"older": "before", "newer": "after"},
	})
}

// changesForm proposes the last two runs.
func (v *visit) changesForm(b bank, q values) (*form, error) {
	older, newer := q.get("older"), q.get("newer")
	runs, _, err := v.config.Reconciler.Runs(v.r.Context(), v.ledger, b.Name, 0, runsShown)
	if err != nil {
		return nil, err
	}
	var suggestions []string
	for _, run := range runs {
		suggestions = append(suggestions, strconv.FormatInt(run.No, 10))
	}
	if len(q) == 0 && len(runs) > 1 {
		older, newer = suggestions[1], suggestions[0]
	}
	return &form{Action: v.bankPath(b, "changes", nil), Button: "Show the changes", Fields: []field{
		{Name: "older", Label: "From run", Help: "the earlier one, by its number", Kind: "number", Value: older, Suggestions: suggestions},
		{Name: "newer", Label: "to run", Help: "the later one; empty is the last", Kind: "number", Value: newer, Suggestions: suggestions},
	}}, nil
}

func (v *visit) writeChanges(b bank, q values) (func(context.Context, sheet.Writer) error, error) {
	var wrong faults
	older, err := q.number("older")
	wrong.add(err)
	newer, err := q.number("newer")
	wrong.add(err)
	if older == 0 && len(wrong.list) == 0 {
		wrong.add(ledger.Invalid("older", "is required"))
	}
	return func(ctx context.Context, w sheet.Writer) error {
		return v.config.Reconciler.Changes(ctx, v.ledger, b.Name, older, newer, w)
	}, wrong.err()
}

// bankReport shows a report, or sends it as a file.
func (v *visit) bankReport(r bankReport) error {
	b, err := v.bank()
	if err != nil {
		return err
	}
	q := values(v.r.URL.Query())
	main := &bankReportMain{bankHead: v.bankHead(b, r.below), Title: r.title, About: r.about}
	if main.Form, err = r.form(b, q); err != nil {
		return err
	}
	if !r.asked(q) {
		main.Form.Open = true
		return v.showBankReport(http.StatusOK, main)
	}
	if r.empty != nil {
		none, err := r.empty(b, q)
		if err != nil {
			return err
		}
		if none {
			main.Empty, main.EmptyPath = "The bank has said nothing yet.", v.bankPath(b, "", nil)
			return v.showBankReport(http.StatusOK, main)
		}
	}
	write, err := r.write(b, q)
	if err == nil {
		err = q.check("outcome", "side")
	}
	if err != nil {
		return v.refuseBankReport(main, err)
	}
	if format := q.get("format"); format != "" {
		f, err := fileFormat(format)
		if err != nil {
			return err
		}
		return v.attach(f, write)
	}
	if main.Sheet, err = v.show(&screen{link: v.itemLinks(b)}, r.below, write); err != nil {
		return v.refuseBankReport(main, err)
	}
	v.keepSame(main, r, b, q)
	return v.showBankReport(main.Sheet.status(), main)
}

// keepSame links to this very sheet, and to its files.
func (v *visit) keepSame(main *bankReportMain, r bankReport, b bank, q values) {
	same := url.Values{}
	for _, name := range r.keeps {
		if value := q.get(name); value != "" {
			same.Set(name, value)
		}
	}
	main.Kept = true
	for name, fact := range r.same {
		same.Set(name, main.Sheet.head.Fact(fact))
		main.Kept = main.Kept && q.get(name) == main.Sheet.head.Fact(fact)
	}
	if !main.Kept {
		main.Same = v.bankPath(b, r.below, same)
	}
	main.Sheet.Downloads, main.Sheet.Alone = formatLinks(v.bankPath(b, r.below, nil), same), true
	main.Sheet.Printed += " · bank account " + b.Name
	if day := main.Sheet.head.Fact("day"); day != "" {
		main.Sheet.Printed += " · at the end of " + day
		main.Form.Summary = "At the end of " + day
	}
	if run := main.Sheet.head.Fact("run"); run != "" {
		main.Sheet.Printed += " · after run " + run
		main.Form.Summary = "After run " + run
	}
	if older := main.Sheet.head.Fact("before"); older != "" {
		main.Form.Summary = "From run " + older + " to run " + main.Sheet.head.Fact("after")
		main.Sheet.Printed += " · " + main.Form.Summary
	}
}

func (v *visit) refuseBankReport(main *bankReportMain, err error) error {
	if !main.Form.blame(err) {
		return err
	}
	return v.showBankReport(statusOf(ledger.CodeOf(err)), main)
}

func (v *visit) showBankReport(status int, main *bankReportMain) error {
	return v.render(status, page{Name: "bankreport", Title: main.Title, Section: reconcileRoute, Within: true, Wide: true, Main: main})
}

// itemLinks lead from numbers of lines and entries, and of decisions, to their pages.
func (v *visit) itemLinks(b bank) func(sheet.Column, sheet.Row) string {
	return func(column sheet.Column, row sheet.Row) string {
		if column.ID != "number" || row.Kind != sheet.Item {
			return ""
		}
		// Sheets of items say the side first, then number and leg.
		if len(row.Cells) < 3 {
			return ""
		}
		k, ok := itemKey{}, false
		switch row.Cells[0] {
		case string(reconcile.BankSide):
			k, ok = parseKey("line:" + row.Cells[1])
		case string(reconcile.LedgerSide):
			k, ok = parseKey("entry:" + row.Cells[1] + ":" + row.Cells[2])
		}
		if !ok {
			return ""
		}
		return v.itemPath(b, k)
	}
}
