package inbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger/inbox"
)

// TestInbox_Once delivers every event three times while members come and go, connections are cut in and after commits, and backends are
// killed. Each has its effect once, and the first deliveries of a partition give its order.
func TestInbox_Once(t *testing.T) {
	t.Parallel()
	const partitions, each, deliveries = 6, 150, 3
	b := setup(t, partitions)
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable on purpose
	want := map[int][]string{}
	feed := make(map[int][]*kgo.Record)
	for p := range partitions {
		for i := range each {
			feed[p] = append(feed[p], events(p*each+i, p*each+i+1, on(p))...)
			want[p] = append(want[p], name(p*each+i))
		}
		for range deliveries - 1 {
			for _, again := range feed[p][:each] {
				// After the first delivery, at a distance of some batches or none.
				copied := *again
				at := slices.Index(feed[p], again) + 1
				at += r.IntN(len(feed[p]) - at + 1)
				feed[p] = slices.Insert(feed[p], at, &copied)
			}
		}
	}
	faults := pgtest.NewFaults(t)
	through := b.db.Through(t, faults)
	config := b.config(effect)
	config.BatchSize = 20
	member := func() (stop func()) {
		c := config
		c.Pool = connect(t, through)
		return start(t, c)
	}
	stops := []func(){member(), member()}
	for len(feed) > 0 {
		for p := range feed {
			n := min(len(feed[p]), 40)
			b.produce(t, feed[p][:n]...)
			if feed[p] = feed[p][n:]; len(feed[p]) == 0 {
				delete(feed, p)
			}
		}
		switch r.IntN(5) {
		case 0:
			faults.CutBeforeCommit(2)
		case 1:
			faults.CutAfterCommit(2)
		case 2:
			b.db.KillBackends(t)
		case 3:
			stops = append(stops, member())
		case 4:
			if len(stops) > 1 {
				stops[0]()
				stops = stops[1:]
			}
		}
		time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
	}
	b.drained(t, "wallet")
	for _, stop := range stops {
		stop()
	}
	b.pool.Reset()
	for p := range partitions {
		if diff := cmp.Diff(want[p], texts(t, b.pool, `SELECT event_id FROM effect WHERE partition = $1 ORDER BY n`, p)); diff != "" {
			t.Errorf("effects of partition %d (-want +got):\n%s", p, diff)
		}
	}
	if got := b.letters(t); got != nil {
		t.Errorf("letters: %q", got)
	}
}

// Two groups under one consumer are what a member and its zombie are: each gets every event, at the same time.
func TestInbox_TwoAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	config := b.config(effect)
	config.BatchSize = 7
	start(t, config)
	config.Group, config.BatchSize = "zombie", 5
	start(t, config)
	for i := range 20 {
		b.produce(t, append(events(i*20, i*20+10), events(i*20+10, i*20+20, on(1))...)...)
	}
	b.drained(t, "wallet")
	b.drained(t, "zombie")
	got := b.effects(t)
	slices.Sort(got)
	want := names(0, 400)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// The producer's database was restored from an older backup, and the same event was recorded anew: it has another time, and even stands in
// another partition, delivered at the same moment.
func TestInbox_AnotherTime(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	config := b.config(effect)
	config.BatchSize = 1
	stop := start(t, config)
	b.produce(t, event("a", ago(9*day)))
	b.drained(t, "wallet")
	b.produce(t, event("a", ago(2*day)), event("a"), event("a", ago(30*day)), event("a", on(1), ago(9*day+12*time.Hour)), event("b", ago(3*day)), event("b"))
	b.wantEffects(t, "wallet", "a", "b")
	stop()

	// The first delivery holds its transaction open until the other partition has begun with its own.
	var begun atomic.Int32
	config.Handle = func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		begun.Add(1)
		time.Sleep(300 * time.Millisecond)
		return effect(ctx, tx, e)
	}
	b.produce(t, event("c", ago(5*day)), event("c", on(1), ago(time.Hour)))
	start(t, config)
	b.wantEffects(t, "wallet", "a", "b", "c")
	if n := begun.Load(); n != 1 {
		t.Errorf("the handler had it %d times", n)
	}
	if got := b.letters(t); got != nil {
		t.Errorf("letters: %q", got)
	}
}

// Both forms of a commit without an answer: what was not applied is done, what was applied is not done again.
func TestInbox_UnknownCommit(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*pgtest.Faults){
		"not applied": func(f *pgtest.Faults) { f.CutBeforeCommit(3) },
		"applied":     func(f *pgtest.Faults) { f.CutAfterCommit(3) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			faults := pgtest.NewFaults(t)
			config := b.config(effect)
			config.Pool = connect(t, b.db.Through(t, faults))
			config.BatchSize = 10
			in := open(t, config)
			cut(faults)
			b.produce(t, events(0, 40)...)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- in.Run(ctx) }()
			b.wantEffects(t, "wallet", names(0, 40)...)
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if faults.Cuts() != 3 {
				t.Errorf("%d connections were cut", faults.Cuts())
			}
		})
	}
}

