package export

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"

	"github.com/khata-ledger/khata/internal/sheet"
)

const (
	// tableAhead is how many rows the widths of a table's columns are found from.
	tableAhead = 1000
	// tableWidest is how wide a column of text gets at most: one long description would push the amounts of all rows off the screen. A
	// wider cell is written whole, and pushes only those of its own row.
	tableWidest = 48
	// tableGap is between two columns.
	tableGap = "  "
)

// tableWriter writes a sheet for people at a terminal: its title and facts, its rows in columns, its checks. Sums have a rule above and below.
// Nothing that users have written can move the cursor, colour or reorder the line: see terminalText.
type tableWriter struct {
	w       *bufio.Writer
	columns []sheet.Column
	// label is the first column of text, which is indented; -1 if there is none.
	label int
	// ahead are the rows until the widths are known; then it is nil.
	ahead  []tableRow
	widths []int
	rows   int
	// last is the weight of the row before: a rule is written where it changes.
	last int
}

// tableRow is a row as it is printed.
type tableRow struct {
	weight int
	cells  []string
	remark string
}

func newTable(w io.Writer) *tableWriter { return &tableWriter{w: bufio.NewWriter(w)} }

// Begin writes the title and the facts.
func (t *tableWriter) Begin(head sheet.Head) error {
	t.columns = head.Columns
	t.label = slices.IndexFunc(head.Columns, func(c sheet.Column) bool { return c.Kind == sheet.Text })
	t.ahead = []tableRow{}
	t.widths = make([]int, len(head.Columns))
	for i, c := range head.Columns {
		t.widths[i] = displayWidth(c.Title)
	}
	widest := 0
	for _, f := range head.Facts {
		widest = max(widest, displayWidth(f.Title))
	}
	fmt.Fprintln(t.w, terminalText(head.Title))
	for _, f := range head.Facts {
		fmt.Fprintf(t.w, "%s%s%s%s\n", f.Title, spaces(widest-displayWidth(f.Title)), tableGap, terminalText(f.Value))
	}
	_, err := fmt.Fprintln(t.w)
	return err
}

// Row writes a row, or keeps it until the widths are known.
func (t *tableWriter) Row(row sheet.Row) error {
	if err := checkCells(t.columns, row); err != nil {
		return err
	}
	printed := t.print(row)
	if t.ahead == nil {
		return t.write(printed)
	}
	t.ahead = append(t.ahead, printed)
	for i, cell := range printed.cells {
		wide := displayWidth(cell)
		if !rightAligned(t.columns[i].Kind) {
			wide = min(wide, tableWidest)
		}
		t.widths[i] = max(t.widths[i], wide)
	}
	if len(t.ahead) == tableAhead {
		return t.writeAhead()
	}
	return nil
}

// print makes the cells of a row harmless, and says what kind of row it is: in its first column of text if that is empty, and behind the row if it
// is not. Sums can be seen from their rules.
func (t *tableWriter) print(row sheet.Row) tableRow {
	printed := tableRow{cells: make([]string, len(row.Cells))}
	for i, cell := range row.Cells {
		printed.cells[i] = terminalText(cell)
	}
	word := ""
	switch row.Kind {
	case sheet.Opening:
		word = "opening"
	case sheet.Closing:
		word = "closing"
	case sheet.Late:
		printed.remark = "(late)"
	case sheet.Subtotal:
		printed.weight, word = 1, "subtotal"
	case sheet.Total:
		printed.weight, word = 2, "total"
	}
	if t.label < 0 {
		return printed
	}
	label := &printed.cells[t.label]
	switch {
	case word == "":
	case *label == "":
		*label = strings.ToUpper(word[:1]) + word[1:]
	case printed.weight == 0:
		printed.remark = "(" + word + ")"
	}
	*label = strings.Repeat("  ", max(row.Depth, 0)) + *label
	return printed
}

// writeAhead writes the titles of the columns, and the rows that were kept.
func (t *tableWriter) writeAhead() error {
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.Title
	}
	if err := t.line(titles, ""); err != nil {
		return err
	}
	t.rule("-")
	ahead := t.ahead
	t.ahead = nil
	for _, row := range ahead {
		if err := t.write(row); err != nil {
			return err
		}
	}
	return nil
}

