package kafka_test

import (
	"crypto/rand"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/kafkatest"
)

// newTopics are topics that nobody else has.
func newTopics() kafka.Topics { return kafka.Topics{Prefix: "test-" + rand.Text()} }

func ensure(t *testing.T, client *kgo.Client, spec kafka.TopicSpec) kafka.Report {
	t.Helper()
	report, err := kafka.EnsureTopics(t.Context(), client, spec)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// states are those of the two topics.
func states(report kafka.Report) (list []kafka.State) {
	for _, topic := range report {
		list = append(list, topic.State)
	}
	return list
}

func settingsOf(t *testing.T, client *kgo.Client, topic string) kafka.Settings {
	t.Helper()
	settings, err := kafka.TopicSettings(t.Context(), client, topic)
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

func alter(t *testing.T, client *kgo.Client, topic, setting, value string) {
	t.Helper()
	answers, err := kadm.NewClient(client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: setting, Value: &value}}, topic)
	if err != nil || answers[0].Err != nil {
		t.Fatal(err, answers)
	}
	// A real broker says so at once, but perhaps not before the controller has answered.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		described, err := kadm.NewClient(client).DescribeTopicConfigs(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		config, err := described.On(topic, nil)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(config.Configs, func(c kadm.Config) bool { return c.Key == setting })
		if at >= 0 && config.Configs[at].MaybeValue() == value {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s of %s does not become %s", setting, topic, value)
		}
	}
}

func TestEnsureTopics(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client *kgo.Client) {
		topics := newTopics()
		report := ensure(t, client, kafka.TopicSpec{Topics: topics})
		// The fake one has three brokers and as many replicas, the real one has one.
		replicas, minISR := report[0].Replicas, 1
		if replicas == 3 {
			minISR = 2
		}
		if diff := cmp.Diff(kafka.Report{
			{Topic: topics.Transfers(), State: kafka.Created, Partitions: 12, Replicas: replicas},
			{Topic: topics.Accounts(), State: kafka.Created, Partitions: 12, Replicas: replicas},
		}, report); diff != "" {
			t.Error(diff)
		}
		for _, topic := range topics.Names() {
			if diff := cmp.Diff(kafka.Settings{
				Partitions: 12, Replicas: replicas, Retention: 7 * 24 * time.Hour, Segment: time.Hour, CleanupPolicy: "delete",
				MaxMessageBytes: 2097152, LogAppendTime: true, MinInsyncReplicas: minISR,
			}, settingsOf(t, client, topic)); diff != "" {
				t.Errorf("%s: %s", topic, diff)
			}
		}
		report = ensure(t, client, kafka.TopicSpec{Topics: topics})
		if diff := cmp.Diff([]kafka.State{kafka.Right, kafka.Right}, states(report)); diff != "" || report.Differs() {
			t.Error(diff)
		}
	})
}

func TestEnsureTopics_Differences(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client *kgo.Client) {
		topics := newTopics()
		spec := kafka.TopicSpec{Topics: topics, Partitions: 2, Replication: 1, Retention: 48 * time.Hour, Segment: 30 * time.Minute}
		ensure(t, client, spec)
		alter(t, client, topics.Accounts(), "retention.ms", "5000")
		alter(t, client, topics.Accounts(), "cleanup.policy", "compact")
		spec.Segment = 10 * time.Minute

		segment := kafka.Difference{Setting: "segment.ms", Is: "1800000", Should: "600000"}
		want := kafka.Report{
			{Topic: topics.Transfers(), State: kafka.Differs, Partitions: 2, Replicas: 1, Differences: []kafka.Difference{segment}},
			{Topic: topics.Accounts(), State: kafka.Differs, Partitions: 2, Replicas: 1, Differences: []kafka.Difference{
				{Setting: "cleanup.policy", Is: "compact", Should: "delete"}, {Setting: "retention.ms", Is: "5000", Should: "172800000"}, segment,
			}},
		}
		for range 2 { // Nothing is changed without being asked for.
			report := ensure(t, client, spec)
			if diff := cmp.Diff(want, report); diff != "" || !report.Differs() {
				t.Error(diff)
			}
		}
		spec.Alter = true
		want[0].State, want[1].State = kafka.Altered, kafka.Altered
		report := ensure(t, client, spec)
		if diff := cmp.Diff(want, report); diff != "" || report.Differs() {
			t.Error(diff)
		}
		settled(t, client, spec)

		// The number of replicas is not changed.
		spec.Replication = 2
		report = ensure(t, client, spec)
		if diff := cmp.Diff([]kafka.Difference{{Setting: "replication factor", Is: "1", Should: "2"}}, report[1].Differences); diff != "" || !report.Differs() {
			t.Error(diff)
		}
		if got := settingsOf(t, client, topics.Accounts()).Replicas; got != 1 {
			t.Errorf("%d replicas", got)
		}
	})
}

