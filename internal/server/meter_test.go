package server_test

import (
	"context"
	"sync"
)

// meter counts, and wakes who waits for a count: faults come after so much work, not after so much time.
type meter struct {
	mu      sync.Mutex
	n       int
	waiting []waiting
}

type waiting struct {
	until int
	woken chan struct{}
}

func (m *meter) add(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n += n
	still := m.waiting[:0]
	for _, w := range m.waiting {
		if m.n >= w.until {
			close(w.woken)
		} else {
			still = append(still, w)
		}
	}
	m.waiting = still
}

func (m *meter) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n
}

// wait waits until it has counted n more, and reports false if ctx ends first.
func (m *meter) wait(ctx context.Context, n int) bool {
	w := waiting{woken: make(chan struct{})}
	m.mu.Lock()
	w.until = m.n + n
	m.waiting = append(m.waiting, w)
	m.mu.Unlock()
	select {
	case <-w.woken:
		return true
	case <-ctx.Done():
		return false
	}
}
