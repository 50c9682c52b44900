package payclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/khata-ledger/khata/ledger/payclient"
)

// processEnv makes the test binary act as a process that uses the SDK; it holds a task.
const processEnv = "KHATA_TEST_PAYCLIENT"

// task is what a process does.
type task struct {
	URL, Dir string
	// References are of payments of one taka each, which are begun and sent, all at once; without any, what is unfinished is resumed.
	References []string
	// KillAt is the step at which the process kills itself with SIGKILL; 0 is none.
	KillAt int64
}

// told is what it prints at the end of a payment, or of all: then Steps says how many there were.
type told struct {
	Reference string
	State     payclient.State
	Transfer  string
	Key       string
	Err       string
	Steps     int64
}

// runProcess is the process.
func runProcess(text string) int {
	var job task
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var step atomic.Int64
	hook := func(string, bool) error {
		if step.Add(1) == job.KillAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
	d, err := payclient.OpenFolder(job.Dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	transport := stepping{http.DefaultTransport, hook}
	c, err := payclient.Open(payclient.Config{URL: job.URL, Dir: job.Dir, User: "shimul", Token: tokenOf("shimul"), Transport: transport},
		&hooked{d, hook}, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var mu sync.Mutex
	tell := func(t told) {
		mu.Lock()
		defer mu.Unlock()
		line, _ := json.Marshal(t)
		fmt.Println(string(line))
	}
	end := func(reference string, r payclient.Result, err error) {
		t := told{Reference: reference, State: r.State, Transfer: r.TransferID, Key: r.Key}
		if err != nil {
			t.Err = err.Error()
		}
		tell(t)
	}
	var wg sync.WaitGroup
	for _, reference := range job.References {
		wg.Go(func() {
			request := coaching("1.00")
			request.Note = reference
			r, err := c.Pay(ctx, request, payclient.Reference(reference))
			end(reference, r, err)
		})
	}
	wg.Wait()
	if len(job.References) == 0 {
		for r, err := range c.Resume(ctx) {
			end(r.Reference, r, err)
		}
	}
	tell(told{Steps: step.Load()})
	return 0
}

// stepping counts the two steps of the network: before a request leaves, and when its answer is there and nobody knows of it yet.
type stepping struct {
	http.RoundTripper
	hook func(string, bool) error
}

func (s stepping) RoundTrip(r *http.Request) (*http.Response, error) {
	_ = s.hook("request", false)
	resp, err := s.RoundTripper.RoundTrip(r)
	_ = s.hook("request", true)
	return resp, err
}

// process starts one.
func process(t *testing.T, job task) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	// With the race detector a process takes a second to end, unless it is told not to.
	cmd.Env = append(os.Environ(), processEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = attributes()
	cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
	return cmd
}

// output reads what a process has told.
func output(t *testing.T, cmd *exec.Cmd) (list []told) {
	t.Helper()
	for line := range strings.Lines(cmd.Stdout.(*bytes.Buffer).String()) { //nolint:forcetypeassert // It is one.
		var one told
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, one)
	}
	return list
}

// finish runs a process to its end, which has to be a good one.
func finish(t *testing.T, job task) []told {
	t.Helper()
	cmd := process(t, job)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, cmd.Stderr)
	}
	return output(t, cmd)
}

// A process is killed with SIGKILL at every step of a payment: of each write, of the request and of its answer. Afterwards a second process
// goes on, by resuming or by beginning the same order again: one transfer, under one key.
func TestKill_EveryStep(t *testing.T) {
	t.Parallel()
	s := setup(t, 1000)
	whole := finish(t, task{URL: s.URL, Dir: t.TempDir(), References: []string{"whole"}})
	steps := whole[len(whole)-1].Steps
	if steps < 35 {
		t.Fatalf("a payment has %d steps only", steps)
	}
	stride := int64(1)
	if testing.Short() {
		stride = 5
	}
	paid := 1
	sem := make(chan struct{}, 2)
	var wg sync.WaitGroup
	var resumedAll, unsent atomic.Int64
	for at := int64(1); at <= steps; at += stride {
		paid++
		sem <- struct{}{}
		wg.Go(func() {
			defer func() { <-sem }()
			resumed, sent := killAt(t, s, at)
			resumedAll.Add(int64(resumed))
			if !sent {
				unsent.Add(1)
			}
		})
	}
	wg.Wait()
	if got := s.balance(t, "wallet:tithi"); got != fmt.Sprint(paid) {
		t.Errorf("Tithi has %s, want %d", got, paid)
	}
	if resumedAll.Load() == 0 || unsent.Load() == 0 {
		t.Errorf("%d were resumed and %d killed before they were sent: is anybody killed?", resumedAll.Load(), unsent.Load())
	}
}

