package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Server is a "khata serve", or another command that goes on, that runs as a process of its own, so that its processor time is not the client's.
type Server struct {
	// Addr is the address of its gRPC API, and PayAddr that of its payment API; "" if it has none.
	Addr, PayAddr string

	proc *os.Process
	done chan struct{} // closed when it has ended
	err  error         // how; valid once done is closed

	mu   sync.Mutex
	tail []string // of what it logged
}

// What they log when they are ready.
var (
	serving    = regexp.MustCompile(`msg=serving grpc=(\S+) http=\S+(?: pay=(\S+))?`)
	publishing = regexp.MustCompile(`msg="the relay has the lease"()()`)
	viewing    = regexp.MustCompile(`msg="the wallet view is built"()()`)
)

// startPatience is how long a server may take until it serves.
const startPatience = time.Minute

// StartServer runs a program that logs to standard error, as "khata serve" does, and returns when it serves.
func StartServer(ctx context.Context, program string, args, env []string) (*Server, error) {
	return start(ctx, program, args, env, serving)
}

// StartRelay runs a program as "khata relay", and returns when it publishes.
func StartRelay(ctx context.Context, program string, args, env []string) (*Server, error) {
	return start(ctx, program, args, env, publishing)
}

// StartWallet runs a program as "khata consume wallet" that begins with the books, and returns when it has.
func StartWallet(ctx context.Context, program string, args, env []string) (*Server, error) {
	return start(ctx, program, args, env, viewing)
}

func start(ctx context.Context, program string, args, env []string, ready *regexp.Regexp) (*Server, error) {
	cmd := exec.Command(program, args...)
	cmd.Env = env
	cmd.SysProcAttr = attributes()
	log, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	s := &Server{done: make(chan struct{})}
	started, address := make(chan error), make(chan [2]string, 1)
	go func() {
		// The kernel takes the end of the thread that forked for the death of the parent, so it must last as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		s.proc = cmd.Process
		started <- nil
		s.read(log, ready, address)
		s.err = cmd.Wait()
		close(s.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the process: %w", err)
	}
	select {
	case at := <-address:
		s.Addr, s.PayAddr = at[0], at[1]
		return s, nil
	case <-s.done:
		err = fmt.Errorf("it ended (%s)", s.how())
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(startPatience):
		err = fmt.Errorf("it is not ready after %s", startPatience)
	}
	_ = s.Stop() // What it says of its end matters less than why.
	return nil, fmt.Errorf("start the process: %w\n%s", err, s.logged())
}

func (s *Server) read(log io.Reader, ready *regexp.Regexp, address chan<- [2]string) {
	for lines := bufio.NewScanner(log); lines.Scan(); {
		line := lines.Text()
		if m := ready.FindStringSubmatch(line); m != nil {
			select {
			case address <- [2]string{m[1], m[2]}:
			default: // It says so again.
			}
		}
		s.mu.Lock()
		s.tail = append(s.tail, line)
		s.tail = s.tail[max(0, len(s.tail)-20):]
		s.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, log) // Whatever was no line of text: a full pipe would stop the server.
}

// how says how the process has ended.
func (s *Server) how() string {
	if s.err == nil {
		return "exit status 0"
	}
	return s.err.Error()
}

func (s *Server) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.tail, "\n")
}

// PID is its process id.
func (s *Server) PID() int { return s.proc.Pid }

// Done is closed when the process has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop asks it to stop, and returns when it is gone; at last it is killed. It may be called after it has ended by itself,
// which is an error, with the end of its log.
func (s *Server) Stop() error {
	select {
	case <-s.done:
		return fmt.Errorf("the server ended by itself (%s)\n%s", s.how(), s.logged())
	default:
	}
	_ = s.proc.Signal(syscall.SIGTERM) // An error means that it has just ended.
	const patience = 20 * time.Second  // longer than the server's own
	select {
	case <-s.done:
		return nil
	case <-time.After(patience):
		_ = s.proc.Kill()
		<-s.done
		return errors.New("the server did not stop and was killed")
	}
}
