package console

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/ledger"
)

// settingsForm is the form of a bank account's settings, with what was asked.
func (v *visit) settingsForm(b bank, q values) *form {
	if q == nil {
		q = settingsValues(b)
	}
	f := &form{ID: "set-", Action: v.bankPath(b, "settings", nil), Button: "Change the settings", Fields: []field{
		{Name: "version", Kind: "hidden", Value: strconv.Itoa(b.SettingsVersion)},
		{Name: "identifiers", Label: "Known to the bank as", Help: "its IBAN or number, one a line; a file of another one is refused", Kind: "area",
			Value: q.get("identifiers")},
		{Name: "reference_keys", Label: "Keys of metadata with references", Help: "one a line", Kind: "area", Value: q.get("reference_keys")},
		{Name: "profile", Label: "Profile", Help: "by which its CSV files are read; empty is none", Kind: "text", Value: q.get("profile")},
		{Name: "days_before", Label: "Days before", Help: "that the bank’s date may lie before that of the books", Kind: "number", Value: q.get("days_before")},
		{Name: "days_after", Label: "Days after", Help: "that it may lie after it", Kind: "number", Value: q.get("days_after")},
		{Name: "tolerance", Label: "Tolerance", Help: "the most that two amounts of one reference may differ by", Kind: "text", Value: q.get("tolerance")},
		{Name: "transit_days", Label: "Days in transit", Help: "for how long an entry is expected to be on its way", Kind: "number",
			Value: q.get("transit_days")},
		{Name: "bai2_decimals", Label: "Decimals of BAI2 amounts", Help: "such as JPY=2, one a line, where the bank’s are not the currency’s", Kind: "area",
			Value: q.get("bai2_decimals")},
	}}
	for _, rule := range ruleOrder {
		f.Fields = append(f.Fields, field{
			Name: "confirm-" + string(rule), Label: "Confirm by itself: " + ruleNames[rule], Kind: "tick", Checked: q.get("confirm-"+string(rule)) != "",
		})
	}
	f.Fields = append(f.Fields,
		field{Name: "any_numbers", Label: "Take statements whose numbers leave gaps", Kind: "tick", Checked: q.get("any_numbers") != ""},
		field{Name: "ignore_balances", Label: "Take no notice of the balances in files", Kind: "tick", Checked: q.get("ignore_balances") != ""})
	f.Summary = "Settings, version " + strconv.Itoa(b.SettingsVersion)
	return f
}

// ruleOrder are the rules that can be set to confirm by themselves.
var ruleOrder = []reconcile.Rule{reconcile.RuleOpening, reconcile.RuleReference, reconcile.RuleBatch, reconcile.RuleText, reconcile.RuleAmount}

// settingsValues are the settings as the form has them.
func settingsValues(b bank) values {
	s := b.Settings
	q := values{
		"identifiers": {strings.Join(s.Identifiers, "\n")}, "reference_keys": {strings.Join(s.ReferenceKeys, "\n")}, "profile": {s.Profile},
		"days_before": {strconv.Itoa(s.DaysBefore)}, "days_after": {strconv.Itoa(s.DaysAfter)}, "tolerance": {s.Tolerance.String()},
		"transit_days": {strconv.Itoa(s.TransitDays)}, "bai2_decimals": {bai2Text(s.BAI2Decimals)},
	}
	tick := func(name string, is bool) {
		if is {
			q[name] = []string{"1"}
		}
	}
	for _, rule := range s.Confirm {
		tick("confirm-"+string(rule), true)
	}
	tick("any_numbers", s.AnyNumbers)
	tick("ignore_balances", s.IgnoreBalances)
	return q
}

func bai2Text(decimals map[string]int32) string {
	var list []string
	for _, code := range slices.Sorted(maps.Keys(decimals)) {
		list = append(list, fmt.Sprintf("%s=%d", code, decimals[code]))
	}
	return strings.Join(list, "\n")
}

