package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/internal/wallet"
	"github.com/khata-ledger/khata/ledger"
)

func (a *app) consumeWalletCommand() *cobra.Command {
	var f consumerFlags
	var config server.WalletConfig
	cmd := &cobra.Command{
		Use:   "wallet --dsn DSN --kafka HOST:PORT,…",
		Short: "Keep a view of accounts: what each has, and what moved it last",
		Long: `Keep a view of the ledger's accounts in another database (docs/wallet.md): what each has, and what moved it last. It is fed by the topic of
accounts, and begins with the books, since a topic has no beginning: with --ledger-dsn it does so by itself, and also reads there what the
topic has lost. Without, run "khata consume wallet rebuild" first.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if config.Consumer, err = f.read(a); err != nil {
				return err
			}
			return server.RunWallet(cmd.Context(), config)
		},
	}
	f.flags(cmd)
	f.ledgerFlag(cmd, "to begin with, and for what the topic has lost")
	keepFlag(cmd, &config.Keep)
	cmd.AddCommand(a.consumerMigrateCommand(wallet.Schema, wallet.Grants), a.walletRebuildCommand(), a.walletShowCommand())
	return cmd
}

func keepFlag(cmd *cobra.Command, keep *time.Duration) {
	cmd.Flags().DurationVar(keep, "keep", wallet.DefaultKeep, "for how long movements are kept; balances do not depend on it")
}

func (a *app) walletRebuildCommand() *cobra.Command {
	var dsn, ledgerDSN string
	var keep time.Duration
	cmd := &cobra.Command{
		Use:   "rebuild --dsn DSN --ledger-dsn DSN",
		Short: "Build the view anew from the books",
		Long: `Build the view anew from the books: before the first start, and after a backup of the books was restored. The view that is there is read
until the new one is ready. Consumers may go on meanwhile.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dsn == "" || ledgerDSN == "" {
				return usagef("--dsn (of the view) and --ledger-dsn (of the books) are required")
			}
			return server.RebuildWallet(cmd.Context(), dsn, ledgerDSN, keep, a.logger())
		},
	}
	cmd.Flags().StringVar(&dsn, "dsn", "", "the database of the view, as URL or key=value")
	cmd.Flags().StringVar(&ledgerDSN, "ledger-dsn", "", "the database of the books (role khata_service)")
	keepFlag(cmd, &keep)
	return cmd
}

func (a *app) walletShowCommand() *cobra.Command {
	var db database
	var name string
	var movements int
	cmd := &cobra.Command{
		Use:   "show ACCOUNT --dsn DSN | --data-dir DIR",
		Short: "Show an account as the view has it",
		Args:  exactArgs("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if movements < 0 || movements > 1000 {
				return usagef("--movements %d: 0 to 1000", movements)
			}
			return db.open(cmd.Context(), func(dsn string) error {
				w, err := server.Wallet(cmd.Context(), dsn, ledger.Name(name), ledger.AccountID(args[0]), movements)
				if err != nil {
					return err
				}
				return a.print(w, walletText(w))
			})
		},
	}
	db.flags(cmd)
	cmd.Flags().StringVar(&name, "ledger", string(ledger.DefaultLedger), "the ledger")
	cmd.Flags().IntVar(&movements, "movements", 10, "how many of the last movements")
	cmd.Flags().BoolVar(&a.json, "json", false, "print a JSON object")
	return cmd
}

func isZero(amount wallet.Amount) bool { return strings.Trim(string(amount), "-0.") == "" }

func walletText(w wallet.Wallet) string {
	text := fmt.Sprintf("%s  %s %s", w.Account, w.Posted, w.Currency)
	if w.Available != w.Posted {
		text += fmt.Sprintf(", of which %s are held: %s available", w.Held, w.Available)
	}
	if !isZero(w.Incoming) {
		text += fmt.Sprintf(", %s incoming", w.Incoming)
	}
	if w.Name != "" {
		text += "  (" + w.Name + ")"
	}
	if w.Closed {
		text += "  closed"
	} else if w.Frozen != "" && w.Frozen != ledger.FrozenNone {
		text += "  frozen: " + string(w.Frozen)
	}
	text += fmt.Sprintf("\n  as of sequence %d", w.Version)
	if w.MovedAt != nil {
		text += ", " + formatTime(*w.MovedAt)
	}
	for _, m := range w.Movements {
		other := m.Payee
		if w.Account == m.Payee {
			other = m.Payer
		}
		what := m.Posted
		for _, part := range []wallet.Amount{m.Held, m.Incoming} {
			if isZero(what) {
				what = part
			}
		}
		text += fmt.Sprintf("\n  %s  %-8s %12s  %s %s  → %s  %s", formatTime(m.PostedAt), m.Kind, what, m.TransferID, other, m.Balance, m.Description)
	}
	return text
}
