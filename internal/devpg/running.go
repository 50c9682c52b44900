package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Running returns the address of the server that some process runs on dir, and
// false if there is none. It changes nothing. It returns ErrInUse while a server
// starts or stops, after waiting a moment, and an error for which errors.Is(err,
// fs.ErrPermission) holds when the directory is another user's: only that user and
// root may look.
func Running(dir string) (Address, bool, error) {
	// A process that has just ended, or a child that has been forked meanwhile and
	// has not yet executed its program, may hold the lock a little longer.
	for deadline := time.Now().Add(shortly); ; time.Sleep(20 * time.Millisecond) {
		a, ok, err := running(dir)
		if errors.Is(err, ErrInUse) && time.Now().Before(deadline) {
			continue
		}
		if err != nil {
			return Address{}, false, fmt.Errorf("look for a running PostgreSQL: %w", err)
		}
		return a, ok, nil
	}
}

func running(dir string) (Address, bool, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Address{}, false, err
	}
	l := layout{dir}
	// The pid file alone proves nothing: it outlives a crash.
	f, err := os.Open(l.lock())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Address{}, false, nil
	case errors.Is(err, fs.ErrPermission):
		return Address{}, false, fmt.Errorf("%w (the directory is another user's: use that user or root)", err)
	case err != nil:
		return Address{}, false, err
	}
	defer f.Close()
	switch err := tryLock(f, syscall.LOCK_SH); {
	case err == nil:
		return Address{}, false, nil
	case !errors.Is(err, syscall.EWOULDBLOCK):
		return Address{}, false, err
	}
	p, err := readPIDFile(l.data())
	if errors.Is(err, fs.ErrPermission) {
		return Address{}, false, err
	}
	// A start that holds the lock may not have removed a stale file yet.
	if err != nil || !p.ready || worksIn(p.pid, l.data()) == no {
		return Address{}, false, fmt.Errorf("%w: a server is starting or stopping in %s", ErrInUse, dir)
	}
	return Address{socketDir: p.socketDir, pid: p.pid}, true, nil
}

// Open gives access to an existing cluster whether or not a server runs on it: it
// joins the running one, or starts one of its own. It never creates a cluster, but
// returns ErrNoCluster. release must be called once the connections are closed;
// it stops what Open has started.
func Open(ctx context.Context, cfg Config) (_ Address, release func(context.Context) error, _ error) {
	a, ok, err := Running(cfg.Dir)
	if err != nil {
		return Address{}, nil, err
	}
	if ok {
		return a, func(context.Context) error { return nil }, nil
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, "data")); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %s", ErrNoCluster, cfg.Dir)
		}
		return Address{}, nil, err
	}
	s, err := Start(ctx, cfg)
	if err != nil {
		return Address{}, nil, err
	}
	return s.Address, s.Stop, nil
}
