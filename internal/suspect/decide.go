package suspect

import (
	"context"
	"crypto/rand"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// DecisionSpec is what somebody says of a group.
type DecisionSpec struct {
	Ledger ledger.Name
	No     int64
	// Members is how many members the group had when it was looked at, which says which: of a group that has got another one since, nothing was
	// decided. It is required to dismiss one.
	Members int
	Reason  string
	// Request names the request: the same one again is the same decision. "" is one of its own.
	Request string
}

// maxReason and maxRequest bound texts, in characters.
const maxReason, maxRequest = 1000, 128

// Dismiss says that a group is no double charge. It is none until it gets another member. To dismiss what is dismissed changes nothing, and gives the
// first decision as replayed. It returns CodeInvalidArgument, about "members" for a group that has others now, and CodeAlreadyExists for a request
// that has decided something else.
func (d *Detector) Dismiss(ctx context.Context, spec DecisionSpec, by string) (*Group, *Decision, error) {
	if spec.Members < 2 {
		return nil, nil, ledger.Invalid("members", "is required: how many transfers the group had when you looked at it")
	}
	return d.decide(ctx, spec, true, by)
}

// Undismiss takes a dismissal back. Of a group that is not dismissed it changes nothing, and gives the last decision, or nil, as replayed. It returns
// CodeInvalidArgument, and CodeAlreadyExists for a request that has decided something else.
func (d *Detector) Undismiss(ctx context.Context, spec DecisionSpec, by string) (*Group, *Decision, error) {
	return d.decide(ctx, spec, false, by)
}

func (d *Detector) decide(ctx context.Context, spec DecisionSpec, dismiss bool, by string) (*Group, *Decision, error) {
	doing := "dismiss a suspected double charge"
	if !dismiss {
		doing = "take a dismissal back"
	}
	spec.Reason = strings.TrimSpace(spec.Reason)
	switch {
	case spec.Reason == "":
		return nil, nil, ledger.Invalid("reason", "is required")
	case !valid(spec.Reason, maxReason):
		return nil, nil, ledger.Invalid("reason", "is not text of at most %d characters", maxReason)
	case !valid(spec.Request, maxRequest):
		return nil, nil, ledger.Invalid("request_id", "is not text of at most %d characters", maxRequest)
	}
	if spec.Request == "" {
		spec.Request = rand.Text()
	}
	var group *Group
	var made *Decision
	err := d.again(ctx, doing, func(tried bool) (err error) {
		ledgerID, err := d.ledgerID(ctx, spec.Ledger)
		if err != nil {
			return err
		}
		// The journal is read before there is a transaction, which would otherwise hold one connection and wait for another one. It stays true as long as
		// the cursor does: what comes after that is for whoever moves it.
		through, err := d.sql.SuspectThrough(ctx, d.pool, ledgerID)
		if err != nil {
			return err
		}
		if group, err = d.one(ctx, ledgerID, spec.Ledger, spec.No); err != nil {
			return err
		}
		return pg.InTx(ctx, d.pool, func(tx pgx.Tx) error {
			if err := d.sql.SuspectLock(ctx, tx, ledgerID); err != nil {
				return err
			}
			now, err := d.sql.SuspectThrough(ctx, tx, ledgerID)
			if err != nil {
				return err
			}
			if now != through {
				return errMoved
			}
			if made, err = d.decideIn(ctx, tx, ledgerID, group, spec, dismiss, tried, by); err != nil {
				return err
			}
			// What is answered for must be on the standby, too, even if it was there before.
			return d.sql.WaitForStandby(ctx, tx)
		})
	})
	if err != nil {
		return nil, nil, err
	}
	return group, made, nil
}

// decideIn decides about a group, behind the lock, and brings the group up to date. tried says that this very request may have decided before.
func (d *Detector) decideIn(ctx context.Context, tx pgx.Tx, ledgerID int32, g *Group, spec DecisionSpec, dismiss, tried bool, by string) (*Decision, error) {
	read := func() error {
		all, err := d.decisions(ctx, tx, ledgerID, []int64{g.No})
		g.Decisions = all[g.No]
		return err
	}
	if err := read(); err != nil {
		return nil, err
	}
	facts := make([]*fact, len(g.Members))
	for i, m := range g.Members {
		facts[i] = factOf(m.Progressed)
	}
	g.judge(facts)
	for _, made := range g.Decisions {
		if made.Request != spec.Request {
			continue
		}
		if made.Dismissed != dismiss || made.Reason != spec.Reason || dismiss && made.Members != spec.Members {
			return nil, ledger.Errorf(ledger.CodeAlreadyExists, "request %q has decided something else of group %d", spec.Request, g.No)
		}
		made.Replayed = !tried
		return &made, nil
	}
	if spec.Members != 0 && spec.Members != len(g.Members) {
		return nil, ledger.Invalid("members", "is %d, and the group has %d now: look at it again", spec.Members, len(g.Members))
	}
	var last *Decision
	if n := len(g.Decisions); n > 0 {
		last = &g.Decisions[n-1]
	}
	if !dismiss && (last == nil || !last.Dismissed) || dismiss && last != nil && last.Dismissed && last.Members == len(g.Members) {
		if last == nil {
			return nil, nil
		}
		made := *last
		made.Replayed = true
		return &made, nil
	}
	err := d.sql.SuspectDecisionInsert(ctx, tx, dbsqlc.SuspectDecisionInsertParams{
		LedgerID: ledgerID, GroupNo: g.No, Ordinal: int32(len(g.Decisions) + 1), Dismissed: dismiss, //nolint:gosec // some
		Members: int32(len(g.Members)), Reason: spec.Reason, Request: spec.Request, DecidedBy: by, //nolint:gosec // at most maxMembers
	})
	if err != nil {
		return nil, err
	}
	if err := read(); err != nil {
		return nil, err
	}
	g.judge(facts)
	made := g.Decisions[len(g.Decisions)-1]
	return &made, d.list(ctx, tx, ledgerID, []listed{{g.No, facts, dismissedOf(g.Decisions)}})
}

func valid(text string, most int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= most && !strings.ContainsRune(text, 0)
}
