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

	"github.com/khata-ledger/khata/internal/auth"
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

var prefixOfWay = regexp.MustCompile(`^(?i:oidc|local|user):`)

// isMe reports whether a name is the visitor's own, whichever way they have come, as the desk sees it. The desk has the last word.
func (v *visit) isMe(name string) bool {
	return strings.EqualFold(prefixOfWay.ReplaceAllString(name, ""), prefixOfWay.ReplaceAllString(v.session.Name, ""))
}

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
	// Wrong is what came in between, First who did what first, and Again the way to a new form.
	Wrong, Again, Story string
	First               *requestRow
	SameKey             bool
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
		deskHead: v.deskHead("-"), transferView: v.transferView(f.Transfer), Story: v.storyPath(id), Refunded: inCurrency(f.Refunded, f.Currency),
		Left: inCurrency(f.Refundable, f.Currency),
	}
	if f.Closed != nil {
		main.Closed = f.Closed.Message
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
		return amount, ledger.Invalid("amount", "%s has more decimals than %s", text, f.Currency.Code)
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
		if !main.Form.blame(ofForm(refused, map[ledger.Code]string{ledger.CodeAmountScale: ""})) {
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
	return v.showRefundForm(http.StatusConflict, main)
}

// refundsMain is what the list of requests shows.
type refundsMain struct {
	deskHead
	Find *form
	Rows []requestRow
	// From and To are the numbers that this page has looked at.
	From, To int64
	More     string
	Of       string
	State    string
}

func (v *visit) refunds() error {
	if v.config.Desk == nil {
		return errNotFound
	}
	q := values(v.r.URL.Query())
	main := &refundsMain{deskHead: v.deskHead(refundsRoute), Find: v.findRequestsForm(q), State: q.get("state")}
	status := http.StatusOK
	if err := v.fillRequests(main, q); err != nil {
		if !main.Find.blame(renamed(err, "transfer_id", "id")) {
			return err
		}
		status = statusOf(ledger.CodeOf(err))
	}
	return v.render(status, page{Name: "refunds", Title: "Refund requests", Section: findRoute, Within: true, Wide: true, Main: main})
}

func (v *visit) findRequestsForm(q values) *form {
	state := q.get("state")
	options := []option{{"", "all", state == ""}}
	for _, s := range refundStates {
		options = append(options, option{string(s.State), s.Name, string(s.State) == state})
	}
	return &form{Action: v.path("refunds", nil), Button: "Show", Open: true, Fields: []field{
		{Name: "state", Label: "Those that are", Kind: "choice", Options: options},
		{Name: "id", Label: "Of transfer", Help: "its id; empty is any", Kind: "text", Value: q.get("id")},
	}}
}

func (v *visit) fillRequests(main *refundsMain, q values) error {
	state := support.State(q.get("state"))
	if state != "" && !slices.ContainsFunc(main.Find.Fields[0].Options, func(o option) bool { return o.Value == string(state) }) {
		return ledger.Invalid("state", "%.40q is no state of a request", string(state))
	}
	if err := q.check("id"); err != nil {
		return err
	}
	before, err := q.number("before")
	if err != nil {
		return err
	}
	list, err := v.config.Desk.Refunds(v.r.Context(), v.actor(), support.RefundFilter{
		Ledger: v.ledger, Transfer: ledger.TransferID(q.get("id")), Before: before, Limit: requestsShown,
	})
	if err != nil {
		return err
	}
	for i := range list {
		if state == "" || list[i].State == state {
			main.Rows = append(main.Rows, v.requestRow(&list[i]))
		}
	}
	if n := len(list); n > 0 {
		main.From, main.To = list[n-1].Number, list[0].Number
		if n == requestsShown {
			next := onlyOf(q, "state", "id")
			next.Set("before", strconv.FormatInt(main.From, 10))
			main.More = v.path("refunds", next)
		}
	}
	return nil
}

// requestMain is what the page of a request shows.
type requestMain struct {
	deskHead
	requestRow
	Note, Approval, SHA256 string
	Key, Limit             string
	Expected               string
	Verdict, DecisionNote  string
	Code, Message          string
	Transfer, TransferPath string
	Is                     support.State
	// Approve, Reject and Withdraw are for those who may: others than the maker, and the maker.
	Approve, Reject, Withdraw *form
	// Who says who may decide, to those who may not.
	Who string
	// Said is what has just been done, Wrong what was refused, and Conflict whether somebody else was first.
	Said, Wrong string
	Conflict    bool
	Again       string
}

func (v *visit) refundRequest() error {
	if v.config.Desk == nil {
		return errNotFound
	}
	no, err := v.number("no")
	if err != nil {
		return err
	}
	return v.showRequest(http.StatusOK, no, values{}, nil)
}

// showRequest shows a request as it is now, and what was refused about it.
func (v *visit) showRequest(status int, no int64, q values, refused error) error {
	r, err := v.config.Desk.Refund(v.r.Context(), v.actor(), v.ledger, no)
	if err != nil {
		if ledger.CodeOf(err) == ledger.CodeTransferNotFound {
			return errorPage{Status: http.StatusNotFound, Title: "There is no such request", Text: "Ledger " + string(v.ledger) + " has no request of that number."}
		}
		return err
	}
	main := &requestMain{
		deskHead: v.deskHead("-"), requestRow: v.requestRow(r), Note: r.Note, Approval: r.Approval.String(), SHA256: r.SHA256, Key: r.Key,
		Expected: inCurrency(r.ExpectedRefunded, r.Currency), Code: string(r.Code), Message: r.Message, Is: r.State, Said: v.r.URL.Query().Get("done"),
	}
	if r.LimitVersion > 0 {
		main.Limit = "version " + strconv.Itoa(r.LimitVersion)
	}
	if d := r.Decision; d != nil {
		main.Verdict = map[support.Verdict]string{support.Approve: "Approved by", support.Reject: "Rejected by", support.Withdraw: "Withdrawn by"}[d.Verdict]
		main.DecisionNote = d.Note
	}
	if r.Transfer != "" {
		main.Transfer, main.TransferPath = shownID(r.Transfer), v.storyPath(r.Transfer)
	}
	if main.Bad && v.may(refundRoute) {
		main.Again = v.refundPath(r.Original, url.Values{"reason": {string(r.Reason)}})
	}
	v.fillDecisions(main, r, q)
	switch code := ledger.CodeOf(refused); {
	case refused == nil:
	case code == ledger.CodeAlreadyExists:
		main.Conflict, main.Wrong = true, ledgerMessage(refused)
	case main.Reject != nil && namesField(refused, "note") && main.Reject.blame(refused):
	case status == http.StatusConflict || code == ledger.CodePermissionDenied || code == ledger.CodeInvalidArgument:
		main.Wrong = faultText(refused)
	default:
		return refused
	}
	return v.render(status, page{Name: "refundrequest", Title: "Refund request " + strconv.FormatInt(no, 10), Section: findRoute, Within: true, Wide: true,
		Main: main})
}

// faultText is what an error of the ledger's says, or what it says of the fields that it is about.
func faultText(err error) string {
	var known *ledger.Error
	if !errors.As(err, &known) || len(known.Violations) == 0 {
		return ledgerMessage(err)
	}
	parts := make([]string, len(known.Violations))
	for i, v := range known.Violations {
		parts[i] = v.Message
	}
	return strings.Join(parts, "; ")
}

// namesField reports whether an error is about a field.
func namesField(err error, field string) bool {
	var known *ledger.Error
	return errors.As(err, &known) && slices.ContainsFunc(known.Violations, func(v ledger.Violation) bool { return v.Field == field })
}

// fillDecisions makes the forms to decide about a request that waits: whoever has made it can only take it back.
func (v *visit) fillDecisions(main *requestMain, r *support.Refund, q values) {
	if r.State != support.Waiting {
		return
	}
	rule, _ := auth.RuleOf(decideRoute)
	roles := strings.Join(rule.Roles.Names(), " or ")
	decide := func(id, button string, verdict support.Verdict, fields ...field) *form {
		return &form{ID: id, Action: v.requestPath(r.Number, nil) + "/decide", Button: button, Fields: append([]field{
			{Name: "verdict", Kind: "hidden", Value: string(verdict)}, {Name: "sha256", Kind: "hidden", Value: r.SHA256},
		}, fields...)}
	}
	amount := inCurrency(r.Amount, r.Currency)
	note := ""
	if q.get("verdict") == string(support.Reject) {
		note = q.get("note")
	}
	switch {
	case main.Mine:
		main.Who = "It is yours. Another person than you approves or rejects it: anybody with the role " + roles + " in ledger " + string(v.ledger) + "."
		if v.may(decideRoute) {
			main.Withdraw = decide("withdraw-", "Withdraw the request for "+amount, support.Withdraw)
		}
	case v.may(decideRoute):
		main.Approve = decide("approve-", "Approve: refund "+amount, support.Approve)
		main.Reject = decide("reject-", "Reject the refund of "+amount, support.Reject,
			field{Name: "note", Label: "Why", Help: "required; its maker reads it", Kind: "text", Value: note})
	default:
		main.Who = "It waits for somebody with the role " + roles + " in ledger " + string(v.ledger) + ", other than its maker."
	}
}

// decideRefund approves, rejects or withdraws a request, as it was seen.
func (v *visit) decideRefund() error {
	if v.config.Desk == nil {
		return errNotFound
	}
	no, err := v.number("no")
	if err != nil {
		return err
	}
	q := values(v.r.PostForm)
	verdict := support.Verdict(q.get("verdict"))
	r, err := v.config.Desk.Decide(v.r.Context(), v.actor(), support.DecisionSpec{
		Ledger: v.ledger, Number: no, SHA256: q.get("sha256"), Verdict: verdict, Note: q.get("note"),
	})
	if err != nil {
		return v.refuseDecide(no, q, err)
	}
	done := "decided"
	if r.Replayed {
		done = "decided-before"
	}
	return v.see(v.requestPath(no, url.Values{"done": {done}}))
}

func (v *visit) refuseDecide(no int64, q values, err error) error {
	switch code := ledger.CodeOf(err); {
	case code == ledger.CodeInvalidArgument && (namesField(err, "sha256") || namesField(err, "number")):
		// It is not as it was seen, or nobody can decide about it any more.
		return v.showRequest(http.StatusConflict, no, q, err)
	case code == ledger.CodeInvalidArgument, code == ledger.CodePermissionDenied, code == ledger.CodeAlreadyExists:
		return v.showRequest(statusOf(code), no, q, err)
	case code == ledger.CodeTransferNotFound:
		return v.showRequest(http.StatusNotFound, no, q, nil)
	}
	return err
}
