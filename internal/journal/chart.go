package journal

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// maxCharted bounds what a server remembers of each ledger: some 70 MB where every account has a floor.
const maxCharted = 200_000

// chart is what a server remembers of a ledger's accounts, so that posting need not read them each time. Nothing in it is
// believed for being there: every batch asks the database, behind the gate, which accounts have changed since.
//
// It is true of one run of one PostgreSQL. A backup that was restored, or a standby that was promoted, may know less, and
// give the same numbers to other facts.
type chart struct {
	// wary is for how many batches more the ids are looked up before the INSERT: see try.lookUp.
	wary atomic.Int32

	mu sync.RWMutex
	// started is when the PostgreSQL that all of this was read from was started.
	started time.Time
	// through is a number such that the accounts here are as all changes up to it have left them. Rules change only while no
	// batch is under way (the database sees to it), so whoever sees a change, behind the gate, sees every change of a lower
	// number too.
	through  int64
	accounts map[ledger.AccountID]*charted
}

// charted is an account and its rules. It is never changed, only replaced.
type charted struct {
	ledger.Account // without its name and metadata
	no             int64
	// The sums are those of the entries up to sequence through, as they were read by a batch that held the lock of the account: there
	// are no others up to there, and never will be. Only accounts with a floor or a ceiling have them.
	sums
	through int64
}

// sums are those of an account's entries, debits positive, and of what is held on either side.
type sums struct{ entries, heldDebit, heldCredit decimal.Decimal }

func (s sums) plus(entries, heldDebit, heldCredit decimal.Decimal) sums {
	return sums{s.entries.Add(entries), s.heldDebit.Add(heldDebit), s.heldCredit.Add(heldCredit)}
}

// funds gives the sums in the normal direction of an account.
func (s sums) funds(t ledger.AccountType, last int64) ledger.Funds {
	f := ledger.Funds{Posted: t.Signed(ledger.Debit, s.entries), Held: s.heldDebit, Incoming: s.heldCredit, Last: last}
	if t.NormalBalance() == ledger.Debit {
		f.Held, f.Incoming = f.Incoming, f.Held
	}
	return f
}

// summed reports whether the account's sums are needed to decide.
func (a *charted) summed() bool { return a.Floor != nil || a.Ceiling != nil }

func newChart() *chart { return &chart{accounts: map[ledger.AccountID]*charted{}} }

// view is what a batch knows of the accounts that it names.
type view struct {
	started time.Time
	through int64
	// accounts has each account that the batch names; nil for one that is not known.
	accounts map[ledger.AccountID]*charted
	unknown  []string
}

// look takes what is known of the accounts that requests name.
func (c *chart) look(items []item) view {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v := view{started: c.started, through: c.through, accounts: make(map[ledger.AccountID]*charted, 2*len(items))}
	for _, item := range items {
		for _, e := range item.entries() {
			if _, seen := v.accounts[e.Account]; seen {
				continue
			}
			a := c.accounts[e.Account]
			v.accounts[e.Account] = a
			if a == nil {
				v.unknown = append(v.unknown, string(e.Account))
			}
		}
	}
	return v
}

// add adds the accounts of entries to the view.
func (v *view) add(entries []ledger.Entry) {
	for _, e := range entries {
		if _, seen := v.accounts[e.Account]; !seen {
			v.accounts[e.Account] = nil
			v.unknown = append(v.unknown, string(e.Account))
		}
	}
}

// forget makes all accounts unknown.
func (v *view) forget() {
	v.unknown = v.unknown[:0]
	for id := range v.accounts {
		v.accounts[id] = nil
		v.unknown = append(v.unknown, string(id))
	}
}

// serialised lists those accounts of requests that are known to take one posting at a time, some twice. It routes; it
// decides nothing.
func (c *chart) serialised(items []item) []ledger.AccountID {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var ids []ledger.AccountID
	for _, item := range items {
		for _, e := range item.entries() {
			if a := c.accounts[e.Account]; a != nil && a.Serialised {
				ids = append(ids, e.Account)
			}
		}
	}
	return ids
}

// learn takes over what a batch has read of accounts, after it has seen the changes up to through and told forget.
func (c *chart) learn(started time.Time, through int64, accounts []*charted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Whoever has seen a later change had no reason to look for it among accounts that were not here.
	if !c.started.Equal(started) || c.through != through {
		return
	}
	for _, a := range accounts {
		known, ok := c.accounts[a.ID]
		if ok && known.Version == a.Version && known.through >= a.through {
			continue
		}
		if !ok && len(c.accounts) >= maxCharted {
			c.forgetAny()
		}
		c.accounts[a.ID] = a
	}
}

func (c *chart) forgetAny() {
	for id := range c.accounts { // in no order
		delete(c.accounts, id)
		return
	}
}

// forget drops the accounts that have changed from one number to another. The others are as these changes left them.
func (c *chart) forget(started time.Time, since, through int64, changed []ledger.AccountID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.started.Equal(started) || c.through < since {
		return
	}
	for _, id := range changed {
		delete(c.accounts, id)
	}
	c.through = max(c.through, through)
}

// reset drops everything and begins anew: with this PostgreSQL, and after this change.
func (c *chart) reset(started time.Time, through int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started, c.through = started, through
	clear(c.accounts)
}
