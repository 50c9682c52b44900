package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/kafkatest"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger/inbox"
)

func TestMain(m *testing.M) {
	code := kafkatest.Main(func() int { return pgtest.Main(m, kafkatest.Ignore()) })
	if exampleDir != "" {
		_ = os.RemoveAll(exampleDir)
	}
	os.Exit(code)
}

const (
	day = 24 * time.Hour
	// patience is for what happens at once, on a machine that does much else.
	patience = 40 * time.Second
)

// bench is a topic, and a database with an inbox and a table of effects that takes every effect as often as it comes.
type bench struct {
	db    *pgtest.DB
	pool  *pgxpool.Pool
	fake  *kfake.Cluster
	seeds []string
	topic string
	kafka *kgo.Client
	admin *kadm.Client
}

const topic = "khata.transfers"

func setup(t testing.TB, partitions int) *bench {
	t.Helper()
	return setupWith(t, partitions, nil)
}

func setupWith(t testing.TB, partitions int, settings map[string]string) *bench {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	if err := fake.CreateTopic(topic, int32(partitions), settings); err != nil {
		t.Fatal(err)
	}
	b := &bench{fake: fake, seeds: fake.ListenAddrs(), topic: topic}
	b.connect(t)
	return b
}

func (b *bench) connect(t testing.TB) {
	t.Helper()
	var err error
	if b.kafka, err = kgo.NewClient(kgo.SeedBrokers(b.seeds...), kgo.DefaultProduceTopic(b.topic), kgo.RecordPartitioner(byNumber{})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.kafka.Close)
	b.admin = kadm.NewClient(b.kafka)
	b.db = pgtest.New(t)
	if _, err := inbox.Migrate(t.Context(), b.db.OwnerDSN(), ""); err != nil {
		t.Fatal(err)
	}
	b.db.Exec(t, inbox.Grants("", "khata_service"))
	b.db.Exec(t, `CREATE TABLE effect (n bigint GENERATED ALWAYS AS IDENTITY, event_id text, partition integer, at bigint);
		GRANT SELECT, INSERT ON effect TO khata_service`)
	b.pool = connect(t, b.db)
}

