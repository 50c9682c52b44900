package bankfile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
)

func profile(t testing.TB, text string) *bankfile.Profile {
	t.Helper()
	p, err := bankfile.ParseProfile([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const plain = `{"name": "plain", "header": true, "currency": "EUR", "columns": {"booking_date": "date", "amount": "amount", "description": ["text"]}}`

func TestCSV_Shapes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		profile, text string
		want          []gist
	}{
		"a signed column": {plain, "date,amount,text\n2024-01-02,12.34,in\n2024-01-03,-1,\"out, \"\"with\"\" quotes\nand a line\"\n\n", []gist{
			{"2024-01-02", "", "12.34 EUR", "", "in"}, {"2024-01-03", "", "-1.00 EUR", "", `out, "with" quotes and a line`},
		}},
		"by number, without a header, sign turned round": {
			`{"name": "card", "delimiter": "\t", "quote": "none", "currency": "EUR", "invert_sign": true, "date_formats": ["DD/MM/YY", "D MMM YYYY"],
			  "columns": {"booking_date": 1, "amount": 3, "description": [2, 4]}}`,
			"02/01/24\tSHOP \"A\"\t12.34\tx\n3 Feb 2024\tBACK\t(5.00)\ty\n", []gist{
				{"2024-01-02", "", "-12.34 EUR", "", `SHOP "A" x`}, {"2024-02-03", "", "5.00 EUR", "", "BACK y"},
			},
		},
		"debit and credit": {
			`{"name": "two", "header": true, "delimiter": ";", "decimal_mark": ",", "group_mark": ".", "date_formats": ["DD.MM.YYYY"], "skip_lines": 2,
			  "skip_footer": 1, "columns": {"booking_date": "Buchung", "value_date": "Wert",
			  "debit": "Soll", "credit": "Haben", "currency": "Währung", "id": "Nr"}}`,
			"Konto;123\n\nBuchung;Wert;Soll;Haben;Währung;Nr\n" +
				"02.01.2024;30.02.2024;1.234,56;;EUR;A\n02.01.2024;;;0,50;eur;B\n02.01.2024;;0,00;7;EUR;000\nSumme;;1;2;3;4\n",
			[]gist{
				{"2024-01-02", "2024-02-29", "-1234.56 EUR", "A", ""}, {"2024-01-02", "", "0.50 EUR", "B", ""}, {"2024-01-02", "", "7.00 EUR", "", ""},
			},
		},
		"amount and flag": {
			`{"name": "flag", "header": true, "currency": "BDT", "group_mark": ",", "debit_values": ["D", "Dr"], "credit_values": ["C"],
			  "columns": {"value_date": "date", "amount": "amount", "flag": "dc", "reference": "ref", "end_to_end": "e2e"}}`,
			"date,amount,dc,ref,e2e\n2024-01-02,\"1,00,000.00\",d,NONREF,NOTPROVIDED\n2024-01-02,\"12,34,567\",C,R,E\n", []gist{
				{"2024-01-02", "2024-01-02", "-100000.00 BDT", "", ""}, {"2024-01-02", "2024-01-02", "1234567.00 BDT", "", ""},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, refused := parse(t, []byte(c.text), bankfile.Options{Profile: profile(t, c.profile)})
			if refused != nil {
				t.Fatal(refused)
			}
			if diff := cmp.Diff(c.want, gists(file.Statements[0])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCSV_Encodings(t *testing.T) {
	t.Parallel()
	const text = "date,amount,text\n2024-01-02,1,Café “€” Ωß\n"
	latin := strings.NewReplacer("é", "\xe9", "ß", "\xdf", "“", "\x93", "”", "\x94", "€", "\x80", "Ω", "?").Replace(text)
	units := utf16.Encode([]rune(text + "2024-01-02,2,\U0001F600\n"))
	little, big := []byte("\xff\xfe"), []byte("\xfe\xff")
	for _, u := range units {
		little, big = append(little, byte(u), byte(u>>8)), append(big, byte(u>>8), byte(u))
	}
	with := func(encoding string) *bankfile.Profile {
		p := profile(t, plain)
		p.Encoding = encoding
		return p
	}
	for name, c := range map[string]struct {
		encoding string
		text     []byte
		want     []string
	}{
		"utf-8":                 {"", []byte(text), []string{"Café “€” Ωß"}},
		"utf-8 with a mark":     {"utf-8", []byte("\xef\xbb\xbf" + text), []string{"Café “€” Ωß"}},
		"windows-1252":          {"windows-1252", []byte(latin), []string{"Café “€” ?ß"}},
		"iso-8859-1":            {"iso-8859-1", []byte(strings.ReplaceAll(latin, "\x93", "")), []string{"Café ?ß"}},
		"utf-16, low end first": {"utf-16", little, []string{"Café “€” Ωß", "\U0001F600"}},
		"utf-16, big end first": {"utf-16", big, []string{"Café “€” Ωß", "\U0001F600"}},
	} {
		file, refused := parse(t, c.text, bankfile.Options{Profile: with(c.encoding)})
		if refused != nil {
			t.Errorf("%s: %v", name, refused)
			continue
		}
		var got []string
		for _, l := range file.Statements[0].Lines {
			got = append(got, l.Description)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, c := range map[string]struct {
		encoding string
		text     []byte
	}{
		"windows-1252 read as utf-8":   {"", []byte(latin)},
		"utf-8 read as utf-16":         {"utf-16", []byte(text)},
		"utf-16 cut within a unit":     {"utf-16", little[:len(little)-1]},
		"utf-16 with half a character": {"utf-16", append(bytes.Clone(little), 0x00, 0xd8, 0x41, 0x00)},
	} {
		if _, refused := parse(t, c.text, bankfile.Options{Profile: with(c.encoding)}); refused == nil || refused.Reason != bankfile.ReasonMalformed {
			t.Errorf("%s: %v", name, refused)
		}
	}
}

func TestCSV_WrongRows(t *testing.T) {
	t.Parallel()
	two := `{"name": "two", "header": true, "currency": "EUR", "columns": {"booking_date": "date", "debit": "debit", "credit": "credit"}}`
	flag := `{"name": "flag", "header": true, "currency": "EUR", "debit_values": ["D"], "credit_values": ["C"],
	          "columns": {"booking_date": "date", "amount": "amount", "flag": "dc"}}`
	for name, c := range map[string]struct{ profile, text, detail string }{
		"no such column": {plain, "date,sum,text\n", `columns.amount: the header has no column "amount"; it has "date", "sum", "text"`},
		"another delimiter": {plain, "date;amount;text\n", `columns.booking_date: the header has no column "date"; it has "date;amount;text". ` +
			`The profile's delimiter is ",", and there are more of ";": the file may need delimiter ";"`},
		"a column twice":         {plain, "date,amount,text,Amount\n", `columns.amount: column "amount" stands in the header twice`},
		"a day that is not":      {plain, "date,amount,text\n2023-02-29,1,x\n", "booking date: 2023-02-29 does not exist"},
		"another date":           {plain, "date,amount,text\n02.01.2024,1,x\n", "\"02.01.2024\" is not a date in the format of the profile, which is YYYY-MM-DD: date_formats says how dates are written"},
		"no amount":              {plain, "date,amount,text\n2024-01-02,,x\n", `"" is not an amount`},
		"another decimal mark":   {plain, "date,amount,text\n2024-01-02,\"1,5\",x\n", `"1,5" is not an amount as the profile has them, with decimal_mark "." and no group_mark`},
		"two signs":              {plain, "date,amount,text\n2024-01-02,-1-,x\n", "is not an amount"},
		"an exponent":            {plain, "date,amount,text\n2024-01-02,1e3,x\n", "is not an amount"},
		"too many digits":        {plain, "date,amount,text\n2024-01-02," + strings.Repeat("9", 39) + ",x\n", "more than 38 digits"},
		"too many fields":        {plain, "date,amount,text\n2024-01-02,1,x,y\n", "the row has 4 fields, the header has 3"},
		"too few":                {plain, "date,amount,text\n2024-01-02\n", "the row has 1 fields, and no column 2"},
		"text after a quote":     {plain, "date,amount,text\n2024-01-02,1,\"x\"y\n", "field 3 goes on after its closing quote"},
		"a quote that stays":     {plain, "date,amount,text\n2024-01-02,1,\"x\n", "a quote is opened and not closed"},
		"no header":              {strings.Replace(plain, "{", `{"skip_lines": 1, `, 1), "My bank\n", "the file ends before its rows begin"},
		"debit and credit":       {two, "date,debit,credit\n2024-01-02,1,2\n", "debit and credit both have one"},
		"neither":                {two, "date,debit,credit\n2024-01-02,,\n", "neither debit nor credit has one"},
		"a debit with a sign":    {two, "date,debit,credit\n2024-01-02,-1,\n", "has a sign that the profile does not expect"},
		"a flag that is not one": {flag, "date,amount,dc\n2024-01-02,1,X\n", `"X" is neither a debit value nor a credit value`},
		"a sign beside a flag":   {flag, "date,amount,dc\n2024-01-02,-1,D\n", "has a sign beside the flag"},
	} {
		_, refused := parse(t, []byte(c.text), bankfile.Options{Profile: profile(t, c.profile)})
		if refused == nil || refused.Reason != bankfile.ReasonMalformed || !strings.Contains(refused.Detail, c.detail) {
			t.Errorf("%s: %v; want %q", name, refused, c.detail)
		}
	}
}

func TestCSV_Scale(t *testing.T) {
	t.Parallel()
	for amount, fits := range map[string]bool{"1.00": true, "1.000000": true, "1.001": false} {
		file, refused := parse(t, []byte("date,amount,text\n2024-01-02,"+amount+",x\n"), bankfile.Options{Profile: profile(t, plain)})
		if (refused == nil) != fits || refused != nil && (refused.Reason != bankfile.ReasonScale || refused.Position != 2) {
			t.Errorf("%s: %v", amount, refused)
		}
		if fits && file.Statements[0].Lines[0].Amount.Exponent() < -2 {
			t.Errorf("%s was not trimmed", amount)
		}
	}
	p := profile(t, plain)
	p.Currency = "XYZ"
	file, refused := parse(t, []byte("date,amount,text\n2024-01-02,1.001,x\n"), bankfile.Options{Profile: p})
	if refused != nil || state(file.Statements[0].Checks, bankfile.CheckScale) != bankfile.CheckNotMade {
		t.Errorf("a currency that is not known: %v %+v", refused, file.Statements[0].Checks)
	}
}

const balances = `{"name": "balances", "header": true, "currency": "EUR",
	"columns": {"booking_date": "date", "amount": "amount", "balance": "balance"}}`

func TestCSV_RunningBalance(t *testing.T) {
	t.Parallel()
	const held, failed, notMade = bankfile.CheckHeld, bankfile.CheckFailed, bankfile.CheckNotMade
	for name, c := range map[string]struct {
		rows             []string
		state            bankfile.CheckState
		opening, closing string
		detail           string
	}{
		"oldest first": {[]string{"2024-01-01,10,110", "2024-01-02,-30,80", "2024-01-02,5,85"}, held, "100", "85", "oldest line first"},
		"newest first": {[]string{"2024-01-02,5,85", "2024-01-02,-30,80", "2024-01-01,10,110"}, held, "100", "85", "newest line first"},
		"one line":     {[]string{"2024-01-01,10,110"}, held, "100", "110", ""},
		"shuffled within a day": {[]string{"2024-01-01,10,110", "2024-01-02,5,85", "2024-01-02,-30,80", "2024-01-03,1,86"}, held, "100", "86",
			"in another order"},
		"by amount, not by date": {[]string{"2024-01-02,-30,80", "2024-01-03,1,86", "2024-01-02,5,85", "2024-01-01,10,110"}, held, "100", "86",
			"in another order"},
		"a circle, shuffled": {[]string{"2024-01-01,10,110", "2024-01-01,10,130", "2024-01-01,10,120", "2024-01-01,-30,100"}, held, "", "",
			"in another order"},
		"an amount wrong": {[]string{"2024-01-01,10,110", "2024-01-02,-31,80", "2024-01-03,5,85"}, failed, "", "",
			"line 2: the balance beside it is 80 EUR; that of the line before it, 110 EUR, and its amount -31 EUR make 79 EUR"},
		"newest first and wrong": {[]string{"2024-01-03,5,85", "2024-01-02,-31,80", "2024-01-01,10,110"}, failed, "", "",
			"line 2: the balance beside it is 80 EUR; that of the line before it, 110 EUR"},
		"a row missing": {[]string{"2024-01-01,10,110", "2024-01-03,5,85"}, failed, "", "", "line 2: the balance beside it is 85 EUR"},
		"two circles":   {[]string{"2024-01-01,5,105", "2024-01-01,-5,100", "2024-01-01,5,205", "2024-01-01,-5,200"}, failed, "", "", "line 3"},
		"no order, and wrong": {[]string{"2024-01-02,5,85", "2024-01-01,10,110", "2024-01-02,-31,80"}, notMade, "", "",
			"not in the order of their dates"},
		"a balance left out": {[]string{"2024-01-01,10,110", "2024-01-02,-30,"}, notMade, "", "", "line 2 has no balance beside it"},
	} {
		text := "date,amount,balance\n" + strings.Join(c.rows, "\n")
		file, refused := parse(t, []byte(text), bankfile.Options{Profile: profile(t, balances)})
		if (refused != nil) != (c.state == failed) || refused != nil && refused.Reason != bankfile.ReasonRunning {
			t.Errorf("%s: %v", name, refused)
			continue
		}
		s := file.Statements[0]
		for _, check := range s.Checks {
			if check.Name == bankfile.CheckRunning && (check.State != c.state || !strings.Contains(check.Detail, c.detail)) {
				t.Errorf("%s: %+v; want %s, %q", name, check, c.state, c.detail)
			}
		}
		amount := func(b *bankfile.Balance) string {
			if b == nil {
				return ""
			}
			return b.Amount.String()
		}
		if state(s.Checks, bankfile.CheckRunning) != c.state || amount(s.Opening) != c.opening || amount(s.Closing) != c.closing {
			t.Errorf("%s: %s from %s to %s", name, state(s.Checks, bankfile.CheckRunning), amount(s.Opening), amount(s.Closing))
		}
	}
}

func TestCSV_BalancesOutsideTheRows(t *testing.T) {
	t.Parallel()
	shape := `{"name": "outside", "currency": "EUR", "account": "X1", "skip_lines": 1, "skip_footer": 2, "columns": {"booking_date": 1, "amount": 2},
	           "opening": {"line": 1, "column": 2}, "closing": {"line": -2, "column": 1, "after": "Total:"}}`
	for name, c := range map[string]struct {
		text   string
		reason bankfile.Reason
	}{
		"adds up":              {"opening,100\n2024-01-01,5\n2024-01-01,-2\nTotal: 103\nbye\n", ""},
		"no rows":              {"opening,100\nTotal: 100\nbye\n", ""},
		"does not add up":      {"opening,100\n2024-01-01,5\n2024-01-01,-2\nTotal: 104\nbye\n", bankfile.ReasonTotals},
		"no rows, not the sum": {"opening,100\nTotal: 101\nbye\n", bankfile.ReasonTotals},
		"no opening":           {"opening\n2024-01-01,5\nTotal: 104\nbye\n", bankfile.ReasonMalformed},
		"another footer":       {"opening,100\n2024-01-01,5\nSum: 105\nbye\n", bankfile.ReasonMalformed},
		"no footer":            {"opening,100\nbye\n", bankfile.ReasonMalformed},
		"nothing":              {"", bankfile.ReasonEmpty},
	} {
		file, refused := parse(t, []byte(c.text), bankfile.Options{Profile: profile(t, shape)})
		if c.reason == "" {
			if refused != nil || state(file.Statements[0].Checks, bankfile.CheckTotals) != bankfile.CheckHeld || file.Statements[0].AccountID != "X1" {
				t.Errorf("%s: %v", name, refused)
			}
		} else if refused == nil || refused.Reason != c.reason {
			t.Errorf("%s: %v; want %s", name, refused, c.reason)
		}
	}
}

// Balances outside the rows that agree with each other, and not with those beside the rows.
func TestCSV_BalancesOfTwoKinds(t *testing.T) {
	t.Parallel()
	s := example(3)
	text := writeCSV(s, s.Lines).text
	shifted := s
	shifted.Opening = s.Opening.Add(decimal.NewFromInt(1))
	other := writeCSV(shifted, s.Lines).text
	lines, others := bytes.Split(text, []byte("\n")), bytes.Split(other, []byte("\n"))
	lines[1], lines[len(lines)-3] = others[1], others[len(lines)-3]
	profile := csvProfile
	_, refused := parse(t, bytes.Join(lines, []byte("\n")), bankfile.Options{Profile: &profile})
	if refused == nil || refused.Reason != bankfile.ReasonRunning || refused.Stated != "1001.00 EUR" || refused.Computed != "1000.00 EUR" {
		t.Errorf("%+v", refused)
	}
}

func TestProfile_Validate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ profile, want string }{
		"not JSON":         {"{\"name\": \"x\",\n  \"header\": yes}", "is not JSON: line 2, column 13: invalid character 'y'"},
		"half of it":       {"{\n\"name\": ", "is not JSON: line 2, column 8: it ends before"},
		"nothing":          {" \n", "is empty"},
		"an unknown field": {`{"title": "x"}`, `has a field "title"`},
		"another kind":     {`{"skip_lines": "two"}`, "skip_lines: is a text, and should be a whole number"},
		"a list":           {`[1]`, "is a list, and should be an object"},
		"more":             {plain + "{}", "more after"},
		"no amount":        {`{"currency": "EUR", "columns": {"booking_date": 1}}`, "no column for amounts"},
		"no date":          {`{"currency": "EUR", "columns": {"amount": 1}}`, "no column for a date"},
		"no currency":      {`{"columns": {"amount": 1, "booking_date": 2}}`, "currency: "},
		"two currencies":   {`{"currency": "EUR", "columns": {"amount": 1, "booking_date": 2, "currency": 3}}`, "currency: "},
		"debit alone":      {`{"currency": "EUR", "columns": {"debit": 1, "booking_date": 2}}`, "go together"},
		"all three":        {`{"currency": "EUR", "columns": {"debit": 1, "credit": 3, "amount": 4, "booking_date": 2}}`, "exclude each other"},
		"a flag alone":     {`{"currency": "EUR", "columns": {"debit": 1, "credit": 3, "flag": 4, "booking_date": 2}}`, "columns.flag"},
		"no flag values":   {`{"currency": "EUR", "columns": {"amount": 1, "flag": 4, "booking_date": 2}}`, "both are needed"},
		"a value of both": {`{"currency": "EUR", "debit_values": ["D"], "credit_values": ["d"],
			"columns": {"amount": 1, "flag": 4, "booking_date": 2}}`, "credit value too"},
		"a name, no header":   {`{"currency": "EUR", "columns": {"amount": "x", "booking_date": 2}}`, "the file has no header"},
		"column 0":            {`{"currency": "EUR", "columns": {"amount": -1, "booking_date": 2}}`, "is not from 1"},
		"a column of nothing": {`{"currency": "EUR", "columns": {"amount": 1, "booking_date": 2, "description": [0]}}`, "is no column"},
		"a column of kind":    {`{"currency": "EUR", "columns": {"amount": true}}`, "a name or a number"},
		"the same marks": {`{"currency": "EUR", "decimal_mark": ",", "group_mark": ",", "columns": {"amount": 1, "booking_date": 2}}`,
			"is the decimal mark too"},
		"a long delimiter":   {`{"delimiter": ";;", "currency": "EUR", "columns": {"amount": 1, "booking_date": 2}}`, "one character"},
		"quote = delimiter":  {`{"delimiter": "\"", "currency": "EUR", "columns": {"amount": 1, "booking_date": 2}}`, "is the delimiter too"},
		"an encoding":        {`{"encoding": "ebcdic", "currency": "EUR", "columns": {"amount": 1, "booking_date": 2}}`, "encoding: "},
		"a date format":      {`{"date_formats": ["YYYY-QQ"], "currency": "EUR", "columns": {"amount": 1, "booking_date": 2}}`, "is not a date format"},
		"no day":             {`{"date_formats": ["YYYY-MM"], "currency": "EUR", "columns": {"amount": 1, "booking_date": 2}}`, "one day"},
		"a cell in the rows": {`{"opening": {"line": 1, "column": 1}, "currency": "EUR", "columns": {"amount": 1, "booking_date": 2}}`, "opening.line"},
		"too many skipped":   {`{"skip_lines": 1000000, "currency": "EUR", "columns": {"amount": 1, "booking_date": 2}}`, "skip_lines"},
	} {
		if _, err := bankfile.ParseProfile([]byte(c.profile)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	text, err := json.Marshal(csvProfile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(csvProfile, *profile(t, string(text))); diff != "" {
		t.Errorf("through JSON (-want +got):\n%s", diff)
	}
}

func TestPreview(t *testing.T) {
	t.Parallel()
	p := profile(t, plain)
	p.SkipLines, p.SkipFooter = 1, 1
	text := "My bank\ndate,amount,text\n2024-01-02,1,a\n2024-01-03,x,b\n2024-01-04,2,\"c\"d\n2024-01-05,3,e\nend\n"
	preview := func(profile bankfile.Profile, lines int) []bankfile.PreviewLine {
		got, err := bankfile.Preview(context.Background(), strings.NewReader(text), profile, bankfile.Limits{}, lines)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	kinds := func(list []bankfile.PreviewLine) string {
		var out []string
		for _, l := range list {
			kind := string(l.Kind)
			if l.Line != nil {
				kind += " " + l.Line.Amount.String()
			}
			if l.Err != nil {
				kind += " wrong"
			}
			out = append(out, kind)
		}
		return strings.Join(out, ", ")
	}
	if got := kinds(preview(*p, 100)); got != "skipped, header, line 1, line wrong, line wrong, line 3, footer" {
		t.Error(got)
	}
	if got := kinds(preview(*p, 3)); got != "skipped, header, line 1" {
		t.Error(got)
	}
	p.Columns.Amount.Name = "sum"
	if got := kinds(preview(*p, 4)); got != "skipped, header wrong, line, line" {
		t.Error(got)
	}
	p.DateFormats = []string{"x"}
	if _, err := bankfile.Preview(context.Background(), strings.NewReader(text), *p, bankfile.Limits{}, 1); err == nil {
		t.Error("a profile that is not valid was used")
	}
}

func TestCSV_NeedsAProfile(t *testing.T) {
	t.Parallel()
	if _, refused := parse(t, []byte("date,amount\n2024-01-01,1\n"), bankfile.Options{}); refused == nil ||
		refused.Reason != bankfile.ReasonNotThisFormat {
		t.Error(refused)
	}
	_, err := bankfile.Parse(context.Background(), strings.NewReader("x"), bankfile.Options{Format: bankfile.FormatCSV})
	if err == nil || errors.As(err, new(*bankfile.Refusal)) {
		t.Errorf("%v: want an error about the options", err)
	}
}

// The transactions of a Czech bank: see internal/importer and shared/data/README.md.
const berkaFile = "../../../shared/data/berka/trans.csv"

const berkaProfile = `{"name": "berka", "delimiter": ";", "header": true, "currency": "CZK", "date_formats": ["YYMMDD"],
	"debit_values": ["withdrawal", "withdrawal in cash"], "credit_values": ["credit"],
	"columns": {"booking_date": "date", "amount": "amount", "flag": "type", "account": "account_id", "id": "trans_id", "code": "operation",
	            "description": ["k_symbol"], "partner_account": 10, "partner_bank": "bank"}}`

func TestCSV_Berka(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.FromSlash(berkaFile))
	if os.IsNotExist(err) {
		t.Skipf("%s is not here: the Berka data is not part of the repository", berkaFile)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := profile(t, berkaProfile)
	file, refused := parse(t, text, bankfile.Options{Profile: p})
	if refused != nil {
		t.Fatal(refused)
	}
	lines, sum := 0, decimal.Zero
	for _, s := range file.Statements {
		lines += len(s.Lines)
		of, _ := booked(s)
		sum = sum.Add(of)
	}
	// Counted with awk: 30,200 rows on 354 accounts.
	if len(file.Statements) != 354 || lines != 30200 || sum.StringFixed(2) != berkaSum {
		t.Errorf("%d lines of %s on %d accounts", lines, sum, len(file.Statements))
	}
	// The bank's own balances do not add up on most accounts, since it rounded interest; where they do, its rows are shuffled within a day.
	p.Columns.Balance = bankfile.Column{Name: "balance"}
	file, refused = parse(t, text, bankfile.Options{Profile: p})
	if refused == nil || refused.Reason != bankfile.ReasonRunning {
		t.Errorf("with balances: %v", refused)
	}
	var held, shuffled int
	for _, s := range file.Statements {
		for _, check := range s.Checks {
			if check.Name == bankfile.CheckRunning && check.State == bankfile.CheckHeld {
				held++
				if strings.Contains(check.Detail, "in another order") {
					shuffled++
				}
			}
		}
	}
	if held != 34 || shuffled == 0 || shuffled == held {
		t.Errorf("the balances of %d accounts add up, those of %d in another order than the file's", held, shuffled)
	}
}

// berkaSum is Σ credits − Σ withdrawals, made with awk.
const berkaSum = "15012846.20"
