package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Event is an event as it is on a topic.
type Event struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Key       string `json:"key"`
	// Headers are the attributes of the CloudEvent.
	Headers map[string]string `json:"headers"`
	// Data is the message as JSON; null where the type is unknown.
	Data json.RawMessage `json:"data"`
}

// Message makes the empty message that an event of this type carries; nil if it is not one of Khata's.
func Message(eventType string) proto.Message {
	name, ours := strings.CutPrefix(eventType, "khata.")
	name, v1 := strings.CutSuffix(name, version)
	switch {
	case !ours || !v1:
		return nil
	case name == factMoved:
		return &khatav1.AccountMovement{}
	case strings.HasPrefix(name, "account."):
		return &khatav1.AccountEvent{}
	case strings.HasPrefix(name, "transfer."):
		return &khatav1.TransferEvent{}
	}
	return nil
}

// Tail reads the committed events of topics, for people to look at: from the beginning or from now on, to the end as it is now or, with
// follow, until ctx ends. It stops where see returns an error.
func Tail(ctx context.Context, options []kgo.Opt, topics []string, fromBeginning, follow bool, see func(Event) error) error {
	start := kgo.NewOffset().AtEnd()
	if fromBeginning {
		start = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(append(options, kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(start), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords())...)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = starts.Error()
	}
	var ends kadm.ListedOffsets
	if err == nil {
		ends, err = admin.ListCommittedOffsets(ctx, topics...)
	}
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("look how far the topics go: %w", err)
	}
	type place struct {
		topic     string
		partition int32
	}
	left := map[place]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		begins, _ := starts.Lookup(o.Topic, o.Partition)
		if fromBeginning && o.Offset > begins.Offset {
			left[place{o.Topic, o.Partition}] = o.Offset
		}
	})
	for follow || len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil && (!follow || !passes(err)) {
			return err
		}
		for _, r := range fetches.Records() {
			// The markers of transactions have offsets, too: with them, the last one is seen.
			if at := (place{r.Topic, r.Partition}); r.Offset >= left[at]-1 {
				delete(left, at)
			}
			if r.Attrs.IsControl() {
				continue
			}
			e, err := decode(r)
			if err != nil {
				return err
			}
			if err := see(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// passes reports whether an error may be over soon.
func passes(err error) bool { return kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err) }

func decode(r *kgo.Record) (Event, error) {
	e := Event{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Headers: map[string]string{}}
	for _, h := range r.Headers {
		e.Headers[h.Key] = string(h.Value)
	}
	m := Message(e.Headers["ce_type"])
	if m == nil {
		return e, nil
	}
	if err := proto.Unmarshal(r.Value, m); err != nil {
		return e, fmt.Errorf("partition %d of %s, offset %d: %w", r.Partition, r.Topic, r.Offset, err)
	}
	// protojson puts spaces at random, so that nobody compares its text.
	loose, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return e, err
	}
	e.Data, err = json.Marshal(json.RawMessage(loose))
	return e, err
}
