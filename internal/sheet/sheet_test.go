package sheet_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/sheet"
)

func TestAmountCell(t *testing.T) {
	for _, c := range []struct {
		amount string
		scale  int32
		want   string
	}{
		{"0", 2, "0.00"},
		{"0", 0, "0"},
		{"-0.00", 2, "0.00"},
		{"0e9", 3, "0.000"},
		{"-1500", 2, "-1500.00"},
		{"1e3", 0, "1000"},
		{"1.5", 18, "1.500000000000000000"},
		{"7500.00", 0, "7500"},
		{"123456789012345678901234567890.123456789012345679", 18, "123456789012345678901234567890.123456789012345679"},
		// Finer than its currency: shown whole, and not as another amount.
		{"-0.001", 2, "-0.001"},
		{"0.995", 2, "0.995"},
		{"1.5", 0, "1.5"},
	} {
		if got := sheet.AmountCell(decimal.RequireFromString(c.amount), c.scale); got != c.want {
			t.Errorf("%s with %d digits: %s, want %s", c.amount, c.scale, got, c.want)
		}
	}
	if got := sheet.AmountCell(decimal.RequireFromString("5").Sub(decimal.RequireFromString("5.00")).Neg(), 2); got != "0.00" {
		t.Errorf("minus nothing is %s", got)
	}
}

// TestAmountCellIsExact reads any amount back as what it was.
func TestAmountCellIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := decimal.New(rapid.Int64().Draw(t, "digits"), rapid.Int32Range(-25, 12).Draw(t, "exponent"))
		text := sheet.AmountCell(amount, rapid.Int32Range(0, 18).Draw(t, "scale"))
		if got, err := decimal.NewFromString(text); err != nil || !got.Equal(amount) {
			t.Fatalf("%s is written as %s", amount, text)
		}
	})
}

func TestTimeCell(t *testing.T) {
	dhaka := time.FixedZone("+06", 6*3600)
	for want, at := range map[string]time.Time{
		"2026-01-31T18:00:00Z":        time.Date(2026, 2, 1, 0, 0, 0, 0, dhaka),
		"2026-01-31T18:00:00.000001Z": time.Date(2026, 2, 1, 0, 0, 0, 1000, dhaka),
		"2026-01-31T18:00:00.12Z":     time.Date(2026, 2, 1, 0, 0, 0, 120_000_000, dhaka),
	} {
		if got := sheet.TimeCell(at); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestHeadFact(t *testing.T) {
	head := sheet.Head{Facts: []sheet.Fact{{ID: "ledger", Value: "main"}}}
	if head.Fact("ledger") != "main" || head.Fact("zone") != "" {
		t.Errorf("%q, %q", head.Fact("ledger"), head.Fact("zone"))
	}
}

func TestFailed(t *testing.T) {
	checks := []sheet.Check{{Name: "a", OK: true}, {Name: "b", Detail: "no"}, {Name: "c", OK: true}, {Name: "d"}}
	if diff := cmp.Diff([]sheet.Check{checks[1], checks[3]}, sheet.Failed(checks)); diff != "" {
		t.Error(diff)
	}
	if failed := sheet.Failed(checks[:1]); len(failed) != 0 {
		t.Error(failed)
	}
}

func TestCollectorKeepsASheet(t *testing.T) {
	want := sheet.Sheet{
		Head:   sheet.Head{Report: "r", Columns: []sheet.Column{{ID: "a", Kind: sheet.Text}}},
		Rows:   []sheet.Row{{Kind: sheet.Item, Cells: []string{"1"}}, {Kind: sheet.Total, Cells: []string{"2"}}},
		Checks: []sheet.Check{{Name: "c", OK: true}},
	}
	var c sheet.Collector
	if err := want.WriteTo(&c); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, c.Sheet); diff != "" {
		t.Error(diff)
	}
}

// stops is a writer that fails at a call.
type stops struct {
	at    string
	calls []string
}

func (s *stops) call(name string) error {
	s.calls = append(s.calls, name)
	if name == s.at {
		return errors.New("stop")
	}
	return nil
}
func (s *stops) Begin(sheet.Head) error  { return s.call("begin") }
func (s *stops) Row(sheet.Row) error     { return s.call("row") }
func (s *stops) End([]sheet.Check) error { return s.call("end") }

// TestWriteToStops keeps the promise of Writer: after an error it is not called again.
func TestWriteToStops(t *testing.T) {
	s := sheet.Sheet{Rows: make([]sheet.Row, 2)}
	for at, want := range map[string][]string{"begin": {"begin"}, "row": {"begin", "row"}, "end": {"begin", "row", "row", "end"}} {
		w := &stops{at: at}
		if err := s.WriteTo(w); err == nil || !slices.Equal(w.calls, want) {
			t.Errorf("%v, error %v", w.calls, err)
		}
	}
}