// A member whose network freezes inside its transaction stops its successor for some seconds only. When it thaws nothing happens twice.
func TestInbox_FrozenInTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	faults := pgtest.NewFaults(t)
	inside, goOn := make(chan struct{}), make(chan struct{})
	zombie := b.config(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		err := effect(ctx, tx, e)
		inside <- struct{}{}
		<-goOn
		return err
	})
	zombie.Pool = connect(t, b.db.Through(t, faults))
	zombie.Group, zombie.HandleTimeout = "zombie", 2*time.Second
	b.produce(t, event("a"), event("b"))
	stop := start(t, zombie)
	<-inside
	thaw := faults.Freeze()
	frozen := time.Now()
	config := b.config(effect)
	start(t, config)
	b.wantEffects(t, "wallet", "a", "b")
	if took := time.Since(frozen); took < 2*time.Second || took > 15*time.Second {
		t.Errorf("the successor needed %v", took)
	}
	thaw()
	close(goOn)
	go func() {
		for range inside { // Whoever comes again may pass.
			continue
		}
	}()
	b.wantEffects(t, "zombie", "a", "b")
	stop()
	close(inside)
}

// Offsets are turned back to the beginning: inside the window nothing changes.
func TestInbox_ReplayInsideWindow(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	for p := range 3 {
		b.produce(t, events(p*30, p*30+30, on(p), ago(time.Duration(p*7)*day))...)
	}
	config := b.config(effect)
	stop := start(t, config)
	b.drained(t, "wallet")
	stop()
	before := b.effects(t)
	if len(before) != 90 {
		t.Fatalf("%d effects", len(before))
	}
	b.rewind(t, "wallet")
	start(t, config)
	b.wantEffects(t, "wallet", before...)
	if got := b.letters(t); got != nil {
		t.Errorf("letters: %q", got)
	}
}

// The group has gone on without this member: its commits are refused, it goes on, and the events that come again are absorbed.
func TestInbox_CommitRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	refused := b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Count: 2, Err: kerr.UnknownMemberID})
	b.produce(t, events(0, 10)...)
	config := b.config(effect)
	stop := start(t, config)
	waitFor(t, "the first effects", func() error {
		if n := len(b.effects(t)); n != 10 {
			return fmt.Errorf("%d effects", n)
		}
		return nil
	})
	b.produce(t, events(10, 20)...)
	waitFor(t, "two refused commits", func() error {
		if hits := refused.Hits(); hits != 2 {
			return fmt.Errorf("%d refused", hits)
		}
		return nil
	})
	stop()
	start(t, config)
	b.wantEffects(t, "wallet", names(0, 20)...)
}

// What has begun when Run is told to end is finished and committed, and the group is left at once.
func TestInbox_Stop(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	inside := make(chan struct{}, 10)
	config := b.config(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		inside <- struct{}{}
		time.Sleep(200 * time.Millisecond)
		return effect(ctx, tx, e)
	})
	config.BatchSize = 3
	b.produce(t, events(0, 9)...)
	stop := start(t, config)
	<-inside
	stop()
	if diff := cmp.Diff(names(0, 3), b.effects(t)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	committed, err := b.admin.FetchOffsetsForTopics(t.Context(), "wallet", b.topic)
	if err != nil {
		t.Fatal(err)
	}
	if at, _ := committed.Lookup(b.topic, 0); at.At != 3 {
		t.Errorf("the offset is committed at %d", at.At)
	}
	if members := b.fake.GroupInfo("wallet").Members; len(members) != 0 {
		t.Errorf("%d members are left", len(members))
	}
}

// What others have committed must be as safe as they believe it to be before the offset moves on for it: a transaction of nothing but duplicates
// writes something, whose commit waits for theirs.
func TestInbox_DuplicatesAreWritten(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	config := b.config(effect)
	b.produce(t, events(0, 50)...)
	stop := start(t, config)
	b.drained(t, "wallet")
	stop()
	b.rewind(t, "wallet")
	config.BatchSize = 1
	before := b.transactions(t)
	start(t, config)
	b.wantEffects(t, "wallet", names(0, 50)...)
	if n := b.transactions(t) - before; n < 50 {
		t.Errorf("%d transactions wrote something", n)
	}
}

// transactions counts the transactions of the database that have written something, this one included.
func (b *bench) transactions(t testing.TB) (n int) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text::bigint").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Records of transactions that were aborted, or are still open, are not there.
func TestInbox_ReadCommitted(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	producer, err := kgo.NewClient(kgo.SeedBrokers(b.seeds...), kgo.DefaultProduceTopic(topic), kgo.TransactionalID("producer"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	in := func(end kgo.TransactionEndTry, records ...*kgo.Record) {
		t.Helper()
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := producer.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := producer.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	in(kgo.TryCommit, event("a"))
	in(kgo.TryAbort, event("no"))
	in(kgo.TryCommit, event("b"))
	start(t, b.config(effect))
	waitFor(t, "both", func() error { return unless(len(b.effects(t)) >= 2, b.effects(t)) })
	if diff := cmp.Diff([]string{"a", "b"}, b.effects(t)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}
