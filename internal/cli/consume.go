package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/ledger/inbox"
)

func (a *app) consumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "consume",
		Short: "Consumers of events: the wallet view, text messages, verdicts",
		Long: `Consumers of events, each of which gives an event its effect once (docs/inbox.md). Run as many processes of one as you like: they share
the partitions of the topics.`,
	}
	cmd.AddCommand(a.consumeWalletCommand(), a.consumeSMSCommand(), a.consumeVerdictsCommand())
	return cmd
}

// consumerFlags are the flags of every command that runs a consumer.
type consumerFlags struct {
	config server.ConsumerConfig
	reach  kafkaFlags
}

func (f *consumerFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.config.DSN, "dsn", "", "the consumer's database, as URL or key=value")
	cmd.Flags().StringVar(&f.config.HTTP, "http", "", "address of /healthz and /metrics, such as 127.0.0.1:7082; empty leaves them out")
	cmd.Flags().StringVar(&f.config.Group, "group", "", "the consumer group in Kafka (default: the consumer's name)")
	cmd.Flags().DurationVar(&f.config.Window, "window", inbox.DefaultWindow, "for how long events are remembered; longer than the topics keep them")
	f.reach.flags(cmd)
	prefixFlag(cmd, &f.config.Topics)
}

// ledgerFlag is the flag of those who can read the books.
func (f *consumerFlags) ledgerFlag(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.config.LedgerDSN, "ledger-dsn", "", "the database of the books (role khata_service): "+what)
}

// skipLostFlag is the flag of those who cannot make up for what is gone.
func (f *consumerFlags) skipLostFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.config.SkipLost, "skip-lost", false, "go on without events that are gone from a topic before they were read")
	onlyOnCommandLine(cmd, "skip-lost")
}

// read is what the flags say.
func (f *consumerFlags) read(a *app) (_ server.ConsumerConfig, err error) {
	c := f.config
	if c.DSN == "" {
		return c, usagef("--dsn is required, such as \"host=localhost dbname=wallets user=khata_service\"")
	}
	if c.Window < time.Minute {
		return c, usagef("--window %v is too short", c.Window)
	}
	if c.Kafka, err = f.reach.config(a.getenv); err != nil {
		return c, err
	}
	c.Logger = a.logger()
	return c, nil
}

// consumerMigrateCommand makes the tables of a consumer.
func (a *app) consumerMigrateCommand(schema pg.Schema, grants func(role string) string) *cobra.Command {
	var dsn, role string
	cmd := &cobra.Command{
		Use:   "migrate --dsn DSN",
		Short: "Make its tables in a database, or bring them up to date",
		Long: fmt.Sprintf(`Make its tables in a database, or bring them up to date: the schemas %s and %s. The DSN is that of a role that may create
them. With --grant the role that the consumer runs as gets what it needs, and no more.`, schema.Name, inbox.DefaultSchema),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dsn == "" {
				return usagef("--dsn is required")
			}
			applied, err := server.MigrateConsumer(cmd.Context(), dsn, schema, role, grants)
			for _, name := range applied {
				_, _ = fmt.Fprintf(a.Out, "applied %s\n", name)
			}
			if err != nil {
				return err
			}
			if len(applied) == 0 {
				_, _ = fmt.Fprintln(a.Out, "its tables are up to date")
			}
			if role != "" {
				_, _ = fmt.Fprintf(a.Out, "granted to %s\n", role)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dsn, "dsn", "", "the database, as URL or key=value (its owner)")
	cmd.Flags().StringVar(&role, "grant", "", "the role of the consumer, which gets the rights that it needs")
	onlyOnCommandLine(cmd, "grant")
	return cmd
}
