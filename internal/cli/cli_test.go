package cli_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/cli"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (b *bench) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Dial(b.addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestPost_TenTimesIsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.must(t, "account create cash --type asset --currency BDT")
	b.must(t, "account create wallet:a --type liability --currency BDT")
	const line = "transfer post --id T-1 --debit cash --credit wallet:a --amount 500.00 --json"
	first := objects(t, b.must(t, line))[0]
	if first["replayed"] != false || first["outcome"] != "posted" || first["transfer_id"] != "T-1" {
		t.Fatalf("first: %v", first)
	}
	for range 9 {
		again := objects(t, b.must(t, line))[0]
		if again["replayed"] != true || again["sequence"] != first["sequence"] || again["posted_at"] != first["posted_at"] {
			t.Fatalf("again: %v, first %v", again, first)
		}
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000000Z", first["posted_at"].(string)); err != nil {
		t.Error(err)
	}
	if got := objects(t, b.must(t, "balance wallet:a --json"))[0]["posted"]; got != "500.00" {
		t.Errorf("balance %v", got)
	}
}

// Amounts beyond what a float or an int64 holds pass through the command line digit by digit.
func TestWeiSurviveExactly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const amount, floor = "1000000000.000000000000000001", "-0.000000000000000001"
	b.must(t, "currency register ETH 18")
	b.must(t, "account create cash --type asset --currency ETH")
	b.must(t, "account create vault --type liability --currency ETH --floor="+floor)
	for line, want := range map[string]string{
		"account get vault": fmt.Sprintf(`"floor":"%s"`, floor),
		"transfer post --id T-1 --debit cash --credit vault --amount " + amount + " --balances": fmt.Sprintf(`"posted":"%s"`, amount),
	} {
		if got := b.must(t, line, "--json"); !strings.Contains(got, want) {
			t.Errorf("khata %s: %s has no %s", line, got, want)
		}
	}
	for line, wants := range map[string][]string{
		"balance vault":    {fmt.Sprintf(`"posted":"%s"`, amount)},
		"entries vault":    {fmt.Sprintf(`"amount":"%s"`, amount), fmt.Sprintf(`"balance":"%s"`, amount)},
		"transfer get T-1": {fmt.Sprintf(`"amount":"%s"`, amount)},
	} {
		for _, want := range wants {
			if got := b.must(t, line, "--json"); !strings.Contains(got, want) {
				t.Errorf("khata %s: %s has no %s", line, got, want)
			}
		}
		if got := b.must(t, line); !strings.Contains(got, " "+amount+" ") {
			t.Errorf("khata %s, as text: %s has no %s", line, got, amount)
		}
	}
	if r := b.run(t, "transfer post --id T-1 --debit cash --credit vault --amount 1000000000.000000000000000002"); r.code != cli.ExitConflict {
		t.Errorf("one wei more: exit %d, %s%s", r.code, r.out, r.err)
	}
	if r := b.run(t, "transfer post --id T-2 --debit vault --credit cash --amount 1000000000.000000000000000003"); r.code != cli.ExitRefused {
		t.Errorf("one wei too much: exit %d, %s%s", r.code, r.out, r.err)
	}
}

