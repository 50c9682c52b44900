package export

import (
	"encoding/csv"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/khata-ledger/khata/internal/sheet"
)

// csvWriter writes the rows of a sheet as CSV: RFC 4180 in UTF-8 without a byte order mark, but with LF at the end of a line, which every reader
// takes and which leaves no CR behind in the last cell for the many that split lines themselves.
//
// The first record is the ids of the columns, and before them "row"; the first cell of each other record is the kind of its row, so that a program
// can leave the totals out of its own sum. Facts and checks are not in it: whoever writes the file has to say in another way that a check
// does not hold.
//
// Spreadsheets take a cell that begins with = + - @ for a formula, also one with which a stranger has named a wallet (CWE-1236). Cells of text
// columns are made harmless by a ' before it. That goes by the kind of the column and never by how a cell looks, so an amount of -1500.00 stays a number.
type csvWriter struct {
	w       *csv.Writer
	columns []sheet.Column
	record  []string
}

func newCSV(w io.Writer) *csvWriter { return &csvWriter{w: csv.NewWriter(w)} }

// Begin writes the ids of the columns.
func (c *csvWriter) Begin(head sheet.Head) error {
	c.columns = head.Columns
	c.record = append(c.record[:0], "row")
	for _, column := range head.Columns {
		c.record = append(c.record, column.ID)
	}
	return c.w.Write(c.record)
}

// Row writes a record.
func (c *csvWriter) Row(row sheet.Row) error {
	if err := checkCells(c.columns, row); err != nil {
		return err
	}
	c.record = append(c.record[:0], string(row.Kind))
	for i, cell := range row.Cells {
		if c.columns[i].Kind == sheet.Text {
			cell = visible(noFormula(cell))
		}
		c.record = append(c.record, cell)
	}
	return c.w.Write(c.record)
}

// End writes what is still in memory.
func (c *csvWriter) End([]sheet.Check) error {
	c.w.Flush()
	return c.w.Error()
}

// noFormula puts a ' before what a spreadsheet might take for the beginning of a formula: = + - @, as ASCII or full width, after any spaces
// and characters without a width, and also TAB, CR, LF and NUL, after which some look again.
//
// Where decimals have a comma, spreadsheets open CSV with a semicolon between cells. They break a text with one in two, quoted or not, as
// they do at a TAB or LF, so what comes after these is a beginning as well.
func noFormula(text string) string {
	if !strings.ContainsAny(text, "=+-@\uff1d\uff0b\uff0d\uff20\t\r\n\x00") {
		return text
	}
	var b strings.Builder
	first, beginning := true, true
	for i, r := range text {
		switch {
		case beginning && startsFormula(r), first && beginning && (r == '\t' || r == '\r' || r == '\n' || r == 0):
			b.WriteByte('\'')
			b.WriteString(text[i : i+width(text[i:])])
			first, beginning = false, false
		default:
			b.WriteString(text[i : i+width(text[i:])])
			beginning = beginning && (unicode.Is(unicode.Zs, r) || unicode.Is(unicode.Cf, r))
			first = first && beginning
		}
		if r == ';' || r == '\t' || r == '\n' || r == '\r' {
			beginning = true
		}
	}
	return b.String()
}

// width is how many bytes the first character has.
func width(text string) int {
	_, n := utf8.DecodeRuneInString(text)
	return n
}

func startsFormula(r rune) bool {
	switch r {
	case '=', '+', '-', '@', '\uff1d', '\uff0b', '\uff0d', '\uff20':
		return true
	}
	return false
}

// visible replaces what a file for others should not have by something that can be seen there: control characters, but TAB and LF, by the
// pictures that Unicode has of them (U+2400 and on), and what is no character by U+FFFD. CR LF becomes LF, as readers of CSV make it anyway. What is
// left is text of XML 1.0.
func visible(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for i, r := range text {
		switch {
		case r == '\t' || r == '\n':
			b.WriteRune(r)
		case r == '\r' && strings.HasPrefix(text[i+1:], "\n"):
		case r < 0x20:
			b.WriteRune(0x2400 + r)
		case r == 0x7f:
			b.WriteRune('\u2421')
		case isNoCharacter(r):
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isNoCharacter reports whether a rune is a control character of ISO 8859, which terminals obey and nobody writes, or one of those that Unicode
// says are no characters.
func isNoCharacter(r rune) bool {
	return r >= 0x80 && r < 0xa0 || r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef
}
