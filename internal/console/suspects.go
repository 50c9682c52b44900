package console

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/internal/suspect"
	"github.com/khata-ledger/khata/ledger"
)

const (
	suspectsRoute  = "GET /console/{ledger}/suspects"
	suspectRoute   = "GET /console/{ledger}/suspects/{no}"
	dismissRoute   = "POST /console/{ledger}/suspects/{no}/dismiss"
	undismissRoute = "POST /console/{ledger}/suspects/{no}/undismiss"
	// suspectsShown is how many groups a page lists.
	suspectsShown = 50
)

// readSuspects has something of suspects looked up, once it is written down who looks.
func (v *visit) readSuspects(action string, object support.Object, detail map[string]string, read func() error) error {
	return v.config.Desk.Audit().Read(v.r.Context(), support.Event{Ledger: v.ledger, Actor: v.actor(), Action: action, Object: object, Detail: detail}, read)
}

// suspectRow is a group in a list.
type suspectRow struct {
	No            int64
	Path          string
	Level, State  string
	Score         int
	Amount        string
	Payers        []party
	Payees        []party
	MoreThanShown bool
	Count         int
	First, Last   moment
	Reasons       []string
	Open, High    bool
}

func (v *visit) suspectPath(no int64, query url.Values) string {
	return v.path("suspects/"+strconv.FormatInt(no, 10), query)
}

func (v *visit) suspectRow(g *suspect.Group) suspectRow {
	row := suspectRow{
		No: g.No, Path: v.suspectPath(g.No, nil), Level: g.Level.String(), State: g.State.String(), Score: g.Score, Count: len(g.Members), Reasons: g.Reasons,
		Open: g.State == suspect.Open, High: g.Level == suspect.High,
	}
	if len(g.Members) > 0 { // All of them move the same.
		t := v.transferView(g.Members[0].Transfer)
		row.Amount, row.Payers, row.Payees, row.MoreThanShown = t.Amount, t.Payers, t.Payees, t.MoreThanShown
		row.First, row.Last = t.At, v.instant(g.Members[len(g.Members)-1].PostedAt)
	}
	return row
}

// suspectsMain is what the list of suspects shows.
type suspectsMain struct {
	Find *form
	Rows []suspectRow
	More string
	Zone string
}

func (v *visit) suspects() error {
	if !v.served(suspectsRoute) {
		return errNotFound
	}
	q := values(v.r.URL.Query())
	main := &suspectsMain{Find: v.findSuspectsForm(q), Zone: v.location(values{}).String()}
	status := http.StatusOK
	if err := v.fillSuspects(main, q); err != nil {
		if !main.Find.blame(err) {
			return err
		}
		status = statusOf(ledger.CodeOf(err))
	}
	return v.render(status, page{Name: "suspects", Title: "Suspects", Section: suspectsRoute, Wide: true, Main: main})
}

func (v *visit) findSuspectsForm(q values) *form {
	state, level := q.get("state"), q.get("level")
	states := []option{{"", "open", state == ""}, {"dismissed", "dismissed", state == "dismissed"}, {"refunded", "refunded", state == "refunded"},
		{"all", "all", state == "all"}}
	levels := []option{{"", "low and higher", level == ""}, {"medium", "medium and higher", level == "medium"}, {"high", "high", level == "high"}}
	return &form{Action: v.path("suspects", nil), Button: "Show", Open: true, Fields: []field{
		{Name: "state", Label: "Those that are", Kind: "choice", Options: states}, {Name: "level", Label: "Level", Kind: "choice", Options: levels},
		{Name: "account", Label: "Account", Help: "that takes part; empty is any", Kind: "text", Value: q.get("account")},
		{Name: "from", Label: "From, inclusive", Help: "a day, such as 2026-01-01", Kind: "text", Value: q.get("from")},
		{Name: "to", Label: "To, exclusive", Help: "the next day: 2026-01-02", Kind: "text", Value: q.get("to")},
	}}
}

// suspectFilter reads which groups are asked for. It returns CodeInvalidArgument, with all that is wrong.
func (v *visit) suspectFilter(q values) (suspect.Filter, error) {
	filter := suspect.Filter{Account: ledger.AccountID(q.get("account")), Limit: suspectsShown}
	var wrong faults
	wrong.add(q.check("state", "level", "account", "from", "to"))
	switch state := q.get("state"); state {
	case "":
	case "all":
		filter.States = suspect.States()
	default:
		for _, s := range suspect.States() {
			if s.String() == state {
				filter.States = []suspect.State{s}
			}
		}
		if filter.States == nil {
			wrong.add(ledger.Invalid("state", "%.40q is no state of a suspect", state))
		}
	}
	if level := q.get("level"); level != "" {
		for _, l := range suspect.Levels() {
			if l.String() == level {
				filter.AtLeast = l
			}
		}
		if filter.AtLeast == 0 {
			wrong.add(ledger.Invalid("level", "%.40q is no level", level))
		}
	}
	if filter.Account != "" {
		wrong.add(filter.Account.ValidateFormat("account"))
	}
	period, err := report.ParsePeriod(q.get("from"), q.get("to"), v.defaultZone())
	wrong.add(err)
	filter.Since, filter.Until = period.From, period.To
	no, err := q.number("before_no")
	wrong.add(err)
	at, err := q.instant("before")
	wrong.add(err)
	if !at.IsZero() {
		filter.After = &suspect.Place{At: at, No: no}
	}
	return filter, wrong.err()
}

