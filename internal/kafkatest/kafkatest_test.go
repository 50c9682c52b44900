package kafkatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
	}
	os.Exit(Main(m.Run))
}

// produce writes records of these numbers to a partition and waits until all replicas that have to have them.
func produce(t *testing.T, client *kgo.Client, topic string, from, to int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), opWait)
	defer cancel()
	var records []*kgo.Record
	for n := from; n < to; n++ {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(strconv.Itoa(n))})
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("produce %d to %d: %v", from, to, err)
	}
}

// numbers reads a topic from its start until it has that many records, and a moment longer.
func numbers(t *testing.T, c *Cluster, topic string, count int, options ...kgo.Opt) []int {
	t.Helper()
	client := c.Client(t, append(options, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	var got []int
	for wait := opWait; ; {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		fetches := client.PollFetches(ctx)
		cancel()
		fetches.EachRecord(func(r *kgo.Record) {
			n, err := strconv.Atoi(string(r.Value))
			if err != nil {
				t.Error(err)
			}
			got = append(got, n)
		})
		if ctx.Err() != nil {
			return got
		}
		if len(got) >= count {
			wait = 300 * time.Millisecond
		}
	}
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func TestShared(t *testing.T) {
	t.Parallel()
	c := Shared(t)
	topic := c.Topic(t, 1, map[string]string{"retention.ms": "60001"})
	if other := c.Topic(t, 3, nil); other == topic {
		t.Errorf("%s twice", topic)
	}
	client := c.Client(t)
	produce(t, client, topic, 0, 100)
	if diff := cmp.Diff(upTo(100), numbers(t, c, topic, 100)); diff != "" {
		t.Error(diff)
	}
	settings, err := kadm.NewClient(client).DescribeTopicConfigs(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(settings[0].Configs, func(s kadm.Config) bool { return s.Key == "retention.ms" && s.MaybeValue() == "60001" }) {
		t.Error("the topic's setting is not set")
	}
	request := kmsg.NewPtrMetadataRequest()
	request.AllowAutoTopicCreation = true
	request.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("nobody-made-this")}}
	answer, err := request.RequestWith(t.Context(), client)
	if err != nil || !errors.Is(kerr.ErrorForCode(answer.Topics[0].ErrorCode), kerr.UnknownTopicOrPartition) {
		t.Errorf("a topic that nobody has made: %+v, %v", answer, err)
	}
}

// What one test does to the shared broker, all feel.
func TestShared_Unbreakable(t *testing.T) {
	t.Parallel()
	c := Shared(t)
	for name, harm := range map[string]func(testing.TB, ...int){
		"kill": c.Kill, "pause": c.Pause, "resume": c.Resume, "stop": c.Stop, "restart": c.Restart,
	} {
		if got := endingOf(func(t testing.TB) { harm(t, 1) }); !strings.Contains(got, "fatal: kafkatest: the shared cluster is everybody's") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := endingOf(func(t testing.TB) { (&Cluster{}).Kill(t, 1) }); got != "fatal: kafkatest: there is no node 1" {
		t.Error(got)
	}
}

// The timers that are minutes in production are seconds here.
func TestShared_Soon(t *testing.T) {
	t.Parallel()
	c := Shared(t)
	t.Run("retention", func(t *testing.T) {
		t.Parallel()
		topic := c.Topic(t, 1, map[string]string{"retention.ms": "1000", "segment.ms": "1000"})
		client := c.Client(t)
		admin := kadm.NewClient(client)
		produce(t, client, topic, 0, 10)
		// A segment is closed by the first record that is too young for it.
		if err := poll(func(ctx context.Context) error {
			if err := client.ProduceSync(ctx, kgo.StringRecord("0"), &kgo.Record{Topic: topic, Value: []byte("0")})[1].Err; err != nil {
				return err
			}
			starts, err := admin.ListStartOffsets(ctx, topic)
			if start, _ := starts.Lookup(topic, 0); err == nil && start.Offset < 10 {
				err = fmt.Errorf("the topic begins at %d", start.Offset)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	})
	t.Run("transactions", func(t *testing.T) {
		t.Parallel()
		topic := c.Topic(t, 1, nil)
		client := c.Client(t, kgo.TransactionalID(topic), kgo.TransactionTimeout(time.Second))
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, client, topic, 0, 10)
		started := time.Now()
		// It stands in the way of this one until its time is up.
		produce(t, c.Client(t), topic, 10, 11)
		got := numbers(t, c, topic, 1, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		if diff := cmp.Diff([]int{10}, got); diff != "" || time.Since(started) > 8*time.Second {
			t.Errorf("after %s: %s", time.Since(started), diff)
		}
	})
}

// What was acknowledged is there after a broker was killed, under the same cluster id and address.
func TestStart_KillAndRestart(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	topic := c.Topic(t, 1, nil)
	client := c.Client(t)
	before, err := kadm.NewClient(client).BrokerMetadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	produce(t, client, topic, 0, 10)
	c.Kill(t, 1)
	if conn, err := net.Dial("tcp", c.Brokers()[0]); err == nil {
		conn.Close()
		t.Error("a killed broker takes connections")
	}
	c.Restart(t, 1)
	after, err := kadm.NewClient(c.Client(t)).BrokerMetadata(t.Context())
	if err != nil || after.Cluster != before.Cluster {
		t.Errorf("cluster %s, before %s: %v", after.Cluster, before.Cluster, err)
	}
	if diff := cmp.Diff(upTo(10), numbers(t, c, topic, 10)); diff != "" {
		t.Error(diff)
	}
	c.Stop(t, 1)
	c.Stop(t, 1)
	c.Restart(t, 1)
	c.Restart(t, 1)
	if diff := cmp.Diff(upTo(10), numbers(t, c, topic, 10)); diff != "" {
		t.Error(diff)
	}
	c.Pause(t, 1) // The cleanup puts up with it.
}

// A lone broker that was killed comes back as one that leads nothing yet, and so a transaction whose time was up meanwhile ends (see fence).
func TestStart_KillInTransaction(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	topic := c.Topic(t, 1, nil)
	client := c.Client(t, kgo.TransactionalID(topic), kgo.TransactionTimeout(time.Second))
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, client, topic, 0, 10)
	c.Kill(t, 1)
	c.Restart(t, 1)
	text, err := c.nodes[0].logSince(c.nodes[0].logged)
	if err != nil || bytes.Contains(text, []byte("Fencing broker")) {
		t.Errorf("the node loses its partitions after it has started: %v", err)
	}
	produce(t, c.Client(t), topic, 10, 11)
	if diff := cmp.Diff([]int{10}, numbers(t, c, topic, 1, kgo.FetchIsolationLevel(kgo.ReadCommitted()))); diff != "" {
		t.Error(diff)
	}
}

// Of three nodes one may be missing, and two may not. In its long form all three are killed, and come back.
func TestStart_Three(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	topic := c.Topic(t, 1, nil)
	client := c.Client(t)
	produce(t, client, topic, 0, 10)

	leader := c.Leader(t, topic, 0)
	c.Kill(t, leader)
	produce(t, client, topic, 10, 20)
	if now := c.Leader(t, topic, 0); now == leader || now == 0 {
		t.Errorf("node %d leads after node %d was killed", now, leader)
	}

	frozen := 6 - leader - c.Leader(t, topic, 0)
	c.Pause(t, frozen)
	promise := make(chan error, 1)
	client.Produce(t.Context(), &kgo.Record{Topic: topic, Value: []byte("20")}, func(_ *kgo.Record, err error) { promise <- err })
	select {
	case err := <-promise:
		t.Errorf("one node of three acknowledges: %v", err)
	case <-time.After(time.Second):
	}
	c.Resume(t, frozen)
	if err := <-promise; err != nil {
		t.Error(err)
	}

	c.Restart(t, leader)
	produce(t, client, topic, 21, 30)
	if diff := cmp.Diff(upTo(30), numbers(t, c, topic, 30)); diff != "" {
		t.Error(diff)
	}
	if os.Getenv("KHATA_TEST_LONG") == "" {
		return
	}
	c.Kill(t, 1, 2, 3)
	c.Restart(t, 3, 1, 2)
	if diff := cmp.Diff(upTo(30), numbers(t, c, topic, 30)); diff != "" {
		t.Error(diff)
	}
}
