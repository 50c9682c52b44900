package export

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/xuri/excelize/v2"

	"github.com/khata-ledger/khata/internal/sheet"
)

const (
	// xlsxCell is how many characters, as UTF-16 counts them, a cell holds at most.
	xlsxCell = 32767
	// xlsxRows is how many rows a sheet holds at most, its header among them.
	xlsxRows = 1 << 20
	// xlsxBytes is how much XML one sheet gets at most. Beyond 4 GiB its entry in the archive would have to be a larger kind, which needs a version
	// in its header that archive/zip does not write and spreadsheets insist on.
	xlsxBytes = 7 << 29
	// xlsxInMemory is from how much XML on a temporary file is needed: excelize keeps that much in memory.
	xlsxInMemory = excelize.StreamChunkSize
	// xlsxDigits is how many digits of a number a spreadsheet keeps.
	xlsxDigits = 15
	// xlsxCut ends a text that has been cut.
	xlsxCut = "…[cut]"

	aboutSheet = "About"
)

// xlsxWriter writes a workbook: on the sheet Report, and where that is full on Report 2 and so on, a header and the rows, each with its kind before
// its cells; on the sheet About what the sheet is of, and whether its checks hold.
//
// A spreadsheet's numbers are binary and have 15 digits. Amounts and counts that fit into these are numbers there, in the format of their scale, and
// others are text, so that none is rounded. Text is text, whatever it begins with, and never a formula; ids and times are text too.
//
// The rows are in temporary files of the process until End, and go away with it. The same sheet gives the same bytes, but for the order within the
// archive of the sheets of a report that needs more than one.
type xlsxWriter struct {
	w    io.Writer
	file *excelize.File
	head sheet.Head
	// label is the first column of text, which is indented.
	label  int
	stream *excelize.StreamWriter
	// sheets is how many sheets of rows there are, row the last row of the present one, size about how long its XML is.
	sheets, row int
	size        int64
	styles      map[xlsxStyle]int
	cells       []any
	// maxRows and maxBytes are limits of a sheet; spooled says that there is a place for temporary files.
	maxRows  int
	maxBytes int64
	spooled  bool
	// cut counts the cells that were too long, and long the numbers that are text.
	cut, long int
}

// xlsxStyle is what the cells of a report differ in.
type xlsxStyle struct {
	kind sheet.Kind
	// scale is how many digits a number has after its point; -1 is text.
	scale, indent int
	row           sheet.RowKind
	header        bool
}

func newXLSX(w io.Writer) *xlsxWriter {
	return &xlsxWriter{w: w, styles: map[xlsxStyle]int{}, maxRows: xlsxRows, maxBytes: xlsxBytes}
}

// Close gives the temporary files up. End does that too: Close is for a sheet that is never ended.
func (x *xlsxWriter) Close() error {
	if x.file == nil {
		return nil
	}
	return x.file.Close()
}

// Begin starts the workbook.
func (x *xlsxWriter) Begin(head sheet.Head) error {
	x.head, x.label = head, -1
	for i, c := range head.Columns {
		if c.Kind == sheet.Text {
			x.label = i
			break
		}
	}
	x.file = excelize.NewFile()
	runtime.AddCleanup(x, func(f *excelize.File) { _ = f.Close() }, x.file) // A report that fails is dropped without an End.
	properties := &excelize.DocProperties{Title: cellText(head.Title), Creator: "Khata", LastModifiedBy: "Khata"}
	if err := x.file.SetDocProps(properties); err != nil {
		return x.failed(err)
	}
	if err := x.file.SetAppProps(&excelize.AppProperties{Application: "Khata"}); err != nil {
		return x.failed(err)
	}
	if err := x.file.SetSheetName("Sheet1", reportSheet(1)); err != nil {
		return x.failed(err)
	}
	about, err := x.file.NewSheet(aboutSheet)
	if err != nil {
		return x.failed(err)
	}
	// A sheet of rows says at its beginning whether it is the selected one, when it is not yet known. If two did, edits would go to both.
	x.file.SetActiveSheet(about)
	return x.failed(x.beginSheet())
}

func reportSheet(number int) string {
	if number == 1 {
		return "Report"
	}
	return fmt.Sprintf("Report %d", number)
}

// failed gives the temporary files up if there is an error, since nothing is called any more after it.
func (x *xlsxWriter) failed(err error) error {
	if err == nil {
		return nil
	}
	_ = x.Close()
	return fmt.Errorf("write a workbook: %w", err)
}

