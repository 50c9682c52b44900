package fraud

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// LostError is that something is gone from Kafka without which transfers would not be judged, or a second time. Run ends with it.
type LostError struct {
	Partition int32
	// what is gone, and what goes on with Config.SkipLost.
	what, skipped string
}

const goesOn = "it goes on with the first event that is there, and what is gone has no verdict"

func (e *LostError) Error() string {
	return fmt.Sprintf("partition %d: %s. Find out from the ledger which transfers these are; docs/fraud.md says how to judge everything anew. To go on, start it once with --skip-lost: %s",
		e.Partition, e.what, e.skipped)
}

// start is where a partition begins for this session.
type start struct {
	// committed is the offset that the group has committed; negative if it has none.
	committed int64
	// first is the first offset that is there.
	first int64
}

// startOffsets looks whether what is to be read next is there. It is called with the offsets that the group has committed for partitions that
// are this instance's from now on.
func (s *session) startOffsets(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	topic := s.config.Topics.Accounts()
	admin := kadm.NewClient(s.plain)
	firsts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("ask where the events begin: %w", err)
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("ask where the events end: %w", err)
	}
	for id, offset := range offsets[topic] {
		first, _ := firsts.Lookup(topic, id)
		end, _ := ends.Lookup(topic, id)
		if err := errors.Join(first.Err, end.Err); err != nil {
			return nil, fmt.Errorf("ask where the events of partition %d are: %w", id, err)
		}
		at := offset.EpochOffset().Offset
		lost := lostEvents(id, at, first.Offset, end.Offset)
		switch {
		case lost == nil:
		case s.config.SkipLost:
			s.log.Error("skipped events", "error", lost)
			offsets[topic][id] = kgo.NewOffset().At(first.Offset)
			at = first.Offset
		default:
			s.mu.Lock()
			s.lost = lost
			s.mu.Unlock()
			return nil, lost
		}
		s.mu.Lock()
		delete(s.asked, id)
		s.starts[id] = start{committed: at, first: first.Offset}
		s.mu.Unlock()
	}
	return offsets, nil
}

// lostEvents is what is missing where the group goes on from an offset; nil if nothing is.
func lostEvents(id int32, next, first, end int64) *LostError {
	lost := &LostError{Partition: id, skipped: goesOn}
	switch {
	case next < 0 || first <= next && next <= end:
		return nil
	case next < first:
		lost.what = fmt.Sprintf("the events from offset %d to %d were deleted before they were judged", next, first-1)
	default:
		lost.what = fmt.Sprintf("the next offset is %d, and the events end at %d: the topic has lost its end, or was made anew", next, end)
	}
	return lost
}

// lostState is what is missing of a partition's memory, which was read from the changelog; nil if nothing is.
//
// It is a proof by writing down: every transaction that moves the group's offset also writes that offset into the changelog. So a changelog that
// was read to its end has an offset behind that of the group only if it has lost something, or somebody has moved the group on.
func lostState(id int32, at start, p *partition) *LostError {
	lost := &LostError{Partition: id}
	switch {
	case at.committed > p.next:
		lost.what = fmt.Sprintf("the group goes on from offset %d, and what is remembered of payers ends at offset %d: the changelog has lost its end, or somebody has moved the group on",
			at.committed, p.next)
		lost.skipped = "it goes on from there with what is remembered, and the rules do not see what lies between"
	case at.committed < 0 && p.next > 0 && at.first > p.next:
		lost.what = fmt.Sprintf("Kafka has forgotten the group's offset, and the events from offset %d to %d were deleted before they were judged", p.next, at.first-1)
		lost.skipped = goesOn
	default:
		return nil
	}
	return lost
}
