package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// differenceFlags are the flags of where the difference of a match goes.
type differenceFlags struct{ account, description, effectiveAt string }

// add adds them. Where a command is about nothing but a difference, their names are shorter.
func (f *differenceFlags) add(cmd *cobra.Command, account, description, about string) {
	cmd.Flags().StringVar(&f.account, account, "", about)
	cmd.Flags().StringVar(&f.description, description, "", "text for people, of the transfer that posts the difference")
	cmd.Flags().StringVar(&f.effectiveAt, "effective-at", "", "value date of that transfer, RFC 3339, such as 2026-11-29T00:00:00Z")
	for _, flag := range []string{account, description, "effective-at"} {
		onlyOnCommandLine(cmd, flag)
	}
}

// spec is nil where no account is given.
func (f *differenceFlags) spec(account string) (*client.DifferenceSpec, error) {
	if f.account == "" {
		if f.description != "" || f.effectiveAt != "" {
			return nil, usagef("a difference is posted only if --%s says to what account", account)
		}
		return nil, nil
	}
	at, err := parseTime("--effective-at", f.effectiveAt)
	if err != nil {
		return nil, err
	}
	return &client.DifferenceSpec{Account: ledger.AccountID(f.account), Description: f.description, EffectiveAt: at}, nil
}

// confirmFlags are the flags of confirm.
type confirmFlags struct {
	differenceFlags
	bankAccount, reason, id string
	run                     int64
	group                   int
	lines, entries          []string
}

const entryHelp = "TRANSFER or #SEQUENCE of the books, with :AMOUNT for a part of it; #0 is what was brought forward"

