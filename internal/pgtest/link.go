package pgtest

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// link carries one connection. Two goroutines, one a direction, live until either
// end closes.
type link struct {
	faults         *Faults
	client, server net.Conn
	// ctx ends when the link is closed.
	ctx    context.Context
	cancel context.CancelFunc

	mu sync.Mutex
	// Of a COMMIT whose answer is to be swallowed: how many answers the client
	// had asked for before it. -1 if there is none.
	swallowFrom int
}

// join starts to pass on what client and server send, and owns both.
func (f *Faults) join(client, server net.Conn) {
	l := &link{faults: f, client: client, server: server, swallowFrom: -1}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	f.mu.Lock()
	if f.links == nil {
		f.links = make(map[*link]struct{})
	}
	f.links[l] = struct{}{}
	f.mu.Unlock()
	go l.toServer()
	go l.toClient()
}

// close cuts both ends. It may be called again.
func (l *link) close() {
	l.cancel()
	l.client.Close()
	l.server.Close()
	l.faults.mu.Lock()
	defer l.faults.mu.Unlock()
	delete(l.faults.links, l)
}

// closeThawed closes the link, but lets a freeze hide the end of one side from the
// other.
func (l *link) closeThawed() {
	_ = l.faults.waitThaw(l.ctx)
	l.close()
}

func (l *link) toServer() {
	defer l.closeThawed()
	var requests requestReader
	buf := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buf)
		requests.add(buf[:n])
		if n > 0 && !l.forward(&requests) {
			return
		}
		if err != nil {
			return
		}
	}
}

// forward sends on the messages that are complete. It reports false when the
// link is at its end.
func (l *link) forward(requests *requestReader) bool {
	var out []byte
	for {
		asked := requests.asked
		msg, commit := requests.next()
		if msg == nil {
			return l.send(out)
		}
		if commit {
			// The server gets what came before, and the freeze ends, before the
			// COMMIT's fate is decided.
			if !l.send(out) || l.faults.waitThaw(l.ctx) != nil {
				return false
			}
			out = nil
			switch l.faults.judge() {
			case cutBefore:
				l.close()
				return false
			case cutAfter:
				l.mu.Lock()
				l.swallowFrom = asked
				l.mu.Unlock()
			}
			l.faults.mu.Lock()
			delay := l.faults.commitDelay
			l.faults.mu.Unlock()
			if !l.sleep(delay) || l.faults.wait(l.ctx, &l.faults.held) != nil {
				return false
			}
		}
		out = append(out, msg...)
	}
}

func (l *link) send(out []byte) bool {
	if len(out) == 0 {
		return true
	}
	l.faults.mu.Lock()
	delay := l.faults.delay
	l.faults.mu.Unlock()
	if !l.sleep(delay) || l.faults.waitThaw(l.ctx) != nil {
		return false
	}
	_, err := l.server.Write(out)
	return err == nil
}

// sleep reports false when the link is at its end before.
func (l *link) sleep(d time.Duration) bool {
	if d == 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

func (l *link) toClient() {
	defer l.closeThawed()
	var answers answerReader
	buf := make([]byte, 64<<10)
	clientGone := false
	for {
		n, err := l.server.Read(buf)
		if n > 0 {
			l.mu.Lock()
			from := l.swallowFrom
			l.mu.Unlock()
			switch {
			case answers.read(buf[:n], from):
				return
			case from >= 0 || clientGone:
			case l.faults.waitThaw(l.ctx) != nil:
				return
			default:
				// A client that has hung up is the other goroutine's business: the
				// server may still have to get what that client sent before.
				if _, werr := l.client.Write(buf[:n]); werr != nil {
					clientGone = true
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// socketPair returns two connected sockets. Unlike net.Pipe they have buffers, as
// a network has, and unlike a listener no address.
func socketPair() (a, b net.Conn, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	fa, fb := os.NewFile(uintptr(fds[0]), "client"), os.NewFile(uintptr(fds[1]), "proxy")
	defer fa.Close()
	defer fb.Close()
	if a, err = net.FileConn(fa); err != nil {
		return nil, nil, err
	}
	if b, err = net.FileConn(fb); err != nil {
		a.Close()
		return nil, nil, err
	}
	return a, b, nil
}
