package fraud

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// Kind is what a rule looks at.
type Kind string

// The kinds of rules.
const (
	// Amount flags what is more than a limit.
	Amount Kind = "amount"
	// Velocity flags what is more than the count-th transfer of the payer within a time.
	Velocity Kind = "velocity"
	// Total flags that with which the payer has paid more than a limit within a time.
	Total Kind = "total"
	// Repeat flags that the payer has paid the same amount to the same payee within a time.
	Repeat Kind = "repeat"
	// NewPayee flags more than a limit to somebody whom the payer has not paid within a time.
	NewPayee Kind = "new_payee"
)

// The bounds of rules. They are those of what is remembered of a payer: within them a rule sees all that it has to see.
const (
	// MaxCount is the most that a velocity rule can count to.
	MaxCount = maxRecent - 1
	// MaxWithin is the longest time that rules look back at transfers.
	MaxWithin = 31 * 24 * time.Hour
	// MaxRemember is the longest time that a payee stays known.
	MaxRemember = 400 * 24 * time.Hour
	maxRules    = 100
	maxPayers   = 100
	maxName     = 64
)

// Rules are what transfers are judged by. ParseRules makes them.
type Rules struct {
	payers   []string
	rules    []rule
	identity string
	// recent is for how long transfers are remembered, and known for how long payees; 0 if no rule looks back at them.
	recent, known time.Duration
}

type rule struct {
	name   string
	kind   Kind
	limits map[string]decimal.Decimal
	count  int
	within time.Duration
}

// file is what a file of rules has.
type file struct {
	Payers []string   `json:"payers"`
	Rules  []fileRule `json:"rules"`
}

type fileRule struct {
	Name     string            `json:"name"`
	Kind     Kind              `json:"kind"`
	Limits   map[string]string `json:"limits,omitempty"`
	Count    int               `json:"count,omitempty"`
	Within   string            `json:"within,omitempty"`
	Remember string            `json:"remember,omitempty"`
}

//go:embed default-rules.json
var defaultRules []byte

// DefaultRules are those of khata up: wallets, by amount, haste, repetition and new payees. docs/examples/fraud-rules.json is the same.
func DefaultRules() *Rules {
	rules, err := ParseRules(defaultRules)
	if err != nil {
		panic(err) // A test reads them.
	}
	return rules
}

// ParseRules reads a file of rules; docs/fraud.md says what is in one. The error names the rule, and says what to do.
func ParseRules(text []byte) (*Rules, error) {
	var f file
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return nil, fmt.Errorf("the rules are not JSON of the form {\"payers\": […], \"rules\": […]}: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something comes after the rules: put all of them into one JSON object")
	}
	r := &Rules{}
	if err := r.setPayers(f.Payers); err != nil {
		return nil, err
	}
	if len(f.Rules) > maxRules {
		return nil, fmt.Errorf("there are %d rules: %d at most", len(f.Rules), maxRules)
	}
	for i, given := range f.Rules {
		if err := r.add(given); err != nil {
			return nil, fmt.Errorf("rule %d (%q): %w", i+1, given.Name, err)
		}
	}
	r.identity = r.identify()
	return r, nil
}

func (r *Rules) setPayers(payers []string) error {
	if len(payers) == 0 {
		return errors.New(`there are no payers: give the prefixes of the accounts whose transfers are judged, such as ["wallet:"], or [""] for all`)
	}
	if len(payers) > maxPayers {
		return fmt.Errorf("there are %d prefixes of payers: %d at most", len(payers), maxPayers)
	}
	for _, prefix := range payers {
		if err := ledger.AccountID(cmp.Or(prefix, "x")).ValidateFormat("payers"); err != nil {
			return fmt.Errorf("prefix %.80q of payers: no account can begin so: %w", prefix, err)
		}
	}
	r.payers = slices.Compact(slices.Sorted(slices.Values(payers)))
	return nil
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// add adds a rule, if it is one.
func (r *Rules) add(given fileRule) error {
	switch {
	case !validName.MatchString(given.Name) || len(given.Name) > maxName:
		return fmt.Errorf("give it a name of 1 to %d of a-z, 0-9, - and _, by which people will know it", maxName)
	case slices.ContainsFunc(r.rules, func(other rule) bool { return other.name == given.Name }):
		return errors.New("another rule has that name: each needs one of its own")
	}
	made := rule{name: given.Name, kind: given.Kind}
	needs, ok := kinds[given.Kind]
	if !ok {
		return fmt.Errorf("its kind is %.80q: choose one of %s", string(given.Kind), kindList())
	}
	if err := needs.refuseOthers(given); err != nil {
		return err
	}
	var err error
	if needs.limits {
		if made.limits, err = parseLimits(given.Limits); err != nil {
			return err
		}
	}
	if needs.count {
		if made.count = given.Count; made.count < 1 || made.count > MaxCount {
			return fmt.Errorf("its count is %d: give one from 1 to %d", made.count, MaxCount)
		}
	}
	if needs.within {
		if made.within, err = parseTime("within", given.Within, MaxWithin); err != nil {
			return err
		}
		r.recent = max(r.recent, made.within)
	}
	if needs.remember {
		if made.within, err = parseTime("remember", given.Remember, MaxRemember); err != nil {
			return err
		}
		r.known = max(r.known, made.within)
	}
	r.rules = append(r.rules, made)
	return nil
}

// needs are the fields of a kind of rule.
type needs struct{ limits, count, within, remember bool }

var kinds = map[Kind]needs{
	Amount: {limits: true}, Velocity: {count: true, within: true}, Total: {limits: true, within: true}, Repeat: {within: true},
	NewPayee: {limits: true, remember: true},
}

func kindList() string {
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		list = append(list, string(kind))
	}
	return strings.Join(list, ", ")
}

