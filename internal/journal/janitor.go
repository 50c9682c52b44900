package journal

import (
	"context"
	"sync/atomic"
	"time"
)

// janitor is what has to be done now and then, whoever calls.
type janitor struct {
	accounts, transfers growth
	refresh             chan struct{}
	ended               chan struct{}
}

func newJanitor() *janitor {
	return &janitor{refresh: make(chan struct{}, 1), ended: make(chan struct{})}
}

// firstRefresh is after how many rows written to a table a server first refreshes the planner's statistics. It does so again
// each time that the number has grown fourfold. Autovacuum would do it too, but a minute later, and that is long for a new
// database.
const firstRefresh = 250

// growth counts the rows that this server has written to a table.
type growth struct{ rows atomic.Int64 }

// wrote counts rows, and asks for new statistics if that is due.
func (n *janitor) wrote(g *growth, rows int) {
	after := g.rows.Add(int64(rows))
	for due := int64(firstRefresh); due <= after; due *= 4 {
		if after-int64(rows) >= due {
			continue
		}
		select {
		case n.refresh <- struct{}{}:
		default:
		}
	}
}

// runJanitor works until ctx ends.
func (j *Journal) runJanitor(ctx context.Context) {
	defer close(j.janitor.ended)
	ticker := time.NewTicker(j.config.StuckAfter / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.janitor.refresh:
			j.aRound(ctx, "refresh the planner's statistics", func(ctx context.Context) error {
				return j.sql.RefreshStatistics(ctx, j.pool)
			})
		case <-ticker.C:
			j.aRound(ctx, "look for stuck backends", j.terminateStuck)
		}
	}
}

// aRound does one thing, with an end to it: a connection that has gone silent must not stop the others.
func (j *Journal) aRound(ctx context.Context, what string, do func(context.Context) error) {
	round, cancel := context.WithTimeout(ctx, j.config.StuckAfter)
	defer cancel()
	if err := do(round); err != nil && ctx.Err() == nil {
		j.log.Warn(what, "error", err)
	}
}

// terminateStuck terminates backends that hold a gate for too long. Their clients are frozen, or cut off where not even a
// keepalive tells; the server cannot know, and would wait.
func (j *Journal) terminateStuck(ctx context.Context) error {
	rows, err := j.sql.TerminateStuckGateHolders(ctx, j.pool, j.config.StuckAfter.Seconds())
	for _, row := range rows {
		j.log.Warn("terminated a backend that held the gate", "pid", row.Pid, "for more than", j.config.StuckAfter)
	}
	return err
}
