package server_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/kafkatest"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/ledger"
)

// road is a ledger that is posted to, relays and consumers as processes of their own, and a Kafka between them.
type road struct {
	t       *testing.T
	books   *pgtest.DB
	journal *journal.Journal
	pool    *pgxpool.Pool
	theirs  *pgtest.DB // the consumers' database
	cluster *kafkatest.Cluster
	kafka   kafka.Config
	topics  kafka.Topics

	posted atomic.Int64
	stop   func()
}

// eventPatience is how long a road may take to come to rest after the last fault.
const eventPatience = 60 * time.Second

func newRoad(t *testing.T, nodes int) *road {
	t.Helper()
	r := &road{t: t, cluster: kafkatest.Start(t, nodes), books: pgtest.New(t), theirs: pgtest.New(t)}
	t.Cleanup(func() { ledgertest.CheckBooks(t, r.books) })
	var err error
	if r.pool, err = pg.Connect(t.Context(), pg.Config{DSN: r.books.ServiceDSN()}); err != nil {
		t.Fatal(err)
	}
	r.journal = journal.New(r.pool, journal.Config{})
	t.Cleanup(func() {
		r.journal.Close()
		r.pool.Close()
	})
	r.kafka = kafka.Config{Brokers: r.cluster.Brokers()}
	client, err := kafka.Connect(t.Context(), r.kafka)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kafka.EnsureTopics(t.Context(), client, kafka.TopicSpec{Topics: r.topics, Partitions: 3, Replication: nodes}); err != nil {
		t.Fatal(err)
	}
	zero := decimal.Zero
	specs := []ledger.AccountSpec{{ID: "cash", Type: ledger.Asset, Currency: "BDT"}}
	for i := range 8 {
		specs = append(specs, ledger.AccountSpec{ID: ledger.AccountID(fmt.Sprintf("wallet:%d", i)), Type: ledger.Liability, Currency: "BDT", Floor: &zero})
	}
	if _, err := r.journal.CreateAccounts(t.Context(), "local", ledger.DefaultLedger, specs); err != nil {
		t.Fatal(err)
	}
	return r
}

// load posts until it is stopped: deposits, and payments of which some are refused; holds and their ends; and now and then a change of an
// account.
func (r *road) load() {
	ctx, cancel := context.WithCancel(context.Background())
	var posters sync.WaitGroup
	for n := range 2 {
		random := random(seed(r.t), n)
		posters.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				var specs []ledger.TransferSpec
				for k := range 10 {
					id := fmt.Sprintf("%d-%d-%d", n, i, k)
					wallet, other := ledger.AccountID(fmt.Sprintf("wallet:%d", random.IntN(8))), ledger.AccountID(fmt.Sprintf("wallet:%d", random.IntN(4)))
					spec := ledger.TransferSpec{ID: ledger.TransferID(id), Entries: ledger.Simple("cash", wallet, decimal.NewFromInt(5), "")}
					switch {
					case k%3 == 1 && wallet != other:
						spec.Entries = ledger.Simple(wallet, other, decimal.NewFromInt(4), "")
					case k == 8:
						spec.Entries, spec.Terms = ledger.Simple("cash", wallet, decimal.NewFromInt(3), ""), &ledger.Terms{Kind: ledger.Hold}
					case k == 9:
						spec.Entries, spec.Terms = nil, &ledger.Terms{Kind: ledger.Void, Origin: ledger.TransferID(fmt.Sprintf("%d-%d-8", n, i))}
					}
					specs = append(specs, spec)
				}
				if _, err := r.journal.Post(context.Background(), "local", ledger.DefaultLedger, specs); err != nil {
					r.t.Errorf("post: %v", err)
					return
				}
				r.posted.Add(int64(len(specs)))
				if i%50 == 0 {
					name := fmt.Sprintf("name %d of %d", i, n)
					if _, err := r.journal.UpdateAccount(context.Background(), "local", ledger.DefaultLedger, "cash", ledger.AccountUpdate{Name: &name}); err != nil {
						r.t.Errorf("change an account: %v", err)
					}
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	r.stop = func() {
		cancel()
		posters.Wait()
	}
	r.t.Cleanup(r.stop)
}

// relay starts a relay as a process.
func (r *road) relay() *process {
	r.t.Helper()
	binary, err := build()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(binary, "relay", "--kafka", strings.Join(r.kafka.Brokers, ","))
	cmd.Env = append(ownEnvironment(), "KHATA_DSN="+r.books.ServiceDSN())
	return run(r.t, cmd, func(string) {})
}

func ownEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "KHATA_") })
}

