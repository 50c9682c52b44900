package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/devpg"
	"github.com/khata-ledger/khata/internal/server"
)

// database are the flags of the commands that work on a database, with or without a server that runs.
type database struct{ dsn, dir string }

func (d *database) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.dsn, "dsn", "", "the database, as URL or key=value (role khata_service)")
	cmd.Flags().StringVar(&d.dir, "data-dir", "", "the data directory of a running or stopped khata up")
	exclude(cmd, "dsn", "data-dir")
	exclude(cmd, "data-dir", "dsn")
}

// eitherDatabase says which flag is missing, and the directory that khata up has where it is not told another.
func eitherDatabase() error {
	dir, err := devpg.DefaultDir()
	if err != nil {
		return usagef("give either --dsn or --data-dir")
	}
	return usagef("give either --dsn or --data-dir: that of khata up is %s, unless it was given another", dir)
}

func (d *database) open(ctx context.Context, do func(dsn string) error) (err error) {
	if (d.dsn == "") == (d.dir == "") {
		return eitherDatabase()
	}
	if d.dir == "" {
		return do(d.dsn)
	}
	dsn, release, err := openDataDir(ctx, d.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release(context.WithoutCancel(ctx))) }()
	return do(dsn)
}

func (a *app) reviewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "review",
		Short: "Payments from cards of which nobody could find out what the gateway did",
		Long: `Payments from cards of which nobody could find out what the gateway did, or whose charge the gateway does not give back. Ask the
gateway's people about the gateway key, and tell Khata what they say.`,
	}
	cmd.AddCommand(a.reviewListCommand(), a.reviewResolveCommand())
	return cmd
}

func (a *app) reviewListCommand() *cobra.Command {
	var db database
	cmd := &cobra.Command{
		Use:   "list --dsn DSN | --data-dir DIR",
		Short: "List them, the longest waiting first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return db.open(cmd.Context(), func(dsn string) error {
				list, err := server.Reviews(cmd.Context(), dsn)
				if err != nil {
					return err
				}
				for _, r := range list {
					if a.json {
						if err := json.NewEncoder(a.Out).Encode(r); err != nil {
							return err
						}
						continue
					}
					_, _ = fmt.Fprintf(a.Out, "%s  %s  %s %s to %s  ledger %s  since %s\n  gateway key %s, asked %d times: %s\n", r.Number, r.Step, r.Amount, r.Currency,
						r.To, r.Ledger, r.Since.Format(timeFormat), r.GatewayKey, r.Attempts, r.Detail)
				}
				if len(list) == 0 && !a.json {
					_, _ = fmt.Fprintln(a.Out, "nothing is in review")
				}
				return nil
			})
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&a.json, "json", false, "print each as a JSON object on a line")
	return cmd
}

func (a *app) reviewResolveCommand() *cobra.Command {
	var db database
	var as, reason string
	cmd := &cobra.Command{
		Use:   "resolve NUMBER --as WHAT --reason TEXT --dsn DSN | --data-dir DIR",
		Short: "Settle one by what people have found out",
		Long: `Settle one by what people have found out, as Khata would have, had it known. The reason is kept.

  --as charged      the card was charged: the money is posted
  --as declined     it was declined: the refusal is recorded
  --as released     nothing was charged, and nothing will be: cancel the charge at the gateway first. The key is free again
  --as given-back   of a payment in step give_back: the charge was given back by hand`,
		Args: exactArgs("NUMBER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if as == "" || reason == "" {
				return usagef("--as and --reason are required")
			}
			return db.open(cmd.Context(), func(dsn string) error {
				if err := server.ResolveReview(cmd.Context(), dsn, a.logger(), args[0], as, reason); err != nil {
					return err
				}
				_, _ = fmt.Fprintf(a.Out, "resolved %s as %s\n", args[0], as)
				return nil
			})
		},
	}
	db.flags(cmd)
	cmd.Flags().StringVar(&as, "as", "", "charged, declined, released or given-back")
	cmd.Flags().StringVar(&reason, "reason", "", "how it was found out, and by whom")
	return cmd
}
