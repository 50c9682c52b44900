//go:build unix && !linux

package pgtest

func freeMemoryFS(string) (uint64, bool) { return 0, false }
