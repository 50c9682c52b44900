package console

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/ledger"
)

const (
	decisionsRoute  = "GET /console/{ledger}/reconcile/bank/{bank}/decisions"
	decisionRoute   = "GET /console/{ledger}/reconcile/bank/{bank}/decisions/{no}"
	unmatchRoute    = "POST /console/{ledger}/reconcile/bank/{bank}/decisions/{no}/unmatch"
	differenceRoute = "POST /console/{ledger}/reconcile/bank/{bank}/decisions/{no}/difference"
	// decisionsShown is how many decisions a page lists, and partsShown how many items of one.
	decisionsShown, partsShown = 100, 200
	// partsTold is how many lines of a decision are shown with what the bank says of them.
	partsTold = 50
)

// decisionRow is a decision in a list.
type decisionRow struct {
	*reconcile.Decision
	Path, At, What, State, UndoneAt string
	LinesSum, EntriesSum, Apart     money
	Differs                         bool
	Count                           string
}

func (v *visit) decisionPath(b bank, no int64, query url.Values) string {
	return v.bankPath(b, "decisions/"+strconv.FormatInt(no, 10), query)
}

func (v *visit) decisionRow(b bank, d *reconcile.Decision) decisionRow {
	row := decisionRow{
		Decision: d, Path: v.decisionPath(b, d.No, nil), At: momentText(d.DecidedAt, b.Zone), What: outcomeNames[d.Outcome], LinesSum: b.money(d.Lines),
		EntriesSum: b.money(d.Entries), Count: plural(len(d.Items), "item", "items"),
	}
	switch {
	case d.Kind == "automatic":
		row.What += " by a run, by " + ruleNames[d.Rule]
	case d.Kind == "manual" && d.Rule != reconcile.RuleManual:
		row.What += " by a person, as suggested by " + ruleNames[d.Rule]
	case d.Kind == "manual":
		row.What += " by a person"
	}
	if d.Kind != "ignored" {
		row.Apart, row.Differs = b.money(d.Difference()), !d.Difference().IsZero()
	}
	row.State = "active"
	if d.Undone != nil {
		row.State, row.UndoneAt = "taken back", momentText(d.Undone.At, b.Zone)
	} else if !d.Posted() && row.Differs {
		row.State = "active, difference open"
	}
	return row
}

// decisionsMain is what the page of decisions shows.
type decisionsMain struct {
	bankHead
	bank
	Find *form
	Rows []decisionRow
	More string
}

func (v *visit) decisions() error {
	b, err := v.bank()
	if err != nil {
		return err
	}
	q := values(v.r.URL.Query())
	before, err := q.number("before")
	if err != nil {
		return err
	}
	kind := q.get("kind")
	main := &decisionsMain{bankHead: v.bankHead(b, "decisions"), bank: b, Find: &form{
		Action: v.bankPath(b, "decisions", nil), Button: "Show", Open: true, Fields: []field{
			{Name: "kind", Label: "Made", Kind: "choice", Options: []option{
				{"", "by anybody", kind == ""}, {"automatic", "by runs", kind == "automatic"}, {"manual", "by people", kind == "manual"},
				{"ignored", "to ignore", kind == "ignored"},
			}},
			{Name: "active", Label: "Without those taken back", Kind: "tick", Checked: q.get("active") != ""},
		},
	}}
	if kind != "" && kind != "automatic" && kind != "manual" && kind != "ignored" {
		main.Find.blame(ledger.Invalid("kind", "%.40q is no kind of decisions", kind))
		return v.render(http.StatusBadRequest, page{Name: "decisions", Title: "Decisions", Section: reconcileRoute, Within: true, Wide: true, Main: main})
	}
	list, more, err := v.config.Reconciler.Decisions(v.r.Context(), v.ledger, b.Name, reconcile.DecisionFilter{
		Kind: kind, Active: q.get("active") != "", Before: before, Limit: decisionsShown,
	})
	if err != nil {
		return err
	}
	for _, d := range list {
		main.Rows = append(main.Rows, v.decisionRow(b, d))
	}
	if more {
		next := url.Values{"before": {strconv.FormatInt(list[len(list)-1].No, 10)}}
		for _, name := range []string{"kind", "active"} {
			if value := q.get(name); value != "" {
				next.Set(name, value)
			}
		}
		main.More = v.bankPath(b, "decisions", next)
	}
	return v.render(http.StatusOK, page{Name: "decisions", Title: "Decisions", Section: reconcileRoute, Within: true, Wide: true, Main: main})
}

