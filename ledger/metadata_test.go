package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/khata-ledger/khata/ledger"
)

func TestParseMetadata_Canonical(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 16) + "1" + strings.Repeat("}", 16)
	for _, c := range []struct{ text, want string }{
		{``, ``},
		{`{}`, ``},
		{" {\n} ", ``},
		{`{"a":1}`, `{"a":1}`},
		{" {\t\"a\" :\r\n1 } ", `{"a":1}`},
		{`{"b":1,"a":2}`, `{"a":2,"b":1}`},
		{`{"b":{"d":1,"c":2},"a":[{"z":1,"y":2}]}`, `{"a":[{"y":2,"z":1}],"b":{"c":2,"d":1}}`},
		{`{"B":1,"a":2,"A":3,"":4,"খ":5,"ক":6}`, `{"":4,"A":3,"B":1,"a":2,"ক":6,"খ":5}`},
		{`{"a":[3,1,2]}`, `{"a":[3,1,2]}`},
		{`{"a":{},"b":[],"c":null,"d":true,"e":false,"f":""}`, `{"a":{},"b":[],"c":null,"d":true,"e":false,"f":""}`},

		{`{"a":1.0}`, `{"a":1}`},
		{`{"a":1.50}`, `{"a":1.5}`},
		{`{"a":1e2}`, `{"a":100}`},
		{`{"a":1E+2}`, `{"a":100}`},
		{`{"a":100e-2}`, `{"a":1}`},
		{`{"a":-0}`, `{"a":0}`},
		{`{"a":-0.0}`, `{"a":0}`},
		{`{"a":0e0}`, `{"a":0}`},
		{`{"a":-1.25e1}`, `{"a":-12.5}`},
		{`{"a":9007199254740993}`, `{"a":9007199254740993}`},
		{`{"a":123456789012345678901234567890.123456789}`, `{"a":123456789012345678901234567890.123456789}`},

		{`{"\u0061":"\u0062\/\u003c"}`, `{"a":"b/<"}`},
		{`{"a":"<&>'"}`, `{"a":"<&>'"}`},
		{`{"a":"\"\\\n\t\u0001"}`, `{"a":"\"\\\n\t\u0001"}`},
		{`{"a":"\ud83e\uddfe"}`, `{"a":"🧾"}`},
		{`{"a":"খাতা"}`, `{"a":"খাতা"}`},
		{deep, deep},
	} {
		got, err := ledger.ParseMetadata(c.text, "metadata")
		if err != nil || string(got) != c.want {
			t.Errorf("%q: got %q %v, want %q", c.text, got, err, c.want)
		}
		again, err := ledger.ParseMetadata(string(got), "metadata")
		if err != nil || again != got {
			t.Errorf("%q: the canonical form of %q is %q %v", c.text, got, again, err)
		}
	}
}

// What means other things stays apart.
func TestParseMetadata_Distinct(t *testing.T) {
	t.Parallel()
	seen := map[ledger.Metadata]string{}
	for _, text := range []string{
		`{"a":9007199254740992}`, `{"a":9007199254740993}`, `{"a":18446744073709551616}`, `{"a":18446744073709551617}`,
		`{"a":0.1}`, `{"a":0.10000000000000000555}`, `{"a":1}`, `{"a":-1}`, `{"a":"1"}`, `{"a":[1]}`, `{"a":true}`, `{"a":null}`, ``,
		`{"a":{}}`, `{"a":[]}`, `{"a":""}`, `{"a":[1,2]}`, `{"a":[2,1]}`, `{"A":1}`, `{"a":"A"}`, `{"a":"a"}`, `{"a":" a"}`,
		`{"a":"\u00e9"}`, `{"a":"e\u0301"}`, `{"a":"\ufffd"}`,
	} {
		m, err := ledger.ParseMetadata(text, "metadata")
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if twin, ok := seen[m]; ok {
			t.Errorf("%s and %s are the same: %s", text, twin, m)
		}
		seen[m] = text
	}
}

