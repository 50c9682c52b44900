package payapi_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/payapi"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

const clearing = "gateway:clearing:BDT"

// till is a gateway and a server that takes money through it.
type till struct {
	*server
	sandbox *payapi.SandboxGateway
	gateway payapi.Gateway
	t       *testing.T
}

// quick is how fast the tests want it.
func quick(g payapi.Gateway) payapi.CashInConfig {
	return payapi.CashInConfig{Gateway: g, Timeout: 3 * time.Second, Lease: 8 * time.Second, SweepEvery: 50 * time.Millisecond}
}

// never is how often a server sweeps that is not to sweep.
const never = time.Hour

func newTill(t *testing.T, change func(*payapi.CashInConfig)) *till {
	t.Helper()
	sandbox := payapi.NewSandboxGateway()
	gatewayServer := httptest.NewServer(sandbox)
	t.Cleanup(gatewayServer.Close)
	g, err := payapi.NewHTTPGateway(gatewayServer.URL, "secret")
	if err != nil {
		t.Fatal(err)
	}
	first := setup(t)
	config := quick(g)
	if change != nil {
		change(&config)
	}
	if _, err := first.journal.CreateAccounts(context.Background(), "local", "", []ledger.AccountSpec{
		{ID: clearing, Type: ledger.Asset, Currency: "BDT"},
	}); err != nil {
		t.Fatal(err)
	}
	return &till{serveCash(t, first.db, pg.Config{DSN: first.db.ServiceDSN()}, config), sandbox, g, t}
}

// another starts one more server on the same database and gateway.
func (k *till) another(change func(*payapi.CashInConfig)) *till {
	k.t.Helper()
	config := quick(k.gateway)
	if change != nil {
		change(&config)
	}
	return &till{serveCash(k.t, k.db, pg.Config{DSN: k.db.ServiceDSN()}, config), k.sandbox, k.gateway, k.t}
}

func cashIn(card, amount string) string {
	return fmt.Sprintf(`{"to":"wallet:tithi","card":%q,"amount":%q,"currency":"BDT","note":"top-up"}`, card, amount)
}

func (k *till) pay(key, card, amount string) reply {
	k.t.Helper()
	return k.ask(k.t, "tithi", "POST", "/v1/cash-ins", cashIn(card, amount), "Idempotency-Key", key)
}

// insist sends a request again until there is a final answer, as a client does.
func (k *till) insist(key, card, amount string) reply {
	k.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		r, err := k.try("tithi", "POST", "/v1/cash-ins", cashIn(card, amount), "Idempotency-Key", key)
		if err == nil && r.status != 409 && r.status != 503 {
			return r
		}
		if err == nil && r.retryAfter == "" {
			k.t.Errorf("no Retry-After: %v", r)
		}
		if time.Now().After(end) {
			k.t.Fatalf("no answer: %v %v", r, err)
		}
		time.Sleep(30 * time.Millisecond)
	}
}

func (k *till) sql(query string, args ...any) string {
	k.t.Helper()
	var text *string
	k.asOwner(k.t, func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, query, args...).Scan(&text)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if text == nil {
		return ""
	}
	return *text
}

