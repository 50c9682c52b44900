package payapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

var errRoad = errors.New("the connection was lost")

// road is the way from phones to servers. It loses requests, loses answers, sends requests twice at once, and sends copies that arrive
// when everything is long over.
type road struct {
	next http.RoundTripper
	// Of 1,000 requests so many.
	loseRequest, loseAnswer, double, late float64
	delay                                 time.Duration // of late ones

	mu     sync.Mutex
	random *rand.Rand
	copies sync.WaitGroup // of requests, that nobody waits for

	requests, lostRequests, lostAnswers, doubles, lates atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (r *road) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	send := func(ctx context.Context) (*http.Response, error) {
		again := req.Clone(ctx)
		again.Body = io.NopCloser(bytes.NewReader(body))
		return r.next.RoundTrip(again)
	}
	copied := func(after time.Duration) {
		r.copies.Go(func() {
			time.Sleep(after)
			if resp, err := send(context.WithoutCancel(req.Context())); err == nil {
				_ = resp.Body.Close()
			}
		})
	}
	r.requests.Add(1)
	r.mu.Lock()
	at := r.random.Float64() * 1000
	r.mu.Unlock()
	for _, fault := range []struct {
		often float64
		count *atomic.Int64
		does  func() (*http.Response, error)
	}{
		{r.loseRequest, &r.lostRequests, func() (*http.Response, error) { return nil, errRoad }},
		{r.loseAnswer, &r.lostAnswers, func() (*http.Response, error) {
			resp, err := send(req.Context())
			if err != nil {
				return nil, err
			}
			_, _ = io.Copy(io.Discard, resp.Body) // The server has answered in full.
			_ = resp.Body.Close()
			return nil, errRoad
		}},
		{r.double, &r.doubles, func() (*http.Response, error) { copied(0); return send(req.Context()) }},
		{r.late, &r.lates, func() (*http.Response, error) { copied(r.delay); return nil, errRoad }},
	} {
		if at -= fault.often; at < 0 {
			fault.count.Add(1)
			return fault.does()
		}
	}
	return send(req.Context())
}

// hour is payments among wallets, over a road and two servers.
type hour struct {
	t         *testing.T
	servers   []*server
	road      *road
	wallets   int
	newKeys   bool // a phone that takes another key for every try, as phones did before there was Khata
	mu        sync.Mutex
	balances  map[ledger.AccountID]decimal.Decimal // by the answers
	paid      int
	refused   int
	replayed  int
	unhurried http.Client
}

const hourOpening = 1000

func (h *hour) wallet(n int) ledger.AccountID { return ledger.AccountID(fmt.Sprint("wallet:p", n)) }

// newHour makes the wallets, with the same in each.
func newHour(t *testing.T, r *road, wallets int) *hour {
	t.Helper()
	s := setup(t)
	transport := &http.Transport{MaxIdleConnsPerHost: 128}
	t.Cleanup(transport.CloseIdleConnections)
	r.next, r.random = transport, rand.New(rand.NewPCG(88412, 1)) //nolint:gosec // repeatable on purpose
	h := &hour{
		t: t, servers: []*server{s, serve(t, s.db, pg.Config{DSN: s.db.ServiceDSN()})}, road: r, wallets: wallets,
		balances: map[ledger.AccountID]decimal.Decimal{}, unhurried: http.Client{Transport: r, Timeout: time.Minute},
	}
	zero := decimal.Zero
	var accounts []ledger.AccountSpec
	var opening []ledger.TransferSpec
	for n := range wallets {
		id := h.wallet(n)
		accounts = append(accounts, ledger.AccountSpec{ID: id, Type: ledger.Liability, Currency: "BDT", Floor: &zero})
		opening = append(opening, ledger.TransferSpec{ID: ledger.TransferID(id), Entries: ledger.Simple("cash", id, decimal.New(hourOpening, 0), "BDT")})
		h.balances[id] = decimal.New(hourOpening, 0)
	}
	if _, err := s.journal.CreateAccounts(t.Context(), "local", "", accounts); err != nil {
		t.Fatal(err)
	}
	if _, err := s.journal.Post(t.Context(), "local", "", opening); err != nil {
		t.Fatal(err)
	}
	return h
}

