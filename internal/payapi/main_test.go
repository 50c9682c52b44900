package payapi_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/payapi"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// server is one server of the payment API.
type server struct {
	*httptest.Server
	journal *journal.Journal
	pool    *pgxpool.Pool
	db      *pgtest.DB
	api     *payapi.API
	heard   *sync.Map
}

// authenticate knows a service beside those of the sandbox, which may post between any wallets.
func authenticate(r *http.Request) (payapi.Principal, error) {
	if r.Header.Get("Authorization") == "Bearer sandbox-service" {
		return payapi.Principal{Name: "service", Owns: func(ledger.AccountID) bool { return true }}, nil
	}
	return payapi.Sandbox(r)
}

// hear closes a channel when a request under a key has arrived.
func (s *server) hear(key string, arrived chan struct{}) { s.heard.Store(key, arrived) }

// setup makes a database with two wallets, of which Shimul's has 2,000 taka, and a server on it.
func setup(t testing.TB) *server {
	t.Helper()
	db := pgtest.New(t)
	s := serve(t, db, pg.Config{DSN: db.ServiceDSN()})
	zero := decimal.Zero
	if _, err := s.journal.CreateAccounts(context.Background(), "local", "", []ledger.AccountSpec{
		{ID: "cash", Type: ledger.Asset, Currency: "BDT"},
		{ID: "wallet:shimul", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
		{ID: "wallet:tithi", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.journal.Post(context.Background(), "local", "", []ledger.TransferSpec{
		{ID: "IN", Entries: ledger.Simple("cash", "wallet:shimul", decimal.New(2000, 0), "BDT")},
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// serve starts one more server on a database.
func serve(t testing.TB, db *pgtest.DB, config pg.Config, change ...func(*payapi.Config)) *server {
	t.Helper()
	return serveCash(t, db, config, payapi.CashInConfig{}, change...)
}

// serveCash starts one that takes money from cards.
func serveCash(t testing.TB, db *pgtest.DB, config pg.Config, cash payapi.CashInConfig, change ...func(*payapi.Config)) *server {
	t.Helper()
	pool, err := pg.Connect(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(pool, journal.Config{CountEvery: 20 * time.Millisecond})
	apiConfig := payapi.Config{Journal: j, Pool: pool, Authenticate: authenticate, Logger: slog.New(slog.DiscardHandler), CashIn: cash}
	for _, f := range change {
		f(&apiConfig)
	}
	api, err := payapi.New(context.Background(), apiConfig)
	if err != nil {
		t.Fatal(err)
	}
	heard := new(sync.Map)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if arrived, ok := heard.LoadAndDelete(r.Header.Get("Idempotency-Key")); ok {
			close(arrived.(chan struct{})) //nolint:forcetypeassert // hear stores them
		}
		recorder{t, api}.ServeHTTP(w, r)
	})
	s := &server{Server: httptest.NewServer(handler), journal: j, pool: pool, db: db, api: api, heard: heard}
	t.Cleanup(func() {
		s.Close()
		api.Close()
		j.Close()
		pool.Close()
	})
	return s
}

// reply is an answer as a client sees it.
type reply struct {
	status             int
	body               string
	location, replayed string
	retryAfter, kind   string
}

func (r reply) String() string { return fmt.Sprintf("%d %s", r.status, strings.TrimSpace(r.body)) }

// ask sends a request as a user. Headers are in pairs.
func (s *server) ask(t testing.TB, user, method, path, body string, headers ...string) reply {
	t.Helper()
	r, err := s.try(user, method, path, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *server) try(user, method, path, body string, headers ...string) (reply, error) {
	req, err := http.NewRequest(method, s.URL+path, strings.NewReader(body)) //nolint:noctx // a test
	if err != nil {
		return reply{}, err
	}
	if user != "" {
		req.Header.Set("Authorization", "Bearer sandbox-"+user)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Content-Type" {
			req.Header.Del(headers[i])
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return reply{
		resp.StatusCode, string(text), resp.Header.Get("Location"), resp.Header.Get("Idempotent-Replayed"), resp.Header.Get("Retry-After"),
		resp.Header.Get("Content-Type"),
	}, err
}

// pay sends a payment from Shimul to Tithi.
func (s *server) pay(t testing.TB, key, amount string) reply {
	t.Helper()
	return s.ask(t, "shimul", "POST", "/v1/transfers", payment(amount), "Idempotency-Key", key)
}

func payment(amount string) string {
	return fmt.Sprintf(`{"from":"wallet:shimul","to":"wallet:tithi","amount":%q,"currency":"BDT","note":"coaching"}`, amount)
}

func (s *server) balance(t testing.TB, id ledger.AccountID) string {
	t.Helper()
	balances, err := s.journal.Balances(t.Context(), "", []ledger.AccountID{id})
	if err != nil {
		t.Fatal(err)
	}
	return balances[0].Posted.String()
}
