package payapi

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/shopspring/decimal"
)

// SandboxGateway is a gateway without a bank behind it, for trying things out and for tests: the server of what HTTPGateway speaks. It
// forgets everything when it ends. What goes wrong is asked for by the card:
//
//	decline           it is declined
//	fail              500, nothing is charged
//	lose-answer       the connection is cut, nothing is charged
//	charge-then-lose  it is charged, and the connection cut
//	twice             it is charged, and the answer sent twice in a row
//	slow-2s           it takes two seconds
//	late-2s           the connection is cut, and the request arrives two seconds later
//
// as in "4000-slow-200ms-decline"; or for the next requests of any kind by POST /admin/faults {"on":"status","fault":"fail","times":3},
// where on is charge, status, cancel or refund. DELETE /admin/faults mends it; GET /admin/totals says what was charged and given back.
type SandboxGateway struct {
	mux *http.ServeMux

	mu      sync.Mutex
	charges map[string]*sandboxCharge
	faults  []sandboxFault
	late    sync.WaitGroup
}

type sandboxCharge struct {
	content   string
	amount    decimal.Decimal
	currency  string
	state     ChargeState // "" while it is being made
	refundKey string
}

type sandboxFault struct {
	On    string `json:"on"`
	Fault string `json:"fault"`
	Times int    `json:"times"`
}

// SandboxTotals is what a sandbox gateway has done.
type SandboxTotals struct {
	Charges   int             `json:"charges"`
	Charged   decimal.Decimal `json:"charged"`
	GivenBack decimal.Decimal `json:"given_back"`
}

// NewSandboxGateway makes a gateway.
func NewSandboxGateway() *SandboxGateway {
	g := &SandboxGateway{mux: http.NewServeMux(), charges: map[string]*sandboxCharge{}}
	g.mux.HandleFunc("POST /charges", g.charge)
	g.mux.HandleFunc("GET /charges/{key}", func(w http.ResponseWriter, r *http.Request) { g.look(w, r, "status") })
	g.mux.HandleFunc("POST /charges/{key}/cancel", func(w http.ResponseWriter, r *http.Request) { g.look(w, r, "cancel") })
	g.mux.HandleFunc("POST /charges/{key}/refunds", g.refund)
	g.mux.HandleFunc("POST /admin/faults", func(w http.ResponseWriter, r *http.Request) {
		var f sandboxFault
		if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&f); err != nil || f.Times < 1 {
			http.Error(w, `want {"on","fault","times"}`, http.StatusBadRequest)
			return
		}
		g.Fault(f.On, f.Fault, f.Times)
	})
	g.mux.HandleFunc("DELETE /admin/faults", func(http.ResponseWriter, *http.Request) { g.Mend() })
	g.mux.HandleFunc("GET /admin/totals", func(w http.ResponseWriter, _ *http.Request) { _ = writeJSON(w, g.Totals()) })
	return g
}

// ServeHTTP implements http.Handler.
func (g *SandboxGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.mux.ServeHTTP(w, r) }

// Fault makes the next requests of a kind go wrong.
func (g *SandboxGateway) Fault(on, fault string, times int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = append(g.faults, sandboxFault{on, fault, times})
}

// Mend forgets the faults that were asked for and have not come yet.
func (g *SandboxGateway) Mend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = nil
}

// Totals sums up what has been done, late requests included: it waits for them.
func (g *SandboxGateway) Totals() SandboxTotals {
	g.late.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	var t SandboxTotals
	for _, c := range g.charges {
		if c.state != Charged {
			continue
		}
		t.Charges++
		t.Charged = t.Charged.Add(c.amount)
		if c.refundKey != "" {
			t.GivenBack = t.GivenBack.Add(c.amount)
		}
	}
	return t
}

// wrong is what goes wrong with a request.
type wrong struct {
	text       string
	slow, late time.Duration
}

func (f wrong) is(fault string) bool { return strings.Contains(f.text, fault) }

var sandboxPause = regexp.MustCompile(`(slow|late)-([0-9]+m?s)`)

func (g *SandboxGateway) wrong(on, card string) wrong {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := wrong{text: card}
	for i := range g.faults {
		if g.faults[i].On == on && g.faults[i].Times > 0 {
			g.faults[i].Times--
			f.text += "-" + g.faults[i].Fault
			break
		}
	}
	for _, m := range sandboxPause.FindAllStringSubmatch(f.text, -1) {
		pause, err := time.ParseDuration(m[2])
		if err != nil {
			continue
		}
		if m[1] == "slow" {
			f.slow = pause
		} else {
			f.late = pause
		}
	}
	return f
}