// pay makes a payment, with as many tries as it takes.
func (h *hour) pay(number int, random *rand.Rand) {
	from := random.IntN(h.wallets)
	to := (from + 1 + random.IntN(h.wallets-1)) % h.wallets
	amount := decimal.New(1+random.Int64N(20000), -2)
	body := fmt.Sprintf(`{"from":%q,"to":%q,"amount":%q,"currency":"BDT"}`, h.wallet(from), h.wallet(to), amount)
	for try := 0; ; try++ {
		key := fmt.Sprintf("a-payment-of-this-hour-%d", number)
		if h.newKeys {
			key += fmt.Sprint("-", try)
		}
		req, err := http.NewRequest(http.MethodPost, h.servers[random.IntN(2)].URL+"/v1/transfers", strings.NewReader(body)) //nolint:noctx // a test
		if err != nil {
			h.t.Error(err)
			return
		}
		req.GetBody = nil // The transport is not to retry by itself.
		req.Header.Set("Authorization", "Bearer sandbox-"+strings.TrimPrefix(string(h.wallet(from)), "wallet:"))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		resp, err := h.unhurried.Do(req)
		if err != nil {
			if try > 50 {
				h.t.Error(err)
				return
			}
			continue
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		switch {
		case err != nil || resp.StatusCode == http.StatusConflict || resp.StatusCode == http.StatusServiceUnavailable:
			if try > 500 {
				h.t.Errorf("%s: no answer: %d %s %v", key, resp.StatusCode, text, err)
				return
			}
			time.Sleep(5 * time.Millisecond)
			continue
		case resp.StatusCode == http.StatusCreated, resp.StatusCode == http.StatusUnprocessableEntity && strings.Contains(string(text), `"INSUFFICIENT_FUNDS"`):
		default:
			h.t.Errorf("%s: %d %s", key, resp.StatusCode, text)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if resp.Header.Get("Idempotent-Replayed") == "true" {
			h.replayed++
		}
		if resp.StatusCode != http.StatusCreated {
			h.refused++
			return
		}
		h.paid++
		h.balances[h.wallet(from)] = h.balances[h.wallet(from)].Sub(amount)
		h.balances[h.wallet(to)] = h.balances[h.wallet(to)].Add(amount)
		return
	}
}

// run makes payments from many phones at once, waits for the last copy, and returns how many payments there are that nobody asked for, and
// how many wallets have another balance than their phones believe.
func (h *hour) run(payments, phones int) (doubles, wrong int) {
	h.t.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for phone := range phones {
		random := rand.New(rand.NewPCG(88412, uint64(2+phone))) //nolint:gosec // repeatable on purpose
		wg.Go(func() {
			for n := int(next.Add(1)); n <= payments && !h.t.Failed(); n = int(next.Add(1)) {
				h.pay(n, random)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	h.road.copies.Wait()
	r := h.road
	h.t.Logf("%d payments in %.1f s (%d requests; lost: %d requests, %d answers; %d sent twice, %d late): %d paid, %d refused, %d answers were replays",
		payments, took.Seconds(), r.requests.Load(), r.lostRequests.Load(), r.lostAnswers.Load(), r.doubles.Load(), r.lates.Load(), h.paid, h.refused, h.replayed)
	there := h.servers[0].number(h.t, `SELECT count(*) FROM transfer WHERE transfer_id LIKE 'khata:TXN-%' AND refusal IS NULL`)
	for id, want := range h.balances {
		if got := h.servers[0].balance(h.t, id); got != want.String() {
			wrong++
		}
	}
	return int(there) - h.paid, wrong
}

// An hour of two million payments a day, of which one in 200 loses its answer; in the short form some of it. Nothing is paid twice, and
// every phone can tell to the last paisa what its wallet has.
func TestHour(t *testing.T) {
	t.Parallel()
	payments, delay := 2000, time.Second
	if os.Getenv("KHATA_TEST_LONG") != "" {
		payments, delay = 2_000_000/24, 70*time.Second
	}
	h := newHour(t, &road{loseRequest: 2, loseAnswer: 5, double: 2, late: 2, delay: delay}, 300)
	if doubles, wrong := h.run(payments, 32); doubles != 0 || wrong != 0 {
		t.Errorf("%d payments that nobody asked for, %d wallets that their owners would not believe", doubles, wrong)
	}
	if r := h.road; r.lostAnswers.Load() == 0 || r.lostRequests.Load() == 0 || r.doubles.Load() == 0 || r.lates.Load() == 0 || h.replayed == 0 || h.paid == 0 {
		t.Error("it was too quiet an hour to say anything")
	}
	ledgertest.CheckBooks(t, h.servers[0].db)
}

// The same with phones that take a new key for every try: what TestHour looks for is there, and seen.
func TestHour_NewKeys(t *testing.T) {
	t.Parallel()
	h := newHour(t, &road{loseAnswer: 50}, 20)
	h.newKeys = true
	if doubles, wrong := h.run(300, 8); doubles == 0 || wrong == 0 {
		t.Errorf("%d payments too many and %d wrong wallets, of phones that pay twice", doubles, wrong)
	}
	ledgertest.CheckBooks(t, h.servers[0].db)
}