func (a *app) reconcileConfirmCommand() *cobra.Command {
	var f confirmFlags
	cmd := &cobra.Command{
		Use:   "confirm --bank-account A (--group G | --line N... --entry E...)",
		Short: "Say that lines and entries are the same movement; to do it again is no error",
		Long: `Say that lines of the bank and entries of the books are the same movement: a group that a run suggests, or any that come to the same.

  khata reconcile confirm --bank-account main --run 21 --group 1
  khata reconcile confirm --bank-account main --line 12 --entry order-77
  khata reconcile confirm --bank-account main --line 12:100.00 --entry '#45/2' --reason "the rest is another customer's"

An amount after a colon takes a part; without one it is all that is open. If the id of a transfer ends in a colon and a number, end it with another
colon: --entry pay:2026: is the transfer pay:2026. Of a transfer with several entries in the account, #SEQUENCE/LEG is one.

If they do not come to the same, --difference-account says to what account the difference is posted, such as expenses:bank-fees. It is posted once,
however often the command is run. If somebody else has decided about an item first, it says who and when, and the exit code is 4.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := f.spec()
			if err != nil {
				return err
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				if spec.Group != 0 && spec.Run == 0 {
					run, err := r.Run(cmd.Context(), spec.BankAccount, 0)
					if err != nil {
						return err
					}
					spec.Run = run.No
				}
				d, replayed, err := r.Confirm(cmd.Context(), spec)
				if err != nil {
					return f.explain(decided(err))
				}
				return a.printDecision(d, &replayed)
			}, map[string]string{"difference.account": "--difference-account", "difference.description": "--difference-description",
				"difference.effective_at": "--effective-at"})
		},
	}
	bankAccountFlag(cmd, &f.bankAccount)
	cmd.Flags().IntVar(&f.group, "group", 0, "a group that the run suggests")
	cmd.Flags().Int64Var(&f.run, "run", 0, "the run that suggests it; 0 is the last one")
	cmd.Flags().StringArrayVar(&f.lines, "line", nil, "number of a line of the bank, with :AMOUNT for a part of it; several times for several")
	cmd.Flags().StringArrayVar(&f.entries, "entry", nil, entryHelp+"; several times for several")
	f.add(cmd, "difference-account", "difference-description", "account to which the difference is posted, such as expenses:bank-fees")
	addReason(cmd, &f.reason, "why, for people")
	addDecisionID(cmd, &f.id)
	for _, flag := range []string{"group", "run", "line", "entry"} {
		onlyOnCommandLine(cmd, flag)
	}
	return cmd
}

func addReason(cmd *cobra.Command, reason *string, about string) {
	cmd.Flags().StringVar(reason, "reason", "", about)
	onlyOnCommandLine(cmd, "reason")
}

func addDecisionID(cmd *cobra.Command, id *string) {
	cmd.Flags().StringVar(id, "id", "", "what you know this by: the same id again is the same decision (default: the same items by the same caller are)")
	onlyOnCommandLine(cmd, "id")
}

func (f *confirmFlags) spec() (spec client.ConfirmSpec, err error) {
	spec = client.ConfirmSpec{BankAccount: f.bankAccount, RequestID: f.id, Run: f.run, Group: f.group, Reason: f.reason}
	items := len(f.lines)+len(f.entries) > 0
	switch err := needBankAccount(f.bankAccount); {
	case err != nil:
		return spec, err
	case f.group == 0 && !items:
		return spec, usagef("give --group, or --line and --entry: khata reconcile show --suggestions shows groups, --results lines and entries")
	case f.group != 0 && items:
		return spec, usagef("give either --group, or --line and --entry")
	case len(f.lines) == 1 && len(f.entries) == 0:
		return spec, usagef("give an --entry, too, that is the same movement as line %s, or another --line that it cancels out with; "+
			"one that has no counterpart: khata reconcile ignore", f.lines[0])
	case len(f.entries) == 1 && len(f.lines) == 0:
		return spec, usagef("give a --line, too, that is the same movement as entry %s, or another --entry that it cancels out with; "+
			"one that has no counterpart: khata reconcile ignore", f.entries[0])
	case f.group < 0:
		return spec, usagef("--group %d: want the number of a group: khata reconcile show --suggestions shows them", f.group)
	case f.group == 0 && f.run != 0:
		return spec, usagef("--run goes with --group")
	}
	if spec.Lines, err = takes(f.lines, parseLineTake); err != nil {
		return spec, err
	}
	if spec.Entries, err = takes(f.entries, parseEntryTake); err != nil {
		return spec, err
	}
	spec.Difference, err = f.differenceFlags.spec("difference-account")
	return spec, err
}

// explain adds to an error what may have been meant, and what can be done.
func (f *confirmFlags) explain(err error) error {
	switch ledger.CodeOf(err) {
	case ledger.CodeTransferNotFound:
		return explainEntry(f.entries, err)
	case ledger.CodeInsufficientFunds, ledger.CodeCeilingExceeded, ledger.CodeAccountFrozen, ledger.CodeAccountClosed, ledger.CodePeriodClosed:
		return fmt.Errorf("%w. The match is there, and its difference is not posted: khata reconcile approve posts it", err)
	}
	return err
}

// explainEntry tells how an id is written that has been read as one with an amount.
func explainEntry(entries []string, err error) error {
	for _, text := range entries {
		if found := amountAfter.FindStringSubmatch(text); found != nil && found[2] != "" {
			return fmt.Errorf("%w (--entry %s is read as %s of transfer %s; if all of it is the id, write --entry %s:)", err, text, found[2], found[1], text)
		}
	}
	return err
}

func (a *app) reconcileIgnoreCommand() *cobra.Command {
	var bankAccount, line, entry, reason, id string
	cmd := &cobra.Command{
		Use:   "ignore --bank-account A (--line N | --entry E) --reason REASON",
		Short: "Say that a line or an entry has no counterpart and needs none; to do it again is no error",
		Long: `Say that a line of the bank, or an entry of the books, has no counterpart and needs none. It stays in the reconciliation statement, among what
was ignored. khata reconcile unmatch takes it back.

  khata reconcile ignore --bank-account main --line 14 --reason "the bank's test payment, given back on the same day"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec := client.IgnoreSpec{BankAccount: bankAccount, RequestID: id, Reason: reason}
			switch err := needBankAccount(bankAccount); {
			case err != nil:
				return err
			case (line == "") == (entry == ""):
				return usagef("give either --line or --entry")
			case reason == "":
				return usagef("--reason is required: why it has no counterpart and needs none")
			case line != "":
				take, err := parseLineTake(line)
				if err != nil {
					return err
				}
				spec.Line = &take
			default:
				take, err := parseEntryTake(entry)
				if err != nil {
					return err
				}
				spec.Entry = &take
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				d, replayed, err := r.Ignore(cmd.Context(), spec)
				if ledger.CodeOf(err) == ledger.CodeTransferNotFound {
					return explainEntry([]string{entry}, err)
				}
				if err != nil {
					return decided(err)
				}
				return a.printDecision(d, &replayed)
			})
		},
	}
	bankAccountFlag(cmd, &bankAccount)
	cmd.Flags().StringVar(&line, "line", "", "number of a line of the bank, with :AMOUNT for a part of it")
	cmd.Flags().StringVar(&entry, "entry", "", entryHelp)
	addReason(cmd, &reason, "why (required)")
	addDecisionID(cmd, &id)
	onlyOnCommandLine(cmd, "line")
	onlyOnCommandLine(cmd, "entry")
	return cmd
}

