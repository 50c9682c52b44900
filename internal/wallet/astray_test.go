package wallet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	"github.com/khata-ledger/khata/internal/wallet"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Ways in which a view could leave the books without anybody noticing: backups, offsets, groups and windows that are not what they were, and
// events that are not what they say.

func (b *books) cashIn(t *testing.T, id string, to int, amount string) {
	t.Helper()
	results, err := b.Post(t.Context(), "local", main, []ledger.TransferSpec{
		{ID: ledger.TransferID(id), Entries: ledger.Simple("cash", account(to), decimal.RequireFromString(amount), "BDT")},
	})
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
}

// forget deletes what is in the topic of accounts.
func (w *world) forget(t *testing.T) {
	t.Helper()
	for p := range int32(3) {
		if err := w.fake.DeleteRecords(w.topics.Accounts, p, w.end(t, p)); err != nil {
			t.Fatal(err)
		}
	}
}

// The books go back to a backup, and a client sends a transfer again that they have lost: the same fact under the same event id, which the view
// that was built meanwhile does not have.
func TestWallet_RestoredAndSentAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cashIn(t, "A", 0, "100.00")
	w.publish(t)
	config := w.config(t)
	w.follow(t, config)
	w.caughtUp(t)
	backup := w.db.Restored(t)
	w.cashIn(t, "lost", 0, "7.00")
	w.publish(t)
	w.caughtUp(t)
	restored := open(t, backup)
	if err := wallet.Rebuild(t.Context(), w.pool, restored.Journal, 0, config.Inbox.Logger); err != nil {
		t.Fatal(err)
	}
	restored.cashIn(t, "lost", 0, "7.00")
	w.publishFrom(t, restored)
	restored.cashIn(t, "B", 0, "1.00")
	w.publishFrom(t, restored)
	w.caughtUpWith(t, restored)
}

// The view was built after the backup that the books go back to: what moves then has numbers of which the view was told that it has all.
func TestWallet_RestoredBehindTheView(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cashIn(t, "A", 0, "100.00")
	w.publish(t)
	backup := w.db.Restored(t)
	for i := range 10 {
		w.cashIn(t, fmt.Sprint("lost-", i), 0, "1.00")
	}
	w.publish(t)
	config := w.config(t)
	stop := w.follow(t, config)
	w.caughtUp(t)
	w.drained(t)
	restored := open(t, backup)
	restored.cashIn(t, "new", 0, "50.00")
	w.publishFrom(t, restored)
	waitFor(t, "the contradiction to be found", func() error {
		if contains(w.letters(t), "was a backup of the ledger restored") == 0 {
			return fmt.Errorf("%q", w.letters(t))
		}
		return nil
	})
	stop()
	// Whoever wants to complete it from these books is told, too.
	config = w.config(t)
	config.Journal, config.Complete = restored.Journal, true
	var back *wallet.SetBackError
	if err := wallet.Run(t.Context(), config); !errors.As(err, &back) || !strings.Contains(err.Error(), "rebuild") {
		t.Errorf("%v", err)
	}
}

// The view's own database goes back to a backup, while Kafka knows that its group has come further.
func TestWallet_ViewRestored(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.publish(t)
	stop := w.follow(t, w.config(t))
	w.cashIn(t, "A", 0, "1.00")
	w.publish(t)
	w.caughtUp(t)
	backup := w.view.Restored(t)
	w.cashIn(t, "B", 0, "10.00")
	w.publish(t)
	w.caughtUp(t)
	w.drained(t)
	stop()
	w.pool = connect(t, backup.ServiceDSN())
	w.follow(t, w.config(t))
	w.cashIn(t, "C", 0, "100.00")
	w.publish(t)
	w.caughtUp(t)
}

// Two views in two databases take turns in one group. That is not as it should be; but neither is wrong.
func TestWallet_TwoDatabases(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.publish(t)
	stop := w.follow(t, w.config(t))
	w.cashIn(t, "A", 0, "1.00")
	w.publish(t)
	w.caughtUp(t)
	first := w.pool
	w.pool = connect(t, w.view.Restored(t).ServiceDSN())
	stop()
	stop = w.follow(t, w.config(t))
	w.cashIn(t, "B", 0, "1000.00")
	w.publish(t)
	w.caughtUp(t)
	w.drained(t)
	stop()
	w.pool = first
	w.follow(t, w.config(t))
	w.cashIn(t, "C", 0, "1.00")
	w.publish(t)
	w.caughtUp(t)
}

