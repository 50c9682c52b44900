package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/khata-ledger/khata/internal/kafka"
)

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	secret := func(c kafka.Config) kafka.Config {
		c.User, c.Password = "khata", "secret"
		return c
	}
	remote, local := []string{"kafka1:9092", "kafka2:9092"}, []string{"localhost:9092", "127.0.0.1:9092", "[::1]:9092"}
	for name, c := range map[string]struct {
		config kafka.Config
		want   string // part of the error; empty for none
	}{
		"brokers":                    {kafka.Config{Brokers: remote}, ""},
		"no broker":                  {kafka.Config{}, "at least one as HOST:PORT"},
		"no port":                    {kafka.Config{Brokers: []string{"kafka1"}}, `broker "kafka1" is not HOST:PORT`},
		"no host":                    {kafka.Config{Brokers: []string{"kafka1:1", ":9092"}}, `broker ":9092" is not HOST:PORT`},
		"no key":                     {kafka.Config{Brokers: remote, Cert: "c.pem"}, "go together"},
		"a key alone":                {kafka.Config{Brokers: remote, TLS: true, Key: "k.pem"}, "go together"},
		"a password for nothing":     {secret(kafka.Config{Brokers: remote, TLS: true}), "choose one of plain, scram-sha-256, scram-sha-512"},
		"another mechanism":          {secret(kafka.Config{Brokers: remote, TLS: true, SASL: "gssapi"}), `"gssapi" is not one of plain,`},
		"no password":                {kafka.Config{Brokers: remote, TLS: true, SASL: kafka.Plain, User: "khata"}, "needs a user and a password"},
		"no user":                    {kafka.Config{Brokers: remote, TLS: true, SASL: kafka.Plain, Password: "secret"}, "needs a user and a password"},
		"plain under TLS":            {secret(kafka.Config{Brokers: remote, TLS: true, SASL: kafka.Plain}), ""},
		"a CA implies TLS":           {secret(kafka.Config{Brokers: remote, CA: "ca.pem", SASL: kafka.ScramSHA512}), ""},
		"a certificate implies TLS":  {secret(kafka.Config{Brokers: remote, Cert: "c.pem", Key: "k.pem", SASL: kafka.ScramSHA256}), ""},
		"plain in plain text":        {secret(kafka.Config{Brokers: remote, SASL: kafka.Plain}), "broker kafka1:9092 would cross the network"},
		"SCRAM in plain text":        {secret(kafka.Config{Brokers: append(local, "10.0.0.1:9092"), SASL: kafka.ScramSHA512}), "broker 10.0.0.1:9092 would cross the network"},
		"in plain text, on loopback": {secret(kafka.Config{Brokers: local, SASL: kafka.Plain}), ""},
	} {
		err := c.config.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error says the password", name)
		}
	}
}

