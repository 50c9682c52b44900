package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) holdCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{
		Use:   "hold",
		Short: "Reserve an amount, and capture or release it later",
		Long: `A hold reserves an amount: it counts against the floor of the account that it will decrease, and moves nothing. It ends
once: captured, voided or expired.

  khata hold create --id H-1 --debit wallet:shimul --credit shop:1 --amount 500.00 --expires-after 168h
  khata hold capture H-1 --id H-1-capture --amount 420.00        moves 420.00, and releases 80.00
  khata hold void H-1 --id H-1-void                              or releases all of it

Each of them is a transfer with an id of its own, which makes it happen once.`,
	})
	cmd.AddCommand(a.holdCreateCommand(), a.holdCaptureCommand(), a.holdVoidCommand(), a.holdListCommand(), a.holdGetCommand())
	return cmd
}

func (a *app) holdCreateCommand() *cobra.Command {
	var f struct {
		requestFlags
		entryFlags
		conditionFlags
		expiresAt    string
		expiresAfter time.Duration
	}
	cmd := &cobra.Command{
		Use:   "create --id ID --debit ACCOUNT --credit ACCOUNT --amount AMOUNT",
		Short: "Reserve an amount",
		Long: `Reserve an amount for a later capture. Without a deadline the hold stays open until it is captured or voided. From the
deadline on it cannot be captured any more, and the money is free some seconds later at most.

  khata hold create --id H-1 --debit wallet:shimul --credit shop:1 --amount 500.00 --expires-after 168h
  khata hold create --id H-2 --debit wallet:shimul --credit shop:1 --amount 500.00 --expires-at 2026-12-31T18:00:00Z`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := f.spec()
			if err != nil {
				return err
			}
			if spec.Entries, err = f.entryFlags.read(); err != nil {
				return err
			}
			terms := &ledger.Terms{Kind: ledger.Hold, ExpiresAfter: f.expiresAfter}
			spec.Terms = terms
			if terms.ExpiresAt, err = parseTime("--expires-at", f.expiresAt); err != nil {
				return err
			}
			if cmd.Flags().Changed("expires-after") && f.expiresAfter == 0 {
				return usagef("--expires-after is 0s, want 1s to ten years; leave it out for a hold that does not expire")
			}
			if terms.Conditions, err = f.conditions(); err != nil {
				return err
			}
			return a.post(cmd.Context(), spec, f.requestFlags.balances)
		},
	}
	f.requestFlags.add(cmd)
	f.entryFlags.add(cmd)
	f.conditionFlags.add(cmd)
	cmd.Flags().StringVar(&f.expiresAt, "expires-at", "", "deadline, RFC 3339, such as 2026-12-31T18:00:00Z")
	cmd.Flags().DurationVar(&f.expiresAfter, "expires-after", 0, "deadline from now on, such as 168h or 15m")
	exclude(cmd, "expires-at", "expires-after")
	exclude(cmd, "expires-after", "expires-at")
	return cmd
}

func (a *app) holdCaptureCommand() *cobra.Command {
	var f struct {
		requestFlags
		partFlags
		keepOpen bool
	}
	cmd := &cobra.Command{
		Use:   "capture HOLD --id ID --amount AMOUNT|--all",
		Short: "Move what a hold has reserved, or a part of it",
		Long: `Move what a hold has reserved, or a part of it. What is left is released, unless --keep-open keeps it for another capture.

  khata hold capture H-1 --id H-1-all --all
  khata hold capture H-2 --id H-2-first --amount 120.00 --keep-open`,
		Args: exactArgs("HOLD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := f.spec()
			if err != nil {
				return err
			}
			amount, err := f.part("capture.amount")
			if err != nil {
				return err
			}
			spec.Terms = &ledger.Terms{Kind: ledger.Capture, Origin: ledger.TransferID(args[0]), Amount: amount, KeepOpen: f.keepOpen}
			return a.post(cmd.Context(), spec, f.balances)
		},
	}
	f.requestFlags.add(cmd)
	f.addEffectiveAt(cmd)
	f.partFlags.add(cmd)
	cmd.Flags().BoolVar(&f.keepOpen, "keep-open", false, "keep what is left reserved")
	return cmd
}

func (a *app) holdVoidCommand() *cobra.Command {
	var f requestFlags
	cmd := &cobra.Command{
		Use:   "void HOLD --id ID",
		Short: "Release what is left of a hold",
		Args:  exactArgs("HOLD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := f.spec()
			if err != nil {
				return err
			}
			spec.Terms = &ledger.Terms{Kind: ledger.Void, Origin: ledger.TransferID(args[0])}
			return a.post(cmd.Context(), spec, f.balances)
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) holdListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list ACCOUNT",
		Short: "List the open holds of an account, on either side, in the order of decision",
		Args:  exactArgs("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				for h, err := range c.Holds(cmd.Context(), ledger.AccountID(args[0])) {
					if err != nil {
						return err
					}
					if err := a.printOpenHold(h); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func (a *app) printOpenHold(h client.OpenHold) error {
	out := a.toTransferJSON(&h.Transfer, &h.Progress)
	var debit, credit ledger.AccountID
	for _, e := range h.Transfer.Entries { // In the order in which they were given.
		if e.Direction == ledger.Debit {
			debit = e.Account
		} else {
			credit = e.Account
		}
	}
	text := fmt.Sprintf("%s  %s -> %s  reserved %s %s", out.TransferID, debit, credit, out.Progress.Reserved, h.Progress.Currency.Code)
	if !h.Progress.Captured.IsZero() {
		text += "  captured " + out.Progress.Captured
	}
	if out.Deadline != "" {
		text += "  until " + out.Deadline
	}
	return a.print(out, text)
}

func (a *app) holdGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get HOLD",
		Short: "Show the record of a hold, and what has become of it",
		Args:  exactArgs("HOLD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				t, progress, err := c.TransferWithProgress(cmd.Context(), ledger.TransferID(args[0]))
				if err != nil {
					return err
				}
				if kind := t.Kind(); kind != ledger.Hold {
					return ledger.Errorf(ledger.CodeTransferNotFound, "%q is a %s, not a hold: see khata transfer get", string(t.ID), kind)
				}
				return a.printTransfer(&t, progress)
			})
		},
	}
}
