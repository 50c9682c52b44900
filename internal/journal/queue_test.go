package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/ledger"
)

// desk is a queue whose batches are under way until the test ends them. It is used in a bubble of synctest: after
// synctest.Wait all has happened that can happen without the test, and no time passes unless everybody waits for it.
type desk struct {
	*queue
	mu       sync.Mutex
	underWay []*begun
}

// begun is a batch that is under way.
type begun struct {
	book     int32
	requests []*request
	end      chan struct{}
}

func newDesk(places, perBook, maxBytes int) *desk {
	d := &desk{}
	d.queue = &queue{
		lines: map[int32]*line{}, places: places, perBook: perBook, maxBytes: maxBytes,
		run: func(book ledgerRow, requests []*request) {
			b := &begun{book.id, requests, make(chan struct{})}
			d.mu.Lock()
			d.underWay = append(d.underWay, b)
			d.mu.Unlock()
			<-b.end
			for _, r := range requests {
				r.done <- make([]PostResult, len(r.items))
			}
		},
	}
	return d
}

// end ends a batch, by its place among those under way.
func (d *desk) end(i int) *begun {
	d.mu.Lock()
	b := d.underWay[i]
	d.underWay = slices.Delete(d.underWay, i, i+1)
	d.mu.Unlock()
	close(b.end)
	synctest.Wait()
	return b
}

// endAll ends batches until none is under way, and returns how many there were.
func (d *desk) endAll() (n int) {
	for synctest.Wait(); len(d.underWay) > 0; n++ {
		d.end(0)
	}
	return n
}

func (d *desk) mustAdd(t testing.TB, book int32, r *request) *request {
	t.Helper()
	if err := d.add(ledgerRow{book}, r); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return r
}

// asking makes a request for a transfer of each id, which names these serialised accounts.
func asking(ids string, serialised ...ledger.AccountID) *request {
	r := newRequest()
	for id := range strings.FieldsSeq(ids) {
		r.add(item{caller: "local", spec: ledger.TransferSpec{
			ID: ledger.TransferID(id), Entries: ledger.Simple("cash", "shop", decimal.New(1, 0), ""),
		}}, 2)
	}
	r.serialised = serialised
	return r
}

func idsOf(requests []*request) string {
	var ids []string
	for _, r := range requests {
		for _, item := range r.items {
			ids = append(ids, string(item.spec.ID))
		}
	}
	return strings.Join(ids, " ")
}

// underWayIDs gives the ids of each batch.
func (d *desk) underWayIDs() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, b := range d.underWay {
		all = append(all, idsOf(b.requests))
	}
	return strings.Join(all, " | ")
}

// A lone request begins at once. What comes while the places are taken shares the next batch, and begins when a place is
// free, at once again: the clock does not move at all.
func TestQueue_NobodyWaitsForATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(2, 2, 1<<20)
		began := time.Now()
		for i := range 6 {
			d.mustAdd(t, 1, asking(fmt.Sprint("T", i)))
		}
		if got := d.underWayIDs(); got != "T0 | T1" {
			t.Errorf("under way: %s", got)
		}
		d.end(1)
		if got := d.underWayIDs(); got != "T0 | T2 T3 T4 T5" {
			t.Errorf("under way: %s", got)
		}
		d.endAll()
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		d.drain()
	})
}

// Nobody who waits for a name makes others wait, and nobody overtakes him at it.
func TestQueue_Names(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(4, 4, 1<<20)
		d.mustAdd(t, 1, asking("A", "wallet"))
		d.mustAdd(t, 1, asking("B", "wallet"))      // waits for the account
		d.mustAdd(t, 1, asking("C", "till"))        // waits for nobody
		d.mustAdd(t, 1, asking("B D"))              // for the id that waits
		d.mustAdd(t, 1, asking("D"))                // for the one before
		d.mustAdd(t, 1, asking("C"))                // for the id under way
		d.mustAdd(t, 2, asking("A B", "wallet"))    // another ledger
		d.mustAdd(t, 1, asking("E", "the", "shop")) // waits for nobody
		if got := d.underWayIDs(); got != "A | C | A B | E" {
			t.Errorf("under way: %s", got)
		}
		d.end(0)
		if got := d.underWayIDs(); got != "C | A B | E | B B D D" {
			t.Errorf("under way: %s", got)
		}
		d.end(0)
		if got := d.underWayIDs(); got != "A B | E | B B D D | C" {
			t.Errorf("under way: %s", got)
		}
		d.endAll()
		d.drain()
	})
}

