package bankfile

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"
)

func TestParseNumber(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.StringMatching(`[0-9]{1,20}`).Draw(t, "whole")
		fraction := rapid.StringMatching(`[0-9]{0,17}`).Draw(t, "fraction")
		got, err := parseNumber(whole+","+fraction, ',')
		if err != nil {
			t.Fatal(err)
		}
		want := decimal.RequireFromString(whole + "." + fraction + "0")
		if !got.Equal(want) || int(-got.Exponent()) != len(fraction) {
			t.Fatalf("%s,%s is read as %s", whole, fraction, got)
		}
	})
	for _, text := range []string{"", ",", ",5", "1,2,3", "1.5", " 1", "1 ", "+1", "-1", "1e5", "x", "١", strings.Repeat("1", 39), "0," +
		strings.Repeat("0", 39), strings.Repeat("0", 100)} {
		if got, err := parseNumber(text, ','); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
	if got, err := parseNumber(strings.Repeat("0", 30)+strings.Repeat("9", 38), ','); err != nil || got.String() != strings.Repeat("9", 38) {
		t.Errorf("%s %v", got, err)
	}
}

func TestNumberStyle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		style numberStyle
		text  string
		want  string // "" is an error
	}{
		{numberStyle{',', "."}, "1.234.567,89", "1234567.89"}, {numberStyle{',', "."}, "1234567,89", "1234567.89"}, {numberStyle{',', "."}, "-1.234",
			"-1234"},
		{numberStyle{',', "."}, "1.23,4", ""}, {numberStyle{',', "."}, "1.5", ""}, {numberStyle{',', "."}, "1..234", ""}, {numberStyle{',', "."},
			".234", ""},
		{numberStyle{',', "."}, "1,234.5", ""}, {numberStyle{',', "."}, "1234.567", ""}, {numberStyle{',', "."}, "1.2.345", ""},
		{numberStyle{'.', ","}, "12,34,56,789.10", "123456789.1"}, {numberStyle{'.', ","}, "1,5", ""}, {numberStyle{'.', ","}, "1,234.", "1234"},
		{numberStyle{'.', "'"}, "1'234.50", "1234.5"}, {numberStyle{'.', "'"}, "1\u2019234.50", "1234.5"},
		{numberStyle{',', " "}, "1\u00a0234\u202f567,5", "1234567.5"}, {numberStyle{',', " "}, "- 12,50", "-12.5"},
		{numberStyle{'.', ""}, "(12.50)", "-12.5"}, {numberStyle{'.', ""}, "12.50-", "-12.5"}, {numberStyle{'.', ""}, "+12.50", "12.5"},
		{numberStyle{'.', ""}, "−5", "-5"},
		{numberStyle{'.', ""}, "(12.50", ""}, {numberStyle{'.', ""}, "(-12.50)", ""}, {numberStyle{'.', ""}, "1 234", ""}, {numberStyle{'.', ""}, "--1",
			""}, {numberStyle{'.', ""}, "$5", ""},
	} {
		got, err := c.style.parse(c.text)
		if (err == nil) != (c.want != "") || err == nil && got.String() != c.want {
			t.Errorf("%q in %+v: %s, %v; want %q", c.text, c.style, got, err, c.want)
		}
	}
}

func TestDateLayout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		layout, text string
		want         string // "" is none
	}{
		{"DD.MM.YYYY", "02.01.2024", "2024-01-02"}, {"DD.MM.YYYY", "2.1.2024", ""}, {"D.M.YYYY", "2.1.2024", "2024-01-02"}, {"D.M.YYYY", "02.01.2024",
			"2024-01-02"},
		{"YYMMDD", "960728", "1996-07-28"}, {"YYMMDD", "790101", "2079-01-01"}, {"YYYYMMDD", "20240230", "2024-02-30"}, {"DD MMM YYYY", "02 jan 2024",
			"2024-01-02"},
		{"DD MMM YYYY", "02 Dez 2024", ""}, {"DD MMM YYYY", "02 ANF 2024", ""}, {"YYYY-MM-DDThh:mm:ss", "2024-01-02T23:59:59", "2024-01-02"},
		{"YYYY-MM-DD", "2024-01-02 10:00", ""}, {"YYYY-MM-DD", "2024-01-0", ""}, {"YYYY-MM-DD", "", ""}, {"DD/MM/YY", "02/01/24", "2024-01-02"},
	} {
		layout, err := parseLayout(c.layout)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := layout.parse(c.text)
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("%q in %s: %s, %t; want %q", c.text, c.layout, got, ok, c.want)
		}
	}
	for _, bad := range []string{"", "DD.MM", "DD.MM.YYYY YY", "DDD.MM.YYYY", "DD_MM_YYYY", "MM MMM DD YYYY", "DD.MM.YYYY\x00"} {
		if _, err := parseLayout(bad); err == nil {
			t.Errorf("%q is a layout", bad)
		}
	}
}

