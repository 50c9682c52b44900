package server_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/kafkatest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/internal/sms"
	walletview "github.com/khata-ledger/khata/internal/wallet"
	"github.com/khata-ledger/khata/ledger"
)

// consumerBench is a ledger with all that follows it, each part in processes of its own: relays, wallet views, text messages, fraud checks, and
// what comes of their verdicts. They share a PostgreSQL, that is killed as well, and a Kafka.
type consumerBench struct {
	pg      *pgtest.Server
	journal *journal.Journal
	pool    *pgxpool.Pool
	cluster *kafkatest.Cluster
	topics  kafka.Topics
	rules   string
	gateway *sms.SandboxGateway
	url     string

	processes map[string]*process // by a name such as wallet-1
	args      map[string][]string
	// faults counts what can make a call of the gateway come again: for each sender, one call.
	faults int
}

const (
	smsSenders = 2
	// tightRules flag some of what a storm posts, and not all.
	tightRules = `{"payers": ["wallet:"], "rules": [
		{"name": "large", "kind": "amount", "limits": {"BDT": "25.00"}},
		{"name": "often", "kind": "velocity", "count": 6, "within": "5s"},
		{"name": "again", "kind": "repeat", "within": "3s"},
		{"name": "stranger", "kind": "new_payee", "limits": {"BDT": "15.00"}, "remember": "1h"}
	]}`
)

func newConsumerBench(t *testing.T) *consumerBench {
	t.Helper()
	b := &consumerBench{
		pg: pgtest.NewServer(t, nil), cluster: kafkatest.Start(t, 1), topics: kafka.Topics{Prefix: "storm-" + strings.ToLower(rand.Text()[:10])},
		rules: filepath.Join(t.TempDir(), "rules.json"), gateway: sms.NewSandboxGateway(), processes: map[string]*process{}, args: map[string][]string{},
	}
	if err := os.WriteFile(b.rules, []byte(tightRules), 0o600); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(b.gateway)
	t.Cleanup(web.Close)
	b.url = web.URL
	b.pool, b.journal = openJournal(t, pg.Config{DSN: b.pg.ServiceDSN()})
	accounts := workloadAccounts()
	for i := range accounts {
		if n, found := strings.CutPrefix(string(accounts[i].ID), "wallet:"); found {
			accounts[i].Name = "Customer " + n
			// The sandbox has other things to do for numbers that end in 00 and 01.
			accounts[i].Metadata = ledger.Metadata(fmt.Sprintf(`{"phone":"+8801700000%03d","sms_language":%q}`, 100+10+i, []string{"en", "bn"}[i%2]))
		}
	}
	if _, err := b.journal.CreateAccounts(t.Context(), "local", ledger.DefaultLedger, accounts); err != nil {
		t.Fatal(err)
	}
	spec := kafka.TopicSpec{Topics: b.topics, Partitions: eventPartitions, Fraud: true}
	if report, err := kafka.EnsureTopics(t.Context(), b.cluster.Client(t), spec); err != nil || report.Differs() {
		t.Fatalf("make the topics: %+v, %v", report, err)
	}
	for _, c := range []struct {
		schema pg.Schema
		grants func(string) string
	}{{walletview.Schema, walletview.Grants}, {sms.Schema, sms.Grants}, {fraud.Schema, fraud.Grants}} {
		if _, err := server.MigrateConsumer(t.Context(), b.pg.OwnerDSN(), c.schema, server.ServiceRole, c.grants); err != nil {
			t.Fatal(err)
		}
	}
	// The directory of numbers is read before anything is posted, so that each message is expected.
	if _, err := sms.Bootstrap(t.Context(), b.journal, b.pool); err != nil {
		t.Fatal(err)
	}
	dsn := []string{"--dsn", b.pg.ServiceDSN()}
	books := []string{"--ledger-dsn", b.pg.ServiceDSN()}
	b.start(t, "relay-1", append([]string{"relay"}, dsn...)...)
	for i := range smsSenders {
		n := fmt.Sprint("-", i+1)
		b.start(t, "wallet"+n, slices.Concat([]string{"consume", "wallet"}, dsn, books)...)
		b.start(t, "sms"+n, slices.Concat([]string{"consume", "sms", "--gateway", b.url, "--senders", "1"}, dsn, books)...)
		b.start(t, "fraud"+n, "fraud", "--rules", b.rules, "--instance", "storm"+n)
	}
	b.start(t, "verdicts-1", append([]string{"consume", "verdicts"}, dsn...)...)
	return b
}

