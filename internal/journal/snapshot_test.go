package journal_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// wrongBalances counts the accounts whose balance is not the sum of their entries, and the snapshots that are not, both in one
// statement and without the functions that compute them.
const wrongBalances = `SELECT
	(SELECT count(*) FROM account a LEFT JOIN (SELECT ledger_id, account_no, sum(amount) AS sum FROM entry GROUP BY 1, 2) e USING (ledger_id, account_no),
		LATERAL balance_through(a.ledger_id, a.account_no, 9223372036854775807) b WHERE b.sum <> coalesce(e.sum, 0))
	+ (SELECT count(*) FROM snapshot s LEFT JOIN
		(SELECT DISTINCT ledger_id, account_no, sequence AS through, sum(amount) OVER (PARTITION BY ledger_id, account_no ORDER BY sequence) AS sum FROM entry) r
		USING (ledger_id, account_no, through) WHERE s.sum IS DISTINCT FROM r.sum)`

// markAll is the work of the job, without any wait.
const markAll = `INSERT INTO mark (ledger_id, horizon) SELECT 1, m FROM next_marks(1, (SELECT pg_sequence_last_value('journal_sequence')), 1000) m
	ORDER BY m ON CONFLICT DO NOTHING`

// Rule: snapshots are taken behind the horizon, by a transaction that begins after the wait for it.
func TestRules_SnapshotsBehindTheHorizon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		late   []string
		broken string // what takes the snapshots instead of the job
		wrong  bool
		want   string // the error of it
	}{
		{name: "the job", late: []string{gateShare, insertMove("LATE", "cash", "shop", "1")}},
		{name: "the job, for a hand without the gate", late: []string{insertMove("LATE", "cash", "shop", "1")}},
		{name: "no wait", late: []string{gateShare, insertMove("LATE", "cash", "shop", "1")}, broken: markAll, wrong: true, want: "accepted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setupDense(t)
			b.account(t, "cash", ledger.Asset, "BDT", nil)
			b.account(t, "shop", ledger.Liability, "BDT", nil)
			poster, other, watcher := b.raw(t), b.raw(t), rawAs(t, b.db.SuperDSN())
			poster.do(t, "BEGIN")
			poster.do(t, c.late...)
			for i := range 30 {
				b.post(t, move(fmt.Sprint(i), "cash", "shop", "1"))
			}
			if c.broken != "" {
				if got := refusedWith(script(other.Conn, c.broken)); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				poster.do(t, "COMMIT")
			} else {
				round := start(func() error { return b.SnapshotRound(context.Background()) })
				watcher.awaitReader(t)
				pending(t, round)
				poster.do(t, "COMMIT")
				if err := result(t, round); err != nil {
					t.Fatal(err)
				}
			}
			if n := read[int](t, watcher, "SELECT count(*) FROM snapshot"); n < 10 {
				t.Errorf("only %d snapshots", n)
			}
			if n := read[int](t, watcher, wrongBalances); (n > 0) != c.wrong {
				t.Errorf("%d balances and snapshots are wrong", n)
			}
		})
	}
	// A transaction whose view of the books is older than the wait.
	t.Run("an old view", func(t *testing.T) {
		t.Parallel()
		b := setupDense(t)
		b.account(t, "cash", ledger.Asset, "BDT", nil)
		b.account(t, "shop", ledger.Liability, "BDT", nil)
		old := b.raw(t)
		for i := range 30 {
			b.post(t, move(fmt.Sprint(i), "cash", "shop", "1"))
		}
		for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
			old.do(t, "BEGIN ISOLATION LEVEL "+level)
			if got := refusedWith(script(old.Conn, markAll)); got != "23514 mark_read_committed" {
				t.Errorf("%s: %s", level, got)
			}
			old.do(t, "ROLLBACK")
		}
	})
}

// Rule: where snapshots are taken follows from the journal alone, so that two jobs at once write the same rows, in whatever order
// they come, and neither fails.
func TestRules_SnapshotsTwice(t *testing.T) {
	t.Parallel()
	b := setupDense(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "shop", ledger.Liability, "BDT", nil)
	for i := range 40 {
		b.post(t, move(fmt.Sprint(i), "cash", "shop", "1"))
	}
	one, two, watcher := b.raw(t), b.raw(t), rawAs(t, b.db.SuperDSN())
	one.do(t, "BEGIN", markAll)
	// The lease would keep it out, so this goes past it.
	second := start(func() error { return script(two.Conn, markAll) })
	watcher.awaitBlocked(t, two.pid)
	// The job itself steps aside meanwhile, rather than wait.
	one.do(t, "SELECT pg_advisory_xact_lock(4248, 1)")
	if err := b.SnapshotRound(t.Context()); err != nil {
		t.Error(err)
	}
	pending(t, second)
	one.do(t, "COMMIT")
	if err := result(t, second); err != nil {
		t.Errorf("the second: %v", err)
	}
	const all = "SELECT (SELECT count(*) FROM mark) || ' marks, ' || (SELECT count(*) FROM snapshot) || ' snapshots'"
	before := read[string](t, watcher, all)
	if !strings.HasPrefix(before, "8 marks") {
		t.Errorf("40 transfers have %s", before)
	}
	if err := b.SnapshotRound(t.Context()); err != nil {
		t.Error(err)
	}
	if after := read[string](t, watcher, all); after != before {
		t.Errorf("before %s, after another round %s", before, after)
	}
	checkDense(t, b.db)
}

