package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/internal/sms"
)

// smsGatewayToken is no flag: everybody on the machine can read command lines.
const smsGatewayToken = "KHATA_SMS_GATEWAY_TOKEN" //nolint:gosec // the name of a variable

func (a *app) consumeSMSCommand() *cobra.Command {
	var f consumerFlags
	var config server.SMSConfig
	var language string
	cmd := &cobra.Command{
		Use:   "sms --dsn DSN --kafka HOST:PORT,… --gateway URL",
		Short: "Text messages: tell people what their accounts did, once for each event",
		Long: `Tell people by text message what their accounts did, once for each event. Whom to tell is in the metadata of the accounts: "phone", and if
wanted "sms" (all, received or off) and "sms_language" (bn or en). The first time it needs --ledger-dsn, to read the accounts that are there; or run
khata consume sms bootstrap before.

The gateway's token, if it wants one, is in ` + smsGatewayToken + `. docs/sms.md says what a gateway has to do, and what is guaranteed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if config.Gateway == "" {
				return usagef("--gateway is required, such as https://sms.example/v1")
			}
			config.Language, config.GatewayToken = sms.Language(language), a.getenv(smsGatewayToken)
			if !config.Language.Valid() {
				return usagef("--language %q is not bn or en", language)
			}
			if config.ConsumerConfig, err = f.read(a); err != nil {
				return err
			}
			return server.RunSMS(cmd.Context(), config)
		},
	}
	f.flags(cmd)
	f.ledgerFlag(cmd, "to read the accounts from at the start; required the first time")
	f.skipLostFlag(cmd)
	cmd.Flags().StringVar(&config.Gateway, "gateway", "", "base URL of the gateway; messages are sent to URL/messages")
	cmd.Flags().StringVar(&language, "language", string(sms.DefaultLanguage), "language of those whose account does not say: bn or en")
	cmd.Flags().StringVar(&config.Zone, "zone", sms.DefaultZone, "time zone of the texts")
	cmd.Flags().IntVar(&config.Senders, "senders", sms.DefaultSenders, "how many calls of the gateway are under way at most, 1 to 64")
	cmd.Flags().DurationVar(&config.MaxAge, "max-age", sms.DefaultMaxAge, "after how long a message is not sent any more")
	cmd.Flags().DurationVar(&config.Keep, "keep", sms.DefaultKeep, "for how long messages stay on record that were sent or have expired")
	for _, flag := range []string{"gateway", "language", "max-age", "keep"} {
		onlyOnCommandLine(cmd, flag)
	}
	cmd.AddCommand(a.consumerMigrateCommand(sms.Schema, sms.Grants), a.smsBootstrapCommand(), a.smsMessagesCommand(), a.smsRetryCommand())
	return cmd
}

func (a *app) smsBootstrapCommand() *cobra.Command {
	var dsn, ledgerDSN string
	var restored bool
	cmd := &cobra.Command{
		Use:   "bootstrap --dsn DSN --ledger-dsn DSN",
		Short: "Read the accounts from the books: who is to be told, and what everybody is called",
		Long: `Read the accounts from the books: who is to be told, and what everybody is called. The first time it also notes how far each ledger has come;
there are no messages for what was before. Later it only brings the directory up to date, and does no harm while the consumer runs.

After the books were restored from a backup, stop the consumer, run this with --restored, and start the consumer again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dsn == "" || ledgerDSN == "" {
				return usagef("--dsn and --ledger-dsn are required")
			}
			done, err := server.BootstrapSMS(cmd.Context(), dsn, ledgerDSN, restored, a.logger())
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(a.Out, "read %d accounts of %d ledgers\n", done.Accounts, done.Ledgers)
			if done.First {
				_, _ = fmt.Fprintln(a.Out, "messages begin with what comes now")
			}
			for _, name := range done.Restored {
				_, _ = fmt.Fprintf(a.Out, "ledger %s ends before what was noted, and messages begin with what comes now\n", name)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dsn, "dsn", "", "the consumer's database, as URL or key=value")
	cmd.Flags().StringVar(&ledgerDSN, "ledger-dsn", "", "the database of the books (role khata_service)")
	cmd.Flags().BoolVar(&restored, "restored", false, "the books were restored from a backup, and the consumer does not run")
	onlyOnCommandLine(cmd, "restored")
	return cmd
}

func (a *app) smsMessagesCommand() *cobra.Command {
	var db database
	var which sms.Selection
	var state string
	var show bool
	cmd := &cobra.Command{
		Use:   "messages --dsn DSN | --data-dir DIR",
		Short: "List messages, the newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			which.State = sms.State(state)
			if state != "" && !which.State.Valid() {
				return usagef("--state %q is not queued, sending, sent, failed or expired", state)
			}
			if which.Most < 1 || which.Most > sms.MaxListed {
				return usagef("--limit %d is not from 1 to %d", which.Most, sms.MaxListed)
			}
			return db.open(cmd.Context(), func(dsn string) error {
				list, err := server.SMSMessages(cmd.Context(), dsn, which)
				if err != nil {
					return err
				}
				for _, m := range list {
					if !show {
						m.Phone, m.LastError = sms.MaskPhone(m.Phone), sms.MaskNumbers(m.LastError)
					}
					if err := a.print(m, smsText(m)); err != nil {
						return err
					}
				}
				if len(list) == 0 && !a.json {
					_, _ = fmt.Fprintln(a.Out, "there are no messages")
				}
				return nil
			})
		},
	}
	db.flags(cmd)
	cmd.Flags().StringVar(&state, "state", "", "only those: queued, sending, sent, failed or expired")
	cmd.Flags().StringVar(&which.Account, "account", "", "only what this account was told")
	cmd.Flags().StringVar(&which.Ledger, "ledger", "", "only this ledger")
	cmd.Flags().IntVar(&which.Most, "limit", 100, "how many at most")
	cmd.Flags().BoolVar(&show, "show-phones", false, "phone numbers in full")
	cmd.Flags().BoolVar(&a.json, "json", false, "print each as a JSON object on a line")
	for _, flag := range []string{"state", "account", "ledger", "limit", "show-phones"} {
		onlyOnCommandLine(cmd, flag)
	}
	return cmd
}

