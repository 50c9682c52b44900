package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Trip sends statements of a transaction together and waits for all their answers: one round trip, however many there are.
// Each statement still has a snapshot of its own. A trip that fails ends the transaction.
type Trip func(*pgx.Batch) error

// InTrips runs a READ COMMITTED transaction in as few round trips as its statements allow. BEGIN travels with the first
// trip that f makes, and COMMIT with the last statements, which are what f returns. If f fails, nothing is written. The
// errors are those of InTx.
func InTrips(ctx context.Context, pool *pgxpool.Pool, f func(Trip) (last *pgx.Batch, err error)) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire a connection: %w", err)
	}
	defer conn.Release()
	t := trips{conn: conn}
	last, err := f(func(b *pgx.Batch) error { return t.send(ctx, b) })
	if err != nil {
		rollback(ctx, conn)
		return err
	}
	return t.commit(ctx, last)
}

type trips struct {
	conn  *pgxpool.Conn
	begun bool
}

func (t *trips) send(ctx context.Context, b *pgx.Batch) error {
	if !t.begun {
		begin := &pgx.QueuedQuery{SQL: "begin isolation level read committed"}
		b.QueuedQueries = append([]*pgx.QueuedQuery{begin}, b.QueuedQueries...)
		t.begun = true
	}
	return t.conn.SendBatch(ctx, b).Close()
}

// commit sends the last statements and COMMIT. One that fails makes the server skip the rest. Where it is the client that
// could not read an answer, the commit after that has happened, and so that is ErrUnknown too.
func (t *trips) commit(ctx context.Context, last *pgx.Batch) error {
	var tag pgconn.CommandTag
	last.Queue("commit").Exec(func(ct pgconn.CommandTag) error {
		tag = ct
		return nil
	})
	err := commit(t.conn, func() error {
		if err := t.send(ctx, last); err != nil {
			return err
		}
		if tag.String() != "COMMIT" {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
	if err != nil && !errors.Is(err, ErrUnknown) {
		rollback(ctx, t.conn)
	}
	return err
}

// Ask queues a query of package dbsqlc, whose rows are put into rows in the order of their columns.
func Ask[Row any](b *pgx.Batch, rows *[]Row, sql string, args ...any) {
	b.Queue(sql, args...).Query(func(r pgx.Rows) (err error) {
		*rows, err = pgx.AppendRows((*rows)[:0], r, pgx.RowToStructByPos[Row])
		return err
	})
}
