package export

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"github.com/shopspring/decimal"
)

// Point is the balance that an account had at the end of a day, and so from there until the next point.
type Point struct {
	// Day is a date, "2026-01-31".
	Day   string
	Value decimal.Decimal
}

// PlotSeries is a balance over time. Title and Description may be anything that users have written.
type PlotSeries struct {
	// Title is drawn above the plot, and is what it is called for those who hear it. Description is what they hear next; if it is empty, Plot says
	// from when to when the points are, and which are the lowest, the highest and the last.
	Title, Description string
	// Currency is the code of the currency, and Scale how many digits it has after the point.
	Currency string
	Scale    int32
	// Points are in the order of their days. There is at least one.
	Points []Point
}

// The measures of a plot, in units of its view box. At a width of 360 CSS pixels, as a phone has, a unit is three quarters of one, so that letters
// are 11 pixels high.
const (
	plotWidth  = 480.0
	plotHeight = 290.0
	plotRight  = plotWidth - 10
	plotTop    = 66.0
	plotBottom = plotHeight - 36
	plotLetter = 15.0
	// plotColumns is in how many columns the points of a long series are put together: as many as a wide screen has pixels there.
	plotColumns = 800
	// plotIntervals is in how many intervals the axis of amounts is divided at most, and plotLabel how long its labels are at most.
	plotIntervals = 5
	plotLabel     = 11
)

// Plot draws a balance over time as SVG, a line with steps since a balance stays until the next entry. It stands alone, in a file or within HTML: it
// has no scripts, no styles that a content security policy would have to allow, no fixed size and no colours but that of the text around it. A page
// can give it others by the classes plot, plot-title, plot-unit, plot-last, plot-grid, plot-zero, plot-axis, plot-area, plot-line and plot-end.
//
// What it says in figures is exact; floating point only says where on the screen. It returns an error if the days are not in order, if there
// are none, or if w does.
func Plot(w io.Writer, series PlotSeries) error {
	days, err := plotDays(series.Points)
	if err != nil {
		return fmt.Errorf("draw a plot: %w", err)
	}
	p := newPlot(series, days)
	p.drawGrid()
	p.drawDays()
	p.drawLine()
	p.drawHead()
	_, err = w.Write(p.document())
	return err
}

// plotDays counts the days of points from 1970-01-01.
func plotDays(points []Point) ([]int, error) {
	if len(points) == 0 {
		return nil, errors.New("there are no points")
	}
	days := make([]int, len(points))
	for i, p := range points {
		t, err := time.Parse(time.DateOnly, p.Day)
		if err != nil {
			return nil, fmt.Errorf("%.20q is no day", p.Day)
		}
		days[i] = int(t.Unix() / 86400)
		if i > 0 && days[i] <= days[i-1] {
			return nil, fmt.Errorf("%s comes after %s", p.Day, points[i-1].Day)
		}
	}
	return days, nil
}

// plot is one that is being drawn.
type plot struct {
	series PlotSeries
	days   []int
	// from and to are the first day and the day after the last one.
	from, to int
	// low and high are the ends of the axis of amounts.
	low, high decimal.Decimal
	ticks     []decimal.Decimal
	labels    []string
	unit      string
	// left is where the plot begins, right of the labels.
	left float64
	body bytes.Buffer
}

func newPlot(series PlotSeries, days []int) *plot {
	p := &plot{series: series, days: days, from: days[0], to: days[len(days)-1] + 1}
	lowest, highest := series.Points[0].Value, series.Points[0].Value
	for _, point := range series.Points {
		lowest, highest = decimal.Min(lowest, point.Value), decimal.Max(highest, point.Value)
	}
	p.ticks, p.low, p.high = amountTicks(lowest, highest, series.Scale)
	p.labels, p.unit = amountLabels(p.ticks, series.Scale)
	for _, label := range p.labels {
		p.left = max(p.left, letters(label))
	}
	p.left += 14 // 4 before the labels, and 10 between them and the plot
	return p
}

