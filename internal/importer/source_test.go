package importer

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/ledger"
)

const header = "transfer_id,debit_account,credit_account,amount,currency,effective_at,description,metadata\n"

// lines reads a file, and gives each line as a test can compare it: its number, and its transfer or what is wrong.
func lines(t testing.TB, text string, config Config) []string {
	t.Helper()
	src, err := open(strings.NewReader(text), config)
	if err != nil {
		return []string{"file: " + err.Error()}
	}
	var list []string
	for {
		r, err := src.next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			return append(list, err.Error())
		}
		if r.err != nil {
			list = append(list, fmt.Sprintf("%d %s: %v", r.line, r.spec.ID, r.err))
			continue
		}
		list = append(list, fmt.Sprintf("%d %s", r.line, describe(r.spec)))
	}
}

func describe(spec ledger.TransferSpec) string {
	words := []string{string(spec.ID)}
	for _, e := range spec.Entries {
		words = append(words, fmt.Sprintf("%s %s %s%s", e.Direction, e.Account, ledger.FormatWritten(e.Amount), e.Currency.Code))
	}
	if spec.EffectiveAt != nil {
		words = append(words, spec.EffectiveAt.UTC().Format("2006-01-02T15:04:05.999999Z"))
	}
	if spec.Description != "" {
		words = append(words, fmt.Sprintf("%q", spec.Description))
	}
	return strings.Join(append(words, string(spec.Metadata)), " ")
}