// The job of a server takes snapshots by itself, says how it fares, and ends with the journal.
func TestSnapshots_Job(t *testing.T) {
	t.Parallel()
	b := setupDense(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "shop", ledger.Liability, "BDT", nil)
	registry := prometheus.NewRegistry()
	var log syncBuffer
	pool, err := pg.Connect(t.Context(), pg.Config{DSN: b.db.ServiceDSN()})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	j := journal.New(pool, journal.Config{
		SnapshotEvery: 2 * time.Millisecond, Metrics: journal.NewMetrics(registry), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	watcher := rawAs(t, b.db.SuperDSN())
	post := func(what string, n int) {
		for i := range n {
			b.post(t, move(fmt.Sprint(what, i), "cash", "shop", "1"))
		}
	}
	// awaitMetric waits until a metric has a value that will do.
	awaitMetric := func(name string, enough func(float64) bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); !enough(gathered(t, registry)[name]); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s is %v", name, gathered(t, registry)[name])
			}
		}
	}
	post("before", 23)
	watcher.await(t, "(SELECT count(*) FROM mark) = 4")

	watcher.do(t, "REVOKE INSERT (ledger_id, horizon) ON mark FROM khata_service")
	post("during", 10)
	awaitMetric("khata_snapshot_failures_total", func(n float64) bool { return n > 3 })
	awaitMetric("khata_snapshot_lag_seconds", func(s float64) bool { return s > 0.02 })
	watcher.do(t, "GRANT INSERT (ledger_id, horizon) ON mark TO khata_service")
	watcher.await(t, "(SELECT count(*) FROM mark) = 6")
	awaitMetric("khata_snapshot_lag_seconds", func(s float64) bool { return s == 0 })
	if said := log.String(); strings.Count(said, "permission denied") != 1 || strings.Count(said, "job works again") != 1 {
		t.Errorf("a failure that lasts was logged so:\n%s", said)
	}
	awaitMetric("khata_snapshots_total", func(n float64) bool {
		return n == read[float64](t, watcher, "SELECT count(*)::float FROM snapshot")
	})
	j.Close()
	post("after", 10)
	time.Sleep(20 * time.Millisecond)
	if n := read[int](t, watcher, "SELECT count(*) FROM mark"); n != 6 {
		t.Errorf("%d marks after the end", n)
	}
}

// syncBuffer is a buffer that may be written to and read at once.
type syncBuffer struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// gathered reads counters and gauges.
func gathered(t testing.TB, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		if m := f.GetMetric()[0]; m.GetCounter() != nil {
			values[f.GetName()] = m.GetCounter().GetValue()
		} else if m.GetGauge() != nil {
			values[f.GetName()] = m.GetGauge().GetValue()
		}
	}
	return values
}