// amountTicks divides the axis of amounts at round ones: 1, 2 or 5 with zeros. The axis includes zero unless the amounts are so much further from it
// than from each other that nothing could be seen of them.
func amountTicks(lowest, highest decimal.Decimal, scale int32) (ticks []decimal.Decimal, low, high decimal.Decimal) {
	if lowest.IsZero() && highest.IsZero() {
		one := decimal.NewFromInt(1)
		return []decimal.Decimal{{}}, one.Neg(), one
	}
	span := highest.Sub(lowest)
	switch {
	case lowest.IsPositive() && (span.IsZero() || lowest.LessThanOrEqual(span)):
		lowest = decimal.Decimal{}
	case highest.IsNegative() && (span.IsZero() || highest.Neg().LessThanOrEqual(span)):
		highest = decimal.Decimal{}
	}
	span = highest.Sub(lowest)
	exponent := max(int32(span.NumDigits())+span.Exponent()-2, -scale) //nolint:gosec // the digits of an amount
	for ; ; exponent++ {
		for _, digit := range []int64{1, 2, 5} {
			step := decimal.New(digit, exponent)
			first, last := floorOf(lowest, step), floorOf(highest.Neg(), step).Neg()
			if last.Sub(first).GreaterThan(decimal.NewFromInt(plotIntervals)) {
				continue
			}
			for n := first; n.LessThanOrEqual(last); n = n.Add(decimal.NewFromInt(1)) {
				ticks = append(ticks, n.Mul(step))
			}
			return ticks, ticks[0], ticks[len(ticks)-1]
		}
	}
}

// floorOf is how many whole steps there are in an amount, rounded down. It is exact, which division is not.
func floorOf(amount, step decimal.Decimal) decimal.Decimal {
	quotient, rest := amount.QuoRem(step, 0)
	if rest.IsNegative() {
		return quotient.Sub(decimal.NewFromInt(1))
	}
	return quotient
}

// amountLabels writes ticks: in full, in thousands, millions and so on, or as what is above the lowest one, whichever first is short enough. Unit
// is what they are in, to be followed by the currency; in the last case also what is to add.
func amountLabels(ticks []decimal.Decimal, scale int32) (labels []string, unit string) {
	labels, unit = roundLabels(ticks, scale)
	if longest(labels) <= plotLabel {
		return labels, unit + "%s"
	}
	above := make([]decimal.Decimal, len(ticks))
	for i, tick := range ticks {
		above[i] = tick.Sub(ticks[0])
	}
	labels, unit = roundLabels(above, scale)
	for i := range labels {
		labels[i] = "+" + labels[i]
	}
	return labels, unit + "%s above " + grouped(ticks[0], exactPlaces(ticks[:1], scale))
}

func roundLabels(ticks []decimal.Decimal, scale int32) (labels []string, unit string) {
	places := exactPlaces(ticks, scale)
	if labels = groupedAll(ticks, places); longest(labels) <= plotLabel {
		return labels, ""
	}
	var most decimal.Decimal
	for _, tick := range ticks {
		most = decimal.Max(most, tick.Abs())
	}
	digits := int32(most.NumDigits()) + most.Exponent() //nolint:gosec // the digits of an amount
	power := (digits - 1) / 3 * 3
	if digits < 1 {
		power = (digits - 3) / 3 * 3
	}
	shifted := make([]decimal.Decimal, len(ticks))
	for i, tick := range ticks {
		shifted[i] = tick.Shift(-power)
	}
	return groupedAll(shifted, exactPlaces(shifted, 0)), powerName(power)
}

func powerName(power int32) string {
	switch power {
	case 0:
		return ""
	case 3:
		return "thousands of "
	case 6:
		return "millions of "
	case 9:
		return "billions of "
	case 12:
		return "trillions of "
	}
	superscript := strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴",
		"5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹")
	return "10" + superscript.Replace(strconv.Itoa(int(power))) + " "
}

// exactPlaces is how many digits after the point amounts need: none if they are whole, and those of the currency if that has a few, as people
// write it.
func exactPlaces(amounts []decimal.Decimal, scale int32) int32 {
	var places int32
	for _, a := range amounts {
		for !a.Equal(a.Truncate(places)) {
			places++
		}
	}
	if places > 0 && scale <= 3 {
		return max(places, scale)
	}
	return places
}

