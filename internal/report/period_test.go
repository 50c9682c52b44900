package report_test

import (
	"archive/zip"
	"fmt"
	"go/build"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
)

// peculiar are days at whose beginning the clocks of a zone did something, and the moment at which the day begins.
var peculiar = []struct{ zone, date, begins, why string }{
	{"UTC", "2026-02-01", "2026-02-01T00:00:00Z", "nothing"},
	{"Asia/Dhaka", "2026-02-01", "2026-01-31T18:00:00Z", "nothing"},
	{"Asia/Kathmandu", "2026-02-01", "2026-01-31T18:15:00Z", "an odd offset"},
	{"Asia/Kathmandu", "1986-01-01", "1985-12-31T18:30:00Z", "an odd offset that changed at midnight, by a gap of 15 minutes"},
	{"America/New_York", "2026-03-08", "2026-03-08T05:00:00Z", "the day has 23 hours"},
	{"America/New_York", "2026-03-09", "2026-03-09T04:00:00Z", "the day after"},
	{"America/New_York", "2026-11-02", "2026-11-02T05:00:00Z", "the day before had 25 hours"},
	{"America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z", "there was no midnight"},
	{"America/Sao_Paulo", "2018-02-18", "2018-02-18T03:00:00Z", "the hour before midnight came twice"},
	{"Asia/Beirut", "2024-03-31", "2024-03-30T22:00:00Z", "there was no midnight"},
	{"Africa/Cairo", "2024-04-26", "2024-04-25T22:00:00Z", "there was no midnight"},
	{"Africa/Cairo", "2024-11-01", "2024-10-31T22:00:00Z", "the hour before midnight came twice"},
	{"Pacific/Apia", "2011-12-29", "2011-12-29T10:00:00Z", "the day before the one that was skipped"},
	{"Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z", "there was no such day"},
	{"Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z", "the day after it"},
	{"Pacific/Kwajalein", "1993-08-21", "1993-08-21T12:00:00Z", "there was no such day"},
	{"Pacific/Kwajalein", "1993-08-22", "1993-08-21T12:00:00Z", "the day after it"},
	{"America/Juneau", "1867-10-19", "1867-10-19T08:57:41Z", "the day of the purchase came twice"},
	{"Africa/Monrovia", "1971-06-01", "1971-06-01T00:44:30Z", "an offset with seconds"},
	{"Africa/Monrovia", "1972-01-07", "1972-01-07T00:44:30Z", "the change from it"},
	{"Africa/Monrovia", "1972-01-08", "1972-01-08T00:00:00Z", "the day after that"},
	{"America/Havana", "2026-11-01", "2026-11-01T04:00:00Z", "the hour after midnight came twice, both on that day"},
	{"America/Havana", "2026-11-02", "2026-11-02T05:00:00Z", "the day after"},
	{"America/Havana", "2026-03-08", "2026-03-08T05:00:00Z", "there was no midnight"},
	{"America/St_Johns", "2006-10-29", "2006-10-29T03:30:00Z", "at a minute past midnight the clocks went back to the day before"},
	{"Antarctica/Troll", "2026-03-29", "2026-03-29T00:00:00Z", "the day has 22 hours"},
	{"Antarctica/Troll", "2026-03-30", "2026-03-29T22:00:00Z", "the day after"},
	{"Antarctica/Casey", "2011-10-28", "2011-10-27T16:00:00Z", "two hours and more around midnight"},
	{"Europe/Dublin", "1916-05-21", "1916-05-21T00:25:21Z", "local mean time"},
	{"Asia/Manila", "1844-12-31", "1844-12-31T15:56:08Z", "there was no such day, and the offset was the largest there is"},
}

