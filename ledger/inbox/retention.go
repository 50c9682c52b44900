package inbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// kafkaMargin is what a record can live longer than its topic's settings say: Kafka looks for old segments every 5 minutes and deletes their files
// a minute later, and a producer's clock may be ahead by an hour (message.timestamp.after.max.ms).
const kafkaMargin = time.Hour

// WindowError is that an inbox would forget an event that its topic still keeps: delivered again, it could not be told from a new one.
type WindowError struct {
	Topic  string
	Window time.Duration
	// Retention and Segment are the topic's retention.ms and segment.ms. Kafka deletes a segment when its youngest record is old enough, so that
	// the oldest can live for both together.
	Retention, Segment time.Duration
}

// Missing is by how much the window is too small.
func (e *WindowError) Missing() time.Duration {
	return e.Retention + e.Segment + kafkaMargin - e.Window
}

func (e *WindowError) Error() string {
	need := e.Retention + e.Segment + kafkaMargin
	return fmt.Sprintf("the window of %v is too small by %v for the topic %s, which can keep an event for %v (retention.ms %v, segment.ms %v, "+
		"and %v for Kafka's own checks). Either set Config.Window to at least %v, or have the topic keep less: lower its retention.ms or segment.ms by %v together",
		e.Window, e.Missing(), e.Topic, need, e.Retention, e.Segment, kafkaMargin, need, e.Missing())
}

// unfit is an error of a topic that the inbox must not consume, unlike one of asking.
type unfit struct{ error }

func (u unfit) Unwrap() error { return u.error }

// checkTopics reports, as unfit, a *WindowError, or what else makes a topic one that no window covers.
func (b *Inbox) checkTopics(ctx context.Context, admin *kadm.Client) error {
	configs, err := admin.DescribeTopicConfigs(ctx, b.config.Topics...)
	if err != nil {
		return fmt.Errorf("read how long the topics keep events (this needs the right to DescribeConfigs): %w", err)
	}
	var wrong []error
	for _, topic := range b.config.Topics {
		config, err := configs.On(topic, nil)
		if err == nil {
			err = config.Err
		}
		if err != nil {
			return fmt.Errorf("read how long the topic %s keeps events (this needs the right to DescribeConfigs): %w", topic, err)
		}
		if b.config.NoMarkers {
			continue // There is no window to be covered.
		}
		if err := b.checkTopic(topic, config.Configs); err != nil {
			wrong = append(wrong, err)
		}
	}
	if len(wrong) > 0 {
		return unfit{errors.Join(wrong...)}
	}
	return nil
}

func (b *Inbox) checkTopic(topic string, configs []kadm.Config) error {
	values := map[string]string{}
	for _, c := range configs {
		values[c.Key] = c.MaybeValue()
	}
	if strings.Contains(values["cleanup.policy"], "compact") {
		return fmt.Errorf("the topic %s is compacted (cleanup.policy=%s): it keeps the last event of a key for ever, and no window covers that. "+
			"Consume a topic with cleanup.policy=delete", topic, values["cleanup.policy"])
	}
	e := &WindowError{Topic: topic, Window: b.config.Window}
	for name, into := range map[string]*time.Duration{"retention.ms": &e.Retention, "segment.ms": &e.Segment} {
		ms, err := strconv.ParseInt(values[name], 10, 64)
		if err != nil {
			return fmt.Errorf("the topic %s has a %s of %q, which is no number", topic, name, values[name])
		}
		// Longer than any window, and than a Duration can be added up to.
		if ms < 0 || ms > int64(10*maxWindow/time.Millisecond) {
			return fmt.Errorf("the topic %s keeps events for ever (%s=%d), and no window covers that. Set its %s to what its slowest consumer needs",
				topic, name, ms, name)
		}
		*into = time.Duration(ms) * time.Millisecond
	}
	if e.Missing() > 0 {
		return e
	}
	return nil
}
