package reconcile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// Settings are what can be set of a bank account. Each change is a version; runs keep which one they went by.
type Settings struct {
	// Identifiers are the numbers by which the bank's files know the account, such as its IBAN. Spaces, and upper and lower case, make no difference.
	// A file of another account is refused.
	Identifiers []string `json:"identifiers,omitempty"`
	// Profile is the one by which its CSV files are read where none is named.
	Profile string `json:"profile,omitempty"`
	// DaysBefore and DaysAfter bound how far the bank's date may lie before that of the books, and after it. Default 1 and 3.
	DaysBefore int `json:"days_before"`
	DaysAfter  int `json:"days_after"`
	// Tolerance is the most, in units of the currency, that two amounts of one reference may differ by and still be the same movement. Default 0. The
	// difference is kept, and is posted only when a person approves it.
	Tolerance decimal.Decimal `json:"tolerance"`
	// TransitDays is for how many days after its date an entry is expected to be on its way to the bank. Default 5.
	TransitDays int `json:"transit_days"`
	// ReferenceKeys are the keys of a transfer's metadata under which it has references that the bank may give back.
	ReferenceKeys []string `json:"reference_keys"`
	// Confirm are the rules whose matches need no person. Default: opening, reference and batch. What is ambiguous, or differs by more than Tolerance,
	// always needs one.
	Confirm []Rule `json:"confirm"`
	// AnyNumbers takes statements whose numbers leave gaps. Default: a gap refuses the file.
	AnyNumbers bool `json:"any_numbers,omitempty"`
	// IgnoreBalances takes no notice of the balances in files, for a bank whose balances do not go with its lines. Then nobody sees whether lines are
	// missing.
	IgnoreBalances bool `json:"ignore_balances,omitempty"`
	// BAI2Decimals has the decimals that amounts in BAI2 files imply, by currency, where the bank's are not the currency's.
	BAI2Decimals map[string]int32 `json:"bai2_decimals,omitempty"`
}

// DefaultSettings are those of a bank account that nobody has set.
func DefaultSettings() Settings {
	return Settings{
		DaysBefore: 1, DaysAfter: 3, TransitDays: 5, ReferenceKeys: []string{"reference", "bank_reference", "end_to_end", "payout", "batch"},
		Confirm: []Rule{RuleOpening, RuleReference, RuleBatch},
	}
}

const (
	maxIdentifiers = 20
	maxKeys        = 20
	maxText        = 256
	maxWindow      = 60
	maxTransit     = 366
	// maxBAI2 is far more currencies than the files of a bank account have.
	maxBAI2 = 100
)

// validate returns CodeInvalidArgument, or CodeAmountScale for a tolerance that is finer than the currency.
func (s Settings) validate(currency ledger.Currency) error {
	switch {
	case len(s.Identifiers) > maxIdentifiers:
		return ledger.Invalid("identifiers", "has %d, at most %d are allowed", len(s.Identifiers), maxIdentifiers)
	case len(s.ReferenceKeys) > maxKeys:
		return ledger.Invalid("reference_keys", "has %d, at most %d are allowed", len(s.ReferenceKeys), maxKeys)
	case s.DaysBefore < 0 || s.DaysBefore > maxWindow:
		return ledger.Invalid("days_before", "%d is not between 0 and %d", s.DaysBefore, maxWindow)
	case s.DaysAfter < 0 || s.DaysAfter > maxWindow:
		return ledger.Invalid("days_after", "%d is not between 0 and %d", s.DaysAfter, maxWindow)
	case s.TransitDays < 0 || s.TransitDays > maxTransit:
		return ledger.Invalid("transit_days", "%d is not between 0 and %d", s.TransitDays, maxTransit)
	case s.Tolerance.IsNegative():
		return ledger.Invalid("tolerance", "%s is negative", s.Tolerance)
	case !s.Tolerance.Equal(s.Tolerance.Truncate(currency.Scale)):
		return &ledger.Error{Code: ledger.CodeAmountScale, Message: fmt.Sprintf("tolerance %s has more decimals than %s, which has %d",
			s.Tolerance, currency.Code, currency.Scale)}
	}
	for i, id := range s.Identifiers {
		if err := validateText(fmt.Sprintf("identifiers[%d]", i), id, true); err != nil {
			return err
		}
	}
	for i, key := range s.ReferenceKeys {
		if err := validateText(fmt.Sprintf("reference_keys[%d]", i), key, true); err != nil {
			return err
		}
	}
	for i, rule := range s.Confirm {
		if !slices.Contains(automatic, rule) {
			return ledger.Invalid(fmt.Sprintf("confirm[%d]", i), "%.40q is none of %s", string(rule), oneOf(automatic))
		}
	}
	if s.Profile != "" {
		if err := validateSlug("profile", s.Profile); err != nil {
			return err
		}
	}
	return validateBAI2(s.BAI2Decimals)
}

