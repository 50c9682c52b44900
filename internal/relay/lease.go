package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
)

// errDeposed: another relay has the lease, or this one has not renewed it in time.
var errDeposed = errors.New("the lease is lost")

// leaseStep bounds each statement about the lease: a connection that has gone silent must not keep it from being lost in time.
const leaseStep = time.Second

// take takes the lease, if it is to be had. It returns the term, or 0.
func (r *Relay) take(ctx context.Context) (term int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaseStep)
	defer cancel()
	terms, err := r.sql.RelayTake(ctx, r.config.Pool, dbsqlc.RelayTakeParams{Holder: r.config.Name, Seconds: r.config.Lease.Seconds()})
	if err != nil || len(terms) == 0 {
		return 0, err
	}
	return terms[0], nil
}

// keep renews the lease until ctx ends, and calls lost when somebody else has it, or when it has run out by this machine's clock: from
// then on another one may take over.
func (r *Relay) keep(ctx context.Context, term int64, since time.Time, lost context.CancelCauseFunc) {
	ticker := time.NewTicker(r.config.Lease / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		err := r.renew(ctx, term)
		switch {
		case err == nil:
			since = now
		case errors.Is(err, errDeposed):
			lost(err)
			return
		case time.Since(since) > r.config.Lease:
			lost(fmt.Errorf("%w: it could not be renewed: %w", errDeposed, err))
			return
		}
	}
}

func (r *Relay) renew(ctx context.Context, term int64) error {
	ctx, cancel := context.WithTimeout(ctx, leaseStep)
	defer cancel()
	terms, err := r.sql.RelayRenew(ctx, r.config.Pool, dbsqlc.RelayRenewParams{Seconds: r.config.Lease.Seconds(), Term: term})
	if err == nil && len(terms) == 0 {
		return errDeposed
	}
	return err
}

// release lets another relay take over at once.
func (r *Relay) release(ctx context.Context, term int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseStep)
	defer cancel()
	if err := r.sql.RelayRelease(ctx, r.config.Pool, term); err != nil {
		r.log.Warn("the lease could not be released, and will run out", "error", err)
	}
}

// inTerm runs f in a transaction that holds the term: whoever takes over meanwhile waits for its end. If the term is over, it returns
// errDeposed, and nothing is written.
func (r *Relay) inTerm(ctx context.Context, term int64, f func(pgx.Tx) error) error {
	return pg.InTx(ctx, r.config.Pool, func(tx pgx.Tx) error {
		mine, err := r.sql.RelayMine(ctx, tx, term)
		if err != nil {
			return err
		}
		if len(mine) == 0 {
			return errDeposed
		}
		return f(tx)
	})
}
