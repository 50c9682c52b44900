package kafkatest

import (
	"os"
	"os/exec"
	"runtime"
	"time"
)

// process is a broker that has been started.
type process struct {
	cmd     *exec.Cmd
	started chan error
	done    chan struct{} // closed when it has been waited for
	err     error         // valid once done is closed; nil for exit status 0
}

// startProcess starts a program that writes to the log.
func startProcess(path string, args []string, log *os.File) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), started: make(chan error), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = attributes()
	go p.supervise()
	if err := <-p.started; err != nil {
		return nil, err
	}
	return p, nil
}

// supervise starts the program and waits for it. The kernel sends the death signal when the forking thread ends, so this one
// must last as long as the program (golang/go#27505).
func (p *process) supervise() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		p.started <- err
		return
	}
	p.started <- nil
	p.err = p.cmd.Wait()
	close(p.done)
}

// signal returns os.ErrProcessDone for one that has ended.
func (p *process) signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// ended waits for the end, at most for the given time.
func (p *process) ended(within time.Duration) bool {
	select {
	case <-p.done:
		return true
	default:
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}
