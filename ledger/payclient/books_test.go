package payclient_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// books are a payment API in memory, which is told what happens on the road to it.
type books struct {
	mu       sync.Mutex
	answers  map[string]*vectorAnswer // by key: what is on record
	bodies   map[string]string
	paid     map[string]int // transfers, by key
	requests []seen
	late     []seen // on their way
	// noAccount and noMoney are how the books stand.
	noAccount, noMoney bool
	// road says what happens to the next request; "" is nothing bad. When it returns an error, that is what the client sees.
	road func() (fate string, err error)
}

// The fates of requests.
var fates = []string{
	"", "", "", "drop before", "drop after", "late", "half", "page", "empty 500", "503", "done 503", "401", "403", "409", "429", "redirect", "500 json",
}

func newBooks() *books {
	return &books{answers: map[string]*vectorAnswer{}, bodies: map[string]string{}, paid: map[string]int{}}
}

func problemAnswer(status int, code, more string) *vectorAnswer {
	return &vectorAnswer{
		status, map[string]string{"Content-Type": "application/problem+json"},
		fmt.Sprintf(`{"type":"urn:khata:problem:%s","title":"t","status":%d,"code":%q%s}`, code, status, code, more),
	}
}

var errRoad = errors.New("the road is broken")

// RoundTrip implements http.RoundTripper.
func (b *books) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := seen{r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization"), string(body), r.Method, r.URL.Path}
	b.requests = append(b.requests, s)
	fate := ""
	if b.road != nil {
		var err error
		if fate, err = b.road(); err != nil {
			if fate == "drop after" {
				b.answer(s)
			}
			return nil, err
		}
	}
	switch fate {
	case "drop before":
		return nil, errRoad
	case "late":
		b.late = append(b.late, s)
		return nil, errRoad
	case "drop after":
		b.answer(s)
		return nil, errRoad
	case "half":
		return respond(b.answer(s), true), nil
	case "page":
		return respond(&vectorAnswer{200, map[string]string{"Content-Type": "text/html"}, "<html>"}, false), nil
	case "empty 500":
		return respond(&vectorAnswer{500, nil, ""}, false), nil
	case "500 json":
		return respond(problemAnswer(500, "INTERNAL", ""), false), nil
	case "done 503":
		b.answer(s)
		return respond(problemAnswer(503, "UNAVAILABLE", ""), false), nil
	case "503":
		return respond(problemAnswer(503, "OVERLOADED", ""), false), nil
	case "401":
		return respond(problemAnswer(401, "UNAUTHENTICATED", ""), false), nil
	case "403":
		return respond(problemAnswer(403, "PERMISSION_DENIED", ""), false), nil
	case "409":
		return respond(problemAnswer(409, "IDEMPOTENCY_IN_PROGRESS", ""), false), nil
	case "429":
		return respond(problemAnswer(429, "RATE_LIMITED", ""), false), nil
	case "redirect":
		return respond(&vectorAnswer{307, map[string]string{"Location": "https://elsewhere.example/"}, ""}, false), nil
	}
	return respond(b.answer(s), false), nil
}

// arrive lets what was late arrive. Nobody hears the answers.
func (b *books) arrive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.late {
		b.answer(s)
	}
	b.late = nil
}

// answer is what the server does.
func (b *books) answer(s seen) *vectorAnswer {
	if key, ok := strings.CutPrefix(s.path, "/v1/transfers/by-idempotency-key/"); ok {
		stored := b.answers[key]
		switch {
		case stored == nil:
			return problemAnswer(404, "TRANSFER_NOT_FOUND", "")
		case stored.Status == 201:
			return &vectorAnswer{200, stored.Headers, `{"payment":` + stored.Body + `,"status":"posted"}`}
		}
		return &vectorAnswer{200, map[string]string{"Content-Type": "application/json"}, `{"payment":` + stored.Body + `,"status":"refused"}`}
	}
	stored := b.answers[s.key]
	switch {
	case stored != nil && b.bodies[s.key] != s.body:
		return problemAnswer(422, "IDEMPOTENCY_KEY_REUSED", "")
	case stored != nil:
		again := *stored
		again.Headers = map[string]string{"Content-Type": stored.Headers["Content-Type"], "Idempotent-Replayed": "true"}
		return &again
	case b.noAccount:
		return problemAnswer(422, "ACCOUNT_NOT_FOUND", "")
	}
	number := fmt.Sprintf("TXN-%026d", len(b.answers)+1)
	a := &vectorAnswer{201, map[string]string{"Content-Type": "application/json"}, fmt.Sprintf(`{"transfer_id":%q,%s`, number, s.body[1:])}
	if b.noMoney {
		a = problemAnswer(422, "INSUFFICIENT_FUNDS", fmt.Sprintf(`,"transfer_id":%q`, number))
	} else {
		b.paid[s.key]++
	}
	b.answers[s.key], b.bodies[s.key] = a, s.body
	return a
}

// of gives the keys of the requests with a text in their body, and the number of transfers under them.
func (b *books) of(text string) (keys []string, bodies map[string]bool, paid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := map[string]bool{}
	bodies = map[string]bool{}
	for _, r := range b.requests {
		if r.method != http.MethodPost || !strings.Contains(r.body, text) {
			continue
		}
		bodies[r.body] = true
		if !known[r.key] {
			known[r.key] = true
			keys = append(keys, r.key)
			paid += b.paid[r.key]
		}
	}
	return keys, bodies, paid
}
