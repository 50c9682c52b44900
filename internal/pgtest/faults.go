package pgtest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Faults stands between clients and a server and breaks what passes through it:
// the connections of its DialFunc, and those of a database's Through. The zero
// value passes everything on. It understands PostgreSQL's protocol in the clear,
// so the clients need sslmode=disable, as every DSN of this package has it.
//
// A COMMIT is a simple Query that begins with commit or end, or holds one after a
// semicolon, or the Execute of such a statement; preparing one is not. To the
// client both cuts look the same, as they do in life: what it wrote was accepted,
// and instead of an answer the connection ends.
//
// All methods may be called concurrently.
type Faults struct {
	mu            sync.Mutex
	before, after int
	delay         time.Duration
	commitDelay   time.Duration
	frozen, held  gate // everything, and COMMITs alone
	links         map[*link]struct{}
	commits, cuts int
}

// NewFaults returns Faults that are closed at the end of the test.
func NewFaults(t testing.TB) *Faults {
	f := new(Faults)
	t.Cleanup(f.Close)
	return f
}

// CutBeforeCommit cuts the connection in place of each of the next n COMMITs, on
// whichever connections they come: "failed, not applied". What came before the
// COMMIT reaches the server. It replaces the count of an earlier call.
func (f *Faults) CutBeforeCommit(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = n
}

// CutAfterCommit cuts the connection when the server has answered each of the next
// n COMMITs, without passing the answer on: "failed, but applied". Where both cuts
// are asked for, those before the COMMIT come first.
func (f *Faults) CutAfterCommit(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = n
}

// Freeze stops everything in both directions and closes nothing, like a network
// that has lost a cable: writes succeed until the buffers are full, new connections
// hang, and the server does not hear of a client that hangs up. What was sent
// meanwhile arrives after thaw. Freezing twice is one freeze; either thaw ends it.
func (f *Faults) Freeze() (thaw func()) {
	return f.shut(&f.frozen)
}

// Delay holds what clients send back for d, from now on, in each piece as it
// comes. 0 ends it.
func (f *Faults) Delay(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = d
}

// DelayCommits holds each COMMIT for d, from now on; what came before it reaches the server at once. 0 ends it.
func (f *Faults) DelayCommits(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commitDelay = d
}

// HoldCommits holds each COMMIT until the release, from now on; what came before it
// reaches the server at once. For the server the client is idle meanwhile, which it
// may have a limit for. Holding twice is one hold; either release ends it.
func (f *Faults) HoldCommits() (release func()) {
	return f.shut(&f.held)
}

// CutAll cuts every connection now.
func (f *Faults) CutAll() {
	f.mu.Lock()
	links := make([]*link, 0, len(f.links))
	for l := range f.links {
		links = append(links, l)
	}
	f.cuts += len(links)
	f.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

// Close ends every fault, and every connection.
func (f *Faults) Close() {
	f.mu.Lock()
	f.before, f.after, f.delay, f.commitDelay = 0, 0, 0, 0
	f.mu.Unlock()
	f.CutAll()
	f.Freeze()()
	f.HoldCommits()()
}

// Commits is how many COMMITs clients have sent, cut or not.
func (f *Faults) Commits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commits
}

// Cuts is how many connections have been cut.
func (f *Faults) Cuts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cuts
}

// DialFunc leads the connections that base makes through the faults. A nil base
// is a plain net.Dialer. It fits pgconn.Config.DialFunc.
func (f *Faults) DialFunc(base pgconn.DialFunc) pgconn.DialFunc {
	if base == nil {
		base = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := f.waitThaw(ctx); err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		server, err := base(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		outer, inner, err := socketPair()
		if err != nil {
			server.Close()
			return nil, err
		}
		f.join(inner, server)
		return clientConn{outer, server.RemoteAddr()}, nil
	}
}

// clientConn is what the client holds. It must be told apart from the server by
// its remote address only, which pgx dials again to cancel a query.
type clientConn struct {
	net.Conn
	remote net.Addr
}

func (c clientConn) RemoteAddr() net.Addr { return c.remote }

// gate is nil while it is open, and closed as a channel when it opens again.
type gate chan struct{}

// shut shuts a gate, unless it is, and returns what opens it.
func (f *Faults) shut(g *gate) (open func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *g == nil {
		*g = make(gate)
	}
	shut := *g
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if *g == shut {
			close(shut)
			*g = nil
		}
	}
}

// wait waits until a gate is open.
func (f *Faults) wait(ctx context.Context, g *gate) error {
	for {
		f.mu.Lock()
		shut := *g
		f.mu.Unlock()
		if shut == nil {
			return ctx.Err()
		}
		select {
		case <-shut:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *Faults) waitThaw(ctx context.Context) error { return f.wait(ctx, &f.frozen) }

// verdict is what happens to a COMMIT.
type verdict int

const (
	pass verdict = iota
	cutBefore
	cutAfter
)

func (f *Faults) judge() verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commits++
	switch {
	case f.before > 0:
		f.before--
		f.cuts++
		return cutBefore
	case f.after > 0:
		f.after--
		f.cuts++
		return cutAfter
	}
	return pass
}
