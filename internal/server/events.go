package server

import (
	"context"
	"fmt"
	"time"

	"github.com/khata-ledger/khata/internal/devkafka"
	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/ledger/inbox"
)

// EventsConfig is what khata up publishes, and where.
type EventsConfig struct {
	// Relay is the relay. Without brokers it publishes to a broker in this process, which keeps nothing, at Listen.
	Relay  RelayConfig
	Listen string
}

// Events are a relay at work, and perhaps its broker.
type Events struct {
	broker *devkafka.Broker
	stop   context.CancelFunc
	failed chan error
	kafka  []string
}

// republished is how far back an in-memory broker is filled again. The inboxes drop what they have had, as long as it lies in their window.
const republished = inbox.DefaultWindow - 24*time.Hour

// mostRepublished bounds how many records of a ledger that are, since they are kept in memory: a kB or two each.
const mostRepublished = 200_000

// StartEvents starts them: the broker, the topics, the relay.
func StartEvents(ctx context.Context, config EventsConfig) (_ *Events, err error) {
	e := &Events{failed: make(chan error, 1)}
	defer func() {
		if err != nil {
			e.Stop()
		}
	}()
	r := config.Relay
	if len(r.Kafka.Brokers) == 0 {
		if e.broker, err = devkafka.Start(devkafka.Config{Addr: config.Listen, Logger: r.Logger}); err != nil {
			return nil, err
		}
		r.Kafka.Brokers = e.broker.Brokers()
		if err := RewindRelay(ctx, r.DSN, relay.Back{Since: time.Now().Add(-republished), Most: mostRepublished}); err != nil {
			return nil, fmt.Errorf("have the journal published again: %w", err)
		}
	}
	e.kafka = r.Kafka.Brokers
	client, err := kafka.Connect(ctx, r.Kafka)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	spec := kafka.TopicSpec{Topics: r.Topics}
	if e.broker != nil {
		spec.Partitions = 3 // Of one machine, in memory.
	}
	report, err := kafka.EnsureTopics(ctx, client, spec)
	if err != nil {
		return nil, err
	}
	if report.Differs() {
		r.Logger.Warn("the topics have other settings than they should: see khata topics ensure")
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	go func() {
		defer close(e.failed)
		if err := RunRelay(running, r); err != nil {
			e.failed <- fmt.Errorf("the relay has ended: %w", err)
		}
	}()
	return e, nil
}

// Brokers are the addresses of Kafka.
func (e *Events) Brokers() []string { return e.kafka }

// Failed receives an error if the relay ends before Stop.
func (e *Events) Failed() <-chan error { return e.failed }

// Stop ends them.
func (e *Events) Stop() {
	if e.stop != nil {
		e.stop()
		for range e.failed { // until it is closed
		}
	}
	if e.broker != nil {
		e.broker.Close()
	}
}