// The changelog of the fraud check is compacted and kept for ever; the verdicts are kept as events are. That they are there is for who wants them.
func TestEnsureTopics_Fraud(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client *kgo.Client) {
		spec := kafka.TopicSpec{Topics: newTopics(), Partitions: 3, Retention: 48 * time.Hour}
		ensure(t, client, spec)
		for _, topic := range spec.Topics.FraudNames() {
			if _, err := kafka.TopicSettings(t.Context(), client, topic); !errors.Is(err, kafka.ErrNoTopic) {
				t.Errorf("%s: %v", topic, err)
			}
		}
		spec.Fraud = true
		report := ensure(t, client, spec)
		if diff := cmp.Diff([]kafka.State{kafka.Right, kafka.Right, kafka.Created, kafka.Created}, states(report)); diff != "" {
			t.Error(diff)
		}
		verdicts, state := settingsOf(t, client, spec.Topics.Verdicts()), settingsOf(t, client, spec.Topics.FraudState())
		if accounts := settingsOf(t, client, spec.Topics.Accounts()); cmp.Diff(accounts, verdicts) != "" || accounts.Retention != 48*time.Hour {
			t.Errorf("accounts %+v, verdicts %+v", accounts, verdicts)
		}
		want := verdicts
		want.CleanupPolicy, want.Retention = "compact", 7*24*time.Hour // Which does not count for what is compacted.
		if diff := cmp.Diff(want, state); diff != "" {
			t.Error(diff)
		}
		alter(t, client, spec.Topics.FraudState(), "cleanup.policy", "compact,delete")
		report = ensure(t, client, spec)
		if diff := cmp.Diff(kafka.TopicReport{
			Topic: spec.Topics.FraudState(), State: kafka.Differs, Partitions: 3, Replicas: state.Replicas,
			Differences: []kafka.Difference{{Setting: "cleanup.policy", Is: "compact,delete", Should: "compact"}},
		}, report[3]); diff != "" {
			t.Error(diff)
		}
		spec.Alter = true
		ensure(t, client, spec)
		for deadline := time.Now().Add(10 * time.Second); settingsOf(t, client, spec.Topics.FraudState()).CleanupPolicy != "compact"; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it is not set")
			}
		}
		spec.Partitions = 4
		if _, err := kafka.EnsureTopics(t.Context(), client, spec); err == nil || !strings.Contains(err.Error(), "has 3 partitions, and 4 are asked for") {
			t.Error(err)
		}
	})
}

func TestRemoveTopics(t *testing.T) {
	t.Parallel()
	cluster := fake(t, kfake.NumBrokers(1))
	client := connect(t, cluster.ListenAddrs())
	topics := newTopics()
	for _, fraud := range []bool{false, true} {
		ensure(t, client, kafka.TopicSpec{Topics: topics, Fraud: fraud, Partitions: 1})
		if err := kafka.RemoveTopics(t.Context(), kafka.Config{Brokers: cluster.ListenAddrs()}, topics); err != nil {
			t.Fatal(err)
		}
		for _, topic := range append(topics.Names(), topics.FraudNames()...) {
			if _, err := kafka.TopicSettings(t.Context(), client, topic); !errors.Is(err, kafka.ErrNoTopic) {
				t.Errorf("%s: %v", topic, err)
			}
		}
	}
}

