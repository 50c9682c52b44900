package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/export"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// maxShown is how many rows a page shows, and maxSums how many totals after those. Who wants more wants a file.
	maxShown, maxSums = 2000, 200
	// maxRead is after how many rows a page stops to wait for the totals.
	maxRead = 150_000
)

// screen keeps of a sheet what a page shows. It is a sheet.Writer.
type screen struct {
	head  sheet.Head
	begun bool
	rows  []sheet.Row // the first ones
	sums  []sheet.Row // totals after those
	// moreSums is whether there were more totals than that.
	moreSums bool
	points   []export.Point
	seen     int
	checks   []sheet.Check
	ended    bool
	// enough is whether it has said that it wants no more.
	enough bool
	// link gives the page about what a cell names, "" for none; nil is none of all.
	link func(column sheet.Column, row sheet.Row) string
}

var errEnough = errors.New("a page shows no more")

func (s *screen) Begin(head sheet.Head) error {
	s.head, s.begun = head, true
	return nil
}

func (s *screen) Row(row sheet.Row) error {
	s.seen++
	s.plot(row)
	switch sum := row.Kind == sheet.Total || row.Kind == sheet.Subtotal; {
	case len(s.rows) < maxShown:
		s.rows = append(s.rows, row)
	case sum && len(s.sums) < maxSums:
		s.sums = append(s.sums, row)
	case sum:
		s.moreSums = true
	}
	if s.seen >= maxRead {
		s.enough = true
		return errEnough
	}
	return nil
}

func (s *screen) End(checks []sheet.Check) error {
	s.checks, s.ended = checks, true
	return nil
}

// plot notes the point of a balance over time. It takes them all: the picture of a cut one would be wrong.
func (s *screen) plot(row sheet.Row) {
	if s.head.Report != string(report.BalanceOverTime) || row.Kind != sheet.Item {
		return
	}
	var point export.Point
	for i, column := range s.head.Columns {
		switch column.ID {
		case "date":
			point.Day = row.Cells[i]
		case "balance":
			value, err := decimal.NewFromString(row.Cells[i])
			if err != nil {
				return
			}
			point.Value = value
		}
	}
	s.points = append(s.points, point)
}

// sheetView is a sheet as a page shows it.
type sheetView struct {
	// ID tells the sheets of a page apart.
	ID, Title string
	// Alone is whether the page is about nothing else, and called the same.
	Alone bool
	// Folded is whether the table is shown only when it is asked for, since there is a picture of it.
	Folded    bool
	head      sheet.Head
	Facts     []factView
	Failed    []sheet.Check
	Held      []sheet.Check
	Columns   []columnView
	Rows      []rowView
	Downloads []link
	// Count is how many rows there are, and Shown how many of them are shown; Unread is whether not even the totals were waited for.
	Count, Shown string
	Cut, Unread  bool
	// SumsCut is whether there are more totals than are shown.
	SumsCut bool
	// Broken says why the sheet is not complete, if it is not.
	Broken string
	code   ledger.Code
	// Plot is the picture of a balance over time.
	Plot template.HTML
	// Printed says on each sheet of paper what it is of.
	Printed string
	// Landscape is whether it does not fit on a sheet of paper that stands.
	Landscape bool
}

type columnView struct {
	Title string
	// Class is how its cells are set.
	Class string
}

type rowView struct {
	Class string
	// Gap is a row that stands for those which are not shown.
	Gap bool
	// Heading is a row with one cell, which the rows below it have in common.
	Heading bool
	Cells   []cellView
}

type cellView struct {
	Text, Class string
	// Link is a page about what the cell names, Time an instant as programs read it, Tag a word beside the text.
	Link, Time, Tag string
	// Heads is whether the cell is what its row is called.
	Heads bool
}

// factView is a fact as a page shows it.
type factView struct {
	Title, Value string
	// Time is an instant as programs read it, and Path a page about what the value names.
	Time, Path string
}

// run makes a report for a page. An error before its first row is returned; after that the page shows how far it came, and says so.
func (v *visit) run(request report.Request) (*sheetView, error) {
	return v.show(&screen{}, string(request.Report), func(ctx context.Context, w sheet.Writer) error { return v.config.Reports.Run(ctx, request, w) })
}

// show has a sheet written for a page.
func (v *visit) show(s *screen, name string, write func(context.Context, sheet.Writer) error) (*sheetView, error) {
	err := write(v.r.Context(), s)
	if !s.begun {
		if err == nil {
			err = fmt.Errorf("the report %s has no head", name)
		}
		return nil, err
	}
	if s.enough {
		err = nil
	}
	view := v.view(s)
	if err == nil && !s.ended && !s.enough {
		err = fmt.Errorf("the report %s has no end", name)
	}
	if err != nil {
		v.config.Logger.Error("a report broke off", "report", name, "ledger", v.ledger, "rows", s.seen, "error", err)
		view.code = ledger.CodeOf(err)
		view.Broken = "Something broke while it was read."
		if view.code == ledger.CodeDeadlineExceeded || v.r.Context().Err() != nil {
			view.code, view.Broken = ledger.CodeDeadlineExceeded, "It took longer than a page may take. A file may take longer; or ask for less."
		}
	}
	return view, nil
}

