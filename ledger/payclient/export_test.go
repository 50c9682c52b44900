package payclient

import (
	"context"
	"errors"
	"time"
)

// What the tests replace.
type (
	Disk   = disk
	File   = file
	Record = record
)

// ErrLocked is what a Disk's Lock returns.
var ErrLocked = errLocked

// FakeClock is a clock of the tests' own.
type FakeClock struct {
	Wall   func() time.Time
	Since  func() time.Duration
	Sleep  func(context.Context, time.Duration) error
	Chance func() float64
}

// Open is New with another disk and, if it is not nil, another clock.
func Open(config Config, d Disk, c *FakeClock) (*Client, error) {
	used := systemClock()
	if c != nil {
		used = clock{c.Wall, c.Since, c.Sleep, c.Chance}
	}
	return open(config, d, used)
}

// OpenFolder is the disk that New uses.
func OpenFolder(dir string) (Disk, error) { return openFolder(dir) }

// Save puts a record on a disk.
func Save(d Disk, r *Record) error {
	r.BodyHash = hash(r.Body)
	o := options{reference: r.Reference}
	if r.Reference == "" {
		o.key = r.Key
	}
	return store{d}.save(nameOf(o), r)
}

// Decode reads a record's file.
func Decode(data []byte) (*Record, error) { return decodeRecord(data) }

// NameOf is the name of a reference's files.
func NameOf(reference string) string { return nameOf(options{reference: reference}) }

// Suffixes of files.
const (
	RecordSuffix = recordSuffix
	TempSuffix   = tempSuffix
	LockSuffix   = lockSuffix
)

// LoadReference reads the record of a reference.
func LoadReference(d Disk, reference string) (*Record, error) {
	return store{d}.load(NameOf(reference))
}

// Pause is the schedule.
var Pause = pause

// Lock takes the lock of a reference, as a process that sends it does.
func Lock(d Disk, reference string) (func(), error) { return d.Lock(NameOf(reference)) }

// IsLocked reports whether another has it.
func IsLocked(err error) bool { return errors.Is(err, errLocked) }
