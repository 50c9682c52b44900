package inbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// batchesInRound is how many full batches are polled at once.
	batchesInRound = 5
	// upkeepEvery is how often partitions are made and dropped, and upkeepAgain how soon if somebody was in the way.
	upkeepEvery, upkeepAgain = time.Hour, time.Minute
	// leaveTime is how long the group's coordinator may take to let a member go.
	leaveTime = 10 * time.Second
	// commitTime bounds a commit of offsets.
	commitTime     = 3 * time.Second
	sessionTimeout = 10 * time.Second
)

// Run consumes until ctx ends, and then returns nil: what had begun is finished, its offsets are committed, and the group is left. That takes at
// most twice HandleTimeout, and as long as Kafka takes. Any other end has an error that says what a person has to do: the window has become too
// small for a topic, or events are gone that were not read. That the database or Kafka is away is waited out.
func (b *Inbox) Run(ctx context.Context) error {
	m := &member{Inbox: b, partitions: map[string]map[int32]*partition{}, uncommitted: offsets{}, unsaved: offsets{}, saved: offsets{}, savedAt: time.Now()}
	var err error
	if m.client, err = kgo.NewClient(m.options()...); err != nil {
		return fmt.Errorf("inbox: Config.Kafka: %w", err)
	}
	m.admin = kadm.NewClient(m.client)
	running, end := context.WithCancelCause(ctx)
	var jobs sync.WaitGroup
	jobs.Go(func() { b.replays(running) })
	jobs.Go(func() { m.keepUp(running) })
	jobs.Go(func() {
		if err := m.watchTopics(running); err != nil {
			end(err)
		}
	})
	if err := m.consume(running); err != nil {
		end(err)
	}
	jobs.Wait()
	m.leave()
	cause := context.Cause(running)
	end(nil)
	if ctx.Err() != nil || cause == nil {
		return nil
	}
	return fmt.Errorf("inbox %s: %w", b.config.Consumer, cause)
}

// options are how every Inbox consumes.
func (m *member) options() []kgo.Opt {
	// A member that dies is missed soon: what it may still be doing is absorbed. The user may know better.
	options := append([]kgo.Opt{kgo.SessionTimeout(sessionTimeout)}, m.config.Kafka...)
	// In the rest he is overruled.
	return append(options,
		kgo.ConsumerGroup(m.config.Group),
		kgo.ConsumeTopics(m.config.Topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// A new group starts at the beginning. It has to be said: with the next option alone it would start at the end.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		// An offset that is not there any more is an error.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.DisableAutoCommit(),
		// While it works on records nobody else gets their partitions, so that it cannot turn back the offset that another has committed.
		kgo.BlockRebalanceOnPoll(),
		kgo.RebalanceTimeout(m.config.rebalanceTimeout()),
		kgo.AdjustFetchOffsetsFn(m.startOffsets),
		kgo.OnPartitionsRevoked(m.left),
		kgo.OnPartitionsLost(m.left),
	)
}

// member is an Inbox that runs: one member of the group.
type member struct {
	*Inbox
	client     *kgo.Client
	admin      *kadm.Client
	partitions map[string]map[int32]*partition

	mu sync.Mutex
	// uncommitted is how far it has come with the partitions that it has, where the group does not know it yet.
	uncommitted offsets
	// unsaved is how far it has come since progress was saved, at savedAt. saved are the partitions of which it was, with no offsets.
	unsaved offsets
	saved   offsets
	savedAt time.Time
}

// left forgets what is no business of this member's any more.
func (m *member) left(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, ids := range lost {
		for _, id := range ids {
			delete(m.uncommitted[topic], id)
			m.metrics.left(topic, id)
		}
		if len(m.uncommitted[topic]) == 0 {
			delete(m.uncommitted, topic)
		}
	}
}

// leave leaves the group, so that others need not wait until it is missed.
func (m *member) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	m.commit(ctx)
	if err := m.saveProgress(ctx); err != nil {
		m.log.Warn("upkeep of the inbox", "error", err)
	}
	m.client.AllowRebalance()
	if err := m.client.LeaveGroupContext(ctx); err != nil {
		m.log.Warn("leave the group", "error", err)
	}
	m.client.Close()
}

