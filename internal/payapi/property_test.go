package payapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/payapi"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// shot is one request of the property, drawn before it is sent.
type shot struct {
	user, key int
	// refundOf is the key of the other user whose payment is to be given back, or -1.
	refundOf int
	amount   string
	server   int
	// patience is after how long the caller hangs up; 0 is never.
	patience time.Duration
	// stubborn callers send the same again until there is an answer.
	stubborn bool
}

// content is what makes two requests one payment.
func (c shot) content() string {
	return fmt.Sprint(c.refundOf, " ", decimal.RequireFromString(c.amount))
}

// world is one example: two users with wallets of their own, on servers that all examples share.
type world struct {
	servers []*server
	id      int
	mu      sync.Mutex
	// answers are those on record, by user and key; contents are what they are answers to; fresh is how often they were no replay.
	answers  map[[2]int]reply
	contents map[[2]int]string
	fresh    map[[2]int]int
	// sent has a request of each key that may have been decided; reused are the contents that were told that their key is another's.
	sent   map[[2]int][]shot
	reused map[[2]int][]string
	wrong  []string
}

func (w *world) name(user int) string   { return fmt.Sprintf("u%d-%c", w.id, 'a'+user) }
func (w *world) wallet(user int) string { return "wallet:" + w.name(user) }
func (w *world) keyText(key int) string { return fmt.Sprintf("a-key-of-the-model-%d", key) }

func (w *world) fail(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// send sends one request once. ok is false if the caller hung up.
func (w *world) send(c shot) (r reply, ok bool, err error) {
	path, body := "/v1/transfers", fmt.Sprintf(`{"from":%q,"to":%q,"amount":%q,"currency":"BDT"}`, w.wallet(c.user), w.wallet(1-c.user), c.amount)
	if c.refundOf >= 0 {
		path = "/v1/refunds"
		body = fmt.Sprintf(`{"transfer_id":%q,"amount":%q,"expected_refunded":"0","reason":"goodwill"}`,
			payapi.NumberOf("user:"+w.name(1-c.user), w.keyText(c.refundOf)), c.amount)
	}
	s := w.servers[c.server]
	if c.patience > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), c.patience)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "POST", s.URL+path, strings.NewReader(body))
		if err != nil {
			return r, false, err
		}
		req.Header.Set("Authorization", "Bearer sandbox-"+w.name(c.user))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", w.keyText(c.key))
		resp, err := s.Client().Do(req)
		if err == nil {
			return r, false, resp.Body.Close() // It did not look.
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil
		}
		return r, false, err
	}
	r, err = s.try(w.name(c.user), "POST", path, body, "Idempotency-Key", w.keyText(c.key))
	return r, err == nil, err
}

// shoot sends a request, again if its caller is stubborn, and holds the answer against what is known.
func (w *world) shoot(c shot) {
	for tries := 0; ; tries++ {
		r, ok, err := w.send(c)
		w.mu.Lock()
		k := [2]int{c.user, c.key}
		w.sent[k] = append(w.sent[k], c)
		again := false
		switch {
		case err != nil:
			w.fail("%+v: %v", c, err)
		case !ok:
		case r.status == 409 || r.status == 503:
			if r.retryAfter == "" || r.location != "" {
				w.fail("%+v: %+v", c, r)
			}
			again = c.stubborn
		case r.location != "" && (r.status == 201 || r.status == 422):
			w.answered(k, c, r)
		case r.status == 422 && r.code() == "IDEMPOTENCY_KEY_REUSED":
			w.reused[k] = append(w.reused[k], c.content())
		case c.refundOf >= 0 && (r.status == 404 || r.status == 403 || r.status == 422): // There is nothing to give back, or it never can be.
		default:
			w.fail("%+v: %+v", c, r)
		}
		w.mu.Unlock()
		if !again {
			return
		}
		if tries > 500 {
			w.mu.Lock()
			w.fail("%+v: no answer after %d tries", c, tries)
			w.mu.Unlock()
			return
		}
		time.Sleep(time.Duration(min(tries, 10)) * time.Millisecond)
	}
}

func (w *world) answered(k [2]int, c shot, r reply) {
	if r.replayed == "" {
		w.fresh[k]++
	}
	first, known := w.answers[k]
	if !known {
		w.answers[k], w.contents[k] = r, c.content()
		return
	}
	if !r.sameAs(first) {
		w.fail("%+v: %+v, before %+v", c, r, first)
	}
	if w.contents[k] != c.content() {
		w.fail("%+v got the answer of %s", c, w.contents[k])
	}
}

