package journal

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

const (
	// maxBatch and maxBatchEntries bound a batch: beyond a thousand transfers a commit costs hardly less each, and everyone
	// who shares an account or an id with it waits longer.
	maxBatch, maxBatchEntries = 1000, 5000
	// maxScan is how many waiting transfers are looked at for those that can begin.
	maxScan = 4 * maxBatch
	// stuckAfter is after how long a batch that is under way does not keep others of its ledger from beginning: it waits for
	// somebody's lock, and some seconds more of that are nobody else's business.
	stuckAfter = 250 * time.Millisecond
)

// queue is where requests wait for their turn. Those that wait while batches are under way form the next batch, and share
// its commit; one that finds a free place begins at once. Nobody waits for a timer.
//
// Batches that are under way at the same time never name the same transfer id or the same serialised account: they would
// wait for each other inside the database. Nor does a request overtake an earlier one that it shares such a name with.
// Ledgers take turns, and none takes all the places.
type queue struct {
	run             func(book ledgerRow, requests []*request)
	places, perBook int
	// perBookStuck is how many of one ledger may be under way with those that are stuck.
	perBookStuck int
	maxBytes     int

	mu      sync.Mutex
	lines   map[int32]*line
	turns   []*line // those in which somebody waits, the next one first
	bytes   int     // of the requests that wait
	running int
	closed  bool
	batches sync.WaitGroup
}

// line is the requests of a ledger: those that wait, in the order of their arrival, and the names of those under way.
type line struct {
	book    ledgerRow
	waiting list.List // of *request
	bytes   int       // of them
	inTurns bool
	running int
	began   map[*time.Time]bool // when each batch under way began
	busy    names
	// blocked, if it is not nil, has the names of all that wait, and none of them can begin before a batch has ended.
	blocked *names
	// crowded says the same where too many wait to know all their names.
	crowded bool
}

// names are what requests can get into each other's way over: transfer ids, those of origins too, and serialised accounts.
type names struct {
	transfers map[ledger.TransferID]bool
	accounts  map[ledger.AccountID]bool
}

func newNames() names {
	return names{map[ledger.TransferID]bool{}, map[ledger.AccountID]bool{}}
}

func (n *names) add(r *request) {
	for _, item := range r.items {
		n.transfers[item.spec.ID] = true
		if origin := item.spec.Origin(); origin != "" {
			n.transfers[origin] = true
		}
	}
	for _, id := range r.serialised {
		n.accounts[id] = true
	}
}

func (n *names) remove(r *request) {
	for _, item := range r.items {
		delete(n.transfers, item.spec.ID)
		delete(n.transfers, item.spec.Origin())
	}
	for _, id := range r.serialised {
		delete(n.accounts, id)
	}
}

func (n *names) has(r *request) bool {
	if n == nil || len(n.transfers) == 0 {
		return false
	}
	for _, id := range r.serialised {
		if n.accounts[id] {
			return true
		}
	}
	for _, item := range r.items {
		if n.transfers[item.spec.ID] || n.transfers[item.spec.Origin()] {
			return true
		}
	}
	return false
}

// request is transfers of one caller, to be decided in one batch and in their order.
type request struct {
	items []item
	// serialised are the accounts among its own that are known to take one posting at a time.
	serialised []ledger.AccountID

	entries int
	// bytes is the weight of these transfers, and of those of the same call that come after them.
	bytes   int
	arrived time.Time
	// done gets the results, once, if the request begins.
	done chan []PostResult
	// place is where it waits; nil before and after.
	place *list.Element
}

func newRequest() *request { return &request{done: make(chan []PostResult, 1)} }

// full reports whether the request has no room for another transfer of so many entries.
func (r *request) full(entries int) bool {
	return len(r.items) == maxBatch || len(r.items) > 0 && r.entries+entries > maxBatchEntries
}

// add adds a transfer that has so many entries, or follows from so many.
func (r *request) add(next item, entries int) {
	r.items = append(r.items, next)
	r.entries += entries
	r.bytes += weight(next.spec) + entryWeight*(entries-len(next.spec.Entries))
}

// entryWeight is about what an entry takes in memory.
const entryWeight = 256

// weight is about what a request for a transfer takes in memory, with what will be made of it, in bytes.
func weight(spec ledger.TransferSpec) int {
	bytes := 1024 + entryWeight*len(spec.Entries) + 2*len(spec.Description) + 2*len(spec.Metadata)
	if spec.Terms != nil {
		bytes += 1024 + entryWeight*len(spec.Terms.Conditions)
	}
	return bytes
}

// add puts a request into its line. It returns CodeOverloaded if there is no room, or CodeUnavailable if the queue is being
// drained, and then nothing comes of the request.
func (q *queue) add(book ledgerRow, r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return &ledger.Error{Code: ledger.CodeUnavailable, Message: "post: the server is stopping; send it again", RetryAfter: time.Second}
	}
	l, ok := q.lines[book.id]
	if !ok {
		l = &line{book: book, busy: newNames(), began: map[*time.Time]bool{}}
	}
	if !q.room(l, r) {
		return &ledger.Error{
			Code: ledger.CodeOverloaded, Message: "too many transfers are waiting already; send it again later", RetryAfter: time.Second,
		}
	}
	q.lines[book.id] = l
	r.arrived = time.Now()
	r.place = l.waiting.PushBack(r)
	q.bytes += r.bytes
	l.bytes += r.bytes
	q.queueUp(l)
	switch {
	case l.crowded:
		return nil
	case l.blocked != nil && r.blocked(l):
		l.blocked.add(r)
		l.crowded = len(l.blocked.transfers) > maxScan
		return nil
	}
	l.blocked = nil
	q.begin()
	return nil
}

