package devpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	socketName = ".s.PGSQL.5432"
	// maxSocketPath is what fits into sockaddr_un on Linux, less the final zero.
	maxSocketPath = 107
	// maxLog is the size in bytes at which a start puts the log aside.
	maxLog = 10 << 20
)

// layout knows the paths below one Config.Dir.
type layout struct{ dir string }

func (l layout) data() string       { return filepath.Join(l.dir, "data") }
func (l layout) unfinished() string { return filepath.Join(l.dir, "data.init") }
func (l layout) log() string        { return filepath.Join(l.dir, "postgres.log") }
func (l layout) lock() string       { return filepath.Join(l.dir, "lock") }
func (l layout) supervisor() string { return filepath.Join(l.dir, "supervisor.lock") }

// openLayout creates dir if it is missing and resolves symbolic links, so that
// later checks of the directories above it see those that PostgreSQL will see.
func openLayout(dir string) (layout, *account, error) {
	if dir == "" {
		return layout{}, nil, errors.New("no data directory given")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return layout{}, nil, err
	}
	_, err = os.Stat(dir)
	created := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return layout{}, nil, fmt.Errorf("create the data directory: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return layout{}, nil, err
	}
	l := layout{dir}
	acct, err := l.chooseAccount()
	if err != nil {
		return layout{}, nil, err
	}
	if err := l.open(acct, created); err != nil {
		return layout{}, nil, err
	}
	return l, acct, acct.canReach(dir)
}

// open lets the account pass through the directory, not list it. A directory
// that holds something else is left as it is: it may be anyone's, and canReach
// will name it.
func (l layout) open(acct *account, created bool) error {
	if acct == nil {
		return nil
	}
	if ok, err := acct.canEnter(l.dir); ok || err != nil {
		return err
	}
	if !created {
		entries, err := os.ReadDir(l.dir)
		if err != nil {
			return err
		}
		if _, err := os.Stat(l.lock()); len(entries) > 0 && err != nil {
			return nil
		}
	}
	return os.Chmod(l.dir, 0o711)
}

// openFile opens a file of ours below dir for appending. Where root works in
// the directory of another user, a new file becomes that user's, who will need
// it at the next start, and no symbolic link is followed.
func (l layout) openFile(path string) (*os.File, error) {
	_, err := os.Lstat(path)
	created := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("%w (the directory is another user's: start as that user or as root)", err)
		}
		return nil, err
	}
	if created && os.Geteuid() == 0 {
		uid, gid, err := owner(l.dir)
		if err == nil {
			err = f.Chown(uid, gid)
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return f, nil
}

// openLog opens the server's log, after putting a large one aside.
func (l layout) openLog() (*os.File, error) {
	if info, err := os.Stat(l.log()); err == nil && info.Size() > maxLog {
		if err := os.Rename(l.log(), l.log()+".1"); err != nil {
			return nil, err
		}
	}
	return l.openFile(l.log())
}

// makeSocketDir returns an empty directory for the socket: sock/, or one in the
// temporary directory when the path would be too long for a socket address. The
// caller must hold the cluster's lock. The returned function removes what it made
// outside of dir.
func (l layout) makeSocketDir(acct *account) (string, func(), error) {
	dir, remove := filepath.Join(l.dir, "sock"), func() {}
	// A crashed server leaves a socket and a second pid file here, which
	// blocks the next start once that pid belongs to anybody else.
	if err := os.RemoveAll(dir); err != nil {
		return "", nil, err
	}
	if len(dir)+1+len(socketName) <= maxSocketPath {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return "", nil, err
		}
	} else {
		var err error
		if dir, err = os.MkdirTemp("", "khata-pg-"); err != nil {
			return "", nil, err
		}
		remove = func() { _ = os.RemoveAll(dir) }
	}
	err := acct.canReach(filepath.Dir(dir))
	if err == nil {
		err = acct.give(dir)
	}
	if err != nil {
		remove()
		return "", nil, fmt.Errorf("directory of the socket: %w", err)
	}
	return dir, remove, nil
}