// differenceView is an approval to post a difference.
type differenceView struct {
	reconcile.Difference
	Sum         money
	At          string
	AccountPath string
}

// decisionMain is what the page of a decision shows.
type decisionMain struct {
	bankHead
	bank
	decisionRow
	Parts       []itemView
	MoreParts   int
	Approvals   []differenceView
	IsPosted    bool
	Unmatch     *form
	Approve     *form
	Said, Wrong string
	Conflict    bool
	Work        string
}

func (v *visit) decision() error {
	b, err := v.bank()
	if err != nil {
		return err
	}
	no, err := v.number("no")
	if err != nil {
		return err
	}
	return v.showDecision(http.StatusOK, b, no, values{}, nil, nil)
}

// showDecision shows a decision as it is now. The form that which gives was refused, if there is one.
func (v *visit) showDecision(status int, b bank, no int64, q values, which func(*decisionMain) *form, refused error) error {
	d, err := v.config.Reconciler.Decision(v.r.Context(), v.ledger, b.Name, no)
	if err != nil {
		return absent(err, "decision")
	}
	main := &decisionMain{
		bankHead: v.bankHead(b, "-"), bank: b, decisionRow: v.decisionRow(b, d), IsPosted: d.Posted(), Said: v.r.URL.Query().Get("done"),
		Work: v.bankPath(b, "work", nil),
	}
	if err := v.fillParts(main); err != nil {
		return err
	}
	for _, a := range d.Differences {
		main.Approvals = append(main.Approvals, differenceView{a, b.money(a.Amount), momentText(a.ApprovedAt, b.Zone),
			v.path("account", url.Values{"account": {string(a.Account)}})})
	}
	if d.Undone == nil && v.may(unmatchRoute) {
		main.Unmatch = v.unmatchForm(b, d, q)
	}
	if d.Undone == nil && main.Differs && !d.Posted() && v.may(differenceRoute) {
		main.Approve = v.approveForm(b, d, q)
	}
	switch {
	case refused == nil:
	case ledger.CodeOf(refused) == ledger.CodeConflict:
		main.Conflict, main.Wrong = true, ledgerMessage(refused)
	case which == nil || status == http.StatusConflict:
		main.Wrong = ledgerMessage(refused)
	default:
		if f := which(main); f == nil || !f.blame(refused) {
			return refused
		}
	}
	return v.render(status, page{
		Name: "decision", Title: "Decision " + strconv.FormatInt(no, 10), Section: reconcileRoute, Within: true, Wide: true, Main: main,
	})
}

// fillParts lists the items of a decision, the first of them with what bank and books say of them.
func (v *visit) fillParts(main *decisionMain) error {
	b, items := main.bank, main.Items
	main.MoreParts = max(0, len(items)-partsShown)
	items = items[:min(len(items), partsShown)]
	var sequences []int64
	for _, i := range items {
		if !i.IsLine() {
			sequences = append(sequences, i.Sequence)
		}
	}
	entries, err := v.entriesOf(b, sequences)
	if err != nil {
		return err
	}
	told := 0
	for _, i := range items {
		k := itemKey{i.Line, i.Sequence, i.Leg}
		view := itemView{Key: k.String(), Name: k.Name(), Path: v.itemPath(b, k), Side: "books", Day: i.Day.String()}
		if e := entries[k]; e != nil && !i.IsLine() {
			view = v.entryView(b, e, e.Amount)
		}
		if i.IsLine() {
			view.Side = "bank"
			if told < partsTold {
				l, err := v.config.Reconciler.Line(v.r.Context(), v.ledger, b.Name, i.Line)
				if err != nil {
					return err
				}
				view = v.lineView(b, l)
				told++
			}
		}
		view.Open, view.Day = b.money(i.Amount), i.Day.String()
		if i.PostsDifference {
			view.Note = "posts the difference"
		}
		main.Parts = append(main.Parts, view)
	}
	return nil
}