func TestFlags_AnywhereAndWithEquals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.must(t, "account create cash --type asset --currency BDT")
	want := b.must(t, "balance cash --json")
	for _, args := range [][]string{
		{"balance", "cash", "--json", "--addr", b.addr},
		{"balance", "--json", "--addr", b.addr, "cash"},
		{"balance", "--addr=" + b.addr, "cash", "--json=true"},
		{"balance", "--json", "--ledger=main", "--addr", b.addr, "--", "cash"},
		{"--addr", b.addr, "balance", "cash", "--json"},
		{"--addr=" + b.addr, "--ledger", "main", "balance", "--json", "cash"},
	} {
		if r := khata(t.Context(), args...); r.code != cli.ExitOK || r.out != want {
			t.Errorf("khata %q: exit %d, %s%s", args, r.code, r.out, r.err)
		}
	}
	// Subcommands take them at each level.
	want = b.must(t, "account get cash")
	for _, args := range [][]string{
		{"account", "--addr", b.addr, "get", "cash"},
		{"account", "get", "--addr", b.addr, "cash"},
	} {
		if r := khata(t.Context(), args...); r.code != cli.ExitOK || r.out != want {
			t.Errorf("khata %q: exit %d, %s%s", args, r.code, r.out, r.err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	b := setup(t)
	b.must(t, "account create cash --type asset --currency BDT")
	b.must(t, "ledger create shop")
	b.must(t, "account create cash --type asset --currency JPY --ledger shop")
	for _, c := range []struct {
		name string
		env  map[string]string
		args string
		want result
	}{
		{"address", map[string]string{"KHATA_ADDR": b.addr}, "balance cash", result{out: "cash  0.00 BDT\n"}},
		{"ledger", map[string]string{"KHATA_ADDR": b.addr, "KHATA_LEDGER": "shop"}, "balance cash", result{out: "cash  0 JPY\n"}},
		{"the flag wins", map[string]string{"KHATA_ADDR": "127.0.0.1:1", "KHATA_LEDGER": "shop"}, "balance cash --ledger main --addr " + b.addr, result{out: "cash  0.00 BDT\n"}},
		{"JSON", map[string]string{"KHATA_ADDR": b.addr, "KHATA_JSON": "true"}, "balance cash",
			result{out: `{"account":"cash","currency":"BDT","posted":"0.00","held":"0.00","available":"0.00","incoming":"0.00","version":0}` + "\n"}},
		{"the flag wins over JSON", map[string]string{"KHATA_ADDR": b.addr, "KHATA_JSON": "1"}, "balance cash --json=false", result{out: "cash  0.00 BDT\n"}},
		{"empty is unset", map[string]string{"KHATA_ADDR": b.addr, "KHATA_LEDGER": "", "KHATA_JSON": ""}, "balance cash", result{out: "cash  0.00 BDT\n"}},
		{"a flag with a dash", map[string]string{"KHATA_ADDR": b.addr, "KHATA_NEWEST_FIRST": "true"}, "entries cash", result{}},
		{"wrong", map[string]string{"KHATA_ADDR": b.addr, "KHATA_LIMIT": "many"}, "entries cash",
			result{code: cli.ExitUsage, err: "khata: environment variable KHATA_LIMIT: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // not the patience of a client that has no server
			defer cancel()
			got := khata(ctx, strings.Fields(c.args)...)
			if got.code != c.want.code || got.out != c.want.out || !strings.HasPrefix(got.err, c.want.err) || (got.err == "") != (c.want.err == "") {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// A wrong number of arguments is told by their names, and how the command is written.
func TestArguments(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"account get":             "khata: give the ACCOUNT: khata account get ACCOUNT\n",
		"account get a b":         "khata: one ACCOUNT is enough: khata account get ACCOUNT\n",
		"currency register":       "khata: give the CODE and the SCALE: khata currency register CODE SCALE\n",
		"currency register X":     "khata: give the SCALE, too: khata currency register CODE SCALE\n",
		"currency register X 1 2": "khata: one CODE and one SCALE are enough: khata currency register CODE SCALE\n",
		"balance":                 "khata: give at least one ACCOUNT: khata balance ACCOUNT...\n",
		"reconcile import":        "khata: give at least one FILE: khata reconcile import FILE...\n",
		"hold capture":            "khata: give the HOLD: khata hold capture HOLD --id ID --amount AMOUNT|--all\n",
		"reconcile files 1 2":     "khata: one NUMBER is enough: khata reconcile files [NUMBER] --bank-account A\n",
	} {
		if r := khata(t.Context(), strings.Fields(line)...); r.code != cli.ExitUsage || r.out != "" || r.err != want {
			t.Errorf("khata %s: exit %d, %s%s; want %s", line, r.code, r.out, r.err, want)
		}
	}
}

// Where nobody listens it is said at once, and once; and what has only read, or was never sent, leaves nothing open.
func TestUnavailable_IsSaid(t *testing.T) {
	t.Parallel()
	const waiting = "no answer from 127.0.0.1:1 yet, trying again for up to 30 s (is khata up running?)\n"
	for line, rest := range map[string]string{
		"balance x":   "",
		"ledger list": "",
		"reconcile import testdata/bank/january.csv --profile city": "khata: nothing was sent: run the same command again when the server is there\n",
		"transfer post --id T-1 --debit a --credit b --amount 1":    "khata: nothing was sent: run the same command again when the server is there\n",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			r := khata(ctx, append(strings.Fields(line), "--addr", "127.0.0.1:1")...)
			lines := strings.SplitAfter(r.err, "\n")
			if r.code != cli.ExitUnavailable || r.out != "" || len(lines) < 3 || lines[0] != waiting {
				t.Fatalf("%+v", r)
			}
			if !strings.HasPrefix(lines[1], "khata: ") || !strings.HasSuffix(lines[1], " no answer from 127.0.0.1:1: connection refused\n") || strings.Join(lines[2:], "") != rest {
				t.Errorf("after that: %q", lines[1:])
			}
		})
	}
}

// Where nobody listens the client tries again until its patience or the caller's is spent, and says that the outcome is
// open.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	const post = "transfer post --id T-1 --debit a --credit b --amount 1 --addr 127.0.0.1:1"
	for name, context := range map[string]func() (context.Context, context.CancelFunc){
		"deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 500*time.Millisecond)
		},
		"interrupt": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context()
			defer cancel()
			if r := khata(ctx, strings.Fields(post)...); r.code != cli.ExitUnavailable || r.out != "" || !strings.Contains(r.err, "run the same command again") {
				t.Errorf("got %+v", r)
			}
			r := khata(ctx, append(strings.Fields(post), "--json")...)
			said := objects(t, r.err)
			if r.code != cli.ExitUnavailable || r.out != "" || len(said) != 1 || !ledger.Code(fmt.Sprint(said[0]["code"])).Open() {
				t.Errorf("with --json: %+v", r)
			}
		})
	}
}

