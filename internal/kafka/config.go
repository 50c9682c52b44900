package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Mechanism is how a client says who it is (SASL). Empty, it does not, or does by its certificate.
type Mechanism string

// The mechanisms.
const (
	Plain       Mechanism = "plain"
	ScramSHA256 Mechanism = "scram-sha-256"
	ScramSHA512 Mechanism = "scram-sha-512"
)

var mechanisms = []Mechanism{Plain, ScramSHA256, ScramSHA512}

// Config is where Kafka is, and how to be let in.
type Config struct {
	// Brokers are some of the brokers, as HOST:PORT; these name the others.
	Brokers []string
	// TLS encrypts, and checks the brokers' certificates. CA and Cert imply it.
	TLS bool
	// CA is a file in PEM with the authorities to trust instead of the system's.
	CA string
	// Cert and Key are files in PEM with the client's certificate, if the brokers ask for one, and its key. They are read at each
	// connection, so that a certificate is replaced without a restart.
	Cert, Key string
	// SASL is how User and Password are shown. Without TLS only to brokers on loopback: anybody between could read along.
	SASL           Mechanism
	User, Password string
	// ClientID is the name in the brokers' logs and quotas; "khata" by default.
	ClientID string
}

// Validate says what is wrong with the settings themselves; Options also reads the files.
func (c Config) Validate() error {
	if len(c.Brokers) == 0 {
		return errors.New("there is no broker: give at least one as HOST:PORT")
	}
	for _, broker := range c.Brokers {
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
			return fmt.Errorf("broker %q is not HOST:PORT", broker)
		}
	}
	if (c.Cert == "") != (c.Key == "") {
		return errors.New("a client certificate and its key go together")
	}
	if c.SASL == "" {
		if c.User != "" || c.Password != "" {
			return fmt.Errorf("there is a user or a password, and no SASL mechanism to show it by: choose one of %s", list(mechanisms))
		}
		return nil
	}
	if !slices.Contains(mechanisms, c.SASL) {
		return fmt.Errorf("SASL mechanism %q is not one of %s", c.SASL, list(mechanisms))
	}
	if c.User == "" || c.Password == "" {
		return fmt.Errorf("SASL mechanism %s needs a user and a password", c.SASL)
	}
	for _, broker := range c.Brokers {
		if host, _, _ := net.SplitHostPort(broker); !c.encrypted() && host != "localhost" && !net.ParseIP(host).IsLoopback() {
			return fmt.Errorf("the password for broker %s would cross the network in plain text or nearly so: turn TLS on", broker)
		}
	}
	return nil
}

func list(all []Mechanism) string {
	var names []string
	for _, m := range all {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}

func (c Config) encrypted() bool { return c.TLS || c.CA != "" || c.Cert != "" }

// Options are what a client of Kafka is made with. It fails where Validate does, and where a file cannot be used.
func (c Config) Options() ([]kgo.Opt, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("settings for Kafka: %w", err)
	}
	if c.ClientID == "" {
		c.ClientID = "khata"
	}
	options := []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.ClientID(c.ClientID)}
	switch {
	case c.encrypted():
		config, err := c.tls()
		if err != nil {
			return nil, fmt.Errorf("settings for Kafka: %w", err)
		}
		options = append(options, kgo.DialTLSConfig(config))
	case c.SASL != "":
		// The brokers on loopback may name others that are not.
		options = append(options, kgo.Dialer(dialLoopback))
	}
	switch c.SASL {
	case Plain:
		options = append(options, kgo.SASL(plain.Auth{User: c.User, Pass: c.Password}.AsMechanism()))
	case ScramSHA256:
		options = append(options, kgo.SASL(scram.Auth{User: c.User, Pass: c.Password}.AsSha256Mechanism()))
	case ScramSHA512:
		options = append(options, kgo.SASL(scram.Auth{User: c.User, Pass: c.Password}.AsSha512Mechanism()))
	}
	return options, nil
}

func (c Config) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("authorities to trust: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("authorities to trust: there is no PEM certificate in %s", c.CA)
		}
	}
	if c.Cert != "" {
		pair := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
			if err != nil {
				return nil, fmt.Errorf("client certificate: %w", err)
			}
			return &pair, nil
		}
		if _, err := pair(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair() }
	}
	return config, nil
}

func dialLoopback(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		_ = conn.Close()
		return nil, fmt.Errorf("broker %s is not on loopback, and the password would cross the network in plain text or nearly so: turn TLS on", address)
	}
	return conn, nil
}

// connectTimeout bounds Connect.
const connectTimeout = 15 * time.Second

// Connect makes a client and asks each broker of the Config until one answers. The error of the last one says why none did.
func Connect(ctx context.Context, c Config, more ...kgo.Opt) (*kgo.Client, error) {
	options, err := c.Options()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("settings for Kafka: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("no answer from Kafka at %s: %w", strings.Join(c.Brokers, ", "), err)
	}
	return client, nil
}

// Gathered are options of a consumer for which a round of work costs much, however little there is to do: brokers wait a while until there is
// more. It is at most so much later for it.
func Gathered() []kgo.Opt {
	return []kgo.Opt{kgo.FetchMinBytes(64 << 10), kgo.FetchMaxWait(100 * time.Millisecond)}
}
