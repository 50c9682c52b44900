package export

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"
)

// daily makes points on days that follow each other.
func daily(first string, values ...string) []Point {
	at, err := time.Parse(time.DateOnly, first)
	if err != nil {
		panic(err)
	}
	points := make([]Point, len(values))
	for i, v := range values {
		points[i] = Point{Day: at.AddDate(0, 0, i).Format(time.DateOnly), Value: decimal.RequireFromString(v)}
	}
	return points
}

// drawn is what a test looks at in a plot.
type drawn struct {
	text       string
	title      string
	desc       string
	line       [][2]float64
	classes    map[string]int
	axisLabels []string
}

// reporter is what testing.T and rapid.T have in common.
type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}

// draw draws a plot, and makes sure of what holds for each: it is well-formed, does what a strict policy allows, and stays within its box.
func draw(t reporter, series PlotSeries) drawn {
	t.Helper()
	var b bytes.Buffer
	if err := Plot(&b, series); err != nil {
		t.Fatalf("%v", err)
	}
	d := drawn{text: b.String(), classes: map[string]int{}}
	decoder := xml.NewDecoder(&b)
	var path []string
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return d
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, d.text)
		}
		switch token := token.(type) {
		case xml.StartElement:
			path = append(path, token.Name.Local)
			d.element(t, token)
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			if len(path) == 0 {
				continue
			}
			switch path[len(path)-1] {
			case "title":
				d.title += string(token)
			case "desc":
				d.desc += string(token)
			case "text":
				d.axisLabels = append(d.axisLabels, string(token))
			}
		}
	}
}

var allowedElements = []string{"svg", "title", "desc", "text", "line", "path", "circle"}

func (d *drawn) element(t reporter, e xml.StartElement) {
	t.Helper()
	if !slices.Contains(allowedElements, e.Name.Local) {
		t.Fatalf("there is a %s", e.Name.Local)
	}
	isLine := false
	for _, a := range e.Attr {
		switch a.Name.Local {
		case "class":
			d.classes[a.Value]++
			isLine = a.Value == "plot-line"
		case "style", "href", "onload":
			t.Fatalf("there is an attribute %s", a.Name.Local)
		case "x", "x1", "x2", "cx", "y", "y1", "y2", "cy":
			limit := plotWidth
			if strings.Contains(a.Name.Local, "y") {
				limit = plotHeight
			}
			if v, err := strconv.ParseFloat(a.Value, 64); err != nil || v < 0 || v > limit {
				t.Fatalf("%s is %s", a.Name.Local, a.Value)
			}
		case "d":
			if isLine {
				d.line = walk(t, a.Value)
			}
		}
	}
}

var pathStep = regexp.MustCompile(`([MHV])([0-9.]+)(?: ([0-9.]+))?`)

// walk follows a path of M, H and V.
func walk(t reporter, path string) [][2]float64 {
	t.Helper()
	if rest := pathStep.ReplaceAllString(path, ""); rest != "" {
		t.Fatalf("a path with %q", rest)
	}
	var points [][2]float64
	var at [2]float64
	for _, m := range pathStep.FindAllStringSubmatch(path, -1) {
		v, _ := strconv.ParseFloat(m[2], 64)
		switch m[1] {
		case "M":
			at[0] = v
			at[1], _ = strconv.ParseFloat(m[3], 64)
		case "H":
			at[0] = v
		case "V":
			at[1] = v
		}
		points = append(points, at)
	}
	return points
}

func TestPlot(t *testing.T) {
	series := PlotSeries{Title: "assets:bank", Currency: "BDT", Scale: 2, Points: daily("2026-01-30", "0", "1500", "-250.5", "-250.5")}
	d := draw(t, series)
	if d.title != "assets:bank" {
		t.Errorf("title %q", d.title)
	}
	wantDesc := "Balance in BDT from 2026-01-30 to 2026-02-02. Lowest: −250.50 on 2026-02-01. Highest: 1,500.00 on 2026-01-31. Last: −250.50."
	if d.desc != wantDesc {
		t.Errorf("description %q", d.desc)
	}
	want := []string{
		"−500", "0", "500", "1,000", "1,500", "2026-01-30", "2026-01-31", "2026-02-01", "2026-02-02",
		"assets:bank", "BDT", "2026-02-02: −250.50",
	}
	if !slices.Equal(d.axisLabels, want) {
		t.Errorf("labels %q", d.axisLabels)
	}
	if d.classes["plot-zero"] != 1 || d.classes["plot-area"] != 1 || d.classes["plot-line"] != 1 {
		t.Errorf("%v", d.classes)
	}
	// Each day is as long as the others, and the line goes straight up and down between them.
	for i, p := range d.line[1:] {
		if before := d.line[i]; p[0] != before[0] && p[1] != before[1] || p[0] < before[0] {
			t.Errorf("a step from %v to %v", before, p)
		}
	}
	if first, last := d.line[0], d.line[len(d.line)-1]; last[0] != plotRight || first[1] <= d.line[2][1] || last[1] <= first[1] {
		t.Errorf("%v", d.line)
	}
	if again := draw(t, series); again.text != d.text {
		t.Error("it has other bytes the second time")
	}
	for _, part := range []string{`role="img"`, `viewBox="0 0 480 290"`, `fill="currentColor"`} {
		if !strings.Contains(d.text, part) {
			t.Errorf("no %s", part)
		}
	}
}

