package console

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/ledger"
)

const (
	findRoute  = "GET /console/{ledger}/support"
	storyRoute = "GET /console/{ledger}/transfer"
	// partiesShown is how many accounts of one side of a transfer are named.
	partiesShown = 5
)

// actor is who looks or acts, as the audit has it.
func (v *visit) actor() support.Actor {
	host, _, err := net.SplitHostPort(v.r.RemoteAddr)
	if err != nil {
		host = v.r.RemoteAddr
	}
	return support.Actor{Name: v.session.Name, Address: host}
}

// deskHead is what each page of support begins with.
type deskHead struct {
	Links []link
	// Zone is the one that times are in.
	Zone string
}

func (v *visit) deskHead(here string) deskHead {
	h := deskHead{Zone: v.location(values{}).String()}
	for _, l := range []struct{ title, route, below string }{
		{"Find", findRoute, "support"}, {"Refund requests", refundsRoute, "refunds"}, {"Limits", limitsRoute, "limits"}, {"Audit", auditRoute, "audit"},
	} {
		if v.may(l.route) {
			h.Links = append(h.Links, link{Title: l.title, Path: v.path(l.below, nil), Here: l.route == here})
		}
	}
	return h
}

// moment is an instant, for people and for programs.
type moment struct{ Text, Time string }

func (v *visit) instant(t time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	return moment{momentText(t, v.location(values{})), t.UTC().Format(time.RFC3339Nano)}
}

// inCurrency is an amount with its currency, for sentences and buttons.
func inCurrency(d decimal.Decimal, c ledger.Currency) string {
	if c.Code == "" {
		return d.String()
	}
	return amountOf(sheet.AmountCell(d, c.Scale)).Text + " " + string(c.Code)
}

// shownID is how people know a transfer: the payment API's numbers without the prefix that they have in the books.
func shownID(id ledger.TransferID) string {
	if number, ok := strings.CutPrefix(string(id), ledger.ReservedPrefix+"TXN-"); ok {
		return "TXN-" + number
	}
	return string(id)
}

func (v *visit) storyPath(id ledger.TransferID) string {
	return v.path("transfer", url.Values{"id": {string(id)}})
}

// party is an account that takes part in a transfer.
type party struct {
	Account ledger.AccountID
	// Path is that of its page; "" for who may not go there.
	Path string
}

// transferView is a transfer in short.
type transferView struct {
	ID            ledger.TransferID
	Shown, Path   string
	Kind          ledger.Kind
	At            moment
	Amount        string
	Payers        []party
	Payees        []party
	Others        int
	Refusal       string
	Caller        string
	Description   string
	Metadata      string
	ValueDate     moment
	Origin        string
	OriginPath    string
	Why           []string
	isRefused     bool
	amount        decimal.Decimal
	currency      ledger.Currency
	MoreThanShown bool
}

func (v *visit) transferView(t *ledger.Transfer) transferView {
	view := transferView{
		ID: t.ID, Shown: shownID(t.ID), Path: v.storyPath(t.ID), Kind: t.Kind(), At: v.instant(t.PostedAt), Caller: t.Caller, Description: t.Description,
		Metadata: string(t.Metadata),
	}
	if t.EffectiveAt != nil {
		view.ValueDate = v.instant(*t.EffectiveAt)
	}
	if origin := t.Origin(); origin != "" {
		view.Origin, view.OriginPath = shownID(origin), v.storyPath(origin)
	}
	if t.Refusal != nil {
		view.isRefused, view.Refusal = true, strings.ToLower(strings.ReplaceAll(string(t.Refusal.Reason), "_", " "))
		if t.Refusal.Account != "" {
			view.Refusal += " of " + string(t.Refusal.Account)
		}
	}
	view.Amount = v.sides(&view, t.Entries)
	return view
}