// localDate is the date that clocks show, for an oracle: days since 1970.
func localDate(second int64, zone *time.Location) int64 {
	y, m, d := time.Unix(second, 0).In(zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400
}

// slowBegins looks second by second for the last one at which clocks show an earlier date; the day begins with the next one.
func slowBegins(day int64, zone *time.Location) int64 {
	for second := day*86400 + 40*3600; ; second-- {
		if localDate(second, zone) < day {
			return second + 1
		}
	}
}

func TestBegins(t *testing.T) {
	t.Parallel()
	for _, c := range peculiar {
		zone := zoneOf(t, c.zone)
		date, err := time.Parse(time.DateOnly, c.date)
		if err != nil {
			t.Fatal(err)
		}
		got := report.Begins(date.Year(), date.Month(), date.Day(), zone)
		if text := got.UTC().Format(time.RFC3339); text != c.begins {
			t.Errorf("%s begins at %s in %s, want %s: %s", c.date, text, c.zone, c.begins, c.why)
		}
		if slow := slowBegins(date.Unix()/86400, zone); got.Unix() != slow {
			t.Errorf("%s begins at %s in %s, by the second at %s: %s", c.date, got.UTC(), c.zone, time.Unix(slow, 0).UTC(), c.why)
		}
		for _, moment := range []struct {
			at   time.Time
			last bool
		}{{got, false}, {got.Add(-time.Microsecond), true}} {
			at := report.DayAt(moment.at, zone)
			if moment.last && at >= c.date || !moment.last && at < c.date {
				t.Errorf("%s is on %s in %s, where %s begins at %s", moment.at.UTC(), at, c.zone, c.date, c.begins)
			}
		}
	}
}

func zoneOf(t interface {
	Helper()
	Fatal(args ...any)
}, name string) *time.Location {
	t.Helper()
	zone, err := report.ParseZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// zones lists the zones of the database that Go comes with, or those that are peculiar where that is not here.
func zones(t *testing.T) []string {
	t.Helper()
	var names []string
	if archive, err := zip.OpenReader(filepath.Join(build.Default.GOROOT, "lib", "time", "zoneinfo.zip")); err == nil {
		for _, file := range archive.File {
			if !strings.HasSuffix(file.Name, "/") {
				names = append(names, file.Name)
			}
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
	} else {
		t.Logf("without the list of all zones: %v", err)
		for _, c := range peculiar {
			names = append(names, c.zone)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkDay holds one day against what days are: it begins no later than the next one, and what is from there up to that one is on it.
func checkDay(t interface{ Errorf(string, ...any) }, name string, zone *time.Location, day int64) {
	date := time.Unix(day*86400, 0).UTC()
	begin := func(n int) time.Time {
		d := date.AddDate(0, 0, n)
		return report.Begins(d.Year(), d.Month(), d.Day(), zone)
	}
	this, next := begin(0), begin(1)
	text := date.Format(time.DateOnly)
	switch length := next.Sub(this); {
	case length == 0: // There is no such day.
		if got := report.DayAt(this, zone); got == text {
			t.Errorf("%s in %s has no moment, and %s is on it", text, name, this.UTC())
		}
		return
	case length < 12*time.Hour || length > 48*time.Hour:
		// A station in Antarctica that was given up, or founded anew, changed by half a day.
		t.Errorf("%s in %s has %s", text, name, length)
	}
	for _, at := range []time.Time{this, this.Add(time.Microsecond), this.Add(next.Sub(this) / 2), next.Add(-time.Microsecond)} {
		if got := report.DayAt(at, zone); got != text {
			t.Errorf("%s is on %s in %s, and not on %s, which is from %s to %s", at.UTC(), got, name, text, this.UTC(), next.UTC())
		}
	}
	if got := report.DayAt(this.Add(-time.Microsecond), zone); got >= text {
		t.Errorf("the moment before %s in %s is on %s", text, name, got)
	}
}

// Each zone that there is, around each change of its clocks.
func TestDays_AllZones(t *testing.T) {
	t.Parallel()
	names := zones(t)
	changes := 0
	seen := map[string]bool{}
	for _, name := range names {
		zone := zoneOf(t, name)
		var days []int64
		at := time.Date(1840, 1, 1, 0, 0, 0, 0, time.UTC)
		clocks := fmt.Sprint(at.In(zone))
		for at.Year() < 2040 {
			_, end := at.In(zone).ZoneBounds()
			if end.IsZero() {
				break
			}
			days = append(days, end.Unix()/86400)
			clocks += end.In(zone).Format(" 2006-01-02T15:04:05Z07:00:00")
			at = end
		}
		if seen[clocks] { // another name of a zone
			continue
		}
		seen[clocks] = true
		for _, day := range days {
			changes++
			for n := day - 1; n <= day+1; n++ {
				checkDay(t, name, zone, n)
			}
		}
	}
	t.Logf("%d changes of %d zones, of which %d have clocks of their own", changes, len(names), len(seen))
	if len(names) > 100 && changes < 15_000 {
		t.Errorf("only %d changes of clocks were looked at", changes)
	}
}

// Any day of any zone, against an oracle that looks at each second.
func TestDays_Random(t *testing.T) {
	t.Parallel()
	names := zones(t)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "zone")
		zone := zoneOf(t, name)
		day := rapid.Int64Range(-40_000, 40_000).Draw(t, "day")
		if rapid.Bool().Draw(t, "near a change") {
			if _, end := time.Unix(day*86400, 0).In(zone).ZoneBounds(); !end.IsZero() && end.Year() < 9000 {
				day = end.Unix()/86400 + rapid.Int64Range(-1, 1).Draw(t, "beside it")
			}
		}
		date := time.Unix(day*86400, 0).UTC()
		if got, want := report.Begins(date.Year(), date.Month(), date.Day(), zone).Unix(), slowBegins(day, zone); got != want {
			t.Errorf("%s begins at %s in %s, by the second at %s", date.Format(time.DateOnly), time.Unix(got, 0).UTC(), name, time.Unix(want, 0).UTC())
		}
		checkDay(t, name, zone, day)
	})
}

// Months follow each other without a gap, and have each moment once.
func TestMonth(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "UTC", "Asia/Dhaka", "America/New_York", "Pacific/Apia", "America/Havana", "Africa/Monrovia"} {
		last, err := report.Month("1969-12", name)
		if err != nil {
			t.Fatal(err)
		}
		for month := range 70 * 12 {
			text := time.Date(1970, time.Month(1+month), 1, 0, 0, 0, 0, time.UTC).Format("2006-01")
			p, err := report.Month(text, name)
			if err != nil {
				t.Fatal(err)
			}
			if !p.From.Equal(last.To) || !p.From.Before(p.To) {
				t.Errorf("%s in %s is from %s to %s, and the month before ends at %s", text, name, p.From, p.To, last.To)
			}
			if at := report.DayAt(p.From, p.Zone); at != text+"-01" {
				t.Errorf("%s in %s begins on %s", text, name, at)
			}
			if p.Zone == time.UTC && (p.From.Day() != 1 || p.From.Hour() != 0) {
				t.Errorf("%s begins at %s", text, p.From)
			}
			last = p
		}
	}
	dhaka, err := report.Month("2026-12", "Asia/Dhaka")
	if err != nil || !dhaka.From.Equal(*at("2026-11-30T18:00:00Z")) || !dhaka.To.Equal(*at("2026-12-31T18:00:00Z")) ||
		dhaka.Zone.String() != "Asia/Dhaka" {
		t.Errorf("%v, %v", dhaka, err)
	}
}

func TestDaysOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		from, to, zone string
		dates          string
		hours          string
	}{
		{"whole days", "2026-01-30", "2026-02-02", "Asia/Dhaka", "2026-01-30 2026-01-31 2026-02-01", "24h0m0s 24h0m0s"},
		{"parts of days", "2026-01-30T23:59:59.999999Z", "2026-02-01T00:00:00.000001Z", "UTC", "2026-01-30 2026-01-31 2026-02-01", "24h0m0s 24h0m0s"},
		{"up to a midnight", "2026-01-31T10:00:00Z", "2026-02-01T00:00:00Z", "UTC", "2026-01-31", ""},
		{"a microsecond", "2026-01-31T10:00:00Z", "2026-01-31T10:00:00.000001Z", "UTC", "2026-01-31", ""},
		{"23 hours", "2026-03-07", "2026-03-10", "America/New_York", "2026-03-07 2026-03-08 2026-03-09", "24h0m0s 23h0m0s"},
		{"25 hours", "2026-10-31", "2026-11-03", "America/New_York", "2026-10-31 2026-11-01 2026-11-02", "24h0m0s 25h0m0s"},
		{"a day that was not", "2011-12-29", "2012-01-01", "Pacific/Apia", "2011-12-29 2011-12-30 2011-12-31", "24h0m0s 0s"},
	} {
		dates, begin, err := report.DaysOf(period(t, c.from, c.to, c.zone))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var hours []string
		for i := range begin[1:] {
			hours = append(hours, begin[i+1].Sub(begin[i]).String())
		}
		if got := strings.Join(dates, " "); got != c.dates || strings.Join(hours, " ") != c.hours {
			t.Errorf("%s: %s, %s", c.name, got, hours)
		}
	}
	p := period(t, "1700-01-01", "1700-01-02", "")
	p.To = p.From.AddDate(0, 0, 110_000)
	if dates, _, err := report.DaysOf(p); err != nil || len(dates) != 110_000 {
		t.Errorf("110,000 days: %d, %v", len(dates), err)
	}
	p.To = p.To.Add(time.Microsecond)
	if _, _, err := report.DaysOf(p); err == nil || invalid(t, err) != "to: is more than 110000 days after from" {
		t.Errorf("a moment more: %v", err)
	}
}