func TestSource_Lines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxLine)
	tests := map[string]struct {
		text   string
		config Config
		want   []string // each a prefix
	}{
		"all columns": {
			text: header + `T1,a,b,500.00,BDT,2026-01-31,"rent, ""Jan""","{""k"": 1}"` + "\n" + `T2,a,b,1,,2026-01-31T09:30:00.5+06:00,,` + "\n",
			want: []string{
				`2 T1 debit a 500.00BDT credit b 500.00BDT 2026-01-31T00:00:00Z "rent, \"Jan\"" {"k":1}`,
				`3 T2 debit a 1 credit b 1 2026-01-31T03:30:00.5Z`,
			},
		},
		"required columns only, in another order": {
			text: "amount,transfer_id,credit_account,debit_account\n5,T1,c,d\n",
			want: []string{"2 T1 debit d 5 credit c 5"},
		},
		"byte order mark, CRLF, blank lines, no last line end": {
			text: "\xef\xbb\xbftransfer_id,debit_account,credit_account,amount\r\n\r\nT1,a,b,5\r\n\r\nT2,a,b,6",
			want: []string{"3 T1 debit a 5 credit b 5", "5 T2 debit a 6 credit b 6"},
		},
		"a text of two lines": {
			text: header + "T1,a,b,5,,,\"one\r\ntwo\",\nT2,a,b,6,,,,\n",
			want: []string{`2 T1 debit a 5 credit b 5 "one\ntwo"`, "4 T2 debit"},
		},
		"semicolons": {
			text:   "transfer_id;debit_account;credit_account;amount\nT1;a;b;5\n",
			config: Config{Delimiter: ";"},
			want:   []string{"2 T1 debit a 5 credit b 5"},
		},
		"tabs by name": {
			text:   "transfer_id\tdebit_account\tcredit_account\tamount\nT1\ta\tb\t5\n",
			config: Config{Name: "x.TSV"},
			want:   []string{"2 T1 debit a 5 credit b 5"},
		},
		"wrong lines do not stop the good ones": {
			text: header + "T1,a,b,-5,,,,\nT2,a,b\nT3,a,b,6,,,,\nT4,a,a,6,,,,\nT5,a,b,1,,31.1.2026,,\nT6,a,b,1,,,,[]\nT7,a b,b,1,,,,\nT8,a,b,7,,,,\n",
			want: []string{
				`2 T1: invalid argument: amount: "-5" is not an amount`, "3 : has 3 fields, the header has 8", "4 T3 debit",
				"5 T4: invalid argument: credit_account: a is on both sides", `6 T5: invalid argument: effective_at: "31.1.2026" is neither`,
				"7 T6: invalid argument: metadata: is not a JSON object", "8 T7: invalid argument: debit_account: has byte 0x20", "9 T8 debit",
			},
		},
		"quotes": {
			text: "transfer_id,debit_account,credit_account,amount,description\nT1,a,b,5,a 12\" pipe\nT2,a,b,5,\"x\"y\nT3,a,b,5,\"\"\nT4,a,b,5,\"\"\"\"\n",
			want: []string{`2 T1 debit a 5 credit b 5 "a 12\" pipe"`, "3 : field 5 goes on after its closing quote", "4 T3 debit", `5 T4 debit a 5 credit b 5 "\""`},
		},
		"a quote that is closed by another line's": {
			text: "transfer_id,debit_account,credit_account,amount,description\nT1,a,b,5,\"x\nT2,a,b,5,\"y\"\nT3,a,b,5,z\n",
			want: []string{"2 : field 5 goes on after its closing quote", "4 T3 debit"},
		},
		"a quote that is never closed": {
			text: "transfer_id,debit_account,credit_account,amount,description\nT1,a,b,5,x\nT2,a,b,5,\"y\nT3,a,b,5,z\n",
			want: []string{"2 T1 debit", "3 : a quote is opened and not closed: lines 3 to 5 were not read"},
		},
		// What is in the quotes was written by a stranger, however wrong the record is.
		"text in quotes is never a line": {
			text: "transfer_id,debit_account,credit_account,amount,description\n" +
				"T1,a,b,5,\"x\"x,\"\nEVIL,a,b,1000000,\n\"\nT2,a,b,5,\"" + long + "\nEVIL,a,b,1000000,\n\"\nT3,a,b,5,\n",
			want: []string{"2 : field 5 goes on", "5 : the line has more than 1 MiB", "8 T3 debit"},
		},
		"too long": {
			text: header + "T1,a,b,5,,," + long + ",\nT2,a,b,5,,,,\n",
			want: []string{"2 : the line has more than 1 MiB", "3 T2 debit"},
		},
		"not UTF-8": {
			text: header + "T1,a,b,5,,,Caf\xe9,\nT2,a,b,5,,,Café,\n",
			want: []string{"2 : is not UTF-8 text; convert the file first", `3 T2 debit a 5 credit b 5 "Café"`},
		},
		"NUL":             {text: header + "T1,a,b,5,,,a\x00b,\n", want: []string{"2 T1: invalid argument: description: has a NUL character"}},
		"empty":           {text: "", want: []string{"file: the file is empty"}},
		"only blank":      {text: "\n\n", want: []string{"file: the file is empty"}},
		"header only":     {text: header},
		"UTF-16":          {text: "\xff\xfet\x00r\x00", want: []string{"file: the file is in UTF-16: save it as UTF-8"}},
		"header in 1252":  {text: "transfer_id,Betr\xe4g\n", want: []string{"file: the header, line 1: is not UTF-8"}},
		"missing columns": {text: "transfer_id,amount\n", want: []string{`file: the header has no column "debit_account", "credit_account". It has "transfer_id", "amount"`}},
		"unknown column": {
			text: "transfer_id,debit_account,credit_account,amount,efective_at\n",
			want: []string{`file: the header has column "efective_at", which is not known`},
		},
		"column twice":    {text: "transfer_id,amount,debit_account,credit_account,amount\n", want: []string{`file: column "amount" stands in the header twice`}},
		"other delimiter": {text: "transfer_id;amount\n", want: []string{`file: the header has no column "transfer_id", "debit_account", "credit_account", "amount". It has "transfer_id;amount". A file of another shape needs a map: see docs/import.md. It seems to be separated by ";": use --delimiter ";"`}},
		"no delimiter":    {text: header, config: Config{Delimiter: ";;"}, want: []string{`file: ";;" is not a delimiter`}},
		"no format":       {text: header, config: Config{Format: "xml"}, want: []string{`file: format "xml" is neither`}},
		"NDJSON": {
			text: `{"transfer_id":"T1","debit_account":"a","credit_account":"b","amount":"5.00","currency":"BDT","effective_at":"2026-01-31T00:00:00Z","description":"d","metadata":{"k":1.0}}` + "\r\n\n" +
				`{"transfer_id":"T2","entries":[{"account":"a","direction":"debit","amount":"3"},{"account":"b","direction":"credit","amount":"1","currency":"BDT"},{"account":"c","direction":"credit","amount":"2"}],"metadata":"{\"k\":1}","currency":null}`,
			want: []string{
				`1 T1 debit a 5.00BDT credit b 5.00BDT 2026-01-31T00:00:00Z "d" {"k":1}`,
				`3 T2 debit a 3 credit b 1BDT credit c 2 {"k":1}`,
			},
		},
		"wrong NDJSON": {
			text: strings.Join([]string{
				`{"transfer_id":"T1","debit_account":"a","credit_account":"b","amount":5.00}`,
				`{"transfer_id":"T2","Amount":"5"}`,
				`{"transfer_id":"T3","amount":"5","amount":"6"}`,
				`{"transfer_id":"T4"`,
				`{"transfer_id":"T5"} {}`,
				`[]`,
				`{"transfer_id":"T7","amount":"5","entries":[]}`,
				`{"transfer_id":"T8","entries":[{"account":"a","direction":"up","amount":"3"},{"account":"b","direction":"credit","amount":"3"}]}`,
				`{"transfer_id":"T9","entries":[{"account":"a","konto":"debit"}]}`,
				`{"transfer_id":"T10","entries":[7]}`,
				`{"transfer_id":"T11","description":"` + long + `"}`,
				`{"transfer_id":"T12","debit_account":"a","credit_account":"b","amount":"1"}`,
			}, "\n"),
			want: []string{
				`1 T1: invalid argument: amount: is 5.00, want a string`, `2 T2: invalid argument: line: has "Amount", which is not known; the names are transfer_id,`,
				`3 T3: invalid argument: line: has "amount" twice`, `4 T4: invalid argument: line: is not a JSON object: it ends too early`,
				`5 T5: invalid argument: line: has more after the JSON object`, `6 : invalid argument: line: is not a JSON object`,
				`7 T7: invalid argument: entries: cannot be given together`, `8 T8: invalid argument: entries[0].direction: is required`,
				`9 T9: invalid argument: entries[0]: has "konto", which is not known`, `10 T10: invalid argument: entries[0]: is not a JSON object`,
				`11 : the line has more than 1 MiB`, `12 T12 debit a 1 credit b 1`,
			},
			config: Config{Name: "x.jsonl"},
		},
		"NDJSON as CSV": {text: "{}\n", config: Config{Format: CSV}, want: []string{`file: the header has no column`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := lines(t, test.text, test.config)
			if len(got) != len(test.want) {
				t.Fatalf("%d lines:\n%s", len(got), strings.Join(got, "\n"))
			}
			for i, line := range got {
				if !strings.HasPrefix(line, test.want[i]) {
					t.Errorf("%.200s\nwant %s", line, test.want[i])
				}
			}
		})
	}
}