// settled waits until the brokers say what they have been told: a real one does at once, but not before it answers.
func settled(t *testing.T, client *kgo.Client, spec kafka.TopicSpec) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		report := ensure(t, client, spec)
		if diff := cmp.Diff([]kafka.State{kafka.Right, kafka.Right}, states(report)); diff == "" {
			return
		} else if time.Now().After(deadline) {
			t.Fatal(diff)
		}
	}
}

// Another number of partitions would break the order of events. Nothing at all is done then.
func TestEnsureTopics_OtherPartitions(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client *kgo.Client) {
		topics := newTopics()
		if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 6, 1, nil, topics.Accounts()); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if _, err := kafka.TopicSettings(t.Context(), client, topics.Accounts()); err == nil {
				break
			} else if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		_, err := kafka.EnsureTopics(t.Context(), client, kafka.TopicSpec{Topics: topics, Alter: true})
		if err == nil || !strings.Contains(err.Error(), topics.Accounts()+" has 6 partitions, and 12 are asked for") || !strings.Contains(err.Error(), "ask for 6") {
			t.Error(err)
		}
		if _, err := kafka.TopicSettings(t.Context(), client, topics.Transfers()); !errors.Is(err, kafka.ErrNoTopic) {
			t.Errorf("the other topic: %v", err)
		}
		if got := settingsOf(t, client, topics.Accounts()); got.Partitions != 6 || got.LogAppendTime {
			t.Errorf("%+v", got)
		}
	})
}

func TestEnsureTopics_ManyAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client *kgo.Client) {
		topics := newTopics()
		var created atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				report, err := kafka.EnsureTopics(t.Context(), client, kafka.TopicSpec{Topics: topics, Partitions: 3})
				if err != nil || report.Differs() {
					t.Error(report, err)
				}
				for _, topic := range report {
					if topic.State == kafka.Created {
						created.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n := created.Load(); n != 2 {
			t.Errorf("%d topics created", n)
		}
	})
}

