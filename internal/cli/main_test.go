package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/cli"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		os.Exit(serve()) // The server that khata bench starts is its own program, which here is that of the tests.
	}
	// What the developer has set for his own khata is not for the tests.
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "KHATA_") && !strings.HasPrefix(name, "KHATA_TEST_") && name != "KHATA_PG_BIN" && name != "KHATA_KAFKA_LIB" {
			if err := os.Unsetenv(name); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(pgtest.Main(m))
}

func serve() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return cli.Run(ctx, os.Args[1:], cli.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}

// result is what a command line has left behind.
type result struct {
	code     int
	out, err string
}

// khata runs a command line as it is.
func khata(ctx context.Context, args ...string) result {
	var out, err bytes.Buffer
	code := cli.Run(ctx, args, cli.IO{In: strings.NewReader(""), Out: &out, Err: &err})
	return result{code, out.String(), err.String()}
}

// bench is a server for client commands.
type bench struct {
	db   *pgtest.DB
	addr string
}

func setup(t *testing.T) *bench {
	t.Helper()
	db := pgtest.New(t)
	s, err := server.Start(context.Background(), server.Config{
		DSN: db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return &bench{db: db, addr: s.GRPCAddr()}
}

// guarded is a server that asks callers who they are, and the tokens of some people.
func guarded(t *testing.T) (*bench, map[string]string) {
	t.Helper()
	db := pgtest.New(t)
	s, err := server.Start(context.Background(), server.Config{
		DSN: db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Auth: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	register, err := auth.OpenRegister(context.Background(), db.OwnerDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(register.Close)
	tokens := map[string]string{}
	for name, role := range map[string]string{
		"payments": "poster", "rina": "support", "karim": "support", "laila": "approver", "tithi": "finance", "boss": "admin",
	} {
		grants, err := auth.ParseGrants([]string{"main:" + role})
		if err != nil {
			t.Fatal(err)
		}
		if _, tokens[name], err = register.Create(context.Background(), auth.TokenSpec{Name: name, Grants: grants}); err != nil {
			t.Fatal(err)
		}
	}
	return &bench{db: db, addr: s.GRPCAddr()}, tokens
}

// run runs a client command against the bench's server. The words of line are its arguments; more can follow.
func (b *bench) run(t *testing.T, line string, more ...string) result {
	t.Helper()
	args := append(strings.Fields(line), more...)
	return khata(t.Context(), append(args, "--addr", b.addr)...)
}

// must is run for commands that are to succeed.
func (b *bench) must(t *testing.T, line string, more ...string) string {
	t.Helper()
	r := b.run(t, line, more...)
	if r.code != cli.ExitOK || r.err != "" {
		t.Fatalf("khata %s: exit %d, %s", line, r.code, r.err)
	}
	return r.out
}

// objects reads the output of a command with --json: one object a line.
func objects(t *testing.T, text string) []map[string]any {
	t.Helper()
	var list []map[string]any
	for line := range strings.Lines(text) {
		dec := json.NewDecoder(strings.NewReader(line))
		dec.UseNumber()
		var object map[string]any
		if err := dec.Decode(&object); err != nil {
			t.Fatalf("%q is no JSON object: %v", line, err)
		}
		if dec.More() {
			t.Fatalf("more than one object in the line %q", line)
		}
		list = append(list, object)
	}
	return list
}