// beginSheet starts a sheet of rows with its header.
func (x *xlsxWriter) beginSheet() error {
	x.sheets++
	name := reportSheet(x.sheets)
	if x.sheets > 1 {
		if err := x.stream.Flush(); err != nil {
			return err
		}
		if _, err := x.file.NewSheet(name); err != nil {
			return err
		}
	}
	if err := x.printable(name); err != nil {
		return err
	}
	var err error
	if x.stream, err = x.file.NewStreamWriter(name); err != nil {
		return err
	}
	panes := &excelize.Panes{Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft"}
	if err = x.stream.SetPanes(panes); err != nil {
		return err
	}
	for i := len(x.head.Columns) - 1; i >= 0; i-- { // Each goes before the others, and a spreadsheet wants them in their order.
		if err = x.stream.SetColWidth(i+2, i+2, columnWidth(x.head.Columns[i])); err != nil {
			return err
		}
	}
	if err = x.stream.SetColWidth(1, 1, 10); err != nil {
		return err
	}
	return x.writeHeader()
}

// printable lets a sheet be printed with all its columns on a page and the header on each.
func (x *xlsxWriter) printable(name string) error {
	yes, landscape, one, asMany := true, "landscape", 1, 0
	if err := x.file.SetSheetProps(name, &excelize.SheetPropsOptions{FitToPage: &yes}); err != nil {
		return err
	}
	layout := &excelize.PageLayoutOptions{Orientation: &landscape, FitToWidth: &one, FitToHeight: &asMany}
	if err := x.file.SetPageLayout(name, layout); err != nil {
		return err
	}
	return x.file.SetDefinedName(&excelize.DefinedName{Name: "_xlnm.Print_Titles", RefersTo: "'" + name + "'!$1:$1", Scope: name})
}

func columnWidth(c sheet.Column) float64 {
	usual := map[sheet.Kind]int{sheet.Amount: 18, sheet.Count: 10, sheet.Time: 27, sheet.Date: 12}[c.Kind]
	if usual == 0 {
		usual = 24
	}
	return float64(min(max(usual, displayWidth(c.Title)+2), 60))
}

func (x *xlsxWriter) writeHeader() error {
	first, err := x.style(xlsxStyle{kind: sheet.Text, scale: -1, header: true})
	if err != nil {
		return err
	}
	x.cells = append(x.cells[:0], excelize.Cell{StyleID: first, Value: "Row"})
	for _, c := range x.head.Columns {
		style, err := x.style(xlsxStyle{kind: c.Kind, scale: -1, header: true})
		if err != nil {
			return err
		}
		x.cells = append(x.cells, excelize.Cell{StyleID: style, Value: cellText(c.Title)})
	}
	x.row, x.size = 1, 0
	return x.stream.SetRow("A1", x.cells)
}

// Row writes a row.
func (x *xlsxWriter) Row(row sheet.Row) error {
	if err := checkCells(x.head.Columns, row); err != nil {
		return x.failed(err)
	}
	if x.row >= x.maxRows || x.size >= x.maxBytes {
		if err := x.beginSheet(); err != nil {
			return x.failed(err)
		}
	}
	kind, err := x.style(xlsxStyle{kind: sheet.Text, scale: -1, row: row.Kind})
	if err != nil {
		return x.failed(err)
	}
	x.cells = append(x.cells[:0], excelize.Cell{StyleID: kind, Value: string(row.Kind)})
	for i, text := range row.Cells {
		cell, err := x.cell(i, text, row)
		if err != nil {
			return x.failed(err)
		}
		x.cells = append(x.cells, cell)
	}
	x.row++
	if err := x.stream.SetRow("A"+strconv.Itoa(x.row), x.cells); err != nil {
		return x.failed(err)
	}
	return x.failed(x.spool())
}

// spool makes sure, before much has been written, that there is a place for temporary files: without one excelize would go on in memory.
func (x *xlsxWriter) spool() error {
	if x.spooled || x.size < xlsxInMemory {
		return nil
	}
	probe, err := os.CreateTemp("", "khata-xlsx-")
	if err != nil {
		return fmt.Errorf("a workbook of so many rows needs temporary files (TMPDIR says where): %w", err)
	}
	x.spooled = true
	_ = probe.Close()
	return os.Remove(probe.Name())
}

// cell makes a cell of a row.
func (x *xlsxWriter) cell(column int, text string, row sheet.Row) (any, error) {
	kind := x.head.Columns[column].Kind
	style := xlsxStyle{kind: kind, scale: -1, row: row.Kind}
	if column == x.label {
		style.indent = min(max(row.Depth, 0), 15)
	}
	value := any(nil)
	if text != "" {
		number, scale, isNumber := cellNumber(kind, text)
		if isNumber && scale < 0 {
			x.long++
		}
		if scale >= 0 {
			style.scale, value = scale, number
		} else {
			value = x.text(text)
		}
	}
	x.size += 48 // what is around a value
	id, err := x.style(style)
	return excelize.Cell{StyleID: id, Value: value}, err
}

// text is a text as a cell can have it. It also counts how long that is as XML.
func (x *xlsxWriter) text(text string) string {
	short, isCut := cutText(visible(text))
	if isCut {
		x.cut++
	}
	escaped := strings.Count(short, "&") + strings.Count(short, "<") + strings.Count(short, ">") + strings.Count(short, "_x") +
		strings.Count(short, `"`) + strings.Count(short, "'") + strings.Count(short, "\t")
	x.size += int64(len(short) + 6*escaped)
	return short
}

// cellText is a text without what XML cannot have, and cut if it is longer than a cell.
func cellText(text string) string {
	short, _ := cutText(visible(text))
	return short
}

// cutText cuts a text that is longer than a cell, and says whether it did.
func cutText(text string) (string, bool) {
	if len(text) <= xlsxCell || utf16Length(text) <= xlsxCell {
		return text, false
	}
	room := xlsxCell - utf16Length(xlsxCut)
	end, state := 0, -1
	for rest := text; ; {
		var cluster string // A letter is not cut from its vowel sign, nor an emoji in two.
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if room -= utf16Length(cluster); room < 0 || cluster == "" {
			return text[:end] + xlsxCut, true
		}
		end += len(cluster)
	}
}

func utf16Length(text string) int {
	n := 0
	for _, r := range text {
		n++
		if r >= 0x10000 {
			n++
		}
	}
	return n
}

var plainNumber = regexp.MustCompile(`^-?([0-9]+)(?:\.([0-9]+))?$`)

// cellNumber reads an amount or a count. Scale is how many digits it has after its point; it is -1 if the number, or what is none, has to be text.
func cellNumber(kind sheet.Kind, text string) (number float64, scale int, isNumber bool) {
	if kind != sheet.Amount && kind != sheet.Count {
		return 0, -1, false
	}
	parts := plainNumber.FindStringSubmatch(text)
	if parts == nil {
		return 0, -1, false
	}
	digits := strings.Trim(parts[1]+parts[2], "0")
	number, err := strconv.ParseFloat(text, 64)
	// 30 is how many digits after its point a number format can have.
	if err != nil || len(digits) > xlsxDigits || len(parts[2]) > 30 {
		return 0, -1, true
	}
	if number == 0 {
		number = 0 // without the sign of -0
	}
	return number, len(parts[2]), true
}

// style gives the number of a style, and makes it the first time.
func (x *xlsxWriter) style(s xlsxStyle) (int, error) {
	if s.kind == sheet.Time || s.kind == sheet.Date {
		s.kind = sheet.Text
	}
	if id, ok := x.styles[s]; ok {
		return id, nil
	}
	numeric := s.kind == sheet.Amount || s.kind == sheet.Count
	style := &excelize.Style{NumFmt: 49, Alignment: &excelize.Alignment{Vertical: "top", Indent: s.indent}} // 49 is "@": it stays text when edited.
	if numeric {
		style.Alignment.Horizontal = "right"
	} else if s.indent > 0 {
		style.Alignment.Horizontal = "left" // The indentation of what is aligned in general does not count.
	}
	if s.scale >= 0 {
		format := "#,##0"
		if s.scale > 0 {
			format += "." + strings.Repeat("0", s.scale)
		}
		style.NumFmt, style.CustomNumFmt = 0, &format
	}
	rule := func(side string, line int) excelize.Border {
		return excelize.Border{Type: side, Color: "808080", Style: line}
	}
	switch {
	case s.header:
		style.Font = &excelize.Font{Bold: true}
		style.Fill = excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{"EDEDED"}}
		style.Border = []excelize.Border{rule("bottom", 1)}
		style.Alignment.WrapText = true
	case s.row == sheet.Subtotal:
		style.Font = &excelize.Font{Bold: true}
		style.Border = []excelize.Border{rule("top", 1)}
	case s.row == sheet.Total:
		style.Font = &excelize.Font{Bold: true}
		style.Border = []excelize.Border{rule("top", 1), rule("bottom", 6)}
	case s.row == sheet.Late:
		style.Font = &excelize.Font{Italic: true}
	}
	id, err := x.file.NewStyle(style)
	x.styles[s] = id
	return id, err
}

