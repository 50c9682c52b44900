package wallet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/wallet"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/inbox"
)

// The view begins with what the journal has, follows the events beyond that, and is what the books are: as of every account's own version at
// every moment, and altogether in the end.
func TestWallet_FollowsTheBooks(t *testing.T) {
	t.Parallel()
	w, r := setup(t), random(t, 1)
	w.post(t, r, 30)
	w.publish(t)
	w.follow(t, w.config(t))
	waitFor(t, "the view is built", func() error {
		_, err := wallet.Compare(t.Context(), w.pool, w.Journal)
		return err
	})
	for range 3 {
		w.post(t, r, 15)
		if c, err := wallet.Compare(t.Context(), w.pool, w.Journal); err != nil || !c.Equal() || c.Behind == 0 {
			t.Errorf("while events are on the way: %+v, %v", c, err)
		}
		w.publish(t)
	}
	c := w.caughtUp(t)
	if c.Accounts != wallets+3 || c.Movements < 100 {
		t.Errorf("%+v", c)
	}
	if got := w.letters(t); got != nil {
		t.Errorf("letters: %q", got)
	}
	if n := w.counted(t, "applied"); n == 0 {
		t.Error("nothing came by events")
	}
	got, err := wallet.Get(t.Context(), w.pool, main, account(0), 10)
	if err != nil || len(got.Movements) != 10 || got.Movements[0].Version != got.Version || got.Movements[0].Balance != got.Posted || got.Type != ledger.Liability {
		t.Errorf("%+v, %v", got, err)
	}
	a, err := w.Account(t.Context(), main, account(0))
	if err != nil || a.Name != got.Name {
		t.Errorf("its name is %q, and here %q; %v", a.Name, got.Name, err)
	}
	if _, err := wallet.Get(t.Context(), w.pool, main, "nobody", 10); !errors.Is(err, wallet.ErrNoWallet) {
		t.Errorf("%v", err)
	}
}

// What comes three times has its effect once, and so has what comes a fourth time to another process.
func TestWallet_ThreeTimes(t *testing.T) {
	t.Parallel()
	w, r := setup(t), random(t, 2)
	config := w.config(t)
	config.Journal = nil
	if err := wallet.Rebuild(t.Context(), w.pool, w.Journal, 0, config.Inbox.Logger); err != nil {
		t.Fatal(err)
	}
	w.post(t, r, 25)
	w.publish(t)
	w.again(t, 2)
	stop := w.follow(t, config)
	w.drained(t)
	w.caughtUp(t)
	once := w.rows(t)
	stop()
	if w.counted(t, "known") == 0 {
		t.Error("nothing came again")
	}
	w.again(t, 1)
	config = w.config(t)
	config.Journal = nil
	stop = w.follow(t, config)
	w.drained(t)
	stop()
	if diff := cmp.Diff(once, w.rows(t)); diff != "" {
		t.Errorf("the view after all came again (-before +after):\n%s", diff)
	}
	if n := w.counted(t, "known"); n < 50 || w.counted(t, "applied") > 0 {
		t.Errorf("%v events were known, %v were not", n, w.counted(t, "applied"))
	}
	if got := w.letters(t); got != nil {
		t.Errorf("letters: %q", got)
	}
}

// Without the journal, a view that was never built does not begin in the middle of a topic.
func TestWallet_NeverBuilt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	config := w.config(t)
	config.Journal = nil
	if err := wallet.Run(t.Context(), config); !errors.Is(err, wallet.ErrNeverBuilt) {
		t.Errorf("%v", err)
	}
	if _, err := wallet.Compare(t.Context(), w.pool, w.Journal); !errors.Is(err, wallet.ErrNeverBuilt) {
		t.Errorf("%v", err)
	}
	if err := wallet.Rebuild(t.Context(), w.pool, w.Journal, 0, config.Inbox.Logger); err != nil {
		t.Fatal(err)
	}
	// It was built, and then nobody came for two days, while the topic has lost what was in it.
	w.publish(t)
	w.forget(t)
	stop := w.follow(t, config)
	time.Sleep(300 * time.Millisecond) // What is lost is behind the horizon of a view that was built just now.
	stop()
	w.view.Exec(t, `UPDATE khata_wallet.state SET built_at = built_at - interval '2 days'`)
	w.view.Exec(t, `DELETE FROM khata_inbox.progress`)
	var lost *inbox.LostError
	if err := wallet.Run(t.Context(), config); !errors.As(err, &lost) {
		t.Errorf("%v", err)
	}
	config = w.config(t)
	w.post(t, random(t, 3), 5)
	config.Complete = true
	stop = w.follow(t, config)
	w.caughtUp(t) // From the journal: nothing is published.
	stop()
}

