package payapi_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/payapi"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// The passenger on the train: 2,000 taka, 500 sent, the answer lost, sent again. 1,500 are left.
func TestPay_Train(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const key = `"7f3a91c2-5d0e-4b6f-9a77-0c1d2e3f4a5b"`
	first := s.pay(t, key, "500.00")
	if first.status != 201 || first.replayed != "" || !strings.HasPrefix(first.location, "/v1/transfers/TXN-") ||
		!strings.HasPrefix(first.body, `{"transfer_id":"TXN-`) || !strings.Contains(first.body, `"amount":"500.00","currency":"BDT","note":"coaching","posted_at":"20`) {
		t.Fatalf("%v %+v", first, first)
	}
	for _, again := range []string{key, strings.Trim(key, `"`)} {
		r := s.pay(t, again, "500.0")
		if r.status != first.status || r.body != first.body || r.location != first.location || r.replayed != "true" {
			t.Errorf("again: %+v, first %+v", r, first)
		}
	}
	if got := s.balance(t, "wallet:shimul"); got != "1500" {
		t.Errorf("the wallet has %s", got)
	}
	if r := s.pay(t, key, "499.00"); r.status != 422 || !strings.Contains(r.body, "IDEMPOTENCY_KEY_REUSED") {
		t.Errorf("another amount: %v", r)
	}
	// A refusal is stored and given again, even if the money has come since.
	const poor = "key-of-a-payment-that-is-refused"
	no := s.pay(t, poor, "1500.01")
	if no.status != 422 || !strings.Contains(no.body, `"code":"INSUFFICIENT_FUNDS"`) || no.kind != "application/problem+json" {
		t.Fatalf("%v", no)
	}
	if r := s.ask(t, "tithi", "POST", "/v1/transfers", `{"from":"wallet:tithi","to":"wallet:shimul","amount":"100","currency":"BDT"}`,
		"Idempotency-Key", "0123456789abcdef"); r.status != 201 {
		t.Fatal(r)
	}
	if r := s.pay(t, poor, "1500.01"); r.body != no.body || r.status != no.status || r.replayed != "true" {
		t.Errorf("%+v, first %+v", r, no)
	}
	ledgertest.CheckBooks(t, s.db)
	// Support can see how often she pressed.
	s.journal.Close() // It writes what it has counted.
	paid, refused := payapi.PaymentID("user:shimul", strings.Trim(key, `"`)), payapi.PaymentID("user:shimul", poor)
	pressed, err := s.journal.DuplicatesOf(t.Context(), "", []ledger.TransferID{paid, refused, "IN"}, 10)
	if err != nil {
		t.Fatal(err)
	}
	got := map[ledger.TransferID]string{}
	for _, d := range pressed { // A quarter of an hour may have ended meanwhile.
		got[d.Transfer] += strings.Repeat(string(d.Guard)+" replayed ", int(d.Replayed)) + strings.Repeat(string(d.Guard)+" taken ", int(d.Taken))
	}
	want := map[ledger.TransferID]string{paid: "key replayed key replayed key taken ", refused: "key replayed "}
	if !maps.Equal(got, want) {
		t.Errorf("pressed again: %q, want %q", got, want)
	}
}

// After its window a key has no row any more, and never pays twice all the same: the answer is rebuilt from the transfer.
func TestPay_AfterTheWindow(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var first []reply
	for i, amount := range []string{"500.00", "5000.00"} {
		first = append(first, s.pay(t, fmt.Sprint("a-key-that-is-forgotten-", i), amount))
	}
	s.exec(t, "DELETE FROM payment_key")
	for i, amount := range []string{"500.00", "5000.00"} {
		r := s.pay(t, fmt.Sprint("a-key-that-is-forgotten-", i), amount)
		if r.status != first[i].status || r.body != first[i].body || r.location != first[i].location || r.replayed != "true" {
			t.Errorf("%+v, first %+v", r, first[i])
		}
		if r := s.pay(t, fmt.Sprint("a-key-that-is-forgotten-", i), "1.00"); r.status != 422 || !strings.Contains(r.body, "IDEMPOTENCY_KEY_REUSED") {
			t.Errorf("other content: %v", r)
		}
	}
	if got := s.balance(t, "wallet:shimul"); got != "1500" {
		t.Errorf("the wallet has %s", got)
	}
	ledgertest.CheckBooks(t, s.db)
}

// Fifty identical requests at once over two servers, each sent again after a 409: one transfer, and in the end fifty identical bodies.
func TestPay_FiftyAtOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	other := serve(t, s.db, pg.Config{DSN: s.db.ServiceDSN()})
	var mu sync.Mutex
	bodies, conflicts, fresh := map[string]int{}, 0, 0
	var wg sync.WaitGroup
	for i := range 50 {
		on := []*server{s, other}[i%2]
		wg.Go(func() {
			for {
				r, err := on.try("shimul", "POST", "/v1/transfers", payment("500.00"), "Idempotency-Key", "fifty-requests-at-once")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if r.status == 409 {
					conflicts++
					if r.retryAfter == "" || !strings.Contains(r.body, "IDEMPOTENCY_IN_PROGRESS") {
						t.Errorf("%+v", r)
					}
					mu.Unlock()
					continue
				}
				bodies[fmt.Sprint(r.status, r.body, r.location)]++
				if r.replayed == "" {
					fresh++
				}
				mu.Unlock()
				return
			}
		})
	}
	wg.Wait()
	t.Logf("%d times 409", conflicts)
	if len(bodies) != 1 || fresh != 1 {
		t.Errorf("%d of 50 answers were fresh: %v", fresh, bodies)
	}
	if got := s.balance(t, "wallet:shimul"); got != "1500" {
		t.Errorf("the wallet has %s", got)
	}
	ledgertest.CheckBooks(t, s.db)
}
