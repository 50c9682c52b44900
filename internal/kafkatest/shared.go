package kafkatest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// theShared is the cluster that all tests of the process share.
var theShared struct {
	mu     sync.Mutex
	inMain bool
	tried  bool
	err    error // of the start; every test gets it
	c      *Cluster
}

// Main runs the tests of a package by the function it is given, mostly m.Run, and afterwards ends the shared broker, if any test
// asked for it, and fails on goroutines that the tests have left running. It returns the exit code; TestMain passes it to os.Exit.
func Main(run func() int) int {
	s := &theShared
	s.mu.Lock()
	s.inMain = true
	s.mu.Unlock()
	code := run()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		if err := s.c.end(); err != nil {
			fmt.Fprintln(os.Stderr, "kafkatest:", err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "kafkatest: goroutines left after the tests:", err)
			code = 1
		}
	}
	return code
}

// Ignore is for who looks for goroutines left running while the shared broker still runs.
func Ignore() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/khata-ledger/khata/internal/kafkatest.(*process).supervise")
}

// Shared is the cluster of one node that all tests of the process share. It starts when the first test asks for it. Topics,
// groups and transactional ids are to have names of the test's own.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	in := need(t)
	s := &theShared
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.inMain {
		t.Fatal("kafkatest: this package's TestMain must be os.Exit(kafkatest.Main(m.Run))")
	}
	if !s.tried {
		s.tried = true
		s.c, s.err = startShared(in)
	}
	if s.err != nil {
		t.Fatalf("kafkatest: %v", s.err)
	}
	t.Cleanup(func() {
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		s.c.report(t)
	})
	return s.c
}

const sharedPrefix = "khata-kafkatest-"

func startShared(in installation) (*Cluster, error) {
	sweep(os.TempDir())
	dir, err := os.MkdirTemp("", sharedPrefix)
	if err != nil {
		return nil, err
	}
	c, err := newCluster(in, filepath.Join(dir, "kafka"), 1)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c.shared = true
	if !in.hasCDS() && os.MkdirAll(filepath.Dir(in.cds), 0o755) == nil {
		c.nodes[0].draft = fmt.Sprintf("%s.%d", in.cds, os.Getpid())
	}
	return c, c.start()
}

// end stops the shared cluster: cleanly if it is to write its file of classes then, else the quick way.
func (c *Cluster) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[0]
	if n.draft != "" && n.running() {
		// The file only saves time: without it, others write it.
		if n.stop() == nil {
			_ = os.Rename(n.draft, n.in.cds)
		}
		_ = os.Remove(n.draft)
	}
	if err := n.kill(); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Dir(c.dir))
}

// sweep removes what killed test processes have left. None lives for a day.
func sweep(base string) {
	found, _ := filepath.Glob(filepath.Join(base, sharedPrefix+"*"))
	for _, path := range found {
		if info, err := os.Lstat(path); err == nil && info.IsDir() && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(path) // The next run tries again.
		}
	}
}