func (t *tableWriter) write(row tableRow) error {
	if t.rows > 0 && row.weight != t.last {
		t.rule(ruleFor(max(row.weight, t.last)))
	}
	t.rows++
	t.last = row.weight
	return t.line(row.cells, row.remark)
}

// ruleFor is what a rule is drawn of, above and below sums of that weight.
func ruleFor(weight int) string {
	if weight == 2 {
		return "="
	}
	return "-"
}

func (t *tableWriter) rule(of string) {
	cells := make([]string, len(t.columns))
	for i := range cells {
		cells[i] = strings.Repeat(of, t.widths[i])
	}
	_ = t.line(cells, "") // Its error is also that of the next line.
}

// line writes a line, without spaces at its end.
func (t *tableWriter) line(cells []string, remark string) error {
	pending := "" // spaces that are only written if something comes after them
	for i, cell := range cells {
		if i > 0 {
			pending += tableGap
		}
		pad := spaces(t.widths[i] - displayWidth(cell))
		switch {
		case cell == "":
			pending += pad
		case rightAligned(t.columns[i].Kind):
			fmt.Fprint(t.w, pending+pad+cell)
			pending = ""
		default:
			fmt.Fprint(t.w, pending+cell)
			pending = pad
		}
	}
	if remark != "" {
		fmt.Fprint(t.w, pending+tableGap+remark)
	}
	_, err := fmt.Fprintln(t.w)
	return err
}

// End writes what is left of the table, and the checks.
func (t *tableWriter) End(checks []sheet.Check) error {
	if t.ahead != nil {
		if err := t.writeAhead(); err != nil {
			return err
		}
	}
	switch {
	case t.rows == 0:
		fmt.Fprint(t.w, "(no rows)\n")
	case t.last > 0:
		t.rule(ruleFor(t.last))
	}
	if len(checks) > 0 {
		fmt.Fprint(t.w, "\nChecks\n")
	}
	for _, c := range checks {
		state := "ok"
		if !c.OK {
			state = "DOES NOT HOLD"
			if c.Detail != "" {
				state += ": " + terminalText(c.Detail)
			}
		}
		fmt.Fprintf(t.w, "  %s: %s\n", terminalText(c.Name), state)
	}
	return t.w.Flush()
}

// displayWidth is how many cells of a terminal a text takes: none for a mark above or below a letter, two for a wide letter or an emoji, however
// many characters that is made of. A vowel sign with a place of its own takes one, as the C library tells terminals; uniseg gives some of these
// none, such as the Bengali aa.
func displayWidth(text string) int {
	if isPlain(text) {
		return len(text)
	}
	wide := uniseg.StringWidth(text)
	for _, r := range text {
		if r >= 0x900 && unicode.Is(unicode.Mc, r) && unicode.Is(unicode.Other_Grapheme_Extend, r) {
			wide++
		}
	}
	return wide
}

func rightAligned(k sheet.Kind) bool { return k == sheet.Amount || k == sheet.Count }

func spaces(n int) string { return strings.Repeat(" ", max(n, 0)) }

// isPlain reports whether a text has nothing but what a typewriter has, as nearly all do: then there is nothing to look for in it.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// terminalText is a text that a terminal only shows. What would do something there is written as an escape instead, such as \n, \x1b and
// \u202e: control characters, so also the sequences that begin with ESC; the marks that turn the direction of what follows, up to the amounts
// behind; and characters that cannot be seen. The joiners that Bengali and emoji need stay.
func terminalText(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	inFlag := false // whether the tag characters of a flag, such as that of Scotland, may follow
	for _, r := range text {
		isTag := r >= 0xe0020 && r <= 0xe007f
		switch {
		case isTag && inFlag, !unsafeOnTerminal(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		inFlag = r == '\U0001f3f4' || inFlag && isTag
	}
	return b.String()
}

// unsafeOnTerminal reports whether a rune is not simply shown.
func unsafeOnTerminal(r rune) bool {
	switch r {
	case '\u200c', '\u200d': // joiners
		return false
	case '\u2028', '\u2029': // the ends of a line and of a paragraph
		return true
	}
	invisible := unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
	return invisible || unicode.IsControl(r) || isNoCharacter(r)
}
