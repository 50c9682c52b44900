package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger/inbox"
)

// Events that cannot be handled, each in its way, among others that can: the others have their effects, and each of these its letter.
func TestInbox_DeadLetters(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.db.Exec(t, `CREATE TABLE late (id text UNIQUE DEFERRABLE INITIALLY DEFERRED); GRANT INSERT ON late TO khata_service; INSERT INTO late VALUES ('a')`)
	var mu sync.Mutex
	tries := map[string]int{}
	config := b.config(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		mu.Lock()
		tries[e.ID]++
		n := tries[e.ID]
		mu.Unlock()
		// Whatever comes of it, this must not stay.
		if err := effect(ctx, tx, e); err != nil {
			return err
		}
		switch e.Type {
		case "poison":
			return fmt.Errorf("decode: %w", inbox.Poison(errTest))
		case "fails":
			return errTest
		case "panics":
			panic("at the handler's")
		case "swallows":
			_, _ = tx.Exec(ctx, "SELECT 1/0")
		case "late":
			_, err := tx.Exec(ctx, "INSERT INTO late VALUES ('a')")
			return err
		case "commits":
			return tx.Commit(ctx)
		case "constraint":
			_, err := tx.Exec(ctx, "SELECT 'x'::integer")
			return err
		case "recovers":
			if n < 3 {
				return errTest
			}
		}
		return nil
	})
	config.MaxAttempts = 3
	registry := prometheus.NewRegistry()
	config.Registerer = registry
	good := func(i int) *kgo.Record { return event(name(i)) }
	kind := func(k string) *kgo.Record { return event(k, header("ce_type", k)) }
	noID := event("x", without("ce_id"))
	noID.Headers = append(noID.Headers, kgo.RecordHeader{Key: "raw\xff", Value: []byte{0, 0xff}}, kgo.RecordHeader{Key: "null"})
	noID.Value = []byte{0, 1, 0xfe}
	b.produce(t,
		good(0), kind("poison"), good(1), kind("fails"), good(2), kind("panics"), good(3), kind("swallows"), good(4), kind("late"), good(5),
		kind("commits"), good(6), kind("constraint"), good(7), kind("recovers"), good(8), noID, good(9),
		event("future", ago(-25*time.Hour)), good(10), event("soon", ago(-23*time.Hour)), good(11),
	)
	start(t, config)
	want := []string{"poison poison open", "fails failed open", "panics failed open", "swallows failed open", "late failed open", "commits failed open",
		"constraint failed open", "kafka:khata.transfers/0/17 malformed open", "future future open"}
	b.wantLetters(t, want...)
	b.wantEffects(t, "wallet", name(0), name(1), name(2), name(3), name(4), name(5), name(6), name(7), "recovers", name(8), name(9), name(10), "soon", name(11))

	mu.Lock()
	// Perhaps once in a batch, and then alone as often as may be.
	if tries["poison"] > 2 || tries["fails"] < 3 || tries["fails"] > 4 || tries["constraint"] < 3 || tries["constraint"] > 4 {
		t.Errorf("tries: %v", tries)
	}
	mu.Unlock()
	letters, err := inbox.Letters(t.Context(), b.pool, inbox.Selection{Reasons: []inbox.Reason{inbox.Failed, inbox.Malformed}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"the handler says no", "the handler panicked: at the handler's\ngoroutine", "a statement of the handler failed", "late_id_key",
		"the transaction is the inbox's", `"x"`, "it has no ce_id",
	} {
		if !strings.Contains(letters[i].Error, want) {
			t.Errorf("%s: %s", letters[i].Event.ID, letters[i].Error)
		}
	}
	if l := letters[0]; l.Attempts != 3 || l.Event.Offset != 3 || l.Event.Topic != topic || string(l.Event.Data) != "data of fails" || l.Event.Type != "fails" ||
		time.Since(l.RecordedAt) > time.Minute || !l.SettledAt.IsZero() {
		t.Errorf("%+v", l)
	}
	// A record comes back as it was, whatever bytes it had.
	malformed := letters[len(letters)-1].Event
	if diff := cmp.Diff(noID.Headers, malformed.Headers); diff != "" || !slices.Equal(malformed.Data, noID.Value) {
		t.Errorf("headers (-want +got):\n%s\ndata %x", diff, malformed.Data)
	}
	for metric, want := range map[string]string{
		"khata_inbox_events_total handled": "14", "khata_inbox_events_total failed": "6", "khata_inbox_events_total future": "1",
		"khata_inbox_open_letters failed": "6", "khata_inbox_open_letters too_old": "0",
		"khata_inbox_lag_events 0 khata.transfers": "0", "khata_inbox_lost_events_total": "0",
	} {
		waitFor(t, metric, func() error {
			got, err := gather(registry)
			return errors.Join(err, unless(got[metric] == want, got[metric]))
		})
	}
}

