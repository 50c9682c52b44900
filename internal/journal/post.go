package journal

import (
	"context"
	"errors"
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
	// Replayed reports whether the record was there before this request. It may also be true where an earlier try within this
	// request wrote it and its answer was lost.
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
			if err := j.run(ctx, book, caller, b, results); err != nil {
				return nil, err
			}
			b = batch{}
		}
		b.add(i, spec)
	}
	if len(b.specs) > 0 {
		if err := j.run(ctx, book, caller, b, results); err != nil {
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
func (j *Journal) run(ctx context.Context, book ledgerRow, caller string, b batch, results []PostResult) error {
	budget, cancel := j.within(context.WithoutCancel(ctx))
	select {
	case j.slots <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return j.public(ctx, "post", ctx.Err())
	case <-budget.Done():
		cancel()
		for _, place := range b.places {
			results[place].Err = &ledger.Error{
				Code: ledger.CodeUnavailable, Message: "post: no turn within the time there was; send it again", RetryAfter: time.Second,
			}
		}
		return nil
	}
	// From here the batch is nobody's to cancel: pgx would break the connection, and others may be in it.
	done := make(chan []PostResult, 1)
	j.batches.Go(func() {
		defer cancel()
		defer func() { <-j.slots }()
		started := time.Now()
		decided := j.decide(budget, book, caller, b.specs)
		j.config.Metrics.batchEnded(decided, time.Since(started))
		done <- decided
	})
	select {
	case decided := <-done:
		for i, place := range b.places {
			results[place] = decided[i]
		}
		return nil
	case <-ctx.Done():
		return j.public(ctx, "post", ctx.Err())
	}
}

// decide runs a batch until its outcome is known or its time is up. If the database refuses to take it, it is split until
// the culprit stands alone.
func (j *Journal) decide(ctx context.Context, book ledgerRow, caller string, specs []ledger.TransferSpec) []PostResult {
	var results []PostResult
	err := j.retry(ctx, func() (err error) {
		results, err = j.tryBatch(ctx, book, caller, specs)
		return err
	})
	if err == nil {
		j.janitor.wrote(&j.janitor.transfers, len(results))
		return results
	}
	if len(specs) > 1 && pg.Classify(err) == pg.Fault {
		j.log.Error("a batch failed and is split", "transfers", len(specs), "error", err)
		half := len(specs) / 2
		return append(j.decide(ctx, book, caller, specs[:half]), j.decide(ctx, book, caller, specs[half:])...)
	}
	err = j.public(context.Background(), "post", err)
	results = make([]PostResult, len(specs))
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
