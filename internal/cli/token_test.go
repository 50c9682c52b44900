package cli_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/cli"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
)

// guard is a server that asks callers who they are, over TLS with a certificate of its own.
func guard(t *testing.T, change func(*server.Config)) (b *bench, cert string) {
	t.Helper()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "khata"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"checkout.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b = &bench{db: pgtest.New(t)}
	config := server.Config{
		DSN: b.db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Auth: true, TLSCert: cert, TLSKey: key, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&config)
	}
	s, err := server.Start(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	b.addr = s.GRPCAddr()
	return b, cert
}

func TestToken_LetsACommandIn(t *testing.T) {
	t.Parallel()
	b, cert := guard(t, nil)
	token := func(flags string) (out string) {
		r := khata(t.Context(), append(strings.Fields("token create "+flags), "--dsn", b.db.OwnerDSN())...)
		if r.code != cli.ExitOK || strings.Contains(r.err, strings.TrimSpace(r.out)) || strings.Count(r.out, "\n") != 1 {
			t.Fatalf("khata token create %s: %+v", flags, r)
		}
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(r.out), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	poster := token("--name checkout --ledger main --role poster,reader --expires 90d")
	only := token("--name import --ledger main --role poster") // which may not read
	other := token("--name billing --grant shop:poster --grant main:finance")
	run := func(line, file string) result {
		return b.run(t, line, "--tls-ca", cert, "--token-file", file)
	}
	for _, line := range []string{
		"account create cash --type asset --currency BDT", "account create shop --type liability --currency BDT",
		"transfer post --id T-1 --debit cash --credit shop --amount 5", "hold create --id H-1 --debit cash --credit shop --amount 5", "balance shop",
	} {
		if r := run(line, poster); r.code != cli.ExitOK {
			t.Errorf("khata %s: %+v", line, r)
		}
	}
	if r := run("transfer get T-1 --json", other); r.code != cli.ExitOK || !strings.Contains(r.out, "checkout") {
		t.Errorf("the transfer is not that of checkout: %+v", r)
	}
	if r := run("hold create --id H-2 --debit cash --credit shop --amount 5", only); r.code != cli.ExitOK {
		t.Errorf("a hold by who may only post: %+v", r)
	}
	for name, c := range map[string]struct {
		r    result
		code int
		said string
	}{
		"more than the role":    {run("account update shop --freeze both", poster), cli.ExitDenied, "admin"},
		"to read":               {run("balance shop", only), cli.ExitDenied, "reader"},
		"another ledger":        {run("balance shop --ledger other", poster), cli.ExitDenied, `ledger other`},
		"another role":          {run("transfer post --id T-2 --debit cash --credit shop --amount 5", other), cli.ExitDenied, "poster"},
		"no token":              {b.run(t, "ledger list", "--tls-ca", cert), cli.ExitDenied, "token"},
		"no file":               {run("ledger list", "/nowhere"), cli.ExitUsage, "--token-file"},
		"no authority":          {b.run(t, "ledger list", "--tls-ca", poster, "--token-file", poster), cli.ExitUsage, "--tls-ca"},
		"a key alone":           {b.run(t, "ledger list", "--tls-client-key", poster), cli.ExitUsage, "together"},
		"plain text far away":   {khata(t.Context(), "ledger", "list", "--addr", "khata.example:7070", "--token-file", poster), cli.ExitUsage, "TLS"},
		"a flag for the secret": {b.run(t, "ledger list --token x"), cli.ExitUsage, "unknown flag"},
	} {
		if c.r.code != c.code || !strings.Contains(c.r.err, c.said) {
			t.Errorf("%s: %+v, want exit %d and %q", name, c.r, c.code, c.said)
		}
	}
}

func TestToken_OfTheEnvironment(t *testing.T) {
	b, cert := guard(t, nil)
	t.Setenv("KHATA_LEDGER", "shop") // It is for the client commands.
	r := khata(t.Context(), "token", "create", "--dsn", b.db.OwnerDSN(), "--name", "ops", "--grant", "main:reader")
	if r.code != cli.ExitOK {
		t.Fatalf("%+v", r)
	}
	t.Setenv("KHATA_TOKEN", strings.TrimSpace(r.out))
	t.Setenv("KHATA_TLS_CA", cert)
	if got := b.run(t, "currency list --ledger main"); got.code != cli.ExitOK {
		t.Errorf("%+v", got)
	}
	if got := b.run(t, "currency list"); got.code != cli.ExitDenied {
		t.Errorf("of ledger shop: %+v", got)
	}
}

func TestToken_ListAndRevoke(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	token := func(line string) result {
		return khata(t.Context(), append(strings.Fields("token "+line), "--dsn", db.OwnerDSN())...)
	}
	created := objects(t, token("create --name checkout --ledger main,shop --role poster --json").out)[0]
	mtls := objects(t, token("create --name fraud --certificate fraud.example --grant *:reader --expires 12h --json").out)[0]
	secret, _ := created["token"].(string)
	id, _ := created["id"].(string)
	if !strings.HasPrefix(secret, "khata_"+id+"_") || mtls["token"] != nil || mtls["expires_at"] == nil {
		t.Errorf("%v %v", created, mtls)
	}
	r := token("list --json")
	if strings.Contains(r.out, secret[len(secret)-30:]) {
		t.Errorf("a secret is listed: %s", r.out)
	}
	delete(created, "token")
	if diff := cmp.Diff([]map[string]any{created, mtls}, objects(t, r.out)); diff != "" {
		t.Errorf("khata token list (-created +listed):\n%s", diff)
	}
	if r := token("revoke " + id); r.code != cli.ExitOK || !strings.Contains(r.out, "checkout  revoked ") {
		t.Errorf("khata token revoke: %+v", r)
	}
	if r := token("list"); !strings.Contains(r.out, "main:poster,shop:poster") || !strings.Contains(r.out, "revoked ") || !strings.Contains(r.out, "certificate fraud.example  expires ") {
		t.Errorf("khata token list: %+v", r)
	}
	if r := khata(t.Context(), "token", "create", "--dsn", db.ServiceDSN(), "--name", "x", "--grant", "*:admin"); r.code != cli.ExitFailure || !strings.Contains(r.err, "khata_owner") {
		t.Errorf("as the service: %+v", r)
	}
	for line, said := range map[string]string{
		"revoke nobody":                                            "khata token list",
		"revoke":                                                   "give the ID",
		"create --ledger main --role poster":                       "--name",
		"create --name x":                                          "--role",
		"create --name x --role poster":                            "together",
		"create --name x --ledger main --role king":                "king",
		"create --name x --grant main":                             "LEDGER:ROLE",
		"create --name X --grant main:poster":                      "name",
		"create --name user:1 --grant main:poster":                 "name",
		"create --name khata --grant main:poster":                  "Khata's own",
		"create --name x --grant main:poster --expires soon":       "90d",
		"create --name x --grant main:poster --expires -1h":        "90d",
		"create --name x --grant main:poster --expires 99999999d":  "90d",
		"create --name x --grant main:poster --expires 0d":         "90d",
		"create --name x --grant main:poster --certificate c more": "unknown command",
	} {
		if r := token(line); r.code != cli.ExitUsage || !strings.Contains(r.err, said) {
			t.Errorf("khata token %s: %+v, want something of %q", line, r, said)
		}
	}
	if r := khata(t.Context(), "token", "list"); r.code != cli.ExitUsage || !strings.Contains(r.err, "khata_owner") {
		t.Errorf("without a DSN: %+v", r)
	}
}
