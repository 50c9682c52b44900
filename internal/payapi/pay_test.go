package payapi_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	s.pressed(t, payapi.PaymentID("user:shimul", strings.Trim(key, `"`)), "key 2 1")
	s.pressed(t, payapi.PaymentID("user:shimul", poor), "key 1 0")
}

// pressed waits until the duplicates of a transfer are written down, and checks what stopped them: how many were replayed, and how many had other content.
func (s *server) pressed(t testing.TB, id ledger.TransferID, want string) {
	t.Helper()
	var got string
	for end := time.Now().Add(20 * time.Second); got != want; time.Sleep(20 * time.Millisecond) {
		found, err := s.journal.DuplicatesOf(t.Context(), "", []ledger.TransferID{id}, 10)
		if err != nil || time.Now().After(end) {
			t.Errorf("%s: %q, want %q (%v)", id, got, want, err)
			return
		}
		var list []string
		for _, d := range found {
			list = append(list, fmt.Sprintf("%s %d %d", d.Guard, d.Replayed, d.Taken))
		}
		slices.Sort(list)
		got = strings.Join(list, ", ")
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
		s.pressed(t, payapi.PaymentID("user:shimul", fmt.Sprint("a-key-that-is-forgotten-", i)), "ledger 1 1")
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