func smsText(m sms.Entry) string {
	text := fmt.Sprintf("%s  %s  to %s  %s of ledger %s  %s", m.EventID, m.State, m.Phone, m.Account, m.Ledger, formatTime(m.EventTime))
	switch {
	case m.SentAt != nil:
		text += fmt.Sprintf(", sent %s as %s", formatTime(*m.SentAt), m.GatewayRef)
	case m.NextAttemptAt != nil:
		text += ", due " + formatTime(*m.NextAttemptAt)
	}
	text += fmt.Sprintf(", calls: %d\n  %s", m.Attempts, m.Text)
	if m.LastError != "" {
		text += "\n  " + m.LastError
	}
	return text
}

func (a *app) smsRetryCommand() *cobra.Command {
	var db database
	var all bool
	cmd := &cobra.Command{
		Use:   "retry (EVENT… | --all-failed) --dsn DSN | --data-dir DIR",
		Short: "Have messages tried again that the gateway refused, or that have expired",
		Long: `Have messages tried again that the gateway refused, or that have expired: to the same number, with the same text, under the same key. Their age is
counted from now on.`,
		RunE: func(cmd *cobra.Command, events []string) error {
			if all != (len(events) == 0) {
				return usagef("give either events or --all-failed")
			}
			return db.open(cmd.Context(), func(dsn string) error {
				n, err := server.RetrySMS(cmd.Context(), dsn, events)
				if err != nil {
					return err
				}
				_, _ = fmt.Fprintf(a.Out, "%d messages are tried again\n", n)
				if len(events) > n {
					_, _ = fmt.Fprintf(a.Out, "%d are not there, or neither failed nor expired\n", len(events)-n)
				}
				return nil
			})
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&all, "all-failed", false, "all that the gateway refused")
	onlyOnCommandLine(cmd, "all-failed")
	return cmd
}
