package suspect

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// A lower number can be committed after a higher one. The follower waits for it, and does not pass by.
func TestFollow_LateNumbers(t *testing.T) {
	t.Parallel()
	d := setup(t)
	conn, err := pgx.Connect(t.Context(), d.db.ServiceDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	late := func(id string) pgx.Tx {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `INSERT INTO transfer (ledger_id, transfer_id, account_nos, amounts, caller)
			SELECT 1, $1, ARRAY[a.account_no, b.account_no], ARRAY[500, -500], 'psql'
			  FROM account a, account b WHERE a.account_id = 'payer' AND b.account_id = 'payee'`, id); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	tx := late("late")
	d.post(t, pay("early", "500"))
	d.post(t, pay("early-again", "500"))
	if n, err := d.Follow(t.Context()); err != nil || n != 0 {
		t.Fatalf("%d were followed before the one that is under way: %v", n, err)
	}
	l, err := d.Lag(t.Context())
	if err != nil || len(l.Ledgers) != 1 || l.Ledgers[0].Ledger != main || l.Oldest() == nil || l.Ledgers[0].Last <= l.Ledgers[0].Through {
		t.Errorf("%+v, %v", l, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.follow(t)
	if diff := cmp.Diff([]string{"open high: late early early-again"}, d.suspectsOf(t, Filter{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// And a number that is never committed holds nobody up.
	tx = late("never")
	d.post(t, pay("other", "7"), pay("other-again", "7"))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.follow(t)
	if got := d.suspectsOf(t, Filter{Limit: 1}); len(got) != 2 || got[0] != "open high: other other-again" {
		t.Error(got)
	}
}

// metric is the value of a counter or a gauge.
func metric(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// Run follows by itself until it is told to end, and says so in its metrics.
func TestRun(t *testing.T) {
	t.Parallel()
	faults := pgtest.NewFaults(t)
	d := setup(t, faults)
	registry := prometheus.NewRegistry()
	one := New(Config{Journal: d.journal, Pool: d.pool, Every: 20 * time.Millisecond, Batch: 2, Metrics: NewMetrics(registry)})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		one.Run(ctx)
	}()
	d.post(t, pay("a", "500"), pay("b", "500"), pay("c", "500"), pay("d", "20"), pay("e", "21"))
	await := func(what string, is func() bool) {
		t.Helper()
		for begun := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Since(begun) > 40*time.Second {
				t.Fatal(what)
			}
		}
	}
	await("not all were followed", func() bool { return metric(t, registry, "khata_suspects_transfers_total") == 5 })
	await("the age of what was not is not 0", func() bool { return metric(t, registry, "khata_suspects_oldest_unread_seconds") == 0 })
	if groups, members := metric(t, registry, "khata_suspects_groups_total"), metric(t, registry, "khata_suspects_members_total"); groups != 1 || members != 3 {
		t.Errorf("%v groups of %v members", groups, members)
	}
	thaw := faults.Freeze()
	d.db.KillBackends(t)
	await("nobody says that nobody knows", func() bool { return math.IsNaN(metric(t, registry, "khata_suspects_oldest_unread_seconds")) })
	thaw()
	await("it does not go on", func() bool { return metric(t, registry, "khata_suspects_oldest_unread_seconds") == 0 })
	stop()
	<-ended
	if got := d.suspectsOf(t, Filter{}); len(got) != 1 {
		t.Error(got)
	}
}

// Two ledgers know nothing of each other.
func TestLedgers(t *testing.T) {
	t.Parallel()
	d := setup(t)
	if _, err := d.journal.CreateLedger(t.Context(), clerk, "second"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.journal.CreateAccounts(t.Context(), clerk, "second", []ledger.AccountSpec{
		{ID: "payer", Type: ledger.Liability, Currency: "BDT"}, {ID: "payee", Type: ledger.Liability, Currency: "BDT"},
	}); err != nil {
		t.Fatal(err)
	}
	d.post(t, pay("a", "500"))
	for _, id := range []ledger.TransferID{"a", "b"} {
		if _, err := d.journal.Post(t.Context(), clerk, "second", []ledger.TransferSpec{pay(id, "500")}); err != nil {
			t.Fatal(err)
		}
	}
	d.follow(t)
	if got := d.suspectsOf(t, Filter{}); len(got) != 0 {
		t.Error(got)
	}
	page, err := d.Suspects(t.Context(), "second", Filter{Account: "payer"})
	if err != nil || len(page.Groups) != 1 || page.Groups[0].text() != "open high: a b" || page.Groups[0].Ledger != "second" {
		t.Error(page, err)
	}
}

// What a transfer can say of itself, however it is written.
func TestReferences(t *testing.T) {
	t.Parallel()
	for metadata, want := range map[string]map[string]string{
		``:                                   nil,
		`{"a":"x"}`:                          nil,
		`{"Order-ID":" 7 ","order_no":7}`:    {"Order-ID": "7", "order_no": "7"},
		`{"invoice":{"id":"7"},"ref":[1]}`:   nil,
		`{"ref":"","ticket":null,"trip":""}`: nil,
		`{"end_to_end_id":"x","trip":true}`:  {"end_to_end_id": "x", "trip": "true"},
		`{"ref`:                              nil,
		`{"reference":"\u0995"}`:             {"reference": "ক"},
	} {
		if diff := cmp.Diff(want, references(ledger.Metadata(metadata))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", metadata, diff)
		}
	}
	// The reasons are those that the score went by.
	day, month := noon, noon.AddDate(0, 1, 0)
	for name, c := range map[string]struct {
		a, b  fact
		score int
		want  []string
	}{
		"nothing":       {fact{}, fact{}, 80, []string{"posted 4s apart"}},
		"a reference":   {fact{references: map[string]string{"ref": "1", "order": "2"}}, fact{references: map[string]string{"ref": "1"}}, 100, []string{"posted 4s apart", `the same ref: "1"`}},
		"another":       {fact{references: map[string]string{"ref": "1", "order": "2"}}, fact{references: map[string]string{"ref": "1", "order": "3"}}, 10, []string{"posted 4s apart", `order differs: "2" and "3"`}},
		"texts":         {fact{description: "tea"}, fact{description: "tea"}, 90, []string{"posted 4s apart", "the same description"}},
		"other texts":   {fact{description: "tea"}, fact{description: "rice"}, 40, []string{"posted 4s apart", "the descriptions differ"}},
		"one text":      {fact{description: "tea"}, fact{}, 80, []string{"posted 4s apart"}},
		"value dates":   {fact{effectiveAt: &day}, fact{effectiveAt: &month}, 20, []string{"posted 4s apart", "the value dates are more than a day apart"}},
		"no value date": {fact{effectiveAt: &day}, fact{}, 80, []string{"posted 4s apart"}},
	} {
		c.a.postedAt, c.b.postedAt = noon, noon.Add(4*time.Second)
		for _, v := range []verdict{compare(&c.a, &c.b), compare(&c.b, &c.a)} {
			if v.score != c.score {
				t.Errorf("%s: the score is %d, want %d", name, v.score, c.score)
			}
		}
		if diff := cmp.Diff(c.want, compare(&c.a, &c.b).reasons()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	begun := time.Now()
	for apart, want := range map[time.Duration]string{
		0: "posted less than a second apart", 40153 * time.Microsecond: "posted less than a second apart", time.Second: "posted 1s apart",
	} {
		if got := compare(&fact{postedAt: begun.Add(apart)}, &fact{postedAt: begun}).reasons()[0]; got != want {
			t.Errorf("%v: %s, want %s", apart, got, want)
		}
	}
	for apart, want := range map[time.Duration]string{
		0: "0s", time.Microsecond: "1µs", 4123456 * time.Microsecond: "4.12s", 90*time.Second + time.Millisecond: "1m30s", 10 * time.Minute: "10m",
		24 * time.Hour: "24h", 5*time.Hour + time.Second: "5h0m1s", 5*time.Hour + 20*time.Minute: "5h20m",
	} {
		if got := short(apart); got != want {
			t.Errorf("%v is %q, want %q", apart, got, want)
		}
	}
}
