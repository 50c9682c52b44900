package report

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/sheet"
)

var growthColumns = []sheet.Column{
	{ID: "date", Title: "Date", Kind: sheet.Date}, {ID: "posted", Title: "Posted", Kind: sheet.Count}, {ID: "refused", Title: "Refused", Kind: sheet.Count},
	{ID: "entries", Title: "Entries", Kind: sheet.Count}, {ID: "key_replays", Title: "Stopped by the key", Kind: sheet.Count},
	{ID: "ledger_replays", Title: "Stopped by the ledger", Kind: sheet.Count}, {ID: "other_content", Title: "Id or key with other content", Kind: sheet.Count},
}

// growthDay is a row of the report.
type growthDay struct{ posted, refused, entries, key, replayed, taken int64 }

func (d *growthDay) add(more growthDay) {
	d.posted += more.posted
	d.refused += more.refused
	d.entries += more.entries
	d.key += more.key
	d.replayed += more.replayed
	d.taken += more.taken
}

func (d *growthDay) cells(date string) []string {
	cells := []string{date}
	for _, n := range []int64{d.posted, d.refused, d.entries, d.key, d.replayed, d.taken} {
		cells = append(cells, strconv.FormatInt(n, 10))
	}
	return cells
}

// growth tells what was posted, refused and stopped as a duplicate, day by day.
func (r *run) growth(ctx context.Context) error {
	days, err := r.days(ctx)
	if err != nil {
		return err
	}
	counted := make([]growthDay, len(days.begin))
	err = r.period.Activity(ctx, days.begin, func(a journal.Activity) error {
		d := &counted[a.Day]
		d.entries += a.Entries
		if a.Refusal == "" {
			d.posted += a.Transfers
		} else {
			d.refused += a.Transfers
		}
		return nil
	})
	if err != nil {
		return err
	}
	stopped, err := r.period.Duplicates(ctx)
	if err != nil {
		return err
	}
	for _, s := range stopped {
		day := days.at(s.Since)
		if s.Guard == journal.KeyGuard {
			counted[day].key += s.Replayed
		} else {
			counted[day].replayed += s.Replayed
		}
		counted[day].taken += s.Taken
	}
	err = r.begin(growthColumns, sheet.Fact{ID: "duplicates", Title: "Duplicates", Value: "as the servers have counted them; one that was killed has lost up to ten seconds' worth"})
	if err != nil {
		return err
	}
	var total growthDay
	for i, d := range counted {
		total.add(d)
		if err := r.row(sheet.Item, d.cells(days.name(i))...); err != nil {
			return err
		}
	}
	if err := r.row(sheet.Total, total.cells("")...); err != nil {
		return err
	}
	return r.end()
}

// at is the day in which a moment of the period lies.
func (d *days) at(t time.Time) int {
	after, _ := slices.BinarySearchFunc(d.begin, t, func(begin, t time.Time) int {
		if begin.After(t) {
			return 1
		}
		return -1
	})
	return max(0, after-1)
}