func connect(t testing.TB, db *pgtest.DB) *pgxpool.Pool {
	t.Helper()
	pool, err := inbox.Connect(context.Background(), db.ServiceDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// byNumber takes the partition that the record names.
type byNumber struct{}

func (byNumber) ForTopic(string) kgo.TopicPartitioner { return byNumber{} }
func (byNumber) RequiresConsistency(*kgo.Record) bool { return true }
func (byNumber) Partition(r *kgo.Record, _ int) int   { return int(r.Partition) }
func (byNumber) OnNewBatch()                          {}

// effect is the handler that most tests have.
func effect(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
	_, err := tx.Exec(ctx, `INSERT INTO effect (event_id, partition, at) VALUES ($1, $2, $3)`, e.ID, e.Partition, e.Offset)
	return err
}

// config is an Inbox that does what handle says, quickly.
func (b *bench) config(handle func(context.Context, pgx.Tx, inbox.Event) error) inbox.Config {
	return inbox.Config{
		Consumer: "wallet", Pool: b.pool, Topics: []string{b.topic}, Handle: handle, ReplayEvery: 20 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
		Kafka: []kgo.Opt{
			kgo.SeedBrokers(b.seeds...), kgo.FetchMaxWait(50 * time.Millisecond), kgo.HeartbeatInterval(100 * time.Millisecond), kgo.SessionTimeout(10 * time.Second),
		},
	}
}

func open(t testing.TB, config inbox.Config) *inbox.Inbox {
	t.Helper()
	in, err := inbox.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// start runs an Inbox until stop is called or the test ends.
func start(t testing.TB, config inbox.Config) (stop func()) {
	t.Helper()
	in := open(t, config)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := in.Run(ctx); err != nil {
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

// event is a record for the topic. Its partition is where it goes.
func event(id string, more ...func(*kgo.Record)) *kgo.Record {
	r := &kgo.Record{Value: []byte("data of " + id), Headers: []kgo.RecordHeader{
		{Key: "ce_specversion", Value: []byte("1.0")}, {Key: "ce_id", Value: []byte(id)}, {Key: "ce_type", Value: []byte("test.happened.v1")},
		{Key: "ce_source", Value: []byte("test")}, {Key: "ce_time", Value: []byte(time.Now().UTC().Format(time.RFC3339Nano))},
		{Key: "content-type", Value: []byte("text/plain")},
	}}
	for _, change := range more {
		change(r)
	}
	return r
}

func header(key, value string) func(*kgo.Record) {
	return func(r *kgo.Record) {
		r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == key })
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
}

func without(key string) func(*kgo.Record) {
	return func(r *kgo.Record) {
		r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == key })
	}
}

func ago(d time.Duration) func(*kgo.Record) {
	return header("ce_time", time.Now().UTC().Add(-d).Format(time.RFC3339Nano))
}

func on(partition int) func(*kgo.Record) {
	return func(r *kgo.Record) { r.Partition = int32(partition) }
}

func key(k string) func(*kgo.Record) { return func(r *kgo.Record) { r.Key = []byte(k) } }

func events(from, to int, more ...func(*kgo.Record)) []*kgo.Record {
	var list []*kgo.Record
	for i := from; i < to; i++ {
		list = append(list, event(name(i), more...))
	}
	return list
}

func name(i int) string { return "event-" + strconv.Itoa(i) }

func names(from, to int) []string {
	var list []string
	for i := from; i < to; i++ {
		list = append(list, name(i))
	}
	return list
}

func (b *bench) produce(t testing.TB, records ...*kgo.Record) {
	t.Helper()
	if err := b.kafka.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// effects are the ids of the events that had an effect, in the order of their effects.
func (b *bench) effects(t testing.TB) []string {
	t.Helper()
	return texts(t, b.pool, `SELECT event_id FROM effect ORDER BY n`)
}

func texts(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// wantEffects waits until all that is in the topic is committed by the group, and looks at the effects.
func (b *bench) wantEffects(t testing.TB, group string, want ...string) {
	t.Helper()
	b.drained(t, group)
	if diff := cmp.Diff(want, b.effects(t)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// drained waits until a group has committed the end of every partition.
func (b *bench) drained(t testing.TB, group string) {
	t.Helper()
	waitFor(t, "the group "+group+" to be through", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		ends, err := b.admin.ListEndOffsets(ctx, b.topic)
		if err != nil {
			return err
		}
		committed, err := b.admin.FetchOffsetsForTopics(ctx, group, b.topic)
		if err != nil {
			return err
		}
		ends.Each(func(end kadm.ListedOffset) {
			if at, ok := committed.Lookup(b.topic, end.Partition); end.Offset > 0 && (!ok || at.At != end.Offset) {
				err = fmt.Errorf("partition %d ends at %d, and is committed at %d", end.Partition, end.Offset, at.At)
			}
		})
		return err
	})
}

// waitFor waits until check finds nothing wrong.
func waitFor(t testing.TB, what string, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("waited for %s: %v", what, err)
}

// letters are the letters of the consumer wallet, as "id reason state".
func (b *bench) letters(t testing.TB) []string {
	t.Helper()
	list, err := inbox.Letters(t.Context(), b.pool, inbox.Selection{Consumer: "wallet"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range list {
		got = append(got, fmt.Sprintf("%s %s %s", l.Event.ID, l.Reason, l.State))
	}
	return got
}

func (b *bench) wantLetters(t testing.TB, want ...string) {
	t.Helper()
	var got []string
	deadline := time.Now().Add(patience)
	for got = b.letters(t); !slices.Equal(got, want) && time.Now().Before(deadline); got = b.letters(t) {
		time.Sleep(10 * time.Millisecond)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("letters (-want +got):\n%s", diff)
	}
}

// rewind lets a group, which has no members, read everything again.
func (b *bench) rewind(t testing.TB, group string) {
	t.Helper()
	starts, err := b.admin.ListStartOffsets(t.Context(), b.topic)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.admin.CommitAllOffsets(t.Context(), group, starts.Offsets()); err != nil {
		t.Fatal(err)
	}
}

var errTest = errors.New("the handler says no")
