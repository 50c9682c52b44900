package inbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// handlerTx is the transaction that a handler is given.
type handlerTx struct{ pgx.Tx }

// errOurs is what a handler is told that commits or rolls back.
var errOurs = errors.New("the transaction is the inbox's, which ends it: return nil or an error, and use tx.Begin for savepoints")

func (handlerTx) Commit(context.Context) error   { return errOurs }
func (handlerTx) Rollback(context.Context) error { return errOurs }

// handle has the handler handle events, of which there is only one where it takes one at a time. The error is a failure if they are at fault,
// or may be.
func (b *Inbox) handle(ctx context.Context, tx pgx.Tx, events ...Event) error {
	limited, cancel := context.WithTimeout(ctx, b.config.HandleTimeout)
	defer cancel()
	started := time.Now()
	err := b.call(limited, tx, events)
	b.metrics.took(time.Since(started))
	conn := tx.Conn().PgConn()
	var poisoned *poison
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the round is over: %w", ctx.Err())
	case limited.Err() != nil && !isTransient(err) && (err != nil || conn.IsClosed()):
		// A context that ends in the middle of a statement closes the connection, whoever was slow.
		return &late{errors.Join(err, limited.Err())}
	case conn.IsClosed():
		return fmt.Errorf("the connection broke: %w", errors.Join(err, pgconn.ErrConnClosed))
	case conn.TxStatus() == 'I':
		return &failure{err: errors.Join(errors.New("the handler has ended the transaction, which is the inbox's to end"), err), final: true}
	case err == nil && conn.TxStatus() == 'E':
		return &failure{err: errors.New("a statement of the handler failed, and the handler returned no error")}
	case err == nil:
		return nil
	case isTransient(err):
		return err
	}
	return &failure{err: err, final: errors.As(err, &poisoned)}
}

// call makes an error of a panic.
func (b *Inbox) call(ctx context.Context, tx pgx.Tx, events []Event) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the handler panicked: %v\n%s", r, debug.Stack())
		}
	}()
	if b.config.HandleAll != nil {
		return b.config.HandleAll(ctx, handlerTx{tx}, events)
	}
	return b.config.Handle(ctx, handlerTx{tx}, events[0])
}
