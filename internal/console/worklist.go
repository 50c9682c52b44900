package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/ledger"
)

const (
	workRoute = "GET /console/{ledger}/reconcile/bank/{bank}/work"
	// cardsShown is how many suggestions a page has, itemsShown how many items, and inCard how many items of each side of a suggestion.
	cardsShown, itemsShown, inCard = 20, 100, 20
	// sinceShown is how many decisions since a run are looked at to say what was decided meanwhile. The database has the last word anyway.
	sinceShown = 300
)

// itemKey names a line, or an entry.
type itemKey struct {
	line, sequence int64
	leg            int
}

func keyOf(r *reconcile.Result) itemKey {
	if r.Line != nil {
		return itemKey{line: r.Line.No}
	}
	return itemKey{sequence: r.Entry.Sequence, leg: r.Entry.Leg}
}

// String is how forms and addresses name it.
func (k itemKey) String() string {
	if k.line != 0 {
		return fmt.Sprintf("line:%d", k.line)
	}
	return fmt.Sprintf("entry:%d:%d", k.sequence, k.leg)
}

// Name is what people call it.
func (k itemKey) Name() string {
	switch {
	case k.line != 0:
		return fmt.Sprintf("line %d", k.line)
	case k.sequence == 0:
		return "the balance brought forward"
	case k.leg > 1:
		return fmt.Sprintf("entry %d, leg %d", k.sequence, k.leg)
	}
	return fmt.Sprintf("entry %d", k.sequence)
}

// parseKey reads what String has written.
func parseKey(text string) (itemKey, bool) {
	kind, numbers, _ := strings.Cut(text, ":")
	first, second, legs := strings.Cut(numbers, ":")
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != first {
		return itemKey{}, false
	}
	switch {
	case kind == "line" && n > 0 && !legs:
		return itemKey{line: n}, true
	case kind == "entry" && legs:
		leg, err := strconv.ParseInt(second, 10, 16)
		return itemKey{sequence: n, leg: int(leg)}, err == nil && leg >= 0
	}
	return itemKey{}, false
}

func (v *visit) itemPath(b bank, k itemKey) string {
	return v.bankPath(b, "item", url.Values{"item": {k.String()}})
}

// itemView is a line or an entry in a list.
type itemView struct {
	key          itemKey
	Key          string
	Name, Path   string
	Side         string
	Day          string
	Reference    string
	Description  string
	Party        string
	Amount, Open money
	// Whole is whether all of it is open.
	Whole   bool
	Outcome string
	Note    string
	Transit bool
	// Counts is whether it is for matching, and Why not.
	Counts bool
	Why    string
	// Decided is what was decided about it since.
	Decided *decidedView
	Checked bool
	amount  decimal.Decimal
	open    decimal.Decimal
}

// Heading is its name at the beginning of a sentence.
func (i itemView) Heading() string { return strings.ToUpper(i.Name[:1]) + i.Name[1:] }

// decidedView is a decision in short.
type decidedView struct {
	No             int64
	Path, Who, At  string
	Ignored, Taken bool
}

func (v *visit) decidedView(b bank, d *reconcile.Decision) *decidedView {
	return &decidedView{
		No: d.No, Path: v.decisionPath(b, d.No, nil), Who: d.DecidedBy, At: momentText(d.DecidedAt, b.Zone), Ignored: d.Kind == "ignored",
		Taken: d.Undone != nil,
	}
}

func (v *visit) lineView(b bank, l *reconcile.Line) itemView {
	refs := l.References
	k := itemKey{line: l.No}
	view := itemView{
		key: k, Key: k.String(), Name: k.Name(), Path: v.itemPath(b, k), Side: "bank", Day: l.BookingDate.String(),
		Reference:   cmp.Or(refs.EndToEnd, refs.Customer, refs.Creditor, refs.Batch, refs.Source, refs.Bank, l.ExternalID),
		Description: l.Description, Party: l.Counterparty.Name, Amount: b.money(l.Amount), Open: b.money(l.Open()), Whole: l.Open().Equal(l.Amount),
		Counts: l.Counts, amount: l.Amount, open: l.Open(),
	}
	if !l.Counts {
		view.Why = "does not count: " + string(l.Status)
		if l.Status == "booked" && !l.Amount.IsZero() {
			view.Why = "does not count: its details do, or its line does"
		}
	}
	return view
}

