package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/wallet"
	"github.com/khata-ledger/khata/ledger"
)

// WalletConfig is how to keep a wallet view.
type WalletConfig struct {
	Consumer ConsumerConfig
	// Keep is for how long movements are kept; 0 is wallet.DefaultKeep.
	Keep time.Duration
	// Complete completes the view from the books before it follows the events.
	Complete bool
}

// RunWallet keeps the wallet view of a database until ctx ends. It returns an error where it cannot begin, and where waiting would not help.
func RunWallet(ctx context.Context, config WalletConfig) error {
	c := config.Consumer
	return c.run(ctx, wallet.Schema, func(with consuming) error {
		with.inbox.Topics = []string{c.Topics.Accounts()}
		w := wallet.Config{Inbox: with.inbox, Keep: config.Keep, Complete: config.Complete, Metrics: wallet.NewMetrics(with.registry)}
		if c.LedgerDSN == "" {
			return wallet.Run(ctx, w)
		}
		return withJournal(ctx, c.LedgerDSN, c.Logger, func(j *journal.Journal, _ *pgxpool.Pool) error {
			w.Journal = j
			return wallet.Run(ctx, w)
		})
	})
}

// withWallet opens a wallet view and the books that it is of.
func withWallet(ctx context.Context, dsn, ledgerDSN string, log *slog.Logger, do func(*pgxpool.Pool, *journal.Journal) error) error {
	return withDatabase(ctx, dsn, func(view *pgxpool.Pool) error {
		if err := wallet.Schema.Check(ctx, view); err != nil {
			return err
		}
		return withJournal(ctx, ledgerDSN, log, func(j *journal.Journal, _ *pgxpool.Pool) error { return do(view, j) })
	})
}

// RebuildWallet builds the wallet view of a database anew from the books.
func RebuildWallet(ctx context.Context, dsn, ledgerDSN string, keep time.Duration, log *slog.Logger) error {
	return withWallet(ctx, dsn, ledgerDSN, log, func(view *pgxpool.Pool, j *journal.Journal) error {
		return wallet.Rebuild(ctx, view, j, keep, log)
	})
}

// CompareWallet holds the wallet view of a database against the books, and waits so long for what is on the way; see wallet.Await.
func CompareWallet(ctx context.Context, dsn, ledgerDSN string, wait time.Duration) (c wallet.Comparison, err error) {
	err = withWallet(ctx, dsn, ledgerDSN, slog.New(slog.DiscardHandler), func(view *pgxpool.Pool, j *journal.Journal) error {
		c, err = wallet.Await(ctx, view, j, wait)
		return err
	})
	return c, err
}

// Wallet is an account as the wallet view of a database has it, with its last movements.
func Wallet(ctx context.Context, dsn string, name ledger.Name, account ledger.AccountID, movements int) (w wallet.Wallet, err error) {
	err = withDatabase(ctx, dsn, func(view *pgxpool.Pool) error {
		if err := wallet.Schema.Check(ctx, view); err != nil {
			return err
		}
		w, err = wallet.Get(ctx, view, name, account, movements)
		return err
	})
	return w, err
}
