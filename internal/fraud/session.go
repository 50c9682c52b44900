package fraud

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxBatch is how many events share a transaction at most: it must be over long before its time is up.
	maxBatch = 500
	// pollTime is how long to wait for events before looking whether there is anything else to do.
	pollTime = time.Second
	// sessionTimeout is after how long the group misses an instance that says nothing.
	sessionTimeout = 10 * time.Second
	// rebalanceTimeout is how long the group waits for one that works: a restore and a transaction.
	rebalanceTimeout = time.Minute
	// joinTime is how long to wait for the group, which waits for an instance that has died for as long as its session lasts.
	joinTime = sessionTimeout + 5*time.Second
	// leaveTime is how long the group's coordinator may take to let an instance go.
	leaveTime = 5 * time.Second
)

// session is a member of the group with a producer of its own, and what it remembers. After any failure it is thrown away with all of that: what
// it believes may not be true.
type session struct {
	*Check
	kafka  *kgo.GroupTransactSession
	client *kgo.Client
	// plain is a client that is in no group. It is there before the session, whose callbacks ask by it.
	plain  *kgo.Client
	worked bool

	mu         sync.Mutex
	partitions map[int32]*partition
	// starts are where the partitions that it has got begin.
	starts map[int32]start
	// asked are those that it has got of which Kafka has not told yet where they begin, and since when.
	asked map[int32]time.Time
	// taken is that partitions were taken from it since the last transaction.
	taken bool
	// joining is that the group gives out its partitions anew. What is begun then is aborted: the client commits as what it was in the group before.
	joining bool
	// lost is why it cannot begin with a partition.
	lost *LostError
}

func (c *Check) open() (*session, error) {
	s := &session{Check: c, partitions: map[int32]*partition{}, starts: map[int32]start{}, asked: map[int32]time.Time{}}
	var err error
	if s.plain, err = kgo.NewClient(c.config.Kafka...); err != nil {
		return nil, unfit{fmt.Errorf("settings for Kafka: %w", err)}
	}
	if s.kafka, err = kgo.NewGroupTransactSession(s.options()...); err != nil {
		s.plain.Close()
		return nil, unfit{fmt.Errorf("settings for Kafka: %w", err)}
	}
	s.client = s.kafka.Client()
	return s, nil
}

func (s *session) options() []kgo.Opt {
	topics := s.config.Topics
	// An instance that dies is missed soon. The user may know better.
	options := append([]kgo.Opt{kgo.SessionTimeout(sessionTimeout)}, s.config.Kafka...)
	return append(options,
		kgo.ConsumerGroup(Group(topics)),
		kgo.ConsumeTopics(topics.Accounts()),
		kgo.TransactionalID("khata-fraud-"+topics.Effective()+"-"+s.config.Instance),
		kgo.TransactionTimeout(transactionTimeout),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		// A new group starts at the beginning. It has to be said: with the next option alone it would start at the end.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		// An offset that is not there any more is an error.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// While it works on records nobody else gets their partitions. Otherwise every instance that comes or goes would have the transactions of all
		// others aborted, each of which would leave and come again.
		kgo.BlockRebalanceOnPoll(),
		kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.AdjustFetchOffsetsFn(s.startOffsets),
		kgo.OnPartitionsAssigned(s.got),
		kgo.OnPartitionsRevoked(s.left),
		kgo.OnPartitionsLost(s.left),
		kgo.WithHooks(joinHook{s}),
		kgo.ProducerLinger(5*time.Millisecond), // of a large batch; its end flushes
		// While brokers still put the markers of one transaction, they have the next one try again. The client does when it has asked for the
		// metadata once more, and for that it would wait 5 seconds.
		kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RecordPartitioner(partitioner{changelog: topics.FraudState()}),
	)
}

// joinHook sees that the client is about to join the group anew, also where the session does not call left.
type joinHook struct{ *session }

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (h joinHook) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.JoinGroup) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.joining = true
	}
}

// partitioner places what is remembered in the partition that the record names, and verdicts by their key, as Java's and most clients do.
type partitioner struct{ changelog string }

// ForTopic implements kgo.Partitioner.
func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	if topic == p.changelog {
		return kgo.ManualPartitioner().ForTopic(topic)
	}
	return kgo.StickyKeyPartitioner(nil).ForTopic(topic)
}

// fence ends what an earlier process of this instance has left undone, and takes the right to write from it if it still runs.
func (s *session) fence(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if _, _, err := s.client.ProducerID(ctx); err != nil {
		return fmt.Errorf("take over the transactional id: %w", err)
	}
	return nil
}

// close leaves the group, so that others need not wait until this one is missed.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	s.kafka.AllowRebalance()
	if err := s.client.LeaveGroupContext(ctx); err != nil {
		s.log.Warn("leave the group", "error", err)
	}
	s.client.CloseAllowingRebalance()
	s.plain.Close()
	s.metrics.remembers(0)
	for id := range s.partitions {
		s.metrics.left(id)
	}
}

// got is called with partitions that are its from now on. It may have had them before, and somebody else since, without being told that it lost
// them: a GroupTransactSession says so only once between two transactions. So what is remembered of them is forgotten here, too.
func (s *session) got(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joining = false
	s.forget(partitions)
	for _, ids := range partitions {
		for _, id := range ids {
			s.asked[id] = time.Now()
		}
	}
}

