package cli

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"
	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) reconcileCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{
		Use:   "reconcile",
		Short: "Compare the books with the bank's files: import, match, decide, report",
		Long: `Compare the books with what the bank says, line by line, until the difference is explained: docs/reconciliation.md.

  khata reconcile account create main --account assets:bank:main --identifier DE89370400440532013000
  khata reconcile preview january.csv --profile-file profile.json    what is read of a file; nothing is imported
  khata reconcile profile save profile.json
  khata reconcile import january.csv --bank-account main --profile city
  khata reconcile match --bank-account main                          confirms what is certain
  khata reconcile show --bank-account main --suggestions             what a person is asked
  khata reconcile confirm --bank-account main --run 21 --group 1
  khata reconcile report statement --bank-account main --file january.xlsx

Amounts are positive where they are in the account holder's favour, of lines of the bank and of entries of the books. Set KHATA_BANK_ACCOUNT, and
--bank-account can be left out.`,
	})
	cmd.AddCommand(
		a.reconcileAccountCommand(), a.reconcileProfileCommand(), a.reconcilePreviewCommand(), a.reconcileImportCommand(), a.reconcileFilesCommand(),
		a.reconcileLinesCommand(), a.reconcileMatchCommand(), a.reconcileShowCommand(), a.reconcileRunsCommand(), a.reconcileConfirmCommand(),
		a.reconcileIgnoreCommand(), a.reconcileUnmatchCommand(), a.reconcileApproveCommand(), a.reconcileDecisionsCommand(), a.reconcileReportCommand(),
		a.reconcileDriftCommand(), a.reconcileRepeatCommand(),
	)
	return cmd
}

// bankAccountFlag adds the flag of the bank account that a command is about.
func bankAccountFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "bank-account", "", "the bank account (required)")
}

// needBankAccount is an error unless the bank account is given.
func needBankAccount(name string) error {
	if name == "" {
		return usagef("--bank-account is required: khata reconcile account list shows them")
	}
	return nil
}

// withReconciliation runs f with what compares the books with the bank. An error about a field is one about the flag for it; flags has those that are
// called otherwise than fieldFlags says.
func (a *app) withReconciliation(f func(*client.Reconciliation) error, flags ...map[string]string) error {
	return a.withClient(func(c *client.Client) error {
		err := f(c.Reconciliation())
		for _, of := range flags {
			err = nameFlags(err, of)
		}
		return nameFlags(err, fieldFlags)
	})
}

// fieldFlags are the flags for fields of the API, and where what can be given is to be seen.
var fieldFlags = map[string]string{
	"bank_account": "--bank-account; khata reconcile account list shows them", "account": "--account", "money_in": "--money-in", "basis": "--basis",
	"zone": "--zone", "begins": "--begins", "identifiers": "--identifier", "days_before": "--days-before", "days_after": "--days-after",
	"tolerance": "--tolerance", "transit_days": "--transit-days", "reference_keys": "--reference-key", "confirm": "--confirm",
	"bai2_decimals": "--bai2-decimals", "profile": "--profile; khata reconcile profile list shows them", "profile_version": "--profile-version",
	"format": "--format", "run": "--run; khata reconcile runs shows them, and khata reconcile match makes one", "older": "--older; khata reconcile runs shows them", "group": "--group",
	"line": "--line", "lines": "--line", "entry": "--entry", "entries": "--entry; as khata reconcile show --results lists them, such as #45, or #45/2 for one of several", "difference": "--difference-account",
	"reason": "--reason", "request_id": "--id", "request": "--id", "side": "--side", "outcomes": "--outcome", "from": "--from", "to": "--to",
	"day": "--day", "as_of": "--as-of", "through": "--through", "kind": "--kind", "sequence": "--sequence", "money-in": "--money-in",
}

// nameFlags calls the fields that an error is about by their flags.
func nameFlags(err error, flags map[string]string) error {
	var typed *ledger.Error
	var refused *client.BankFileRefusal
	if !errors.As(err, &typed) || errors.As(err, &refused) || len(typed.Violations) == 0 {
		return err
	}
	renamed := *typed
	renamed.Violations = make([]ledger.Violation, len(typed.Violations))
	for i, v := range typed.Violations {
		field := strings.TrimPrefix(v.Field, "settings.")
		name, ok := flags[field]
		if short := field[:strings.IndexAny(field+"[", "[.")]; !ok {
			name, ok = flags[short]
		}
		if ok {
			flag, hint, hinted := strings.Cut(name, "; ")
			v.Field = flag
			if hinted {
				v.Message += " (" + hint + ")"
			}
		}
		renamed.Violations[i] = v
	}
	return &namedError{strings.Replace(err.Error(), typed.Error(), renamed.Error(), 1), &renamed, err}
}

