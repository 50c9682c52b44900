package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/kafkatest"
)

// TestStorm_KillEvents kills relays, consumers and the broker with SIGKILL while transfers are posted, one of them and several at once, and has
// consumers come and go. In the end every record is on the topics, under one id and in the order of its keys, and has had its effect once.
func TestStorm_KillEvents(t *testing.T) {
	turns := count(4, 40)
	s := seed(t)
	b := newEventBench(t, kafkatest.Start(t, 1))
	ctx, cancel := stormLimit(t)
	defer cancel()
	for range 2 {
		b.startRelay(t)
		b.startConsumer(t)
	}
	p := b.startPosting(t, workload{s})
	r := random(s, 1000)
	for i := range turns {
		b.advance(ctx, t, 200+r.Int64N(200)) // Under load, at a place of nobody's choosing.
		switch i % 5 {
		case 0:
			b.rebalance(ctx, t)
		case 1:
			b.killConsumer(t)
		case 2:
			b.restartBroker(t, r)
		case 3:
			b.killLeader(ctx, t)
		case 4: // All at once.
			for range b.relays {
				b.killRelay(t, 0)
			}
			b.restartBroker(t, r)
		}
	}
	b.advance(ctx, t, 200)
	p.stop(t)
	b.finish(ctx, t, p)
}

// rebalance has one consumer more, until the group has agreed on who has which partition, and then one less.
func (b *eventBench) rebalance(ctx context.Context, t *testing.T) {
	t.Helper()
	b.startConsumer(t)
	b.joined(ctx, t, len(b.consumers))
	b.advance(ctx, t, 100)
	leaver := b.consumers[0]
	b.consumers = b.consumers[1:]
	leaver.stop(t, syscall.SIGTERM)
}

// killConsumer kills the consumer that has lived the longest, and starts another one. The group waits for the dead one for 10 seconds.
func (b *eventBench) killConsumer(t *testing.T) {
	t.Helper()
	b.consumers[0].kill()
	b.consumers = b.consumers[1:]
	b.startConsumer(t)
}

// killLeader kills the relay that works when it has published and not moved its cursor, and starts another one.
func (b *eventBench) killLeader(ctx context.Context, t *testing.T) {
	t.Helper()
	at, term := b.leader(ctx, t)
	r := b.relays[at]
	r.holdCommit(t, eventPatience)
	b.killRelay(t, at)
	r.faults.CutAll()
	if _, next := b.leader(ctx, t); next <= term {
		t.Errorf("term %d comes after %d", next, term)
	}
}

func (b *eventBench) killRelay(t *testing.T, at int) {
	t.Helper()
	b.relays[at].kill()
	b.relays = slices.Delete(b.relays, at, at+1)
	b.startRelay(t)
}

// restartBroker kills the broker, and starts it again on the same data.
func (b *eventBench) restartBroker(t *testing.T, r *rand.Rand) {
	t.Helper()
	b.cluster.Kill(t, 1)
	time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
	b.cluster.Restart(t, 1)
}

// TestStorm_FrozenRelay stops the relay that works with SIGSTOP, lets another one take over, and lets it go on: it has lost its term, and nothing
// that it still does counts.
func TestStorm_FrozenRelay(t *testing.T) {
	freezes := count(2, 18)
	s := seed(t)
	b := newEventBench(t, kafkatest.Shared(t))
	ctx, cancel := stormLimit(t)
	defer cancel()
	for range 2 {
		b.startRelay(t)
	}
	p := b.startPosting(t, workload{s})
	r := random(s, 1000)
	for i := range freezes {
		b.advance(ctx, t, 200+r.Int64N(200))
		at, term := b.leader(ctx, t)
		frozen := b.relays[at]
		gaveUp := frozen.gaveUp.Load()
		var release func()
		switch i % 3 {
		case 0:
			release = frozen.freezeBetween(t)
		case 1:
			release = frozen.freezeCommitting(t)
		case 2:
			release = frozen.freeze(t)
		}
		stood := time.Now()
		b.until(t, "another relay has taken over", func() (bool, string) {
			s := b.status(ctx, t)
			return s.Term > term && s.LeaseLeft > 0, fmt.Sprintf("%+v", s)
		})
		took := time.Since(stood).Round(time.Millisecond)
		if t.Logf("taken over after %v", took); took > promisedTakeover {
			t.Errorf("it took %v until another relay had taken over", took)
		}
		b.advance(ctx, t, 200)
		_, nextTerm := b.leader(ctx, t)
		signalAll(t, syscall.SIGCONT, frozen.pid())
		b.until(t, "the relay that stood still knows that it has lost its lease", func() (bool, string) {
			return frozen.gaveUp.Load() > gaveUp, frozen.printed()
		})
		release()
		if _, now := b.leader(ctx, t); now != nextTerm {
			t.Errorf("the one that was frozen has ended term %d: it is %d now", nextTerm, now)
		}
	}
	b.advance(ctx, t, 200)
	p.stop(t)
	b.finish(ctx, t, p)
}

// freeze stops the relay wherever it is.
func (r *relayProcess) freeze(t *testing.T) (release func()) {
	t.Helper()
	signalAll(t, syscall.SIGSTOP, r.pid())
	return func() {}
}

// freezeCommitting stops the relay when it has published and is to move its cursor: in a transaction that holds its lease against everybody.
func (r *relayProcess) freezeCommitting(t *testing.T) (release func()) {
	t.Helper()
	r.holdCommit(t, eventPatience)
	r.freeze(t)
	return r.faults.CutAll
}

// freezeBetween stops the relay when its cursor is moved and it has the next events in its hands; nothing more that comes from its database will
// tell it, when it goes on, that they are not its own to publish any more.
func (r *relayProcess) freezeBetween(t *testing.T) (release func()) {
	t.Helper()
	const held = 300 * time.Millisecond
	r.holdCommit(t, held)
	r.freeze(t)
	time.Sleep(2 * held) // The answer comes, and is not read.
	return r.faults.Freeze()
}

// promisedTakeover is for a lease of 5 seconds, and one that has stopped with a transaction open: PostgreSQL ends that after 10 seconds.
const promisedTakeover = 20 * time.Second

// TestStorm_ThreeBrokers kills the leader of a partition while transfers are posted and published, of three brokers that have each record
// twice at least, and later starts it again.
func TestStorm_ThreeBrokers(t *testing.T) {
	kills := count(1, 10)
	s := seed(t)
	b := newEventBench(t, kafkatest.Start(t, 3))
	ctx, cancel := stormLimit(t)
	defer cancel()
	for range 2 {
		b.startRelay(t)
		b.startConsumer(t)
	}
	p := b.startPosting(t, workload{s})
	r := random(s, 1000)
	for i := range kills {
		b.advance(ctx, t, 200+r.Int64N(200))
		topic := b.topics.Names()[i%2]
		leader := b.cluster.Leader(t, topic, r.IntN(eventPartitions))
		if leader == 0 {
			t.Fatalf("a partition of %s has no leader, and nothing is broken", topic)
		}
		b.cluster.Kill(t, leader)
		b.advance(ctx, t, 200+r.Int64N(200)) // Two are enough.
		b.cluster.Restart(t, leader)
	}
	b.advance(ctx, t, 200)
	p.stop(t)
	b.finish(ctx, t, p)
}
