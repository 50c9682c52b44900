package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// TestStorm_Changes freezes, unfreezes and closes accounts and changes their floors while two servers post to them. Every
// outcome must agree with the order of sequences, in which the changes have their places too, and every change must get
// its turn: alone, among small calls, and among large ones.
func TestStorm_Changes(t *testing.T) { allHaveTurns(t, changesOfAccounts) }

func changesOfAccounts(ctx context.Context, t *testing.T) *history {
	t.Helper()
	transfers, closings, changes := count(250, 1500), count(6, 30), count(4, 15)
	sd := seed(t)
	db := pgtest.New(t)
	b := newBench(t, db, db.ServiceDSN(), 2)
	s := &changing{bench: b, history: newHistory(), updates: &updates{}}
	b.create(t, cash())
	for i := range shops {
		b.create(t,
			ledger.AccountSpec{ID: shopID(i), Type: ledger.Liability, Currency: "BDT"},
			ledger.AccountSpec{ID: plainID(i), Type: ledger.Liability, Currency: "BDT"})
	}
	for n := range 1 + closings {
		b.create(t, ledger.AccountSpec{ID: passingID(n), Type: ledger.Liability, Currency: "BDT"})
	}
	s.passing.Store(0)

	small := phase{seed: sd, callers: 12, times: transfers, size: 1, entries: s.entries}
	t.Logf("without changes %.0f transfers/s", s.run(ctx, t, "quiet", small))

	closed, stop := s.startChanges(ctx, t, sd, closings)
	small.until = closed
	rate := s.run(ctx, t, "changing", small)
	stop()
	t.Logf("with changes %.0f transfers/s; changes: %s", rate, s.updates.summary())

	s.updates = &updates{earlier: s.updates}
	changed := make(chan struct{})
	r, clients := random(sd, 700), s.clients(t)
	go func() {
		defer close(changed)
		for i := range changes {
			_ = s.updates.do(ctx, clients[i%2], shopID(r.IntN(shops)), changeAtRandom(r))
		}
	}()
	rate = s.run(ctx, t, "large", phase{seed: sd, callers: 6, times: 1, size: 1000, entries: plain, until: changed})
	t.Logf("with changes, in calls of 1,000, %.0f transfers/s; changes: %s", rate, s.updates.summary())
	if ctx.Err() != nil {
		t.Fatal("it did not come to its end in time")
	}
	found := s.history.finish(t, b, true)
	s.updates.compare(t, found)
	if n := deadlocks(t, db); n > 0 {
		t.Errorf("PostgreSQL had to break %d deadlocks", n)
	}
	return s.history
}

const shops = 6

func shopID(i int) ledger.AccountID { return ledger.AccountID(fmt.Sprintf("shop:%d", i)) }

// plainID is an account that nobody changes, so that large calls are fast, and are not all refused.
func plainID(i int) ledger.AccountID { return ledger.AccountID(fmt.Sprintf("plain:%d", i)) }

func plain(r *rand.Rand) []ledger.Entry {
	p := r.Perm(shops)
	return ledger.Simple(plainID(p[0]), plainID(p[1]), cents(1, 2000, r), "BDT")
}

type changing struct {
	*bench
	history *history
	updates *updates
	// passing is the number of the account that is to be closed next, or has just been.
	passing atomic.Int64
}

func passingID(n int) ledger.AccountID { return ledger.AccountID(fmt.Sprintf("passing:%d", n)) }

// phase is callers that each post so many calls of a size, and more until a channel is closed, if there is one.
type phase struct {
	seed                 uint64
	callers, times, size int
	entries              func(*rand.Rand) []ledger.Entry
	until                <-chan struct{}
}

func (p phase) over(done int) bool {
	if done < p.times || p.until == nil {
		return done >= p.times
	}
	select {
	case <-p.until:
		return true
	default:
		return false
	}
}

// run runs a phase and returns how many transfers were decided in a second.
func (s *changing) run(ctx context.Context, t testing.TB, name string, p phase) float64 {
	t.Helper()
	var wg sync.WaitGroup
	var decided atomic.Int64
	started := time.Now()
	for n := range p.callers {
		r := random(p.seed, n)
		c := s.caller(t, s.history, r)
		wg.Go(func() {
			for i := 0; ctx.Err() == nil && !p.over(i); i++ {
				list := make([]ledger.TransferSpec, p.size)
				for k := range list {
					list[k] = ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprintf("%s-%d-%d-%d", name, n, i, k)), Entries: p.entries(r)}
				}
				c.post(ctx, list...)
				decided.Add(int64(p.size))
			}
		})
	}
	wg.Wait()
	return float64(decided.Load()) / time.Since(started).Seconds()
}

func (s *changing) entries(r *rand.Rand) []ledger.Entry {
	p := r.Perm(shops)
	value, passing := cents(1, 2000, r), passingID(int(s.passing.Load()))
	switch r.IntN(8) {
	case 0:
		return ledger.Simple("cash", passing, value, "BDT")
	case 1:
		return ledger.Simple(passing, shopID(p[0]), value, "BDT")
	case 2, 3:
		return ledger.Simple("cash", shopID(p[0]), value, "BDT")
	default:
		return ledger.Simple(shopID(p[0]), shopID(p[1]), value, "BDT")
	}
}

