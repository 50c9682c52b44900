package pgtest

import (
	"context"
	"maps"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/devpg"
)

// Server is a PostgreSQL of a test's own, with one migrated database. Its DSNs
// stay the same over restarts.
type Server struct {
	*DB

	cfg devpg.Config
	dir *tempDir

	mu      sync.Mutex
	srv     *devpg.Server
	crashed bool
}

// NewServer starts a server with further settings, which may be nil (fsync=off,
// say, for a test of who notices). It takes about a second; a test that only needs
// a database calls New. The server is stopped and removed when the test ends.
func NewServer(t testing.TB, extra map[string]string) *Server {
	t.Helper()
	dir, err := newTempDir()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	s := &Server{dir: dir, cfg: devpg.Config{Dir: dir.pg(), Settings: maps.Clone(settings)}}
	maps.Copy(s.cfg.Settings, extra)
	t.Cleanup(func() { s.cleanup(t) })
	s.Restart(t)
	ctx, cancel := context.WithTimeout(context.Background(), opWait)
	defer cancel()
	s.DB = &DB{Name: "khata", addr: s.srv.Address, socketDir: s.srv.SocketDir()}
	if err := makeDatabase(ctx, s.addr, s.Name); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s
}

// Signal sends a signal to the postmaster, such as SIGSTOP and SIGCONT. Sessions
// are processes of their own (pg_backend_pid) and go on.
func (s *Server) Signal(t testing.TB, sig os.Signal) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.srv.Signal(sig); err != nil {
		t.Fatalf("pgtest: signal postgres: %v", err)
	}
}

// Kill ends the postmaster with SIGKILL, as the kernel does when memory runs out.
// Its sessions notice and end too, after what they are just doing; Kill returns
// when the last one is gone.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.srv.Signal(syscall.SIGKILL); err != nil {
		t.Fatalf("pgtest: kill postgres: %v", err)
	}
	s.crashed = true
	for deadline := time.Now().Add(opWait); ; time.Sleep(5 * time.Millisecond) {
		// The lock on the directory is what the last process of a cluster drops.
		if _, ok, err := devpg.Running(s.cfg.Dir); err == nil && !ok {
			<-s.srv.Done()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("pgtest: sessions of a killed postgres do not end")
		}
	}
}

// Stop shuts the server down cleanly, breaking its connections.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopLocked(t)
}

// Restart stops the server if it runs and starts it again. After Kill it returns
// when PostgreSQL has recovered.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopLocked(t)
	ctx, cancel := context.WithTimeout(context.Background(), opWait)
	defer cancel()
	srv, err := devpg.Start(ctx, s.cfg)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	s.srv, s.crashed = srv, false
	if s.DB != nil {
		s.addr = srv.Address
	}
}

func (s *Server) stopLocked(t testing.TB) {
	t.Helper()
	if s.srv == nil {
		return
	}
	// A test may have left it stopped. An error means that it has ended.
	_ = s.srv.Signal(syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(context.Background(), opWait)
	defer cancel()
	if err := s.srv.Stop(ctx); err != nil {
		t.Errorf("pgtest: %v", err)
	}
}

// cleanup restarts a server that has crashed: only that frees its shared memory,
// which lies outside of the directory.
func (s *Server) cleanup(t testing.TB) {
	if s.crashed {
		s.Restart(t)
	}
	s.Stop(t)
	if err := s.dir.remove(); err != nil {
		t.Errorf("pgtest: %v", err)
	}
}
