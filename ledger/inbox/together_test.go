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

// A consumer without markers is given every delivery, however old; its letters absorb, and keep the order, as those of others.
func TestInbox_NoMarkers(t *testing.T) {
	t.Parallel()
	b := setupWith(t, 1, map[string]string{"retention.ms": "-1"})
	var mu sync.Mutex
	given := map[string]int{}
	config := b.config(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		mu.Lock()
		given[e.ID]++
		mu.Unlock()
		if e.ID == "poison" {
			return inbox.Poison(errTest)
		}
		return effect(ctx, tx, e)
	})
	config.NoMarkers, config.KeepOrder = true, true
	b.produce(t, event("a"), event("old", ago(300*day)), event("poison", key("k")), event("behind", key("k")), event("b", key("other")))
	stop := start(t, config)
	b.wantLetters(t, "poison poison open", "behind behind open")
	b.drained(t, "wallet")
	stop()
	b.rewind(t, "wallet")
	stop = start(t, config)
	b.drained(t, "wallet")
	stop()
	b.wantLetters(t, "poison poison open", "behind behind open")
	if diff := cmp.Diff([]string{"a", "old", "b", "a", "old", "b"}, b.effects(t)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	mu.Lock()
	defer mu.Unlock()
	if given["behind"] != 0 || given["poison"] > 2 {
		t.Errorf("%v", given)
	}
}

// A consumer that can make up for what is lost believes its database: one that knows nothing of a partition asks, also where Kafka knows of the
// group; and one that was restored goes back.
func TestRun_OwnProgress(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	asked := 0
	config := b.config(effect)
	config.OnLost = func(context.Context, *inbox.LostError) error {
		asked++
		return nil
	}
	run := func() {
		t.Helper()
		stop := start(t, config)
		b.drained(t, "wallet")
		stop()
	}
	b.produce(t, events(0, 10)...)
	run() // The topic has its beginning, so nothing is lost.
	if asked != 0 {
		t.Errorf("asked %d times about a partition that has everything", asked)
	}
	backup := b.effects(t)
	progress := texts(t, b.pool, `SELECT next_offset::text FROM khata_inbox.progress`)
	b.produce(t, events(10, 20)...)
	run()
	// The database goes back to a backup.
	b.db.Exec(t, `DELETE FROM effect WHERE event_id NOT IN (SELECT unnest($1::text[]))`, backup)
	b.db.Exec(t, `DELETE FROM khata_inbox.marker WHERE event_id NOT IN (SELECT unnest($1::text[]))`, backup)
	b.db.Exec(t, `UPDATE khata_inbox.progress SET next_offset = $1::text::bigint`, progress[0])
	b.produce(t, events(20, 22)...)
	run()
	if diff := cmp.Diff(names(0, 22), b.effects(t)); diff != "" || asked != 0 {
		t.Errorf("asked %d times; effects (-want +got):\n%s", asked, diff)
	}
	// Another group, and a topic that has lost its beginning.
	if err := b.fake.DeleteRecords(topic, 0, 15); err != nil {
		t.Fatal(err)
	}
	config.Group = "another"
	stop := start(t, config)
	b.drained(t, "another")
	stop()
	if asked != 1 {
		t.Errorf("another group was asked %d times", asked)
	}
	// A new database in the old group.
	b.db.Exec(t, `DELETE FROM khata_inbox.progress`)
	config.Group = ""
	b.produce(t, event("last"))
	run()
	if asked != 2 {
		t.Errorf("a new database was asked %d times", asked-1)
	}
	run() // It knows now.
	if asked != 2 {
		t.Errorf("it is asked again")
	}
}