func TestParseMetadata_Refused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"text":                         `hello`,
		"null":                         `null`,
		"array":                        `[{"a":1}]`,
		"string":                       `"a"`,
		"number":                       `1`,
		"white space":                  ` `,
		"cut off":                      `{"a":1`,
		"cut off in a string":          `{"a":"`,
		"cut off after a colon":        `{"a":`,
		"two values":                   `{"a":1}{"a":1}`,
		"trailing brace":               `{"a":1}}`,
		"trailing comma":               `{"a":1},`,
		"trailing text":                `{"a":1} x`,
		"trailing NUL":                 "{\"a\":1}\x00",
		"comma before the end":         `{"a":1,}`,
		"comma before the end, nested": `{"a":[1,]}`,
		"comma first":                  `{,"a":1}`,
		"no comma":                     `{"a":1 "b":2}`,
		"no comma, nested":             `{"a":[1 2]}`,
		"no colon":                     `{"a" 1}`,
		"no value":                     `{"a":}`,
		"no key":                       `{1:1}`,
		"single quotes":                `{'a':1}`,
		"comment":                      `{"a":1/**/}`,
		"byte order mark":              "\ufeff{\"a\":1}",
		"wrong brackets":               `{"a":[1}]`,
		"number 01":                    `{"a":01}`,
		"number .5":                    `{"a":.5}`,
		"number +1":                    `{"a":+1}`,
		"number 1.":                    `{"a":1.}`,
		"number NaN":                   `{"a":NaN}`,
		"number 0x1":                   `{"a":0x1}`,
		"number with a huge exponent":  `{"a":1e999999999}`,
		"number with a tiny exponent":  `{"a":1e-999999999}`,
		"exponent beyond int":          `{"a":1e99999999999999999999}`,
		"zero with a huge exponent":    `{"a":0e999999999}`,
		"endless number":               `{"a":` + strings.Repeat("9", 10_000) + `}`,
		"key twice":                    `{"a":1,"a":1}`,
		"key twice, escaped":           `{"a":1,"\u0061":2}`,
		"key twice, nested":            `{"x":[{"a":1,"b":2,"a":3}]}`,
		"NUL":                          `{"a":"\u0000"}`,
		"NUL in a key":                 `{"\u0000":1}`,
		"raw control character":        "{\"a\":\"\n\"}",
		"bad escape":                   `{"a":"\x"}`,
		"bad unicode escape":           `{"a":"\u12g4"}`,
		"not UTF-8":                    "{\"a\":\"\xff\"}",
		"encoded surrogate":            "{\"a\":\"\xed\xa0\x80\"}",
		"lone high surrogate":          `{"a":"\ud800"}`,
		"lone low surrogate":           `{"a":"\udc00"}`,
		"surrogates swapped":           `{"a":"\udc00\ud800"}`,
		"high surrogate and a letter":  `{"a":"\ud800x"}`,
		"lone surrogate in a key":      `{"\ud800":1}`,
		"nested too deep":              strings.Repeat(`{"a":`, 18) + "1" + strings.Repeat("}", 18),
		"nested far too deep":          `{"a":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + "}",
		"a byte too long":              `{"a":"` + strings.Repeat("x", ledger.MaxMetadata-7) + `"}`,
		"too long only in white space": `{"a":1}` + strings.Repeat(" ", ledger.MaxMetadata),
		"too long when written out":    `{"a":[` + strings.TrimSuffix(strings.Repeat("1e200,", 1000), ",") + `]}`,
	} {
		m, err := ledger.ParseMetadata(text, "accounts[2].metadata")
		if err == nil {
			t.Errorf("%s: read as %.100q", name, m)
			continue
		}
		if got := fieldOf(t, err, ledger.CodeInvalidArgument); got != "accounts[2].metadata" {
			t.Errorf("%s: the error is about %s", name, got)
		}
		if !utf8.ValidString(err.Error()) || len(err.Error()) > 300 {
			t.Errorf("%s: the error is not fit to print: %.400q", name, err)
		}
	}
	if m, err := ledger.ParseMetadata(`{"a":"`+strings.Repeat("x", ledger.MaxMetadata-8)+`"}`, "metadata"); err != nil || len(m) != ledger.MaxMetadata {
		t.Errorf("just as long as allowed: %d %v", len(m), err)
	}
	// Two backslashes and what follows are no escape.
	if m, err := ledger.ParseMetadata(`{"a":"\\ud800"}`, "metadata"); err != nil || m != `{"a":"\\ud800"}` {
		t.Errorf("an escaped backslash before ud800: %q %v", m, err)
	}
}

// A number with a large exponent is refused, or its canonical form can be read again: a client sends it as it was answered.
func TestParseMetadata_LargeNumbersCanBeSentAgain(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"1e60", "1e70", "1e100", "1e400", "1e-100", "1e-400", "1.7976931348623157e308", "5e-324", "-1e99", strings.Repeat("9", 64) + "e10"} {
		m, err := ledger.ParseMetadata(`{"a":`+number+`}`, "metadata")
		if err != nil {
			continue
		}
		if again, err := ledger.ParseMetadata(string(m), "metadata"); err != nil || again != m {
			t.Errorf("%s is %.40s… and that is %.40q %v", number, m, again, err)
		}
	}
}

func FuzzParseMetadata(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"b":1,"a":[1.0,1e2,-0,"x\u0061",{"c":null}]}`, `{"a":1e400}`, `{"a":1e-400}`, `{"a":"\ud83e\uddfe\u2028<"}`, `{"a":"\ud800"}`, `[1]`,
		`{"a":1,"a":1}`, `{"a":{"b":{"c":{}}}}`, "{\"a\":\"\x7f\"}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ledger.ParseMetadata(text, "metadata")
		if err != nil {
			fieldOf(t, err, ledger.CodeInvalidArgument)
			return
		}
		again, err := ledger.ParseMetadata(string(m), "metadata")
		if err != nil || again != m {
			t.Fatalf("%q is %q, and that is %q %v", text, m, again, err)
		}
		if m == "" {
			return
		}
		if len(m) > ledger.MaxMetadata || !json.Valid([]byte(m)) || !json.Valid([]byte(text)) || m[0] != '{' {
			t.Fatalf("%q is %q", text, m)
		}
	})
}
