package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// clientEnv makes the test binary act as a client process; it holds a clientConfig.
const clientEnv = "KHATA_TEST_CLIENT"

// clientConfig is what a client process does: it posts a stream, transfer after transfer, with each of its workers.
type clientConfig struct {
	Addresses []string
	Seed      uint64
	Streams   []int
	Dir       string // its memory
}

// acknowledged is a line of a stream's file: an answer that the client has had, and will never forget.
type acknowledged struct {
	answer
	ID       ledger.TransferID
	Replayed bool
}

// runClient is a client as it should be: it goes on with the first transfer that it has no record of an answer to, under
// the same id, and writes each answer to disk before the next transfer. It never ends by itself.
func runClient(config string) int {
	var c clientConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	failed := make(chan error)
	for i, stream := range c.Streams {
		go func() { failed <- c.postStream(stream, c.Addresses[i%len(c.Addresses)]) }()
	}
	fmt.Println("failed:", <-failed)
	return 1
}

func (c clientConfig) postStream(stream int, address string) error {
	done, err := readAcknowledged(c.path(stream))
	if err != nil {
		return err
	}
	file, err := os.OpenFile(c.path(stream), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	khata, err := client.Dial(address, client.Options{})
	if err != nil {
		return err
	}
	defer khata.Close()
	for i := len(done); ; i++ {
		spec := workload{c.Seed}.spec(stream, i)
		r, err := khata.PostTransfer(context.Background(), spec)
		if err != nil {
			return fmt.Errorf("%s: %w", spec.ID, err)
		}
		line, err := json.Marshal(acknowledged{answerOf(r), r.TransferID, r.Replayed})
		if err != nil {
			return err
		}
		if _, err := file.Write(append(line, '\n')); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		fmt.Println("acknowledged", spec.ID)
	}
}

func (c clientConfig) path(stream int) string {
	return filepath.Join(c.Dir, fmt.Sprintf("stream-%d.ndjson", stream))
}

// readAcknowledged reads a stream's file, and cuts off the line that a kill has left half written.
func readAcknowledged(path string) ([]acknowledged, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	if err := os.Truncate(path, int64(whole)); err != nil {
		return nil, err
	}
	var list []acknowledged
	for line := range bytes.Lines(text[:whole]) {
		var a acknowledged
		if err := json.Unmarshal(line, &a); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, a)
	}
	return list, nil
}

// TestStorm_KillClient kills client processes with SIGKILL and starts them again. They know of their past only what they
// had written to disk.
func TestStorm_KillClient(t *testing.T) {
	const processes, streams = 4, 3
	kills := count(40, 400)
	w := workload{seed(t)}
	db := pgtest.New(t)
	b := newBench(t, db, db.ServiceDSN(), 2)
	b.create(t, workloadAccounts()...)
	h := newHistory()
	ctx, cancel := stormLimit(t)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	configs := make([]clientConfig, processes)
	for n := range configs {
		configs[n] = clientConfig{Seed: w.seed, Dir: t.TempDir()}
		for i := range streams {
			// The last stream of each process is also the first of the next one's, which does not know it.
			configs[n].Streams = append(configs[n].Streams, n*(streams-1)+i)
			configs[n].Addresses = append(configs[n].Addresses, *b.routes[(n+i)%2].address.Load())
		}
	}
	var alive meter
	start := func(n int) *process {
		config, err := json.Marshal(configs[n])
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), clientEnv+"="+string(config))
		return run(t, cmd, func(line string) {
			if strings.HasPrefix(line, "failed") {
				h.fault("a client %s", line)
			}
			alive.add(1)
		})
	}
	clients := make([]*process, processes)
	for n := range clients {
		clients[n] = start(n)
	}
	r := random(w.seed, 1000)
	for range kills {
		if !alive.wait(ctx, 20+r.IntN(40)) {
			t.Error("no answers come any more")
			break
		}
		n := r.IntN(processes)
		clients[n].kill()
		clients[n] = start(n)
	}
	var wg sync.WaitGroup
	for _, p := range clients {
		wg.Go(p.kill)
	}
	wg.Wait()
	for _, c := range configs {
		for _, stream := range c.Streams {
			h.remember(t, w, stream, c.path(stream))
		}
	}
	h.finish(t, b, false)
}

// remember takes over what the processes of a stream were told. They may have asked for one transfer more.
func (h *history) remember(t testing.TB, w workload, stream int, path string) {
	t.Helper()
	list, err := readAcknowledged(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range list {
		spec := w.spec(stream, i)
		h.sent(spec)
		r := client.Result{TransferID: a.ID, Sequence: a.Sequence, PostedAt: a.PostedAt, Replayed: a.Replayed}
		if a.Reason != "" {
			r.Refusal = &ledger.Refusal{Reason: a.Reason, Account: a.Account}
		}
		h.heard(spec, r, nil)
	}
	h.sent(w.spec(stream, len(list)))
}