func groupedAll(amounts []decimal.Decimal, places int32) []string {
	labels := make([]string, len(amounts))
	for i, a := range amounts {
		labels[i] = grouped(a, places)
	}
	return labels
}

// grouped writes an amount for people: with a comma between thousands and a true minus sign.
func grouped(amount decimal.Decimal, places int32) string {
	whole, fraction, _ := strings.Cut(amount.Abs().StringFixed(places), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if amount.IsNegative() {
		return "−" + whole
	}
	return whole
}

func longest(labels []string) int {
	most := 0
	for _, label := range labels {
		most = max(most, uniseg.GraphemeClusterCount(label))
	}
	return most
}

// letters estimates how wide a text is drawn in the usual letters without serifs; rather too wide than too narrow.
func letters(text string) float64 {
	wide := 0.0
	for rest, state := text, -1; rest != ""; {
		var cluster string
		var cells int
		cluster, rest, cells, state = uniseg.FirstGraphemeClusterInString(rest, state)
		switch {
		case strings.ContainsAny(cluster, ".,:' ilj"):
			wide += 0.3
		case cells == 1 && cluster >= "A" && cluster <= "Z" || cluster == "m" || cluster == "w":
			wide += 0.72
		default:
			wide += 0.58 * float64(max(cells, 1))
		}
	}
	return wide * plotLetter
}

func (p *plot) x(day float64) float64 {
	return p.left + (plotRight-p.left)*(day-float64(p.from))/float64(p.to-p.from)
}

func (p *plot) y(amount decimal.Decimal) float64 {
	return plotTop + (plotBottom-plotTop)*ratio(p.high.Sub(amount), p.high.Sub(p.low))
}

// ratio is a share of a whole. Both are decimals of any size, and only what comes of them is a float.
func ratio(part, whole decimal.Decimal) float64 { return part.DivRound(whole, 8).InexactFloat64() }

// number writes a coordinate.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // A Builder has no errors.
	return b.String()
}

// plotTexts are the attributes of the classes of texts.
var plotTexts = map[string]string{
	"plot-title": ` font-weight="600"`,
	"plot-unit":  ` fill-opacity="0.75"`,
	"plot-axis":  ` fill-opacity="0.75"`,
}

// plotText is a text of others on one line, as it can be drawn.
func plotText(text string) string { return terminalText(strings.Join(strings.Fields(text), " ")) }

// text draws a text, squeezed if it would be wider than the room there is.
func (p *plot) text(class, anchor string, x, y, room float64, text string) {
	fmt.Fprintf(&p.body, `<text class="%s" x="%s" y="%s"%s`, class, number(x), number(y), plotTexts[class])
	if anchor != "start" {
		fmt.Fprintf(&p.body, ` text-anchor="%s"`, anchor)
	}
	if letters(text) > room {
		fmt.Fprintf(&p.body, ` textLength="%s" lengthAdjust="spacingAndGlyphs"`, number(room))
	}
	fmt.Fprintf(&p.body, ">%s</text>\n", escaped(text))
}

// rule draws a line of the axes, as thin on any screen.
func (p *plot) rule(class, opacity, x1, x2, y1, y2 string) {
	fmt.Fprintf(&p.body, `<line class="%s" x1="%s" x2="%s" y1="%s" y2="%s" stroke="currentColor" stroke-opacity="%s"`+
		` vector-effect="non-scaling-stroke"/>`+"\n", class, x1, x2, y1, y2, opacity)
}

// drawGrid draws the axis of amounts.
func (p *plot) drawGrid() {
	for i, tick := range p.ticks {
		class, opacity := "plot-grid", "0.18"
		if tick.IsZero() {
			class, opacity = "plot-zero", "0.7"
		}
		y := number(p.y(tick))
		p.rule(class, opacity, number(p.left), number(plotRight), y, y)
		p.text("plot-axis", "end", p.left-10, p.y(tick)+5, p.left, p.labels[i])
	}
}

