package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) reconcileDecisionsCommand() *cobra.Command {
	var bankAccount string
	var filter client.DecisionFilter
	var limit int
	cmd := &cobra.Command{
		Use:   "decisions --bank-account A",
		Short: "List what was matched and ignored, by whom and when, the newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needBankAccount(bankAccount); err != nil {
				return err
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				list := a.list(">DECISION", "KIND", "RULE", ">LINES", ">ENTRIES", ">DIFFERENCE", "STATE", "ITEMS", "DECIDED", "BY", "REASON")
				n := 0
				for d, err := range r.Decisions(cmd.Context(), bankAccount, filter) {
					if err != nil {
						return errors.Join(list.end(), err)
					}
					if n++; limit > 0 && n > limit {
						break
					}
					var difference string
					if !d.Difference.IsZero() && d.Kind != "ignored" {
						difference = written(d.Difference)
					}
					if err := list.add(toDecisionJSON(d, nil), fmt.Sprint(d.No), d.Kind, d.Rule, written(d.Lines), written(d.Entries), difference, decisionState(d),
						short(itemsText(d), 50), formatTime(d.DecidedAt), d.DecidedBy, short(d.Reason, 60)); err != nil {
						return err
					}
				}
				return list.end()
			})
		},
	}
	bankAccountFlag(cmd, &bankAccount)
	cmd.Flags().StringVar(&filter.Kind, "kind", "", "only these: automatic, manual or ignored")
	cmd.Flags().BoolVar(&filter.Active, "active", false, "without those that were taken back")
	cmd.Flags().Int64Var(&filter.Line, "line", 0, "only those about this line of the bank")
	cmd.Flags().Int64Var(&filter.Sequence, "sequence", 0, "only those about the transfer with this sequence")
	addLimit(cmd, &limit)
	for _, flag := range []string{"kind", "active", "line", "sequence"} {
		onlyOnCommandLine(cmd, flag)
	}
	return cmd
}

// decisionState is what there is to know of a decision beside what it says.
func decisionState(d client.Decision) string {
	switch {
	case d.Undone != nil:
		return "taken back"
	case d.Kind == "ignored" || d.Difference.IsZero():
		return ""
	case d.Posted:
		return "difference posted"
	}
	return "difference open"
}

func itemText(i client.DecisionItem) string {
	switch {
	case i.Line != 0:
		return fmt.Sprintf("line %d", i.Line)
	case i.Sequence == 0:
		return "brought forward"
	}
	return "entry " + entryName(i.Sequence, i.Leg)
}

func itemsText(d client.Decision) string {
	names := make([]string, len(d.Items))
	for i, item := range d.Items {
		names[i] = itemText(item)
	}
	return strings.Join(names, ", ")
}

// printDecision prints a decision. replayed is nil where it was not asked for now.
func (a *app) printDecision(d client.Decision, replayed *bool) error {
	text := decisionText(d)
	if replayed != nil && *replayed {
		head, rest, _ := strings.Cut(text, "\n")
		text = head + "  (replayed: this was decided before, and nothing was written now)\n" + rest
	}
	return a.print(toDecisionJSON(d, replayed), strings.TrimRight(text, "\n"))
}

func decisionText(d client.Decision) string {
	var out strings.Builder
	did := strings.ReplaceAll(d.Outcome, "_", " ")
	if d.Rule != "" && d.Kind == "automatic" {
		did += " by " + d.Rule
	}
	if d.Run != 0 {
		did += fmt.Sprintf(" in run %d", d.Run)
	}
	fmt.Fprintf(&out, "decision %d  %s  %s by %s\n", d.No, did, formatTime(d.DecidedAt), d.DecidedBy)
	rows := newColumns("", "", ">", "")
	for _, i := range d.Items {
		note := ""
		if i.PostsDifference {
			note = "posts the difference"
		}
		rows.row(itemText(i), i.Day, written(i.Amount), note)
	}
	out.WriteString(rows.text("  "))
	if !d.Difference.IsZero() && d.Kind != "ignored" {
		fmt.Fprintf(&out, "  difference %s: %s\n", written(d.Difference), differenceText(d))
	}
	if d.Reason != "" {
		fmt.Fprintf(&out, "  reason: %s\n", plainText(d.Reason))
	}
	if u := d.Undone; u != nil {
		fmt.Fprintf(&out, "  taken back %s by %s: %s\n", formatTime(u.UndoneAt), u.UndoneBy, plainText(u.Reason))
	}
	return out.String()
}

// differenceText tells what has become of a difference, and what can be done.
func differenceText(d client.Decision) string {
	if len(d.Approvals) == 0 {
		if d.Undone != nil {
			return "not posted"
		}
		return fmt.Sprintf("not posted; khata reconcile approve %d --bank-account %s --account ACCOUNT posts it", d.No, d.BankAccount)
	}
	last := d.Approvals[len(d.Approvals)-1]
	text := fmt.Sprintf("approved to %s by %s, transfer %s", last.Account, last.ApprovedBy, last.TransferID)
	if !d.Posted {
		text += ", which is not posted"
	}
	return text
}
