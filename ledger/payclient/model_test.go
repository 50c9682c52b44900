package payclient_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/ledger/payclient"
)

// world is what the model has: a disk, books, a clock, and the promises that have been made.
type world struct {
	disk    *memory
	books   *books
	mu      sync.Mutex
	passed  time.Duration
	offset  time.Duration
	settled map[string]payclient.Result // by reference: what somebody was told
}

// An app with faults of network, disk, process and clock in any order, and requests that arrive when nobody expects them any more. Whatever
// happens: one key and the same bytes in all requests of a payment, one transfer at most, exactly one once it is DONE and none once it is
// REJECTED, and what is settled stays so.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{disk: newMemory(), books: newBooks(), settled: map[string]payclient.Result{}}
		t.Repeat(map[string]func(*rapid.T){
			"run":     w.run,
			"arrive":  func(*rapid.T) { w.books.arrive() },
			"account": func(*rapid.T) { w.books.noAccount = !w.books.noAccount },
			"money":   func(*rapid.T) { w.books.noMoney = !w.books.noMoney },
			"clock": func(t *rapid.T) {
				w.offset += time.Duration(rapid.IntRange(-50, 50).Draw(t, "hours")) * time.Hour
			},
			"time": func(t *rapid.T) { w.passed += time.Duration(rapid.IntRange(1, 40000).Draw(t, "seconds")) * time.Second },
			"":     w.check,
		})
		w.heal(t)
		w.check(t)
	})
}

// life is a process: what happens to it.
type life struct {
	mu     sync.Mutex
	fates  []string // of its requests; after them the app is stopped
	faults map[int]string
	step   int
	dead   func()
}

// disk is what happens at the steps of the disk.
func (l *life) disk(_ string, after bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step++
	switch fault := l.faults[l.step]; {
	case fault == "full":
		return syscall.ENOSPC
	case fault == "die":
		l.dead()
		return errDead
	case fault == "full from here on" || l.faults[0] == "full":
		l.faults[0] = "full"
		if !after {
			return syscall.ENOSPC
		}
	}
	return nil
}

func (w *world) run(t *rapid.T) {
	l := &life{
		fates:  rapid.SliceOfN(rapid.SampledFrom(fates), 0, 5).Draw(t, "fates"),
		faults: rapid.MapOfN(rapid.IntRange(1, 60), rapid.SampledFrom([]string{"full", "die", "full from here on"}), 0, 2).Draw(t, "faults"),
	}
	dieAt := rapid.SampledFrom([]string{"", "", "", "die before", "die after"}).Draw(t, "last request")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	process := newMortal(w.disk, l.disk)
	l.dead = func() {
		process.die()
		cancel()
	}
	w.books.road = func() (string, error) {
		if process.dead() {
			return "", errDead
		}
		if len(l.fates) > 0 {
			fate := l.fates[0]
			l.fates = l.fates[1:]
			return fate, nil
		}
		if dieAt == "" {
			cancel()
			return "", nil
		}
		l.dead()
		if dieAt == "die after" {
			return "drop after", errDead
		}
		return "", errDead
	}
	w.live(ctx, t, process, rapid.SampledFrom([]string{"pay", "pay", "resume", "lookup"}).Draw(t, "do"),
		rapid.SampledFrom([]string{"order-1", "order-2"}).Draw(t, "reference"), rapid.Float64Range(0, 0.999).Draw(t, "chance"))
	power := process.dead() && rapid.Bool().Draw(t, "power")
	w.disk.restart(power, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))) //nolint:gosec // repeatable on purpose
}

// live is what a process does.
func (w *world) live(ctx context.Context, t *rapid.T, d payclient.Disk, do, reference string, chance float64) {
	now := func() time.Duration {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.passed
	}
	clock := &payclient.FakeClock{
		Wall:   func() time.Time { return dawn.Add(now() + w.offset) },
		Since:  now,
		Chance: func() float64 { return chance },
		Sleep: func(ctx context.Context, d time.Duration) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if ctx.Err() == nil {
				w.passed += d
			}
			return ctx.Err()
		},
	}
	c, err := payclient.Open(payclient.Config{URL: "https://pay.example", Dir: "memory", Token: tokenOf("shimul"), Transport: w.books}, d, clock)
	if err != nil {
		if !errors.Is(err, errDead) && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("open: %v", err)
		}
		return
	}
	switch do {
	case "pay":
		request := coaching("500.00")
		request.Note = reference
		r, err := c.Pay(ctx, request, payclient.Reference(reference))
		w.hear(t, reference, r, err)
	case "resume":
		for r, err := range c.Resume(ctx) {
			w.hear(t, r.Reference, r, err)
		}
	case "lookup":
		if keys, _, _ := w.books.of(reference); len(keys) > 0 {
			r, err := c.Lookup(ctx, keys[0])
			w.hear(t, reference, r, err)
		}
	}
}

// hear is what the app is told.
func (w *world) hear(t *rapid.T, reference string, r payclient.Result, err error) {
	if errors.Is(err, payclient.ErrDamaged) {
		t.Fatalf("%v", err)
	}
	if err == nil && r.State == "" || err == nil && !r.State.Final() && r.State != payclient.Unknown && r.Status != 404 {
		t.Fatalf("no error, and no end: %+v", r)
	}
	if err != nil && r.State.Final() {
		t.Fatalf("an end and an error: %+v %v", r, err)
	}
	if r.State.Final() && r.Ambiguous {
		t.Fatalf("ambiguous: %+v", r)
	}
	before, known := w.settled[reference]
	if known && err == nil && (before.State != r.State || before.TransferID != r.TransferID || before.Key != r.Key) {
		t.Fatalf("%s was %s %s, and is %s %s", reference, before.State, before.TransferID, r.State, r.TransferID)
	}
	if err == nil && r.State.Final() {
		w.settled[reference] = r
	}
}

func (w *world) check(t *rapid.T) {
	for _, reference := range []string{"order-1", "order-2"} {
		keys, bodies, paid := w.books.of(reference)
		if len(keys) > 1 || len(bodies) > 1 || paid > 1 {
			t.Fatalf("%s: keys %v, bodies %v, %d transfers", reference, keys, bodies, paid)
		}
		if r, ok := w.settled[reference]; ok && (paid == 1) != (r.State == payclient.Done) {
			t.Fatalf("%s is %s, and has %d transfers", reference, r.State, paid)
		}
	}
}

// heal has everything work again, and all that is open be settled.
func (w *world) heal(t *rapid.T) {
	w.books.road = nil
	w.books.arrive()
	w.books.noAccount, w.books.noMoney = false, false
	for _, reference := range []string{"order-1", "order-2"} {
		w.live(context.Background(), t, w.disk, "pay", reference, 0.5)
		w.live(context.Background(), t, w.disk, "resume", reference, 0.5)
	}
	stored, err := payclient.Open(payclient.Config{URL: "https://pay.example", Dir: "memory", Token: tokenOf("shimul"), Transport: w.books}, w.disk, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := stored.Payments()
	if err != nil || len(list) != 2 {
		t.Fatalf("%d payments: %v", len(list), err)
	}
	for _, r := range list {
		// Unknown is only what was looked up in vain after its time: then nothing was ever decided of it.
		if _, _, paid := w.books.of(r.Reference); !r.State.Final() && (r.State != payclient.Unknown || paid > 0) {
			t.Fatalf("%s is %s after all, with %d transfers", r.Reference, r.State, paid)
		}
	}
	names, _ := w.disk.Names()
	if len(names) != 2 {
		t.Fatalf("files are left: %v", names)
	}
}
