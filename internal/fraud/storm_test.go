package fraud_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/kafkatest"
)

// childVariable makes the program of the tests an instance of the check: PREFIX INSTANCE BROKERS.
const childVariable = "KHATA_TEST_FRAUD_CHILD"

func child() int {
	words := strings.Fields(os.Getenv(childVariable))
	rules, err := fraud.ParseRules([]byte(testRules))
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := fraud.New(fraud.Config{
		Kafka: quick(strings.Split(words[2], ",")...), Topics: kafka.Topics{Prefix: words[0]}, Rules: rules, Instance: words[1],
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err == nil {
		err = c.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// quick are the settings of an instance that is quick to see what happens.
func quick(seeds ...string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.FetchMaxWait(100 * time.Millisecond), kgo.HeartbeatInterval(200 * time.Millisecond), kgo.SessionTimeout(6 * time.Second),
	}
}

// process is an instance in a process of its own.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how; valid once done is closed
}

func (b *bench) process(t testing.TB, instance string) *process {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(b.logs, instance+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := &process{cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{b.topics.Prefix, instance, strings.Join(b.seeds, ",")}, " "))
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = log, log, attributes()
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the thread that forked ends, so it must last as long as the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// kill is kill -9. It returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Errorf("%v: %v", sig, err)
	}
}

// Two instances are killed, frozen for longer than the group waits for them, and started again, and brokers are killed in the middle of it all, while
// transfers go on and come twice. In its long form the brokers are three. In the end each has been judged once, and as a single thread would have that nothing happened to.
func TestStorm_Fraud(t *testing.T) {
	length, nodes := 18*time.Second, 1
	if os.Getenv("KHATA_TEST_LONG") != "" {
		length, nodes = 3*time.Minute, 3
	}
	cluster := kafkatest.Start(t, nodes)
	b := setup(t, cluster.Brokers())
	b.logs = t.TempDir()
	t.Cleanup(func() {
		if t.Failed() {
			b.tellLogs(t)
		}
	})
	instances := map[string]*process{"one": b.process(t, "one"), "two": b.process(t, "two")}
	until, stop := time.Now().Add(length), make(chan struct{})
	var feeding sync.WaitGroup
	feeding.Go(func() {
		for seed := uint64(1); ; seed++ {
			select {
			case <-stop:
				return
			case <-time.After(15 * time.Millisecond):
				b.publishOften(t, seed, b.transfers(seed, 4))
			}
		}
	})
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 4))
	done := map[string]int{}
	for time.Now().Before(until) {
		name := []string{"one", "two"}[random.IntN(2)]
		what := []string{"kill", "kill", "freeze", "freeze long", "broker"}[random.IntN(5)]
		done[what]++
		switch what {
		case "kill":
			instances[name].kill()
			time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
			instances[name] = b.process(t, name)
		case "freeze", "freeze long":
			nap := time.Duration(random.IntN(800)) * time.Millisecond
			if what == "freeze long" {
				nap = 7*time.Second + time.Duration(random.IntN(1000))*time.Millisecond
			}
			instances[name].signal(t, syscall.SIGSTOP)
			time.Sleep(nap)
			instances[name].signal(t, syscall.SIGCONT)
		case "broker":
			node := 1 + random.IntN(nodes)
			cluster.Kill(t, node)
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			cluster.Restart(t, node)
		}
		time.Sleep(time.Duration(100+random.IntN(900)) * time.Millisecond)
	}
	close(stop)
	feeding.Wait()
	b.check(t)
	for name, p := range instances {
		p.signal(t, syscall.SIGTERM)
		select {
		case <-p.done:
			if p.err != nil {
				t.Errorf("%s ended: %v", name, p.err)
			}
		case <-time.After(patience):
			t.Errorf("%s does not end", name)
		}
	}
	t.Logf("seed %d: %d transfers, through %v", seed, len(b.sent), done)
}

func (b *bench) tellLogs(t testing.TB) {
	const most = 6000
	files, _ := filepath.Glob(filepath.Join(b.logs, "*.log"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		t.Logf("%s:\n%s", filepath.Base(file), text[max(0, len(text)-most):])
	}
}
