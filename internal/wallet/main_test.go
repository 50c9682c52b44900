package wallet_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/shopspring/decimal"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/internal/wallet"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/inbox"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const (
	main = ledger.DefaultLedger
	// patience is how long a test waits for what must come.
	patience = 40 * time.Second
	wallets  = 6
)

// world is a ledger, a broker that has its events, and a database with the view.
type world struct {
	books
	fake    *kfake.Cluster
	kafka   *kgo.Client
	topics  relay.Topics
	view    *pgtest.DB
	pool    *pgxpool.Pool
	metrics *prometheus.Registry
}

// books are a ledger and its journal.
type books struct {
	*journal.Journal
	db   *pgtest.DB
	pool *pgxpool.Pool
	n    int // transfers posted
}

func setup(t *testing.T) *world {
	t.Helper()
	w := &world{view: pgtest.New(t), topics: relay.Topics{Transfers: "khata.transfers", Accounts: "khata.accounts", Prefix: "khata"}}
	w.books = open(t, pgtest.New(t))
	t.Cleanup(func() { ledgertest.CheckBooks(t, w.db) })
	w.open(t)
	var err error
	w.fake, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.fake.Close)
	for _, topic := range []string{w.topics.Transfers, w.topics.Accounts} {
		if err := w.fake.CreateTopic(topic, 3, nil); err != nil {
			t.Fatal(err)
		}
	}
	if w.kafka, err = kgo.NewClient(kgo.SeedBrokers(w.fake.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.kafka.Close)
	if _, err := wallet.Schema.Migrate(t.Context(), w.view.OwnerDSN()); err != nil {
		t.Fatal(err)
	}
	if _, err := inbox.Migrate(t.Context(), w.view.OwnerDSN(), ""); err != nil {
		t.Fatal(err)
	}
	w.view.Exec(t, wallet.Grants("khata_service")+inbox.Grants("", "khata_service"))
	w.pool = connect(t, w.view.ServiceDSN())
	return w
}

