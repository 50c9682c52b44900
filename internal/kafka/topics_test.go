package kafka_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/kafka"
)

func TestTopics(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{"khata.transfers", "khata.accounts"}, kafka.Topics{}.Names()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a-B_1.c.transfers", "a-B_1.c.accounts"}, kafka.Topics{Prefix: "a-B_1.c"}.Names()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"khata.verdicts", "khata.fraud-state"}, kafka.Topics{}.FraudNames()); diff != "" {
		t.Error(diff)
	}
	for length, want := range map[int]string{237: "", 238: "of 238 characters is too long: at most 237"} {
		if err := (kafka.Topics{Prefix: strings.Repeat("a", length)}).ValidateFraud(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v, want %q", length, err, want)
		}
	}
	for prefix, want := range map[string]string{
		"":                       "",
		"a-B_1.c":                "",
		strings.Repeat("a", 239): "",
		strings.Repeat("a", 240): "too long: at most 239",
		"খাতা":                   "characters that Kafka does not take",
		"two words":              "characters that Kafka does not take",
		"a/b":                    "characters that Kafka does not take",
		"a\n":                    "characters that Kafka does not take",
	} {
		err := kafka.Topics{Prefix: prefix}.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", prefix, err, want)
		}
	}
}

// Events of one key keep their order because they are in one partition, for as long as keys are placed like this. The numbers are
// from Apache's own client, BuiltInPartitioner.partitionForKey(key, partitions) of kafka-clients 4.4.0.
func TestPartitionOfKey(t *testing.T) {
	t.Parallel()
	topics := map[string]int32{"one": 1, "seven": 7, "twelve": 12, "forty-eight": 48}
	var options []kfake.Opt
	for topic, partitions := range topics {
		options = append(options, kfake.SeedTopics(partitions, topic))
	}
	client := connect(t, fake(t, options...).ListenAddrs())
	for _, c := range []struct {
		key                            string
		one, seven, twelve, fortyEight int32
	}{
		{"", 0, 2, 9, 9},
		{"a", 0, 5, 4, 28},
		{"demo/wallet:shimul", 0, 0, 7, 7},
		{"demo/wallet:tithi", 0, 3, 0, 24},
		{"demo/cash", 0, 2, 9, 21},
		{"main/fees", 0, 0, 6, 30},
		{"demo/খাতা", 0, 0, 11, 11},
		{"TXN-88412", 0, 1, 10, 46},
		{"550e8400-e29b-41d4-a716-446655440000", 0, 6, 11, 47},
		{"the quick brown fox jumps over the lazy dog", 0, 3, 4, 40},
	} {
		for topic, want := range map[string]int32{"one": c.one, "seven": c.seven, "twelve": c.twelve, "forty-eight": c.fortyEight} {
			record, err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(c.key)}).First()
			if err != nil {
				t.Fatal(err)
			}
			if record.Partition != want {
				t.Errorf("%q in %d partitions: %d, want %d", c.key, topics[topic], record.Partition, want)
			}
		}
	}
}
