package wallet

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// Comparison is the view held against the books.
type Comparison struct {
	// Accounts and Movements are how many of the view were looked at.
	Accounts  int64 `json:"accounts"`
	Movements int64 `json:"movements"`
	// Differ are how many accounts are not what the books have as of their version, or are missing, and movements whose balance does not
	// follow from the one before. Differences are the first of them.
	Differ      int64        `json:"differ"`
	Differences []Difference `json:"differences"`
	// Behind are how many accounts have moved in the books since: their events are on the way.
	Behind int64 `json:"behind"`

	// lagging are those.
	lagging map[key]lag
}

// lag is at which sequence the view has an account, and the books have it.
type lag struct{ view, books int64 }

// Equal reports whether nothing differs; some accounts may be behind.
func (c Comparison) Equal() bool { return c.Differ == 0 }

// Difference is something of the view that the books contradict.
type Difference struct {
	Ledger  ledger.Name      `json:"ledger"`
	Account ledger.AccountID `json:"account"`
	Detail  string           `json:"detail"`
}

const (
	// compareAtOnce is how many accounts are asked for at once.
	compareAtOnce = 500
	// mostDifferences bounds how many are listed.
	mostDifferences = 20
)

// Await is Compare, and then for up to a time waits for what is on the way. An account that is not even then where the books had it at first is a
// difference: its events are not on the way.
func Await(ctx context.Context, pool *pgxpool.Pool, j *journal.Journal, wait time.Duration) (Comparison, error) {
	first, err := Compare(ctx, pool, j)
	now := first
	for deadline := time.Now().Add(wait); err == nil && wait > 0; now, err = Compare(ctx, pool, j) {
		late := now.late(first)
		if len(late) == 0 {
			break
		}
		if time.Now().After(deadline) {
			for _, k := range late {
				now.differs(k.ledger, k.account, "it is still at sequence %d, and the books had it at %d %s ago: its events are not on the way", now.lagging[k].view,
					first.lagging[k].books, wait)
			}
			break
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	return now, err
}

// late are the accounts that are not yet where the books had them in an earlier comparison.
func (c *Comparison) late(earlier Comparison) []key {
	late := map[key]bool{}
	for k, then := range earlier.lagging {
		if now, lags := c.lagging[k]; lags && now.view < then.books {
			late[k] = true
		}
	}
	return sorted(late)
}

// Compare holds the view against the books, which computes balances from entries, and not by what events are made of. Both may be at work
// meanwhile: an account is compared as of its own version.
func Compare(ctx context.Context, pool *pgxpool.Pool, j *journal.Journal) (Comparison, error) {
	c := comparer{sql: dbsqlc.New(), journal: j, Comparison: Comparison{Differences: []Difference{}, lagging: map[key]lag{}}}
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		// The session's limit is for those who hold locks.
		if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = '10min'"); err != nil {
			return err
		}
		c.tx = tx
		return c.compare(ctx)
	})
	return c.Comparison, err
}

type comparer struct {
	Comparison
	sql     *dbsqlc.Queries
	tx      pgx.Tx
	journal *journal.Journal
	state   state
}

func (c *comparer) compare(ctx context.Context) error {
	rows, err := c.sql.WalletState(ctx, c.tx)
	if err != nil {
		return fmt.Errorf("read the state of the wallet view: %w", err)
	}
	if c.state = stateOf(rows); c.state.generation == 0 {
		return ErrNeverBuilt
	}
	known := map[ledger.Name]bool{}
	ledgers, err := c.journal.Ledgers(ctx)
	if err != nil {
		return err
	}
	for _, l := range ledgers {
		known[l.Name] = true
		if err := c.ledger(ctx, l.Name); err != nil {
			return fmt.Errorf("compare ledger %s: %w", l.Name, err)
		}
	}
	ours, err := c.sql.WalletLedgers(ctx, c.tx, c.state.generation)
	if err != nil {
		return err
	}
	for _, name := range ours {
		if !known[ledger.Name(name)] {
			c.differs(ledger.Name(name), "", "the books have no such ledger")
		}
	}
	return c.movements(ctx)
}

func (c *Comparison) differs(name ledger.Name, account ledger.AccountID, format string, args ...any) {
	if c.Differ++; len(c.Differences) < mostDifferences {
		c.Differences = append(c.Differences, Difference{name, account, fmt.Sprintf(format, args...)})
	}
}

func (c *Comparison) lags(name ledger.Name, account ledger.AccountID, view, books int64) {
	c.Behind++
	c.lagging[key{name, account}] = lag{view, books}
}

// ledger goes through the accounts of the view and of the books, both in their order.
func (c *comparer) ledger(ctx context.Context, name ledger.Name) error {
	for after := ""; ; {
		page, err := c.sql.WalletPage(ctx, c.tx, dbsqlc.WalletPageParams{Generation: c.state.generation, Ledger: string(name), After: after, AtMost: compareAtOnce})
		if err != nil {
			return err
		}
		if err := c.page(ctx, name, page); err != nil {
			return err
		}
		if err := c.missing(ctx, name, after, page); err != nil {
			return err
		}
		if len(page) < compareAtOnce {
			return nil
		}
		after = page[len(page)-1].Account
	}
}

