package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

const (
	// walletPosters share the rate, so that one that waits for its answer does not hold up the others.
	walletPosters = 64
	// walletSample is of how many transfers one is watched, and walletPoll how often the view is asked.
	walletSample, walletPoll = 5, 5 * time.Millisecond
	// walletPatience bounds how long a transfer may take to the view.
	walletPatience = time.Minute
)

// wallet posts single transfers at a steady rate, while a relay publishes them and a consumer keeps a view of accounts, and takes the time from
// the moment at which a transfer was to be posted until the view has it.
func (b *bench) wallet(ctx context.Context) (err error) {
	if b.config.Target.Relay == nil || b.config.Target.Wallet == nil {
		return errors.New("there is no Kafka to publish to: give --kafka")
	}
	choose, err := b.choice(ctx, ModeWallet)
	if err != nil {
		return err
	}
	for _, start := range []func(context.Context) (*Server, error){b.config.Target.Relay, b.config.Target.Wallet} {
		started, err := start(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, started.Stop()) }()
	}
	if err := b.db.settle(ctx); err != nil {
		return err
	}
	w, err := watch(ctx, b.config.Target.DSN, b.wire.ledger)
	if err != nil {
		return err
	}
	defer w.close()
	posters := make([]*walletPoster, walletPosters)
	for i := range posters {
		m, err := newMaker(b.config.IDs, choose)
		if err != nil {
			return err
		}
		posters[i] = &walletPoster{api: b.wire.of(i), maker: m, watcher: w, req: &khatav1.PostTransferRequest{Ledger: b.wire.ledger, Transfer: blank(1)[0]}}
	}
	// The accounts that were made are on their way, too, and the group has just been formed: the clock runs when both are over.
	for _, p := range posters {
		if o := p.post(ctx, time.Now(), true); len(o.failures) > 0 {
			return failed(o.failures)
		}
	}
	if err := w.caughtUp(ctx); err != nil {
		return err
	}
	rate := b.config.Rate
	r := Result{Case: ModeWallet, Name: fmt.Sprintf("post to wallet view, at %s/s", grouped(rate)), Clients: walletPosters, Batch: 1}
	b.progress("%s", r.Name)
	began := time.Now()
	from, until := began.Add(b.config.Warmup), began.Add(b.config.Warmup+b.config.Duration)
	pace := time.Duration(float64(walletPosters) / float64(rate) * float64(time.Second))
	steps := make([]step, walletPosters)
	for i, p := range posters {
		next, n := began.Add(pace*time.Duration(i)/walletPosters), 0
		steps[i] = func(ctx context.Context) outcome {
			pause(ctx, time.Until(next))
			due := next
			next, n = next.Add(pace), n+1
			return p.post(ctx, due, n%walletSample == 0 && due.After(from) && due.Before(until))
		}
	}
	posted := b.load().run(ctx, steps)
	if err := w.caughtUp(ctx); err != nil {
		return err
	}
	timed := posted.kinds[0]
	timed.latency = w.seen(from)
	r.fill(posted, &timed)
	return b.emit(ctx, r)
}

// walletPoster posts one transfer after the other.
type walletPoster struct {
	api     khatav1.LedgerServiceClient
	maker   *maker
	req     *khatav1.PostTransferRequest
	watcher *watcher
}

// post posts a transfer that is due, and has it watched for in the view.
func (p *walletPoster) post(ctx context.Context, due time.Time, watched bool) (o outcome) {
	p.maker.fill(p.req.GetTransfer())
	ctx, cancel := patient(ctx)
	defer cancel()
	resp, err := p.api.PostTransfer(ctx, p.req)
	if err != nil {
		o.fail(codeOf(err))
		return o
	}
	if code := verdict(resp.GetResult(), nil, false); code != "" {
		o.fail(code)
		return o
	}
	if watched {
		p.watcher.expect(awaited{p.req.GetTransfer().GetDebitAccount(), resp.GetResult().GetSequence(), due})
	}
	o.transfers = 1
	return o
}

// awaited is a transfer that the view will have when an account is at its sequence.
type awaited struct {
	account  string
	sequence int64
	due      time.Time
}

// watcher looks for transfers in the view.
type watcher struct {
	conn   *pgx.Conn
	ledger string
	stop   context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	waiting []awaited
	found   []sighting
	err     error
}

// sighting is that a transfer was seen in the view, so long after it was due.
type sighting struct {
	due  time.Time
	took time.Duration
}

func watch(ctx context.Context, dsn, ledger string) (*watcher, error) {
	conn, err := connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	w := &watcher{conn: conn, ledger: ledger, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		w.run(ctx)
	}()
	return w, nil
}

func (w *watcher) close() {
	w.stop()
	<-w.ended
}

func (w *watcher) expect(a awaited) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, a)
}

// caughtUp returns when all that was expected is in the view.
func (w *watcher) caughtUp(ctx context.Context) error {
	for deadline := time.Now().Add(walletPatience); ; pause(ctx, walletPoll) {
		w.mu.Lock()
		left, err := len(w.waiting), w.err
		w.mu.Unlock()
		switch {
		case err != nil || left == 0:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return fmt.Errorf("%d transfers are not in the wallet view after %s", left, walletPatience)
		}
	}
}

// seen is how long it took until those were in the view that were due after a time.
func (w *watcher) seen(from time.Time) (h histogram) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.found {
		if s.due.After(from) {
			h.add(s.took)
		}
	}
	return h
}

func (w *watcher) run(ctx context.Context) {
	for ; ctx.Err() == nil; pause(ctx, walletPoll) {
		w.mu.Lock()
		list := slices.Clone(w.waiting)
		w.mu.Unlock()
		there, err := w.look(ctx, list)
		now := time.Now()
		w.mu.Lock()
		for i, a := range list {
			if err == nil && there[i] {
				w.found = append(w.found, sighting{a.due, now.Sub(a.due)})
			}
		}
		if ctx.Err() == nil && err != nil {
			w.err = err
		}
		if err == nil {
			at := 0
			w.waiting = slices.DeleteFunc(w.waiting, func(awaited) bool {
				at++
				return at <= len(there) && there[at-1]
			})
		}
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// look reports which of the transfers are in the view.
func (w *watcher) look(ctx context.Context, list []awaited) (there []bool, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	accounts := make([]string, len(list))
	for i, a := range list {
		accounts[i] = a.account
	}
	rows, err := w.conn.Query(ctx, `SELECT w.account, w.version
		FROM (SELECT unnest($2::text[]) AS account) n
		     CROSS JOIN LATERAL (SELECT * FROM khata_wallet.wallet c
		                          WHERE c.generation = (SELECT generation FROM khata_wallet.state) AND c.ledger = $1 AND c.account = n.account OFFSET 0) w`,
		w.ledger, accounts)
	if err != nil {
		return nil, fmt.Errorf("look into the wallet view: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		Account string
		Version int64
	}])
	if err != nil {
		return nil, fmt.Errorf("look into the wallet view: %w", err)
	}
	versions := make(map[string]int64, len(found))
	for _, f := range found {
		versions[f.Account] = f.Version
	}
	there = make([]bool, len(list))
	for i, a := range list {
		there[i] = versions[a.account] >= a.sequence
	}
	return there, nil
}
