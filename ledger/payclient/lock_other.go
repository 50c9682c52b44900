//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package payclient

import "sync"

// held are the locks of this process. Here no lock is known that ends with a process, so that a folder is for one process at a time.
var held sync.Map

func lockFile(path string) (func(), error) {
	if _, taken := held.LoadOrStore(path, true); taken {
		return nil, errLocked
	}
	return func() { held.Delete(path) }, nil
}

// syncDir does nothing: the standard library cannot sync a folder here. A power cut in the first moments of a payment may make this store
// forget it, as it never does elsewhere; the end of a process may not.
func syncDir(string) error { return nil }
