package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// LostError is that a topic does not have the event any more, or not yet, that is to be read next.
type LostError struct {
	Topic     string
	Partition int32
	// Next is the offset to be read next, and Start and End those between which the partition has any. Next is negative where the database does not
	// know of it.
	Next, Start, End int64
	Group            string
}

// what says what is gone.
func (e *LostError) what() string {
	if e.Next < 0 {
		return fmt.Sprintf("it begins at offset %d, and this database knows nothing of those before", e.Start)
	}
	if e.Next < e.Start {
		return fmt.Sprintf("the offsets %d to %d were deleted before this group read them", e.Next, e.Start-1)
	}
	return fmt.Sprintf("the next offset to be read is %d, and it ends at %d: the topic has lost its end, or was made anew", e.Next, e.End)
}

func (e *LostError) Error() string {
	return fmt.Sprintf("events are gone from partition %d of the topic %s: %s. Find out what they said from where they came from. "+
		"Then either set Config.SkipLost, which goes on from offset %d and absorbs what it knows, or set the offset of the group %s yourself",
		e.Partition, e.Topic, e.what(), e.Start, e.Group)
}

// heed looks at the errors of a poll. Most of them pass.
func (m *member) heed(ctx context.Context, fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		var rewound *kgo.ErrDataLoss
		switch {
		case errors.Is(e.Err, context.Canceled), errors.Is(e.Err, context.DeadlineExceeded):
		case errors.Is(e.Err, kgo.ErrClientClosed):
			return e.Err
		case errors.Is(e.Err, kerr.OffsetOutOfRange):
			if err := m.lost(ctx, e.Topic, e.Partition); err != nil {
				return err
			}
		case errors.As(e.Err, &rewound):
			// What was handled of the lost end stays handled; what comes in its place has ids of its own.
			m.log.Error("the end of a partition was lost in Kafka", "error", e.Err)
		default:
			m.log.Warn("cannot read from Kafka", "topic", e.Topic, "partition", e.Partition, "error", e.Err)
			sleep(ctx, firstPause)
		}
	}
	return nil
}

// lost finds out what is missing of a partition whose next offset is not there. It returns a *LostError unless it may go on.
func (m *member) lost(ctx context.Context, topic string, id int32) error {
	lost := &LostError{Topic: topic, Partition: id, Group: m.config.Group}
	for {
		limited, cancel := context.WithTimeout(ctx, startTime)
		err := m.locate(limited, lost)
		cancel()
		if err == nil {
			break
		}
		m.log.Warn("cannot find out which events are gone", "topic", topic, "partition", id, "error", err)
		if !sleep(ctx, time.Second) {
			return nil
		}
	}
	from := lost.Start
	switch {
	case lost.Next < 0 && m.config.OnLost == nil:
		// A group that has read nothing yet begins where the partition does, which has just moved.
	case lost.Start <= lost.Next && lost.Next <= lost.End:
		// It is there after all: a new leader did not know all of it yet.
		from = lost.Next
	case m.config.SkipLost:
		m.log.Error("skipped events", "error", lost)
		m.metrics.skipped(lost.Start - lost.Next)
	case m.config.OnLost != nil:
		if err := m.config.OnLost(ctx, lost); err != nil {
			return err
		}
		m.log.Warn("events are gone, and have been made up for", "lost", lost.what(), "topic", topic, "partition", id)
	default:
		return lost
	}
	m.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {id: {Epoch: -1, Offset: from}}})
	if m.config.OnLost != nil {
		if err := m.beginProgress(context.WithoutCancel(ctx), topic, id, from); err != nil {
			m.log.Warn("upkeep of the inbox", "error", err) // It is asked once more.
		}
	}
	return nil
}

// locate asks Kafka for the offsets.
func (m *member) locate(ctx context.Context, lost *LostError) error {
	committed, err := m.admin.FetchOffsetsForTopics(ctx, m.config.Group, lost.Topic)
	if err != nil {
		return err
	}
	starts, err := m.admin.ListStartOffsets(ctx, lost.Topic)
	if err != nil {
		return err
	}
	ends, err := m.admin.ListEndOffsets(ctx, lost.Topic)
	if err != nil {
		return err
	}
	next, _ := committed.Lookup(lost.Topic, lost.Partition)
	start, _ := starts.Lookup(lost.Topic, lost.Partition)
	end, _ := ends.Lookup(lost.Topic, lost.Partition)
	lost.Next, lost.Start, lost.End = next.At, start.Offset, end.Offset
	if lost.Next < 0 || m.config.OnLost != nil {
		saved, err := m.savedProgress(ctx, lost.Topic)
		if err != nil {
			return err
		}
		switch at, known := saved[lost.Partition]; {
		case known && (lost.Next < 0 || at < lost.Next):
			lost.Next = at
		case !known && m.config.OnLost != nil:
			lost.Next = -1
		}
	}
	return errors.Join(next.Err, start.Err, end.Err)
}