// instant reads a moment as the next page of a list has it; "" is none. It returns CodeInvalidArgument.
func (q values) instant(name string) (time.Time, error) {
	text := q.get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() < 1 || at.Year() > 9999 {
		return time.Time{}, ledger.Invalid(name, "%.40q is no time", text)
	}
	return at.UTC(), nil
}

func (v *visit) fillSuspects(main *suspectsMain, q values) error {
	filter, err := v.suspectFilter(q)
	if err != nil {
		return err
	}
	detail := map[string]string{}
	for name, list := range onlyOf(q, "state", "level", "account", "from", "to") {
		detail[name] = list[0]
	}
	var found suspect.Page
	err = v.readSuspects("suspect.list", support.Object{Kind: "suspects"}, detail, func() (err error) {
		found, err = v.config.Suspects.Suspects(v.r.Context(), v.ledger, filter)
		return err
	})
	if err != nil {
		return err
	}
	for _, g := range found.Groups {
		main.Rows = append(main.Rows, v.suspectRow(g))
	}
	if found.Next != nil {
		next := onlyOf(q, "state", "level", "account", "from", "to")
		next.Set("before", found.Next.At.UTC().Format(time.RFC3339Nano))
		next.Set("before_no", strconv.FormatInt(found.Next.No, 10))
		main.More = v.path("suspects", next)
	}
	return nil
}

// memberView is a transfer of a group.
type memberView struct {
	transferView
	Title, State   string
	Refunded, Left string
	// Refund is the way to refund it; "" where there is nothing to refund, or for who may not.
	Refund string
	// Paired says with which other one it looks most like one payment.
	Paired   string
	WentBack bool
	// Last is whether it is the only one that stands: then it is the payment that was meant, and there is no way to refund it from here.
	Last bool
}

// saidView is what somebody has said of a group.
type saidView struct {
	What, By, Reason string
	At               moment
	Members          int
}

// suspectMain is what the page of a group shows.
type suspectMain struct {
	suspectRow
	Zone      string
	Members   []memberView
	Decisions []saidView
	// Refund is the way to refund the later one of the two that look most like one payment, by its place in the list.
	Refund, RefundWhat string
	Dismiss, Undismiss *form
	Said, Wrong        string
	Conflict           bool
	Grown              bool
	All                string
}

func (v *visit) suspect() error {
	no, err := v.suspectNo()
	if err != nil {
		return err
	}
	return v.showSuspect(http.StatusOK, no, values{}, nil, nil)
}

func (v *visit) suspectNo() (int64, error) {
	if !v.served(suspectsRoute) {
		return 0, errNotFound
	}
	return v.number("no")
}

// showSuspect shows a group as it is now. The form that which gives was refused, if there is one.
func (v *visit) showSuspect(status int, no int64, q values, which func(*suspectMain) *form, refused error) error {
	var g *suspect.Group
	err := v.readSuspects("suspect.read", support.Object{Kind: "suspect", ID: strconv.FormatInt(no, 10)}, nil, func() (err error) {
		g, err = v.config.Suspects.Suspect(v.r.Context(), v.ledger, no)
		return err
	})
	if isAbsent(err) {
		return errorPage{Status: http.StatusNotFound, Title: "There is no such suspect", Text: "Ledger " + string(v.ledger) + " has none of that number."}
	}
	if err != nil {
		return err
	}
	main := &suspectMain{
		suspectRow: v.suspectRow(g), Zone: v.location(values{}).String(), Said: v.r.URL.Query().Get("done"), All: v.path("suspects", nil),
	}
	v.fillMembers(main, g)
	for _, d := range g.Decisions {
		said := saidView{What: "dismissed", By: d.By, Reason: d.Reason, At: v.instant(d.At), Members: d.Members}
		if !d.Dismissed {
			said.What = "dismissal taken back"
		}
		main.Decisions = append(main.Decisions, said)
	}
	main.Grown = g.State == suspect.Open && len(g.Decisions) > 0 && g.Decisions[len(g.Decisions)-1].Dismissed
	v.fillSuspectForms(main, g, q)
	var first firstError
	switch {
	case refused == nil:
	case errors.As(refused, &first):
		main.Conflict, main.Wrong = true, first.Error()
	case namesField(refused, "members"):
		main.Wrong = "The group has got another payment since you have looked at it. Nothing was decided."
	case status == http.StatusConflict:
		main.Wrong = ledgerMessage(refused)
	default:
		if f := which(main); f == nil || !f.blame(refused) {
			return refused
		}
	}
	return v.render(status, page{Name: "suspect", Title: "Suspect " + strconv.FormatInt(no, 10), Section: suspectsRoute, Within: true, Wide: true, Main: main})
}

