package kafka_test

import (
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/kafkatest"
)

func TestMain(m *testing.M) { os.Exit(kafkatest.Main(m.Run)) }

// fake starts a fake Kafka that ends with the test.
func fake(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// connect makes a client that is closed with the test.
func connect(t *testing.T, brokers []string, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: brokers}, more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// onBoth runs a test against the fake Kafka, of three brokers, and against a real one of one.
func onBoth(t *testing.T, test func(*testing.T, *kgo.Client)) {
	t.Helper()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		test(t, connect(t, fake(t, kfake.NumBrokers(3)).ListenAddrs()))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, connect(t, kafkatest.Shared(t).Brokers()))
	})
}
