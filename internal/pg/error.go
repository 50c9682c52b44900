package pg

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

// Class is what to do about an error of the database.
type Class int

const (
	// Fault: the statement is wrong for this database, and will be the next time. A bug, or data that a guard refused.
	Fault Class = iota
	// Again: the transaction lost to another one (serialization failure, deadlock, duplicate key). Nothing was written; run
	// it again at once.
	Again
	// Unavailable: the server is not there, went away, shuts down, or did not answer in time. If it was the commit, the
	// outcome is unknown. Running it again finds out.
	Unavailable
	// LockTimeout: somebody has held a lock for too long. Nothing was written.
	LockTimeout
)

// ErrAgain is for a transaction that finds that it has to begin anew. It is classified as Again.
var ErrAgain = errors.New("the transaction has to begin anew")

// Classify sorts err, which is not nil.
func Classify(err error) Class {
	switch {
	case errors.Is(err, ErrAgain):
		return Again
	case unreachable(err):
		return Unavailable
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return Fault
	}
	switch code := refused.Code; {
	case code == "40001", code == "40P01", code == "23505":
		return Again
	case code == "55P03":
		return LockTimeout
	case strings.HasPrefix(code, "08"), // connection exceptions
		strings.HasPrefix(code, "53"),                     // out of memory, disk or connections
		strings.HasPrefix(code, "57"),                     // shutdown, crash, starting up, cancelled
		strings.HasPrefix(code, "58"),                     // I/O errors
		code == "25P03", code == "25P04", code == "25006": // idle or transaction timeout; read-only: a standby
		return Unavailable
	}
	return Fault
}

// unreachable reports whether err is about reaching the server rather than its answer.
func unreachable(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	if errors.As(err, &connect) || errors.As(err, &network) {
		return true
	}
	for _, sign := range []error{
		ErrUnknown, pgconn.ErrConnClosed, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, puddle.ErrClosedPool,
		context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}