// End writes the facts and the checks, and then the workbook.
func (x *xlsxWriter) End(checks []sheet.Check) error {
	if err := x.stream.Flush(); err != nil {
		return x.failed(err)
	}
	if err := x.writeAbout(checks); err != nil {
		return x.failed(err)
	}
	out := &firstError{w: x.w}
	// By itself excelize collects the whole archive in memory before it writes it.
	x.file.SetZipWriter(func(io.Writer) excelize.ZipWriter { return zip.NewWriter(out) })
	err := x.file.Write(io.Discard)
	if out.err != nil {
		err = out.err
	}
	if err != nil {
		return x.failed(err)
	}
	return x.Close()
}

// firstError keeps the first error of a writer, and writes nothing after it.
type firstError struct {
	w   io.Writer
	err error
}

func (f *firstError) Write(p []byte) (n int, err error) {
	if f.err == nil {
		n, f.err = f.w.Write(p)
	}
	return n, f.err
}

// writeAbout fills the sheet About: in three columns what something is called, what it is, and what is to say of it.
func (x *xlsxWriter) writeAbout(checks []sheet.Check) error {
	rows := [][3]string{{x.head.Title}, {"Report", x.head.Report}}
	for _, f := range x.head.Facts {
		rows = append(rows, [3]string{f.Title, f.Value})
	}
	rows = append(rows, x.notes()...)
	bold, failed := []int{1}, []int(nil)
	if len(checks) > 0 {
		rows = append(rows, [3]string{}, [3]string{"Checks"})
		bold = append(bold, len(rows))
	}
	for _, c := range checks {
		state := "ok"
		if !c.OK {
			state = "DOES NOT HOLD"
			failed = append(failed, len(rows)+1)
		}
		rows = append(rows, [3]string{c.Name, state, c.Detail})
	}
	for i, cells := range rows {
		for j, cell := range cells {
			if cell == "" {
				continue
			}
			at, err := excelize.CoordinatesToCellName(j+1, i+1)
			if err != nil {
				return err
			}
			if err := x.file.SetCellStr(aboutSheet, at, cellText(cell)); err != nil {
				return err
			}
		}
	}
	return x.styleAbout(len(rows), bold, failed)
}

