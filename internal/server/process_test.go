package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that runs beside the tests.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how; valid once done is closed
	pay  string        // address of the payment API of a server that has one

	mu   sync.Mutex
	tail []string // of what it printed
}

// run starts a program and gives each line that it prints, on whichever stream, to heed. It is killed at the end of the
// test if it still runs.
func run(t testing.TB, cmd *exec.Cmd, heed func(line string)) *process {
	t.Helper()
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.SysProcAttr = attributes()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the thread that forked ends, so it must last as long as the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = in.Close()
		started <- err
		if err != nil {
			_ = out.Close()
			return
		}
		p.read(out, heed)
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-p.done: // The test has ended it itself.
			return
		default:
		}
		p.kill()
		if t.Failed() {
			t.Logf("%v printed at last:\n%s", cmd.Args, p.printed())
		}
	})
	return p
}

func (p *process) read(out io.ReadCloser, heed func(string)) {
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.mu.Lock()
		p.tail = append(p.tail, lines.Text())
		p.tail = p.tail[max(0, len(p.tail)-40):]
		p.mu.Unlock()
		heed(lines.Text())
	}
}

func (p *process) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.tail, "\n")
}

// kill is kill -9. It returns when the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop sends a signal and waits until the process has ended by itself, with the exit code 0.
func (p *process) stop(t testing.TB, signal os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("%v: %v", p.cmd.Args, err)
	}
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Fatalf("%v does not end after %v; it printed:\n%s", p.cmd.Args, signal, p.printed())
	}
	if p.err != nil {
		t.Errorf("%v ended with %v after %v; it printed:\n%s", p.cmd.Args, p.err, signal, p.printed())
	}
}

var serving = regexp.MustCompile(`msg=serving grpc=(127\.0\.0\.1:\d+) http=(127\.0\.0\.1:\d+)(?: pay=(127\.0\.0\.1:\d+))?`)

// startKhata runs the khata command with a subcommand that serves, on free ports, and returns when it does, with the
// address of its gRPC API.
func startKhata(t testing.TB, args ...string) (*process, string) {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	addresses := make(chan []string, 1)
	cmd := exec.Command(binary, append(args, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "KHATA_") && !strings.HasPrefix(s, "KHATA_PG_") })
	p := run(t, cmd, func(line string) {
		if m := serving.FindStringSubmatch(line); m != nil {
			addresses <- m
		}
	})
	select {
	case m := <-addresses:
		p.pay = m[3]
		return p, m[1]
	case <-p.done:
		err = fmt.Errorf("ended: %w", p.err)
	case <-time.After(time.Minute):
		err = errors.New("does not serve after a minute")
	}
	t.Fatalf("%v %v; it printed:\n%s", cmd.Args, err, p.printed())
	return nil, ""
}

// signalAll sends a signal to processes by number. One that has ended is no error.
func signalAll(t testing.TB, signal syscall.Signal, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%v to %d: %v", signal, pid, err)
		}
	}
}
