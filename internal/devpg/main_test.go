package devpg

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// helperEnv makes the test binary act as a supervisor of the directory that it
// names: it starts a server, prints "ready", and waits to be killed.
const helperEnv = "DEVPG_TEST_SUPERVISE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		supervise(dir)
	}
	goleak.VerifyTestMain(m)
}

func supervise(dir string) {
	s, err := Start(context.Background(), Config{Dir: dir, Unsafe: true})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	<-s.Done()
	os.Exit(0)
}

// testDir is a directory that PostgreSQL's user can reach, in memory if possible.
// t.TempDir will not do: when the caller is root, nobody else can enter it.
func testDir(t *testing.T) string {
	t.Helper()
	base := "/dev/shm"
	if f, err := os.CreateTemp(base, "khata-probe-"); err != nil {
		base = ""
	} else {
		f.Close()
		os.Remove(f.Name())
	}
	dir, err := os.MkdirTemp(base, "khata-devpg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustStart(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func mustStop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
}

// query runs one statement and returns its single value as text.
func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var v string
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func mustExec(t *testing.T, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func waitDone(t *testing.T, s *Server) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("postgres does not end")
	}
}

// startSupervisor runs supervise in a process of its own and waits until its
// server accepts connections.
func startSupervisor(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), helperEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "ready\n" {
		rest, _ := io.ReadAll(out)
		t.Fatalf("supervisor: %s%s", line, rest)
	}
	return cmd
}

// asNobody runs the named test in a copy of this binary as an ordinary user. The
// binary itself lies in a directory that only root can enter.
func asNobody(t *testing.T, test string) {
	t.Helper()
	dir := testDir(t)
	self := filepath.Join(dir, "devpg.test")
	// Writing it here could fail the exec with "text file busy": a child forked
	// meanwhile by a parallel test holds the file open (golang/go#22315).
	install := exec.Command("install", "-m", "0755", fmt.Sprintf("/proc/%d/exe", os.Getpid()), self)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(self, "-test.run=^"+test+"$", "-test.v", "-test.timeout=60s")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "HOME=/nonexistent", "XDG_DATA_HOME=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
