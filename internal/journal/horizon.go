package journal

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// Horizon is a sequence of a ledger up to which nothing is under way any more: what is recorded up to there is all there will ever be. It is no
// lower than the last number drawn when it was called, and no number up to it will ever be drawn again, whatever crashes: so it can be kept in
// another database. It returns CodeLedgerNotFound.
func (j *Journal) Horizon(ctx context.Context, name ledger.Name) (horizon int64, err error) {
	book, err := j.ledger(ctx, name)
	if err != nil {
		return 0, err
	}
	err = j.read(ctx, "find the horizon", func(ctx context.Context) (err error) {
		if horizon, err = j.horizon(ctx, book.id); err != nil {
			return err
		}
		return pg.InTx(ctx, j.pool, func(tx pgx.Tx) error { return j.sql.FlushNumbers(ctx, tx) })
	})
	return horizon, err
}

// Latest is a sequence beyond all that are there.
const Latest int64 = math.MaxInt64

// Point is an account as of a sequence.
type Point struct {
	Account ledger.AccountID
	Through int64
}

// BalancesAt returns the balances of accounts, each as of a sequence of its own, up to MaxAccountsPerCall. Accounts that do not exist are
// left out. Through Latest is all that is visible now; other sequences are the caller's to know as decided.
func (j *Journal) BalancesAt(ctx context.Context, name ledger.Name, points []Point) (map[Point]ledger.Balance, error) {
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	asked := make([]balancePoint, len(points))
	for i, p := range points {
		asked[i] = balancePoint{p.Account, p.Through}
	}
	balances := make(map[Point]ledger.Balance, len(points))
	err = j.read(ctx, "read balances", func(ctx context.Context) error {
		found, err := j.balances(ctx, j.pool, book.id, asked)
		for p, b := range found {
			balances[Point{p.account, p.through}] = b
		}
		return err
	})
	return balances, err
}
