package sms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger/inbox"
)

const accountsTopic = "khata.accounts"

// onKafka is a Kafka in this process, with the topic of accounts.
func onKafka(t testing.TB) (config inbox.Config, client *kgo.Client) {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	if err := fake.CreateTopic(accountsTopic, 3, nil); err != nil {
		t.Fatal(err)
	}
	if client, err = kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...), kgo.DefaultProduceTopic(accountsTopic)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return inbox.Config{
		Topics: []string{accountsTopic},
		Kafka:  []kgo.Opt{kgo.SeedBrokers(fake.ListenAddrs()...), kgo.FetchMaxWait(50 * time.Millisecond), kgo.HeartbeatInterval(100 * time.Millisecond)},
		Logger: slog.New(slog.DiscardHandler),
	}, client
}

// record is an event as the relay publishes it, recorded now.
func record(e inbox.Event, key string) *kgo.Record {
	header := func(key, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: []byte(value)} }
	return &kgo.Record{Key: []byte("main/" + key), Value: e.Data, Headers: []kgo.RecordHeader{
		header("ce_specversion", "1.0"), header("ce_id", e.ID), header("ce_source", e.Source), header("ce_type", e.Type),
		header("ce_time", time.Now().UTC().Format(time.RFC3339Nano)), header("content-type", "application/protobuf"),
	}}
}

// records are events by account, which is their subject here.
func records(account string, events ...inbox.Event) []*kgo.Record {
	var list []*kgo.Record
	for _, e := range events {
		list = append(list, record(e, account))
	}
	return list
}

