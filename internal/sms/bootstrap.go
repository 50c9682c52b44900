package sms

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// ErrNotBegun is what Run returns where the accounts of the books were never read.
var ErrNotBegun = errors.New("the directory of recipients is empty: the accounts have to be read from the books once. Give --ledger-dsn, " +
	"or run: khata consume sms bootstrap --dsn … --ledger-dsn …")

// accountsAtOnce is how many accounts are read at a time.
const accountsAtOnce = 1000

// Read is what Bootstrap has done.
type Read struct {
	Ledgers, Accounts int
	// First is whether it was the first time: movements from before it have no messages.
	First bool
	// Restored are ledgers whose numbers end before what was covered: they are from a backup.
	Restored []string
	badPhone int
}

// Bootstrap reads the directory from the books: every account of every ledger. The first time it also notes how far each ledger had come: there are
// no messages for what was before. It can be run again at any time, also while the consumer runs, and brings the directory up to date then.
//
// A ledger that is created after the first time has all its messages, so its movements are never covered.
func Bootstrap(ctx context.Context, books *journal.Journal, pool *pgxpool.Pool) (Read, error) {
	return bootstrap(ctx, books, pool, false)
}

// BootstrapRestored is Bootstrap after the books were restored from a backup. It also forgets what the directory has of changes that are lost: their
// numbers are given out again, and newer ones would look older. The consumer must not run meanwhile.
func BootstrapRestored(ctx context.Context, books *journal.Journal, pool *pgxpool.Pool) (Read, error) {
	return bootstrap(ctx, books, pool, true)
}

func bootstrap(ctx context.Context, books *journal.Journal, pool *pgxpool.Pool, restored bool) (done Read, err error) {
	ledgers, err := books.Ledgers(ctx)
	if err != nil {
		return done, fmt.Errorf("read the ledgers: %w", err)
	}
	var horizons dbsqlc.SMSCoverParams
	for _, l := range ledgers {
		// First the horizon, then the accounts: a change that comes in between is in both, and one that comes later has an event.
		horizon, err := books.Horizon(ctx, l.Name)
		if err != nil {
			return done, fmt.Errorf("find out how far the ledger %s has come: %w", l.Name, err)
		}
		horizons.Ledgers, horizons.Throughs = append(horizons.Ledgers, string(l.Name)), append(horizons.Throughs, horizon)
		if restored {
			if _, err := queries.SMSRecipientForget(ctx, pool, dbsqlc.SMSRecipientForgetParams{Ledger: string(l.Name), Horizon: horizon}); err != nil {
				return done, fmt.Errorf("forget what is lost: %w", err)
			}
		}
		if err := done.readAccounts(ctx, books, pool, l.Name); err != nil {
			return done, err
		}
		done.Ledgers++
	}
	err = pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		rows, err := queries.SMSBegin(ctx, tx)
		if err != nil {
			return err
		}
		if done.First = rows > 0; done.First {
			return queries.SMSCover(ctx, tx, horizons)
		}
		done.Restored, err = queries.SMSUncover(ctx, tx, dbsqlc.SMSUncoverParams(horizons))
		return err
	})
	if err != nil {
		return done, fmt.Errorf("note how far the ledgers have come: %w", err)
	}
	return done, nil
}

// readAccounts puts the accounts of a ledger into the directory.
func (r *Read) readAccounts(ctx context.Context, books *journal.Journal, pool *pgxpool.Pool, name ledger.Name) error {
	var after ledger.AccountID
	for {
		accounts, err := books.Accounts(ctx, name, "", after, accountsAtOnce)
		if err != nil {
			return fmt.Errorf("read the accounts of the ledger %s: %w", name, err)
		}
		list := make([]recipient, len(accounts))
		for i, a := range accounts {
			list[i] = newRecipient(place{string(name), string(a.ID)}, a.Name, string(a.Metadata), a.Version)
			if list[i].badPhone {
				r.badPhone++
			}
		}
		if err := putRecipients(ctx, pool, list); err != nil {
			return err
		}
		r.Accounts += len(accounts)
		if len(accounts) < accountsAtOnce {
			return nil
		}
		after = accounts[len(accounts)-1].ID
	}
}
