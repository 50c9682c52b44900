package support

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// Outcome is how what a person did ended.
type Outcome string

// The outcomes.
const (
	// Done: something was written, in the same transaction.
	Done Outcome = "done"
	// Refused: a rule has said no, and nothing else was written.
	Refused Outcome = "refused"
	// Seen: something was shown.
	Seen Outcome = "read"
)

// The actions of this package. Others have their own: the thing and the verb.
const (
	ActionRefundRequest  = "refund.request"
	ActionRefundApprove  = "refund.approve"
	ActionRefundReject   = "refund.reject"
	ActionRefundWithdraw = "refund.withdraw"
	ActionRefundPost     = "refund.post"
	ActionRefundForm     = "refund.form"
	ActionRefundRead     = "refund.read"
	ActionLimitSet       = "limit.set"
	ActionFind           = "transfer.find"
	ActionStory          = "transfer.story"
	ActionReview         = "review.list"
	ActionAuditList      = "audit.list"
)

// ObjectTransfer is the kind of an object that is a transfer: what is done to its refunds is done to the original.
const ObjectTransfer = "transfer"

// Object is what something was done to.
type Object struct {
	// Kind is such as transfer, limit or token.
	Kind string
	ID   string
}

// Event is what somebody did.
type Event struct {
	// Ledger is "" where it concerns no one ledger.
	Ledger  ledger.Name
	Actor   Actor
	Action  string
	Object  Object
	Outcome Outcome
	// Detail is what else is to be known, in at most some 8,000 bytes of JSON. It is shown to whoever may read the audit: no secrets.
	Detail map[string]string

	// id is drawn when it is written down, unless it has one: the same id is the same event.
	id string
}

func newEventID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // It does not fail.
	return hex.EncodeToString(id[:])
}

// maxDetail is the most bytes of a detail as JSON.
const maxDetail = 8192

var wellFormedAction = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

func (e *Event) params() (args dbsqlc.AuditInsertParams, err error) {
	if err := e.Actor.validate(); err != nil {
		return args, err
	}
	detail := ""
	if len(e.Detail) > 0 {
		text, err := json.Marshal(e.Detail)
		if err != nil {
			return args, err
		}
		detail = string(text)
	}
	switch {
	case !wellFormedAction.MatchString(e.Action):
		return args, ledger.Invalid("action", "%.80q is no action", e.Action)
	case !wellFormedAction.MatchString(e.Object.Kind):
		return args, ledger.Invalid("object.kind", "%.80q is no kind", e.Object.Kind)
	case len(detail) > maxDetail:
		return args, ledger.Invalid("detail", "has %d bytes, at most %d are allowed", len(detail), maxDetail)
	}
	if err := validateText("object.id", e.Object.ID, false, maxActor); err != nil {
		return args, err
	}
	return dbsqlc.AuditInsertParams{
		Ledger: string(e.Ledger), EventID: cmp.Or(e.id, newEventID()), Actor: e.Actor.Name, Action: e.Action, ObjectKind: e.Object.Kind, ObjectID: e.Object.ID,
		Address: e.Actor.Address, Outcome: string(e.Outcome), Detail: detail,
	}, nil
}

// Audit is where it is written down who did what. Nothing in it is ever changed.
type Audit struct {
	pool *pgxpool.Pool
	sql  *dbsqlc.Queries
	// desk knows how people write the ids of transfers, and what there is; nil where there is none.
	desk *Desk
}

// NewAudit makes an Audit on the pool in which its table is.
func NewAudit(pool *pgxpool.Pool) *Audit { return &Audit{pool: pool, sql: dbsqlc.New()} }

// Record writes down an event in a transaction: that of the write which it is about, so that there is neither without the other. An error must
// end the transaction. It returns CodeInvalidArgument or CodeLedgerNotFound, or what the database says.
func (a *Audit) Record(ctx context.Context, tx pgx.Tx, e Event) error {
	args, err := e.params()
	if err != nil {
		return err
	}
	return a.insert(ctx, tx, args)
}

func (a *Audit) insert(ctx context.Context, tx pgx.Tx, args dbsqlc.AuditInsertParams) error {
	known, err := a.sql.AuditInsert(ctx, tx, args)
	if err == nil && !known {
		return noLedger(ledger.Name(args.Ledger))
	}
	return err
}

