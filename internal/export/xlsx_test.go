package export

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"

	"github.com/khata-ledger/khata/internal/sheet"
)

func openWorkbook(t *testing.T, data []byte) *excelize.File {
	t.Helper()
	f, err := excelize.OpenReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// rawCell gives a cell as it is stored, and its type.
func rawCell(t *testing.T, f *excelize.File, name string, column, row int) (string, excelize.CellType) {
	t.Helper()
	at, err := excelize.CoordinatesToCellName(column, row)
	if err != nil {
		t.Fatal(err)
	}
	value, err := f.GetCellValue(name, at, excelize.Options{RawCellValue: true})
	if err != nil {
		t.Fatal(err)
	}
	kind, err := f.GetCellType(name, at)
	if err != nil {
		t.Fatal(err)
	}
	return value, kind
}

// TestXLSXNastyTexts reads the workbook again, cell by cell: all text is there as text, and there is no formula.
func TestXLSXNastyTexts(t *testing.T) {
	s := nastySheet()
	data := writeSheet(t, XLSX, s)
	f := openWorkbook(t, data)
	if names := f.GetSheetList(); !slices.Equal(names, []string{"Report", "About"}) {
		t.Fatal(names)
	}
	for i, title := range []string{"Row", "Account", "Note", "Entries", "At", "Day", "Balance"} {
		if got, kind := rawCell(t, f, "Report", i+1, 1); got != title || kind != excelize.CellTypeInlineString {
			t.Errorf("header %d: %q, %d", i, got, kind)
		}
	}
	for i, row := range s.Rows {
		if got, _ := rawCell(t, f, "Report", 1, i+2); got != string(row.Kind) {
			t.Errorf("row %d is a %q", i, got)
		}
		for j, cell := range row.Cells {
			if k := nastyColumns[j].Kind; k == sheet.Amount || k == sheet.Count || cell == "" {
				continue
			}
			got, kind := rawCell(t, f, "Report", j+2, i+2)
			want, isCut := cutText(visible(cell))
			if got != want || kind != excelize.CellTypeInlineString {
				t.Errorf("row %d, %s: %.80q (type %d), want %.80q", i, nastyColumns[j].ID, got, kind, want)
			}
			if isCut && (utf16Length(got) > xlsxCell || !strings.HasSuffix(got, "…[cut]")) {
				t.Errorf("row %d: cut to %d", i, utf16Length(got))
			}
		}
	}
	for name, part := range unzipped(t, data) {
		if strings.HasPrefix(name, "xl/worksheets/") && (strings.Contains(part, "<f>") || strings.Contains(part, "<f ")) {
			t.Errorf("%s has a formula", name)
		}
		if strings.Contains(part, "xuri") || strings.Contains(part, "Excelize") {
			t.Errorf("%s names the library", name)
		}
	}
}

func unzipped(t *testing.T, data []byte) map[string]string {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, file := range archive.File {
		r, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		part, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		parts[file.Name] = string(part)
	}
	return parts
}

func TestXLSXNumbers(t *testing.T) {
	for _, c := range []struct {
		kind              sheet.Kind
		text, raw, format string
	}{
		{sheet.Amount, "-1500.00", "-1500", "#,##0.00"},
		{sheet.Amount, "0.00", "0", "#,##0.00"},
		{sheet.Amount, "-0.00", "0", "#,##0.00"},
		{sheet.Amount, "7500", "7500", "#,##0"},
		{sheet.Amount, "1.005", "1.005", "#,##0.000"},
		{sheet.Amount, "123456789012345", "123456789012345", "#,##0"},
		{sheet.Amount, "1234567890123.45", "1234567890123.45", "#,##0.00"},
		{sheet.Amount, "-123456789012345.00", "-123456789012345", "#,##0.00"},
		{sheet.Amount, "0.000000000000000001", "0.000000000000000001", "#,##0.000000000000000000"},
		{sheet.Amount, "1234567890123456", "1234567890123456", ""},
		{sheet.Amount, "12345678901234.56", "12345678901234.56", ""},
		{sheet.Amount, "9007199254740993", "9007199254740993", ""},
		{sheet.Amount, "123456789012345678901234567890.123456789012345679", "123456789012345678901234567890.123456789012345679", ""},
		{sheet.Amount, "0." + strings.Repeat("0", 30) + "1", "0." + strings.Repeat("0", 30) + "1", ""},
		{sheet.Amount, "=1+1", "=1+1", ""},
		{sheet.Amount, "1e5", "1e5", ""},
		{sheet.Amount, "NaN", "NaN", ""},
		{sheet.Count, "12", "12", "#,##0"},
		{sheet.Count, "1582917533873852417", "1582917533873852417", ""},
		{sheet.Text, "12", "12", ""},
		{sheet.Text, "00123", "00123", ""},
		{sheet.Text, "1582917533873852417", "1582917533873852417", ""},
		{sheet.Date, "2026-01-31", "2026-01-31", ""},
		{sheet.Time, "2026-01-31T18:00:00Z", "2026-01-31T18:00:00Z", ""},
	} {
		s := &sheet.Sheet{Head: sheet.Head{Report: "r", Columns: []sheet.Column{{ID: "a", Title: "A", Kind: c.kind}}},
			Rows: []sheet.Row{{Kind: sheet.Item, Cells: []string{c.text}}}}
		f := openWorkbook(t, writeSheet(t, XLSX, s))
		raw, kind := rawCell(t, f, "Report", 2, 2)
		id, err := f.GetCellStyle("Report", "B2")
		if err != nil {
			t.Fatal(err)
		}
		style, err := f.GetStyle(id)
		if err != nil {
			t.Fatal(err)
		}
		format := ""
		if style.CustomNumFmt != nil {
			format = *style.CustomNumFmt
		} else if style.NumFmt != 49 {
			format = map[int]string{3: "#,##0", 4: "#,##0.00"}[style.NumFmt]
		}
		isText := kind == excelize.CellTypeInlineString
		if raw != c.raw || format != c.format || isText != (c.format == "") {
			t.Errorf("%s %s: %s in %q, type %d", c.kind, c.text, raw, format, kind)
		}
	}
}

// TestXLSXAbout looks at what a reader finds beside the rows.
func TestXLSXAbout(t *testing.T) {
	s := &sheet.Sheet{
		Head: sheet.Head{Report: "trial-balance", Title: "Trial balance", Columns: nastyColumns[:1],
			Facts: []sheet.Fact{{ID: "ledger", Title: "Ledger", Value: "=main"}, {ID: "to", Title: "To (not included)", Value: "2026-02-01"}}},
		Checks: []sheet.Check{{Name: "debits equal credits in BDT", OK: true}, {Name: "debits equal credits in USD", Detail: "off by 0.01"}},
	}
	f := openWorkbook(t, writeSheet(t, XLSX, s))
	rows, err := f.GetRows("About")
	if err != nil {
		t.Fatal(err)
	}
	want := "[[Trial balance] [Report trial-balance] [Ledger =main] [To (not included) 2026-02-01] [] [Checks]" +
		" [debits equal credits in BDT ok] [debits equal credits in USD DOES NOT HOLD off by 0.01]]"
	if got := fmt.Sprint(rows); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if f.GetActiveSheetIndex() != 1 {
		t.Error("a workbook with a check that does not hold opens somewhere else")
	}
	s.Checks = s.Checks[:1]
	if f := openWorkbook(t, writeSheet(t, XLSX, s)); f.GetActiveSheetIndex() != 0 {
		t.Error("a workbook opens at About")
	}
	notes := writeSheet(t, XLSX, nastySheet())
	about, err := openWorkbook(t, notes).GetRows("About")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(about)
	for _, want := range []string{"Numbers as text 6 numbers have more than 15 digits", "Cut 4 cells were longer than the 32767 characters"} {
		if !strings.Contains(text, want) {
			t.Errorf("About does not say %q", want)
		}
	}
}

func TestXLSXHeaderIsFrozen(t *testing.T) {
	f := openWorkbook(t, writeSheet(t, XLSX, nastySheet()))
	panes, err := f.GetPanes("Report")
	if err != nil || !panes.Freeze || panes.YSplit != 1 || panes.XSplit != 0 {
		t.Errorf("%+v, %v", panes, err)
	}
	titles := f.GetDefinedName()
	if len(titles) != 1 || titles[0].Name != "_xlnm.Print_Titles" || titles[0].RefersTo != "'Report'!$1:$1" {
		t.Errorf("%+v", titles)
	}
}

// TestXLSXParts looks at what spreadsheets insist on, and excelize does not when it reads: columns in their order, and one sheet selected at most.
func TestXLSXParts(t *testing.T) {
	s := nastySheet()
	for _, checks := range [][]sheet.Check{nil, {{Name: "a", OK: true}}, {{Name: "a"}}} {
		s.Checks = checks
		selected := ""
		for name, part := range unzipped(t, writeSheet(t, XLSX, s)) {
			if strings.Contains(part, `tabSelected="true"`) || strings.Contains(part, `tabSelected="1"`) {
				selected += name
			}
			if name != "xl/worksheets/sheet1.xml" {
				continue
			}
			last := 0
			for _, m := range regexp.MustCompile(`<col min="(\d+)" max="(\d+)" width="[0-9.]+"`).FindAllStringSubmatch(part, -1) {
				column, err := strconv.Atoi(m[1])
				if err != nil || m[1] != m[2] || column != last+1 {
					t.Errorf("column %s to %s after %d", m[1], m[2], last)
				}
				last = column
			}
			if last != len(nastyColumns)+1 {
				t.Errorf("%d columns have a width", last)
			}
		}
		want := ""
		if len(sheet.Failed(s.Checks)) > 0 {
			want = "xl/worksheets/sheet2.xml"
		}
		if selected != want {
			t.Errorf("checks %v: selected %q", s.Checks, selected)
		}
	}
}

// TestXLSXContinues fills sheets, by rows and by bytes.
func TestXLSXContinues(t *testing.T) {
	for name, limit := range map[string]func(*xlsxWriter){
		"rows":  func(x *xlsxWriter) { x.maxRows = 4 },
		"bytes": func(x *xlsxWriter) { x.maxBytes = 3 * 48 },
	} {
		var b bytes.Buffer
		x := newXLSX(&b)
		limit(x)
		s := sheet.Sheet{Head: sheet.Head{Report: "r", Columns: []sheet.Column{{ID: "n", Title: "N", Kind: sheet.Count}}}}
		for i := range 8 {
			s.Rows = append(s.Rows, sheet.Row{Kind: sheet.Item, Cells: []string{fmt.Sprint(i)}})
		}
		if err := s.WriteTo(x); err != nil {
			t.Fatal(err)
		}
		f := openWorkbook(t, b.Bytes())
		got := fmt.Sprint(f.GetSheetList())
		for _, name := range []string{"Report", "Report 2", "Report 3", "About"} {
			rows, err := f.GetRows(name)
			if err != nil {
				t.Fatal(err)
			}
			got += fmt.Sprint(" ", rows)
		}
		want := "[Report About Report 2 Report 3]" +
			" [[Row N] [item 0] [item 1] [item 2]] [[Row N] [item 3] [item 4] [item 5]] [[Row N] [item 6] [item 7]]" +
			" [[] [Report r] [Sheets The rows are on 3 sheets, from Report to Report 3: one is full.]]"
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// manyRows is enough for a workbook to need temporary files.
func manyRows(w sheet.Writer) error {
	if err := w.Begin(sheet.Head{Report: "r", Columns: nastyColumns[:1]}); err != nil {
		return err
	}
	long := strings.Repeat("x", 30_000)
	for range 2 * xlsxInMemory / len(long) {
		if err := w.Row(sheet.Row{Kind: sheet.Item, Cells: []string{long}}); err != nil {
			return err
		}
	}
	return nil
}

// TestXLSXLeavesNoFiles behind, whether it comes to its end, is closed before, or fails.
func TestXLSXLeavesNoFiles(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, finish := range map[string]func(*xlsxWriter) error{
		"end":   func(x *xlsxWriter) error { return x.End(nil) },
		"close": func(x *xlsxWriter) error { return x.Close() },
		"row": func(x *xlsxWriter) error {
			if x.Row(sheet.Row{}) == nil {
				return fmt.Errorf("a row without cells is taken")
			}
			return nil
		},
	} {
		x := newXLSX(io.Discard)
		if err := manyRows(x); err != nil {
			t.Fatal(err)
		}
		if len(temporaryFiles(t)) != 1 {
			t.Fatalf("%s: %q while writing", name, temporaryFiles(t))
		}
		if err := finish(x); err != nil {
			t.Error(name, err)
		}
		if left := temporaryFiles(t); len(left) != 0 {
			t.Errorf("%s: %q is left", name, left)
		}
	}
	if _, ok := New(XLSX, io.Discard).(io.Closer); !ok {
		t.Error("New's writer cannot be closed")
	}
}

// TestXLSXNeedsTemporaryFiles: without a place for them a long workbook is refused, rather than kept in memory.
func TestXLSXNeedsTemporaryFiles(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if err := manyRows(newXLSX(io.Discard)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	writeSheet(t, XLSX, nastySheet()) // A short one needs none.
}