// refuseOthers says which field a rule has that its kind does not look at: somebody expects it to do something.
func (n needs) refuseOthers(given fileRule) error {
	for _, f := range []struct {
		name       string
		there, has bool
	}{
		{"limits", given.Limits != nil, n.limits}, {"count", given.Count != 0, n.count}, {"within", given.Within != "", n.within},
		{"remember", given.Remember != "", n.remember},
	} {
		switch {
		case f.there && !f.has:
			return fmt.Errorf("a rule of kind %s has no %s: take it out", given.Kind, f.name)
		case !f.there && f.has:
			return fmt.Errorf("a rule of kind %s needs %s", given.Kind, f.name)
		}
	}
	return nil
}

func parseLimits(given map[string]string) (map[string]decimal.Decimal, error) {
	if len(given) == 0 {
		return nil, errors.New(`its limits are empty: give one for each currency that it is to look at, such as {"BDT": "50000"}`)
	}
	limits := map[string]decimal.Decimal{}
	for _, currency := range slices.Sorted(maps.Keys(given)) {
		if err := ledger.CurrencyCode(currency).Validate("limits"); err != nil {
			return nil, err
		}
		amount, err := ledger.ParseAmount(given[currency], "limit of "+currency)
		if err != nil {
			return nil, err
		}
		limits[currency] = amount
	}
	return limits, nil
}

func parseTime(field, text string, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("its %s is %.80q: give a time such as 30s, 10m or 24h", field, text)
	case d < time.Millisecond || d > most || d%time.Microsecond != 0:
		return 0, fmt.Errorf("its %s is %s: give a time from 1ms to %s, in whole microseconds", field, text, hours(most))
	}
	return d, nil
}

func hours(d time.Duration) string { return fmt.Sprintf("%dh", d/time.Hour) }

// Identity tells rules from others: it is in every verdict that they have made. What only looks different in the file, such as 60s in place of 1m,
// does not change it.
func (r *Rules) Identity() string { return r.identity }

// identify hashes the canonical form. It is kept: verdicts of long ago have it.
func (r *Rules) identify() string {
	canonical := file{Payers: r.payers, Rules: []fileRule{}}
	for _, rule := range r.rules {
		canonical.Rules = append(canonical.Rules, rule.canonical())
	}
	text, err := json.Marshal(canonical)
	if err != nil {
		panic(err) // Strings and numbers.
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func (r rule) canonical() fileRule {
	out := fileRule{Name: r.name, Kind: r.kind, Count: r.count}
	if r.limits != nil {
		out.Limits = map[string]string{}
		for currency, amount := range r.limits {
			out.Limits[currency] = amount.String()
		}
	}
	switch {
	case r.kind == NewPayee:
		out.Remember = r.within.String()
	case r.within > 0:
		out.Within = r.within.String()
	}
	return out
}

// Meaning says what the rules mean, a line each, for people.
func (r *Rules) Meaning() []string {
	whose := "transfers of every payer are judged"
	if !slices.Contains(r.payers, "") {
		whose = "transfers are judged whose payer begins with " + strings.Join(r.payers, " or ") + "; all others are approved"
	}
	lines := []string{whose}
	for _, rule := range r.rules {
		lines = append(lines, rule.name+": "+rule.meaning())
	}
	if len(r.rules) == 0 {
		lines = append(lines, "there is no rule: all are approved")
	}
	return lines
}

func (r rule) meaning() string {
	switch r.kind {
	case Amount:
		return "flags one of more than " + r.limitText()
	case Velocity:
		return fmt.Sprintf("flags every one after the first %d of a payer within %s", r.count, shortTime(r.within))
	case Total:
		return fmt.Sprintf("flags one with which its payer has paid more than %s within %s", r.limitText(), shortTime(r.within))
	case Repeat:
		return fmt.Sprintf("flags one of the same payer, payee and amount as another within %s", shortTime(r.within))
	}
	return fmt.Sprintf("flags one of more than %s to somebody whom its payer has not paid within %s", r.limitText(), shortTime(r.within))
}

func (r rule) limitText() string {
	var list []string
	for _, currency := range slices.Sorted(maps.Keys(r.limits)) {
		list = append(list, r.limits[currency].String()+" "+currency)
	}
	return strings.Join(list, " or ")
}

// shortTime is 10m in place of 10m0s.
func shortTime(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// judges reports whether the rules look at transfers of a payer.
func (r *Rules) judges(payer string) bool {
	return slices.ContainsFunc(r.payers, func(prefix string) bool { return strings.HasPrefix(payer, prefix) })
}