// oneOf is a list of what is allowed, for people.
func oneOf[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, text := range list {
		texts[i] = string(text)
	}
	return strings.Join(texts, ", ")
}

func validateBAI2(decimals map[string]int32) error {
	const field = "bai2_decimals"
	if len(decimals) > maxBAI2 {
		return ledger.Invalid(field, "has %d currencies, at most %d are allowed", len(decimals), maxBAI2)
	}
	for _, code := range slices.Sorted(maps.Keys(decimals)) {
		if err := ledger.CurrencyCode(code).Validate(field); err != nil {
			return err
		}
		if n := decimals[code]; n < 0 || n > ledger.MaxScale {
			return ledger.Invalid(field, "has %d for %s, want 0 to %d", n, code, ledger.MaxScale)
		}
	}
	return nil
}

func validateText(field, text string, required bool) error {
	switch {
	case required && strings.TrimSpace(text) == "":
		return ledger.Invalid(field, "is empty")
	case len(text) > maxText:
		return ledger.Invalid(field, "has %d bytes, at most %d are allowed", len(text), maxText)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return ledger.Invalid(field, "is not text")
	}
	return nil
}

// ownRequests begin the requests of decisions that nobody has named: one of a caller must not be taken for them.
var ownRequests = []string{requestOnce, requestUndo}

const requestOnce, requestUndo = "once:", "undo:"

func isOwnRequest(request string) bool {
	return slices.ContainsFunc(ownRequests, func(prefix string) bool { return strings.HasPrefix(request, prefix) })
}

func validateRequest(request string) error {
	if isOwnRequest(request) {
		return ledger.Invalid("request", "begins with %s or %s: choose another one", requestOnce, requestUndo)
	}
	return validateText("request", request, false)
}

// validateSlug checks the name of a bank account or of a profile.
func validateSlug(field, text string) error {
	ok := text != "" && len(text) <= 63
	for i := range len(text) {
		c := text[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || i > 0 && (c == '.' || c == '_' || c == '-'))
	}
	if !ok {
		return ledger.Invalid(field, "%.80q is no name: want 1 to 63 characters of a-z, 0-9, '.', '_' and '-', the first a letter or digit", text)
	}
	return nil
}

// identifier is a number of an account in the one way in which numbers are compared.
func identifier(text string) string {
	return strings.ToUpper(strings.Map(func(r rune) rune {
		if r == ' ' || r == '\u00a0' {
			return -1
		}
		return r
	}, text))
}

func (s Settings) knows(accountID string) bool {
	want := identifier(accountID)
	return slices.ContainsFunc(s.Identifiers, func(id string) bool { return identifier(id) == want })
}

func (s Settings) encode() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // texts, numbers and lists of these
	}
	return string(text)
}

func decodeSettings(text string) (Settings, error) {
	var s Settings
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	err := dec.Decode(&s)
	return s, err
}
