package sheet_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/sheet"
)

func written(t require, s *sheet.Sheet) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteTo(sheet.NewJSON(&b)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// require is what testing.T and rapid.T have in common.
type require interface {
	Helper()
	Fatal(args ...any)
}

// TestJSONBytes pins the bytes: the hashes of statements are of these, so a change here makes issued statements look tampered with.
func TestJSONBytes(t *testing.T) {
	s := &sheet.Sheet{
		Head: sheet.Head{
			Report: "general-ledger", Title: "General <ledger> & more",
			Facts:   []sheet.Fact{{ID: "ledger", Title: "Ledger", Value: "main"}, {ID: "zone", Title: "Zone", Value: "Asia/Dhaka"}},
			Columns: []sheet.Column{{ID: "account", Title: "Account", Kind: sheet.Text}, {ID: "balance", Title: "Balance", Kind: sheet.Amount}},
		},
		Rows: []sheet.Row{
			{Kind: sheet.Opening, Cells: []string{"", "-1500.00"}},
			{Kind: sheet.Item, Depth: 2, Cells: []string{"=cmd()\n\x1b[31m\"\u202e", ""}},
		},
		Checks: []sheet.Check{{Name: "debits equal credits in BDT", OK: true}, {Name: "in USD", Detail: "off by 0.01"}},
	}
	want := `{"report": "general-ledger", "title": "General <ledger> & more",
"facts": [
  {"id": "ledger", "title": "Ledger", "value": "main"},
  {"id": "zone", "title": "Zone", "value": "Asia/Dhaka"}],
"columns": [
  {"id": "account", "title": "Account", "kind": "text"},
  {"id": "balance", "title": "Balance", "kind": "amount"}],
"rows": [
  {"row": "opening", "balance": "-1500.00"},
  {"row": "item", "depth": "2", "account": "=cmd()\n\u001b[31m\"` + "\u202e" + `"}],
"checks": [
  {"name": "debits equal credits in BDT", "ok": true},
  {"name": "in USD", "ok": false, "detail": "off by 0.01"}]}
`
	if diff := cmp.Diff(want, string(written(t, s))); diff != "" {
		t.Error(diff)
	}
}

// TestJSONRoundTrip reads back any sheet, and writes it again in the same bytes.
func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"", `=cmd()`, "-1+1", `"; drop`, "a\r\nb\x00", "]", "date:2025-01-01", "ক্ষুদ্র ব্যবসায়ী", "👩🏽‍🚀", "\u2028", "\\u0041",
			"123456789012345678901234567890.10",
		}))
		s := &sheet.Sheet{Head: sheet.Head{Report: "r" + text.Draw(t, "report"), Title: text.Draw(t, "title")}}
		for i := range rapid.IntRange(0, 3).Draw(t, "facts") {
			s.Head.Facts = append(s.Head.Facts, sheet.Fact{ID: fmt.Sprint("f", i), Title: text.Draw(t, "fact"), Value: text.Draw(t, "value")})
		}
		columns := rapid.IntRange(1, 4).Draw(t, "columns")
		for i := range columns {
			kind := rapid.SampledFrom([]sheet.Kind{sheet.Text, sheet.Amount, sheet.Count, sheet.Time, sheet.Date}).Draw(t, "kind")
			s.Head.Columns = append(s.Head.Columns, sheet.Column{ID: fmt.Sprint("c", i), Title: text.Draw(t, "column"), Kind: kind})
		}
		kinds := []sheet.RowKind{sheet.Item, sheet.Opening, sheet.Closing, sheet.Late, sheet.Subtotal, sheet.Total}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			s.Rows = append(s.Rows, sheet.Row{
				Kind: rapid.SampledFrom(kinds).Draw(t, "row"), Depth: rapid.IntRange(0, 12).Draw(t, "depth"),
				Cells: rapid.SliceOfN(text, columns, columns).Draw(t, "cells"),
			})
		}
		for range rapid.IntRange(0, 3).Draw(t, "checks") {
			s.Checks = append(s.Checks, sheet.Check{Name: text.Draw(t, "check"), OK: rapid.Bool().Draw(t, "ok"), Detail: text.Draw(t, "detail")})
		}
		first := written(t, s)
		if !json.Valid(first) {
			t.Fatalf("no JSON: %s", first)
		}
		got, err := sheet.ParseJSON(first)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if again := written(t, got); !bytes.Equal(first, again) {
			t.Fatalf("written again:\n%s\nat first:\n%s", again, first)
		}
	})
}

func TestJSONReplacesWhatIsNoText(t *testing.T) {
	s := &sheet.Sheet{
		Head: sheet.Head{Report: "r", Columns: []sheet.Column{{ID: "a", Kind: sheet.Text}}},
		Rows: []sheet.Row{{Kind: sheet.Item, Cells: []string{"a\xffb"}}},
	}
	got, err := sheet.ParseJSON(written(t, s))
	if err != nil || got.Rows[0].Cells[0] != "a\ufffdb" {
		t.Errorf("%q, %v", got.Rows[0].Cells, err)
	}
}

// TestJSONRefuses looks at what would be lost, since a member can only be there once.
func TestJSONRefuses(t *testing.T) {
	for _, ids := range [][]string{{"row"}, {"depth"}, {"a", "b", "a"}} {
		var head sheet.Head
		for _, id := range ids {
			head.Columns = append(head.Columns, sheet.Column{ID: id, Kind: sheet.Text})
		}
		if err := sheet.NewJSON(io.Discard).Begin(head); err == nil {
			t.Errorf("columns %q are taken", ids)
		}
	}
	j := sheet.NewJSON(io.Discard)
	if err := j.Begin(sheet.Head{Columns: []sheet.Column{{ID: "a"}}}); err != nil {
		t.Fatal(err)
	}
	for _, cells := range [][]string{nil, {"1", "2"}} {
		if err := j.Row(sheet.Row{Cells: cells}); err == nil {
			t.Errorf("%d cells for one column are taken", len(cells))
		}
	}
}

func TestParseJSONRefuses(t *testing.T) {
	whole := written(t, &sheet.Sheet{
		Head: sheet.Head{Report: "r", Columns: []sheet.Column{{ID: "a", Kind: sheet.Text}}},
		Rows: []sheet.Row{{Kind: sheet.Item, Depth: 1, Cells: []string{"x"}}},
	})
	for name, text := range map[string]string{
		"empty":         "",
		"cut":           string(whole[:len(whole)-3]),
		"more after it": string(whole) + "{}",
		"no report":     `{"columns": [{"id": "a"}]}`,
		"no columns":    `{"report": "r"}`,
		"a number":      strings.Replace(string(whole), `"x"`, `1.0`, 1),
		"half a depth":  strings.Replace(string(whole), `"depth": "1"`, `"depth": "1x"`, 1),
		"depth below 1": strings.Replace(string(whole), `"depth": "1"`, `"depth": "-1"`, 1),
	} {
		if _, err := sheet.ParseJSON([]byte(text)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestJSONReportsErrors(t *testing.T) {
	s := &sheet.Sheet{Head: sheet.Head{Report: "r"}}
	if err := s.WriteTo(sheet.NewJSON(full{})); err == nil {
		t.Error("nothing was written, and no error")
	}
}