// buildExample builds the example consumer of package inbox, once for all tests.
var buildExample = sync.OnceValues(func() (string, error) {
	binary, err := build()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(binary), "example")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/khata-ledger/khata/ledger/inbox/example").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the example: %w\n%s", err, out)
	}
	return path, nil
})

// consumer starts the example consumer as a process, on the topic of accounts.
func (r *road) consumer() *process {
	r.t.Helper()
	binary, err := buildExample()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Env = append(ownEnvironment(), "KAFKA="+strings.Join(r.kafka.Brokers, ","), "DSN="+r.theirs.OwnerDSN(), "TOPIC="+r.topics.Accounts())
	return run(r.t, cmd, func(string) {})
}

func (r *road) until(what string, holds func() (bool, string)) {
	r.t.Helper()
	for deadline := time.Now().Add(eventPatience); ; time.Sleep(20 * time.Millisecond) {
		ok, now := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("it never comes to this: %s; it is %s", what, now)
		}
	}
}

func (r *road) status() relay.Status {
	r.t.Helper()
	s, err := relay.StatusOf(context.Background(), r.journal, r.pool)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// leads waits until one of these processes has the lease, and returns it.
func (r *road) leads(among ...*process) (leader *process) {
	r.t.Helper()
	r.until("one of the relays leads", func() (bool, string) {
		s := r.status()
		for _, p := range among {
			if s.LeaseLeft > 0 && strings.HasSuffix(s.Holder, " "+strconv.Itoa(p.cmd.Process.Pid)) {
				leader = p
			}
		}
		return leader != nil, fmt.Sprintf("%+v", s)
	})
	return leader
}

func (r *road) published() {
	r.t.Helper()
	r.until("all is published", func() (bool, string) {
		s := r.status()
		for _, l := range s.Ledgers {
			if l.Oldest != nil {
				return false, fmt.Sprintf("%+v", s)
			}
		}
		return s.Cluster != "", fmt.Sprintf("%+v", s)
	})
}

// fact is what an event is about: a record of the journal, and for one of an account which.
type fact struct {
	topic, subject string
	sequence       int64
}

// facts are those that the journal should have become.
func (r *road) facts() map[fact]bool {
	r.t.Helper()
	want := map[fact]bool{}
	feed, last := r.journal.Feed(), int64(0)
	for {
		records, err := feed.Records(context.Background(), 1, last, 5000)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(records) == 0 {
			return want
		}
		for _, record := range records {
			last = record.Sequence
			if record.Change != nil {
				want[fact{r.topics.Accounts(), string(record.Change.Account.ID), last}] = true
				continue
			}
			want[fact{r.topics.Transfers(), string(record.Transfer.ID), last}] = true
			for _, m := range record.Movements {
				want[fact{r.topics.Accounts(), string(m.Account), last}] = true
			}
		}
	}
}

// check holds the topics against the journal: every fact at least once, under one id that no other has, nothing else, and each key in order but for
// what comes again. It returns the ids of the topic of accounts, and how many events came again.
func (r *road) check() (accounts map[string]bool, again int) {
	r.t.Helper()
	want := r.facts()
	var idOf map[fact]string
	var factOf map[string]fact
	r.until("all facts are on the topics", func() (bool, string) { // Kafka answers a commit before it has put its markers.
		idOf, factOf, accounts, again = map[fact]string{}, map[string]fact{}, map[string]bool{}, 0
		last := map[string]int64{}
		options, err := r.kafka.Options()
		if err != nil {
			r.t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), eventPatience)
		defer cancel()
		if err := relay.Tail(ctx, options, r.topics.Names(), true, false, func(e relay.Event) error {
			sequence, err := strconv.ParseInt(e.Headers["ce_sequence"], 10, 64)
			if err != nil {
				return err
			}
			f, id := fact{e.Topic, e.Headers["ce_subject"], sequence}, e.Headers["ce_id"]
			if known, repeated := factOf[id]; repeated {
				again++
				if known != f {
					r.t.Errorf("the id %s is of %v and of %v", id, known, f)
				}
				return nil
			}
			if other, taken := idOf[f]; taken {
				r.t.Errorf("%v has the ids %s and %s", f, other, id)
			}
			if !want[f] {
				r.t.Errorf("%v is not in the journal", f)
			}
			if place := e.Topic + " " + e.Key; sequence <= last[place] {
				r.t.Errorf("%v comes after %d", f, last[place])
			} else {
				last[place] = sequence
			}
			idOf[f], factOf[id] = id, f
			if e.Topic == r.topics.Accounts() {
				accounts[id] = true
			}
			return nil
		}); err != nil {
			r.t.Fatal(err)
		}
		return len(idOf) >= len(want), fmt.Sprintf("%d of %d", len(idOf), len(want))
	})
	return accounts, again
}

