package inbox_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/ledger/inbox"
)

// A handler of many events at once gets those of a batch that are new, in their order. If one of them is at fault the others have their effects
// without it, and it is a letter.
func TestInbox_HandleAll(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	var mu sync.Mutex
	var calls [][]string
	config := b.config(nil)
	config.Handle, config.BatchSize, config.MaxAttempts = nil, 10, 2
	config.HandleAll = func(ctx context.Context, tx pgx.Tx, events []inbox.Event) error {
		var ids []string
		for _, e := range events {
			ids = append(ids, e.ID)
			if err := effect(ctx, tx, e); err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, ids)
		if slices.Contains(ids, "poison") {
			return inbox.Poison(errTest)
		}
		return nil
	}
	// One transaction in Kafka, so that they come in one poll: a duplicate, a poisoned one and two letters without a call.
	b.produce(t, slices.Concat(events(0, 4), events(2, 3), []*kgo.Record{event("poison"), event("no", without("ce_time"))}, events(4, 9), events(9, 20))...)
	start(t, config)
	b.wantLetters(t, "poison poison open", "no malformed open")
	b.wantEffects(t, "wallet", names(0, 20)...)
	mu.Lock()
	defer mu.Unlock()
	most := 0
	for _, ids := range calls {
		most = max(most, len(ids))
		if len(slices.Compact(slices.Clone(ids))) != len(ids) {
			t.Errorf("a call has an event twice: %q", ids)
		}
	}
	if most < 5 || len(calls) > 16 {
		t.Errorf("%d calls, of %d events at most: they are not handled together", len(calls), most)
	}
}

// A letter is handled again by itself.
func TestInbox_HandleAllReplay(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	var mu sync.Mutex
	mended := false
	config := b.config(nil)
	config.Handle, config.MaxAttempts = nil, 1
	config.HandleAll = func(ctx context.Context, tx pgx.Tx, events []inbox.Event) error {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range events {
			if e.ID == name(3) && !mended {
				return errTest
			}
			if err := effect(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	}
	b.produce(t, events(0, 6)...)
	start(t, config)
	b.wantLetters(t, "event-3 failed open")
	mu.Lock()
	mended = true
	mu.Unlock()
	if n, err := inbox.RequestReplay(t.Context(), b.pool, inbox.Selection{Consumer: "wallet"}); n != 1 || err != nil {
		t.Fatalf("%d letters, %v", n, err)
	}
	b.wantLetters(t, "event-3 failed replayed")
	b.wantEffects(t, "wallet", slices.Concat(names(0, 3), names(4, 6), names(3, 4))...)
}

// Who is asked about lost events can end the run, or make up for them and have it go on.
func TestRun_OnLost(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	config := b.config(effect)
	b.produce(t, events(0, 5)...)
	stop := start(t, config)
	b.drained(t, "wallet")
	stop()
	b.produce(t, events(5, 15)...)
	if err := b.fake.DeleteRecords(topic, 0, 9); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var asked []inbox.LostError
	answer := errTest
	config.OnLost = func(_ context.Context, lost *inbox.LostError) error {
		asked = append(asked, *lost)
		return answer
	}
	if err := open(t, config).Run(ctx); !errors.Is(err, errTest) {
		t.Fatalf("%v", err)
	}
	answer = nil
	stop = start(t, config)
	b.drained(t, "wallet")
	stop()
	lost := inbox.LostError{Topic: topic, Partition: 0, Next: 5, Start: 9, End: 15, Group: "wallet"}
	if diff := cmp.Diff([]inbox.LostError{lost, lost}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(slices.Concat(names(0, 5), names(9, 15)), b.effects(t)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}
