package payclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/khata-ledger/khata/ledger/payclient"
)

// first makes a road on which something happens to the first POSTs, and nothing to the others.
func first(n int64, happens func(w http.ResponseWriter, r *http.Request, api http.Handler)) func(http.ResponseWriter, *http.Request, http.Handler) {
	var count atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, api http.Handler) {
		if r.Method == http.MethodPost && count.Add(1) <= n {
			happens(w, r, api)
			return
		}
		api.ServeHTTP(w, r)
	}
}

func page(status int) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html>Welcome</html>")
	}
}

// hijacked writes raw bytes instead of an answer, after the API has done what is asked for, and cuts the connection.
func hijacked(raw string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, api http.Handler) {
		api.ServeHTTP(httptest.NewRecorder(), r)
		conn, _, err := w.(http.Hijacker).Hijack() //nolint:forcetypeassert // HTTP/1 has it.
		if err == nil {
			_, _ = io.WriteString(conn, raw)
			_ = conn.Close()
		}
	}
}

// stranger is an answer in order, of a payment that nobody knows.
const stranger = `{"transfer_id":"TXN-AAAAAAAAAAAAAAAAAAAAAAAAAA"}`

// Everything that a real network does to a real payment at a real server: one transfer, one key, DONE.
func TestNetwork(t *testing.T) {
	t.Parallel()
	elsewhere := atomic.Int64{}
	trap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"transfer_id":"TXN-AAAAAAAAAAAAAAAAAAAAAAAAAA"}`)
	}))
	defer trap.Close()
	type happening = func(http.ResponseWriter, *http.Request, http.Handler)
	cases := map[string]struct {
		road happening
		want int // requests
	}{
		"nothing": {nil, 1},
		"request dropped": {first(2, func(http.ResponseWriter, *http.Request, http.Handler) {
			panic(http.ErrAbortHandler)
		}), 3},
		"answer dropped":       {first(2, dropAnswer), 3},
		"half a header":        {first(1, hijacked("HTTP/1.1 201 Crea")), 2},
		"half a body":          {first(1, hijacked("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 187\r\n\r\n{\"transfer_id\":\"TXN-A")), 2},
		"half, without length": {first(1, hijacked("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n\r\n{\"transfer_id\":\"TXN-AAAAAAAAAAAAAAAAAAAAAAAAAA\"")), 2},
		"whole, and cut":       {first(1, hijacked("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n"+stranger)), 2},
		"of another type":      {first(1, hijacked("HTTP/1.1 201 Created\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"+stranger)), 2},
		"an answer too long":   {first(1, hijacked("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"+stranger+strings.Repeat(" ", 300<<10))), 2},
		"half, in chunks":      {first(1, hijacked("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"tra")), 2},
		"not HTTP":             {first(1, hijacked("SSH-2.0-OpenSSH_9.2\r\n")), 2},
		"two answers in one":   {first(1, hijacked("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")), 2},
		"page 200":             {first(1, page(200)), 2},
		"page 404":             {first(1, page(404)), 2},
		"page 502":             {first(1, page(502)), 2},
		"redirect 307": {first(1, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			http.Redirect(w, r, trap.URL, http.StatusTemporaryRedirect)
		}), 2},
		"redirect 302": {first(1, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			http.Redirect(w, r, trap.URL, http.StatusFound)
		}), 2},
		"503 without a body":    {first(1, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(503) }), 2},
		"an answer without end": {first(1, endless), 2},
	}
	// What happens to the first request of these ends when the client's patience does.
	slow := map[string]happening{
		"a slow answer": func(w http.ResponseWriter, r *http.Request, api http.Handler) {
			api.ServeHTTP(httptest.NewRecorder(), r)
			<-r.Context().Done() // until the client hangs up
		},
		"a slow body": func(w http.ResponseWriter, r *http.Request, api http.Handler) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"transfer_id":`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	}
	servers := setup(t, 1000)
	var mu sync.Mutex
	roads := map[string]happening{}
	servers.road = func(w http.ResponseWriter, r *http.Request, api http.Handler) {
		mu.Lock()
		road := roads[r.Header.Get("Idempotency-Key")]
		mu.Unlock()
		if road == nil {
			road = func(w http.ResponseWriter, r *http.Request, api http.Handler) { api.ServeHTTP(w, r) }
		}
		road(w, r, api)
	}
	var payments atomic.Int64
	pay := func(t *testing.T, road happening, patience time.Duration) (payclient.Result, []seen) {
		payments.Add(1)
		key := payclient.NewKey()
		mu.Lock()
		roads[key] = road
		mu.Unlock()
		client := servers.client(t, func(c *payclient.Config) { c.TryTimeout = patience })
		r, err := client.Pay(limited(t), coaching("1.00"), payclient.Key(key))
		if err != nil || r.State != payclient.Done || string(r.Body) == stranger || r.Key != key || r.Ambiguous || r.Unsaved != nil {
			t.Errorf("%+v %v", r, err)
		}
		var mine []seen
		for _, q := range servers.received() {
			if q.key == key {
				mine = append(mine, q)
			}
		}
		return r, mine
	}
	check := func(t *testing.T, r payclient.Result, mine []seen, want int) {
		oneKey(t, mine, want)
		if r.Attempts != want || r.Sent < want {
			t.Errorf("%d attempts, sent %d, want %d", r.Attempts, r.Sent, want)
		}
	}
	t.Run("cases", func(t *testing.T) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r, mine := pay(t, c.road, 10*time.Second)
				check(t, r, mine, c.want)
			})
		}
		for name, happens := range slow {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				// The second try has no more time than the first: where that is too little for a slow machine, another payment has twice as much.
				patience := 700 * time.Millisecond
				r, mine := pay(t, first(1, happens), patience)
				for r.Attempts > 2 && patience < 5*time.Second {
					patience *= 2
					r, mine = pay(t, first(1, happens), patience)
				}
				check(t, r, mine, 2)
			})
		}
	})
	if got := servers.balance(t, "wallet:tithi"); got != fmt.Sprint(payments.Load()) {
		t.Errorf("Tithi has %s, want %d", got, payments.Load())
	}
	if elsewhere.Load() != 0 {
		t.Errorf("%d requests went elsewhere", elsewhere.Load())
	}
}

