package payclient_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/khata-ledger/khata/ledger/payclient"
)

// The same reference, begun at once by many: one payment.
func TestBegin_AtOnce(t *testing.T) {
	t.Parallel()
	s := setup(t, 10)
	dir := t.TempDir()
	var mu sync.Mutex
	keys := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		c := newClient(t, s.URL, dir) // as a process of its own
		wg.Go(func() {
			r, err := c.Pay(limited(t), coaching("1.00"), payclient.Reference("order-77"))
			if err != nil || r.State != payclient.Done {
				t.Errorf("%+v %v", r, err)
			}
			mu.Lock()
			defer mu.Unlock()
			keys[r.Key] = true
		})
	}
	wg.Wait()
	oneKey(t, s.received(), 1)
	if len(keys) != 1 {
		t.Errorf("keys %v", keys)
	}
}

func TestBegin(t *testing.T) {
	t.Parallel()
	b, disk := newBooks(), newMemory()
	c := open(t, disk, b)
	ctx := context.Background()
	form := payclient.NewKey()
	p, err := c.Begin(ctx, coaching("500.00"), payclient.Key(form))
	if err != nil || p.Key() != form || p.Result().State != payclient.Pending || len(b.requests) != 0 {
		t.Fatalf("%+v %v", p, err)
	}
	if again, err := c.Begin(ctx, coaching("500"), payclient.Key(form)); err != nil || again.Key() != form {
		t.Errorf("%v", err)
	}
	if _, err := c.Begin(ctx, coaching("501"), payclient.Key(form)); !errors.Is(err, payclient.ErrReferenceTaken) || !strings.Contains(err.Error(), form) {
		t.Errorf("%v", err)
	}
	one, err1 := c.Begin(ctx, coaching("500.00"))
	two, err2 := c.Begin(ctx, coaching("500.00"))
	if errors.Join(err1, err2) != nil || one.Key() == two.Key() || len(one.Key()) < 40 {
		t.Errorf("%v %v %s %s", err1, err2, one.Key(), two.Key())
	}
	if _, err := c.Begin(ctx, payclient.CashIn{To: "wallet:tithi", Card: "c", Amount: "500.00", Currency: "BDT"}, payclient.Key(form)); !errors.Is(err, payclient.ErrReferenceTaken) {
		t.Errorf("%v", err)
	}
	before, _ := disk.Names()
	for name, bad := range map[string]struct {
		request payclient.Request
		with    []payclient.Option
	}{
		"nothing":        {nil, nil},
		"no amount":      {coaching(""), nil},
		"exponent":       {coaching("5e2"), nil},
		"sign":           {coaching("-5"), nil},
		"spaces":         {coaching(" 5"), nil},
		"zeros":          {coaching("05"), nil},
		"no wallet":      {payclient.Transfer{From: "wallet:a", Amount: "5", Currency: "BDT"}, nil},
		"not UTF-8":      {payclient.Transfer{From: "wallet:a", To: "wallet:b", Amount: "5", Currency: "BDT", Note: "\xff"}, nil},
		"too long":       {payclient.Transfer{From: "wallet:a", To: "wallet:b", Amount: "5", Currency: "BDT", Note: strings.Repeat("x", 65<<10)}, nil},
		"neither":        {payclient.Refund{TransferID: "TXN-A", ExpectedRefunded: "0", Reason: "goodwill"}, nil},
		"both":           {payclient.Refund{TransferID: "TXN-A", ExpectedRefunded: "0", Reason: "goodwill", Amount: "5", Everything: true}, nil},
		"no expectation": {payclient.Refund{TransferID: "TXN-A", Reason: "goodwill", Amount: "5"}, nil},
		"short key":      {coaching("5"), []payclient.Option{payclient.Key("short")}},
		"odd key":        {coaching("5"), []payclient.Option{payclient.Key("sixteen letters and")}},
		"two names":      {coaching("5"), []payclient.Option{payclient.Key(form), payclient.Reference("x")}},
	} {
		if _, err := c.Begin(ctx, bad.request, bad.with...); !errors.Is(err, payclient.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after, _ := disk.Names(); len(after) != len(before) || len(b.requests) != 0 {
		t.Errorf("%v, %d requests", after, len(b.requests))
	}
	// < and & stay as they are: they are bytes of a note.
	note := coaching("1")
	note.Note = "<b> & ৳"
	if r, err := c.Pay(ctx, note); err != nil || !strings.Contains(string(r.Request), note.Note) {
		t.Errorf("%s %v", r.Request, err)
	}
}

// Payments of another user, and of another server, are not touched: under another user the same key would be another payment.
func TestOthers(t *testing.T) {
	t.Parallel()
	s, other := setup(t, 10), newBooks()
	dir := t.TempDir()
	mine := newClient(t, s.URL, dir)
	p, err := mine.Begin(limited(t), coaching("1.00"), payclient.Reference("order-77"))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*payclient.Config){
		"user":   func(c *payclient.Config) { c.User, c.Token = "tithi", tokenOf("tithi") },
		"server": func(c *payclient.Config) { c.URL, c.Transport = "https://staging.example", other },
	} {
		c := newClient(t, s.URL, dir, change)
		if _, err := c.Pay(limited(t), coaching("1.00"), payclient.Reference("order-77")); !errors.Is(err, payclient.ErrOther) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Lookup(limited(t), p.Key()); !errors.Is(err, payclient.ErrOther) {
			t.Errorf("%s: %v", name, err)
		}
		n := 0
		for r, err := range c.Resume(limited(t)) {
			if n++; !errors.Is(err, payclient.ErrOther) || r.Key != p.Key() {
				t.Errorf("%s: %+v %v", name, r, err)
			}
		}
		if n != 1 || len(s.received()) != 0 || len(other.requests) != 0 {
			t.Errorf("%s: %d, and something was sent", name, n)
		}
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	s := setup(t, 10)
	paying := s.client(t)
	paid, err := paying.Pay(limited(t), coaching("4.00"))
	if err != nil {
		t.Fatal(err)
	}
	refused, err := paying.Pay(limited(t), coaching("7.00"))
	if err != nil || refused.State != payclient.Rejected || refused.TransferID == "" || refused.Code != "INSUFFICIENT_FUNDS" || refused.Advice() == "" {
		t.Fatalf("%+v %v", refused, err)
	}
	c := s.client(t) // knows nothing of them
	if r, err := c.Lookup(limited(t), paid.Key); err != nil || r.State != payclient.Done || r.TransferID != paid.TransferID || string(r.Body) != string(paid.Body) {
		t.Errorf("%+v %v; %s and %s", r, err, r.Body, paid.Body)
	}
	if r, err := c.Lookup(limited(t), refused.Key); err != nil || r.State != payclient.Rejected || r.TransferID != refused.TransferID || r.Code != refused.Code ||
		string(r.Body) != string(refused.Body) {
		t.Errorf("%+v %v; %s and %s", r, err, r.Body, refused.Body)
	}
	if r, err := c.Lookup(limited(t), payclient.NewKey()); err != nil || r.State != payclient.Unknown || r.Status != 404 || r.Code != "TRANSFER_NOT_FOUND" {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := c.Lookup(limited(t), "../../v1/wallets/wallet:shimul"); !errors.Is(err, payclient.ErrInvalid) {
		t.Errorf("%v", err)
	}
	list, err := c.Payments()
	if err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	// Of one in the store that was never answered, it settles.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.mu.Lock()
	s.road = func(w http.ResponseWriter, r *http.Request, api http.Handler) {
		defer cancel()
		dropAnswer(w, r, api)
	}
	s.mu.Unlock()
	open, err := c.Pay(ctx, coaching("1.00"), payclient.Reference("x"))
	if !errors.Is(err, payclient.ErrUnfinished) {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.road = nil
	s.mu.Unlock()
	before := len(s.received())
	if r, err := c.Lookup(limited(t), open.Key); err != nil || r.State != payclient.Done || !r.Replayed || r.Ambiguous {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := c.Pay(limited(t), coaching("1.00"), payclient.Reference("x")); err != nil || r.State != payclient.Done || len(s.received()) != before {
		t.Errorf("%+v %v", r, err)
	}
}

// Refunds and cash-ins go the same way, at a real server.
func TestRefundAndCashIn(t *testing.T) {
	t.Parallel()
	s := setup(t, 10)
	s.road = first(1, dropAnswer)
	c := s.client(t)
	in, err := c.Pay(limited(t), payclient.CashIn{To: "wallet:shimul", Card: "card-0123-shimul", Amount: "90.00", Currency: "BDT"})
	if err != nil || in.State != payclient.Done || in.Attempts < 2 {
		t.Fatalf("%+v %v", in, err)
	}
	if r, err := c.Pay(limited(t), payclient.CashIn{To: "wallet:shimul", Card: "decline-0123", Amount: "90.00", Currency: "BDT"}); err != nil ||
		r.State != payclient.Rejected || r.Code != "DECLINED_BY_GATEWAY" || r.TransferID == "" {
		t.Fatalf("%+v %v", r, err)
	}
	paid, err := c.Pay(limited(t), coaching("100.00"))
	if err != nil || paid.State != payclient.Done {
		t.Fatalf("%+v %v", paid, err)
	}
	shop := s.client(t, func(c *payclient.Config) { c.User, c.Token = "tithi", tokenOf("tithi") })
	s.mu.Lock()
	s.road = first(1, dropAnswer)
	s.mu.Unlock()
	part := payclient.Refund{TransferID: paid.TransferID, Amount: "30.00", ExpectedRefunded: "0", Reason: "wrong_amount"}
	for range 2 {
		if r, err := shop.Pay(limited(t), part, payclient.Reference("refund-1")); err != nil || r.State != payclient.Done {
			t.Fatalf("%+v %v", r, err)
		}
	}
	if r, err := shop.Pay(limited(t), part, payclient.Reference("refund-2")); err != nil || r.State != payclient.Rejected || r.Code != "REFUNDED_CHANGED" {
		t.Fatalf("%+v %v", r, err)
	}
	rest := payclient.Refund{TransferID: paid.TransferID, Everything: true, ExpectedRefunded: "30.00", Reason: "goodwill"}
	if r, err := shop.Pay(limited(t), rest); err != nil || r.State != payclient.Done {
		t.Fatalf("%+v %v", r, err)
	}
	if got := s.balance(t, "wallet:shimul"); got != "100" {
		t.Errorf("Shimul has %s", got)
	}
}

func TestForgetAndPrune(t *testing.T) {
	t.Parallel()
	b, disk := newBooks(), newMemory()
	now := dawn
	clock := still()
	clock.Wall = func() time.Time { return now }
	start := func() *payclient.Client {
		c, err := payclient.Open(payclient.Config{URL: "https://pay.example", Dir: "memory", Token: tokenOf("shimul"), Transport: b}, disk, clock)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := start()
	pay := func(reference, fate string) payclient.Result {
		n := 0
		b.road = func() (string, error) {
			if n++; n > 1 || fate == "drop before" {
				cancel()
			}
			return fate, nil
		}
		ctx, cancel = context.WithCancel(context.Background())
		r, _ := c.Pay(ctx, coaching("1.00"), payclient.Reference(reference))
		return r
	}
	done := pay("done", "")
	open := pay("open", "drop before")
	paused := pay("paused", "401")
	b.road = nil
	unsent, err := c.Begin(context.Background(), coaching("2.00"), payclient.Reference("unsent"))
	if err != nil || done.State != payclient.Done || open.State != payclient.InFlight || !paused.Paused {
		t.Fatalf("%+v %+v %+v %v", done, open, paused, err)
	}
	b.noAccount = true // A refusal that is not on record, after silence: Unknown.
	unknown, err := c.Pay(context.Background(), coaching("1.00"), payclient.Reference("open"))
	if err != nil || unknown.State != payclient.Unknown || unknown.Advice() == "" {
		t.Fatalf("%+v %v", unknown, err)
	}
	b.noAccount = false
	open = pay("open-2", "drop before")
	if err := c.Forget(open.Key); !errors.Is(err, payclient.ErrUnfinished) {
		t.Errorf("%v", err)
	}
	if err := c.Forget(payclient.NewKey()); !errors.Is(err, payclient.ErrNotFound) {
		t.Errorf("%v", err)
	}
	unlock, err := payclient.Lock(disk, "unsent")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Forget(unsent.Key()); !errors.Is(err, payclient.ErrBusy) {
		t.Errorf("%v", err)
	}
	unlock()
	for _, key := range []string{unsent.Key(), paused.Key} {
		if err := c.Forget(key); err != nil {
			t.Errorf("%v", err)
		}
	}
	count := func(want int, when string) {
		t.Helper()
		if list, err := start().Payments(); err != nil || len(list) != want {
			t.Errorf("%s: %d payments, want %d: %v", when, len(list), want, err)
		}
	}
	count(3, "after forgetting")
	now = dawn.Add(30*24*time.Hour - time.Minute)
	count(3, "before 30 days")
	now = dawn.Add(-30 * 24 * time.Hour)
	count(3, "with a clock that was set back")
	now = dawn.Add(30*24*time.Hour + time.Minute)
	count(2, "after 30 days")
	now = dawn.Add(3000 * 24 * time.Hour)
	count(2, "after years: what is open stays")
}

// Lock files go with their records, and a lock that is taken of a file which is gone is none.
func TestLocks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := payclient.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	var held, most int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				unlock, err := d.Lock("x")
				if payclient.IsLocked(err) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				held++
				most = max(most, held)
				mu.Unlock()
				time.Sleep(20 * time.Microsecond) // Others find it held, and find it free.
				mu.Lock()
				held-- // Without its file the lock is none: another can have one of a new file at once.
				mu.Unlock()
				d.Unused("x")
				unlock()
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d had the lock at once", most)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 0 {
		t.Errorf("there is %v", files)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := payclient.Config{URL: "https://pay.example/", Dir: t.TempDir(), Token: tokenOf("x")}
	if _, err := payclient.New(good); err != nil {
		t.Error(err)
	}
	for _, url := range []string{"http://127.0.0.1:7090", "http://localhost:1", "http://[::1]:1", "https://a.example/base"} {
		c := good
		c.URL = url
		if _, err := payclient.New(c); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{
		"", "pay.example", "http://pay.example", "http://localhost.example", "http://127.0.0.1.example", "http://10.0.0.1", "ftp://localhost", "https://u:p@pay.example",
		"https://pay.example?x=1", "https://",
	} {
		c := good
		c.URL = url
		if _, err := payclient.New(c); !errors.Is(err, payclient.ErrInvalid) {
			t.Errorf("%s: %v", url, err)
		}
	}
	for name, change := range map[string]func(*payclient.Config){
		"no folder": func(c *payclient.Config) { c.Dir = "" }, "no token": func(c *payclient.Config) { c.Token = nil },
		"horizon": func(c *payclient.Config) { c.Horizon = 25 * time.Hour }, "keep": func(c *payclient.Config) { c.Keep = time.Hour },
		"rate": func(c *payclient.Config) { c.RetryRate = -1 },
	} {
		c := good
		change(&c)
		if _, err := payclient.New(c); !errors.Is(err, payclient.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The schedule stays within its bounds, whatever it is asked.
func TestPause(t *testing.T) {
	t.Parallel()
	for _, chance := range []float64{0, 0.5, 0.999999} {
		for n := range 200 {
			for _, elapsed := range []time.Duration{0, 9 * time.Minute, 10 * time.Minute, 23 * time.Hour} {
				for _, asked := range []time.Duration{0, 1, time.Second, time.Minute, 15 * time.Minute, 1 << 62} {
					d := payclient.Pause(n, elapsed, asked, func() float64 { return chance })
					least, most := time.Duration(0), time.Minute
					if elapsed >= 10*time.Minute {
						least, most = 5*time.Minute, 15*time.Minute
					}
					if asked > 0 {
						least, most = max(least, min(max(asked, time.Second), 15*time.Minute)), 15*time.Minute
					}
					if d < least || d > most {
						t.Fatalf("n %d, elapsed %s, asked %s, chance %g: %s", n, elapsed, asked, chance, d)
					}
				}
			}
		}
	}
}

// Tries again share a budget: when a server is down, many payments do not add up to a storm.
func TestBudget(t *testing.T) {
	t.Parallel()
	b, disk := newBooks(), newMemory()
	var mu sync.Mutex
	passed := time.Duration(0)
	clock := &payclient.FakeClock{
		Wall: func() time.Time { return dawn }, Chance: func() float64 { return 0 },
		Since: func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return passed
		},
		Sleep: func(ctx context.Context, d time.Duration) error {
			mu.Lock()
			defer mu.Unlock()
			passed += d
			return ctx.Err()
		},
	}
	c, err := payclient.Open(payclient.Config{URL: "https://pay.example", Dir: "memory", Token: tokenOf("shimul"), Transport: b, RetryRate: 5}, disk, clock)
	if err != nil {
		t.Fatal(err)
	}
	left := 120
	b.road = func() (string, error) {
		if left--; left >= 0 {
			return "empty 500", nil
		}
		return "", nil
	}
	if r, err := c.Pay(context.Background(), coaching("1.00")); err != nil || r.Attempts != 121 {
		t.Fatalf("%+v %v", r, err)
	}
	// Chance gives no waits at all, so it is the budget: 20 at once, and the other 100 five in a second.
	if passed < 19*time.Second || passed > 21*time.Second {
		t.Errorf("120 tries again took %s", passed)
	}
}
