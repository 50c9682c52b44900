package console

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/ledger"
)

const (
	refundRoute    = "GET /console/{ledger}/refund"
	refundsRoute   = "GET /console/{ledger}/refunds"
	askRefundRoute = "POST /console/{ledger}/refunds"
	requestRoute   = "GET /console/{ledger}/refunds/{no}"
	decideRoute    = "POST /console/{ledger}/refunds/{no}/decide"
	// requestsShown is how many requests a page of the list looks at.
	requestsShown = 100
)

// reasonNames are what people call the reasons of refunds.
var reasonNames = map[ledger.RefundReason]string{
	ledger.ReasonDuplicate: "paid twice", ledger.ReasonRequestedByCustomer: "the customer has asked for it", ledger.ReasonFraudSuspected: "suspected fraud",
	ledger.ReasonGoodsNotReceived: "goods not received", ledger.ReasonWrongAmount: "wrong amount", ledger.ReasonWrongRecipient: "wrong recipient",
	ledger.ReasonServiceFailure: "the service has failed", ledger.ReasonGoodwill: "goodwill", ledger.ReasonTechnicalError: "technical error",
	ledger.ReasonOther: "another reason: see the note",
}

func reasonName(r ledger.RefundReason) string {
	if name, ok := reasonNames[r]; ok {
		return name
	}
	return string(r)
}

// refundStates are the states of requests, in the order in which they can be chosen, and what people call them.
var refundStates = []struct {
	State support.State
	Name  string
}{
	{support.Waiting, "waiting for another person"}, {support.Ready, "about to be posted"}, {support.Posted, "posted"},
	{support.RefusedByBooks, "refused by the books"}, {support.Rejected, "rejected"}, {support.Withdrawn, "withdrawn"}, {support.Expired, "expired"},
}

func stateName(s support.State) string {
	for _, known := range refundStates {
		if known.State == s {
			return known.Name
		}
	}
	return string(s)
}

func (v *visit) refundPath(id ledger.TransferID, more url.Values) string {
	q := url.Values{"id": {string(id)}}
	for name, list := range more {
		q[name] = list
	}
	return v.path("refund", q)
}

func (v *visit) requestPath(number int64, query url.Values) string {
	return v.path("refunds/"+strconv.FormatInt(number, 10), query)
}

// requestRow is a request for a refund in a list.
type requestRow struct {
	Number                     int64
	Path, State                string
	Original, OriginalPath     string
	Amount, Reason, Ticket     string
	Maker, Approver, DecidedBy string
	At, DecidedAt, SettledAt   moment
	ExpiresAt                  moment
	Mine                       bool
	// Open is whether something still becomes of it, and Bad whether nothing came of it.
	Open, Bad bool
}

// isMe reports whether a name is the visitor's own, whichever way they have come.
func (v *visit) isMe(name string) bool { return support.SamePerson(name, v.session.Name) }

func (v *visit) requestRow(r *support.Refund) requestRow {
	row := requestRow{
		Number: r.Number, Path: v.requestPath(r.Number, nil), State: stateName(r.State), Original: shownID(r.Original), OriginalPath: v.storyPath(r.Original),
		Amount: inCurrency(r.Amount, r.Currency), Reason: reasonName(r.Reason), Ticket: r.Ticket, Maker: r.Maker, Approver: r.Approver(),
		At: v.instant(r.MadeAt), ExpiresAt: v.instant(r.ExpiresAt), Mine: v.isMe(r.Maker), Open: !r.State.Final(),
		Bad: r.State.Final() && r.State != support.Posted,
	}
	if r.Decision != nil {
		row.DecidedBy, row.DecidedAt = r.Decision.By, v.instant(r.Decision.At)
	}
	if r.SettledAt != nil {
		row.SettledAt = v.instant(*r.SettledAt)
	}
	return row
}

// refundMain is what the page of the form for a refund shows.
type refundMain struct {
	deskHead
	transferView
	Refunded, Left string
	// Closed is why nothing can be refunded; "" is that something can.
	Closed string
	// Form refunds the amount that its button names, and Part asks for another one. Whole is the way back to all that is left.
	Form, Part *form
	Whole      string
	// Needs says whether it needs another person, and why, and Alone whether the visitor is enough.
	Needs string
	Alone bool
	// Requests are those that there are already, and Waiting how many of them are not settled.
	Requests []requestRow
	Waiting  int
	// Last is how many are shown where there are more; 0 is that these are all.
	Last     int
	Warnings []string
	// Wrong is what came in between, under the title Title, First who did what first, and Again the way to a new form.
	Title, Wrong, Again, Story string
	First                      *requestRow
	SameKey                    bool
}

func (v *visit) refundForm() error {
	if v.config.Desk == nil {
		return errNotFound
	}
	q := values(v.r.URL.Query())
	id := ledger.TransferID(q.get("id"))
	if id == "" {
		return v.see(v.path("support", nil))
	}
	main, f, err := v.refundMain(id)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if f.Closed == nil {
		amount, err := partOf(q, f)
		if err != nil {
			amount, status = f.Refundable, http.StatusBadRequest
		}
		v.fillRefundForms(main, f, amount, f.Key, q)
		if err != nil && !main.Part.blame(err) {
			return err
		}
	}
	return v.showRefundForm(status, main)
}

