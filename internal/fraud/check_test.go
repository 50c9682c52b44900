package fraud_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/kafkatest"
)

// Every input comes at least three times, in parts and as a whole, and every transfer is judged once, by what was before it. Instances that are
// started anew go on as if they had been there.
func TestCheck(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		one, two := b.start(t, "one"), b.start(t, "two")
		b.publishOften(t, 1, b.transfers(1, 150))
		b.check(t)
		two.end(t)
		b.publishOften(t, 2, b.transfers(2, 50))
		b.check(t)
		one.end(t)
		b.start(t, "three")
		b.publishOften(t, 3, b.transfers(3, 50))
		b.check(t)
	})
}

// Instances come and go while there is work. That they do aborts nothing: each would begin anew then, leave and come again, and have the
// transactions of others aborted by that.
func TestCheck_Rebalances(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		registry := prometheus.NewRegistry()
		metrics := fraud.NewMetrics(registry)
		with := func(instance string) *running {
			config := b.config(t, instance)
			config.Metrics = metrics
			return run(t, config, nil)
		}
		steady := with("steady")
		stop := make(chan struct{})
		var feeding sync.WaitGroup
		feeding.Go(func() {
			for seed := uint64(1); ; seed++ {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
					b.publishOften(t, seed, b.transfers(seed, 3))
				}
			}
		})
		for i := range 4 {
			one, two := with("one"), with("two")
			time.Sleep(time.Duration(400+200*i) * time.Millisecond)
			one.end(t)
			time.Sleep(200 * time.Millisecond)
			two.end(t)
		}
		close(stop)
		feeding.Wait()
		b.check(t)
		steady.end(t)
		if n := notCommitted(t, registry); n > 0 {
			t.Errorf("%v transactions were aborted or failed", n)
		}
	})
}

// Whatever fails, before or after it was done, and connections that end: nothing is judged twice or left out.
func TestCheck_Faults(t *testing.T) {
	t.Parallel()
	b := onFake(t)
	missing, failed, stop := b.breakThings(t, 7)
	for _, instance := range []string{"one", "two", "three"} {
		b.start(t, instance)
	}
	began := time.Now()
	const few = 15
	under := func(d time.Duration) bool { return time.Since(began) < d }
	for seed := uint64(1); under(4*time.Second) || missing() && under(12*time.Second) || failed() < few && under(patience); seed++ {
		b.publishOften(t, seed, b.transfers(seed, 5))
		b.flush(t)
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	if n := failed(); n < few {
		t.Errorf("only %d requests have failed: the test shows little", n)
	}
	b.check(t)
}

// breakThings has requests of instances fail by chance: not done, done but said to have failed, and cut off. It returns what says
// whether there was little of it, or some fault has not happened yet, what says how many did, and what ends that.
func (b *bench) breakThings(t *testing.T, seed uint64) (missing func() bool, failed func() int64, stop func()) {
	t.Helper()
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 3))
	var n atomic.Int64
	var ended atomic.Bool
	chance := func(one int) bool {
		mu.Lock()
		defer mu.Unlock()
		if ended.Load() || random.IntN(one) > 0 {
			return false
		}
		n.Add(1)
		return true
	}
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.InitProducerID, kmsg.Heartbeat, kmsg.Fetch, kmsg.OffsetFetch, kmsg.ListOffsets} {
		b.fake.ControlKey(int16(key), func(request kmsg.Request) (kmsg.Response, error, bool) {
			b.fake.KeepControl()
			if r, ok := request.(*kmsg.ProduceRequest); ok && r.TransactionID == nil {
				return nil, nil, false // It is the test's own.
			}
			odds := map[kmsg.Key]int{kmsg.Heartbeat: 60, kmsg.Fetch: 200, kmsg.OffsetFetch: 10, kmsg.ListOffsets: 10}[key]
			if odds == 0 {
				odds = 25
			}
			if chance(odds) {
				return nil, errors.New("cut"), true
			}
			return nil, nil, false
		})
	}
	var faults []*kfake.FaultHandle
	for _, f := range []struct {
		key  kmsg.Key
		err  *kerr.Error
		odds int
	}{
		{kmsg.Produce, kerr.MessageTooLarge, 25}, {kmsg.Produce, kerr.RequestTimedOut, 25}, {kmsg.Produce, kerr.InvalidProducerEpoch, 40},
		{kmsg.TxnOffsetCommit, kerr.UnknownMemberID, 25}, {kmsg.TxnOffsetCommit, kerr.IllegalGeneration, 25}, {kmsg.TxnOffsetCommit, kerr.InvalidTxnState, 40},
		{kmsg.EndTxn, kerr.RequestTimedOut, 15}, {kmsg.EndTxn, kerr.ProducerFenced, 40}, {kmsg.EndTxn, kerr.UnknownServerError, 25},
		{kmsg.EndTxn, kerr.ConcurrentTransactions, 20},
	} {
		faults = append(faults, b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{f.key}, Err: f.err, Count: -1, When: func(request kmsg.Request) bool {
			r, produce := request.(*kmsg.ProduceRequest)
			return (!produce || r.TransactionID != nil) && chance(f.odds)
		}}))
	}
	missing = func() bool {
		return n.Load() < 40 || slices.ContainsFunc(faults, func(f *kfake.FaultHandle) bool { return f.Hits() == 0 })
	}
	return missing, n.Load, func() {
		ended.Store(true)
		for _, f := range faults {
			f.Remove()
		}
	}
}

