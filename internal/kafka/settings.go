package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrNoTopic says that a topic does not exist.
var ErrNoTopic = errors.New("there is no such topic: make it with khata topics ensure")

// Settings are those of a topic as they are, whether its own or the brokers' defaults.
type Settings struct {
	Partitions int
	// Replicas is the least number that a partition has.
	Replicas int
	// Retention is how long records are kept at least; negative for ever. Kafka deletes whole segments, so they can be there for
	// Segment longer, and some minutes.
	Retention time.Duration
	// Segment is how long records are added to a segment at most.
	Segment time.Duration
	// CleanupPolicy is what Kafka does with old segments: "delete" them, "compact" them, both or, if it is empty, neither.
	CleanupPolicy string
	// MaxMessageBytes is the size of the largest batch of records.
	MaxMessageBytes int
	// LogAppendTime says that records get the brokers' time; otherwise it is the producers'.
	LogAppendTime bool
	// MinInsyncReplicas is how many replicas must have a record before it is acknowledged to who asks for all.
	MinInsyncReplicas int
}

// Topic settings of Kafka.
const (
	cleanupPolicy     = "cleanup.policy"
	timestampType     = "message.timestamp.type"
	retentionMS       = "retention.ms"
	segmentMS         = "segment.ms"
	maxMessageBytes   = "max.message.bytes"
	minInsyncReplicas = "min.insync.replicas"
)

// TopicSettings asks for the settings of a topic. The error is ErrNoTopic if it does not exist.
func TopicSettings(ctx context.Context, client *kgo.Client, topic string) (Settings, error) {
	t, err := describe(ctx, client, topic)
	if err != nil {
		return Settings{}, err
	}
	s := Settings{
		Partitions: t.partitions, Replicas: t.replicas,
		CleanupPolicy: t.settings[cleanupPolicy], LogAppendTime: t.settings[timestampType] == "LogAppendTime",
	}
	number := func(setting string) (n int64) {
		var failed error
		if n, failed = strconv.ParseInt(t.settings[setting], 10, 64); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s of topic %s: %w", setting, topic, failed))
		}
		return n
	}
	s.Retention, s.Segment = milliseconds(number(retentionMS)), milliseconds(number(segmentMS))
	s.MaxMessageBytes, s.MinInsyncReplicas = int(number(maxMessageBytes)), int(number(minInsyncReplicas))
	return s, err
}

// milliseconds is the longest duration there is for what is longer: Kafka's own notion of "never" is 292 million years.
func milliseconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(n, most)) * time.Millisecond
}

// topicState is what brokers say of a topic.
type topicState struct {
	partitions, replicas int
	leaderless           []int32 // partitions without a leader
	settings             map[string]string
}

// metadata asks for the brokers, the cluster and a topic, or only the former. Not through kadm, which answers with what the client was
// told up to five seconds ago.
func metadata(ctx context.Context, client *kgo.Client, topics ...string) (*kmsg.MetadataResponse, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{}
	for _, topic := range topics {
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = &topic
		request.Topics = append(request.Topics, asked)
	}
	return request.RequestWith(ctx, client)
}

// describe asks for a topic and its settings.
func describe(ctx context.Context, client *kgo.Client, topic string) (topicState, error) {
	answer, err := metadata(ctx, client, topic)
	if err == nil && len(answer.Topics) != 1 {
		err = fmt.Errorf("%d topics in the answer", len(answer.Topics))
	}
	if err != nil {
		return topicState{}, fmt.Errorf("look for topic %s: %w", topic, err)
	}
	detail := answer.Topics[0]
	// One whose leaders are not chosen yet exists.
	if err := kerr.ErrorForCode(detail.ErrorCode); errors.Is(err, kerr.UnknownTopicOrPartition) {
		return topicState{}, fmt.Errorf("topic %s: %w", topic, ErrNoTopic)
	} else if err != nil && !errors.Is(err, kerr.LeaderNotAvailable) {
		return topicState{}, fmt.Errorf("look for topic %s: %w", topic, err)
	}
	t := topicState{partitions: len(detail.Partitions), settings: map[string]string{}}
	for i, p := range detail.Partitions {
		if i == 0 || len(p.Replicas) < t.replicas {
			t.replicas = len(p.Replicas)
		}
		if p.Leader < 0 {
			t.leaderless = append(t.leaderless, p.Partition)
		}
	}
	described, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return topicState{}, fmt.Errorf("ask for the settings of topic %s: %w", topic, err)
	}
	config, err := described.On(topic, func(r *kadm.ResourceConfig) error { return r.Err })
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return topicState{}, fmt.Errorf("topic %s: %w", topic, ErrNoTopic)
	} else if err != nil {
		return topicState{}, fmt.Errorf("ask for the settings of topic %s: %w", topic, err)
	}
	for _, c := range config.Configs {
		t.settings[c.Key] = c.MaybeValue()
	}
	return t, nil
}

// ClusterID is the id that a Kafka cluster has been given when it was made. Another one has other topics, whatever their names.
func ClusterID(ctx context.Context, client *kgo.Client) (string, error) {
	answer, err := metadata(ctx, client)
	if err != nil {
		return "", fmt.Errorf("ask for Kafka's cluster id: %w", err)
	}
	if answer.ClusterID == nil || *answer.ClusterID == "" {
		return "", errors.New("this Kafka does not say its cluster id: it is older than 0.10.1, which is too old")
	}
	return *answer.ClusterID, nil
}
