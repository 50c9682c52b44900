package console_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

const (
	shop = ledger.Name("demo")
	// opening is what everybody has at first, and price what they pay.
	opening = "5000.00"
	peer    = "wallet:tithi"
	// counter is what the opening says.
	counter = "Paid in at the counter"
)

// bench is a real server on a real database, with people of its own.
type bench struct {
	*server.Server
	client *client.Client
	people []server.PaySandboxUser

	mu   sync.Mutex
	next int
}

// newBench starts a server with people who have some money, of whom Tithi comes first and has none. With picker they can be picked on the
// page; without it asks for their tokens.
func newBench(t *testing.T, picker bool, names ...string) *bench {
	t.Helper()
	b := &bench{}
	specs := []ledger.AccountSpec{{ID: "cash", Type: ledger.Asset, Currency: "BDT"}}
	zero := decimal.Zero
	for _, name := range append([]string{"Tithi"}, names...) {
		wallet := "wallet:" + strings.ToLower(name)
		specs = append(specs, ledger.AccountSpec{ID: ledger.AccountID(wallet), Type: ledger.Liability, Currency: "BDT", Name: name, Floor: &zero})
		b.people = append(b.people, server.PaySandboxUser{Name: name, Token: "sandbox-" + strings.ToLower(name), Wallet: wallet})
	}
	b.start(t, picker, specs)
	for _, p := range b.people[1:] {
		if _, err := b.client.PostTransfer(t.Context(), ledger.TransferSpec{
			ID: ledger.TransferID("opening-" + p.Wallet), Description: counter,
			Entries: ledger.Simple("cash", ledger.AccountID(p.Wallet), decimal.RequireFromString(opening), "BDT"),
		}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) start(t *testing.T, picker bool, specs []ledger.AccountSpec) {
	t.Helper()
	db := pgtest.New(t)
	config := server.Config{
		DSN: db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Pay: "127.0.0.1:0", PayLedger: shop, PaySandbox: true, PayPage: true,
		Logger: slog.New(slog.DiscardHandler),
	}
	if picker {
		config.PaySandboxUsers = b.people
	}
	s, err := server.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		ledgertest.CheckBooks(t, db)
	})
	b.Server = s
	if b.client, err = client.Dial(s.GRPCAddr(), client.Options{Ledger: shop}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.client.Close() })
	if _, err := b.client.CreateLedger(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.CreateAccounts(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
}

// numbered names so many people.
func numbered(count int) (names []string) {
	for i := range count {
		names = append(names, "P"+strconv.Itoa(i))
	}
	return names
}

// person gives somebody whom no other test has.
func (b *bench) person() server.PaySandboxUser {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	return b.people[b.next]
}

// movements gives what was booked for a person after the opening.
func (b *bench) movements(t *testing.T, p server.PaySandboxUser) []string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.PayAddr()+"/v1/wallets/"+p.Wallet+"/entries", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var list struct{ Entries []struct{ Change string } }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	var changes []string
	for _, e := range list.Entries[:len(list.Entries)-1] {
		changes = append(changes, e.Change)
	}
	return changes
}

// sent is a payment as it arrived at the road.
type sent struct{ key, body, network string }

// road is the way from the browser to the server. It notes every payment that passes, and does to the next ones what it is told.
type road struct {
	*httptest.Server
	to *url.URL

	mu     sync.Mutex
	sent   []sent
	faults []string
	free   chan struct{} // closed: answers that were held pass
}

// What a road can do to a payment.
const (
	pass        = ""
	loseRequest = "lose-request"
	loseAnswer  = "lose-answer"
	holdAnswer  = "hold-answer"
	unknownUser = "401"
	html        = "html"
)

func (b *bench) road(t *testing.T, faults ...string) *road {
	t.Helper()
	r := &road{to: &url.URL{Scheme: "http", Host: b.PayAddr()}, faults: faults, free: make(chan struct{})}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(r.handle))
	// A browser sends again by itself what was lost on a connection that it had kept. It does no harm, but takes the next fault.
	r.Config.SetKeepAlivesEnabled(false)
	r.Start()
	t.Cleanup(func() {
		r.release()
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

// release lets the answers pass that are held, and those that would be.
func (r *road) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.free:
	default:
		close(r.free)
	}
}

func (r *road) payments() []sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]sent(nil), r.sent...)
}

// note notes a payment, and tells what is to be done to it.
func (r *road) note(req *http.Request, body []byte) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, sent{req.Header.Get("Idempotency-Key"), string(body), req.Header.Get("Khata-Sandbox-Network")})
	if len(r.faults) == 0 {
		return pass
	}
	fault := r.faults[0]
	r.faults = r.faults[1:]
	return fault
}

// direct has no connections to keep, over which Go would send a request again by itself.
var direct = &http.Transport{DisableKeepAlives: true}

func (r *road) handle(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	fault := pass
	if req.Method == http.MethodPost {
		fault = r.note(req, body)
	}
	switch fault {
	case loseRequest:
		panic(http.ErrAbortHandler)
	case unknownUser:
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"status":401,"code":"UNAUTHENTICATED","title":"The caller is not known"}`)
		return
	case html:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, `<h1>502 Bad Gateway</h1>`)
		return
	}
	out := req.Clone(req.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = r.to.Scheme, r.to.Host, ""
	out.Body = io.NopCloser(bytes.NewReader(body))
	resp, err := direct.RoundTrip(out)
	if err != nil { // The server has closed the connection: so does the road.
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = resp.Body.Close() }()
	if fault == holdAnswer {
		select {
		case <-r.free:
		case <-req.Context().Done():
		}
	}
	if fault == loseAnswer {
		panic(http.ErrAbortHandler)
	}
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it has not come to be that %s", what)
		}
	}
}
