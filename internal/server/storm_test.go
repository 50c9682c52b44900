package server_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// stormLimit bounds a storm, which then fails: something stands still.
func stormLimit(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), time.Duration(count(2, 20))*time.Minute)
}

// TestStorm_Retries sends every transfer from several clients at once, in opposite orders, alone and in lists, to two
// servers, on accounts with floors that pay each other in circles, and some ids with contradictory content. Nothing is
// broken here, so every call has to be answered: no deadlock, no lost race and no timeout may reach a caller, but for the one
// that a machine brings which stands still.
func TestStorm_Retries(t *testing.T) { allHaveTurns(t, retries) }

func retries(ctx context.Context, t *testing.T) *history {
	t.Helper()
	const groups, callersInGroup, block = 4, 6, 60
	blocks := count(16, 150)
	w := workload{seed(t)}
	db := pgtest.New(t)
	b := newBench(t, db, db.ServiceDSN(), 2)
	b.create(t, workloadAccounts()...)
	h := newHistory()

	var wg sync.WaitGroup
	started := time.Now()
	for group := range groups {
		for n := range callersInGroup {
			r := random(w.seed, group*callersInGroup+n)
			c := b.caller(t, h, r)
			wg.Go(func() {
				for i := range blocks {
					// All callers of a group are at the same block at about the same time.
					for _, call := range calls(r, w.block(r, group, i*block, block, n)) {
						c.post(ctx, call...)
					}
				}
			})
		}
	}
	wg.Wait()
	took := time.Since(started)
	if ctx.Err() != nil {
		t.Fatalf("after %s the callers are still not done", took)
	}
	found := h.finish(t, b, true)
	if got, want := len(found.inOrder), groups*blocks*block; got != want {
		t.Errorf("%d transfers are there, want %d", got, want)
	}
	if n := deadlocks(t, db); n > 0 {
		t.Errorf("PostgreSQL had to break %d deadlocks", n)
	}
	t.Logf("%d answers in %s: %.0f/s, of which new transfers %.0f/s", h.meter.count(), took.Round(time.Millisecond),
		float64(h.meter.count())/took.Seconds(), float64(len(found.inOrder))/took.Seconds())
	return h
}

// TestStorm_OppositeOrder posts the same large lists at the same moment in different orders, on accounts that nobody has
// to wait for: only the ids can hold anybody up, and did so in a circle if they were written in the order in which they come.
func TestStorm_OppositeOrder(t *testing.T) { allHaveTurns(t, oppositeOrder) }

func oppositeOrder(ctx context.Context, t *testing.T) *history {
	t.Helper()
	const callers, size = 6, 200
	rounds := count(40, 800)
	w := workload{seed(t)}
	db := pgtest.New(t)
	b := newBench(t, db, db.ServiceDSN(), 2)
	b.create(t, workloadAccounts()...)
	h := newHistory()
	list := make([]*caller, callers)
	for n := range list {
		list[n] = &caller{history: h, clients: b.clients(t)[n%2 : n%2+1], random: random(w.seed, n)}
	}
	started := time.Now()
	for i := range rounds {
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for n, c := range list {
			specs := w.block(c.random, floorlessStream, i*size, size, n)
			wg.Go(func() {
				<-begin
				c.post(ctx, specs...)
			})
		}
		close(begin)
		wg.Wait()
	}
	took := time.Since(started)
	h.finish(t, b, true)
	if n := deadlocks(t, db); n > 0 {
		t.Errorf("PostgreSQL had to break %d deadlocks", n)
	}
	t.Logf("%d answers in %s: %.0f/s", h.meter.count(), took.Round(time.Millisecond), float64(h.meter.count())/took.Seconds())
	return h
}

// block is a stretch of a stream as one of its callers sends it: in his order, some of it twice, and, by the callers with
// a bug, some of it with other content.
func (w workload) block(r *rand.Rand, stream, from, size, caller int) []ledger.TransferSpec {
	var list []ledger.TransferSpec
	for i := from; i < from+size; i++ {
		s := w.spec(stream, i)
		if caller%3 == 2 && r.IntN(6) == 0 {
			s = contradict(s, r)
		}
		list = append(list, s)
		if r.IntN(10) == 0 {
			list = append(list, s)
		}
	}
	switch caller % 3 {
	case 1:
		slices.Reverse(list)
	case 2:
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return list
}

// calls cuts a list into calls of very different size.
func calls(r *rand.Rand, list []ledger.TransferSpec) [][]ledger.TransferSpec {
	var cut [][]ledger.TransferSpec
	for len(list) > 0 {
		n := min(pick(r, []int{1, 1, 1, 3, 10, 40}), len(list))
		cut = append(cut, list[:n])
		list = list[n:]
	}
	return cut
}

// deadlocks is how many PostgreSQL had to break in a database. Each costs a second that nobody is told of.
func deadlocks(t testing.TB, db *pgtest.DB) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if err := conn.QueryRow(t.Context(), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