// killAt kills one payment at a step, and goes on with it.
func killAt(t *testing.T, s *server, at int64) (resumed int, sentBefore bool) {
	reference := fmt.Sprintf("killed-at-%d", at)
	dir := t.TempDir()
	cmd := process(t, task{URL: s.URL, Dir: dir, References: []string{reference}, KillAt: at})
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL { //nolint:forcetypeassert // On unix it is one.
		t.Errorf("%s was not killed: %v %s", reference, err, cmd.Stderr)
		return 0, true
	}
	before := s.about(reference)
	// Every second one is resumed, and then begun again all the same: by then it is settled, or was never begun.
	if at%2 == 0 {
		resumed = len(finish(t, task{URL: s.URL, Dir: dir})) - 1
	}
	again := finish(t, task{URL: s.URL, Dir: dir, References: []string{reference}})
	if again[0].State != payclient.Done || again[0].Err != "" {
		t.Errorf("%s: %+v", reference, again[0])
	}
	requests := s.about(reference)
	oneKey(t, requests, len(requests))
	if len(requests) == 0 || requests[0].key != again[0].Key {
		t.Errorf("%s: sent %v, and says %s", reference, requests, again[0].Key)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+payclient.TempSuffix))
	if err != nil || len(files) > 0 {
		t.Errorf("%s: files are left: %v %v", reference, files, err)
	}
	return resumed, len(before) > 0
}

// about gives the POSTs with a text in their body.
func (s *server) about(text string) (list []seen) {
	for _, r := range s.received() {
		if strings.Contains(r.body, `"`+text+`"`) {
			list = append(list, r)
		}
	}
	return list
}

// Three processes share a store and pay the same orders at once: each order is sent once, by one of them, and all are told the same. Then
// they die in the middle, again and again, and others take over at once: locks of the dead are none.
func TestStorm_SharedStore(t *testing.T) {
	t.Parallel()
	s := setup(t, 10_000)
	dir := t.TempDir()
	var references []string
	for i := range 12 {
		references = append(references, fmt.Sprintf("shared-%d", i))
	}
	together := func(job task, n int) (all []told) {
		cmds := make([]*exec.Cmd, n)
		for i := range cmds {
			cmds[i] = process(t, job)
			if job.KillAt > 0 {
				job.KillAt += 17
			}
			if err := cmds[i].Start(); err != nil {
				t.Fatal(err)
			}
		}
		for _, cmd := range cmds {
			if err := cmd.Wait(); err != nil && job.KillAt == 0 {
				t.Errorf("%v: %s", err, cmd.Stderr)
			}
			if job.KillAt == 0 {
				all = append(all, output(t, cmd)...)
			}
		}
		return all
	}
	numbers := map[string]string{}
	for _, one := range together(task{URL: s.URL, Dir: dir, References: references}, 3) {
		if one.Reference == "" {
			continue
		}
		if one.State != payclient.Done || numbers[one.Reference] != "" && numbers[one.Reference] != one.Transfer {
			t.Errorf("%+v, and before %s", one, numbers[one.Reference])
		}
		numbers[one.Reference] = one.Transfer
	}
	for _, reference := range references {
		oneKey(t, s.about(reference), 1)
	}
	rounds := count(4, 40)
	for round := range rounds {
		for i := range references {
			references[i] = fmt.Sprintf("killed-%d-%d", round, i)
		}
		together(task{URL: s.URL, Dir: dir, References: references, KillAt: int64(60 + 41*round%300)}, 3)
		for _, one := range together(task{URL: s.URL, Dir: dir, References: references}, 2) {
			if one.Reference != "" && one.State != payclient.Done {
				t.Errorf("%+v", one)
			}
		}
		for _, reference := range references {
			requests := s.about(reference)
			oneKey(t, requests, len(requests))
		}
	}
	if got, want := s.balance(t, "wallet:tithi"), fmt.Sprint(12*(rounds+1)); got != want {
		t.Errorf("Tithi has %s, want %s", got, want)
	}
}
