package server_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/kafkatest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/ledger"
)

// eventBench is a ledger that is posted to by two servers of this process, the processes that publish it, and those that consume what is
// published.
type eventBench struct {
	db *pgtest.DB
	// The commits of the second journal come late, when higher numbers have been drawn and committed.
	journals [2]*journal.Journal
	pool     *pgxpool.Pool
	cluster  *kafkatest.Cluster
	admin    *kadm.Client
	topics   kafka.Topics

	relays []*relayProcess
	// pids are of all relays that ever were, by their names.
	pids map[string]int

	// effects is the database of the consumers.
	effects   *pgtest.DB
	consumers []*process
}

const (
	eventPartitions = 6
	// eventPatience bounds each wait for something to happen that has to.
	eventPatience = time.Minute
	// commitsLate is how much later the commits of the second journal come.
	commitsLate = 60 * time.Millisecond
)

func newEventBench(t *testing.T, cluster *kafkatest.Cluster) *eventBench {
	t.Helper()
	b := &eventBench{
		db: pgtest.New(t), effects: pgtest.New(t), cluster: cluster, admin: kadm.NewClient(cluster.Client(t)), pids: map[string]int{},
		topics: kafka.Topics{Prefix: "storm-" + strings.ToLower(rand.Text()[:10])},
	}
	late := pgtest.NewFaults(t)
	late.DelayCommits(commitsLate)
	_, b.journals[1] = openJournal(t, pg.Config{DSN: b.db.ServiceDSN(), Dial: late.DialFunc(nil)})
	b.pool, b.journals[0] = openJournal(t, pg.Config{DSN: b.db.ServiceDSN()})
	if _, err := b.journals[0].CreateAccounts(t.Context(), "local", ledger.DefaultLedger, workloadAccounts()); err != nil {
		t.Fatal(err)
	}
	spec := kafka.TopicSpec{Topics: b.topics, Partitions: eventPartitions}
	if report, err := kafka.EnsureTopics(t.Context(), cluster.Client(t), spec); err != nil || report.Differs() {
		t.Fatalf("make the topics: %+v, %v", report, err)
	}
	b.watchCursor(t)
	// Not by the consumers: two that make a table at the same moment are in each other's way.
	b.effects.Exec(t, "CREATE TABLE receipts (event_id text, type text, data bytea, at timestamptz DEFAULT clock_timestamp())")
	return b
}

func openJournal(t *testing.T, config pg.Config) (*pgxpool.Pool, *journal.Journal) {
	t.Helper()
	pool, err := pg.Connect(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(pool, journal.Config{})
	t.Cleanup(func() {
		j.Close()
		pool.Close()
	})
	return pool, j
}

// relayProcess is khata relay.
type relayProcess struct {
	*process
	name   string
	faults *pgtest.Faults // between it and its database
	gaveUp atomic.Int64   // how often it has said that it has lost its lease
}

// holdCommit waits until the relay has committed to Kafka and is to move its cursor, and holds that up.
func (r *relayProcess) holdCommit(t *testing.T, how time.Duration) {
	t.Helper()
	r.faults.DelayCommits(how)
	defer r.faults.DelayCommits(0)
	before := r.faults.Commits()
	for deadline := time.Now().Add(eventPatience); r.faults.Commits() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s commits nothing; it printed:\n%s", r.name, r.printed())
		}
	}
}

func (r *relayProcess) pid() int { return r.cmd.Process.Pid }

func (b *eventBench) startRelay(t *testing.T) {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	r := &relayProcess{name: fmt.Sprint("relay-", len(b.pids)+1), faults: pgtest.NewFaults(t)}
	cmd := exec.Command(binary, "relay", "--dsn", b.db.Through(t, r.faults).ServiceDSN()+" application_name="+r.name,
		"--kafka", strings.Join(b.cluster.Brokers(), ","), "--topic-prefix", b.topics.Prefix)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "KHATA_") })
	r.process = run(t, cmd, func(line string) {
		if strings.Contains(line, "has given up its lease") {
			r.gaveUp.Add(1)
		}
	})
	b.pids[r.name] = r.pid()
	b.relays = append(b.relays, r)
}

func (b *eventBench) startConsumer(t *testing.T) {
	t.Helper()
	binary, err := buildConsumer()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), "KAFKA="+strings.Join(b.cluster.Brokers(), ","), "TOPIC="+b.topics.Accounts(), "DSN="+b.effects.OwnerDSN())
	b.consumers = append(b.consumers, run(t, cmd, func(string) {}))
}

// until waits until something holds, which says what is in its way.
func (b *eventBench) until(t *testing.T, what string, holds func() (ok bool, now string)) {
	t.Helper()
	for deadline := time.Now().Add(eventPatience); ; time.Sleep(20 * time.Millisecond) {
		ok, now := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never comes to this: %s; it is: %s", what, now)
		}
	}
}

func (b *eventBench) status(ctx context.Context, t *testing.T) relay.Status {
	t.Helper()
	s, err := relay.StatusOf(ctx, b.journals[0], b.pool)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// advance waits until so many records more are published.
func (b *eventBench) advance(ctx context.Context, t *testing.T, n int64) {
	t.Helper()
	first := int64(-1)
	b.until(t, fmt.Sprintf("%d records more are published", n), func() (bool, string) {
		s, published := b.status(ctx, t), int64(0)
		for _, l := range s.Ledgers {
			published += l.Records
		}
		if first < 0 {
			first = published
		}
		return published-first >= n, fmt.Sprintf("%+v; %d are", s, published-first)
	})
}

// leader waits until one of the relays has the lease, and says which, and in which term.
func (b *eventBench) leader(ctx context.Context, t *testing.T) (at int, term int64) {
	t.Helper()
	b.until(t, "a relay has the lease", func() (bool, string) {
		s := b.status(ctx, t)
		at, term = slices.IndexFunc(b.relays, func(r *relayProcess) bool { return isHolder(s.Holder, b.pids[r.name]) }), s.Term
		return at >= 0 && s.LeaseLeft > 0, fmt.Sprintf("%+v", s)
	})
	return at, term
}

// isHolder reports whether the lease is that of a process.
func isHolder(holder string, pid int) bool {
	return strings.HasSuffix(holder, fmt.Sprintf(", process %d", pid))
}

// group is that of the consumers.
const group = "receipts"

// joined waits until the group of the consumers has so many members, and each knows its partitions.
func (b *eventBench) joined(ctx context.Context, t *testing.T, members int) {
	t.Helper()
	b.until(t, fmt.Sprintf("the group has %d members", members), func() (bool, string) {
		described, err := b.admin.DescribeGroups(ctx, group)
		if err != nil {
			return false, err.Error()
		}
		g := described[group]
		return g.State == "Stable" && len(g.Members) == members, fmt.Sprintf("%d members, %s, %v", len(g.Members), g.State, g.Err)
	})
}

// stopAll ends processes in order, none of which has ended before.
func stopAll(t *testing.T, processes ...*process) {
	t.Helper()
	for _, p := range processes {
		select {
		case <-p.done:
			t.Errorf("%v has ended by itself: %v; it printed:\n%s", p.cmd.Args, p.err, p.printed())
		default:
			p.stop(t, syscall.SIGTERM)
		}
	}
}
