package client

import (
	"context"
	"errors"
	"io"
	"time"
)

// chunkSize is how much of a file goes into a message: less than the server's limit for one, by as much as there may be about it.
const chunkSize = 512 << 10

// upload is a file that is sent, from where its reader is now. It can be sent again while nothing was read of it, or if the reader can go back.
type upload struct {
	in    io.Reader
	seek  io.Seeker // nil if it cannot go back
	start int64
	read  bool
}

func newUpload(in io.Reader) *upload {
	u := &upload{in: in}
	if seeker, ok := in.(io.Seeker); ok {
		if start, err := seeker.Seek(0, io.SeekCurrent); err == nil { // A pipe is a file that cannot.
			u.seek, u.start = seeker, start
		}
	}
	return u
}

// rewind goes back to the beginning, if anything was read.
func (u *upload) rewind() error {
	if !u.read || u.seek == nil {
		return nil
	}
	_, err := u.seek.Seek(u.start, io.SeekStart)
	return err
}

// spent reports whether it cannot be sent again.
func (u *upload) spent() bool { return u.read && u.seek == nil }

// send sends what comes first, and then the file. It returns what reading the file returned. That the server takes no more is no error here: receiving
// tells why.
func send[Req any](u *upload, to func(*Req) error, first *Req, chunk func([]byte) *Req) error {
	if to(first) != nil {
		return nil
	}
	for {
		bytes := make([]byte, chunkSize) // What was sent is not to be changed afterwards, says gRPC.
		n, err := u.fill(bytes)
		if n > 0 && to(chunk(bytes[:n])) != nil {
			return nil
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// fill reads until there is no more room. io.ReadFull would not tell the end of the file from a reader that says io.ErrUnexpectedEOF.
func (u *upload) fill(bytes []byte) (n int, err error) {
	for n < len(bytes) && err == nil {
		var more int
		more, err = u.in.Read(bytes[n:])
		n += more
		u.read = u.read || more > 0
	}
	return n, err
}

// attemptOf bounds an attempt that may take longer than others.
func (c *Client) attemptOf(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if c.options.AttemptTimeout > 0 {
		return context.WithTimeout(ctx, max(timeout, c.options.AttemptTimeout))
	}
	return context.WithCancel(ctx)
}
