package export

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/sheet"
)

func TestTable(t *testing.T) {
	s := &sheet.Sheet{
		Head: sheet.Head{
			Report: "trial-balance", Title: "Trial balance",
			Facts: []sheet.Fact{{ID: "ledger", Title: "Ledger", Value: "main"}, {ID: "from", Title: "From (included)", Value: "2026-01-01"}},
			Columns: []sheet.Column{
				{ID: "account", Title: "Account", Kind: sheet.Text}, {ID: "currency", Title: "Currency", Kind: sheet.Text},
				{ID: "entries", Title: "Entries", Kind: sheet.Count}, {ID: "balance", Title: "Balance", Kind: sheet.Amount},
			},
		},
		Rows: []sheet.Row{
			{Kind: sheet.Opening, Cells: []string{"", "BDT", "", "10.00"}},
			{Kind: sheet.Opening, Cells: []string{"assets", "BDT", "", "10.00"}},
			{Kind: sheet.Item, Cells: []string{"assets", "BDT", "12", "-1500.00"}},
			{Kind: sheet.Item, Depth: 1, Cells: []string{"ব্যাংক", "BDT", "2", "0.00"}},
			{Kind: sheet.Item, Depth: 2, Cells: []string{"東京", "BDT", "", ""}},
			{Kind: sheet.Late, Depth: 1, Cells: []string{"cash", "BDT", "1", "5.00"}},
			{Kind: sheet.Subtotal, Cells: []string{"", "BDT", "15", "-1495.00"}},
			{Kind: sheet.Item, Cells: []string{"equity", "USD", "1", "7.00"}},
			{Kind: sheet.Total, Cells: []string{"", "BDT", "15", "-1495.00"}},
			{Kind: sheet.Total, Cells: []string{"", "USD", "1", "7.00"}},
		},
		Checks: []sheet.Check{{Name: "debits equal credits in BDT", OK: true}, {Name: "debits equal credits in USD", Detail: "off by 0.01\x1b"}},
	}
	want := `Trial balance
Ledger           main
From (included)  2026-01-01

Account   Currency  Entries   Balance
--------  --------  -------  --------
Opening   BDT                   10.00
assets    BDT                   10.00  (opening)
assets    BDT            12  -1500.00
  ব্যাংক   BDT             2      0.00
    東京  BDT
  cash    BDT             1      5.00  (late)
--------  --------  -------  --------
Subtotal  BDT            15  -1495.00
--------  --------  -------  --------
equity    USD             1      7.00
========  ========  =======  ========
Total     BDT            15  -1495.00
Total     USD             1      7.00
========  ========  =======  ========

Checks
  debits equal credits in BDT: ok
  debits equal credits in USD: DOES NOT HOLD: off by 0.01\x1b
`
	if diff := cmp.Diff(want, string(writeSheet(t, Table, s))); diff != "" {
		t.Error(diff)
	}
}

func TestTableWithoutRows(t *testing.T) {
	s := &sheet.Sheet{Head: sheet.Head{Title: "Growth", Columns: []sheet.Column{{ID: "day", Title: "Day", Kind: sheet.Date}}}}
	if diff := cmp.Diff("Growth\n\nDay\n---\n(no rows)\n", string(writeSheet(t, Table, s))); diff != "" {
		t.Error(diff)
	}
}

func TestTerminalText(t *testing.T) {
	for text, want := range map[string]string{
		"tea":                    "tea",
		"\x1b[31mred\x1b[0m\x07": `\x1b[31mred\x1b[0m\x07`,
		"a\nb\tc\rd\x00e\x7f":    `a\nb\tc\rd\x00e\x7f`,
		"\u009b31m":              `\u009b31m`,
		"abc\u202e00.0001":       `abc\u202e00.0001`,
		"\u2066\u2069\u200e":     `\u2066\u2069\u200e`,
		"a\u2028b\u200bc\ufeff":  `a\u2028b\u200bc\ufeff`,
		"pay\U000e0070al":        `pay\U000e0070al`,
		"\xff":                   "\ufffd",
		"ক্ষুদ্র র\u200d্যাব ক\u200cষ": "ক্ষুদ্র র\u200d্যাব ক\u200cষ",
		"👩🏽‍🚀 👨‍👩‍👧‍👦 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🇧🇩 ❤️":   "👩🏽‍🚀 👨‍👩‍👧‍👦 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🇧🇩 ❤️",
		"東京 e\u0301": "東京 e\u0301",
	} {
		if got := terminalText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestTableWidths(t *testing.T) {
	for text, want := range map[string]int{
		"tea": 3, "東京": 4, "ｶﾅ": 2, "한국": 4, "e\u0301": 1, "👩🏽‍🚀": 2, "👨‍👩‍👧‍👦": 2, "🇧🇩": 2, "❤️": 2,
		"−": 1, "ক্": 1, "কি": 2, "কা": 2, "ব্যাংক": 5, "ক\u200c": 1,
	} {
		if got := displayWidth(text); got != want {
			t.Errorf("%q is %d wide, want %d", text, got, want)
		}
	}
}

// TestTableNastyTexts: whatever is in it, a row is one line, a check is one line, and nothing in it moves the cursor or turns the line.
func TestTableNastyTexts(t *testing.T) {
	s := nastySheet()
	text := string(writeSheet(t, Table, s))
	if !utf8.ValidString(text) {
		t.Error("no UTF-8")
	}
	for _, r := range text {
		if r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			t.Errorf("%U", r)
		}
	}
	lines := 1 + len(s.Head.Facts) + 1 + 2 + len(s.Rows) + 2 + 2 + len(s.Checks)
	if got := strings.Count(text, "\n"); got != lines {
		t.Errorf("%d lines, want %d", got, lines)
	}
	for _, whole := range []string{"ক্ষুদ্র ব্যবসায়ী র\u200d্যাব কি", "👩🏽‍🚀 👨‍👩‍👧‍👦 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🇧🇩", strings.Repeat("ক", 40000)} {
		if !strings.Contains(text, whole) {
			t.Errorf("%.40q is not whole", whole)
		}
	}
}

// TestTableStreams: after the rows that widths are found from, a row is written at once, and a wider cell pushes its own row only.
func TestTableStreams(t *testing.T) {
	columns := []sheet.Column{{ID: "a", Title: "A", Kind: sheet.Text}, {ID: "b", Title: "B", Kind: sheet.Amount}}
	s := &sheet.Sheet{Head: sheet.Head{Columns: columns}}
	for i := range tableAhead + 2 {
		s.Rows = append(s.Rows, sheet.Row{Kind: sheet.Item, Cells: []string{fmt.Sprint(i), "1.00"}})
	}
	s.Rows[3].Cells[0] = strings.Repeat("x", 60) // wider than a column gets
	s.Rows[tableAhead].Cells[1] = strings.Repeat("9", 60)
	lines := strings.Split(string(writeSheet(t, Table, s)), "\n")[4:]
	for at, want := range map[int]string{
		2:              "2" + spaces(tableWidest-1) + "  1.00",
		3:              strings.Repeat("x", 60) + "  1.00",
		tableAhead:     "1000" + spaces(tableWidest-4) + "  " + strings.Repeat("9", 60),
		tableAhead + 1: "1001" + spaces(tableWidest-4) + "  1.00",
	} {
		if lines[at] != want {
			t.Errorf("line %d: %q, want %q", at, lines[at], want)
		}
	}
}
