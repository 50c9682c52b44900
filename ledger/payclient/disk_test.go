package payclient_test

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/khata-ledger/khata/ledger/payclient"
)

// hooked calls hook before and after each step of a disk. An error before it keeps the step from happening; one after it only says so.
type hooked struct {
	payclient.Disk
	hook func(step string, after bool) error
}

func (h *hooked) step(name string, do func() error) error {
	if err := h.hook(name, false); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return h.hook(name, true)
}

func (h *hooked) Create(name string) (f payclient.File, err error) {
	err = h.step("create", func() error {
		f, err = h.Disk.Create(name)
		return err
	})
	return &hookedFile{f, h}, err
}

func (h *hooked) Rename(from, to string) error {
	return h.step("rename", func() error { return h.Disk.Rename(from, to) })
}

func (h *hooked) Remove(name string) error {
	return h.step("remove", func() error { return h.Disk.Remove(name) })
}

func (h *hooked) Sync() error { return h.step("sync folder", h.Disk.Sync) }

type hookedFile struct {
	payclient.File
	disk *hooked
}

// Write writes in two steps: something can happen in the middle.
func (f *hookedFile) Write(data []byte) (n int, err error) {
	for i, part := range [][]byte{data[:len(data)/2], data[len(data)/2:]} {
		written := 0
		err = f.disk.step([]string{"write half", "write rest"}[i], func() error {
			written, err = f.File.Write(part)
			return err
		})
		if n += written; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (f *hookedFile) Sync() error { return f.disk.step("sync file", f.File.Sync) }

func (f *hookedFile) Close() error { return f.disk.step("close", f.File.Close) }

// memory is a disk that loses what was not synced when the power goes.
type memory struct {
	mu      sync.Mutex
	names   map[string]*inode
	durable map[string]*inode
	pending []func(map[string]*inode) // changes of names since the last Sync, in order
	locks   map[string]bool
}

type inode struct {
	data   []byte
	synced bool
}

func newMemory() *memory {
	return &memory{names: map[string]*inode{}, durable: map[string]*inode{}, locks: map[string]bool{}}
}

// change changes the names now, and durably at the next Sync.
func (m *memory) change(f func(map[string]*inode)) {
	f(m.names)
	m.pending = append(m.pending, f)
}

// restart is what a new process finds. With power lost, the last changes of names may be lost, and of files that were not synced there is
// any part.
func (m *memory) restart(power bool, r *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.locks)
	if !power {
		return
	}
	for _, f := range m.pending[:r.IntN(len(m.pending)+1)] {
		f(m.durable)
	}
	m.pending = nil
	m.names = map[string]*inode{}
	for name, i := range m.durable {
		if !i.synced {
			i = &inode{data: i.data[:r.IntN(len(i.data)+1)]}
			m.durable[name] = i
		}
		m.names[name] = i
	}
}

func (m *memory) Path(name string) string { return "memory/" + name }

func (m *memory) Names() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name := range m.names {
		names = append(names, name)
	}
	return names, nil
}

func (m *memory) Read(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.names[name]; i != nil {
		return slices.Clone(i.data), nil
	}
	return nil, fs.ErrNotExist
}

func (m *memory) Create(name string) (payclient.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[name] != nil {
		return nil, fs.ErrExist
	}
	i := new(inode)
	m.change(func(names map[string]*inode) { names[name] = i })
	return &memoryFile{m, i}, nil
}

func (m *memory) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.names[from]
	if i == nil {
		return fs.ErrNotExist
	}
	m.change(func(names map[string]*inode) {
		delete(names, from)
		names[to] = i
	})
	return nil
}

func (m *memory) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[name] == nil {
		return fs.ErrNotExist
	}
	m.change(func(names map[string]*inode) { delete(names, name) })
	return nil
}

func (m *memory) Sync() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.pending {
		f(m.durable)
	}
	m.pending = nil
	return nil
}

func (m *memory) Lock(name string) (func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[name] {
		return nil, payclient.ErrLocked
	}
	m.locks[name] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.locks, name)
	}, nil
}

func (m *memory) Unused(string) {}

type memoryFile struct {
	disk *memory
	*inode
}

func (f *memoryFile) Write(data []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.data, f.synced = append(f.data, data...), false
	return len(data), nil
}

func (f *memoryFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.synced = true
	return nil
}

func (f *memoryFile) Close() error { return nil }

// errDead is what a disk says to a process that is dead and does not know it.
var errDead = errors.New("this process is dead")

// mortal is the disk of a process that can die: from then on it does nothing any more.
type mortal struct {
	*hooked
	died atomic.Bool
}

func (m *mortal) die() { m.died.Store(true) }

func (m *mortal) dead() bool { return m.died.Load() }

func newMortal(d payclient.Disk, more func(step string, after bool) error) *mortal {
	m := new(mortal)
	m.hooked = &hooked{d, func(step string, after bool) error {
		if !m.dead() && more != nil {
			if err := more(step, after); err != nil {
				return err
			}
		}
		if m.dead() {
			return errDead
		}
		return nil
	}}
	return m
}
