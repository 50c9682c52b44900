// Package sheet is what a report looks like before anyone has chosen a format for it: a head, rows of cells, and the checks that the report has made
// of itself. Reports write it, row by row, so that a long one needs no memory; the formats of package export, the pages of the console and the
// wire read it. It knows neither what a report means nor where it goes.
package sheet

import (
	"time"

	"github.com/shopspring/decimal"
)

// Kind says what the cells of a column are, and so how their text is made and read.
type Kind string

// The kinds of columns.
const (
	// Text is anything at all, also what users have written: every format has to make it harmless in its own way.
	Text Kind = "text"
	// Amount is a decimal with as many digits after the point as its currency has: "-1500.00". Zero has no sign.
	Amount Kind = "amount"
	// Count is a whole number.
	Count Kind = "count"
	// Time is an instant: RFC 3339 in UTC, to the microsecond if it has one.
	Time Kind = "time"
	// Date is a day, in the zone that the head names: "2026-01-31".
	Date Kind = "date"
)

// Column is a column of a sheet.
type Column struct {
	// ID is what programs know it by, and Title what people read. Neither has anything in it that a format would have to escape.
	ID, Title string
	Kind      Kind
}

// Fact is something that holds for the whole sheet: its ledger, its period.
type Fact struct{ ID, Title, Value string }

// Head is what comes before the rows.
type Head struct {
	// Report is what programs know the report by ("trial-balance"), and Title what people read.
	Report, Title string
	Facts         []Fact
	Columns       []Column
}

// Fact gives the value of a fact, or "".
func (h Head) Fact(id string) string {
	for _, f := range h.Facts {
		if f.ID == id {
			return f.Value
		}
	}
	return ""
}

// RowKind says what a row is among the others.
type RowKind string

// The kinds of rows.
const (
	// Item is an ordinary row.
	Item RowKind = "item"
	// Opening and Closing are what there was before the first item, and after the last one.
	Opening RowKind = "opening"
	Closing RowKind = "closing"
	// Late is an item that belongs to an earlier period than the sheet's.
	Late RowKind = "late"
	// Subtotal and Total sum up rows above them.
	Subtotal RowKind = "subtotal"
	Total    RowKind = "total"
)

// Row has a cell for each column; "" is an empty one.
type Row struct {
	Kind RowKind
	// Depth is how deep the row lies in a tree of accounts, from 0.
	Depth int
	Cells []string
}

// Check is something that a report has found out about itself, and that must hold.
type Check struct {
	// Name says what must hold: "debits equal credits in BDT".
	Name string
	OK   bool
	// Detail says what was found, if it does not.
	Detail string
}

// Writer takes a sheet: Begin once, Row for each row, End once. After an error it is not called again.
type Writer interface {
	Begin(head Head) error
	Row(row Row) error
	End(checks []Check) error
}

// AmountCell is the text of an amount in a currency of that scale. An amount that is finer than its currency, which only books that were tampered
// with have, is shown whole: nothing is rounded.
func AmountCell(amount decimal.Decimal, scale int32) string {
	switch {
	case amount.IsZero():
		return decimal.Decimal{}.StringFixed(scale) // Zero has no sign, whatever it was computed from.
	case !amount.Equal(amount.Truncate(scale)):
		return amount.String()
	}
	return amount.StringFixed(scale)
}

// TimeCell is the text of an instant.
func TimeCell(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999Z07:00") }

// Failed lists the checks that do not hold.
func Failed(checks []Check) []Check {
	var failed []Check
	for _, c := range checks {
		if !c.OK {
			failed = append(failed, c)
		}
	}
	return failed
}

// Sheet is a whole one, for what is short or has to be kept.
type Sheet struct {
	Head   Head
	Rows   []Row
	Checks []Check
}

// WriteTo writes the sheet.
func (s *Sheet) WriteTo(w Writer) error {
	if err := w.Begin(s.Head); err != nil {
		return err
	}
	for _, row := range s.Rows {
		if err := w.Row(row); err != nil {
			return err
		}
	}
	return w.End(s.Checks)
}

// Collector keeps what is written to it. It is a Writer.
type Collector struct{ Sheet }

// Begin keeps the head.
func (c *Collector) Begin(head Head) error {
	c.Head = head
	return nil
}

// Row keeps a row.
func (c *Collector) Row(row Row) error {
	c.Rows = append(c.Rows, row)
	return nil
}

// End keeps the checks.
func (c *Collector) End(checks []Check) error {
	c.Checks = checks
	return nil
}
