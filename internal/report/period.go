package report

import (
	"time"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// Basis is which of a transfer's two times counts. They are never mixed in one report.
type Basis string

// The two bases.
const (
	// Booking goes by posted_at: when Khata recorded the transfer.
	Booking Basis = "booking"
	// Value goes by effective_at, and by posted_at for a transfer without one.
	Value Basis = "value"
)

// ParseBasis reads a basis; "" is Booking. It returns CodeInvalidArgument.
func ParseBasis(text string) (Basis, error) {
	switch b := Basis(text); b {
	case "":
		return Booking, nil
	case Booking, Value:
		return b, nil
	}
	return "", ledger.Invalid("basis", "%.40q is not booking or value", text)
}

// Period is the time from From up to, and without, To. Either may be zero: from the first transfer on, and up to the last one.
type Period struct {
	From, To time.Time
	// Zone is that in which days begin.
	Zone *time.Location
}

// ParsePeriod reads a period. From and to are each empty, a month ("2026-01"), a day ("2026-01-31") or RFC 3339. A month or a day stands for
// its first moment in the zone; "" as zone is UTC. It returns CodeInvalidArgument.
func ParsePeriod(from, to, zone string) (Period, error) {
	location, err := ParseZone(zone)
	if err != nil {
		return Period{}, err
	}
	p := Period{Zone: location}
	if p.From, err = parseMoment("from", from, location); err != nil {
		return Period{}, err
	}
	if p.To, err = parseMoment("to", to, location); err != nil {
		return Period{}, err
	}
	return p, p.Validate()
}

// Month is the period of a month, such as "2026-01". It returns CodeInvalidArgument.
func Month(text, zone string) (Period, error) {
	location, err := ParseZone(zone)
	if err != nil {
		return Period{}, err
	}
	first, err := time.Parse("2006-01", text)
	if err != nil {
		return Period{}, ledger.Invalid("month", "%.40q is no month, such as 2026-01", text)
	}
	p := Period{From: dayOf(first).begins(location), To: dayOf(first.AddDate(0, 1, 0)).begins(location), Zone: location}
	return p, p.Validate()
}

// ParseZone reads the name of a zone; see journal.ParseZone.
func ParseZone(name string) (*time.Location, error) { return journal.ParseZone(name) }

func parseMoment(field, text string, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{"2006-01-02", "2006-01"} {
		if d, err := time.Parse(layout, text); err == nil {
			return dayOf(d).begins(zone), nil
		}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, ledger.Invalid(field, "%.60q is no day (2026-01-31), month (2026-01) or time of RFC 3339 (2026-01-31T00:00:00+06:00)", text)
	}
	return t, nil
}

// Validate returns CodeInvalidArgument unless the period is one.
func (p Period) Validate() error {
	for _, bound := range []struct {
		field string
		at    time.Time
	}{{"from", p.From}, {"to", p.To}} {
		switch {
		case bound.at.IsZero():
		case bound.at.Year() < 1 || bound.at.Year() > 9999:
			return ledger.Invalid(bound.field, "is outside the years 1 to 9999")
		case bound.at.Nanosecond()%1000 != 0:
			return ledger.Invalid(bound.field, "%s is finer than a microsecond", bound.at.Format(time.RFC3339Nano))
		}
	}
	if !p.From.IsZero() && !p.To.IsZero() && !p.From.Before(p.To) {
		return ledger.Invalid("to", "%s is not after from, %s: a period ends without the moment of its end", p.text(p.To), p.text(p.From))
	}
	return nil
}

// zone is the period's zone; UTC if it has none.
func (p Period) zone() *time.Location {
	if p.Zone == nil {
		return time.UTC
	}
	return p.Zone
}

// text is a moment as people write it in the zone: as a day if one begins there.
func (p Period) text(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	if d := dayAt(t, p.zone()); d.begins(p.zone()).Equal(t) {
		return d.String()
	}
	return t.In(p.zone()).Format("2006-01-02T15:04:05.999999Z07:00")
}

// day is a date, counted from 1970-01-01. In a zone it is the time from its first moment to that of the next one.
type day int32

func dayOf(t time.Time) day {
	y, m, d := t.Date()
	return day(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400) //nolint:gosec // the years 1 to 9999
}

func (d day) date() (int, time.Month, int) { return time.Unix(int64(d)*86400, 0).UTC().Date() }

func (d day) String() string {
	y, m, dd := d.date()
	return time.Date(y, m, dd, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
}

// begins is the first moment of the day: the one from which on the date is never an earlier one. That is midnight, but where clocks are set forward
// over it, the moment of that. Where they are set back over it, what is after the first midnight belongs to the day before until the second one.
func (d day) begins(zone *time.Location) time.Time {
	y, m, dd := d.date()
	// An offset is less than a day, so the two days around have all that can be midnight.
	midnight := time.Date(y, m, dd, 0, 0, 0, 0, time.UTC)
	at := midnight.Add(-26 * time.Hour)
	last := at
	for range 64 { // A zone changes a few times a year.
		_, offset := at.In(zone).Zone()
		_, end := at.In(zone).ZoneBounds()
		// Up to here the date is an earlier one.
		earlier := midnight.Add(-time.Duration(offset) * time.Second)
		if !end.IsZero() && end.Before(earlier) {
			earlier = end
		}
		if earlier.After(at) {
			last = earlier
		}
		if end.IsZero() || end.After(midnight.Add(26*time.Hour)) {
			break
		}
		at = end
	}
	return last.In(zone)
}

// dayAt is the day in which a moment lies.
func dayAt(t time.Time, zone *time.Location) day {
	d := dayOf(t.In(zone)) - 2
	for !(d + 1).begins(zone).After(t) {
		d++
	}
	return d
}
