package journal

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // so that a zone is known on a machine without a database of them, too

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// ClosePeriod closes the books of a ledger before a time, in one order with the transfers: of those that are decided after it, each with an
// earlier effective_at is refused, and none that is under way slips past. It returns the change in force, and whether the books had been
// closed as far before it: then nothing was written.
//
// It returns CodeInvalidArgument for a malformed request, and for a time that the database's clock has not reached.
func (j *Journal) ClosePeriod(ctx context.Context, caller string, name ledger.Name, c ledger.PeriodClose) (ledger.PeriodChange, bool, error) {
	if err := c.Validate(); err != nil {
		return ledger.PeriodChange{}, false, err
	}
	change, replayed, err := j.changePeriod(ctx, caller, name, periodChange{&c.Before, c.Zone, c.Reason, c.Done, "close the period"})
	if err != nil {
		return ledger.PeriodChange{}, false, err
	}
	return *change, replayed, nil
}

// ReopenPeriod opens the books of a ledger again, in the same order. It returns the change in force, nil where nothing was ever closed, and
// whether the books had been as open before it: then nothing was written. What was refused meanwhile stays refused.
//
// It returns CodeInvalidArgument for a malformed request.
func (j *Journal) ReopenPeriod(ctx context.Context, caller string, name ledger.Name, r ledger.PeriodReopen) (*ledger.PeriodChange, bool, error) {
	if err := r.Validate(); err != nil {
		return nil, false, err
	}
	return j.changePeriod(ctx, caller, name, periodChange{r.Before, r.Zone, r.Reason, r.Done, "open the period"})
}

// PeriodChanges lists up to limit changes of how far the books of a ledger are closed, the last one first: that one is in force. before is
// the number of a change to go on from; 0 is none.
func (j *Journal) PeriodChanges(ctx context.Context, name ledger.Name, before int64, limit int) ([]ledger.PeriodChange, error) {
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	if before <= 0 {
		before = math.MaxInt64
	}
	var list []ledger.PeriodChange
	err = j.read(ctx, "list the changes of periods", func(ctx context.Context) (err error) {
		list, err = j.periodChanges(ctx, j.pool, book.id, before, limit)
		return err
	})
	return list, err
}

func (j *Journal) periodChanges(ctx context.Context, db dbsqlc.DBTX, ledgerID int32, before int64, limit int) ([]ledger.PeriodChange, error) {
	rows, err := j.sql.PeriodChangeList(ctx, db, dbsqlc.PeriodChangeListParams{
		LedgerID: ledgerID, Before: before, PageSize: int32(limit), //nolint:gosec // at most MaxPage+1
	})
	list := make([]ledger.PeriodChange, len(rows))
	for i, row := range rows {
		list[i] = ledger.PeriodChange{
			Sequence: row.Sequence, ClosedBefore: inUTC(row.ClosedBefore), Previous: inUTC(row.Previous), Zone: row.Zone, Reason: row.Reason,
			Caller: row.ChangedBy, ChangedAt: row.ChangedAt.UTC(),
		}
	}
	return list, err
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	utc := t.UTC()
	return &utc
}

// periodChange is a request for a change.
type periodChange struct {
	closedBefore *time.Time
	zone, reason string
	// done reports whether books that are closed before a time are as the request asks.
	done  func(closedBefore *time.Time) bool
	doing string
}

// changePeriod makes a change, unless the books are as it asks already, and returns the one in force, if there is any.
func (j *Journal) changePeriod(ctx context.Context, caller string, name ledger.Name, p periodChange) (*ledger.PeriodChange, bool, error) {
	if _, err := ParseZone(p.zone); err != nil {
		return nil, false, err
	}
	if p.zone == "" {
		p.zone = "UTC"
	}
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, false, err
	}
	var change *ledger.PeriodChange
	var replayed bool
	ours := map[int64]bool{} // The numbers of earlier tries, whose commits may have been lost.
	err = j.inTxAlone(ctx, book.id, func(tx pgx.Tx) error {
		// Statements after the gate see what it protects.
		last, err := j.periodChanges(ctx, tx, book.id, math.MaxInt64, 1)
		if err != nil {
			return err
		}
		change, replayed = nil, true
		var closedBefore *time.Time
		if len(last) > 0 {
			change, closedBefore, replayed = &last[0], last[0].ClosedBefore, !ours[last[0].Sequence]
		}
		if p.done(closedBefore) {
			return nil
		}
		if err := j.isOver(ctx, tx, p.closedBefore); err != nil {
			return err
		}
		row, err := j.sql.PeriodChangeInsert(ctx, tx, dbsqlc.PeriodChangeInsertParams{
			LedgerID: book.id, ClosedBefore: p.closedBefore, Zone: p.zone, Reason: p.reason, Caller: caller,
		})
		ours[row.Sequence] = true
		change, replayed = &ledger.PeriodChange{
			Sequence: row.Sequence, ClosedBefore: inUTC(p.closedBefore), Previous: closedBefore, Zone: p.zone, Reason: p.reason, Caller: caller,
			ChangedAt: row.ChangedAt.UTC(),
		}, false
		return err
	})
	if err != nil {
		return nil, false, j.public(ctx, p.doing, err)
	}
	return change, replayed, nil
}

// isOver returns CodeInvalidArgument for a time that the database's clock has not reached: what is still going on cannot be closed.
func (j *Journal) isOver(ctx context.Context, tx pgx.Tx, closedBefore *time.Time) error {
	if closedBefore == nil {
		return nil
	}
	now, err := j.sql.Clock(ctx, tx)
	if err == nil && closedBefore.After(now) {
		return ledger.Invalid("closed_before", "%s is still to come: the database's clock says %s, and what is not over cannot be closed",
			closedBefore.UTC().Format(time.RFC3339Nano), now.UTC().Format("2006-01-02T15:04:05.000000Z"))
	}
	return err
}

// ParseZone reads the name of a zone from the IANA database, such as Asia/Dhaka; "" is UTC. Names whose meaning depends on the machine, such as
// Local, are none. It returns CodeInvalidArgument.
func ParseZone(name string) (*time.Location, error) {
	location, err := time.LoadLocation(name)
	if err != nil || ofMachine(name) || len(name) > 64 {
		return nil, ledger.Invalid("zone", "%.80q is no zone of the IANA database, such as Asia/Dhaka, America/New_York or UTC", name)
	}
	return location, nil
}

// ofMachine reports whether a name is one of those that a machine may know beside the zones: what its own clock shows, and other forms of the database.
func ofMachine(name string) bool {
	for _, form := range []string{"right/", "posix/"} {
		if strings.HasPrefix(name, form) {
			return true
		}
	}
	return slices.Contains([]string{"local", "localtime", "posixrules"}, strings.ToLower(name))
}