// Read writes down that something is shown, commits that, and only then has it looked up: what cannot be written down is not shown. It returns what
// Record does, or what f returns. The outcome is Seen, whatever f says.
func (a *Audit) Read(ctx context.Context, e Event, f func() error) error {
	e.Outcome = Seen
	args, err := e.params()
	if err != nil {
		return err
	}
	// One id for all tries: a commit whose answer was lost is not done twice.
	if err := change(ctx, a.pool, "write the audit", func(tx pgx.Tx) error { return a.insert(ctx, tx, args) }); err != nil {
		return err
	}
	return f()
}

// Recorded is an event as it was written down.
type Recorded struct {
	Number int64
	At     time.Time
	Event
}

// AuditCursor is a place in the audit, before which a list goes on.
type AuditCursor struct {
	At     time.Time
	Number int64
}

// AuditFilter says which events are meant. A zero field is any.
type AuditFilter struct {
	// Ledger is "" for those that concern no one ledger.
	Ledger ledger.Name
	Object Object
	Actor  string
	Action string
	// Since and Until bound the time: at or after the one, and before the other.
	Since, Until time.Time
	// Before goes on from an earlier page.
	Before *AuditCursor
	// Limit is the most events of a page. Default and most: 200.
	Limit int
}

// AuditPage is a part of the audit, the newest first.
type AuditPage struct {
	Events []Recorded
	// Next is where the list goes on; nil at its end. A page can have fewer events than its limit, or none, and go on all the same: only so many
	// are looked at for one page.
	Next *AuditCursor
}

const (
	maxAuditPage = 200
	// auditChunk is how many events are read at once, and auditLook how many are looked at for one page.
	auditChunk, auditLook = 500, 5000
)

// Show is List for a person: to look at the audit is a sensitive read, too, and is written down in the same ledger first.
func (a *Audit) Show(ctx context.Context, who Actor, f AuditFilter) (page AuditPage, err error) {
	if a.desk != nil && f.Ledger != "" && f.Object.Kind == ObjectTransfer {
		id, err := a.desk.resolve(ctx, f.Ledger, ledger.TransferID(f.Object.ID))
		if err != nil {
			return AuditPage{}, err
		}
		f.Object.ID = string(id)
	}
	detail := map[string]string{}
	for name, value := range map[string]string{"actor": f.Actor, "action": f.Action, "kind": f.Object.Kind, "id": f.Object.ID} {
		if value != "" {
			detail[name] = value
		}
	}
	err = a.Read(ctx, Event{Ledger: f.Ledger, Actor: who, Action: ActionAuditList, Object: Object{"audit", ""}, Detail: detail}, func() error {
		page, err = a.List(ctx, f)
		return err
	})
	return page, err
}

// Known reports which of some objects there are to be looked at: transfers, requests for refunds and suspects that somebody has looked for are in the audit,
// too, where there are none of that name. Of other kinds it knows nothing.
func (a *Audit) Known(ctx context.Context, name ledger.Name, objects []Object) (map[Object]bool, error) {
	known := map[Object]bool{}
	if a.desk == nil {
		return known, nil
	}
	var ids []ledger.TransferID
	var requests, suspects []int64
	for _, o := range objects {
		number, err := strconv.ParseInt(o.ID, 10, 64)
		switch {
		case o.Kind == ObjectTransfer && ledger.TransferID(o.ID).ValidateFormat("id") == nil:
			ids = append(ids, ledger.TransferID(o.ID))
			// Before it is decided, a payment of the payment API has a story all the same.
			known[o] = writtenNumber.MatchString(publicID(ledger.TransferID(o.ID)))
		case o.Kind == "refund" && err == nil:
			requests = append(requests, number)
		case o.Kind == "suspect" && err == nil && a.desk.config.Suspects != nil:
			suspects = append(suspects, number)
		}
	}
	if len(ids) > 0 {
		records, err := a.desk.journal.TransfersNamed(ctx, name, ids)
		if err != nil {
			return nil, err
		}
		for _, t := range records {
			known[Object{ObjectTransfer, string(t.ID)}] = true
		}
	}
	if len(requests) > 0 {
		ledgerID, err := a.desk.ledgerID(ctx, name)
		if err != nil {
			return nil, err
		}
		list, err := a.desk.refunds(ctx, a.pool, name, ledgerID, requests)
		if err != nil {
			return nil, public(ctx, "look for requests", err)
		}
		for _, r := range list {
			known[Object{"refund", strconv.FormatInt(r.Number, 10)}] = true
		}
	}
	if len(suspects) > 0 {
		numbers, err := a.desk.config.Suspects.Known(ctx, name.Or(), suspects)
		if err != nil {
			return nil, err
		}
		for _, number := range numbers {
			known[Object{"suspect", strconv.FormatInt(number, 10)}] = true
		}
	}
	return known, nil
}