// A place that is free is taken, whoever else has gone away or has to wait.
func TestQueue_FreePlaceIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(2, 1, 1<<20)
		d.mustAdd(t, 1, asking("A1"))
		d.mustAdd(t, 2, asking("B1"))
		gone := d.mustAdd(t, 3, asking("C1"))
		d.mustAdd(t, 1, asking("A2"))
		d.mustAdd(t, 4, asking("D1"))
		if !d.withdraw(ledgerRow{3}, gone) {
			t.Fatal("it had begun")
		}
		d.end(1)
		if got := d.underWayIDs(); got != "A1 | D1" {
			t.Errorf("under way: %s", got)
		}
		d.endAll()
		d.drain()
	})
}

// Ledgers take turns, however many wait in one, and however often they come and go.
func TestQueue_LedgersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(1, 1, 1<<30)
		d.mustAdd(t, 1, asking("A"))
		for i := range 100 {
			r := d.mustAdd(t, 1, asking(fmt.Sprint("GONE", i)))
			d.withdraw(ledgerRow{1}, r)
		}
		for range 50 { // each needs a batch of its own
			d.mustAdd(t, 1, filling(asking("A"), maxBatchEntries))
			d.mustAdd(t, 2, filling(asking("B"), maxBatchEntries))
			d.mustAdd(t, 3, filling(asking("C"), maxBatchEntries))
		}
		turns := map[int32]int{}
		for range 31 {
			turns[d.end(0).book]++
		}
		if turns[1] > 11 || turns[2] < 10 || turns[3] < 10 {
			t.Errorf("turns of each ledger: %v", turns)
		}
		// One that comes late waits for one round.
		d.mustAdd(t, 4, asking("D"))
		for n := 1; d.underWay[0].book != 4; n++ {
			d.end(0)
			if n > 4 {
				t.Fatal("a lone request still waits after a round")
			}
		}
		d.endAll()
		d.drain()
	})
}

// One ledger never takes all the places, so that another need not wait for it at all.
func TestQueue_OneLedgerLeavesPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(3, 2, 1<<30)
		for i := range 10 {
			d.mustAdd(t, 1, asking(fmt.Sprint("A", i)))
		}
		d.mustAdd(t, 2, asking("B"))
		if got := d.underWayIDs(); got != "A0 | A1 | B" {
			t.Errorf("under way: %s", got)
		}
		d.endAll()
		d.drain()
	})
}

// Where many wait, and where many go at once, as all do who wait for an account that cannot be had, nobody else is held up:
// looking through all of them, or through some each time that one goes, would take half a minute.
func TestQueue_ManyWaitAndLeave(t *testing.T) {
	const many, atMost = 40_000, 5 * time.Second
	d := newDesk(2, 2, 1<<30)
	add := func(r *request) *request {
		if err := d.add(ledgerRow{1}, r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	end := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(atMost); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			d.mu.Lock()
			i := slices.IndexFunc(d.underWay, func(b *begun) bool { return idsOf(b.requests) == want })
			if i >= 0 {
				close(d.underWay[i].end)
				d.underWay = slices.Delete(d.underWay, i, i+1)
			}
			d.mu.Unlock()
			if i >= 0 {
				return
			}
		}
		t.Errorf("%s does not begin", want)
	}
	names := func(what string) {
		t.Helper()
		d.queue.mu.Lock()
		defer d.queue.mu.Unlock()
		if l := d.lines[1]; l.blocked == nil || len(l.blocked.transfers) > maxScan+1 || !l.crowded {
			t.Errorf("%s: blocked: %v, crowded: %v", what, l.blocked != nil, l.crowded)
		}
	}
	add(asking("FIRST", "wallet"))
	add(asking("SECOND", "till"))
	began := time.Now()
	list := make([]*request, many)
	for i := range list {
		list[i] = add(asking(fmt.Sprint("T", i), "wallet"))
	}
	end("SECOND")
	for free := false; !free; time.Sleep(time.Millisecond) {
		d.queue.mu.Lock()
		free = d.queue.running == 1
		d.queue.mu.Unlock()
	}
	names("after a batch has ended")
	for _, r := range list {
		if !d.withdraw(ledgerRow{1}, r) {
			t.Fatal("it had begun")
		}
	}
	for i := range many / 2 {
		list[i] = add(asking(fmt.Sprint("U", i), "wallet"))
	}
	names("after others have come")
	for _, r := range list[:many/2] {
		d.withdraw(ledgerRow{1}, r)
	}
	if took := time.Since(began); took > atMost {
		t.Errorf("they came and went in %v", took)
	}
	add(asking("LAST", "wallet"))
	end("FIRST")
	end("LAST")
	d.drain()
}

