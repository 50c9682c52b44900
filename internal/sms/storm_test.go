package sms

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/kafkatest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger/inbox"
)

// processEnv makes the test binary act as the consumer; it holds a processConfig.
const processEnv = "KHATA_TEST_SMS"

// processConfig is what a consumer's process is told.
type processConfig struct {
	DSN, Topic, Gateway string
	Brokers             []string
}

// Of the processes of the storm. A lease is longer than anything but a freeze takes.
const (
	stormLease  = 6 * time.Second
	stormCall   = 4 * time.Second
	stormFreeze = 7500 * time.Millisecond
)

// runProcess is the consumer with one sender, until it is told to end, or is killed.
func runProcess(text string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := consumeAs(ctx, text); err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

func consumeAs(ctx context.Context, text string) error {
	var c processConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	pool, err := pg.Connect(ctx, pg.Config{DSN: c.DSN, MaxConns: 6})
	if err != nil {
		return err
	}
	defer pool.Close()
	gateway, err := NewHTTPGateway(c.Gateway, "")
	if err != nil {
		return err
	}
	p := defaultPace()
	p.senders, p.lease, p.call, p.firstPause, p.poll = 1, stormLease, stormCall, 50*time.Millisecond, 20*time.Millisecond
	return Run(ctx, Config{
		Pool: pool, Gateway: gateway, Language: English, Logger: slog.New(slog.NewTextHandler(os.Stdout, nil)), pace: &p,
		Inbox: inbox.Config{
			Topics: []string{c.Topic}, Kafka: []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.FetchMaxWait(100 * time.Millisecond), kgo.SessionTimeout(6 * time.Second)},
			Logger: slog.New(slog.DiscardHandler),
		},
	})
}

// process is a consumer that runs beside the test.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how; valid once done is closed

	mu      sync.Mutex
	printed []string
}

// startProcess starts one, which is killed at the end of the test.
func startProcess(t testing.TB, c processConfig) *process {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), processEnv+"="+string(text))
	p.cmd.SysProcAttr = attributes()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = in, in
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the thread that forked ends, so it must last as long as the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		_ = in.Close()
		started <- err
		if err != nil {
			_ = out.Close()
			return
		}
		p.read(out)
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if printed := strings.Join(p.printed, "\n"); t.Failed() {
			t.Logf("a consumer printed:\n%s", printed)
		} else if strings.Contains(printed, "8801711") || strings.Contains(printed, "৳") {
			t.Error("a consumer logged a number or a text")
		}
	})
	return p
}

func (p *process) read(out io.ReadCloser) {
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.mu.Lock()
		p.printed = append(p.printed, lines.Text())
		p.mu.Unlock()
	}
}

// kill is kill -9. It returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) signal(t testing.TB, s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Errorf("%v: %v", s, err)
	}
}

// stop asks it to end, which it must do in order.
func (p *process) stop(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("a consumer does not end")
	}
	if p.err != nil {
		t.Errorf("a consumer ended: %v", p.err)
	}
}

// traffic produces what people do: transfers between them, each a movement of two accounts, some of the events twice.
type traffic struct {
	client  *kgo.Client
	people  int
	events  map[string]bool
	version int64
	random  *rand.Rand
}

func person(i int) string { return fmt.Sprintf("wallet:p%d", i) }

// open opens the accounts, and returns when all are known.
func (f *traffic) open(t testing.TB, b *bench) {
	t.Helper()
	var list []*kgo.Record
	for i := range f.people {
		f.version++
		id := person(i)
		list = append(list, records(id, account("opened", id, fmt.Sprintf("Person %d", i), withPhone(fmt.Sprintf("+88017110%02d%02d", i, 10+i)), f.version))...)
	}
	produce(t, f.client, list...)
	until(t, "every account is known", func() (bool, string) {
		n := b.rows(t, "SELECT count(*)::text FROM khata_sms.recipient")[0]
		return n == fmt.Sprint(f.people), n
	})
}

