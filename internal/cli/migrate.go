package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/pg"
)

func (a *app) migrateCommand() *cobra.Command {
	var dsn string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the schema of a database up to date",
		Long: `Bring the schema of a database up to date. The DSN is that of the database's owner, not of khata_service. Before the
first time, as a superuser:

  CREATE ROLE khata_owner LOGIN PASSWORD '...';
  CREATE ROLE khata_service LOGIN PASSWORD '...';
  CREATE DATABASE khata OWNER khata_owner;
  REVOKE CONNECT, TEMPORARY ON DATABASE khata FROM PUBLIC;
  GRANT CONNECT ON DATABASE khata TO khata_service;`,
	}
	cmd.PersistentFlags().StringVar(&dsn, "dsn", "", "the database, as URL or key=value (its owner)")
	cmd.AddCommand(&cobra.Command{
		Use:   "up",
		Short: "Apply the migrations that are missing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dsn == "" {
				return usagef("--dsn is required, such as \"host=localhost dbname=khata user=khata_owner\"")
			}
			applied, err := pg.Migrate(cmd.Context(), dsn)
			if err != nil {
				return err
			}
			for _, m := range applied {
				_, _ = fmt.Fprintf(a.Out, "applied %s\n", m.Name)
			}
			if len(applied) == 0 {
				_, _ = fmt.Fprintln(a.Out, "the schema is up to date")
			}
			return nil
		},
	}, &cobra.Command{
		Use:   "status",
		Short: "List the migrations and when each was applied",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dsn == "" {
				return usagef("--dsn is required")
			}
			list, err := pg.Migrations(cmd.Context(), dsn)
			if err != nil {
				return err
			}
			for _, m := range list {
				state := "pending"
				if !m.AppliedAt.IsZero() {
					state = "applied " + m.AppliedAt.UTC().Format(timeFormat)
				}
				_, _ = fmt.Fprintf(a.Out, "%s  %s\n", m.Name, state)
			}
			return nil
		},
	})
	return cmd
}