// until waits for something to become so.
func (k *till) until(what string, ok func() bool) {
	k.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			k.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// open is how many claims are not settled.
func (k *till) open() string {
	return k.sql(`SELECT count(*)::text FROM payment_claim WHERE step <> 'released'`)
}

// check holds the gateway, the books and the wallet against each other, when nothing is open any more.
func (k *till) check(charges int, wallet string) {
	k.t.Helper()
	k.until("no claim is open", func() bool { return k.open() == "0" })
	totals := k.sandbox.Totals()
	if totals.Charges != charges {
		k.t.Errorf("the gateway charged %d times, want %d", totals.Charges, charges)
	}
	if net := totals.Charged.Sub(totals.GivenBack).String(); net != k.balance(k.t, clearing) {
		k.t.Errorf("the gateway has %s (%+v), the clearing account %s", net, totals, k.balance(k.t, clearing))
	}
	if got := k.balance(k.t, "wallet:tithi"); got != wallet {
		k.t.Errorf("the wallet has %s, want %s", got, wallet)
	}
	ledgertest.CheckBooks(k.t, k.db)
}

func same(t *testing.T, again, first reply) {
	t.Helper()
	if again.status != first.status || again.body != first.body || again.location != first.location || again.replayed != "true" {
		t.Errorf("again: %+v, first %+v", again, first)
	}
}

// While the gateway takes its time, a second request is told to wait, one with another body that the key is in use; then both have bytes.
func TestCashIn_WhileRunning(t *testing.T) {
	t.Parallel()
	k := newTill(t, nil)
	const key = "a-key-of-a-slow-cash-in"
	done := make(chan reply, 1)
	go func() {
		r, _ := k.try("tithi", "POST", "/v1/cash-ins", cashIn("4000-slow-2s", "300.00"), "Idempotency-Key", key)
		done <- r
	}()
	time.Sleep(50 * time.Millisecond)
	k.until("the claim is there", func() bool { return k.open() == "1" })
	if r := k.pay(key, "4000-slow-2s", "300.0"); r.status != 409 || r.retryAfter < "5" || r.retryAfter > "8" || !strings.Contains(r.body, "IDEMPOTENCY_IN_PROGRESS") {
		t.Errorf("the same: %+v", r)
	}
	if r := k.pay(key, "4000-slow-2s", "301"); r.status != 422 || !strings.Contains(r.body, "IDEMPOTENCY_KEY_REUSED") {
		t.Errorf("another amount: %+v", r)
	}
	if r := k.pay(key, "5000", "300"); r.status != 422 || !strings.Contains(r.body, "IDEMPOTENCY_KEY_REUSED") {
		t.Errorf("another card: %+v", r)
	}
	if r := k.ask(t, "tithi", "POST", "/v1/transfers", `{"from":"wallet:tithi","to":"wallet:shimul","amount":"1","currency":"BDT"}`,
		"Idempotency-Key", key); r.status != 422 || !strings.Contains(r.body, "IDEMPOTENCY_KEY_REUSED") {
		t.Errorf("another route: %+v", r)
	}
	if r := k.ask(t, "tithi", "GET", "/v1/transfers/by-idempotency-key/"+key, ""); r.status != 409 {
		t.Errorf("by key: %+v", r)
	}
	first := <-done
	if first.status != 201 || first.replayed != "" || !strings.Contains(first.body, `"kind":"cash_in","to":"wallet:tithi","amount":"300.00"`) ||
		strings.Contains(first.body, "clearing") {
		t.Fatalf("%+v", first)
	}
	same(t, k.pay(key, "4000-slow-2s", "300.00"), first)
	if r := k.ask(t, "tithi", "GET", first.location, ""); r.status != 200 {
		t.Errorf("%+v", r)
	}
	refund := fmt.Sprintf(`{"transfer_id":%q,"everything":true,"expected_refunded":"0","reason":"goodwill"}`, strings.TrimPrefix(first.location, "/v1/transfers/"))
	if r := k.ask(t, "tithi", "POST", "/v1/refunds", refund, "Idempotency-Key", "a-refund-that-reaches-no-card"); r.status != 422 || !strings.Contains(r.body, "WRONG_ORIGIN") {
		t.Errorf("a refund: %+v", r)
	}
	k.check(1, "300")
}

// Whatever happens to the gateway's answer, the card is charged at most once and the wallet has what was charged.
func TestCashIn_Answers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		card    string
		first   int
		final   int
		charges int
	}{
		"charged, and the answer lost": {"4000-charge-then-lose", 503, 201, 1},
		"the answer twice":             {"4000-twice", 503, 201, 1},
		"slower than the timeout":      {"4000-slow-4s", 503, 201, 1},
		"declined":                     {"4000-decline", 422, 422, 0},
		"declined, and slow":           {"4000-decline-slow-4s", 503, 422, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTill(t, nil)
			const key = "a-key-of-a-cash-in"
			first := k.pay(key, test.card, "40.50")
			if first.status != test.first || first.status == 503 && first.retryAfter == "" {
				t.Fatalf("first: %+v", first)
			}
			final := k.insist(key, test.card, "40.50")
			if final.status != test.final {
				t.Fatalf("in the end: %+v", final)
			}
			same(t, k.pay(key, test.card, "40.5"), final)
			wallet := "0"
			if test.charges > 0 {
				wallet = "40.5"
			}
			k.check(test.charges, wallet)
		})
	}
}