// decisionFields are fields of commands whose argument is the number of a decision.
var decisionFields = map[string]string{
	"decision": "DECISION; khata reconcile decisions shows them", "match": "DECISION; khata reconcile decisions shows them",
	"difference.account": "--account", "difference.description": "--description", "difference.effective_at": "--effective-at",
}

func (a *app) reconcileUnmatchCommand() *cobra.Command {
	spec := client.UndoSpec{}
	cmd := &cobra.Command{
		Use:   "unmatch DECISION --bank-account A --reason REASON",
		Short: "Take a decision back: its lines and entries are open again",
		Long: `Take a match back, or that an item is ignored: its lines and entries are open again, and no later run confirms the same again without a person.
The decision stays on record, with who took it back and why. If its difference was posted, that entry is open, too; with --reverse-difference the
transfer is reversed, and the two entries are matched with each other.`,
		Args: exactArgs("DECISION"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := needBankAccount(spec.BankAccount); err != nil {
				return err
			}
			if spec.Decision, err = number("decision", args[0], "decisions"); err != nil {
				return err
			}
			if spec.Reason == "" {
				return usagef("--reason is required: why the decision is taken back")
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				d, replayed, err := r.Undo(cmd.Context(), spec)
				if err != nil {
					return decided(err)
				}
				return a.printDecision(d, &replayed)
			}, decisionFields)
		},
	}
	bankAccountFlag(cmd, &spec.BankAccount)
	addReason(cmd, &spec.Reason, "why (required)")
	cmd.Flags().BoolVar(&spec.ReverseDifference, "reverse-difference", false, "reverse the transfer with which its difference was posted, too")
	onlyOnCommandLine(cmd, "reverse-difference")
	return cmd
}

func (a *app) reconcileApproveCommand() *cobra.Command {
	var f differenceFlags
	var bankAccount string
	cmd := &cobra.Command{
		Use:   "approve DECISION --bank-account A --account ACCOUNT",
		Short: "Post the difference of a match to an account; however often, it is posted once",
		Args:  exactArgs("DECISION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needBankAccount(bankAccount); err != nil {
				return err
			}
			no, err := number("decision", args[0], "decisions")
			if err != nil {
				return err
			}
			if f.account == "" {
				return usagef("--account is required: to what account the difference goes, such as expenses:bank-fees")
			}
			spec, err := f.spec("account")
			if err != nil {
				return err
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				d, replayed, err := r.ApproveDifference(cmd.Context(), bankAccount, no, *spec)
				if err != nil {
					return decided(err)
				}
				return a.printDecision(d, &replayed)
			}, decisionFields)
		},
	}
	bankAccountFlag(cmd, &bankAccount)
	f.add(cmd, "account", "description", "account to which the difference is posted, such as expenses:bank-fees (required)")
	return cmd
}