func (g *SandboxGateway) charge(w http.ResponseWriter, r *http.Request) {
	var in struct{ Card, Amount, Currency string }
	err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&in)
	amount, err2 := decimal.NewFromString(in.Amount)
	key := r.Header.Get(keyHeader)
	if err != nil || err2 != nil || !amount.IsPositive() || key == "" || in.Card == "" || in.Currency == "" {
		http.Error(w, "want card, amount, currency and a key", http.StatusBadRequest)
		return
	}
	f := g.wrong("charge", in.Card)
	content := in.Card + " " + amount.String() + " " + in.Currency
	switch {
	case f.late > 0:
		g.late.Go(func() {
			time.Sleep(f.late)
			g.make(key, content, in.Currency, amount, f)
		})
		cut()
	case f.is("fail"):
		http.Error(w, "the sandbox was told to fail", http.StatusInternalServerError)
		return
	case f.is("lose-answer"):
		cut()
	}
	code, says := g.make(key, content, in.Currency, amount, f)
	if f.is("charge-then-lose") {
		cut()
	}
	g.answer(w, f, code, says)
}

// make makes a charge, unless its key has been seen.
func (g *SandboxGateway) make(key, content, currency string, amount decimal.Decimal, f wrong) (code int, says gatewayAnswer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, seen := g.charges[key]
	if !seen {
		c = &sandboxCharge{content: content, amount: amount, currency: currency}
		g.charges[key] = c
		g.mu.Unlock()
		time.Sleep(f.slow)
		g.mu.Lock()
		c.state = Charged
		if f.is("decline") {
			c.state = Declined
		}
	}
	if c.state != Cancelled && c.content != content {
		return http.StatusUnprocessableEntity, gatewayAnswer{Status: "key_reused"}
	}
	return c.says()
}

func (c *sandboxCharge) says() (code int, says gatewayAnswer) {
	switch c.state {
	case "":
		return http.StatusConflict, gatewayAnswer{Status: "in_progress"}
	case Charged:
		return chargeAnswers[Charged], gatewayAnswer{string(Charged), c.amount.String(), c.currency}
	}
	return chargeAnswers[c.state], gatewayAnswer{Status: string(c.state)}
}

// look tells the state of a charge; to cancel one that is not known is to remember that it must never be made.
func (g *SandboxGateway) look(w http.ResponseWriter, r *http.Request, on string) {
	f := g.wrong(on, "")
	if f.is("fail") {
		http.Error(w, "the sandbox was told to fail", http.StatusInternalServerError)
		return
	}
	if f.is("lose-answer") {
		cut()
	}
	time.Sleep(f.slow)
	g.mu.Lock()
	c, seen := g.charges[r.PathValue("key")]
	if !seen {
		c = &sandboxCharge{state: NotSeen}
		if on == "cancel" {
			c.state = Cancelled
			g.charges[r.PathValue("key")] = c
		}
	}
	code, says := c.says()
	g.mu.Unlock()
	g.answer(w, f, code, says)
}

func (g *SandboxGateway) refund(w http.ResponseWriter, r *http.Request) {
	f := g.wrong("refund", "")
	if f.is("fail") {
		http.Error(w, "the sandbox was told to fail", http.StatusInternalServerError)
		return
	}
	if f.is("lose-answer") {
		cut()
	}
	time.Sleep(f.slow)
	key := r.Header.Get(keyHeader)
	g.mu.Lock()
	c := g.charges[r.PathValue("key")]
	code, status := http.StatusUnprocessableEntity, refusedStatus
	if c != nil && c.state == Charged && key != "" && (c.refundKey == "" || c.refundKey == key) && !f.is("decline") {
		c.refundKey = key
		code, status = http.StatusOK, refundedStatus
	}
	g.mu.Unlock()
	if f.is("charge-then-lose") {
		cut()
	}
	g.answer(w, f, code, gatewayAnswer{Status: status})
}

func (g *SandboxGateway) answer(w http.ResponseWriter, f wrong, code int, says gatewayAnswer) {
	body, err := json.Marshal(says)
	if err != nil { // It is made of strings.
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // The client may have gone.
	if f.is("twice") {
		_, _ = w.Write(body)
	}
}

// cut ends the connection without an answer.
func cut() { panic(http.ErrAbortHandler) }
