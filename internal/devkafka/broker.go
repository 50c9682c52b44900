// Package devkafka is the Kafka of "khata up": a broker in this process, for one machine and one person who tries things out.
//
// It keeps nothing. What was published is gone when the process ends, the topics and the consumers' offsets too, and the next start is
// another, empty cluster with another id, by which the relay and the consumers can tell. It lets everybody in, and so listens on 127.0.0.1
// only. It holds all records in memory until their retention is over.
//
// It speaks Kafka's protocol, transactions and groups included, to any client, and is no measure of a real one's speed or safety.
package devkafka

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// host is where it listens.
const host = "127.0.0.1"

// retentionEvery is how often records are looked for whose retention is over.
const retentionEvery = 10 * time.Second

// Config is how a Broker is started.
type Config struct {
	// Addr is where it listens, 127.0.0.1 and a port; port 0 takes a free one.
	Addr string
	// Logger is told of what is wrong; nobody by default.
	Logger *slog.Logger
}

// Broker is one that runs.
type Broker struct {
	cluster *kfake.Cluster
	id      string
	address string
}

// Start starts a broker with no topics, which nobody makes by only using them. It fails if something else listens on the port.
func Start(config Config) (*Broker, error) { return start(config, retentionEvery) }

func start(config Config, every time.Duration) (*Broker, error) {
	at, text, err := net.SplitHostPort(config.Addr)
	if err != nil || at != host {
		return nil, fmt.Errorf("the broker in this process listens on %[1]s only, since it lets everybody in: give an address such as %[1]s:7092, not %[2]q",
			host, config.Addr)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("address %q of the broker: %q is not a port", config.Addr, text)
	}
	log := config.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b := &Broker{id: rand.Text()[:22]} // As long as a real one's.
	b.cluster, err = kfake.NewCluster(kfake.Ports(int(port)), kfake.ClusterID(b.id), kfake.WithLogger(logger{log}),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": strconv.FormatInt(every.Milliseconds(), 10)}))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("something else listens on %s, where the broker is to: stop that (another khata up?), or choose another address: %w",
			config.Addr, err)
	} else if err != nil {
		return nil, fmt.Errorf("start the broker: %w", err)
	}
	b.address = b.cluster.ListenAddrs()[0]
	return b, nil
}

// Brokers is the address to give to clients.
func (b *Broker) Brokers() []string { return []string{b.address} }

// ClusterID is the id of the cluster, another one at each start.
func (b *Broker) ClusterID() string { return b.id }

// Close ends the broker, and with it all that it holds.
func (b *Broker) Close() { b.cluster.Close() }

// logger passes on what is wrong. The rest is a line for each request.
type logger struct{ *slog.Logger }

// Logf implements kfake.Logger.
func (l logger) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.Error("the broker in this process: " + fmt.Sprintf(format, args...))
	case kfake.LogLevelWarn:
		l.Warn("the broker in this process: " + fmt.Sprintf(format, args...))
	}
}