// gather gives the counters and gauges of a registry, by name and the values of their labels but the consumer's.
func gather(registry *prometheus.Registry) (map[string]string, error) {
	values := map[string]string{}
	families, err := registry.Gather()
	for _, family := range families {
		for _, m := range family.Metric {
			name := family.GetName()
			for _, label := range m.Label {
				if label.GetName() != "consumer" {
					name += " " + label.GetValue()
				}
			}
			values[name] = fmt.Sprint(m.GetCounter().GetValue() + m.GetGauge().GetValue())
		}
	}
	return values, err
}

// A dead letter, like a marker, absorbs what comes again.
func TestInbox_DeadLetterOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	var calls atomic.Int32
	config := b.config(func(context.Context, pgx.Tx, inbox.Event) error {
		calls.Add(1)
		return inbox.Poison(errTest)
	})
	config.BatchSize = 1
	stop := start(t, config)
	malformed := event("", without("ce_time"))
	b.produce(t, event("a"), malformed, event("f", ago(-48*time.Hour)), event("old", ago(20*day)))
	want := []string{"a poison open", "kafka:khata.transfers/0/1 malformed open", "f future open", "old too_old open"}
	b.wantLetters(t, want...)
	b.drained(t, "wallet")
	stop()
	b.rewind(t, "wallet")
	stop = start(t, config)
	b.drained(t, "wallet")
	stop()
	b.wantLetters(t, want...)
	if n := calls.Load(); n != 1 {
		t.Errorf("the handler was called %d times", n)
	}
}

// Two producers that number their events from 1: the second event is not taken for the first, nor given an effect unseen.
func TestInbox_OtherSource(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	start(t, b.config(effect))
	b.produce(t, event("1"), event("2"), event("1", header("ce_source", "other")), event("1"), event("1", header("ce_source", "other")), event("3"))
	b.wantEffects(t, "wallet", "1", "2", "3")
	b.wantLetters(t, "1 other_source open")
}

// While a partition waits for something, the others go on, and so does the group.
func TestInbox_OnePartitionWaits(t *testing.T) {
	t.Parallel()
	b := setup(t, 3)
	var away atomic.Bool
	away.Store(true)
	var calls atomic.Int32
	config := b.config(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		if e.ID == name(5) {
			calls.Add(1)
			if away.Load() {
				return inbox.Transient(errTest)
			}
		}
		return effect(ctx, tx, e)
	})
	config.BatchSize, config.MaxAttempts = 4, 1
	start(t, config)
	b.produce(t, events(0, 10)...)
	waitFor(t, "the first tries", func() error { return unless(calls.Load() > 2, "too few") })
	b.produce(t, events(10, 20, on(1))...)
	waitFor(t, "another partition", func() error { return unless(len(b.effects(t)) == 14, b.effects(t)) })
	stop := start(t, config)
	b.produce(t, events(20, 30, on(2))...)
	waitFor(t, "the third partition, after a rebalance", func() error { return unless(len(b.effects(t)) == 24, b.effects(t)) })
	stop()
	if n := calls.Load(); n > 50 {
		t.Errorf("it was tried %d times, as if there were no pauses", n)
	}
	away.Store(false)
	b.drained(t, "wallet")
	if diff := cmp.Diff(names(0, 10), texts(t, b.pool, `SELECT event_id FROM effect WHERE partition = 0 ORDER BY n`)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	if got := b.letters(t); got != nil {
		t.Errorf("letters: %q", got)
	}
}

func unless(ok bool, got any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("got %v", got)
}

// The database goes away and comes back, several times: nothing becomes a dead letter.
func TestInbox_DatabaseAway(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	faults := pgtest.NewFaults(t)
	config := b.config(effect)
	config.Pool = connect(t, b.db.Through(t, faults))
	config.MaxAttempts, config.HandleTimeout, config.BatchSize = 1, 2*time.Second, 5
	start(t, config)
	// A handler that is late is asked about for 2 s more. A database that is back within those says that the handler is at fault: so it is back before
	// any is late, or after.
	for i, away := range []time.Duration{500 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second} {
		b.produce(t, events(i*20, i*20+10)...)
		thaw := faults.Freeze()
		b.produce(t, events(i*20+10, i*20+20)...)
		time.Sleep(away)
		faults.CutAll()
		thaw()
	}
	b.wantEffects(t, "wallet", names(0, 60)...)
	if got := b.letters(t); got != nil {
		t.Errorf("letters: %q", got)
	}
}

