package console

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
)

// field is a field of a form, and what is wrong with it.
type field struct {
	// Name is that of the form, and of the field in an error of the ledger's.
	Name, Label, Help string
	// Kind is text, number, choice, tick, area, file or hidden, and Rows how high an area is.
	Kind, Value string
	Rows        int
	// Options are what a choice has.
	Options []option
	// Suggestions are what a text may be, among others.
	Suggestions []string
	Checked     bool
	Error       string
}

type option struct {
	Value, Label string
	Selected     bool
}

// form is a form as it is shown.
type form struct {
	// ID begins the ids of its fields, where a page has two forms.
	ID             string
	Action, Button string
	Fields         []field
	// Errors are what is wrong, each with the name of its field if the form has that one.
	Errors []ledger.Violation
	// Open is whether the form is shown at once, and Summary what it says in short where it is not.
	Open    bool
	Summary string
}

// blame puts an error of the ledger's at the fields that it names, and says whether the form is where it belongs.
func (f *form) blame(err error) bool {
	var known *ledger.Error
	if !errors.As(err, &known) {
		return false
	}
	violations := known.Violations
	switch {
	case known.Code == ledger.CodeAccountNotFound && len(violations) == 0:
		violations = []ledger.Violation{{Field: "account", Message: known.Message}}
	case known.Code != ledger.CodeInvalidArgument && known.Code != ledger.CodeAccountNotFound && known.Code != ledger.CodeNotFound:
		return false
	case len(violations) == 0:
		violations = []ledger.Violation{{Message: known.Message}}
	}
	for _, v := range violations {
		shown := v
		shown.Field = ""
		for i := range f.Fields {
			if field := &f.Fields[i]; field.Name == v.Field {
				shown.Field, shown.Message = v.Field, field.Label+": "+v.Message
				if field.Error == "" {
					field.Error = sentence(v.Message)
				}
			}
		}
		if shown.Field == "" && v.Field != "" {
			shown.Message = v.Field + ": " + v.Message
		}
		f.Errors = append(f.Errors, shown)
	}
	f.Open = true
	return true
}

// faults gathers what is wrong with a form, so that all of it can be said at once.
type faults struct{ list []error }

func (f *faults) add(err error) {
	if err != nil {
		f.list = append(f.list, err)
	}
}

// err is one error about all the fields. An error that is about none is told alone.
func (f *faults) err() error {
	var all ledger.Error
	for _, err := range f.list {
		var known *ledger.Error
		if !errors.As(err, &known) || known.Code != ledger.CodeInvalidArgument {
			return err
		}
		all.Code, all.Message = known.Code, known.Message
		all.Violations = append(all.Violations, known.Violations...)
	}
	if len(f.list) == 0 {
		return nil
	}
	return &all
}

// values are the fields of a form as they were sent, without the spaces around them.
type values url.Values

func (q values) get(name string) string { return strings.TrimSpace(url.Values(q).Get(name)) }

// check returns CodeInvalidArgument for what no field may have.
func (q values) check(names ...string) error {
	for _, name := range names {
		switch text := q.get(name); {
		case len(text) > 256:
			return ledger.Invalid(name, "has %d bytes, and at most 256 are allowed", len(text))
		case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
			return ledger.Invalid(name, "is not text")
		}
	}
	return nil
}

// number reads a whole number that is not negative; "" is 0. It returns CodeInvalidArgument.
func (q values) number(name string) (int64, error) {
	text := q.get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, ledger.Invalid(name, "%.40q is no whole number", text)
	}
	return n, nil
}

// zones are proposed where a time zone is asked for. Any other one of the IANA database will do.
var zones = []string{
	"Asia/Dhaka", "Asia/Kolkata", "Asia/Karachi", "Asia/Kathmandu", "Asia/Colombo", "Asia/Dubai", "Asia/Singapore", "Asia/Hong_Kong", "Asia/Tokyo",
	"Europe/London", "Europe/Berlin", "America/New_York", "America/Chicago", "America/Los_Angeles", "Africa/Nairobi", "Australia/Sydney", "UTC",
}

// zone is the zone that a form means.
func (v *visit) zone(q values) string {
	if url.Values(q).Has("zone") {
		return q.get("zone")
	}
	return v.defaultZone()
}

func (v *visit) defaultZone() string {
	if v.config.Zone == "" {
		return "UTC"
	}
	return v.config.Zone
}

// lastMonth is the month before this one, which is the one whose books are looked at most.
func lastMonth(now time.Time, zone string) string {
	location, err := report.ParseZone(zone)
	if err != nil {
		location = time.UTC
	}
	y, m, _ := now.In(location).Date()
	return time.Date(y, m-1, 1, 0, 0, 0, 0, time.UTC).Format("2006-01")
}

// period reads a period: a month, or from and to. It returns CodeInvalidArgument.
func (v *visit) period(q values) (report.Period, error) {
	if err := q.check("month", "from", "to", "zone"); err != nil {
		return report.Period{}, err
	}
	month, from, to := q.get("month"), q.get("from"), q.get("to")
	if month == "" {
		return report.ParsePeriod(from, to, v.zone(q))
	}
	if from != "" || to != "" {
		return report.Period{}, ledger.Invalid("month", "and from or to cannot be given together: leave one of the two empty")
	}
	return report.Month(month, v.zone(q))
}

// moment reads the moment of a report that is as of one: the end of a month, or to.
func (v *visit) moment(q values) (report.Period, error) {
	p, err := v.period(q)
	p.From = time.Time{}
	return p, err
}

// periodFields are the fields of a period.
func (v *visit) periodFields(q values, atOneMoment bool) []field {
	month := field{Name: "month", Label: "Month", Help: "such as 2026-01", Kind: "text", Value: q.get("month")}
	from := field{Name: "from", Label: "or from, inclusive", Help: "a day, such as 2026-01-01", Kind: "text", Value: q.get("from")}
	to := field{Name: "to", Label: "to, exclusive", Help: "the next day: 2026-02-01", Kind: "text", Value: q.get("to")}
	zone := field{Name: "zone", Label: "Time zone", Help: "in which days begin", Kind: "text", Value: v.zone(q), Suggestions: zones}
	if atOneMoment {
		month.Label = "At the end of the month"
		to.Label, to.Help = "or as of the beginning of", "a day; empty is now"
		return []field{month, to, zone}
	}
	return []field{month, from, to, zone}
}

// basisField asks by which of the two times.
func basisField(q values) field {
	basis := q.get("basis")
	return field{Name: "basis", Label: "Dates are by", Kind: "choice", Options: []option{
		{"booking", "booking time", basis != "value"}, {"value", "value date", basis == "value"},
	}}
}