// filling has a request fill so many entries of a batch.
func filling(r *request, entries int) *request {
	r.entries = entries
	return r
}

// Beyond its bound the queue refuses, at once, and says that nothing came of it.
func TestQueue_Full(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := asking("A").bytes
		d := newDesk(1, 1, 5*one)
		d.mustAdd(t, 1, asking("UNDER-WAY"))
		d.mustAdd(t, 1, asking("A"))
		leaving := d.mustAdd(t, 1, asking("B"))
		d.mustAdd(t, 1, asking("C"))
		d.mustAdd(t, 1, asking("D"))
		refused := asking("E")
		err := d.add(ledgerRow{1}, refused)
		var e *ledger.Error
		if !errors.As(err, &e) || e.Code != ledger.CodeOverloaded || !e.Code.Retryable() || e.Code.Open() || e.RetryAfter <= 0 {
			t.Errorf("full: %+v", err)
		}
		d.withdraw(ledgerRow{1}, leaving)
		d.mustAdd(t, 1, asking("F"))
		if err := d.add(ledgerRow{1}, asking("G")); err == nil {
			t.Error("it takes more than it has room for")
		}
		if n := d.endAll(); n != 2 {
			t.Errorf("%d batches", n)
		}
		select {
		case <-refused.done:
			t.Error("what was refused has been decided")
		default:
		}
		// What is larger than all the room there is gets through all the same, alone.
		big := asking(strings.Repeat("X ", 10))
		if err := d.add(ledgerRow{1}, big); err != nil {
			t.Errorf("a request larger than the room: %v", err)
		}
		d.endAll()
		if d.bytes != 0 || len(d.lines) != 0 || len(d.turns) != 0 {
			t.Errorf("left behind: %d bytes, %d lines, %d turns", d.bytes, len(d.lines), len(d.turns))
		}
		d.drain()
	})
}

// However many wait in one ledger, there is room for another.
func TestQueue_RoomForEveryLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(1, 1, 1<<20)
		fill := func(book int32) (n int) {
			for d.add(ledgerRow{book}, asking(fmt.Sprint("T", n))) == nil {
				n++
			}
			return n
		}
		room := 1 << 20 / asking("A").bytes
		first, second, third := fill(1), fill(2), fill(3)
		if first < room*3/4 || second < room/8 || third < room/100 {
			t.Errorf("of room for %d they have %d, %d and %d", room, first, second, third)
		}
		d.endAll()
		d.drain()
	})
}