// List lists events, the newest first. It looks at 5,000 of them at most, by the index of the narrowest of object, actor, action and time that is
// given. It returns CodeInvalidArgument or CodeLedgerNotFound.
//
// It is for programs, and is not written down: see Show.
func (a *Audit) List(ctx context.Context, f AuditFilter) (AuditPage, error) {
	if f.Limit <= 0 || f.Limit > maxAuditPage {
		f.Limit = maxAuditPage
	}
	if (f.Object.Kind == "") != (f.Object.ID == "") {
		return AuditPage{}, ledger.Invalid("object", "has a kind and an id, or neither")
	}
	places, err := a.sql.AuditPlace(ctx, a.pool, string(f.Ledger))
	if err != nil {
		return AuditPage{}, public(ctx, "list the audit", err)
	}
	if len(places) == 0 {
		return AuditPage{}, noLedger(f.Ledger)
	}
	at := AuditCursor{f.Until, 0}
	if at.At.IsZero() {
		at = AuditCursor{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 0}
	}
	if f.Before != nil && f.Before.At.Before(at.At) {
		at = *f.Before
	}
	var page AuditPage
	for looked := 0; looked < auditLook; looked += auditChunk {
		rows, err := a.rows(ctx, places[0], f, at)
		if err != nil {
			return AuditPage{}, public(ctx, "list the audit", err)
		}
		for _, row := range rows {
			at = AuditCursor{row.At.UTC(), row.AuditNo}
			if !f.matches(row) {
				continue
			}
			r, err := recorded(f.Ledger, row)
			if err != nil {
				return AuditPage{}, public(ctx, "list the audit", err)
			}
			if page.Events = append(page.Events, r); len(page.Events) == f.Limit {
				page.Next = &at
				return page, nil
			}
		}
		if len(rows) < auditChunk {
			return page, nil
		}
	}
	page.Next = &at
	return page, nil
}

func (f AuditFilter) matches(row dbsqlc.AuditByTimeRow) bool {
	return (f.Object.Kind == "" || row.ObjectKind == f.Object.Kind && row.ObjectID == f.Object.ID) && (f.Actor == "" || row.Actor == f.Actor) &&
		(f.Action == "" || row.Action == f.Action)
}

// rows reads the next events of the narrowest index.
func (a *Audit) rows(ctx context.Context, ledgerID int32, f AuditFilter, at AuditCursor) (list []dbsqlc.AuditByTimeRow, err error) {
	switch {
	case f.Object.Kind != "":
		rows, err := a.sql.AuditByObject(ctx, a.pool, dbsqlc.AuditByObjectParams{
			LedgerID: ledgerID, ObjectKind: f.Object.Kind, ObjectID: f.Object.ID, Since: f.Since, Before: at.At, BeforeNo: at.Number, Look: auditChunk,
		})
		for _, row := range rows {
			list = append(list, dbsqlc.AuditByTimeRow(row))
		}
		return list, err
	case f.Actor != "":
		rows, err := a.sql.AuditByActor(ctx, a.pool, dbsqlc.AuditByActorParams{
			LedgerID: ledgerID, Actor: f.Actor, Since: f.Since, Before: at.At, BeforeNo: at.Number, Look: auditChunk,
		})
		for _, row := range rows {
			list = append(list, dbsqlc.AuditByTimeRow(row))
		}
		return list, err
	case f.Action != "":
		rows, err := a.sql.AuditByAction(ctx, a.pool, dbsqlc.AuditByActionParams{
			LedgerID: ledgerID, Action: f.Action, Since: f.Since, Before: at.At, BeforeNo: at.Number, Look: auditChunk,
		})
		for _, row := range rows {
			list = append(list, dbsqlc.AuditByTimeRow(row))
		}
		return list, err
	}
	return a.sql.AuditByTime(ctx, a.pool, dbsqlc.AuditByTimeParams{
		LedgerID: ledgerID, Since: f.Since, Before: at.At, BeforeNo: at.Number, Look: auditChunk,
	})
}

func recorded(name ledger.Name, row dbsqlc.AuditByTimeRow) (Recorded, error) {
	r := Recorded{Number: row.AuditNo, At: row.At.UTC(), Event: Event{
		Ledger: name, Actor: Actor{row.Actor, row.Address}, Action: row.Action, Object: Object{row.ObjectKind, row.ObjectID}, Outcome: Outcome(row.Outcome),
	}}
	if row.Detail != "" {
		if err := json.Unmarshal([]byte(row.Detail), &r.Detail); err != nil {
			return r, err
		}
	}
	return r, nil
}