// sides names who pays and who is paid, and returns what the debits come to.
func (v *visit) sides(view *transferView, entries []ledger.Entry) string {
	var order []ledger.Currency
	sums := map[ledger.Currency]decimal.Decimal{}
	for _, e := range entries {
		side := &view.Payees
		if e.Direction == ledger.Debit {
			side = &view.Payers
			if !slices.Contains(order, e.Currency) {
				order = append(order, e.Currency)
			}
			sums[e.Currency] = sums[e.Currency].Add(e.Amount)
		}
		switch p := v.party(e.Account); {
		case slices.Contains(*side, p):
		case len(*side) == partiesShown:
			view.MoreThanShown = true
		default:
			*side = append(*side, p)
		}
	}
	parts := make([]string, len(order))
	for i, c := range order {
		parts[i] = inCurrency(sums[c], c)
	}
	if len(order) == 1 {
		view.amount, view.currency = sums[order[0]], order[0]
	}
	return strings.Join(parts, " and ")
}

func (v *visit) party(id ledger.AccountID) party {
	p := party{Account: id}
	if v.may(accountRoute) {
		p.Path = v.path("account", url.Values{"account": {string(id)}})
	}
	return p
}

// findMain is what the page to find a transfer shows.
type findMain struct {
	deskHead
	Form *form
	// Asked is whether something was looked for.
	Asked bool
	Hits  []transferView
	// Looked is how far the search has come: how many were looked at, and back to when.
	Looked int
	Of     string
	Back   moment
	More   string
	// Whole is whether there is nothing further back to look at.
	Whole bool
}

// findFields are the names of the fields of a search, in the order in which they are shown.
var findFields = []string{"text", "user", "account", "amount", "from", "to", "zone"}

func (v *visit) find() error {
	if v.config.Desk == nil {
		return errNotFound
	}
	q := values(v.r.URL.Query())
	main := &findMain{deskHead: v.deskHead(findRoute), Form: v.findTransferForm(q), Of: "transfers"}
	for _, name := range findFields {
		main.Asked = main.Asked || name != "zone" && q.get(name) != ""
	}
	status := http.StatusOK
	if main.Asked {
		if err := v.fillHits(main, q); err != nil {
			if !main.Form.blame(renamed(renamed(err, "since", "from"), "until", "to")) {
				return err
			}
			main.Asked = false
			status = statusOf(ledger.CodeOf(err))
		}
	}
	return v.render(status, page{Name: "support", Title: "Find a transfer", Section: findRoute, Wide: true, Main: main})
}

func (v *visit) findTransferForm(q values) *form {
	return &form{Action: v.path("support", nil), Button: "Find", Open: true, Fields: []field{
		{Name: "text", Label: "Id, number, key, reference or phone", Help: "whatever the customer has: an id, TXN-…, refund:…, an idempotency key, what stands in the metadata",
			Kind: "text", Value: q.get("text")},
		{Name: "user", Label: "Whose key it is", Help: "such as user:shimul: their idempotency key is found however old it is", Kind: "text", Value: q.get("user")},
		{Name: "account", Label: "Account", Help: "that paid or was paid, such as wallet:shimul", Kind: "text", Value: q.get("account")},
		{Name: "amount", Label: "Amount", Help: "such as 500.00", Kind: "text", Value: q.get("amount")},
		{Name: "from", Label: "From, inclusive", Help: "a day, such as 2026-01-01; without an account 31 days at most", Kind: "text", Value: q.get("from")},
		{Name: "to", Label: "To, exclusive", Help: "the next day: 2026-01-02; empty is until now", Kind: "text", Value: q.get("to")},
		{Name: "zone", Label: "Time zone", Help: "in which days begin", Kind: "text", Value: v.zone(q), Suggestions: zones},
	}}
}

// query reads what is looked for. It returns CodeInvalidArgument, with all that is wrong.
func (v *visit) query(q values) (support.Query, error) {
	query := support.Query{Ledger: v.ledger, Text: q.get("text"), User: q.get("user"), Account: ledger.AccountID(q.get("account"))}
	var wrong faults
	wrong.add(q.check(findFields...))
	if text := q.get("amount"); text != "" {
		amount, err := ledger.ParseAmount(text, "amount")
		wrong.add(err)
		query.Amount = &amount
	}
	period, err := report.ParsePeriod(q.get("from"), q.get("to"), v.zone(q))
	wrong.add(err)
	query.Since, query.Until = period.From, period.To
	query.Before, err = q.number("before")
	wrong.add(err)
	return query, wrong.err()
}