func TestUnavailable_WithinItsPatience(t *testing.T) {
	t.Parallel()
	if os.Getenv("KHATA_TEST_LONG") == "" {
		t.Skip("takes half a minute: set KHATA_TEST_LONG")
	}
	started := time.Now()
	r := khata(t.Context(), "balance", "x", "--addr", "127.0.0.1:1")
	if took := time.Since(started); r.code != cli.ExitUnavailable || took > 35*time.Second {
		t.Errorf("exit %d after %s: %s", r.code, took, r.err)
	}
}

// Listings longer than a page come whole.
func TestListings_LongerThanAPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 1050
	c := b.client(t)
	specs := []ledger.AccountSpec{{ID: "cash", Type: ledger.Asset, Currency: "BDT"}}
	for i := range n {
		specs = append(specs, ledger.AccountSpec{ID: ledger.AccountID(fmt.Sprintf("wallet:%04d", i)), Type: ledger.Liability, Currency: "BDT"})
	}
	if _, err := c.CreateAccounts(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	var transfers []ledger.TransferSpec
	for i := range n {
		transfers = append(transfers, ledger.TransferSpec{
			ID: ledger.TransferID(fmt.Sprintf("T-%d", i)), Entries: ledger.Simple("cash", specs[i+1].ID, decimal.New(1, -2), ""),
		})
	}
	results, err := c.PostTransfers(t.Context(), transfers)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	accounts := objects(t, b.must(t, "account list --prefix wallet: --json"))
	for i, a := range accounts {
		if want := fmt.Sprintf("wallet:%04d", i); a["account"] != want {
			t.Fatalf("account %d is %v", i, a["account"])
		}
	}
	entries := objects(t, b.must(t, "entries cash --json"))
	for i, e := range entries {
		if want := fmt.Sprintf("%d.%02d", (i+1)/100, (i+1)%100); e["transfer_id"] != fmt.Sprintf("T-%d", i) || e["balance"] != want {
			t.Fatalf("entry %d is %v", i, e)
		}
	}
	newest := objects(t, b.must(t, "entries cash --json --newest-first --limit 1001"))
	if len(accounts) != n || len(entries) != n || len(newest) != 1001 {
		t.Errorf("%d accounts, %d entries, %d newest", len(accounts), len(entries), len(newest))
	}
	if e := newest[1000]; e["transfer_id"] != "T-49" || e["balance"] != "0.50" {
		t.Errorf("the last of the newest is %v", e)
	}
}

