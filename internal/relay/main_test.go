package relay_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/eventstest"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/kafkatest"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/ledger"
)

func TestMain(m *testing.M) {
	os.Exit(kafkatest.Main(func() int { return pgtest.Main(m, kafkatest.Ignore()) }))
}

const main = ledger.DefaultLedger

// patience is how long a test waits for what must come. It is reached only where something is wrong.
const patience = 40 * time.Second

// world is a ledger, a Kafka with topics of the test's own, and who reads these.
type world struct {
	*journal.Journal
	db      *pgtest.DB
	pool    *pgxpool.Pool
	cluster *kafkatest.Cluster
	topics  relay.Topics
}

// setup makes one on the shared Kafka.
func setup(t *testing.T) *world { return setupOn(t, kafkatest.Shared(t), nil) }

func setupOn(t *testing.T, cluster *kafkatest.Cluster, settings map[string]string) *world {
	t.Helper()
	w := &world{db: pgtest.New(t), cluster: cluster}
	w.Journal, w.pool = w.open(t, pg.Config{DSN: w.db.ServiceDSN()})
	if settings == nil {
		settings = map[string]string{}
	}
	settings["message.timestamp.type"] = "LogAppendTime"
	w.topics = relay.Topics{Transfers: cluster.Topic(t, 3, settings), Accounts: cluster.Topic(t, 3, settings)}
	w.topics.Prefix = w.topics.Transfers
	t.Cleanup(func() { ledgertest.CheckBooks(t, w.db) })
	w.accounts(t, "cash", "shop", "wallet:a", "wallet:b")
	return w
}

func (w *world) open(t *testing.T, config pg.Config) (*journal.Journal, *pgxpool.Pool) {
	t.Helper()
	pool, err := pg.Connect(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(pool, journal.Config{})
	t.Cleanup(func() {
		j.Close()
		pool.Close()
	})
	return j, pool
}

func (w *world) accounts(t *testing.T, ids ...ledger.AccountID) {
	t.Helper()
	for _, id := range ids {
		spec := ledger.AccountSpec{ID: id, Type: ledger.Liability, Currency: "BDT"}
		if id == "cash" {
			spec.Type = ledger.Asset
		}
		if strings.HasPrefix(string(id), "wallet:") {
			zero := decimal.Zero
			spec.Floor = &zero
		}
		if _, err := w.CreateAccounts(context.Background(), "local", main, []ledger.AccountSpec{spec}); err != nil {
			t.Fatal(err)
		}
	}
}

func move(id string, debit, credit ledger.AccountID, amount string) ledger.TransferSpec {
	return ledger.TransferSpec{ID: ledger.TransferID(id), Entries: ledger.Simple(debit, credit, decimal.RequireFromString(amount), "")}
}

func (w *world) post(t testing.TB, specs ...ledger.TransferSpec) {
	t.Helper()
	results, err := w.Post(context.Background(), "local", main, specs)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// testLog sends what a relay says to the test's log, until the test has ended.
type testLog struct {
	t  testing.TB
	mu sync.Mutex
}

func (l *testLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.t != nil {
		l.t.Log(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

func logger(t testing.TB) *slog.Logger {
	out := &testLog{t: t}
	t.Cleanup(func() {
		out.mu.Lock()
		defer out.mu.Unlock()
		out.t = nil
	})
	return slog.New(slog.NewTextHandler(out, nil))
}

// running is a relay at work.
type running struct {
	stop  context.CancelFunc
	ended chan struct{}
	err   error
}

// config is that of a relay with a short lease.
func (w *world) config(t *testing.T, name string) relay.Config {
	t.Helper()
	return relay.Config{
		Journal: w.Journal, Pool: w.pool, Kafka: []kgo.Opt{kgo.SeedBrokers(w.cluster.Brokers()...)}, Topics: w.topics,
		Name: name, Lease: time.Second, Logger: logger(t).With("relay", name),
	}
}

// noise is text of so many bytes that does not compress.
func noise(n int) string {
	random := make([]byte, n/2)
	_, _ = rand.Read(random)
	return hex.EncodeToString(random)
}

// relay starts one, with a short lease. change may be nil.
func (w *world) relay(t *testing.T, name string, change func(*relay.Config)) *running {
	t.Helper()
	config := w.config(t, name)
	if change != nil {
		change(&config)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = relay.New(config).Run(ctx)
	}()
	t.Cleanup(r.end)
	return r
}

func (r *running) end() {
	r.stop()
	<-r.ended
}

// caughtUp waits until every record is published.
func (w *world) caughtUp(t *testing.T) {
	t.Helper()
	w.until(t, "all is published", func() (bool, string) {
		s, err := relay.StatusOf(context.Background(), w.Journal, w.pool)
		if err != nil {
			return false, err.Error()
		}
		for _, l := range s.Ledgers {
			if l.Oldest != nil {
				return false, fmt.Sprintf("%+v", l)
			}
		}
		return s.Cluster != "", fmt.Sprintf("%+v", s)
	})
}

func (w *world) until(t *testing.T, what string, holds func() (bool, string)) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		ok, now := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never comes to this: %s; it is %s", what, now)
		}
	}
}

// read reads what is committed in both topics, partition by partition, in order.
func (w *world) read(t *testing.T) []eventstest.Sent {
	t.Helper()
	return eventstest.Read(t, w.cluster, w.topics)
}

// check holds what was sent against the journal, and returns how often something came again.
func (w *world) check(t *testing.T) (again int) {
	t.Helper()
	return eventstest.Check(t, eventstest.Expected(t, w.Journal, w.topics), w.read(t))
}
