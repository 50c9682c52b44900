package fraud_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/kafkatest"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	os.Exit(kafkatest.Main(func() int { return pgtest.Main(m, kafkatest.Ignore()) }))
}

// patience is how long a test waits for what must come. It is reached only where something is wrong.
const patience = 60 * time.Second

// bench is a Kafka with topics of the test's own, and what was put into them.
type bench struct {
	fake   *kfake.Cluster // nil on a real one
	seeds  []string
	topics kafka.Topics
	client *kgo.Client
	rules  *fraud.Rules
	logs   string // a directory for those of processes

	mu sync.Mutex
	// sent are the transfers, each once, in the order of their payers.
	sent []*fraud.Payment
	next int64
	at   time.Time
}

const (
	partitions = 4
	testRules  = `{"payers": ["wallet:"], "rules": [
		{"name": "large", "kind": "amount", "limits": {"BDT": "90"}}, {"name": "fast", "kind": "velocity", "count": 3, "within": "10m"},
		{"name": "much", "kind": "total", "limits": {"BDT": "250"}, "within": "20m"}, {"name": "twice", "kind": "repeat", "within": "5m"},
		{"name": "new", "kind": "new_payee", "limits": {"BDT": "50"}, "remember": "1h"}]}`
)

func fake(t testing.TB) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// on runs a test on the fake Kafka and on the real one.
func onBoth(t *testing.T, test func(*testing.T, *bench)) {
	t.Helper()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		test(t, onFake(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, setup(t, kafkatest.Shared(t).Brokers()))
	})
}

func onFake(t *testing.T) *bench {
	t.Helper()
	cluster := fake(t)
	b := setup(t, cluster.ListenAddrs())
	b.fake = cluster
	return b
}

func setup(t testing.TB, seeds []string) *bench {
	t.Helper()
	b := &bench{seeds: seeds, topics: kafka.Topics{Prefix: "test-" + strings.ToLower(rand.Text()[:12])}, at: time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)}
	b.rules = parse(t, testRules)
	var err error
	if b.client, err = kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ProducerLinger(0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.client.Close)
	if _, err := kafka.EnsureTopics(context.Background(), b.client, kafka.TopicSpec{Topics: b.topics, Partitions: partitions, Fraud: true}); err != nil {
		t.Fatal(err)
	}
	return b
}

// transfers makes transfers of a few payers, by chance but always the same for a seed. One in three is of a payer who is not judged, and some are
// what follows from others.
func (b *bench) transfers(seed uint64, n int) (list []*fraud.Payment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	random := mathrand.New(mathrand.NewPCG(seed, 1))
	for range n {
		b.next += random.Int64N(3) + 1
		b.at = b.at.Add(time.Duration(random.Int64N(int64(40 * time.Second))).Truncate(time.Microsecond))
		p := &fraud.Payment{
			Ledger: "main", Transfer: ledger.TransferID(fmt.Sprintf("%s-%d", b.topics.Prefix, b.next)), Sequence: b.next, Kind: ledger.Plain,
			Payer: fmt.Sprintf("wallet:%d", random.IntN(12)), Payee: fmt.Sprintf("wallet:%d", 20+random.IntN(4)), Currency: "BDT", PostedAt: b.at,
			Amount: decimal.New(random.Int64N(10000)+1, -2),
		}
		switch random.IntN(9) {
		case 0, 1, 2:
			p.Payer = fmt.Sprintf("shop:%d", random.IntN(3))
		case 3:
			p.Kind = ledger.Refund
		case 4:
			p.Kind = ledger.Hold
		case 5:
			p.Amount = decimal.New(20, 0)
		}
		list = append(list, p)
	}
	return list
}

// movement is the event of an account of a transfer, as the relay publishes it.
func (b *bench) movement(p *fraud.Payment, account string) *kgo.Record {
	m := &khatav1.AccountMovement{
		Ledger: string(p.Ledger), Account: account, Currency: p.Currency, Version: p.Sequence, TransferId: string(p.Transfer),
		Kind: wire.Invert(wire.TransferKinds)[p.Kind], PostedAt: timestamppb.New(p.PostedAt), Payer: p.Payer, Payee: p.Payee, Description: "rent",
		Counterparties: []string{p.Payee},
	}
	direction := khatav1.Direction_DIRECTION_CREDIT
	if account == p.Payer {
		direction = khatav1.Direction_DIRECTION_DEBIT
	}
	m.Entries = []*khatav1.Entry{{Account: account, Direction: direction, Amount: p.Amount.StringFixed(2), Currency: p.Currency}}
	return b.record(p, "khata.account.moved.v1", account, m)
}

