package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger/inbox"
)

var wallet = inbox.Selection{Consumer: "wallet"}

func (b *bench) replay(t testing.TB, which inbox.Selection, want int) {
	t.Helper()
	n, err := inbox.RequestReplay(t.Context(), b.pool, which)
	if err != nil {
		t.Fatal(err)
	}
	if n != want {
		t.Errorf("%d letters were asked for, not %d", n, want)
	}
}

// Two Inboxes run, and everything is asked for twice, while commits lose their answers: each letter has its effect once, in the order of its key.
func TestLetters_ReplayedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	var healed atomic.Bool
	config := b.config(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		if !healed.Load() {
			return inbox.Poison(errTest)
		}
		time.Sleep(2 * time.Millisecond)
		return effect(ctx, tx, e)
	})
	config.BatchSize = 10
	faults := pgtest.NewFaults(t)
	through := b.db.Through(t, faults)
	for range 2 {
		config.Pool = connect(t, through)
		start(t, config)
	}
	for i := range 60 {
		b.produce(t, event(name(i), on(i%2), key(fmt.Sprint("k", i%2))))
	}
	b.drained(t, "wallet")
	if n := len(b.letters(t)); n != 60 {
		t.Fatalf("%d letters", n)
	}
	healed.Store(true)
	b.replay(t, inbox.Selection{Consumer: "wallet", EventIDs: []string{name(0), name(7), "no"}}, 2)
	b.replay(t, inbox.Selection{Consumer: "another"}, 0)
	faults.CutAfterCommit(2)
	asked, err := inbox.RequestReplay(t.Context(), b.pool, wallet)
	if err != nil || asked < 57 || asked > 59 {
		t.Errorf("asked for %d: %v", asked, err)
	}
	b.replay(t, wallet, 0)
	waitFor(t, "all to be replayed", func() error {
		if i := slices.IndexFunc(b.letters(t), func(l string) bool { return l[len(l)-8:] != "replayed" }); i >= 0 {
			return fmt.Errorf("%s", b.letters(t)[i])
		}
		return nil
	})
	b.replay(t, wallet, 0)
	time.Sleep(100 * time.Millisecond)
	for p := range 2 {
		got := texts(t, b.pool, `SELECT event_id FROM effect WHERE partition = $1 AND event_id NOT IN ('event-0', 'event-7') ORDER BY n`, p)
		var of []string
		for i := p; i < 60; i += 2 {
			if i != 0 && i != 7 {
				of = append(of, name(i))
			}
		}
		if diff := cmp.Diff(of, got); diff != "" {
			t.Errorf("effects of partition %d (-want +got):\n%s", p, diff)
		}
	}
	if got := b.effects(t); len(got) != 60 {
		t.Errorf("%d effects", len(got))
	}
	list, err := inbox.Letters(t.Context(), b.pool, inbox.Selection{Limit: 1, After: 2})
	if err != nil || len(list) != 1 || list[0].Number != 3 || list[0].RequestedAt.IsZero() || list[0].SettledAt.IsZero() || list[0].Attempts != 2 {
		t.Errorf("%v %+v", err, list)
	}
}

// A letter that fails again is open again, and says why; a transient error leaves it asked for; discarding ends it.
func TestLetters_FailAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	var say atomic.Value
	say.Store(inbox.Poison(errTest))
	config := b.config(func(context.Context, pgx.Tx, inbox.Event) error { return say.Load().(error) })
	start(t, config)
	b.produce(t, event("a"), event("b"))
	b.wantLetters(t, "a poison open", "b poison open")
	say.Store(inbox.Poison(fmt.Errorf("still not: %w", errTest)))
	b.replay(t, inbox.Selection{Consumer: "wallet", EventIDs: []string{"a"}}, 1)
	waitFor(t, "a to fail again", func() error {
		list, err := inbox.Letters(t.Context(), b.pool, inbox.Selection{EventIDs: []string{"a"}})
		if err != nil {
			return err
		}
		l := list[0]
		return unless(l.State == inbox.Open && l.Attempts == 2 && l.Error == "still not: the handler says no", l)
	})
	for _, reason := range []string{"", "\x00"} {
		if _, err := inbox.Discard(t.Context(), b.pool, wallet, reason); err == nil {
			t.Errorf("discarded for %q", reason)
		}
	}
	if _, err := inbox.Discard(t.Context(), b.pool, inbox.Selection{}, "all"); err == nil {
		t.Error("discarded without a consumer")
	}
	if n, err := inbox.Discard(t.Context(), b.pool, inbox.Selection{Consumer: "wallet", EventIDs: []string{"a"}}, "paid by hand"); n != 1 || err != nil {
		t.Errorf("discarded %d: %v", n, err)
	}
	b.replay(t, wallet, 1)
	b.wantLetters(t, "a poison discarded", "b poison open")
	list, err := inbox.Letters(t.Context(), b.pool, inbox.Selection{States: []inbox.State{inbox.Discarded}})
	if err != nil || len(list) != 1 || list[0].Note != "paid by hand" || list[0].SettledAt.IsZero() {
		t.Errorf("%v %+v", err, list)
	}
}