func (v *visit) unmatchForm(b bank, d *reconcile.Decision, q values) *form {
	f := &form{ID: "undo-", Action: v.decisionPath(b, d.No, nil) + "/unmatch", Button: "Take decision " + strconv.FormatInt(d.No, 10) + " back",
		Fields: []field{{Name: "reason", Label: "Reason", Help: "why it does not hold", Kind: "text", Value: q.get("reason")}}}
	for _, i := range d.Items {
		if i.PostsDifference {
			f.Fields = append(f.Fields, field{Name: "reverse", Label: "Reverse the difference that was posted, too", Kind: "tick", Checked: q.get("reverse") != ""})
			break
		}
	}
	return f
}

func (v *visit) approveForm(b bank, d *reconcile.Decision, q values) *form {
	account := q.get("account")
	if n := len(d.Differences); n > 0 && account == "" {
		account = string(d.Differences[n-1].Account)
	}
	return &form{ID: "post-", Action: v.decisionPath(b, d.No, nil) + "/difference", Button: "Post the difference of " + b.in(d.Difference()), Fields: []field{
		{Name: "account", Label: "Account", Help: "that it goes against, such as expenses:bank-charges", Kind: "text", Value: account},
		{Name: "effective", Label: "Value date", Help: "a day; empty is none", Kind: "text", Value: q.get("effective")},
		{Name: "description", Label: "Description", Help: "of the transfer; empty: it names the decision", Kind: "text", Value: q.get("description")},
	}}
}

// about finds the decision that an action is about.
func (v *visit) about() (bank, int64, error) {
	b, err := v.bank()
	if err != nil {
		return b, 0, err
	}
	no, err := v.number("no")
	return b, no, err
}

// unmatch takes a decision back.
func (v *visit) unmatch() error {
	b, no, err := v.about()
	if err != nil {
		return err
	}
	q := values(v.r.PostForm)
	d, err := v.config.Reconciler.Unmatch(v.r.Context(), reconcile.UnmatchSpec{
		Ledger: v.ledger, BankAccount: b.Name, Match: no, Reason: q.get("reason"), ReverseDifference: q.get("reverse") != "",
	}, v.session.Name)
	if err != nil {
		return v.showDecision(refusedStatus(err), b, no, q, func(main *decisionMain) *form { return main.Unmatch }, err)
	}
	return v.see(v.decisionPath(b, no, url.Values{"done": {doneWord(d, "undone")}}))
}

// approveDifference has the difference of a decision posted.
func (v *visit) approveDifference() error {
	b, no, err := v.about()
	if err != nil {
		return err
	}
	q := values(v.r.PostForm)
	spec := reconcile.ApproveSpec{Ledger: v.ledger, BankAccount: b.Name, Match: no, DifferenceSpec: reconcile.DifferenceSpec{
		Account: ledger.AccountID(q.get("account")), Description: q.get("description"),
	}}
	day, err := q.date("effective")
	if err == nil && !day.IsZero() {
		at := dayOf(day, b.Zone)
		spec.EffectiveAt = &at
	}
	var d *reconcile.Decision
	if err == nil {
		d, err = v.config.Reconciler.ApproveDifference(v.r.Context(), spec, v.session.Name)
	}
	if err != nil {
		return v.showDecision(refusedStatus(err), b, no, q, func(main *decisionMain) *form { return main.Approve }, ofForm(err, atFields))
	}
	return v.see(v.decisionPath(b, no, url.Values{"done": {doneWord(d, "posted")}}))
}
