package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) suspectsCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{
		Use:   "suspects",
		Short: "Find suspected double charges, and keep what people say of them",
		Long: `Transfers of different ids that move the same amounts between the same accounts within a day, in groups, with how much speaks for a double
charge and why. The rules are in docs/support.md.

  khata suspects list --at-least high
  khata suspects show 7
  khata support refund later-transfer --reason duplicate          one of them, once
  khata suspects dismiss 7 --members 2 --reason "two tickets"     or it is none`,
	})
	cmd.AddCommand(a.suspectsListCommand(), a.suspectsShowCommand(), a.suspectsDismissCommand(), a.suspectsUndismissCommand())
	return cmd
}

func (a *app) suspectsListCommand() *cobra.Command {
	var states []string
	var level, account, since, until string
	limit := 0
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List groups, those with the latest transfer first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter := client.SuspectFilter{AtLeast: client.SuspectLevel(level), Account: ledger.AccountID(account)}
			for _, state := range states {
				if state == "all" {
					filter.States = []client.SuspectState{client.SuspectOpen, client.SuspectDismissed, client.SuspectRefunded}
					break
				}
				filter.States = append(filter.States, client.SuspectState(state))
			}
			from, err := parseTime("--since", since)
			if err != nil {
				return err
			}
			to, err := parseTime("--until", until)
			if err != nil {
				return err
			}
			if from != nil {
				filter.Since = *from
			}
			if to != nil {
				filter.Until = *to
			}
			return a.withClient(func(c *client.Client) error {
				n := 0
				for s, err := range c.Suspects().List(cmd.Context(), filter) {
					if err != nil {
						return nameFlags(err, map[string]string{"at_least": "--at-least", "states": "--state", "account": "--account", "since": "--since", "until": "--until"})
					}
					if err := a.print(toSuspectJSON(s, nil), suspectText(s, nil, false)); err != nil {
						return err
					}
					if n++; n == limit {
						break
					}
				}
				if n == 0 {
					a.none()
				}
				return nil
			})
		},
	}
	cmd.Flags().StringSliceVar(&states, "state", []string{"open"}, "open, dismissed, refunded or all; several with commas")
	cmd.Flags().StringVar(&level, "at-least", "", "low, medium or high (default: low)")
	cmd.Flags().StringVar(&account, "account", "", "only those in which this account takes part")
	cmd.Flags().StringVar(&since, "since", "", "only those whose last transfer was posted at or after a time, RFC 3339")
	cmd.Flags().StringVar(&until, "until", "", "only those whose last transfer was posted before a time, RFC 3339")
	cmd.Flags().IntVar(&limit, "limit", 0, "how many at most (default: all)")
	for _, flag := range []string{"state", "at-least", "account", "since", "until", "limit"} {
		onlyOnCommandLine(cmd, flag)
	}
	return cmd
}

// suspectNumber reads the number of a group.
func suspectNumber(text string) (int64, error) {
	no, err := strconv.ParseInt(text, 10, 64)
	if err != nil || no < 1 {
		return 0, usagef("%.40q is no number of a group: khata suspects list shows them", text)
	}
	return no, nil
}

func (a *app) suspectsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NUMBER",
		Short: "Show a group: its transfers, what has become of them, and what people have said",
		Args:  exactArgs("NUMBER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			no, err := suspectNumber(args[0])
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				s, err := c.Suspects().Get(cmd.Context(), no)
				if err != nil {
					return err
				}
				return a.print(toSuspectJSON(s, nil), suspectText(s, nil, true))
			})
		},
	}
}

func (a *app) suspectsDismissCommand() *cobra.Command {
	var members int
	var reason string
	cmd := &cobra.Command{
		Use:   "dismiss NUMBER --members N --reason REASON",
		Short: "Say that a group is no double charge; to do it again is no error",
		Long: `Say that a group is no double charge. --members is how many transfers it had when you looked at it: if there is another one by now, nothing is
dismissed. If another one joins later, the group is a suspect again.`,
		Args: exactArgs("NUMBER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			no, err := suspectNumber(args[0])
			switch {
			case err != nil:
				return err
			case members == 0:
				return usagef("--members is required: how many transfers the group had when you looked at it")
			case reason == "":
				return usagef("--reason is required: why it is no double charge")
			}
			return a.withClient(func(c *client.Client) error {
				s, replayed, err := c.Suspects().Dismiss(cmd.Context(), no, members, reason)
				if err != nil {
					return err
				}
				return a.print(toSuspectJSON(s, &replayed), suspectText(s, &replayed, true))
			})
		},
	}
	cmd.Flags().IntVar(&members, "members", 0, "how many transfers it had when you looked at it (required)")
	cmd.Flags().StringVar(&reason, "reason", "", "why (required)")
	onlyOnCommandLine(cmd, "members")
	onlyOnCommandLine(cmd, "reason")
	return cmd
}