func (v *visit) entryView(b bank, e *reconcile.Entry, open decimal.Decimal) itemView {
	k := itemKey{sequence: e.Sequence, leg: e.Leg}
	others := make([]string, len(e.Others))
	for i, id := range e.Others {
		others[i] = string(id)
	}
	return itemView{
		key: k, Key: k.String(), Name: k.Name(), Path: v.itemPath(b, k), Side: "books", Day: e.Day.String(), Reference: string(e.Transfer),
		Description: e.Description, Party: strings.Join(others, ", "), Amount: b.money(e.Amount), Open: b.money(open), Whole: open.Equal(e.Amount),
		Counts: true, amount: e.Amount, open: open,
	}
}

// resultView is what a run says of an item, and what was decided about it since.
func (v *visit) resultView(b bank, r *reconcile.Result, since map[itemKey]*reconcile.Decision) itemView {
	var view itemView
	if r.Line != nil {
		view = v.lineView(b, r.Line)
	} else {
		view = v.entryView(b, r.Entry, r.Open)
	}
	view.Open, view.Whole, view.open = b.money(r.Open), r.Open.Equal(view.amount), r.Open
	view.Outcome, view.Note, view.Transit = openName(r.Outcome), r.Note, r.InTransit
	if d := since[keyOf(r)]; d != nil {
		view.Decided = v.decidedView(b, d)
	}
	return view
}

// cardView is a suggestion: lines on one side, entries on the other, and what they differ by.
type cardView struct {
	ID, Rule, Path      string
	Group               int
	Lines, Entries      []itemView
	MoreLines           int
	MoreEntries         int
	LinesSum            money
	EntriesSum          money
	Difference          money
	HasDifference       bool
	Form                *form
	Decided             *decidedView
	lines, entries      decimal.Decimal
	lineCount, entryCnt int
}

// workMain is what the work list shows.
type workMain struct {
	bankHead
	bank
	Run   *runRow
	Newer string
	Views []link
	Find  *form
	Cards []cardView
	Items []itemView
	More  string
	// None says what there is none of.
	None string
	// Done is the decision that was just made, and Said how.
	Done  *decidedView
	Said  string
	Wrong string
	Since int
	Match string
}

func (v *visit) work() error {
	b, err := v.bank()
	if err != nil {
		return err
	}
	return v.showWork(http.StatusOK, b, values(v.r.URL.Query()), nil)
}

// showWork shows what is open after a run. If something was refused, the suggestion that it is about is shown alone.
func (v *visit) showWork(status int, b bank, q values, refused error) error {
	main := &workMain{bankHead: v.bankHead(b, "work"), bank: b, Match: v.bankPath(b, "", nil)}
	no, err := q.number("run")
	if err != nil {
		return err
	}
	last, err := v.lastRun(b)
	if err != nil {
		return err
	}
	if last == nil {
		main.None = "Nothing was matched yet. The work list is what a run of the matching leaves open."
		return v.render(status, page{Name: "work", Title: "Work list", Section: reconcileRoute, Within: true, Wide: true, Main: main})
	}
	run := last
	if no != 0 && no != last.No {
		if run, err = v.config.Reconciler.Run(v.r.Context(), v.ledger, b.Name, no); err != nil {
			return absent(err, "run")
		}
		main.Newer = v.bankPath(b, "work", nil)
	}
	row := v.runRow(b, run)
	main.Run = &row
	since, err := v.decidedSince(b, run)
	if err != nil {
		return err
	}
	main.Since = len(since)
	if err := v.sayDone(main, b, q); err != nil {
		return err
	}
	view := q.get("view")
	if view == "" {
		view = "suggestions"
		if run.Summary.Suggestions == 0 && refused == nil {
			view = "items"
		}
	}
	main.Views = v.workViews(b, run, view)
	if view == "suggestions" {
		err = v.fillCards(main, b, run, q, since, refused)
	} else {
		err = v.fillItems(main, b, run, q, since)
	}
	if err != nil {
		if main.Find == nil || !main.Find.blame(err) {
			return err
		}
		status = statusOf(ledger.CodeOf(err))
	}
	return v.render(status, page{Name: "work", Title: "Work list", Section: reconcileRoute, Within: true, Wide: true, Main: main})
}

