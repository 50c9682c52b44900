package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger/client"
)

// showFlags are the flags of what is shown.
type showFlags struct {
	bankAccount          string
	run, line, decision  int64
	results, suggestions bool
	limit                int
	filter               client.ReconcileResultFilter
}

func (a *app) reconcileShowCommand() *cobra.Command {
	var f showFlags
	cmd := &cobra.Command{
		Use:   "show --bank-account A [--run N]",
		Short: "Show what a run has found, what it suggests, a line, or a decision",
		Long: `Show what the last run has found, or --run N: a summary; with --suggestions what it suggests to confirm; with --results what it says of each line
and entry that is open, or of those with an --outcome or on a --side. Or all there is to say of one line of the bank (--line N) or of one decision
(--decision N).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				switch {
				case f.line != 0:
					return a.showLine(cmd.Context(), r, f.bankAccount, f.line)
				case f.decision != 0:
					d, err := r.Decision(cmd.Context(), f.bankAccount, f.decision)
					if err != nil {
						return err
					}
					return a.printDecision(d, nil)
				}
				run, err := r.Run(cmd.Context(), f.bankAccount, f.run)
				switch {
				case err != nil:
					return err
				case f.suggestions:
					return a.showSuggestions(cmd.Context(), r, run, f.limit)
				case f.results:
					return a.showResults(cmd.Context(), r, run, f)
				}
				return a.printRun(run, nil)
			}, map[string]string{
				"line": "--line; khata reconcile lines shows them", "no": "--line; khata reconcile lines shows them",
				"match": "--decision; khata reconcile decisions shows them", "decision": "--decision; khata reconcile decisions shows them",
			})
		},
	}
	bankAccountFlag(cmd, &f.bankAccount)
	cmd.Flags().Int64Var(&f.run, "run", 0, "the run; 0 is the last one")
	cmd.Flags().BoolVar(&f.suggestions, "suggestions", false, "what it suggests to confirm")
	cmd.Flags().BoolVar(&f.results, "results", false, "what it says of each line and entry that is open")
	addOutcome(cmd, &f.filter.Side, &f.filter.Outcomes)
	cmd.Flags().BoolVar(&f.filter.Suggested, "suggested", false, "of --results, only what is in a suggestion")
	cmd.Flags().Int64Var(&f.line, "line", 0, "instead of a run: a line of the bank, and what was decided about it")
	cmd.Flags().Int64Var(&f.decision, "decision", 0, "instead of a run: a decision")
	addLimit(cmd, &f.limit)
	for _, flag := range []string{"run", "suggestions", "results", "suggested", "line", "decision"} {
		onlyOnCommandLine(cmd, flag)
	}
	return cmd
}

// addOutcome adds the flags of which items are meant.
func addOutcome(cmd *cobra.Command, side *string, outcomes *[]string) {
	cmd.Flags().StringVar(side, "side", "", "only this side: bank or ledger")
	cmd.Flags().StringSliceVar(outcomes, "outcome", nil, "only what has this outcome, such as missing_in_ledger; several times, or with commas, for several")
	onlyOnCommandLine(cmd, "side")
	onlyOnCommandLine(cmd, "outcome")
}

func (f *showFlags) check() error {
	if err := needBankAccount(f.bankAccount); err != nil {
		return err
	}
	of := 0
	for _, what := range []bool{f.suggestions, f.results, f.line != 0, f.decision != 0} {
		if what {
			of++
		}
	}
	switch filtered := f.filter.Side != "" || len(f.filter.Outcomes) > 0 || f.filter.Suggested; {
	case of > 1:
		return usagef("give one of --suggestions, --results, --line and --decision")
	case f.run != 0 && (f.line != 0 || f.decision != 0):
		return usagef("--run goes without --line and --decision, which are of no run")
	case filtered && of > 0 && !f.results:
		return usagef("--outcome, --side and --suggested go with --results")
	case filtered:
		f.results = true
	}
	return nil
}

func (a *app) showSuggestions(ctx context.Context, r *client.Reconciliation, run client.ReconcileRun, limit int) error {
	n := 0
	for s, err := range r.Suggestions(ctx, run.BankAccount, run.No) {
		if err != nil {
			return err
		}
		if n++; limit > 0 && n > limit {
			return nil
		}
		if a.json {
			if err := a.print(toSuggestionJSON(run.No, s), ""); err != nil {
				return err
			}
			continue
		}
		if n > 1 {
			if err := a.write("\n"); err != nil {
				return err
			}
		}
		if err := a.write(suggestionText(run, s)); err != nil {
			return err
		}
	}
	if n == 0 && !a.json {
		return a.write(fmt.Sprintf("run %d of bank account %s suggests nothing\n", run.No, run.BankAccount))
	}
	return nil
}

func suggestionText(run client.ReconcileRun, s client.ReconcileSuggestion) string {
	rows := newColumns("", "", "", ">", "", "")
	for _, list := range [][]client.ReconcileResult{s.Lines, s.Entries} {
		for _, item := range list {
			i := describe(item)
			rows.row(i.side, i.name, i.day, written(item.Open), short(i.reference, 35), short(i.text, 60))
		}
	}
	title := fmt.Sprintf("group %d of run %d, by %s", s.Group, run.No, s.Rule)
	confirm := fmt.Sprintf("khata reconcile confirm --bank-account %s --run %d --group %d", run.BankAccount, run.No, s.Group)
	if !s.Difference.IsZero() {
		title += ": the lines come to " + written(s.Difference) + " beyond the entries"
		confirm += " --difference-account ACCOUNT"
	}
	return title + "\n" + rows.text("  ") + "  " + confirm + "\n"
}

// described is an item as people are told of it. The name is what confirm takes.
type described struct{ side, name, day, reference, text string }

func describe(r client.ReconcileResult) described {
	if l := r.Line; l != nil {
		return described{"line", fmt.Sprint(l.No), l.BookedOn, reference(*l), lineText(*l)}
	}
	e := r.Entry
	if e == nil {
		return described{}
	}
	if e.Sequence == 0 {
		return described{"entry", "#0", e.Day, "", "brought forward"}
	}
	others := make([]string, len(e.Others))
	for i, other := range e.Others {
		others[i] = string(other)
	}
	return described{"entry", entryName(e.Sequence, e.Leg), e.Day, string(e.TransferID), strings.Trim(strings.Join(others, ", ")+": "+e.Description, ": ")}
}

// entryName is what names an entry: its leg only if it is not the first.
func entryName(sequence int64, leg int) string {
	if leg > 1 {
		return fmt.Sprintf("#%d/%d", sequence, leg)
	}
	return fmt.Sprintf("#%d", sequence)
}

func (a *app) showResults(ctx context.Context, r *client.Reconciliation, run client.ReconcileRun, f showFlags) error {
	list := a.list("", "ITEM", "DATE", ">OPEN", "OUTCOME", ">GROUP", "REFERENCE", "DESCRIPTION", "NOTE")
	n := 0
	for result, err := range r.Results(ctx, run.BankAccount, run.No, f.filter) {
		if err != nil {
			return errors.Join(list.end(), err)
		}
		if n++; f.limit > 0 && n > f.limit {
			break
		}
		i := describe(result)
		outcome := outcomeText(result.Outcome)
		if result.InTransit {
			outcome += ", in transit"
		}
		var group string
		if result.Group != 0 {
			group = fmt.Sprint(result.Group)
		}
		if err := list.add(toReconcileResultJSON(result), i.side, i.name, i.day, written(result.Open), outcome, group, short(i.reference, 35), short(i.text, 60),
			noteText(result)); err != nil {
			return err
		}
	}
	return list.end()
}

// noteText is what a run says beside the outcome, and what it may be.
func noteText(r client.ReconcileResult) string {
	var names []string
	for _, c := range r.Candidates {
		if c.Line != 0 {
			names = append(names, fmt.Sprintf("line %d", c.Line))
		} else {
			names = append(names, "entry "+entryName(c.Sequence, c.Leg))
		}
	}
	if len(names) == 0 {
		return r.Note
	}
	return strings.TrimLeft(r.Note+": "+strings.Join(names, ", "), ": ")
}

type shownLineJSON struct {
	bankLineJSON
	Decisions []decisionJSON `json:"decisions,omitempty"`
}

func (a *app) showLine(ctx context.Context, r *client.Reconciliation, bankAccount string, no int64) error {
	l, err := r.BankLine(ctx, bankAccount, no)
	if err != nil {
		return err
	}
	out := shownLineJSON{bankLineJSON: toBankLineJSON(l)}
	rows := newColumns("", "")
	add := func(title, value string) {
		if value != "" {
			rows.row(title, value)
		}
	}
	add("kind", lineKind(l))
	add("booked", l.BookedOn)
	add("value date", otherDay(l))
	add("amount", fmt.Sprintf("%s %s", written(l.Amount), l.Currency))
	if l.Counts {
		add("open", written(l.Open))
	} else {
		add("counts", "no: it is not for matching")
	}
	add("status", l.Status)
	if l.Reversal {
		add("reversal", "yes: it takes back an earlier movement")
	}
	add("bank's id", l.ExternalID)
	add("kind of movement", l.Code)
	for _, key := range sortedKeys(l.References) {
		add("reference, "+strings.ReplaceAll(key, "_", " "), l.References[key])
	}
	add("other side", strings.Join(strings.Fields(l.PartyName+" "+l.PartyAccount+" "+l.PartyBank), " "))
	add("text", l.Description)
	add("from", fmt.Sprintf("file %d, statement %d", l.File, l.Statement))
	for _, flag := range l.Flags {
		add("note", flag.Text)
	}
	text := fmt.Sprintf("line %d of bank account %s\n", l.No, bankAccount) + rows.text("  ")
	for d, err := range r.Decisions(ctx, bankAccount, client.DecisionFilter{Line: no}) {
		if err != nil {
			return err
		}
		out.Decisions = append(out.Decisions, toDecisionJSON(d, nil))
		text += decisionText(d)
	}
	return a.print(out, strings.TrimRight(text, "\n"))
}