func TestPlotAmounts(t *testing.T) {
	for _, c := range []struct {
		name, currency string
		scale          int32
		values         []string
		want           []string // the labels of the axis, and the unit
	}{
		{"one", "USD", 2, []string{"1234.5"}, []string{"0", "500", "1,000", "1,500", "USD"}},
		{"all zero", "USD", 2, []string{"0", "-0.00"}, []string{"0", "USD"}},
		{"all the same", "JPY", 0, []string{"-7500", "-7500"}, []string{"−8,000", "−6,000", "−4,000", "−2,000", "0", "JPY"}},
		{"cents", "USD", 2, []string{"0.03", "0.12"}, []string{"0.00", "0.05", "0.10", "0.15", "USD"}},
		{"one cent", "USD", 2, []string{"0.00", "0.01"}, []string{"0.00", "0.01", "USD"}},
		{"far from zero", "BDT", 2, []string{"900000", "900400"}, []string{"900,000", "900,100", "900,200", "900,300", "900,400", "BDT"}},
		{"far below zero", "BDT", 2, []string{"-900000", "-900003"},
			[]string{"−900,003", "−900,002", "−900,001", "−900,000", "BDT"}},
		{"billions", "BDT", 2, []string{"0", "25000000000"}, []string{"0", "5", "10", "15", "20", "25", "billions of BDT"}},
		{"28 digits", "BDT", 2, []string{"-1234567890123456789012345678.01", "1234567890123456789012345678.01"},
			[]string{"−2", "−1", "0", "1", "2", "10²⁷ BDT"}},
		{"28 digits that hardly differ", "BDT", 2, []string{"1234567890123456789012345678.01", "1234567890123456789012345678.04"},
			[]string{"+0.00", "+0.01", "+0.02", "+0.03", "BDT above 1,234,567,890,123,456,789,012,345,678.01"}},
		{"below zero that hardly differ", "BDT", 0, []string{"-1234567890123456789012345678", "-1234567890123456789012345677"},
			[]string{"+0", "+1", "BDT above −1,234,567,890,123,456,789,012,345,678"}},
		{"wei", "ETH", 18, []string{"-0.000000000000000001", "0.000000000000000002"}, []string{"−1", "0", "1", "2", "10⁻¹⁸ ETH"}},
		{"finer than its currency", "JPY", 0, []string{"0.25", "0.5"}, []string{"0", "1", "JPY"}},
	} {
		d := draw(t, PlotSeries{Title: c.name, Currency: c.currency, Scale: c.scale, Points: daily("2026-03-01", c.values...)})
		var got []string
		for _, label := range d.axisLabels {
			if !strings.HasPrefix(label, "2026-") && label != c.name {
				got = append(got, label)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPlotDays(t *testing.T) {
	for _, c := range []struct {
		first string
		days  int
		want  string
	}{
		{"2026-02-28", 1, "2026-02-28"},
		{"2026-02-27", 3, "2026-02-27 2026-02-28 2026-03-01"},
		{"2026-01-01", 31, "2026-01-01 2026-01-11 2026-01-21 2026-01-31"},
		{"2026-01-01", 365, "2026-01 2026-04 2026-07 2026-10"},
		{"1969-11-15", 100, "1969-12 1970-01 1970-02"},
		{"2020-06-10", 365 * 5, "2021 2022 2023 2024 2025"},
		{"1900-01-02", 365 * 126, "1920 1940 1960 1980 2000 2020"},
	} {
		points := []Point{daily(c.first, "0")[0]}
		if c.days > 1 {
			at, _ := time.Parse(time.DateOnly, c.first)
			points = append(points, Point{Day: at.AddDate(0, 0, c.days-1).Format(time.DateOnly)})
		}
		d := draw(t, PlotSeries{Title: "t", Currency: "BDT", Points: points})
		var got []string
		for _, label := range d.axisLabels {
			if len(label) >= 4 && label[0] >= '1' && label[0] <= '2' && !strings.Contains(label, ": ") {
				got = append(got, label)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%d days from %s: %s", c.days, c.first, got)
		}
	}
}

func TestPlotRefuses(t *testing.T) {
	for name, points := range map[string][]Point{
		"no points":    nil,
		"no day":       {{Day: "2026-02-30"}},
		"out of order": {{Day: "2026-02-02"}, {Day: "2026-02-01"}},
		"twice":        {{Day: "2026-02-02"}, {Day: "2026-02-02"}},
	} {
		if err := Plot(io.Discard, PlotSeries{Points: points}); err == nil {
			t.Errorf("%s: drawn", name)
		}
	}
	if err := Plot(&breaking{10}, PlotSeries{Points: daily("2026-01-01", "1")}); !errors.Is(err, errGone) {
		t.Error(err)
	}
}

// TestPlotNastyTexts: a name cannot become anything but a text.
func TestPlotNastyTexts(t *testing.T) {
	for _, text := range append([]string{`</title><script>alert(1)</script>`, `"><img onload=x>`, "]]>", "<!--", "&lt;"}, nastyTexts...) {
		d := draw(t, PlotSeries{Title: text, Description: text, Currency: "BDT", Points: daily("2026-01-01", "1")})
		if d.title != plotText(text) || text != "" && strings.TrimSpace(text) != "" && d.desc != plotText(text) {
			t.Errorf("%.60q: %.60q, %.60q", text, d.title, d.desc)
		}
		if strings.ContainsAny(d.text, "\x00\x1b\u202e\u2066") {
			t.Errorf("%.60q is drawn with what it has in it", text)
		}
	}
}

// TestPlotThins draws many days: the file stays small, and each peak is still there.
func TestPlotThins(t *testing.T) {
	values := make([]string, 20_000)
	for i := range values {
		values[i] = fmt.Sprint(i % 100)
	}
	values[7777], values[15555] = "5000", "-3000"
	points := daily("1970-01-01", values...)
	d := draw(t, PlotSeries{Title: "t", Currency: "BDT", Points: points})
	if len(d.text) > 100_000 {
		t.Errorf("%d bytes", len(d.text))
	}
	p := newPlot(PlotSeries{Currency: "BDT", Points: points}, []int{0, 19_999})
	for value, at := range map[string]float64{"5000": 7777, "-3000": 15555} {
		y, found := math.Round(p.y(decimal.RequireFromString(value))*10)/10, false
		for _, point := range d.line {
			found = found || point[1] == y && math.Abs(point[0]-p.x(at)) < 1
		}
		if !found {
			t.Errorf("%s is not drawn", value)
		}
	}
}

// TestPlotAnything draws any amounts: the axis holds them, its ticks are few and in order, and its labels say exactly what they are.
func TestPlotAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.Int32Range(0, 18).Draw(t, "scale")
		base := decimal.New(rapid.Int64().Draw(t, "base"), rapid.Int32Range(-18, 20).Draw(t, "size"))
		at := time.Date(rapid.IntRange(1800, 2200).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC)
		var points []Point
		for range rapid.IntRange(1, 30).Draw(t, "points") {
			move := decimal.New(rapid.Int64Range(-1000, 1000).Draw(t, "move"), rapid.Int32Range(-18, 20).Draw(t, "exponent"))
			points = append(points, Point{Day: at.Format(time.DateOnly), Value: base.Add(move)})
			at = at.AddDate(0, 0, rapid.IntRange(1, 400).Draw(t, "days"))
		}
		series := PlotSeries{Title: "t", Currency: "BDT", Scale: scale, Points: points}
		draw(t, series)
		days, err := plotDays(points)
		if err != nil {
			t.Fatal(err)
		}
		p := newPlot(series, days)
		if len(p.ticks) < 1 || len(p.ticks) > plotIntervals+1 || longest(p.labels) > plotLabel+1 {
			t.Fatalf("ticks %v, labels %q", p.ticks, p.labels)
		}
		for _, point := range points {
			if y := p.y(point.Value); y < plotTop-0.01 || y > plotBottom+0.01 || point.Value.LessThan(p.low) || point.Value.GreaterThan(p.high) {
				t.Fatalf("%s is at %f", point.Value, y)
			}
		}
		if !slices.IsSortedFunc(p.ticks, decimal.Decimal.Cmp) || len(slices.Compact(slices.Clone(p.labels))) != len(p.labels) {
			t.Fatalf("ticks %v, labels %q", p.ticks, p.labels)
		}
	})
}
