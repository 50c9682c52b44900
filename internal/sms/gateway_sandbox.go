package sms

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// SandboxGateway is a gateway that reaches no phone, for trying things out and for tests: the server of what HTTPGateway speaks. It shows the phones
// and what they got on a page at /, and as JSON at /messages. It keeps the latest messages, and forgets everything when it ends.
//
// A number that ends in 00 is refused for good. One that ends in 01 hears nothing the first time: the message is taken, and the answer never
// comes, as in life; under its key it is found again.
//
// Only whoever names it as this machine is served: a page of somebody else's in the browser cannot read it under another name.
type SandboxGateway struct {
	mux *http.ServeMux
	// silence is how long the first call for a number that ends in 01 hears nothing.
	silence time.Duration

	mu       sync.Mutex
	byKey    map[string]*SandboxMessage
	messages []*SandboxMessage // the oldest first
	number   int
	totals   SandboxTotals
}

// SandboxMessage is one that the sandbox has taken.
type SandboxMessage struct {
	ID   string    `json:"id"`
	Key  string    `json:"key"`
	To   string    `json:"to"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
	// Calls is how often it was asked for; it was sent once.
	Calls int `json:"calls"`
}

// SandboxTotals is what a sandbox was asked.
type SandboxTotals struct {
	// Calls are all, Repeated those for a message that it had, Sent the messages. Reused are calls with a key that stands for another message.
	Calls, Repeated, Sent, Reused, Refused int
}

const (
	// sandboxKeeps bounds the memory, and sandboxShows what is listed.
	sandboxKeeps, sandboxShows = 10_000, 500
	maxSandboxBody             = 16 << 10
	sandboxSilence             = time.Minute
)

// NewSandboxGateway makes one.
func NewSandboxGateway() *SandboxGateway {
	g := &SandboxGateway{mux: http.NewServeMux(), byKey: map[string]*SandboxMessage{}, silence: sandboxSilence}
	g.mux.HandleFunc("POST /messages", g.take)
	g.mux.HandleFunc("GET /messages", g.list)
	g.mux.HandleFunc("GET /{$}", g.page)
	return g
}

// ServeHTTP implements http.Handler.
func (g *SandboxGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if !isThisMachine(r.Host) {
		writeAnswer(w, http.StatusMisdirectedRequest, answer{Error: "the sandbox is for this machine only"})
		return
	}
	g.mux.ServeHTTP(w, r)
}

// isThisMachine reports whether the host of a request is loopback.
func isThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Totals counts what has come.
func (g *SandboxGateway) Totals() SandboxTotals {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.totals
}

// Messages are those that are kept, the newest first.
func (g *SandboxGateway) Messages() []SandboxMessage {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]SandboxMessage, 0, len(g.messages))
	for i := len(g.messages) - 1; i >= 0; i-- {
		list = append(list, *g.messages[i])
	}
	return list
}

func (g *SandboxGateway) take(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get(keyHeader)
	var in struct{ To, Text string }
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSandboxBody)).Decode(&in)
	// A form on a page of somebody else's can send neither the type nor the key.
	if err != nil || !isReference(key) || r.Header.Get("Content-Type") != "application/json" {
		writeAnswer(w, http.StatusBadRequest, answer{Error: "want JSON with to and text, and an " + keyHeader})
		return
	}
	code, says, silent := g.accept(key, in.To, in.Text)
	if silent {
		select {
		case <-r.Context().Done():
		case <-time.After(g.silence):
		}
		panic(http.ErrAbortHandler)
	}
	writeAnswer(w, code, says)
}

// accept decides about a call.
func (g *SandboxGateway) accept(key, to, text string) (code int, says answer, silent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.totals.Calls++
	if m := g.byKey[key]; m != nil {
		if m.To != to || m.Text != text {
			g.totals.Reused++
			return http.StatusUnprocessableEntity, answer{Error: "this key stands for another message"}, false
		}
		g.totals.Repeated++
		m.Calls++
		return http.StatusOK, answer{ID: m.ID}, false
	}
	if !isPhone(to) || text == "" || strings.HasSuffix(to, "00") {
		g.totals.Refused++
		return http.StatusUnprocessableEntity, answer{Error: "no phone has the number " + to}, false
	}
	g.number++
	g.totals.Sent++
	m := &SandboxMessage{ID: "sandbox-" + strconv.Itoa(g.number), Key: key, To: to, Text: text, At: time.Now().UTC(), Calls: 1}
	if len(g.messages) == sandboxKeeps {
		delete(g.byKey, g.messages[0].Key)
		g.messages = g.messages[1:]
	}
	g.messages, g.byKey[key] = append(g.messages, m), m
	return http.StatusCreated, answer{ID: m.ID}, strings.HasSuffix(to, "01")
}

func (g *SandboxGateway) list(w http.ResponseWriter, _ *http.Request) {
	list := g.Messages()
	writeAnswer(w, http.StatusOK, map[string]any{"messages": list[:min(len(list), sandboxShows)]})
}

func writeAnswer(w http.ResponseWriter, code int, value any) {
	body, err := json.Marshal(value)
	if err != nil { // It is made of strings and numbers.
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // The client may have gone.
}
