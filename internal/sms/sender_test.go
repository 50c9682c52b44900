package sms

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
)

// gatewayFunc is a gateway that is a function.
type gatewayFunc func(ctx context.Context, m Message) (string, error)

func (f gatewayFunc) Send(ctx context.Context, m Message) (string, error) { return f(ctx, m) }

// quick is the pace of tests.
func quick(senders int) pace {
	return pace{
		senders: senders, maxAge: time.Hour, lease: 20 * time.Second, call: 5 * time.Second, firstPause: 10 * time.Millisecond, longestPause: 40 * time.Millisecond,
		poll: 5 * time.Millisecond, stop: 10 * time.Second,
	}
}

// exec runs a statement as the consumer's role.
func (b *bench) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// enqueue puts messages of these events into the table.
func (b *bench) enqueue(t testing.TB, events ...string) {
	t.Helper()
	b.exec(t, `INSERT INTO khata_sms.message (event_id, ledger, account, transfer_id, kind, phone, language, text, event_time, fresh_from)
		SELECT e, 'main', 'wallet:shimul', 'TXN', 'received', '+8801711000011', 'en', 'text of ' || e, clock_timestamp(), clock_timestamp() FROM unnest($1::text[]) e`, events)
}

func names(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("event-%04d", i))
	}
	return list
}

// send starts a sender until stop is called or the test ends.
func (b *bench) send(t testing.TB, p pace, g Gateway) (s *sender, stop func()) {
	t.Helper()
	return sendOn(t, &sender{pool: b.pool, gateway: g, pace: p, log: logger(t)})
}

func sendOn(t testing.TB, s *sender) (_ *sender, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(stop)
	return s, stop
}

// states are the messages as "event state attempts".
func (b *bench) states(t testing.TB) []string {
	t.Helper()
	return b.rows(t, "SELECT concat_ws(' ', event_id, state, attempts) FROM khata_sms.message ORDER BY event_id")
}

// leaseEnds makes the time pass until what was taken is nobody's any more.
func (b *bench) leaseEnds(t testing.TB) {
	t.Helper()
	b.exec(t, `UPDATE khata_sms.message SET next_attempt_at = clock_timestamp() - interval '1 s', lease_until = clock_timestamp() - interval '1 s'
		WHERE state = 'sending'`)
}

// settled waits until no message is queued or being sent.
func (b *bench) settled(t testing.TB) {
	t.Helper()
	until(t, "every message is settled", func() (bool, string) {
		open := b.rows(t, "SELECT concat_ws(' ', event_id, state, attempts, last_error) FROM khata_sms.message WHERE state IN ('queued', 'sending') ORDER BY event_id LIMIT 5")
		return len(open) == 0, fmt.Sprintf("%q", open)
	})
}

// calls counts calls by key, and fails the test if two for the same key are under way, or differ in content.
type calls struct {
	t       testing.TB
	mu      sync.Mutex
	counts  map[string]int
	content map[string]string
	now     map[string]bool
	most    int
}

func newCalls(t testing.TB) *calls {
	return &calls{t: t, counts: map[string]int{}, content: map[string]string{}, now: map[string]bool{}}
}

func (c *calls) begin(m Message) (n int, end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now[m.Key] {
		c.t.Errorf("two calls for %s at once", m.Key)
	}
	content := m.Phone + " " + m.Text
	if c.counts[m.Key] > 0 && c.content[m.Key] != content {
		c.t.Errorf("%s was %q and is %q", m.Key, c.content[m.Key], content)
	}
	c.counts[m.Key]++
	c.content[m.Key], c.now[m.Key] = content, true
	c.most = max(c.most, len(c.now))
	return c.counts[m.Key], func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.now, m.Key)
	}
}

func (c *calls) total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, count := range c.counts {
		n += count
	}
	return n
}

