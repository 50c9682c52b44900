package inbox

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// Poison says that an event cannot be handled and never will be, such as one whose data cannot be decoded: it becomes a dead letter
// at once, without another try. Of a nil error it makes nil.
func Poison(err error) error {
	if err == nil {
		return nil
	}
	return &poison{err}
}

type poison struct{ error }

func (p *poison) Unwrap() error { return p.error }

// Transient says that it is not the event's fault that it could not be handled, such as that a service is away which the handler needs: it is
// tried again for as long as it takes, and its partition waits. Errors of the database that are like that are known. Of a nil error it
// makes nil.
func Transient(err error) error {
	if err == nil {
		return nil
	}
	return &transient{err}
}

type transient struct{ error }

func (t *transient) Unwrap() error { return t.error }

// failure is an error for which an event can become a dead letter. Every other error is of the road, not of the event, and is waited out.
type failure struct {
	err error
	// final leaves no further tries.
	final bool
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// waitedOut are the classes of SQLSTATE that say nothing about the event: connections, lost races, resources, objects in use, operators, I/O;
// and of class 25 the timeouts in a transaction, and a server that is a standby now.
var waitedOut = []string{"08", "40", "53", "55", "57", "58", "25P03", "25P04", "25006"}

// isTransient reports whether a handler's error is not the event's fault.
func isTransient(err error) bool {
	var marked *transient
	var connect *pgconn.ConnectError
	if errors.As(err, &marked) || errors.As(err, &connect) || errors.Is(err, pgconn.ErrConnClosed) {
		return true
	}
	state := sqlState(err)
	return slices.Contains(waitedOut, state) || len(state) == 5 && slices.Contains(waitedOut, state[:2])
}

// lostRace reports whether a transaction was thrown out for the sake of another one.
func lostRace(err error) bool {
	state := sqlState(err)
	return len(state) == 5 && state[:2] == "40"
}

func sqlState(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// late is the error of a handler that was still at it when its time was up. Whether that was its fault is to be asked.
type late struct{ error }

func (l *late) Unwrap() error { return l.error }

// errSlow ends a transaction that takes too long for its number of events.
type errSlow struct{ done int }

func (e *errSlow) Error() string { return fmt.Sprintf("it took too long after %d events", e.done) }
