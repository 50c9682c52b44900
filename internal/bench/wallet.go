package bench

import (
	"context"
	"errors"
	"fmt"
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
	rate := b.config.Rate
	r := Result{Case: ModeWallet, Name: fmt.Sprintf("post to wallet view, at %s/s", grouped(rate)), Clients: walletPosters, Batch: 1}
	b.progress("%s", r.Name)
	began := time.Now()
	from, until := began.Add(b.config.Warmup), began.Add(b.config.Warmup+b.config.Duration)
	steps := make([]step, walletPosters)
	for i := range steps {
		m, err := newMaker(b.config.IDs, choose)
		if err != nil {
			return err
		}
		pace := time.Duration(float64(walletPosters) / float64(rate) * float64(time.Second))
		next, n := began.Add(pace*time.Duration(i)/walletPosters), 0
		api, transfers := b.wire.of(i), blank(1)
		req := &khatav1.PostTransferRequest{Ledger: b.wire.ledger, Transfer: transfers[0]}
		steps[i] = func(ctx context.Context) (o outcome) {
			pause(ctx, time.Until(next))
			due := next
			next, n = next.Add(pace), n+1
			m.fill(transfers...)
			ctx, cancel := patient(ctx)
			defer cancel()
			resp, err := api.PostTransfer(ctx, req)
			code := ""
			if err != nil {
				code = codeOf(err)
			} else {
				code = verdict(resp.GetResult(), nil, false)
			}
			if code != "" {
				o.fail(code)
				return o
			}
			o.transfers = 1
			if n%walletSample == 0 && due.After(from) && due.Before(until) {
				w.expect(awaited{transfers[0].GetDebitAccount(), resp.GetResult().GetSequence(), due})
			}
			return o
		}
	}
	posted := b.load().run(ctx, steps)
	w.finish()
	r.fill(posted, &posted.kinds[0])
	seen := tally{latency: w.seen, calls: r.Calls, transfers: r.Transfers}
	r.fill(posted, &seen)
	if w.missing > 0 {
		r.Failures = map[string]int64{"NOT_IN_THE_VIEW": int64(w.missing)}
	}
	return errors.Join(w.err, b.emit(ctx, r))
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
	ended  chan struct{}

	mu      sync.Mutex
	waiting []awaited
	closing bool

	// Valid once ended is closed.
	seen    histogram
	missing int
	err     error
}

func watch(ctx context.Context, dsn, ledger string) (*watcher, error) {
	conn, err := connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	w := &watcher{conn: conn, ledger: ledger, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		w.err = w.run(ctx)
	}()
	return w, nil
}

func (w *watcher) expect(a awaited) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, a)
}

// finish returns when all that is expected was seen, or was waited for long enough.
func (w *watcher) finish() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	<-w.ended
}

func (w *watcher) run(ctx context.Context) error {
	var left []awaited
	for ctx.Err() == nil {
		w.mu.Lock()
		left = append(left, w.waiting...)
		w.waiting = w.waiting[:0]
		closing := w.closing
		w.mu.Unlock()
		if closing && (len(left) == 0 || time.Since(left[0].due) > walletPatience) {
			break
		}
		var err error
		if left, err = w.look(ctx, left); err != nil {
			return err
		}
		pause(ctx, walletPoll)
	}
	w.missing = len(left)
	return nil
}

// look returns those that are not in the view yet.
func (w *watcher) look(ctx context.Context, list []awaited) (left []awaited, err error) {
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
		                          WHERE c.generation = (SELECT generation FROM khata_wallet.state) AND c.ledger = $1 AND c.account = n.account OFFSET 0) w`, w.ledger, accounts)
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
	now := time.Now()
	for _, a := range list {
		if versions[a.account] >= a.sequence {
			w.seen.add(now.Sub(a.due))
		} else {
			left = append(left, a)
		}
	}
	return left, nil
}
