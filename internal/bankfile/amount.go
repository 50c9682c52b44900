package bankfile

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/shopspring/decimal"
)

// maxDigits is the most digits of an amount, as in the ledger.
const maxDigits = 38

var errDigits = fmt.Errorf("an amount has more than %d digits", maxDigits)

// parseNumber reads digits with at most one decimal mark among or after them: "12,34", "12,", "0012". There is no sign.
func parseNumber(text string, mark byte) (decimal.Decimal, error) {
	const maxFast = 18 // digits that an int64 always holds
	if len(text) > 2*maxDigits {
		return decimal.Decimal{}, errDigits
	}
	var digits [2 * maxDigits]byte
	n, fraction, marked := 0, 0, false
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			digits[n] = c
			n++
			if marked {
				fraction++
			}
		case c == mark && !marked && n > 0:
			marked = true
		default:
			return decimal.Decimal{}, fmt.Errorf("%.60q is not an amount", text)
		}
	}
	if n == 0 {
		return decimal.Decimal{}, fmt.Errorf("%.60q is not an amount", text)
	}
	whole := strings.TrimLeft(string(digits[:n]), "0")
	switch {
	case len(whole) > maxDigits || fraction > maxDigits:
		return decimal.Decimal{}, errDigits
	case len(whole) <= maxFast:
		value := int64(0)
		for i := range len(whole) {
			value = value*10 + int64(whole[i]-'0')
		}
		return decimal.New(value, int32(-fraction)), nil
	}
	value, _ := new(big.Int).SetString(whole, 10)
	return decimal.NewFromBigInt(value, int32(-fraction)), nil
}

// parseSigned reads a number that may have one sign before it.
func parseSigned(text string, mark byte) (decimal.Decimal, error) {
	unsigned, negative := strings.CutPrefix(text, "-")
	if !negative {
		unsigned = strings.TrimPrefix(text, "+")
	}
	amount, err := parseNumber(unsigned, mark)
	if negative {
		amount = amount.Neg()
	}
	return amount, err
}

// numberStyle is how a profile's file writes amounts.
type numberStyle struct {
	decimal byte
	// group stands between thousands; "" is none. A space means any of the spaces that are written there.
	group string
}

const (
	minus       = "−" // U+2212, which spreadsheets write
	spaces      = " \u00a0\u202f\u2009"
	apostrophes = "'\u2019"
)

// parse reads an amount with its sign before or after it, or in parentheses, which is how accountants write a negative one.
func (s numberStyle) parse(text string) (decimal.Decimal, error) {
	rest, negative := strings.Trim(text, spaces), false
	if inner, ok := strings.CutPrefix(rest, "("); ok {
		if rest, ok = strings.CutSuffix(inner, ")"); !ok {
			return decimal.Decimal{}, s.wrong(text)
		}
		negative = true
	} else {
		rest, negative = cutSign(rest)
	}
	plain, err := s.ungroup(strings.Trim(rest, spaces))
	if err != nil {
		return decimal.Decimal{}, fmt.Errorf("%w, and %w", s.wrong(text), err)
	}
	amount, err := parseNumber(plain, s.decimal)
	switch {
	case errors.Is(err, errDigits):
		return decimal.Decimal{}, err
	case err != nil:
		return decimal.Decimal{}, s.wrong(text)
	case negative:
		amount = amount.Neg()
	}
	return amount, nil
}

// wrong says that a text is no amount, and what of the profile says how amounts are written.
func (s numberStyle) wrong(text string) error {
	if strings.Trim(text, spaces) == "" {
		return fmt.Errorf("%.60q is not an amount", text)
	}
	group := "no group_mark"
	if s.group != "" {
		group = fmt.Sprintf("group_mark %q", s.group)
	}
	return fmt.Errorf("%.60q is not an amount as the profile has them, with decimal_mark %q and %s", text, string(s.decimal), group)
}

// cutSign takes one sign off the beginning, or else off the end.
func cutSign(text string) (rest string, negative bool) {
	for _, sign := range []string{"-", minus, "+"} {
		if rest, ok := strings.CutPrefix(text, sign); ok {
			return rest, sign != "+"
		}
	}
	for _, sign := range []string{"-", minus, "+"} {
		if rest, ok := strings.CutSuffix(text, sign); ok {
			return rest, sign != "+"
		}
	}
	return text, false
}

var errGroups = errors.New("the thousands are not grouped as they should be")

// ungroup takes the marks between thousands out. They must stand where they can: with a group mark of "," a "1,5" is not fifteen. The last group has
// three digits, those before it two or three, since a lakh is written 1,00,000.
func (s numberStyle) ungroup(text string) (string, error) {
	if s.group == "" {
		return text, nil
	}
	marks := s.group
	switch s.group {
	case " ":
		marks = spaces
	case "'":
		marks = apostrophes
	}
	whole, fraction, point := strings.Cut(text, string(s.decimal))
	if strings.ContainsAny(fraction, marks) {
		return "", errGroups
	}
	groups := strings.FieldsFunc(whole, func(r rune) bool { return strings.ContainsRune(marks, r) })
	if strings.Count(strings.Map(toMark(marks), whole), "\x00") != max(0, len(groups)-1) {
		return "", errGroups // two marks next to each other, or one at an end
	}
	const full, lakh = 3, 2
	for i, group := range groups {
		switch last := i == len(groups)-1; {
		case len(groups) == 1:
		case last && len(group) != full, len(group) > full, i > 0 && len(group) < lakh:
			return "", errGroups
		}
	}
	plain := strings.Join(groups, "")
	if point {
		plain += string(s.decimal) + fraction
	}
	return plain, nil
}

func toMark(marks string) func(rune) rune {
	return func(r rune) rune {
		if strings.ContainsRune(marks, r) {
			return 0
		}
		return r
	}
}

// isCurrency reports whether code is one as the ledger has them: 3 to 16 characters of A-Z, 0-9 and _, the first a letter.
func isCurrency(code string) bool {
	const shortest, longest = 3, 16
	ok := len(code) >= shortest && len(code) <= longest && code[0] >= 'A' && code[0] <= 'Z'
	for i := 0; ok && i < len(code); i++ {
		ok = code[i] >= 'A' && code[i] <= 'Z' || code[i] >= '0' && code[i] <= '9' || code[i] == '_'
	}
	return ok
}

// written is an amount with the decimals that it has, and its currency.
func written(amount decimal.Decimal, currency string) string {
	text := amount.StringFixed(max(0, -amount.Exponent()))
	if amount.IsZero() {
		text = strings.TrimPrefix(text, "-")
	}
	if currency == "" {
		return text
	}
	return text + " " + currency
}
