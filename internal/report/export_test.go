package report

import "time"

// Begins is the first moment of the day that a date is, in a zone.
func Begins(year int, month time.Month, dayOfMonth int, zone *time.Location) time.Time {
	return dayOf(time.Date(year, month, dayOfMonth, 0, 0, 0, 0, time.UTC)).begins(zone)
}

// DayAt is the date of the day in which a moment lies.
func DayAt(t time.Time, zone *time.Location) string { return dayAt(t, zone).String() }

// DaysOf gives the days of a period: their dates, and the moments at which they begin.
func DaysOf(p Period) (dates []string, begin []time.Time, err error) {
	d, err := daysOf(p)
	if err != nil {
		return nil, nil, err
	}
	for i := range d.begin {
		dates = append(dates, d.name(i))
	}
	return dates, d.begin, nil
}

// Text is a moment as people write it in the zone of a period.
func (p Period) Text(t time.Time) string { return p.text(t) }

// AtOnce is how many reports are made at the same time.
func (r *Reports) AtOnce() int { return cap(r.slots) }

// Busy is how many reports are being made.
func (r *Reports) Busy() int { return len(r.slots) }

// LimitTo makes each limit as low as this.
func (r *Reports) LimitTo(n int) {
	r.limits = limits{lines: n, entries: int64(n), window: int64(n), items: n, groups: n, positions: n}
}
