package console

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/ledger"
)

const (
	auditRoute = "GET /console/{ledger}/audit"
	// auditShown is how many events a page lists.
	auditShown = 100
)

// auditRow is an event of the audit.
type auditRow struct {
	Number               int64
	At                   moment
	Actor, Address       string
	Action, Kind, Object string
	ObjectPath           string
	Outcome              string
	Refused              bool
	Details              []support.Detail
}

// auditMain is what the page of the audit shows.
type auditMain struct {
	deskHead
	Find *form
	Rows []auditRow
	More string
}

var auditFields = []string{"actor", "action", "kind", "object", "from", "to"}

// auditActions and auditKinds are proposed where one looks for them; there may be others.
var (
	auditActions = []string{
		support.ActionRefundRequest, support.ActionRefundApprove, support.ActionRefundReject, support.ActionRefundWithdraw, support.ActionRefundPost,
		support.ActionRefundForm, support.ActionRefundRead, support.ActionLimitSet, support.ActionFind, support.ActionStory, support.ActionReview,
		support.ActionAuditList, "suspect.list", "suspect.read", "suspect.dismiss", "suspect.undismiss", "account.change", "period.change", "statement.issue",
		"bank.create", "bank.set", "bank.profile", "bank.import", "reconcile.match", "reconcile.confirm", "reconcile.ignore", "reconcile.undo",
		"reconcile.difference",
	}
	auditKinds = []string{support.ObjectTransfer, "refund", "limit", "suspect", "account", "period", "statement", "bank_account", "bank_profile"}
)

func (v *visit) audit() error {
	if v.config.Desk == nil {
		return errNotFound
	}
	q := values(v.r.URL.Query())
	main := &auditMain{deskHead: v.deskHead(auditRoute), Find: &form{Action: v.path("audit", nil), Button: "Show", Open: true, Fields: []field{
		{Name: "actor", Label: "Who", Help: "a name, written just so", Kind: "text", Value: q.get("actor")},
		{Name: "action", Label: "What", Help: "such as refund.approve", Kind: "text", Value: q.get("action"), Suggestions: auditActions},
		{Name: "kind", Label: "To what", Help: "its kind; empty with an id: a transfer", Kind: "text", Value: q.get("kind"), Suggestions: auditKinds},
		{Name: "object", Label: "Its id", Help: "such as that of a transfer, or the number of a payment", Kind: "text", Value: q.get("object")},
		{Name: "from", Label: "From, inclusive", Help: "a day, such as 2026-01-01", Kind: "text", Value: q.get("from")},
		{Name: "to", Label: "To, exclusive", Help: "the next day: 2026-01-02", Kind: "text", Value: q.get("to")},
	}}}
	status := http.StatusOK
	if err := v.fillAudit(main, q); err != nil {
		if !main.Find.blame(err) {
			return err
		}
		status = statusOf(ledger.CodeOf(err))
	}
	return v.render(status, page{Name: "audit", Title: "Audit", Section: findRoute, Within: true, Wide: true, Main: main})
}

// auditFilter reads which events are asked for. It returns CodeInvalidArgument, with all that is wrong.
func (v *visit) auditFilter(q values) (support.AuditFilter, error) {
	filter := support.AuditFilter{
		Ledger: v.ledger, Actor: q.get("actor"), Action: q.get("action"), Object: support.Object{Kind: q.get("kind"), ID: q.get("object")}, Limit: auditShown,
	}
	if filter.Object.ID != "" && filter.Object.Kind == "" {
		filter.Object.Kind = support.ObjectTransfer
	}
	var wrong faults
	wrong.add(q.check(auditFields...))
	if filter.Object.Kind != "" && filter.Object.ID == "" {
		wrong.add(ledger.Invalid("object", "is required with a kind"))
	}
	period, err := report.ParsePeriod(q.get("from"), q.get("to"), v.defaultZone())
	wrong.add(err)
	filter.Since, filter.Until = period.From, period.To
	at, err := q.instant("before")
	wrong.add(err)
	no, err := q.number("before_no")
	wrong.add(err)
	if !at.IsZero() {
		filter.Before = &support.AuditCursor{At: at, Number: no}
	}
	return filter, wrong.err()
}

func (v *visit) fillAudit(main *auditMain, q values) error {
	filter, err := v.auditFilter(q)
	if err != nil {
		return err
	}
	found, err := v.config.Desk.Audit().Show(v.r.Context(), v.actor(), filter)
	if err != nil {
		return err
	}
	objects := make([]support.Object, len(found.Events))
	for i := range found.Events {
		objects[i] = found.Events[i].Object
	}
	known, err := v.config.Desk.Audit().Known(v.r.Context(), v.ledger, objects)
	if err != nil {
		return err
	}
	for i := range found.Events {
		main.Rows = append(main.Rows, v.auditRow(&found.Events[i], known))
	}
	if found.Next != nil {
		next := onlyOf(q, auditFields...)
		next.Set("before", found.Next.At.UTC().Format(time.RFC3339Nano))
		next.Set("before_no", strconv.FormatInt(found.Next.Number, 10))
		main.More = v.path("audit", next)
	}
	return nil
}

// auditRow shows an event. What was looked for in vain is in the audit, too, and there is no way to it.
func (v *visit) auditRow(e *support.Recorded, known map[support.Object]bool) auditRow {
	row := auditRow{
		Number: e.Number, At: v.instant(e.At), Actor: e.Actor.Name, Address: e.Actor.Address, Action: e.Action, Kind: e.Object.Kind, Object: e.Object.ID,
		Outcome: string(e.Outcome), Refused: e.Outcome == support.Refused,
	}
	switch {
	case e.Object.ID == "":
	case e.Object.Kind == support.ObjectTransfer:
		row.Object = shownID(ledger.TransferID(e.Object.ID))
		if known[e.Object] {
			row.ObjectPath = v.storyPath(ledger.TransferID(e.Object.ID))
		}
	case !known[e.Object]:
	case e.Object.Kind == "refund":
		row.ObjectPath = v.path("refunds/"+url.PathEscape(e.Object.ID), nil)
	case e.Object.Kind == "suspect" && v.served(suspectsRoute):
		row.ObjectPath = v.path("suspects/"+url.PathEscape(e.Object.ID), nil)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Detail)) {
		row.Details = append(row.Details, support.Detail{Name: name, Value: e.Detail[name]})
	}
	return row
}