func (b *bench) record(p *fraud.Payment, typeName, account string, data proto.Message) *kgo.Record {
	value, err := proto.Marshal(data)
	if err != nil {
		panic(err)
	}
	return &kgo.Record{Topic: b.topics.Accounts(), Key: []byte(string(p.Ledger) + "/" + account), Value: value, Headers: []kgo.RecordHeader{
		{Key: "ce_specversion", Value: []byte("1.0")}, {Key: "ce_id", Value: []byte(eventID(p, account))}, {Key: "ce_source", Value: []byte("/khata/ledgers/main")},
		{Key: "ce_type", Value: []byte(typeName)}, {Key: "ce_subject", Value: []byte(account)},
		{Key: "ce_time", Value: []byte(p.PostedAt.UTC().Format("2006-01-02T15:04:05.000000Z"))}, {Key: "ce_sequence", Value: fmt.Appendf(nil, "%020d", p.Sequence)},
		{Key: "content-type", Value: []byte("application/protobuf")},
	}}
}

func eventID(p *fraud.Payment, account string) string {
	return wire.EventID("khata.event", string(p.Ledger), "account.moved", string(p.Transfer), account)
}

// events are those of a transfer: of the payer, of the payee, and now and then one of another kind.
func (b *bench) events(p *fraud.Payment) []*kgo.Record {
	list := []*kgo.Record{b.movement(p, p.Payer), b.movement(p, p.Payee)}
	if p.Sequence%5 == 0 {
		list = append(list, b.record(p, "khata.account.opened.v1", p.Payer, &khatav1.AccountEvent{Ledger: "main"}))
	}
	return list
}

// publish publishes transfers, each once.
func (b *bench) publish(t testing.TB, list []*fraud.Payment) {
	t.Helper()
	b.noted(list)
	for _, p := range list {
		b.produce(t, b.events(p)...)
	}
}

func (b *bench) noted(list []*fraud.Payment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = append(b.sent, list...)
}

// publishOften publishes transfers as a relay does that dies again and again: it goes on from somewhere before where it was.
func (b *bench) publishOften(t testing.TB, seed uint64, list []*fraud.Payment) {
	t.Helper()
	b.noted(list)
	random := mathrand.New(mathrand.NewPCG(seed, 2))
	for at, again := 0, 0; at < len(list); {
		to := min(len(list), at+1+random.IntN(20))
		for _, p := range list[at:to] {
			b.produce(t, b.events(p)...)
		}
		at = to
		if again++; again%3 != 0 {
			at -= min(at, random.IntN(25))
		}
	}
	for range 2 { // And twice all of it.
		for _, p := range list {
			b.produce(t, b.events(p)...)
		}
	}
}

// produce puts records into the topic, in their order.
func (b *bench) produce(t testing.TB, records ...*kgo.Record) {
	t.Helper()
	for _, r := range records {
		b.client.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("produce: %v", err)
			}
		})
	}
}

func (b *bench) flush(t testing.TB) {
	t.Helper()
	if err := b.client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// expected is what a single thread judges of what was sent: transfer, outcome and rules.
func (b *bench) expected() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	states, want := map[string]*fraud.State{}, map[string]string{}
	for _, p := range b.sent {
		place := string(p.Ledger) + "/" + p.Payer
		if states[place] == nil {
			states[place] = &fraud.State{}
		}
		reasons, next, isNew := b.rules.Judge(states[place], p)
		if !isNew {
			panic("a transfer is expected twice")
		}
		states[place] = next
		want[string(p.Transfer)] = fmt.Sprintf("%s %s %s %s [%s]", p.Payer, p.Payee, p.Amount.StringFixed(2), eventID(p, p.Payer), names(reasons))
	}
	return want
}

// verdict is one that was read.
type verdict struct {
	*khatav1.FraudVerdict
	record  *kgo.Record
	headers map[string]string
}