// What never reached the gateway, or fails there, is released, and the same key starts anew; what reaches it late meets a tombstone.
func TestCashIn_NeverSeen(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]string{"lost": "lose-answer", "failed": "fail", "late": "late-1s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTill(t, nil)
			k.sandbox.Fault("charge", fault, 1)
			const key = "a-key-that-comes-again"
			if r := k.pay(key, "4000", "10"); r.status != 503 {
				t.Fatalf("%+v", r)
			}
			k.until("the key is free", func() bool { return k.open() == "0" })
			r := k.pay(key, "4000", "10")
			if r.status != 201 || r.replayed != "" {
				t.Fatalf("%+v", r)
			}
			k.check(1, "10")
		})
	}
}

// A decline is on record: it is given again, also when the key row has gone, and nobody is called.
func TestCashIn_AfterTheWindow(t *testing.T) {
	t.Parallel()
	k := newTill(t, nil)
	const yes, no = "a-key-that-is-charged", "a-key-that-is-declined"
	first := map[string]reply{yes: k.pay(yes, "4000", "10"), no: k.pay(no, "4000-decline", "10")}
	if !strings.Contains(first[no].body, `"code":"DECLINED_BY_GATEWAY"`) || strings.Contains(first[no].body, "clearing") || first[yes].status != 201 {
		t.Fatalf("%+v", first)
	}
	k.sql(`DELETE FROM payment_key`)
	k.sandbox.Fault("charge", "fail", 10)
	for key, card := range map[string]string{yes: "4000", no: "4000-decline"} {
		same(t, k.pay(key, card, "10"), first[key])
		if r := k.pay(key, card, "11"); r.status != 422 || !strings.Contains(r.body, "KEY_REUSED") {
			t.Errorf("other content: %+v", r)
		}
		k.pressed(t, payapi.PaymentID("user:tithi", key), "ledger 1 1")
	}
	k.check(1, "10")
}

// Before anything is charged the wallet is looked at; if it changes later, the charge is given back, once.
func TestCashIn_WalletCannotTakeIt(t *testing.T) {
	t.Parallel()
	var k *till
	closeWallet := func(step string) {
		if step == "charged" {
			frozen := ledger.FrozenBoth
			if _, err := k.journal.UpdateAccount(context.Background(), "local", "", "wallet:tithi", ledger.AccountUpdate{Frozen: &frozen}); err != nil {
				t.Error(err)
			}
		}
	}
	k = newTill(t, func(c *payapi.CashInConfig) { c.Failpoint = closeWallet })
	k.sandbox.Fault("refund", "charge-then-lose", 1)
	k.sandbox.Fault("refund", "fail", 1)
	const key = "a-key-of-a-frozen-wallet"
	first := k.pay(key, "4000", "10")
	if first.status != 422 || !strings.Contains(first.body, "ACCOUNT_FROZEN") || !strings.Contains(first.body, "given back") {
		t.Fatalf("%+v", first)
	}
	same(t, k.pay(key, "4000", "10"), first)
	k.until("it is given back", func() bool { return k.sandbox.Totals().GivenBack.Equal(decimal.New(10, 0)) })
	k.check(1, "0")
	if r := k.pay("another-key-of-that-wallet", "4000", "10"); r.status != 422 || !strings.Contains(r.body, "nothing was charged") {
		t.Errorf("%+v", r)
	}
	for _, body := range []string{
		`{"to":"wallet:tithi:no","card":"4000","amount":"1","currency":"BDT"}`, `{"to":"wallet:tithi","card":"4000","amount":"1","currency":"JPY"}`,
		`{"to":"wallet:tithi","card":"4000","amount":"1.001","currency":"BDT"}`, `{"to":"wallet:tithi","card":"4242424242424242","amount":"1","currency":"BDT"}`,
		`{"to":"wallet:shimul","card":"4000","amount":"1","currency":"BDT"}`, `{"to":"wallet:tithi","card":"4000","amount":"-1","currency":"BDT"}`,
	} {
		if r := k.ask(t, "tithi", "POST", "/v1/cash-ins", body, "Idempotency-Key", "a-key-of-a-wrong-request"); r.status < 400 || r.status > 422 || r.status == 409 {
			t.Errorf("%s: %+v", body, r)
		}
	}
	k.check(1, "0")
}

