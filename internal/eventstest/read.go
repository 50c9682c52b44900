package eventstest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/kafkatest"
	"github.com/khata-ledger/khata/internal/relay"
)

// patience bounds a reading. It is reached only where something is wrong.
const patience = time.Minute

// Sent is an event as a consumer gets it.
type Sent struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       string
	Headers   map[string]string
	Value     []byte
	Timestamp time.Time
}

// ID is what a consumer knows the event by.
func (s Sent) ID() string { return s.Headers["ce_id"] }

func (s Sent) String() string {
	return fmt.Sprintf("%s %s %s (partition %d of %s, offset %d)", s.Headers["ce_type"], s.Key, strings.TrimLeft(s.Headers["ce_sequence"], "0"),
		s.Partition, s.Topic, s.Offset)
}

// Fact is what the event tells of, by its own account.
func (s Sent) Fact() (Fact, error) {
	sequence, err := strconv.ParseInt(s.Headers["ce_sequence"], 10, 64)
	return Fact{s.Topic, s.Key, s.Headers["ce_type"], s.Headers["ce_subject"], sequence}, err
}

// Read reads what is committed in both topics, partition by partition, in order. It waits until no transaction is open there, so nobody may
// go on publishing.
func Read(t testing.TB, cluster *kafkatest.Cluster, topics relay.Topics) []Sent {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// The markers of transactions have offsets, too: with them, the last one is seen.
	client := cluster.Client(t, kgo.ConsumeTopics(topics.Transfers, topics.Accounts), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	defer client.CloseAllowingRebalance()
	left := ends(ctx, t, kadm.NewClient(client), topics)
	var events []Sent
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read the topics: %v; left are %v", err, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if at := (partition{r.Topic, r.Partition}); r.Offset >= left[at]-1 {
				delete(left, at)
			}
			if !r.Attrs.IsControl() {
				events = append(events, sent(r))
			}
		})
	}
	return events
}

func sent(r *kgo.Record) Sent {
	s := Sent{r.Topic, r.Partition, r.Offset, string(r.Key), map[string]string{}, r.Value, r.Timestamp}
	for _, h := range r.Headers {
		s.Headers[h.Key] = string(h.Value)
	}
	return s
}

type partition struct {
	topic string
	id    int32
}

// ends are where the partitions end that are not empty. Kafka answers a commit before it has put its markers.
func ends(ctx context.Context, t testing.TB, admin *kadm.Client, topics relay.Topics) map[partition]int64 {
	t.Helper()
	for {
		all, err := admin.ListEndOffsets(ctx, topics.Transfers, topics.Accounts)
		if err != nil {
			t.Fatal(err)
		}
		committed, err := admin.ListCommittedOffsets(ctx, topics.Transfers, topics.Accounts)
		if err != nil {
			t.Fatal(err)
		}
		if all.Error() == nil && fmt.Sprint(committed.Offsets()) == fmt.Sprint(all.Offsets()) {
			found := map[partition]int64{}
			committed.Each(func(o kadm.ListedOffset) {
				if o.Offset > 0 {
					found[partition{o.Topic, o.Partition}] = o.Offset
				}
			})
			return found
		}
		select {
		case <-ctx.Done():
			t.Fatalf("a transaction stays open: committed are %v of %v (%v)", committed.Offsets(), all.Offsets(), all.Error())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
