//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package payclient

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the lock that a file stands for, without waiting. The system gives it back when the process ends, whatever of.
func lockFile(path string) (func(), error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // A descriptor is small.
		}
		if err != nil {
			_ = f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, errLocked
			}
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		// Whoever had it may have removed the file meanwhile, and others may lock a new one by that name: then this lock is of nothing.
		mine, err := f.Stat()
		there, missing := os.Stat(path)
		if err == nil && missing == nil && os.SameFile(mine, there) {
			return func() { _ = f.Close() }, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// syncDir makes the names in a folder durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	return err
}