// startChanges changes accounts, without a pause, until it is stopped. It also closes so many, after which closed is closed.
func (s *changing) startChanges(ctx context.Context, t testing.TB, sd uint64, closings int) (closed <-chan struct{}, stop func()) {
	t.Helper()
	enough, allClosed := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for n := range 2 {
		r, clients := random(sd, 500+n), s.clients(t)
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				select {
				case <-enough:
					return
				default:
				}
				_ = s.updates.do(ctx, clients[i%2], shopID(r.IntN(shops)), changeAtRandom(r))
			}
		})
	}
	drain, clients := s.caller(t, s.history, random(sd, 600)), s.clients(t)
	wg.Go(func() {
		defer close(allClosed)
		for n := range closings {
			s.passing.Store(int64(1 + n))
			s.history.meter.wait(ctx, 100)
			s.close(ctx, drain, clients, passingID(1+n))
		}
	})
	return allClosed, func() {
		close(enough)
		wg.Wait()
	}
}

// changeAtRandom is a change at random. Half of them let everything through again.
func changeAtRandom(r *rand.Rand) ledger.AccountUpdate {
	frozen, floor := ledger.FrozenNone, decimal.New(r.Int64N(10_000)-5_000, -2)
	switch r.IntN(6) {
	case 0:
		frozen = pick(r, []ledger.Frozen{ledger.FrozenDebits, ledger.FrozenCredits, ledger.FrozenBoth})
		return ledger.AccountUpdate{Frozen: &frozen}
	case 1, 2:
		return ledger.AccountUpdate{Frozen: &frozen}
	case 3, 4:
		return ledger.AccountUpdate{Floor: &floor}
	default:
		return ledger.AccountUpdate{RemoveFloor: true, Serialised: new(bool)}
	}
}

// close empties an account and closes it, while others still pay into it and from it: the close only succeeds when nothing
// came between. After some tries it does as one does with such an account: no more out than there is, then nothing more in.
func (s *changing) close(ctx context.Context, c *caller, clients []*client.Client, id ledger.AccountID) {
	const patient, all = 10, 100
	closed, none, in := true, decimal.Zero, ledger.FrozenCredits
	for try := range all {
		balance, err := clients[try%2].Balance(ctx, id)
		if err != nil {
			s.history.fault("balance of %s: %v", id, err)
			return
		}
		switch {
		case try == patient:
			_ = s.updates.do(ctx, clients[0], id, ledger.AccountUpdate{Floor: &none})
			continue
		case try > patient && !balance.Posted.IsNegative():
			_ = s.updates.do(ctx, clients[0], id, ledger.AccountUpdate{Frozen: &in})
		}
		if !balance.Posted.IsZero() {
			drain := ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprintf("drain-%s-%d", id, try))}
			drain.Entries = ledger.Simple(id, "cash", balance.Posted.Abs(), "BDT")
			if balance.Posted.IsNegative() {
				drain.Entries = ledger.Simple("cash", id, balance.Posted.Abs(), "BDT")
			}
			c.post(ctx, drain)
		}
		if s.updates.do(ctx, clients[try%2], id, ledger.AccountUpdate{Closed: &closed}) == nil {
			s.history.meter.wait(ctx, 20) // Others still try.
			return
		}
	}
	s.history.fault("%s could not be closed in %d tries", id, all)
}

// updates measures changes of accounts.
type updates struct {
	earlier *updates

	mu       sync.Mutex
	took     []time.Duration
	accounts []ledger.Account // as they were answered
	faults   []error
}

func (u *updates) do(ctx context.Context, c *client.Client, id ledger.AccountID, update ledger.AccountUpdate) error {
	asked := time.Now()
	a, err := c.UpdateAccount(ctx, id, update)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.took = append(u.took, time.Since(asked))
	switch {
	case err == nil:
		u.accounts = append(u.accounts, a)
	case ledger.CodeOf(err) != ledger.CodeBalanceNotZero && ctx.Err() == nil:
		u.faults = append(u.faults, fmt.Errorf("change of %s after %s: %w", id, time.Since(asked), err))
	}
	return err
}

func (u *updates) summary() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.took) == 0 {
		return "none"
	}
	slices.Sort(u.took)
	at := func(share float64) time.Duration {
		return u.took[int(share*float64(len(u.took)-1))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("%d, of which %d failed; median %s, 99 %% %s, slowest %s", len(u.took), len(u.faults), at(0.5), at(0.99), at(1))
}

// compare checks that each answered state has its place in the order.
func (u *updates) compare(t testing.TB, b *books) {
	t.Helper()
	if u.earlier != nil {
		u.earlier.compare(t, b)
	}
	states := map[int64]ledger.Account{}
	for _, c := range b.changes {
		states[c.sequence] = c.account
	}
	for _, a := range u.accounts {
		s := states[a.Version]
		if s.ID != a.ID || s.Frozen != a.Frozen || s.Closed != a.Closed || (s.Floor == nil) != (a.Floor == nil) ||
			s.Floor != nil && !s.Floor.Equal(*a.Floor) {
			t.Errorf("a change was answered as %+v, and is there as %+v", a, s)
		}
	}
	for i, err := range u.faults {
		if i == 5 {
			t.Errorf("and %d changes more failed", len(u.faults)-5)
			break
		}
		t.Error(err)
	}
}