// Who waits is answered when his batch ends, or at the end of his patience, whichever comes first: at turn if it has not
// begun by then, and it never will; at deadline if it has; when his context ends in either case.
func TestQueue_Wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turn, deadline = 2 * time.Second, 8 * time.Second
		d := newDesk(1, 1, 1<<20)
		type answer struct {
			results []PostResult
			err     error
			after   time.Duration
		}
		wait := func(ctx context.Context, r *request) chan answer {
			answered := make(chan answer, 1)
			began := time.Now()
			d.mustAdd(t, 1, r)
			go func() {
				results, err := d.wait(ctx, ledgerRow{1}, r, began.Add(turn), began.Add(deadline))
				answered <- answer{results, err, time.Since(began)}
			}()
			synctest.Wait()
			return answered
		}
		expect := func(what string, answered chan answer, want error, after time.Duration) {
			t.Helper()
			if a := <-answered; !errors.Is(a.err, want) || a.after != after || (a.err == nil) != (len(a.results) == 1) {
				t.Errorf("%s: %v after %v, want %v after %v", what, a.err, a.after, want, after)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		hangs := wait(t.Context(), asking("HANGS"))
		noTurn := wait(t.Context(), asking("NO-TURN"))
		cancelled := wait(ctx, asking("CANCELLED"))
		time.Sleep(time.Second)
		cancel()
		expect("a caller who goes while he waits", cancelled, context.Canceled, time.Second)
		expect("no turn", noTurn, errNoTurn, turn)
		expect("a batch that hangs", hangs, context.DeadlineExceeded, deadline)
		d.end(0)
		if len(d.underWay) > 0 {
			t.Fatalf("what was given up has begun: %s", d.underWayIDs())
		}

		ctx, cancel = context.WithCancel(t.Context())
		begun := wait(ctx, asking("BEGUN"))
		time.Sleep(turn / 2)
		next := wait(t.Context(), asking("NEXT"))
		time.Sleep(turn / 2) // BEGUN is past its turn, and has had it
		cancel()
		expect("a caller who goes after it has begun", begun, context.Canceled, turn)
		if got := d.underWayIDs(); got != "BEGUN" {
			t.Errorf("under way after its caller has gone: %s", got)
		}
		d.end(0)
		time.Sleep(turn) // NEXT too, now
		d.end(0)
		expect("an answer", next, nil, turn+turn/2)
		d.drain()
	})
}

// Draining waits for all that was accepted, and nobody is forgotten.
func TestQueue_Drain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(2, 1, 1<<20)
		var all []*request
		for i := range 20 {
			// All in each other's way, or in two ledgers' turns.
			all = append(all, d.mustAdd(t, int32(i%3), filling(asking(fmt.Sprint("T", i), "wallet"), maxBatchEntries)))
		}
		drained := make(chan struct{})
		go func() {
			d.drain()
			close(drained)
		}()
		synctest.Wait()
		late := asking("LATE")
		if err := d.add(ledgerRow{3}, late); !errors.Is(err, ledger.CodeUnavailable) {
			t.Errorf("what comes when it is being drained: %v", err)
		}
		for n := len(all); n > 0; n-- {
			synctest.Wait()
			select {
			case <-drained:
				t.Fatalf("drained, with %d to go", n)
			default:
			}
			d.end(0)
		}
		<-drained
		for _, r := range all {
			<-r.done
		}
		if len(late.done) > 0 || len(d.underWay) > 0 {
			t.Error("what came late has begun")
		}
	})
}

// TestQueue_Random adds, withdraws and ends at random and holds the queue against what it promises.
func TestQueue_Random(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) { // in a bubble nobody may ask for the deadline of the test
			places := rapid.IntRange(1, 4).Draw(rt, "places")
			m := &queueMachine{
				desk:  newDesk(places, rapid.IntRange(1, places).Draw(rt, "places of a ledger"), rapid.IntRange(0, 60_000).Draw(rt, "room")),
				books: rapid.IntRange(1, 4).Draw(rt, "ledgers"),
			}
			defer m.desk.endAll()
			rt.Repeat(map[string]func(*rapid.T){
				"add": m.add, "add another": m.add, "end": m.endOne, "withdraw": m.withdrawOne, "": m.check,
			})
			m.desk.endAll()
			m.finish(rt)
		})
	})
}

// queueMachine is a desk and what is known of it.
type queueMachine struct {
	desk  *desk
	books int
	all   []*queued // in the order of their arrival
}