// refundMain looks a transfer up, and all that there is about its refunds.
func (v *visit) refundMain(id ledger.TransferID) (*refundMain, *support.Form, error) {
	f, err := v.config.Desk.Form(v.r.Context(), v.actor(), v.ledger, id)
	if err != nil {
		return nil, nil, err
	}
	main := &refundMain{
		deskHead: v.deskHead("-"), transferView: v.transferView(f.Transfer), Story: v.storyPath(f.Transfer.ID), Refunded: inCurrency(f.Refunded, f.Currency),
		Left: inCurrency(f.Refundable, f.Currency), Warnings: f.Warnings,
	}
	if f.Closed != nil {
		main.Closed = f.Closed.Message
	}
	if len(f.Requests) == support.MaxShown {
		main.Last = support.MaxShown
	}
	for i := range f.Requests {
		row := v.requestRow(&f.Requests[i])
		main.Requests = append(main.Requests, row)
		if row.Open {
			main.Waiting++
		}
	}
	return main, f, nil
}

func (v *visit) showRefundForm(status int, main *refundMain) error {
	return v.render(status, page{Name: "refund", Title: "Refund of " + main.Shown, Section: findRoute, Within: true, Wide: true, Main: main})
}

// partOf reads which amount is to be refunded; "" is all that is left. It returns CodeInvalidArgument.
func partOf(q values, f *support.Form) (decimal.Decimal, error) {
	text := q.get("amount")
	if text == "" {
		return f.Refundable, nil
	}
	if err := q.check("amount"); err != nil {
		return decimal.Decimal{}, err
	}
	amount, err := ledger.ParseAmount(text, "amount")
	switch {
	case err != nil:
		return amount, err
	case !amount.Equal(amount.Truncate(f.Currency.Scale)):
		return amount, ledger.Invalid("amount", "%s has more decimals than %s, which has %d", text, f.Currency.Code, f.Currency.Scale)
	case amount.GreaterThan(f.Refundable):
		return amount, ledger.Invalid("amount", "only %s is left", inCurrency(f.Refundable, f.Currency))
	}
	return amount, nil
}

// fillRefundForms makes the form whose button says exactly what is refunded, and the question for another amount.
func (v *visit) fillRefundForms(main *refundMain, f *support.Form, amount decimal.Decimal, key string, q values) {
	id := string(f.Transfer.ID)
	reason := ledger.RefundReason(q.get("reason"))
	options := []option{{"", "choose one", reason == ""}}
	for _, r := range f.Reasons {
		options = append(options, option{string(r), reasonName(r), r == reason})
	}
	main.Form = &form{ID: "refund-", Action: v.path("refunds", nil), Button: "Refund " + inCurrency(amount, f.Currency), Fields: []field{
		{Name: "id", Kind: "hidden", Value: id}, {Name: "key", Kind: "hidden", Value: key},
		{Name: "amount", Kind: "hidden", Value: ledger.FormatAmount(amount, f.Currency.Scale)},
		{Name: "expected_refunded", Kind: "hidden", Value: ledger.FormatAmount(f.Refunded, f.Currency.Scale)},
		{Name: "reason", Label: "Reason", Kind: "choice", Options: options},
		{Name: "ticket", Label: "Ticket", Help: "what the case has elsewhere; empty is none", Kind: "text", Value: q.get("ticket")},
		{Name: "note", Label: "Note", Help: "for colleagues; customers do not see it. Required where the reason is another one", Kind: "area", Value: q.get("note")},
	}}
	part := q.get("amount")
	if amount.Equal(f.Refundable) && part == ledger.FormatAmount(amount, f.Currency.Scale) {
		part = ""
	}
	main.Part = &form{ID: "part-", Action: v.path("refund", nil), Button: "Go on with this amount", Fields: []field{
		{Name: "id", Kind: "hidden", Value: id}, {Name: "reason", Kind: "hidden", Value: string(reason)},
		{Name: "amount", Label: "Amount in " + string(f.Currency.Code), Help: "at most " + inCurrency(f.Refundable, f.Currency), Kind: "text", Value: part},
	}}
	if !amount.Equal(f.Refundable) {
		main.Whole = v.refundPath(f.Transfer.ID, onlyOf(q, "reason"))
	}
	needs := approvalOf(f, amount)
	main.Alone, main.Needs = needs == support.ApprovalNone, needs.String()
}

// onlyOf are some fields of a form, those that say something.
func onlyOf(q values, names ...string) url.Values {
	out := url.Values{}
	for _, name := range names {
		if value := q.get(name); value != "" {
			out.Set(name, value)
		}
	}
	return out
}