// A server that ends at any step leaves the rest to the sweeper of another.
func TestCashIn_ServerEnds(t *testing.T) {
	t.Parallel()
	for step, charges := range map[string]int{"claimed": 0, "charged": 1, "finished": 1} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			var once sync.Once
			k := newTill(t, func(c *payapi.CashInConfig) {
				c.SweepEvery, c.Lease, c.Timeout = never, 3*time.Second, 1400*time.Millisecond
				c.Failpoint = func(at string) {
					die := false
					if at == step {
						once.Do(func() { die = true })
					}
					if die { // As by a kill: nothing of the request runs any more, and nobody is told.
						panic(http.ErrAbortHandler)
					}
				}
			})
			const key = "a-key-of-a-server-that-ends"
			if r, err := k.try("tithi", "POST", "/v1/cash-ins", cashIn("4000", "10"), "Idempotency-Key", key); err == nil && step != "finished" && r.status != 409 {
				t.Fatalf("%+v", r) // The client sends it again by itself where it has a key.
			}
			other := k.another(nil)
			other.until("the claim is settled", func() bool { return k.open() == "0" })
			if got := other.sandbox.Totals().Charges; got != charges {
				t.Errorf("charged %d times, want %d", got, charges)
			}
			if r := other.insist(key, "4000", "10"); r.status != 201 {
				t.Errorf("%+v", r)
			}
			other.check(1, "10")
		})
	}
}

// Who was overtaken, and wakes up with the gateway's answer in hand, writes nothing.
func TestCashIn_Overtaken(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"claimed", "charged"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			asleep, awake := make(chan struct{}), make(chan struct{})
			var once sync.Once
			k := newTill(t, func(c *payapi.CashInConfig) {
				c.SweepEvery, c.Lease, c.Timeout = never, 3*time.Second, 1400*time.Millisecond
				c.Failpoint = func(at string) {
					if at == step {
						once.Do(func() { close(asleep); <-awake })
					}
				}
			})
			const key = "a-key-that-is-taken-over"
			done := make(chan reply, 1)
			go func() {
				r, _ := k.try("tithi", "POST", "/v1/cash-ins", cashIn("4000", "10"), "Idempotency-Key", key)
				done <- r
			}()
			<-asleep
			other := k.another(nil)
			other.until("the claim is settled", func() bool { return other.open() == "0" })
			first := other.insist(key, "4000", "10")
			close(awake)
			late := <-done
			switch step {
			case "claimed": // What it charges now meets the tombstone.
				if late.status != 503 {
					t.Errorf("late: %+v", late)
				}
			case "charged":
				same(t, late, first)
			}
			same(t, k.pay(key, "4000", "10"), first)
			// Who was overtaken had not asked twice: only those have who came after him, and after the payment.
			other.pressed(t, payapi.PaymentID("user:tithi", key), map[string]string{"claimed": "key 1 0", "charged": "key 2 0"}[step])
			other.check(1, "10")
		})
	}
}