// queued is a request and what has become of it.
type queued struct {
	*request
	book             int32
	begun, withdrawn bool
	// missed is that it was withdrawn, and no batch of its ledger has ended since: until then others may wait for it.
	missed bool
}

func (m *queueMachine) add(t *rapid.T) {
	r := newRequest()
	for _, id := range rapid.SliceOfN(rapid.IntRange(0, 9), 1, 3).Draw(t, "ids") {
		r.add(item{caller: "local", spec: ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprint(id)), Entries: ledger.Simple("cash", "shop", decimal.New(1, 0), "")}}, 2)
	}
	r.serialised = rapid.SliceOfN(rapid.SampledFrom([]ledger.AccountID{"a", "b", "c", "d", "e"}), 0, 2).Draw(t, "accounts")
	if rapid.IntRange(0, 3).Draw(t, "big") == 0 {
		r.entries = rapid.IntRange(1, maxBatchEntries).Draw(t, "entries")
	}
	q := &queued{request: r, book: int32(rapid.IntRange(1, m.books).Draw(t, "ledger"))} //nolint:gosec // small
	waiting, own := 0, r.bytes
	for _, other := range m.waiting() {
		waiting += other.bytes
		if other.book == q.book {
			own += other.bytes
		}
	}
	left := m.desk.maxBytes - waiting - r.bytes
	err := m.desk.queue.add(ledgerRow{q.book}, r)
	synctest.Wait()
	if full := waiting > 0 && (left < 0 || own > 4*left); full != (ledger.CodeOf(err) == ledger.CodeOverloaded) {
		t.Fatalf("of room for %d bytes %d would be left, and this ledger would have %d: %v", m.desk.maxBytes, left, own, err)
	}
	if err == nil {
		m.all = append(m.all, q)
	}
}

func (m *queueMachine) endOne(t *rapid.T) {
	if n := len(m.desk.underWay); n > 0 {
		b := m.desk.end(rapid.IntRange(0, n-1).Draw(t, "batch"))
		for _, q := range m.all {
			q.missed = q.missed && q.book != b.book
		}
	}
}

func (m *queueMachine) withdrawOne(t *rapid.T) {
	if len(m.all) == 0 {
		return
	}
	q := rapid.SampledFrom(m.all).Draw(t, "request")
	in := m.desk.withdraw(ledgerRow{q.book}, q.request)
	synctest.Wait()
	if in == (q.begun || q.withdrawn) {
		t.Fatalf("withdrawn in time: %v; it had begun: %v", in, q.begun)
	}
	if in {
		q.withdrawn, q.missed = true, true
	}
}

// waiting lists who waits.
func (m *queueMachine) waiting() (list []*queued) {
	for _, q := range m.all {
		if !q.begun && !q.withdrawn {
			list = append(list, q)
		}
	}
	return list
}

func share(a, b *request) bool {
	for _, x := range a.items {
		if slices.ContainsFunc(b.items, func(y item) bool { return x.spec.ID == y.spec.ID }) {
			return true
		}
	}
	return slices.ContainsFunc(a.serialised, func(id ledger.AccountID) bool { return slices.Contains(b.serialised, id) })
}

func (m *queueMachine) check(t *rapid.T) {
	perBook := map[int32]int{}
	for i, b := range m.desk.underWay {
		perBook[b.book]++
		items, entries := 0, 0
		for _, r := range b.requests {
			items, entries = items+len(r.items), entries+r.entries
			q := m.all[slices.IndexFunc(m.all, func(q *queued) bool { return q.request == r })]
			if q.withdrawn {
				t.Fatal("what was withdrawn has begun")
			}
			q.begun = true
			for _, other := range m.desk.underWay[:i] {
				if other.book == b.book && slices.ContainsFunc(other.requests, func(o *request) bool { return share(o, r) }) {
					t.Fatal("two batches under way share a name")
				}
			}
		}
		if len(b.requests) > 1 && (items > maxBatch || entries > maxBatchEntries) {
			t.Fatalf("a batch of %d transfers and %d entries", items, entries)
		}
	}
	running, bytes := len(m.desk.underWay), 0
	for book := range int32(m.books) + 1 { //nolint:gosec // small
		if perBook[book] > m.desk.perBook {
			t.Fatalf("%d batches of a ledger under way", perBook[book])
		}
		if book > 0 {
			bytes += m.checkWaiting(t, book, running < m.desk.places && perBook[book] < m.desk.perBook)
		}
	}
	if running > m.desk.places || running != m.desk.running || bytes != m.desk.bytes {
		t.Fatalf("%d batches under way, it counts %d of %d; %d bytes wait, it counts %d",
			running, m.desk.running, m.desk.places, bytes, m.desk.bytes)
	}
	for i, l := range m.desk.turns {
		if slices.Contains(m.desk.turns[:i], l) {
			t.Fatal("a ledger has two turns in a round")
		}
	}
}

