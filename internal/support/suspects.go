package support

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/suspect"
	"github.com/khata-ledger/khata/ledger"
)

// Suspects knows which payments may be one that was made several times, as a suspect.Detector does. A desk asks before money goes back.
type Suspects interface {
	// Of gives the groups that a transfer is in, by its place in the books.
	Of(ctx context.Context, name ledger.Name, sequence int64) ([]*suspect.Group, error)
	// Known gives those of some numbers that groups have.
	Known(ctx context.Context, name ledger.Name, numbers []int64) ([]int64, error)
}

// twin is another payment of a group.
type twin struct {
	suspect.Member
	// requests are those for refunds of it that are posted, or still may be.
	requests []Refund
}

// group is a group that a payment is in, and the other payments of it.
type group struct {
	number int64
	twins  []twin
}

// suspectsOf gives the groups that a transfer is in. It asks outside of any transaction, which would hold one connection and wait for another one.
func (d *Desk) suspectsOf(ctx context.Context, name ledger.Name, t *ledger.Transfer) ([]*suspect.Group, error) {
	if d.config.Suspects == nil {
		return nil, nil
	}
	return d.config.Suspects.Of(ctx, name.Or(), t.Sequence)
}

// groups adds to suspects what was asked of the others in them.
func (d *Desk) groups(ctx context.Context, db dbsqlc.DBTX, name ledger.Name, ledgerID int32, of ledger.TransferID, suspects []*suspect.Group) ([]group, error) {
	var originals []string
	for _, s := range suspects {
		for _, m := range s.Members {
			if m.ID != of {
				originals = append(originals, string(m.ID))
			}
		}
	}
	if len(originals) == 0 {
		return nil, nil
	}
	slices.Sort(originals)
	numbers, err := d.sql.SupportRequestsStanding(ctx, db, dbsqlc.SupportRequestsStandingParams{LedgerID: ledgerID, Originals: slices.Compact(originals)})
	if err != nil {
		return nil, err
	}
	list, err := d.refunds(ctx, db, name, ledgerID, numbers)
	if err != nil {
		return nil, err
	}
	requests := map[ledger.TransferID][]Refund{}
	for _, r := range list {
		requests[r.Original] = append(requests[r.Original], r)
	}
	var groups []group
	for _, s := range suspects {
		g := group{number: s.No}
		for _, m := range s.Members {
			if m.ID != of {
				g.twins = append(g.twins, twin{m, requests[m.ID]})
			}
		}
		if len(g.twins) > 0 {
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// takesAll reports whether nothing is left of it once a request is posted. The books take a request only if just so much was refunded before as it says,
// so that this is right whenever the request was read.
func (t *twin) takesAll(r *Refund) bool {
	whole := t.Progress.Refunded.Add(t.Progress.Refundable)
	return t.Progress.Currency.Code != "" && !r.ExpectedRefunded.Add(r.Amount).LessThan(whole)
}

// lastOf says of which group a payment is the last one that stands, and what has become of the others; "" where another one stands beside it in one of
// its groups, or it is in none. A payment may be the end of one group and the beginning of the next, and be meant once among all of them. Which requests
// count is for the caller to say; open reports whether one that can still be taken back is among them.
func lastOf(of ledger.TransferID, groups []group, counts func(*Refund) bool) (text string, open bool) {
	for _, g := range groups {
		var parts []string
		for i := range g.twins {
			t := &g.twins[i]
			gone := t.WentBack
			for j := range t.requests {
				if r := &t.requests[j]; counts(r) && t.takesAll(r) {
					gone = true
					open = open || !r.State.Final()
				}
			}
			if !gone {
				return "", false
			}
			parts = append(parts, t.says()...)
		}
		if text == "" {
			text = fmt.Sprintf("%s is the last payment of suspect %d that stands: %s", publicID(of), g.number, few(parts))
		}
	}
	return text, open
}

// says is what is to be known of a payment by who refunds its twin.
func (t *twin) says() (list []string) {
	p := t.Progress
	var posted []string
	for i := range t.requests {
		if r := &t.requests[i]; r.State == Posted {
			posted = append(posted, fmt.Sprint(r.Number))
		}
	}
	by := ""
	if len(posted) > 0 {
		by = " (request " + strings.Join(posted, ", ") + ")"
	}
	switch {
	case p.Reversed:
		list = append(list, fmt.Sprintf("its other payment %s was reversed", publicID(t.ID)))
	case t.WentBack, by != "" && !p.Refunded.IsPositive(): // It was posted since the payment was read.
		list = append(list, fmt.Sprintf("its other payment %s was refunded%s", publicID(t.ID), by))
	case p.Refunded.IsPositive():
		list = append(list, fmt.Sprintf("of its other payment %s %s %s was refunded%s", publicID(t.ID), ledger.FormatAmount(p.Refunded, p.Currency.Scale),
			p.Currency.Code, by))
	}
	for i := range t.requests {
		switch r := &t.requests[i]; r.State {
		case Waiting:
			list = append(list, fmt.Sprintf("request %d for its other payment %s waits", r.Number, publicID(t.ID)))
		case Ready:
			list = append(list, fmt.Sprintf("request %d for its other payment %s is about to be posted", r.Number, publicID(t.ID)))
		case Posted, RefusedByBooks, Rejected, Withdrawn, Expired:
		}
	}
	return list
}

// maxSaid is how much is said of the other payments of a group, which may be fifty.
const maxSaid = 5

func few(parts []string) string {
	if more := len(parts) - maxSaid; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(parts[:maxSaid], "; "), more)
	}
	return strings.Join(parts, "; ")
}

// warnings say what has gone back, or is about to, of the payments that may be the same one as a transfer.
func (d *Desk) warnings(ctx context.Context, name ledger.Name, ledgerID int32, t *ledger.Transfer) (list []string, err error) {
	suspects, err := d.suspectsOf(ctx, name, t)
	if err != nil || len(suspects) == 0 {
		return nil, err
	}
	groups, err := d.groups(ctx, d.pool, name, ledgerID, t.ID, suspects)
	if err != nil {
		return nil, public(ctx, "look for suspects", err)
	}
	return warningsOf(groups), nil
}

func warningsOf(groups []group) (list []string) {
	for _, g := range groups {
		var parts []string
		for i := range g.twins {
			parts = append(parts, g.twins[i].says()...)
		}
		if len(parts) > 0 {
			list = append(list, fmt.Sprintf("belongs to suspect %d: %s", g.number, few(parts)))
		}
	}
	return list
}

// warned adds the warnings to a request that was made or decided. What has happened is told even if these cannot be looked up.
func (d *Desk) warned(ctx context.Context, ledgerID int32, r *Refund) {
	if d.config.Suspects == nil || !r.State.moves() {
		return
	}
	t, _, err := d.journal.Transfer(ctx, r.Ledger, r.Original)
	if err == nil {
		r.Warnings, _ = d.warnings(ctx, r.Ledger, ledgerID, t)
	}
}

// lockSuspects lets one at a time go on who asks for, or approves, refunds of payments that may be one.
func (d *Desk) lockSuspects(ctx context.Context, tx pgx.Tx, suspects []*suspect.Group) error {
	numbers := make([]int64, len(suspects))
	for i, s := range suspects {
		numbers[i] = s.No
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		if err := d.sql.SupportLockSuspect(ctx, tx, number); err != nil {
			return err
		}
	}
	return nil
}

// twinsToAsk says why a payment cannot be asked back as one that was paid twice: every other payment of its group has gone back, or somebody has asked for
// it. In a transaction that is to write the request, behind lockSuspects.
func (d *Desk) twinsToAsk(ctx context.Context, tx pgx.Tx, ledgerID int32, spec *RefundSpec, suspects []*suspect.Group) error {
	groups, err := d.groups(ctx, tx, spec.Ledger, ledgerID, spec.Transfer, suspects)
	if err != nil {
		return err
	}
	why, open := lastOf(spec.Transfer, groups, func(*Refund) bool { return true })
	switch {
	case why == "":
		return nil
	case open:
		return ledger.Invalid("reason", "%s; reject or withdraw that request first, or if this payment is to go back, too, say why with another reason", why)
	}
	return ledger.Invalid("reason", "%s; if this payment is to go back, too, say why with another reason", why)
}

// twinsToPost says why a request cannot be posted as one of a payment that was made twice; "" if it can. What waits does not count: of two that wait, the
// one that is approved first is posted.
func (r *Refund) twinsToPost(groups []group) string {
	why, _ := lastOf(r.Original, groups, func(other *Refund) bool {
		return other.State == Posted || other.State == Ready && (r.State != Ready || other.readyBefore(r))
	})
	return why
}

// readyBefore reports which of two requests was ready first.
func (r *Refund) readyBefore(other *Refund) bool {
	since := func(r *Refund) int64 {
		if r.Decision != nil {
			return r.Decision.At.UnixMicro()
		}
		return r.MadeAt.UnixMicro()
	}
	return cmp.Or(cmp.Compare(since(r), since(other)), cmp.Compare(r.Number, other.Number)) < 0
}

// suspectsOfRequest gives the groups that the payment of a request is in, where they make a difference.
func (d *Desk) suspectsOfRequest(ctx context.Context, r *Refund) ([]*suspect.Group, error) {
	if d.config.Suspects == nil || r.Reason != ledger.ReasonDuplicate {
		return nil, nil
	}
	t, _, err := d.journal.Transfer(ctx, r.Ledger, r.Original)
	if err != nil {
		return nil, err
	}
	return d.suspectsOf(ctx, r.Ledger, t)
}