// TestSnapshots_Storm kills the job at random, in every way there is, while it works and others post; and after each time compares
// all balances and all snapshots with full sums.
func TestSnapshots_Storm(t *testing.T) {
	t.Parallel()
	b := setupDense(t)
	ids := []ledger.AccountID{"cash", "hot", "a", "b", "c"}
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	for _, id := range ids[1:] {
		b.account(t, id, ledger.Liability, "BDT", floor("0"))
	}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var posted atomic.Int64
	second, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{SnapshotEvery: -1})
	for n := range 3 {
		r := rand.New(rand.NewPCG(uint64(n), 1)) //nolint:gosec // n is small
		server := []*journal.Journal{b.Journal, second}[n%2]
		clients.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				var specs []ledger.TransferSpec
				for k := range 1 + r.IntN(8) {
					from, to := ids[r.IntN(5)], ids[1+r.IntN(4)]
					if from == to {
						to = "cash"
					}
					if from == to {
						from = "hot"
					}
					spec := move(fmt.Sprintf("%d-%d-%d", n, i, k), from, to, fmt.Sprint(1+r.IntN(50)))
					if r.IntN(4) == 0 {
						at := time.Now().Add(-time.Duration(r.Int64N(int64(time.Hour)))).Truncate(time.Microsecond)
						spec.EffectiveAt = &at
					}
					specs = append(specs, spec)
				}
				if _, err := server.Post(context.Background(), "local", main, specs); err != nil {
					t.Error(err)
					return
				}
				posted.Add(int64(len(specs)))
				time.Sleep(5 * time.Millisecond) // or the comparisons would take most of the time
			}
		})
	}
	watcher := rawAs(t, b.db.SuperDSN())
	random := rand.New(rand.NewPCG(9, 9))
	kills := storm(20, 200)
	hits := 0
	remembered := map[int64]string{}
	for n := range kills {
		// Two jobs of two servers; both may be hit.
		faults := pgtest.NewFaults(t)
		one, onePool := newJob(t, b, faults.DialFunc(nil))
		two, twoPool := newJob(t, b, nil)
		time.Sleep(time.Duration(random.IntN(15)) * time.Millisecond)
		switch n % 4 {
		case 0: // the backend, in the middle of a mark
			hits += b.terminateMarking(t, watcher)
		case 1: // the connections
			faults.CutAll()
		case 2: // the commit, without or with effect
			if random.IntN(2) == 0 {
				faults.CutBeforeCommit(1)
			} else {
				faults.CutAfterCommit(1)
			}
			time.Sleep(5 * time.Millisecond)
		case 3: // the server, which ends
		}
		one.Close()
		onePool.Close()
		if wrong := read[int](t, watcher, wrongBalances); wrong > 0 {
			t.Fatalf("after kill %d: %d balances and snapshots are wrong", n, wrong)
		}
		b.stillTheSame(t, watcher, remembered)
		two.Close()
		twoPool.Close()
	}
	stop()
	clients.Wait()
	if hits == 0 {
		t.Error("no kill hit the job at work")
	}
	if err := b.SnapshotRound(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("%d transfers, %d of %d kills of backends at work, %s", posted.Load(), hits, kills/4,
		read[string](t, watcher, "SELECT count(*) || ' snapshots, ' || (SELECT count(*) FROM mark) || ' marks' FROM snapshot"))
	checkDense(t, b.db)
}

// newJob is a server that does nothing but take snapshots, without a pause.
func newJob(t testing.TB, b *bench, dial pgconn.DialFunc) (*journal.Journal, interface{ Close() }) {
	t.Helper()
	pool, err := pg.Connect(context.Background(), pg.Config{DSN: b.db.ServiceDSN(), Dial: dial, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	return journal.New(pool, journal.Config{SnapshotEvery: time.Millisecond}), pool
}

// terminateMarking terminates a backend that is inserting marks, and waits for one a while.
func (b *bench) terminateMarking(t testing.TB, watcher *rawConn) int {
	t.Helper()
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
		if n := read[int](t, watcher, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE '-- name: MarkInsert%' AND state <> 'idle'`); n > 0 {
			return 1
		}
	}
	return 0
}

// stillTheSame remembers balances as of a number, and checks those that it has remembered before: they are final.
func (b *bench) stillTheSame(t testing.TB, watcher *rawConn, remembered map[int64]string) {
	t.Helper()
	ask := func(sequence int64) string {
		balances, err := b.BalancesAsOf(t.Context(), main, []ledger.AccountID{"cash", "hot", "a"}, ledger.AsOf{Sequence: &sequence})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintln(balances)
	}
	// Not by a SELECT, which can see numbers that nextval only has logged ahead.
	last := read[int64](t, watcher, "SELECT pg_sequence_last_value('journal_sequence')")
	remembered[last] = ask(last)
	asked := 0
	for sequence, before := range remembered { // in no order
		if after := ask(sequence); after != before {
			t.Fatalf("as of %d: %s, before %s", sequence, after, before)
		}
		if asked++; asked == 10 {
			break
		}
	}
}

// The same with the real distances between marks and snapshots, and one job for each of two servers that post.
func TestSnapshots_WhilePosting(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	one, pool := open(t, pg.Config{DSN: db.ServiceDSN()}, journal.Config{SnapshotEvery: 5 * time.Millisecond})
	two, _ := open(t, pg.Config{DSN: db.ServiceDSN()}, journal.Config{SnapshotEvery: 5 * time.Millisecond})
	b := &bench{Journal: one, db: db, pool: pool}
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "shop", ledger.Liability, "BDT", floor("0"))
	var clients sync.WaitGroup
	for n, server := range []*journal.Journal{one, two} {
		clients.Go(func() {
			for i := range storm(8, 80) {
				var specs []ledger.TransferSpec
				for k := range 250 {
					specs = append(specs, move(fmt.Sprintf("%d-%d-%d", n, i, k), "cash", "shop", "1"))
				}
				if _, err := server.Post(context.Background(), "local", main, specs); err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	watcher := rawAs(t, db.SuperDSN())
	watcher.await(t, "NOT EXISTS (SELECT FROM next_marks(1, (SELECT pg_sequence_last_value('journal_sequence')), 1))")
	if wrong := read[int](t, watcher, wrongBalances); wrong > 0 {
		t.Errorf("%d balances and snapshots are wrong", wrong)
	}
	if marks := read[int](t, watcher, "SELECT count(*) FROM mark"); marks != storm(8, 80)*500/256 {
		t.Errorf("%d marks", marks)
	}
	ledgertest.CheckBooks(t, db)
}
