package journal_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// The rules of posting about what cannot be known: lost answers, frozen ends and standbys that do not confirm.

// faulty is a journal whose connections lead through faults.
func (b *bench) faulty(t testing.TB, config journal.Config) (*journal.Journal, *pgxpool.Pool, *pgtest.Faults) {
	t.Helper()
	faults := pgtest.NewFaults(t)
	j, pool := open(t, pg.Config{DSN: b.db.ServiceDSN(), Dial: faults.DialFunc(nil)}, config)
	return j, pool, faults
}

// once fails the test unless each of the ids has one record, and that has two entries if it is posted.
func (b *bench) once(t testing.TB, ids ...string) {
	t.Helper()
	c := b.raw(t)
	for _, id := range ids {
		if got := read[string](t, c, `SELECT count(DISTINCT t.sequence) || ' records, ' || count(e.leg) || ' entries' FROM transfer t
			LEFT JOIN entry e USING (ledger_id, sequence) WHERE t.transfer_id = '`+id+`'`); got != "1 records, 2 entries" {
			t.Errorf("%s: %s", id, got)
		}
	}
}

// Rule: a commit whose answer is lost is found out by running the batch again. Nobody is told that it failed, and what the lost
// commit wrote is this request's own, not a replay.
func TestRules_UnknownCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		before, after int
	}{
		{name: "before", before: 1},
		{name: "before, three times", before: 3},
		{name: "after", after: 1},
		{name: "after, three times", after: 3},
		{name: "before, then after", before: 2, after: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setupShop(t)
			j, pool, faults := b.faulty(t, journal.Config{})
			post(t, j, move("EARLIER", "cash", "wallet", "10"))
			commits := faults.Commits()
			faults.CutBeforeCommit(c.before)
			faults.CutAfterCommit(c.after)
			specs := []ledger.TransferSpec{
				move("ONE", "wallet", "cash", "7"), move("TWO", "cash", "shop", "5"), move("ONE", "wallet", "cash", "7"),
				move("EARLIER", "cash", "wallet", "10"), move("NO", "wallet", "cash", "4"),
			}
			results := result(t, postAsync(j, specs...))
			// The twin of ONE repeats it, and NO is refused, the first time and ever after.
			if got, want := describeAll(results), "posted, posted, replayed, replayed, INSUFFICIENT_FUNDS"; got != want {
				t.Errorf("%s, want %s (%v)", got, want, results[0].Err)
			}
			if got, want := faults.Commits()-commits, 1+c.before+c.after; got != want {
				t.Errorf("%d commits, want %d", got, want)
			}
			if got, want := faults.Cuts(), c.before+c.after; got != want {
				t.Errorf("%d cuts, want %d", got, want)
			}
			b.once(t, "ONE", "TWO", "EARLIER")
			for i, r := range result(t, postAsync(b.Journal, specs...)) {
				if r.Err != nil || !r.Replayed || r.Transfer.Sequence != results[i].Transfer.Sequence ||
					!r.Transfer.PostedAt.Equal(results[i].Transfer.PostedAt) {
					t.Errorf("%s: a later answer is another one: %+v, then %+v", specs[i].ID, results[i], r)
				}
			}
			if got := b.balance(t, "wallet"); got != "3.00" {
				t.Errorf("balance %s", got)
			}

			// One layer down, the commit's outcome is said to be unknown.
			faults.CutBeforeCommit(min(1, c.before))
			faults.CutAfterCommit(min(1, c.after))
			err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), insertMove("RAW", "cash", "shop", "1"))
				return err
			})
			if !errors.Is(err, pg.ErrUnknown) || pg.Classify(err) != pg.Unavailable {
				t.Errorf("a commit without an answer: %v", err)
			}
			applied := read[bool](t, b.raw(t), "SELECT EXISTS (SELECT FROM transfer WHERE transfer_id = 'RAW')")
			if applied != (c.before == 0) {
				t.Errorf("applied: %v", applied)
			}
		})
	}
}

