package bankfile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/bankfile"
)

// bai is a file of two groups: two accounts in the first, one in the second, whose totals are right.
const bai = `01,BANK,ME,240131,0800,1,80,1,2/
02,ME,BANK,1,240130,2359,USD,2/
03,A1,,010,10000,,,015,10250,,,040,9000,,,100,350,1,,400,100,1,/
16,195,350,V,240131,0900,B1,C1,WIRE, FROM/ABC
88,AND MORE/
16,475,100,S,100,0,0,B2,,CHEQUE 17/
49,30150,5/
03,A2,JPY,010,-500,,,015,-500/
16,890,,,,,JUST A MESSAGE/
49,-1000,3/
98,29150,2,10/
02,ME,BANK,1,240131,,,/
03,A3,EUR,015,+00,,D,2,0,0,1,0/
49,0,2/
98,0,1,4/
99,29150,2,16/
`

func TestBAI2(t *testing.T) {
	t.Parallel()
	file, refused := parse(t, []byte(bai), bankfile.Options{})
	if refused != nil {
		t.Fatal(refused)
	}
	type row struct {
		Account, Currency, Booked, Value, Amount, Code, Bank, Customer, Text string
		Status                                                               bankfile.Status
	}
	var got []row
	for _, s := range file.Statements {
		for _, l := range s.Lines {
			got = append(got, row{
				s.AccountID, s.Currency, l.BookingDate.String(), l.ValueDate.String(), l.Amount.StringFixed(2), l.Code, l.References.Bank, l.References.Customer,
				l.Description, l.Status,
			})
		}
	}
	want := []row{
		{"A1", "USD", "2024-01-30", "2024-01-31", "3.50", "195", "B1", "C1", "WIRE, FROM/ABC AND MORE", bankfile.StatusBooked},
		{"A1", "USD", "2024-01-30", "", "-1.00", "475", "B2", "", "CHEQUE 17", bankfile.StatusBooked},
		{"A2", "JPY", "2024-01-30", "", "0.00", "890", "", "", "JUST A MESSAGE", bankfile.StatusInformation},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	first, yen := file.Statements[0], file.Statements[1]
	if first.BankID != "BANK" || first.Opening.Amount.StringFixed(2) != "100.00" || len(first.Balances) != 1 || first.Balances[0].Code != "040" {
		t.Errorf("%+v", first)
	}
	if yen.Opening.Amount.String() != "-500" {
		t.Errorf("yen: %s", yen.Opening.Amount)
	}
	for _, name := range []bankfile.CheckName{bankfile.CheckControl, bankfile.CheckCount, bankfile.CheckSummary, bankfile.CheckTotals} {
		if state(first.Checks, name) != bankfile.CheckHeld {
			t.Errorf("%s: %+v", name, first.Checks)
		}
	}
	// Writers disagree on the decimals of the yen.
	file, _ = parse(t, []byte(bai), bankfile.Options{BAI2Decimals: map[string]int32{"JPY": 2}})
	if got := file.Statements[1].Opening.Amount.String(); got != "-5" {
		t.Errorf("yen with two decimals: %s", got)
	}
}

// TestBAI2_OneDigitChanged changes a digit of an amount, a total or a count: whatever it is, something does not add up.
func TestBAI2_OneDigitChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, changed string
		reason       bankfile.Reason
		statement    int
	}{
		"an amount":               {"16,195,350", "16,195,351", bankfile.ReasonControl, 1},
		"an opening balance":      {"010,10000", "010,10001", bankfile.ReasonControl, 1},
		"an account's total":      {"49,30150", "49,30151", bankfile.ReasonControl, 1},
		"an account's records":    {"49,30150,5", "49,30150,6", bankfile.ReasonCount, 1},
		"a group's total":         {"98,29150", "98,29151", bankfile.ReasonControl, 0},
		"a group's accounts":      {"98,29150,2,10", "98,29150,3,10", bankfile.ReasonCount, 0},
		"a group's records":       {"98,29150,2,10", "98,29150,2,11", bankfile.ReasonCount, 0},
		"the file's total":        {"99,29150", "99,29151", bankfile.ReasonControl, 0},
		"the file's groups":       {"99,29150,2", "99,29150,1", bankfile.ReasonCount, 0},
		"the file's records":      {"99,29150,2,16", "99,29150,2,15", bankfile.ReasonCount, 0},
		"a total of credits":      {"100,350,1", "100,351,1", bankfile.ReasonControl, 1},
		"a continuation left out": {"88,AND MORE/\n", "", bankfile.ReasonCount, 1},
		"debit read as credit":    {"16,475,100", "16,275,100", bankfile.ReasonControl, 1},
		// of the total of credits, one item too many is no reason, the totals are
		"both amounts, same total": {"", "", bankfile.ReasonTotals, 1},
	} {
		text := strings.Replace(bai, c.old, c.changed, 1)
		if name == "a total of credits" { // and all control totals with it
			text = strings.NewReplacer("30150", "30151", "29150", "29151").Replace(text)
		}
		switch name {
		case "debit read as credit":
			c.reason = bankfile.ReasonTotals
		case "both amounts, same total":
			text = strings.NewReplacer("16,195,350", "16,195,351", "16,475,100", "16,475,99", "100,350,1,,400,100,1", "072,350,1,,072,100,1").Replace(bai)
		}
		_, refused := parse(t, []byte(text), bankfile.Options{})
		if refused == nil || refused.Reason != c.reason || refused.Statement != c.statement {
			t.Errorf("%s: %+v; want %s", name, refused, c.reason)
		}
	}
}