func (v *visit) workViews(b bank, run *reconcile.Run, here string) []link {
	no := strconv.FormatInt(run.No, 10)
	s := run.Summary
	return []link{
		{Title: "Suggestions (" + countText(s.Suggestions) + ")", Path: v.bankPath(b, "work", url.Values{"run": {no}, "view": {"suggestions"}}),
			Here: here == "suggestions"},
		{Title: "All open items (" + countText(s.OpenLines.Count+s.OpenEntries.Count) + ")",
			Path: v.bankPath(b, "work", url.Values{"run": {no}, "view": {"items"}}), Here: here != "suggestions"},
	}
}

// sayDone says what was decided just now.
func (v *visit) sayDone(main *workMain, b bank, q values) error {
	no, err := q.number("decision")
	if err != nil || no == 0 {
		return err
	}
	d, err := v.config.Reconciler.Decision(v.r.Context(), v.ledger, b.Name, no)
	if err != nil {
		return absent(err, "decision")
	}
	main.Done, main.Said = v.decidedView(b, d), q.get("done")
	return nil
}

// decidedSince gives what people have decided since a run, by item.
func (v *visit) decidedSince(b bank, run *reconcile.Run) (map[itemKey]*reconcile.Decision, error) {
	since := map[itemKey]*reconcile.Decision{}
	for _, kind := range []string{"manual", "ignored"} {
		list, _, err := v.config.Reconciler.Decisions(v.r.Context(), v.ledger, b.Name, reconcile.DecisionFilter{Kind: kind, Active: true, Limit: sinceShown})
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			if d.No <= run.AsOf {
				break
			}
			for _, i := range d.Items {
				since[itemKey{i.Line, i.Sequence, i.Leg}] = d
			}
		}
	}
	return since, nil
}

// openNow is a run of which what people have decided since is left out of the summary, or the run itself where that is too much to look up.
func (v *visit) openNow(b bank, run *reconcile.Run, since map[itemKey]*reconcile.Decision) (*reconcile.Run, bool, error) {
	const most = 100
	if len(since) == 0 || len(since) > most {
		return run, len(since) == 0, nil
	}
	now := *run
	s := &now.Summary
	s.LineOutcomes, s.EntryOutcomes = maps.Clone(s.LineOutcomes), maps.Clone(s.EntryOutcomes)
	groups := map[int]bool{}
	for k := range since {
		r, err := v.resultIn(b, run, k)
		if err != nil {
			return nil, false, err
		}
		if r == nil {
			continue
		}
		left, err := v.leftOf(b, k, r)
		if err != nil {
			return nil, false, err
		}
		less := func(t *reconcile.Tally) {
			if t.Sum = t.Sum.Sub(r.Open).Add(left); left.IsZero() {
				t.Count--
			}
		}
		outcomes, all := s.LineOutcomes, &s.OpenLines
		if r.Entry != nil {
			outcomes, all = s.EntryOutcomes, &s.OpenEntries
		}
		of := outcomes[r.Outcome]
		less(&of)
		if outcomes[r.Outcome] = of; of.Count == 0 {
			delete(outcomes, r.Outcome)
		}
		less(all)
		if r.InTransit {
			less(&s.InTransit)
		}
		if r.Group > 0 && !groups[r.Group] {
			groups[r.Group] = true
			s.Suggestions--
		}
	}
	return &now, true, nil
}

// leftOf is what decisions have left of an item that was open.
func (v *visit) leftOf(b bank, k itemKey, r *reconcile.Result) (decimal.Decimal, error) {
	if r.Line != nil {
		return r.Line.Open(), nil
	}
	list, err := v.decisionsAbout(b, k)
	return r.Entry.Amount.Sub(takenBy(list, k)), err
}

