package server_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// The payment API as it is served: over TLS, to callers who are known, by the policy's table.
func TestPayments(t *testing.T) {
	t.Parallel()
	s := secure(t, func(_ *secured, c *server.Config) { c.Pay = "127.0.0.1:0" })
	tokens := map[string]string{
		"nobody": "", "shop": s.token(t, auth.TokenSpec{Name: "shop"}, "main:poster"), "support": s.token(t, auth.TokenSpec{Name: "support"}, "main:support"),
		"stranger": s.token(t, auth.TokenSpec{Name: "stranger"}, "other:poster"), "admin": s.token(t, auth.TokenSpec{Name: "admin"}, "main:admin", "main:poster"),
	}
	c := s.dial(t, client.Options{Token: tokens["admin"], TLS: &tls.Config{RootCAs: s.authority.pool()}})
	zero := decimal.Zero
	if _, err := c.CreateAccounts(t.Context(), []ledger.AccountSpec{
		{ID: "cash", Type: ledger.Asset, Currency: "BDT"}, {ID: "wallet:a", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
		{ID: "wallet:b", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PostTransfer(t.Context(), ledger.TransferSpec{ID: "IN", Entries: ledger.Simple("cash", "wallet:a", decimal.New(100, 0), "BDT")}); err != nil {
		t.Fatal(err)
	}
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.authority.pool()}}}
	defer hc.CloseIdleConnections()
	ask := func(who, method, path, key, body string) (int, string, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.PayAddr()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if tokens[who] != "" {
			req.Header.Set("Authorization", "Bearer "+tokens[who])
		}
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		resp, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text), resp.Header
	}
	const payment = `{"from":"wallet:a","to":"wallet:b","amount":"30","currency":"BDT"}`
	var location string
	for _, step := range []struct {
		who, method, path, key, body string
		want                         int
	}{
		{"nobody", "POST", "/v1/transfers", "a-key-of-sixteen-1", payment, 401},
		{"stranger", "POST", "/v1/transfers", "a-key-of-sixteen-1", payment, 403},
		{"support", "POST", "/v1/transfers", "a-key-of-sixteen-1", payment, 403},
		{"shop", "POST", "/v1/transfers", "a-key-of-sixteen-1", payment, 201},
		{"shop", "POST", "/v1/transfers", "a-key-of-sixteen-1", payment, 201},
		{"shop", "GET", "/v1/wallets/wallet:a", "", "", 403},
		{"support", "GET", "/v1/wallets/wallet:a", "", "", 200},
		{"nobody", "GET", "/v1/wallets/wallet:a", "", "", 401},
		{"support", "GET", "/v1/wallets/cash", "", "", 404},
	} {
		got, body, header := ask(step.who, step.method, step.path, step.key, step.body)
		if got != step.want {
			t.Errorf("%s %s by %s: %d %s, want %d", step.method, step.path, step.who, got, body, step.want)
		}
		if got == http.StatusCreated {
			location = header.Get("Location")
		}
	}
	if got, body, _ := ask("support", "GET", location, "", ""); got != 200 || !strings.Contains(body, `"refundable":"30.00"`) {
		t.Errorf("%d %s", got, body)
	}
	refund := fmt.Sprintf(`{"transfer_id":%q,"everything":true,"expected_refunded":"0","reason":"goodwill"}`, strings.TrimPrefix(location, "/v1/transfers/"))
	// Support refunds at its desk, where another person has to agree.
	for _, by := range []struct {
		who  string
		want int
	}{{"support", 403}, {"shop", 201}} {
		if got, body, _ := ask(by.who, "POST", "/v1/refunds", "a-key-of-sixteen-2", refund); got != by.want {
			t.Errorf("by %s: %d %s", by.who, got, body)
		}
	}
	balance, err := c.Balance(t.Context(), "wallet:a")
	if err != nil || balance.Posted.String() != "100" {
		t.Errorf("%v %v", balance, err)
	}
	ledgertest.CheckBooks(t, s.db)
}

func TestPayments_Refused(t *testing.T) {
	t.Parallel()
	s := secure(t, nil)
	config := server.Config{
		DSN: s.db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Pay: "127.0.0.1:0", PaySandbox: true, Auth: true,
	}
	config.TLSCert, config.TLSKey = s.cert, s.key
	config.Logger = slog.New(slog.DiscardHandler)
	if _, err := server.Start(t.Context(), config); err == nil || !strings.Contains(err.Error(), "sandbox") {
		t.Errorf("the sandbox beside authentication: %v", err)
	}
	config.PaySandbox, config.GatewayTimeout = false, server.MaxGatewayTimeout+1
	if _, err := server.Start(t.Context(), config); err == nil || !strings.Contains(err.Error(), "up to 30s") {
		t.Errorf("a timeout that the answer does not wait for: %v", err)
	}
}
