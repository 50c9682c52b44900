package payclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
)

const (
	recordSuffix = ".payment"
	lockSuffix   = ".lock"
	tempSuffix   = ".tmp"
)

// store keeps records. A record is replaced as a whole: whatever the crash, its file has one of its states and nothing between.
type store struct{ disk disk }

// load reads a record. It returns fs.ErrNotExist, or a *DamagedError.
func (s store) load(name string) (*record, error) {
	data, err := s.disk.Read(name + recordSuffix)
	if err != nil {
		return nil, err
	}
	r, err := decodeRecord(data)
	if err != nil {
		return nil, &DamagedError{s.disk.Path(name + recordSuffix), err}
	}
	return r, nil
}

// save makes a record durable. The caller has its lock. After an error the file has the state before it, or this one.
func (s store) save(name string, r *record) error {
	// One name is enough: the lock is held, and what an earlier process has left there is worth nothing.
	temp := name + tempSuffix
	if err := s.disk.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.write(temp, r.encode()); err != nil {
		_ = s.disk.Remove(temp) // It is cleaned up at the next start too.
		return err
	}
	if err := s.disk.Rename(temp, name+recordSuffix); err != nil {
		_ = s.disk.Remove(temp)
		return err
	}
	return s.disk.Sync()
}

func (s store) write(temp string, data []byte) error {
	f, err := s.disk.Create(temp)
	if err != nil {
		return err
	}
	n, err := f.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = f.Sync() // before the rename: or the name could come to stand for nothing
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// add saves a new record, or takes it back.
func (s store) add(name string, r *record) error {
	err := s.save(name, r)
	if err == nil {
		return nil
	}
	// It may be there all the same, and would then be sent at the next start, though the caller is told that it was not begun.
	removed := s.disk.Remove(name + recordSuffix)
	if errors.Is(removed, fs.ErrNotExist) {
		removed = nil
	}
	if removed == nil {
		removed = s.disk.Sync()
	}
	if removed != nil {
		return fmt.Errorf("%w; whether the payment is kept is not known: begin it again under the same reference, or look at the list", err)
	}
	return err
}

// drop removes a record for ever. The caller has its lock.
func (s store) drop(name string) error {
	if err := s.disk.Remove(name + recordSuffix); err != nil {
		return err
	}
	s.disk.Unused(name)
	return s.disk.Sync()
}

// names lists the records.
func (s store) names() ([]string, error) {
	files, err := s.disk.Names()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f, recordSuffix); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// clean removes what was being written when a process died. What another process is writing is locked.
func (s store) clean() error {
	files, err := s.disk.Names()
	if err != nil {
		return err
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f, tempSuffix)
		if !ok {
			continue
		}
		unlock, err := s.disk.Lock(name)
		if err != nil {
			continue
		}
		err = s.disk.Remove(f)
		unlock()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// prune drops what was settled before a moment.
func (s store) prune(before time.Time) error {
	names, err := s.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if r, err := s.load(name); err != nil || !old(r, before) {
			continue
		}
		unlock, err := s.disk.Lock(name)
		if err != nil {
			continue
		}
		if r, loaded := s.load(name); loaded == nil && old(r, before) {
			err = s.drop(name)
		}
		unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func old(r *record, before time.Time) bool { return r.State.Final() && r.FinishedAt.Before(before) }

// lock waits for the lock of a name.
func (s store) lock(ctx context.Context, c clock, name string) (unlock func(), err error) {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if unlock, err = s.disk.Lock(name); !errors.Is(err, errLocked) {
			return unlock, err
		}
		if err := c.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// find finds the record of a key. Records of keys that came from the caller have their own name; for others all are read.
func (s store) find(key string) (name string, r *record, err error) {
	name = nameOf(options{key: key})
	if r, err = s.load(name); !errors.Is(err, fs.ErrNotExist) {
		return name, r, err
	}
	names, err := s.names()
	if err != nil {
		return "", nil, err
	}
	var damaged error
	for _, name := range names {
		r, err := s.load(name)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			damaged = errors.Join(damaged, err)
		case err == nil && r.Key == key:
			return name, r, nil
		}
	}
	return "", nil, errors.Join(ErrNotFound, damaged) // It may be one of those that cannot be read.
}
