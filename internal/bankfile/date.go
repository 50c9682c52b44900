package bankfile

import (
	"fmt"
	"time"
)

// Date is a day of the calendar, in no zone. The zero Date is none.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// ParseDate reads "2016-02-29". It returns an error for a day that does not exist.
func ParseDate(text string) (Date, error) {
	raw, rest, ok := isoDate(text)
	if !ok || rest != "" {
		return Date{}, fmt.Errorf("%.40q is not a date such as 2016-02-29", text)
	}
	return raw.date()
}

// IsZero reports whether it is no date.
func (d Date) IsZero() bool { return d == Date{} }

// String is such as "2016-02-29", and "" for no date.
func (d Date) String() string {
	if d.IsZero() {
		return ""
	}
	return fmt.Sprintf("%04d-%02d-%02d", d.Year, int(d.Month), d.Day)
}

// Time is its first instant in UTC.
func (d Date) Time() time.Time { return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC) }

// Compare is -1, 0 or 1 as d is before, the same as or after other.
func (d Date) Compare(other Date) int { return d.Time().Compare(other.Time()) }

// MarshalText is String.
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is ParseDate, and "" is no date.
func (d *Date) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Date{}
		return nil
	}
	parsed, err := ParseDate(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// rawDate is a date as a file has it. It may be one that does not exist.
type rawDate struct{ year, month, day int }

func (r rawDate) String() string { return fmt.Sprintf("%04d-%02d-%02d", r.year, r.month, r.day) }

// Bounds of what may be a date at all: files use other numbers for none, such as 0000-00-00.
const (
	maxYear  = 9999
	maxMonth = 12
	maxDay   = 31
)

// nearest is the date, or the last day of the month where the month has fewer days.
func (r rawDate) nearest() (date Date, moved bool, err error) {
	if r.year < 1 || r.year > maxYear || r.month < 1 || r.month > maxMonth || r.day < 1 || r.day > maxDay {
		return Date{}, false, fmt.Errorf("%s is not a date", r)
	}
	last := time.Date(r.year, time.Month(r.month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return Date{Year: r.year, Month: time.Month(r.month), Day: min(r.day, last)}, r.day > last, nil
}

// date is the date, and an error if there is no such day.
func (r rawDate) date() (Date, error) {
	date, moved, err := r.nearest()
	if err == nil && moved {
		err = fmt.Errorf("%s does not exist", r)
	}
	return date, err
}

// isoDate reads YYYY-MM-DD at the beginning of text, and gives what follows it.
func isoDate(text string) (raw rawDate, rest string, ok bool) {
	const length = len("2006-01-02")
	if len(text) < length || text[4] != '-' || text[7] != '-' || !isDigits(text[:4]) || !isDigits(text[5:7]) || !isDigits(text[8:length]) {
		return rawDate{}, "", false
	}
	return rawDate{year: smallInt(text[:4]), month: smallInt(text[5:7]), day: smallInt(text[8:length])}, text[length:], true
}

// compactDate reads YYYYMMDD at the beginning of text, and gives what follows it.
func compactDate(text string) (raw rawDate, rest string, ok bool) {
	const length = len("20060102")
	if len(text) < length || !isDigits(text[:length]) {
		return rawDate{}, "", false
	}
	return rawDate{year: smallInt(text[:4]), month: smallInt(text[4:6]), day: smallInt(text[6:length])}, text[length:], true
}

// shortDate reads YYMMDD, which must be all of text.
func shortDate(text string) (raw rawDate, ok bool) {
	if len(text) != len("060102") || !isDigits(text) {
		return rawDate{}, false
	}
	return rawDate{year: century(smallInt(text[:2])), month: smallInt(text[2:4]), day: smallInt(text[4:])}, true
}

// century gives a year of two digits its century, as SWIFT has it: 80 to 99 are of the twentieth.
func century(year int) int {
	const firstOfOld, old, present = 80, 1900, 2000
	if year >= firstOfOld {
		return old + year
	}
	return present + year
}

// yearNear completes a day that was written without its year (MMDD) with the year that brings it nearest to another date: an entry of 1230 with a
// value date of 1 January is of the year before. Only the years next to it are tried.
func yearNear(month, day int, to Date) (Date, error) {
	var best Date
	var distance time.Duration
	for year := to.Year - 1; year <= to.Year+1; year++ {
		date, err := rawDate{year: year, month: month, day: day}.date()
		if err != nil {
			continue
		}
		if d := date.Time().Sub(to.Time()).Abs(); best.IsZero() || d < distance {
			best, distance = date, d
		}
	}
	if best.IsZero() {
		return Date{}, fmt.Errorf("%02d-%02d is not a day of %d or the years next to it", month, day, to.Year)
	}
	return best, nil
}

func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// smallInt reads a few digits.
func smallInt(digits string) int {
	n := 0
	for i := range len(digits) {
		n = n*10 + int(digits[i]-'0')
	}
	return n
}
