package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// mostKept is how many transfers are kept to be sent again. What comes after these goes around.
const mostKept = 200_000

// duplicates posts transfers, untimed, and measures what it takes to answer them again.
func (b *bench) duplicates(ctx context.Context, unary bool) error {
	clients := b.config.InFlight
	if unary {
		clients = b.config.Clients
	}
	r := b.newResult(ModeDup, unary, clients)
	choose, err := b.choice(ctx, ModeDup)
	if err != nil {
		return err
	}
	b.progress("%s: posting what will be sent again", r.Name)
	kept, err := b.keep(ctx, choose)
	if err != nil {
		return err
	}
	b.progress("%s: sending %s transfers again", r.Name, grouped(len(kept)))
	if err := b.db.settle(ctx); err != nil {
		return err
	}
	steps := make([]step, clients)
	for i := range steps {
		steps[i] = b.repeater(i, kept, len(kept)*i/clients, r.Batch)
	}
	w := b.load().run(ctx, steps)
	r.fill(w, &w.kinds[0])
	return b.emit(ctx, r)
}

// keep posts for as long as a measurement lasts, and returns what it has posted.
func (b *bench) keep(ctx context.Context, choose func(*rand.Rand) pick) ([]*khatav1.NewTransfer, error) {
	m, err := newMaker(b.config.IDs, choose)
	if err != nil {
		return nil, err
	}
	var kept []*khatav1.NewTransfer
	until := time.Now().Add(b.config.Duration)
	err = failed(each(ctx, 1, func(int) (step, bool) {
		if len(kept) >= mostKept || len(kept) > 0 && time.Now().After(until) {
			return nil, false
		}
		transfers := blank(b.config.Batch)
		m.fill(transfers...)
		kept = append(kept, transfers...)
		req := &khatav1.PostTransfersRequest{Ledger: b.wire.ledger, Transfers: transfers}
		return func(ctx context.Context) outcome { return postBatch(ctx, b.wire.of(0), req, false) }, true
	}))
	if err != nil {
		return nil, err
	}
	return kept, ctx.Err()
}

// repeater is a client that sends known transfers again, beginning with the one at a place.
func (b *bench) repeater(client int, known []*khatav1.NewTransfer, place, batch int) step {
	api := b.wire.of(client)
	one := &khatav1.PostTransferRequest{Ledger: b.wire.ledger}
	many := &khatav1.PostTransfersRequest{Ledger: b.wire.ledger}
	return func(ctx context.Context) outcome {
		if batch == 1 {
			one.Transfer = known[place]
			place = (place + 1) % len(known)
			return post(ctx, api, one, true)
		}
		end := min(place+batch, len(known))
		many.Transfers = known[place:end]
		place = end % len(known)
		return postBatch(ctx, api, many, true)
	}
}

// leastHistory is the number of entries from which ModeBalance starts.
const leastHistory = 1000

// sizes are those at which something that grows is measured: the first, every tenfold, and the last.
func sizes(first, last int64) []int64 {
	var list []int64
	for n := first; n < last; n *= 10 {
		list = append(list, n)
	}
	return append(list, last)
}

