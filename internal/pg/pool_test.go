package pg_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
)

// TestConnect_Settings checks that every wait is bounded, as the server sees it.
func TestConnect_Settings(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := connect(t, pg.Config{DSN: db.ServiceDSN()})
	for name, want := range map[string]string{
		"application_name":                    "khata",
		"TimeZone":                            "UTC",
		"lock_timeout":                        "5s",
		"idle_in_transaction_session_timeout": "10s",
		"client_connection_check_interval":    "1s",
		"jit":                                 "off",
	} {
		if got := query[string](t, pool, "SHOW "+name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	if got := pool.Config().MaxConns; got != 16 {
		t.Errorf("%d connections", got)
	}
	named := connect(t, pg.Config{DSN: db.ServiceDSN() + " lock_timeout=7s application_name=other", MaxConns: 3})
	if got := query[string](t, named, "SHOW lock_timeout") + query[string](t, named, "SHOW application_name"); got != "7sother" {
		t.Errorf("named in the DSN: %s", got)
	}
	if got := query[string](t, named, "SHOW idle_in_transaction_session_timeout"); got != "10s" {
		t.Errorf("not named in the DSN: %s", got)
	}
	if got := named.Config().MaxConns; got != 3 {
		t.Errorf("%d connections", got)
	}
	// NUMERIC is exact, and stays what it is.
	for _, want := range []string{"0.1", "12345678901234567890.123456789012345678", "-0.005"} {
		if got := query[decimal.Decimal](t, pool, "SELECT "+want); got.String() != want {
			t.Errorf("%s comes as %s", want, got)
		}
	}
}

// firstWrite keeps what a client sends first.
type firstWrite struct {
	net.Conn
	once sync.Once
	into chan<- []byte
}

func (f *firstWrite) Write(b []byte) (int, error) {
	f.once.Do(func() { f.into <- bytes.Clone(b) })
	return f.Conn.Write(b)
}

// TestConnect_KeepAlives looks at the start-up message: over a socket of the file system the server shows 0 for these.
func TestConnect_KeepAlives(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	sent := make(chan []byte, 1)
	pool := connect(t, pg.Config{DSN: db.ServiceDSN(), MaxConns: 1, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &firstWrite{Conn: conn, into: sent}, nil
	}})
	select {
	case <-sent:
		t.Error("it connects before it has to")
	default:
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	startup := string(<-sent)
	for _, want := range []string{"tcp_keepalives_idle\x005\x00", "tcp_keepalives_interval\x002\x00", "tcp_keepalives_count\x003\x00"} {
		if !strings.Contains(startup, want) {
			t.Errorf("%q is not in %q", want, startup)
		}
	}
}

func TestConnect_BadDSN(t *testing.T) {
	t.Parallel()
	if _, err := pg.Connect(t.Context(), pg.Config{DSN: "port=none"}); err == nil {
		t.Error("no error")
	}
	refused := errors.New("refused")
	pool := connect(t, pg.Config{DSN: "host=/tmp user=x dbname=x", Dial: func(context.Context, string, string) (net.Conn, error) { return nil, refused }})
	if err := pool.Ping(t.Context()); !errors.Is(err, refused) || pg.Classify(err) != pg.Unavailable {
		t.Errorf("a dialer that refuses: %v", err)
	}
}