func TestParsePeriod(t *testing.T) {
	t.Parallel()
	const notTime = "is no day (2026-01-31), month (2026-01) or time of RFC 3339 (2026-01-31T00:00:00+06:00)"
	for _, c := range []struct{ from, to, zone, want string }{
		{"", "", "", " to  in UTC"},
		{"2026-01", "2026-02", "Asia/Dhaka", "2025-12-31T18:00:00Z to 2026-01-31T18:00:00Z in Asia/Dhaka"},
		{"2026-01-31", "", "America/New_York", "2026-01-31T05:00:00Z to  in America/New_York"},
		{"", "2026-01-31T10:00:00.000001+06:00", "", " to 2026-01-31T04:00:00.000001Z in UTC"},
		{"2024-02-29", "2024-02-29T00:00:00.000001Z", "UTC", "2024-02-29T00:00:00Z to 2024-02-29T00:00:00.000001Z in UTC"},
		{"0001-01-02", "9999-12-31", "UTC", "0001-01-02T00:00:00Z to 9999-12-31T00:00:00Z in UTC"},
		{"2011-12-29", "2011-12-30", "Pacific/Apia", "2011-12-29T10:00:00Z to 2011-12-30T10:00:00Z in Pacific/Apia"},

		{"2026-02-29", "", "", `from: "2026-02-29" ` + notTime},
		{"", "2026-1-1", "", `to: "2026-1-1" ` + notTime},
		{"yesterday", "", "", `from: "yesterday" ` + notTime},
		{"2026-13", "", "", `from: "2026-13" ` + notTime},
		{"2026-01-31 10:00", "", "", `from: "2026-01-31 10:00" ` + notTime},
		{strings.Repeat("x", 1000), "", "", `from: "` + strings.Repeat("x", 60) + `" ` + notTime},
		{"2026-01-31T00:00:00.0000001Z", "", "", "from: 2026-01-31T00:00:00.0000001Z is finer than a microsecond"},
		{"0000-12-31", "", "", "from: is outside the years 1 to 9999"},
		{"", "9999-12-31T23:00:00-01:00", "", ""},
		{"2026-02", "2026-02", "", "to: 2026-02-01 is not after from, 2026-02-01: a period ends without the moment of its end"},
		{"2026-02", "2026-01", "Asia/Dhaka", "to: 2026-01-01 is not after from, 2026-02-01: a period ends without the moment of its end"},
		{"2026-01-31T12:00:00Z", "2026-01-31T11:59:59.5Z", "Asia/Dhaka",
			"to: 2026-01-31T17:59:59.5+06:00 is not after from, 2026-01-31T18:00:00+06:00: a period ends without the moment of its end"},
		{"2011-12-30", "2011-12-31", "Pacific/Apia", "to: 2011-12-31 is not after from, 2011-12-31: a period ends without the moment of its end"},

		{"", "", "Asia/Daka", `zone: "Asia/Daka" is no zone`},
		{"", "", "Local", `zone: "Local" is no zone`},
		{"", "", "local", `zone: "local" is no zone`},
		{"", "", "localtime", `zone: "localtime" is no zone`},
		{"", "", "posixrules", `zone: "posixrules" is no zone`},
		{"", "", "right/Asia/Dhaka", `zone: "right/Asia/Dhaka" is no zone`},
		{"", "", "posix/Asia/Dhaka", `zone: "posix/Asia/Dhaka" is no zone`},
		{"", "", "/etc/localtime", `zone: "/etc/localtime" is no zone`},
		{"", "", "../../etc/passwd", `zone: "../../etc/passwd" is no zone`},
		{"", "", "+06:00", `zone: "+06:00" is no zone`},
		{"", "", "Asia/Dhaka\x00", `zone: "Asia/Dhaka\x00" is no zone`},
		{"", "", strings.Repeat("A", 200), `zone: "` + strings.Repeat("A", 80) + `" is no zone`},
	} {
		p, err := report.ParsePeriod(c.from, c.to, c.zone)
		got := ""
		if err != nil {
			got = invalid(t, err)
		} else if c.want != "" {
			got = fmt.Sprintf("%s to %s in %s", instant(p.From), instant(p.To), p.Zone)
		}
		if !strings.HasPrefix(got, c.want) || (c.want == "" && err != nil) {
			t.Errorf("from %.40q to %q in %.40q: %s\nwant %s", c.from, c.to, c.zone, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"2026": `month: "2026" is no month, such as 2026-01`, "2026-00": `month: "2026-00" is no month, such as 2026-01`,
		"": `month: "" is no month, such as 2026-01`, "2026-01-01": `month: "2026-01-01" is no month, such as 2026-01`,
		"9999-12": "to: is outside the years 1 to 9999",
	} {
		if _, err := report.Month(text, ""); err == nil || invalid(t, err) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := report.Month("2026-01", "nowhere"); err == nil || !strings.HasPrefix(invalid(t, err), "zone: ") {
		t.Errorf("a month of no zone: %v", err)
	}
	for text, want := range map[string]report.Basis{"": report.Booking, "booking": report.Booking, "value": report.Value, "Value": "", "posted": ""} {
		got, err := report.ParseBasis(text)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.999999Z07:00")
}

// invalid gives the field and the message of an error about what was asked.
func invalid(t testing.TB, err error) string {
	t.Helper()
	code := ledger.CodeOf(err)
	if code != ledger.CodeInvalidArgument && code != ledger.CodeNotFound { // what it names is malformed, or is not there
		t.Errorf("%v has the code %s", err, code)
	}
	return strings.TrimPrefix(err.Error(), code.Error()+": ")
}

func TestPeriod_Text(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, at, want string }{
		{"Asia/Dhaka", "2026-01-31T18:00:00Z", "2026-02-01"},
		{"Asia/Dhaka", "2026-01-31T18:00:00.000001Z", "2026-02-01T00:00:00.000001+06:00"},
		{"UTC", "2026-01-31T18:00:00Z", "2026-01-31T18:00:00Z"},
		{"America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-04"},
		{"America/Havana", "2026-11-01T04:00:00Z", "2026-11-01"},
		{"America/Havana", "2026-11-01T05:00:00Z", "2026-11-01T00:00:00-05:00"},
		{"Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31"},
	} {
		if got := (report.Period{Zone: zoneOf(t, c.zone)}).Text(*at(c.at)); got != c.want {
			t.Errorf("%s in %s: %s, want %s", c.at, c.zone, got, c.want)
		}
	}
	if got := (report.Period{}).Text(time.Time{}); got != "" {
		t.Errorf("no moment: %q", got)
	}
}
