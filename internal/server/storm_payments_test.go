package server_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/payapi"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// assassin is the gateway as one server sees it: it can kill the server at any step of a charge.
type assassin struct {
	gateway http.Handler
	victim  atomic.Pointer[process]
	armed   atomic.Int32 // an index of deaths, plus one; 0 lets it live
	struck  chan struct{}
}

// deaths are the steps at which a server dies. The claim is committed in all of them, and in the last ones the card is charged. The pauses
// are for the commit that follows the answer: some die before it, some in it, some after.
var deaths = []struct {
	beforeCharge, beforeAnswer bool
	pause                      time.Duration
}{{beforeCharge: true}, {beforeAnswer: true}, {}, {pause: time.Millisecond}, {pause: 3 * time.Millisecond}}

func (a *assassin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	armed := int32(0)
	if r.Method == http.MethodPost && r.URL.Path == "/charges" {
		armed = a.armed.Swap(0)
	}
	if armed == 0 {
		a.gateway.ServeHTTP(w, r)
		return
	}
	strike := func() { // Once, and the server is gone when it returns.
		a.victim.Load().kill()
		a.struck <- struct{}{}
	}
	how := deaths[armed-1]
	if how.beforeCharge {
		strike()
		return // The request is lost with the server.
	}
	answer := httptest.NewRecorder()
	if cut := serveCut(a.gateway, answer, r); cut || how.beforeAnswer {
		strike()
		return
	}
	w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
	_ = http.NewResponseController(w).Flush()
	time.Sleep(how.pause)
	strike()
}

// serveCut has a handler serve, and says whether it cut the connection.
func serveCut(h http.Handler, w http.ResponseWriter, r *http.Request) (cut bool) {
	defer func() { cut = recover() != nil }()
	h.ServeHTTP(w, r)
	return false
}

// phone is a client that never gives up.
type phone struct {
	t       *testing.T
	user    string
	servers []*atomic.Pointer[process]
	random  *rand.Rand
	client  http.Client
	lost    *atomic.Int64 // requests without an answer
}

// send sends a payment until it has an answer, to whichever server.
func (p *phone) send(ctx context.Context, path, key, body string) (status int, text string) {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.servers[p.random.IntN(len(p.servers))].Load().pay+path, strings.NewReader(body))
		if err != nil {
			p.t.Error(err)
			return 0, ""
		}
		req.Header.Set("Authorization", "Bearer sandbox-"+p.user)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		resp, err := p.client.Do(req)
		if err == nil {
			var content []byte
			content, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			switch again := resp.StatusCode == http.StatusConflict || resp.StatusCode == http.StatusServiceUnavailable; {
			case err != nil: // Killed in the middle of it.
			case again && resp.Header.Get("Retry-After") == "":
				p.t.Errorf("%s %s: %d without Retry-After: %s", path, key, resp.StatusCode, content)
			case !again:
				return resp.StatusCode, string(content)
			}
		}
		if err != nil {
			p.lost.Add(1)
		}
		time.Sleep(time.Duration(20+p.random.IntN(40)) * time.Millisecond)
	}
	p.t.Errorf("%s %s has no answer", path, key)
	return 0, ""
}

