package devkafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const anyPort = "127.0.0.1:0"

func setup(t *testing.T, every time.Duration) (*Broker, *kgo.Client) {
	t.Helper()
	b, err := start(Config{Addr: anyPort}, every)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b, connect(t, b)
}

func connect(t *testing.T, b *Broker, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(more, kgo.SeedBrokers(b.Brokers()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func makeTopic(t *testing.T, client *kgo.Client, topic string, settings map[string]*string) {
	t.Helper()
	if made, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, -1, settings, topic); err != nil || made.Err != nil {
		t.Fatal(err, made.Err)
	}
}

func produce(t *testing.T, client *kgo.Client, topic string, values ...string) {
	t.Helper()
	for _, value := range values {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBroker(t *testing.T) {
	t.Parallel()
	b, client := setup(t, time.Hour)
	makeTopic(t, client, "topic", nil)
	produce(t, client, "topic", "1", "2", "3")
	reader := connect(t, b, kgo.ConsumeTopics("topic"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []string
	for len(got) < 3 {
		reader.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		if t.Context().Err() != nil {
			break
		}
	}
	if diff := cmp.Diff([]string{"1", "2", "3"}, got); diff != "" {
		t.Error(diff)
	}
	if metadata, err := kadm.NewClient(client).BrokerMetadata(t.Context()); err != nil || metadata.Cluster != b.ClusterID() {
		t.Errorf("%s, want %s: %v", metadata.Cluster, b.ClusterID(), err)
	}
}

// The next one at the same address is empty, and can be told from the one before.
func TestBroker_KeepsNothing(t *testing.T) {
	t.Parallel()
	first, client := setup(t, time.Hour)
	makeTopic(t, client, "topic", nil)
	first.Close()
	again, err := Start(Config{Addr: first.Brokers()[0]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Close)
	if again.ClusterID() == first.ClusterID() {
		t.Error("the same cluster id")
	}
	topics, err := kadm.NewClient(connect(t, again)).ListTopics(t.Context())
	if err != nil || len(topics) != 0 {
		t.Errorf("%v, %v", topics, err)
	}
}

func TestBroker_MakesNoTopics(t *testing.T) {
	t.Parallel()
	b, _ := setup(t, time.Hour)
	eager := connect(t, b, kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(1))
	if err := eager.ProduceSync(t.Context(), &kgo.Record{Topic: "topic"}).FirstErr(); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Error(err)
	}
}

// Memory would only ever grow without.
func TestBroker_Retention(t *testing.T) {
	t.Parallel()
	_, client := setup(t, 20*time.Millisecond)
	short, long := "100", "3600000"
	makeTopic(t, client, "short", map[string]*string{"retention.ms": &short})
	makeTopic(t, client, "long", map[string]*string{"retention.ms": &long})
	produce(t, client, "short", "1", "2")
	produce(t, client, "long", "1", "2")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	starts := func(topic string) int64 {
		list, err := kadm.NewClient(client).ListStartOffsets(ctx, topic)
		if err != nil {
			t.Fatal(err)
		}
		start, _ := list.Lookup(topic, 0)
		return start.Offset
	}
	for starts("short") < 2 {
		time.Sleep(10 * time.Millisecond)
	}
	if at := starts("long"); at != 0 {
		t.Errorf("records that are young are gone, up to %d", at)
	}
}

func TestStart_Refuses(t *testing.T) {
	t.Parallel()
	b, _ := setup(t, time.Hour)
	for address, want := range map[string]string{
		b.Brokers()[0]:    "something else listens on " + b.Brokers()[0],
		"0.0.0.0:7092":    "listens on 127.0.0.1 only",
		":7092":           "listens on 127.0.0.1 only",
		"localhost:7092":  "listens on 127.0.0.1 only",
		"127.0.0.1":       "listens on 127.0.0.1 only",
		"127.0.0.1:kafka": `"kafka" is not a port`,
		"127.0.0.1:70000": `"70000" is not a port`,
	} {
		if other, err := Start(Config{Addr: address}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
			if err == nil {
				other.Close()
			}
		}
	}
}

func TestLogger(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	log := logger{slog.New(slog.NewTextHandler(&text, nil))}
	for level := kfake.LogLevelNone; level <= kfake.LogLevelDebug; level++ {
		log.Logf(level, "%d", level)
	}
	var got []string
	for line := range strings.Lines(text.String()) {
		_, rest, _ := strings.Cut(line, "level=")
		got = append(got, rest)
	}
	want := []string{
		fmt.Sprintf("ERROR msg=\"the broker in this process: %d\"\n", kfake.LogLevelError),
		fmt.Sprintf("WARN msg=\"the broker in this process: %d\"\n", kfake.LogLevelWarn),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
