package support

import (
	"context"
	"time"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// sweepBatch is how many requests a sweep posts at most.
const sweepBatch = 100

// sweepPlace is a place among the requests that are to be posted.
type sweepPlace struct {
	at     time.Time
	ledger int32
	no     int64
}

// Sweep posts what was left between its approval and its posting, by a server that died or a database that was away. It goes through up to 100 of
// them, of all ledgers, and returns how many it has settled and the first error. The next one of this desk goes on behind them, and after the last begins
// anew: those that fail again and again do not hold up the others. Any number of servers may sweep at once.
func (d *Desk) Sweep(ctx context.Context) (settled int, err error) {
	d.sweeping.Lock()
	after := d.swept
	d.sweeping.Unlock()
	rows, err := d.toSweep(ctx, after)
	if err == nil && len(rows) == 0 && after != (sweepPlace{}) {
		rows, err = d.toSweep(ctx, sweepPlace{})
	}
	if err != nil {
		return 0, public(ctx, "look for refunds to be posted", err)
	}
	after = sweepPlace{}
	if n := len(rows); n == int(d.sweepBatch) {
		after = sweepPlace{rows[n-1].ExpiresAt, rows[n-1].LedgerID, rows[n-1].RequestNo}
	}
	d.sweeping.Lock()
	d.swept = after
	d.sweeping.Unlock()
	var failed error
	for _, row := range rows {
		r, err := d.refund(ctx, d.pool, ledger.Name(row.Ledger), row.LedgerID, row.RequestNo)
		if err == nil {
			r, err = d.settle(ctx, row.LedgerID, r)
		}
		switch {
		case err != nil:
			failed = first(failed, public(ctx, "post a refund that was left", err))
		case r.State.Final():
			settled++
		}
	}
	return settled, failed
}

func (d *Desk) toSweep(ctx context.Context, after sweepPlace) ([]dbsqlc.SupportRequestsUnsettledRow, error) {
	return d.sql.SupportRequestsUnsettled(ctx, d.pool, dbsqlc.SupportRequestsUnsettledParams{
		Ready: true, Most: d.sweepBatch, AfterAt: after.at, AfterLedger: after.ledger, AfterNo: after.no,
	})
}
