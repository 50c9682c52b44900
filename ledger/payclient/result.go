package payclient

import (
	"errors"
	"fmt"
	"time"
)

// State is where a payment is. See the package's own comment.
type State string

// The states of a payment. Done and Rejected are final.
const (
	Pending  State = "PENDING"
	InFlight State = "IN_FLIGHT"
	Done     State = "DONE"
	Rejected State = "REJECTED"
	Unknown  State = "UNKNOWN"
)

// Final reports whether the payment is settled: it never changes again.
func (s State) Final() bool { return s == Done || s == Rejected }

// Result is how a payment stands.
type Result struct {
	Key       string
	Reference string // "" if the caller gave none
	State     State
	// TransferID is the payment's number, TXN-…, of one that is Done, and of one that is Rejected on record. A rejection on record is for ever;
	// one without a number was refused before anything was decided, such as a request that is malformed.
	TransferID string
	// Replayed says that an earlier try, or another process, had settled the payment, and this is its answer again. Do not deliver twice for it.
	Replayed bool
	// Attempts counts tries. Sent counts how often the request really went out, as far as the transport tells: Go's sends a request with a key
	// again by itself when it finds a connection broken.
	Attempts, Sent int
	// Ambiguous says that the money may have moved though no answer says so: a try had none, and nothing that came later settles it. Never
	// of what is Done or Rejected.
	Ambiguous bool
	// Paused says that the payment waits for another token or another permission (401, 403), and is not sent meanwhile.
	Paused bool
	// Status, Code, Title and Detail are those of the last answer; Code, Title and Detail of a problem. Branch on Code. Status is 0 where no answer
	// came.
	Status              int
	Code, Title, Detail string
	// Body is the last answer, byte for byte.
	Body []byte
	// Method, Path and Request are what was asked for, byte for byte.
	Method, Path string
	Request      []byte
	// User and Server are those that the payment was begun with.
	User, Server string
	CreatedAt    time.Time
	FirstSentAt  time.Time // zero if it was never sent
	// Unsaved is why this could not be written to disk. The answer holds all the same; the next start asks for it again, which does no harm.
	Unsaved error
}

// Advice says in plain words what is to be done now, and "" if nothing is.
func (r Result) Advice() string {
	switch {
	case r.State == Rejected && r.TransferID != "":
		return "it is refused on record: a new attempt is a new payment, with a new key"
	case r.State == Rejected:
		return "nothing was decided: mend the request, and begin a new payment"
	case r.State == Unknown:
		return "it is not known whether the money moved: look the key up, and look at the wallet's entries; pay again only when a person has seen that it " +
			"did not move, and then as a new payment"
	case r.Paused:
		return "it is kept, and waits for a token that may do it: send it again with one"
	case r.State == InFlight, r.State == Pending:
		return "it is kept, and goes on with the next start: do not pay again"
	}
	return ""
}

// Errors to compare with, by errors.Is.
var (
	// ErrInvalid: the request or an option is malformed. Nothing was written or sent.
	ErrInvalid = errors.New("invalid payment")
	// ErrUnfinished: the payment has no end yet. It is on disk; Pay and Resume go on with it. The error is an *UnfinishedError.
	ErrUnfinished = errors.New("unfinished")
	// ErrPaused: the same, and it waits for another token.
	ErrPaused = errors.New("paused")
	// ErrReferenceTaken: the reference, or the key, names a payment of other content. Nothing was written or sent.
	ErrReferenceTaken = errors.New("the reference names another payment")
	// ErrOther: the payment was begun for another user or another server. It is not touched: under another user the same key would be another
	// payment.
	ErrOther = errors.New("the payment is another user's or another server's")
	// ErrDamaged: a record cannot be read. It is left as it is, and its payment is neither sent nor begun anew: a person has to look. The error
	// is a *DamagedError.
	ErrDamaged = errors.New("the record of a payment is damaged")
	// ErrNotFound: there is no such payment in the store.
	ErrNotFound = errors.New("there is no such payment in the store")
	// ErrNoToken is for Config.Token to return, or wrap, when a person has to sign in first: the payment is paused then. Any other error of
	// Token is taken for one that passes.
	ErrNoToken = errors.New("there is no token")
	// ErrBusy: the payment is being sent by another process or goroutine, so that it cannot be forgotten.
	ErrBusy = errors.New("the payment is being sent")
)

// UnfinishedError says that a payment is kept on disk, and is to be resumed later.
type UnfinishedError struct {
	Key    string
	Paused bool
	// Cause is why it has stopped: the context's error, the disk's, or what the server said.
	Cause error
}

// Error implements error.
func (e *UnfinishedError) Error() string {
	if e.Paused {
		return fmt.Sprintf("payment %s is paused and kept, resume it with a token that may do it: %v", e.Key, e.Cause)
	}
	return fmt.Sprintf("payment %s is unfinished and kept, resume it later: %v", e.Key, e.Cause)
}

// Unwrap gives ErrUnfinished, ErrPaused if it is so, and the cause.
func (e *UnfinishedError) Unwrap() []error {
	if e.Paused {
		return []error{ErrUnfinished, ErrPaused, e.Cause}
	}
	return []error{ErrUnfinished, e.Cause}
}

// DamagedError names a record that cannot be read.
type DamagedError struct {
	// File is the path of the record.
	File  string
	Cause error
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s cannot be read (%v): its payment may have been made, and is neither sent nor begun anew; look for its key in the file, and "+
		"look that up at the server, before you move the file away", e.File, e.Cause)
}

// Unwrap gives ErrDamaged and the cause.
func (e *DamagedError) Unwrap() []error { return []error{ErrDamaged, e.Cause} }
