package journal

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// PostResult is what became of one request: a record, or an error.
type PostResult struct {
	// Transfer is the record, posted or refused; nil with an error. It must not be changed: equal requests share it.
	Transfer *ledger.Transfer
	// Replayed reports whether the record was there before this request.
	Replayed bool
	// Balances are those of the transfer's accounts as of its sequence, if they were asked for.
	Balances []ledger.Balance
	// Err is a *ledger.Error. Its code says whether anything can have been written.
	Err error
}

// Post decides requests for transfers by one caller in one ledger, each by itself and in their order, and returns the
// results in that order. A result without an error is on disk.
//
// It returns an error of its own, with no results, if the ledger does not exist, there are too many requests, or the
// caller's context ends first. The context only stops the waiting: a batch that has begun is brought to its end, and what
// it decided is there. Sending the same requests again finds out.
func (j *Journal) Post(ctx context.Context, caller string, name ledger.Name, specs []ledger.TransferSpec) ([]PostResult, error) {
	if len(specs) > ledger.MaxTransfersPerCall {
		return nil, ledger.Invalid("transfers", "has %d transfers, at most %d are allowed in a call", len(specs), ledger.MaxTransfersPerCall)
	}
	ctx = j.WithBudget(ctx) // for all batches together
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	return j.post(ctx, caller, book, specs)
}

func (j *Journal) post(ctx context.Context, caller string, book ledgerRow, specs []ledger.TransferSpec) ([]PostResult, error) {
	sizes, err := j.sizes(ctx, book, specs)
	if err != nil {
		return nil, err
	}
	p := posting{journal: j, book: book, results: make([]PostResult, len(specs)), request: newRequest()}
	for _, spec := range specs {
		p.rest += weight(spec)
	}
	for i, spec := range specs {
		if err := spec.Validate(); err != nil {
			p.results[i].Err = err
			continue
		}
		if p.request.full(sizes[i]) {
			if err := p.decide(ctx); err != nil {
				return nil, err
			}
		}
		p.request.add(item{caller: caller, spec: spec}, sizes[i])
		p.rest -= weight(spec)
		p.places = append(p.places, i)
	}
	if err := p.decide(ctx); err != nil {
		return nil, err
	}
	return p.results, nil
}

// PostAtomically decides requests by one caller in one ledger, all or nothing, and returns the results in their order. If one of
// them cannot be posted, its refusal, if it is one, is the only record that is new; the others get CodeAtomicCallRefused, unless they
// were decided before. It returns what Post returns, and CodeInvalidArgument for more than fit into one batch.
func (j *Journal) PostAtomically(ctx context.Context, caller string, name ledger.Name, specs []ledger.TransferSpec) ([]PostResult, error) {
	if len(specs) > maxBatch {
		return nil, ledger.Invalid("transfers", "has %d transfers, at most %d are allowed in an atomic call", len(specs), maxBatch)
	}
	ctx = j.WithBudget(ctx)
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	results := make([]PostResult, len(specs))
	if malformed(results, specs) {
		return results, nil
	}
	sizes, err := j.sizes(ctx, book, specs)
	if err != nil {
		return nil, err
	}
	p := posting{journal: j, book: book, results: results, request: newRequest()}
	for i, spec := range specs {
		p.request.add(item{caller: caller, spec: spec, call: p.request}, sizes[i])
		p.places = append(p.places, i)
	}
	if p.request.entries > maxBatchEntries {
		return nil, ledger.Invalid("transfers", "have %d entries, at most %d are allowed in an atomic call", p.request.entries, maxBatchEntries)
	}
	if err := p.decide(ctx); err != nil {
		return nil, err
	}
	return p.results, nil
}

// malformed reports whether a request of an atomic call is malformed, and then fills in the results of all.
func malformed(results []PostResult, specs []ledger.TransferSpec) bool {
	culprit := -1
	for i, spec := range specs {
		if results[i].Err = spec.Validate(); results[i].Err != nil && culprit < 0 {
			culprit = i
		}
	}
	if culprit < 0 {
		return false
	}
	for i := range results {
		if results[i].Err == nil {
			results[i].Err = ledger.AtomicCallRefused(culprit, results[culprit].Err)
		}
	}
	return true
}

// posting is a call of Post: its results, and the request that it is putting together.
type posting struct {
	journal *Journal
	book    ledgerRow
	results []PostResult
	request *request
	places  []int // of the request's items among the results
	rest    int   // weight of the transfers that are not in a request yet
	// open is why the outcome of an earlier request of the call is not known. Later ones are then not begun: a payment would
	// be refused, for ever, for want of the deposit before it in the same call.
	open error
}

// decide has a request decided, puts what became of it in its places among the results, and begins a new one. It returns an
// error only if the caller's context ended first.
func (p *posting) decide(ctx context.Context) error {
	r, places := p.request, p.places
	r.bytes += p.rest
	p.request, p.places = newRequest(), nil
	if ctx.Err() != nil {
		return p.journal.public(ctx, "post", ctx.Err())
	}
	if len(places) == 0 {
		return nil
	}
	decided, err := p.journal.queued(ctx, p.book, r, p.open)
	if ctx.Err() != nil && err != nil {
		return p.journal.public(ctx, "post", ctx.Err())
	}
	if err != nil {
		decided = failed(r.items, err)
	}
	for i, place := range places {
		p.results[place] = decided[i]
		if ledger.CodeOf(decided[i].Err).Retryable() {
			p.open = decided[i].Err
		}
	}
	return nil
}

