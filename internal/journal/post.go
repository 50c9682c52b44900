package journal

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// maxBatch and maxBatchEntries bound a batch: beyond a thousand transfers a commit costs hardly less each, and everyone
	// who shares an account or an id with it waits longer.
	maxBatch, maxBatchEntries = 1000, 5000
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
	results := make([]PostResult, len(specs))
	var b batch
	for i, spec := range specs {
		if err := spec.Validate(); err != nil {
			results[i].Err = err
			continue
		}
		if b.full(spec) {
			if err := j.run(ctx, book, caller, &b, results); err != nil {
				return nil, err
			}
			b = batch{open: b.open}
		}
		b.add(i, spec)
	}
	if len(b.specs) > 0 {
		if err := j.run(ctx, book, caller, &b, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// batch is the requests that share a transaction, and each one's place among the results.
type batch struct {
	specs   []ledger.TransferSpec
	places  []int
	entries int
	// open is why the outcome of an earlier batch of the call is not known. Later ones are then not begun: a payment would be
	// refused, for ever, for want of the deposit before it in the same call.
	open error
}

func (b *batch) full(next ledger.TransferSpec) bool {
	return len(b.specs) == maxBatch || len(b.specs) > 0 && b.entries+len(next.Entries) > maxBatchEntries
}

func (b *batch) add(place int, spec ledger.TransferSpec) {
	b.specs = append(b.specs, spec)
	b.places = append(b.places, place)
	b.entries += len(spec.Entries)
}

// run decides a batch and puts what became of it in its places among the results. It returns an error only if the caller's
// context ended first.
func (j *Journal) run(ctx context.Context, book ledgerRow, caller string, b *batch, results []PostResult) error {
	if ctx.Err() != nil {
		return j.public(ctx, "post", ctx.Err())
	}
	if b.open != nil {
		for _, place := range b.places {
			results[place].Err = b.open
		}
		return nil
	}
	budget, cancel := j.within(context.WithoutCancel(ctx))
	select {
	case j.slots <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return j.public(ctx, "post", ctx.Err())
	case <-budget.Done():
		cancel()
		b.open = &ledger.Error{
			Code: ledger.CodeUnavailable, Message: "post: no turn within the time there was; send it again", RetryAfter: time.Second,
		}
		for _, place := range b.places {
			results[place].Err = b.open
		}
		return nil
	}
	// From here the batch is nobody's to cancel: pgx would break the connection, and others may be in it.
	done := make(chan []PostResult, 1)
	specs := b.specs
	j.batches.Go(func() {
		defer cancel()
		defer func() { <-j.slots }()
		done <- j.decideSafely(budget, book, caller, specs)
	})
	select {
	case decided := <-done:
		for i, place := range b.places {
			results[place] = decided[i]
			if ledger.CodeOf(decided[i].Err).Open() {
				b.open = decided[i].Err
			}
		}
		return nil
	case <-ctx.Done():
		return j.public(ctx, "post", ctx.Err())
	}
}

// decideSafely decides a batch, and keeps a bug that it meets from ending the server, and with it everybody's requests.
func (j *Journal) decideSafely(ctx context.Context, book ledgerRow, caller string, specs []ledger.TransferSpec) (decided []PostResult) {
	started := time.Now()
	defer func() {
		if p := recover(); p != nil {
			j.log.Error("panic", "doing", "post", "panic", p, "stack", string(debug.Stack()))
			decided = failed(specs, ledger.Errorf(ledger.CodeInternal, "post: internal error"))
		}
		j.config.Metrics.batchEnded(decided, time.Since(started))
	}()
	return j.decide(ctx, book, caller, specs)
}

// decide runs a batch until its outcome is known or its time is up. If the database refuses to take it, it is split until
// the culprit stands alone.
func (j *Journal) decide(ctx context.Context, book ledgerRow, caller string, specs []ledger.TransferSpec) []PostResult {
	var results []PostResult
	ours := drawn{}
	err := j.retry(ctx, func() (err error) {
		results, err = j.tryBatch(ctx, book, caller, specs)
		if errors.Is(err, pg.ErrUnknown) {
			ours.note(results)
		}
		return err
	})
	if err == nil {
		ours.claim(results)
		j.janitor.wrote(&j.janitor.transfers, len(results))
		return results
	}
	if len(specs) > 1 && pg.Classify(err) == pg.Fault {
		j.log.Error("a batch failed and is split", "transfers", len(specs), "error", err)
		half := len(specs) / 2
		return append(j.decide(ctx, book, caller, specs[:half]), j.decide(ctx, book, caller, specs[half:])...)
	}
	return failed(specs, j.public(context.Background(), "post", err))
}

func failed(specs []ledger.TransferSpec, err error) []PostResult {
	results := make([]PostResult, len(specs))
	for i := range results {
		results[i].Err = err
	}
	return results
}

// drawn has the sequences that tries of ours drew before the answer to their commit was lost. If such a commit turns out to
// have happened, its records are this request's own, and not replays.
type drawn map[ledger.TransferID]int64

func (d drawn) note(results []PostResult) {
	for _, r := range results {
		if r.Err == nil && !r.Replayed {
			d[r.Transfer.ID] = r.Transfer.Sequence
		}
	}
}

func (d drawn) claim(results []PostResult) {
	for i, r := range results {
		if r.Err == nil && r.Replayed && r.Transfer.Sequence != 0 && d[r.Transfer.ID] == r.Transfer.Sequence {
			results[i].Replayed = false
			delete(d, r.Transfer.ID) // The second of two equal requests is a replay all the same.
		}
	}
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
