package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/shopspring/decimal"
	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/devpg"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) upCommand() *cobra.Command {
	var at addresses
	var dir, listen, sms string
	var reach kafkaFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start everything on this machine: PostgreSQL, schema, server, events, their consumers, a demo ledger",
		Long: `Start everything on this machine: a private PostgreSQL in the data directory, the schema, the server, a Kafka in memory with the relay
that publishes to it, the consumers of what is published (wallet view, text messages, fraud check), and a ledger "demo" with a few accounts to
play with. Ctrl-C stops it; the data stays, and the next "khata up" goes on with it. What is on that Kafka does not stay: at the next start the
events of the last two weeks are published again, and the consumers drop what they have had.

With --kafka it uses a Kafka of yours instead.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if dir == "" {
				if dir, err = devpg.DefaultDir(); err != nil {
					return err
				}
			}
			events := server.EventsConfig{Listen: listen, SMSListen: sms}
			if len(reach.brokers) > 0 {
				if events.Relay.Kafka, err = reach.config(a.getenv); err != nil {
					return err
				}
			}
			return a.up(cmd.Context(), dir, at, events)
		},
	}
	cmd.Flags().StringVar(&sms, "sms-listen", "127.0.0.1:7091", "address of the page that shows text messages, which go nowhere else; empty sends none")
	cmd.Flags().StringVar(&listen, "kafka-listen", "127.0.0.1:7092", "address of the Kafka in memory; empty publishes nothing, unless there is --kafka")
	reach.flags(cmd)
	cmd.Flags().StringVar(&dir, "data-dir", "", "where the database lives (default: /var/lib/khata for root, ~/.local/share/khata otherwise)")
	at.flags(cmd)
	at.paySandbox, at.payPage = true, true
	cmd.Flags().StringVar(&at.pay, "pay", "127.0.0.1:7090", "address of the payment API, with tokens such as sandbox-shimul; empty leaves it out")
	cmd.Flags().StringVar(&at.console, "console", "127.0.0.1:7093", "address of the console, the pages for finance and support; empty leaves it out")
	cmd.Flags().StringVar(&at.identity, "identity-listen", "127.0.0.1:7094", "address of the identity provider of the console's sandbox; empty leaves it out, and the console believes its visitors itself")
	if err := cmd.Flags().Lookup("pay-ledger").Value.Set(string(demoLedger)); err != nil {
		panic(err) // It takes any text.
	}
	cmd.Flags().Lookup("pay-ledger").DefValue = string(demoLedger)
	at.zone = "Asia/Dhaka" // where the demo's money is
	cmd.Flags().Lookup("console-zone").DefValue = at.zone
	return cmd
}

func (a *app) up(ctx context.Context, dir string, at addresses, events server.EventsConfig) (err error) {
	log := a.logger()
	database, err := server.StartEmbedded(ctx, devpg.Config{Dir: dir, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Stop(context.WithoutCancel(ctx))) }()
	config := at.config(database.ServiceDSN(), log)
	if config.Console == "" {
		config.ConsoleSandbox = ""
	}
	if config.Pay != "" {
		config.PaySandboxUsers = []server.PaySandboxUser{
			{Name: "Shimul", Token: "sandbox-shimul", Wallet: "wallet:shimul"}, {Name: "Tithi", Token: "sandbox-tithi", Wallet: "wallet:tithi"},
		}
	}
	if events.Listen != "" || len(events.Relay.Kafka.Brokers) > 0 {
		config.Consumers = database.ServiceDSN()
	}
	s, err := server.Start(ctx, config)
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := makeDemo(ctx, s.GRPCAddr()); err != nil {
		return fmt.Errorf("make the demo ledger: %w", err)
	}
	g := greeting{dir: dir, dsn: database.ServiceDSN(), grpc: s.GRPCAddr(), http: s.HTTPAddr(), pay: s.PayAddr(), console: s.ConsoleAddr()}
	failed := make(<-chan error)
	if events.Listen != "" || len(events.Relay.Kafka.Brokers) > 0 {
		events.Relay.DSN, events.Relay.Logger, events.Relay.Registry = database.ServiceDSN(), log, s.Registry()
		events.OwnerDSN = database.OwnerDSN()
		e, err := server.StartEvents(ctx, events)
		if err != nil {
			return fmt.Errorf("start the events: %w (--kafka-listen and --sms-listen are their addresses; empty leaves them out)", err)
		}
		defer e.Stop()
		g.brokers, g.sms, failed = strings.Join(e.Brokers(), ","), e.SMSURL(), e.Failed()
	}
	_, _ = fmt.Fprint(a.Out, g.text())
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.Failed():
		return err
	case err := <-failed:
		return err
	case <-database.Done():
		return fmt.Errorf("PostgreSQL has ended: %w (see %s)", database.Err(), database.LogPath())
	}
}

const demoLedger ledger.Name = "demo"

// makeDemo makes a ledger to play with. It can be made ten times: all of it is idempotent.
func makeDemo(ctx context.Context, address string) error {
	c, err := client.Dial(address, client.Options{Ledger: demoLedger})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := c.CreateLedger(ctx, demoLedger); err != nil {
		return err
	}
	none := decimal.Zero
	if _, err := c.CreateAccounts(ctx, []ledger.AccountSpec{
		{ID: "cash", Type: ledger.Asset, Currency: "BDT", Name: "Money in the bank"},
		{ID: "gateway:clearing:BDT", Type: ledger.Asset, Currency: "BDT", Name: "What the card gateway owes"},
		{ID: "fees", Type: ledger.Revenue, Currency: "BDT", Name: "Fees earned"},
		{ID: "wallet:shimul", Type: ledger.Liability, Currency: "BDT", Name: "Shimul", Floor: &none},
		{ID: "wallet:tithi", Type: ledger.Liability, Currency: "BDT", Name: "Tithi", Floor: &none},
	}); err != nil {
		return err
	}
	for id, phone := range map[ledger.AccountID]string{"wallet:shimul": "+8801712345678", "wallet:tithi": "+8801812345679"} {
		if err := giveDemoPhone(ctx, c, id, phone); err != nil {
			return err
		}
	}
	_, err = c.PostTransfer(ctx, ledger.TransferSpec{
		ID: "demo-opening", Description: "Shimul pays in at the counter",
		Entries: ledger.Simple("cash", "wallet:shimul", decimal.RequireFromString("5000.00"), "BDT"),
	})
	return err
}

// giveDemoPhone gives an account a number for messages, if it has nothing of the kind: a person may have changed it since.
func giveDemoPhone(ctx context.Context, c *client.Client, id ledger.AccountID, phone string) error {
	account, err := c.Account(ctx, id)
	if err != nil || account.Metadata != "" {
		return err
	}
	metadata := ledger.Metadata(fmt.Sprintf(`{"phone":%q,"sms_language":"en"}`, phone))
	_, err = c.UpdateAccount(ctx, id, ledger.AccountUpdate{Metadata: &metadata})
	return err
}
