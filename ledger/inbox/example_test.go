package inbox_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/kafkatest"
	"github.com/khata-ledger/khata/ledger/inbox"
)

var exampleDir string

// buildExample builds the example, once for all tests.
var buildExample = sync.OnceValues(func() (path string, err error) {
	if exampleDir, err = os.MkdirTemp("", "khata-test-bin-"); err != nil {
		return "", err
	}
	path = filepath.Join(exampleDir, "example")
	if out, err := exec.Command("go", "build", "-o", path, "./example").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the example: %w\n%s", err, out)
	}
	return path, nil
})

// process is the example that runs.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how; valid once done is closed

	mu      sync.Mutex
	printed []string
}

// runExample starts the example on the bench. It is killed at the end of the test if it still runs.
func (b *bench) runExample(t testing.TB) *process {
	t.Helper()
	binary, err := buildExample()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(binary), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "KAFKA="+strings.Join(b.seeds, ","), "TOPIC="+b.topic, "DSN="+b.db.OwnerDSN())
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
		if t.Failed() {
			t.Logf("the example printed:\n%s", strings.Join(p.printed, "\n"))
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

// stop asks it to end, which it must do in order.
func (p *process) stop(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("the example does not end")
	}
	if p.err != nil {
		t.Errorf("the example ended: %v", p.err)
	}
}

func TestExample(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.produce(t, slices.Concat(events(0, 20), events(0, 20), events(20, 40, on(1)))...)
	p := b.runExample(t)
	b.drained(t, "receipts")
	p.stop(t)
	b.wantReceipts(t, 40)
	text, err := os.ReadFile("example/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 60 {
		t.Errorf("the example has grown to %d lines", n)
	}
}

func (b *bench) wantReceipts(t testing.TB, n int) {
	t.Helper()
	b.db.Exec(t, "GRANT SELECT ON receipts TO khata_service")
	got := texts(t, b.pool, `SELECT event_id FROM receipts ORDER BY event_id`)
	want := names(0, n)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("receipts (-want +got):\n%s", diff)
	}
}

// onKafka is a bench on a real broker.
func onKafka(t testing.TB, partitions int, settings map[string]string) *bench {
	t.Helper()
	c := kafkatest.Shared(t)
	b := &bench{seeds: c.Brokers(), topic: c.Topic(t, partitions, settings)}
	b.connect(t)
	return b
}

// TestStorm_KillConsumers kills processes of the example with SIGKILL while they work, two of three at once, and in its long form freezes some until
// the group has gone on without them. Every event is delivered three times besides.
func TestStorm_KillConsumers(t *testing.T) {
	rounds, pause := 1, 30*time.Millisecond
	if os.Getenv("KHATA_TEST_LONG") != "" {
		rounds, pause = 12, 100*time.Millisecond
	}
	const partitions = 6
	const missed = 12 * time.Second // after a session of 10
	b := onKafka(t, partitions, map[string]string{"retention.ms": "86400000", "segment.ms": "86400000"})
	b.db.Exec(t, "CREATE TABLE receipts (event_id text, type text, data bytea, at timestamptz DEFAULT clock_timestamp())")
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // repeatable on purpose
	running := []*process{b.runExample(t), b.runExample(t), b.runExample(t)}

	enough := make(chan struct{})
	produced := make(chan int)
	go func() {
		n := 0
		for {
			var list []*kgo.Record
			for p := range partitions {
				some := events(n, n+20, on(p))
				list, n = append(list, some...), n+len(some)
				list = append(list, copies(some)...)
				list = append(list, copies(some)...)
			}
			if err := b.kafka.ProduceSync(t.Context(), list...).FirstErr(); err != nil {
				t.Error(err)
			}
			select {
			case <-enough:
				produced <- n
				return
			case <-time.After(pause):
			}
		}
	}()
	waitFor(t, "every process to have its part", func() error {
		groups, err := b.admin.DescribeGroups(t.Context(), "receipts")
		if err != nil {
			return err
		}
		parts := 0
		for _, m := range groups["receipts"].Members {
			if c, ok := m.Assigned.AsConsumer(); ok && len(c.Topics) > 0 {
				parts++
			}
		}
		return unless(parts == len(running), groups["receipts"].State)
	})
	for round := range rounds {
		if round > 0 {
			time.Sleep(missed) // One that is killed while it joins would be waited for once more.
		}
		time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
		first := r.IntN(len(running))
		second := (first + 1) % len(running)
		if round%3 == 2 {
			// A zombie: the group misses it, and then it wakes up in the middle of what it was doing.
			if err := running[first].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
			time.Sleep(missed)
			if err := running[first].cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Error(err)
			}
			continue
		}
		running[first].kill()
		running[second].kill()
		running[first], running[second] = b.runExample(t), b.runExample(t)
	}
	time.Sleep(time.Second) // So that something waits where the dead were.
	close(enough)
	n := <-produced
	b.drained(t, "receipts")
	for _, p := range running {
		p.stop(t)
	}
	t.Logf("%d events", n)
	b.wantReceipts(t, n)
	got := texts(t, b.pool, "SELECT count(*)::text FROM khata_inbox.letter")
	if got[0] != "0" {
		t.Errorf("%s letters", got[0])
	}
}

func copies(list []*kgo.Record) []*kgo.Record {
	var twice []*kgo.Record
	for _, r := range list {
		c := *r
		twice = append(twice, &c)
	}
	return twice
}

// On a real broker as on the one in the process: what a topic keeps, the beginning of a new group, rebalances, repetitions, lost events.
func TestKafka(t *testing.T) {
	t.Parallel()
	b := onKafka(t, 3, map[string]string{"retention.ms": "172800000", "segment.ms": "86400000"})
	config := b.config(effect)
	config.Window = 3 * day
	if _, err := inbox.New(t.Context(), config); err == nil || !strings.Contains(err.Error(), "too small by 1h0m0s") {
		t.Errorf("%v", err)
	}
	config.Window = 4 * day
	for p := range 3 {
		b.produce(t, slices.Concat(events(p*50, p*50+50, on(p)), events(p*50, p*50+50, on(p)))...)
	}
	stop := start(t, config)
	for p := range 3 {
		b.produce(t, events(p*50, p*50+50, on(p))...)
	}
	start(t, config)
	b.drained(t, "wallet")
	stop()
	for p := range 3 {
		b.produce(t, events(p*50+20, p*50+50, on(p))...)
	}
	b.drained(t, "wallet")
	for p := range 3 {
		if diff := cmp.Diff(names(p*50, p*50+50), texts(t, b.pool, `SELECT event_id FROM effect WHERE partition = $1 ORDER BY n`, p)); diff != "" {
			t.Errorf("effects of partition %d (-want +got):\n%s", p, diff)
		}
	}
}