// The fence: while somebody else has the claim, who had it before records nothing, also where both know that the card was charged.
func TestCashIn_Fenced(t *testing.T) {
	t.Parallel()
	asleep, awake, taken, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	k := newTill(t, func(c *payapi.CashInConfig) {
		c.SweepEvery, c.Lease, c.Timeout = never, 3*time.Second, 1400*time.Millisecond
		c.Failpoint = func(at string) {
			if at == "charged" {
				close(asleep)
				<-awake
			}
		}
	})
	const key = "a-key-behind-a-fence"
	done := make(chan reply, 1)
	go func() {
		r, _ := k.try("tithi", "POST", "/v1/cash-ins", cashIn("4000", "10"), "Idempotency-Key", key)
		done <- r
	}()
	<-asleep
	other := k.another(func(c *payapi.CashInConfig) {
		c.Lease, c.Timeout = time.Hour, time.Second
		c.Failpoint = func(at string) {
			if at == "taken" {
				close(taken)
				<-goOn
			}
		}
	})
	<-taken
	close(awake)
	if late := <-done; late.status != 503 {
		t.Errorf("late: %+v", late)
	}
	if got := k.balance(t, "wallet:tithi"); got != "0" || k.open() != "1" {
		t.Errorf("the wallet has %s, %s claims", got, k.open())
	}
	close(goOn)
	if r := other.insist(key, "4000", "10"); r.status != 201 {
		t.Errorf("%+v", r)
	}
	other.check(1, "10")
}

// A commit whose answer was lost, of the claim or of the money, is found out about.
func TestCashIn_LostCommits(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"claim", "finish"} {
		for name, cut := range map[string]func(*pgtest.Faults){
			"before": func(f *pgtest.Faults) { f.CutBeforeCommit(1) }, "after": func(f *pgtest.Faults) { f.CutAfterCommit(1) },
		} {
			t.Run(at+" "+name, func(t *testing.T) {
				t.Parallel()
				k := newTill(t, func(c *payapi.CashInConfig) { c.SweepEvery = never })
				faults := pgtest.NewFaults(t)
				config := quick(k.gateway)
				config.SweepEvery = never
				config.Failpoint = func(step string) {
					if at == "finish" && step == "charged" {
						cut(faults)
					}
				}
				s := serveCash(t, k.db, pg.Config{DSN: k.db.ServiceDSN(), Dial: faults.DialFunc(nil)}, config)
				if at == "claim" {
					cut(faults)
				}
				r := s.ask(t, "tithi", "POST", "/v1/cash-ins", cashIn("4000", "10"), "Idempotency-Key", "a-key-of-a-lost-commit")
				if r.status != 201 || r.replayed != "" || faults.Cuts() != 1 {
					t.Errorf("%+v, %d cuts", r, faults.Cuts())
				}
				k.check(1, "10")
			})
		}
	}
}

