package bankfile_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
)

// The files of public parsers; see shared/data/README.md. They are not part of this repository.
const samples = "../../../shared/data/bank"

func readSample(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if os.IsNotExist(err) {
		t.Skipf("%s is not here: the data is not part of the repository", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// scales are the currencies that tests know.
func scales(code string) (int32, bool) {
	scale, ok := map[string]int32{
		"EUR": 2, "USD": 2, "PLN": 2, "CAD": 2, "SEK": 2, "CHF": 2, "CZK": 2, "BDT": 2, "GBP": 2, "JPY": 0, "KWD": 3, "HUF": 2,
	}[code]
	return scale, ok
}

// tester is a testing.TB, or a run of a property.
type tester interface {
	Helper()
	Fatal(args ...any)
}

func parse(t tester, text []byte, o bankfile.Options) (*bankfile.File, *bankfile.Refusal) {
	t.Helper()
	if o.Scale == nil {
		o.Scale = scales
	}
	file, err := bankfile.Parse(context.Background(), bytes.NewReader(text), o)
	if err == nil {
		return file, nil
	}
	var refused *bankfile.Refusal
	if !errors.As(err, &refused) {
		t.Fatal(err)
	}
	return file, refused
}

// gist is what tests compare of a line.
type gist struct {
	Booked, Value, Amount, ID, Description string
}

func gists(s *bankfile.Statement) []gist {
	var list []gist
	for _, l := range s.Lines {
		list = append(list, gist{l.BookingDate.String(), l.ValueDate.String(), l.Amount.StringFixed(2) + " " + l.Currency, l.ExternalID, l.Description})
	}
	return list
}

func booked(s *bankfile.Statement) (sum decimal.Decimal, n int) {
	for _, l := range s.Lines {
		if l.Status == bankfile.StatusBooked {
			sum = sum.Add(l.Amount)
			n++
		}
	}
	return sum, n
}

func state(checks []bankfile.Check, name bankfile.CheckName) bankfile.CheckState {
	for _, c := range checks {
		if c.Name == name {
			return c.State
		}
	}
	return ""
}

// sampleStatement is what a sample must give of a statement. The sums were made apart from the parsers, by hand and with a script.
type sampleStatement struct {
	Account, Currency, Number string
	Opening, Closing, Sum     string
	Booked, Lines             int
	Totals                    bankfile.CheckState
}

func statementOf(s *bankfile.Statement) sampleStatement {
	sum, n := booked(s)
	got := sampleStatement{
		Account: s.AccountID, Currency: s.Currency, Number: s.Number, Sum: sum.StringFixed(2), Booked: n, Lines: len(s.Lines),
		Totals: state(s.Checks, bankfile.CheckTotals),
	}
	if s.Opening != nil {
		got.Opening = s.Opening.Amount.StringFixed(2) + " " + s.Opening.Date.String()
	}
	if s.Closing != nil {
		got.Closing = s.Closing.Amount.StringFixed(2) + " " + s.Closing.Date.String()
	}
	return got
}

func TestSamples(t *testing.T) {
	t.Parallel()
	const held, failed, notMade = bankfile.CheckHeld, bankfile.CheckFailed, bankfile.CheckNotMade
	for name, c := range map[string]struct {
		format bankfile.Format
		reason bankfile.Reason
		detail string
		want   []sampleStatement
	}{
		"camt053-v2-multi-statement.xml": {format: bankfile.FormatCamt053, want: []sampleStatement{
			{"NL26VAYB8060476890", "EUR", "12312", "18.15 2014-12-30", "27.00 2014-12-31", "8.85", 1, 1, held},
			{"NL26VAYB8060476890", "EUR", "", "27.00 2014-12-30", "20.00 2014-12-31", "-7.00", 1, 1, held},
		}},
		"camt053-v2-five-decimals-wrong-total.xml": {
			format: bankfile.FormatCamt053, reason: bankfile.ReasonTotals,
			detail: "closing balance 27.05 EUR; opening balance 18.15 EUR and lines of 8.85 EUR make 27.00 EUR",
			want:   []sampleStatement{{"NL26VAYB8060476890", "EUR", "12312", "18.15 2014-12-30", "27.05 2014-12-31", "8.85", 1, 1, failed}},
		},
		"camt053-v8.xml": {
			format: bankfile.FormatCamt053, reason: bankfile.ReasonTotals,
			detail: "closing balance -27.00 SEK; opening balance 18.15 EUR and lines of 8.85 EUR make 27.00 EUR",
			want:   []sampleStatement{{"NL26VAYB8060476890", "EUR", "12312", "18.15 2014-12-30", "-27.00 2014-12-30", "8.85", 1, 1, failed}},
		},
		"mt940-citi.txt": {format: bankfile.FormatMT940, want: []sampleStatement{
			{"123456789", "USD", "1", "17376.67 2024-03-12", "16233.92 2024-03-12", "-1142.75", 3, 5, held},
		}},
		"mt940-february-30.sta": {format: bankfile.FormatMT940, want: []sampleStatement{
			{"12345678/1020304050", "EUR", "00000", "1200.00 2016-02-29", "1194.00 2016-03-01", "-6.00", 1, 1, held},
		}},
		"mt940-mbank.sta": {format: bankfile.FormatMT940, want: []sampleStatement{
			{"PL29114010810000267002001002", "PLN", "1", "0.40 2017-01-19", "0.43 2017-01-19", "0.03", 3, 3, held},
		}},
		"bai2-sample1.txt": {format: bankfile.FormatBAI2, want: []sampleStatement{
			{"10200123456", "CAD", "", "", "", "0.00", 11, 11, notMade},
			{"10200123456", "CAD", "", "", "", "0.00", 6, 6, notMade},
		}},
		"ofx-bank-medium.ofx": {format: bankfile.FormatOFX, want: []sampleStatement{
			{"12300 000012345678", "CAD", "", "", "382.34 2009-05-23", "-345.27", 3, 3, notMade},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := readSample(t, samples+"/"+name)
			file, refused := parse(t, text, bankfile.Options{})
			if c.reason == "" && refused != nil || c.reason != "" && (refused == nil || refused.Reason != c.reason || refused.Detail != c.detail) {
				t.Errorf("refused: %v; want %s", refused, c.reason)
			}
			if file.Format != c.format || file.SHA256 != sha256Of(text) {
				t.Errorf("%s %s", file.Format, file.SHA256)
			}
			var got []sampleStatement
			for _, s := range file.Statements {
				got = append(got, statementOf(s))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func sha256Of(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Of some samples, also what the lines say.
func TestSamples_Lines(t *testing.T) {
	t.Parallel()
	read := func(name string) *bankfile.File {
		file, _ := parse(t, readSample(t, samples+"/"+name), bankfile.Options{})
		return file
	}
	february := read("mt940-february-30.sta").Statements[0].Lines[0]
	if got := february.Flags; len(got) != 1 || got[0].Code != bankfile.FlagValueDate ||
		got[0].Text != "value date 2016-02-30 does not exist: read as 2016-02-29" || february.ValueDate.String() != "2016-02-29" ||
		february.BookingDate.String() != "2016-03-01" {
		t.Errorf("30 February: %+v", february)
	}

	citi := read("mt940-citi.txt").Statements[0]
	for i, l := range citi.Lines {
		zero := i == 2 || i == 3
		if l.Amount.IsZero() != zero || (l.Status == bankfile.StatusInformation) != zero || (len(l.Flags) == 1 &&
			l.Flags[0].Code == bankfile.FlagZero) != zero {
			t.Errorf("line %d: %+v", i+1, l)
		}
	}
	if len(citi.Balances) != 1 || citi.Balances[0].Code != "64" {
		t.Errorf("balances: %+v", citi.Balances)
	}

	if diff := cmp.Diff([]gist{
		{"2017-01-19", "2017-01-19", "0.01 PLN", "MB170119012058", "911-TRANSAKCJA IPH 911 TRANSAKCJA COLLECT; ID IPH: XX000000000001; Z RACH.: " +
			"56114010810000267002001001; OD: JAN NOWAK UL. NIJAKA 1 M 2 31-234 KRAKOW; TYT.: PRZELEW SRODKOW ; TNR: 179171073864111.010001"},
	}, gists(read("mt940-mbank.sta").Statements[0])[:1]); diff != "" {
		t.Errorf("mbank (-want +got):\n%s", diff)
	}

	if diff := cmp.Diff([]gist{
		{"2009-04-01", "", "-6.60 CAD", "0000123456782009040100001", "POS MERCHANDISE;MCDONALD'S #112"},
		{"2009-04-02", "", "-316.67 CAD", "0000123456782009040200004", "MISCELLANEOUS PAYMENTS;Joe's Bald Hairstyles"},
		{"2009-04-03", "", "-22.00 CAD", "0000123456782009040300005", "POS MERCHANDISE;CONNIE'S HAIR D"},
	}, gists(read("ofx-bank-medium.ofx").Statements[0])); diff != "" {
		t.Errorf("ofx (-want +got):\n%s", diff)
	}

	bai := read("bai2-sample1.txt")
	var credits, debits decimal.Decimal
	for _, l := range bai.Statements[0].Lines {
		if l.Amount.IsPositive() {
			credits = credits.Add(l.Amount)
		} else {
			debits = debits.Add(l.Amount)
		}
	}
	if credits.String() != "2085" || debits.String() != "-2085" {
		t.Errorf("credits %s, debits %s; want 2085.00 of each", credits, debits)
	}
	held := 0
	for _, c := range bai.Checks {
		if c.State == bankfile.CheckHeld {
			held++
		}
	}
	if held != 6 { // control total, count and records, of the group and of the file
		t.Errorf("%d checks of the file hold: %+v", held, bai.Checks)
	}

	v8 := read("camt053-v8.xml").Statements[0].Lines[0]
	want := bankfile.References{EndToEnd: "MUELL/FINP/RA12345", Bank: "AAAASESS-FP-CN_98765/01", Creditor: "4654654654654654"}
	if v8.References != want || v8.Counterparty.Name != "NAME NAME" || v8.Code != "PMNT/RCDT/BOOK" || len(v8.Details) != 0 {
		t.Errorf("camt.053.001.08: %+v", v8)
	}
}
