package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) balanceCommand() *cobra.Command {
	var f asOfFlags
	cmd := a.clientFlags(&cobra.Command{
		Use:   "balance ACCOUNT...",
		Short: "Show the balances of accounts at one point in time",
		Long: `Show the balances of accounts at one point in time: now, or as of a point of the past, what lies exactly on it included.

  khata balance wallet:shimul --at-sequence 88412              the transfers up to this one: final
  khata balance wallet:shimul --at-posted 2026-11-30T18:00:00Z the transfers posted by then: final
  khata balance wallet:shimul --at-effective 2026-11-30T18:00:00Z
                              the transfers that took effect by then, by their value date where they have one, as known now`,
		Args: atLeastOneArg("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := f.asOf(cmd)
			if err != nil {
				return err
			}
			ids := make([]ledger.AccountID, len(args))
			for i, arg := range args {
				ids[i] = ledger.AccountID(arg)
			}
			return a.withClient(func(c *client.Client) error {
				balances, err := c.BalancesAsOf(cmd.Context(), ids, at)
				if err != nil {
					return err
				}
				for _, b := range balances {
					if err := a.print(toBalanceJSON(b), balanceText(b)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	})
	f.add(cmd)
	return cmd
}

// asOfFlags are the flags for a point of the past.
type asOfFlags struct {
	sequence          int64
	posted, effective string
}

func (f *asOfFlags) add(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&f.sequence, "at-sequence", 0, "as of the transfer with this sequence")
	cmd.Flags().StringVar(&f.posted, "at-posted", "", "as of this time of posting, RFC 3339, such as 2026-11-30T18:00:00Z")
	cmd.Flags().StringVar(&f.effective, "at-effective", "", "as of this effective time, RFC 3339")
	exclude(cmd, "at-sequence", "at-posted", "at-effective")
	exclude(cmd, "at-posted", "at-sequence", "at-effective")
	exclude(cmd, "at-effective", "at-sequence", "at-posted")
}

func (f *asOfFlags) asOf(cmd *cobra.Command) (at ledger.AsOf, err error) {
	if cmd.Flags().Changed("at-sequence") {
		at.Sequence = &f.sequence
	}
	if at.PostedAt, err = parseTime("--at-posted", f.posted); err != nil {
		return at, err
	}
	if at.EffectiveAt, err = parseTime("--at-effective", f.effective); err != nil {
		return at, err
	}
	return at, at.Validate()
}

func (a *app) entriesCommand() *cobra.Command {
	var newestFirst bool
	var limit int
	cmd := a.clientFlags(&cobra.Command{
		Use:   "entries ACCOUNT",
		Short: "List the entries of an account with the balance after each",
		Args:  exactArgs("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				n := 0
				for e, err := range c.Entries(cmd.Context(), ledger.AccountID(args[0]), newestFirst) {
					if err != nil {
						return err
					}
					if limit > 0 && n == limit {
						break
					}
					n++
					if err := a.printAccountEntry(e); err != nil {
						return err
					}
				}
				return nil
			})
		},
	})
	cmd.Flags().BoolVar(&newestFirst, "newest-first", false, "the newest first, instead of in the order of decision")
	cmd.Flags().IntVar(&limit, "limit", 0, "stop after so many; 0 lists all")
	return cmd
}

type accountEntryJSON struct {
	Sequence    int64  `json:"sequence"`
	TransferID  string `json:"transfer_id"`
	Direction   string `json:"direction"`
	Amount      string `json:"amount"`
	Currency    string `json:"currency"`
	Balance     string `json:"balance"`
	PostedAt    string `json:"posted_at"`
	EffectiveAt string `json:"effective_at,omitempty"`
	Description string `json:"description,omitempty"`
}

func (a *app) printAccountEntry(e client.AccountEntry) error {
	out := accountEntryJSON{
		Sequence: e.Sequence, TransferID: string(e.TransferID), Direction: string(e.Direction),
		Amount: ledger.FormatWritten(e.Amount), Currency: string(e.Currency), Balance: ledger.FormatWritten(e.Balance),
		PostedAt: formatTime(e.PostedAt), EffectiveAt: formatOptionalTime(e.EffectiveAt), Description: e.Description,
	}
	text := fmt.Sprintf("%8d  %s  %-6s  %14s  balance %14s %s  %s", out.Sequence, out.PostedAt, out.Direction, out.Amount,
		out.Balance, out.Currency, out.TransferID)
	if out.Description != "" {
		text += "  " + out.Description
	}
	return a.print(out, text)
}