// dayTick is a label below the axis of days: of a day, a month or a year.
type dayTick struct {
	// at is where it belongs, and middle where it is written.
	at, middle float64
	label      string
}

// drawDays draws the axis of days, with as many labels as there is room for.
func (p *plot) drawDays() {
	for _, tick := range p.dayTicks() {
		p.rule("plot-axis", "0.5", number(tick.at), number(tick.at), number(plotBottom), number(plotBottom+5))
		p.text("plot-axis", "middle", tick.middle, plotBottom+24, plotWidth, tick.label)
	}
}

// dayTicks tries days, months and years, ever further apart, until their labels do not touch.
func (p *plot) dayTicks() []dayTick {
	for _, step := range []int{1, 2, 3, 5, 7, 10, 14} {
		var days []int
		for day := p.from; day < p.to && len(days) < 10; day += step {
			days = append(days, day)
		}
		if ticks, ok := p.labelled(days, time.DateOnly); ok {
			return ticks
		}
	}
	for _, step := range []int{1, 2, 3, 6} {
		if ticks, ok := p.labelled(p.monthsApart(step), "2006-01"); ok {
			return ticks
		}
	}
	for step := 1; ; {
		if ticks, ok := p.labelled(p.monthsApart(12*step), "2006"); ok {
			return ticks
		}
		if strconv.Itoa(step)[0] == '2' {
			step = step / 2 * 5
		} else {
			step *= 2
		}
	}
}

// monthsApart lists the days of the period that begin every so many months, counted from the year 0. Of many it gives more than there is room for.
func (p *plot) monthsApart(months int) []int {
	first := time.Unix(int64(p.from)*86400, 0).UTC()
	at := (first.Year()*12 + int(first.Month()) - 1) / months * months
	var days []int
	for len(days) < 20 {
		day := int(time.Date(0, time.Month(at+1), 1, 0, 0, 0, 0, time.UTC).Unix() / 86400)
		if day >= p.to {
			break
		}
		if day >= p.from {
			days = append(days, day)
		}
		at += months
	}
	return days
}

// labelled places labels below the middles of their days, and within the picture. Ok says that none touches another.
func (p *plot) labelled(days []int, layout string) (ticks []dayTick, ok bool) {
	const gap = 12
	end := -float64(gap)
	for _, day := range days {
		tick := dayTick{at: p.x(float64(day) + 0.5), label: time.Unix(int64(day)*86400, 0).UTC().Format(layout)}
		half := letters(tick.label) / 2
		tick.middle = min(max(tick.at, half), plotWidth-half)
		if tick.middle-half < end+gap {
			return nil, false
		}
		end = tick.middle + half
		ticks = append(ticks, tick)
	}
	return ticks, true
}

// drawLine draws the balance: each day as long as it is, and the area between it and zero if that is in sight.
func (p *plot) drawLine() {
	var path strings.Builder
	kept := p.kept()
	for i, k := range kept {
		y := number(p.y(p.series.Points[k].Value))
		end := float64(p.to)
		if i < len(kept)-1 {
			end = float64(p.days[kept[i+1]])
		}
		if i == 0 {
			fmt.Fprintf(&path, "M%s %s", number(p.left), y)
		} else {
			path.WriteString("V" + y)
		}
		path.WriteString("H" + number(p.x(end)))
	}
	if !p.low.IsPositive() && !p.high.IsNegative() {
		zero := number(p.y(decimal.Decimal{}))
		fmt.Fprintf(&p.body, `<path class="plot-area" d="%sV%sH%sZ" fill="currentColor" fill-opacity="0.09"/>`+"\n",
			path.String(), zero, number(p.left))
	}
	thickness := "2"
	if len(kept) > int(plotRight-p.left) {
		thickness = "1.25" // A thick line would fill what is between its steps.
	}
	fmt.Fprintf(&p.body, `<path class="plot-line" d="%s" fill="none" stroke="currentColor" stroke-width="%s" stroke-linejoin="round"`+
		` vector-effect="non-scaling-stroke"/>`+"\n", path.String(), thickness)
	last := p.series.Points[len(p.series.Points)-1].Value
	fmt.Fprintf(&p.body, `<circle class="plot-end" cx="%s" cy="%s" r="4" fill="currentColor"/>`+"\n", number(plotRight), number(p.y(last)))
}

