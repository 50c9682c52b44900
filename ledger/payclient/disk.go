package payclient

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// disk is the folder of a store. What it promises is what the store is built on: what was synced is there after a crash.
type disk interface {
	// Names lists the files.
	Names() ([]string, error)
	// Read reads a file; fs.ErrNotExist if there is none.
	Read(name string) ([]byte, error)
	// Create makes a file that must not exist.
	Create(name string) (file, error)
	Rename(from, to string) error
	Remove(name string) error
	// Sync makes the names durable: creations, renames and removals.
	Sync() error
	// Lock takes the lock of a name, or returns errLocked. It ends with the process.
	Lock(name string) (unlock func(), err error)
	// Unused removes the lock of a name, which the caller holds.
	Unused(name string)
	// Path is what people call a file.
	Path(name string) string
}

type file interface {
	io.Writer
	Sync() error
	Close() error
}

var errLocked = errors.New("locked")

// folder is a disk as the system has it.
type folder struct{ dir string }

// openFolder makes the folder, readable by nobody else, and durable.
func openFolder(dir string) (folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return folder{}, err
	}
	var made []string // its parents that are not there yet, and itself
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			break
		}
		made = append(made, d)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return folder{}, err
	}
	for _, d := range made {
		if err := syncDir(filepath.Dir(d)); err != nil {
			return folder{}, err
		}
	}
	return folder{dir}, nil
}

func (f folder) Path(name string) string { return filepath.Join(f.dir, name) }

func (f folder) Names() ([]string, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func (f folder) Read(name string) ([]byte, error) { return os.ReadFile(f.Path(name)) }

func (f folder) Create(name string) (file, error) {
	created, err := os.OpenFile(f.Path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err // not a nil *os.File, which would be a file
	}
	return created, nil
}

func (f folder) Rename(from, to string) error { return os.Rename(f.Path(from), f.Path(to)) }
func (f folder) Remove(name string) error     { return os.Remove(f.Path(name)) }
func (f folder) Sync() error                  { return syncDir(f.dir) }
func (f folder) Lock(name string) (func(), error) {
	return lockFile(f.Path(name) + lockSuffix)
}
func (f folder) Unused(name string) { _ = os.Remove(f.Path(name) + lockSuffix) } // The next who wants it makes it again.
