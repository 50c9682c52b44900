package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) reconcileMatchCommand() *cobra.Command {
	var bankAccount, id string
	cmd := &cobra.Command{
		Use:   "match --bank-account A",
		Short: "Match lines with entries: confirm what is certain, and say what there is to say of the rest",
		Long: `Make a run of the matching. It confirms what the rules of the bank account confirm without a person, and keeps what it has to say of each line
and entry that is open: khata reconcile show. What people have decided stays as it is. A run never changes; one when nothing is new says the same again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needBankAccount(bankAccount); err != nil {
				return err
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				run, replayed, err := r.Match(cmd.Context(), bankAccount, id)
				if err != nil {
					return err
				}
				return a.printRun(run, &replayed)
			})
		},
	}
	bankAccountFlag(cmd, &bankAccount)
	cmd.Flags().StringVar(&id, "id", "", "what you know this run by: the same id again is the same run (default: each is another)")
	onlyOnCommandLine(cmd, "id")
	return cmd
}

// printRun shows what a run found. replayed is nil where it was not asked for now.
func (a *app) printRun(run client.ReconcileRun, replayed *bool) error {
	if a.json {
		return a.print(toRunJSON(run, replayed), "")
	}
	s := run.Summary
	var out strings.Builder
	fmt.Fprintf(&out, "run %d of bank account %s, the %s  %s by %s", run.No, run.BankAccount, ordinal(run.Ordinal), formatTime(run.RunAt), run.RunBy)
	if replayed != nil && *replayed {
		out.WriteString("  (replayed: it was made before, and nothing was done now)")
	}
	covers := "the bank's files cover no day yet"
	if run.Covers != "" {
		covers = "the bank's files cover days through " + run.Covers
	}
	fmt.Fprintf(&out, "\n%s; confirmed %s, suggests %s\n\n", covers, count(run.Confirmed, "match", "matches"), count(s.Suggestions, "group", "groups"))
	rows := newColumns("", ">COUNT", ">SUM")
	tally := func(title string, t client.ReconcileTally) { rows.row(title, fmt.Sprint(t.Count), written(t.Sum)) }
	outcomes := func(list map[string]client.ReconcileTally) {
		for _, outcome := range sortedKeys(list) {
			tally("    "+outcomeText(outcome), list[outcome])
		}
	}
	tally("Lines of the bank", s.Lines)
	rows.row("  matched", "", written(s.MatchedLines))
	rows.row("  ignored", "", written(s.IgnoredLines))
	tally("  open", s.OpenLines)
	outcomes(s.LineOutcomes)
	rows.row("Entries of the books", "", "")
	rows.row("  matched", "", written(s.MatchedEntries))
	rows.row("  ignored", "", written(s.IgnoredEntries))
	tally("  open", s.OpenEntries)
	outcomes(s.EntryOutcomes)
	if s.InTransit.Count > 0 {
		tally("    of which in transit", s.InTransit)
	}
	out.WriteString(rows.text(""))
	show := fmt.Sprintf("khata reconcile show --bank-account %s --run %d", run.BankAccount, run.No)
	if s.Suggestions > 0 {
		fmt.Fprintf(&out, "\nWhat it suggests: %s --suggestions", show)
	}
	if run.Results > 0 {
		fmt.Fprintf(&out, "\nAll that is open: %s --results", show)
	}
	return a.write(strings.TrimRight(out.String(), "\n") + "\n")
}

// outcomeText is what is said of something that is open. That it is matched waits for a person.
func outcomeText(outcome string) string {
	if outcome == "matched" {
		return "matched, to confirm"
	}
	return strings.ReplaceAll(outcome, "_", " ")
}

// ordinal is a number in a row of things: "1st".
func ordinal(n int) string {
	end := "th"
	if tens := n / 10 % 10; tens != 1 {
		switch n % 10 {
		case 1:
			end = "st"
		case 2:
			end = "nd"
		case 3:
			end = "rd"
		}
	}
	return fmt.Sprint(n) + end
}

// count is a number of things, in words.
func count(n int64, one, many string) string {
	switch n {
	case 0:
		return "no " + one
	case 1:
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (a *app) reconcileRunsCommand() *cobra.Command {
	var bankAccount string
	var limit int
	cmd := &cobra.Command{
		Use:   "runs --bank-account A",
		Short: "List the runs of the matching, the newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needBankAccount(bankAccount); err != nil {
				return err
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				list := a.list(">RUN", "COVERS", ">CONFIRMED", ">SUGGESTS", ">OPEN LINES", ">SUM", ">OPEN ENTRIES", ">SUM", "RUN AT", "BY")
				err := a.listRuns(cmd, r, bankAccount, limit, list)
				if printed := list.end(); printed != nil {
					return printed
				}
				return err
			})
		},
	}
	bankAccountFlag(cmd, &bankAccount)
	addLimit(cmd, &limit)
	return cmd
}

func (a *app) listRuns(cmd *cobra.Command, r *client.Reconciliation, bankAccount string, limit int, list *listing) error {
	n := 0
	for run, err := range r.Runs(cmd.Context(), bankAccount) {
		if err != nil {
			return err
		}
		if n++; limit > 0 && n > limit {
			return nil
		}
		s := run.Summary
		if err := list.add(toRunJSON(run, nil), fmt.Sprint(run.No), run.Covers, fmt.Sprint(run.Confirmed), fmt.Sprint(s.Suggestions), fmt.Sprint(s.OpenLines.Count),
			written(s.OpenLines.Sum), fmt.Sprint(s.OpenEntries.Count), written(s.OpenEntries.Sum), formatTime(run.RunAt), run.RunBy); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) reconcileRepeatCommand() *cobra.Command {
	var bankAccount string
	cmd := &cobra.Command{
		Use:   "repeat RUN --bank-account A",
		Short: "Do a run again, of the same state and by the same settings, and tell what comes out otherwise",
		Long: `Do a run again, of the same state and by the same settings, and keep nothing. The same comes out, unless somebody has changed what never
changes, or another version of Khata matches otherwise: then it is told, and the exit code is 1.`,
		Args: exactArgs("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needBankAccount(bankAccount); err != nil {
				return err
			}
			no, err := number("run", args[0], "runs")
			if err != nil {
				return err
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				differences, err := r.Repeat(cmd.Context(), bankAccount, no)
				if err != nil {
					return err
				}
				text := fmt.Sprintf("run %d of bank account %s comes out the same", no, bankAccount)
				if len(differences) > 0 {
					text = fmt.Sprintf("run %d of bank account %s comes out otherwise:", no, bankAccount)
				}
				for _, d := range differences {
					text += "\n  " + plainText(d)
				}
				if err := a.print(repeatJSON{no, append([]string{}, differences...)}, text); err != nil {
					return err
				}
				if len(differences) > 0 {
					return &exitError{ExitFailure}
				}
				return nil
			}, map[string]string{"run": "RUN; khata reconcile runs shows them"})
		},
	}
	bankAccountFlag(cmd, &bankAccount)
	return cmd
}

type repeatJSON struct {
	Run         int64    `json:"run"`
	Differences []string `json:"differences"`
}
