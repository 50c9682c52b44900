package relay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/kafkatest"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/ledger"
)

// A relay whose time is over, and that makes a new client in the middle of its work, fences the one that works: but publishes nothing.
func TestRelay_ZombieBeginsAnew(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.relay(t, "two", nil)
	w.post(t, move("t1", "cash", "wallet:a", "1"))
	w.caughtUp(t)
	records, err := w.Feed().Records(t.Context(), 1, 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	zombie := relay.New(w.config(t, "one"))
	if err := zombie.PublishInTerm(t.Context(), w.status(t).Term-1, main, records); !errors.Is(err, relay.ErrDeposed) {
		t.Errorf("it says %v", err)
	}
	w.post(t, move("t2", "cash", "wallet:a", "1"))
	w.caughtUp(t)
	if again := w.check(t); again != 0 {
		t.Errorf("%d events came again", again)
	}
}

// alter sets the largest batch of both topics.
func (w *world) alter(t *testing.T, bytes string) {
	t.Helper()
	if _, err := kadm.NewClient(w.cluster.Client(t)).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "max.message.bytes", Value: &bytes}},
		w.topics.Transfers, w.topics.Accounts); err != nil {
		t.Fatal(err)
	}
}

// parkSome has a transfer that is too large for the topics, and others behind it.
func parkSome(t *testing.T, w *world, behind int) {
	t.Helper()
	big := move("big", "cash", "wallet:a", "1")
	big.Description = noise(1000)
	w.post(t, big)
	for i := range behind {
		w.post(t, move(fmt.Sprintf("behind%d", i), "cash", "wallet:b", "1"))
	}
	w.caughtUp(t)
}

func (w *world) parked(t *testing.T) (places map[string]int) {
	t.Helper()
	list, err := relay.ListParked(context.Background(), w.pool, false)
	if err != nil {
		t.Fatal(err)
	}
	places = map[string]int{}
	for _, p := range list {
		places[p.Key]++
	}
	return places
}

// Many events wait behind one. When it goes, they go, in order, and nobody else waits for them meanwhile.
func TestRelay_ManyBehind(t *testing.T) {
	t.Parallel()
	w := setupOn(t, kafkatest.Start(t, 1), map[string]string{"max.message.bytes": "1200"})
	w.relay(t, "one", nil)
	parkSome(t, w, 150)
	if got := w.parked(t); got["main/cash"] != 151 || got["main/wallet:a"] != 1 || got["main/big"] != 1 || len(got) != 3 {
		t.Fatalf("parked: %v", got)
	}
	w.alter(t, "100000")
	w.until(t, "nothing is parked", func() (bool, string) {
		if _, err := relay.Retry(t.Context(), w.pool, nil); err != nil { // The brokers may not have heard yet.
			t.Fatal(err)
		}
		w.post(t, move(fmt.Sprintf("meanwhile%d", time.Now().UnixNano()), "cash", "shop", "1"))
		return len(w.parked(t)) == 0, fmt.Sprint(w.parked(t))
	})
	w.caughtUp(t)
	w.until(t, "the last ones are settled", func() (bool, string) { return len(w.parked(t)) == 0, fmt.Sprint(w.parked(t)) })
	w.check(t)
}

// What is parked behind the place of a rewind is tried again with the rest, on whichever topic, and nothing overtakes it.
func TestRelay_RewindParked(t *testing.T) {
	t.Parallel()
	w := setupOn(t, kafkatest.Start(t, 1), map[string]string{"max.message.bytes": "1200"})
	first := w.relay(t, "one", nil)
	parkSome(t, w, 3)
	before := w.parked(t)
	first.end()
	other := *w
	other.topics = relay.Topics{
		Transfers: w.cluster.Topic(t, 2, map[string]string{"max.message.bytes": "1200"}), Accounts: w.cluster.Topic(t, 2, map[string]string{"max.message.bytes": "1200"}),
	}
	other.topics.Prefix = other.topics.Transfers
	if err := relay.Rewind(t.Context(), w.Journal, w.pool, relay.Back{}); err != nil {
		t.Fatal(err)
	}
	if got := w.parked(t); len(got) != 0 {
		t.Errorf("after a rewind there are %v", got)
	}
	second := other.relay(t, "two", nil)
	other.caughtUp(t)
	if got := w.parked(t); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("parked: %v, before %v", got, before)
	}
	second.end()
	other.relay(t, "three", nil) // It knows from the table only.
	other.post(t, move("later", "cash", "shop", "1"))
	other.caughtUp(t)
	for _, s := range other.read(t) {
		if s.Key == "main/cash" && s.Headers["ce_type"] != "khata.account.opened.v1" {
			t.Errorf("%v has overtaken what is parked", s)
		}
	}
}

