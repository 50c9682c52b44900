package ledger

import (
	"strings"

	"github.com/shopspring/decimal"
)

// MaxDigits is the most digits that an amount may be written with.
const MaxDigits = 38

// ParseAmount reads the amount of an entry: (0|[1-9][0-9]*)(\.[0-9]+)?, positive, at most MaxDigits digits. It remembers
// how many decimals were written, since "500.000" is more precise than BDT can be. It returns CodeInvalidArgument.
func ParseAmount(text, field string) (decimal.Decimal, error) {
	amount, err := parseDecimal(text, text, field)
	if err != nil {
		return decimal.Decimal{}, err
	}
	if !amount.IsPositive() {
		return decimal.Decimal{}, Invalid(field, "%q is not positive", text)
	}
	return amount, nil
}

// ParseBalance reads a balance, such as the floor of an account: an amount that may also be zero or negative. It returns
// CodeInvalidArgument.
func ParseBalance(text, field string) (decimal.Decimal, error) {
	return parseDecimal(strings.TrimPrefix(text, "-"), text, field)
}

// parseDecimal reads text, of which unsigned is what comes after a sign that is allowed.
func parseDecimal(unsigned, text, field string) (decimal.Decimal, error) {
	if len(text) > MaxDigits+2 || countDigits(text) > MaxDigits { // + sign and point
		return decimal.Decimal{}, Invalid(field, "has more than %d digits", MaxDigits)
	}
	if !isPlain(unsigned) {
		return decimal.Decimal{}, Invalid(field, "%q is not an amount: want digits, such as 500 or 500.00, without sign, "+
			"exponent, spaces or leading zeros", text)
	}
	amount, err := decimal.NewFromString(text)
	if err != nil {
		return decimal.Decimal{}, Invalid(field, "%q is not an amount", text)
	}
	return amount, nil
}

// isPlain reports whether text is (0|[1-9][0-9]*)(\.[0-9]+)?.
func isPlain(text string) bool {
	whole, fraction, point := strings.Cut(text, ".")
	return isDigits(whole) && (whole[0] != '0' || len(whole) == 1) && (!point || isDigits(fraction))
}

func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

func countDigits(text string) int {
	n := 0
	for i := range len(text) {
		if text[i] >= '0' && text[i] <= '9' {
			n++
		}
	}
	return n
}

// validateAmount checks an amount that reached the domain as a decimal: its sign, and its size as it would be written.
func validateAmount(amount decimal.Decimal, field string) error {
	if !amount.IsPositive() {
		return Invalid(field, "%s is not positive", clip(amount.String()))
	}
	return validateDigits(amount, field)
}

// validateDigits checks the size of an amount or balance as it would be written.
func validateDigits(amount decimal.Decimal, field string) error {
	// The exponent first: writing out 1e1000000 to count its digits would take a megabyte.
	if amount.Exponent() > MaxDigits || amount.Exponent() < -MaxDigits || countDigits(amount.StringFixed(-amount.Exponent())) > MaxDigits {
		return Invalid(field, "has more than %d digits", MaxDigits)
	}
	return nil
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}

// checkScale returns CodeAmountScale if amount was written with more decimals than the currency has.
func checkScale(amount decimal.Decimal, currency Currency, field string) error {
	if -amount.Exponent() <= currency.Scale {
		return nil
	}
	return violation(CodeAmountScale, field, "has %d decimals, %s has %d", -amount.Exponent(), currency.Code, currency.Scale)
}

// FormatAmount prints an amount at the scale of its currency: "500.00" BDT, "500" JPY.
func FormatAmount(amount decimal.Decimal, scale int32) string {
	text := amount.StringFixed(scale)
	// A sum of zero printed as "-0.00" would alarm a reader for nothing.
	if strings.HasPrefix(text, "-") && amount.IsZero() {
		return text[1:]
	}
	return text
}

// FormatWritten prints an amount with the decimals that it was written with, trailing zeros included.
func FormatWritten(amount decimal.Decimal) string {
	return amount.StringFixed(max(0, -amount.Exponent()))
}