func (v *visit) fillMembers(main *suspectMain, g *suspect.Group) {
	reason := url.Values{"reason": {string(ledger.ReasonDuplicate)}}
	later := max(g.Pair[0], g.Pair[1])
	standing := 0
	for _, m := range g.Members {
		if !m.WentBack {
			standing++
		}
	}
	for i, m := range g.Members {
		view := memberView{
			transferView: v.transferView(m.Transfer), WentBack: m.WentBack, Last: standing == 1 && !m.WentBack, State: "stands", Title: "Payment " + strconv.Itoa(i+1),
		}
		view.At.Text = fractionText(m.PostedAt, v.location(values{}))
		for k, of := range g.Pair {
			if i == of && len(g.Members) > 2 {
				view.Paired = "most like payment " + strconv.Itoa(g.Pair[1-k]+1)
			}
		}
		p := m.Progress
		switch {
		case p.Reversed:
			view.State = "reversed"
		case m.WentBack:
			view.State = "refunded in full"
		case p.Refunded.IsPositive():
			view.State = "refunded in part"
		}
		if p.Currency.Code != "" {
			view.Refunded, view.Left = inCurrency(p.Refunded, p.Currency), inCurrency(p.Refundable, p.Currency)
		}
		if !m.WentBack && !view.Last && p.Refundable.IsPositive() && p.Currency.Code != "" && v.may(refundRoute) {
			view.Refund = v.refundPath(m.ID, reason)
			if i == later && g.State == suspect.Open {
				main.Refund, main.RefundWhat = view.Refund, "Refund payment "+strconv.Itoa(i+1)+": "+view.Left
			}
		}
		main.Members = append(main.Members, view)
	}
}

// fractionText is a moment with its fraction of a second: payments of one press are less than that apart.
func fractionText(t time.Time, zone *time.Location) string {
	return t.In(zone).Format(time.DateTime + ".000")
}

func (v *visit) fillSuspectForms(main *suspectMain, g *suspect.Group, q values) {
	fields := func(label, help string) []field {
		return []field{
			{Name: "request", Kind: "hidden", Value: newRequest()}, {Name: "members", Kind: "hidden", Value: strconv.Itoa(len(g.Members))},
			{Name: "reason", Label: label, Help: help, Kind: "text", Value: q.get("reason")},
		}
	}
	if g.State == suspect.Open && v.may(dismissRoute) {
		main.Dismiss = &form{ID: "dismiss-", Action: v.suspectPath(g.No, nil) + "/dismiss", Button: "Dismiss: these " + strconv.Itoa(len(g.Members)) +
			" are no double charge", Fields: fields("Why", "such as: two tickets")}
	}
	if g.State == suspect.Dismissed && v.may(undismissRoute) {
		main.Undismiss = &form{ID: "undo-", Action: v.suspectPath(g.No, nil) + "/undismiss", Button: "Take the dismissal back",
			Fields: fields("Why", "why it may be one after all")}
	}
}

// firstError says that somebody else was first, and who.
type firstError struct{ text string }

func (e firstError) Error() string { return e.text }

func (v *visit) dismiss() error {
	return v.decideSuspect(v.dismissing, "dismissed", func(main *suspectMain) *form { return main.Dismiss })
}

func (v *visit) undismiss() error {
	return v.decideSuspect(v.undismissing, "undismissed", func(main *suspectMain) *form { return main.Undismiss })
}

func (v *visit) dismissing(spec suspect.DecisionSpec) (*suspect.Decision, error) {
	_, made, err := v.config.Suspects.Dismiss(v.r.Context(), spec, v.session.Name)
	return made, err
}

func (v *visit) undismissing(spec suspect.DecisionSpec) (*suspect.Decision, error) {
	_, made, err := v.config.Suspects.Undismiss(v.r.Context(), spec, v.session.Name)
	return made, err
}

// decideSuspect dismisses a group, or takes that back.
func (v *visit) decideSuspect(decide func(suspect.DecisionSpec) (*suspect.Decision, error), done string, which func(*suspectMain) *form) error {
	no, err := v.suspectNo()
	if err != nil {
		return err
	}
	q := values(v.r.PostForm)
	request, err := q.request()
	if err != nil {
		return err
	}
	members, err := q.number("members")
	if err != nil || members > 1000 {
		return errForeignForm
	}
	made, err := decide(suspect.DecisionSpec{Ledger: v.ledger, No: no, Members: int(members), Reason: q.get("reason"), Request: request})
	switch {
	case namesField(err, "members"):
		return v.showSuspect(http.StatusConflict, no, q, which, err)
	case err != nil:
		return v.showSuspect(refusedStatus(err), no, q, which, ofForm(err, nil))
	case made != nil && made.Replayed && made.Request != request && !v.isMe(made.By):
		what := "has dismissed it"
		if !made.Dismissed {
			what = "has taken its dismissal back"
		}
		first := firstError{made.By + " " + what + " at " + v.instant(made.At).Text + ": " + made.Reason}
		return v.showSuspect(http.StatusConflict, no, values{}, which, first)
	case made == nil || made.Replayed:
		done = "before"
	}
	return v.see(v.suspectPath(no, url.Values{"done": {done}}))
}
