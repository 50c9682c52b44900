package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue makes a certificate of a name, which ends some time from now, and its key, in PEM.
func (a *authority) issue(t testing.TB, serial int64, name string, ends time.Duration) (cert, private []byte) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(ends),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func (a *authority) pair(t testing.TB, name string, ends time.Duration) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(a.issue(t, 2, name, ends))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// secured is a server with TLS and authentication, of which the files and the tokens are at hand.
type secured struct {
	*server.Server
	db              *pgtest.DB
	register        *auth.Register
	authority       *authority
	cert, key, file string
}

func secure(t testing.TB, change func(s *secured, c *server.Config)) *secured {
	t.Helper()
	dir := t.TempDir()
	s := &secured{db: pgtest.New(t), authority: newAuthority(t), cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), file: filepath.Join(dir, "ca.pem")}
	s.replace(t, 2, "khata.example")
	write(t, s.file, s.authority.pem())
	config := server.Config{
		DSN: s.db.ServiceDSN(), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Auth: true, TLSCert: s.cert, TLSKey: s.key, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(s, &config)
	}
	var err error
	if s.Server, err = server.Start(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if s.register, err = auth.OpenRegister(context.Background(), s.db.OwnerDSN()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.register.Close)
	return s
}

func write(t testing.TB, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace writes a new certificate of the server.
func (s *secured) replace(t testing.TB, serial int64, name string) {
	t.Helper()
	cert, key := s.authority.issue(t, serial, name, time.Hour)
	write(t, s.cert, cert)
	write(t, s.key, key)
}

func (s *secured) token(t testing.TB, spec auth.TokenSpec, grants ...string) string {
	t.Helper()
	var err error
	if spec.Grants, err = auth.ParseGrants(grants); err != nil {
		t.Fatal(err)
	}
	_, secret, err := s.register.Create(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func (s *secured) dial(t testing.TB, options client.Options) *client.Client {
	t.Helper()
	options.Patience = -1
	c, err := client.Dial(s.GRPCAddr(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestPolicy_HasAllThatIsServed(t *testing.T) {
	t.Parallel()
	s := secure(t, nil)
	for _, method := range s.Methods() {
		if _, ok := auth.RuleOf(method); !ok {
			t.Errorf("%s is missing from the policy: nobody may call it", method)
		}
	}
}

func TestSecurity_WhatGoesTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := newAuthority(t)
	cert, key := authority.issue(t, 2, "khata.example", time.Hour)
	files := map[string]string{}
	for name, text := range map[string][]byte{"cert": cert, "key": key, "ca": authority.pem(), "rubbish": []byte("x")} {
		files[name] = filepath.Join(dir, name)
		write(t, files[name], text)
	}
	for name, c := range map[string]struct {
		change func(*server.Config)
		said   string
	}{
		"beyond loopback":                   {func(c *server.Config) { c.GRPC = "0.0.0.0:0" }, "--auth"},
		"everywhere":                        {func(c *server.Config) { c.GRPC = ":0" }, "--auth"},
		"by a name":                         {func(c *server.Config) { c.HTTP = "khata.example:0" }, "--auth"},
		"beyond loopback, without TLS":      {func(c *server.Config) { c.GRPC, c.Auth = "0.0.0.0:0", true }, "--tls-cert"},
		"HTTP beyond loopback, without TLS": {func(c *server.Config) { c.HTTP, c.Auth = "[::]:0", true }, "--tls-cert"},
		"beyond loopback, with TLS alone":   {func(c *server.Config) { c.GRPC, c.TLSCert, c.TLSKey = "0.0.0.0:0", files["cert"], files["key"] }, "--auth"},
		"a certificate without a key":       {func(c *server.Config) { c.TLSCert = files["cert"] }, "together"},
		"a key without a certificate":       {func(c *server.Config) { c.TLSKey = files["key"] }, "together"},
		"a certificate that is none":        {func(c *server.Config) { c.TLSCert, c.TLSKey = files["rubbish"], files["key"] }, "TLS certificate"},
		"a certificate that is not there":   {func(c *server.Config) { c.TLSCert, c.TLSKey = dir+"/none", files["key"] }, "none"},
		"client certificates without TLS":   {func(c *server.Config) { c.ClientCA, c.Auth = files["ca"], true }, "--tls-cert"},
		"client certificates for nothing":   {func(c *server.Config) { c.ClientCA, c.TLSCert, c.TLSKey = files["ca"], files["cert"], files["key"] }, "--auth"},
		"an authority that is none": {func(c *server.Config) {
			c.ClientCA, c.TLSCert, c.TLSKey, c.Auth = files["rubbish"], files["cert"], files["key"], true
		}, "client CA"},
		"users without authentication":        {func(c *server.Config) { c.JWT = &auth.JWTConfig{Issuer: "i", Audience: "a", Keys: files["ca"]} }, "--auth"},
		"users of whom nothing else is known": {func(c *server.Config) { c.JWT, c.Auth = &auth.JWTConfig{Issuer: "i"}, true }, "audience"},
		"a negative limit":                    {func(c *server.Config) { c.RateLimit = -1 }, "negative"},
	} {
		config := server.Config{DSN: "host=127.0.0.1 port=1 user=x dbname=x", GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
		if name == "users of whom nothing else is known" {
			config.DSN = pgtest.New(t).ServiceDSN() // It is checked when the database has been.
		}
		c.change(&config)
		s, err := server.Start(t.Context(), config)
		if err == nil {
			s.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s: %v, want something of %q", name, err, c.said)
		}
	}
}

func TestSecurity_BeyondLoopbackWithAll(t *testing.T) {
	t.Parallel()
	s := secure(t, func(_ *secured, c *server.Config) { c.GRPC, c.HTTP = "0.0.0.0:0", "0.0.0.0:0" })
	_, port, err := net.SplitHostPort(s.GRPCAddr())
	if err != nil {
		t.Fatal(err)
	}
	secret := s.token(t, auth.TokenSpec{Name: "checkout"}, "*:reader")
	c, err := client.Dial("127.0.0.1:"+port, client.Options{Token: secret, TLS: &tls.Config{RootCAs: s.authority.pool()}, Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Ledgers(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSecurity_TLS(t *testing.T) {
	t.Parallel()
	s := secure(t, nil)
	secret := s.token(t, auth.TokenSpec{Name: "checkout"}, "*:reader")
	trusting := &tls.Config{RootCAs: s.authority.pool()}
	for name, c := range map[string]struct {
		options client.Options
		want    ledger.Code // "" is none
	}{
		"in order":            {client.Options{Token: secret, TLS: trusting}, ""},
		"by its name":         {client.Options{Token: secret, TLS: &tls.Config{RootCAs: s.authority.pool(), ServerName: "khata.example"}}, ""},
		"no token":            {client.Options{TLS: trusting}, ledger.CodeUnauthenticated},
		"a token that fails":  {client.Options{TLS: trusting, TokenSource: func(context.Context) (string, error) { return "", errors.New("no such file") }}, ledger.CodeUnauthenticated},
		"a token that is new": {client.Options{TLS: trusting, TokenSource: func(context.Context) (string, error) { return secret, nil }}, ""},
		"plain text":          {client.Options{Token: secret}, ledger.CodeUnavailable},
		"another name":        {client.Options{Token: secret, TLS: &tls.Config{RootCAs: s.authority.pool(), ServerName: "other.example"}}, ledger.CodeUnavailable},
		"another authority":   {client.Options{Token: secret, TLS: &tls.Config{RootCAs: newAuthority(t).pool()}}, ledger.CodeUnavailable},
		"an old TLS":          {client.Options{Token: secret, TLS: &tls.Config{RootCAs: s.authority.pool(), MaxVersion: tls.VersionTLS12}}, ledger.CodeUnavailable},
	} {
		if _, err := s.dial(t, c.options).Ledgers(t.Context()); ledger.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	// A token does not leave the machine in plain text, also not if the server would be content.
	if _, err := client.Dial("khata.example:7070", client.Options{Token: secret}); ledger.CodeOf(err) != ledger.CodeInvalidArgument || strings.Contains(err.Error(), secret) {
		t.Errorf("a token over plain text: %v", err)
	}
}

func TestSecurity_ClientCertificates(t *testing.T) {
	t.Parallel()
	s := secure(t, func(s *secured, c *server.Config) { c.ClientCA = s.file })
	s.token(t, auth.TokenSpec{Name: "checkout", Certificate: "checkout.example"}, "main:reader")
	secret := s.token(t, auth.TokenSpec{Name: "billing"}, "main:admin")
	with := func(certs ...tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: s.authority.pool(), Certificates: certs}
	}
	good := s.authority.pair(t, "checkout.example", time.Hour)
	// A connection outlives its certificate; the calls on it do not, as is seen at the end.
	brief := s.authority.pair(t, "checkout.example", 5*time.Second)
	soon := s.dial(t, client.Options{TLS: with(brief)})
	if _, err := soon.Ledgers(t.Context()); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		options client.Options
		want    ledger.Code
	}{
		"in order":             {client.Options{TLS: with(good)}, ""},
		"none":                 {client.Options{TLS: with()}, ledger.CodeUnavailable},
		"none, but a token":    {client.Options{TLS: with(), Token: secret}, ledger.CodeUnavailable},
		"an unknown authority": {client.Options{TLS: with(newAuthority(t).pair(t, "checkout.example", time.Hour))}, ledger.CodeUnavailable},
		"expired":              {client.Options{TLS: with(s.authority.pair(t, "checkout.example", -time.Minute))}, ledger.CodeUnavailable},
		"of nobody":            {client.Options{TLS: with(s.authority.pair(t, "other.example", time.Hour))}, ledger.CodeUnauthenticated},
		"and a token":          {client.Options{TLS: with(s.authority.pair(t, "other.example", time.Hour)), Token: secret}, ""},
		"and a wrong token":    {client.Options{TLS: with(good), Token: secret[:len(secret)-1] + "_"}, ledger.CodeUnauthenticated},
	} {
		if _, err := s.dial(t, c.options).Ledgers(t.Context()); ledger.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	_, err := s.dial(t, client.Options{TLS: with(good)}).CreateAccounts(t.Context(), []ledger.AccountSpec{{ID: "cash", Type: ledger.Asset, Currency: "BDT"}})
	if !errors.Is(err, ledger.CodePermissionDenied) {
		t.Errorf("more than the certificate may: %v", err)
	}
	time.Sleep(time.Until(brief.Leaf.NotAfter) + 100*time.Millisecond)
	if _, err := soon.Ledgers(t.Context()); !errors.Is(err, ledger.CodeUnauthenticated) {
		t.Errorf("on a connection from before the certificate expired: %v", err)
	}
}

// A new certificate is shown to those who connect once it is written; rubbish is not.
func TestSecurity_CertificateIsReplaced(t *testing.T) {
	t.Parallel()
	s := secure(t, nil)
	serial := func() int64 {
		conn, err := tls.Dial("tcp", s.HTTPAddr(), &tls.Config{RootCAs: s.authority.pool()})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 2 {
		t.Fatal("serial", got)
	}
	key, err := os.ReadFile(s.key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, s.key, key[:len(key)/2])
	time.Sleep(1100 * time.Millisecond)
	if got := serial(); got != 2 {
		t.Error("with half a key: serial", got)
	}
	s.replace(t, 3, "khata.example")
	time.Sleep(1100 * time.Millisecond)
	if got := serial(); got != 3 {
		t.Error("with a new certificate: serial", got)
	}
}

func TestSecurity_HTTP(t *testing.T) {
	t.Parallel()
	s := secure(t, func(_ *secured, c *server.Config) { c.RateLimit, c.RateBurst = 0.1, 5 })
	tokens := map[string]string{
		"nobody": "", "forged": "khata_x_y", "a reader of all": s.token(t, auth.TokenSpec{Name: "prometheus"}, "*:reader"),
		"a reader of main": s.token(t, auth.TokenSpec{Name: "main"}, "main:reader", "main:admin"), "an admin of all": s.token(t, auth.TokenSpec{Name: "ops"}, "*:admin"),
	}
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.authority.pool()}}}
	defer hc.CloseIdleConnections()
	var body string
	get := func(path, token string) (int, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.HTTPAddr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		body = string(text)
		return resp.StatusCode, resp.Header
	}
	for path, want := range map[string]map[string]int{
		"/healthz":      {"nobody": 200, "forged": 200},
		"/readyz":       {"nobody": 200},
		"/metrics":      {"nobody": 401, "forged": 401, "a reader of main": 403, "a reader of all": 200, "an admin of all": 200},
		"/debug/pprof/": {"nobody": 401, "forged": 401, "a reader of main": 403, "a reader of all": 403, "an admin of all": 200},
		"/other":        {"an admin of all": 404},
	} {
		for who, status := range want {
			got, header := get(path, tokens[who])
			if got != status || (status == 401) != (header.Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("%s by %s: %d %v, want %d", path, who, got, header, status)
			}
		}
	}
	for range 5 {
		_, _ = get("/metrics", tokens["a reader of all"])
	}
	if got, header := get("/metrics", tokens["a reader of all"]); got != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("too often: %d %v", got, header)
	}
	if _, _ = get("/metrics", s.token(t, auth.TokenSpec{Name: "auditor"}, "*:finance")); !strings.Contains(body, `khata_calls_denied_total{reason="UNAUTHENTICATED"} 4`) ||
		!strings.Contains(body, `khata_calls_denied_total{reason="PERMISSION_DENIED"} 3`) || !strings.Contains(body, `khata_calls_denied_total{reason="RATE_LIMITED"}`) {
		t.Errorf("the metrics do not tell who was not let in: %s", body)
	}
	plain, err := http.Get("http://" + s.HTTPAddr() + "/healthz")
	if err == nil {
		plain.Body.Close()
		if plain.StatusCode != http.StatusBadRequest {
			t.Errorf("plain text: %s", plain.Status)
		}
	}
}