// queued puts a request into the queue and waits for its results. The context only stops the waiting.
func (j *Journal) queued(ctx context.Context, book ledgerRow, r *request, open error) ([]PostResult, error) {
	if open != nil {
		return nil, open
	}
	if err := j.findOrigins(ctx, book, r); err != nil {
		return nil, err
	}
	deadline := j.deadline(ctx)
	turn := time.Now().Add(j.config.Budget / 4)
	if deadline.Before(turn) {
		turn = deadline
	}
	r.serialised = j.chart(book.id).serialised(r.items)
	if err := j.queue.add(book, r); err != nil {
		j.config.Metrics.refused(len(r.items), err)
		return nil, err
	}
	results, err := j.queue.wait(ctx, book, r, turn, deadline)
	if err == nil {
		return results, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // It is the caller who has had enough.
	}
	if errors.Is(err, errNoTurn) {
		err = &ledger.Error{Code: ledger.CodeUnavailable, Message: "post: no turn within the time there was; send it again", RetryAfter: time.Second}
		j.config.Metrics.refused(len(r.items), err)
		return nil, err
	}
	return nil, j.public(context.WithoutCancel(ctx), "post", err)
}

// runBatch decides requests that share a batch. It is nobody's to cancel: pgx would break the connection, and with it the
// requests of others.
func (j *Journal) runBatch(book ledgerRow, requests []*request) {
	started := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), j.config.Budget*3/4)
	defer cancel()
	items := requests[0].items
	if len(requests) > 1 {
		items = nil
		for _, r := range requests {
			items = append(items, r.items...)
		}
	}
	results := j.decideSafely(ctx, book, items)
	j.config.Metrics.batchEnded(requests, results, started)
	j.tallies.countResults(book.id, items, results)
	for _, r := range requests {
		r.done <- results[:len(r.items):len(r.items)]
		results = results[len(r.items):]
	}
}

// decideSafely decides a batch, and keeps a bug that it meets from ending the server, and with it everybody's requests.
func (j *Journal) decideSafely(ctx context.Context, book ledgerRow, items []item) (results []PostResult) {
	defer func() {
		if p := recover(); p != nil {
			j.log.Error("panic", "doing", "post", "panic", p, "stack", string(debug.Stack()))
			results = failed(items, ledger.Errorf(ledger.CodeInternal, "post: internal error"))
		}
	}()
	return j.decide(ctx, book, items)
}

// decide runs a batch until its outcome is known or its time is up. If the database refuses to take it, it is split until
// the culprit stands alone.
func (j *Journal) decide(ctx context.Context, book ledgerRow, items []item) []PostResult {
	var results []PostResult
	ours := own{}
	err := j.retry(ctx, func() (err error) {
		results, err = j.tryBatch(ctx, book, items, ours)
		return err
	})
	if err == nil {
		j.janitor.wrote(&j.janitor.transfers, len(results))
		return results
	}
	if half := middle(items); half > 0 && pg.Classify(err) == pg.Fault {
		j.log.Error("a batch failed and is split", "transfers", len(items), "error", err)
		results = j.decide(ctx, book, items[:half])
		// What comes later must not be decided on the strength of what may not have happened before it.
		for _, r := range results {
			if code := ledger.CodeOf(r.Err); code.Open() && code != ledger.CodeInternal {
				return append(results, failed(items[half:], r.Err)...)
			}
		}
		return append(results, j.decide(ctx, book, items[half:])...)
	}
	return failed(items, j.public(context.Background(), "post", err))
}

// middle is where a batch can be split, next to its middle: not within an atomic call. It is 0 where there is no such place.
func middle(items []item) int {
	within := func(i int) bool { return items[i].call != nil && items[i].call == items[i-1].call }
	half := len(items) / 2
	for off := 0; off < len(items); off++ {
		for _, i := range []int{half - off, half + off} {
			if i > 0 && i < len(items) && !within(i) {
				return i
			}
		}
	}
	return 0
}

func failed(items []item, err error) []PostResult {
	results := make([]PostResult, len(items))
	for i := range results {
		results[i].Err = err
	}
	return results
}

// WithBalances adds to results the balances of their accounts as of their sequence. Since it waits for the horizon, they
// are final: a replay gets the same.
func (j *Journal) WithBalances(ctx context.Context, name ledger.Name, results []PostResult) error {
	book, err := j.ledger(ctx, name)
	if err != nil {
		return err
	}
	var points []balancePoint
	for _, r := range results {
		if r.Transfer != nil {
			for _, e := range r.Transfer.Entries {
				points = append(points, balancePoint{e.Account, r.Transfer.Sequence})
			}
		}
	}
	if len(points) == 0 {
		return nil
	}
	var balances map[balancePoint]ledger.Balance
	err = j.read(ctx, "read the resulting balances", func(ctx context.Context) (err error) {
		if _, err = j.horizon(ctx, book.id); err != nil {
			return err
		}
		balances, err = j.balances(ctx, j.pool, book.id, points)
		return err
	})
	if err != nil {
		return err
	}
	for i, r := range results {
		if r.Transfer == nil {
			continue
		}
		seen := map[ledger.AccountID]bool{}
		for _, e := range r.Transfer.Entries {
			balance, ok := balances[balancePoint{e.Account, r.Transfer.Sequence}]
			if !ok {
				return j.public(ctx, "read the resulting balances", errors.New("an account of a recorded transfer is gone"))
			}
			if !seen[e.Account] {
				results[i].Balances = append(results[i].Balances, balance)
			}
			seen[e.Account] = true
		}
	}
	return nil
}
