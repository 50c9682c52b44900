package cli

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/devpg"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/internal/verify"
)

func (a *app) verifyCommand() *cobra.Command {
	var dsn, dir string
	var options verify.Options
	cmd := &cobra.Command{
		Use:   "verify --dsn DSN | --data-dir DIR",
		Short: "Recompute every invariant of the books from their entries",
		Long: `Recompute every invariant of the books from their entries, in one read-only snapshot of the live database, and print
what was checked with counts. The exit code is 1 if anything is wrong; the offending rows are listed.

--dsn may be that of khata_service. --data-dir is that of a running or stopped "khata up".`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if (dsn == "") == (dir == "") {
				return usagef("give either --dsn or --data-dir")
			}
			if dir != "" {
				var release func(context.Context) error
				dsn, release, err = openDataDir(cmd.Context(), dir)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, release(context.WithoutCancel(cmd.Context()))) }()
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
	cmd.Flags().IntVar(&options.MaxBreaches, "max-breaches", 20, "offending rows to list for each check; all are counted")
	cmd.Flags().BoolVar(&a.json, "json", false, "print the report as one JSON object")
	return cmd
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