// A topic lost events of which the group of the view has never read any: of another group, and of partitions in which nothing had come before.
func TestWallet_LostUnread(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"", "another"} {
		t.Run("group "+group, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.publish(t)
			w.forget(t)
			stop := w.follow(t, w.config(t))
			waitFor(t, "the view is built", func() error {
				_, err := wallet.Compare(t.Context(), w.pool, w.Journal)
				return err
			})
			name := "one event, of one account"
			if _, err := w.UpdateAccount(t.Context(), "local", main, account(0), ledger.AccountUpdate{Name: &name}); err != nil {
				t.Fatal(err)
			}
			w.publish(t)
			w.caughtUp(t)
			stop()
			for i := range wallets {
				w.cashIn(t, fmt.Sprint("gone-", i), i, "1000.00")
			}
			w.publish(t)
			w.forget(t)
			for i := range wallets {
				w.cashIn(t, fmt.Sprint("there-", i), i, "1.00")
			}
			w.publish(t)
			config := w.config(t)
			config.Inbox.Group = group
			w.follow(t, config)
			w.caughtUp(t)
		})
	}
}

// An event of last year is as good as any: what the view has of its account tells whether it is new.
func TestWallet_Late(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.publish(t)
	w.follow(t, w.config(t))
	w.caughtUp(t)
	w.view.Exec(t, `UPDATE khata_inbox.consumer SET complete_from = current_date + 2`) // as if the window had passed
	w.cashIn(t, "late", 0, "1000.00")
	w.publish(t)
	w.caughtUp(t)
}

// The books do not answer while the view is to be completed from them: it waits for them.
func TestWallet_BooksAway(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.publish(t)
	stop := w.follow(t, w.config(t))
	w.cashIn(t, "A", 0, "1.00")
	w.publish(t)
	w.caughtUp(t)
	w.drained(t)
	stop()
	w.cashIn(t, "B", 0, "1.00")
	w.publish(t)
	w.forget(t)
	config := w.config(t)
	away := open(t, w.db)
	away.pool.Close()
	config.Journal = away.Journal
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := wallet.Run(ctx, config); err != nil || ctx.Err() == nil {
		t.Errorf("it ended with %v", err)
	}
	w.follow(t, w.config(t))
	w.cashIn(t, "C", 0, "1.00")
	w.publish(t)
	w.caughtUp(t)
}