// receipts holds what the consumers did against the ids of the topic: each once.
func (r *road) receipts(want map[string]bool) {
	r.t.Helper()
	pool, err := pgxpool.New(context.Background(), r.theirs.OwnerDSN())
	if err != nil {
		r.t.Fatal(err)
	}
	defer pool.Close()
	count := func() (all, distinct int) {
		if err := pool.QueryRow(context.Background(), "SELECT count(*), count(DISTINCT event_id) FROM receipts").Scan(&all, &distinct); err != nil {
			r.t.Fatal(err)
		}
		return all, distinct
	}
	r.until("every event has its effect", func() (bool, string) {
		_, distinct := count()
		return distinct >= len(want), fmt.Sprintf("%d of %d", distinct, len(want))
	})
	if all, distinct := count(); all != distinct || distinct != len(want) {
		r.t.Errorf("%d effects of %d events, and %d were published", all, distinct, len(want))
	}
	var letters int
	if err := pool.QueryRow(context.Background(), "SELECT count(*) FROM khata_inbox.letter").Scan(&letters); err != nil || letters != 0 {
		r.t.Errorf("%d letters, %v", letters, err)
	}
}

// TestStorm_KillEvents kills, one after the other, relays, consumers and the broker, while others post.
func TestStorm_KillEvents(t *testing.T) {
	t.Parallel()
	r := newRoad(t, 1)
	relays := []*process{r.relay(), r.relay()}
	consumers := []*process{r.consumer(), r.consumer()}
	r.load()
	random := random(seed(t), 100)
	for i := range count(7, 60) {
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		switch i % 5 {
		case 0, 3: // the one that works
			leader := r.leads(relays...)
			leader.kill()
			relays[slices.Index(relays, leader)] = r.relay()
		case 1:
			consumers[i%2].kill()
			consumers[i%2] = r.consumer()
		case 2:
			r.cluster.Kill(t, 1)
			time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
			r.cluster.Restart(t, 1)
		case 4: // One joins, and another one leaves.
			consumers = append(consumers, r.consumer())
			consumers[0].stop(t, syscall.SIGTERM)
			consumers = consumers[1:]
		}
	}
	r.stop()
	r.published()
	accounts, again := r.check()
	r.receipts(accounts)
	t.Logf("%d transfers, %d events of accounts, %d events came again", r.posted.Load(), len(accounts), again)
}

// TestStorm_FrozenRelay stops the relay that works until another one has taken over, and lets it go on.
func TestStorm_FrozenRelay(t *testing.T) {
	t.Parallel()
	r := newRoad(t, 1)
	relays := []*process{r.relay(), r.relay()}
	r.load()
	for range count(2, 8) {
		first := r.leads(relays...)
		if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		frozen := time.Now()
		second := r.leads(slices.DeleteFunc(slices.Clone(relays), func(p *process) bool { return p == first })...)
		if took := time.Since(frozen); took > 15*time.Second {
			t.Errorf("another relay has taken over after %v", took)
		}
		before := r.status()
		time.Sleep(time.Second)
		if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if s := r.status(); s.Term < before.Term || s.Ledgers[0].Through < before.Ledgers[0].Through {
			t.Errorf("the cursor has gone back: %+v, before %+v", s, before)
		}
		if leader := r.leads(relays...); leader != second && r.status().Term == before.Term {
			t.Error("the frozen relay has taken the lease without a term of its own")
		}
	}
	r.stop()
	r.published()
	_, again := r.check()
	t.Logf("%d transfers, %d events came again", r.posted.Load(), again)
}

// TestStorm_ThreeBrokers kills the broker that leads a partition, of three.
func TestStorm_ThreeBrokers(t *testing.T) {
	t.Parallel()
	r := newRoad(t, 3)
	r.relay()
	r.consumer()
	r.load()
	for i := range count(1, 6) {
		time.Sleep(time.Second)
		node := r.cluster.Leader(t, r.topics.Accounts(), i%3)
		if node == 0 {
			t.Fatal("the partition has no leader")
		}
		before := r.status().Ledgers[0].Records
		r.cluster.Kill(t, node)
		// Two of three are enough.
		r.until("it goes on without one of the brokers", func() (bool, string) {
			now := r.status().Ledgers[0].Records
			return now > before+500, fmt.Sprint(before, now)
		})
		r.cluster.Restart(t, node)
	}
	r.stop()
	r.published()
	accounts, again := r.check()
	r.receipts(accounts)
	t.Logf("%d transfers, %d events of accounts, %d events came again", r.posted.Load(), len(accounts), again)
}
