package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/khata-ledger/khata/internal/devkafka"
	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/internal/sms"
	"github.com/khata-ledger/khata/internal/wallet"
	"github.com/khata-ledger/khata/ledger/inbox"
)

// EventsConfig is what khata up publishes and consumes, and where.
type EventsConfig struct {
	// Relay is the relay. Without brokers it publishes to a broker in this process, which keeps nothing, at Listen.
	Relay  RelayConfig
	Listen string
	// OwnerDSN is the same database as its owner, for the schemas of the consumers, which are in it, too.
	OwnerDSN string
	// SMSListen is the address of the sandbox that shows text messages, on this machine; "" sends none.
	SMSListen string
}

// Events are a relay at work, perhaps its broker, and the consumers.
type Events struct {
	broker *devkafka.Broker
	sms    *SMSSandbox
	stop   context.CancelFunc
	jobs   sync.WaitGroup
	failed chan error
	kafka  []string
}

// republished is how far back an in-memory broker is filled again. The inboxes drop what they have had, as long as it lies in their window.
const republished = inbox.DefaultWindow - 24*time.Hour

// mostRepublished bounds how many records of a ledger that are, since they are kept in memory: a kB or two each.
const mostRepublished = 200_000

// StartEvents starts them: the broker, the topics, the relay, the consumers.
func StartEvents(ctx context.Context, config EventsConfig) (_ *Events, err error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &Events{failed: make(chan error, 1), stop: stop}
	defer func() {
		if err != nil {
			e.Stop()
		}
	}()
	r, group := config.Relay, ""
	if len(r.Kafka.Brokers) == 0 {
		if e.broker, err = devkafka.Start(devkafka.Config{Addr: config.Listen, Logger: r.Logger}); err != nil {
			return nil, err
		}
		// Offsets of the broker of before mean nothing in this one.
		r.Kafka.Brokers, group = e.broker.Brokers(), "-"+e.broker.ClusterID()
		if err := RewindRelay(ctx, r.DSN, relay.Back{Since: time.Now().Add(-republished), Most: mostRepublished}); err != nil {
			return nil, fmt.Errorf("have the journal published again: %w", err)
		}
	}
	e.kafka = r.Kafka.Brokers
	if err := e.ensureTopics(ctx, r); err != nil {
		return nil, err
	}
	e.run(running, "the relay", func(ctx context.Context) error { return RunRelay(ctx, r) })
	return e, e.consume(running, config, r, group)
}

func (e *Events) ensureTopics(ctx context.Context, r RelayConfig) error {
	client, err := kafka.Connect(ctx, r.Kafka)
	if err != nil {
		return err
	}
	defer client.Close()
	spec := kafka.TopicSpec{Topics: r.Topics, Fraud: true}
	if e.broker != nil {
		spec.Partitions = 3 // Of one machine, in memory.
	}
	report, err := kafka.EnsureTopics(ctx, client, spec)
	if err == nil && report.Differs() {
		r.Logger.Warn("the topics have other settings than they should: see khata topics ensure")
	}
	return err
}

// consume starts the consumers, in the database of the books. The groups end in group.
func (e *Events) consume(ctx context.Context, config EventsConfig, r RelayConfig, group string) error {
	for _, c := range []struct {
		schema pg.Schema
		grants func(string) string
	}{{wallet.Schema, wallet.Grants}, {sms.Schema, sms.Grants}, {fraud.Schema, fraud.Grants}} {
		if _, err := MigrateConsumer(ctx, config.OwnerDSN, c.schema, ServiceRole, c.grants); err != nil {
			return fmt.Errorf("make the tables of a consumer: %w", err)
		}
	}
	of := func(consumer string) ConsumerConfig {
		return ConsumerConfig{
			DSN: r.DSN, LedgerDSN: r.DSN, Kafka: r.Kafka, Topics: r.Topics, Group: consumer + group, Registry: r.Registry,
			Logger: r.Logger,
		}
	}
	e.run(ctx, "the wallet view", func(ctx context.Context) error {
		// The topic may not have what was posted at last before the broker ended.
		return RunWallet(ctx, WalletConfig{Consumer: of(wallet.Consumer), Complete: e.broker != nil})
	})
	e.run(ctx, "the fraud check", func(ctx context.Context) error {
		return RunFraud(ctx, FraudConfig{
			Kafka: r.Kafka, Topics: r.Topics, Rules: fraud.DefaultRules(), Instance: "up", Registry: r.Registry, Logger: r.Logger,
		})
	})
	e.run(ctx, "what is flagged", func(ctx context.Context) error { return RunVerdicts(ctx, of(fraud.Consumer)) })
	if config.SMSListen == "" {
		return nil
	}
	var err error
	if e.sms, err = StartSMSSandbox(ctx, config.SMSListen); err != nil {
		return err
	}
	e.run(ctx, "the sender of messages", func(ctx context.Context) error {
		c := of(sms.Consumer)
		c.SkipLost = e.broker != nil
		return RunSMS(ctx, SMSConfig{ConsumerConfig: c, Gateway: e.sms.URL(), Language: sms.English})
	})
	return nil
}

// run runs a part until Stop. That it ends before is a failure of all.
func (e *Events) run(ctx context.Context, what string, part func(context.Context) error) {
	e.jobs.Go(func() {
		if err := part(ctx); err != nil && ctx.Err() == nil {
			select {
			case e.failed <- fmt.Errorf("%s has ended: %w", what, err):
			default: // Another one was first.
			}
		}
	})
}

// Brokers are the addresses of Kafka.
func (e *Events) Brokers() []string { return e.kafka }

// SMSURL is where text messages are shown; "" where none are sent.
func (e *Events) SMSURL() string {
	if e.sms == nil {
		return ""
	}
	return e.sms.URL()
}

// Failed receives an error if a part ends before Stop.
func (e *Events) Failed() <-chan error { return e.failed }

// Stop ends them.
func (e *Events) Stop() {
	e.stop()
	e.jobs.Wait()
	if e.sms != nil {
		e.sms.Close()
	}
	if e.broker != nil {
		e.broker.Close()
	}
}