// kept lists the points to draw. Of many in one column they are the first, the lowest, the highest and the last: what a pen would have touched.
func (p *plot) kept() []int {
	points := p.series.Points
	var kept []int
	if len(points) <= 2*plotColumns {
		for i := range points {
			kept = append(kept, i)
		}
		return kept
	}
	column := func(i int) int { return (p.days[i] - p.from) * plotColumns / (p.to - p.from) }
	for first := 0; first < len(points); {
		lowest, highest, last := first, first, first
		for i := first; i < len(points) && column(i) == column(first); i++ {
			if points[i].Value.LessThan(points[lowest].Value) {
				lowest = i
			}
			if points[i].Value.GreaterThan(points[highest].Value) {
				highest = i
			}
			last = i
		}
		of := []int{first, lowest, highest, last}
		slices.Sort(of)
		kept = append(kept, slices.Compact(of)...)
		first = last + 1
	}
	return kept
}

// drawHead writes the title, what the amounts are in, and the last amount if there is room for it.
func (p *plot) drawHead() {
	p.text("plot-title", "start", 4, 20, plotWidth-8, fitting(plotText(p.series.Title), plotWidth-8))
	unit := fmt.Sprintf(p.unit, plotText(p.series.Currency))
	p.text("plot-unit", "start", 4, 44, plotWidth-8, unit)
	point := p.series.Points[len(p.series.Points)-1]
	last := point.Day + ": " + p.exact(point.Value)
	if letters(unit)+letters(last)+24 <= plotWidth-8 {
		p.text("plot-last", "end", plotRight, 44, plotWidth, last)
	}
}

func (p *plot) exact(amount decimal.Decimal) string {
	places := p.series.Scale
	for !amount.Equal(amount.Truncate(places)) {
		places++
	}
	return grouped(amount, places)
}

// fitting is a text, cut where there is no more room for it.
func fitting(text string, room float64) string {
	if letters(text) <= room {
		return text
	}
	end := 0
	for rest, state := text, -1; rest != ""; {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if letters(text[:end]+cluster+"…") > room {
			break
		}
		end += len(cluster)
	}
	return strings.TrimSpace(text[:end]) + "…"
}

// description says in words what can be seen.
func (p *plot) description() string {
	if p.series.Description != "" {
		return plotText(p.series.Description)
	}
	points := p.series.Points
	lowest, highest := points[0], points[0]
	for _, point := range points {
		if point.Value.LessThan(lowest.Value) {
			lowest = point
		}
		if point.Value.GreaterThan(highest.Value) {
			highest = point
		}
	}
	last, currency := points[len(points)-1], plotText(p.series.Currency)
	return fmt.Sprintf("Balance in %s from %s to %s. Lowest: %s on %s. Highest: %s on %s. Last: %s.", currency, points[0].Day, last.Day,
		p.exact(lowest.Value), lowest.Day, p.exact(highest.Value), highest.Day, p.exact(last.Value))
}

// document puts the drawing into its element. The ids are of what is drawn, since a page may have several plots.
func (p *plot) document() []byte {
	title, description := escaped(plotText(p.series.Title)), escaped(p.description())
	sum := fnv.New64a()
	fmt.Fprint(sum, title, description, p.body.String())
	id := fmt.Sprintf("plot-%016x", sum.Sum64())
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 %s %s" role="img"`, number(plotWidth), number(plotHeight))
	fmt.Fprintf(&b, ` aria-labelledby="%s-title" aria-describedby="%s-desc"`, id, id)
	fmt.Fprintf(&b, ` font-family="system-ui, sans-serif" font-size="%s" fill="currentColor">`+"\n", number(plotLetter))
	fmt.Fprintf(&b, "<title id=\"%s-title\">%s</title>\n<desc id=\"%s-desc\">%s</desc>\n", id, title, id, description)
	b.Write(p.body.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}