// A transaction that was committed though its answer was lost, and one that was aborted: the next one goes on from what is true.
func TestCheck_LostAnswers(t *testing.T) {
	t.Parallel()
	for name, apply := range map[string]bool{"committed": true, "not committed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := onFake(t)
			var cut atomic.Int32
			b.fake.ControlKey(int16(kmsg.EndTxn), func(request kmsg.Request) (kmsg.Response, error, bool) {
				b.fake.KeepControl()
				if !request.(*kmsg.EndTxnRequest).Commit || cut.Add(1) > 3 {
					return nil, nil, false
				}
				if !apply {
					return nil, errors.New("cut"), true
				}
				return nil, nil, false
			})
			if apply {
				b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.RequestTimedOut, Count: 3})
			}
			b.publish(t, b.transfers(1, 40))
			b.flush(t)
			b.start(t, "one")
			b.check(t)
			if cut.Load() < 2 {
				t.Errorf("%d answers were lost", cut.Load())
			}
		})
	}
}

// Kafka commits a transaction in which a record was refused, without that record, if nobody looks at its promise: the offset of the input moves,
// and its output is nowhere. First that it is so; then that the check is not.
func TestProduceErrors(t *testing.T) {
	t.Parallel()
	b := onFake(t)
	refuse := func(n int) {
		b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: b.topics.Verdicts(), Err: kerr.MessageTooLarge, Count: n, When: func(r kmsg.Request) bool {
			return r.(*kmsg.ProduceRequest).TransactionID != nil
		}})
	}
	b.publish(t, b.transfers(1, 1))
	b.flush(t)
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(b.seeds...), kgo.TransactionalID("careless"), kgo.ConsumerGroup("careless"),
		kgo.ConsumeTopics(b.topics.Accounts()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	refuse(1)
	for polled := 0; polled == 0; {
		polled = session.PollFetches(ctx).NumRecords()
	}
	if err := session.Begin(); err != nil {
		t.Fatal(err)
	}
	session.Produce(ctx, &kgo.Record{Topic: b.topics.Verdicts(), Value: []byte("a verdict")}, nil)
	session.Produce(ctx, &kgo.Record{Topic: b.topics.FraudState(), Key: []byte("k"), Value: []byte("a state")}, nil)
	if done, err := session.End(ctx, kgo.TryCommit); !done || err != nil {
		t.Fatalf("Kafka has learnt to look: committed %v, %v", done, err)
	}
	if n := len(b.read(t, b.topics.Verdicts())); n != 0 {
		t.Fatalf("%d verdicts", n)
	}

	b = onFake(t)
	refuse(3)
	registry := prometheus.NewRegistry()
	config := b.config(t, "one")
	config.Metrics = fraud.NewMetrics(registry)
	run(t, config, nil)
	b.publish(t, b.transfers(2, 30))
	b.check(t)
	// Of one transaction more than one request may have been refused.
	if n := gather(t, registry)["khata_fraud_transactions_total aborted"]; n < 1 {
		t.Errorf("%v transactions were aborted", n)
	}
}

