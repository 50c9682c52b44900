package relay_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	"github.com/khata-ledger/khata/internal/eventstest"
	"github.com/khata-ledger/khata/internal/kafkatest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/internal/verify"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

func TestRelay_WhatBecomesOfEachKind(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx := context.Background()
	step := func(id string, kind ledger.Kind, origin, amount string) ledger.TransferSpec {
		terms := &ledger.Terms{Kind: kind, Origin: ledger.TransferID(origin)}
		if amount != "" {
			a := decimal.RequireFromString(amount)
			terms.Amount = &a
		}
		if kind == ledger.Refund {
			none := decimal.Zero
			terms.ExpectedRefunded, terms.Reason = &none, ledger.ReasonGoodwill
		}
		return ledger.TransferSpec{ID: ledger.TransferID(id), Terms: terms}
	}
	hold := func(id, amount string, after time.Duration) ledger.TransferSpec {
		spec := move(id, "wallet:a", "shop", amount)
		spec.Terms = &ledger.Terms{Kind: ledger.Hold, ExpiresAfter: after}
		return spec
	}
	w.post(t, move("in", "cash", "wallet:a", "100"), hold("h1", "30", 0), hold("h2", "5", 0), hold("h3", "7", time.Second))
	w.post(t, step("c1", ledger.Capture, "h1", "20"), step("v2", ledger.Void, "h2", ""), move("too-much", "wallet:a", "wallet:b", "1000"))
	w.post(t, step("r1", ledger.Refund, "c1", "5"), move("oops", "cash", "wallet:b", "1"))
	w.post(t, step("rev", ledger.Reversal, "oops", ""))
	name, both, none, closed := "Shimul", ledger.FrozenBoth, ledger.FrozenNone, true
	w.accounts(t, "spare")
	for id, updates := range map[ledger.AccountID][]ledger.AccountUpdate{
		"wallet:a": {{Name: &name}, {Frozen: &both}, {Frozen: &none}}, "spare": {{Closed: &closed}},
	} {
		for _, update := range updates {
			if _, err := w.UpdateAccount(ctx, "local", main, id, update); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.until(t, "the hold is expired", func() (bool, string) {
		_, p, err := w.Transfer(ctx, main, "h3")
		return err == nil && p.Hold == ledger.HoldExpired, fmt.Sprint(p.Hold, err)
	})
	w.relay(t, "one", nil)
	w.caughtUp(t)
	if again := w.check(t); again != 0 {
		t.Errorf("%d events came twice, and nothing has failed", again)
	}
	types := map[string]int{}
	sums := map[string][3]decimal.Decimal{}
	order := map[string][]string{}
	for _, s := range w.read(t) {
		kind := strings.TrimSuffix(strings.TrimPrefix(s.Headers["ce_type"], "khata."), ".v1")
		types[kind]++
		if s.Topic == w.topics.Transfers {
			order[s.Key] = append(order[s.Key], kind)
		}
		if kind != "account.moved" {
			continue
		}
		var m khatav1.AccountMovement
		if err := proto.Unmarshal(s.Value, &m); err != nil {
			t.Fatal(err)
		}
		sum := sums[m.GetAccount()]
		for i, text := range []string{m.GetPosted(), m.GetHeld(), m.GetIncoming()} {
			sum[i] = sum[i].Add(decimal.RequireFromString(text))
		}
		sums[m.GetAccount()] = sum
	}
	want := map[string]int{
		"transfer.posted": 2, "transfer.held": 3, "transfer.captured": 1, "transfer.voided": 1, "transfer.expired": 1,
		"transfer.refused": 1, "transfer.refunded": 1, "transfer.reversed": 1, "account.moved": 20,
		"account.opened": 5, "account.updated": 1, "account.frozen": 1, "account.unfrozen": 1, "account.closed": 1,
	}
	if fmt.Sprint(types) != fmt.Sprint(want) {
		t.Errorf("types:\n%v\nwant\n%v", types, want)
	}
	for key, want := range map[string]string{
		"main/h1": "transfer.held transfer.captured", "main/c1": "transfer.refunded", "main/h3": "transfer.held transfer.expired",
		"main/oops": "transfer.posted transfer.reversed",
	} {
		if got := strings.Join(order[key], " "); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	// What a consumer adds up is what the ledger says.
	for account, sum := range sums {
		balances, err := w.Balances(ctx, main, []ledger.AccountID{ledger.AccountID(account)})
		if err != nil {
			t.Fatal(err)
		}
		if b := balances[0]; !sum[0].Equal(b.Posted) || !sum[1].Equal(b.Held) || !sum[2].Equal(b.Incoming) {
			t.Errorf("%s: the movements come to %v, the balance is %v", account, sum, b)
		}
	}
}

// While others post, to two ledgers.
func TestRelay_UnderLoad(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.relay(t, "one", func(c *relay.Config) { c.Window = 50 })
	w.post(t, move("in", "cash", "wallet:a", "100000"))
	var specs []ledger.TransferSpec
	for i := range 3000 {
		specs = append(specs, move(fmt.Sprintf("t%d", i), []ledger.AccountID{"cash", "wallet:a"}[i%2], "wallet:b", "1"))
	}
	var posters sync.WaitGroup
	for third := range slices.Chunk(specs, 1000) {
		posters.Go(func() {
			for part := range slices.Chunk(third, 37) {
				w.post(t, part...)
			}
		})
	}
	posters.Wait()
	w.caughtUp(t)
	if again := w.check(t); again != 0 {
		t.Errorf("%d events came twice, and nothing has failed", again)
	}
	if _, err := w.CreateLedger(t.Context(), "local", "other"); err != nil {
		t.Fatal(err)
	}
	zero := decimal.Zero
	if _, err := w.CreateAccounts(t.Context(), "local", "other", []ledger.AccountSpec{
		{ID: "a", Type: ledger.Asset, Currency: "JPY"}, {ID: "b", Type: ledger.Liability, Currency: "JPY", Floor: &zero},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Post(t.Context(), "local", "other", []ledger.TransferSpec{move("t1", "a", "b", "5")}); err != nil {
		t.Fatal(err)
	}
	w.caughtUp(t)
	w.check(t)
	var ids []string
	for _, s := range w.read(t) {
		if s.Headers["ce_source"] == "/khata/ledgers/other" {
			ids = append(ids, s.ID())
		}
	}
	// The same transfer id in another ledger is another fact.
	if slices.Sort(ids); len(slices.Compact(ids)) != 5 {
		t.Errorf("%d events of the other ledger, want 5", len(ids))
	}
}

// Of two relays one works, and the other one takes over: at once where the first has stopped, within the lease where it has died.
func TestRelay_TakesOver(t *testing.T) {
	t.Parallel()
	w := setup(t)
	faults := pgtest.NewFaults(t)
	j, pool := w.open(t, pg.Config{DSN: w.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
	// Longer than a busy machine keeps "one" from renewing its lease.
	const lease = 3 * time.Second
	one := w.relay(t, "one", func(c *relay.Config) { c.Journal, c.Pool, c.Lease = j, pool, lease })
	w.caughtUp(t)
	w.relay(t, "two", func(c *relay.Config) { c.Lease = lease })
	w.post(t, move("t1", "cash", "wallet:a", "1"))
	w.caughtUp(t)
	if s := w.status(t); s.Holder != "one" {
		t.Fatalf("%+v", s)
	}
	// It reaches its database no more, and does not know it yet.
	thaw := faults.Freeze()
	began := time.Now()
	w.post(t, move("t2", "cash", "wallet:a", "1"))
	w.caughtUp(t)
	if s := w.status(t); s.Holder != "two" || time.Since(began) > 9*time.Second { // PostgreSQL itself ends an idle session after ten.
		t.Errorf("after %v: %+v", time.Since(began), s)
	}
	thaw()
	w.post(t, move("t3", "cash", "wallet:a", "1"))
	w.caughtUp(t)
	one.end()
	w.check(t)
}

func (w *world) status(t *testing.T) relay.Status {
	t.Helper()
	s, err := relay.StatusOf(context.Background(), w.Journal, w.pool)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The answer to a move of the cursor is lost, whether or not it was made.
func TestRelay_UnknownCommits(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*pgtest.Faults, int){"not applied": (*pgtest.Faults).CutBeforeCommit, "applied": (*pgtest.Faults).CutAfterCommit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			faults := pgtest.NewFaults(t)
			j, pool := w.open(t, pg.Config{DSN: w.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
			w.relay(t, "one", func(c *relay.Config) { c.Journal, c.Pool = j, pool })
			w.caughtUp(t)
			again := 0
			for i := range 4 {
				cut(faults, 1)
				w.post(t, move(fmt.Sprintf("t%d", i), "cash", "wallet:a", "1"))
				w.caughtUp(t)
			}
			if faults.Cuts() < 4 {
				t.Errorf("%d commits were cut", faults.Cuts())
			}
			again = w.check(t)
			if (again > 0) != (name == "not applied") {
				t.Errorf("%d events came again", again)
			}
		})
	}
}

// What the relay of an earlier term still has under way, Kafka refuses.
func TestRelay_FencedAtKafka(t *testing.T) {
	t.Parallel()
	w := setup(t)
	options := []kgo.Opt{kgo.SeedBrokers(w.cluster.Brokers()...)}
	records, err := w.Feed().Records(t.Context(), 1, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	first, second := relay.NewPublisher(t, options, w.topics), relay.NewPublisher(t, options, w.topics)
	if err := first.Publish(main, records[:1]); err != nil {
		t.Fatal(err)
	}
	open := first.Begin(main, records[1:2]) // sent, and not committed
	if err := second.Publish(main, records[1:]); err != nil {
		t.Fatal(err)
	}
	if err := open(); err == nil {
		t.Error("the first one has committed after the second one had begun")
	}
	if err := first.PublishAgain(main, records[:1]); err == nil {
		t.Error("the first one publishes with its old client")
	}
	if again := w.check(t); again != 0 {
		t.Errorf("%d events came again", again)
	}
}

// An event that the topic does not take is put aside, those of its key wait behind it, and the others go on.
func TestRelay_Parked(t *testing.T) {
	t.Parallel()
	w := setupOn(t, kafkatest.Start(t, 1), map[string]string{"max.message.bytes": "3000"})
	ctx := context.Background()
	w.relay(t, "one", nil)
	big := move("big", "cash", "wallet:a", "1")
	big.Metadata = ledger.Metadata(`{"text":"` + noise(5000) + `"}`)
	var specs []ledger.TransferSpec
	for i := range 40 {
		specs = append(specs, move(fmt.Sprintf("before%d", i), "cash", "wallet:b", "1"))
	}
	specs = append(specs, big)
	for i := range 40 {
		specs = append(specs, move(fmt.Sprintf("after%d", i), "cash", "wallet:b", "1"))
	}
	w.post(t, specs...)
	none := decimal.Zero
	refund := ledger.TransferSpec{ID: "refund", Terms: &ledger.Terms{
		Kind: ledger.Refund, Origin: "big", ExpectedRefunded: &none, Reason: ledger.ReasonGoodwill,
	}}
	w.post(t, refund)
	w.caughtUp(t)
	parked := func() (told []string) {
		list, err := relay.ListParked(ctx, w.pool, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			told = append(told, fmt.Sprintf("%s %s %v", p.Type, p.Key, strings.Contains(p.Error, "MESSAGE_TOO_LARGE")))
		}
		return told
	}
	if got := fmt.Sprint(parked()); got != "[khata.transfer.posted.v1 main/big true khata.transfer.refunded.v1 main/big false]" {
		t.Fatalf("parked: %s", got)
	}
	if sent, facts := len(w.read(t)), len(eventstest.Expected(t, w.Journal, w.topics)); sent != facts-2 {
		t.Errorf("%d events were sent, want all but two of %d", sent, facts)
	}
	// Again, in vain; and only what is named with what is before it.
	list, err := relay.ListParked(ctx, w.pool, false)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := relay.Retry(ctx, w.pool, []string{list[1].EventID}); err != nil || n != 2 {
		t.Errorf("asked for %d, %v", n, err)
	}
	w.until(t, "it was tried again", func() (bool, string) {
		list, err := relay.ListParked(ctx, w.pool, false)
		return err == nil && list[0].Request == "", fmt.Sprint(list, err)
	})
	if _, err := relay.Retry(ctx, w.pool, []string{"unknown"}); err == nil {
		t.Error("an unknown event is asked for")
	}
	if err := relay.Skip(ctx, w.pool, []string{list[0].EventID}, ""); err == nil {
		t.Error("skipped without a reason")
	}
	// The topic is made to take it.
	larger := "100000"
	admin := kadm.NewClient(w.cluster.Client(t))
	if _, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "max.message.bytes", Value: &larger}}, w.topics.Transfers); err != nil {
		t.Fatal(err)
	}
	if n, err := relay.Retry(ctx, w.pool, nil); err != nil || n != 2 {
		t.Errorf("asked for %d, %v", n, err)
	}
	w.until(t, "nothing is parked", func() (bool, string) {
		_, err := relay.Retry(ctx, w.pool, nil) // the brokers may not have heard yet
		return err == nil && len(parked()) == 0, fmt.Sprint(parked(), err)
	})
	w.check(t)
	// Or it is given up.
	small := "3000"
	if _, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "max.message.bytes", Value: &small}}, w.topics.Transfers); err != nil {
		t.Fatal(err)
	}
	big.ID = "big2"
	refund.ID, refund.Terms.Origin = "refund2", "big2"
	w.post(t, big)
	w.post(t, refund)
	w.caughtUp(t)
	if list, err = relay.ListParked(ctx, w.pool, false); err != nil || len(list) != 2 {
		t.Fatalf("parked: %v, %v", list, err)
	}
	if err := relay.Skip(ctx, w.pool, []string{list[0].EventID}, "nobody needs it"); err != nil {
		t.Fatal(err)
	}
	w.until(t, "nothing is parked", func() (bool, string) { return len(parked()) == 0, fmt.Sprint(parked()) })
	if list, err = relay.ListParked(ctx, w.pool, true); err != nil || len(list) != 4 {
		t.Fatalf("parked and settled: %v, %v", list, err)
	}
	outcomes := map[string]int{}
	for _, p := range list {
		outcomes[p.Outcome+" "+p.Reason]++
	}
	if outcomes["skipped nobody needs it"] != 1 || outcomes["published "] != 3 {
		t.Errorf("outcomes: %v", outcomes)
	}
}

// The broker is away. Nobody who posts notices, and all is published when it is back.
func TestRelay_BrokerAway(t *testing.T) {
	t.Parallel()
	w := setupOn(t, kafkatest.Start(t, 1), nil)
	w.relay(t, "one", nil)
	w.caughtUp(t)
	w.cluster.Kill(t, 1)
	began := time.Now()
	for i := range 200 {
		w.post(t, move(fmt.Sprintf("t%d", i), "cash", "wallet:a", "1"))
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("200 transfers one after the other took %v without a broker", took)
	}
	if s := w.status(t); s.Ledgers[0].Oldest == nil {
		t.Error("all is published without a broker")
	}
	w.cluster.Restart(t, 1)
	w.caughtUp(t)
	w.check(t)
}

// A backup is restored that is older than what was published, and posted to: numbers are drawn again.
func TestRelay_RestoredBackup(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.relay(t, "one", nil)
	w.post(t, move("kept", "cash", "wallet:a", "1"))
	w.caughtUp(t)
	backup := w.db.Restored(t)
	w.post(t, move("lost-1", "cash", "wallet:a", "2"), move("retried", "cash", "wallet:a", "3"), move("lost-2", "cash", "wallet:a", "4"))
	frozen := ledger.FrozenBoth
	if _, err := w.UpdateAccount(t.Context(), "local", main, "shop", ledger.AccountUpdate{Frozen: &frozen}); err != nil {
		t.Fatal(err)
	}
	w.caughtUp(t)
	one.end()
	before := map[string]bool{}
	for _, s := range w.read(t) {
		before[s.ID()] = true
	}

	restored := &world{db: backup, cluster: w.cluster, topics: w.topics}
	restored.Journal, restored.pool = restored.open(t, pg.Config{DSN: backup.ServiceDSN()})
	restored.post(t, move("new-1", "cash", "wallet:b", "5"), move("new-2", "cash", "wallet:b", "6"), move("retried", "cash", "wallet:a", "3"))
	if _, err := restored.UpdateAccount(t.Context(), "local", main, "shop", ledger.AccountUpdate{Frozen: &frozen}); err != nil {
		t.Fatal(err)
	}
	restored.relay(t, "two", nil)
	restored.caughtUp(t)
	there := map[string]bool{}
	for _, s := range restored.read(t) {
		there[s.ID()] = true
	}
	records, err := restored.Feed().Records(t.Context(), 1, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		for _, id := range relay.EventIDs(w.topics, main, r) {
			if !there[id] {
				t.Errorf("record %d is skipped", r.Sequence)
			}
			// What was made after the backup is new to every consumer, but for the transfer that its caller has sent again.
			isNew := r.Transfer != nil && strings.HasPrefix(string(r.Transfer.ID), "new") || r.Change != nil && r.Change.Account.Frozen == frozen
			if isNew == before[id] {
				t.Errorf("record %d is new: %v, and its event was there before: %v", r.Sequence, isNew, before[id])
			}
		}
	}
}

// Another Kafka is not taken for this one; told where to begin, the relay begins there.
func TestRelay_AnotherKafka(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.relay(t, "one", nil)
	w.post(t, move("t1", "cash", "wallet:a", "1"))
	w.caughtUp(t)
	one.end()
	other := &world{Journal: w.Journal, db: w.db, pool: w.pool, cluster: kafkatest.Start(t, 1)}
	other.topics = relay.Topics{Transfers: other.cluster.Topic(t, 1, nil), Accounts: other.cluster.Topic(t, 1, nil), Prefix: w.topics.Prefix}
	two := other.relay(t, "two", nil)
	<-two.ended
	if two.err == nil || !strings.Contains(two.err.Error(), "khata relay rewind") {
		t.Fatalf("it says %v", two.err)
	}
	if err := relay.Rewind(t.Context(), w.Journal, w.pool, relay.Back{}); err != nil {
		t.Fatal(err)
	}
	other.relay(t, "three", nil)
	other.caughtUp(t)
	other.check(t)
}

// A relay at work is interrupted by a rewind, and goes on from there.
func TestRelay_Rewind(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.relay(t, "one", nil)
	for i := range 6 {
		var specs []ledger.TransferSpec
		for k := range 100 {
			specs = append(specs, move(fmt.Sprintf("t%d-%d", i, k), "cash", "wallet:a", "1"))
		}
		w.post(t, specs...)
	}
	w.until(t, "there are marks", func() (bool, string) {
		through, err := w.Feed().Since(t.Context(), 1, time.Now(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		records, err := w.Feed().Count(t.Context(), 1, 0, through)
		return records >= 512, fmt.Sprint(through, records, err)
	})
	w.caughtUp(t)
	if err := relay.Rewind(t.Context(), w.Journal, w.pool, relay.Back{Ledger: "unknown", Since: time.Now()}); err == nil {
		t.Error("an unknown ledger is rewound")
	}
	// As far back as the last mark only.
	if err := relay.Rewind(t.Context(), w.Journal, w.pool, relay.Back{Ledger: main, Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	w.until(t, "it has begun anew", func() (bool, string) { s := w.status(t); return s.Holder == "one" && s.Term > 1, fmt.Sprint(s) })
	w.caughtUp(t)
	again := w.check(t)
	if again == 0 || again > 3*(100+4) {
		t.Errorf("%d events came again", again)
	}
	if err := relay.Rewind(t.Context(), w.Journal, w.pool, relay.Back{}); err != nil {
		t.Fatal(err)
	}
	w.caughtUp(t)
	if all := w.check(t) - again; all != 3*600+4 {
		t.Errorf("%d events came again, want all", all)
	}
}

// A record that lies behind the cursor, which the guards do not let happen, is found by khata verify.
func TestRelay_VerifyCounts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.relay(t, "one", nil)
	w.post(t, move("t1", "cash", "wallet:a", "1"), move("t2", "cash", "wallet:a", "1"))
	w.caughtUp(t)
	r.end()
	w.db.Exec(t, "UPDATE relay_cursor SET records = records - 1")
	if got := breaches(t, w.db); !strings.Contains(got, "published: the relay has published 5 records through this number, and the journal has 6") {
		t.Errorf("verify says %q", got)
	}
	w.db.Exec(t, "UPDATE relay_cursor SET records = records + 1")
}

func breaches(t *testing.T, db *pgtest.DB) string {
	t.Helper()
	report, err := verify.Run(context.Background(), db.ServiceDSN(), verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, c := range report.Checks {
		for _, b := range c.Breaches {
			told = append(told, c.Name+": "+b.Detail)
		}
	}
	return strings.Join(told, "; ")
}
