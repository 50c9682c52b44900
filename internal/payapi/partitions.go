package payapi

import (
	"context"
	"fmt"
	"time"

	"github.com/khata-ledger/khata/internal/periodic"
)

const (
	// partitionsAhead is for how many days partitions are made ahead: a server that is down for some days is no reason to have none.
	partitionsAhead = 7
	partitionsEvery = time.Hour
)

// keepPartitions makes the partitions of the days to come, and drops those whose last answer is older than the window. Any server may
// do it, and all do.
func (a *API) keepPartitions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	made, err := a.sql.PaymentKeysMakePartitions(ctx, a.config.Pool, partitionsAhead)
	if err != nil {
		return fmt.Errorf("make the partitions of payment_key: %w", err)
	}
	dropped, err := a.sql.PaymentKeysDropPartitions(ctx, a.config.Pool, int64(a.config.Window/time.Second))
	if err != nil {
		// A reader held it up. There is always a next time.
		a.config.Logger.Warn("drop old partitions of payment_key", "error", err)
	}
	if err := a.sql.PaymentClaimsForget(ctx, a.config.Pool, a.config.Window.Seconds()); err != nil {
		a.config.Logger.Warn("forget keys that were released", "error", err)
	}
	if made > 0 || len(dropped) > 0 {
		a.config.Logger.Info("partitions of payment_key", "made", made, "dropped", dropped)
	}
	return nil
}

// partitions is the job that keeps them.
func (a *API) partitions() periodic.Job {
	return periodic.Job{Name: "keep the partitions of payment_key", Every: partitionsEvery, Do: a.keepPartitions, Log: a.config.Logger}
}
