package report

import (
	"context"
	"time"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// maxDays is how many days a report may tell apart: 300 years.
const maxDays = 110_000

// days are the days of a period, in its zone.
type days struct {
	first day
	zone  *time.Location
	// begin has the moments at which they begin; the first is cut short where the period begins later.
	begin []time.Time
}

// daysOf gives the days of a period that begins and ends. It returns CodeInvalidArgument.
func daysOf(p Period) (*days, error) {
	zone := p.zone()
	first, last := dayAt(p.From, zone), dayAt(p.To.Add(-time.Microsecond), zone)
	if int(last-first) >= maxDays {
		return nil, ledger.Invalid("to", "is more than %d days after from", maxDays)
	}
	d := &days{first: first, zone: zone}
	for n := first; n <= last; n++ {
		d.begin = append(d.begin, n.begins(zone))
	}
	return d, nil
}

// name is the date of a day.
func (d *days) name(i int) string { return (d.first + day(i)).String() } //nolint:gosec // at most maxDays

// days gives the days of the report's period. Where it has no beginning or end, these are the first and the last transfer.
func (r *run) days(ctx context.Context) (*days, error) { return periodDays(ctx, r.period, r.Period) }

func periodDays(ctx context.Context, p *journal.Period, period Period) (*days, error) {
	if period.From.IsZero() || period.To.IsZero() {
		first, last, _, err := p.Bounds(ctx)
		if err != nil {
			return nil, err
		}
		if period.From.IsZero() {
			period.From = first
			if !period.To.IsZero() && !first.Before(period.To) { // Nothing lies in it.
				period.From = period.To.Add(-time.Microsecond)
			}
		}
		if period.To.IsZero() {
			period.To = last.Add(time.Microsecond)
			if !period.From.Before(period.To) {
				period.To = period.From.Add(time.Microsecond)
			}
		}
	}
	return daysOf(period)
}