// notCommitted is how many transactions were not.
func notCommitted(t testing.TB, registry *prometheus.Registry) float64 {
	t.Helper()
	got := gather(t, registry)
	return got["khata_fraud_transactions_total aborted"] + got["khata_fraud_transactions_total failed"]
}

// freezer has connections over which nothing goes while it is locked.
type freezer struct{ sync.RWMutex }

type frozenConn struct {
	net.Conn
	ice *freezer
}

func (f *freezer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	f.wait()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return frozenConn{conn, f}, err
}

func (f *freezer) wait() {
	f.RLock()
	defer f.RUnlock()
}

func (c frozenConn) Write(p []byte) (int, error) {
	c.ice.wait()
	return c.Conn.Write(p)
}

func (c frozenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.ice.wait()
	return n, err
}

// An instance stands still in the middle of a transaction, with all written and nothing committed. Another one takes its partitions over; when
// the first one goes on, Kafka does not let it commit.
func TestCheck_Zombie(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		b.publish(t, b.transfers(1, 60))
		b.flush(t)
		var once sync.Once
		inside, goOn := make(chan struct{}), make(chan struct{})
		config := b.config(t, "frozen")
		// Its client does not say that it lives: as a process that is stopped.
		registry := prometheus.NewRegistry()
		config.Metrics = fraud.NewMetrics(registry)
		var ice freezer
		config.Kafka = append(config.Kafka, kgo.Dialer(ice.dial))
		run(t, config, func(c *fraud.Check) {
			c.BeforeEnd(func() {
				once.Do(func() {
					ice.Lock()
					close(inside)
					<-goOn
					ice.Unlock()
				})
			})
		})
		<-inside
		b.start(t, "another")
		b.drained(t)
		close(goOn)
		b.publish(t, b.transfers(2, 30))
		b.check(t)
		// The other may have been through with everything before this one is told.
		b.until(t, "what the frozen one had begun was not committed", func() bool { return notCommitted(t, registry) > 0 })
	})
}

// Where events are gone it stops and says which, and goes on only if it is told to.
func TestCheck_LostEvents(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, b *bench) {
		one := b.start(t, "one")
		b.publish(t, b.transfers(1, 60))
		b.check(t)
		one.end(t)
		lost := b.transfers(2, 200)
		b.publish(t, lost)
		b.flush(t)
		admin := kadm.NewClient(b.client)
		ends, err := admin.ListEndOffsets(t.Context(), b.topics.Accounts())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.DeleteRecords(t.Context(), ends.Offsets()); err != nil {
			t.Fatal(err)
		}
		if got := b.start(t, "one").fails(t); !strings.Contains(got, "were deleted before they were judged. Find out from the ledger") || !strings.Contains(got, "start it once with --skip-lost") {
			t.Error(got)
		}
		config := b.config(t, "one")
		config.SkipLost = true
		one = run(t, config, nil)
		b.mu.Lock()
		b.sent = b.sent[:60]
		b.mu.Unlock()
		b.publish(t, b.transfers(3, 30))
		b.check(t)
		one.end(t)
		// It is over now.
		b.start(t, "one")
		b.publish(t, b.transfers(4, 10))
		b.check(t)
	})
}

