package fraud_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger/inbox"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// table is a database with the table of flagged transfers, and who fills it from the bench's verdicts.
type table struct {
	db   *pgtest.DB
	pool *pgxpool.Pool
}

func newTable(t *testing.T) *table {
	t.Helper()
	db := pgtest.New(t)
	if _, err := inbox.Migrate(t.Context(), db.OwnerDSN(), ""); err != nil {
		t.Fatal(err)
	}
	for range 2 { // The second time there is nothing to do.
		if _, err := fraud.Schema.Migrate(t.Context(), db.OwnerDSN()); err != nil {
			t.Fatal(err)
		}
	}
	db.Exec(t, inbox.Grants("", "khata_service")+fraud.Grants("khata_service"))
	pool, err := pg.Connect(t.Context(), pg.Config{DSN: db.ServiceDSN()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := fraud.Schema.Check(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return &table{db, pool}
}

// consume runs the consumer until it is stopped.
func (w *table) consume(t *testing.T, b *bench, group string) (stop func()) {
	t.Helper()
	in, err := inbox.New(t.Context(), fraud.Consume(inbox.Config{
		Pool: w.pool, Kafka: quick(b.seeds...), Group: group, Logger: slog.New(slog.DiscardHandler),
	}, b.topics))
	if err != nil {
		t.Fatal(err)
	}
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

// consumed waits until a group has read all verdicts.
func (b *bench) consumed(t testing.TB, group string) {
	t.Helper()
	admin := kadm.NewClient(b.client)
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		lag := int64(-1)
		committed, err := admin.FetchOffsetsForTopics(context.Background(), group, b.topics.Verdicts())
		var ends kadm.ListedOffsets
		if err == nil {
			ends, err = admin.ListCommittedOffsets(context.Background(), b.topics.Verdicts())
		}
		if err == nil {
			lag = 0
			ends.Each(func(o kadm.ListedOffset) {
				at, _ := committed.Lookup(o.Topic, o.Partition)
				lag += max(0, o.Offset-1-max(0, at.At)) // The last one is a marker.
			})
		}
		if lag == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d verdicts are not consumed, %v", lag, err)
		}
	}
}

func list(t testing.TB, pool *pgxpool.Pool, settled bool) []fraud.Flagged {
	t.Helper()
	all, err := fraud.List(t.Context(), pool, fraud.Filter{Settled: settled, Limit: 10000})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Flagged transfers become rows, once each: delivered three times, and read from the beginning by another group.
func TestFlagged(t *testing.T) {
	t.Parallel()
	b, w := onFake(t), newTable(t)
	check := b.start(t, "one")
	b.publishOften(t, 1, b.transfers(1, 60))
	garbage := b.movement(b.transfers(2, 1)[0], "wallet:x")
	garbage.Key, garbage.Value = []byte("main/wallet:x"), []byte("\xff")
	b.produce(t, garbage)
	b.check(t)
	check.end(t)
	// Whoever sends them, sends them again.
	for range 2 {
		for _, v := range b.verdicts(t) {
			again := *v.record
			again.Topic, again.Timestamp = b.topics.Verdicts(), time.Time{}
			b.produce(t, &again)
		}
	}
	b.flush(t)
	stop := w.consume(t, b, "first")
	b.consumed(t, "first")
	stop()
	b.consumeAgain(t, w)

	want := map[string]string{}
	for _, v := range b.verdicts(t) {
		if v.Outcome == khatav1.FraudOutcome_FRAUD_OUTCOME_FLAGGED {
			want[v.headers["ce_id"]] = fmt.Sprintf("%s %s %s %d %s %s %s %s %q", v.Ledger, v.TransferId, v.Amount, v.Sequence, v.Payer, v.Payee, v.Currency, v.Rules, v.JudgedEvent)
		}
	}
	got := map[string]string{}
	unreadable := 0
	for _, f := range list(t, w.pool, false) {
		got[f.Verdict] = fmt.Sprintf("%s %s %s %d %s %s %s %s %q", f.Ledger, f.Transfer, f.Amount, f.Sequence, f.Payer, f.Payee, f.Currency, f.Rules, f.JudgedEvent)
		if f.Unreadable {
			unreadable++
		} else if f.PostedAt == nil || !slices.ContainsFunc(b.sent, func(p *fraud.Payment) bool {
			return p.Transfer == f.Transfer && p.PostedAt.Equal(*f.PostedAt) && p.Kind == f.Kind
		}) {
			t.Errorf("%+v", f)
		}
		if f.State != fraud.Open || len(f.Reasons) == 0 || f.Reasons[0].Text == "" {
			t.Errorf("%+v", f)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || unreadable != 1 {
		t.Errorf("%d are unreadable; flagged (-want +got):\n%s", unreadable, diff)
	}
	letters, err := inbox.Letters(t.Context(), w.pool, inbox.Selection{})
	if err != nil || len(letters) > 0 {
		t.Error(letters, err)
	}
}

func (b *bench) consumeAgain(t *testing.T, w *table) {
	t.Helper()
	stop := w.consume(t, b, "second")
	b.consumed(t, "second")
	stop()
}

// What is no verdict is laid aside, and stops nobody.
func TestFlagged_Garbage(t *testing.T) {
	t.Parallel()
	b, w := onFake(t), newTable(t)
	good := &khatav1.FraudVerdict{Ledger: "main", TransferId: "a", Sequence: 1, Amount: "5.00", Currency: "BDT", PostedAt: timestamppb.New(b.at)}
	send := func(id, typeName string, data []byte) {
		b.produce(t, &kgo.Record{Topic: b.topics.Verdicts(), Key: []byte("main/wallet:a"), Value: data, Headers: []kgo.RecordHeader{
			{Key: "ce_specversion", Value: []byte("1.0")}, {Key: "ce_id", Value: []byte(id)}, {Key: "ce_type", Value: []byte(typeName)},
			{Key: "ce_source", Value: []byte("/khata/ledgers/main/fraud")}, {Key: "ce_time", Value: []byte(time.Now().UTC().Format(time.RFC3339Nano))},
		}})
	}
	encoded := func(change func(*khatav1.FraudVerdict)) []byte {
		v := proto.Clone(good).(*khatav1.FraudVerdict)
		change(v)
		data, err := proto.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	same := func(*khatav1.FraudVerdict) {}
	send("no protobuf", "khata.fraud.flagged.v1", []byte("\xff"))
	send("unknown type", "khata.fraud.flagged.v2", encoded(same))
	send("no amount", "khata.fraud.flagged.v1", encoded(func(v *khatav1.FraudVerdict) { v.Amount = "" }))
	send("no transfer", "khata.fraud.flagged.v1", encoded(func(v *khatav1.FraudVerdict) { v.TransferId = "" }))
	send("the first", "khata.fraud.flagged.v1", encoded(same))
	send("another about it", "khata.fraud.flagged.v1", encoded(same))
	send("approved", "khata.fraud.approved.v1", []byte("\xff"))
	b.flush(t)
	w.consume(t, b, "")
	b.consumed(t, fraud.Consumer)
	var letters []string
	all, err := inbox.Letters(t.Context(), w.pool, inbox.Selection{Consumer: fraud.Consumer})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		letters = append(letters, string(l.Reason)+" "+l.Event.ID)
	}
	slices.Sort(letters)
	if diff := cmp.Diff([]string{"failed another about it", "poison no amount", "poison no protobuf", "poison no transfer", "poison unknown type"}, letters); diff != "" {
		t.Error(diff)
	}
	if got := list(t, w.pool, true); len(got) != 1 || got[0].Verdict != "the first" {
		t.Errorf("%+v", got)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	w := newTable(t)
	w.db.Exec(t, `INSERT INTO khata_fraud.flagged (verdict, unreadable, ledger, transfer_id, sequence, kind, payer, payee, currency, reasons, rules, judged_event)
		SELECT v, true, 'main', '', 1, '', '', '', '', '[]', 'r', 'e' FROM unnest(ARRAY['a', 'b', 'c', 'd']) v`)
	settle := func(as, note, by string, verdicts ...string) string {
		if err := fraud.Settle(t.Context(), w.pool, fraud.Settlement{Verdicts: verdicts, As: as, Note: note, By: by}); err != nil {
			return err.Error()
		}
		return ""
	}
	for _, c := range []struct{ as, note, by, verdicts, want string }{
		{"open", "n", "tithi", "a", `is settled as cleared or confirmed, not as "open"`},
		{"cleared", "n", "tithi", "", "name the verdicts"},
		{"cleared", " ", "tithi", "a", "say why, and who says so"},
		{"cleared", "n", "", "a", "say why, and who says so"},
		{"cleared", "n", "tithi", "a x", "there is no verdict x here"},
		{"cleared", "his rent", "tithi", "a b", ""},
		{"cleared", "again", "shimul", "b a", ""},
		{"confirmed", "stolen", "shimul", "c b", "verdict b was settled before, as cleared: nothing was changed"},
		{"confirmed", "stolen", "shimul", "c", ""},
	} {
		if got := settle(c.as, c.note, c.by, strings.Fields(c.verdicts)...); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v: %q", c, got)
		}
	}
	var got []string
	for _, f := range list(t, w.pool, true) {
		got = append(got, fmt.Sprint(f.Verdict, " ", f.State, " ", f.Note, " ", f.SettledBy, " ", f.SettledAt != nil))
	}
	if diff := cmp.Diff([]string{"a cleared his rent tithi true", "b cleared his rent tithi true", "c confirmed stolen shimul true", "d open   false"}, got); diff != "" {
		t.Error(diff)
	}
	if open := list(t, w.pool, false); len(open) != 1 || open[0].Verdict != "d" {
		t.Errorf("%+v", open)
	}
	first, err := fraud.List(t.Context(), w.pool, fraud.Filter{Settled: true, Limit: 2})
	if err != nil || len(first) != 2 {
		t.Fatal(first, err)
	}
	rest, err := fraud.List(t.Context(), w.pool, fraud.Filter{Settled: true, Limit: 9, After: first[1].Number})
	if err != nil || len(rest) != 2 || rest[0].Verdict != "c" {
		t.Error(rest, err)
	}
	// The role can do no more than that.
	for _, sql := range []string{
		"DELETE FROM khata_fraud.flagged", "TRUNCATE khata_fraud.flagged", "UPDATE khata_fraud.flagged SET reasons = '[]'", "UPDATE khata_fraud.flagged SET amount = 1",
	} {
		if _, err := w.pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