func TestSender(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, names(60)...)
	c := newCalls(t)
	registry := prometheus.NewRegistry()
	s, stop := sendOn(t, &sender{pool: b.pool, pace: quick(4), log: logger(t), metrics: newMetrics(registry), gateway: gatewayFunc(func(_ context.Context, m Message) (string, error) {
		_, end := c.begin(m)
		defer end()
		if m.Text != "text of "+m.Key || m.Phone != "+8801711000011" {
			t.Errorf("%+v", m)
		}
		time.Sleep(5 * time.Millisecond)
		return "ref-" + m.Key, nil
	})})
	b.settled(t)
	stop()
	if got := b.rows(t, "SELECT count(*)::text FROM khata_sms.message WHERE state = 'sent' AND attempts = 1 AND gateway_ref = 'ref-' || event_id AND sent_at IS NOT NULL"); got[0] != "60" {
		t.Errorf("%s are sent: %q", got, b.states(t))
	}
	if c.total() != 60 || c.most < 2 || c.most > 4 {
		t.Errorf("%d calls, %d at once", c.total(), c.most)
	}
	if err := s.metrics.measure(t.Context(), b.pool); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]float64{"khata_sms_calls_total sent": 60, "khata_sms_calls_total again": 0, "khata_sms_repeated_calls_total ": 0, "khata_sms_seconds ": 60, "khata_sms_messages queued": 0} {
		name, label, _ := strings.Cut(name, " ")
		if got := metric(t, registry, name, label); got != want {
			t.Errorf("%s %s is %v, want %v", name, label, got, want)
		}
	}
}

// Whatever a gateway says that is no yes and no final no, the message is sent by the next call, under the same key.
func TestSender_Answers(t *testing.T) {
	t.Parallel()
	page := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "<html>a proxy of +8801711000011</html>")
		}
	}
	wrong := map[string]http.HandlerFunc{
		"a page with 200": page(200), "a page with 400": page(400), "a page with 404": page(404), "401": page(401), "403": page(403), "500": page(500), "502": page(502),
		"302": page(302, "Location", "/"), "dropped": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"429": page(429), "503": page(503, "Retry-After", "1"),
		"never": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"slow": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		},
	}
	for name, handle := range wrong {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			box := NewSandboxGateway()
			var first time.Time
			var tried atomic.Int32
			g := serve(t, func(w http.ResponseWriter, r *http.Request) {
				r.URL.Path = strings.TrimPrefix(r.URL.Path, "/v1")
				if tried.Add(1) == 1 {
					first = time.Now()
					_, _ = io.Copy(io.Discard, r.Body)
					handle(w, r)
					return
				}
				if gap := time.Since(first); name == "503" && gap < time.Second {
					t.Errorf("it was asked to wait for a second, and came after %s", gap)
				}
				box.ServeHTTP(w, r)
			})
			b.enqueue(t, "one")
			p := quick(1)
			if name == "never" || name == "slow" { // Only these have to run out of time, and only once.
				p.call = 2 * time.Second
			}
			_, stop := b.send(t, p, gatewayFunc(func(ctx context.Context, m Message) (string, error) {
				if tried.Load() > 0 {
					ctx = context.WithoutCancel(ctx)
				}
				return g.Send(ctx, m)
			}))
			b.settled(t)
			stop()
			if got := b.states(t); got[0] != "one sent 2" || tried.Load() != 2 || len(box.Messages()) != 1 || box.Messages()[0].Key != "one" {
				t.Errorf("%q, %d calls, %+v", got, tried.Load(), box.Messages())
			}
		})
	}
}

// A gateway that asks for patience is left alone by all messages, and the wish is not taken at its word where it is absurd.
func TestSender_Patience(t *testing.T) {
	t.Parallel()
	s := &sender{pace: defaultPace(), log: logger(t)}
	row := dbsqlc.SMSClaimRow{EventID: "a", Attempts: 1}
	if not := s.notSent(row, &LaterError{500, 24 * time.Hour}); not.Pause != longestWish.Seconds() || s.rest() > 0 {
		t.Errorf("%+v, rest %s", not, s.rest())
	}
	// rests reports whether it rests until so long after a moment since then.
	rests := func(since time.Time, d time.Duration) bool {
		return !s.restUntil.Before(since.Add(d)) && !s.restUntil.After(time.Now().Add(d))
	}
	began := time.Now()
	if not := s.notSent(row, &LaterError{429, 30 * time.Second}); not.Pause != 30 || !rests(began, 30*time.Second) {
		t.Errorf("%+v, rest %s", not, s.rest())
	}
	began = time.Now()
	if s.notSent(row, &LaterError{503, 24 * time.Hour}); !rests(began, longestRest) {
		t.Errorf("rest %s", s.rest())
	}
	s = &sender{pace: defaultPace(), log: logger(t)}
	for i := range patientFailures {
		if s.rest() > 0 {
			t.Fatalf("it rests after %d failures", i)
		}
		began = time.Now()
		s.notSent(row, errors.New("no route"))
	}
	if !rests(began, s.pace.firstPause) {
		t.Errorf("it rests until %s", s.restUntil)
	}
}