// TestRules_UnknownCommitOfChanges is the same for what is not a posting.
func TestRules_UnknownCommitOfChanges(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(map[bool]string{false: "before", true: "after"}[after], func(t *testing.T) {
			t.Parallel()
			b := setupShop(t)
			j, _, faults := b.faulty(t, journal.Config{})
			cut := func() {
				if after {
					faults.CutAfterCommit(1)
				} else {
					faults.CutBeforeCommit(1)
				}
			}
			cut()
			if _, err := j.CreateLedger(t.Context(), "local", "second"); err != nil {
				t.Error(err)
			}
			cut()
			if err := j.RegisterCurrency(t.Context(), main, ledger.Currency{Code: "POINT", Scale: 0}); err != nil {
				t.Error(err)
			}
			cut()
			created, err := j.CreateAccounts(t.Context(), "local", main, []ledger.AccountSpec{{ID: "new", Type: ledger.Asset, Currency: "POINT"}})
			if err != nil || created[0].Account.ID != "new" {
				t.Errorf("%+v %v", created, err)
			}
			cut()
			yes := true
			closed, err := j.UpdateAccount(t.Context(), "local", main, "new", ledger.AccountUpdate{Closed: &yes})
			if err != nil || !closed.Closed {
				t.Errorf("%+v %v", closed, err)
			}
			cut()
			period, replayed, err := j.ClosePeriod(t.Context(), "local", main, ledger.PeriodClose{Before: month(2)})
			if err != nil || replayed {
				t.Errorf("%+v, replayed %t, %v", period, replayed, err)
			}
			if list, err := j.PeriodChanges(t.Context(), main, 0, 10); err != nil || len(list) != 1 || list[0].Sequence != period.Sequence {
				t.Errorf("closed %+v, listed %+v %v", period, list, err)
			}
			if faults.Cuts() != 5 {
				t.Errorf("%d cuts", faults.Cuts())
			}
			if got := read[string](t, b.raw(t), `SELECT count(*) || ' states, the last is ' || max(sequence) FROM account_change
				JOIN account USING (ledger_id, account_no) WHERE account_id = 'new'`); got != fmt.Sprintf("2 states, the last is %d", closed.Version) {
				t.Errorf("%s, the answer says %d", got, closed.Version)
			}
		})
	}
}

// Rule: the same, when everybody presses again and again while connections break.
func TestRules_UnknownCommitOfMany(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	j, _, faults := b.faulty(t, journal.Config{})
	post(t, j, move("EARLIER", "cash", "wallet", "10"))
	faults.CutBeforeCommit(4)
	faults.CutAfterCommit(4)
	var answers []<-chan []journal.PostResult
	for i := range 12 {
		specs := []ledger.TransferSpec{move("ONE", "wallet", "cash", "7"), move("TWO", "cash", "shop", "5")}
		if i%2 == 1 {
			slices.Reverse(specs)
		}
		answers = append(answers, postAsync(j, specs...))
	}
	for _, answer := range answers {
		for _, r := range result(t, answer) {
			if r.Err != nil || r.Transfer.Refusal != nil {
				t.Errorf("%s %v", describe(r), r.Err)
			}
		}
	}
	if faults.Cuts() != 8 {
		t.Errorf("%d cuts", faults.Cuts())
	}
	b.once(t, "ONE", "TWO")
	if got := b.balance(t, "wallet"); got != "3.00" {
		t.Errorf("balance %s", got)
	}
}