func (b *consumerBench) start(t *testing.T, name string, args ...string) {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	b.args[name] = args
	cmd := exec.Command(binary, append(slices.Clone(args), "--kafka", strings.Join(b.cluster.Brokers(), ","), "--topic-prefix", b.topics.Prefix)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "KHATA_") })
	b.processes[name] = run(t, cmd, func(string) {})
}

// revive starts those again that have ended, as whatever supervises them would: who begins while the database is away gives up.
func (b *consumerBench) revive(t *testing.T) {
	t.Helper()
	for name, p := range b.processes {
		select {
		case <-p.done:
			t.Logf("%s has ended: %v; it printed:\n%s", name, p.err, p.printed())
			if p.cmd.ProcessState.ExitCode() == 2 {
				t.Fatal("that is no fault of the storm's")
			}
			b.start(t, name, b.args[name]...)
		default:
		}
	}
}

// kill is kill -9, and a new start.
func (b *consumerBench) kill(t *testing.T, name string) {
	t.Helper()
	if strings.HasPrefix(name, "sms") {
		b.faults++
	}
	b.processes[name].kill()
	b.start(t, name, b.args[name]...)
}

// freeze stops a process until it is thawed.
func (b *consumerBench) freeze(t *testing.T, name string) (thaw func()) {
	t.Helper()
	if strings.HasPrefix(name, "sms") {
		b.faults++
	}
	pid := b.processes[name].cmd.Process.Pid
	signalAll(t, syscall.SIGSTOP, pid)
	return func() { signalAll(t, syscall.SIGCONT, pid) }
}

// traffic is what is posted. What has no answer is sent again until it has one.
type traffic struct {
	enough atomic.Bool
	wg     sync.WaitGroup
	mu     sync.Mutex
	posted int
}

