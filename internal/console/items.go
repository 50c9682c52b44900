package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/ledger"
)

const (
	itemRoute    = "GET /console/{ledger}/reconcile/bank/{bank}/item"
	confirmRoute = "POST /console/{ledger}/reconcile/bank/{bank}/confirm"
	ignoreRoute  = "POST /console/{ledger}/reconcile/bank/{bank}/ignore"
	// historyShown is how many decisions about an item a page lists, and candidatesShown how many candidates.
	historyShown, candidatesShown = 100, 50
)

// itemMain is what the page of a line or of an entry shows.
type itemMain struct {
	bankHead
	bank
	Item  itemView
	Facts []factView
	// Run is the run that says what it is; nil: none does.
	Run *runRow
	// Suggestion is the suggestion that it is in; "" is none.
	Suggestion string
	Candidates []itemView
	Confirm    *form
	Ignore     *form
	History    []decisionRow
	// Wrong is what came in between, and Conflict whether somebody else has decided.
	Wrong    string
	Conflict bool
	Work     string
}

func (v *visit) item() error {
	b, err := v.bank()
	if err != nil {
		return err
	}
	q := values(v.r.URL.Query())
	k, ok := parseKey(q.get("item"))
	if !ok {
		return errNotFound
	}
	return v.showItem(http.StatusOK, b, k, q, nil, nil)
}

// showItem shows a line or an entry, as it is now. The form that which gives was refused, if there is one.
func (v *visit) showItem(status int, b bank, k itemKey, q values, which func(*itemMain) *form, refused error) error {
	main := &itemMain{bankHead: v.bankHead(b, "-"), bank: b, Work: v.bankPath(b, "work", nil)}
	if err := v.fillItem(main, k); err != nil {
		return err
	}
	if err := v.fillHistory(main, k); err != nil {
		return err
	}
	result, err := v.resultOf(main, k)
	if err != nil {
		return err
	}
	if main.Item.Counts && !main.Item.open.IsZero() {
		if err := v.fillCandidates(main, result, q); err != nil {
			return err
		}
		if v.may(confirmRoute) {
			main.Confirm = v.confirmForm(b, main, q)
		}
		if v.may(ignoreRoute) {
			main.Ignore = v.ignoreForm(b, main, q)
		}
	}
	switch {
	case refused == nil:
	case ledger.CodeOf(refused) == ledger.CodeConflict:
		main.Conflict, main.Wrong = true, ledgerMessage(refused)
	case status == http.StatusConflict:
		main.Wrong = ledgerMessage(refused)
	default:
		if f := which(main); f == nil || !f.blame(refused) {
			return refused
		}
	}
	return v.render(status, page{Name: "item", Title: main.Item.Heading(), Section: reconcileRoute, Within: true, Wide: true, Main: main})
}

// fillItem finds the line or the entry.
func (v *visit) fillItem(main *itemMain, k itemKey) error {
	b := main.bank
	if k.line != 0 {
		l, err := v.config.Reconciler.Line(v.r.Context(), v.ledger, b.Name, k.line)
		if err != nil {
			return absent(err, "line")
		}
		main.Item, main.Facts = v.lineView(b, l), v.lineFacts(b, l)
		return nil
	}
	found, err := v.entriesOf(b, []int64{k.sequence})
	if err != nil {
		return err
	}
	e := found[k]
	if e == nil {
		return errorPage{
			Status: http.StatusNotFound, Title: "There is no such entry", Text: "Account " + string(b.Account) + " has no " + k.Name() + ".",
		}
	}
	main.Item, main.Facts = v.entryView(b, e, e.Amount), entryFacts(b, e)
	return nil
}

// entriesOf finds entries of the account that mirrors a bank account.
func (v *visit) entriesOf(b bank, sequences []int64) (map[itemKey]*reconcile.Entry, error) {
	list, err := v.config.Reconciler.Entries(v.r.Context(), v.ledger, b.Name, sequences)
	found := make(map[itemKey]*reconcile.Entry, len(list))
	for _, e := range list {
		found[itemKey{sequence: e.Sequence, leg: e.Leg}] = e
	}
	return found, err
}