func TestBAI2_Layouts(t *testing.T) {
	t.Parallel()
	blocked := strings.NewReplacer("/\n16,", "/  16,", "/\n49,", "/ 49,", "/\n88,AND", "/ 88,AND", "/\n03,A2", "/   03,A2").Replace(bai)
	for name, text := range map[string]string{
		"CRLF": strings.ReplaceAll(bai, "\n", "\r\n"), "blanks after": strings.ReplaceAll(bai, "/\n", "/   \n"), "several on a line": blocked,
		"empty lines": strings.ReplaceAll(bai, "\n", "\n\n"), "no last line end": strings.TrimSuffix(bai, "\n"),
		"a text broken": strings.Replace(bai, "WIRE, FROM/ABC", "WIRE, FROM\n/ABC", 1),
	} {
		file, refused := parse(t, []byte(text), bankfile.Options{})
		if refused != nil {
			t.Errorf("%s: %v", name, refused)
		} else if n := len(file.Statements[0].Lines); n != 2 {
			t.Errorf("%s: %d lines", name, n)
		}
	}
}

func TestBAI2_Refused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, changed string
		reason       bankfile.Reason
		detail       string
	}{
		"a group that takes back": {"02,ME,BANK,1,240130", "02,ME,BANK,2,240130", bankfile.ReasonUnsupported, "takes back"},
		"a test":                  {"02,ME,BANK,1,240130", "02,ME,BANK,4,240130", bankfile.ReasonUnsupported, "test"},
		"an interim report":       {"2359,USD,2", "2359,USD,3", bankfile.ReasonUnsupported, "interim"},
		"a loan":                  {"16,475", "16,720", bankfile.ReasonUnsupported, "credit or a debit"},
		"a currency not known":    {"03,A1,,", "03,A1,XAU,", bankfile.ReasonScale, "XAU"},
		"an unknown record":       {"16,475", "17,475", bankfile.ReasonMalformed, ""},
		"no end of an account":    {"49,30150,5/\n", "", bankfile.ReasonMalformed, "stands where it cannot"},
		"no end":                  {"99,29150,2,16/\n", "", bankfile.ReasonMalformed, "ends before"},
		"more after the end":      {"99,29150,2,16/\n", "99,29150,2,16/\n01,X/\n", bankfile.ReasonMalformed, "after the end"},
		"a decimal point":         {"16,195,350", "16,195,3.50", bankfile.ReasonMalformed, "whole number"},
		"no type":                 {"16,195,", "16,,", bankfile.ReasonMalformed, "type code"},
		"a date that is none":     {"1,240130", "1,241330", bankfile.ReasonMalformed, "not a date"},
		"a kind of funds":         {"16,195,350,V", "16,195,350,Q", bankfile.ReasonMalformed, "type of funds"},
		"first a continuation":    {"02,ME,BANK,1,240130,2359,USD,2/\n", "88,x/\n02,ME,BANK,1,240130,2359,USD,2/\n", bankfile.ReasonCount, ""},
	} {
		_, refused := parse(t, []byte(strings.Replace(bai, c.old, c.changed, 1)), bankfile.Options{})
		if refused == nil || refused.Reason != c.reason || !strings.Contains(refused.Detail, c.detail) {
			t.Errorf("%s: %+v; want %s, %q", name, refused, c.reason, c.detail)
		}
	}
	for _, text := range []string{"", "88,x/\n", "hello\n"} {
		if _, refused := parse(t, []byte(text), bankfile.Options{Format: bankfile.FormatBAI2}); refused == nil {
			t.Errorf("%q was read", text)
		}
	}
	// A correction is read, and said to be one.
	file, refused := parse(t, []byte(strings.Replace(bai, "02,ME,BANK,1,240130", "02,ME,BANK,3,240130", 1)), bankfile.Options{})
	if refused != nil || len(file.Statements[0].Flags) != 1 || file.Statements[0].Flags[0].Code != bankfile.FlagCorrection ||
		len(file.Statements[2].Flags) != 0 {
		t.Errorf("a correction: %v", refused)
	}
}

// TestBAI2_Signs looks at every type code: its range says which way the money goes, or that the code does not.
func TestBAI2_Signs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		code := rapid.IntRange(0, 999).Draw(t, "code")
		sign := 0
		switch {
		case code >= 100 && code < 400 || code >= 920 && code < 960:
			sign = 1
		case code >= 400 && code < 700 || code >= 960:
			sign = -1
		}
		text := "01,B,M,240131,,1,,,2/\n02,M,B,1,240130,,USD,2/\n03,A1,/\n16," + itoa(code, 3) + ",5,,,,/\n49,5,3/\n98,5,1,5/\n99,5,1,7/\n"
		file, refused := parse(t, []byte(text), bankfile.Options{})
		switch {
		case code == 890:
			if refused != nil || file.Statements[0].Lines[0].Status != bankfile.StatusInformation {
				t.Fatal(refused)
			}
		case sign == 0:
			if refused == nil || refused.Reason != bankfile.ReasonUnsupported || refused.Position != 4 {
				t.Fatalf("%03d: %+v", code, refused)
			}
		case refused != nil || file.Statements[0].Lines[0].Amount.Sign() != sign:
			t.Fatalf("%03d: %v", code, refused)
		}
	})
}