// notes say what the workbook has done to the values, if anything.
func (x *xlsxWriter) notes() [][3]string {
	var notes [][3]string
	if x.sheets > 1 {
		notes = append(notes, [3]string{"Sheets", fmt.Sprintf(
			"The rows are on %d sheets, from %s to %s: one is full.", x.sheets, reportSheet(1), reportSheet(x.sheets))})
	}
	if x.long > 0 {
		notes = append(notes, [3]string{"Numbers as text", fmt.Sprintf(
			"%d numbers have more than %d digits, which is all that a spreadsheet keeps. They are text, so that none is rounded.", x.long, xlsxDigits)})
	}
	if x.cut > 0 {
		notes = append(notes, [3]string{"Cut", fmt.Sprintf(
			"%d cells were longer than the %d characters that a cell holds. They end in %s, and are whole in CSV and JSON.", x.cut, xlsxCell, xlsxCut)})
	}
	return notes
}

// styleAbout makes About readable. If a check does not hold, the workbook opens there.
func (x *xlsxWriter) styleAbout(rows int, bold, failed []int) error {
	wrap := &excelize.Alignment{Vertical: "top", WrapText: true}
	styles := []struct {
		style excelize.Style
		rows  []int
	}{
		{excelize.Style{NumFmt: 49, Font: &excelize.Font{Bold: true}, Alignment: wrap}, bold},
		{excelize.Style{NumFmt: 49, Font: &excelize.Font{Bold: true, Color: "C00000"}, Alignment: wrap}, failed},
	}
	plain, err := x.file.NewStyle(&excelize.Style{NumFmt: 49, Alignment: wrap})
	if err != nil {
		return err
	}
	if err := x.file.SetCellStyle(aboutSheet, "A1", "C"+strconv.Itoa(rows), plain); err != nil {
		return err
	}
	for _, s := range styles {
		id, err := x.file.NewStyle(&s.style)
		if err != nil {
			return err
		}
		for _, row := range s.rows {
			if err := x.file.SetCellStyle(aboutSheet, fmt.Sprintf("A%d", row), fmt.Sprintf("C%d", row), id); err != nil {
				return err
			}
		}
	}
	for i, width := range []float64{32, 48, 48} {
		column := string(rune('A' + i))
		if err := x.file.SetColWidth(aboutSheet, column, column, width); err != nil {
			return err
		}
	}
	if len(failed) == 0 {
		x.file.SetActiveSheet(0)
		return nil
	}
	red := "C00000"
	return x.file.SetSheetProps(aboutSheet, &excelize.SheetPropsOptions{TabColorRGB: &red})
}
