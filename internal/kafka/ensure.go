package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The defaults of TopicSpec.
const (
	DefaultPartitions = 12
	DefaultRetention  = 7 * 24 * time.Hour
	DefaultSegment    = time.Hour
)

// maxMessageSize is of a batch of records, which can be one record: more than any event can take.
const maxMessageSize = 2 << 20 // bytes

// TopicSpec is how the topics are to be. Its zero value is a good one.
type TopicSpec struct {
	Topics Topics
	// Fraud is to have the topics of the fraud check, too. Its changelog is compacted and kept for ever: Retention is not for it.
	Fraud bool
	// Partitions is their number in each topic, DefaultPartitions by default. It is fixed once a topic exists.
	Partitions int
	// Replication is how many brokers have each record; by default as many as the brokers' own default says. Of three or more, two
	// must have a record before it is acknowledged.
	Replication int
	// Retention is how long records are kept at least, DefaultRetention by default, and Segment how long they may stay beyond
	// that, DefaultSegment by default. Both are whole milliseconds.
	Retention, Segment time.Duration
	// Alter sets what is otherwise only reported.
	Alter bool
}

// Validate says what of the spec cannot be.
func (s TopicSpec) Validate() error {
	switch {
	case s.Partitions < 0 || s.Partitions > math.MaxInt32:
		return fmt.Errorf("%d partitions: there is one at least, or 0 for %d", s.Partitions, DefaultPartitions)
	case s.Replication < 0 || s.Replication > math.MaxInt16:
		return fmt.Errorf("replication factor %d: it is one at least, or 0 for the brokers' default", s.Replication)
	case s.Retention < 0 || s.Segment < 0:
		return errors.New("retention and segment are positive: records must not stay for ever, since consumers forget what they have done")
	case s.Retention%time.Millisecond != 0 || s.Segment%time.Millisecond != 0:
		return errors.New("retention and segment are whole milliseconds")
	}
	if s.Fraud {
		return s.Topics.ValidateFraud()
	}
	return s.Topics.Validate()
}

// names are those of the topics that are to be there.
func (s TopicSpec) names() []string {
	if s.Fraud {
		return append(s.Topics.Names(), s.Topics.FraudNames()...)
	}
	return s.Topics.Names()
}

func (s TopicSpec) withDefaults() TopicSpec {
	if s.Partitions == 0 {
		s.Partitions = DefaultPartitions
	}
	if s.Retention == 0 {
		s.Retention = DefaultRetention
	}
	if s.Segment == 0 {
		s.Segment = DefaultSegment
	}
	return s
}

// settings are those that a topic with that many replicas is to have of its own.
func (s TopicSpec) settings(topic string, replicas int) map[string]string {
	set := map[string]string{
		cleanupPolicy: "delete",
		// Kafka deletes by the records' time. That of an event can be long past when it is published.
		timestampType:   "LogAppendTime",
		retentionMS:     strconv.FormatInt(s.Retention.Milliseconds(), 10),
		segmentMS:       strconv.FormatInt(s.Segment.Milliseconds(), 10),
		maxMessageBytes: strconv.Itoa(maxMessageSize),
	}
	if topic == s.Topics.FraudState() {
		// The last record of each key stays. Segments are closed as often as those of the others, since only closed ones are compacted.
		set[cleanupPolicy] = "compact"
		delete(set, retentionMS)
	}
	if replicas >= 3 {
		set[minInsyncReplicas] = "2"
	}
	return set
}

// State is what became of a topic.
type State string

// The states.
const (
	Created State = "created"
	Right   State = "as it should be"
	Altered State = "altered"
	Differs State = "differs"
)

// Difference is a setting that was not as it should be.
type Difference struct {
	Setting string `json:"setting"`
	Is      string `json:"is"`
	Should  string `json:"should"`
}

// TopicReport is what EnsureTopics says of a topic.
type TopicReport struct {
	Topic      string `json:"topic"`
	State      State  `json:"state"`
	Partitions int    `json:"partitions"`
	Replicas   int    `json:"replicas"`
	// Differences are those found in a topic that existed: set if it is Altered, and left if it Differs. The number of replicas, which
	// takes a reassignment, is always left.
	Differences []Difference `json:"differences,omitempty"`
}

// Report is what EnsureTopics has done and found, a topic each.
type Report []TopicReport

// Differs reports whether a topic is not as it should be.
func (r Report) Differs() bool {
	return slices.ContainsFunc(r, func(t TopicReport) bool { return t.State == Differs })
}

// replication is not a setting for Kafka, but is one for who reads of it.
const replication = "replication factor"

// leaderWait is how long to wait for the brokers to agree on new topics.
const leaderWait = 30 * time.Second

// EnsureTopics makes the topics that are missing, waits until all their partitions have leaders, and says what of those that existed
// is not as it should be, which it sets if the spec says so. Two at once do no harm. Nothing is done, and it is an error, if a topic
// has another number of partitions.
func EnsureTopics(ctx context.Context, client *kgo.Client, spec TopicSpec) (Report, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	spec = spec.withDefaults()
	var missing []string
	for _, topic := range spec.names() {
		t, err := describe(ctx, client, topic)
		switch {
		case errors.Is(err, ErrNoTopic):
			missing = append(missing, topic)
		case err != nil:
			return nil, err
		case t.partitions != spec.Partitions:
			return nil, wrongPartitions(topic, t.partitions, spec.Partitions)
		}
	}
	var report Report
	for _, topic := range spec.names() {
		created := false
		if slices.Contains(missing, topic) {
			var err error
			if created, err = create(ctx, kadm.NewClient(client), topic, spec); err != nil {
				return report, err
			}
		}
		r, err := settle(ctx, client, topic, spec, created)
		if err != nil {
			return report, err
		}
		report = append(report, r)
	}
	return report, nil
}