// TestStorm_KillPayments kills servers with SIGKILL at every step of a cash-in, with payments between wallets under way. Cards are charged
// once, and every phone can tell to the last paisa what its wallet has.
func TestStorm_KillPayments(t *testing.T) {
	const phones = 8
	kills := count(2*len(deaths), 100)
	seed := seed(t)
	db := pgtest.New(t)
	sandbox := payapi.NewSandboxGateway()
	var servers []*atomic.Pointer[process]
	var gateways []*assassin
	start := func(n int, url string) {
		p, _ := startKhata(t, "serve", "--dsn", db.ServiceDSN(), "--pay", "127.0.0.1:0", "--pay-sandbox", "--gateway", url, "--gateway-timeout", "500ms")
		servers[n].Store(p)
		gateways[n].victim.Store(p)
	}
	var urls []string
	for n := range 2 {
		a := &assassin{gateway: sandbox, struck: make(chan struct{}, 1)}
		door := httptest.NewServer(a)
		t.Cleanup(door.Close)
		gateways, servers, urls = append(gateways, a), append(servers, new(atomic.Pointer[process])), append(urls, door.URL)
		start(n, door.URL)
	}
	b := newBench(t, db, db.ServiceDSN(), 1)
	zero := decimal.Zero
	accounts := []ledger.AccountSpec{{ID: "gateway:clearing:BDT", Type: ledger.Asset, Currency: "BDT"}}
	wallet := func(n int) ledger.AccountID { return ledger.AccountID(fmt.Sprint("wallet:u", n)) }
	for n := range phones {
		accounts = append(accounts, ledger.AccountSpec{ID: wallet(n), Type: ledger.Liability, Currency: "BDT", Floor: &zero})
	}
	b.create(t, accounts...)

	ctx, cancel := stormLimit(t)
	defer cancel()
	enough := make(chan struct{})
	var mu sync.Mutex
	balances, charged, answered := map[ledger.AccountID]int64{}, 0, 0 // in paisa, by the answers
	var lost atomic.Int64
	var wg sync.WaitGroup
	for n := range phones {
		p := &phone{t: t, user: fmt.Sprint("u", n), servers: servers, random: random(seed, n), client: http.Client{Timeout: 5 * time.Second}, lost: &lost}
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-enough:
					return
				case <-ctx.Done():
					return
				default:
				}
				key, paisa := fmt.Sprintf("a-payment-of-%s-%d", p.user, i), int64(1+p.random.IntN(1000))
				amount := decimal.New(paisa, -2).StringFixed(2)
				path, to, card := "/v1/cash-ins", n, []string{"4000", "4000", "4000-decline", "4000-charge-then-lose"}[p.random.IntN(4)]
				body := fmt.Sprintf(`{"to":%q,"card":%q,"amount":%q,"currency":"BDT"}`, wallet(n), card, amount)
				if i%3 == 2 {
					path, to = "/v1/transfers", (n+1)%phones
					body = fmt.Sprintf(`{"from":%q,"to":%q,"amount":%q,"currency":"BDT"}`, wallet(n), wallet(to), amount)
				}
				status, text := p.send(ctx, path, key, body)
				again, textAgain := p.send(ctx, path, key, body)
				if status != again || text != textAgain {
					t.Errorf("%s: %d %s, and again: %d %s", key, status, text, again, textAgain)
				}
				mu.Lock()
				answered++
				switch status {
				case http.StatusCreated:
					balances[wallet(to)] += paisa
					if to != n {
						balances[wallet(n)] -= paisa
					} else {
						charged++
					}
				case http.StatusUnprocessableEntity: // Declined, or there was not enough.
				default:
					t.Errorf("%s: %d %s", key, status, text)
				}
				mu.Unlock()
			}
		})
	}
	rest := random(seed, 1000)
	for i := range kills {
		n := i % len(servers)
		time.Sleep(time.Duration(50+rest.IntN(250)) * time.Millisecond) // Under load, and at no step of a charge's choosing.
		gateways[n].armed.Store(int32(1 + i/len(servers)%len(deaths)))  //nolint:gosec // few
		select {
		case <-gateways[n].struck:
		case <-ctx.Done():
			t.Fatalf("nobody charges any more, at kill %d", i)
		}
		start(n, urls[n])
	}
	close(enough)
	wg.Wait()

	totals := sandbox.Totals()
	t.Logf("%d payments, %d of them cash-ins that were charged, %d requests without an answer, %d kills", answered, charged, lost.Load(), kills)
	if totals.Charges != charged || !totals.GivenBack.IsZero() {
		t.Errorf("the gateway charged %d times, the phones know of %d: %+v", totals.Charges, charged, totals)
	}
	if lost.Load() == 0 {
		t.Error("no answer was ever lost")
	}
	for n := range phones {
		if got, want := b.balance(t, wallet(n)), decimal.New(balances[wallet(n)], -2).StringFixed(2); got != want {
			t.Errorf("%s has %s, by the answers %s", wallet(n), got, want)
		}
	}
	if got := b.balance(t, "gateway:clearing:BDT"); got != totals.Charged.StringFixed(2) {
		t.Errorf("the clearing account has %s, the gateway %s", got, totals.Charged)
	}
	ledgertest.CheckBooks(t, db)
}
