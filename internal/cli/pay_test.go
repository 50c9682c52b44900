package cli_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/khata-ledger/khata/internal/cli"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
)

// till is a payment API whose answers can be lost, and somebody's store.
type till struct {
	url, store, token string
	lose              atomic.Int64 // answers
	posts             atomic.Int64
}

func newTill(t *testing.T) *till {
	t.Helper()
	db := pgtest.New(t)
	s, err := server.Start(context.Background(), server.Config{
		DSN: db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Pay: "127.0.0.1:0", PaySandbox: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	b := &bench{db: db, addr: s.GRPCAddr()}
	b.must(t, "account create cash --type asset --currency BDT")
	b.must(t, "account create wallet:shimul --type liability --currency BDT --floor 0")
	b.must(t, "account create wallet:tithi --type liability --currency BDT --floor 0")
	b.must(t, "transfer post --id IN --debit cash --credit wallet:shimul --amount 2000")
	k := &till{store: filepath.Join(t.TempDir(), "payments"), token: filepath.Join(t.TempDir(), "token")}
	k.be(t, "shimul")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.PayAddr()})
	road := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			k.posts.Add(1)
			if k.lose.Add(-1) >= 0 {
				proxy.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		road.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:forcetypeassert // It is one.
	})
	k.url = road.URL
	return k
}

// be makes the token that of a user.
func (k *till) be(t *testing.T, user string) {
	t.Helper()
	if err := os.WriteFile(k.token, []byte("sandbox-"+user+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (k *till) run(t *testing.T, line string, more ...string) result {
	t.Helper()
	args := append([]string{"pay"}, strings.Fields(line)...)
	args = append(args, "--url", k.url, "--store", k.store, "--token-file", k.token)
	var out, err bytes.Buffer
	code := cli.Run(t.Context(), append(args, more...), cli.IO{In: strings.NewReader(""), Out: &out, Err: &err})
	return result{code, out.String(), err.String()}
}

const coaching = "--from wallet:shimul --to wallet:tithi --currency BDT"

func TestPay(t *testing.T) {
	k := newTill(t)
	want := func(r result, code int, out, errs string) {
		t.Helper()
		if r.code != code || !strings.Contains(r.out, out) || !strings.Contains(r.err, errs) || strings.Contains(r.out+r.err, "expired-token") {
			t.Errorf("exit %d, out %q, err %q; want %d, %q, %q", r.code, r.out, r.err, code, out, errs)
		}
	}
	want(k.run(t, coaching+" --amount 500.00 --reference order-1"), cli.ExitOK, "৳500.00 sent, TXN-", "")
	want(k.run(t, coaching+" --amount 500 --reference order-1"), cli.ExitOK, "৳500.00 sent, TXN-", "")
	want(k.run(t, coaching+" --amount 400 --reference order-1"), cli.ExitConflict, "", "names another payment")
	if k.posts.Load() != 1 {
		t.Errorf("%d requests", k.posts.Load())
	}
	want(k.run(t, coaching+" --amount 5000.00"), cli.ExitFailure, "৳5000.00 not sent: INSUFFICIENT_FUNDS, There is not enough money, TXN-", "")
	want(k.run(t, coaching+" --amount 5e2"), cli.ExitUsage, "", "is not a decimal")
	want(k.run(t, coaching), cli.ExitUsage, "", "amount is missing")
	want(k.run(t, "--amount 1 "+coaching, "--url", "http://pay.example"), cli.ExitUsage, "", "plain text")

	k.lose.Store(1000)
	want(k.run(t, coaching+" --amount 100.00 --reference order-2 --wait 1s"), cli.ExitUnavailable, "kept, khata pay resume goes on", "")
	k.lose.Store(0)
	k.be(t, "tithi") // Another token is another user, as far as anybody knows: hers must not be sent with it.
	want(k.run(t, "resume"), cli.ExitFailure, "", "another user's")
	want(k.run(t, coaching+" --amount 100.00 --reference order-2"), cli.ExitFailure, "", "another user's")
	k.be(t, "shimul")
	want(k.run(t, "resume"), cli.ExitOK, "৳100.00 sent, TXN-", "")
	want(k.run(t, "resume"), cli.ExitOK, "nothing is unfinished", "")
	want(k.run(t, coaching+" --amount 100.00 --reference order-2"), cli.ExitOK, "(an earlier try had done it)", "")

	list := objects(t, k.run(t, "list --json").out)
	if len(list) != 3 || list[0]["state"] != "DONE" || list[1]["state"] != "REJECTED" || list[2]["reference"] != "order-2" {
		t.Fatalf("%v", list)
	}
	key := list[2]["key"].(string) //nolint:forcetypeassert // It is one.
	want(k.run(t, "lookup "+key), cli.ExitOK, "৳100.00 sent, TXN-", "")
	want(k.run(t, "lookup "+key, "--store", t.TempDir()), cli.ExitOK, "৳100.00 sent, TXN-", "")
	want(k.run(t, "lookup "+strings.Repeat("0", 16)), cli.ExitFailure, "TRANSFER_NOT_FOUND", "")
	want(k.run(t, "lookup no"), cli.ExitUsage, "", "is not a key")
	want(k.run(t, "list"), cli.ExitOK, "৳5000.00 not sent", "")

	// What is not signed in, and what is damaged.
	if err := os.WriteFile(k.token, []byte("expired-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(k.run(t, coaching+" --amount 1.00 --user shimul --reference order-3"), cli.ExitUnavailable, "paused and kept", "")
	k.be(t, "shimul")
	want(k.run(t, "resume --user shimul"), cli.ExitOK, "৳1.00 sent", "")
	records, err := filepath.Glob(filepath.Join(k.store, "*.payment"))
	if err != nil || len(records) != 4 {
		t.Fatal(records, err)
	}
	if err := os.Truncate(records[0], 100); err != nil {
		t.Fatal(err)
	}
	want(k.run(t, "resume"), cli.ExitFailure, "", records[0])
	want(k.run(t, "list"), cli.ExitFailure, "", records[0])
	if err := os.Remove(k.token); err != nil {
		t.Fatal(err)
	}
	want(k.run(t, "resume"), cli.ExitUsage, "", "--token-file")
}
