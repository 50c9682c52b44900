package journal

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// latest as the point of a balance means: everything that is visible.
const latest = math.MaxInt64

// balancePoint is an account at a sequence.
type balancePoint struct {
	account ledger.AccountID
	through int64
}

// Balances returns the balances of accounts at one point in time, now, in the order of the ids. Every transfer whose answer
// anyone had before the call is in them. It returns CodeInvalidArgument or CodeAccountNotFound.
func (j *Journal) Balances(ctx context.Context, name ledger.Name, ids []ledger.AccountID) ([]ledger.Balance, error) {
	return j.BalancesAsOf(ctx, name, ids, ledger.AsOf{})
}

// BalancesAsOf is Balances as of a point of the past. Of the transfers whose answer anyone had before the call, those that lie
// before the point are in them. It returns CodeInvalidArgument, also for a point that is still to come, or
// CodeAccountNotFound.
func (j *Journal) BalancesAsOf(ctx context.Context, name ledger.Name, ids []ledger.AccountID, at ledger.AsOf) ([]ledger.Balance, error) {
	if len(ids) == 0 || len(ids) > MaxAccountsPerCall {
		return nil, ledger.Invalid("accounts", "has %d accounts, want 1 to %d", len(ids), MaxAccountsPerCall)
	}
	for _, id := range ids {
		if err := id.ValidateFormat("account"); err != nil {
			return nil, err
		}
	}
	if err := at.Validate(); err != nil {
		return nil, err
	}
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	var found map[ledger.AccountID]ledger.Balance
	err = j.read(ctx, "read balances", func(ctx context.Context) (err error) {
		found, err = j.balancesAsOf(ctx, book.id, ids, at)
		return err
	})
	if err != nil {
		return nil, err
	}
	balances := make([]ledger.Balance, len(ids))
	for i, id := range ids {
		balance, ok := found[id]
		if !ok {
			return nil, accountMissing(id)
		}
		balances[i] = balance
	}
	return balances, nil
}

func (j *Journal) balancesAsOf(ctx context.Context, ledgerID int32, ids []ledger.AccountID, at ledger.AsOf) (map[ledger.AccountID]ledger.Balance, error) {
	through := int64(latest)
	switch {
	case at.PostedAt != nil:
		return j.balancesPostedBy(ctx, ledgerID, ids, *at.PostedAt)
	case at.EffectiveAt != nil:
		return j.balancesEffectiveBy(ctx, ledgerID, ids, *at.EffectiveAt)
	case at.Sequence != nil:
		through = *at.Sequence
		if err := j.awaitSequence(ctx, ledgerID, through); err != nil {
			return nil, err
		}
	}
	points := make([]balancePoint, len(ids))
	for i, id := range ids {
		points[i] = balancePoint{id, through}
	}
	list, err := j.balances(ctx, j.pool, ledgerID, points)
	found := make(map[ledger.AccountID]ledger.Balance, len(list))
	for point, balance := range list {
		if at.Sequence != nil {
			balance.AsOf = through
		}
		found[point.account] = balance
	}
	return found, err
}

// awaitSequence waits until everything up to a sequence is decided and stays so.
func (j *Journal) awaitSequence(ctx context.Context, ledgerID int32, sequence int64) error {
	final, err := j.sql.MarkBehind(ctx, j.pool, dbsqlc.MarkBehindParams{LedgerID: ledgerID, Sequence: sequence})
	if err != nil || final {
		return err
	}
	horizon, err := j.horizon(ctx, ledgerID)
	if err != nil {
		return err
	}
	if sequence > horizon {
		return ledger.Invalid("as_of_sequence", "%d is still to come: the last number is %d", sequence, horizon)
	}
	// After a crash, numbers that nothing was committed under could be drawn again, below the one that we answer for.
	return pg.InTx(ctx, j.pool, func(tx pgx.Tx) error { return j.sql.FlushNumbers(ctx, tx) })
}