func TestConfig_Files(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	brokers := []string{"kafka1:9092"}
	empty, missing := file("empty.pem", "nothing"), filepath.Join(dir, "missing.pem")
	for name, c := range map[string]struct {
		config kafka.Config
		want   string
	}{
		"no CA file":          {kafka.Config{Brokers: brokers, CA: missing}, "authorities to trust: open " + missing},
		"no CA in it":         {kafka.Config{Brokers: brokers, CA: empty}, "no PEM certificate in " + empty},
		"no certificate file": {kafka.Config{Brokers: brokers, Cert: missing, Key: missing}, "client certificate: open " + missing},
		"not even valid":      {kafka.Config{}, "settings for Kafka: there is no broker"},
	} {
		if _, err := c.config.Options(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := newKey(t)
	a := &authority{key: key, file: filepath.Join(t.TempDir(), "ca.pem")}
	der := certificate(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, key, key)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// certificate signs one, by itself if there is no parent.
func certificate(t *testing.T, template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
	t.Helper()
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "khata test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// issue makes a certificate for an address, and its key, as files.
func (a *authority) issue(t *testing.T, ip string) (cert, key string) {
	t.Helper()
	private := newKey(t)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(t, cert, "CERTIFICATE", certificate(t, &x509.Certificate{IPAddresses: []net.IP{net.ParseIP(ip)}}, a.cert, private, a.key))
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, key, "EC PRIVATE KEY", der)
	return cert, key
}

// serverTLS is what a broker with a certificate for that address listens with.
func (a *authority) serverTLS(t *testing.T, ip string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.issue(t, ip))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}

// fails says how a client is not let in; empty if it is.
func fails(t *testing.T, config kafka.Config) string {
	t.Helper()
	client, err := kafka.Connect(t.Context(), config)
	if err != nil {
		return err.Error()
	}
	defer client.Close()
	if _, err := kafka.ClusterID(t.Context(), client); err != nil {
		return err.Error()
	}
	return ""
}

func TestConnect_TLS(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	good := fake(t, kfake.NumBrokers(1), kfake.TLS(ca.serverTLS(t, "127.0.0.1"))).ListenAddrs()
	misnamed := fake(t, kfake.NumBrokers(1), kfake.TLS(ca.serverTLS(t, "10.0.0.1"))).ListenAddrs()
	old := ca.serverTLS(t, "127.0.0.1")
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	outdated := fake(t, kfake.NumBrokers(1), kfake.TLS(old)).ListenAddrs()
	for name, c := range map[string]struct {
		config kafka.Config
		want   string
	}{
		"its authority":       {kafka.Config{Brokers: good, CA: ca.file}, ""},
		"another authority":   {kafka.Config{Brokers: good, CA: other.file}, "certificate signed by unknown authority"},
		"the system's":        {kafka.Config{Brokers: good, TLS: true}, "certificate signed by unknown authority"},
		"in plain text":       {kafka.Config{Brokers: good}, "no answer from Kafka at " + good[0]},
		"for another address": {kafka.Config{Brokers: misnamed, CA: ca.file}, "certificate is valid for 10.0.0.1, not 127.0.0.1"},
		"TLS 1.1":             {kafka.Config{Brokers: outdated, CA: ca.file}, "protocol version"},
	} {
		if got := fails(t, c.config); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestConnect_ClientCertificate(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	server := ca.serverTLS(t, "127.0.0.1")
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	server.ClientCAs.AddCert(ca.cert)
	config := kafka.Config{Brokers: fake(t, kfake.NumBrokers(1), kfake.TLS(server)).ListenAddrs(), CA: ca.file}
	if got := fails(t, config); !strings.Contains(got, "certificate required") {
		t.Errorf("without a certificate: %q", got)
	}
	config.Cert, config.Key = other.issue(t, "127.0.0.1")
	if got := fails(t, config); !strings.Contains(got, "unknown certificate authority") {
		t.Errorf("another's certificate: %q", got)
	}
	// The files are replaced under a client that has read them.
	client, err := kafka.Connect(t.Context(), func() kafka.Config {
		c := config
		c.Cert, c.Key = ca.issue(t, "127.0.0.1")
		replace(t, c.Cert, config.Cert)
		replace(t, c.Key, config.Key)
		return config
	}())
	if err != nil {
		t.Fatalf("a certificate of its authority: %v", err)
	}
	client.Close()
}

func replace(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestConnect_SASL(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "p", "pw"), kfake.Superuser("SCRAM-SHA-256", "s2", "pw"),
		kfake.Superuser("SCRAM-SHA-512", "s5", "pw")).ListenAddrs()
	for user, mechanism := range map[string]kafka.Mechanism{"p": kafka.Plain, "s2": kafka.ScramSHA256, "s5": kafka.ScramSHA512} {
		config := kafka.Config{Brokers: brokers, SASL: mechanism, User: user, Password: "pw"}
		if got := fails(t, config); got != "" {
			t.Errorf("%s: %s", mechanism, got)
		}
		config.Password = "not that"
		if got := fails(t, config); got == "" {
			t.Errorf("%s: let in with a wrong password", mechanism)
		}
	}
	if got := fails(t, kafka.Config{Brokers: brokers}); got == "" {
		t.Error("let in without a password")
	}
}

// A broker on loopback may name others; the password must not go to these in plain text.
func TestDialLoopback(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	conn, err := kafka.DialLoopback(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			if _, err := kafka.DialLoopback(t.Context(), "tcp", net.JoinHostPort(ip.IP.String(), port)); err == nil || !strings.Contains(err.Error(), "turn TLS on") {
				t.Errorf("%s: %v", ip, err)
			}
			return
		}
	}
	t.Skip("this machine has no address that others could reach")
}

func TestConnect_NobodyThere(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	if got := fails(t, kafka.Config{Brokers: []string{address}}); !strings.Contains(got, "no answer from Kafka at "+address) || !strings.Contains(got, "refused") {
		t.Error(got)
	}
}