// With KeepOrder the events of a key wait behind the one that failed, and go on by themselves when it is replayed or discarded; other keys, and
// events without one, do not wait.
func TestLetters_KeepOrder(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	var mu sync.Mutex
	bad := map[string]bool{"k1": true, "l1": true, "k4": true}
	config := b.config(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		mu.Lock()
		defer mu.Unlock()
		if bad[e.ID] {
			return errTest
		}
		return effect(ctx, tx, e)
	})
	config.KeepOrder, config.MaxAttempts = true, 1
	start(t, config)
	of := func(k string, numbers ...int) (list []*kgo.Record) {
		for _, i := range numbers {
			list = append(list, event(fmt.Sprint(k, i), key(k)))
		}
		return list
	}
	b.produce(t, slices.Concat(of("k", 0, 1, 2), of("l", 1), of("m", 1), of("k", 3), []*kgo.Record{event("none")}, of("l", 2), of("k", 4, 5))...)
	b.wantEffects(t, "wallet", "k0", "m1", "none")
	b.wantLetters(t, "k1 failed open", "k2 behind open", "l1 failed open", "k3 behind open", "l2 behind open", "k4 behind open", "k5 behind open")

	// Asking for one in the middle does not bring it past the first.
	b.replay(t, inbox.Selection{Consumer: "wallet", EventIDs: []string{"k2"}}, 1)
	if n, err := inbox.Discard(t.Context(), b.pool, inbox.Selection{Consumer: "wallet", EventIDs: []string{"l1"}}, "not wanted"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	b.wantLetters(t, "k1 failed open", "k2 behind requested", "l1 failed discarded", "k3 behind open", "l2 behind replayed", "k4 behind open", "k5 behind open")
	b.produce(t, of("l", 3)...)
	b.wantEffects(t, "wallet", "k0", "m1", "none", "l2", "l3")

	mu.Lock()
	delete(bad, "k1")
	mu.Unlock()
	b.replay(t, inbox.Selection{Consumer: "wallet", EventIDs: []string{"k1"}}, 1)
	// k4 fails by itself now, and holds k5.
	b.wantLetters(t, "k1 failed replayed", "k2 behind replayed", "l1 failed discarded", "k3 behind replayed", "l2 behind replayed", "k4 failed open", "k5 behind open")
	mu.Lock()
	delete(bad, "k4")
	mu.Unlock()
	b.produce(t, of("k", 6)...)
	b.drained(t, "wallet")
	b.replay(t, inbox.Selection{Consumer: "wallet", EventIDs: []string{"k4"}}, 1)
	b.wantLetters(t, "k1 failed replayed", "k2 behind replayed", "l1 failed discarded", "k3 behind replayed", "l2 behind replayed", "k4 failed replayed",
		"k5 behind replayed", "k6 behind replayed")
	b.produce(t, of("k", 7)...)
	b.wantEffects(t, "wallet", "k0", "m1", "none", "l2", "l3", "k1", "k2", "k3", "k4", "k5", "k6", "k7")
}

// A dead letter within a batch holds what is behind it in the same batch.
func TestLetters_KeepOrderInBatch(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	config := b.config(effect)
	config.KeepOrder = true
	b.produce(t, event("a", key("k"), ago(-48*time.Hour)), event("b", key("k")), event("c"), event("old", key("l"), ago(20*day)), event("d", key("l")))
	start(t, config)
	b.wantLetters(t, "a future open", "b behind open", "old too_old open")
	b.wantEffects(t, "wallet", "c", "d")
}

// The quarantine is opened only by whoever says so.
func TestLetters_TooOld(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	start(t, b.config(effect))
	b.produce(t, event("old", ago(16*day)), event("young", ago(14*day)))
	b.wantLetters(t, "old too_old open")
	b.replay(t, wallet, 0)
	b.replay(t, inbox.Selection{Consumer: "wallet", EventIDs: []string{"old"}}, 0)
	b.replay(t, inbox.Selection{Consumer: "wallet", Reasons: []inbox.Reason{inbox.Failed, inbox.TooOld}}, 1)
	b.wantLetters(t, "old too_old replayed")
	for _, again := range []*kgo.Record{event("old", ago(16*day)), event("old")} {
		b.produce(t, again)
		b.wantEffects(t, "wallet", "young", "old")
	}
}
