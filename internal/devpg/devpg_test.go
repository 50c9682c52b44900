package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServer_Life is one cluster through everything that may happen to it. It is
// one test since an initdb costs more than the rest together.
func TestServer_Life(t *testing.T) {
	t.Parallel()
	dir := testDir(t)
	cfg := Config{Dir: dir, Unsafe: true, Settings: map[string]string{"work_mem": "5MB"}}

	if _, _, err := Open(t.Context(), cfg); !errors.Is(err, ErrNoCluster) {
		t.Fatalf("Open of an empty directory: %v", err)
	}
	// What an initdb that was killed half way leaves.
	if err := os.MkdirAll(filepath.Join(dir, "data.init"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data.init", "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	s := mustStart(t, cfg)
	if err := s.EnsureRole(t.Context(), "khata_service"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.EnsureDatabase(t.Context(), "kha'ta", "khata_owner"); err != nil {
			t.Fatal(err)
		}
	}
	owner := s.DSN("khata_owner", "kha'ta")
	if got := query(t, owner, "SHOW work_mem"); got != "5MB" {
		t.Errorf("work_mem = %s", got)
	}
	if got := query(t, owner, "SHOW listen_addresses"); got != "" {
		t.Errorf("listens on %s", got)
	}
	if got := query(t, owner, "SHOW data_checksums"); got != "on" {
		t.Errorf("data_checksums = %s", got)
	}
	if got := query(t, s.DSN(Superuser, "postgres"), `SELECT string_agg(rolname, ' ' ORDER BY rolname) FROM pg_roles
		WHERE rolname LIKE 'khata%' AND rolcanlogin AND NOT (rolsuper OR rolcreaterole OR rolcreatedb
			OR rolbypassrls OR rolreplication)`); got != "khata_owner khata_service" {
		t.Errorf("plain roles: %s", got)
	}
	mustExec(t, owner, "CREATE TABLE kept (n int)")

	refused(t, cfg)
	joined(t, cfg, s)
	mustStop(t, s)
	if _, ok, err := Running(dir); ok || err != nil {
		t.Errorf("Running after Stop: %v, %v", ok, err)
	}

	// Only the postmaster dies; its children follow by themselves.
	s = mustStart(t, cfg)
	mustExec(t, s.DSN("khata_owner", "kha'ta"), "INSERT INTO kept VALUES (1)")
	_ = s.Signal(syscall.SIGKILL)
	waitDone(t, s)
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err after kill -9: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop after kill -9: %v", err)
	}

	stalePID(t, dir)
	s = mustStart(t, cfg)
	if got := query(t, s.DSN("khata_owner", "kha'ta"), "SELECT count(*)::text FROM kept"); got != "1" {
		t.Errorf("%s rows after recovery", got)
	}
	forced(t, s)

	supervisorKilled(t, cfg, false)
	supervisorKilled(t, cfg, true)
	byHand(t, cfg)
	a, release, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := query(t, a.DSN("khata_owner", "kha'ta"), "SELECT count(*)::text FROM kept"); got != "1" {
		t.Errorf("%s rows at the end", got)
	}
	if err := release(t.Context()); err != nil {
		t.Error(err)
	}
}

// refused checks that a second start neither waits nor disturbs the first.
func refused(t *testing.T, cfg Config) {
	t.Helper()
	began := time.Now()
	_, err := Start(t.Context(), cfg)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", os.Getpid())) {
		t.Errorf("second start: %v", err)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("second start took %v to be refused", d)
	}
}

// joined checks that Open uses the running server and leaves it running.
func joined(t *testing.T, cfg Config, s *Server) {
	t.Helper()
	a, release, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if a != s.Address {
		t.Errorf("Open = %+v, want %+v", a, s.Address)
	}
	if err := release(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-s.Done():
		t.Error("Open's release stopped a server that it had not started")
	default:
	}
}

// stalePID leaves a pid file that names a live process of PostgreSQL's own user
// where that can be arranged, as happens in containers with low pids.
func stalePID(t *testing.T, dir string) {
	t.Helper()
	l := layout{dir}
	acct, err := l.chooseAccount()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	cmd.Dir = "/"
	cmd.SysProcAttr = attributes(acct, 0)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	file := filepath.Join(l.data(), "postmaster.pid")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\n")
	text := fmt.Sprintf("%d\n%s", cmd.Process.Pid, rest)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// forced checks that a server that cannot react is ended all the same.
func forced(t *testing.T, s *Server) {
	t.Helper()
	s.cleanWait, s.forceWait = 50*time.Millisecond, 50*time.Millisecond
	_ = s.Signal(syscall.SIGSTOP)
	if err := s.Stop(context.Background()); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Stop of a stopped process: %v", err)
	}
	waitDone(t, s)
}

