package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/devpg"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/internal/verify"
)

func (a *app) verifyCommand() *cobra.Command {
	var dsn, dir, viewDSN string
	var view bool
	var wait time.Duration
	var options verify.Options
	cmd := &cobra.Command{
		Use:   "verify --dsn DSN | --data-dir DIR",
		Short: "Recompute every invariant of the books from their entries",
		Long: `Recompute every invariant of the books from their entries, in one read-only snapshot of the live database, and print
what was checked with counts. The exit code is 1 if anything is wrong; the offending rows are listed.

--dsn may be that of khata_service. --data-dir is that of a running or stopped "khata up".

With --wallet it is the wallet view (docs/wallet.md) that is held against the books: each of its accounts as of its own version, so it may be
at work meanwhile. How many accounts are behind is said, and is no breach; with --wait it waits for these, and one that is not where the books had
it by then is a difference.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if (dsn == "") == (dir == "") {
				return eitherDatabase()
			}
			if dir != "" {
				var release func(context.Context) error
				dsn, release, err = openDataDir(cmd.Context(), dir)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, release(context.WithoutCancel(cmd.Context()))) }()
			}
			if view {
				return a.verifyWallet(cmd.Context(), cmp.Or(viewDSN, dsn), dsn, wait)
			}
			if cmd.Flags().Changed("wallet-dsn") || wait != 0 {
				return usagef("--wallet-dsn and --wait go with --wallet")
			}
			report, err := verify.Run(cmd.Context(), dsn, options)
			if err != nil {
				return err
			}
			return a.printReport(report)
		},
	}
	cmd.Flags().StringVar(&dsn, "dsn", "", "the database, as URL or key=value")
	cmd.Flags().StringVar(&dir, "data-dir", "", "the data directory of a running or stopped khata up")
	exclude(cmd, "dsn", "data-dir")
	exclude(cmd, "data-dir", "dsn")
	cmd.Flags().BoolVar(&view, "wallet", false, "hold the wallet view against the books, in place of the books against themselves")
	cmd.Flags().StringVar(&viewDSN, "wallet-dsn", "", "the database of the wallet view, if it is not that of the books")
	cmd.Flags().DurationVar(&wait, "wait", 0, "with --wallet: how long to wait for what is on the way")
	onlyOnCommandLine(cmd, "wallet")
	onlyOnCommandLine(cmd, "wait")
	cmd.Flags().IntVar(&options.MaxBreaches, "max-breaches", 20, "offending rows to list for each check; all are counted")
	cmd.Flags().BoolVar(&a.json, "json", false, "print the report as one JSON object")
	return cmd
}

// verifyWallet prints how the wallet view compares with the books.
func (a *app) verifyWallet(ctx context.Context, viewDSN, dsn string, wait time.Duration) error {
	c, err := server.CompareWallet(ctx, viewDSN, dsn, wait)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%d accounts and %d movements of the wallet view were held against the books", c.Accounts, c.Movements)
	for _, d := range c.Differences {
		text += fmt.Sprintf("\n  ledger %s, account %s: %s", d.Ledger, d.Account, d.Detail)
	}
	switch {
	case !c.Equal():
		text += fmt.Sprintf("\n%d differences. Build it anew: khata consume wallet rebuild", c.Differ)
	case c.Behind > 0:
		text += fmt.Sprintf("\nAll are what the books have as of their versions; %d have moved since, and their events are on the way.", c.Behind)
	default:
		text += "\nAll are what the books have."
	}
	err = a.print(c, text)
	if err == nil && !c.Equal() {
		err = &exitError{ExitFailure}
	}
	return err
}

func openDataDir(ctx context.Context, dir string) (dsn string, release func(context.Context) error, err error) {
	address, release, err := devpg.Open(ctx, devpg.Config{Dir: dir})
	if err != nil {
		return "", nil, err
	}
	return address.DSN(server.ServiceRole, server.Database), release, nil
}

func (a *app) printReport(report verify.Report) error {
	var err error
	if a.json {
		err = json.NewEncoder(a.Out).Encode(report)
	} else {
		err = report.Write(a.Out)
	}
	if err == nil && !report.OK() {
		err = &exitError{ExitFailure}
	}
	return err
}
