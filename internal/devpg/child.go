package devpg

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// child is a program of PostgreSQL that has been started.
type child struct {
	pid  int
	proc *os.Process
	done chan struct{} // closed when it has been waited for
	err  error         // valid once done is closed; nil for exit status 0
}

// startChild starts a program that inherits the cluster's lock and writes to the
// log. after runs once the program has ended, before done is closed.
//
// Output goes to a file and not to a pipe: Wait would hang on a pipe until the
// last grandchild has closed it.
func startChild(path string, args []string, home string, acct *account, log, lock *os.File,
	onDeath syscall.Signal, after func()) (*child, error) {
	cmd := exec.Command(path, args...)
	cmd.Env = environment(filepath.Dir(path), home)
	cmd.Dir = "/" // somewhere every user may be
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = attributes(acct, onDeath)

	c := &child{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the forking *thread* ends,
		// so this one must last as long as the child (golang/go#27505).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		c.proc, c.pid = cmd.Process, cmd.Process.Pid
		started <- nil
		c.err = cmd.Wait()
		after()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// ended waits for the end of the program, at most for the given time.
func (c *child) ended(within time.Duration) bool {
	select {
	case <-c.done:
		return true
	default:
	}
	if within <= 0 {
		return false
	}
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-c.done:
		return true
	case <-t.C:
		return false
	}
}

// logSize is the place in the log where a program that is about to start begins.
func (l layout) logSize() int64 {
	info, err := os.Stat(l.log())
	if err != nil {
		return 0
	}
	return info.Size()
}

// logTail returns the end of what was logged since that place, for errors.
func (l layout) logTail(since int64) string {
	f, err := os.Open(l.log())
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 2000
	b, err := io.ReadAll(io.NewSectionReader(f, max(since, l.logSize()-most), most))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