func (v verdict) String() string {
	var reasons []fraud.Reason
	for _, r := range v.Reasons {
		reasons = append(reasons, fraud.Reason{Rule: r.Rule, Kind: fraud.Kind(r.Kind)})
	}
	return fmt.Sprintf("%s %s %s %s [%s]", v.Payer, v.Payee, v.Amount, v.JudgedEvent, names(reasons))
}

// read reads a topic to its end, what is committed of it.
func (b *bench) read(t testing.TB, topic string) (list []*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ends, err := kadm.NewClient(b.client).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.seeds...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("the end of %s is not read: %v", topic, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				list = append(list, r)
			}
		})
	}
	return list
}

func (b *bench) verdicts(t testing.TB) (list []verdict) {
	t.Helper()
	for _, r := range b.read(t, b.topics.Verdicts()) {
		v := verdict{&khatav1.FraudVerdict{}, r, map[string]string{}}
		if err := proto.Unmarshal(r.Value, v.FraudVerdict); err != nil {
			t.Fatal(err)
		}
		for _, h := range r.Headers {
			v.headers[h.Key] = string(h.Value)
		}
		list = append(list, v)
	}
	return list
}

// check waits until everything is judged, and holds it against what a single thread comes to: each transfer has one verdict, and that is it.
func (b *bench) check(t testing.TB) {
	t.Helper()
	b.flush(t)
	b.drained(t)
	got := map[string]string{}
	for _, v := range b.verdicts(t) {
		if v.headers["ce_type"] == "khata.fraud.unreadable.v1" {
			continue
		}
		if before, there := got[v.TransferId]; there {
			t.Errorf("%s is judged twice: %s and %s", v.TransferId, before, v)
		}
		got[v.TransferId] = v.String()
		if want := wire.EventID("khata.fraud", v.JudgedEvent); v.headers["ce_id"] != want {
			t.Errorf("%s has the id %s, want %s", v.TransferId, v.headers["ce_id"], want)
		}
	}
	if diff := cmp.Diff(b.expected(), got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%.4000s", diff)
	}
}

// drained waits until the group has committed everything.
func (b *bench) drained(t testing.TB) {
	t.Helper()
	admin := kadm.NewClient(b.client)
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		lag, text := int64(0), ""
		committed, err := admin.FetchOffsetsForTopics(context.Background(), fraud.Group(b.topics), b.topics.Accounts())
		if err == nil {
			var ends kadm.ListedOffsets
			if ends, err = admin.ListEndOffsets(context.Background(), b.topics.Accounts()); err == nil {
				ends.Each(func(o kadm.ListedOffset) {
					at, _ := committed.Lookup(o.Topic, o.Partition)
					lag += o.Offset - max(0, at.At)
				})
				if text = fmt.Sprintf("%d events are not judged", lag); lag == 0 {
					return
				}
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never comes to an end: %s, %v", text, err)
		}
	}
}

// testLog sends what is said to the test's log, until the test has ended.
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

// config is that of an instance which is quick to see what happens.
func (b *bench) config(t testing.TB, instance string) fraud.Config {
	return fraud.Config{
		Kafka: quick(b.seeds...), Topics: b.topics, Rules: b.rules, Instance: instance, Logger: logger(t),
	}
}

// running is an instance at work.
type running struct {
	stop  context.CancelFunc
	ended chan struct{}
	err   error
}

func (b *bench) start(t testing.TB, instance string) *running {
	t.Helper()
	return run(t, b.config(t, instance), nil)
}

// run runs an instance until it is ended. change may be nil.
func run(t testing.TB, config fraud.Config, change func(*fraud.Check)) *running {
	t.Helper()
	c, err := fraud.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(c)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = c.Run(ctx)
	}()
	t.Cleanup(func() { r.end(t) })
	return r
}

// end stops it, which it must do in order.
func (r *running) end(t testing.TB) {
	t.Helper()
	r.stop()
	select {
	case <-r.ended:
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if r.err != nil {
		t.Errorf("Run: %v", r.err)
	}
}

// fails waits for an instance to end by itself, and gives its error.
func (r *running) fails(t testing.TB) string {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		t.Fatal("it does not end by itself")
	}
	if r.err == nil {
		t.Fatal("it ends without an error")
	}
	err := r.err.Error()
	r.err = nil
	return err
}
