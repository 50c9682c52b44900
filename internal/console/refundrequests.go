package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/ledger"
)

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
		{Name: "id", Label: "Of transfer", Help: "its id or number; empty is any", Kind: "text", Value: q.get("id")},
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
	// Payers and Payees are those of the transfer, Left is what can still be refunded of it now, and Gone what was refunded; "" where it is not known.
	Payers, Payees []party
	MoreThanShown  bool
	Gone, Left     string
	Warnings       []string
	// Obstacle is why it would be refused if it were approved now.
	Obstacle string
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
	main.Warnings, main.Obstacle = r.Warnings, r.Obstacle
	if p := r.Payment; p != nil {
		t := v.transferView(p.Transfer)
		main.Payers, main.Payees, main.MoreThanShown = t.Payers, t.Payees, t.MoreThanShown
		if c := p.Progress.Currency; c.Code != "" {
			main.Gone, main.Left = inCurrency(p.Progress.Refunded, c), inCurrency(p.Progress.Refundable, c)
		}
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
