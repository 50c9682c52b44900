package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// relayPoll is how often to look how far a relay is, and relayPatience how long it may stand still.
	relayPoll, relayPatience = 5 * time.Millisecond, time.Minute
)

// relay posts batches, and then has a relay publish all that the journal has, to hold the one rate against the other.
func (b *bench) relay(ctx context.Context) (err error) {
	if b.config.Target.Relay == nil {
		return errors.New("there is no Kafka to publish to: give --kafka")
	}
	if len(b.series[ModeBatch]) == 0 {
		if err := b.posting(ctx, ModeBatch, false, b.config.InFlight); err != nil {
			return err
		}
	}
	if err := b.db.settle(ctx); err != nil {
		return err
	}
	total, err := b.db.records(ctx)
	if err != nil {
		return err
	}
	r := Result{Case: ModeRelay, Name: "relay, to Kafka", Clients: 1}
	b.progress("%s: %s records", r.Name, grouped(total))
	relay, err := b.config.Target.Relay(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, relay.Stop()) }()
	// The first window is not timed: the brokers have just made the topics.
	first, began, err := b.published(ctx, 1)
	if err != nil {
		return err
	}
	processes := processes{server: relay.PID(), postmaster: b.config.Target.PostmasterPID}
	before := processes.read()
	last, ended, err := b.published(ctx, total)
	if err != nil {
		return err
	}
	r.CPU = processes.read().since(before)
	r.Seconds = ended.Sub(began).Seconds()
	r.Transfers = last - first
	r.TransfersPerSecond = float64(r.Transfers) / r.Seconds
	r.Calls, r.CallsPerSecond = r.Transfers, r.TransfersPerSecond // A record is what it is called for.
	return b.emit(ctx, r)
}

// published waits until so many records are published, and says how many are, and when.
func (b *bench) published(ctx context.Context, wanted int64) (n int64, at time.Time, err error) {
	moved := time.Now()
	for before := int64(-1); ; {
		if n, err = b.db.published(ctx); err != nil || n >= wanted {
			return n, time.Now(), err
		}
		if n != before {
			before, moved = n, time.Now()
		}
		if time.Since(moved) > relayPatience {
			return n, moved, fmt.Errorf("the relay stands still at %s of %s records", grouped(n), grouped(wanted))
		}
		pause(ctx, relayPoll)
		if err := ctx.Err(); err != nil {
			return n, moved, err
		}
	}
}
