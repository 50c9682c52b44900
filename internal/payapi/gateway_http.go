package payapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// HTTPGateway speaks to a gateway over HTTP with JSON:
//
//	POST /charges                {"card","amount","currency"}, with the key as Idempotency-Key
//	GET  /charges/{key}
//	POST /charges/{key}/cancel
//	POST /charges/{key}/refunds  with the refund's key as Idempotency-Key
//
// An answer is {"status": …}, with "amount" and "currency" where something was charged, and counts only with the HTTP status that belongs to
// it. Everything else, such as the 404 of a proxy that
// knows no such page, is an unknown outcome.
type HTTPGateway struct {
	base, token string
	client      *http.Client
}

// NewHTTPGateway makes one for a base URL; token is sent as bearer token, unless it is empty.
func NewHTTPGateway(base, token string) (*HTTPGateway, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("the gateway's address %q is not the URL of a server", base)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
	return &HTTPGateway{strings.TrimSuffix(base, "/"), token, &http.Client{
		Transport: transport,
		// Whoever is redirected to has not promised anything.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// The caller's deadline is shorter. This is for one who forgets.
		Timeout: time.Minute,
	}}, nil
}

// chargeAnswers are the HTTP statuses that belong to what a gateway says.
var chargeAnswers = map[ChargeState]int{
	Charged: http.StatusOK, Declined: http.StatusPaymentRequired, Cancelled: http.StatusGone, NotSeen: http.StatusNotFound,
}

const (
	refundedStatus, refusedStatus = "refunded", "refused"
	maxGatewayAnswer              = 64 << 10
)

// Charge implements Gateway.
func (g *HTTPGateway) Charge(ctx context.Context, c Charge) (ChargeState, error) {
	body, err := json.Marshal(map[string]string{"card": c.Card, "amount": c.Amount, "currency": c.Currency})
	if err != nil {
		return "", err
	}
	return g.state(ctx, c, http.MethodPost, "/charges", c.Key, body, Charged, Declined, Cancelled)
}

// Status implements Gateway.
func (g *HTTPGateway) Status(ctx context.Context, c Charge) (ChargeState, error) {
	return g.state(ctx, c, http.MethodGet, "/charges/"+url.PathEscape(c.Key), "", nil, Charged, Declined, Cancelled, NotSeen)
}

// Cancel implements Gateway.
func (g *HTTPGateway) Cancel(ctx context.Context, c Charge) (ChargeState, error) {
	return g.state(ctx, c, http.MethodPost, "/charges/"+url.PathEscape(c.Key)+"/cancel", "", nil, Charged, Declined, Cancelled)
}

// Refund implements Gateway.
func (g *HTTPGateway) Refund(ctx context.Context, key, refundKey string) error {
	code, said, err := g.ask(ctx, http.MethodPost, "/charges/"+url.PathEscape(key)+"/refunds", refundKey, nil)
	switch {
	case err != nil:
		return err
	case code == http.StatusOK && said.Status == refundedStatus:
		return nil
	case code == http.StatusUnprocessableEntity && said.Status == refusedStatus:
		return ErrRefundRefused
	}
	return unknownAnswer(code, said.Status)
}

// state asks for the state of a charge, and takes one of those that can be.
func (g *HTTPGateway) state(ctx context.Context, c Charge, method, path, key string, body []byte, allowed ...ChargeState) (ChargeState, error) {
	code, said, err := g.ask(ctx, method, path, key, body)
	if err != nil {
		return "", err
	}
	state := ChargeState(said.Status)
	if !slices.Contains(allowed, state) || chargeAnswers[state] != code {
		return "", unknownAnswer(code, said.Status)
	}
	if state == Charged && !said.isOf(c) {
		return "", fmt.Errorf("%w: %.40q %.10q", ErrOtherAmount, said.Amount, said.Currency)
	}
	return state, nil
}

// gatewayAnswer is what a gateway says.
type gatewayAnswer struct {
	Status   string `json:"status"`
	Amount   string `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
}

func (a gatewayAnswer) isOf(c Charge) bool {
	said, err := decimal.NewFromString(a.Amount)
	asked, err2 := decimal.NewFromString(c.Amount)
	return err == nil && err2 == nil && said.Equal(asked) && a.Currency == c.Currency
}

func unknownAnswer(code int, status string) error {
	return fmt.Errorf("the gateway answered %d %.40q", code, status)
}

// ask sends a request and reads its answer. What is after the answer, or is too long, makes it none.
func (g *HTTPGateway) ask(ctx context.Context, method, path, key string, body []byte) (code int, said gatewayAnswer, err error) {
	r, err := http.NewRequestWithContext(ctx, method, g.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, said, err
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set(keyHeader, key)
	}
	if g.token != "" {
		r.Header.Set("Authorization", "Bearer "+g.token)
	}
	resp, err := g.client.Do(r)
	if err != nil {
		return 0, said, fmt.Errorf("ask the gateway: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxGatewayAnswer+1))
	if err != nil {
		return 0, said, fmt.Errorf("read the gateway's answer: %w", err)
	}
	if len(text) > maxGatewayAnswer {
		return 0, said, errors.New("the gateway's answer is too long")
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return 0, said, fmt.Errorf("the gateway answered %d, and no JSON", resp.StatusCode)
	}
	return resp.StatusCode, said, nil
}
