package pgtest

import "syscall"

// freeMemoryFS returns the free bytes of a tmpfs, and false for anything else.
func freeMemoryFS(dir string) (uint64, bool) {
	const tmpfs = 0x01021994 // TMPFS_MAGIC of statfs(2)
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil || int64(st.Type) != tmpfs { //nolint:unconvert // It is an int32 on some architectures.
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true
}