func connect(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Connect(context.Background(), pg.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func open(t *testing.T, db *pgtest.DB) books {
	t.Helper()
	b := books{db: db, pool: connect(t, db.ServiceDSN())}
	b.Journal = journal.New(b.pool, journal.Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(b.Close)
	return b
}

// open opens the accounts.
func (b *books) open(t *testing.T) {
	t.Helper()
	specs := []ledger.AccountSpec{{ID: "cash", Type: ledger.Asset, Currency: "BDT"}, {ID: "fees", Type: ledger.Revenue, Currency: "BDT"}, {ID: "idle", Type: ledger.Liability, Currency: "BDT"}}
	for i := range wallets {
		zero := decimal.Zero
		specs = append(specs, ledger.AccountSpec{ID: account(i), Type: ledger.Liability, Currency: "BDT", Floor: &zero, Name: fmt.Sprint("wallet ", i)})
	}
	if _, err := b.CreateAccounts(t.Context(), "local", main, specs); err != nil {
		t.Fatal(err)
	}
}

func account(i int) ledger.AccountID { return ledger.AccountID(fmt.Sprint("wallet:", i)) }

// post posts n transfers of all kinds and outcomes, and changes accounts now and then.
func (b *books) post(t *testing.T, r *rand.Rand, n int) {
	t.Helper()
	amount := func(most int) decimal.Decimal { return decimal.New(int64(r.IntN(most)+1), -2) }
	for range n {
		b.n++
		id := func(step string) ledger.TransferID { return ledger.TransferID(fmt.Sprint(step, "-", b.n)) }
		specs := []ledger.TransferSpec{{ID: id("in"), Description: "টাকা জমা", Entries: ledger.Simple("cash", account(r.IntN(wallets)), amount(100_00), "BDT")}}
		from := r.IntN(wallets)
		pay := ledger.TransferSpec{ID: id("pay"), Entries: ledger.Simple(account(from), account((from+1+r.IntN(wallets-1))%wallets), amount(120_00), "BDT")}
		if r.IntN(4) == 0 {
			at := time.Now().Add(-time.Duration(r.IntN(1000)) * time.Hour).Truncate(time.Microsecond)
			pay.EffectiveAt = &at
		}
		specs = append(specs, pay)
		switch r.IntN(4) {
		case 0:
			hold := ledger.TransferSpec{ID: id("hold"), Entries: ledger.Simple("cash", "fees", amount(10_00), "BDT"), Terms: &ledger.Terms{Kind: ledger.Hold}}
			specs = append(specs, hold, ledger.TransferSpec{ID: id("end"), Terms: &ledger.Terms{Kind: []ledger.Kind{ledger.Capture, ledger.Void}[r.IntN(2)], Origin: hold.ID}})
		case 1:
			specs = append(specs, ledger.TransferSpec{ID: id("open"), Entries: ledger.Simple("cash", account(from), amount(10_00), "BDT"), Terms: &ledger.Terms{Kind: ledger.Hold}})
		case 2:
			none := decimal.Zero
			specs = append(specs, ledger.TransferSpec{ID: id("back"), Terms: &ledger.Terms{Kind: ledger.Refund, Origin: id("in"), ExpectedRefunded: &none, Reason: ledger.ReasonGoodwill}})
		}
		for _, spec := range specs {
			results, err := b.Post(t.Context(), "local", main, []ledger.TransferSpec{spec})
			if err != nil || results[0].Err != nil {
				t.Fatal(err, results)
			}
		}
		if r.IntN(8) == 0 {
			name := fmt.Sprint("name ", b.n)
			if _, err := b.UpdateAccount(t.Context(), "local", main, account(from), ledger.AccountUpdate{Name: &name}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// publish publishes all that the books have, with a relay of its own.
func (w *world) publish(t *testing.T) { w.publishFrom(t, w.books) }

func (w *world) publishFrom(t *testing.T, b books) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		r := relay.New(relay.Config{
			Journal: b.Journal, Pool: b.pool, Kafka: []kgo.Opt{kgo.SeedBrokers(w.fake.ListenAddrs()...)}, Topics: w.topics, Name: "test",
			Logger: slog.New(slog.DiscardHandler),
		})
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer cancel()
	waitFor(t, "all is published", func() error {
		s, err := relay.StatusOf(ctx, b.Journal, b.pool)
		if err != nil || s.Cluster == "" {
			return fmt.Errorf("%+v, %w", s, err)
		}
		for _, l := range s.Ledgers {
			if l.Oldest != nil {
				return fmt.Errorf("%+v", l)
			}
		}
		return nil
	})
}

func (w *world) config(t *testing.T) wallet.Config {
	t.Helper()
	w.metrics = prometheus.NewRegistry()
	return wallet.Config{
		Journal: w.Journal, Metrics: wallet.NewMetrics(w.metrics),
		Inbox: inbox.Config{
			Pool: w.pool, Topics: []string{w.topics.Accounts}, Logger: slog.New(slog.DiscardHandler), ReplayEvery: 20 * time.Millisecond,
			Kafka: []kgo.Opt{
				kgo.SeedBrokers(w.fake.ListenAddrs()...), kgo.FetchMaxWait(50 * time.Millisecond), kgo.HeartbeatInterval(100 * time.Millisecond),
				kgo.SessionTimeout(10 * time.Second),
			},
		},
	}
}

// follow runs the consumer until stop is called or the test ends.
func (w *world) follow(t *testing.T, config wallet.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := wallet.Run(ctx, config); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// caughtUp waits until the view has all that the books have, and is equal.
func (w *world) caughtUp(t *testing.T) wallet.Comparison {
	t.Helper()
	return w.caughtUpWith(t, w.books)
}

func (w *world) caughtUpWith(t *testing.T, b books) wallet.Comparison {
	t.Helper()
	c, err := wallet.Compare(t.Context(), w.pool, b.Journal)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && (err != nil || c.Equal() && c.Behind > 0); c, err = wallet.Compare(t.Context(), w.pool, b.Journal) {
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil || !c.Equal() || c.Behind > 0 {
		t.Fatalf("the view is not what the books are: %+v, %v; letters: %v", c, err, w.letters(t))
	}
	return c
}

func (w *world) letters(t *testing.T) []string {
	t.Helper()
	list, err := inbox.Letters(context.Background(), w.pool, inbox.Selection{Consumer: wallet.Consumer})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range list {
		got = append(got, fmt.Sprintf("%s %s %s: %s", l.Event.Key, l.Reason, l.State, l.Error))
	}
	return got
}

// drained waits until the consumer has committed the end of the topic.
func (w *world) drained(t *testing.T) {
	t.Helper()
	admin := kadm.NewClient(w.kafka)
	waitFor(t, "the consumer to be through", func() error {
		ends, err := admin.ListEndOffsets(t.Context(), w.topics.Accounts)
		if err != nil {
			return err
		}
		committed, err := admin.FetchOffsetsForTopics(t.Context(), wallet.Consumer, w.topics.Accounts)
		if err != nil {
			return err
		}
		ends.Each(func(end kadm.ListedOffset) {
			// A transaction's marker is the last of a partition, and no record.
			if at, ok := committed.Lookup(end.Topic, end.Partition); end.Offset > 0 && (!ok || at.At < end.Offset-1) {
				err = fmt.Errorf("partition %d ends at %d, and is committed at %d", end.Partition, end.Offset, at.At)
			}
		})
		return err
	})
}

// again puts all that is in the topic of accounts there once more, n times.
func (w *world) again(t *testing.T, n int) {
	t.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(w.fake.ListenAddrs()...), kgo.ConsumeTopics(w.topics.Accounts), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ends, err := kadm.NewClient(reader).ListEndOffsets(t.Context(), w.topics.Accounts)
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	var records []*kgo.Record
	for len(left) > 0 {
		for _, r := range reader.PollFetches(t.Context()).Records() {
			if r.Offset >= left[r.Partition]-1 {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		}
	}
	for range n {
		var copies []*kgo.Record
		for _, r := range records {
			copies = append(copies, &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers})
		}
		w.produce(t, copies...)
	}
}

func (w *world) produce(t *testing.T, records ...*kgo.Record) {
	t.Helper()
	if err := w.kafka.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// rows is all that is in the view, as text.
func (w *world) rows(t *testing.T) string {
	t.Helper()
	var text string
	err := w.pool.QueryRow(t.Context(), `SELECT coalesce((SELECT string_agg(w::text, E'\n' ORDER BY ledger, account) FROM khata_wallet.wallet w), '') ||
		E'\n' || coalesce((SELECT string_agg(m::text, E'\n' ORDER BY ledger, account, version) FROM khata_wallet.movement m), '')`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (w *world) counted(t *testing.T, result string) float64 {
	t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "khata_wallet_events_total" {
			continue
		}
		for _, m := range f.Metric {
			if m.Label[0].GetValue() == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func waitFor(t *testing.T, what string, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("waited until %s: %v", what, err)
}

func contains(list []string, part string) int {
	n := 0
	for _, s := range list {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

func random(t *testing.T, seed uint64) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // repeatable on purpose
}
