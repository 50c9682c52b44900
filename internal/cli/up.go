package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	var dir, listen string
	var reach kafkaFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start everything on this machine: PostgreSQL, schema, server, events, a demo ledger",
		Long: `Start everything on this machine: a private PostgreSQL in the data directory, the schema, the server, a Kafka in memory with the relay
that publishes to it, and a ledger "demo" with a few accounts to play with. Ctrl-C stops it; the data stays, and the next "khata up" goes on
with it. What is on that Kafka does not stay: at the next start the events of the last two weeks are published again.

With --kafka it publishes to a Kafka of yours instead.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if dir == "" {
				if dir, err = devpg.DefaultDir(); err != nil {
					return err
				}
			}
			events := server.EventsConfig{Listen: listen}
			if len(reach.brokers) > 0 {
				if events.Relay.Kafka, err = reach.config(a.getenv); err != nil {
					return err
				}
			}
			return a.up(cmd.Context(), dir, at, events)
		},
	}
	cmd.Flags().StringVar(&listen, "kafka-listen", "127.0.0.1:7092", "address of the Kafka in memory; empty publishes nothing, unless there is --kafka")
	reach.flags(cmd)
	cmd.Flags().StringVar(&dir, "data-dir", "", "where the database lives (default: /var/lib/khata for root, ~/.local/share/khata otherwise)")
	at.flags(cmd)
	at.paySandbox = true
	cmd.Flags().StringVar(&at.pay, "pay", "127.0.0.1:7090", "address of the payment API, with tokens such as sandbox-shimul; empty leaves it out")
	if err := cmd.Flags().Lookup("pay-ledger").Value.Set(string(demoLedger)); err != nil {
		panic(err) // It takes any text.
	}
	cmd.Flags().Lookup("pay-ledger").DefValue = string(demoLedger)
	return cmd
}

func (a *app) up(ctx context.Context, dir string, at addresses, events server.EventsConfig) (err error) {
	log := a.logger()
	database, err := server.StartEmbedded(ctx, devpg.Config{Dir: dir, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Stop(context.WithoutCancel(ctx))) }()
	s, err := server.Start(ctx, at.config(database.ServiceDSN(), log))
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := makeDemo(ctx, s.GRPCAddr()); err != nil {
		return fmt.Errorf("make the demo ledger: %w", err)
	}
	brokers, failed := "", make(<-chan error)
	if events.Listen != "" || len(events.Relay.Kafka.Brokers) > 0 {
		events.Relay.DSN, events.Relay.Logger, events.Relay.Registry = database.ServiceDSN(), log, s.Registry()
		events.OwnerDSN = database.OwnerDSN()
		e, err := server.StartEvents(ctx, events)
		if err != nil {
			return fmt.Errorf("start the events: %w (--kafka-listen is their address; empty leaves them out)", err)
		}
		defer e.Stop()
		brokers, failed = strings.Join(e.Brokers(), ","), e.Failed()
	}
	a.greet(dir, s, database.ServiceDSN(), brokers)
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
	_, err = c.PostTransfer(ctx, ledger.TransferSpec{
		ID: "demo-opening", Description: "Shimul pays in at the counter",
		Entries: ledger.Simple("cash", "wallet:shimul", decimal.RequireFromString("5000.00"), "BDT"),
	})
	return err
}

func (a *app) greet(dir string, s *server.Server, dsn, brokers string) {
	khata := os.Args[0]
	client := khata + " --ledger demo"
	if s.GRPCAddr() != defaultAddress {
		client += " --addr " + s.GRPCAddr()
	}
	pay, curl := "", ""
	if at := s.PayAddr(); at != "" {
		pay = fmt.Sprintf("  payments  http://%s/v1   (sandbox: whoever says sandbox-shimul is Shimul)\n", at)
		curl = fmt.Sprintf(`
Press it ten times, the money moves once:

  curl http://%[1]s/v1/transfers -H 'Authorization: Bearer sandbox-shimul' -H 'Content-Type: application/json' \
    -H 'Idempotency-Key: "a-key-for-this-payment"' -d '{"from":"wallet:shimul","to":"wallet:tithi","amount":"20.00","currency":"BDT"}'

Take money from a card (card-decline, card-slow-2s, card-charge-then-lose and others misbehave as they say; docs/payments-cash-ins.md):

  curl http://%[1]s/v1/cash-ins -H 'Authorization: Bearer sandbox-shimul' -H 'Content-Type: application/json' \
    -H 'Idempotency-Key: "a-key-for-this-cash-in"' -d '{"to":"wallet:shimul","card":"card-4000","amount":"100.00","currency":"BDT"}'
`, at)
	}
	events, look := "", ""
	if brokers != "" {
		events = fmt.Sprintf("  events    %s   (Kafka: topics khata.transfers and khata.accounts)\n", brokers)
		look = fmt.Sprintf("  %s events --kafka %s --from-beginning\n", khata, brokers)
	}
	_, _ = fmt.Fprintf(a.Out, `
Khata is up.

  gRPC      %[1]s   (reflection is on)
  HTTP      http://%[2]s/healthz  /readyz  /metrics
%[7]s%[9]s  data      %[3]s
  psql      psql "%[4]s"

Try, in another terminal:

  %[5]s balance wallet:shimul
  %[5]s transfer post --id TXN-1 --debit wallet:shimul --credit wallet:tithi --amount 500.00
  %[5]s transfer post --id TXN-1 --debit wallet:shimul --credit wallet:tithi --amount 500.00
  %[5]s entries wallet:shimul
%[10]s  %[6]s verify --data-dir %[3]s

Ctrl-C stops it; the data stays.
%[8]s`, s.GRPCAddr(), s.HTTPAddr(), dir, dsn, client, khata, pay, curl, events, look)
}