// keepUp does the upkeep from time to time.
func (m *member) keepUp(ctx context.Context) {
	for {
		err := m.upkeep(ctx)
		if err != nil && ctx.Err() == nil {
			m.log.Warn("upkeep of the inbox", "error", err)
		}
		pause := upkeepEvery
		if err != nil {
			pause = upkeepAgain
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// watchTopics returns an error when the window has become too small.
func (m *member) watchTopics(ctx context.Context) error {
	for sleep(ctx, m.config.CheckEvery) {
		limited, cancel := context.WithTimeout(ctx, startTime)
		err := m.checkTopics(limited, m.admin)
		cancel()
		var wrong unfit
		switch {
		case errors.As(err, &wrong):
			return err
		case err != nil && ctx.Err() == nil:
			m.log.Warn("cannot check the topics", "error", err)
		}
	}
	return nil
}

// consume goes through rounds until ctx ends or a person is needed.
func (m *member) consume(ctx context.Context) error {
	for ctx.Err() == nil {
		limited, cancel := m.untilResume(ctx)
		fetches := m.client.PollRecords(limited, batchesInRound*m.config.BatchSize)
		cancel()
		err := m.round(ctx, fetches)
		m.client.AllowRebalance()
		if err != nil {
			return err
		}
	}
	return nil
}

// untilResume resumes the partitions whose pause is over, and gives the context of a poll until the next one's is.
func (m *member) untilResume(ctx context.Context) (context.Context, context.CancelFunc) {
	now := time.Now()
	next := now.Add(time.Second) // When what could not be committed is committed, if nothing else comes.
	for topic, ids := range m.partitions {
		for id, p := range ids {
			switch {
			case p.resumeAt.IsZero():
			case p.resumeAt.After(now):
				next = earlier(next, p.resumeAt)
			default:
				p.resumeAt = time.Time{}
				m.client.ResumeFetchPartitions(map[string][]int32{topic: {id}})
			}
		}
	}
	return context.WithDeadline(ctx, next)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// round works on what was polled: the partitions at once, each in its order. Then it commits how far they came, and sets back those that could not
// go on, which rest for a while and hold up nobody.
func (m *member) round(ctx context.Context, fetches kgo.Fetches) error {
	if err := m.heed(ctx, fetches); err != nil {
		return err
	}
	started := time.Now()
	more := func() bool { return ctx.Err() == nil && time.Since(started) < m.config.roundTime() }
	// What has begun is finished, unless it takes so long that the group would lose patience.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*m.config.roundTime())
	defer cancel()

	results := make(chan progress)
	working := 0
	for topic, ids := range recordsOf(fetches) {
		for id, records := range ids {
			p := m.partition(topic, id)
			working++
			go func() { results <- m.work(limited, p, records, more) }()
		}
	}
	setBack := offsets{}
	for range working {
		at := <-results
		if at.done {
			m.came(at)
		}
		if at.stopped {
			setBack.set(at.topic, at.id, kgo.EpochOffset{Epoch: -1, Offset: at.next})
			m.rest(limited, at)
		}
	}
	m.commit(ctx)
	if len(setBack) > 0 {
		m.client.SetOffsets(setBack)
	}
	m.measure(fetches)
	if time.Since(m.savedAt) > m.config.saveEvery() {
		m.savedAt = time.Now()
		if err := m.saveProgress(limited); err != nil {
			m.log.Warn("upkeep of the inbox", "error", err)
		}
	}
	return nil
}

// recordsOf sorts the records by partition, in which they are in the order of their offsets.
func recordsOf(fetches kgo.Fetches) map[string]map[int32][]*kgo.Record {
	records := map[string]map[int32][]*kgo.Record{}
	fetches.EachRecord(func(r *kgo.Record) {
		if records[r.Topic] == nil {
			records[r.Topic] = map[int32][]*kgo.Record{}
		}
		records[r.Topic][r.Partition] = append(records[r.Topic][r.Partition], r)
	})
	for _, ids := range records {
		for _, list := range ids {
			// A partition whose leader has moved can be in a poll twice.
			slices.SortFunc(list, func(a, b *kgo.Record) int { return int(a.Offset - b.Offset) })
		}
	}
	return records
}

func (m *member) partition(topic string, id int32) *partition {
	if m.partitions[topic] == nil {
		m.partitions[topic] = map[int32]*partition{}
	}
	if m.partitions[topic][id] == nil {
		m.partitions[topic][id] = &partition{topic: topic, id: id, size: m.config.BatchSize}
	}
	return m.partitions[topic][id]
}

// rest pauses a partition that could not go on. One that only ran out of time goes on in the next round.
func (m *member) rest(ctx context.Context, at progress) {
	if at.err == nil {
		return
	}
	now := time.Now()
	pause := at.pause(now)
	m.client.PauseFetchPartitions(map[string][]int32{at.topic: {at.id}})
	if at.setbacks == 1 || now.Sub(at.saidAt) > sayAgainAfter {
		at.saidAt = now
		m.log.Warn("a partition cannot go on, and is tried again", "topic", at.topic, "partition", at.id, "offset", at.next, "pause", pause,
			"error", toText(at.err.Error()))
	}
	var f *failure
	if sqlState(at.err) == noPartition && !errors.As(at.err, &f) {
		if err := m.makePartitions(ctx); err != nil {
			m.log.Warn("upkeep of the inbox", "error", err)
		}
	}
}

// noPartition is the SQLSTATE of a row for which there is no partition; of other things too.
const noPartition = "23514"

// came notes how far a partition has come.
func (m *member) came(at progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uncommitted.set(at.topic, at.id, kgo.EpochOffset{Epoch: at.epoch, Offset: at.next})
	m.unsaved.set(at.topic, at.id, kgo.EpochOffset{Offset: at.next})
}

// commit commits offsets. That it is refused, since the group has gone on without this member, is as well: whoever has the partitions now gets the
// events once more, and the inbox absorbs them. While the group waits for another member nothing can be committed, and the work goes on.
func (m *member) commit(ctx context.Context) {
	m.mu.Lock()
	done := offsets{}
	for topic, list := range m.uncommitted {
		done[topic] = maps.Clone(list)
	}
	m.mu.Unlock()
	if len(done) == 0 {
		return
	}
	if m.config.OnLost != nil && m.unknown(done) {
		// A group that has come further than this database knows of would be taken for another's.
		if err := m.saveProgress(context.WithoutCancel(ctx)); err != nil {
			m.log.Info("offsets are not committed yet", "error", err)
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer cancel()
	var failed error
	m.client.CommitOffsetsSync(ctx, done, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if err != nil {
			return
		}
		for _, topic := range answer.Topics {
			for _, p := range topic.Partitions {
				failed = errors.Join(failed, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	})
	if failed != nil {
		m.log.Info("offsets are not committed yet; if others have the partitions now, their events come again and are absorbed", "error", failed)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uncommitted = offsets{}
}

// measure notes how many events wait.
func (m *member) measure(fetches kgo.Fetches) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if known := m.partitions[p.Topic][p.Partition]; known != nil && len(p.Records) > 0 {
			m.metrics.lags(p.Topic, p.Partition, p.LastStableOffset-known.next)
		}
	})
}