func TestPace_Pause(t *testing.T) {
	t.Parallel()
	p := defaultPace()
	for attempts, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: p.longestPause, 64: p.longestPause, 1 << 30: p.longestPause} {
		seen := map[time.Duration]bool{}
		for range 50 {
			got := p.pause(attempts)
			seen[got] = true
			if got < want/2 || got > want {
				t.Errorf("after %d: %s, want up to %s", attempts, got, want)
			}
		}
		if len(seen) < 10 {
			t.Errorf("after %d it is always the same", attempts)
		}
	}
}

// What the gateway refuses is not tried again, unless somebody asks for it.
func TestSender_Refused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, "bad", "good")
	mended := false
	var mu sync.Mutex
	c := newCalls(t)
	g := gatewayFunc(func(_ context.Context, m Message) (string, error) {
		_, end := c.begin(m)
		defer end()
		mu.Lock()
		defer mu.Unlock()
		if m.Key == "bad" && !mended {
			return "", &RefusedError{422, "no phone has the number " + m.Phone}
		}
		return "ref", nil
	})
	b.send(t, quick(2), g)
	b.settled(t)
	time.Sleep(100 * time.Millisecond)
	if got := b.states(t); !slices.Equal(got, []string{"bad failed 1", "good sent 1"}) {
		t.Errorf("%q", got)
	}
	list, err := List(t.Context(), b.pool, Selection{State: Failed, Account: "wallet:shimul", Ledger: "main"})
	if err != nil || len(list) != 1 || list[0].EventID != "bad" || !strings.Contains(list[0].LastError, "no phone has the number +8801711000011") {
		t.Errorf("%+v, %v", list, err)
	}
	if none, err := List(t.Context(), b.pool, Selection{Account: "wallet:other"}); err != nil || len(none) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
	mu.Lock()
	mended = true
	mu.Unlock()
	if n, err := Retry(t.Context(), b.pool, []string{"bad", "good", "unknown"}); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	b.settled(t)
	if got := b.states(t); !slices.Equal(got, []string{"bad sent 2", "good sent 1"}) {
		t.Errorf("%q", got)
	}
	if n, err := RetryFailed(t.Context(), b.pool); err != nil || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
}

// A message that is too old is not sent; one of which nobody knows what became says so; and whoever asks for one again gets it.
func TestSender_Expired(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, "fresh", "lost", "old")
	b.db.Exec(t, "UPDATE khata_sms.message SET fresh_from = clock_timestamp() - interval '61 minutes' WHERE event_id IN ('old', 'lost')")
	b.db.Exec(t, `UPDATE khata_sms.message SET state = 'sending', attempts = 1, lease_until = clock_timestamp() - interval '1 s', next_attempt_at = clock_timestamp() - interval '1 s'
		WHERE event_id = 'lost'`)
	c := newCalls(t)
	b.send(t, quick(2), gatewayFunc(func(_ context.Context, m Message) (string, error) {
		_, end := c.begin(m)
		defer end()
		return "ref", nil
	}))
	b.settled(t)
	if got := b.states(t); !slices.Equal(got, []string{"fresh sent 1", "lost expired 1", "old expired 0"}) || c.total() != 1 {
		t.Errorf("%q, %d calls", got, c.total())
	}
	if got := b.rows(t, "SELECT last_error FROM khata_sms.message ORDER BY event_id"); got[1] == "" || got[2] != "" {
		t.Errorf("%q", got)
	}
	if n, err := Retry(t.Context(), b.pool, []string{"old"}); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	b.settled(t)
	if got := b.states(t); !slices.Equal(got, []string{"fresh sent 1", "lost expired 1", "old sent 1"}) {
		t.Errorf("%q", got)
	}
}

// The commit of the mark fails, and was not applied, or was: the mark is tried again, and the gateway is not called again.
func TestSender_MarkLost(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*pgtest.Faults){
		"failed, not applied": func(f *pgtest.Faults) { f.CutBeforeCommit(3) }, "failed, but applied": func(f *pgtest.Faults) { f.CutAfterCommit(3) },
	} {
		for answer, err := range map[string]error{"sent": nil, "failed": &RefusedError{400, "no"}} {
			t.Run(name+", "+answer, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				faults := pgtest.NewFaults(t)
				pool := connect(t, pg.Config{DSN: b.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
				b.enqueue(t, "one")
				var n atomic.Int32
				_, stop := sendOn(t, &sender{pool: pool, pace: quick(1), log: logger(t), gateway: gatewayFunc(func(context.Context, Message) (string, error) {
					n.Add(1)
					cut(faults)
					return "ref", err
				})})
				b.settled(t)
				stop()
				if got := b.states(t); got[0] != "one "+answer+" 1" || n.Load() != 1 || faults.Cuts() == 0 {
					t.Errorf("%q, %d calls, %d cuts", got, n.Load(), faults.Cuts())
				}
			})
		}
	}
}

