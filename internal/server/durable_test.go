package server_test

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
)

// A PostgreSQL that is made unsafe while it runs makes the server unready, and ready again once it is mended.
func TestReady_OnlyWhileDurable(t *testing.T) {
	t.Parallel()
	db := pgtest.NewServer(t, nil)
	s, err := server.Start(t.Context(), server.Config{
		DSN: db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	super, err := pgx.Connect(t.Context(), db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = super.Close(t.Context()) }()
	for _, step := range []struct {
		sql  string
		want int
	}{
		{"SELECT 1", http.StatusOK},
		{"ALTER SYSTEM SET fsync = off", http.StatusServiceUnavailable},
		{"ALTER SYSTEM RESET fsync", http.StatusOK},
	} {
		for _, sql := range []string{step.sql, "SELECT pg_reload_conf()"} {
			if _, err := super.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		got := 0
		for deadline := time.Now().Add(10 * time.Second); got != step.want && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			resp, err := http.Get("http://" + s.HTTPAddr() + "/readyz")
			if err != nil {
				t.Fatal(err)
			}
			got = resp.StatusCode
			_ = resp.Body.Close()
		}
		if got != step.want {
			t.Errorf("after %s: %d, want %d", step.sql, got, step.want)
		}
	}
}
