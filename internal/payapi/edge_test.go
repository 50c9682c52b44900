package payapi_test

// The rows of docs/payments-edge-cases.md: each test carries the numbers of those that it is for.

import (
	"bufio"
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

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/payapi"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// code is that of a problem; empty if the answer is none.
func (r reply) code() string {
	_, rest, _ := strings.Cut(r.body, `"code":"`)
	code, _, _ := strings.Cut(rest, `"`)
	return code
}

// sameAs reports whether two tries got one answer.
func (r reply) sameAs(o reply) bool {
	r.replayed, o.replayed = "", ""
	return r == o
}

// number is one that the database gives.
func (s *server) number(t testing.TB, sql string, args ...any) (n int64) {
	t.Helper()
	s.asOwner(t, func(ctx context.Context, conn *pgx.Conn) error { return conn.QueryRow(ctx, sql, args...).Scan(&n) })
	return n
}

// exec does what only the owner of the database may.
func (s *server) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	s.asOwner(t, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, args...)
		return err
	})
}

func (s *server) asOwner(t testing.TB, f func(context.Context, *pgx.Conn) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.db.OwnerDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := f(ctx, conn); err != nil {
		t.Fatal(err)
	}
}

// moved checks how often 1 taka went from Shimul to Tithi, and that as many keys have answers.
func (s *server) moved(t testing.TB, times int) {
	t.Helper()
	if got := s.balance(t, "wallet:tithi"); got != fmt.Sprint(times) {
		t.Errorf("Tithi has %s, want %d", got, times)
	}
	if got := s.number(t, "SELECT count(*) FROM payment_key WHERE status = 201"); got != int64(times) {
		t.Errorf("%d keys have answers, want %d", got, times)
	}
	ledgertest.CheckBooks(t, s.db)
}

// untilCommit sends a request, and waits until its commit is on the way through the faults, which are to hold it.
func untilCommit(t testing.TB, faults *pgtest.Faults, send func() (reply, error)) <-chan reply {
	t.Helper()
	before := faults.Commits()
	done := make(chan reply, 1)
	go func() {
		r, err := send()
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	for faults.Commits() == before {
		select {
		case r := <-done:
			t.Fatalf("answered before a commit: %+v", r)
		case <-time.After(time.Millisecond):
		}
	}
	return done
}

// budget gives a server a journal with another budget.
func budget(t testing.TB, d time.Duration) func(*payapi.Config) {
	return func(c *payapi.Config) {
		c.Journal = journal.New(c.Pool, journal.Config{Budget: d})
		t.Cleanup(c.Journal.Close)
	}
}

func TestEdge_KeySyntax(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const short = "fifteen-letters"
	for _, c := range []struct {
		name   string
		values []string
		code   string
	}{
		{"01 missing", nil, "IDEMPOTENCY_KEY_MISSING"},
		{"02 empty", []string{""}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"02 empty in quotes", []string{`""`}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"02 a quote", []string{`"`}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"03 a quote missing at the end", []string{`"0123456789abcdef`}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"03 a quote missing at the beginning", []string{`0123456789abcdef"`}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"03 other quotes", []string{`'0123456789abcdef'`}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"03 an escape", []string{`"01234567\"89abcdef"`}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"04 space inside", []string{"01234567 89abcdef"}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"04 space inside quotes", []string{`" 0123456789abcdef "`}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"05 parameters", []string{`"0123456789abcdef";a=1`}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"06 two lines", []string{"0123456789abcdef", "0123456789abcdeg"}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"06 two equal lines", []string{"0123456789abcdef", "0123456789abcdef"}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"06 two lines joined by a proxy", []string{"0123456789abcdef, 0123456789abcdeg"}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"07 emoji", []string{"0123456789abcdef🙂"}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"07 composed", []string{"0123456789abcdé"}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"07 decomposed", []string{"0123456789abcdé"}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"07 zero width", []string{"01234567\u200b89abcdef"}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"07 not UTF-8", []string{"0123456789abcdef\xff"}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"09 too short", []string{short}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"09 too long", []string{strings.Repeat("k", 256)}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"09 longest in quotes and one more", []string{`"` + strings.Repeat("k", 256) + `"`}, "IDEMPOTENCY_KEY_MALFORMED"},
		{"09 shortest", []string{short + "6"}, ""},
		{"09 longest", []string{strings.Repeat("k", 255)}, ""},
		{"09 longest in quotes", []string{`"` + strings.Repeat("q", 255) + `"`}, ""},
		{"09 all characters", []string{"AZaz09._:-AZaz09"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var headers []string
			for _, v := range c.values {
				headers = append(headers, "Idempotency-Key", v)
			}
			r := s.ask(t, "shimul", "POST", "/v1/transfers", payment("1"), headers...)
			if c.code == "" && r.status != 201 || c.code != "" && (r.status != 400 || r.code() != c.code) {
				t.Errorf("%v", r)
			}
		})
	}
	s.moved(t, 4)
}

// raw sends bytes as they are, and gives what comes back.
func (s *server) raw(t testing.TB, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String()) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(body))
}

func rawPayment(key, body string) string {
	return "POST /v1/transfers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sandbox-shimul\r\nContent-Type: application/json\r\nIdempotency-Key:" + key +
		fmt.Sprintf("\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
}

// What a well-behaved client cannot send.
func TestEdge_KeyOnTheWire(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, c := range []struct{ name, key, want string }{
		{"04 spaces around", " \t0123456789abcdef \t", "201 "},
		{"04 none around", "0123456789abcdef", "201 "}, // the same key
		{"08 NUL", " 0123456789abcdef\x00", "400 "},
		{"08 control", " 01234567\x0189abcdef", "400 "},
		{"08 folded line", " 01234567\r\n 89abcdef", "400 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := s.raw(t, rawPayment(c.key, payment("1"))); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s", got)
			}
		})
	}
	s.moved(t, 1)
}