// The commit of the claim fails: if it was not applied the message is taken again at once, and if it was when the lease ends.
func TestSender_ClaimLost(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*pgtest.Faults){
		"one sent 1": func(f *pgtest.Faults) { f.CutBeforeCommit(1) }, "one sent 2": func(f *pgtest.Faults) { f.CutAfterCommit(1) },
	} {
		applied := name == "one sent 2"
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			faults := pgtest.NewFaults(t)
			pool := connect(t, pg.Config{DSN: b.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
			b.enqueue(t, "one")
			cut(faults)
			c := newCalls(t)
			_, stop := sendOn(t, &sender{pool: pool, pace: quick(1), log: logger(t), gateway: gatewayFunc(func(_ context.Context, m Message) (string, error) {
				_, end := c.begin(m)
				defer end()
				return "ref", nil
			})})
			if applied {
				until(t, "the message is taken", func() (bool, string) { return b.states(t)[0] == "one sending 1", b.states(t)[0] })
				time.Sleep(100 * time.Millisecond)
				if got := b.states(t); got[0] != "one sending 1" || c.total() != 0 {
					t.Errorf("before the lease ends it is %q, after %d calls", got, c.total())
				}
				b.leaseEnds(t)
			}
			b.settled(t)
			stop()
			if got := b.states(t); got[0] != name || c.total() != 1 {
				t.Errorf("%q, %d calls", got, c.total())
			}
		})
	}
}

// The database is away for longer than a lease, just when the gateway has answered: the message is asked for again, under the same key, and that is
// counted.
func TestSender_DatabaseAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	faults := pgtest.NewFaults(t)
	pool := connect(t, pg.Config{DSN: b.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
	b.enqueue(t, "one")
	box, g, _ := sandbox(t)
	registry := prometheus.NewRegistry()
	p := quick(1)
	p.lease, p.call, p.stop = 1500*time.Millisecond, time.Second, 100*time.Millisecond
	said := &testLog{t: t}
	m := newMetrics(registry)
	var thaw func()
	_, stop := sendOn(t, &sender{pool: pool, pace: p, log: slog.New(slog.NewTextHandler(said, nil)), metrics: m, gateway: gatewayFunc(func(ctx context.Context, m Message) (string, error) {
		ref, err := g.Send(context.WithoutCancel(ctx), m)
		thaw = faults.Freeze()
		return ref, err
	})})
	until(t, "the first sender gives up", func() (bool, string) { return said.quotes("could not be written down"), fmt.Sprint(b.states(t)) })
	stop()
	if said.quotes("8801711", "text of") {
		t.Error("a number or a text was logged")
	}
	thaw()
	// It is another one that asks again: this one's leases are long, so that it asks once.
	_, stop = sendOn(t, &sender{pool: b.pool, pace: quick(1), log: logger(t), metrics: m, gateway: g})
	b.settled(t)
	stop()
	totals := box.Totals()
	// It may have been taken more often than it was called for, by claims that came too late or had to wait as well.
	if got := b.states(t); !slices.Contains([]string{"one sent 2", "one sent 3", "one sent 4"}, got[0]) || totals.Sent != 1 || totals.Repeated != 1 {
		t.Errorf("%q, %+v", got, totals)
	}
	if n := metric(t, registry, "khata_sms_repeated_calls_total", ""); n != 1 {
		t.Errorf("%v repeated calls", n)
	}
}

// Several senders, of several processes, and a gateway that fails now and then: no message is with two of them at the same time.
func TestSender_Together(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, names(300)...)
	c := newCalls(t)
	g := gatewayFunc(func(_ context.Context, m Message) (string, error) {
		n, end := c.begin(m)
		defer end()
		time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
		if n < 3 && rand.IntN(4) == 0 {
			return "", errors.New("now and then")
		}
		return "ref", nil
	})
	for range 3 {
		b.send(t, quick(8), g)
	}
	b.settled(t)
	if got := b.rows(t, "SELECT count(*)::text FROM khata_sms.message WHERE state = 'sent'"); got[0] != "300" {
		t.Errorf("%s", got)
	}
	if got := b.rows(t, "SELECT sum(attempts)::text FROM khata_sms.message"); got[0] != fmt.Sprint(c.total()) {
		t.Errorf("%s attempts, %d calls", got, c.total())
	}
}

