package console_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
)

// The page is there only where it was asked for, and the bad network only in a sandbox that has the page.
func TestPay_Served(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, c := range map[string]struct {
		page, sandbox bool
		want          int
		lost          bool
	}{
		"page and sandbox": {true, true, http.StatusOK, true}, "page": {true, false, http.StatusOK, false},
		"sandbox": {false, true, http.StatusNotFound, false},
	} {
		s, err := server.Start(t.Context(), server.Config{
			DSN: db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Pay: "127.0.0.1:0", PayPage: c.page, PaySandbox: c.sandbox, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		get := func(path, network string) (int, error) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.PayAddr()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Khata-Sandbox-Network", network)
			resp, err := direct.RoundTrip(req)
			if err != nil {
				return 0, err
			}
			return resp.StatusCode, resp.Body.Close()
		}
		if got, err := get("/pay", "lose-answer"); err != nil || got != c.want {
			t.Errorf("%s: the page: %d %v", name, got, err)
		}
		if got, err := get("/v1/openapi.json", "lose-answer"); (err != nil) != c.lost || !c.lost && got != http.StatusOK {
			t.Errorf("%s: the API on a bad network: %d %v", name, got, err)
		}
		if got, err := get("/payments", ""); err != nil || got != http.StatusNotFound {
			t.Errorf("%s: another path: %d %v", name, got, err)
		}
		s.Stop()
	}
	_, err := server.Start(t.Context(), server.Config{
		DSN: db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Pay: "127.0.0.1:0", PayPage: true, Logger: slog.New(slog.DiscardHandler),
		PaySandboxUsers: []server.PaySandboxUser{{Name: "Shimul"}},
	})
	if err == nil || !strings.Contains(err.Error(), "sandbox") {
		t.Errorf("people to pick without a sandbox: %v", err)
	}
}
