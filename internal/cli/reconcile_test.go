package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

var byText = cmp.Comparer(func(a, b decimal.Decimal) bool { return ledger.FormatWritten(a) == ledger.FormatWritten(b) })

func TestParseLineTake(t *testing.T) {
	t.Parallel()
	amount := decimal.RequireFromString
	for text, want := range map[string]client.LineTake{
		"12": {Line: 12}, "12:": {Line: 12}, "12:100.00": {Line: 12, Amount: amount("100.00")}, "12:-5": {Line: 12, Amount: amount("-5")},
		"12:+5.5": {Line: 12, Amount: amount("5.5")},
	} {
		got, err := parseLineTake(text)
		if diff := cmp.Diff(want, got, byText); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", "x", "0", "-1", "12:x", "12:0", "12:0.00", "12:1e3", ":5", "12:5:5", "12.5", "99999999999999999999"} {
		if got, err := parseLineTake(text); exitCode(err) != ExitUsage || err == nil {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
}

// The ids of transfers have colons, slashes and numbers in them, too.
func TestParseEntryTake(t *testing.T) {
	t.Parallel()
	amount := decimal.RequireFromString
	for text, want := range map[string]client.EntryTake{
		"order-77":                          {TransferID: "order-77"},
		"order-77:12.50":                    {TransferID: "order-77", Amount: amount("12.50")},
		"a/1":                               {TransferID: "a/1"},
		"khata:reconcile:difference:23:1":   {TransferID: "khata:reconcile:difference:23", Amount: amount("1")},
		"khata:reconcile:difference:23:1:":  {TransferID: "khata:reconcile:difference:23:1"},
		"khata:reconcile:difference:23:1:5": {TransferID: "khata:reconcile:difference:23:1", Amount: amount("5")},
		"pay:x":                             {TransferID: "pay:x"},
		"pay:1.":                            {TransferID: "pay:1."},
		"#45":                               {Sequence: 45},
		"#45:-1.00":                         {Sequence: 45, Amount: amount("-1.00")},
		"#45/2":                             {Sequence: 45, Leg: 2},
		"#45/2:7":                           {Sequence: 45, Leg: 2, Amount: amount("7")},
		"#0":                                {Forward: true},
		"#0:7":                              {Forward: true, Amount: amount("7")},
	} {
		got, err := parseEntryTake(text)
		if diff := cmp.Diff(want, got, byText); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", ":5", "#", "#x", "#-1", "#45/", "#45/0", "#45/x", "#45/2/3", "#45:0", "T-1:0"} {
		if got, err := parseEntryTake(text); exitCode(err) != ExitUsage || err == nil {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
}

// An error about a field is one about a flag, with all that was said around it, and whatever else it is.
func TestNameFlags(t *testing.T) {
	t.Parallel()
	flags := map[string]string{"profile": "--profile; khata reconcile profile list shows them", "lines": "--line"}
	wrapped := conflictError{fmt.Errorf("a.csv: %w", ledger.Invalid("profile", "is required"))}
	err := nameFlags(wrapped, flags)
	if want := "a.csv: invalid argument: --profile: is required (khata reconcile profile list shows them)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	var typed *ledger.Error
	var conflict conflictError
	if !errors.As(err, &typed) || typed.Violations[0].Field != "--profile" || !errors.As(err, &conflict) || !errors.Is(err, ledger.CodeInvalidArgument) {
		t.Errorf("%v is not what it was", err)
	}
	for field, want := range map[string]string{
		"lines[3].amount": "--line", "settings.lines": "--line", "unknown[1]": "unknown[1]", "lines": "--line",
	} {
		err := nameFlags(ledger.Invalid(field, "is wrong"), flags)
		if !strings.Contains(err.Error(), want+": is wrong") {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, err := range []error{nil, errors.New("x"), ledger.Errorf(ledger.CodeConflict, "x"), &client.BankFileRefusal{Reason: "gap"}} {
		if got := nameFlags(err, flags); !errors.Is(got, err) || fmt.Sprintf("%T", got) != fmt.Sprintf("%T", err) {
			t.Errorf("%v became %v", err, got)
		}
	}
}

// That somebody else has decided first has a code of its own: to run the command again does not help.
func TestConflicts(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{IO: IO{Err: &out}}
	err := decided(ledger.Errorf(ledger.CodeConflict, "ana matched it"))
	if a.printError(err); exitCode(err) != ExitConflict || strings.Contains(out.String(), "again") {
		t.Errorf("exit %d: %s", exitCode(err), &out)
	}
	if err := decided(ledger.Errorf(ledger.CodeUnavailable, "away")); exitCode(err) != ExitUnavailable {
		t.Errorf("exit %d", exitCode(err))
	}
	if err := (&refusedFile{refusal: &client.BankFileRefusal{Reason: "gap"}}); exitCode(err) != ExitFailure {
		t.Errorf("exit %d", exitCode(err))
	}
}

// What the client says are the defaults are those of the server.
func TestDefaultBankSettings(t *testing.T) {
	t.Parallel()
	want, got := reconcile.DefaultSettings(), client.DefaultBankSettings()
	var rules []string
	for _, rule := range want.Confirm {
		rules = append(rules, string(rule))
	}
	if diff := cmp.Diff(client.BankSettings{
		Identifiers: want.Identifiers, Profile: want.Profile, DaysBefore: want.DaysBefore, DaysAfter: want.DaysAfter, Tolerance: want.Tolerance,
		TransitDays: want.TransitDays, ReferenceKeys: want.ReferenceKeys, Confirm: rules, AnyNumbers: want.AnyNumbers, IgnoreBalances: want.IgnoreBalances,
	}, got, byText); diff != "" {
		t.Errorf("(-server +client):\n%s", diff)
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	list := newColumns("NAME", ">SUM", "NOTE", "EMPTY")
	if got := list.text(""); got != "" {
		t.Errorf("without rows: %q", got)
	}
	list.row("বিকাশ", "1.00", "", "")
	list.row("a", "100.00", "\x1b[2J", "")
	want := "  NAME      SUM  NOTE\n  বিকাশ    1.00\n  a      100.00  \"\\x1b[2J\"\n"
	if diff := cmp.Diff(want, list.text("  ")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := short("আমার সোনার বাংলা", 5) + short("abc", 3); got != "আমার…abc" {
		t.Errorf("%q", got)
	}
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 21: "21st", 113: "113th", 122: "122nd"} {
		if got := ordinal(n); got != want {
			t.Errorf("%d is the %s", n, got)
		}
	}
}