// balancesPostedBy gives the balances over the transfers that were posted at or before a time. All of those are decided: who
// draws a number after the horizon was read reads the clock after that, and it was past the time already.
func (j *Journal) balancesPostedBy(ctx context.Context, ledgerID int32, ids []ledger.AccountID, at time.Time) (map[ledger.AccountID]ledger.Balance, error) {
	now, err := j.sql.Clock(ctx, j.pool)
	if err != nil {
		return nil, err
	}
	if at.After(now) {
		return nil, ledger.Invalid("as_of_posted_at", "%s is still to come: the database's clock says %s",
			at.UTC().Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339Nano))
	}
	return j.balancesByTime(ctx, ledgerID, ids, at, false)
}

// balancesEffectiveBy gives the balances over the transfers that took effect at or before a time, as far as is known now.
func (j *Journal) balancesEffectiveBy(ctx context.Context, ledgerID int32, ids []ledger.AccountID, at time.Time) (map[ledger.AccountID]ledger.Balance, error) {
	return j.balancesByTime(ctx, ledgerID, ids, at, true)
}

// balancesByTime waits for the horizon, and then narrows the time down to numbers and reads the balances in two statements:
// behind the horizon nothing changes in between, and one statement for both would be planned without knowing how few numbers
// are left.
func (j *Journal) balancesByTime(ctx context.Context, ledgerID int32, ids []ledger.AccountID, at time.Time, byValueDate bool) (map[ledger.AccountID]ledger.Balance, error) {
	horizon, err := j.horizon(ctx, ledgerID)
	if err != nil {
		return nil, err
	}
	// The database's times are whole microseconds, so nothing lies between the time asked for and the one before it.
	at = at.Truncate(time.Microsecond)
	stretches, err := j.sql.StretchesAround(ctx, j.pool, dbsqlc.StretchesAroundParams{LedgerID: ledgerID, At: at, Horizon: horizon})
	if err != nil {
		return nil, fmt.Errorf("narrow the time down: %w", err)
	}
	args := dbsqlc.BalancesByTimeParams{
		LedgerID: ledgerID, AccountIds: unique(ids), At: at, ByValueDate: byValueDate, Horizon: horizon, Base: stretches[0].After,
	}
	for _, s := range stretches {
		if last := len(args.Throughs) - 1; last >= 0 && args.Throughs[last] == s.After {
			args.Throughs[last] = s.Through
			continue
		}
		args.Afters = append(args.Afters, s.After)
		args.Throughs = append(args.Throughs, s.Through)
	}
	rows, err := j.sql.BalancesByTime(ctx, j.pool, args)
	balances := make(map[ledger.AccountID]ledger.Balance, len(rows))
	for _, row := range rows {
		b := balance(row.AccountID, row.Type, row.Currency, row.Scale, sums{row.Sum, row.HeldDebit, row.HeldCredit}, row.Version)
		b.AsOf = horizon
		balances[b.Account] = b
	}
	return balances, err
}

func unique(ids []ledger.AccountID) []string {
	seen := make(map[ledger.AccountID]bool, len(ids))
	var list []string
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			list = append(list, string(id))
		}
	}
	return list
}

// balances computes balances in one statement, and so at one point in time.
func (j *Journal) balances(ctx context.Context, db dbsqlc.DBTX, ledgerID int32, points []balancePoint) (map[balancePoint]ledger.Balance, error) {
	args := dbsqlc.BalancesAtParams{LedgerID: ledgerID}
	asked := map[balancePoint]bool{}
	for _, p := range points {
		if !asked[p] {
			asked[p] = true
			args.AccountIds = append(args.AccountIds, string(p.account))
			args.Throughs = append(args.Throughs, p.through)
		}
	}
	rows, err := j.sql.BalancesAt(ctx, db, args)
	if err != nil {
		return nil, err
	}
	balances := make(map[balancePoint]ledger.Balance, len(rows))
	for _, row := range rows {
		b := balance(row.AccountID, row.Type, row.Currency, row.Scale, sums{row.Sum, row.HeldDebit, row.HeldCredit}, row.Version)
		balances[balancePoint{b.Account, row.Through}] = b
	}
	return balances, nil
}

func balance(id, accountType, currency string, scale int16, s sums, version int64) ledger.Balance {
	funds := s.funds(ledger.AccountType(accountType), version)
	return ledger.Balance{
		Account:  ledger.AccountID(id),
		Currency: ledger.Currency{Code: ledger.CurrencyCode(currency), Scale: int32(scale)},
		Posted:   funds.Posted, Held: funds.Held, Incoming: funds.Incoming, Version: version,
	}
}
