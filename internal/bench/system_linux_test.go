package bench

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// spin keeps a shell busy for about this much processor time, and another that it waits for.
const spin = `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`

func TestFamilyTime(t *testing.T) {
	t.Parallel()
	before := processes{server: os.Getpid(), postmaster: os.Getpid()}.read()
	// One that has ended and was waited for, and one that is alive.
	if err := exec.Command("sh", "-c", spin).Run(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", spin+"; echo done; exec sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	alive := processTime(cmd.Process.Pid)
	used := processes{server: os.Getpid(), postmaster: os.Getpid()}.read().since(before)
	if alive <= 0 || *used.Postgres < alive.Seconds()*1.5 {
		t.Errorf("one child took %s, the family %.2f s", alive, *used.Postgres)
	}
	if *used.Client < 0 || *used.Server > *used.Postgres {
		t.Errorf("this process took %.2f s, of %.2f s of the family", *used.Server, *used.Postgres)
	}
	if got := (processes{server: 1 << 30, postmaster: 1 << 30}).read(); got.server != unknown || got.postgres != unknown {
		t.Errorf("of nobody: %+v", got)
	}
	if got := (processes{}).read().since(reading{client: unknown}); got != (CPU{}) {
		t.Errorf("of what is not known: %+v", got)
	}
}

func TestFreeSpace(t *testing.T) {
	t.Parallel()
	if free, known := freeSpace(t.TempDir()); !known || free <= 0 {
		t.Errorf("%d, %t", free, known)
	}
	if _, known := freeSpace(""); known {
		t.Error("of no directory")
	}
}

func TestStartServer(t *testing.T) {
	t.Parallel()
	s, err := StartServer(t.Context(), "sh", []string{"-c", `echo "level=INFO msg=serving grpc=127.0.0.1:$PORT http=x" >&2; exec sleep 60`}, []string{"PORT=77"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr != "127.0.0.1:77" || s.PID() == 0 {
		t.Errorf("address %q, pid %d", s.Addr, s.PID())
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	<-s.Done()
	for script, said := range map[string]string{
		"echo no database >&2; exit 3": "no database",
		"exit 0":                       "exit status 0",
	} {
		if _, err := StartServer(t.Context(), "sh", []string{"-c", script}, nil); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v", script, err)
		}
	}
	if _, err := StartServer(t.Context(), "/no/such/program", nil, nil); err == nil {
		t.Error("a program that is not there is started")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := StartServer(ctx, "sleep", []string{"60"}, nil); err == nil {
		t.Error("a server that never serves is waited for")
	}
}
