package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// unaryCase names the case of a mode that sends single transfers from so many clients.
func unaryCase(mode string, clients int) string { return fmt.Sprintf("%s/%d", mode, clients) }

// sizeCase names the case of a mode at a size.
func sizeCase(mode string, size int64) string { return fmt.Sprintf("%s/%d", mode, size) }

// floorCase names the case of a floor: F2 are batches, F1 is not.
func floorCase(batch bool, connections int) string {
	if batch {
		return fmt.Sprintf("F2/%d", connections)
	}
	return fmt.Sprintf("F1/%d", connections)
}

// newResult begins a measurement of a mode: single transfers, or batches.
func (b *bench) newResult(mode string, unary bool, clients int) Result {
	switch {
	case !unary:
		return Result{
			Case: mode, Name: fmt.Sprintf("%s, %s × %d in flight", mode, grouped(b.config.Batch), clients), Clients: clients, Batch: b.config.Batch,
		}
	case clients == 1:
		return Result{Case: unaryCase(mode, clients), Name: mode + ", 1 client", Clients: 1, Batch: 1}
	}
	return Result{Case: unaryCase(mode, clients), Name: fmt.Sprintf("%s, %d clients", mode, clients), Clients: clients, Batch: 1}
}

// choice prepares who pays whom in a mode.
func (b *bench) choice(ctx context.Context, mode string) (func(*rand.Rand) pick, error) {
	accounts, err := b.accounts(ctx, mode, b.config.Accounts, mode == ModeFloor)
	if err != nil {
		return nil, err
	}
	always := func(p pick) (func(*rand.Rand) pick, error) { return func(*rand.Rand) pick { return p }, nil }
	switch mode {
	case ModeZipf:
		return func(r *rand.Rand) pick { return zipf(accounts, r) }, nil
	case ModeHot, ModeBalance:
		one, err := b.accounts(ctx, mode+"-one", 1, false)
		if err != nil {
			return nil, err
		}
		return always(across(accounts, one))
	case ModeOneFloor:
		one, err := b.accounts(ctx, mode+"-one", 1, true)
		if err != nil {
			return nil, err
		}
		return always(across(one, accounts))
	case ModeFloor:
		if b.config.PlainPayees {
			payees, err := b.accounts(ctx, mode+"-payees", b.config.Accounts, false)
			if err != nil {
				return nil, err
			}
			return always(across(accounts, payees))
		}
	}
	return always(uniform(accounts))
}

// posting measures new transfers of a mode.
func (b *bench) posting(ctx context.Context, mode string, unary bool, clients int) error {
	choose, err := b.choice(ctx, mode)
	if err != nil {
		return err
	}
	return b.timePosts(ctx, b.newResult(mode, unary, clients), choose)
}

// timePosts measures new transfers. The result has been begun.
func (b *bench) timePosts(ctx context.Context, r Result, choose func(*rand.Rand) pick) error {
	steps := make([]step, r.Clients)
	for i := range steps {
		m, err := newMaker(b.config.IDs, choose)
		if err != nil {
			return err
		}
		steps[i] = b.poster(i, m, r.Batch)
	}
	b.progress("%s", r.Name)
	if err := b.db.settle(ctx); err != nil {
		return err
	}
	before, err := b.size(ctx)
	if err != nil {
		return err
	}
	w := b.load().run(ctx, steps)
	r.fill(w, &w.kinds[0])
	if ctx.Err() == nil && w.acknowledged > 0 && b.db != nil {
		after, err := b.size(ctx)
		if err != nil {
			return err
		}
		each := float64(after-before) / float64(w.acknowledged)
		r.BytesPerTransfer = &each
	}
	return b.emit(ctx, r)
}

func (b *bench) size(ctx context.Context) (int64, error) {
	if b.db == nil {
		return 0, nil
	}
	return b.db.size(ctx)
}

// poster is a client that posts new transfers.
func (b *bench) poster(client int, m *maker, batch int) step {
	api := b.wire.of(client)
	transfers := blank(batch)
	if batch == 1 {
		req := &khatav1.PostTransferRequest{Ledger: b.wire.ledger, Transfer: transfers[0]}
		return func(ctx context.Context) outcome {
			m.fill(transfers...)
			return post(ctx, api, req, false)
		}
	}
	req := &khatav1.PostTransfersRequest{Ledger: b.wire.ledger, Transfers: transfers}
	return func(ctx context.Context) outcome {
		m.fill(transfers...)
		return postBatch(ctx, api, req, false)
	}
}

// fillClients is how many calls are in flight where posting only prepares.
const fillClients = 4

// postMany posts so many transfers, untimed, or fewer if enough says so, which is asked before each call.
func (b *bench) postMany(ctx context.Context, n int64, choose func(*rand.Rand) pick, enough func() bool) error {
	makers := make([]*maker, fillClients)
	for i := range makers {
		m, err := newMaker(b.config.IDs, choose)
		if err != nil {
			return err
		}
		makers[i] = m
	}
	var left atomic.Int64
	left.Store(n)
	batch := int64(b.config.Batch)
	err := failed(each(ctx, fillClients, func(client int) (step, bool) {
		if enough != nil && enough() {
			return nil, false
		}
		rest := left.Add(-batch) + batch
		if rest <= 0 {
			return nil, false
		}
		req := &khatav1.PostTransfersRequest{Ledger: b.wire.ledger, Transfers: blank(int(min(rest, batch)))}
		makers[client].fill(req.GetTransfers()...)
		return func(ctx context.Context) outcome { return postBatch(ctx, b.wire.of(client), req, false) }, true
	}))
	if err != nil {
		return err
	}
	return ctx.Err()
}
