package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) reconcileReportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Make the reconciliation statement, the list of all items, or what changed from one run to another",
		Long: `Make a report about a bank account, as a table, CSV, JSON or a workbook. The statement checks itself: if anything is unexplained, all of it is
written, and the exit code is 1.

  khata reconcile report statement --bank-account main --day 2026-01-31 --detailed --file january.xlsx
  khata reconcile report items --bank-account main --open --format csv
  khata reconcile report changes --bank-account main --older 21`,
	}
	cmd.AddCommand(a.reconcileStatementCommand(), a.reconcileItemsCommand(), a.reconcileChangesCommand())
	return cmd
}

// reconcileReport makes the command of a report: check says whether the flags go together.
func (a *app) reconcileReport(cmd *cobra.Command, request *client.ReconcileReportRequest, check func() error) *cobra.Command {
	var f sheetFlags
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(needBankAccount(request.BankAccount), check()); err != nil {
			return err
		}
		return a.withReconciliation(func(r *client.Reconciliation) error {
			return a.writeSheet(f, func(w sheet.Writer) error { return r.Report(cmd.Context(), *request, fromServer{w}) })
		})
	}
	bankAccountFlag(cmd, &request.BankAccount)
	f.add(cmd)
	return cmd
}

func nothingToCheck() error { return nil }

func (a *app) reconcileStatementCommand() *cobra.Command {
	request := client.ReconcileReportRequest{Report: "statement"}
	cmd := &cobra.Command{
		Use:   "statement --bank-account A",
		Short: "From the balance in the books, over all that the two sides do not have in common, to the balance at the bank",
		Long: `The reconciliation statement as of a day: from the balance in the books, over what only the books have, what only the bank has, what was matched
later, what was ignored, and differences that are not posted, to the balance at the bank. What is unexplained is zero, or a check has failed.

With the two numbers in its head as --as-of and --through it is the same whenever it is made again.`,
	}
	cmd.Flags().StringVar(&request.Day, "day", "", "the day at whose end the balances are, such as 2026-01-31 (default: the last that the bank's files cover)")
	cmd.Flags().BoolVar(&request.Detailed, "detailed", false, "list each item, and not only what they come to by age")
	cmd.Flags().Int64Var(&request.AsOf, "as-of", 0, "the number up to which lines and decisions count; 0 is all there are")
	addThrough(cmd, &request.Through)
	for _, flag := range []string{"day", "detailed", "as-of"} {
		onlyOnCommandLine(cmd, flag)
	}
	return a.reconcileReport(cmd, &request, nothingToCheck)
}

func (a *app) reconcileItemsCommand() *cobra.Command {
	request := client.ReconcileReportRequest{Report: "items"}
	cmd := &cobra.Command{
		Use:   "items --bank-account A",
		Short: "All lines and entries with their outcomes after a run, and who decided",
	}
	cmd.Flags().Int64Var(&request.Run, "run", 0, "the run after which they are listed; 0 is the last one")
	addOutcome(cmd, &request.Side, &request.Outcomes)
	cmd.Flags().StringVar(&request.From, "from", "", "the first day of items, such as 2026-01-01")
	cmd.Flags().StringVar(&request.To, "to", "", "the last day of items, such as 2026-01-31")
	cmd.Flags().BoolVar(&request.Open, "open", false, "without what is settled")
	for _, flag := range []string{"run", "from", "to", "open"} {
		onlyOnCommandLine(cmd, flag)
	}
	return a.reconcileReport(cmd, &request, nothingToCheck)
}

func (a *app) reconcileChangesCommand() *cobra.Command {
	request := client.ReconcileReportRequest{Report: "changes"}
	cmd := &cobra.Command{
		Use:   "changes --bank-account A --older N",
		Short: "What a run says of open items otherwise than an earlier one",
	}
	cmd.Flags().Int64Var(&request.Run, "run", 0, "the newer run; 0 is the last one")
	cmd.Flags().Int64Var(&request.Older, "older", 0, "the older run (required)")
	onlyOnCommandLine(cmd, "run")
	onlyOnCommandLine(cmd, "older")
	return a.reconcileReport(cmd, &request, func() error {
		if request.Older == 0 {
			return usagef("--older is required: the run that the last one, or --run, is compared with; khata reconcile runs shows them")
		}
		return nil
	})
}

func (a *app) reconcileDriftCommand() *cobra.Command {
	var f sheetFlags
	var profile profileFlags
	var moneyIn, basis string
	var spec client.DriftSpec
	cmd := &cobra.Command{
		Use:   "drift FILE --profile P --account 'customer:{account}'",
		Short: "Compare the balances that a file of many accounts has beside its rows with those of the books",
		Long: `Compare the balances that a CSV file has beside its rows with those of the books, each account at its last day in the file. Nothing is imported,
and the file need not add up: that is what is looked at. In --account, {account} stands for the number that the file has.

  khata reconcile drift transactions.csv --profile-file core.json --account 'customer:{account}' --zone Europe/Prague --file drift.xlsx`,
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch err := profile.check(); {
			case err != nil:
				return err
			case profile.name == "" && profile.file == "":
				return usagef("--profile or --profile-file is required: how the file is read")
			case spec.Account == "":
				return usagef("--account is required: the account of the books that an account of the file is, such as customer:{account}")
			}
			return a.runDrift(cmd.Context(), args[0], profile, spec, ledger.Direction(moneyIn), client.Basis(basis), f)
		},
	}
	profile.add(cmd)
	cmd.Flags().StringVar(&spec.Account, "account", "", "account of the books, with {account} in the place of the file's number (required)")
	cmd.Flags().StringVar(&moneyIn, "money-in", "", "debit or credit: side on which incoming money stands in the books (default: the normal side of each account)")
	cmd.Flags().StringVar(&basis, "basis", "booking", "booking: when Khata recorded a transfer; value: its value date, if it has one")
	cmd.Flags().StringVar(&spec.Zone, "zone", "UTC", "time zone in which days end, such as Asia/Dhaka")
	cmd.Flags().BoolVar(&spec.All, "all", false, "the accounts that agree, too")
	addThrough(cmd, &spec.Through)
	for _, flag := range []string{"account", "money-in", "basis", "all"} {
		onlyOnCommandLine(cmd, flag)
	}
	f.add(cmd)
	return cmd
}

func (a *app) runDrift(
	ctx context.Context, path string, profile profileFlags, spec client.DriftSpec, moneyIn ledger.Direction, basis client.Basis, f sheetFlags,
) (err error) {
	spec.MoneyIn, spec.Basis, spec.Profile = moneyIn, basis, profile.name
	if profile.file != "" || profile.version != 0 { // The server has the last version itself.
		spec.Profile = ""
		if spec.ProfileContent, _, err = profile.read(ctx, a); err != nil {
			return err
		}
	}
	in, _, err := a.openInput(path)
	if err != nil {
		return err
	}
	defer in.Close()
	return a.withReconciliation(func(r *client.Reconciliation) error {
		err := a.writeSheet(f, func(w sheet.Writer) error { return r.Drift(ctx, spec, in, fromServer{w}) })
		var refused *client.BankFileRefusal
		if errors.As(err, &refused) {
			return &refusedFile{path: path, refusal: refused}
		}
		return err
	}, map[string]string{"profile_content": "--profile-file", "file": "FILE"})
}