// Fifty identical requests at once over two servers: one charge, fifty identical bodies.
func TestCashIn_FiftyAtOnce(t *testing.T) {
	t.Parallel()
	k := newTill(t, nil)
	other := k.another(nil)
	var mu sync.Mutex
	bodies := map[string]int{}
	var wg sync.WaitGroup
	for i := range 50 {
		on := []*till{k, other}[i%2]
		wg.Go(func() {
			r := on.insist("fifty-cash-ins-at-once", "4000-slow-100ms", "10")
			mu.Lock()
			bodies[fmt.Sprint(r.status, r.body, r.location)]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(bodies) != 1 {
		t.Errorf("%v", bodies)
	}
	k.check(1, "10")
}

// What nobody can find out goes to people, is never dropped, and what they say is done as if the sweeper had known.
func TestCashIn_Review(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	for as, test := range map[payapi.Resolution]struct {
		card    string
		status  int
		charges int
		wallet  string
	}{
		payapi.AsCharged:  {"4000-charge-then-lose", 201, 1, "10"},
		payapi.AsDeclined: {"4000-lose-answer", 422, 0, "0"},
		payapi.AsReleased: {"4000-lose-answer", 503, 0, "0"},
	} {
		t.Run(string(as), func(t *testing.T) {
			t.Parallel()
			k := newTill(t, func(c *payapi.CashInConfig) { c.Attempts = 2 })
			k.sandbox.Fault("status", "fail", 1000)
			const key = "a-key-that-people-look-at"
			if r := k.pay(key, test.card, "10"); r.status != 503 {
				t.Fatalf("%+v", r)
			}
			var list []payapi.Review
			k.until("it is in review", func() (ok bool) {
				var err error
				if list, err = payapi.Reviews(t.Context(), k.pool); err != nil {
					t.Fatal(err)
				}
				return len(list) == 1
			})
			if r := list[0]; r.Step != "charge" || r.To != "wallet:tithi" || r.Amount != "10" || r.User != "user:tithi" || r.Detail == "" || r.Attempts != 2 {
				t.Errorf("%+v", r)
			}
			if r := k.pay(key, test.card, "10"); r.status != 409 || r.retryAfter != "60" {
				t.Errorf("in review: %+v", r)
			}
			number := list[0].Number
			for _, bad := range []struct {
				number string
				as     payapi.Resolution
				reason string
				want   ledger.Code
			}{
				{"TXN-NO", as, "so", ledger.CodeTransferNotFound},
				{number, payapi.AsGivenBack, "so", ledger.CodeInvalidArgument},
				{number, as, " ", ledger.CodeInvalidArgument},
			} {
				if err := payapi.Resolve(t.Context(), k.journal, k.pool, log, bad.number, bad.as, bad.reason); ledger.CodeOf(err) != bad.want {
					t.Errorf("%+v: %v", bad, err)
				}
			}
			if err := payapi.Resolve(t.Context(), k.journal, k.pool, log, number, as, "the gateway's people say so"); err != nil {
				t.Fatal(err)
			}
			if got := k.sql(`SELECT resolved_as || ': ' || reason FROM payment_resolution`); got != string(as)+": the gateway's people say so" {
				t.Errorf("kept: %s", got)
			}
			if as != payapi.AsReleased {
				r := k.pay(key, test.card, "10")
				if r.status != test.status || r.replayed != "true" {
					t.Errorf("%+v", r)
				}
			}
			k.check(test.charges, test.wallet)
			if err := payapi.Resolve(t.Context(), k.journal, k.pool, log, number, as, "again"); ledger.CodeOf(err) != ledger.CodeTransferNotFound {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// A charge that the gateway does not give back goes to people at once; the customer has the answer all the same.
func TestCashIn_ReviewOfGivingBack(t *testing.T) {
	t.Parallel()
	var k *till
	k = newTill(t, func(c *payapi.CashInConfig) {
		c.Failpoint = func(step string) {
			if step == "charged" {
				closed := true
				if _, err := k.journal.UpdateAccount(context.Background(), "local", "", "wallet:tithi", ledger.AccountUpdate{Closed: &closed}); err != nil {
					t.Error(err)
				}
			}
		}
	})
	k.sandbox.Fault("refund", "decline", 1)
	first := k.pay("a-key-that-is-not-given-back", "4000", "10")
	if first.status != 422 || !strings.Contains(first.body, "ACCOUNT_CLOSED") {
		t.Fatalf("%+v", first)
	}
	var list []payapi.Review
	k.until("it is in review", func() bool {
		list, _ = payapi.Reviews(t.Context(), k.pool)
		return len(list) == 1
	})
	same(t, k.pay("a-key-that-is-not-given-back", "4000", "10"), first)
	log := slog.New(slog.DiscardHandler)
	if err := payapi.Resolve(t.Context(), k.journal, k.pool, log, list[0].Number, payapi.AsCharged, "no"); ledger.CodeOf(err) != ledger.CodeInvalidArgument {
		t.Error(err)
	}
	if err := k.gateway.Refund(t.Context(), list[0].GatewayKey, "by-hand"); err != nil {
		t.Fatal(err)
	}
	if err := payapi.Resolve(t.Context(), k.journal, k.pool, log, list[0].Number, payapi.AsGivenBack, "by hand, in the gateway's console"); err != nil {
		t.Fatal(err)
	}
	k.check(1, "0")
}

// Many cards with every fault over two servers, of which clients do not let go: in the end the gateway has what the clearing account says.
func TestCashIn_Storm(t *testing.T) {
	t.Parallel()
	k := newTill(t, func(c *payapi.CashInConfig) { c.Timeout, c.Lease = 300*time.Millisecond, 900*time.Millisecond })
	other := k.another(func(c *payapi.CashInConfig) { c.Timeout, c.Lease = 300*time.Millisecond, 900*time.Millisecond })
	cards := []string{
		"4000", "4000-decline", "4000-charge-then-lose", "4000-twice", "4000-slow-200ms", "4000-slow-400ms", "4000-slow-400ms-decline",
	}
	faults := []string{"fail", "lose-answer", "slow-350ms", "late-400ms", "charge-then-lose", "twice"}
	stop := make(chan struct{})
	var gremlin sync.WaitGroup
	gremlin.Go(func() {
		defer k.sandbox.Mend()
		for n := 0; n < 200; n++ { // Some three seconds.
			select {
			case <-stop:
				return
			case <-time.After(15 * time.Millisecond):
			}
			k.sandbox.Fault([]string{"charge", "status", "cancel", "refund"}[n%4], faults[n/4%len(faults)], 1)
			if n%40 == 20 {
				frozen := []ledger.Frozen{ledger.FrozenBoth, ledger.FrozenNone}[n/40%2]
				_, _ = k.journal.UpdateAccount(context.Background(), "local", "", "wallet:tithi", ledger.AccountUpdate{Frozen: &frozen})
			}
		}
	})
	var posted atomic.Int64
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for n := range 2 {
				r := []*till{k, other}[i%2].insist(fmt.Sprintf("a-key-in-a-storm-%d-%d", i/2, n), cards[(i/2+n)%len(cards)], "10")
				if r.status == 201 && i%2 == 0 {
					posted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	gremlin.Wait()
	none := ledger.FrozenNone
	if _, err := k.journal.UpdateAccount(context.Background(), "local", "", "wallet:tithi", ledger.AccountUpdate{Frozen: &none}); err != nil {
		t.Error(err)
	}
	k.until("no claim is open", func() bool { return k.open() == "0" })
	t.Logf("%d posted, %+v", posted.Load(), k.sandbox.Totals())
	k.check(k.sandbox.Totals().Charges, k.balance(t, clearing))
}

// What a gateway says counts only as it was agreed; everything else is an unknown outcome.
func TestHTTPGateway_Answers(t *testing.T) {
	t.Parallel()
	var code int
	var body, location string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if location != "" && r.URL.Path != "/elsewhere" {
			w.Header().Set("Location", location)
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	defer s.Close()
	g, err := payapi.NewHTTPGateway(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	c := payapi.Charge{Key: "k", Amount: "10", Currency: "BDT"}
	for _, test := range []struct {
		code int
		body string
		want payapi.ChargeState // "" is unknown
	}{
		{200, `{"status":"charged","amount":"10.00","currency":"BDT"}`, payapi.Charged},
		{200, `{"status":"charged","amount":"10.01","currency":"BDT"}`, ""},
		{200, `{"status":"charged","amount":"10","currency":"JPY"}`, ""},
		{200, `{"status":"charged"}`, ""},
		{201, `{"status":"charged","amount":"10","currency":"BDT"}`, ""},
		{307, `{"status":"charged","amount":"10","currency":"BDT"}`, ""},
		{402, `{"status":"declined"}`, payapi.Declined},
		{200, `{"status":"declined"}`, ""},
		{410, `{"status":"cancelled"}`, payapi.Cancelled},
		{404, `{"status":"not_seen"}`, payapi.NotSeen},
		{404, `404 page not found`, ""},
		{404, `{}`, ""},
		{409, `{"status":"in_progress"}`, ""},
		{502, `<html>`, ""},
		{200, `{"status":"charged","amount":"10","currency":"BDT","more":"` + strings.Repeat("x", 70_000) + `"}`, ""},
		{200, `{"status":"charged","amount":"10","currency":"BDT"} {}`, ""},
	} {
		code, body, location = test.code, test.body, ""
		if code == 307 {
			location = "/elsewhere"
		}
		if got, err := g.Status(t.Context(), c); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%d %.60s: %q %v", test.code, test.body, got, err)
		}
	}
	code, body = 404, `{"status":"not_seen"}`
	if got, err := g.Charge(t.Context(), c); err == nil {
		t.Errorf("a charge that was not seen: %q", got)
	}
	for _, bad := range []string{"", "gateway", "ftp://gateway", "https://", "http://gateway?x=1", "http://me@gateway"} {
		if _, err := payapi.NewHTTPGateway(bad, ""); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