// lineFacts are all that the bank says of a line.
func (v *visit) lineFacts(b bank, l *reconcile.Line) []factView {
	r := l.References
	facts := []factView{
		{Title: "Booked on", Value: l.BookingDate.String()}, {Title: "Value date", Value: l.ValueDate.String()}, {Title: "Status", Value: string(l.Status)},
		{Title: "Description", Value: l.Description}, {Title: "From or to", Value: l.Counterparty.Name}, {Title: "Its account", Value: l.Counterparty.Account},
		{Title: "Its bank", Value: l.Counterparty.Bank}, {Title: "End-to-end", Value: r.EndToEnd}, {Title: "Bank’s reference", Value: r.Bank},
		{Title: "Customer’s reference", Value: r.Customer}, {Title: "Instruction", Value: r.Instruction}, {Title: "Transaction", Value: r.Transaction},
		{Title: "Mandate", Value: r.Mandate}, {Title: "Creditor’s reference", Value: r.Creditor}, {Title: "Batch", Value: r.Batch},
		{Title: "Source", Value: r.Source}, {Title: "Cheque", Value: r.Cheque}, {Title: "Bank’s id", Value: l.ExternalID}, {Title: "Kind", Value: l.Code},
	}
	if l.Reversal {
		facts = append(facts, factView{Title: "Reversal", Value: "it takes back an earlier movement"})
	}
	if !l.Gross.IsZero() || !l.Fee.IsZero() {
		facts = append(facts, factView{Title: "Gross", Value: b.in(l.Gross)}, factView{Title: "Fee", Value: b.in(l.Fee)})
	}
	for _, f := range l.Flags {
		facts = append(facts, factView{Title: "Remark", Value: f.Text})
	}
	facts = slices.DeleteFunc(facts, func(f factView) bool { return f.Value == "" })
	if l.Parent != 0 {
		k := itemKey{line: l.Parent}
		facts = append(facts, factView{Title: "Detail of", Value: k.Name(), Path: v.itemPath(b, k)})
	}
	if l.File != 0 {
		no := strconv.FormatInt(l.File, 10)
		facts = append(facts, factView{Title: "From file", Value: no, Path: v.bankPath(b, "files/"+no, nil)})
	}
	return facts
}

// entryFacts are what the books say of an entry.
func entryFacts(b bank, e *reconcile.Entry) []factView {
	others := make([]string, len(e.Others))
	for i, id := range e.Others {
		others[i] = string(id)
	}
	facts := []factView{
		{Title: "Date", Value: e.Day.String()}, {Title: "Transfer", Value: string(e.Transfer)}, {Title: "Kind", Value: string(e.Kind)},
		{Title: "Of transfer", Value: string(e.Origin)}, {Title: "Description", Value: e.Description}, {Title: "Against", Value: strings.Join(others, ", ")},
	}
	if !e.PostedAt.IsZero() {
		facts = append(facts, factView{Title: "Posted at", Value: momentText(e.PostedAt, b.Zone), Time: e.PostedAt.UTC().Format(time.RFC3339Nano)})
	}
	if e.EffectiveAt != nil {
		facts = append(facts, factView{Title: "Value date", Value: momentText(*e.EffectiveAt, b.Zone), Time: e.EffectiveAt.UTC().Format(time.RFC3339Nano)})
	}
	return slices.DeleteFunc(facts, func(f factView) bool { return f.Value == "" })
}

// decisionsAbout are all decisions about an item, the newest first.
func (v *visit) decisionsAbout(b bank, k itemKey) ([]*reconcile.Decision, error) {
	filter := reconcile.DecisionFilter{Line: k.line, Sequence: k.sequence, Limit: historyShown}
	if k == (itemKey{}) { // What was brought forward is asked for among all.
		filter.Limit = 10 * historyShown
	}
	list, _, err := v.config.Reconciler.Decisions(v.r.Context(), v.ledger, b.Name, filter)
	if k.line == 0 { // Those about a transfer may be about another leg of it.
		list = slices.DeleteFunc(list, func(d *reconcile.Decision) bool {
			return !slices.ContainsFunc(d.Items, func(i reconcile.DecisionItem) bool { return itemKey{i.Line, i.Sequence, i.Leg} == k })
		})
	}
	return list, err
}

// fillHistory lists the decisions about an item, and finds out what is open of it.
func (v *visit) fillHistory(main *itemMain, k itemKey) error {
	list, err := v.decisionsAbout(main.bank, k)
	if err != nil {
		return err
	}
	for _, d := range list {
		main.History = append(main.History, v.decisionRow(main.bank, d))
	}
	if k.line == 0 {
		open := main.Item.amount.Sub(takenBy(list, k))
		main.Item.Open, main.Item.Whole, main.Item.open = main.bank.money(open), open.Equal(main.Item.amount), open
	}
	return nil
}

// takenBy is what active decisions have taken of an item.
func takenBy(list []*reconcile.Decision, k itemKey) decimal.Decimal {
	var taken decimal.Decimal
	for _, d := range list {
		for _, i := range d.Items {
			if d.Undone == nil && (itemKey{i.Line, i.Sequence, i.Leg}) == k {
				taken = taken.Add(i.Amount)
			}
		}
	}
	return taken
}

