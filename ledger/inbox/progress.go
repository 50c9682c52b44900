package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// saveEvery is how often it is saved how far the group has come. It need not be exact: what is read again is absorbed.
const saveEvery = 30 * time.Second

// saveOftenEvery is how often where this counts more than what Kafka knows of the group: what lies between is read again at each assignment.
const saveOftenEvery = time.Second

func (c Config) saveEvery() time.Duration {
	if c.OnLost != nil {
		return saveOftenEvery
	}
	return saveEvery
}

// progressTime bounds a try to save it or to read it.
const progressTime = 10 * time.Second

// offsets are of topics and partitions.
type offsets map[string]map[int32]kgo.EpochOffset

func (o offsets) set(topic string, partition int32, at kgo.EpochOffset) {
	if o[topic] == nil {
		o[topic] = map[int32]kgo.EpochOffset{}
	}
	o[topic][partition] = at
}

// saveProgress saves how far this member has come since the last time.
func (m *member) saveProgress(ctx context.Context) error {
	var topics []string
	var partitions []int32
	var next []int64
	for topic, list := range m.unsaved {
		for id, at := range list {
			topics, partitions, next = append(topics, topic), append(partitions, id), append(next, at.Offset)
		}
	}
	if len(topics) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, progressTime)
	defer cancel()
	// Sorted, so that two members, one of whom has just lost partitions to the other, do not deadlock.
	_, err := m.pool.Exec(ctx, m.sql(`INSERT INTO {schema}.progress AS p (consumer, group_id, topic, partition, next_offset, saved_at)
		SELECT $1, $2, u.topic, u.partition, u.next, clock_timestamp() FROM unnest($3::text[], $4::integer[], $5::bigint[]) AS u (topic, partition, next)
		ORDER BY u.topic, u.partition
		ON CONFLICT (consumer, group_id, topic, partition) DO UPDATE SET next_offset = EXCLUDED.next_offset, saved_at = EXCLUDED.saved_at
		WHERE p.next_offset < EXCLUDED.next_offset`), m.config.Consumer, m.config.Group, topics, partitions, next)
	if err != nil {
		return fmt.Errorf("save how far the group has come: %w", err)
	}
	for topic, list := range m.unsaved {
		for id := range list {
			m.saved.set(topic, id, kgo.EpochOffset{})
		}
	}
	m.unsaved = offsets{}
	return nil
}

// beginProgress writes down where a partition begins anew, also where that is before what was known.
func (m *member) beginProgress(ctx context.Context, topic string, id int32, next int64) error {
	ctx, cancel := context.WithTimeout(ctx, progressTime)
	defer cancel()
	_, err := m.pool.Exec(ctx, m.sql(`INSERT INTO {schema}.progress (consumer, group_id, topic, partition, next_offset, saved_at)
		VALUES ($1, $2, $3, $4, $5, clock_timestamp())
		ON CONFLICT (consumer, group_id, topic, partition) DO UPDATE SET next_offset = EXCLUDED.next_offset, saved_at = EXCLUDED.saved_at`),
		m.config.Consumer, m.config.Group, topic, id, next)
	if err != nil {
		return fmt.Errorf("save where a partition begins: %w", err)
	}
	m.saved.set(topic, id, kgo.EpochOffset{})
	return nil
}

// unknown reports whether this member has saved nothing yet of one of the partitions.
func (m *member) unknown(list offsets) bool {
	for topic, ids := range list {
		for id := range ids {
			if _, known := m.saved[topic][id]; !known {
				return true
			}
		}
	}
	return false
}

// savedProgress is how far the group has come in a topic, at least.
func (m *member) savedProgress(ctx context.Context, topic string) (map[int32]int64, error) {
	rows, err := m.pool.Query(ctx, m.sql(`SELECT partition, next_offset FROM {schema}.progress WHERE consumer = $1 AND group_id = $2 AND topic = $3`),
		m.config.Consumer, m.config.Group, topic)
	if err != nil {
		return nil, fmt.Errorf("read how far the group has come: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		Partition int32
		Next      int64
	}])
	if err != nil {
		return nil, fmt.Errorf("read how far the group has come: %w", err)
	}
	saved := map[int32]int64{}
	for _, p := range list {
		saved[p.Partition] = p.Next
	}
	return saved, nil
}

// nowhere is an offset that no partition has: to ask for it is answered by an error that lost finds out about.
const nowhere = 1 << 60

// startOffsets has a partition of which Kafka knows no offset of the group's, though the inbox does, begin there. If that is gone from the
// topic, it is lost, and said to be. Where somebody can make up for what is lost (OnLost), this database's own word counts: see startOwn.
func (m *member) startOffsets(ctx context.Context, starts map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, progressTime)
	defer cancel()
	for topic, list := range starts {
		var saved map[int32]int64
		for id, start := range list {
			if start.EpochOffset().Offset >= 0 && m.config.OnLost == nil {
				continue
			}
			if saved == nil {
				var err error
				if saved, err = m.savedProgress(ctx, topic); err != nil {
					m.log.Warn("cannot begin with the partitions of a topic", "topic", topic, "error", err)
					return nil, err
				}
			}
			next, known := saved[id]
			switch {
			case m.config.OnLost != nil:
				at, err := m.startOwn(ctx, topic, id, start, next, known)
				if err != nil {
					return nil, err
				}
				list[id] = at
			case known:
				m.log.Warn("Kafka has forgotten the group's offset: going on from where the inbox knows that it was",
					"topic", topic, "partition", id, "offset", next)
				list[id] = kgo.NewOffset().At(next)
			}
		}
	}
	return starts, nil
}

// startOwn begins no later than where this database knows that it has come: it may have been restored from a backup, or another one may have been at
// work in the same group. Where it knows nothing, it begins with the partition, if that has lost no events yet; otherwise they are lost to it.
func (m *member) startOwn(ctx context.Context, topic string, id int32, start kgo.Offset, next int64, known bool) (kgo.Offset, error) {
	group := start.EpochOffset().Offset
	switch {
	case known && (group < 0 || next < group):
		return kgo.NewOffset().At(next), nil
	case known:
		return start, nil
	}
	firsts, err := m.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return start, err
	}
	first, _ := firsts.Lookup(topic, id)
	if first.Err != nil || first.Offset == 0 {
		return kgo.NewOffset().At(first.Offset), first.Err
	}
	return kgo.NewOffset().At(nowhere), nil
}