// A sender that was frozen in the middle of a call, until its lease was over and another had the message.
func TestSender_LeaseEnds(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]error{"one sent 2": nil, "one sent 2 too": errors.New("late")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.enqueue(t, "one")
			short := quick(1)
			short.lease = 2 * time.Second
			release, frozen := make(chan struct{}), make(chan struct{})
			_, stopFirst := b.send(t, short, gatewayFunc(func(context.Context, Message) (string, error) {
				close(frozen)
				<-release
				return "first", late
			}))
			<-frozen
			// It may have been too slow to call the first time that it took the message.
			again := b.rows(t, "SELECT (attempts + 1)::text FROM khata_sms.message")[0]
			second := make(chan struct{})
			_, stopSecond := b.send(t, quick(1), gatewayFunc(func(context.Context, Message) (string, error) {
				close(second)
				// The first comes back, and must not take this one's message away.
				close(release)
				stopFirst()
				if want := map[bool]string{true: "one sent ", false: "one sending "}[late == nil] + again; b.states(t)[0] != want {
					t.Errorf("after the first it is %q, want %q", b.states(t), want)
				}
				return "second", nil
			}))
			<-second
			b.settled(t)
			stopSecond()
			if got := b.states(t); got[0] != "one sent "+again {
				t.Errorf("%q", got)
			}
			ref := b.rows(t, "SELECT gateway_ref FROM khata_sms.message")[0]
			if want := map[bool]string{true: "first", false: "second"}[late == nil]; ref != want {
				t.Errorf("reference %q, want %q", ref, want)
			}
		})
	}
}

// One that wakes up with a message that it took long ago does not call.
func TestSender_Stale(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, "one")
	s := &sender{pool: b.pool, pace: quick(1), log: logger(t), gateway: gatewayFunc(func(context.Context, Message) (string, error) {
		t.Error("it calls")
		return "", nil
	})}
	got, err := s.claim(t.Context(), 1)
	if err != nil || len(got.list) != 1 {
		t.Fatal(got, err)
	}
	s.send(t.Context(), got.list[0], time.Now().Add(-time.Second))
	if got := b.states(t); got[0] != "one sending 1" {
		t.Errorf("%q", got)
	}
}

// When it is to end, what is under way is finished and marked, and nothing more is begun.
func TestSender_Stop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, names(20)...)
	c := newCalls(t)
	begun, release := make(chan struct{}, 100), make(chan struct{})
	s := &sender{pool: b.pool, pace: quick(2), log: logger(t), gateway: gatewayFunc(func(ctx context.Context, m Message) (string, error) {
		_, end := c.begin(m)
		defer end()
		begun <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
			t.Error("the call was cut off")
		}
		return "ref", nil
	})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx)
	}()
	<-begun
	cancel() // No call ends before it knows.
	time.Sleep(200 * time.Millisecond)
	close(release)
	<-ended
	got := b.rows(t, "SELECT state || ' ' || count(*) FROM khata_sms.message GROUP BY state ORDER BY state")
	if want := []string{fmt.Sprintf("queued %d", 20-c.total()), fmt.Sprintf("sent %d", c.total())}; !slices.Equal(got, want) || c.total() > 2 {
		t.Errorf("%q, %d calls", got, c.total())
	}
}