func TestCurrencyList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.must(t, "currency register ETH 18")
	lines := slices.Collect(strings.Lines(b.must(t, "currency list")))
	if !slices.IsSorted(lines) {
		t.Error("not in order")
	}
	for _, want := range []string{"BDT  2 decimals\n", "ETH  18 decimals\n", "JPY  0 decimals\n"} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q", want)
		}
	}
	if got := len(objects(t, b.must(t, "currency list --json"))); got != len(lines) {
		t.Errorf("%d objects, %d lines", got, len(lines))
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := khata(t.Context(), "migrate", "status", "--dsn", b.db.OwnerDSN())
	if r.code != cli.ExitOK || r.err != "" || r.out == "" {
		t.Fatalf("status: %+v", r)
	}
	for line := range strings.Lines(r.out) {
		if !strings.Contains(line, "  applied 20") {
			t.Errorf("status of a database that is up to date: %s", line)
		}
	}
	if r := khata(t.Context(), "migrate", "up", "--dsn", b.db.OwnerDSN()); r != (result{out: "the schema is up to date\n"}) {
		t.Errorf("up: %+v", r)
	}
	if r := khata(t.Context(), "migrate", "up", "--dsn", "host=127.0.0.1 port=1 dbname=x user=x"); r.code != cli.ExitFailure || r.err == "" {
		t.Errorf("without a database: %+v", r)
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	if r := khata(t.Context(), "version"); r.code != cli.ExitOK || !strings.HasPrefix(r.out, "khata ") || r.err != "" {
		t.Errorf("version: %+v", r)
	}
	root := khata(t.Context(), "--help")
	for _, want := range []string{"3 refused and recorded", "4 conflict", "5 not found", "6 unavailable", "KHATA_ADDR"} {
		if !strings.Contains(strings.Join(strings.Fields(root.out), " "), want) {
			t.Errorf("khata --help does not say %q", want)
		}
	}
	if alone := khata(t.Context()); alone != root {
		t.Errorf("khata alone is not khata --help: %+v", alone)
	}
	server := []string{"up", "serve", "migrate up", "migrate status", "verify", "token create", "token list", "token revoke", "bench", "topics ensure", "topics show",
		"relay", "relay status", "relay parked", "relay parked retry", "relay parked skip", "relay rewind", "events"}
	client := []string{
		"ledger create", "ledger list", "currency register", "currency list", "account create", "account get", "account list",
		"account update", "transfer post", "transfer post-atomic", "transfer get", "hold create", "hold capture", "hold void", "hold list",
		"hold get", "refund", "reverse", "balance", "entries", "period close", "period reopen", "period list",
		"report list", "report trial-balance", "report balance-sheet", "report income-statement", "report general-ledger", "report clearing",
		"report daily-position", "report balance-over-time", "report growth", "statement issue", "statement show", "statement list", "statement changes",
		"export hledger", "export beancount", "export entries",
	}
	for _, command := range slices.Concat(server, client) {
		r := khata(t.Context(), append(strings.Fields(command), "--help")...)
		if r.code != cli.ExitOK || !strings.Contains(r.out, "Usage:\n  khata "+command) || r.err != "" {
			t.Errorf("khata %s --help: %+v", command, r)
		}
		for _, flag := range []string{"--addr string", "--ledger string", "--json "} {
			if slices.Contains(client, command) && !strings.Contains(r.out, flag) {
				t.Errorf("khata %s --help does not list %s", command, flag)
			}
		}
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, c := range map[string]struct {
		args []string
		code int
		said string
	}{
		"not on loopback":      {[]string{"--dsn", b.db.ServiceDSN(), "--grpc", "0.0.0.0:0"}, cli.ExitFailure, "loopback"},
		"HTTP not on it":       {[]string{"--dsn", b.db.ServiceDSN(), "--grpc", "127.0.0.1:0", "--http", "192.0.2.1:0"}, cli.ExitFailure, "loopback"},
		"not for strangers":    {[]string{"--dsn", b.db.ServiceDSN(), "--grpc", "0.0.0.0:0", "--auth"}, cli.ExitFailure, "--tls-cert"},
		"half a certificate":   {[]string{"--dsn", b.db.ServiceDSN(), "--tls-cert", "x"}, cli.ExitFailure, "--tls-key"},
		"half of the users":    {[]string{"--dsn", b.db.ServiceDSN(), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--auth", "--jwt-issuer", "x"}, cli.ExitFailure, "audience"},
		"address taken":        {[]string{"--dsn", b.db.ServiceDSN(), "--grpc", b.addr, "--http", "127.0.0.1:0"}, cli.ExitFailure, "in use"},
		"no database":          {[]string{"--dsn", "host=127.0.0.1 port=1 dbname=x user=x", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}, cli.ExitFailure, "127.0.0.1"},
		"as who could rewrite": {[]string{"--dsn", b.db.OwnerDSN(), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}, cli.ExitFailure, "--unsafe"},
		"half a provider": {[]string{"--dsn", b.db.ServiceDSN(), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--auth", "--console", "127.0.0.1:0", "--console-oidc-issuer",
			"https://id.example", "--console-oidc-grant", "khata-finance=main:finance"}, cli.ExitFailure, "client id"},
		"a provider without --auth": {[]string{"--dsn", b.db.ServiceDSN(), "--console", "127.0.0.1:0", "--console-oidc-client-id", "x"}, cli.ExitFailure, "--auth"},
		"no role":                   {[]string{"--dsn", b.db.ServiceDSN(), "--console-oidc-grant", "khata-finance=main:owner"}, cli.ExitUsage, "--console-oidc-grant"},
		"no way in":                 {[]string{"--dsn", b.db.ServiceDSN(), "--auth", "--console", "127.0.0.1:0", "--console-tokens=false"}, cli.ExitFailure, "nobody could sign in"},
		"extra argument":            {[]string{"now", "--dsn", b.db.ServiceDSN()}, cli.ExitUsage, "now"},
	} {
		if r := khata(t.Context(), append([]string{"serve"}, c.args...)...); r.code != c.code || !strings.Contains(r.err, c.said) {
			t.Errorf("%s: exit %d, %s", name, r.code, r.err)
		}
	}
	for name, flags := range map[string][]string{
		"as the service":       {"--dsn", b.db.ServiceDSN()},
		"unsafe, as the owner": {"--dsn", b.db.OwnerDSN(), "--unsafe"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			logged, log := io.Pipe()
			code := make(chan int, 1)
			go func() {
				args := append([]string{"serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}, flags...)
				code <- cli.Run(ctx, args, cli.IO{In: strings.NewReader(""), Out: io.Discard, Err: log})
				_ = log.Close()
			}()
			var all strings.Builder
			for lines := bufio.NewScanner(logged); lines.Scan(); {
				line := lines.Text()
				all.WriteString(line + "\n")
				if _, rest, ok := strings.Cut(line, "msg=serving grpc="); ok {
					addr, _, _ := strings.Cut(rest, " ")
					if r := khata(t.Context(), "ledger", "list", "--addr", addr); r.code != cli.ExitOK || !strings.HasPrefix(r.out, "main  ") {
						t.Errorf("a client gets %+v", r)
					}
					stop()
				}
			}
			if got := <-code; got != cli.ExitOK || !strings.Contains(all.String(), "msg=serving") {
				t.Errorf("exit %d after:\n%s", got, &all)
			}
		})
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.must(t, "account create cash --type asset --currency BDT")
	b.must(t, "account create wallet:a --type liability --currency BDT")
	b.must(t, "transfer post --id T-1 --debit cash --credit wallet:a --amount 5")
	if r := khata(t.Context(), "verify", "--dsn", b.db.ServiceDSN()); r.code != cli.ExitOK || r.out == "" || r.err != "" {
		t.Errorf("of books in order: %+v", r)
	}
	if r := khata(t.Context(), "verify", "--dsn", b.db.ServiceDSN(), "--json"); r.code != cli.ExitOK || len(objects(t, r.out)) != 1 {
		t.Errorf("of books in order, with --json: %+v", r)
	}
	if r := khata(t.Context(), "verify", "--dsn", b.db.ServiceDSN(), "--data-dir", t.TempDir()); r.code != cli.ExitUsage {
		t.Errorf("with both: %+v", r)
	}
}