// Kafka refuses everything: that is not about the events.
func TestRelay_RefusesEverything(t *testing.T) {
	t.Parallel()
	w := setupOn(t, kafkatest.Start(t, 1), map[string]string{"max.message.bytes": "100"})
	for i := range 40 {
		w.post(t, move(fmt.Sprintf("t%d", i), "cash", "wallet:a", "1"))
	}
	w.relay(t, "one", nil)
	w.until(t, "it has given up", func() (bool, string) { s := w.status(t); return s.Term >= 2, fmt.Sprint(s) })
	if got := w.parked(t); len(got) != 0 {
		t.Errorf("parked: %v", got)
	}
	w.alter(t, "100000")
	w.caughtUp(t)
	w.check(t)
}

// Somebody has drawn numbers in a ledger and does not commit. The other ledgers go on.
func TestRelay_StuckLedger(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if _, err := w.CreateLedger(t.Context(), "local", "other"); err != nil {
		t.Fatal(err)
	}
	w.relay(t, "one", nil)
	w.caughtUp(t)
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock_shared(4247, 1), nextval('journal_sequence')"); err != nil {
		t.Fatal(err)
	}
	w.post(t, move("waits", "cash", "wallet:a", "1"))
	if _, err := w.CreateAccounts(t.Context(), "local", "other", []ledger.AccountSpec{{ID: "a", Type: ledger.Asset, Currency: "JPY"}}); err != nil {
		t.Fatal(err)
	}
	oldest := func(name string) *time.Time {
		for _, l := range w.status(t).Ledgers {
			if l.Ledger == name {
				return l.Oldest
			}
		}
		return nil
	}
	w.until(t, "the other ledger is published", func() (bool, string) { return oldest("other") == nil, fmt.Sprint(w.status(t)) })
	if oldest("main") == nil {
		t.Error("the relay has not waited")
	}
	if s := w.status(t); s.Term != 1 {
		t.Errorf("it has begun anew: %+v", s)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.caughtUp(t)
}

// No transaction has more than it may, but for one record.
func TestRelay_BatchSizes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 30 {
		spec := move(fmt.Sprintf("t%d", i), "cash", "wallet:a", "1")
		if i%3 == 0 {
			spec.Metadata = ledger.Metadata(`{"x":"` + strings.Repeat("x", 5000) + `"}`)
		}
		w.post(t, spec)
	}
	var records []journal.Record
	records, err := w.Feed().Records(t.Context(), 1, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	const most = 20_000
	sizes, largest := relay.BatchSizes(w.topics, most, records)
	for _, size := range sizes {
		if size > most+largest {
			t.Errorf("a batch of %d bytes", size)
		}
	}
	if len(sizes) < 3 {
		t.Errorf("batches of %v bytes", sizes)
	}
}

// The topics have other partitions than they had.
func TestRelay_OtherPartitions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.relay(t, "one", nil)
	w.caughtUp(t)
	one.end()
	if _, err := kadm.NewClient(w.cluster.Client(t)).CreatePartitions(t.Context(), 1, w.topics.Accounts); err != nil {
		t.Fatal(err)
	}
	w.until(t, "there are more partitions", func() (bool, string) {
		two := w.relay(t, "two", nil)
		select {
		case <-two.ended:
			return two.err != nil && strings.Contains(two.err.Error(), "had 3 and 3 partitions, and now have 3 and 4"), fmt.Sprint(two.err)
		case <-time.After(2 * time.Second): // It has not heard of it yet.
			two.end()
			return false, "it works"
		}
	})
}