// namedError is an error whose fields are called by their flags, with all that was said around it.
type namedError struct {
	text    string
	renamed *ledger.Error
	err     error
}

func (e *namedError) Error() string { return e.text }

func (e *namedError) Unwrap() []error { return []error{e.renamed, e.err} }

// conflictError is that somebody else has decided first. To ask again does not help, as it would with other conflicts.
type conflictError struct{ error }

func (e conflictError) Unwrap() error { return e.error }

// decided makes a conflict about a decision final.
func decided(err error) error {
	if ledger.CodeOf(err) == ledger.CodeConflict {
		return conflictError{err}
	}
	return err
}

// number reads a number of something, which is 1 or more.
func number(what, text, list string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, usagef("%q is no number of a %s: khata reconcile %s shows them", text, what, list)
	}
	return n, nil
}

// amountAfter finds the amount after the last colon, if there is one. Ids have colons, too: one at the end says that there is no amount.
var amountAfter = regexp.MustCompile(`^(.*):([+-]?[0-9]+(?:\.[0-9]+)?)?$`)

// parseTake reads what is taken, and how much of it: zero is all that is open.
func parseTake(flag, text string) (what string, amount decimal.Decimal, err error) {
	found := amountAfter.FindStringSubmatch(text)
	if found == nil {
		return text, decimal.Zero, nil
	}
	if found[2] == "" {
		return found[1], decimal.Zero, nil
	}
	amount, err = ledger.ParseBalance(strings.TrimPrefix(found[2], "+"), flag)
	if err == nil && amount.IsZero() {
		err = usagef("%s %s: an amount of zero takes nothing; without one it is all that is open", flag, text)
	}
	return found[1], amount, err
}

// parseLineTake reads NUMBER[:AMOUNT].
func parseLineTake(text string) (client.LineTake, error) {
	what, amount, err := parseTake("--line", text)
	if err != nil {
		return client.LineTake{}, err
	}
	no, err := strconv.ParseInt(what, 10, 64)
	if err != nil || no < 1 {
		return client.LineTake{}, usagef("--line %q: want the number of a line, such as 12, or 12:100.00 for a part of it; khata reconcile lines shows them", text)
	}
	return client.LineTake{Line: no, Amount: amount}, nil
}

// parseEntryTake reads TRANSFER[:AMOUNT] or #SEQUENCE[/LEG][:AMOUNT]; #0 is what was brought forward.
func parseEntryTake(text string) (client.EntryTake, error) {
	what, amount, err := parseTake("--entry", text)
	if err != nil {
		return client.EntryTake{}, err
	}
	named, ok := strings.CutPrefix(what, "#")
	if !ok {
		if what == "" {
			return client.EntryTake{}, usagef("--entry %q: want the id of a transfer, or #SEQUENCE", text)
		}
		return client.EntryTake{TransferID: ledger.TransferID(what), Amount: amount}, nil
	}
	sequence, leg, hasLeg := strings.Cut(named, "/")
	take := client.EntryTake{Amount: amount}
	take.Sequence, err = strconv.ParseInt(sequence, 10, 64)
	if err == nil && hasLeg {
		take.Leg, err = strconv.Atoi(leg)
	}
	if err != nil || take.Sequence < 0 || take.Leg < 0 || hasLeg && take.Leg == 0 {
		return client.EntryTake{}, usagef("--entry %q: want #SEQUENCE, or #SEQUENCE/LEG for one of several entries of a transfer, such as #45/2", text)
	}
	take.Forward = take.Sequence == 0
	return take, nil
}

// takes reads all of a flag.
func takes[T any](list []string, parse func(string) (T, error)) ([]T, error) {
	out := make([]T, len(list))
	for i, text := range list {
		var err error
		if out[i], err = parse(text); err != nil {
			return nil, err
		}
	}
	return out, nil
}
