package sms

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// HTTPGateway speaks to a gateway over HTTP with JSON:
//
//	POST /messages  {"to","text"}, with the message's key as Idempotency-Key
//
// 200 or 201 with {"id": "…"} is a message taken; 400 or 422 with {"error": "…"} is one that never will be. Each counts with its JSON only:
// a proxy has pages of its own for every status. All else is unknown, and tried again.
type HTTPGateway struct {
	url, token string
	client     *http.Client
}

const (
	keyHeader = "Idempotency-Key"
	// maxAnswer bounds an answer, and maxReferenceID the gateway's reference, which is stored.
	maxAnswer, maxReferenceID = 64 << 10, 200
	maxReason                 = 200 // characters
)

// NewHTTPGateway makes one for a base URL; token is sent as bearer token, unless it is empty.
func NewHTTPGateway(base, token string) (*HTTPGateway, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("the gateway's address is not the URL of a server, such as https://sms.example/v1 (a token goes into the environment)")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the gateway's token has characters that no header can have")
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: maxSenders, IdleConnTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
	return &HTTPGateway{strings.TrimSuffix(base, "/") + "/messages", token, &http.Client{
		Transport: transport,
		// Whoever is redirected to has not promised anything, and is not to see numbers and token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// The caller's deadline is shorter. This is for one who forgets.
		Timeout: time.Minute,
	}}, nil
}

// Close ends the connections that are not in use.
func (g *HTTPGateway) Close() { g.client.CloseIdleConnections() }

// answer is what a gateway says.
type answer struct {
	ID    string `json:"id,omitempty"`
	Error string `json:"error,omitempty"`
}

// Send implements Gateway. Its errors never quote the message.
func (g *HTTPGateway) Send(ctx context.Context, m Message) (reference string, err error) {
	body, err := json.Marshal(map[string]string{"to": m.Phone, "text": m.Text})
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	// net/http sends a request with an idempotency key again by itself where a connection breaks, unless it cannot have the body again. How often
	// the gateway is called is counted here.
	r.GetBody = nil
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set(keyHeader, m.Key)
	if g.token != "" {
		r.Header.Set("Authorization", "Bearer "+g.token)
	}
	resp, err := g.client.Do(r)
	if err != nil {
		return "", fmt.Errorf("ask the gateway: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return "", fmt.Errorf("read the gateway's answer: %w", err)
	}
	var said answer
	isJSON := len(text) <= maxAnswer && json.Unmarshal(text, &said) == nil
	return interpret(resp, said, isJSON)
}

func interpret(resp *http.Response, said answer, isJSON bool) (reference string, err error) {
	switch code := resp.StatusCode; code {
	case http.StatusOK, http.StatusCreated:
		if !isJSON || !isReference(said.ID) {
			return "", fmt.Errorf("the gateway answered %d without the id of a message: whether it has taken it is unknown", code)
		}
		return said.ID, nil
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if isJSON && said.Error != "" {
			return "", &RefusedError{code, cutName(printable(said.Error), maxReason)}
		}
		return "", &LaterError{Status: code}
	default:
		return "", &LaterError{code, retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	}
}

// isReference reports whether a gateway's id can be kept as it is.
func isReference(id string) bool {
	return id != "" && len(id) <= maxReferenceID && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// printable leaves what a person can read in a line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}

// retryAfter reads the header of that name: seconds, or a date. What is neither, or over, is 0.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(header); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}
