package payapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/periodic"
)

const (
	// sweepMost is how many claims a sweep takes on, and sweepAtOnce how many of them at the same time.
	sweepMost, sweepAtOnce = 64, 8
	// longestWait is the longest pause between two tries to find out what became of a charge.
	longestWait = 2 * time.Minute
)

// sweeps is the job that sweeps.
func (c *cashier) sweeps() periodic.Job {
	return periodic.Job{Name: "look after claims", Every: c.config.SweepEvery, Do: c.sweep, Log: c.log}
}

// sweep looks after the claims whose lease has ended. Every server does; the fence decides between them.
func (c *cashier) sweep(ctx context.Context) error {
	due, err := c.sql.PaymentClaimsDue(ctx, c.pool, dbsqlc.PaymentClaimsDueParams{Ledger: string(c.ledger), Most: sweepMost})
	if err != nil {
		return fmt.Errorf("look for claims: %w", err)
	}
	var wg sync.WaitGroup
	places := make(chan struct{}, sweepAtOnce)
	for _, row := range due {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			if ctx.Err() == nil {
				c.lookAfter(ctx, row)
			}
		})
	}
	wg.Wait()
	return nil
}

// lookAfter takes a claim over and brings it as far as what is known of it goes. Nothing is charged here, ever.
func (c *cashier) lookAfter(ctx context.Context, row dbsqlc.PaymentClaimsDueRow) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("panic", "doing", "sweep", "panic", p)
		}
	}()
	t, err := c.take(context.WithoutCancel(ctx), row.UserID, row.IdemKey, row.Fence, false, nil)
	if err != nil {
		c.log.Warn("take a claim over", "error", err)
	}
	if t == nil {
		return
	}
	c.config.at("taken")
	if t.step == stepGiveBack {
		err = c.giveBack(ctx, t)
	} else {
		err = c.settle(ctx, t)
	}
	switch {
	case err == nil, errors.Is(err, errFenced):
	case t.attempts >= c.config.Attempts || errors.Is(err, ErrRefundRefused), errors.Is(err, ErrOtherAmount):
		c.log.Error("a payment has to be looked at", "transfer", t.spec.ID, "gateway_key", t.gatewayKey, "step", t.step, "error", err)
		c.postpone(ctx, &t.held, 0, err.Error(), true)
	default:
		c.log.Warn("what became of a charge is not known yet", "transfer", t.spec.ID, "gateway_key", t.gatewayKey, "step", t.step, "error", err)
		c.postpone(ctx, &t.held, c.pause(t.attempts), err.Error(), false)
	}
}

// pause grows with each try.
func (c *cashier) pause(attempts int32) time.Duration {
	return min(c.config.SweepEvery<<min(attempts, 10), longestWait)
}

// settle finds out what became of a charge. The ledger is asked first, then the gateway. What neither knows is cancelled at the gateway
// before the key is given free: the first request may still be on its way there.
func (c *cashier) settle(ctx context.Context, t *taken) error {
	record, err := c.recorded(ctx, t.spec)
	if err != nil {
		return err
	}
	if record != nil { // In one commit with its claim, if everybody keeps to the rules. It stands, whatever the gateway says.
		_, err := c.finish(ctx, &t.held, t.spec, false)
		return err
	}
	asked := t.charge()
	state, err := c.ask(ctx, asked, c.config.Gateway.Status)
	if err == nil && state == NotSeen {
		state, err = c.ask(ctx, asked, c.config.Gateway.Cancel)
	}
	switch {
	case err != nil:
		return err
	case state == Charged || state == Declined:
		_, err = c.finish(ctx, &t.held, t.spec, state == Declined)
		return err
	case state == Cancelled:
		return c.put(ctx, &t.held, stepReleased)
	}
	return errors.New("the gateway answered " + string(state))
}

func (c *cashier) ask(ctx context.Context, asked Charge, f func(context.Context, Charge) (ChargeState, error)) (ChargeState, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	return f(ctx, asked)
}

// giveBack gives back what was charged and the ledger has refused.
func (c *cashier) giveBack(ctx context.Context, t *taken) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	if err := c.config.Gateway.Refund(ctx, t.gatewayKey, t.gatewayKey+"-back"); err != nil {
		return err
	}
	return c.put(ctx, &t.held, stepNone)
}
