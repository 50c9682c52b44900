package cli

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/server"
)

// addresses are the flags of the commands that serve.
type addresses struct {
	grpc, http string
	unsafe     bool
	maxConns   int32
}

func (s *addresses) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.grpc, "grpc", "127.0.0.1:7070", "address of the gRPC API; loopback only")
	cmd.Flags().StringVar(&s.http, "http", "127.0.0.1:7080", "address of /healthz, /readyz and /metrics; loopback only")
	cmd.Flags().BoolVar(&s.unsafe, "unsafe", false, "serve even if the database could lose or rewrite acknowledged transfers")
	cmd.Flags().Int32Var(&s.maxConns, "max-connections", 16, "most connections to the database")
}

func (s *addresses) config(dsn string, log *slog.Logger) server.Config {
	return server.Config{DSN: dsn, GRPC: s.grpc, HTTP: s.http, MaxConns: s.maxConns, Unsafe: s.unsafe, Logger: log}
}

func (a *app) logger() *slog.Logger { return slog.New(slog.NewTextHandler(a.Err, nil)) }

func (a *app) serveCommand() *cobra.Command {
	var at addresses
	var dsn string
	cmd := &cobra.Command{
		Use:   "serve --dsn DSN",
		Short: "Serve from a PostgreSQL of yours",
		Long: `Serve from a PostgreSQL of yours. The schema must be up to date (khata migrate up), and the DSN that of the role
khata_service, which cannot rewrite the journal. A PostgreSQL with fsync, full_page_writes or synchronous_commit off is
refused unless --unsafe is given. Run as many servers on one database as you like.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dsn == "" {
				return usagef("--dsn is required, such as \"host=localhost dbname=khata user=khata_service\"")
			}
			s, err := server.Start(cmd.Context(), at.config(dsn, a.logger()))
			if err != nil {
				return err
			}
			defer s.Stop()
			select {
			case <-cmd.Context().Done():
				return nil
			case err := <-s.Failed():
				return err
			}
		},
	}
	cmd.Flags().StringVar(&dsn, "dsn", "", "the database, as URL or key=value (role khata_service)")
	at.flags(cmd)
	return cmd
}
