package cli

import (
	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/internal/server"
)

func (a *app) consumeVerdictsCommand() *cobra.Command {
	var f consumerFlags
	cmd := &cobra.Command{
		Use:   "verdicts --dsn DSN --kafka HOST:PORT,…",
		Short: "Flagged transfers: store what the fraud check flags, for people to settle",
		Long: `Store what the fraud check flags in a table, each once, for people to settle (khata fraud flagged). What it approves is not stored. The tables must
be there (khata consume verdicts migrate).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := f.read(a)
			if err != nil {
				return err
			}
			return server.RunVerdicts(cmd.Context(), config)
		},
	}
	f.flags(cmd)
	f.skipLostFlag(cmd)
	cmd.AddCommand(a.consumerMigrateCommand(fraud.Schema, fraud.Grants))
	return cmd
}
