package fraud_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/fraud"
)

func parse(t testing.TB, text string) *fraud.Rules {
	t.Helper()
	rules, err := fraud.ParseRules([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// of makes rules for wallets.
func of(t testing.TB, rules ...string) *fraud.Rules {
	t.Helper()
	return parse(t, `{"payers": ["wallet:"], "rules": [`+strings.Join(rules, ",")+`]}`)
}

func TestParseRules_Errors(t *testing.T) {
	t.Parallel()
	rule := func(text string) string { return `{"payers": ["wallet:"], "rules": [` + text + `]}` }
	for want, text := range map[string]string{
		"the rules are not JSON of the form":                   `payers: wallet`,
		`unknown field "rule"`:                                 `{"payers": [""], "rule": []}`,
		`unknown field "limit"`:                                rule(`{"name": "a", "kind": "amount", "limit": {"BDT": "1"}}`),
		"cannot unmarshal number":                              rule(`{"name": "a", "kind": "amount", "limits": {"BDT": 1.5}}`),
		"something comes after the rules":                      `{"payers": [""]} {}`,
		"there are no payers: give the prefixes":               `{"rules": []}`,
		`prefix "a b" of payers: no account can begin so`:      `{"payers": ["a b"]}`,
		"there are 101 prefixes of payers: 100 at most":        `{"payers": ["` + strings.Repeat(`a", "`, 100) + `b"]}`,
		"there are 101 rules: 100 at most":                     rule(strings.Repeat(`{}, `, 100) + `{}`),
		`rule 1 (""): give it a name`:                          rule(`{"kind": "amount"}`),
		`rule 1 ("A"): give it a name of 1 to 64 of a-z`:       rule(`{"name": "A"}`),
		`rule 2 ("a"): another rule has that name`:             rule(`{"name": "a", "kind": "repeat", "within": "1m"}, {"name": "a", "kind": "repeat", "within": "2m"}`),
		`its kind is "speed": choose one of amount, new_payee`: rule(`{"name": "a", "kind": "speed"}`),
		"a rule of kind amount needs limits":                   rule(`{"name": "a", "kind": "amount"}`),
		"a rule of kind amount has no within: take it out":     rule(`{"name": "a", "kind": "amount", "limits": {"BDT": "1"}, "within": "1m"}`),
		"a rule of kind repeat has no count: take it out":      rule(`{"name": "a", "kind": "repeat", "count": 2, "within": "1m"}`),
		"a rule of kind velocity needs count":                  rule(`{"name": "a", "kind": "velocity", "within": "1m"}`),
		"a rule of kind velocity has no limits":                rule(`{"name": "a", "kind": "velocity", "count": 2, "within": "1m", "limits": {}}`),
		"its count is -1: give one from 1 to 499":              rule(`{"name": "a", "kind": "velocity", "count": -1, "within": "1m"}`),
		"its count is 500: give one from 1 to 499":             rule(`{"name": "a", "kind": "velocity", "count": 500, "within": "1m"}`),
		"a rule of kind new_payee needs remember":              rule(`{"name": "a", "kind": "new_payee", "limits": {"BDT": "1"}}`),
		"a rule of kind new_payee has no within":               rule(`{"name": "a", "kind": "new_payee", "limits": {"BDT": "1"}, "within": "1h", "remember": "1h"}`),
		`its within is "10": give a time such as 30s`:          rule(`{"name": "a", "kind": "repeat", "within": "10"}`),
		"its within is -1m: give a time from 1ms to 744h":      rule(`{"name": "a", "kind": "repeat", "within": "-1m"}`),
		"its within is 745h: give a time from 1ms to 744h":     rule(`{"name": "a", "kind": "repeat", "within": "745h"}`),
		"its within is 1500001ns: give a time":                 rule(`{"name": "a", "kind": "repeat", "within": "1500001ns"}`),
		"its remember is 9601h: give a time from 1ms to 9600h": rule(`{"name": "a", "kind": "new_payee", "limits": {"BDT": "1"}, "remember": "9601h"}`),
		"its limits are empty":                                 rule(`{"name": "a", "kind": "amount", "limits": {}}`),
		`"bdt" is not a currency code`:                         rule(`{"name": "a", "kind": "amount", "limits": {"bdt": "1"}}`),
		`"0" is not positive`:                                  rule(`{"name": "a", "kind": "amount", "limits": {"BDT": "0"}}`),
		`"-5" is not an amount`:                                rule(`{"name": "a", "kind": "amount", "limits": {"BDT": "-5"}}`),
		`"1e9" is not an amount`:                               rule(`{"name": "a", "kind": "amount", "limits": {"BDT": "1e9"}}`),
	} {
		if _, err := fraud.ParseRules([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestRules_Identity(t *testing.T) {
	t.Parallel()
	first := parse(t, `{"payers": ["wallet:", "shop:"], "rules": [{"name": "a", "kind": "amount", "limits": {"USD": "5", "BDT": "500.00"}}, {"name": "b", "kind": "repeat", "within": "60s"}]}`)
	same := parse(t, `{"rules": [{"kind": "amount", "name": "a", "limits": {"BDT": "500", "USD": "5.0"}}, {"name": "b", "kind": "repeat", "within": "1m"}],
		"payers": ["shop:", "wallet:", "shop:"]}`)
	// It is in verdicts of long ago, so it must not change.
	if want := "fd6af45646c536fd"; first.Identity() != want || same.Identity() != want {
		t.Errorf("%s and %s, want %s", first.Identity(), same.Identity(), want)
	}
	seen := map[string]bool{}
	for _, text := range []string{
		`{"payers": ["wallet:"], "rules": []}`, `{"payers": ["shop:"], "rules": []}`,
		`{"payers": ["wallet:"], "rules": [{"name": "a", "kind": "repeat", "within": "1m"}]}`,
		`{"payers": ["wallet:"], "rules": [{"name": "a", "kind": "repeat", "within": "2m"}]}`,
		`{"payers": ["wallet:"], "rules": [{"name": "b", "kind": "repeat", "within": "2m"}]}`,
		`{"payers": ["wallet:"], "rules": [{"name": "b", "kind": "new_payee", "limits": {"BDT": "1"}, "remember": "2m"}]}`,
		`{"payers": ["wallet:"], "rules": [{"name": "b", "kind": "total", "limits": {"BDT": "1"}, "within": "2m"}]}`,
		`{"payers": ["wallet:"], "rules": [{"name": "b", "kind": "total", "limits": {"BDT": "1.1"}, "within": "2m"}]}`,
		`{"payers": ["wallet:"], "rules": [{"name": "b", "kind": "velocity", "count": 2, "within": "2m"}]}`,
		`{"payers": ["wallet:"], "rules": [{"name": "b", "kind": "velocity", "count": 3, "within": "2m"}]}`,
	} {
		rules := parse(t, text)
		if seen[rules.Identity()] {
			t.Errorf("%s has the identity of others", text)
		}
		seen[rules.Identity()] = true
	}
}

func TestRules_Meaning(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{
		"transfers are judged whose payer begins with wallet:; all others are approved",
		"large: flags one of more than 50000 BDT or 500 USD",
		"haste: flags every one after the first 10 of a payer within 10m",
		"daily: flags one with which its payer has paid more than 100000 BDT or 1000 USD within 24h",
		"twice: flags one of the same payer, payee and amount as another within 2m",
		"stranger: flags one of more than 20000 BDT or 200 USD to somebody whom its payer has not paid within 720h",
	}, fraud.DefaultRules().Meaning()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"transfers of every payer are judged", "there is no rule: all are approved"}, parse(t, `{"payers": ["", "a"]}`).Meaning()); diff != "" {
		t.Error(diff)
	}
}

// What people are shown is what khata up does.
func TestDefaultRules_Example(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/examples/fraud-rules.json")
	if err != nil {
		t.Fatal(err)
	}
	if parse(t, string(text)).Identity() != fraud.DefaultRules().Identity() {
		t.Error("docs/examples/fraud-rules.json is not internal/fraud/default-rules.json any more")
	}
}

func TestRules_Judges(t *testing.T) {
	t.Parallel()
	rules := parse(t, `{"payers": ["wallet:", "shop:a"]}`)
	for payer, want := range map[string]bool{"wallet:": true, "wallet:a": true, "shop:ab": true, "shop:b": false, "mywallet:a": false, "wallet": false} {
		if rules.Judges(payer) != want {
			t.Errorf("%s: %v", payer, !want)
		}
	}
}
