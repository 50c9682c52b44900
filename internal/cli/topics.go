package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/kafka"
)

func (a *app) topicsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topics",
		Short: "The topics of Kafka that transfers and accounts are published to",
		Long: `The topics of Kafka that transfers and accounts are published to: khata.transfers and khata.accounts, or with another prefix;
and with --fraud those of the fraud check: khata.verdicts and its changelog, khata.fraud-state.`,
	}
	cmd.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON object a line")
	cmd.AddCommand(a.topicsEnsureCommand(), a.topicsShowCommand())
	return cmd
}

// prefixFlag is the flag of the commands that use the topics.
func prefixFlag(cmd *cobra.Command, topics *kafka.Topics) {
	cmd.Flags().StringVar(&topics.Prefix, "topic-prefix", kafka.DefaultPrefix, "what the names of the topics begin with, before a dot")
}

func fraudFlag(cmd *cobra.Command, fraud *bool) {
	cmd.Flags().BoolVar(fraud, "fraud", false, "also the topics of the fraud check (docs/fraud.md)")
}

func (a *app) topicsEnsureCommand() *cobra.Command {
	var reach kafkaFlags
	var spec kafka.TopicSpec
	cmd := &cobra.Command{
		Use:   "ensure --kafka HOST:PORT,…",
		Short: "Make the topics that are missing, and compare the others",
		Long: `Make the topics that are missing, and say what of the others is not as it should be. It can be run ten times, and by two at once.

What differs is set only with --alter. The number of partitions is fixed once a topic exists, because another one would send keys elsewhere
and break the order of their events. The number of replicas is changed by Kafka's own tools.

The exit code is 1 if something differs that was not set.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := spec.Validate(); err != nil {
				return usagef("%w", err)
			}
			config, err := reach.config(a.getenv)
			if err != nil {
				return err
			}
			client, err := kafka.Connect(cmd.Context(), config)
			if err != nil {
				return err
			}
			defer client.Close()
			report, err := kafka.EnsureTopics(cmd.Context(), client, spec)
			for _, topic := range report {
				err = errors.Join(err, a.print(topic, topicText(topic)))
			}
			if err == nil && report.Differs() {
				err = errors.New("not all is as it should be: --alter sets what differs, except for the replication factor")
			}
			return err
		},
	}
	reach.flags(cmd)
	prefixFlag(cmd, &spec.Topics)
	cmd.Flags().IntVar(&spec.Partitions, "partitions", kafka.DefaultPartitions, "partitions of each topic")
	cmd.Flags().IntVar(&spec.Replication, "replication", 0,
		"brokers that have each record; 0 for the brokers' own default. Of three or more, two must have it before it is acknowledged")
	cmd.Flags().DurationVar(&spec.Retention, "retention", kafka.DefaultRetention, "how long records are kept at least")
	cmd.Flags().DurationVar(&spec.Segment, "segment", kafka.DefaultSegment, "how much longer than that they may be there")
	fraudFlag(cmd, &spec.Fraud)
	cmd.Flags().BoolVar(&spec.Alter, "alter", false, "set what differs in topics that exist")
	onlyOnCommandLine(cmd, "alter")
	return cmd
}

func topicText(t kafka.TopicReport) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s  %s  partitions %d  replicas %d", t.Topic, t.State, t.Partitions, t.Replicas)
	for _, d := range t.Differences {
		fmt.Fprintf(&text, "\n  %s is %s, should be %s", d.Setting, d.Is, d.Should)
	}
	return text.String()
}

// topicJSON is what khata topics show says of a topic.
type topicJSON struct {
	Cluster           string `json:"cluster"`
	Topic             string `json:"topic"`
	Partitions        int    `json:"partitions"`
	Replicas          int    `json:"replicas"`
	MinInsyncReplicas int    `json:"min_insync_replicas"`
	RetentionMS       int64  `json:"retention_ms"`
	SegmentMS         int64  `json:"segment_ms"`
	CleanupPolicy     string `json:"cleanup_policy"`
	MaxMessageBytes   int    `json:"max_message_bytes"`
	LogAppendTime     bool   `json:"log_append_time"`
}

func (a *app) topicsShowCommand() *cobra.Command {
	var reach kafkaFlags
	var topics kafka.Topics
	var fraud bool
	cmd := &cobra.Command{
		Use:   "show --kafka HOST:PORT,…",
		Short: "Print the topics' settings as they are",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := topics.Names(), topics.Validate()
			if fraud {
				names, err = append(names, topics.FraudNames()...), topics.ValidateFraud()
			}
			if err != nil {
				return usagef("%w", err)
			}
			config, err := reach.config(a.getenv)
			if err != nil {
				return err
			}
			return a.showTopics(cmd.Context(), config, names)
		},
	}
	reach.flags(cmd)
	prefixFlag(cmd, &topics)
	fraudFlag(cmd, &fraud)
	return cmd
}

func (a *app) showTopics(ctx context.Context, config kafka.Config, topics []string) error {
	client, err := kafka.Connect(ctx, config)
	if err != nil {
		return err
	}
	defer client.Close()
	cluster, err := kafka.ClusterID(ctx, client)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		s, err := kafka.TopicSettings(ctx, client, topic)
		if err != nil {
			return err
		}
		kept := fmt.Sprintf("at least %s, %s longer at most", s.Retention, s.Segment)
		switch {
		case s.CleanupPolicy == "compact":
			kept = "the last of each key"
		case s.Retention < 0:
			kept = "for ever"
		}
		stamp := "the producers' time"
		if s.LogAppendTime {
			stamp = "the brokers' time"
		}
		text := fmt.Sprintf("%s  cluster %s\n  partitions %d  replicas %d, of which %d must have a record\n  kept %s  cleanup %s\n", topic, cluster,
			s.Partitions, s.Replicas, s.MinInsyncReplicas, kept, s.CleanupPolicy)
		text += fmt.Sprintf("  batches of %d bytes at most, with %s", s.MaxMessageBytes, stamp)
		if err := a.print(topicJSON{
			Cluster: cluster, Topic: topic, Partitions: s.Partitions, Replicas: s.Replicas, MinInsyncReplicas: s.MinInsyncReplicas,
			RetentionMS: s.Retention.Milliseconds(), SegmentMS: s.Segment.Milliseconds(), CleanupPolicy: s.CleanupPolicy,
			MaxMessageBytes: s.MaxMessageBytes, LogAppendTime: s.LogAppendTime,
		}, text); err != nil {
			return err
		}
	}
	return nil
}
