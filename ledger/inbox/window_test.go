package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/khata-ledger/khata/ledger/inbox"
)

// A window that does not cover what the topic keeps is refused, with what is missing and both ways to mend it.
func TestNew_Window(t *testing.T) {
	t.Parallel()
	const hour = 3600_000
	for name, c := range map[string]struct {
		settings map[string]string
		window   time.Duration
		want     string // "": it is large enough
	}{
		"large enough": {map[string]string{"retention.ms": ms(2 * hour), "segment.ms": ms(hour)}, 4 * time.Hour, ""},
		"a second short": {map[string]string{"retention.ms": ms(2 * hour), "segment.ms": ms(hour)}, 4*time.Hour - time.Second,
			"too small by 1s for the topic khata.transfers, which can keep an event for 4h0m0s (retention.ms 2h0m0s, segment.ms 1h0m0s"},
		"Kafka's defaults": {nil, 14 * day, "too small by 1h0m0s"},
		"and the inbox's":  {nil, 0, ""},
		"says both ways": {nil, 7 * day,
			"Either set Config.Window to at least 337h0m0s, or have the topic keep less: lower its retention.ms or segment.ms by 169h0m0s together"},
		"for ever":          {map[string]string{"retention.ms": "-1"}, 0, "keeps events for ever (retention.ms=-1)"},
		"segments for ever": {map[string]string{"segment.ms": ms(1 << 62)}, 0, "keeps events for ever (segment.ms="},
		"compacted":         {map[string]string{"cleanup.policy": "compact"}, 0, "compacted"},
		"both":              {map[string]string{"cleanup.policy": "compact,delete"}, 0, "compacted"},
	} {
		b := setupWith(t, 1, c.settings)
		config := b.config(effect)
		config.Window = c.window
		_, err := inbox.New(t.Context(), config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		var wrong *inbox.WindowError
		if small := strings.Contains(c.want, "small"); small && (!errors.As(err, &wrong) || wrong.Missing() <= 0 || wrong.Topic != topic) {
			t.Errorf("%s: %#v", name, wrong)
		}
		if n := texts(t, b.pool, "SELECT name FROM khata_inbox.consumer"); (len(n) == 1) != (c.want == "") {
			t.Errorf("%s: registered %q", name, n)
		}
	}
}

func ms(n int64) string { return fmt.Sprint(n) }

func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	for name, c := range map[string]struct {
		change func(*inbox.Config)
		want   string
	}{
		"no consumer":        {func(c *inbox.Config) { c.Consumer = "" }, "Config.Consumer"},
		"no pool":            {func(c *inbox.Config) { c.Pool = nil }, "Config.Pool"},
		"no topics":          {func(c *inbox.Config) { c.Topics = nil }, "Config.Topics"},
		"an empty topic":     {func(c *inbox.Config) { c.Topics = []string{""} }, "Config.Topics"},
		"no handler":         {func(c *inbox.Config) { c.Handle = nil }, "Config.Handle"},
		"a long window":      {func(c *inbox.Config) { c.Window = 400 * day }, "Config.Window"},
		"a large batch":      {func(c *inbox.Config) { c.BatchSize = 1001 }, "Config.BatchSize"},
		"no tries":           {func(c *inbox.Config) { c.MaxAttempts = -1 }, "Config.MaxAttempts"},
		"a negative time":    {func(c *inbox.Config) { c.HandleTimeout = -1 }, "negative"},
		"no such topic":      {func(c *inbox.Config) { c.Topics = []string{topic, "no.such"} }, "topic no.such"},
		"not migrated":       {func(c *inbox.Config) { c.Schema = "elsewhere" }, "inbox.Migrate"},
		"an impossible name": {func(c *inbox.Config) { c.Schema = strings.Repeat("x", 64) }, "schema"},
	} {
		config := b.config(effect)
		c.change(&config)
		if _, err := inbox.New(t.Context(), config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Somebody lets a topic keep more while its consumer runs.
func TestRun_WindowBecomesTooSmall(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	config := b.config(effect)
	config.CheckEvery = 50 * time.Millisecond
	in := open(t, config)
	ended := make(chan error, 1)
	go func() { ended <- in.Run(t.Context()) }()
	b.produce(t, event("a"))
	b.wantEffects(t, "wallet", "a")
	retention := "1209600000"
	if _, err := b.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention}}, topic); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		var wrong *inbox.WindowError
		if !errors.As(err, &wrong) || wrong.Missing() != 6*day+time.Hour {
			t.Errorf("%v", err)
		}
	case <-time.After(patience):
		t.Fatal("it runs on")
	}
}

