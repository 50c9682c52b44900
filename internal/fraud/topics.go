package fraud

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/kafka"
)

// unfit is that the topics are not as they must be.
type unfit struct{ error }

func (u unfit) Unwrap() error { return u.error }

// checkTopics returns an unfit unless the topics are there and can be used.
func (c *Check) checkTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	// Not a member of the group.
	client, err := kgo.NewClient(c.config.Kafka...)
	if err != nil {
		return unfit{fmt.Errorf("settings for Kafka: %w", err)}
	}
	defer client.Close()
	found := map[string]kafka.Settings{}
	topics := c.config.Topics
	for _, topic := range []string{topics.Accounts(), topics.Verdicts(), topics.FraudState()} {
		found[topic], err = kafka.TopicSettings(ctx, client, topic)
		if errors.Is(err, kafka.ErrNoTopic) {
			return unfit{fmt.Errorf("there is no topic %s: run khata topics ensure --fraud", topic)}
		} else if err != nil {
			return err
		}
	}
	accounts, state := found[topics.Accounts()], found[topics.FraudState()]
	switch {
	case accounts.Partitions != state.Partitions:
		return unfit{fmt.Errorf("topic %s has %d partitions and %s has %d, and what is remembered of a partition is in the one of the same number: "+
			"if nothing is in %[3]s yet, delete it and run khata topics ensure --fraud --partitions %[2]d; otherwise take another prefix",
			topics.Accounts(), accounts.Partitions, topics.FraudState(), state.Partitions)}
	case state.CleanupPolicy != "compact":
		return unfit{fmt.Errorf("topic %s has cleanup.policy=%s, by which Kafka would delete what is remembered of payers, and transfers would be judged again: "+
			"run khata topics ensure --fraud --alter", topics.FraudState(), state.CleanupPolicy)}
	}
	return nil
}