// room reports whether there is room for a request. However many wait in one ledger, or in some, there is room left for
// another: none may have more than four times what is left.
func (q *queue) room(l *line, r *request) bool {
	left := q.maxBytes - q.bytes - r.bytes
	return q.bytes == 0 || left >= 0 && l.bytes+r.bytes <= 4*left
}

// blocked reports whether a request has to wait for one under way, or for one that waits.
func (r *request) blocked(l *line) bool {
	return l.busy.has(r) || l.blocked.has(r)
}

// withdraw takes a request back. It reports whether that was in time: it had not begun, and will not.
func (q *queue) withdraw(book ledgerRow, r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.place == nil {
		return false
	}
	l := q.lines[book.id]
	q.leave(l, r)
	// Others may have waited for it only. They are found when a batch ends, since to look for them each time that somebody
	// goes would stop everybody, where many go at once: all who wait for an account that cannot be had.
	return true
}

// forget drops a line in which nobody waits and nothing is under way. One that is still in the turns goes when they come to
// it.
func (q *queue) forget(l *line) {
	if l.running == 0 && l.waiting.Len() == 0 && !l.inTurns {
		delete(q.lines, l.book.id)
	}
}

// queueUp gives a line in which somebody waits a turn in each round, and no more than one.
func (q *queue) queueUp(l *line) {
	if !l.inTurns && l.waiting.Len() > 0 {
		l.inTurns = true
		q.turns = append(q.turns, l)
	}
}

func (q *queue) leave(l *line, r *request) {
	l.waiting.Remove(r.place)
	r.place = nil
	q.bytes -= r.bytes
	l.bytes -= r.bytes
}

// begin begins batches while there are places, and requests that can go.
func (q *queue) begin() {
	for idle := 0; q.running < q.places && idle < len(q.turns); {
		l := q.turns[0]
		q.turns = q.turns[1:]
		l.inTurns = false
		if l.waiting.Len() == 0 { // All have gone.
			q.forget(l)
			continue
		}
		requests := l.take(q)
		q.queueUp(l)
		if len(requests) == 0 {
			idle++
			continue
		}
		idle = 0
		q.running++
		l.running++
		began := time.Now()
		l.began[&began] = true
		q.batches.Go(func() {
			q.run(l.book, requests)
			q.ended(l, requests, &began)
		})
	}
}

// take takes from a line as many requests as fit into a batch, are not in the way of one that is under way, and do not
// overtake one of theirs.
func (l *line) take(q *queue) []*request {
	if l.blocked != nil || l.crowded || !l.hasPlace(q) {
		return nil
	}
	var taken []*request
	var transfers, entries, scanned int
	blocked := newNames()
	l.blocked = &blocked
	for e := l.waiting.Front(); e != nil; {
		if scanned >= maxScan {
			l.crowded = true
			break
		}
		r := e.Value.(*request) //nolint:forcetypeassert // nothing else is put there
		e = e.Next()
		scanned += len(r.items)
		if r.blocked(l) {
			blocked.add(r)
			continue
		}
		if len(taken) > 0 && (transfers+len(r.items) > maxBatch || entries+r.entries > maxBatchEntries) {
			break
		}
		transfers, entries = transfers+len(r.items), entries+r.entries
		taken = append(taken, r)
		q.leave(l, r)
	}
	if len(taken) > 0 {
		l.blocked, l.crowded = nil, false
	}
	for _, r := range taken {
		l.busy.add(r)
	}
	return taken
}

// hasPlace reports whether another batch of the ledger may begin. Few at once are the fastest; but where some are stuck, the
// others go on.
func (l *line) hasPlace(q *queue) bool {
	if l.running < q.perBook {
		return true
	}
	going := 0
	for began := range l.began {
		if time.Since(*began) < stuckAfter {
			going++
		}
	}
	return going < q.perBook && l.running < q.perBookStuck
}

// nudge begins what can begin because others are stuck.
func (q *queue) nudge() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.begin()
}

func (q *queue) ended(l *line, requests []*request, began *time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(l.began, began)
	for _, r := range requests {
		l.busy.remove(r)
	}
	l.blocked, l.crowded = nil, false
	q.running--
	l.running--
	q.begin()
	q.forget(l)
}

// drain waits until nobody waits and nothing is under way. Nothing can be added any more: a call that has more to come than
// what is waiting is told so.
func (q *queue) drain() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.batches.Wait()
}

// errNoTurn: the request did not begin in time, and never will.
var errNoTurn = errors.New("no turn within the time there was")

// wait waits for the results of a request: until it has begun until turn, then until deadline, and while ctx lasts.
func (q *queue) wait(ctx context.Context, book ledgerRow, r *request, turn, deadline time.Time) ([]PostResult, error) {
	patience := stuckAfter
	stuck := time.NewTimer(patience)
	defer stuck.Stop()
	timer := time.NewTimer(time.Until(turn))
	defer timer.Stop()
	for {
		select {
		case results := <-r.done:
			return results, nil
		case <-ctx.Done():
			q.withdraw(book, r)
			return nil, ctx.Err()
		case <-stuck.C:
			q.nudge()
			patience *= 2 // Thousands may wait.
			stuck.Reset(patience)
		case now := <-timer.C:
			switch {
			case q.withdraw(book, r):
				return nil, errNoTurn
			case !now.Before(deadline):
				return nil, context.DeadlineExceeded
			}
			timer.Reset(time.Until(deadline))
		}
	}
}