// Rule: a database that has gone silent is given up within the budget, the outcome open; the same id finds it out.
func TestRules_FrozenDatabase(t *testing.T) {
	t.Parallel()
	const budget = time.Second
	b := setupShop(t)
	j, _, faults := b.faulty(t, journal.Config{Budget: budget})
	insist(t, j, move("EARLIER", "cash", "wallet", "10"))
	thaw := faults.Freeze()
	began := time.Now()
	calls := map[string]<-chan error{
		"post": start(func() error { return (<-postAsync(j, move("ONE", "wallet", "cash", "7")))[0].Err }),
		"entries": start(func() error {
			_, err := j.Entries(context.Background(), main, "cash", journal.EntryCursor{}, false, 10)
			return err
		}),
		"balances": start(func() error {
			_, err := j.Balances(context.Background(), main, []ledger.AccountID{"wallet"})
			return err
		}),
		"update": start(func() error {
			frozen := ledger.FrozenBoth
			_, err := j.UpdateAccount(context.Background(), "local", main, "shop", ledger.AccountUpdate{Frozen: &frozen})
			return err
		}),
	}
	for name, call := range calls {
		if err := result(t, call); !errors.Is(err, ledger.CodeUnavailable) || !ledger.CodeOf(err).Open() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if took := time.Since(began); took < budget/2 || took > budget+5*time.Second {
		t.Errorf("the answers took %v, the budget is %v", took, budget)
	}
	thaw()
	if got := describe(insist(t, j, move("ONE", "wallet", "cash", "7"))); got != "posted" && got != "replayed" {
		t.Errorf("after the thaw: %s", got)
	}
	b.once(t, "ONE")
	if got := b.balance(t, "wallet"); got != "3.00" {
		t.Errorf("balance %s", got)
	}
}

// Rule: while the commit is still on its way, the UNIQUE index makes the second try wait for it, and then tells the truth.
func TestRules_LateCommit(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	j, _, faults := b.faulty(t, journal.Config{Budget: 4 * time.Second})
	post(t, j, move("EARLIER", "cash", "shop", "10"))
	watcher := rawAs(t, b.db.SuperDSN())
	arrive := faults.HoldCommits()
	// Its row is inserted. It gives up before its COMMIT arrives.
	first := postAsync(j, move("ONE", "cash", "shop", "7"))
	if got := describeAll(result(t, first)); got != string(ledger.CodeUnavailable) {
		t.Fatalf("the first try: %s", got)
	}
	if read[bool](t, watcher, "SELECT EXISTS (SELECT FROM transfer WHERE transfer_id = 'ONE')") {
		t.Fatal("the commit is not late")
	}
	second := postAsync(b.Journal, move("ONE", "cash", "shop", "7"))
	watcher.awaitJournalBlocked(t, 1)
	pending(t, second)
	arrive()
	if got := describeAll(result(t, second)); got != "replayed" {
		t.Errorf("the second try: %s", got)
	}
	b.once(t, "ONE")
}

// Rule: a caller who goes away stops waiting. He does not stop the batch.
func TestRules_CancelledCaller(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	holder, watcher := b.raw(t), b.raw(t)
	b.post(t, move("EARLIER", "cash", "wallet", "10"))
	holder.do(t, "BEGIN", gateShare, "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE")
	post := func(ctx context.Context, id string) chan error {
		return start(func() error {
			_, err := b.Post(ctx, "local", main, []ledger.TransferSpec{move(id, "wallet", "cash", "1")})
			return err
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := post(ctx, "gone")
	watcher.awaitJournalBlocked(t, 1)
	cancel()
	if err := result(t, gone); !errors.Is(err, ledger.CodeCancelled) || !ledger.CodeOf(err).Open() {
		t.Errorf("gone: %v", err)
	}
	watcher.awaitJournalBlocked(t, 1) // it goes on without its caller
	// This one waits behind it, has not begun when its time is up, and never will.
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := result(t, post(ctx, "late")); !errors.Is(err, ledger.CodeDeadlineExceeded) || !ledger.CodeOf(err).Open() {
		t.Errorf("late: %v", err)
	}
	holder.do(t, "COMMIT")
	watcher.await(t, "count(*) = 1 FROM transfer WHERE transfer_id = 'gone'")
	b.once(t, "gone")
	b.post(t, move("next", "wallet", "cash", "1"))
	if got := read[int](t, watcher, "SELECT count(*) FROM transfer WHERE transfer_id IN ('gone', 'late', 'next')"); got != 2 {
		t.Errorf("%d of the three are there, want all but the one that never began", got)
	}
	if got := b.balance(t, "wallet"); got != "8.00" {
		t.Errorf("balance %s", got)
	}
}

// benchOn is setupShop on a server of the test's own.
func benchOn(t testing.TB, s *pgtest.Server) *bench {
	t.Helper()
	j, pool := open(t, pg.Config{DSN: s.ServiceDSN()}, journal.Config{})
	b := &bench{Journal: j, db: s.DB, pool: pool}
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "shop", ledger.Liability, "BDT", nil)
	b.account(t, "wallet", ledger.Liability, "BDT", floor("0"))
	return b
}

// Rule: a backend that is stopped with everything in its hands makes nobody wait without end. The settings and the budget
// are those of production.
func TestRules_FrozenBackend(t *testing.T) {
	t.Parallel()
	const promised = 10 * time.Second
	b := benchOn(t, pgtest.NewServer(t, nil))
	b.post(t, move("EARLIER", "cash", "wallet", "10"))
	holder, watcher := b.raw(t), rawAs(t, b.db.SuperDSN())
	holder.do(t, "BEGIN", gateShare, "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE", insertMove("ONE", "cash", "wallet", "1"))
	signal := func(sig syscall.Signal) {
		if err := syscall.Kill(int(holder.pid), sig); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { signal(syscall.SIGCONT) })
	signal(syscall.SIGSTOP)

	frozen := ledger.FrozenBoth
	type answer struct {
		err  error
		took time.Duration
	}
	timed := func(f func() error) <-chan answer {
		began := time.Now()
		return start(func() answer { return answer{f(), time.Since(began)} })
	}
	posts := func(spec ledger.TransferSpec) func() error {
		return func() error { return (<-postAsync(b.Journal, spec))[0].Err }
	}
	stuck := map[string]<-chan answer{
		"the same id":      timed(posts(move("ONE", "cash", "shop", "1"))),
		"the same account": timed(posts(move("TWO", "cash", "wallet", "1"))),
		"both":             timed(posts(move("ONE", "cash", "wallet", "1"))),
		"a listing": timed(func() error {
			ids := journal.EntryCursor{}
			_, err := b.Entries(context.Background(), main, "cash", ids, false, 10)
			return err
		}),
		"a change of rules": timed(func() error {
			_, err := b.UpdateAccount(context.Background(), "local", main, "shop", ledger.AccountUpdate{Frozen: &frozen})
			return err
		}),
	}
	// Whoever needs neither the id nor the account goes on, also beside the change of rules.
	for i := range 5 {
		if got := describeAll(result(t, postAsync(b.Journal, move(fmt.Sprintf("BESIDE-%d", i), "cash", "shop", "1")))); got != "posted" {
			t.Errorf("beside: %s", got)
		}
	}
	for name, call := range stuck {
		if a := result(t, call); !errors.Is(a.err, ledger.CodeUnavailable) || a.took > promised {
			t.Errorf("%s: %v after %v, want %s within %v", name, a.err, a.took, ledger.CodeUnavailable, promised)
		}
	}
	if !read[bool](t, watcher, fmt.Sprintf("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %d)", holder.pid)) {
		t.Fatal("the stopped backend is gone")
	}

	signal(syscall.SIGCONT)
	holder.do(t, "COMMIT")
	if got := describeAll(result(t, postAsync(b.Journal, move("ONE", "cash", "wallet", "1"), move("TWO", "cash", "wallet", "1")))); got != "replayed, posted" {
		t.Errorf("afterwards: %s", got)
	}
	if ids, _ := b.listed(t, "wallet", journal.EntryCursor{}); !slices.Equal(ids, []string{"EARLIER", "ONE", "TWO"}) {
		t.Errorf("afterwards listed %v", ids)
	}
	if _, err := b.UpdateAccount(t.Context(), "local", main, "shop", ledger.AccountUpdate{Frozen: &frozen}); err != nil {
		t.Error(err)
	}
}

// Rule: a holder of the gate is known by its virtual transaction alone. A prepared transaction keeps that, and loses its
// process.
func TestRules_HorizonOfPrepared(t *testing.T) {
	t.Parallel()
	const holder = "SELECT %s FROM pg_locks WHERE locktype = 'advisory' AND classid = 4247 AND granted"
	b := benchOn(t, pgtest.NewServer(t, map[string]string{"max_prepared_transactions": "1"}))
	poster, watcher := b.raw(t), rawAs(t, b.db.SuperDSN())
	who := func(columns string) string { return read[string](t, watcher, fmt.Sprintf(holder, columns)) }
	poster.do(t, "BEGIN", gateShare, insertMove("LATE", "cash", "shop", "1"))
	b.post(t, move("A", "cash", "shop", "1"))
	listing := start(func() []string { ids, _ := b.listed(t, "cash", journal.EntryCursor{}); return ids })
	watcher.awaitReader(t)
	transaction, process := who("virtualtransaction"), who("concat(virtualtransaction, ' ', pid)")
	poster.do(t, "PREPARE TRANSACTION 'late'")
	watcher.awaitReader(t)
	pending(t, listing)
	if got := who("virtualtransaction"); got != transaction {
		t.Errorf("virtual transaction %s, before %s", got, transaction)
	}
	if who("concat(virtualtransaction, ' ', pid)") == process {
		t.Error("the process is still known, and so proves nothing")
	}
	poster.do(t, "COMMIT PREPARED 'late'")
	if ids := result(t, listing); !slices.Equal(ids, []string{"LATE", "A"}) {
		t.Errorf("listed %v", ids)
	}
}

// Rule: the janitor ends whoever holds a gate for too long, also where no timeout of PostgreSQL's would.
func TestRules_Janitor(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(*testing.T, *rawConn){
		"idle":  func(t *testing.T, c *rawConn) { c.do(t, "BEGIN", gateShare) },
		"alone": func(t *testing.T, c *rawConn) { c.do(t, "BEGIN", gateAlone) },
		// Cut between Execute and Sync: the backend counts as active, and idle_in_transaction_session_timeout does not.
		"in a pipeline": func(t *testing.T, c *rawConn) {
			pipeline := c.PgConn().StartPipeline(context.Background())
			pipeline.SendQueryParams(gateShare, nil, nil, nil, nil)
			pipeline.SendFlushRequest()
			if err := pipeline.Flush(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupShop(t)
			holder, bystander, watcher := b.raw(t), b.raw(t), rawAs(t, b.db.SuperDSN())
			bystander.do(t, "BEGIN", "SELECT pg_advisory_xact_lock_shared(4248, 1)", "SELECT FROM account WHERE account_id = 'cash' FOR NO KEY UPDATE")
			hold(t, holder)
			gone := fmt.Sprintf("NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %d)", holder.pid)
			watcher.await(t, fmt.Sprintf(`EXISTS (SELECT FROM pg_locks WHERE pid = %d AND locktype = 'advisory' AND classid = 4247 AND granted)`, holder.pid))
			j, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{StuckAfter: 300 * time.Millisecond})
			watcher.await(t, gone)
			bystander.do(t, "COMMIT") // it held no gate
			if got := describe(post(t, j, move("ONE", "cash", "shop", "1"))); got != "posted" {
				t.Errorf("afterwards: %s", got)
			}
			if ids, _ := b.listed(t, "cash", journal.EntryCursor{}); !slices.Equal(ids, []string{"ONE"}) {
				t.Errorf("afterwards listed %v", ids)
			}
		})
	}
}

// cancelCounter dials, and counts the requests to cancel that go through.
type cancelCounter struct {
	requests atomic.Int64
	dials    atomic.Int64
}

func (c *cancelCounter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.dials.Add(1)
	return &countedConn{Conn: conn, counter: c}, nil
}

type countedConn struct {
	net.Conn
	counter *cancelCounter
	once    sync.Once
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.once.Do(func() {
		// The first message has no type: its length, and then 80877102 where another has the version of the protocol
		// (PostgreSQL 15, section 55.7, CancelRequest).
		if len(b) >= 8 && binary.BigEndian.Uint32(b[4:]) == 80877102 {
			c.counter.requests.Add(1)
		}
	})
	return c.Conn.Write(b)
}

// Rule: nothing of ours ever sends a request to cancel. With a synchronous standby that would release a commit which is
// not replicated.
func TestRules_NoCancelRequests(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	// interrupt ends a context in the middle of statements, and waits until pgx has cleaned up behind itself.
	interrupt := func(t *testing.T, pool *pgxpool.Pool) {
		t.Helper()
		for name, run := range map[string]func(context.Context, *pgx.Conn) error{
			"simple query": func(ctx context.Context, c *pgx.Conn) error {
				_, err := c.PgConn().Exec(ctx, "SELECT pg_sleep(60)").ReadAll()
				return err
			},
			"extended query": func(ctx context.Context, c *pgx.Conn) error {
				_, err := c.Exec(ctx, "SELECT pg_sleep($1)", 60)
				return err
			},
			"batch": func(ctx context.Context, c *pgx.Conn) error {
				batch := &pgx.Batch{}
				batch.Queue("SELECT 1")
				batch.Queue("SELECT pg_sleep(60)")
				return c.SendBatch(ctx, batch).Close()
			},
			"transaction": func(ctx context.Context, c *pgx.Conn) error {
				return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, "SELECT pg_sleep(60)"); return err })
			},
		} {
			conn, err := pool.Acquire(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			err = run(ctx, conn.Conn())
			cancel()
			if err == nil || !conn.Conn().IsClosed() {
				t.Errorf("%s: %v", name, err)
			}
			select {
			case <-conn.Conn().PgConn().CleanupDone():
			case <-time.After(patience):
				t.Errorf("%s: pgx does not clean up", name)
			}
			conn.Release()
		}
	}
	t.Run("pgxpool", func(t *testing.T) {
		t.Parallel()
		var counter cancelCounter
		config, err := pgxpool.ParseConfig(b.db.ServiceDSN())
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.DialFunc = counter.dial
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		interrupt(t, pool)
		if got := counter.requests.Load(); got == 0 {
			t.Error("it sends none, or they are not seen: the test proves nothing")
		}
	})
	t.Run("pg", func(t *testing.T) {
		t.Parallel()
		var counter cancelCounter
		pool, err := pg.Connect(t.Context(), pg.Config{DSN: b.db.ServiceDSN(), Dial: counter.dial})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		interrupt(t, pool)
		if got := counter.requests.Load(); got > 0 {
			t.Errorf("%d requests to cancel", got)
		}
		if got := counter.dials.Load(); got < 4 {
			t.Errorf("%d dials", got)
		}
		// Nor when it is asked to in so many words.
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		if err := conn.Conn().PgConn().CancelRequest(t.Context()); err == nil || counter.requests.Load() > 0 {
			t.Errorf("CancelRequest: %v, %d sent", err, counter.requests.Load())
		}
	})
	t.Run("journal", func(t *testing.T) {
		t.Parallel()
		var counter cancelCounter
		j, pool := open(t, pg.Config{DSN: b.db.ServiceDSN(), Dial: counter.dial}, journal.Config{Budget: 300 * time.Millisecond})
		holder := b.raw(t)
		holder.do(t, "BEGIN", "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE", gateShare)
		frozen := ledger.FrozenBoth
		if got := describeAll(result(t, postAsync(j, move("ONE", "cash", "wallet", "1")))); got != string(ledger.CodeUnavailable) {
			t.Errorf("a post: %s", got)
		}
		if _, err := j.UpdateAccount(t.Context(), "local", main, "wallet", ledger.AccountUpdate{Frozen: &frozen}); !errors.Is(err, ledger.CodeUnavailable) {
			t.Errorf("a change: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := j.Entries(ctx, main, "cash", journal.EntryCursor{}, false, 1); !ledger.CodeOf(err).Open() {
			t.Errorf("a listing: %v", err)
		}
		holder.do(t, "ROLLBACK")
		pool.Reset()
		if got := counter.requests.Load(); got > 0 {
			t.Errorf("%d requests to cancel", got)
		}
	})
}

// standby is a server whose synchronous standby can be made to be missing.
type standby struct {
	*bench
	super *rawConn
}

// lose names a standby that does not exist, until the end of the test or restore.
func (s *standby) lose(t testing.TB) (restore func()) {
	t.Helper()
	s.super.do(t, "ALTER SYSTEM SET synchronous_standby_names = 'missing'", "SELECT pg_reload_conf()")
	reset := sync.OnceFunc(func() {
		s.super.do(t, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
		s.super.await(t, "count(*) = 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	})
	t.Cleanup(reset)
	// The processes learn of it one after the other. Commits wait as soon as the checkpointer knows.
	for deadline := time.Now().Add(patience); ; {
		probe := rawAs(t, s.db.SuperDSN())
		done := start(func() error {
			_, err := probe.Exec(context.Background(), "SELECT pg_logical_emit_message(true, 'probe', '')")
			return err
		})
		for ended := false; !ended; {
			if s.waiting(t, fmt.Sprintf("pid = %d", probe.pid)) == 1 {
				restore = sync.OnceFunc(func() {
					reset()
					if err := result(t, done); err != nil {
						t.Error(err)
					}
				})
				t.Cleanup(restore) // before the probe is closed
				return restore
			}
			select {
			case err := <-done: // It has ended without waiting: the next one.
				if err != nil {
					t.Fatal(err)
				}
				ended = true
			case <-time.After(time.Millisecond):
			}
			if time.Now().After(deadline) {
				t.Fatal("commits do not wait for a standby")
			}
		}
	}
}

// waiting counts the backends that wait for the standby in their commit.
func (s *standby) waiting(t testing.TB, which string) int64 {
	t.Helper()
	return read[int64](t, s.super, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND "+which)
}

const journals = "application_name = 'khata'"

// awaitWaiting waits until that many commits of journals wait for the standby.
func (s *standby) awaitWaiting(t testing.TB, n int) {
	t.Helper()
	s.super.await(t, fmt.Sprintf("count(*) = %d FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND %s", n, journals))
}

// release cancels the waiting commits, as an administrator would: the server sends a WARNING and says COMMIT.
func (s *standby) release(t testing.TB, which string) {
	t.Helper()
	if n := read[int64](t, s.super, "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND "+which); n == 0 {
		t.Fatal("no commit waits")
	}
}

func (s *standby) visible(id string) string {
	return "EXISTS (SELECT FROM transfer WHERE transfer_id = '" + id + "')"
}

// waits reports whether a call, instead of ending, waits for the standby. Once it has ended, its result is there to be
// had again.
func waits[T any](t testing.TB, s *standby, call chan T) bool {
	t.Helper()
	for deadline := time.Now().Add(patience); s.waiting(t, journals) == 0; time.Sleep(time.Millisecond) {
		select {
		case value := <-call:
			t.Errorf("answered without the standby: %+v", value)
			call <- value
			return false
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("it neither answers nor waits")
		}
	}
	return true
}

// Rule: with a synchronous standby, nothing is answered that the standby has not confirmed.
func TestRules_SynchronousStandby(t *testing.T) {
	t.Parallel()
	s := &standby{bench: benchOn(t, pgtest.NewServer(t, nil))}
	s.super = rawAs(t, s.db.SuperDSN())
	// A journal of its own for each: its connections are younger than the setting.
	journalNow := func(t *testing.T, config journal.Config) (*journal.Journal, *pgxpool.Pool) {
		j, pool := open(t, pg.Config{DSN: s.db.ServiceDSN()}, config)
		return j, pool
	}

	t.Run("a WARNING is no answer", func(t *testing.T) {
		restore := s.lose(t)
		j, pool := journalNow(t, journal.Config{})
		// The broken variant takes the COMMIT for an answer.
		c := s.raw(t)
		c.do(t, "BEGIN", gateShare, insertMove("RAW", "cash", "shop", "1"))
		committing := start(func() string { tag, err := c.Exec(context.Background(), "COMMIT"); return fmt.Sprint(tag, err) })
		s.super.await(t, fmt.Sprintf("count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid = %d", c.pid))
		s.release(t, fmt.Sprintf("pid = %d", c.pid))
		if got := result(t, committing); got != "COMMIT <nil>" {
			t.Errorf("COMMIT, cancelled: %s", got)
		}
		// One layer down.
		unknown := start(func() error {
			return pg.InTx(context.Background(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(context.Background(), insertMove("IN-TX", "cash", "shop", "1"))
				return err
			})
		})
		s.awaitWaiting(t, 1)
		s.release(t, journals)
		if err := result(t, unknown); !errors.Is(err, pg.ErrUnknown) {
			t.Errorf("a commit with a WARNING: %v", err)
		}
		// The journal.
		posting := postAsync(j, move("WARNED", "cash", "shop", "1"))
		s.awaitWaiting(t, 1)
		pending(t, posting)
		s.release(t, journals)
		s.super.await(t, s.visible("WARNED"))
		waits(t, s, posting)
		restore()
		if got := describeAll(result(t, posting)); got != "posted" {
			t.Errorf("with the standby: %s", got)
		}
		s.once(t, "WARNED")
	})

	t.Run("duplicates wait too", func(t *testing.T) {
		s.post(t, move("OLD", "cash", "shop", "1"))
		restore := s.lose(t)
		j, _ := journalNow(t, journal.Config{})
		// The broken variant: a transaction that writes nothing does not wait.
		c := s.raw(t)
		c.do(t, "BEGIN", gateShare, "SELECT FROM transfer WHERE transfer_id = 'OLD'", "COMMIT")
		again := postAsync(j, move("OLD", "cash", "shop", "1"), move("OLD", "cash", "shop", "1"))
		waits(t, s, again)
		restore()
		if got := describeAll(result(t, again)); got != "replayed, replayed" {
			t.Errorf("with the standby: %s", got)
		}
	})

	// What is repeated after a WARNING finds that nothing is left to do, and must wait all the same.
	yes, name := true, "renamed"
	for _, c := range []struct {
		name   string
		change func(*journal.Journal) error
		done   string // seen by everybody
	}{
		{"create a ledger", func(j *journal.Journal) error {
			_, err := j.CreateLedger(context.Background(), "local", "late")
			return err
		}, "EXISTS (SELECT FROM ledger WHERE name = 'late')"},
		{"register a currency", func(j *journal.Journal) error {
			return j.RegisterCurrency(context.Background(), main, ledger.Currency{Code: "LATE", Scale: 1})
		}, "EXISTS (SELECT FROM currency WHERE code = 'LATE')"},
		{"create an account", func(j *journal.Journal) error {
			_, err := j.CreateAccounts(context.Background(), "local", main, []ledger.AccountSpec{{ID: "late", Type: ledger.Asset, Currency: "BDT"}})
			return err
		}, "EXISTS (SELECT FROM account WHERE account_id = 'late')"},
		{"rename an account", func(j *journal.Journal) error {
			_, err := j.UpdateAccount(context.Background(), "local", main, "late", ledger.AccountUpdate{Name: &name})
			return err
		}, "EXISTS (SELECT FROM account WHERE account_id = 'late' AND name = 'renamed')"},
		{"close an account", func(j *journal.Journal) error {
			_, err := j.UpdateAccount(context.Background(), "local", main, "late", ledger.AccountUpdate{Closed: &yes})
			return err
		}, "EXISTS (SELECT FROM account WHERE account_id = 'late' AND closed)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			restore := s.lose(t)
			j, _ := journalNow(t, journal.Config{})
			changing := start(func() error { return c.change(j) })
			s.awaitWaiting(t, 1)
			s.release(t, journals)
			s.super.await(t, c.done)
			waits(t, s, changing)
			restore()
			if err := result(t, changing); err != nil {
				t.Error(err)
			}
		})
	}

	t.Run("the janitor lets commits wait", func(t *testing.T) {
		const stuckAfter = 200 * time.Millisecond
		restore := s.lose(t)
		j, _ := journalNow(t, journal.Config{StuckAfter: stuckAfter})
		posting := postAsync(j, move("PATIENT", "cash", "shop", "1"))
		s.awaitWaiting(t, 1)
		late := read[time.Time](t, s.super, "SELECT clock_timestamp()").Add(stuckAfter)
		rounds := map[time.Time]bool{}
		for deadline := time.Now().Add(patience); len(rounds) < 3 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if at := read[*time.Time](t, s.super, `SELECT max(query_start) FROM pg_stat_activity WHERE query LIKE '%name: TerminateStuckGateHolders%'
				AND pid <> pg_backend_pid()`); at != nil && at.After(late) {
				rounds[*at] = true
			}
		}
		if len(rounds) < 3 {
			t.Fatal("the janitor does not come round")
		}
		if read[bool](t, s.super, "SELECT "+s.visible("PATIENT")) {
			t.Error("the janitor has released a commit that the standby had not confirmed: everybody sees it")
		}
		restore()
		if got := describeAll(result(t, posting)); got != "posted" {
			t.Errorf("with the standby: %s", got)
		}
	})

	t.Run("a context that ends releases nothing", func(t *testing.T) {
		restore := s.lose(t)
		_, right := journalNow(t, journal.Config{})
		broken, err := pgxpool.New(t.Context(), s.db.ServiceDSN()+" application_name=khata")
		if err != nil {
			t.Fatal(err)
		}
		defer broken.Close()
		for id, pool := range map[string]*pgxpool.Pool{"KEPT": right, "LET-GO": broken} {
			ctx, cancel := context.WithCancel(t.Context())
			conn, err := pool.Acquire(ctx)
			if err != nil {
				t.Fatal(err)
			}
			pid := fmt.Sprintf("pid = %d", conn.Conn().PgConn().PID())
			committing := start(func() error { _, err := conn.Exec(ctx, insertMove(id, "cash", "shop", "1")); return err })
			s.super.await(t, "count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND "+pid)
			cancel()
			if err := result(t, committing); err == nil || strings.Contains(err.Error(), "SQLSTATE") {
				t.Errorf("%s: %v", id, err)
			}
			if pool == broken {
				s.super.await(t, s.visible(id)) // proof that the test can see it
			} else {
				<-conn.Conn().PgConn().CleanupDone()
				if got := s.waiting(t, pid); got != 1 {
					t.Errorf("%s: %d commits wait", id, got)
				}
				if read[bool](t, s.super, "SELECT "+s.visible(id)) {
					t.Errorf("%s is visible", id)
				}
			}
			conn.Release()
		}
		restore()
	})
}