// resultOf is what the last run says of an item; nil is nothing.
func (v *visit) resultOf(main *itemMain, k itemKey) (*reconcile.Result, error) {
	b := main.bank
	last, err := v.lastRun(b)
	if err != nil || last == nil {
		return nil, err
	}
	r, err := v.resultIn(b, last, k)
	if err != nil || r == nil {
		return nil, err
	}
	row := v.runRow(b, last)
	main.Run = &row
	main.Item.Outcome, main.Item.Note, main.Item.Transit = openName(r.Outcome), r.Note, r.InTransit
	if r.Group != 0 {
		main.Suggestion = v.bankPath(b, "work", url.Values{
			"run": {strconv.FormatInt(last.No, 10)}, "view": {"suggestions"}, "group": {strconv.Itoa(r.Group)},
		})
	}
	return r, nil
}

// resultIn is what a run says of an item; nil is nothing.
func (v *visit) resultIn(b bank, run *reconcile.Run, k itemKey) (*reconcile.Result, error) {
	// The one after the item before it.
	filter := reconcile.ResultFilter{Side: reconcile.BankSide, After: reconcile.ResultCursor{No: k.line - 1}, Limit: 1}
	if k.line == 0 {
		filter.Side, filter.After = reconcile.LedgerSide, reconcile.ResultCursor{Entry: true, No: k.sequence, Leg: k.leg - 1}
	}
	list, _, err := v.config.Reconciler.Results(v.r.Context(), v.ledger, b.Name, run.No, filter)
	if err != nil || len(list) == 0 || keyOf(&list[0]) != k {
		return nil, err
	}
	return &list[0], nil
}

// fillCandidates shows what an item may be, as far as it is open.
func (v *visit) fillCandidates(main *itemMain, r *reconcile.Result, q values) error {
	if r == nil {
		return nil
	}
	b := main.bank
	list := r.Candidates[:min(len(r.Candidates), candidatesShown)]
	var sequences []int64
	for _, c := range list {
		if c.Line == 0 {
			sequences = append(sequences, c.Sequence)
		}
	}
	entries, err := v.entriesOf(b, sequences)
	if err != nil {
		return err
	}
	for _, c := range list {
		k := itemKey{c.Line, c.Sequence, c.Leg}
		view, err := v.candidate(b, k, entries)
		if err != nil {
			return err
		}
		if view == nil {
			continue
		}
		view.Checked = slices.Contains(q["with"], view.Key)
		main.Candidates = append(main.Candidates, *view)
	}
	return nil
}

// candidate is an item of the other side as it is now; nil is none.
func (v *visit) candidate(b bank, k itemKey, entries map[itemKey]*reconcile.Entry) (*itemView, error) {
	if k.line != 0 {
		l, err := v.config.Reconciler.Line(v.r.Context(), v.ledger, b.Name, k.line)
		if err != nil {
			return nil, err
		}
		view := v.lineView(b, l)
		return &view, nil
	}
	e := entries[k]
	if e == nil {
		return nil, nil
	}
	decided, err := v.decisionsAbout(b, k)
	if err != nil {
		return nil, err
	}
	view := v.entryView(b, e, e.Amount.Sub(takenBy(decided, k)))
	return &view, nil
}

// confirmForm is the form to say what an item is.
func (v *visit) confirmForm(b bank, main *itemMain, q values) *form {
	f := &form{ID: "confirm-", Action: v.bankPath(b, "confirm", nil), Button: "Confirm that " + main.Item.Name + " is what is named here", Fields: []field{
		{Name: "item", Kind: "hidden", Value: main.Item.Key}, {Name: "request", Kind: "hidden", Value: newRequest()},
		{Name: "transfers", Label: "Entries, by transfer id", Help: "others than those above; several with spaces between", Kind: "text",
			Value: q.get("transfers")},
		{Name: "lines", Label: "Lines, by number", Help: "several with spaces between", Kind: "text", Value: q.get("lines")},
		{Name: "account", Label: "Account for the difference", Help: "such as expenses:bank-charges; empty: both sides come to the same", Kind: "text",
			Value: q.get("account")},
		{Name: "reason", Label: "Reason", Help: "if there is one to tell", Kind: "text", Value: q.get("reason")},
	}}
	if q.get("ignoring") != "" { // It was the other form that was sent.
		for i := range f.Fields[2:] {
			f.Fields[2+i].Value = ""
		}
	}
	return f
}

func (v *visit) ignoreForm(b bank, main *itemMain, q values) *form {
	reason := ""
	if q.get("ignoring") != "" {
		reason = q.get("reason")
	}
	return &form{ID: "ignore-", Action: v.bankPath(b, "ignore", nil), Button: "Ignore " + main.Item.Name + ", " + b.in(main.Item.open), Fields: []field{
		{Name: "item", Kind: "hidden", Value: main.Item.Key}, {Name: "request", Kind: "hidden", Value: newRequest()},
		{Name: "ignoring", Kind: "hidden", Value: "1"},
		{Name: "reason", Label: "Reason", Help: "why it has no counterpart and needs none", Kind: "text", Value: reason},
	}}
}