func (s *sheetView) status() int {
	if s.Broken != "" {
		return statusOf(s.code)
	}
	return http.StatusOK
}

// view makes what a page shows of a sheet.
func (v *visit) view(s *screen) *sheetView {
	zone, err := report.ParseZone(s.head.Fact("zone"))
	if err != nil {
		zone = time.UTC
	}
	cut := s.seen > len(s.rows)
	t := &tableMaker{visit: v, head: s.head, zone: zone, link: s.link}
	t.choose(s.rows, cut)
	view := &sheetView{
		ID: s.head.Report, Title: s.head.Title, head: s.head, Facts: factsOf(slices.Concat(s.head.Facts, t.facts), zone), Columns: t.columns(),
		Count: grouped(fmt.Sprint(s.seen)), Shown: grouped(fmt.Sprint(len(s.rows))), Cut: cut, Unread: s.enough,
		SumsCut: s.moreSums, Landscape: len(t.shown) > 7,
	}
	add := func(rows []sheet.Row) {
		for _, row := range rows {
			if heading, is := t.heading(row); is {
				view.Rows = append(view.Rows, heading)
			}
			view.Rows = append(view.Rows, t.row(row))
		}
	}
	add(s.rows)
	if cut {
		view.Rows = append(view.Rows, rowView{Gap: true})
	}
	add(s.sums)
	for _, c := range s.checks {
		if c.OK {
			view.Held = append(view.Held, c)
		} else {
			view.Failed = append(view.Failed, c)
		}
	}
	view.Plot, view.Printed = v.picture(s), view.printed()
	return view
}

// factsOf are the facts of a sheet for people, without those that say nothing.
func factsOf(facts []sheet.Fact, zone *time.Location) []factView {
	var list []factView
	for _, f := range facts {
		if f.Value == "" {
			continue
		}
		view := factView{Title: f.Title, Value: f.Value}
		if at, err := time.Parse(time.RFC3339Nano, f.Value); err == nil {
			view.Value, view.Time = momentText(at, zone), f.Value
		}
		list = append(list, view)
	}
	return list
}

// without leaves out the facts that another sheet of the page has told.
func (s *sheetView) without(other *sheetView) {
	s.Facts = slices.DeleteFunc(s.Facts, func(f factView) bool { return slices.Contains(other.Facts, f) })
}

// picture draws a balance over time; nothing, where there is nothing to draw.
func (v *visit) picture(s *screen) template.HTML {
	if len(s.points) < 2 || s.enough || !s.ended {
		return ""
	}
	series := export.PlotSeries{Title: s.head.Fact("account"), Points: s.points}
	for i, column := range s.head.Columns {
		switch column.ID {
		case "currency":
			series.Currency = s.rows[0].Cells[i]
		case "balance":
			if _, fraction, found := strings.Cut(s.rows[0].Cells[i], "."); found {
				series.Scale = int32(len(fraction)) //nolint:gosec // the digits of an amount
			}
		}
	}
	var picture bytes.Buffer
	if err := export.Plot(&picture, series); err != nil {
		v.config.Logger.Error("a plot cannot be drawn", "ledger", v.ledger, "account", series.Title, "error", err)
		return ""
	}
	return template.HTML(picture.String()) //nolint:gosec // Plot escapes what users have written; a test tries.
}

// printed says on each sheet of paper what it is of.
func (s *sheetView) printed() string {
	words := []string{s.Title}
	if name := s.head.Fact("ledger"); name != "" {
		words = append(words, "ledger "+name)
	}
	if account := s.head.Fact("account"); account != "" {
		words = append(words, account)
	}
	from, to := s.head.Fact("from"), s.head.Fact("to")
	switch {
	case s.head.Fact("period") != "":
		words = append(words, s.head.Fact("period"))
	case from != "" && to != "":
		words = append(words, "from "+from+" to "+to)
	case to != "":
		words = append(words, "as of "+to)
	}
	if zone := s.head.Fact("zone"); zone != "" {
		words = append(words, zone)
	}
	return strings.Join(words, " · ")
}

// downloads are the links to the whole of a sheet, as it was when the page was made.
func (v *visit) downloads(q url.Values, s *sheetView) []link {
	same := url.Values{}
	for name, list := range q {
		if len(list) > 0 && list[0] != "" {
			same.Set(name, list[0])
		}
	}
	if through := s.head.Fact("through"); through != "" && same.Get("statement") == "" {
		same.Set("through", through)
	}
	return formatLinks(v.r.URL.Path, same)
}

func formatLinks(path string, query url.Values) []link {
	var links []link
	for _, f := range []export.Format{export.CSV, export.XLSX, export.JSON} {
		query.Set("format", string(f))
		links = append(links, link{Title: strings.ToUpper(string(f)), Path: path + "?" + query.Encode()})
	}
	return links
}
