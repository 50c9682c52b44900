package payclient_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/payapi"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/payclient"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(processEnv); task != "" {
		os.Exit(runProcess(task))
	}
	os.Exit(pgtest.Main(m))
}

// count is how much a test does: a number for every change, and one for make test-long.
func count(short, long int) int {
	if os.Getenv("KHATA_TEST_LONG") != "" {
		return long
	}
	return short
}

// tokenOf is the sandbox's token of a user.
func tokenOf(user string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return "sandbox-" + user, nil }
}

// coaching is the payment of most tests.
func coaching(amount string) payclient.Transfer {
	return payclient.Transfer{From: "wallet:shimul", To: "wallet:tithi", Amount: amount, Currency: "BDT", Note: "coaching"}
}

// seen is a request as a server has seen it.
type seen struct{ key, token, body, method, path string }

// server is a real payment API on a real PostgreSQL, behind a road on which everything can happen.
type server struct {
	*httptest.Server
	api     *payapi.API
	journal *journal.Journal
	db      *pgtest.DB

	mu       sync.Mutex
	requests []seen
	// road, if it is not nil, stands before the API.
	road func(w http.ResponseWriter, r *http.Request, api http.Handler)
}

// setup makes a database with two wallets, of which Shimul's has what is said in taka, and a server on it.
func setup(t testing.TB, taka int64) *server {
	t.Helper()
	db := pgtest.New(t)
	ctx := context.Background()
	pool, err := pg.Connect(ctx, pg.Config{DSN: db.ServiceDSN()})
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(pool, journal.Config{})
	api, err := payapi.New(ctx, payapi.Config{
		Journal: j, Pool: pool, Authenticate: payapi.Sandbox, Logger: slog.New(slog.DiscardHandler),
		CashIn: payapi.CashInConfig{Gateway: gateway(t)},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{api: api, journal: j, db: db}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		api.Close()
		j.Close()
		pool.Close()
	})
	zero := decimal.Zero
	if _, err := j.CreateAccounts(ctx, "local", "", []ledger.AccountSpec{
		{ID: "cash", Type: ledger.Asset, Currency: "BDT"}, {ID: payapi.DefaultClearing + "BDT", Type: ledger.Asset, Currency: "BDT"},
		{ID: "wallet:shimul", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
		{ID: "wallet:tithi", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Post(ctx, "local", "", []ledger.TransferSpec{
		{ID: "IN", Entries: ledger.Simple("cash", "wallet:shimul", decimal.New(taka, 0), "BDT")},
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // The client has gone.
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	s.mu.Lock()
	s.requests = append(s.requests, seen{
		r.Header.Get("Idempotency-Key"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), string(body), r.Method, r.URL.Path,
	})
	road := s.road
	s.mu.Unlock()
	if road == nil {
		s.api.ServeHTTP(w, r)
		return
	}
	road(w, r, s.api)
}

// received gives the POSTs so far.
func (s *server) received() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	var posts []seen
	for _, r := range s.requests {
		if r.method == http.MethodPost {
			posts = append(posts, r)
		}
	}
	return posts
}

func (s *server) balance(t testing.TB, id ledger.AccountID) string {
	t.Helper()
	balances, err := s.journal.Balances(context.Background(), "", []ledger.AccountID{id})
	if err != nil {
		t.Fatal(err)
	}
	return balances[0].Posted.String()
}

// client is a client of it with a store of its own.
func (s *server) client(t testing.TB, change ...func(*payclient.Config)) *payclient.Client {
	t.Helper()
	return newClient(t, s.URL, t.TempDir(), change...)
}

func newClient(t testing.TB, url, dir string, change ...func(*payclient.Config)) *payclient.Client {
	t.Helper()
	c, err := payclient.New(config(t, url, dir, change...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func config(t testing.TB, url, dir string, change ...func(*payclient.Config)) payclient.Config {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	config := payclient.Config{URL: url, Dir: dir, User: "shimul", Token: tokenOf("shimul"), Transport: transport, RetryRate: 1000}
	for _, f := range change {
		f(&config)
	}
	return config
}

// oneKey checks that all requests have the same key and bytes, and that there are as many.
func oneKey(t testing.TB, requests []seen, want int) {
	t.Helper()
	if len(requests) != want {
		t.Errorf("%d requests, want %d: %v", len(requests), want, requests)
	}
	for _, r := range requests {
		if r.key == "" || r.key != requests[0].key || r.body != requests[0].body {
			t.Errorf("not the same key and bytes: %v and %v", r, requests[0])
		}
	}
}

// dropAnswer does what is asked for and cuts the connection.
func dropAnswer(_ http.ResponseWriter, r *http.Request, api http.Handler) {
	api.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// limited is a context for a test that must not hang.
func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func gateway(t testing.TB) *payapi.HTTPGateway {
	t.Helper()
	s := httptest.NewServer(payapi.NewSandboxGateway())
	t.Cleanup(s.Close)
	g, err := payapi.NewHTTPGateway(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	return g
}