// fillCards lists suggestions. One that was refused is shown alone, with why.
func (v *visit) fillCards(main *workMain, b bank, run *reconcile.Run, q values, since map[itemKey]*reconcile.Decision, refused error) error {
	after, err := q.number("after")
	if err != nil {
		return err
	}
	limit := cardsShown
	group, err := q.number("group")
	if err != nil {
		return err
	}
	if group > 0 {
		after, limit = group-1, 1
	}
	list, more, err := v.config.Reconciler.Suggestions(v.r.Context(), v.ledger, b.Name, run.No, int(min(after, 1<<30)), limit)
	if err != nil {
		return err
	}
	for i := range list {
		main.Cards = append(main.Cards, v.card(b, run, &list[i], after, since, q))
	}
	if len(list) == 0 {
		main.None = "This run suggests nothing more."
	}
	if more && group == 0 {
		main.More = v.bankPath(b, "work", url.Values{
			"run": {strconv.FormatInt(run.No, 10)}, "view": {"suggestions"}, "after": {strconv.Itoa(list[len(list)-1].Group)},
		})
	}
	if refused != nil && (len(main.Cards) != 1 || main.Cards[0].Form == nil || !main.Cards[0].Form.blame(refused)) {
		return refused
	}
	return nil
}

func (v *visit) card(b bank, run *reconcile.Run, s *reconcile.Suggestion, after int64, since map[itemKey]*reconcile.Decision, q values) cardView {
	no, group := strconv.FormatInt(run.No, 10), strconv.Itoa(s.Group)
	c := cardView{
		ID: "s" + group, Group: s.Group, Rule: ruleNames[s.Rule], lineCount: len(s.Lines), entryCnt: len(s.Entries),
		Path: v.bankPath(b, "work", url.Values{"run": {no}, "view": {"suggestions"}, "group": {group}}),
	}
	side := func(results []reconcile.Result) (views []itemView, more int, sum decimal.Decimal) {
		for i := range results {
			view := v.resultView(b, &results[i], since)
			if view.Decided != nil {
				c.Decided = view.Decided
			}
			sum = sum.Add(results[i].Open)
			if i < inCard {
				views = append(views, view)
			}
		}
		return views, max(0, len(results)-inCard), sum
	}
	c.Lines, c.MoreLines, c.lines = side(s.Lines)
	c.Entries, c.MoreEntries, c.entries = side(s.Entries)
	difference := c.lines.Sub(c.entries)
	c.LinesSum, c.EntriesSum, c.Difference, c.HasDifference = b.money(c.lines), b.money(c.entries), b.money(difference), !difference.IsZero()
	if c.Decided != nil || !v.may(confirmRoute) {
		return c
	}
	chosen := values{}
	if q.get("group") == group {
		chosen = q
	}
	c.Form = &form{ID: c.ID + "-", Action: v.bankPath(b, "confirm", nil), Button: c.button(b, difference), Fields: []field{
		{Name: "run", Kind: "hidden", Value: no}, {Name: "group", Kind: "hidden", Value: group},
		{Name: "after", Kind: "hidden", Value: strconv.FormatInt(after, 10)}, {Name: "request", Kind: "hidden", Value: newRequest()},
	}}
	if c.HasDifference {
		c.Form.Fields = append(c.Form.Fields, differenceField(b, difference, chosen))
	}
	return c
}

// differenceField asks for the account to which a difference is posted.
func differenceField(b bank, difference decimal.Decimal, q values) field {
	f := field{Name: "account", Label: "Account for the difference of " + b.in(difference), Help: "such as expenses:bank-charges", Kind: "text",
		Value: q.get("account")}
	if difference.Abs().LessThanOrEqual(b.Settings.Tolerance) {
		f.Help = "such as expenses:bank-charges; empty: it is within the tolerance, is kept, and not posted"
	}
	return f
}