func endless(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"transfer_id":"TXN-AAAAAAAAAAAAAAAAAAAAAAAAAA","note":"`)
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, strings.Repeat("x", 4096)); err != nil {
			return
		}
	}
}

// long is the body of an answer that has no end, up to a limit of the test's.
type long struct{ read int }

func (l *long) Read(p []byte) (int, error) {
	if l.read += len(p); l.read > 10<<20 {
		return 0, io.ErrUnexpectedEOF
	}
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func (l *long) Close() error { return nil }

type once struct {
	http.RoundTripper
	answer *http.Response
}

func (o *once) RoundTrip(r *http.Request) (*http.Response, error) {
	if a := o.answer; a != nil {
		o.answer = nil
		return a, nil
	}
	return o.RoundTripper.RoundTrip(r)
}

// No more is read of an answer than one of Khata's can have.
func TestAnswer_Bounded(t *testing.T) {
	t.Parallel()
	body := new(long)
	answer := &http.Response{StatusCode: 201, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1}
	c, err := payclient.Open(payclient.Config{
		URL: "https://pay.example", Dir: "memory", Token: tokenOf("shimul"), Transport: &once{newBooks(), answer},
	}, newMemory(), still())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Pay(context.Background(), coaching("1.00")); err != nil || r.Attempts != 2 || body.read > 1<<20 {
		t.Errorf("%+v %v, after reading %d bytes", r, err, body.read)
	}
}

// Go's transport sends a POST with an Idempotency-Key again by itself, when a connection that it has kept breaks. It does: one try, two
// requests, of the same key and bytes; the only answer that is seen is a replay.
func TestResend(t *testing.T) {
	t.Parallel()
	s := setup(t, 10)
	s.road = first(1, dropAnswer)
	c := s.client(t)
	if _, err := c.Lookup(limited(t), payclient.NewKey()); err != nil { // Now there is a connection.
		t.Fatal(err)
	}
	r, err := c.Pay(limited(t), coaching("1.00"))
	if err != nil || r.State != payclient.Done || !r.Replayed || r.Attempts != 1 || r.Sent != 2 {
		t.Errorf("%+v %v", r, err)
	}
	oneKey(t, s.received(), 2)
	if got := s.balance(t, "wallet:tithi"); got != "1" {
		t.Errorf("Tithi has %s", got)
	}
}

// What the transport had sent before was a try without answer too. A refusal of what it sent again, not on record, says nothing of it.
func TestResend_Ambiguous(t *testing.T) {
	t.Parallel()
	s := setup(t, 10)
	var posts atomic.Int64
	s.road = func(w http.ResponseWriter, r *http.Request, api http.Handler) {
		if r.Method == http.MethodPost {
			if posts.Add(1) == 1 {
				dropAnswer(w, r, api)
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"status":422,"code":"ACCOUNT_NOT_FOUND"}`)
			return
		}
		api.ServeHTTP(w, r)
	}
	c := s.client(t)
	if _, err := c.Lookup(limited(t), payclient.NewKey()); err != nil {
		t.Fatal(err)
	}
	r, err := c.Pay(limited(t), coaching("1.00"))
	if err != nil || r.State != payclient.Done || r.Attempts != 1 || r.Sent != 2 {
		t.Errorf("%+v %v", r, err)
	}
}

// Where nobody listens, nothing was sent, and a refusal afterwards is the whole truth.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	s := setup(t, 10)
	var calls atomic.Int64
	dialer := new(net.Dialer)
	c := s.client(t, func(c *payclient.Config) {
		c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) { //nolint:forcetypeassert // It is one.
			if calls.Add(1) <= 2 {
				address = "127.0.0.1:1"
			}
			return dialer.DialContext(ctx, network, address)
		}
	})
	request := coaching("1.00")
	request.To = request.From
	r, err := c.Pay(limited(t), request)
	if err != nil || r.State != payclient.Rejected || r.Code != "INVALID_ARGUMENT" || r.Attempts != 3 || r.Sent != 1 || len(s.received()) != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

// A token is asked for before each try, is nowhere on disk, and nowhere in an error. With another one it goes on.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := setup(t, 10)
	dir := t.TempDir()
	token, failing := "secret-that-is-old", error(nil)
	asked := 0
	c := newClient(t, s.URL, dir, func(c *payclient.Config) {
		c.Token = func(context.Context) (string, error) {
			asked++
			return token, failing
		}
	})
	p, err := c.Begin(limited(t), coaching("1.00"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Pay(limited(t))
	if !errors.Is(err, payclient.ErrPaused) || !errors.Is(err, payclient.ErrUnfinished) || !r.Paused || r.Ambiguous || r.Status != 401 || asked != 1 ||
		strings.Contains(err.Error(), token) {
		t.Errorf("%+v %v", r, err)
	}
	failing = fmt.Errorf("sign in: %w", payclient.ErrNoToken)
	if r, err = p.Pay(limited(t)); !errors.Is(err, payclient.ErrPaused) || !errors.Is(err, payclient.ErrNoToken) || r.Attempts != 1 || len(s.received()) != 1 {
		t.Errorf("%+v %v", r, err)
	}
	for _, bad := range []string{"a\nb", "sandbox-shimul\r\nX: y"} { // It never leaves, and is in no error.
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		token, failing = bad, nil
		if _, err = p.Pay(ctx); !errors.Is(err, payclient.ErrUnfinished) || strings.Contains(err.Error(), bad) || len(s.received()) != 1 {
			t.Errorf("%q: %v", bad, err)
		}
		cancel()
	}
	token, failing = "sandbox-shimul", nil
	if r, err = p.Pay(limited(t)); err != nil || r.State != payclient.Done {
		t.Errorf("%+v %v", r, err)
	}
	oneKey(t, s.received(), 2)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "secret-that-is-old") || strings.Contains(string(text), "sandbox-shimul") {
			t.Errorf("%s: %s %v", file, text, err)
		}
	}
}

// A token source that fails for a while is as a network that does. Nothing is sent meanwhile.
func TestTokens_FailFirst(t *testing.T) {
	t.Parallel()
	s := setup(t, 10)
	var asked atomic.Int64
	c := s.client(t, func(c *payclient.Config) {
		c.Token = func(context.Context) (string, error) {
			if asked.Add(1) <= 2 {
				return "", errors.New("no network")
			}
			return "sandbox-shimul", nil
		}
	})
	if r, err := c.Pay(limited(t), coaching("1.00")); err != nil || r.State != payclient.Done || r.Attempts != 1 || asked.Load() != 3 {
		t.Errorf("%+v %v", r, err)
	}
}

// Sleeps end when the context does, and the payment says that it is kept.
func TestCancelled(t *testing.T) {
	t.Parallel()
	s := setup(t, 10)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.road = first(1, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(503)
		time.AfterFunc(100*time.Millisecond, cancel)
	})
	c := s.client(t)
	start := time.Now()
	r, err := c.Pay(ctx, coaching("1.00"), payclient.Reference("x"))
	var unfinished *payclient.UnfinishedError
	if !errors.As(err, &unfinished) || unfinished.Key != r.Key || !errors.Is(err, context.Canceled) || r.State != payclient.InFlight || !r.Ambiguous ||
		!strings.Contains(err.Error(), "kept") || time.Since(start) > 15*time.Second {
		t.Errorf("%+v %v after %s", r, err, time.Since(start))
	}
	// One that has ended already sends nothing, and changes nothing.
	if r, err = c.Pay(ctx, coaching("1.00"), payclient.Reference("x")); !errors.Is(err, payclient.ErrUnfinished) || r.Attempts != 1 {
		t.Errorf("%+v %v", r, err)
	}
	done := 0
	for r, err := range c.Resume(limited(t)) {
		if err != nil || r.State != payclient.Done || r.Attempts != 2 {
			t.Errorf("%+v %v", r, err)
		}
		done++
	}
	if done != 1 {
		t.Errorf("%d were resumed", done)
	}
	oneKey(t, s.received(), 2)
}

// Many payments at once, through one client, with a third of all answers lost: each once.
func TestStorm_Train(t *testing.T) {
	t.Parallel()
	const payments = 60
	s := setup(t, payments)
	var n atomic.Int64
	s.road = func(w http.ResponseWriter, r *http.Request, api http.Handler) {
		switch n.Add(1) % 6 {
		case 0, 3:
			dropAnswer(w, r, api)
		case 1:
			panic(http.ErrAbortHandler)
		}
		api.ServeHTTP(w, r)
	}
	c := s.client(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // One that loses again and again has long pauses.
	defer cancel()
	var wg sync.WaitGroup
	for i := range payments {
		wg.Go(func() {
			for range 2 { // The app asks twice, too.
				r, err := c.Pay(ctx, coaching("1.00"), payclient.Reference(fmt.Sprint("order-", i)))
				if err != nil || r.State != payclient.Done {
					t.Errorf("%+v %v", r, err)
				}
			}
		})
	}
	wg.Wait()
	keys := map[string]bool{}
	for _, r := range s.received() {
		keys[r.key] = true
	}
	if got := s.balance(t, "wallet:tithi"); got != fmt.Sprint(payments) || len(keys) != payments {
		t.Errorf("Tithi has %s by %d keys, want %d", got, len(keys), payments)
	}
}