// approvalOf says beforehand whether a refund will need another person. The desk has the last word.
func approvalOf(f *support.Form, amount decimal.Decimal) support.Approval {
	switch {
	case f.Limit.Version == 0:
		return support.ApprovalNoLimit
	case amount.GreaterThan(f.Limit.Single):
		return support.ApprovalAboveSingle
	case f.Alone.Add(amount).GreaterThan(f.Limit.Daily):
		return support.ApprovalAboveDaily
	}
	return support.ApprovalNone
}

var keyShape = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// askRefund asks for a refund. However often its form is sent, it is one request.
func (v *visit) askRefund() error {
	if v.config.Desk == nil {
		return errNotFound
	}
	q := values(v.r.PostForm)
	key := q.get("key")
	if !keyShape.MatchString(key) {
		return errForeignForm
	}
	amount, err := ledger.ParseAmount(q.get("amount"), "amount")
	if err != nil {
		return errForeignForm
	}
	expected, err := ledger.ParseBalance(q.get("expected_refunded"), "expected_refunded")
	if err != nil {
		return errForeignForm
	}
	spec := support.RefundSpec{
		Ledger: v.ledger, Key: key, Transfer: ledger.TransferID(q.get("id")), Amount: amount, ExpectedRefunded: expected,
		Reason: ledger.RefundReason(q.get("reason")), Note: strings.ReplaceAll(q.get("note"), "\r\n", "\n"), Ticket: q.get("ticket"),
	}
	if spec.Reason == "" {
		err = ledger.Invalid("reason", "is required")
	}
	var made *support.Refund
	if err == nil {
		made, err = v.config.Desk.Request(v.r.Context(), v.actor(), spec)
	}
	if err != nil {
		return v.refuseRefund(q, &spec, err)
	}
	done := "asked"
	if made.Replayed {
		done = "before"
	}
	return v.see(v.requestPath(made.Number, url.Values{"done": {done}}))
}

// overtaken are the codes of a request that would have been right before somebody else did something.
var overtaken = []ledger.Code{
	ledger.CodeAlreadyExists, ledger.CodeRefundedChanged, ledger.CodeRefundExceedsRest, ledger.CodeAlreadyReversed, ledger.CodeWrongOrigin,
}

// refuseRefund says why no refund was asked for: at the field that is wrong, or what came in between, with everything as it is now.
func (v *visit) refuseRefund(q values, spec *support.RefundSpec, refused error) error {
	var known *ledger.Error
	if !errors.As(refused, &known) {
		return refused
	}
	code := known.Code
	invalid := code == ledger.CodeInvalidArgument || code == ledger.CodeAmountScale
	if !invalid && !slices.Contains(overtaken, code) {
		return refused
	}
	main, f, err := v.refundMain(spec.Transfer)
	if err != nil {
		return err
	}
	if invalid && f.Closed == nil && spec.ExpectedRefunded.Equal(f.Refunded) && !spec.Amount.GreaterThan(f.Refundable) {
		// Nothing was written under the key, so the form keeps it: sent again by another tab, it is still one request.
		v.fillRefundForms(main, f, spec.Amount, spec.Key, q)
		if code == ledger.CodeAmountScale { // The amount is one that people do not see in this form.
			refused = ledger.Invalid("", "%s", faultText(refused))
		}
		if !main.Form.blame(ofForm(refused, nil)) {
			return refused
		}
		return v.showRefundForm(http.StatusBadRequest, main)
	}
	main.Wrong, main.SameKey = faultText(refused), code == ledger.CodeAlreadyExists
	if f.Closed == nil {
		main.Again = v.refundPath(spec.Transfer, onlyOf(q, "reason"))
	}
	for i := range f.Requests { // The newest first: the one that came in between is the last that was posted.
		r := &f.Requests[i]
		if main.SameKey && r.Key == spec.Key || !main.SameKey && r.State == support.Posted {
			main.First = &main.Requests[i]
			break
		}
	}
	main.Title = refusedTitle(code, spec, f, main.First)
	return v.showRefundForm(http.StatusConflict, main)
}

// refusedTitle says what has happened to who asked for a refund in vain: not everybody came second.
func refusedTitle(code ledger.Code, spec *support.RefundSpec, f *support.Form, first *requestRow) string {
	switch same := spec.ExpectedRefunded.Equal(f.Refunded); {
	case code == ledger.CodeAlreadyExists:
		return "This form was sent before, with something else in it. This time nothing was done."
	case code == ledger.CodeWrongOrigin:
		return "This cannot be refunded. Nothing was done."
	case code == ledger.CodeAlreadyReversed:
		return "It was reversed first. Yours was not made."
	case same && spec.Amount.GreaterThan(f.Refundable):
		return "More than is left. Nothing was done."
	case same || spec.ExpectedRefunded.GreaterThan(f.Refunded):
		return "This was refused. Nothing was done."
	case first != nil && first.Mine:
		return "You came first yourself, by another form. This time nothing was done."
	}
	return "Somebody else came first. Yours was not made."
}