// Kafka forgets a group that was away for a week. What is still there is read again, and known; that more than that is gone shows in the changelog.
func TestCheck_ForgottenGroup(t *testing.T) {
	t.Parallel()
	b := onFake(t)
	admin := kadm.NewClient(b.client)
	forget := func() {
		t.Helper()
		if _, err := admin.DeleteGroup(t.Context(), fraud.Group(b.topics)); err != nil {
			t.Fatal(err)
		}
	}
	one := b.start(t, "one")
	b.publish(t, b.transfers(1, 60))
	b.check(t)
	one.end(t)
	forget()
	one = b.start(t, "one")
	b.publish(t, b.transfers(2, 60))
	b.check(t)
	one.end(t)
	forget()
	b.publish(t, b.transfers(3, 100))
	b.flush(t)
	ends, err := admin.ListEndOffsets(t.Context(), b.topics.Accounts())
	if err != nil {
		t.Fatal(err)
	}
	less := ends.Offsets()
	for _, list := range less {
		for id, o := range list {
			o.At--
			list[id] = o
		}
	}
	if _, err := admin.DeleteRecords(t.Context(), less); err != nil {
		t.Fatal(err)
	}
	if got := b.start(t, "one").fails(t); !strings.Contains(got, "Kafka has forgotten the group's offset, and the events from offset") {
		t.Error(got)
	}
}

// A changelog that has lost what belongs to the group's offsets is found out before anything is judged by it.
func TestCheck_LostState(t *testing.T) {
	t.Parallel()
	b := onFake(t)
	one := b.start(t, "one")
	b.publish(t, b.transfers(1, 60))
	b.check(t)
	one.end(t)
	admin := kadm.NewClient(b.client)
	ends, err := admin.ListEndOffsets(t.Context(), b.topics.FraudState())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DeleteRecords(t.Context(), ends.Offsets()); err != nil {
		t.Fatal(err)
	}
	before := len(b.verdicts(t))
	b.publish(t, b.transfers(2, 60))
	b.flush(t)
	if got := b.start(t, "one").fails(t); !strings.Contains(got, "what is remembered of payers ends at offset 0: the changelog has lost its end, or somebody has moved the group on") {
		t.Error(got)
	}
	if after := len(b.verdicts(t)); after != before {
		t.Errorf("%d verdicts were made all the same", after-before)
	}
}