func produce(t testing.TB, client *kgo.Client, list ...*kgo.Record) {
	t.Helper()
	if err := client.ProduceSync(t.Context(), list...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// start runs the consumer until stop is called or the test ends.
func start(t testing.TB, c Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := Run(ctx, c); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// config is a consumer on the bench.
func (b *bench) config(t testing.TB, in inbox.Config, g Gateway) Config {
	t.Helper()
	p := quick(4)
	return Config{Pool: b.pool, Inbox: in, Gateway: g, Language: English, Logger: logger(t), pace: &p}
}

// Events that are delivered three times, in and out of a batch, and once more to a group that starts anew: one message each.
func TestRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in, client := onKafka(t)
	box, g, _ := sandbox(t)
	registry := prometheus.NewRegistry()
	c := b.config(t, in, g)
	c.Registerer = registry
	produce(t, client, records("wallet:shimul", account("opened", "wallet:shimul", "Shimul", withPhone("+8801711000011"), 1))...)
	produce(t, client, records("wallet:tithi", account("opened", "wallet:tithi", "Tithi", withPhone("+8801711000012"), 2))...)
	stop := start(t, c)
	until(t, "both accounts are known", func() (bool, string) {
		n := b.rows(t, "SELECT count(*)::text FROM khata_sms.recipient")[0]
		return n == "2", n
	})
	var list []*kgo.Record
	const transfers = 30
	for i := range transfers {
		of := pay(fmt.Sprint("T-", i), "wallet:shimul", "wallet:tithi", "1.00", int64(10+i))
		list = slices.Concat(list, records("wallet:shimul", of[0], of[0]), records("wallet:tithi", of[1], of[1]))
	}
	bad := inbox.Event{ID: "bad", Type: "khata.account.moved.v2", Source: "/khata/ledgers/main"}
	produce(t, client, append(list, records("wallet:shimul", bad)...)...)
	again := func() {
		for _, r := range list {
			produce(t, client, &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers})
		}
	}
	again()
	sent := func() {
		until(t, "all is sent", func() (bool, string) {
			got := b.rows(t, "SELECT state || ' ' || count(*) FROM khata_sms.message GROUP BY state")
			return slices.Equal(got, []string{fmt.Sprintf("sent %d", 2*transfers)}), fmt.Sprintf("%q", got)
		})
	}
	sent()
	stop()
	admin := kadm.NewClient(client)
	if _, err := admin.DeleteGroup(t.Context(), Consumer); err != nil {
		t.Fatal(err)
	}
	again()
	c.Registerer = nil
	in.Group = "another"
	c.Inbox = in
	stop = start(t, c)
	until(t, "the group is through", func() (bool, string) {
		lags, err := admin.Lag(t.Context(), "another")
		if err != nil {
			return false, err.Error()
		}
		lag, ok := lags["another"]
		return ok && lag.Error() == nil && len(lag.Lag) > 0 && lag.Lag.Total() == 0, fmt.Sprint(lag.Lag.Total())
	})
	sent()
	stop()
	if got := box.Totals(); got != (SandboxTotals{Calls: 2 * transfers, Sent: 2 * transfers}) {
		t.Errorf("%+v", got)
	}
	if got := b.rows(t, "SELECT event_id || ' ' || reason FROM khata_inbox.letter"); !slices.Equal(got, []string{"bad poison"}) {
		t.Errorf("letters: %q", got)
	}
	if n := metric(t, registry, "khata_sms_calls_total", "sent"); n != 2*transfers {
		t.Errorf("%v calls", n)
	}
}

// Without the accounts of the books it does not begin; with them it reads them, and tells nothing of what was before.
func TestRun_Begin(t *testing.T) {
	t.Parallel()
	b := setupEmpty(t)
	in, client := onKafka(t)
	box, g, _ := sandbox(t)
	if err := Run(t.Context(), b.config(t, in, g)); !errors.Is(err, ErrNotBegun) || !strings.Contains(err.Error(), "--ledger-dsn") {
		t.Errorf("%v", err)
	}
	j := b.books(t)
	open(t, j, "main", "wallet:x", "wallet:y", "wallet:shimul")
	before := post(t, j, "main", "before", "wallet:x", "wallet:shimul")
	c := b.config(t, in, g)
	c.Books = j
	start(t, c)
	until(t, "it has begun", func() (bool, string) { return len(b.covered(t)) == 1, "" })
	after := post(t, j, "main", "after", "wallet:x", "wallet:shimul")
	produce(t, client, slices.Concat(records("wallet:shimul", pay("before", "wallet:x", "wallet:shimul", "1.00", before)[1]),
		records("wallet:shimul", pay("after", "wallet:x", "wallet:shimul", "2.00", after)[1]))...)
	until(t, "it is sent", func() (bool, string) { return box.Totals().Sent > 0, "" })
	if list := box.Messages(); len(list) != 1 || !strings.HasPrefix(list[0].Text, "৳2.00 received from Name of wallet:x. Ref after, ") || list[0].To != "+8801700000002" {
		t.Errorf("%+v", list)
	}
}

// Once it has begun, books that are away stop nobody.
func TestRun_BooksAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.people(t)
	in, client := onKafka(t)
	box, g, _ := sandbox(t)
	nowhere := connect(t, pg.Config{DSN: "host=127.0.0.1 port=1 dbname=none connect_timeout=1"})
	j := journal.New(nowhere, journal.Config{SnapshotEvery: -1, ExpireEvery: -1, Budget: 200 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(j.Close)
	c := b.config(t, in, g)
	c.Books = j
	start(t, c)
	produce(t, client, records("wallet:shimul", pay("T", "wallet:tithi", "wallet:shimul", "1.00", 10)[1])...)
	until(t, "it is sent", func() (bool, string) { return box.Totals().Sent == 1, "" })
}

// Events that are gone stop it, and it says what they cost.
func TestRun_Lost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in, client := onKafka(t)
	_, g, _ := sandbox(t)
	produce(t, client, records("a", account("opened", "a", "", "", 1))...)
	stop := start(t, b.config(t, in, g))
	admin := kadm.NewClient(client)
	until(t, "it is read", func() (bool, string) { return len(b.rows(t, "SELECT account FROM khata_sms.recipient")) == 1, "" })
	stop()
	produce(t, client, records("a", account("updated", "a", "", "", 2), account("updated", "a", "", "", 3))...)
	ends, err := admin.ListEndOffsets(t.Context(), accountsTopic)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DeleteRecords(t.Context(), ends.Offsets()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = Run(ctx, b.config(t, in, g))
	var lost *inbox.LostError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "never told") || !strings.Contains(err.Error(), "--skip-lost") {
		t.Errorf("%v", err)
	}
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, g, _ := sandbox(t)
	for want, change := range map[string]func(*Config){
		"required": func(c *Config) { c.Gateway = nil }, "language": func(c *Config) { c.Language = "fr" }, "senders": func(c *Config) { c.Senders = 65 },
		"expire": func(c *Config) { c.MaxAge = time.Second }, "kept": func(c *Config) { c.Keep = time.Hour },
	} {
		c := b.config(t, inbox.Config{}, g)
		change(&c)
		if err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The rights that Grants gives are enough for all of it (every test here runs as khata_service), and no more than that.
func TestGrants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, "one")
	for _, sql := range []string{
		"UPDATE khata_sms.message SET text = 'another'", "UPDATE khata_sms.message SET phone = '+8801711000099'", "DELETE FROM khata_sms.state", "DELETE FROM khata_sms.covered",
		"TRUNCATE khata_sms.message", "CREATE TABLE khata_sms.x (a int)",
	} {
		if _, err := b.pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if got := Grants(`odd"role`); !strings.Contains(got, `TO "odd""role";`) {
		t.Error(got)
	}
}
