package server_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
)

// page gets a page as a browser would, redirects included: its status, what it goes on to by itself, and its text.
func page(t *testing.T, c *http.Client, at string) (status int, refresh, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Refresh"), string(body)
}

// In a sandbox people sign in as they would elsewhere, and each of them is somebody of their own.
func TestIdentity_Sandbox(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s, err := server.Start(t.Context(), server.Config{
		DSN: db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Console: "127.0.0.1:0", ConsoleSandbox: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	console := "http://" + s.ConsoleAddr()
	for name, login := range map[string]string{"Finance": "finance", "Admin": "admin", "Support": "support", "Support 2": "support-2", "Reader": "reader"} {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		browser := &http.Client{Jar: jar, Transport: &http.Transport{}}
		start := console + auth.OIDCStart + "?" + url.Values{"as": {name}}.Encode()
		if _, _, text := page(t, browser, console+"/console/"); !strings.Contains(text, ">"+name+"</a>") {
			t.Errorf("%s cannot be picked:\n%s", name, text)
		}
		if status, to, text := page(t, browser, start); status != 200 || to != "0; url=/console/" {
			t.Errorf("%s is not signed in:\n%s", name, text)
		}
		if _, _, text := page(t, browser, console+"/console/main/"); !strings.Contains(text, ">oidc:"+login+"<") {
			t.Errorf("%s is not %s:\n%s", name, login, text)
		}
		browser.CloseIdleConnections()
	}
}

// A provider that is away stops no server from starting, and nobody who has another way to sign in.
func TestIdentity_Away(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	db := pgtest.New(t)
	config := server.Config{
		DSN: db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Console: "127.0.0.1:0", Auth: true, Logger: slog.New(slog.DiscardHandler),
		ConsoleOIDC: &auth.OIDCConfig{
			Issuer: gone.URL, ClientID: "console", Base: "https://books.example", Grants: map[string]auth.Grants{"khata-finance": {"main": auth.Finance}},
		},
	}
	s, err := server.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	if status, _, text := page(t, c, "http://"+s.ConsoleAddr()+auth.OIDCStart); status != http.StatusServiceUnavailable || !strings.Contains(text, "cannot be asked now") {
		t.Errorf("a provider that is away:\n%s", text)
	}
	if status, _, text := page(t, c, "http://"+s.ConsoleAddr()+"/console/"); status != 200 || !strings.Contains(text, `type="password"`) {
		t.Errorf("the page to sign in:\n%s", text)
	}
	for name, wrong := range map[string]struct {
		change func(*server.Config)
		says   string
	}{
		"without --auth":             {func(c *server.Config) { c.Auth = false }, "--auth"},
		"without a console":          {func(c *server.Config) { c.Console = "" }, "needs --console"},
		"without a client":           {func(c *server.Config) { c.ConsoleOIDC = &auth.OIDCConfig{Issuer: gone.URL} }, "--console-oidc-…): the client id is missing"},
		"nobody at all":              {func(c *server.Config) { c.ConsoleOIDC, c.ConsoleNoTokens = nil, true }, "nobody could sign in"},
		"a sandbox with --auth":      {func(c *server.Config) { c.ConsoleOIDC, c.ConsoleSandbox = nil, "127.0.0.1:0" }, "sandbox"},
		"a sandbox for all to reach": {func(c *server.Config) { c.Auth, c.ConsoleOIDC, c.ConsoleSandbox = false, nil, "0.0.0.0:0" }, "loopback"},
	} {
		other := config
		wrong.change(&other)
		s, err := server.Start(t.Context(), other)
		if err == nil {
			s.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), wrong.says) {
			t.Errorf("%s: %v, want something with %q", name, err, wrong.says)
		}
	}
}