// supervisorKilled kills the process that called Start, alone or together with
// the postmaster, and starts again at once.
func supervisorKilled(t *testing.T, cfg Config, both bool) {
	t.Helper()
	cmd := startSupervisor(t, cfg.Dir)
	a, ok, err := Running(cfg.Dir)
	if !ok || err != nil {
		t.Fatalf("Running: %v, %v", ok, err)
	}
	cmd.Process.Kill()
	if both {
		_ = syscall.Kill(a.PID(), syscall.SIGKILL)
	}
	s := mustStart(t, cfg)
	if s.PID() == a.PID() || worksIn(a.PID(), filepath.Join(cfg.Dir, "data")) == yes {
		t.Error("the orphan still runs")
	}
	mustStop(t, s)
}

// byHand checks that a postgres that somebody else has started on data/ is left
// alone: there is no lock of ours then, only the pid file.
func byHand(t *testing.T, cfg Config) {
	t.Helper()
	l := layout{cfg.Dir}
	acct, err := l.chooseAccount()
	if err != nil {
		t.Fatal(err)
	}
	bin, err := findBinaries(t.Context(), "", 0, acct)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin.path("postgres"), "-D", l.data(), "-k", filepath.Join(cfg.Dir, "sock"),
		"-c", "listen_addresses=")
	cmd.Dir, cmd.Env = "/", environment(bin.dir, "/")
	cmd.SysProcAttr = attributes(acct, 0)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		cmd.Wait()
	}()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if p, err := readPIDFile(l.data()); err == nil && p.ready {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("postgres does not start by hand")
		}
	}
	if _, err := Start(t.Context(), cfg); !errors.Is(err, ErrInUse) ||
		!strings.Contains(err.Error(), "not started by Khata") {
		t.Errorf("start beside a server started by hand: %v", err)
	}
}

// TestServer_OrdinaryUser repeats the life of a cluster without root's rights.
func TestServer_OrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("TestServer_Life has already run as an ordinary user")
	}
	asNobody(t, "TestServer_Life")
}

// dirEnv hands a directory from a test of root to its part of an ordinary user.
const dirEnv = "DEVPG_TEST_DIR"

// TestServer_TwoUsers checks that root can work on another user's directory and
// leaves it usable for that user, and that the reverse is refused in clear words.
func TestServer_TwoUsers(t *testing.T) {
	if dirs := os.Getenv(dirEnv); dirs != "" {
		own, roots, _ := strings.Cut(dirs, ":")
		s := mustStart(t, Config{Dir: own, Unsafe: true})
		mustStop(t, s)
		if _, _, err := Open(t.Context(), Config{Dir: roots}); !errors.Is(err, fs.ErrPermission) ||
			!strings.Contains(err.Error(), "another user") {
			t.Errorf("Open of root's directory: %v", err)
		}
		if _, err := Start(t.Context(), Config{Dir: roots}); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("Start in root's directory: %v", err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can act for two users")
	}
	own, roots := testDir(t), testDir(t)
	if err := os.Chown(own, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(own, 0o700); err != nil {
		t.Fatal(err)
	}
	mustStop(t, mustStart(t, Config{Dir: own, Unsafe: true}))
	write(t, layout{roots}.lock(), "")
	write(t, layout{roots}.supervisor(), "")
	t.Setenv(dirEnv, own+":"+roots)
	asNobody(t, "TestServer_TwoUsers")
}

// TestServer_Durable checks the settings that P2 needs, and a directory whose
// socket path would be too long, whose first start is interrupted.
func TestServer_Durable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(testDir(t), strings.Repeat("long", 25))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Config{Dir: dir}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("interrupted start: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("an interrupted initdb left data/: %v", err)
	}

	s := mustStart(t, Config{Dir: dir})
	if !strings.HasPrefix(s.SocketDir(), os.TempDir()) {
		t.Errorf("socket in %s", s.SocketDir())
	}
	a, ok, err := Running(dir)
	if err != nil || !ok || a != s.Address {
		t.Errorf("Running = %+v, %v, %v", a, ok, err)
	}
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if got := query(t, s.DSN(Superuser, "postgres"), "SHOW "+name); got != "on" {
			t.Errorf("%s = %s", name, got)
		}
	}
	mustStop(t, s)
	if _, err := os.Stat(s.SocketDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket's directory is left behind: %v", err)
	}
	if _, err := os.Stat(s.LogPath()); err != nil {
		t.Error(err)
	}
}