// Partitions are dropped when no consumer's window reaches them any more. What came from such a day is quarantined then, when it comes again, and
// also when the window is made longer afterwards: the inbox knows what it does not know.
func TestWindow_Dropped(t *testing.T) {
	t.Parallel()
	b := setupWith(t, 1, map[string]string{"retention.ms": "3600000", "segment.ms": "3600000"})
	days := func() []string {
		return texts(t, b.pool, `SELECT right(relname, 8) FROM pg_class WHERE relname ~ '^marker_\d{8}$' AND relkind = 'r' ORDER BY 1`)
	}
	of := func(d int) string { return time.Now().UTC().AddDate(0, 0, d).Format("20060102") }
	run := func(name string, window time.Duration, want ...string) {
		t.Helper()
		config := b.config(effect)
		config.Consumer, config.Window = name, window
		stop := start(t, config)
		b.wantEffects(t, name, want...)
		stop()
		b.rewind(t, name)
	}
	b.produce(t, event("a", ago(8*day)), event("b", ago(2*day)), event("c", ago(8*day)))
	run("wallet", 10*day, "a", "b", "c")
	if got := days(); got[len(got)-1] != of(7) || !slices.Contains(got, of(0)) || !slices.Contains(got, of(-10)) {
		t.Errorf("partitions: %q", got)
	}
	// Another consumer with a long window keeps them.
	run("sms", 20*day, "a", "b", "c", "a", "b", "c")
	run("wallet", 4*day, "a", "b", "c", "a", "b", "c")
	if got := days(); !slices.Contains(got, of(-10)) {
		t.Errorf("partitions: %q", got)
	}
	b.wantLetters(t)

	// It drops them while it runs: its effects are all there already, and say nothing of how far it is.
	config := b.config(effect)
	config.Consumer, config.Window = "sms", 4*day
	stop := start(t, config)
	waitFor(t, "partitions to be dropped", func() error {
		got := days()
		return unless(!slices.Contains(got, of(-8)) && slices.Contains(got, of(-5)), got)
	})
	b.wantEffects(t, "sms", "a", "b", "c", "a", "b", "c")
	stop()
	b.rewind(t, "sms")
	b.produce(t, event("new", ago(8*day)))
	run("wallet", 10*day, "a", "b", "c", "a", "b", "c")
	b.wantLetters(t, "a too_old open", "c too_old open", "new too_old open")
	run("wallet", 10*day, "a", "b", "c", "a", "b", "c")
	b.wantLetters(t, "a too_old open", "c too_old open", "new too_old open")

	// One who was not there when they were dropped has forgotten nothing.
	run("newcomer", 10*day, "a", "b", "c", "a", "b", "c", "a", "b", "c", "new")
}

// A member that has slept for longer than partitions are made ahead makes them when it needs them.
func TestWindow_NoPartition(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	start(t, b.config(effect))
	b.produce(t, event("a"))
	b.wantEffects(t, "wallet", "a")
	b.db.Exec(t, fmt.Sprintf(`DROP TABLE khata_inbox.marker_%s`, time.Now().UTC().AddDate(0, 0, -3).Format("20060102")))
	b.produce(t, event("b", ago(3*day)))
	b.wantEffects(t, "wallet", "a", "b")
}

// Events were deleted before they were read: that is said, with the offsets, and goes on only where it was said that it may.
func TestRun_Lost(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	config := b.config(effect)
	b.produce(t, slices.Concat(events(0, 5), events(5, 8, on(1)))...)
	stop := start(t, config)
	b.drained(t, "wallet")
	stop()
	b.produce(t, slices.Concat(events(10, 20), events(20, 22, on(1)))...)
	if err := b.fake.DeleteRecords(topic, 0, 9); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var lost *inbox.LostError
	if err := open(t, config).Run(ctx); !errors.As(err, &lost) {
		t.Fatalf("%v", err)
	}
	if diff := cmp.Diff(inbox.LostError{Topic: topic, Partition: 0, Next: 5, Start: 9, End: 15, Group: "wallet"}, *lost); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := "the offsets 5 to 8 were deleted before this group read them"; !strings.Contains(lost.Error(), want) || !strings.Contains(lost.Error(), "Config.SkipLost") {
		t.Error(lost)
	}
	config.SkipLost = true
	stop = start(t, config)
	b.drained(t, "wallet")
	stop()
	if diff := cmp.Diff(slices.Concat(names(0, 5), names(14, 20)), texts(t, b.pool, `SELECT event_id FROM effect WHERE partition = 0 ORDER BY n`)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// Kafka forgets the offsets of a group that was away for a week. The inbox remembers how far it was: if that is still there it goes on, and if it is
// gone it says so, and does not begin elsewhere as if nothing were missing.
func TestRun_GroupForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.produce(t, events(0, 10)...)
	config := b.config(effect)
	run := func() {
		t.Helper()
		stop := start(t, config)
		b.drained(t, "wallet")
		stop()
		if _, err := b.admin.DeleteGroup(t.Context(), "wallet"); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if err := b.fake.DeleteRecords(topic, 0, 10); err != nil {
		t.Fatal(err)
	}
	b.produce(t, events(10, 20)...)
	run()
	b.produce(t, events(20, 30)...)
	if err := b.fake.DeleteRecords(topic, 0, 25); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var lost *inbox.LostError
	if err := open(t, config).Run(ctx); !errors.As(err, &lost) || lost.Next != 20 || lost.Start != 25 {
		t.Fatalf("%v", err)
	}
	if diff := cmp.Diff(names(0, 20), b.effects(t)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	// The topic was made anew, shorter than it was.
	if err := b.fake.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	if err := b.fake.CreateTopic(topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := open(t, config).Run(ctx); !errors.As(err, &lost) || lost.Next != 20 || lost.End != 0 || !strings.Contains(lost.Error(), "made anew") {
		t.Fatalf("%v", err)
	}
}