// button says exactly what is confirmed.
func (c *cardView) button(b bank, difference decimal.Decimal) string {
	if c.HasDifference {
		what := plural(c.lineCount, "line", "lines") + " with " + plural(c.entryCnt, "entry", "entries")
		if difference.Abs().LessThanOrEqual(b.Settings.Tolerance) {
			return "Confirm " + what + ", " + b.in(difference) + " apart"
		}
		return "Confirm " + what + ", and post the difference of " + b.in(difference)
	}
	if c.lineCount == 1 && c.entryCnt == 1 {
		return "Confirm: " + c.Lines[0].Name + " is " + c.Entries[0].Name + ", " + b.in(c.lines)
	}
	return "Confirm: " + plural(c.lineCount, "line", "lines") + " and " + plural(c.entryCnt, "entry", "entries") + " are the same, " + b.in(c.lines)
}

// fillItems lists open items.
func (v *visit) fillItems(main *workMain, b bank, run *reconcile.Run, q values, since map[itemKey]*reconcile.Decision) error {
	main.Find = v.findForm(b, run, q)
	filter := reconcile.ResultFilter{Side: reconcile.Side(q.get("side")), Suggested: q.get("suggested") != "", Limit: itemsShown}
	if outcome := q.get("outcome"); outcome != "" {
		filter.Outcomes = []reconcile.Outcome{reconcile.Outcome(outcome)}
	}
	if after := q.get("after"); after != "" {
		k, ok := parseKey(after)
		if !ok {
			return ledger.Invalid("after", "%.40q is no item", after)
		}
		filter.After = reconcile.ResultCursor{Entry: k.line == 0, No: cmp.Or(k.line, k.sequence), Leg: k.leg}
	}
	list, more, err := v.config.Reconciler.Results(v.r.Context(), v.ledger, b.Name, run.No, filter)
	if err != nil {
		return ofForm(renamed(err, "outcomes", "outcome"), nil)
	}
	for i := range list {
		main.Items = append(main.Items, v.resultView(b, &list[i], since))
	}
	if len(list) == 0 {
		main.None = "There is no such open item after this run."
	}
	if more {
		next := url.Values{"run": {strconv.FormatInt(run.No, 10)}, "view": {"items"}, "after": {keyOf(&list[len(list)-1]).String()}}
		for _, name := range []string{"side", "outcome", "suggested"} {
			if value := q.get(name); value != "" {
				next.Set(name, value)
			}
		}
		main.More = v.bankPath(b, "work", next)
	}
	return nil
}

func (v *visit) findForm(b bank, run *reconcile.Run, q values) *form {
	side, outcome := q.get("side"), q.get("outcome")
	outcomes := []option{{"", "all", outcome == ""}}
	for _, o := range reconcile.Outcomes() {
		_, line := run.Summary.LineOutcomes[o]
		_, entry := run.Summary.EntryOutcomes[o]
		if line || entry || string(o) == outcome {
			outcomes = append(outcomes, option{string(o), openName(o), string(o) == outcome})
		}
	}
	sides := []option{{"", "both", side == ""}, {"bank", "at the bank", side == "bank"}, {"ledger", "in the books", side == "ledger"}}
	if !slices.ContainsFunc(sides, func(o option) bool { return o.Selected }) {
		sides = append(sides, option{side, side, true})
	}
	return &form{Action: v.bankPath(b, "work", nil), Button: "Show", Open: true, Fields: []field{
		{Name: "run", Kind: "hidden", Value: strconv.FormatInt(run.No, 10)}, {Name: "view", Kind: "hidden", Value: "items"},
		{Name: "outcome", Label: "What is", Kind: "choice", Options: outcomes}, {Name: "side", Label: "Side", Kind: "choice", Options: sides},
		{Name: "suggested", Label: "Only in suggestions", Kind: "tick", Checked: q.get("suggested") != ""},
	}}
}

// itemTable is a list of items, as its template takes it.
type itemTable struct {
	Title, Column string
	// Outcomes is whether there is something to say of what they are.
	Outcomes bool
	Items    []itemView
}

func itemTableOf(title, column string, items []itemView) itemTable {
	said := slices.ContainsFunc(items, func(i itemView) bool { return i.Outcome != "" || i.Note != "" || i.Why != "" || i.Decided != nil })
	return itemTable{title, column, said, items}
}

// side is one side of a suggestion, as its template takes it.
type side struct {
	Title string
	Items []itemView
	More  int
	Sum   money
}

func sideOf(title string, items []itemView, more int, sum money) side {
	return side{title, items, more, sum}
}