func TestEdge_KeyScope(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const key = "a-key-in-small-letters"
	first := s.pay(t, key, "1")
	if r := s.pay(t, strings.ToUpper(key), "1"); r.status != 201 || r.replayed != "" || r.body == first.body { // 10
		t.Errorf("in capitals: %v", r)
	}
	// 11: another's key is as one that is free, whatever is asked for under it.
	for _, body := range []string{
		`{"from":"wallet:tithi","to":"wallet:shimul","amount":"1","currency":"BDT"}`,
		`{"from":"wallet:tithi","to":"wallet:shimul","amount":"1.00","currency":"BDT"}`,
	} {
		if r := s.ask(t, "tithi", "POST", "/v1/transfers", body, "Idempotency-Key", key); r.status != 201 || r.location == first.location {
			t.Errorf("another user: %v", r)
		}
	}
	if r := s.ask(t, "support", "GET", "/v1/transfers/by-idempotency-key/"+key, ""); r.status != 404 {
		t.Errorf("another user looks: %v", r)
	}
	if r := s.ask(t, "shimul", "GET", "/v1/transfers/by-idempotency-key/"+key, ""); r.status != 200 || !strings.Contains(r.body, strings.TrimSpace(first.body)) {
		t.Errorf("the user looks: %v", r)
	}
	if r := s.ask(t, "shimul", "GET", "/v1/transfers/by-idempotency-key/short", ""); r.status != 400 {
		t.Errorf("a malformed key: %v", r)
	}
	// 13: a key names one payment, whichever route it is sent to.
	number := strings.TrimPrefix(first.location, "/v1/transfers/")
	refund := fmt.Sprintf(`{"transfer_id":%q,"amount":"1","expected_refunded":"0","reason":"goodwill"}`, number)
	if r := s.ask(t, "tithi", "POST", "/v1/refunds", refund, "Idempotency-Key", key); r.status != 422 || r.code() != "IDEMPOTENCY_KEY_REUSED" {
		t.Errorf("the key of a transfer for a refund: %v", r)
	}
	if r := s.ask(t, "tithi", "POST", "/v1/refunds", refund, "Idempotency-Key", "the-key-of-a-refund"); r.status != 201 || r.replayed != "" {
		t.Errorf("a refund: %v", r)
	}
	if r := s.ask(t, "tithi", "POST", "/v1/transfers", `{"from":"wallet:tithi","to":"wallet:shimul","amount":"1","currency":"BDT"}`,
		"Idempotency-Key", "the-key-of-a-refund"); r.status != 422 || r.code() != "IDEMPOTENCY_KEY_REUSED" {
		t.Errorf("the key of a refund for a transfer: %v", r)
	}
	// 14: GET, HEAD and PUT take no notice of a key.
	for _, c := range [][2]string{{"GET", ""}, {"HEAD", ""}, {"PUT", `{"name":"Shimul"}`}, {"PUT", `{"name":"Shimul again"}`}} {
		if r := s.ask(t, "shimul", c[0], "/v1/wallets/wallet:shimul", c[1], "Idempotency-Key", key); r.status != 200 || r.replayed != "" {
			t.Errorf("%s with a key: %v", c[0], r)
		}
	}
	ledgertest.CheckBooks(t, s.db)
}

// people lets tests say who a token is.
type people struct {
	mu     sync.Mutex
	tokens map[string]payapi.Principal
}

func (p *people) set(token string, who payapi.Principal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens[token] = who
}

func (p *people) authenticate(r *http.Request) (payapi.Principal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	who, ok := p.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer sandbox-")]
	if !ok {
		return payapi.Principal{}, ledger.Errorf(ledger.CodeUnauthenticated, "no such token")
	}
	return who, nil
}

// 12, 63, 54: keys belong to the user, whichever token is used; and who may not pay any more is not given the answer either.
func TestEdge_Credentials(t *testing.T) {
	t.Parallel()
	first := setup(t)
	owns := func(id ledger.AccountID) bool { return id == "wallet:shimul" }
	p := &people{tokens: map[string]payapi.Principal{"old": {Name: "user:7", Owns: owns}}}
	s := serve(t, first.db, pg.Config{DSN: first.db.ServiceDSN()}, func(c *payapi.Config) { c.Authenticate = p.authenticate })
	try := func(token string) reply {
		return s.ask(t, token, "POST", "/v1/transfers", payment("1"), "Idempotency-Key", "a-key-of-many-tokens")
	}
	if r := try("new"); r.status != 401 {
		t.Errorf("a token that is not known yet: %v", r)
	}
	paid := try("old")
	if paid.status != 201 || paid.replayed != "" {
		t.Fatal(paid)
	}
	p.set("new", payapi.Principal{Name: "user:7", Owns: owns})
	if r := try("new"); !r.sameAs(paid) || r.replayed != "true" {
		t.Errorf("another token: %v", r)
	}
	p.set("new", payapi.Principal{Name: "user:7", Owns: func(ledger.AccountID) bool { return false }})
	if r := try("new"); r.status != 403 || r.replayed != "" || r.location != "" || strings.Contains(r.body, "TXN-") {
		t.Errorf("a grant that is revoked: %+v", r)
	}
	p.set("new", payapi.Principal{Name: "user:7", Owns: owns})
	if r := try("new"); !r.sameAs(paid) || r.replayed != "true" {
		t.Errorf("a grant that is back: %v", r)
	}
	s.moved(t, 1)
}