func TestCheck_Topics(t *testing.T) {
	t.Parallel()
	b := onFake(t)
	admin := kadm.NewClient(b.client)
	remake := func(topic string, partitions int32, policy string) {
		t.Helper()
		if _, err := admin.DeleteTopics(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		if partitions > 0 {
			if _, err := admin.CreateTopic(t.Context(), partitions, 1, map[string]*string{"cleanup.policy": &policy}, topic); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		topic      string
		partitions int32
		policy     string
		want       string
	}{
		{b.topics.FraudState(), 3, "compact", "has 4 partitions and " + b.topics.FraudState() + " has 3"},
		{b.topics.FraudState(), 4, "delete", "has cleanup.policy=delete, by which Kafka would delete what is remembered"},
		{b.topics.FraudState(), 4, "compact,delete", "run khata topics ensure --fraud --alter"},
		{b.topics.FraudState(), 0, "", "there is no topic " + b.topics.FraudState() + ": run khata topics ensure --fraud"},
		{b.topics.Verdicts(), 0, "", "there is no topic " + b.topics.Verdicts()},
		{b.topics.Accounts(), 0, "", "there is no topic " + b.topics.Accounts()},
	} {
		remake(c.topic, c.partitions, c.policy)
		if got := b.start(t, "one").fails(t); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	b := &bench{rules: fraud.DefaultRules()}
	for want, change := range map[string]func(*fraud.Config){
		"there are no rules":                         func(c *fraud.Config) { c.Rules = nil },
		`instance "": give it a name of 1 to 100`:    func(c *fraud.Config) { c.Instance = "" },
		`instance "a/b": give it a name`:             func(c *fraud.Config) { c.Instance = "a/b" },
		"characters that Kafka does not take":        func(c *fraud.Config) { c.Topics.Prefix = "a b" },
		"of 238 characters is too long: at most 237": func(c *fraud.Config) { c.Topics.Prefix = strings.Repeat("a", 238) },
	} {
		config := b.config(t, "one")
		change(&config)
		if _, err := fraud.New(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What is remembered goes to the partition of the changelog that has the number of that of the events; verdicts go where their key belongs.
func TestCheck_Partitions(t *testing.T) {
	t.Parallel()
	b := onFake(t)
	b.start(t, "one")
	b.publish(t, b.transfers(1, 100))
	b.check(t)
	of := map[string]int32{}
	for _, r := range b.read(t, b.topics.Accounts()) {
		of[string(r.Key)] = r.Partition
	}
	states, progress := 0, map[int32]bool{}
	for _, r := range b.read(t, b.topics.FraudState()) {
		if string(r.Key) == "partition" {
			progress[r.Partition] = true
			continue
		}
		states++
		if want, known := of[string(r.Key)]; !known || r.Partition != want {
			t.Errorf("the state of %s is in partition %d, its events are in %d", r.Key, r.Partition, want)
		}
	}
	if states == 0 || len(progress) != partitions {
		t.Errorf("%d states, and progress of %d partitions", states, len(progress))
	}
	for _, v := range b.verdicts(t) {
		if key := string(v.record.Key); key != v.Ledger+"/"+v.Payer || v.record.Partition != of[key] {
			t.Errorf("the verdict %s has the key %s, in partition %d", v, key, v.record.Partition)
		}
	}
}

// gather gives counters and gauges by their names and labels.
func gather(t testing.TB, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return got
}

// Compaction leaves the last of each key, and that is enough.
func TestCheck_Compacted(t *testing.T) {
	t.Parallel()
	b := onFake(t)
	for i := range uint64(3) {
		one := b.start(t, "one")
		b.publish(t, b.transfers(i, 80))
		b.check(t)
		one.end(t)
		before := len(b.read(t, b.topics.FraudState()))
		b.fake.Compact()
		if after := len(b.read(t, b.topics.FraudState())); i > 0 && after >= before {
			t.Fatalf("%d records, and %d before", after, before)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	b := onFake(t)
	registry := prometheus.NewRegistry()
	config := b.config(t, "one")
	config.Metrics = fraud.NewMetrics(registry)
	one := run(t, config, nil)
	list := b.transfers(1, 40)
	b.publish(t, list)
	for range 2 {
		for _, p := range list {
			b.produce(t, b.events(p)...)
		}
	}
	b.check(t)
	payers := map[string]bool{}
	flagged := 0
	for _, v := range b.verdicts(t) {
		payers[v.Payer] = true
		if len(v.Reasons) > 0 {
			flagged++
		}
	}
	want := map[string]int{
		"duplicates_total": 80, "payers": len(payers), "restores_total": partitions, "verdicts_total approved": 40 - flagged, "verdicts_total flagged": flagged,
		"unreadable_total": 0, "lag_events 0": 0, "transactions_total failed": 0,
	}
	wrong := func() (list []string) {
		got := gather(t, registry)
		for name, want := range want {
			if n, there := got["khata_fraud_"+name]; !there || n != float64(want) {
				list = append(list, fmt.Sprintf("%s is %v, want %d", name, n, want))
			}
		}
		return list
	}
	// It counts after it has committed.
	for deadline := time.Now().Add(patience); len(wrong()) > 0 && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	for _, text := range wrong() {
		t.Error(text)
	}
	if flagged == 0 || flagged == 40 {
		t.Errorf("%d are flagged: the test shows nothing", flagged)
	}
	one.end(t)
	if got := gather(t, registry); got["khata_fraud_payers"] != 0 {
		t.Errorf("one that has left has %v payers", got["khata_fraud_payers"])
	} else if _, there := got["khata_fraud_lag_events 0"]; there {
		t.Error("one that has left tells the lag of a partition")
	}
}

// To judge everything anew is to forget everything: the group, the changelog and the verdicts. The ids stay.
func TestCheck_Anew(t *testing.T) {
	t.Parallel()
	b := onFake(t)
	one := b.start(t, "one")
	b.publish(t, b.transfers(1, 60))
	b.check(t)
	ids := func() (list []string) {
		for _, v := range b.verdicts(t) {
			list = append(list, v.headers["ce_id"])
		}
		slices.Sort(list)
		return list
	}
	before, outcomes := ids(), b.expected()
	one.end(t)
	admin := kadm.NewClient(b.client)
	if _, err := admin.DeleteGroup(t.Context(), fraud.Group(b.topics)); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DeleteTopics(t.Context(), b.topics.FraudNames()...); err != nil {
		t.Fatal(err)
	}
	if _, err := kafka.EnsureTopics(t.Context(), b.client, kafka.TopicSpec{Topics: b.topics, Partitions: partitions, Fraud: true}); err != nil {
		t.Fatal(err)
	}
	b.rules = of(t, `{"name": "other", "kind": "amount", "limits": {"BDT": "10"}}`)
	b.start(t, "one")
	b.check(t)
	if cmp.Equal(outcomes, b.expected()) {
		t.Error("the other rules judge as the first: the test shows nothing")
	}
	if diff := cmp.Diff(before, ids()); diff != "" {
		t.Error(diff)
	}
}

// What a relay has sent and not committed was never sent.
func TestCheck_AbortedInput(t *testing.T) {
	t.Parallel()
	b := onFake(t)
	b.start(t, "one")
	relay, err := kgo.NewClient(kgo.SeedBrokers(b.seeds...), kgo.TransactionalID("relay"), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	for i := range 6 {
		list := b.transfers(uint64(i), 10)
		if err := relay.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			if err := relay.ProduceSync(t.Context(), b.events(p)...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		commit := kgo.TransactionEndTry(i%2 == 0)
		if err := relay.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
		if commit {
			b.noted(list)
		}
	}
	// The group cannot get past the last marker, which is no event.
	b.until(t, "everything is judged", func() bool { return len(b.verdicts(t)) >= 30 })
	b.publish(t, b.transfers(9, 40))
	b.check(t)
}

func (b *bench) until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never comes to this: %s", what)
		}
	}
}

// A transaction that somebody leaves open holds it up, in the changelog or in the group's offsets. It says what to do, and goes on when that is done.
func TestCheck_Stuck(t *testing.T) {
	t.Parallel()
	for topic, open := range map[string]func(*testing.T, *bench, *kgo.Client){
		"fraud-state": func(t *testing.T, b *bench, other *kgo.Client) {
			if err := other.ProduceSync(t.Context(), &kgo.Record{Topic: b.topics.FraudState(), Key: []byte("partition")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		},
		"__consumer_offsets": func(t *testing.T, b *bench, other *kgo.Client) {
			// It begins the transaction.
			if err := other.ProduceSync(t.Context(), &kgo.Record{Topic: b.topics.Verdicts()}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			id, epoch, err := other.ProducerID(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			request := kmsg.NewPtrTxnOffsetCommitRequest()
			request.TransactionalID, request.Group, request.ProducerID, request.ProducerEpoch = b.topics.Prefix, fraud.Group(b.topics), id, epoch
			accounts := b.topics.Accounts()
			topics, err := kadm.NewClient(other).ListTopics(t.Context(), accounts)
			if err != nil {
				t.Fatal(err)
			}
			request.Topics = []kmsg.TxnOffsetCommitRequestTopic{{
				Topic: accounts, TopicID: topics[accounts].ID, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: 1}},
			}}
			request.Generation = -1
			answer, err := request.RequestWith(t.Context(), other)
			if err == nil {
				err = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			b := setup(t, kafkatest.Shared(t).Brokers())
			other, err := kgo.NewClient(kgo.SeedBrokers(b.seeds...), kgo.TransactionalID(b.topics.Prefix), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			if err := other.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			open(t, b, other)
			said := make(chan string, 1000)
			config := b.config(t, "one")
			config.Logger = slog.New(slog.NewTextHandler(lines(said), nil))
			b.publish(t, b.transfers(1, 100))
			run(t, config, func(c *fraud.Check) { c.SetPatience(time.Second) })
			for until := time.After(patience); ; {
				select {
				case line := <-said:
					if !strings.Contains(line, "kafka-transactions.sh find-hanging --topic ") || !strings.Contains(line, topic) {
						continue
					}
				case <-until:
					t.Fatal("it says nothing")
				}
				break
			}
			if err := other.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
				t.Fatal(err)
			}
			b.check(t)
		})
	}
}

// lines are what is written, as far as it is read.
type lines chan<- string

func (l lines) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}