func TestDates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"2024-02-30": "2024-02-29", "2023-02-31": "2023-02-28", "2024-04-31": "2024-04-30",
		"2024-12-31": "2024-12-31", "2024-02-32": "", "2024-13-01": "", "2024-00-10": "", "0000-01-01": ""} {
		raw, _, _ := isoDate(text)
		date, moved, err := raw.nearest()
		if (err == nil) != (want != "") || date.String() != want || err == nil && moved != (text != want) {
			t.Errorf("%s: %s %t %v", text, date, moved, err)
		}
		if _, err := ParseDate(text); (err == nil) != (text == want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	// The year that is nearest is the one that a person would mean: never more than half a year off.
	rapid.Check(t, func(t *rapid.T) {
		value := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 4000).Draw(t, "value"))
		entry := value.AddDate(0, 0, rapid.IntRange(-180, 180).Draw(t, "days"))
		got, err := yearNear(int(entry.Month()), entry.Day(), Date{value.Year(), value.Month(), value.Day()})
		if err != nil || !got.Time().Equal(entry) {
			t.Fatalf("entry %s of value %s is read as %s, %v", entry, value, got, err)
		}
	})
	var d Date
	if err := d.UnmarshalText([]byte("2024-02-29")); err != nil || d.String() != "2024-02-29" {
		t.Error(d, err)
	}
	if err := d.UnmarshalText(nil); err != nil || !d.IsZero() || d.String() != "" {
		t.Error(d, err)
	}
	if err := d.UnmarshalText([]byte("2024-02-30")); err == nil {
		t.Error("a day that is none was read")
	}
}

func TestDecoders(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, c := range map[string]struct {
		toRune func(byte) rune
		at     map[byte]string
	}{
		"latin-1":      {latin1Rune, map[byte]string{'A': "A", 0xe9: "é", 0xff: "ÿ", 0x80: "\u0080"}},
		"windows-1252": {windowsRune, map[byte]string{'A': "A", 0xe9: "é", 0x80: "€", 0x9f: "Ÿ", 0x81: "\u0081", 0x97: "—", 0xa0: "\u00a0"}},
	} {
		whole, err := io.ReadAll(&byteDecoder{in: bytes.NewReader(all), toRune: c.toRune})
		if err != nil {
			t.Fatal(err)
		}
		runes := []rune(string(whole))
		if len(runes) != len(all) {
			t.Fatalf("%s: %d characters", name, len(runes))
		}
		for b, want := range c.at {
			if string(runes[b]) != want {
				t.Errorf("%s: %#x is %q, want %q", name, b, runes[b], want)
			}
		}
		// A buffer that ends within a character must not lose the rest of it.
		single, err := io.ReadAll(iotest.OneByteReader(&byteDecoder{in: bytes.NewReader(all), toRune: c.toRune}))
		if err != nil || !bytes.Equal(single, whole) {
			t.Errorf("%s, byte by byte: %v", name, err)
		}
	}
	if got := decodeText([]byte("Caf\xe9 \x80")); got != "Café €" {
		t.Error(got)
	}
	if got := decodeText([]byte("Café €")); got != "Café €" {
		t.Error(got)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "a": "a", " a  b\r\n\tc ": "a b c", "a\x00b\x1b[31m": "ab[31m", "é\u00a0ü": "é ü", "\u0085x\u009f": "x", "   ": "", "a ": "a", "ক খ": "ক খ",
	} {
		if got := clean(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got := clean(want); got != want {
			t.Errorf("%q is not clean: %q", want, got)
		}
	}
	for _, none := range []string{"NONREF", " notprovided ", "0", "000000", ""} {
		if got := reference(none); got != "" {
			t.Errorf("%q is a reference: %q", none, got)
		}
	}
	if got := reference(" R 0 "); got != "R 0" {
		t.Error(got)
	}
	if got := join("/", "", " a ", "", "b"); got != "a/b" {
		t.Error(got)
	}
}