// Bodies of one meaning are one payment; others are not, and do not touch the answer.
func TestEdge_SameMeaning(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const key = "a-key-of-many-bodies"
	first := s.ask(t, "shimul", "POST", "/v1/transfers", `{"from":"wallet:shimul","to":"wallet:tithi","amount":"1.00","currency":"BDT"}`, "Idempotency-Key", key)
	if first.status != 201 {
		t.Fatal(first)
	}
	for _, c := range []struct {
		name, body string
		headers    []string
	}{
		{"16 whitespace", " {\n\t\"from\" : \"wallet:shimul\", \"to\":\"wallet:tithi\",\r\n\"amount\":\"1.00\",\"currency\":\"BDT\" }\n", nil},
		{"16 order", `{"currency":"BDT","amount":"1.00","to":"wallet:tithi","from":"wallet:shimul"}`, nil},
		{"16 escapes", `{"from":"\u0077allet:shimul","to":"wallet:tithi","\u0061mount":"1.00","currency":"BDT"}`, nil},
		{"18 one decimal", `{"from":"wallet:shimul","to":"wallet:tithi","amount":"1.0","currency":"BDT"}`, nil},
		{"18 no decimals", `{"from":"wallet:shimul","to":"wallet:tithi","amount":"1","currency":"BDT"}`, nil},
		{"22 the default", `{"from":"wallet:shimul","to":"wallet:tithi","amount":"1","currency":"BDT","note":""}`, nil},
		{"24 headers", `{"from":"wallet:shimul","to":"wallet:tithi","amount":"1","currency":"BDT"}`, []string{
			"User-Agent", "another", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "X-Forwarded-For", "10.0.0.1",
			"X-Stainless-Retry-Count", "2", "Accept-Encoding", "identity"}},
		{"24 media type", `{"from":"wallet:shimul","to":"wallet:tithi","amount":"1","currency":"BDT"}`, []string{"Content-Type", "application/json; charset=utf-8"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r := s.ask(t, "shimul", "POST", "/v1/transfers", c.body, append(c.headers, "Idempotency-Key", key)...); !r.sameAs(first) || r.replayed != "true" {
				t.Errorf("%+v", r)
			}
		})
	}
	for _, c := range []struct{ name, body string }{
		{"26 amount", `{"from":"wallet:shimul","to":"wallet:tithi","amount":"1.01","currency":"BDT"}`},
		{"26 payee", `{"from":"wallet:shimul","to":"wallet:rupa","amount":"1.00","currency":"BDT"}`},
		{"26 note", `{"from":"wallet:shimul","to":"wallet:tithi","amount":"1.00","currency":"BDT","note":"x"}`},
		{"26 note of a space", `{"from":"wallet:shimul","to":"wallet:tithi","amount":"1.00","currency":"BDT","note":" "}`},
		{"26 currency", `{"from":"wallet:shimul","to":"wallet:tithi","amount":"1.00","currency":"USD"}`},
		{"26 more than there is", `{"from":"wallet:shimul","to":"wallet:tithi","amount":"100000.00","currency":"BDT"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := s.ask(t, "shimul", "POST", "/v1/transfers", c.body, "Idempotency-Key", key)
			if r.status != 422 || r.code() != "IDEMPOTENCY_KEY_REUSED" || r.location != "" || r.retryAfter != "" {
				t.Errorf("%+v", r)
			}
			// 26: it did no harm to the answer.
			if again := s.ask(t, "shimul", "POST", "/v1/transfers", `{"from":"wallet:shimul","to":"wallet:tithi","amount":"1.00","currency":"BDT"}`,
				"Idempotency-Key", key); !again.sameAs(first) {
				t.Errorf("the payment afterwards: %+v", again)
			}
		})
	}
	s.moved(t, 1)
}

// What is malformed is not stored: with the body mended the same key pays.
func TestEdge_Malformed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const key = "a-key-that-is-never-used-up"
	with := func(amount string) string { return strings.Replace(payment("1"), `"1"`, amount, 1) }
	for _, c := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"18 a number", with(`1`), 400, "INVALID_ARGUMENT"},
		{"18 a number with decimals", with(`1.00`), 400, "INVALID_ARGUMENT"},
		{"18 exponent", with(`"1e2"`), 400, "INVALID_ARGUMENT"},
		{"18 sign", with(`"+1"`), 400, "INVALID_ARGUMENT"},
		{"18 negative", with(`"-1"`), 400, "INVALID_ARGUMENT"},
		{"18 zero", with(`"0"`), 400, "INVALID_ARGUMENT"},
		{"18 zero with decimals", with(`"0.00"`), 400, "INVALID_ARGUMENT"},
		{"18 leading zero", with(`"01"`), 400, "INVALID_ARGUMENT"},
		{"18 no digits before the point", with(`".5"`), 400, "INVALID_ARGUMENT"},
		{"18 no digits after the point", with(`"1."`), 400, "INVALID_ARGUMENT"},
		{"18 comma", with(`"1,00"`), 400, "INVALID_ARGUMENT"},
		{"18 space", with(`" 1"`), 400, "INVALID_ARGUMENT"},
		{"18 other digits", with(`"১"`), 400, "INVALID_ARGUMENT"},
		{"18 too many digits", with(`"` + strings.Repeat("9", 39) + `"`), 400, "INVALID_ARGUMENT"},
		{"18 too precise", with(`"1.001"`), 422, "AMOUNT_SCALE"},
		{"18 not a number", with(`"NaN"`), 400, "INVALID_ARGUMENT"},
		{"18 empty", with(`""`), 400, "INVALID_ARGUMENT"},
		{"19 a name twice", strings.Replace(payment("1"), "{", `{"amount":"2",`, 1), 400, "INVALID_ARGUMENT"},
		{"19 a name twice with one value", strings.Replace(payment("1"), "{", `{"amount":"1",`, 1), 400, "INVALID_ARGUMENT"},
		{"19 a name twice by an escape", strings.Replace(payment("1"), "{", `{"\u0061mount":"2",`, 1), 400, "INVALID_ARGUMENT"},
		{"19 a name in capitals", strings.Replace(payment("1"), "amount", "AMOUNT", 1), 400, "INVALID_ARGUMENT"},
		{"19 a name in both", strings.Replace(payment("1"), "{", `{"Amount":"2",`, 1), 400, "INVALID_ARGUMENT"},
		{"19 a name in letters that fold", strings.Replace(payment("1"), `"note"`, `"reaſon"`, 1), 400, "INVALID_ARGUMENT"},
		{"20 an unknown field", strings.Replace(payment("1"), "{", `{"fee":"0",`, 1), 400, "INVALID_ARGUMENT"},
		{"20 a field of a refund", strings.Replace(payment("1"), "{", `{"reason":"goodwill",`, 1), 400, "INVALID_ARGUMENT"},
		{"21 something after it", payment("1") + `x`, 400, "INVALID_ARGUMENT"},
		{"21 another object after it", payment("1") + payment("1"), 400, "INVALID_ARGUMENT"},
		{"21 a brace after it", payment("1") + `}`, 400, "INVALID_ARGUMENT"},
		{"22 null for a field", strings.Replace(payment("1"), `"coaching"`, `null`, 1), 400, "INVALID_ARGUMENT"},
		{"22 null for the amount", with(`null`), 400, "INVALID_ARGUMENT"},
		{"22 null", `null`, 400, "INVALID_ARGUMENT"},
		{"22 a list", `[` + payment("1") + `]`, 400, "INVALID_ARGUMENT"},
		{"22 a string", `"x"`, 400, "INVALID_ARGUMENT"},
		{"22 an empty object", `{}`, 400, "INVALID_ARGUMENT"},
		{"27 half of it", payment("1")[:30], 400, "INVALID_ARGUMENT"},
		{"53 not JSON", `amount=1`, 400, "INVALID_ARGUMENT"},
		{"53 not UTF-8", strings.Replace(payment("1"), "coaching", "coa\xffching", 1), 400, "INVALID_ARGUMENT"},
		{"53 half of a surrogate pair", strings.Replace(payment("1"), "coaching", `\ud83d`, 1), 400, "INVALID_ARGUMENT"},
		{"53 NUL in the note", strings.Replace(payment("1"), "coaching", `coa\u0000ching`, 1), 400, "INVALID_ARGUMENT"},
		{"53 a long note", strings.Replace(payment("1"), "coaching", strings.Repeat("x", 1025), 1), 400, "INVALID_ARGUMENT"},
		{"53 no payee", strings.Replace(payment("1"), "wallet:tithi", "", 1), 400, "INVALID_ARGUMENT"},
		{"53 to oneself", strings.Replace(payment("1"), "wallet:tithi", "wallet:shimul", 1), 400, "INVALID_ARGUMENT"},
		{"53 a space in a wallet", strings.Replace(payment("1"), "wallet:tithi", "wallet:ti thi", 1), 400, "INVALID_ARGUMENT"},
		{"53 not a wallet", strings.Replace(payment("1"), "wallet:tithi", "cash", 1), 422, "NOT_A_WALLET"},
		{"53 an unknown wallet", strings.Replace(payment("1"), "wallet:tithi", "wallet:nobody", 1), 422, "ACCOUNT_NOT_FOUND"},
		{"53 a malformed currency", strings.Replace(payment("1"), "BDT", "B D", 1), 400, "INVALID_ARGUMENT"},
		{"53 another currency", strings.Replace(payment("1"), "BDT", "USD", 1), 422, "CURRENCY_MISMATCH"},
		{"54 another's wallet", strings.Replace(payment("1"), "wallet:shimul", "wallet:rupa", 1), 403, "PERMISSION_DENIED"},
		{"54 too large", strings.Replace(payment("1"), "coaching", strings.Repeat("x", 64<<10), 1), 413, "REQUEST_TOO_LARGE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := s.ask(t, "shimul", "POST", "/v1/transfers", c.body, "Idempotency-Key", key)
			for _, word := range []string{"description", "debit", "credit", "Go struct", "khata:TXN"} {
				if strings.Contains(r.body, word) {
					t.Errorf("in the words of another: %v", r)
				}
			}
			if r.status != c.status || r.code() != c.code || r.kind != "application/problem+json" || r.replayed != "" || r.location != "" || r.retryAfter != "" {
				t.Errorf("%+v", r)
			}
		})
	}
	for _, c := range []struct {
		name, user, method, path string
		headers                  []string
		status                   int
		code                     string
	}{
		{"54 nobody", "", "POST", "/v1/transfers", nil, 401, "UNAUTHENTICATED"},
		{"54 another method", "shimul", "DELETE", "/v1/transfers", nil, 405, "METHOD_NOT_ALLOWED"},
		{"54 another path", "shimul", "POST", "/v1/transfer", nil, 404, "NOT_FOUND"},
		{"54 a form", "shimul", "POST", "/v1/transfers", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"54 text", "shimul", "POST", "/v1/transfers", []string{"Content-Type", "text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"54 no media type", "shimul", "POST", "/v1/transfers", []string{"Content-Type", ""}, 415, "UNSUPPORTED_MEDIA_TYPE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := s.ask(t, c.user, c.method, c.path, payment("1"), append(c.headers, "Idempotency-Key", key)...)
			if r.status != c.status || r.code() != c.code || r.kind != "application/problem+json" {
				t.Errorf("%+v", r)
			}
		})
	}
	s.moved(t, 0)
	if n := s.number(t, "SELECT count(*) FROM payment_key"); n != 0 {
		t.Errorf("%d keys are used up", n)
	}
	if r := s.pay(t, key, "1"); r.status != 201 || r.replayed != "" {
		t.Errorf("the mended request: %v", r)
	}
	s.moved(t, 1)
}

// 27: an upload that breaks off is nothing.
func TestEdge_UploadBreaksOff(t *testing.T) {
	t.Parallel()
	s := setup(t)
	whole := rawPayment(" an-upload-that-breaks-off", payment("1"))
	for cut := 1; cut < len(whole); cut += 40 {
		conn, err := net.Dial("tcp", s.Listener.Addr().String()) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(whole[:cut]))
		_ = conn.Close()
	}
	if r := s.pay(t, "an-upload-that-breaks-off", "1"); r.status != 201 || r.replayed != "" {
		t.Errorf("%+v", r)
	}
	s.moved(t, 1)
}

// 52, 64: a refusal of the books is kept, and so is the answer to what has been given back since.
func TestEdge_Kept(t *testing.T) {
	t.Parallel()
	s := setup(t)
	paid := s.pay(t, "a-payment-given-back", "2")
	number := strings.TrimPrefix(paid.location, "/v1/transfers/")
	refund := func(key, body string) reply {
		return s.ask(t, "tithi", "POST", "/v1/refunds", strings.Replace(body, "TXN", number, 1), "Idempotency-Key", key)
	}
	const part = `{"transfer_id":"TXN","amount":"0.50","expected_refunded":"0","reason":"wrong_amount"}`
	first := refund("a-refund-of-a-part", part)
	if first.status != 201 || !strings.Contains(first.body, `"kind":"refund"`) {
		t.Fatal(first)
	}
	if r := refund("a-refund-of-a-part", strings.Replace(part, `"0"`, `"0.00"`, 1)); !r.sameAs(first) || r.replayed != "true" {
		t.Errorf("the refund again: %v", r)
	}
	no := refund("a-refund-that-is-refused", part)
	if no.status != 422 || no.code() != "REFUNDED_CHANGED" || no.location == "" || no.replayed != "" {
		t.Errorf("another refund: %v", no)
	}
	if r := refund("a-refund-that-is-refused", part); !r.sameAs(no) || r.replayed != "true" {
		t.Errorf("another refund again: %v", r)
	}
	if r := refund("a-refund-of-the-rest", `{"transfer_id":"TXN","everything":true,"expected_refunded":"0.5","reason":"goodwill"}`); r.status != 201 {
		t.Errorf("the rest: %v", r)
	}
	if r := refund("a-refund-of-too-much", `{"transfer_id":"TXN","amount":"1","expected_refunded":"2","reason":"goodwill"}`); r.status != 422 || r.code() != "REFUND_EXCEEDS_REST" {
		t.Errorf("too much: %v", r)
	}
	for _, body := range []string{ // 22
		`{"transfer_id":"TXN","amount":"1","everything":true,"expected_refunded":"2","reason":"goodwill"}`,
		`{"transfer_id":"TXN","expected_refunded":"2","reason":"goodwill"}`,
		`{"transfer_id":"TXN","everything":false,"expected_refunded":"2","reason":"goodwill"}`,
		`{"transfer_id":"TXN","everything":null,"expected_refunded":"2","reason":"goodwill"}`,
		`{"transfer_id":"TXN","everything":"true","expected_refunded":"2","reason":"goodwill"}`,
		`{"transfer_id":"TXN","everything":true,"reason":"goodwill"}`,
		`{"transfer_id":"TXN","everything":true,"expected_refunded":"-1","reason":"goodwill"}`,
		`{"transfer_id":"TXN","everything":true,"expected_refunded":"2","reason":"because"}`,
		`{"transfer_id":"TXN","everything":true,"expected_refunded":"2"}`,
	} {
		if r := refund("a-refund-that-is-malformed", body); r.status != 400 {
			t.Errorf("%s: %v", body, r)
		}
	}
	if r := s.ask(t, "tithi", "POST", "/v1/refunds", `{"transfer_id":"TXN-AAAAAAAAAAAAAAAAAAAAAAAAAA","everything":true,"expected_refunded":"0","reason":"goodwill"}`,
		"Idempotency-Key", "a-refund-of-nothing"); r.status != 404 {
		t.Errorf("of nothing: %v", r)
	}
	if r := s.ask(t, "shimul", "POST", "/v1/refunds", strings.Replace(part, "TXN", number, 1), "Idempotency-Key", "a-refund-by-the-payer"); r.status != 403 {
		t.Errorf("by the payer: %v", r)
	}
	for _, origin := range []reply{s.pay(t, "a-payment-that-is-refused", "5000"), first} { // of a refusal, and of a refund
		body := strings.Replace(part, "TXN", strings.TrimPrefix(origin.location, "/v1/transfers/"), 1)
		if r := s.ask(t, "service", "POST", "/v1/refunds", body, "Idempotency-Key", "a-refund-that-can-never-be"); r.status != 422 || r.code() != "WRONG_ORIGIN" ||
			r.location != "" || !strings.Contains(r.body, `"field":"transfer_id"`) || strings.Contains(r.body, "khata:TXN") {
			t.Errorf("%+v", r)
		}
	}
	// Nothing is left of it. Support has a desk for refunds, and not this.
	for who, want := range map[string]int{"service": 422, "support": 403} {
		if r := s.ask(t, who, "POST", "/v1/refunds", strings.Replace(part, "TXN", number, 1), "Idempotency-Key", "a-refund-by-another"); r.status != want {
			t.Errorf("by %s: %v", who, r)
		}
	}
	// 64
	if r := s.pay(t, "a-payment-given-back", "2"); !r.sameAs(paid) || r.replayed != "true" {
		t.Errorf("the payment again: %v", r)
	}
	if r := s.ask(t, "shimul", "GET", paid.location, ""); r.status != 200 || !strings.Contains(r.body, `"status":"posted","refunded":"2.00","refundable":"0.00","refunds":["TXN-`) {
		t.Errorf("the payment as it stands: %v", r)
	}
	if r := s.ask(t, "shimul", "GET", no.location, ""); r.status != 404 { // whom money did not reach
		t.Errorf("%v", r)
	}
	if r := s.ask(t, "tithi", "GET", no.location, ""); r.status != 200 || !strings.Contains(r.body, `"status":"refused"`) {
		t.Errorf("%v", r)
	}
	if r := s.ask(t, "rupa", "GET", paid.location, ""); r.status != 404 {
		t.Errorf("%v", r)
	}
	if r := s.ask(t, "shimul", "GET", "/v1/wallets/wallet:shimul/entries?limit=2", ""); r.status != 200 || !strings.Contains(r.body, `"next":"`) {
		t.Errorf("%v", r)
	}
	for _, query := range []string{"limit=0", "limit=201", "limit=x", "after=x", "after=1", "after=-1.0"} {
		if r := s.ask(t, "shimul", "GET", "/v1/wallets/wallet:shimul/entries?"+query, ""); r.status != 400 {
			t.Errorf("%s: %v", query, r)
		}
	}
	for _, path := range []string{"wallet:tithi", "cash", "wallet:tithi/entries", "wallet:shimul:nothing"} {
		if r := s.ask(t, "shimul", "GET", "/v1/wallets/"+path, ""); r.status != 404 || r.code() != "ACCOUNT_NOT_FOUND" {
			t.Errorf("%s: %v", path, r)
		}
	}
	ledgertest.CheckBooks(t, s.db)
}

// 25, 29, 43: while the first is running the same again is 409; so is another body, whose 422 comes when there is something to compare with.
func TestEdge_StillRunning(t *testing.T) {
	t.Parallel()
	s := setup(t)
	faults := pgtest.NewFaults(t)
	slow := serve(t, s.db, pg.Config{DSN: s.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
	// Between wallets without a floor, which nobody waits for.
	if _, err := s.journal.CreateAccounts(t.Context(), "local", "", []ledger.AccountSpec{
		{ID: "wallet:shimul:open", Type: ledger.Liability, Currency: "BDT"}, {ID: "wallet:open", Type: ledger.Liability, Currency: "BDT"},
	}); err != nil {
		t.Fatal(err)
	}
	pay := func(s *server, amount string) (reply, error) {
		body := strings.Replace(strings.Replace(payment(amount), "wallet:shimul", "wallet:shimul:open", 1), "wallet:tithi", "wallet:open", 1)
		return s.try("shimul", "POST", "/v1/transfers", body, "Idempotency-Key", "a-payment-that-takes-long")
	}
	again := func(amount string) reply {
		r, err := pay(s, amount)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	release := faults.HoldCommits()
	done := untilCommit(t, faults, func() (reply, error) { return pay(slow, "1") })
	for _, amount := range []string{"1", "2"} {
		if r := again(amount); r.status != 409 || r.code() != "IDEMPOTENCY_IN_PROGRESS" || r.retryAfter != "1" || r.replayed != "" {
			t.Errorf("%s while it is running: %+v", amount, r)
		}
	}
	if r := s.ask(t, "shimul", "GET", "/v1/transfers/by-idempotency-key/a-payment-that-takes-long", ""); r.status != 404 {
		t.Errorf("a look while it is running: %v", r)
	}
	release()
	first := <-done
	if first.status != 201 || first.replayed != "" {
		t.Fatal(first)
	}
	if r := again("1"); !r.sameAs(first) || r.replayed != "true" {
		t.Errorf("afterwards: %+v", r)
	}
	if r := again("2"); r.status != 422 {
		t.Errorf("another body afterwards: %+v", r)
	}
	if got := s.balance(t, "wallet:open"); got != "1" {
		t.Errorf("%s went over", got)
	}
	ledgertest.CheckBooks(t, s.db)
}

// 29: whoever waited for the wallets behind the first looks once more, and has its answer.
func TestEdge_WaitedForTheFirst(t *testing.T) {
	t.Parallel()
	s := setup(t)
	faults := pgtest.NewFaults(t)
	slow := serve(t, s.db, pg.Config{DSN: s.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
	release := faults.HoldCommits()
	done := untilCommit(t, faults, func() (reply, error) {
		return slow.try("shimul", "POST", "/v1/transfers", payment("1"), "Idempotency-Key", "a-payment-that-takes-long")
	})
	var wg sync.WaitGroup
	var same, other reply
	wg.Go(func() {
		same, _ = s.try("shimul", "POST", "/v1/transfers", payment("1"), "Idempotency-Key", "a-payment-that-takes-long")
	})
	wg.Go(func() {
		other, _ = s.try("shimul", "POST", "/v1/transfers", payment("2"), "Idempotency-Key", "a-payment-that-takes-long")
	})
	const waiting = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()"
	for end := time.Now().Add(time.Minute); s.number(t, waiting) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody waits for the wallets")
		}
	}
	release()
	first := <-done
	wg.Wait()
	if first.status != 201 || !same.sameAs(first) || same.replayed != "true" {
		t.Errorf("%+v, first %+v", same, first)
	}
	if other.status != 422 || other.code() != "IDEMPOTENCY_KEY_REUSED" {
		t.Errorf("%+v", other)
	}
	s.moved(t, 1)
}

// 31, 34, 43: a commit whose answer is lost. The server itself finds out, and the first answer that anyone sees is not a replay.
func TestEdge_LostCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		cut  func(*pgtest.Faults)
	}{
		{"before", func(f *pgtest.Faults) { f.CutBeforeCommit(1) }},
		{"after", func(f *pgtest.Faults) { f.CutAfterCommit(1) }},
		{"both and again", func(f *pgtest.Faults) { f.CutBeforeCommit(2); f.CutAfterCommit(2) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			faults := pgtest.NewFaults(t)
			broken := serve(t, s.db, pg.Config{DSN: s.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
			for i, amount := range []string{"1", "5000"} { // one that is paid, one that is refused
				key := fmt.Sprint("a-commit-whose-answer-is-lost-", i)
				c.cut(faults)
				before := faults.Cuts()
				first := broken.pay(t, key, amount)
				for first.status == 409 || first.status == 503 { // The old backend may still have the key for a moment.
					if first.retryAfter == "" {
						t.Errorf("%+v", first)
					}
					first = broken.pay(t, key, amount)
				}
				if first.status != []int{201, 422}[i] || faults.Cuts() == before {
					t.Fatalf("%d cuts, %+v", faults.Cuts()-before, first)
				}
				faults.CutBeforeCommit(0)
				faults.CutAfterCommit(0)
				for _, again := range []reply{s.pay(t, key, amount), broken.pay(t, key, amount)} {
					if !again.sameAs(first) || again.replayed != "true" {
						t.Errorf("again: %+v, first %+v", again, first)
					}
				}
			}
			s.moved(t, 1)
		})
	}
}

// The same without a 409 in between, which the test above allows: the answer was committed, and this very request wrote it.
func TestEdge_LostCommitIsNoReplay(t *testing.T) {
	t.Parallel()
	s := setup(t)
	faults := pgtest.NewFaults(t)
	broken := serve(t, s.db, pg.Config{DSN: s.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
	fresh := 0
	for i := range 10 {
		faults.CutAfterCommit(1)
		switch r := broken.pay(t, fmt.Sprint("a-commit-whose-answer-is-lost-", i), "1"); {
		case r.status == 201 && r.replayed == "":
			fresh++
		case r.status != 409:
			t.Errorf("%+v", r)
		}
	}
	if fresh == 0 {
		t.Error("none of 10 was answered as the first")
	}
	s.moved(t, 10)
}

// 34: the database ends everyone's connection in the middle of it: nothing is stored, and the key is free.
func TestEdge_DatabaseRestarts(t *testing.T) {
	t.Parallel()
	s := setup(t)
	faults := pgtest.NewFaults(t)
	slow := serve(t, s.db, pg.Config{DSN: s.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
	for i := range 3 {
		release := faults.HoldCommits()
		done := untilCommit(t, faults, func() (reply, error) {
			return slow.try("shimul", "POST", "/v1/transfers", payment("1"), "Idempotency-Key", fmt.Sprint("the-database-restarts-", i))
		})
		s.db.KillBackends(t)
		release()
		first := <-done
		if first.status != 201 && first.status != 503 || first.replayed != "" {
			t.Errorf("%+v", first)
		}
		for {
			r, err := slow.try("shimul", "POST", "/v1/transfers", payment("1"), "Idempotency-Key", fmt.Sprint("the-database-restarts-", i))
			if err == nil && r.status == 201 {
				break
			}
			if err != nil || r.status != 503 && r.status != 409 {
				t.Fatalf("%v %+v", err, r)
			}
		}
	}
	for s.ask(t, "shimul", "GET", "/v1/wallets/wallet:shimul", "").status == 503 { // Its own connections were ended too.
	}
	s.moved(t, 3)
}

// 28, 47: callers hang up at every moment. What has begun is brought to its end, without anyone asking again.
func TestEdge_HangUp(t *testing.T) {
	t.Parallel()
	s := setup(t)
	faults := pgtest.NewFaults(t)
	// On a machine that is busy a request may not have its turn within a quarter of the budget, and is then not begun.
	slow := serve(t, s.db, pg.Config{DSN: s.db.ServiceDSN(), Dial: faults.DialFunc(nil)}, budget(t, time.Minute))
	slow.pay(t, "what-opens-a-connection", "1")
	faults.Delay(20 * time.Millisecond)
	var wg sync.WaitGroup
	const tries = 20
	for i := range tries {
		wg.Go(func() {
			key := fmt.Sprintf("a-caller-that-hangs-up-%02d", i)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, "POST", slow.URL+"/v1/transfers", strings.NewReader(payment("1")))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer sandbox-shimul")
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", key)
			// The time that it takes to be sent is not counted: the server reads it with nobody in between.
			sent := make(chan struct{})
			slow.hear(key, sent)
			go func() {
				<-sent
				time.Sleep(time.Duration(i) * 6 * time.Millisecond)
				cancel()
			}()
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
			} else if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				if r, err := s.try("shimul", "GET", "/v1/transfers/by-idempotency-key/"+key, ""); err == nil && r.status == 200 {
					break
				}
				if time.Now().After(deadline) {
					t.Errorf("a caller that hung up after %d ms has stopped its payment", i*6)
					return
				}
			}
			if r, err := s.try("shimul", "POST", "/v1/transfers", payment("1"), "Idempotency-Key", key); err != nil || r.status != 201 || r.replayed != "true" {
				t.Errorf("again: %v %+v", err, r)
			}
		})
	}
	wg.Wait()
	s.moved(t, tries+1)
}

// 37, 78: the server dies between commit and answer, on a connection that was used before. Go's client then sends a request that has an
// Idempotency-Key again by itself, and sees one answer, to its second try.
func TestEdge_CrashBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var seen, dies atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		if dies.Add(-1) == 0 {
			given := httptest.NewRecorder()
			s.api.ServeHTTP(given, r)
			if given.Code != 201 || given.Header().Get("Idempotent-Replayed") != "" {
				t.Errorf("%d %s", given.Code, given.Body)
			}
			panic(http.ErrAbortHandler)
		}
		s.api.ServeHTTP(w, r)
	}))
	defer front.Close()
	through := &server{Server: front}
	if r := through.ask(t, "shimul", "GET", "/v1/wallets/wallet:shimul", ""); r.status != 200 {
		t.Fatal(r)
	}
	dies.Store(1)
	r := through.pay(t, "the-server-dies-before-it-answers", "1")
	if r.status != 201 || r.replayed != "true" || seen.Load() != 3 {
		t.Errorf("%d requests, %+v", seen.Load(), r)
	}
	s.moved(t, 1)
}

// 48: a server that is told to stop answers what it has begun.
func TestEdge_GracefulStop(t *testing.T) {
	t.Parallel()
	s := setup(t)
	faults := pgtest.NewFaults(t)
	slow := serve(t, s.db, pg.Config{DSN: s.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
	release := faults.HoldCommits()
	done := untilCommit(t, faults, func() (reply, error) {
		return slow.try("shimul", "POST", "/v1/transfers", payment("1"), "Idempotency-Key", "the-server-is-told-to-stop")
	})
	stopping, stopped := make(chan struct{}), make(chan error)
	slow.Config.RegisterOnShutdown(func() { close(stopping) })
	go func() { stopped <- slow.Config.Shutdown(t.Context()) }()
	<-stopping
	release()
	if r := <-done; r.status != 201 || r.replayed != "" {
		t.Errorf("%+v", r)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	s.moved(t, 1)
}

// 49: a handler that panics.
func TestEdge_Panic(t *testing.T) {
	t.Parallel()
	first := setup(t)
	var panics atomic.Bool
	s := serve(t, first.db, pg.Config{DSN: first.db.ServiceDSN()}, func(c *payapi.Config) {
		c.Authenticate = func(r *http.Request) (payapi.Principal, error) {
			who, err := payapi.Sandbox(r)
			owns := who.Owns
			who.Owns = func(id ledger.AccountID) bool {
				if panics.Load() {
					panic("a bug")
				}
				return owns(id)
			}
			return who, err
		}
	})
	panics.Store(true)
	for range 2 {
		r := s.pay(t, "a-handler-that-panics", "1")
		if r.status != 500 || r.code() != "INTERNAL" || r.retryAfter == "" || r.replayed != "" || strings.Contains(r.body, "a bug") {
			t.Errorf("%+v", r)
		}
	}
	s.moved(t, 0)
	panics.Store(false)
	if r := s.pay(t, "a-handler-that-panics", "1"); r.status != 201 || r.replayed != "" {
		t.Errorf("%+v", r)
	}
	s.moved(t, 1)
}

// 56, 58: the database is not there, or goes silent in the middle of a commit: 503, with nothing done unprotected.
func TestEdge_NoDatabase(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var gone atomic.Bool
	faults := pgtest.NewFaults(t)
	dial := faults.DialFunc(nil)
	config := pg.Config{DSN: s.db.ServiceDSN(), Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if gone.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
		}
		return dial(ctx, network, addr)
	}}
	cut := serve(t, s.db, config, budget(t, time.Second))
	gone.Store(true)
	faults.CutAll()
	for range 3 {
		if r := cut.pay(t, "a-payment-without-database", "1"); r.status != 503 || r.retryAfter == "" || r.code() != "UNAVAILABLE" {
			t.Errorf("%+v", r)
		}
	}
	if r := cut.ask(t, "shimul", "GET", "/v1/wallets/wallet:shimul", ""); r.status != 503 || r.retryAfter == "" || strings.Contains(r.body, "payment was made") {
		t.Errorf("a look: %+v", r)
	}
	gone.Store(false)
	s.moved(t, 0)
	// Silent in the middle. This one must come as far as its commit, and so has more time.
	silent := serve(t, s.db, config, budget(t, 3*time.Second))
	release := faults.HoldCommits()
	done := untilCommit(t, faults, func() (reply, error) {
		return silent.try("shimul", "POST", "/v1/transfers", payment("1"), "Idempotency-Key", "a-payment-without-database")
	})
	thaw := faults.Freeze()
	release()
	r := <-done
	if r.status != 503 || r.retryAfter == "" || !strings.Contains(r.body, "not known yet") {
		t.Errorf("%+v", r)
	}
	// Its key is held: nobody pays it meanwhile.
	if r := s.pay(t, "a-payment-without-database", "1"); r.status != 409 && r.status != 503 {
		t.Errorf("while it is silent: %+v", r)
	}
	thaw()
	for range 1000 {
		if r = s.pay(t, "a-payment-without-database", "1"); r.status == 201 {
			break
		}
		if r.status != 409 && r.status != 503 {
			t.Fatalf("%+v", r)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if r.status != 201 {
		t.Errorf("%+v", r)
	}
	s.moved(t, 1)
}

// 58: a database that neither answers nor hangs up. No caller's patience bounds the look at a key, so something else must.
func TestEdge_SilentDatabase(t *testing.T) {
	t.Parallel()
	s := setup(t)
	faults := pgtest.NewFaults(t)
	cut := serve(t, s.db, pg.Config{DSN: s.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
	if r := cut.pay(t, "a-payment-before-the-silence", "1"); r.status != 201 {
		t.Fatal(r)
	}
	thaw := faults.Freeze()
	defer thaw()
	began := time.Now()
	if r := cut.pay(t, "a-payment-into-the-silence", "1"); r.status != 503 || r.retryAfter == "" {
		t.Errorf("%+v", r)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	s.moved(t, 1)
}

// 59, 60, 61, 66: a replay has the headers of the first answer, and one more.
func TestEdge_Headers(t *testing.T) {
	t.Parallel()
	s := setup(t)
	ask := func(key, amount string) http.Header {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/transfers", strings.NewReader(payment(amount)))
		req.Header.Set("Authorization", "Bearer sandbox-shimul")
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept-Encoding", "gzip")
		req.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		s.api.ServeHTTP(w, req)
		return w.Result().Header
	}
	for _, c := range []struct{ amount, kind string }{{"1", "application/json"}, {"5000", "application/problem+json"}} {
		key := "the-headers-of-" + c.amount + "-taka"
		want := http.Header{
			"Content-Type": {c.kind}, "Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"},
			"Location": {"/v1/transfers/" + payapi.NumberOf("user:shimul", key)},
		}
		if d := cmp.Diff(want, ask(key, c.amount)); d != "" {
			t.Errorf("first: %s", d)
		}
		want.Set("Idempotent-Replayed", "true")
		if d := cmp.Diff(want, ask(key, c.amount)); d != "" {
			t.Errorf("again: %s", d)
		}
	}
}

// 62, 69, 70: what is stored is what is given, for as long as the window lasts, whatever the day.
func TestEdge_WindowAndMidnight(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, c := range []struct {
		name string
		ago  time.Duration
		kept bool
	}{
		{"70 before midnight", 24 * time.Hour, true},
		{"69 just within the window", payapi.DefaultWindow - time.Minute, true},
		{"69 just after it", payapi.DefaultWindow + time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := "a-key-of-another-day-" + strings.ReplaceAll(c.name, " ", "-")
			first := s.pay(t, key, "1")
			if first.status != 201 {
				t.Fatal(first)
			}
			// The answer of an older release: other bytes of the same meaning.
			s.exec(t, `DO $$ BEGIN IF to_regclass('payment_key_' || to_char(now() AT TIME ZONE 'UTC' - interval '2 days', 'YYYYMMDD')) IS NULL THEN
				EXECUTE format('CREATE TABLE %I PARTITION OF payment_key FOR VALUES FROM (%L) TO (%L)',
					'payment_key_' || to_char(now() AT TIME ZONE 'UTC' - interval '2 days', 'YYYYMMDD'),
					(now() AT TIME ZONE 'UTC')::date - 2, (now() AT TIME ZONE 'UTC')::date - 1);
				END IF; END $$`)
			s.exec(t, `UPDATE payment_key SET created_at = now() - make_interval(secs => $2), day = ((now() - make_interval(secs => $2)) AT TIME ZONE 'UTC')::date,
				body = convert_to(' ' || convert_from(body, 'UTF8'), 'UTF8') WHERE idem_key = $1`, key, c.ago.Seconds())
			for range 2 {
				r := s.pay(t, key, "1")
				if r.status != 201 || r.replayed != "true" || (r.body == " "+first.body) != c.kept || !c.kept && r.body != first.body {
					t.Errorf("%+v, first %+v", r, first)
				}
				if r := s.pay(t, key, "2"); r.status != 422 || r.code() != "IDEMPOTENCY_KEY_REUSED" {
					t.Errorf("another body: %v", r)
				}
			}
			if n := s.number(t, "SELECT count(*) FROM payment_key WHERE idem_key = $1", key); n != 1 {
				t.Errorf("%d rows", n)
			}
		})
	}
	s.moved(t, 3)
}

// 71: an old partition is dropped while a payment is under way. Nobody waits long, nothing is lost, and it is dropped another time.
func TestEdge_DropWhileInFlight(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(t, "CREATE TABLE payment_key_20200101 PARTITION OF payment_key FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')")
	there := func() bool {
		return s.number(t, "SELECT count(*) FROM pg_class WHERE relname = 'payment_key_20200101'") == 1
	}
	faults := pgtest.NewFaults(t)
	slow := serve(t, s.db, pg.Config{DSN: s.db.ServiceDSN(), Dial: faults.DialFunc(nil)})
	if there() {
		t.Fatal("a server that starts does not drop what is old")
	}
	s.exec(t, "CREATE TABLE payment_key_20200101 PARTITION OF payment_key FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')")
	release := faults.HoldCommits()
	done := untilCommit(t, faults, func() (reply, error) {
		return slow.try("shimul", "POST", "/v1/transfers", payment("1"), "Idempotency-Key", "a-payment-in-flight")
	})
	if err := s.api.KeepPartitions(t.Context()); err != nil {
		t.Error(err)
	}
	if !there() {
		t.Error("it was dropped under a payment")
	}
	release()
	if r := <-done; r.status != 201 {
		t.Errorf("%+v", r)
	}
	if err := s.api.KeepPartitions(t.Context()); err != nil {
		t.Error(err)
	}
	if there() {
		t.Error("it was not dropped afterwards")
	}
	s.moved(t, 1)
}

// 55, 57, 73: without a partition for today nothing can be stored, so nothing is paid; the job makes it, and the same key pays.
func TestEdge_PartitionMissing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if n := s.number(t, `SELECT count(*) FROM pg_constraint c JOIN pg_inherits i ON i.inhrelid = c.conrelid
		WHERE i.inhparent = 'payment_key'::regclass AND c.contype = 'p' AND c.conparentid <> 0`); n != 9 {
		t.Errorf("%d of 9 partitions have the key of their parent", n)
	}
	if n := s.number(t, `SELECT count(*) FROM generate_series(-1, 7) d
		WHERE to_regclass('payment_key_' || to_char(now() AT TIME ZONE 'UTC' + d * interval '1 day', 'YYYYMMDD')) IS NOT NULL`); n != 9 {
		t.Errorf("%d of 9 partitions", n)
	}
	s.exec(t, `DO $$ DECLARE name text; BEGIN FOR name IN SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'payment_key'::regclass LOOP
		EXECUTE 'DROP TABLE ' || name; END LOOP; END $$`)
	if r := s.pay(t, "a-payment-of-a-day-without-partition", "1"); r.status != 500 || r.retryAfter == "" {
		t.Errorf("%+v", r)
	}
	s.moved(t, 0)
	// A backup reads the keys, for hours. It holds up neither the job nor payments; and all servers begin at once.
	s.asOwner(t, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "BEGIN; LOCK TABLE payment_key IN ACCESS SHARE MODE"); err != nil {
			return err
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := s.api.KeepPartitions(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if r := s.pay(t, "a-payment-of-a-day-without-partition", "1"); r.status != 201 || r.replayed != "" {
			t.Errorf("%+v", r)
		}
		return nil
	})
	s.moved(t, 1)
}

// 74: nothing refers to a row that is dropped with its day.
func TestEdge_NoForeignKeys(t *testing.T) {
	t.Parallel()
	if n := setup(t).number(t, "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND (confrelid::regclass::text ~ '^payment_key' OR conrelid::regclass::text ~ '^payment_key')"); n != 0 {
		t.Errorf("%d foreign keys", n)
	}
}

// 75: a window that ends before clients stop trying is refused.
func TestEdge_WindowTooShort(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{time.Hour, payapi.LongestRetry} {
		if _, err := payapi.New(t.Context(), payapi.Config{Window: window}); err == nil || ledger.CodeOf(err) != ledger.CodeInvalidArgument {
			t.Errorf("%s: %v", window, err)
		}
	}
}

// 41, 42: no clock but the database's decides. This package does not even ask for another.
func TestEdge_NoClock(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, clock := range []string{"time.Now", "time.Since", "time.Until"} {
			if strings.Contains(string(text), clock) {
				t.Errorf("%s uses %s", file, clock)
			}
		}
	}
}

// 54, 90: what is asked of a path that it does not have, and what a browser asks before it sends.
func TestEdge_MethodsAndOrigins(t *testing.T) {
	t.Parallel()
	first := setup(t)
	s := serve(t, first.db, pg.Config{DSN: first.db.ServiceDSN()}, func(c *payapi.Config) { c.Origins = []string{"https://shop.example"} })
	ask := func(s *server, method, path string, headers ...string) (int, http.Header, string) {
		req := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		recorder{t, s.api}.ServeHTTP(w, req)
		return w.Code, w.Result().Header, w.Body.String()
	}
	for path, allow := range map[string]string{
		"/v1/transfers":                       "OPTIONS, POST",
		"/v1/refunds":                         "OPTIONS, POST",
		"/v1/transfers/x":                     "GET, HEAD, OPTIONS",
		"/v1/transfers/by-idempotency-key/x":  "GET, HEAD, OPTIONS",
		"/v1/wallets/wallet:shimul":           "GET, HEAD, OPTIONS, PUT",
		"/v1/wallets/wallet:shimul/entries":   "GET, HEAD, OPTIONS",
		"/v1/openapi.json":                    "GET, HEAD, OPTIONS",
		"/v1/nothing":                         "",
		"/v1/transfers/by-idempotency-key/x/": "",
	} {
		for _, method := range []string{"DELETE", "PATCH", "OPTIONS"} {
			status, header, body := ask(s, method, path)
			want := 405
			switch {
			case allow == "":
				want = 404
			case method == "OPTIONS":
				want = 204
			}
			if status != want || header.Get("Allow") != allow || header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s %s: %d %v %s", method, path, status, header, body)
			}
		}
	}
	if status, header, _ := ask(s, "HEAD", "/v1/wallets/wallet:shimul", "Authorization", "Bearer sandbox-shimul"); status != 200 || header.Get("Content-Type") != "application/json" {
		t.Errorf("HEAD: %d %v", status, header)
	}
	for _, c := range []struct {
		name, origin string
		s            *server
		allowed      bool
	}{
		{"the shop", "https://shop.example", s, true},
		{"another", "https://evil.example", s, false},
		{"no origin", "", s, false},
		{"no origins allowed", "https://shop.example", first, false},
	} {
		_, before, _ := ask(c.s, "OPTIONS", "/v1/transfers", "Origin", c.origin, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "authorization,content-type,idempotency-key")
		_, after, _ := ask(c.s, "POST", "/v1/transfers", "Origin", c.origin)
		for what, header := range map[string]http.Header{"preflight": before, "answer": after} {
			if got := header.Get("Access-Control-Allow-Origin"); (got == c.origin && got != "") != c.allowed || !c.allowed && got != "" {
				t.Errorf("%s: %s allows %q", c.name, what, got)
			}
			if c.s == s && header.Get("Vary") != "Origin" || header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s: %s has %v", c.name, what, header)
			}
		}
		if !c.allowed {
			continue
		}
		if got := before.Get("Access-Control-Allow-Headers"); got != "Authorization, Content-Type, Idempotency-Key" || !strings.Contains(before.Get("Access-Control-Allow-Methods"), "POST") {
			t.Errorf("%s: %v", c.name, before)
		}
		if got := after.Get("Access-Control-Expose-Headers"); got != "Idempotent-Replayed, Location, Retry-After" {
			t.Errorf("%s: exposes %q", c.name, got)
		}
	}
}
