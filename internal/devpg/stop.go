package devpg

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

// leastWait is what a clean shutdown gets even if the caller's context is
// already done, as it usually is when a program ends on a signal.
const leastWait = 2 * time.Second

// Stop shuts the server down and returns when it is gone: first cleanly, which
// breaks all connections and writes a checkpoint (at most 30 seconds, less if ctx
// ends earlier, but at least 2), then as a crash that the next start recovers
// from, and at last with SIGKILL. It loses no committed transaction. The error
// says that force was needed, or that even force did not help. It may be called
// again, and after the server has ended by itself.
func (s *Server) Stop(ctx context.Context) error {
	if s.child.ended(0) {
		return nil
	}
	s.stopping.Store(true)
	clean, least := time.NewTimer(s.cleanWait), time.NewTimer(min(leastWait, s.cleanWait))
	defer clean.Stop()
	defer least.Stop()
	_ = s.Signal(syscall.SIGINT) // an error means that it has just ended
	select {
	case <-s.child.done:
		return nil
	case <-clean.C:
	case <-ctx.Done():
		select {
		case <-s.child.done:
			return nil
		case <-least.C:
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		_ = s.Signal(sig)
		if s.child.ended(s.forceWait) {
			return fmt.Errorf("stop PostgreSQL: no clean shutdown in time, so it was ended with %q; "+
				"the next start will recover", sig)
		}
	}
	return fmt.Errorf("stop PostgreSQL: process %d survives SIGKILL", s.child.pid)
}

// Signal sends a signal to the postmaster, for tests of faults. It returns
// os.ErrProcessDone once the process has been waited for, and so cannot hit another
// process with a reused pid.
func (s *Server) Signal(sig os.Signal) error { return s.child.proc.Signal(sig) }