func (b *consumerBench) startTraffic(t *testing.T, seed uint64) *traffic {
	t.Helper()
	p := &traffic{}
	t.Cleanup(func() { p.enough.Store(true); p.wg.Wait() })
	for n := range 2 {
		p.wg.Go(func() {
			r := random(seed, 2000+n)
			for i := 0; !p.enough.Load(); i++ {
				specs := paymentsOf(r, fmt.Sprintf("%d-%d", n, i))
				p.post(t, b.journal, specs)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	return p
}

// paymentsOf are payments among people, some of which a fraud check has something against.
func paymentsOf(r *mathrand.Rand, id string) []ledger.TransferSpec {
	of := func(step string) ledger.TransferID { return ledger.TransferID(step + id) }
	p := r.Perm(wallets)
	amounts := []string{"1.00", "2.50", "7.77", "16.00", "30.00"}
	amount := amounts[r.IntN(len(amounts))]
	list := []ledger.TransferSpec{
		move(of("in"), "cash", walletID(p[0]), "40.00"), move(of("pay"), walletID(p[0]), walletID(p[1]), amount), move(of("too-much"), walletID(p[2]), walletID(p[3]), "100000.00"),
	}
	switch r.IntN(4) {
	case 0:
		list = append(list, move(of("pay-again"), walletID(p[0]), walletID(p[1]), amount))
	case 1:
		none := decimal.Zero
		list = append(list, ledger.TransferSpec{ID: of("refund"), Terms: &ledger.Terms{
			Kind: ledger.Refund, Origin: of("in"), ExpectedRefunded: &none, Reason: ledger.ReasonGoodwill,
		}})
	case 2:
		hold := move(of("hold"), walletID(p[0]), "fees", "2.00")
		hold.Terms = &ledger.Terms{Kind: ledger.Hold}
		list = append(list, hold, ledger.TransferSpec{ID: of("capture"), Terms: &ledger.Terms{Kind: ledger.Capture, Origin: of("hold")}})
	}
	return list
}

func (p *traffic) post(t *testing.T, j *journal.Journal, specs []ledger.TransferSpec) {
	for started := time.Now(); len(specs) > 0; {
		results, err := j.Post(context.Background(), "local", ledger.DefaultLedger, specs)
		var open []ledger.TransferSpec
		for i, r := range results {
			if r.Err != nil {
				open = append(open, specs[i])
				err = r.Err
			}
		}
		if results == nil {
			open = specs
		}
		p.mu.Lock()
		p.posted += len(specs) - len(open)
		p.mu.Unlock()
		if specs = open; len(specs) > 0 {
			if time.Since(started) > eventPatience {
				t.Errorf("a minute later there is still no answer: %v", err)
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// advance waits until so many records more are published.
func (b *consumerBench) advance(t *testing.T, n int64) {
	t.Helper()
	first := int64(-1)
	b.until(t, fmt.Sprintf("%d records more are published", n), func() (bool, string) {
		s, err := relay.StatusOf(t.Context(), b.journal, b.pool)
		if err != nil {
			return false, err.Error()
		}
		published := int64(0)
		for _, l := range s.Ledgers {
			published += l.Records
		}
		if first < 0 {
			first = published
		}
		return published-first >= n, fmt.Sprintf("%+v", s)
	})
}

func (b *consumerBench) until(t *testing.T, what string, holds func() (bool, string)) {
	t.Helper()
	for deadline := time.Now().Add(eventPatience + 30*time.Second); ; time.Sleep(50 * time.Millisecond) {
		ok, now := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			for name, p := range b.processes {
				t.Logf("%s printed:\n%s", name, p.printed())
			}
			t.Fatalf("it never comes to this: %s; it is: %s", what, now)
		}
	}
}

// TestStorm_Consumers kills and freezes the wallet views, the senders of messages, the fraud checks, Kafka and PostgreSQL while payments are made. In
// the end the view is what the books are; each message was sent, under one key, and the gateway was called again at most once for each fault
// of a sender; and there is one verdict on each transfer, the one that somebody alone comes to who reads the books in their order.
func TestStorm_Consumers(t *testing.T) {
	turns := count(9, 60)
	s := seed(t)
	b := newConsumerBench(t)
	_, cancel := stormLimit(t)
	defer cancel()
	traffic := b.startTraffic(t, s)
	r := random(s, 1000)
	thaw := func() {}
	for i := range turns {
		b.advance(t, 40+r.Int64N(40))
		b.revive(t)
		n := fmt.Sprint("-", 1+r.IntN(2))
		switch i % 9 {
		case 0:
			b.kill(t, "wallet"+n)
		case 1:
			b.kill(t, "fraud"+n)
		case 2:
			b.kill(t, "sms"+n)
		case 3:
			b.cluster.Kill(t, 1)
			b.cluster.Restart(t, 1)
		case 4: // It is frozen while others go on, and perhaps have its work.
			thaw = b.freeze(t, []string{"fraud", "sms", "wallet"}[(i/9+r.IntN(3))%3]+n)
		case 5:
			b.pg.Kill(t)
			b.pg.Restart(t)
			b.faults += smsSenders // Answers that cannot be written down while the lease lasts.
		case 6:
			b.kill(t, "relay-1")
			b.kill(t, "verdicts-1")
		case 7:
			thaw()
		case 8: // All at once.
			for _, name := range []string{"wallet-1", "sms-1", "fraud-1", "fraud-2"} {
				b.kill(t, name)
			}
		}
	}
	thaw()
	b.advance(t, 40)
	b.revive(t)
	traffic.enough.Store(true)
	traffic.wg.Wait()
	b.finish(t, traffic)
}
