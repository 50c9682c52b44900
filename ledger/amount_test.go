package ledger_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// fieldOf returns the one field that an error is about, after checking its code.
func fieldOf(t *testing.T, err error, code ledger.Code) string {
	t.Helper()
	var typed *ledger.Error
	if !errors.As(err, &typed) || typed.Code != code || len(typed.Violations) != 1 {
		t.Fatalf("got %v, want a %s about one field", err, code)
	}
	return typed.Violations[0].Field
}

var nines = strings.Repeat("9", 38)

func TestParseAmount(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"1", "5", "10", "500.00", "500.000", "0.01", "0.10", "1.0", "12345678901234567890",
		nines, nines[:37] + ".9", "0." + nines[:37], nines[:8] + "." + nines[:30],
	} {
		amount, err := ledger.ParseAmount(text, "amount")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := ledger.FormatWritten(amount); got != text {
			t.Errorf("%s is written as %s", text, got)
		}
	}
	for _, text := range []string{
		"", "0", "0.0", "0.00", "-5", "+5", "-0", "1e3", "1E3", "1e-3", " 5", "5 ", "5\n", "\t5", "05", "00", "00.5", ".5", "5.", ".", "5..0", "5.0.0",
		nines + "9", nines + ".9", "0." + nines, strings.Repeat("0", 39), "0." + strings.Repeat("0", 40), strings.Repeat("9", 1<<20),
		"1,000", "1_000", "1'000", "1 000", "0x10", "0b1", "NaN", "nan", "Inf", "Infinity", "-Infinity", "five",
		"৫০০", "٥", "５", "½", "1\u00a0", "\u20601", "−5", "5\x00", "\x005", "5\xff", "\xff", "৳5", "5BDT", "(5)", "--5", "5-",
	} {
		amount, err := ledger.ParseAmount(text, "entries[3].amount")
		if err == nil {
			t.Errorf("%.50q is read as %s", text, amount)
			continue
		}
		if got := fieldOf(t, err, ledger.CodeInvalidArgument); got != "entries[3].amount" {
			t.Errorf("%.50q: the error is about %s", text, got)
		}
		if len(err.Error()) > 300 || !utf8.ValidString(err.Error()) || strings.ContainsAny(err.Error(), "\x00\n") {
			t.Errorf("%.50q: the error is not fit to print: %.400q", text, err)
		}
	}
}

func TestParseBalance(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0": "0", "0.00": "0.00", "-5": "-5", "-0.01": "-0.01", "100": "100", "-" + nines: "-" + nines, "-0": "0",
		"-" + nines[:37] + ".9": "-" + nines[:37] + ".9",
	} {
		floor, err := ledger.ParseBalance(text, "floor")
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := ledger.FormatWritten(floor); got != want {
			t.Errorf("%s is written as %s", text, got)
		}
	}
	for _, text := range []string{"", "-", "--5", "+5", "- 5", "-05", "-.5", "-5.", "1e3", " 0", "none", "-" + nines + "9", "-0." + nines, "-৫"} {
		if floor, err := ledger.ParseBalance(text, "floor"); err == nil {
			t.Errorf("%.50q is read as %s", text, floor)
		} else if got := fieldOf(t, err, ledger.CodeInvalidArgument); got != "floor" {
			t.Errorf("%.50q: the error is about %s", text, got)
		}
	}
}

func TestFormatAmount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		amount string
		scale  int32
		want   string
	}{
		{"500", 2, "500.00"}, {"500.0", 2, "500.00"}, {"500", 0, "500"}, {"0", 2, "0.00"}, {"0", 0, "0"}, {"-0.00", 2, "0.00"}, {"-5", 2, "-5.00"},
		{"-0.01", 2, "-0.01"}, {"1", 18, "1.000000000000000000"}, {"1000000000.000000000000000001", 18, "1000000000.000000000000000001"},
		{nines, 0, nines}, {"12345678901234567890123.45", 2, "12345678901234567890123.45"},
	} {
		if got := ledger.FormatAmount(decimal.RequireFromString(c.amount), c.scale); got != c.want {
			t.Errorf("%s at scale %d is %s, want %s", c.amount, c.scale, got, c.want)
		}
	}
	if got := ledger.FormatAmount(decimal.RequireFromString("1").Sub(decimal.RequireFromString("1.00")).Neg(), 2); got != "0.00" {
		t.Errorf("a difference of nothing is %s", got)
	}
	for _, c := range []struct {
		amount decimal.Decimal
		want   string
	}{
		{decimal.New(1, 3), "1000"}, {decimal.New(1500, -3), "1.500"}, {decimal.New(0, -2), "0.00"}, {decimal.New(-5, -1), "-0.5"},
	} {
		if got := ledger.FormatWritten(c.amount); got != c.want {
			t.Errorf("%v is written as %s, want %s", c.amount, got, c.want)
		}
	}
}

var amountGrammar = regexp.MustCompile(`\A(0|[1-9][0-9]*)(\.[0-9]+)?\z`)

func FuzzParseAmount(f *testing.F) {
	for _, seed := range []string{"500.00", "500.001", "-5", "0", "1e3", " 5", "05", ".5", "5.", "+5", nines, nines + "9", "5\x00", "৫"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		amount, err := ledger.ParseAmount(text, "amount")
		digits := len(strings.ReplaceAll(text, ".", ""))
		fine := amountGrammar.MatchString(text) && digits <= ledger.MaxDigits && strings.ContainsAny(text, "123456789")
		if fine != (err == nil) {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil {
			if !errors.Is(err, ledger.CodeInvalidArgument) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if got := ledger.FormatWritten(amount); got != text {
			t.Errorf("%q is written as %q", text, got)
		}
		floor, err := ledger.ParseBalance("-"+text, "floor")
		if err != nil || !floor.Equal(amount.Neg()) {
			t.Errorf("-%s as a floor: %s %v", text, floor, err)
		}
	})
}