// page compares accounts as of their versions, and looks which of them have moved since.
func (c *comparer) page(ctx context.Context, name ledger.Name, page []dbsqlc.WalletPageRow) error {
	if len(page) == 0 {
		return nil
	}
	points := make([]journal.Point, 0, 2*len(page))
	for _, w := range page {
		id := ledger.AccountID(w.Account)
		points = append(points, journal.Point{Account: id, Through: w.Version}, journal.Point{Account: id, Through: journal.Latest})
	}
	balances, err := c.journal.BalancesAt(ctx, name, points)
	if err != nil {
		return err
	}
	for _, w := range page {
		c.Accounts++
		id := ledger.AccountID(w.Account)
		now, there := balances[journal.Point{Account: id, Through: journal.Latest}]
		then := balances[journal.Point{Account: id, Through: w.Version}]
		switch {
		case !there:
			c.differs(name, id, "the books have no such account")
			continue
		case then.Version != w.Version:
			c.differs(name, id, "it is at sequence %d, at which the books have no movement of it: the last one before is %d", w.Version, then.Version)
		case !w.Posted.Equal(then.Posted) || !w.Held.Equal(then.Held) || !w.Incoming.Equal(then.Incoming):
			c.differs(name, id, "as of sequence %d it has posted %s, held %s, incoming %s; the books have %s, %s, %s", w.Version, w.Posted, w.Held, w.Incoming,
				then.Posted, then.Held, then.Incoming)
		case w.Version > 0 && w.Currency != string(then.Currency.Code):
			c.differs(name, id, "it is in %q; the books have %s", w.Currency, then.Currency.Code)
		case w.LastBalance != nil && !w.LastBalance.Equal(w.Posted):
			c.differs(name, id, "it has %s, and its last movement says %s", w.Posted, *w.LastBalance)
		}
		if now.Version > w.Version {
			c.lags(name, id, w.Version, now.Version)
		}
	}
	return nil
}

// missing looks for accounts of the books between two of the view, or after the last, which have moved and should be there.
func (c *comparer) missing(ctx context.Context, name ledger.Name, after string, page []dbsqlc.WalletPageRow) error {
	there, last := map[ledger.AccountID]dbsqlc.WalletPageRow{}, ""
	for _, w := range page {
		there[ledger.AccountID(w.Account)] = w
		last = w.Account
	}
	for cursor := ledger.AccountID(after); ; {
		list, err := c.journal.Accounts(ctx, name, "", cursor, compareAtOnce)
		if err != nil {
			return err
		}
		var lost []journal.Point
		for _, a := range list {
			if len(page) == compareAtOnce && string(a.ID) > last {
				list = nil // They are of the next page.
				break
			}
			if w, found := there[a.ID]; !found {
				lost = append(lost, journal.Point{Account: a.ID, Through: journal.Latest})
			} else if w.AccountVersion == a.Version && (w.Name != a.Name || w.Type != string(a.Type) || w.Frozen != string(a.Frozen) || w.Closed != a.Closed) {
				c.differs(name, a.ID, "as of its change %d it is %q, %s, frozen %q, closed %t; in the books %q, %s, %q, %t", a.Version, w.Name, w.Type, w.Frozen, w.Closed,
					a.Name, a.Type, a.Frozen, a.Closed)
			}
		}
		if err := c.lost(ctx, name, lost); err != nil {
			return err
		}
		if len(list) < compareAtOnce {
			return nil
		}
		cursor = list[len(list)-1].ID
	}
}

// lost judges accounts that the view does not have: it may have those of which all is beyond what was read of the journal.
func (c *comparer) lost(ctx context.Context, name ledger.Name, points []journal.Point) error {
	if len(points) == 0 {
		return nil
	}
	covered := make([]journal.Point, len(points))
	for i, p := range points {
		covered[i] = journal.Point{Account: p.Account, Through: c.state.covered[name]}
	}
	balances, err := c.journal.BalancesAt(ctx, name, append(points, covered...))
	if err != nil {
		return err
	}
	for i, p := range points {
		switch {
		case balances[covered[i]].Version > 0:
			c.differs(name, p.Account, "it is not in the view, and had moved before sequence %d, through which the journal was read", covered[i].Through)
		case balances[p].Version > 0:
			c.lags(name, p.Account, 0, balances[p].Version)
		}
	}
	return nil
}

func (c *comparer) movements(ctx context.Context) (err error) {
	if c.Movements, err = c.sql.WalletMovementCount(ctx, c.tx, c.state.generation); err != nil {
		return err
	}
	wrong, err := c.sql.WalletWrongMovements(ctx, c.tx, dbsqlc.WalletWrongMovementsParams{Generation: c.state.generation, AtMost: mostDifferences})
	for _, m := range wrong {
		c.differs(ledger.Name(m.Ledger), ledger.AccountID(m.Account), "after the movement at sequence %d it says %s, and should say %s", m.Version, m.Balance, m.Should)
	}
	return err
}