// A gateway that never answers, and ignores that nobody listens any more, or a database that is away, do not keep it from ending.
func TestSender_StopsInTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	faults := pgtest.NewFaults(t)
	pool := connect(t, pg.Config{DSN: b.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
	b.enqueue(t, "one")
	p := quick(1)
	p.stop = 300 * time.Millisecond
	answered := make(chan struct{})
	_, stop := sendOn(t, &sender{pool: pool, pace: p, log: logger(t), gateway: gatewayFunc(func(context.Context, Message) (string, error) {
		faults.Freeze()
		close(answered)
		return "ref", nil
	})})
	<-answered
	began := time.Now()
	stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if got := b.states(t); got[0] != "one sending 1" {
		t.Errorf("%q", got)
	}
}

// Senders that crash at every step, gateways that say anything, time that passes: at random, with a model of what the gateway has.
func TestSender_Random(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // repeatable on purpose
		b.exec(t, "DELETE FROM khata_sms.message")
		box := NewSandboxGateway()
		crashes, events := 0, []string{}
		s := &sender{pool: b.pool, pace: quick(4), log: logger(t)}
		for step := range 60 {
			if r.IntN(3) == 0 {
				event := fmt.Sprintf("seed-%d-%d", seed, step)
				events = append(events, event)
				b.enqueue(t, event)
			}
			got, err := s.claim(t.Context(), 1+r.IntN(4))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range got.list {
				how := r.IntN(6)
				if how == 0 { // It dies before the call.
					crashes++
					continue
				}
				s.gateway = gatewayFunc(func(_ context.Context, m Message) (string, error) {
					if how == 1 {
						return "", &LaterError{Status: 500}
					}
					code, says, _ := box.accept(m.Key, m.Phone, m.Text)
					if code >= 300 {
						t.Errorf("%d %s", code, says.Error)
					}
					if how == 2 {
						return "", errors.New("the answer is lost")
					}
					return says.ID, nil
				})
				if how == 3 { // It dies before the mark.
					crashes++
					_, _ = s.gateway.Send(t.Context(), Message{m.EventID, m.Phone, m.Text})
					continue
				}
				s.send(t.Context(), m, time.Now().Add(s.pace.lease))
			}
			if r.IntN(3) == 0 { // Time passes.
				b.exec(t, `UPDATE khata_sms.message SET next_attempt_at = clock_timestamp() - interval '1 s', lease_until = lease_until - interval '1 h'
					WHERE state IN ('queued', 'sending')`)
			}
		}
		s.gateway = gatewayFunc(func(_ context.Context, m Message) (string, error) {
			_, says, _ := box.accept(m.Key, m.Phone, m.Text)
			return says.ID, nil
		})
		b.exec(t, "UPDATE khata_sms.message SET next_attempt_at = clock_timestamp() - interval '1 s' WHERE state IN ('queued', 'sending')")
		_, stop := sendOn(t, s)
		b.settled(t)
		stop()
		totals := box.Totals()
		if totals.Sent != len(events) || totals.Reused > 0 {
			t.Errorf("seed %d: %d events, %+v", seed, len(events), totals)
		}
		for _, m := range box.Messages() {
			if ref := b.rows(t, "SELECT gateway_ref FROM khata_sms.message WHERE event_id = $1 AND state = 'sent'", m.Key); len(ref) != 1 || ref[0] != m.ID {
				t.Errorf("seed %d: %s is %q at the gateway, and %q here", seed, m.Key, m.ID, ref)
			}
		}
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, "expired", "failed", "queued", "sent", "young")
	b.db.Exec(t, "UPDATE khata_sms.message SET created_at = clock_timestamp() - interval '91 days' WHERE event_id <> 'young'")
	b.db.Exec(t, `UPDATE khata_sms.message SET state = CASE event_id WHEN 'young' THEN 'sent' ELSE event_id END,
		sent_at = CASE WHEN event_id IN ('sent', 'young') THEN clock_timestamp() END`)
	if err := clean(t.Context(), b.pool, DefaultKeep); err != nil {
		t.Fatal(err)
	}
	if got := b.rows(t, "SELECT event_id FROM khata_sms.message ORDER BY 1"); !slices.Equal(got, []string{"failed", "queued", "young"}) {
		t.Errorf("%q", got)
	}
}

// What nobody knows does not look like nothing.
func TestMetrics_Measure(t *testing.T) {
	t.Parallel()
	b := setup(t)
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	b.enqueue(t, "a", "b", "c")
	b.db.Exec(t, "UPDATE khata_sms.message SET event_time = clock_timestamp() - interval '1 hour' WHERE event_id = 'a'")
	b.db.Exec(t, "UPDATE khata_sms.message SET state = 'failed' WHERE event_id = 'b'")
	if err := m.measure(t.Context(), b.pool); err != nil {
		t.Fatal(err)
	}
	oldest := metric(t, registry, "khata_sms_oldest_queued_seconds", "")
	if metric(t, registry, "khata_sms_messages", "queued") != 2 || metric(t, registry, "khata_sms_messages", "failed") != 1 || oldest < 3599 || oldest > 3700 {
		t.Errorf("oldest %v", oldest)
	}
	b.pool.Close()
	if err := m.measure(t.Context(), b.pool); err == nil {
		t.Error("it measures nothing")
	}
	if n := metric(t, registry, "khata_sms_messages", "queued"); n == n { //nolint:gocritic // NaN
		t.Errorf("%v are queued", n)
	}
}