// Whoever builds leaves no lock behind, and PostgreSQL ends a session that builds and is silent.
func TestWallet_BuilderLeaves(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.view.Exec(t, `CREATE TABLE khata_wallet.seen (idle text); GRANT INSERT ON khata_wallet.seen TO khata_service;
		CREATE FUNCTION khata_wallet.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO khata_wallet.seen VALUES (current_setting('idle_session_timeout')); RETURN NEW; END $$;
		CREATE TRIGGER see BEFORE INSERT ON khata_wallet.covered FOR EACH ROW EXECUTE FUNCTION khata_wallet.see()`)
	if err := wallet.Rebuild(t.Context(), w.pool, w.Journal, 0, w.config(t).Inbox.Logger); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "no locks are left", func() error {
		if got := w.one(t, `SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND classid = 4250 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); got != "0" {
			return errors.New(got)
		}
		return nil
	})
	w.view.Exec(t, `GRANT SELECT ON khata_wallet.seen TO khata_service`)
	if got := w.one(t, `SELECT min(idle) FROM khata_wallet.seen`); got != "30s" {
		t.Errorf("a silent session that builds ends after %q", got)
	}
}

// What is not an event of the account whose key it has, or not of a type that is known, has no effect and is a letter.
func TestWallet_ForgedEvents(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cashIn(t, "A", 0, "5.00")
	w.publish(t)
	w.follow(t, w.config(t))
	w.caughtUp(t)
	w.drained(t)
	before := w.rows(t)
	moved := func(change func(*khatav1.AccountMovement)) proto.Message {
		m := &khatav1.AccountMovement{
			Ledger: "main", Account: "wallet:1", Version: 1 << 40, TransferId: "forged", Kind: khatav1.TransferKind_TRANSFER_KIND_PLAIN, Currency: "BDT",
			Posted: "12.34", Held: "0.00", Incoming: "0.00",
		}
		change(m)
		return m
	}
	key := "main/wallet:1"
	for i, e := range []struct {
		key, kind string
		m         proto.Message
		want      string
	}{
		{"main/wallet:2", "moved.v1", moved(func(*khatav1.AccountMovement) {}), "has the key"},
		{key, "moved.v1", moved(func(m *khatav1.AccountMovement) { m.Posted = "1e9" }), "amount"},
		{key, "moved.v1", moved(func(m *khatav1.AccountMovement) { m.Posted = strings.Repeat("9", 39) }), "amount"},
		{key, "moved.v1", moved(func(m *khatav1.AccountMovement) { m.Currency = "b t" }), "currency"},
		{key, "moved.v1", moved(func(m *khatav1.AccountMovement) { m.Version = 0 }), "sequence"},
		{key, "moved.v1", moved(func(m *khatav1.AccountMovement) { m.Kind = 99 }), "kind 99"},
		{"main/wallet:0", "moved.v1", moved(func(m *khatav1.AccountMovement) { m.Account, m.Currency = "wallet:0", "USD" }), "is moved in USD"},
		{"main/wallet:3", "reviewed.v1", &khatav1.AccountEvent{Ledger: "main", Account: &khatav1.Account{Account: "wallet:3", Version: 1 << 40}}, "is not known here"},
		{"main/wallet:4", "updated.v1", &khatav1.AccountEvent{Ledger: "main", Account: &khatav1.Account{Account: "wallet:4", Version: 1 << 40}}, "currency"},
	} {
		earlier := contains(w.letters(t), e.want) // Another one's may say the same.
		w.put(t, e.key, fmt.Sprint("forged-", i), "khata.account."+e.kind, e.m)
		waitFor(t, "a letter", func() error {
			if contains(w.letters(t), e.want) == earlier {
				return fmt.Errorf("none says %q: %q", e.want, w.letters(t))
			}
			return nil
		})
		w.view.Exec(t, `UPDATE khata_inbox.letter SET state = 'discarded', settled_at = now()`)
	}
	if after := w.rows(t); after != before {
		t.Errorf("the view is another:\n%s\nwas\n%s", after, before)
	}
}

func (w *world) put(t *testing.T, key, id, kind string, m proto.Message) {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(w.fake.ListenAddrs()...), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: w.topics.Accounts, Key: []byte(key), Value: data, Headers: []kgo.RecordHeader{
		{Key: "ce_specversion", Value: []byte("1.0")}, {Key: "ce_id", Value: []byte(id)}, {Key: "ce_type", Value: []byte(kind)},
		{Key: "ce_source", Value: []byte("/khata/ledgers/main")}, {Key: "ce_time", Value: []byte(time.Now().UTC().Format(time.RFC3339Nano))},
	}}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// What is on the way is waited for. What never comes is a difference after that, and not before.
func TestAwait(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.publish(t)
	stop := w.follow(t, w.config(t))
	w.cashIn(t, "A", 0, "1.00")
	w.publish(t)
	w.caughtUp(t)
	w.drained(t)
	stop()
	w.cashIn(t, "B", 0, "1.00")
	if c, err := wallet.Await(t.Context(), w.pool, w.Journal, 0); err != nil || !c.Equal() || c.Behind != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := wallet.Await(t.Context(), w.pool, w.Journal, 300*time.Millisecond); err != nil || c.Equal() || c.Differ != 2 ||
		!strings.Contains(c.Differences[0].Detail, "not on the way") {
		t.Errorf("%+v, %v", c, err)
	}
	w.publish(t)
	w.follow(t, w.config(t))
	if c, err := wallet.Await(t.Context(), w.pool, w.Journal, patience); err != nil || !c.Equal() || c.Behind != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}