// checkWaiting checks that those who wait in a ledger have to, and that nobody has overtaken them.
func (m *queueMachine) checkWaiting(t *rapid.T, book int32, place bool) (bytes int) {
	var before []*queued
	for _, q := range m.all {
		switch {
		case q.book != book || q.withdrawn && !q.missed:
			continue
		case q.missed:
			before = append(before, q)
			continue
		}
		for _, w := range before {
			if q.begun && !w.withdrawn && share(w.request, q.request) {
				t.Fatalf("%s has overtaken %s", idsOf([]*request{q.request}), idsOf([]*request{w.request}))
			}
		}
		if q.begun {
			continue
		}
		bytes += q.bytes
		blocked := slices.ContainsFunc(before, func(w *queued) bool { return share(w.request, q.request) })
		for _, b := range m.desk.underWay {
			blocked = blocked || b.book == book && slices.ContainsFunc(b.requests, func(r *request) bool { return share(r, q.request) })
		}
		if place && !blocked {
			t.Fatalf("there is a place, and %s waits for nobody", idsOf([]*request{q.request}))
		}
		before = append(before, q)
	}
	return bytes
}

// finish checks that everybody has had his answer, once, and that nothing is left.
func (m *queueMachine) finish(t *rapid.T) {
	m.desk.drain()
	for _, q := range m.all {
		answers := 0
		for len(q.done) > 0 {
			<-q.done
			answers++
		}
		if answers > 1 || (answers == 1) == q.withdrawn {
			t.Fatalf("%d answers; withdrawn: %v", answers, q.withdrawn)
		}
	}
	if len(m.desk.lines) > 0 || m.desk.running > 0 || m.desk.bytes > 0 {
		t.Fatalf("left behind: %d ledgers, %d batches, %d bytes", len(m.desk.lines), m.desk.running, m.desk.bytes)
	}
}

// A bug that a batch meets is answered as one, and ends neither the server nor the queue.
func TestQueue_Panic(t *testing.T) {
	var logged strings.Builder
	j := &Journal{log: slog.New(slog.NewTextHandler(&logged, nil)), config: Config{Budget: time.Minute}} // there is no pool
	d := newDesk(1, 1, 1<<20)
	d.run = j.runBatch
	for range 2 {
		r := asking("A B")
		if err := d.add(ledgerRow{1}, r); err != nil {
			t.Fatal(err)
		}
		results := <-r.done
		for _, result := range results {
			if !errors.Is(result.Err, ledger.CodeInternal) {
				t.Errorf("%v", result.Err)
			}
		}
		if len(results) != 2 || !strings.Contains(logged.String(), "nil pointer") {
			t.Errorf("%d results; logged: %s", len(results), logged.String())
		}
	}
	d.drain()
}

