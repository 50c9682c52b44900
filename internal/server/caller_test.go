package server_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// caller is one client of all servers. It sends what is open again, under the same id, to whichever server comes up, and
// tells the history all that it hears.
type caller struct {
	history *history
	clients []*client.Client
	random  *rand.Rand
}

func (b *bench) caller(t testing.TB, h *history, r *rand.Rand) *caller {
	t.Helper()
	return &caller{history: h, clients: b.clients(t), random: r}
}

// post sends requests until each is answered or ctx ends: one alone by PostTransfer, several by PostTransfers.
func (c *caller) post(ctx context.Context, specs ...ledger.TransferSpec) {
	if ctx.Err() != nil {
		return
	}
	for _, spec := range specs {
		c.history.sent(spec)
	}
	for ctx.Err() == nil {
		if specs = c.try(ctx, specs); len(specs) == 0 {
			return
		}
		// Not all at once when a server comes back.
		select {
		case <-time.After(time.Duration(5+c.random.IntN(20)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// try sends requests once and returns those that are open. What the end of the test itself cuts off is nobody's fault.
func (c *caller) try(ctx context.Context, specs []ledger.TransferSpec) (open []ledger.TransferSpec) {
	to := pick(c.random, c.clients)
	var results []client.Result
	var err error
	asked := time.Now()
	if len(specs) == 1 {
		var r client.Result
		r, err = to.PostTransfer(ctx, specs[0])
		results = []client.Result{r}
	} else {
		results, err = to.PostTransfers(ctx, specs)
	}
	if ctx.Err() != nil && err != nil {
		return specs
	}
	c.history.took(time.Since(asked))
	noTurn := hadNoTurn(err)
	for i, spec := range specs {
		var r client.Result
		if err == nil {
			r = results[i]
		}
		if c.history.heard(spec, r, err) {
			open = append(open, spec)
		}
		noTurn = noTurn || hadNoTurn(r.Err)
	}
	if noTurn {
		c.history.countNoTurn()
	}
	return open
}