// Events are gone from the topic before they were read: with the journal the view has them from there. Without, it says so and stops.
func TestWallet_Lost(t *testing.T) {
	t.Parallel()
	w, r := setup(t), random(t, 4)
	w.publish(t)
	stop := w.follow(t, w.config(t))
	w.post(t, r, 10)
	w.publish(t)
	w.caughtUp(t)
	w.drained(t)
	stop()

	w.post(t, r, 20)
	w.publish(t)
	for p := range int32(3) {
		if err := w.fake.DeleteRecords(w.topics.Accounts, p, w.end(t, p)); err != nil {
			t.Fatal(err)
		}
	}
	w.post(t, r, 5)
	w.publish(t)
	config := w.config(t)
	config.Journal = nil
	w.view.Exec(t, `UPDATE khata_wallet.state SET built_at = built_at - interval '2 days'`)
	var lost *inbox.LostError
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := wallet.Run(ctx, config); !errors.As(err, &lost) || !strings.Contains(err.Error(), "--ledger-dsn") {
		t.Fatalf("%v", err)
	}
	stop = w.follow(t, w.config(t))
	w.drained(t)
	w.caughtUp(t)
	w.post(t, r, 5)
	w.publish(t)
	w.caughtUp(t)
	stop()
	if n := w.counted(t, "covered"); n == 0 {
		t.Error("what was read from the journal did not come as events, too")
	}
}

// end is where a partition ends.
func (w *world) end(t *testing.T, p int32) int64 {
	t.Helper()
	return w.fake.PartitionInfo(w.topics.Accounts, p).HighWatermark
}

// The ledger goes back to a backup: what the view had of transfers that are lost, it cannot know to be wrong. The first new one of such an account
// with a number that was given before stops that account, and says why. A new view has what the books have, and the letters are settled.
func TestWallet_RestoredBooks(t *testing.T) {
	t.Parallel()
	w, r := setup(t), random(t, 6)
	w.post(t, r, 10)
	w.publish(t)
	config := w.config(t)
	stop := w.follow(t, config)
	w.caughtUp(t)
	backup := w.db.Restored(t)
	w.post(t, r, 30)
	w.publish(t)
	w.caughtUp(t)

	restored := open(t, backup)
	restored.n = 10 // The ids of the lost ones are given once more, to others.
	restored.post(t, r, 8)
	w.publishFrom(t, restored)
	waitFor(t, "the contradiction to be found", func() error {
		if contains(w.letters(t), "was a backup of the ledger restored") == 0 {
			return fmt.Errorf("%q", w.letters(t))
		}
		return nil
	})
	if c, err := wallet.Compare(t.Context(), w.pool, restored.Journal); err != nil || c.Equal() {
		t.Errorf("%+v, %v", c, err)
	}
	w.drained(t)
	if err := wallet.Rebuild(t.Context(), w.pool, restored.Journal, 0, config.Inbox.Logger); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the letters to be settled", func() error {
		if n := contains(w.letters(t), " replayed:"); n == 0 || n != len(w.letters(t)) {
			return fmt.Errorf("%q", w.letters(t))
		}
		return nil
	})
	w.caughtUpWith(t, restored)
	restored.post(t, r, 5)
	w.publishFrom(t, restored)
	w.caughtUpWith(t, restored)
	stop()
}

// A view is built anew while transfers are posted, published and consumed, by two at once and with some that are given up in the middle: who reads
// sees a whole view at every moment, and in the end it is what the books are.
func TestWallet_RebuildAtWork(t *testing.T) {
	t.Parallel()
	w, r := setup(t), random(t, 7)
	w.post(t, r, 20)
	w.publish(t)
	config := w.config(t)
	w.follow(t, config)
	w.caughtUp(t)
	ctx, enough := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			given, cancel := context.WithCancel(context.Background())
			if i%3 == 2 {
				time.AfterFunc(30*time.Millisecond, cancel)
			}
			if err := wallet.Rebuild(given, w.pool, w.Journal, 0, config.Inbox.Logger); err != nil && given.Err() == nil {
				t.Error(err)
			}
			cancel()
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			if c, err := wallet.Compare(context.Background(), w.pool, w.Journal); err != nil || !c.Equal() || c.Accounts != wallets+3 {
				t.Errorf("%+v, %v", c, err)
			}
		}
	})
	for range 6 {
		w.post(t, r, 8)
		w.publish(t)
	}
	enough()
	wg.Wait()
	w.caughtUp(t)
	if got := w.letters(t); got != nil {
		t.Errorf("letters: %q", got)
	}
	if err := wallet.Rebuild(t.Context(), w.pool, w.Journal, 0, config.Inbox.Logger); err != nil {
		t.Fatal(err)
	}
	if generations := w.one(t, `SELECT count(DISTINCT generation)::text FROM (SELECT generation FROM khata_wallet.wallet UNION SELECT generation FROM khata_wallet.movement) g`); generations != "1" {
		t.Errorf("%s generations are left", generations)
	}
}

