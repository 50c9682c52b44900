package fraud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// restorePatience is for how long nothing may come of the changelog that is said to be there. An instance that stands still in the middle of a
// transaction holds it up until Kafka aborts that (transactionTimeout, and up to ten seconds until Kafka looks).
const restorePatience = 40 * time.Second

// stuck is what to do about a transaction that does not end. Kafka 4.4 forgets that it has to end one, when the partitions that it has written
// to have no leader while it tries (KAFKA-20734): a lone broker that was killed does so as it starts. Nobody but a person can end it then: whether it
// was to be committed, nobody knows any more.
func stuck(topic string) string {
	return fmt.Sprintf("a transaction is open. If this comes again and again, Kafka has forgotten to end it: "+
		"kafka-transactions.sh find-hanging --topic %s --max-transaction-timeout 1 finds it, and kafka-transactions.sh abort ends it", topic)
}

// warnOfStuck says so when Kafka does not tell where partitions begin, which the client asks for again and again and says nothing.
func (s *session) warnOfStuck() {
	const offsets = "__consumer_offsets"
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []int32
	for id, since := range s.asked {
		if time.Since(since) > s.patience {
			ids = append(ids, id)
			s.asked[id] = time.Now()
		}
	}
	if slices.Sort(ids); len(ids) > 0 {
		s.log.Warn("Kafka does not tell where to go on", "partitions", ids, "for", s.patience, "error", stuck(offsets))
	}
}

// restore reads what is remembered of partitions from the changelog, where it is not in memory.
//
// It never sees less than what belongs to the offsets that the session goes on from. Kafka has told these only after no transaction was open any more
// that was to move them (RequireStable, which franz-go always sets): so each transaction up to them was decided, and all that it wrote was in the
// changelog, before restore asks where that ends. It then reads what is committed, which stops at the first record of a transaction that
// has no marker yet; so when it has come to that end, every transaction before it has got its marker, and those that were committed were read. One
// that somebody has begun since is of no use to them: with the partition they have lost the right to commit its offsets.
func (s *session) restore(ctx context.Context, ids []int32) error {
	s.mu.Lock()
	missing := slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return s.partitions[id] != nil })
	s.mu.Unlock()
	if len(missing) == 0 {
		return nil
	}
	began := time.Now()
	restored, err := s.readChangelog(ctx, missing)
	if err != nil {
		return fmt.Errorf("read what is remembered of payers: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	payers := 0
	for id, p := range restored {
		at, known := s.starts[id]
		if !known {
			return fmt.Errorf("partition %d was lost while it was restored", id)
		}
		if lost := lostState(id, at, p); lost != nil && !s.config.SkipLost {
			return lost
		} else if lost != nil {
			s.log.Error("skipped events", "error", lost)
		}
		s.partitions[id] = p
		payers += len(p.states)
	}
	s.metrics.restored(len(restored))
	s.count()
	s.log.Info("restored what is remembered of payers", "partitions", missing, "payers", payers, "took", time.Since(began))
	return nil
}

// readChangelog reads partitions of it from their beginnings to where they end now.
func (s *session) readChangelog(ctx context.Context, ids []int32) (map[int32]*partition, error) {
	topic := s.config.Topics.FraudState()
	from := map[int32]kgo.Offset{}
	for _, id := range ids {
		from[id] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(append(slices.Clip(s.config.Kafka),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // Compaction has moved the beginning.
		// Markers are records, too: when one of them is the last, only it shows that the end is reached.
		kgo.KeepControlRecords(),
	)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	left, err := changelogEnds(ctx, client, topic, ids)
	if err != nil {
		return nil, err
	}
	restored := map[int32]*partition{}
	for _, id := range ids {
		restored[id] = newPartition()
	}
	for moved := time.Now(); len(left) > 0; {
		limited, cancel := context.WithTimeout(ctx, pollTime)
		fetches := client.PollFetches(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case time.Since(moved) > s.patience:
			return nil, fmt.Errorf("nothing has come for %s of partitions %v of %s (and where they end), though it is there: %s", s.patience, left, topic, stuck(topic))
		}
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				return nil, fmt.Errorf("partition %d: %w", e.Partition, e.Err)
			}
		}
		for fetches := fetches.RecordIter(); !fetches.Done(); {
			r := fetches.Next()
			moved = time.Now()
			if !r.Attrs.IsControl() {
				if err := restored[r.Partition].read(r); err != nil {
					return nil, err
				}
			}
			if end, waits := left[r.Partition]; waits && r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		}
	}
	return restored, nil
}

// changelogEnds are where partitions end that are not empty, transactions that are open included.
func changelogEnds(ctx context.Context, client *kgo.Client, topic string, ids []int32) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	admin := kadm.NewClient(client)
	firsts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	left := map[int32]int64{}
	for _, id := range ids {
		first, _ := firsts.Lookup(topic, id)
		end, there := ends.Lookup(topic, id)
		if err := errors.Join(first.Err, end.Err); err != nil || !there {
			return nil, fmt.Errorf("ask where partition %d ends: %w", id, err)
		}
		if end.Offset > first.Offset {
			left[id] = end.Offset
		}
	}
	return left, nil
}