// balance measures reads of the balance of one account, as its history grows. Nothing is posted meanwhile.
func (b *bench) balance(ctx context.Context) error {
	choose, err := b.choice(ctx, ModeBalance)
	if err != nil {
		return err
	}
	account := b.sets[ModeBalance+"-one"][0]
	entries := int64(0)
	for _, size := range sizes(leastHistory, int64(b.config.History)) {
		r := Result{
			Case: sizeCase(ModeBalance, size), Name: fmt.Sprintf("balance, %s entries", grouped(size)), Clients: b.config.Readers, Size: size,
		}
		b.progress("%s: posting %s", r.Name, grouped(size-entries))
		if err := b.postMany(ctx, size-entries, choose, nil); err != nil {
			return err
		}
		entries = size
		if err := b.db.settle(ctx); err != nil {
			return err
		}
		version, err := b.version(ctx, account)
		if err != nil {
			return err
		}
		b.progress("%s: reading", r.Name)
		steps := make([]step, b.config.Readers)
		for i := range steps {
			steps[i] = b.reader(i, func() string { return account }, version)
		}
		w := b.load().run(ctx, steps)
		r.fill(w, &w.kinds[0])
		if err := b.emit(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// version is the version of a balance.
func (b *bench) version(ctx context.Context, account string) (int64, error) {
	ctx, cancel := patient(ctx)
	defer cancel()
	resp, err := b.wire.of(0).GetBalance(ctx, &khatav1.GetBalanceRequest{Ledger: b.wire.ledger, Account: account})
	return resp.GetBalance().GetVersion(), err
}

// reader is a client that reads balances. They are wrong if their version is another than this one; 0 is any.
func (b *bench) reader(client int, account func() string, version int64) step {
	api := b.wire.of(client)
	req := &khatav1.GetBalanceRequest{Ledger: b.wire.ledger}
	return func(ctx context.Context) (o outcome) {
		ctx, cancel := patient(ctx)
		defer cancel()
		req.Account = account()
		resp, err := api.GetBalance(ctx, req)
		if err != nil {
			o.fail(codeOf(err))
		} else if version != 0 && resp.GetBalance().GetVersion() != version {
			o.fail(wrongBalance)
		}
		return o
	}
}

// The kinds of calls of ModeMixed.
const (
	mixedPost = iota
	mixedBatch
	mixedBalance
	mixedDuplicate
	mixedKinds
)

var mixedNames = [mixedKinds]string{"posts", "batches", "balances", "duplicates"}

// mixedKind picks what a client of ModeMixed does next: of a hundred calls 70 post, 20 read a balance, 9 send again what
// was sent before, and one posts a batch.
func mixedKind(r *rand.Rand) int {
	switch n := r.IntN(100); {
	case n < 70:
		return mixedPost
	case n < 90:
		return mixedBalance
	case n < 99:
		return mixedDuplicate
	}
	return mixedBatch
}

// mixed measures some of everything, and each for itself.
func (b *bench) mixed(ctx context.Context) error {
	choose, err := b.choice(ctx, ModeMixed)
	if err != nil {
		return err
	}
	steps := make([]step, b.config.Clients)
	for i := range steps {
		if steps[i], err = b.mixer(i, choose); err != nil {
			return err
		}
	}
	r := Result{
		Case: ModeMixed, Name: fmt.Sprintf("mixed, %d clients (calls)", b.config.Clients), Clients: b.config.Clients,
	}
	b.progress("%s", r.Name)
	if err := b.db.settle(ctx); err != nil {
		return err
	}
	l := b.load()
	l.kinds = mixedKinds
	w := l.run(ctx, steps)
	var total tally
	for k := range w.kinds {
		total.merge(&w.kinds[k])
		part := Result{Case: ModeMixed + "/" + mixedNames[k], Name: mixedNames[k], Clients: r.Clients}
		switch k {
		case mixedPost, mixedDuplicate:
			part.Batch = 1
		case mixedBatch:
			part.Batch = b.config.Batch
		}
		part.fill(w, &w.kinds[k])
		part.CPU, part.Failures = CPU{}, nil // They are those of all kinds together.
		r.Parts = append(r.Parts, part)
	}
	r.fill(w, &total)
	return b.emit(ctx, r)
}

// mixer is a client that does some of everything. It sends again what it has posted itself not long ago.
func (b *bench) mixer(client int, choose func(*rand.Rand) pick) (step, error) {
	m, err := newMaker(b.config.IDs, choose)
	if err != nil {
		return nil, err
	}
	const recent = 64
	sent := make([]*khatav1.NewTransfer, 0, recent)
	api, n := b.wire.of(client), 0
	batch := b.poster(client, m, b.config.Batch)
	read := b.reader(client, func() string {
		account, _ := m.pick(m.random)
		return account
	}, 0)
	return func(ctx context.Context) (o outcome) {
		kind := mixedKind(m.random)
		switch {
		case kind == mixedBatch && b.config.Batch > 1:
			o = batch(ctx)
		case kind == mixedBalance:
			o = read(ctx)
		case kind == mixedDuplicate && len(sent) > 0:
			o = post(ctx, api, &khatav1.PostTransferRequest{Ledger: b.wire.ledger, Transfer: sent[m.random.IntN(len(sent))]}, true)
		default:
			kind = mixedPost
			t := &khatav1.NewTransfer{}
			m.fill(t)
			if o = post(ctx, api, &khatav1.PostTransferRequest{Ledger: b.wire.ledger, Transfer: t}, false); len(o.failures) > 0 {
				break
			}
			if len(sent) < recent {
				sent = append(sent, t)
			} else {
				sent[n%recent] = t
			}
			n++
		}
		o.kind = kind
		return o
	}, nil
}

// growth posts batches until the journal has as many transfers as it should, and measures the rate at these sizes.
func (b *bench) growth(ctx context.Context, at []int64) error {
	if len(at) == 0 {
		return nil
	}
	choose, err := b.choice(ctx, ModeGrowth)
	if err != nil {
		return err
	}
	for _, size := range at {
		have, err := b.db.transfers(ctx)
		if err != nil {
			return err
		}
		if have > 2*size {
			b.note("growth, at %s transfers: left out, because there are %s already", grouped(size), grouped(have))
			continue
		}
		r := b.newResult(ModeGrowth, false, b.config.InFlight)
		r.Case, r.Name = sizeCase(ModeGrowth, size), fmt.Sprintf("growth, at %s transfers", grouped(size))
		b.progress("%s: posting %s", r.Name, grouped(max(size-have, 0)))
		var full atomic.Bool
		if err := b.postMany(ctx, size-have, choose, func() bool {
			if free, known := freeSpace(b.config.Target.Dir); known && free < b.config.KeepFree {
				full.Store(true)
			}
			return full.Load()
		}); err != nil {
			return err
		}
		if full.Load() {
			b.note("growth stopped before %s transfers: less than %s MB are free", grouped(size), grouped(b.config.KeepFree>>20))
			return nil
		}
		if r.Size, err = b.db.transfers(ctx); err != nil {
			return err
		}
		if err := b.timePosts(ctx, r, choose); err != nil {
			return err
		}
	}
	return nil
}

// floorConnections are the numbers of connections on which F1 (false) and F2 (true) are measured.
var floorConnections = map[bool][]int{false: {1, 16, 64}, true: {1, 2}}

// allFloors measures each floor once.
func (b *bench) allFloors(ctx context.Context) error {
	for _, batch := range []bool{false, true} {
		for _, connections := range floorConnections[batch] {
			if err := b.floor(ctx, batch, connections); err != nil {
				return err
			}
		}
	}
	return nil
}

// floor measures a floor.
func (b *bench) floor(ctx context.Context, batch bool, connections int) (err error) {
	if b.floors == nil {
		if b.floors, err = makeFloors(ctx, b.db, b.config.Accounts, b.config.IDs); err != nil {
			return err
		}
	}
	r := Result{Case: floorCase(batch, connections), Floor: true, Clients: connections, Batch: 1}
	name, _, _ := strings.Cut(r.Case, "/")
	if r.Name = fmt.Sprintf("%s, %d connections", name, connections); connections == 1 {
		r.Name = name + ", 1 connection"
	}
	if batch {
		r.Batch = floorBatch
	}
	b.progress("%s", r.Name)
	journal, err := b.db.transfers(ctx)
	if err != nil {
		return err
	}
	if _, err := b.floors.fill(ctx, journal); err != nil {
		return err
	}
	if err := b.db.settle(ctx); err != nil {
		return err
	}
	w, err := b.floors.measure(ctx, b.load(), batch, connections)
	if err != nil {
		return err
	}
	r.fill(w, &w.kinds[0])
	return b.emit(ctx, r)
}