// A file in which no line ends.
func TestSource_BoundedMemory(t *testing.T) {
	t.Parallel()
	for _, start := range []string{header, header + `"`, `{"transfer_id":"`} {
		in := io.MultiReader(strings.NewReader(start), io.LimitReader(endless{}, 8<<20))
		src, err := open(in, Config{})
		if err != nil {
			t.Fatal(err)
		}
		for {
			r, err := src.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if r.err == nil {
				t.Error("a line without an end was read")
			}
		}
		if src.csv != nil && cap(src.csv.text)+8*cap(src.csv.ends) > 4*MaxLine || src.json != nil && cap(src.json.text) > 4*MaxLine {
			t.Error("it was held in memory")
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// What encoding/csv reads without complaint, csvReader reads in the same way.
func FuzzCSV(f *testing.F) {
	for _, text := range []string{"a,b\n1,2\n", "\"a\nb\",\"\"\"\"\r\n\n", "a\r", "\"a\rb\"\r\n,", "a,\"b", "\n\r\n", "\"x\"\r", "\r\r\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := csv.NewReader(strings.NewReader(text))
		want.FieldsPerRecord = -1
		records, err := want.ReadAll()
		got := newCSVReader(bufferOf(text), ',')
		last := 0
		for i := 0; ; i++ {
			e := got.next()
			if errors.Is(e, io.EOF) {
				if err == nil && i != len(records) {
					t.Fatalf("%d records, want %d", i, len(records))
				}
				return
			}
			if got.line <= last || got.last < got.line {
				t.Fatalf("lines %d to %d after %d", got.line, got.last, last)
			}
			last = got.last
			if err != nil || errors.Is(e, errNotUTF8) {
				i = min(i, len(records)) // encoding/csv has stopped; only see that ours comes to an end
				err = csv.ErrQuote
				continue
			}
			if e != nil || i >= len(records) || !slices.Equal(got.fields, records[i]) {
				t.Fatalf("record %d: %q, %v; want %q", i, got.fields, e, records)
			}
		}
	})
}

// Whatever the file, every line is a transfer that the server takes for well-formed, or wrong; and what Convert writes
// reads as what was converted.
func FuzzSource(f *testing.F) {
	text, err := os.ReadFile("../../docs/examples/berka-map.json")
	if err != nil {
		f.Fatal(err)
	}
	m, err := ParseMap(text)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(header+"T1,a,b,5.00,BDT,2026-01-31,\"x\ny\",\"{\"\"k\"\":1}\"\nT2,a,b,x\n", false)
	f.Add("trans_id;account_id;date;type;operation;amount;balance;k_symbol;bank;account\r\n6145;25;960728;credit;credit in cash;900.00;900.00;;;\r\n", true)
	f.Add(`{"transfer_id":"T2","entries":[{"account":"a","direction":"debit","amount":"3"},{"account":"b","direction":"credit","amount":"1"}],"metadata":{}}`, false)
	f.Fuzz(func(t *testing.T, text string, useMap bool) {
		config := Config{}
		if useMap {
			config.Map = m
		}
		src, err := open(strings.NewReader(text), config)
		if err != nil {
			return
		}
		for last := 0; ; {
			r, err := src.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil || r.line <= last || r.last < r.line || r.last > strings.Count(text, "\n")+1 {
				t.Fatalf("lines %d to %d after %d: %v", r.line, r.last, last, err)
			}
			last = r.last
			if r.err != nil {
				continue
			}
			if err := r.spec.Validate(); err != nil {
				t.Fatal(err)
			}
			again := converted(t, r.spec)
			if describe(again) != describe(r.spec) {
				t.Fatalf("%s\nwas converted to\n%s", describe(r.spec), describe(again))
			}
		}
	})
}

func FuzzMap(f *testing.F) {
	text, err := os.ReadFile("../../docs/examples/berka-map.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"transfer":{"transfer_id":"{#hash}","debit_account":[{"if":{"a":["*","?"]},"then":"{{x}}"}],"credit_account":"b","amount":"{a}"}}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		m, err := ParseMap(text)
		if err != nil {
			return
		}
		src, err := open(strings.NewReader("a,b\n1,2\n"), Config{Map: m})
		for err == nil {
			_, err = src.next()
		}
	})
}
