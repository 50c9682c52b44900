package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificates is what TLS is done with. The files are looked at again while connections come in, so that a certificate is replaced
// without a restart.
type certificates struct {
	cert, key, clientCA string
	log                 *slog.Logger

	mu      sync.Mutex
	looked  time.Time
	stamp   string
	current *tls.Config
}

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

func newCertificates(cert, key, clientCA string, log *slog.Logger) (*certificates, error) {
	c := &certificates{cert: cert, key: key, clientCA: clientCA, log: log}
	var err error
	if c.stamp, err = c.stampOf(); err == nil {
		c.current, err = c.load()
	}
	c.looked = time.Now()
	return c, err
}

// load reads the files. With a client CA, whoever connects must show a certificate of its.
func (c *certificates) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	if c.clientCA == "" {
		return config, nil
	}
	text, err := os.ReadFile(c.clientCA)
	if err != nil {
		return nil, fmt.Errorf("client CA: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("client CA: there is no PEM certificate in %s", c.clientCA)
	}
	return config, nil
}

func (c *certificates) stampOf() (string, error) {
	var stamp string
	for _, file := range []string{c.cert, c.key, c.clientCA} {
		if file == "" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return "", err
		}
		stamp += fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size(), "\n")
	}
	return stamp, nil
}

// get gives what the files say. Where they are wrong, or half written, it gives what they said before.
func (c *certificates) get() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < lookEvery {
		return c.current
	}
	c.looked = time.Now()
	stamp, err := c.stampOf()
	if err == nil && stamp == c.stamp {
		return c.current
	}
	var config *tls.Config
	if err == nil {
		config, err = c.load()
	}
	if err != nil {
		c.log.Warn("the TLS files cannot be read again; those from before are used", "error", err)
		return c.current
	}
	c.stamp, c.current = stamp, config
	c.log.Info("the TLS files have been read again")
	return config
}

// config is what a listener needs. Client certificates are for services, which use gRPC: a browser has none.
func (c *certificates) config(clientCertificates bool, protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			config := c.get().Clone()
			config.NextProtos = protocols
			if clientCertificates && config.ClientCAs != nil {
				config.ClientAuth = tls.RequireAndVerifyClientCert
			}
			// A session taken up again would be that of a certificate which nobody has looked at since.
			config.SessionTicketsDisabled = true
			return config, nil
		},
	}
}

// checkSecurity returns an error unless the configuration says how callers are known wherever it must.
func (c Config) checkSecurity() error {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case c.ClientCA != "" && c.TLSCert == "":
		return errors.New("--client-ca needs --tls-cert and --tls-key")
	case c.ClientCA != "" && !c.Auth:
		return errors.New("--client-ca needs --auth: a certificate says who is calling")
	case c.JWT != nil && !c.Auth:
		return errors.New("--jwt-… needs --auth")
	case c.ConsoleOIDC != nil && c.Console == "":
		return errors.New("--console-oidc-… needs --console: it is the console that people sign in to")
	case c.ConsoleOIDC != nil && !c.Auth:
		return errors.New("--console-oidc-… needs --auth: without it nobody is asked who they are")
	case c.ConsoleNoTokens && c.ConsoleOIDC == nil:
		return errors.New("--console-tokens=false needs --console-oidc-…: nobody could sign in")
	case c.ConsoleSandbox != "" && c.Auth:
		return errors.New("the console's sandbox believes everybody, and does not go with --auth")
	case c.RateLimit < 0 || c.RateBurst < 0:
		return errors.New("--rate-limit and --rate-burst cannot be negative")
	}
	return nil
}