func (a *app) suspectsUndismissCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "undismiss NUMBER --reason REASON",
		Short: "Take a dismissal back; to do it again is no error",
		Args:  exactArgs("NUMBER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			no, err := suspectNumber(args[0])
			switch {
			case err != nil:
				return err
			case reason == "":
				return usagef("--reason is required: why it is a suspect again")
			}
			return a.withClient(func(c *client.Client) error {
				s, replayed, err := c.Suspects().Undismiss(cmd.Context(), no, reason)
				if err != nil {
					return err
				}
				return a.print(toSuspectJSON(s, &replayed), suspectText(s, &replayed, true))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why (required)")
	onlyOnCommandLine(cmd, "reason")
	return cmd
}

type suspectJSON struct {
	Suspect   int64                 `json:"suspect"`
	State     string                `json:"state"`
	Level     string                `json:"level"`
	Score     int                   `json:"score"`
	Reasons   []string              `json:"reasons"`
	Earlier   string                `json:"earlier"`
	Later     string                `json:"later"`
	Members   []suspectMemberJSON   `json:"members"`
	Decisions []suspectDecisionJSON `json:"decisions,omitempty"`
	Replayed  *bool                 `json:"replayed,omitempty"`
}

type suspectMemberJSON struct {
	TransferID  string      `json:"transfer_id"`
	Sequence    int64       `json:"sequence"`
	PostedAt    string      `json:"posted_at"`
	Entries     []entryJSON `json:"entries"`
	Description string      `json:"description,omitempty"`
	Refunded    string      `json:"refunded"`
	WentBack    bool        `json:"went_back"`
}

type suspectDecisionJSON struct {
	Dismissed bool   `json:"dismissed"`
	Members   int    `json:"members"`
	Reason    string `json:"reason"`
	DecidedAt string `json:"decided_at"`
	DecidedBy string `json:"decided_by"`
}

func toSuspectJSON(s client.Suspect, replayed *bool) suspectJSON {
	out := suspectJSON{
		Suspect: s.Number, State: string(s.State), Level: string(s.Level), Score: s.Score, Reasons: s.Reasons, Earlier: string(s.Earlier),
		Later: string(s.Later), Replayed: replayed,
	}
	for _, m := range s.Members {
		member := suspectMemberJSON{
			TransferID: string(m.Transfer.ID), Sequence: m.Transfer.Sequence, PostedAt: formatTime(m.Transfer.PostedAt), Description: m.Transfer.Description,
			Refunded: ledger.FormatAmount(m.Progress.Refunded, m.Progress.Currency.Scale), WentBack: m.WentBack,
		}
		for _, e := range m.Transfer.Entries {
			member.Entries = append(member.Entries, toEntryJSON(e))
		}
		out.Members = append(out.Members, member)
	}
	for _, d := range s.Decisions {
		out.Decisions = append(out.Decisions, suspectDecisionJSON{d.Dismissed, d.Members, d.Reason, formatTime(d.At), d.By})
	}
	return out
}

// suspectText is a group on a line, or whole.
func suspectText(s client.Suspect, replayed *bool, whole bool) string {
	text := fmt.Sprintf("%d  %s  %s %d  %d transfers", s.Number, s.State, s.Level, s.Score, len(s.Members))
	if len(s.Members) > 0 {
		for _, e := range s.Members[0].Transfer.Entries[:min(2, len(s.Members[0].Transfer.Entries))] {
			text += fmt.Sprintf("  %s %s", e.Direction, e.Account)
		}
		e := s.Members[0].Transfer.Entries[0]
		text += fmt.Sprintf("  %s %s", ledger.FormatAmount(e.Amount, e.Currency.Scale), e.Currency.Code)
	}
	text += fmt.Sprintf("  %s %s  %s", s.Earlier, s.Later, strings.Join(s.Reasons, "; "))
	if replayed != nil && *replayed {
		text += "  (replayed: it was so before, and nothing was written now)"
	}
	if !whole {
		return text
	}
	for _, m := range s.Members {
		text += fmt.Sprintf("\n  %s  sequence %d  %s", m.Transfer.ID, m.Transfer.Sequence, formatTime(m.Transfer.PostedAt))
		if m.Transfer.Description != "" {
			text += "  " + m.Transfer.Description
		}
		switch {
		case m.WentBack:
			text += "  went back"
		case !m.Progress.Refunded.IsZero():
			text += "  refunded " + ledger.FormatAmount(m.Progress.Refunded, m.Progress.Currency.Scale)
		}
	}
	for _, d := range s.Decisions {
		did := "taken back"
		if d.Dismissed {
			did = fmt.Sprintf("dismissed, with %d transfers,", d.Members)
		}
		text += fmt.Sprintf("\n  %s by %s at %s: %s", did, d.By, formatTime(d.At), d.Reason)
	}
	return text
}
