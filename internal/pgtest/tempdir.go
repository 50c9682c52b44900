package pgtest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/khata-ledger/khata/internal/devpg"
)

const (
	memory = "/dev/shm"
	prefix = "khata-pgtest-"
)

// tempDir is the directory of one server. A flock on a file in it says that the
// process that made it is alive, whether or not the server runs just now.
type tempDir struct {
	path string
	lock *os.File
}

func (d *tempDir) pg() string { return filepath.Join(d.path, "pg") }

// newTempDir makes a directory in memory if there is room, else in the temporary
// directory, and removes those that killed test processes have left in either.
func newTempDir() (*tempDir, error) {
	base := os.TempDir()
	if hasRoom(memory) {
		base = memory
	}
	sweep(base)
	path, err := os.MkdirTemp(base, prefix)
	if err != nil {
		return nil, err
	}
	d := &tempDir{path: path}
	// PostgreSQL runs as another user when the tests run as root.
	if err = os.Chmod(path, 0o711); err == nil {
		d.lock, err = os.OpenFile(lockPath(path), os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err == nil {
		err = syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		return nil, errors.Join(err, d.remove())
	}
	return d, nil
}

func (d *tempDir) remove() error {
	err := os.RemoveAll(d.path)
	if d.lock != nil {
		d.lock.Close()
	}
	return err
}

// sweep removes what nobody uses any more. Errors do not matter: the next run
// tries again.
func sweep(base string) {
	found, _ := filepath.Glob(filepath.Join(base, prefix+"*"))
	for _, path := range found {
		if abandoned(path) {
			os.RemoveAll(path)
		}
	}
}

func abandoned(path string) bool {
	info, err := os.Lstat(path)
	// A young one may not have its lock yet.
	if err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute {
		return false
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return false
	}
	lock, err := os.OpenFile(lockPath(path), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false
	}
	// Its server may still be writing its last checkpoint.
	_, running, err := devpg.Running((&tempDir{path: path}).pg())
	return err == nil && !running
}

func lockPath(dir string) string { return filepath.Join(dir, "test.lock") }

// hasRoom reports whether dir is a file system in memory that can take a server
// and its databases. Containers often give it no more than 64 MB.
func hasRoom(dir string) bool {
	const enough = 1 << 30 // bytes
	if free, ok := freeMemoryFS(dir); !ok || free < enough {
		return false
	}
	f, err := os.CreateTemp(dir, prefix+"probe-")
	if err != nil {
		return false
	}
	f.Close()
	os.Remove(f.Name())
	return true
}
