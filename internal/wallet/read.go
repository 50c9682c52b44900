package wallet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// Wallet is an account as the view has it.
type Wallet struct {
	Ledger   ledger.Name         `json:"ledger"`
	Account  ledger.AccountID    `json:"account"`
	Name     string              `json:"name"`
	Type     ledger.AccountType  `json:"type"`
	Currency ledger.CurrencyCode `json:"currency"`
	// Posted, Held and Incoming are the parts of its balance as of Version, in the account's normal direction.
	Posted   Amount `json:"posted"`
	Held     Amount `json:"held"`
	Incoming Amount `json:"incoming"`
	// Available is what can be spent.
	Available Amount `json:"available"`
	// Version is the sequence of the last movement; 0 if there was none. Together with MovedAt it says how fresh this is.
	Version int64         `json:"version"`
	MovedAt *time.Time    `json:"moved_at"`
	Frozen  ledger.Frozen `json:"frozen"`
	Closed  bool          `json:"closed"`
	// Movements are the last ones, the newest first.
	Movements []Movement `json:"movements"`
}

// Amount is a decimal at the scale of its currency.
type Amount string

// Movement is one movement of an account.
type Movement struct {
	Version    int64             `json:"version"`
	TransferID ledger.TransferID `json:"transfer_id"`
	Kind       ledger.Kind       `json:"kind"`
	Origin     ledger.TransferID `json:"origin"`
	// Posted, Held and Incoming are what it added to each part, and Balance what was posted after it.
	Posted      Amount           `json:"posted"`
	Held        Amount           `json:"held"`
	Incoming    Amount           `json:"incoming"`
	Balance     Amount           `json:"balance"`
	PostedAt    time.Time        `json:"posted_at"`
	EffectiveAt *time.Time       `json:"effective_at"`
	Description string           `json:"description"`
	Payer       ledger.AccountID `json:"payer"`
	Payee       ledger.AccountID `json:"payee"`
}

// ErrNoWallet says that the view has no such account, or not yet.
var ErrNoWallet = errors.New("the wallet view has no such account, or not yet")

// Get returns an account with its last movements, as of one moment. The error is ErrNoWallet if there is none.
func Get(ctx context.Context, pool *pgxpool.Pool, name ledger.Name, account ledger.AccountID, movements int) (Wallet, error) {
	sql, w := dbsqlc.New(), Wallet{Movements: []Movement{}}
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		r, err := sql.WalletByAccount(ctx, tx, dbsqlc.WalletByAccountParams{Ledger: string(name), Account: string(account)})
		if err != nil {
			return err
		}
		w.Ledger, w.Account, w.Name, w.Type = ledger.Name(r.Ledger), ledger.AccountID(r.Account), r.Name, ledger.AccountType(r.Type)
		amount := func(d decimal.Decimal) Amount { return Amount(ledger.FormatAmount(d, int32(r.Scale))) }
		w.Currency, w.Posted, w.Held, w.Incoming = ledger.CurrencyCode(r.Currency), amount(r.Posted), amount(r.Held), amount(r.Incoming)
		w.Available = amount(r.Posted.Sub(r.Held))
		w.Version, w.MovedAt, w.Frozen, w.Closed = r.Version, r.MovedAt, ledger.Frozen(r.Frozen), r.Closed
		rows, err := sql.WalletMovements(ctx, tx, dbsqlc.WalletMovementsParams{
			Ledger: string(name), Account: string(account), AtMost: int32(min(movements, 1000)), //nolint:gosec // bounded
		})
		for _, m := range rows {
			w.Movements = append(w.Movements, Movement{
				Version: m.Version, TransferID: ledger.TransferID(m.TransferID), Kind: ledger.Kind(m.Kind), Origin: ledger.TransferID(m.Origin),
				Posted: amount(m.Posted), Held: amount(m.Held), Incoming: amount(m.Incoming), Balance: amount(m.Balance), PostedAt: m.PostedAt, EffectiveAt: m.EffectiveAt,
				Description: m.Description, Payer: ledger.AccountID(m.Payer), Payee: ledger.AccountID(m.Payee),
			})
		}
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return w, fmt.Errorf("account %s of ledger %s: %w", account, name, ErrNoWallet)
	case err != nil:
		return w, fmt.Errorf("read the wallet view: %w", err)
	}
	return w, nil
}