// Without a number of its own it takes the brokers' for the replicas, and of three two must have a record. In its long form also on three
// real brokers.
func TestEnsureTopics_Replicas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ brokers, asked, replicas, minISR int }{{1, 0, 1, 1}, {3, 0, 3, 2}, {3, 3, 3, 2}, {3, 2, 2, 1}} {
		client := connect(t, fake(t, kfake.NumBrokers(c.brokers)).ListenAddrs())
		ensure(t, client, kafka.TopicSpec{Replication: c.asked})
		if got := settingsOf(t, client, "khata.accounts"); got.Replicas != c.replicas || got.MinInsyncReplicas != c.minISR {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	client := connect(t, fake(t, kfake.NumBrokers(1)).ListenAddrs())
	if _, err := kafka.EnsureTopics(t.Context(), client, kafka.TopicSpec{Replication: 3}); !errors.Is(err, kerr.InvalidReplicationFactor) {
		t.Errorf("three replicas on one broker: %v", err)
	}
	if os.Getenv("KHATA_TEST_LONG") == "" {
		return
	}
	client = connect(t, kafkatest.Start(t, 3).Brokers())
	ensure(t, client, kafka.TopicSpec{})
	if got := settingsOf(t, client, "khata.accounts"); got.Replicas != 3 || got.MinInsyncReplicas != 2 {
		t.Errorf("%+v", got)
	}
}

func TestTopicSpec_Validate(t *testing.T) {
	t.Parallel()
	for want, spec := range map[string]kafka.TopicSpec{
		"-1 partitions":              {Partitions: -1},
		"2147483648 partitions":      {Partitions: math.MaxInt32 + 1},
		"replication factor -1":      {Replication: -1},
		"replication factor 65535":   {Replication: 65535},
		"must not stay for ever":     {Retention: -1},
		"segment are positive":       {Segment: -1},
		"are whole milliseconds":     {Retention: time.Microsecond},
		"segment are whole millisec": {Segment: time.Second + 1},
		"that Kafka does not take":   {Topics: kafka.Topics{Prefix: "a b"}},
	} {
		if _, err := kafka.EnsureTopics(t.Context(), nil, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", spec, err, want)
		}
	}
}

// The longest name that we let through is one that Kafka takes.
func TestEnsureTopics_LongestName(t *testing.T) {
	t.Parallel()
	client := connect(t, kafkatest.Shared(t).Brokers())
	prefix := newTopics().Prefix
	topics := kafka.Topics{Prefix: prefix + strings.Repeat("x", 239-len(prefix))}
	ensure(t, client, kafka.TopicSpec{Topics: topics, Partitions: 1})
}

// Brokers that have been told of a new topic agree on it one after the other.
func TestEnsureTopics_WaitsForLeaders(t *testing.T) {
	t.Parallel()
	cluster := fake(t, kfake.NumBrokers(1))
	client := connect(t, cluster.ListenAddrs())
	brokers, err := kadm.NewClient(client).ListBrokers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var made, asked atomic.Int32
	cluster.ControlKey(int16(kmsg.CreateTopics), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if !request.(*kmsg.CreateTopicsRequest).ValidateOnly {
			made.Add(1)
		}
		return nil, nil, false
	})
	cluster.ControlKey(int16(kmsg.Metadata), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		topics := request.(*kmsg.MetadataRequest).Topics
		if made.Load() == 0 || len(topics) == 0 || asked.Add(1) > 5 {
			return nil, nil, false
		}
		answer := request.ResponseKind().(*kmsg.MetadataResponse)
		answer.ControllerID = brokers[0].NodeID
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = brokers[0].NodeID, brokers[0].Host, brokers[0].Port
		answer.Brokers = append(answer.Brokers, broker)
		for _, asked := range topics {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic = asked.Topic
			partition := kmsg.NewMetadataResponseTopicPartition()
			partition.Leader, partition.ErrorCode = -1, kerr.LeaderNotAvailable.Code
			topic.Partitions = append(topic.Partitions, partition)
			answer.Topics = append(answer.Topics, topic)
		}
		return answer, nil, true
	})
	report := ensure(t, client, kafka.TopicSpec{})
	if diff := cmp.Diff([]kafka.State{kafka.Created, kafka.Created}, states(report)); diff != "" || asked.Load() <= 5 {
		t.Errorf("asked %d times: %s", asked.Load(), diff)
	}
}

func TestTopicSettings(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client *kgo.Client) {
		topic := newTopics().Transfers()
		_, err := kafka.TopicSettings(t.Context(), client, topic)
		if !errors.Is(err, kafka.ErrNoTopic) || !strings.Contains(err.Error(), topic+": there is no such topic: make it with khata topics ensure") {
			t.Errorf("no topic: %v", err)
		}
		set := func(text string) *string { return &text }
		if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 3, 1, map[string]*string{
			"retention.ms": set("-1"), "segment.ms": set("9223372036854775807"), "cleanup.policy": set("compact,delete"), "max.message.bytes": set("1234"),
		}, topic); err != nil {
			t.Fatal(err)
		}
		var got kafka.Settings
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if got, err = kafka.TopicSettings(t.Context(), client, topic); err == nil && got.Replicas > 0 {
				break
			} else if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(kafka.Settings{
			Partitions: 3, Replicas: 1, Retention: -time.Millisecond, Segment: math.MaxInt64 / time.Millisecond * time.Millisecond,
			CleanupPolicy: "compact,delete", MaxMessageBytes: 1234, MinInsyncReplicas: 1,
		}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestClusterID(t *testing.T) {
	t.Parallel()
	id := func(brokers []string) string {
		got, err := kafka.ClusterID(t.Context(), connect(t, brokers))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	shared := kafkatest.Shared(t).Brokers()
	if first, again := id(shared), id(shared); first != again || len(first) != 22 {
		t.Errorf("%q, then %q", first, again)
	}
	if got := id(fake(t, kfake.ClusterID("the-fake-one")).ListenAddrs()); got != "the-fake-one" {
		t.Error(got)
	}
	cluster := fake(t, kfake.ClusterID(""))
	if _, err := kafka.ClusterID(t.Context(), connect(t, cluster.ListenAddrs())); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("no id: %v", err)
	}
}
