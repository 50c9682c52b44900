package devpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"
)

// orphanWait bounds how long a start waits for the processes of an earlier
// server, whose supervisor is gone, to finish their shutdown checkpoint.
const orphanWait = time.Minute

// shortly is how long a lock may outlast a process that has been killed.
const shortly = 300 * time.Millisecond

// locks are the two flocks on a directory. The supervisor's says "somebody is
// in charge"; the cluster's is inherited by every postgres process, so it falls
// when the last of them is gone. Pids cannot say that: they are reused, and a
// zombie still answers kill(pid, 0).
type locks struct {
	supervisor, cluster *os.File
}

// takeLocks returns ErrInUse if another supervisor is alive, and waits for a
// cluster that has lost its own.
func (l layout) takeLocks(ctx context.Context, log *slog.Logger) (*locks, error) {
	supervisor, err := l.openFile(l.supervisor())
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	lk := &locks{supervisor: supervisor}
	// A supervisor that has just been killed may not have closed its files yet.
	quick, cancel := context.WithTimeout(ctx, shortly)
	defer cancel()
	if err := waitLock(quick, supervisor, func() {}); err != nil {
		defer lk.release()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock the data directory: %w", err)
		}
		pid, _ := io.ReadAll(io.NewSectionReader(supervisor, 0, 20))
		return nil, fmt.Errorf("%w: process %s runs the server in %s", ErrInUse, strings.TrimSpace(string(pid)), l.dir)
	}
	// Only for the message above; the lock alone decides.
	if err := supervisor.Truncate(0); err == nil {
		fmt.Fprintln(supervisor, os.Getpid())
	}
	if lk.cluster, err = l.openFile(l.lock()); err != nil {
		lk.release()
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := l.waitCluster(ctx, lk.cluster, log); err != nil {
		lk.release()
		return nil, err
	}
	return lk, nil
}

func (l layout) waitCluster(ctx context.Context, f *os.File, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, orphanWait)
	defer cancel()
	err := waitLock(ctx, f, func() {
		log.Info("waiting for the previous PostgreSQL to shut down", "dir", l.dir)
	})
	if errors.Is(err, syscall.EWOULDBLOCK) {
		p, _ := readPIDFile(l.data())
		return fmt.Errorf("%w: a PostgreSQL that has lost its supervisor (process %d) still runs in %s: %w",
			ErrInUse, p.pid, l.dir, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("lock the data directory: %w", err)
	}
	return nil
}

// waitLock returns EWOULDBLOCK if another still has the lock when ctx ends. It
// polls, since a flock that waits cannot be given up. waiting is called once.
func waitLock(ctx context.Context, f *os.File, waiting func()) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for first := true; ; first = false {
		err := tryLock(f, syscall.LOCK_EX)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// release closes the files and never calls LOCK_UN, which would also take the
// lock from the postgres processes that share it.
func (lk *locks) release() {
	for _, f := range []*os.File{lk.cluster, lk.supervisor} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// tryLock does not wait: EWOULDBLOCK means that another has it.
func tryLock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
