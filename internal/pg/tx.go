package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrUnknown is the error of a commit that may or may not have happened.
var ErrUnknown = errors.New("the outcome of the commit is unknown")

// warned is where a connection remembers that the server sent a WARNING.
const warned = "khata.warned"

func noteWarning(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warned] = notice.Message
	}
}

// InTx runs f in a READ COMMITTED transaction and commits it. If f fails, nothing is written. Where the commit's answer
// did not arrive, or came with a WARNING (a synchronous standby that was not waited for), the error is ErrUnknown, and the
// caller has to find out by doing the same again.
func InTx(ctx context.Context, pool *pgxpool.Pool, f func(pgx.Tx) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire a connection: %w", err)
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := f(tx); err != nil {
		rollback(ctx, conn)
		return err
	}
	return commit(conn, func() error { return tx.Commit(ctx) })
}

// commit has send send COMMIT, and says what the answer means: nil, that it was rolled back, or ErrUnknown.
func commit(conn *pgxpool.Conn, send func() error) error {
	notes := conn.Conn().PgConn().CustomData()
	delete(notes, warned)
	err := send()
	var refused *pgconn.PgError
	switch {
	case err == nil && notes[warned] == nil:
		return nil
	case err == nil:
		return fmt.Errorf("commit: %w: %v", ErrUnknown, notes[warned])
	case errors.As(err, &refused) && refused.SeverityUnlocalized == "ERROR", errors.Is(err, pgx.ErrTxCommitRollback):
		return fmt.Errorf("commit: %w", err) // The server says that it was rolled back.
	default:
		return fmt.Errorf("commit: %w: %w", ErrUnknown, err)
	}
}

// rollback ends the transaction that is open, or the connection where that does not work: either ends it at the server.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	if pc := conn.Conn().PgConn(); pc.TxStatus() != 'I' {
		if _, err := conn.Exec(ctx, "rollback"); err != nil {
			_ = pc.Conn().Close()
		}
	}
}
