package report

import (
	"context"
	"time"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// maxDays is how many days a report may tell apart: 300 years.
const maxDays = 110_000

// days are days in a zone, in their order: all of a period, or those of them in which anything can lie.
type days struct {
	zone *time.Location
	list []day
	// begin has the moments at which they begin.
	begin []time.Time
}

func (d *days) add(n day) {
	d.list = append(d.list, n)
	d.begin = append(d.begin, n.begins(d.zone))
}

// daysOf gives the days of a period that begins and ends. It returns CodeInvalidArgument.
func daysOf(p Period) (*days, error) {
	zone := p.zone()
	first, last := dayAt(p.From, zone), dayAt(p.To.Add(-time.Microsecond), zone)
	if int(last-first) >= maxDays {
		return nil, ledger.Invalid("to", "is more than %d days after from", maxDays)
	}
	d := &days{zone: zone}
	for n := first; n <= last; n++ {
		d.add(n)
	}
	return d, nil
}

// name is the date of a day, and next that of the day after it.
func (d *days) name(i int) string { return d.list[i].String() }
func (d *days) next(i int) string { return (d.list[i] + 1).String() }

// days gives the days of the report's period. Where that has no beginning or end, days on which nothing can lie are left out: one transfer with a
// value date in the year 1 does not make a million days.
func (r *run) days(ctx context.Context) (*days, error) { return periodDays(ctx, r.period, r.Period) }

func periodDays(ctx context.Context, p *journal.Period, period Period) (*days, error) {
	if !period.From.IsZero() && !period.To.IsZero() {
		return daysOf(period)
	}
	dates, err := p.Dates(ctx)
	if err != nil {
		return nil, err
	}
	zone := period.zone()
	d := &days{zone: zone}
	through := func(first, last day) {
		if n := len(d.list); n > 0 {
			first = max(first, d.list[n-1]+1)
		}
		for n := first; n <= last; n++ {
			d.add(n)
		}
	}
	if !period.From.IsZero() {
		through(dayAt(period.From, zone), dayAt(period.From, zone))
	}
	for _, date := range dates {
		if through(dayAt(date[0], zone), dayAt(date[1], zone)); len(d.list) > maxDays {
			return nil, ledger.Invalid("from", "and to are needed: there are transfers on more than %d days", maxDays)
		}
	}
	if !period.To.IsZero() {
		last := dayAt(period.To.Add(-time.Microsecond), zone)
		through(last, last)
	}
	if len(d.list) == 0 {
		d.add(dayAt(p.Now(), zone))
	}
	return d, nil
}
