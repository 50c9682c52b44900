package export

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/sheet"
)

func TestCSV(t *testing.T) {
	s := &sheet.Sheet{
		Head: sheet.Head{Report: "general-ledger", Title: "General ledger", Facts: []sheet.Fact{{ID: "ledger", Title: "Ledger", Value: "main"}},
			Columns: []sheet.Column{{ID: "account", Title: "Account", Kind: sheet.Text}, {ID: "balance", Title: "Balance", Kind: sheet.Amount}}},
		Rows: []sheet.Row{
			{Kind: sheet.Opening, Cells: []string{"", "-1500.00"}},
			{Kind: sheet.Item, Depth: 1, Cells: []string{`a "b", c`, "-0.50"}},
			{Kind: sheet.Late, Cells: []string{"-1500.00", ""}},
			{Kind: sheet.Total, Cells: []string{"ক্ষুদ্র", "-1500.50"}},
		},
		Checks: []sheet.Check{{Name: "debits equal credits", OK: true}},
	}
	want := "row,account,balance\nopening,,-1500.00\nitem,\"a \"\"b\"\", c\",-0.50\nlate,'-1500.00,\ntotal,ক্ষুদ্র,-1500.50\n"
	if diff := cmp.Diff(want, string(writeSheet(t, CSV, s))); diff != "" {
		t.Error(diff)
	}
}

func TestCSVMakesFormulasHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"tea":                  "tea",
		"a=b":                  "a=b",
		"2-1":                  "2-1",
		"me@example.com":       "me@example.com",
		"=cmd()":               "'=cmd()",
		"+1":                   "'+1",
		"-1+1":                 "'-1+1",
		"@SUM(A1)":             "'@SUM(A1)",
		"  =cmd()":             "  '=cmd()",
		"\u00a0\u200b=cmd()":   "\u00a0\u200b'=cmd()",
		"\ufeff=cmd()":         "\ufeff'=cmd()",
		"＝cmd()":               "'＝cmd()",
		"＋1":                   "'＋1",
		"－1":                   "'－1",
		"＠x":                   "'＠x",
		"\ttea":                "'\ttea",
		"\t=cmd()":             "'\t'=cmd()",
		"\rtea":                "'␍tea",
		"\r\n=cmd()":           "'\n'=cmd()",
		"\ntea":                "'\ntea",
		"\x00=cmd()":           "'␀=cmd()",
		"tea;=cmd()":           "tea;'=cmd()",
		"tea; -1":              "tea; '-1",
		"tea\n@x":              "tea\n'@x",
		"tea\tmilk":            "tea\tmilk",
		"--":                   "'--",
		"\x1b[31m":             "␛[31m",
		"a\x7fb\u009bc\ufffed": "a␡b\ufffdc\ufffdd",
		"=\xff":                "'=\ufffd",
	} {
		s := &sheet.Sheet{Head: sheet.Head{Columns: []sheet.Column{{ID: "a", Kind: sheet.Text}}},
			Rows: []sheet.Row{{Kind: sheet.Item, Cells: []string{text}}}}
		records, err := csv.NewReader(bytes.NewReader(writeSheet(t, CSV, s))).ReadAll()
		if err != nil || records[1][1] != want {
			t.Errorf("%q: %q, want %q (%v)", text, records, want, err)
		}
	}
}

// TestCSVNastyTexts reads the file as a program would: each cell is where it belongs, and amounts are as they were.
func TestCSVNastyTexts(t *testing.T) {
	s := nastySheet()
	data := writeSheet(t, CSV, s)
	if !utf8.Valid(data) || bytes.ContainsAny(data, "\r\x00\x1b\x7f") || bytes.HasPrefix(data, []byte("\ufeff")) {
		t.Error("control characters or no UTF-8")
	}
	records, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"row", "account", "note", "entries", "at", "day", "balance"}; !slices.Equal(records[0], want) {
		t.Error(records[0])
	}
	for i, row := range s.Rows {
		got := records[i+1]
		if got[0] != string(row.Kind) || !slices.Equal(got[3:], row.Cells[2:]) {
			t.Errorf("row %d: %.80q", i, got)
		}
		// Without the quotes before formulas the text is whole.
		if text := strings.ReplaceAll(got[1], "'", ""); text != strings.ReplaceAll(visible(row.Cells[0]), "'", "") {
			t.Errorf("row %d: %.80q was %.80q", i, got[1], row.Cells[0])
		}
	}
}

// TestCSVCellsNeverStartAFormula tries any text, also as a spreadsheet sees it that separates cells by semicolons.
func TestCSVCellsNeverStartAFormula(t *testing.T) {
	alphabet := rapid.SampledFrom([]rune("=+-@＝＋－＠ \t\r\n\x00;,'\"ab\u200b\ufeff\u00a0ক্"))
	rapid.Check(t, func(t *rapid.T) {
		text := visible(noFormula(rapid.StringOf(alphabet).Draw(t, "text")))
		for _, cell := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\t' || r == '\n' }) {
			if first, _ := utf8.DecodeRuneInString(strings.TrimLeft(cell, " \u200b\ufeff\u00a0")); startsFormula(first) {
				t.Fatalf("%q begins with %q", cell, first)
			}
		}
		if text != "" && strings.ContainsRune("\t\n\r\x00", rune(text[0])) {
			t.Fatalf("%q", text)
		}
	})
}
