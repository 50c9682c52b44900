package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/ledger"
)

func (a *app) relayCommand() *cobra.Command {
	config := server.RelayConfig{}
	var reach kafkaFlags
	cmd := &cobra.Command{
		Use:   "relay --dsn DSN --kafka HOST:PORT,…",
		Short: "Publish the journal to Kafka",
		Long: `Publish the journal to Kafka: every decided transfer and every change of an account, in the order of decision, at least once. The topics
must be there (khata topics ensure). Run two or three relays, on different machines: one works, the others wait for their turn.

docs/events.md says what is published, and what consumers may rely on.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if config.DSN == "" {
				return usagef("--dsn is required, such as \"host=localhost dbname=khata user=khata_service\"")
			}
			if config.Kafka, err = reach.config(a.getenv); err != nil {
				return err
			}
			config.Logger = a.logger()
			return server.RunRelay(cmd.Context(), config)
		},
	}
	cmd.Flags().StringVar(&config.DSN, "dsn", "", "the database, as URL or key=value (role khata_service)")
	cmd.Flags().StringVar(&config.HTTP, "http", "", "address of /healthz and /metrics, such as 127.0.0.1:7081; empty leaves them out")
	reach.flags(cmd)
	prefixFlag(cmd, &config.Topics)
	cmd.AddCommand(a.relayStatusCommand(), a.relayParkedCommand(), a.relayRewindCommand())
	return cmd
}

func (a *app) relayStatusCommand() *cobra.Command {
	var db database
	cmd := &cobra.Command{
		Use:   "status --dsn DSN | --data-dir DIR",
		Short: "Who publishes, and how far",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return db.open(cmd.Context(), func(dsn string) error {
				status, err := server.RelayStatus(cmd.Context(), dsn)
				if err != nil {
					return err
				}
				return a.print(status, statusText(status, time.Now()))
			})
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&a.json, "json", false, "print a JSON object")
	return cmd
}

func statusText(s relay.Status, now time.Time) string {
	text := "nobody publishes"
	if s.LeaseLeft > 0 {
		text = fmt.Sprintf("%s publishes, in term %d", s.Holder, s.Term)
	}
	if s.Cluster != "" {
		text += fmt.Sprintf("; topics %s.*, cluster %s", s.Prefix, s.Cluster)
	}
	for _, l := range s.Ledgers {
		text += fmt.Sprintf("\nledger %s: %d records, through number %d", l.Ledger, l.Records, l.Through)
		if l.Oldest != nil {
			text += fmt.Sprintf("; the oldest that is not published is %s old", max(0, now.Sub(*l.Oldest)).Round(time.Millisecond))
		} else {
			text += ", which is all"
		}
	}
	if s.Parked > 0 {
		text += fmt.Sprintf("\n%d events are parked: see khata relay parked", s.Parked)
	}
	return text
}

func (a *app) relayParkedCommand() *cobra.Command {
	var db database
	var settled bool
	cmd := &cobra.Command{
		Use:   "parked --dsn DSN | --data-dir DIR",
		Short: "List the events that Kafka does not take, by topic and key",
		Long: `List the events that Kafka does not take, and those behind them: of the same topic and key, which have to stay in order. Have them tried
again when what was in the way is gone, or give them up.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return db.open(cmd.Context(), func(dsn string) error {
				list, err := server.ParkedEvents(cmd.Context(), dsn, settled)
				if err != nil {
					return err
				}
				for _, p := range list {
					if err := a.print(p, parkedText(p)); err != nil {
						return err
					}
				}
				if len(list) == 0 && !a.json {
					_, _ = fmt.Fprintln(a.Out, "nothing is parked")
				}
				return nil
			})
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&settled, "settled", false, "also those that were published or skipped since")
	cmd.Flags().BoolVar(&a.json, "json", false, "print each as a JSON object on a line")
	cmd.AddCommand(a.parkedRetryCommand(), a.parkedSkipCommand())
	return cmd
}

func parkedText(p relay.Parked) string {
	why := p.Error
	if why == "" {
		why = "waits for what is parked before it"
	}
	state := ""
	switch {
	case p.Outcome != "":
		state = fmt.Sprintf(", %s %s", p.Outcome, p.SettledAt.UTC().Format(timeFormat))
	case p.Request != "":
		state = ", to " + p.Request
	}
	if p.Reason != "" {
		state += " (" + p.Reason + ")"
	}
	return fmt.Sprintf("%s  %s  key %s  ledger %s, number %d\n  to %s, parked %s%s: %s", p.EventID, p.Type, p.Key, p.Ledger, p.Sequence, p.Topic,
		p.ParkedAt.Format(timeFormat), state, why)
}

func (a *app) parkedRetryCommand() *cobra.Command {
	var db database
	cmd := &cobra.Command{
		Use:   "retry [EVENT…] --dsn DSN | --data-dir DIR",
		Short: "Have them published again: those named and what is parked before them, or all",
		RunE: func(cmd *cobra.Command, args []string) error {
			return db.open(cmd.Context(), func(dsn string) error {
				n, err := server.RetryParked(cmd.Context(), dsn, args)
				if err != nil {
					return err
				}
				_, _ = fmt.Fprintf(a.Out, "asked for %d; the relay tries within some seconds\n", n)
				return nil
			})
		},
	}
	db.flags(cmd)
	return cmd
}

func (a *app) parkedSkipCommand() *cobra.Command {
	var db database
	var reason string
	cmd := &cobra.Command{
		Use:   "skip EVENT… --reason TEXT --dsn DSN | --data-dir DIR",
		Short: "Give them up: they are never published, and what waits behind them is",
		Args:  atLeastOneArg("EVENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usagef("--reason is required: it is kept")
			}
			return db.open(cmd.Context(), func(dsn string) error {
				if err := server.SkipParked(cmd.Context(), dsn, args, reason); err != nil {
					return err
				}
				_, _ = fmt.Fprintf(a.Out, "asked for %d; the relay goes on within some seconds\n", len(args))
				return nil
			})
		},
	}
	db.flags(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why nobody needs them")
	return cmd
}

func (a *app) relayRewindCommand() *cobra.Command {
	var db database
	var name, since string
	var toBeginning bool
	cmd := &cobra.Command{
		Use:   "rewind --since TIME | --to-beginning --dsn DSN | --data-dir DIR",
		Short: "Have records published again, here or on another Kafka",
		Long: `Have records published again: those recorded since a time (and up to 256 transfers before), or all. Consumers drop what they have had,
as far as their window goes. A relay that is at work begins anew.

With it a relay is also told where to begin on another Kafka or with other topics: rewind all ledgers, and start it there.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (since == "") == !toBeginning {
				return usagef("give either --since or --to-beginning")
			}
			var at time.Time
			if since != "" {
				var err error
				if at, err = time.Parse(time.RFC3339Nano, since); err != nil {
					return usagef("--since %q is not a time such as 2026-11-01T00:00:00Z", since)
				}
			}
			return db.open(cmd.Context(), func(dsn string) error {
				if err := server.RewindRelay(cmd.Context(), dsn, relay.Back{Ledger: ledger.Name(name), Since: at}); err != nil {
					return err
				}
				_, _ = fmt.Fprintln(a.Out, "rewound")
				return nil
			})
		},
	}
	db.flags(cmd)
	cmd.Flags().StringVar(&since, "since", "", "from this time on, such as 2026-11-01T00:00:00Z")
	cmd.Flags().BoolVar(&toBeginning, "to-beginning", false, "from the first record on")
	cmd.Flags().StringVar(&name, "only", "", "this ledger only")
	return cmd
}