// left is called when partitions are taken from it, and, perhaps with none, when the group is to give out its partitions anew.
func (s *session) left(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joining, s.taken = true, s.taken || len(partitions) > 0
	s.forget(partitions)
}

func (s *session) forget(partitions map[string][]int32) {
	for _, ids := range partitions {
		for _, id := range ids {
			delete(s.partitions, id)
			delete(s.starts, id)
			delete(s.asked, id)
			s.metrics.left(id)
		}
	}
	s.count()
}

func (s *session) count() {
	payers := 0
	for _, p := range s.partitions {
		payers += len(p.states)
	}
	s.metrics.remembers(payers)
}

// consume goes through batches until ctx ends or something fails.
func (s *session) consume(ctx context.Context) error {
	for ctx.Err() == nil {
		s.awaitJoin(ctx)
		limited, cancel := context.WithTimeout(ctx, pollTime)
		fetches := s.kafka.PollRecords(limited, maxBatch)
		cancel()
		err := s.round(ctx, fetches)
		s.kafka.AllowRebalance()
		if err != nil {
			return err
		}
		s.warnOfStuck()
	}
	return nil
}

// awaitJoin waits until the group has given out its partitions. After joinTime it does not matter any more: what is begun is aborted, if the group
// is still at it.
func (s *session) awaitJoin(ctx context.Context) {
	for until := time.Now().Add(joinTime); ctx.Err() == nil; sleep(ctx, 5*time.Millisecond) {
		s.mu.Lock()
		if time.Now().After(until) {
			s.joining = false
		}
		joining := s.joining
		s.mu.Unlock()
		if !joining {
			return
		}
	}
}

func (s *session) round(ctx context.Context, fetches kgo.Fetches) error {
	if err := s.heed(fetches); err != nil {
		return err
	}
	s.mu.Lock()
	goBack := s.taken || s.joining
	s.taken = false
	s.mu.Unlock()
	if goBack {
		return s.reset()
	}
	records := recordsOf(fetches)
	if len(records) == 0 {
		return nil
	}
	if err := s.restore(ctx, slices.Sorted(maps.Keys(records))); err != nil {
		return err
	}
	if err := s.judge(records); err != nil {
		return err
	}
	s.worked = true
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) > 0 {
			// The relay's transactions end with a marker, which is an offset and no event.
			const marker = 1
			s.metrics.lags(p.Partition, p.LastStableOffset-p.Records[len(p.Records)-1].Offset-1-marker)
		}
	})
	return nil
}

// heed looks at the errors of a poll.
func (s *session) heed(fetches kgo.Fetches) error {
	s.mu.Lock()
	lost := s.lost
	s.mu.Unlock()
	if lost != nil {
		return lost
	}
	for _, e := range fetches.Errors() {
		var rewound *kgo.ErrDataLoss
		switch {
		case errors.Is(e.Err, context.Canceled), errors.Is(e.Err, context.DeadlineExceeded):
		case errors.As(e.Err, &rewound):
			// What was judged of the lost end stays judged; what comes in its place are other transfers.
			s.log.Error("the end of a partition was lost in Kafka", "error", e.Err)
		case errors.Is(e.Err, kerr.OffsetOutOfRange):
			// The next session finds out what is missing.
			return fmt.Errorf("the next event of partition %d is gone: %w", e.Partition, e.Err)
		default:
			return fmt.Errorf("read partition %d of %s: %w", e.Partition, e.Topic, e.Err)
		}
	}
	return nil
}

// recordsOf sorts the records by partition, in which they are in the order of their offsets.
func recordsOf(fetches kgo.Fetches) map[int32][]*kgo.Record {
	records := map[int32][]*kgo.Record{}
	fetches.EachRecord(func(r *kgo.Record) { records[r.Partition] = append(records[r.Partition], r) })
	for _, list := range records {
		// A partition whose leader has moved can be in a poll twice.
		slices.SortFunc(list, func(a, b *kgo.Record) int { return int(a.Offset - b.Offset) })
	}
	return records
}

// judge judges a batch and commits what comes of it: the verdicts, what is remembered, and the offsets of what was polled.
func (s *session) judge(records map[int32][]*kgo.Record) error {
	s.mu.Lock()
	mine := maps.Clone(s.partitions)
	s.mu.Unlock()
	var out []*kgo.Record
	var changes []*change
	var t tally
	for _, id := range slices.Sorted(maps.Keys(records)) {
		if mine[id] == nil {
			return fmt.Errorf("partition %d was lost in the middle of a batch", id)
		}
		c := mine[id].change(id)
		verdicts, err := c.judge(s.config.Rules, s.config.Topics.Verdicts(), records[id], &t)
		if err != nil {
			return err
		}
		states, err := c.records(s.config.Topics.FraudState())
		if err != nil {
			return err
		}
		out, changes = append(append(out, verdicts...), states...), append(changes, c)
	}
	if err := s.transact(out); err != nil {
		return err
	}
	// From here all of it is true.
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		c.apply()
	}
	s.count()
	s.metrics.came(t)
	if t.unreadable > 0 {
		s.log.Error("events could not be read, and are flagged for it", "events", t.unreadable)
	}
	return nil
}
