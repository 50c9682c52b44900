package kafkatest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childEnv makes the test binary a process that is killed while a program of its own runs.
const childEnv = "KHATA_TEST_KAFKATEST_CHILD"

func child() {
	p, err := startProcess("/bin/sleep", []string{"600"}, os.Stderr)
	if err != nil {
		panic(err)
	}
	fmt.Println(p.cmd.Process.Pid)
	<-p.done
}

func TestProcess_DiesWithTheTests(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("other systems cannot do that")
	}
	tests := exec.Command(os.Args[0])
	tests.Env = append(os.Environ(), childEnv+"=1")
	out, err := tests.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tests.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if group, err := syscall.Getpgid(pid); err != nil || group == syscall.Getpgrp() {
		t.Errorf("in the group of the tests: %v", err)
	}
	tests.Process.Kill()
	_ = tests.Wait()
	for deadline := time.Now().Add(opWait); alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives on", pid)
		}
	}
}

// alive is false for a process that nobody has waited for yet.
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(status), ") Z ")
}

// The script that fetches Kafka and this package speak of the same one, in the same place.
func TestVersion(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"../../.ci/kafka/pom.xml": "<kafka.version>" + Version + "</kafka.version>",
		"../../.ci/need-kafka.sh": `home=${XDG_CACHE_HOME:-$HOME/.cache}/khata/kafka-$version`,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %s", file, want)
		}
	}
	for want, variables := range map[string]map[string]string{
		"/c/khata": {"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/h/.cache/khata": {"HOME": "/h"},
	} {
		if got := cacheDir(func(name string) string { return variables[name] }); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestFind(t *testing.T) {
	lib, path := t.TempDir(), t.TempDir()
	getenv := func(name string) string { return map[string]string{LibEnv: lib, "HOME": path}[name] }
	t.Setenv("PATH", path)
	java := func(text string) {
		if err := os.WriteFile(filepath.Join(path, "java"), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(want string) {
		t.Helper()
		if _, err := find(getenv); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	wants("no kafka_2.13-*.jar in " + lib + ": run .ci/need-kafka.sh, or set KHATA_KAFKA_LIB")
	jar := filepath.Join(lib, "kafka_2.13-4.4.0.jar")
	if err := os.WriteFile(jar, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	wants("no java on PATH: run .ci/need-kafka.sh, or install Java 17")
	java("echo no runtime; exit 1")
	wants("no runtime")
	java("echo something else")
	wants("does not say its version: something else")
	java(`echo 'openjdk version "11.0.2"'`)
	wants("is of version 11: install Java 17")
	java(`echo 'openjdk version "17.0.15"'`)
	first, err := find(getenv)
	if err != nil {
		t.Fatal(err)
	}
	again, err := find(getenv)
	if err != nil || again != first {
		t.Errorf("%+v, then %+v: %v", first, again, err)
	}
	// Another Java and other jars have classes of their own.
	java(`echo 'openjdk version "21.0.1"'`)
	newer, err := find(getenv)
	if err != nil || newer.cds == first.cds {
		t.Errorf("%+v, then %+v: %v", first, newer, err)
	}
	if err := os.WriteFile(jar, []byte("more"), 0o644); err != nil {
		t.Fatal(err)
	}
	other, err := find(getenv)
	if err != nil || other.cds == newer.cds {
		t.Errorf("%+v, then %+v: %v", newer, other, err)
	}
}

// ending is a test that says how it was ended.
type ending struct {
	testing.TB
	how string
}

func (e *ending) end(how string) {
	e.how = how
	runtime.Goexit()
}

func (e *ending) Helper()                         {}
func (e *ending) Fatal(args ...any)               { e.end("fatal: " + fmt.Sprint(args...)) }
func (e *ending) Fatalf(form string, args ...any) { e.end("fatal: " + fmt.Sprintf(form, args...)) }
func (e *ending) Skipf(form string, args ...any)  { e.end("skip: " + fmt.Sprintf(form, args...)) }

// endingOf runs a test that must end so.
func endingOf(test func(testing.TB)) string {
	e := &ending{how: "none"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(e)
	}()
	<-done
	return e.how
}

func TestMissing(t *testing.T) {
	t.Parallel()
	for _, ci := range []bool{true, false} {
		want := map[bool]string{true: "fatal: kafkatest: no jars", false: "skip: needs a real Kafka: no jars"}[ci]
		if got := endingOf(func(t testing.TB) { missing(t, errors.New("no jars"), ci) }); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := func(name string, age time.Duration) string {
		path := filepath.Join(base, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old, young, other := dir(sharedPrefix+"1", 25*time.Hour), dir(sharedPrefix+"2", time.Hour), dir("other", 25*time.Hour)
	sweep(base)
	if _, err := os.Stat(old); err == nil {
		t.Error("an old directory stays")
	}
	for _, path := range []string{young, other} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}