func (w *world) one(t *testing.T, sql string) (text string) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

// An event of a type that this program does not know waits as a letter, and what comes after it of its account waits behind it; others go on.
func TestWallet_UnknownType(t *testing.T) {
	t.Parallel()
	w, r := setup(t), random(t, 8)
	w.follow(t, w.config(t))
	w.publish(t)
	w.caughtUp(t)
	w.drained(t)
	w.post(t, r, 10)
	keyed, err := kgo.NewClient(kgo.SeedBrokers(w.fake.ListenAddrs()...), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer keyed.Close()
	if err := keyed.ProduceSync(t.Context(), &kgo.Record{Topic: w.topics.Accounts, Key: []byte("main/wallet:0"), Value: []byte{1}, Headers: []kgo.RecordHeader{
		{Key: "ce_specversion", Value: []byte("1.0")}, {Key: "ce_id", Value: []byte("later")}, {Key: "ce_type", Value: []byte("khata.account.moved.v2")},
		{Key: "ce_source", Value: []byte("/khata/ledgers/main")}, {Key: "ce_time", Value: []byte(time.Now().UTC().Format(time.RFC3339Nano))},
	}}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.publish(t)
	w.drained(t)
	waitFor(t, "the letters", func() error {
		letters := w.letters(t)
		if contains(letters, "main/wallet:0 poison open: the type \"khata.account.moved.v2\" is not known here") != 1 || contains(letters, "main/wallet:0 behind open") == 0 ||
			contains(letters, "main/wallet:0") != len(letters) {
			return fmt.Errorf("%q", letters)
		}
		return nil
	})
	c, err := wallet.Compare(t.Context(), w.pool, w.Journal)
	if err != nil || !c.Equal() || c.Behind != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	if n, err := inbox.Discard(t.Context(), w.pool, inbox.Selection{Consumer: wallet.Consumer, Reasons: []inbox.Reason{inbox.Poisoned}}, "made up"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	w.caughtUp(t)
}

// What is not as the books have it is found, whatever it is.
func TestCompare_Tampered(t *testing.T) {
	t.Parallel()
	w, r := setup(t), random(t, 9)
	w.post(t, r, 20)
	logger := w.config(t).Inbox.Logger
	for what, c := range map[string]struct {
		sql  string
		want string
	}{
		"a balance":          {`UPDATE khata_wallet.wallet SET posted = posted + 0.01 WHERE account = 'wallet:1'`, "posted"},
		"what is held":       {`UPDATE khata_wallet.wallet SET held = held + 1 WHERE account = 'cash'`, "held"},
		"what is expected":   {`UPDATE khata_wallet.wallet SET incoming = 7 WHERE account = 'wallet:2'`, "incoming 7"},
		"a version":          {`UPDATE khata_wallet.wallet SET version = version - 1 WHERE account = 'wallet:3'`, "at which the books have no movement of it"},
		"a later version":    {`UPDATE khata_wallet.wallet SET version = version + 1000 WHERE account = 'wallet:3'`, "at which the books have no movement of it"},
		"a currency":         {`UPDATE khata_wallet.wallet SET currency = 'USD' WHERE account = 'wallet:3'`, `it is in "USD"`},
		"a missing account":  {`DELETE FROM khata_wallet.wallet WHERE account = 'fees'`, "it is not in the view"},
		"the last account":   {`DELETE FROM khata_wallet.wallet WHERE account = 'wallet:5'`, "it is not in the view"},
		"a name":             {`UPDATE khata_wallet.wallet SET name = 'another' WHERE account = 'wallet:3'`, "as of its change"},
		"that it is closed":  {`UPDATE khata_wallet.wallet SET closed = true WHERE account = 'idle'`, "as of its change"},
		"one more account":   {`INSERT INTO khata_wallet.wallet (generation, ledger, account) SELECT generation, ledger, 'made-up' FROM khata_wallet.wallet LIMIT 1`, "no such account"},
		"one more ledger":    {`INSERT INTO khata_wallet.wallet (generation, ledger, account) SELECT generation, 'other', 'a' FROM khata_wallet.wallet LIMIT 1`, "no such ledger"},
		"a movement":         {`UPDATE khata_wallet.movement SET posted = posted + 1 WHERE version = (SELECT max(version) FROM khata_wallet.movement)`, "should say"},
		"a movement's total": {`UPDATE khata_wallet.movement SET balance = balance + 1 WHERE version = (SELECT max(version) FROM khata_wallet.movement)`, "last movement says"},
	} {
		if err := wallet.Rebuild(t.Context(), w.pool, w.Journal, 0, logger); err != nil {
			t.Fatal(err)
		}
		w.caughtUp(t)
		w.view.Exec(t, c.sql)
		got, err := wallet.Compare(t.Context(), w.pool, w.Journal)
		if err != nil || got.Equal() || !strings.Contains(fmt.Sprint(got.Differences), c.want) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

// Old movements go; balances stay.
func TestWallet_Keep(t *testing.T) {
	t.Parallel()
	w, r := setup(t), random(t, 10)
	w.post(t, r, 10)
	logger := w.config(t).Inbox.Logger
	for _, keep := range []time.Duration{-time.Hour, time.Second, 24 * time.Hour} {
		if err := wallet.Rebuild(t.Context(), w.pool, w.Journal, keep, logger); err == nil {
			t.Errorf("movements are kept for %s", keep)
		}
	}
	if err := wallet.Rebuild(t.Context(), w.pool, w.Journal, 0, logger); err != nil {
		t.Fatal(err)
	}
	w.view.Exec(t, `UPDATE khata_wallet.movement SET posted_at = posted_at - interval '91 days' WHERE account <> 'cash'`)
	if err := wallet.Forget(t.Context(), w.pool); err != nil {
		t.Fatal(err)
	}
	c := w.caughtUp(t)
	if got := w.one(t, `SELECT string_agg(DISTINCT account, ',') FROM khata_wallet.movement`); got != "cash" || c.Movements == 0 {
		t.Errorf("movements of %s are left", got)
	}
}

// Whoever reads the journal waits for those who change the view by events, and they for him.
func TestWallet_Gate(t *testing.T) {
	t.Parallel()
	w, r := setup(t), random(t, 11)
	config := w.config(t)
	w.follow(t, config)
	w.publish(t)
	w.caughtUp(t)

	consumer, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Exec(t.Context(), `SELECT pg_advisory_xact_lock_shared(4250, 1)`); err != nil {
		t.Fatal(err)
	}
	built := make(chan error, 1)
	go func() { built <- wallet.Rebuild(t.Context(), w.pool, w.Journal, 0, config.Inbox.Logger) }()
	select {
	case err := <-built:
		t.Errorf("a view was built while a consumer was at work on the old one: %v", err)
	case <-time.After(700 * time.Millisecond):
	}
	if err := consumer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-built; err != nil {
		t.Fatal(err)
	}

	builder, err := w.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer builder.Release()
	if _, err := builder.Exec(t.Context(), `SELECT pg_advisory_lock(4250, 1)`); err != nil {
		t.Fatal(err)
	}
	before := w.rows(t)
	w.post(t, r, 3)
	w.publish(t)
	time.Sleep(500 * time.Millisecond)
	if diff := cmp.Diff(before, w.rows(t)); diff != "" {
		t.Errorf("a consumer has changed the view while somebody built it (-before +after):\n%s", diff)
	}
	if _, err := builder.Exec(t.Context(), `SELECT pg_advisory_unlock(4250, 1)`); err != nil {
		t.Fatal(err)
	}
	w.caughtUp(t)
}

// What comes by events into the old view while a new one is built is in the new one, too.
func TestWallet_RebuildMeanwhile(t *testing.T) {
	t.Parallel()
	w, r := setup(t), random(t, 12)
	config := w.config(t)
	w.follow(t, config)
	w.post(t, r, 5)
	w.publish(t)
	w.caughtUp(t)

	// A view that is built waits where it would note how far it has come.
	holder, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), `SELECT FROM khata_wallet.covered FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	w.view.Exec(t, `CREATE FUNCTION khata_wallet.waits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM FROM khata_wallet.covered FOR UPDATE; RETURN NEW; END $$;
		CREATE TRIGGER waits BEFORE INSERT ON khata_wallet.covered FOR EACH ROW EXECUTE FUNCTION khata_wallet.waits()`)
	built := make(chan error, 1)
	go func() { built <- wallet.Rebuild(t.Context(), w.pool, w.Journal, 0, config.Inbox.Logger) }()
	waitFor(t, "the builder to wait", func() error {
		if n := w.one(t, `SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`); n != "1" {
			return fmt.Errorf("%s wait", n)
		}
		return nil
	})
	w.post(t, r, 5)
	w.publish(t)
	w.caughtUp(t)
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-built; err != nil {
		t.Fatal(err)
	}
	w.caughtUp(t)
	if generation := w.one(t, `SELECT generation::text FROM khata_wallet.state`); generation != "2" {
		t.Errorf("generation %s", generation)
	}
}
