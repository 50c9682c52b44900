package grpcapi

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

// uploadTime is how long a caller may take to send a file, from when there is room for it on.
const uploadTime = 10 * time.Minute

// upload is a file that a caller sends in chunks. Nothing is read ahead: whoever waits for room has the rest of the file at home. Who has the room,
// and sends nothing for as long as patience, or is not through by the deadline, loses it to the next one.
type upload struct {
	ctx      context.Context
	next     func() ([]byte, error) // waits for a chunk
	patience time.Duration
	within   time.Duration

	deadline time.Time // from the first Read on
	chunk    []byte
	err      error
}

// Read implements io.Reader. An error stays: the call can only end then.
func (u *upload) Read(p []byte) (int, error) {
	for len(u.chunk) == 0 {
		if u.err == nil {
			u.chunk, u.err = u.receive()
		}
		if u.err != nil {
			return 0, u.err
		}
	}
	n := copy(p, u.chunk)
	u.chunk = u.chunk[n:]
	return n, nil
}

// receive waits for the next chunk. Nothing can interrupt a Recv but the end of the call, so it is not where it is waited for.
func (u *upload) receive() ([]byte, error) {
	if u.deadline.IsZero() {
		u.deadline = time.Now().Add(u.within)
	}
	type received struct {
		chunk    []byte
		err      error
		panicked any
	}
	got := make(chan received, 1)
	go func() {
		var r received
		defer func() {
			r.panicked = recover()
			got <- r
		}()
		r.chunk, r.err = u.next()
	}()
	timer := time.NewTimer(min(u.patience, time.Until(u.deadline)))
	defer timer.Stop()
	select {
	case r := <-got:
		if r.panicked != nil {
			panic(r.panicked) // What recovers from it is on this goroutine.
		}
		return r.chunk, r.err
	case <-u.ctx.Done():
		return nil, gone(u.ctx)
	case <-timer.C:
		return nil, ledger.Errorf(ledger.CodeDeadlineExceeded, "the file has not come in time: send some of it at least every %v, and all of it within %v",
			u.patience, u.within)
	}
}

// failed is why the file did not come to its end, for whatever was made of that; nil if it did, or was not read so far.
func (u *upload) failed() error {
	if errors.Is(u.err, io.EOF) {
		return nil
	}
	return u.err
}

// errPart is the error of a message that is no chunk of a file.
func errPart(hasSpec bool) error {
	if hasSpec {
		return ledger.Invalid("spec", "comes once, in the first message")
	}
	return ledger.Invalid("chunk", "is required in all messages but the first")
}