func wrongPartitions(topic string, is, should int) error {
	return fmt.Errorf("topic %[1]s has %[2]d partitions, and %[3]d are asked for: their number is fixed, since another would send keys to other "+
		"partitions and break the order of their events; ask for %[2]d, or take another prefix", topic, is, should)
}

// create reports whether it has made the topic; somebody else may have, in the meantime.
func create(ctx context.Context, admin *kadm.Client, topic string, spec TopicSpec) (bool, error) {
	replicas := int16(spec.Replication)
	if replicas == 0 {
		var err error
		if replicas, err = defaultReplication(ctx, admin, topic, spec); err != nil {
			return false, err
		}
	}
	settings := map[string]*string{}
	for name, value := range spec.settings(topic, int(replicas)) {
		settings[name] = &value
	}
	made, err := admin.CreateTopic(ctx, int32(spec.Partitions), replicas, settings, topic)
	if err == nil {
		err = refusal(made)
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("make topic %s: %w", topic, err)
	}
	return true, nil
}

// defaultReplication is the brokers' own, or -1 if they do not tell. They say it of a topic that they are only to check.
func defaultReplication(ctx context.Context, admin *kadm.Client, topic string, spec TopicSpec) (int16, error) {
	answers, err := admin.ValidateCreateTopics(ctx, int32(spec.Partitions), -1, nil, topic)
	if err != nil {
		return 0, fmt.Errorf("ask for the brokers' replication factor: %w", err)
	}
	answer := answers[topic]
	if answer.Err != nil && !errors.Is(answer.Err, kerr.TopicAlreadyExists) {
		return 0, fmt.Errorf("ask for the brokers' replication factor: %w", refusal(answer))
	}
	if answer.ReplicationFactor < 1 {
		return -1, nil
	}
	return answer.ReplicationFactor, nil
}

func refusal(answer kadm.CreateTopicResponse) error {
	if answer.Err == nil || answer.ErrMessage == "" {
		return answer.Err
	}
	return fmt.Errorf("%w (%s)", answer.Err, answer.ErrMessage)
}

// settle waits until a topic that exists can be used, and compares it with the spec.
func settle(ctx context.Context, client *kgo.Client, topic string, spec TopicSpec, created bool) (TopicReport, error) {
	t, err := ready(ctx, client, topic)
	if err != nil {
		return TopicReport{}, err
	}
	if t.partitions != spec.Partitions {
		return TopicReport{}, wrongPartitions(topic, t.partitions, spec.Partitions)
	}
	r := TopicReport{Topic: topic, State: Right, Partitions: t.partitions, Replicas: t.replicas}
	var alter []kadm.AlterConfig
	want := spec.settings(topic, t.replicas)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if should := want[name]; t.settings[name] != should {
			r.Differences = append(r.Differences, Difference{name, t.settings[name], should})
			alter = append(alter, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &should})
		}
	}
	if len(alter) > 0 && spec.Alter {
		answers, err := kadm.NewClient(client).AlterTopicConfigs(ctx, alter, topic)
		if err == nil {
			_, err = answers.On(topic, func(a *kadm.AlterConfigsResponse) error { return a.Err })
		}
		if err != nil {
			return TopicReport{}, fmt.Errorf("set %s of topic %s: %w", names(r.Differences), topic, err)
		}
		r.State = Altered
	} else if len(alter) > 0 {
		r.State = Differs
	}
	if spec.Replication != 0 && t.replicas != spec.Replication {
		r.State = Differs
		r.Differences = append(r.Differences, Difference{replication, strconv.Itoa(t.replicas), strconv.Itoa(spec.Replication)})
	}
	if created && r.State == Right {
		r.State = Created
	}
	return r, nil
}

func names(differences []Difference) (list []string) {
	for _, d := range differences {
		list = append(list, d.Setting)
	}
	return list
}

// ready waits until all partitions of a topic have leaders.
func ready(ctx context.Context, client *kgo.Client, topic string) (topicState, error) {
	deadline := time.Now().Add(leaderWait)
	for {
		t, err := describe(ctx, client, topic)
		switch {
		case err == nil && t.partitions > 0 && len(t.leaderless) == 0:
			return t, nil
		case err != nil && !errors.Is(err, ErrNoTopic):
			return t, err
		case time.Now().After(deadline) && err == nil:
			return t, fmt.Errorf("partitions %v of topic %s have no leader: see to the brokers that have them, and try again", t.leaderless, topic)
		case time.Now().After(deadline):
			return t, err
		}
		select {
		case <-ctx.Done():
			return t, fmt.Errorf("wait for the leaders of topic %s: %w", topic, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// RemoveTopics removes topics and all that is in them, if they are there: for those that were made to be measured with.
func RemoveTopics(ctx context.Context, config Config, topics Topics) error {
	client, err := Connect(ctx, config)
	if err != nil {
		return err
	}
	defer client.Close()
	removed, err := kadm.NewClient(client).DeleteTopics(ctx, append(topics.Names(), topics.FraudNames()...)...)
	for _, r := range removed {
		if r.Err != nil && !errors.Is(r.Err, kerr.UnknownTopicOrPartition) {
			err = errors.Join(err, fmt.Errorf("remove topic %s: %w", r.Topic, r.Err))
		}
	}
	return err
}
