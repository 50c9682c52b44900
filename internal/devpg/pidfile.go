package devpg

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// pidFile is what postmaster.pid says (src/include/utils/pidfile.h).
type pidFile struct {
	pid       int
	socketDir string
	ready     bool
}

func readPIDFile(dataDir string) (pidFile, error) {
	b, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil {
		return pidFile{}, err
	}
	lines := strings.Split(string(b), "\n")
	line := func(n int) string {
		if n > len(lines) {
			return ""
		}
		return strings.TrimSpace(lines[n-1])
	}
	// A file that is just being written has no number or no last line yet.
	pid, _ := strconv.Atoi(line(1))
	return pidFile{pid: pid, socketDir: line(5), ready: line(8) == "ready"}, nil
}

// removeStalePID removes the pid file that a crash has left. PostgreSQL would
// refuse to start whenever that pid is alive, which in a container, where pids
// are low, it usually is. The caller holds the cluster's lock, so no server of
// ours can be running; one that somebody started by hand is told by its working
// directory, which is always the data directory.
func (l layout) removeStalePID(log *slog.Logger) error {
	p, err := readPIDFile(l.data())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch worksIn(p.pid, l.data()) {
	case yes:
		return fmt.Errorf("%w: process %d, not started by Khata, serves %s", ErrInUse, p.pid, l.data())
	case unknown:
		return nil
	}
	log.Info("removing the pid file of a PostgreSQL that is gone", "dir", l.dir, "pid", p.pid)
	return os.Remove(filepath.Join(l.data(), "postmaster.pid"))
}

// answer is a yes or no that the system may be unable to give.
type answer int

const (
	no answer = iota
	yes
	unknown
)