// A handler that takes too long fails, whether it heeds its context or not; many that take long together are given fewer events at once.
func TestInbox_Slow(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	config := b.config(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		switch e.Type {
		case "slow":
			_, err := tx.Exec(ctx, "SELECT pg_sleep(5)")
			return err
		case "deaf":
			time.Sleep(1300 * time.Millisecond)
			return errors.New("so late")
		}
		time.Sleep(60 * time.Millisecond)
		return effect(ctx, tx, e)
	})
	config.HandleTimeout, config.MaxAttempts = time.Second, 2
	b.produce(t, slices.Concat(events(0, 20), []*kgo.Record{event("s", header("ce_type", "slow")), event("d", header("ce_type", "deaf"))}, events(20, 25))...)
	start(t, config)
	b.wantLetters(t, "s failed open", "d failed open")
	b.wantEffects(t, "wallet", names(0, 25)...)
}

// Handlers that lock the same rows in different orders: the loser of a deadlock is tried again, and is no dead letter.
func TestInbox_Deadlocks(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.db.Exec(t, `CREATE TABLE tally (id integer PRIMARY KEY, n integer NOT NULL); INSERT INTO tally SELECT i, 0 FROM generate_series(0, 4) i;
		GRANT SELECT, UPDATE ON tally TO khata_service`)
	config := b.config(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		_, err := tx.Exec(ctx, "UPDATE tally SET n = n + 1 WHERE id = $1", (int(e.Offset)*(int(e.Partition)+1))%5)
		return err
	})
	config.MaxAttempts = 1
	for p := range 4 {
		b.produce(t, events(p*60, p*60+60, on(p))...)
	}
	start(t, config)
	b.drained(t, "wallet")
	if got := texts(t, b.pool, "SELECT sum(n)::text FROM tally"); got[0] != "240" {
		t.Errorf("%s effects", got)
	}
	if got := b.letters(t); got != nil {
		t.Errorf("letters: %q", got)
	}
}

// A pool that has chosen speed does not get it here.
func TestInbox_Settings(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	pool, err := pgxpool.ParseConfig(b.db.ServiceDSN())
	if err != nil {
		t.Fatal(err)
	}
	pool.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	pool.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // as it is behind some poolers
	config := b.config(nil)
	if config.Pool, err = pgxpool.NewWithConfig(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(config.Pool.Close)
	settings := make(chan []string, 2)
	config.Handle = func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		var s [5]string
		err := tx.QueryRow(ctx, `SELECT current_setting('synchronous_commit'), current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'),
			current_setting('transaction_isolation'), current_setting('enable_seqscan')`).Scan(&s[0], &s[1], &s[2], &s[3], &s[4])
		settings <- s[:]
		return errors.Join(err, effect(ctx, tx, e))
	}
	b.produce(t, event("a", key("k")), event("b", without("ce_id")))
	start(t, config)
	if diff := cmp.Diff([]string{"on", "2s", "6s", "read committed", "on"}, <-settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	b.wantEffects(t, "wallet", "a")
	b.wantLetters(t, "kafka:khata.transfers/0/1 malformed open")
}

// A handler that waits for a database that does not answer is late, and not at fault.
func TestInbox_LateForTheDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	faults := pgtest.NewFaults(t)
	registry := prometheus.NewRegistry()
	retries := func() string {
		values, err := gather(registry)
		if err != nil {
			t.Error(err)
		}
		return values["khata_inbox_retries_total road"]
	}
	var tries atomic.Int32
	config := b.config(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		if tries.Add(1) <= 2 {
			thaw, before := faults.Freeze(), retries()
			go func() {
				// It is silent until the try is given up, for which the inbox asks it whether it is there. Longer than this it need not be.
				for end := time.Now().Add(20 * time.Second); retries() == before && time.Now().Before(end); {
					time.Sleep(10 * time.Millisecond)
				}
				faults.CutAll()
				thaw()
			}()
		}
		return effect(ctx, tx, e)
	})
	config.Pool, config.Registerer = connect(t, b.db.Through(t, faults)), registry
	config.HandleTimeout, config.MaxAttempts = 1500*time.Millisecond, 2
	b.produce(t, event("a"))
	start(t, config)
	b.wantEffects(t, "wallet", "a")
	if got := b.letters(t); got != nil || tries.Load() != 3 {
		t.Errorf("letters: %q after %d tries", got, tries.Load())
	}
}

// Events that lose a race together are tried alone, each with fewer locks.
func TestInbox_LostRaces(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	var last string
	config := b.config(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		var transaction string
		if err := tx.QueryRow(ctx, "SELECT pg_current_xact_id()::text").Scan(&transaction); err != nil {
			return err
		}
		if transaction == last {
			return fmt.Errorf("the second in a transaction: %w", &pgconn.PgError{Code: "40P01"})
		}
		last = transaction
		return effect(ctx, tx, e)
	})
	b.produce(t, events(0, 20)...)
	start(t, config)
	b.wantEffects(t, "wallet", names(0, 20)...)
}