// check brings every key to its end, and holds the books against what was answered.
func (w *world) check(t *rapid.T) {
	balances := []decimal.Decimal{decimal.New(1000, 0), decimal.New(1000, 0)}
	refunds := map[string]int{}
	for k, shots := range w.sent {
		// Nobody knows what became of those that hung up. The key does.
		if _, known := w.answers[k]; !known {
			for _, c := range shots {
				c.patience, c.stubborn = 0, true
				w.shoot(c)
			}
		}
		answer, known := w.answers[k]
		for _, content := range w.reused[k] {
			if !known || content == w.contents[k] {
				w.fail("the key %v of %q was called used by %q", k, w.contents[k], content)
			}
		}
		look, err := w.servers[0].try(w.name(k[0]), "GET", "/v1/transfers/by-idempotency-key/"+w.keyText(k[1]), "")
		switch {
		case err != nil:
			w.fail("%v", err)
		case known != (look.status == 200) || known && !strings.Contains(look.body, strings.TrimSpace(answer.body)):
			w.fail("the key %v: %v, answered %v", k, look, answer)
		}
		if w.fresh[k] > 1 {
			w.fail("the key %v was paid %d times", k, w.fresh[k])
		}
		if !known || answer.status != 201 {
			continue
		}
		var p struct{ From, To, Amount, Original string }
		if err := json.Unmarshal([]byte(answer.body), &p); err != nil {
			w.fail("%v", err)
			continue
		}
		for user := range balances {
			switch w.wallet(user) {
			case p.From:
				balances[user] = balances[user].Sub(decimal.RequireFromString(p.Amount))
			case p.To:
				balances[user] = balances[user].Add(decimal.RequireFromString(p.Amount))
			}
		}
		if p.Original != "" {
			if refunds[p.Original]++; refunds[p.Original] > 1 {
				w.fail("%s was given back twice by those who believed it was not", p.Original)
			}
		}
	}
	for user, want := range balances {
		got, err := w.servers[0].journal.Balances(context.Background(), "", []ledger.AccountID{ledger.AccountID(w.wallet(user))})
		if err != nil {
			w.fail("%v", err)
		} else if !got[0].Posted.Equal(want) {
			w.fail("%s has %s, by the answers %s", w.wallet(user), got[0].Posted, want)
		}
	}
	if len(w.wrong) > 0 {
		t.Fatal(strings.Join(w.wrong, "\n"))
	}
}

// Whatever is sent by whomever, at once, to two servers, with callers that hang up and commits whose answers are lost: a key has one
// answer, and money has moved once for each key that was answered so.
func TestProperty(t *testing.T) {
	t.Parallel()
	checks := "15"
	if os.Getenv("KHATA_TEST_LONG") != "" {
		checks = "400"
	}
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := flag.Set("rapid.checks", checks); err != nil {
			t.Fatal(err)
		}
	}
	s := setup(t)
	faults := pgtest.NewFaults(t)
	servers := []*server{s, serve(t, s.db, pg.Config{DSN: s.db.ServiceDSN(), Dial: faults.DialFunc(nil)})}
	examples, requests, answers := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			servers: servers, id: examples, answers: map[[2]int]reply{}, contents: map[[2]int]string{}, fresh: map[[2]int]int{},
			sent: map[[2]int][]shot{}, reused: map[[2]int][]string{},
		}
		examples++
		ctx, zero := context.Background(), decimal.Zero
		for user := range 2 {
			id := ledger.AccountID(w.wallet(user))
			if _, err := s.journal.CreateAccounts(ctx, "local", "", []ledger.AccountSpec{{ID: id, Type: ledger.Liability, Currency: "BDT", Floor: &zero}}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.journal.Post(ctx, "local", "", []ledger.TransferSpec{
				{ID: ledger.TransferID(id), Entries: ledger.Simple("cash", id, decimal.New(1000, 0), "BDT")},
			}); err != nil {
				t.Fatal(err)
			}
		}
		shots := rapid.Custom(func(t *rapid.T) shot {
			c := shot{
				user: rapid.IntRange(0, 1).Draw(t, "user"), key: rapid.IntRange(0, 3).Draw(t, "key"), server: rapid.IntRange(0, 1).Draw(t, "server"),
				refundOf: -1, amount: rapid.SampledFrom([]string{"1", "1.0", "1.00", "2", "5000"}).Draw(t, "amount"),
				stubborn: rapid.Float64().Draw(t, "stubborn") < 0.7,
			}
			if rapid.IntRange(0, 3).Draw(t, "refund") == 0 {
				c.refundOf = rapid.IntRange(0, 3).Draw(t, "of")
			}
			if rapid.IntRange(0, 4).Draw(t, "hangs up") == 0 {
				c.patience = time.Duration(rapid.IntRange(1, 6000).Draw(t, "patience")) * time.Microsecond
			}
			return c
		})
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			faults.CutBeforeCommit(rapid.IntRange(0, 2).Draw(t, "cut before"))
			faults.CutAfterCommit(rapid.IntRange(0, 2).Draw(t, "cut after"))
			faults.DelayCommits(time.Duration(rapid.IntRange(0, 4).Draw(t, "delay")) * time.Millisecond)
			var wg sync.WaitGroup
			for _, c := range rapid.SliceOfN(shots, 1, 8).Draw(t, "requests") {
				wg.Go(func() { w.shoot(c) })
				requests++
			}
			wg.Wait()
		}
		faults.CutBeforeCommit(0)
		faults.CutAfterCommit(0)
		faults.DelayCommits(0)
		w.check(t)
		answers += len(w.answers)
	})
	t.Logf("%d requests of %d examples, %d keys answered, %d connections cut", requests, examples, answers, faults.Cuts())
	ledgertest.CheckBooks(t, s.db)
}
