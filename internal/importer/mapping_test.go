package importer

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/ledger"
)

func bufferOf(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }

func converted(t testing.TB, spec ledger.TransferSpec) ledger.TransferSpec {
	t.Helper()
	text, err := json.Marshal(toJSON(spec))
	if err != nil {
		t.Fatal(err)
	}
	again, err := parseJSON(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return again
}

func parseMap(t testing.TB, text string) *Map {
	t.Helper()
	m, err := ParseMap([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMap_OwnBank(t *testing.T) {
	t.Parallel()
	m := parseMap(t, `{
		"delimiter": ";", "skip_lines": 2, "decimal_mark": ",", "group_mark": ".", "date_layout": "D.M.YYYY", "time_zone": "Europe/Berlin",
		"skip_if": {"Status": ["pending", "Saldo*"]},
		"transfer": {
			"transfer_id": "giro-{#hash}",
			"debit_account": "asset:giro",
			"credit_account": [
				{"if": {"Payee": ["*Rent*", "*MIETE*"], "Amount": "-*"}, "then": "expense:rent"},
				{"if": {"Payee": "ACME ?mbH"}, "then": "revenue:salary"},
				{"then": "equity:unsorted"}
			],
			"negative_swaps": true,
			"amount": "{Amount}", "currency": "EUR", "effective_at": "{Date}",
			"description": "{Payee} {{{Text}}}", "metadata": {"iban": "{IBAN}", "line": "{#line}"}
		}}`)
	got := lines(t, `Account;DE1
Range;all
Date; Amount ;Payee;Text;IBAN;Status;Text2;Text2
1.2.2026;-1.250,00;House Rent;Feb;DE2;;;
15.2.2026;2.500,5;ACME GmbH; ;;;;
15.7.2026;3,00-;Kiosk;a;;;;
15.7.2026;3,00-;Kiosk;a;;;;
16.2.2026;3,00;Kiosk;;;pending;;
30.2.2026;3,00;Kiosk;;;;;
16.2.2026;1.50;Kiosk;;;;;
16.2.2026;;Kiosk;;;;;
`, Config{Map: m})
	want := []string{
		`4 giro-HASH debit expense:rent 1250.00EUR credit asset:giro 1250.00EUR 2026-01-31T23:00:00Z "House Rent {Feb}" {"iban":"DE2","line":"4"}`,
		`5 giro-HASH debit asset:giro 2500.5EUR credit revenue:salary 2500.5EUR 2026-02-14T23:00:00Z "ACME GmbH {}" {"line":"5"}`,
		`6 giro-HASH debit equity:unsorted 3.00EUR credit asset:giro 3.00EUR 2026-07-14T22:00:00Z "Kiosk {a}" {"line":"6"}`,
		`7 giro-HASH-2 debit equity:unsorted 3.00EUR credit asset:giro 3.00EUR 2026-07-14T22:00:00Z "Kiosk {a}" {"line":"7"}`,
		`9 giro-HASH: invalid argument: effective_at: "30.2.2026" is not a date written as D.M.YYYY`,
		`10 giro-HASH: invalid argument: amount: "1.50" is not an amount with decimal_mark "," and group_mark "."`,
		`11 giro-HASH: invalid argument: amount: "" is not an amount: want digits`,
	}
	if len(got) != len(want) {
		t.Fatal(strings.Join(got, "\n"))
	}
	for i := range got {
		hash := strings.TrimSuffix(strings.Fields(got[i])[1], ":")[5:]
		got[i] = strings.Replace(got[i], hash[:26], "HASH", 1)
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%s\nwant %s", got[i], want[i])
		}
	}
}

// The columns are bound when the file is opened, so that a mistake in the map is one message and not one for each line.
func TestMap_Header(t *testing.T) {
	t.Parallel()
	transfer := `"transfer": {"transfer_id": "{b}", "debit_account": "d", "credit_account": "c", "amount": "{b}"`
	for text, want := range map[string]string{
		`{` + transfer + `, "currency": "{x}"}}`:                              `file: transfer.currency of the map uses column "x", but the header has "a", "b", "a"`,
		`{` + transfer + `, "description": "{a}"}}`:                           `file: transfer.description of the map uses column "a", which stands in the header twice`,
		`{"skip_if": {"y": "1"}, ` + transfer + `}}`:                          `file: skip_if of the map uses column "y"`,
		`{` + transfer + `, "swap_if": {"z": "1"}}}`:                          `file: transfer.swap_if of the map uses column "z"`,
		`{` + transfer + `, "metadata": {"k": [{"if":{"w":""},"then":""}]}}}`: `file: transfer.`,
		`{"skip_lines": 3, ` + transfer + `}}`:                                `file: the 3 lines that the map skips: the file ends within them`,
	} {
		got := lines(t, "a,b,a\n1,2,3\n", Config{Map: parseMap(t, text)})
		if len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s\n%s\nwant %s", text, got, want)
		}
	}
}

func TestParseMap_Wrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "line 1: EOF",
		"{\n\n\"transfr\": {}}":           `line 3: json: unknown field "transfr"`,
		"{\n\"skip_lines\": }":            "line 2: invalid character '}'",
		`{} {}`:                           "has more after",
		`{"delimiter": ";;"}`:             "delimiter:",
		`{"decimal_mark": "x"}`:           "decimal_mark:",
		`{"group_mark": "."}`:             "group_mark: is the decimal mark too",
		`{"time_zone": "Mars"}`:           `time_zone: "Mars" is not known`,
		`{"date_layout": "2006-01-02"}`:   "date_layout:",
		`{"date_layout": "YYYY-MM"}`:      "date_layout:",
		`{"skip_lines": -1}`:              "skip_lines: is negative",
		`{"accounts": [{"prefix": "a"}]}`: `accounts[0].type: ""`,
		`{"decimal_mark": ","}`:           "transfer: is required",
		`{"transfer": {}}`:                "transfer.transfer_id: is required",
		`{"transfer": {"amount": "{a"}}`:  "line 1: a brace in a template has no other",
		`{"transfer": {"amount": "a}"}}`:  "line 1: a brace in a template has no other",
		`{"transfer": {"amount": 7}}`:     "line 1: 7 is neither a text in quotes nor a list of cases",
		`{"transfer": {"amount": [{"if": {"a": 7}, "then": ""}]}}`: "line 1: a condition is a text",
		`{"transfer": {"amount": [{"if": {"a": ""}}]}}`:            "line 1: case 1 of a list has no",
		`{"transfer": {"amount": [{"when": {}, "then": ""}]}}`:     `line 1: json: unknown field "when"`,
	} {
		if _, err := ParseMap([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
}

func TestPlainAmount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ decimal, group, text, want string }{
		{".", "", "1234.5", "1234.5"}, {".", ",", "1,234.50", "1234.50"}, {".", ",", "12,34,567.00", "1234567.00"},
		{",", ".", "1.234,50", "1234.50"}, {",", "", "1234,50", "1234.50"}, {",", " ", "1 234,50", "1234.50"}, {",", ".", "5", "5"},
		{",", ".", "1.5", ""}, {",", ".", "1.5000", ""}, {",", ".", "1.23.45", ""}, {",", ".", ".500", ""}, {",", "", "1.50", ""},
		{",", ".", "1,2,3", ""}, {".", ",", "1,234,5", ""}, {".", ",", "-5", ""}, {".", ",", "1.234,567", ""},
	} {
		d := mapped{Map: &Map{DecimalMark: test.decimal, GroupMark: test.group}}
		if got, err := d.plainAmount(test.text); got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%q with %q and %q: %q, %v; want %q", test.text, test.decimal, test.group, got, err, test.want)
		}
	}
}

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "ab", true}, {"?", "é", true}, {"?*", "", false}, {"-*", "-5", true},
		{"a*b*c", "aXbYbZc", true}, {"a*b*c", "aXbYbZ", false}, {"*ab", "aab", true}, {"a", "A", false}, {"*?", "a", true},
	} {
		if got := glob(test.pattern, test.text); got != test.want {
			t.Errorf("glob(%q, %q) is %v", test.pattern, test.text, got)
		}
	}
	glob(strings.Repeat("*a", 1000), strings.Repeat("a", 1000)+"b") // ends
}