// TestQueue_Memory fills a queue and measures what it takes. The bound is MaxWaiting times bytesPerByte, for what waits;
// besides, a batch that is under way has been taken out of the count, and each caller has a goroutine.
func TestQueue_Memory(t *testing.T) {
	const maxWaiting, bytesPerByte = 8 << 20, 1.5
	long := strings.Repeat("x", ledger.MaxIDLength-8)
	for name, spec := range map[string]func(n int) ledger.TransferSpec{
		"plain": func(n int) ledger.TransferSpec {
			return ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprintf("T%d", n)), Entries: entriesOf(n, "wallet", 2)}
		},
		"long ids": func(n int) ledger.TransferSpec {
			return ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprintf("%s%d", long, n)), Entries: entriesOf(n, long, 2)}
		},
		"many entries": func(n int) ledger.TransferSpec {
			return ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprintf("T%d", n)), Entries: entriesOf(n, long, 200)}
		},
		"all fields": func(n int) ledger.TransferSpec {
			now := time.Now()
			return ledger.TransferSpec{
				ID: ledger.TransferID(fmt.Sprintf("%s%d", long, n)), Entries: entriesOf(n, long, 2), EffectiveAt: &now,
				Description: strings.Repeat("d", ledger.MaxDescription), Metadata: ledger.Metadata(strings.Repeat("m", ledger.MaxMetadata)),
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(1, 1, maxWaiting)
			d.running = 1 // so that nothing begins
			before := heap()
			n := 0
			for ; ; n++ {
				r := newRequest()
				s := spec(n)
				r.add(item{caller: "local", spec: s}, len(s.Entries))
				for _, e := range s.Entries {
					r.serialised = append(r.serialised, e.Account)
				}
				if d.add(ledgerRow{1}, r) != nil {
					break
				}
			}
			waiting := heap() - before
			// The names of all that wait, as where each of them waits for one under way.
			l := d.lines[1]
			l.busy.accounts["x"], l.busy.transfers["x"] = true, true
			for e := l.waiting.Front(); e != nil; e = e.Next() {
				l.busy.add(e.Value.(*request))
			}
			busy := heap()
			d.running = 0
			d.begin()
			named := heap() - busy
			t.Logf("%d wait: %d bytes of %d, and %d of names", n, waiting, maxWaiting, named)
			if d.running > 0 || l.blocked == nil {
				t.Error("they do not wait for one under way")
			}
			if float64(waiting+named) > bytesPerByte*maxWaiting {
				t.Errorf("%d requests take %d bytes, of which names %d; the bound is %.1f times %d", n, waiting+named, named, bytesPerByte, maxWaiting)
			}
			runtime.KeepAlive(d)
		})
	}
}

// entriesOf are entries as a caller's request has them: nothing of one is shared with another's.
func entriesOf(n int, account string, count int) (entries []ledger.Entry) {
	for i := range count {
		amount, err := decimal.NewFromString(fmt.Sprintf("%d.%02d", 1+n, 1+n%90))
		if err != nil {
			panic(err)
		}
		entries = append(entries, ledger.Entry{
			Account: ledger.AccountID(fmt.Sprintf("%s:%d:%d", account[:min(len(account), 100)], n, i)), Direction: ledger.Debit, Amount: amount,
		})
	}
	return entries
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // not that large
}

// Two batches that are stuck lend their places: who waits behind them begins after a quarter of a second, up to a bound.
func TestQueue_Stuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(6, 2, 1<<20)
		d.perBookStuck = 3
		d.mustAdd(t, 1, asking("A"))
		d.mustAdd(t, 1, asking("B"))
		third := d.mustAdd(t, 1, asking("C"))
		if got := d.underWayIDs(); got != "A | B" {
			t.Fatalf("under way: %s", got)
		}
		go func() {
			_, _ = d.wait(t.Context(), ledgerRow{1}, third, time.Now().Add(time.Hour), time.Now().Add(time.Hour))
		}()
		time.Sleep(stuckAfter - 1)
		synctest.Wait()
		if got := d.underWayIDs(); got != "A | B" {
			t.Errorf("too early: %s", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := d.underWayIDs(); got != "A | B | C" {
			t.Errorf("stuck, under way: %s", got)
		}
		d.mustAdd(t, 1, asking("D"))
		time.Sleep(time.Minute)
		d.nudge()
		synctest.Wait()
		if got := d.underWayIDs(); got != "A | B | C" {
			t.Errorf("beyond the bound: %s", got)
		}
		if n := d.endAll(); n != 4 {
			t.Errorf("%d batches", n)
		}
		d.drain()
	})
}
