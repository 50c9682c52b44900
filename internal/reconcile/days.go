package reconcile

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
)

const secondsPerDay = 86400

// dayNumber counts days from 1970-01-01.
func dayNumber(d bankfile.Date) int { return int(d.Time().Unix() / secondsPerDay) } // Time is at midnight

// dayOf is the day of a number.
func dayOf(number int) bankfile.Date {
	y, m, d := time.Unix(int64(number)*secondsPerDay, 0).UTC().Date()
	return bankfile.Date{Year: y, Month: m, Day: d}
}

// dateIn is the day in which a moment lies.
func dateIn(t time.Time, zone *time.Location) bankfile.Date {
	y, m, d := t.In(zone).Date()
	return bankfile.Date{Year: y, Month: m, Day: d}
}

// beginOf is the first moment of a day in a zone. It returns CodeInvalidArgument for a day beyond those that are known.
func beginOf(day bankfile.Date, zone *time.Location) (time.Time, error) {
	p, err := report.ParsePeriod(day.String(), "", zone.String())
	return p.From, err
}

// toDate gives a date to the database; no date is NULL.
func toDate(d bankfile.Date) pgtype.Date { return pgtype.Date{Time: d.Time(), Valid: !d.IsZero()} }

// fromDate takes a date from the database.
func fromDate(d pgtype.Date) bankfile.Date {
	if !d.Valid {
		return bankfile.Date{}
	}
	y, m, day := d.Time.Date()
	return bankfile.Date{Year: y, Month: m, Day: day}
}

// validateDay returns CodeInvalidArgument for a date that PostgreSQL or the calendar does not have.
func validateDay(field string, d bankfile.Date) error {
	if d.IsZero() {
		return nil
	}
	if checked, err := bankfile.ParseDate(d.String()); err != nil || checked != d || d.Year < 1 || d.Year > 9999 {
		return ledger.Invalid(field, "%s is no day", d)
	}
	return nil
}
