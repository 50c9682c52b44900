package cli

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// outFile is a file that is being written beside the one that it is to become, so that under its name there is the whole of it, or what was there
// before.
type outFile struct {
	*os.File
	path string
}

// createFile begins a file. A path that is a link stays one. It returns a usage error for what no file can take the place of.
func createFile(path string) (*outFile, error) {
	if linked, err := filepath.EvalSymlinks(path); err == nil {
		path = linked
	}
	mode := os.FileMode(0o666)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, usagef("--file %s is a directory: give the name of a file", path)
	case err == nil && !info.Mode().IsRegular():
		return nil, usagef("--file %s is no regular file: leave --file out, and redirect standard output", path)
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, os.ErrNotExist):
		return nil, cannotWrite(path, err)
	}
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:8])
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return nil, cannotWrite(path, err)
	}
	if info != nil {
		err = file.Chmod(mode) // Not what the umask leaves of it.
	}
	f := &outFile{file, path}
	if err != nil {
		f.abandon()
		return nil, err
	}
	return f, nil
}

// cannotWrite names the file that was asked for, and not the one beside it.
func cannotWrite(path string, err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return usagef("--file %s: %w", path, err)
}

// commit puts the file, which is then on disk, under its name.
func (f *outFile) commit() error {
	err := f.Sync()
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	if dir, err := os.Open(filepath.Dir(f.path)); err == nil {
		_ = dir.Sync() // Not every file system can.
		_ = dir.Close()
	}
	return nil
}

// abandon leaves nothing behind.
func (f *outFile) abandon() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

// isTerminal reports whether a person sees what is written to it.
func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && file.Name() != os.DevNull
}