// settingsFacts are the settings for people who may not change them, too.
func settingsFacts(b bank) []factView {
	s := b.Settings
	var rules []string
	for _, rule := range s.Confirm {
		rules = append(rules, ruleNames[rule])
	}
	or := func(text, none string) string {
		if text == "" {
			return none
		}
		return text
	}
	facts := []factView{
		{Title: "Known to the bank as", Value: or(strings.Join(s.Identifiers, ", "), "nothing: files that name an account are refused")},
		{Title: "Profile for CSV", Value: or(s.Profile, "none")}, {Title: "Days before and after", Value: fmt.Sprintf("%d and %d", s.DaysBefore, s.DaysAfter)},
		{Title: "Tolerance", Value: b.in(s.Tolerance)}, {Title: "Days in transit", Value: strconv.Itoa(s.TransitDays)},
		{Title: "Confirmed without a person", Value: or(strings.Join(rules, ", "), "nothing")},
		{Title: "References in metadata", Value: or(strings.Join(s.ReferenceKeys, ", "), "none")},
	}
	if s.AnyNumbers {
		facts = append(facts, factView{Title: "Numbers of statements", Value: "may leave gaps"})
	}
	if s.IgnoreBalances {
		facts = append(facts, factView{Title: "Balances in files", Value: "are not looked at"})
	}
	if len(s.BAI2Decimals) > 0 {
		facts = append(facts, factView{Title: "Decimals of BAI2 amounts", Value: strings.ReplaceAll(bai2Text(s.BAI2Decimals), "\n", ", ")})
	}
	return facts
}

func (v *visit) setBankAccount() error {
	b, err := v.bank()
	if err != nil {
		return err
	}
	q := values(v.r.PostForm)
	if q.get("version") != strconv.Itoa(b.SettingsVersion) {
		return v.showBank(http.StatusConflict, b, func(main *bankMain, _ error) bool {
			main.Wrong = fmt.Sprintf("The settings were not changed: %s has changed them at %s, to version %d. Look at them as they are now, and change them again.",
				b.SettingsBy, main.SettingsAt, b.SettingsVersion)
			main.Settings.Open = true
			return true
		}, errors.New("changed meanwhile"))
	}
	settings, err := settingsOf(q)
	if err == nil {
		_, err = v.config.Reconciler.Set(v.r.Context(), v.ledger, b.Name, settings, v.session.Name)
	}
	if err != nil {
		return v.showBank(refusedStatus(err), b, func(main *bankMain, err error) bool {
			main.Settings = v.settingsForm(b, q)
			return main.Settings.blame(err)
		}, ofForm(err, map[ledger.Code]string{ledger.CodeAmountScale: "tolerance"}))
	}
	return v.see(v.bankPath(b, "", url.Values{"done": {"set"}}))
}

// settingsOf reads settings. It returns CodeInvalidArgument, with all that is wrong.
func settingsOf(q values) (reconcile.Settings, error) {
	s := reconcile.Settings{
		Identifiers: listOf(q.get("identifiers")), ReferenceKeys: listOf(q.get("reference_keys")), Profile: q.get("profile"),
		AnyNumbers: q.get("any_numbers") != "", IgnoreBalances: q.get("ignore_balances") != "",
	}
	var wrong faults
	for name, number := range map[string]*int{"days_before": &s.DaysBefore, "days_after": &s.DaysAfter, "transit_days": &s.TransitDays} {
		n, err := q.number(name)
		wrong.add(err)
		*number = int(min(n, 1<<20)) // What is too many says who sets it.
	}
	if text := q.get("tolerance"); text != "" {
		tolerance, err := amount("tolerance", text)
		wrong.add(err)
		s.Tolerance = tolerance
	}
	for _, rule := range ruleOrder {
		if q.get("confirm-"+string(rule)) != "" {
			s.Confirm = append(s.Confirm, rule)
		}
	}
	for _, item := range listOf(q.get("bai2_decimals")) {
		code, digits, _ := strings.Cut(item, "=")
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 32)
		if err != nil || n < 0 || n > 18 {
			wrong.add(ledger.Invalid("bai2_decimals", "%.40q is not such as JPY=2", item))
			continue
		}
		if s.BAI2Decimals == nil {
			s.BAI2Decimals = map[string]int32{}
		}
		s.BAI2Decimals[strings.ToUpper(strings.TrimSpace(code))] = int32(n)
	}
	return s, wrong.err()
}

// amount reads an amount of a form. Long exponents, which would make numbers of gigabytes, are no amounts.
func amount(name, text string) (decimal.Decimal, error) {
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && c != '.' && c != '-' || len(text) > 60 {
			return decimal.Zero, ledger.Invalid(name, "%.40q is no amount", text)
		}
	}
	d, err := decimal.NewFromString(text)
	if err != nil {
		return decimal.Zero, ledger.Invalid(name, "%.40q is no amount", text)
	}
	return d, nil
}