// some produces a few transfers.
func (f *traffic) some(t testing.TB, n int) {
	var list []*kgo.Record
	for range n {
		f.version++
		payer := f.random.IntN(f.people)
		payee := (payer + 1 + f.random.IntN(f.people-1)) % f.people
		for i, e := range pay(fmt.Sprintf("TXN-%d", f.version), person(payer), person(payee), fmt.Sprintf("%d.%02d", 1+f.random.IntN(200_000), f.random.IntN(100)), f.version) {
			f.events[e.ID] = true
			id := person([]int{payer, payee}[i])
			list = append(list, records(id, e)...)
			for f.random.IntN(4) == 0 { // A relay that did not hear the answer.
				list = append(list, records(id, e)...)
			}
		}
	}
	if err := f.client.ProduceSync(context.Background(), list...).FirstErr(); err != nil {
		t.Error(err)
	}
}

// TestStorm_Senders kills processes of the consumer with SIGKILL, and freezes some for longer than a lease, while events come, of which many come
// more than once. Every event has one message, which is sent; the gateway is called at most once more for each process that was disturbed, always
// with the same key and content.
func TestStorm_Senders(t *testing.T) {
	t.Parallel()
	rounds := 3
	if os.Getenv("KHATA_TEST_LONG") != "" {
		rounds = 24
	}
	cluster := kafkatest.Shared(t)
	b := setup(t)
	config := processConfig{DSN: b.db.ServiceDSN(), Brokers: cluster.Brokers(), Topic: cluster.Topic(t, 6, map[string]string{"retention.ms": "86400000", "segment.ms": "86400000"})}
	box := NewSandboxGateway()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// On both sides of what counts, so that there is something to be interrupted.
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond) //nolint:gosec // no secret
		box.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	config.Gateway = server.URL
	f := &traffic{
		client: cluster.Client(t, kgo.DefaultProduceTopic(config.Topic)), people: 30, events: map[string]bool{},
		random: rand.New(rand.NewPCG(3, 4)), //nolint:gosec // repeatable on purpose
	}
	running := []*process{startProcess(t, config), startProcess(t, config), startProcess(t, config)}
	f.open(t, b)

	enough, produced := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(produced)
		for {
			f.some(t, 4)
			select {
			case <-enough:
				return
			case <-time.After(40 * time.Millisecond):
			}
		}
	}()
	r := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // repeatable on purpose
	disturbed := 0
	for round := range rounds {
		time.Sleep(time.Duration(300+r.IntN(700)) * time.Millisecond)
		first := r.IntN(len(running))
		disturbed++
		if round%3 == 1 {
			running[first].signal(t, syscall.SIGSTOP)
			time.Sleep(stormFreeze)
			running[first].signal(t, syscall.SIGCONT)
			continue
		}
		second := (first + 1) % len(running)
		disturbed++
		running[first].kill()
		running[second].kill()
		running[first], running[second] = startProcess(t, config), startProcess(t, config)
	}
	close(enough)
	<-produced
	until(t, "every message is sent", func() (bool, string) {
		got := b.rows(t, "SELECT state || ' ' || count(*) FROM khata_sms.message GROUP BY state ORDER BY state")
		return slices.Equal(got, []string{fmt.Sprintf("sent %d", len(f.events))}), fmt.Sprintf("%q of %d", got, len(f.events))
	})
	for _, p := range running {
		p.stop(t)
	}
	totals := box.Totals()
	t.Logf("%d events, %d disturbances, %+v", len(f.events), disturbed, totals)
	f.check(t, b, box, disturbed)
}

func (f *traffic) check(t testing.TB, b *bench, box *SandboxGateway, disturbed int) {
	t.Helper()
	totals := box.Totals()
	if totals.Sent != len(f.events) || totals.Reused > 0 || totals.Refused > 0 {
		t.Errorf("%d events, and the gateway counts %+v", len(f.events), totals)
	}
	if totals.Calls > len(f.events)+disturbed {
		t.Errorf("%d calls for %d events, with %d disturbances", totals.Calls, len(f.events), disturbed)
	}
	for _, m := range box.Messages() {
		if !f.events[m.Key] {
			t.Errorf("a message of no event: %s", m.Key)
		}
	}
	if n := b.rows(t, "SELECT count(*)::text FROM khata_inbox.letter")[0]; n != "0" {
		t.Errorf("%s letters", n)
	}
	refs := map[string]string{}
	for _, row := range b.rows(t, "SELECT event_id || ' ' || gateway_ref FROM khata_sms.message") {
		event, ref, _ := strings.Cut(row, " ")
		refs[event] = ref
	}
	for _, m := range box.Messages() {
		if refs[m.Key] != m.ID {
			t.Errorf("%s is %s at the gateway, and %q here", m.Key, m.ID, refs[m.Key])
		}
	}
}