func (v *visit) fillHits(main *findMain, q values) error {
	query, err := v.query(q)
	if err != nil {
		return err
	}
	found, err := v.config.Desk.Find(v.r.Context(), v.actor(), query)
	if err != nil {
		return err
	}
	for _, hit := range found.Hits {
		view := v.transferView(hit.Transfer)
		view.Why = hit.Why
		main.Hits = append(main.Hits, view)
	}
	main.Looked, main.Back, main.Whole = found.Looked, v.instant(found.Back), found.Next == 0
	if query.Account != "" {
		main.Of = "entries of " + string(query.Account)
	}
	if found.Next != 0 {
		next := url.Values{"before": {strconv.FormatInt(found.Next, 10)}}
		for _, name := range findFields {
			if value := q.get(name); value != "" {
				next.Set(name, value)
			}
		}
		main.More = v.path("support", next)
	}
	return nil
}

// eventView is one thing that happened to a transfer.
type eventView struct {
	At     moment
	Source string
	Who    string
	What   string
	// Of is the transfer that it is about, where that is another one than the page's.
	Of, OfPath string
	Details    []support.Detail
}

// storyMain is what the page of a transfer shows.
type storyMain struct {
	deskHead
	transferView
	// Known is whether something was decided under the id.
	Known bool
	State string
	// Refunded and Left are parts of the amount; "" where the transfer is none of which anything can go back.
	Refunded, Left string
	Events         []eventView
	Cut            []string
	Missing        []support.Missing
	// Refund is the address of the form for a refund; "" where there is nothing to refund, or for who may not.
	Refund, RefundWhat string
	Warnings           []string
}

func (v *visit) story() error {
	if v.config.Desk == nil {
		return errNotFound
	}
	q := values(v.r.URL.Query())
	id := ledger.TransferID(q.get("id"))
	if id == "" {
		return v.see(v.path("support", nil))
	}
	s, err := v.config.Desk.Story(v.r.Context(), v.actor(), v.ledger, id)
	if err != nil {
		return err
	}
	id = s.ID // It may be written as the customer has it.
	main := &storyMain{
		deskHead: v.deskHead("-"), transferView: transferView{ID: id, Shown: shownID(id)}, Cut: s.Cut, Missing: s.Missing, Warnings: s.Warnings,
	}
	if s.Transfer != nil {
		main.Known, main.transferView = true, v.transferView(s.Transfer)
		v.fillProgress(main, s)
	}
	for i := range s.Items {
		main.Events = append(main.Events, v.eventView(id, &s.Items[i]))
	}
	return v.render(http.StatusOK, page{Name: "transfer", Title: "Transfer " + main.Shown, Section: findRoute, Within: true, Wide: true, Main: main})
}

// fillProgress says what has become of a transfer.
func (v *visit) fillProgress(main *storyMain, s *support.Story) {
	p := s.Progress
	main.State = "posted"
	switch {
	case main.isRefused:
		main.State = "refused"
	case p.Reversed:
		main.State = "reversed: everything has gone back"
	case p.Hold != "":
		main.State = "hold, " + string(p.Hold)
	case p.Refundable.IsPositive() && p.Refunded.IsPositive():
		main.State = "refunded in part"
	case p.Refunded.IsPositive():
		main.State = "refunded in full"
	}
	kind := s.Transfer.Kind()
	if main.isRefused || !kind.Moves() || kind.GoesBack() || p.Currency.Code == "" {
		return
	}
	main.Refunded, main.Left = inCurrency(p.Refunded, p.Currency), inCurrency(p.Refundable, p.Currency)
	if p.Refundable.IsPositive() && !p.Reversed && v.may(refundRoute) {
		main.Refund, main.RefundWhat = v.refundPath(main.ID, nil), "Refund of up to "+main.Left
	}
}

func (v *visit) eventView(of ledger.TransferID, i *support.Item) eventView {
	e := eventView{At: v.instant(i.At), Source: i.Source, Who: i.Who, What: i.What, Details: i.Details}
	if i.Transfer != "" && i.Transfer != of {
		e.Of, e.OfPath = shownID(i.Transfer), v.storyPath(i.Transfer)
	}
	return e
}
