package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// tick is the unit of /proc/PID/stat: USER_HZ is 100 on every architecture that Go knows (proc(5)).
const tick = time.Second / 100

// ownTime is the time of this process.
func ownTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return unknown
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// stat is what /proc says of a process.
type stat struct {
	parent        int
	own, children time.Duration // children: those that have ended
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The name of the program is in brackets, and may have spaces and brackets itself.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	number := func(field int) int {
		n, convErr := strconv.Atoi(string(fields[field]))
		if err == nil {
			err = convErr
		}
		return n
	}
	s := stat{
		parent: number(1), own: time.Duration(number(11)+number(12)) * tick, children: time.Duration(number(13)+number(14)) * tick,
	}
	return s, err
}

// processTime is the time of one process.
func processTime(pid int) time.Duration {
	s, err := readStat(pid)
	if err != nil {
		return unknown
	}
	return s.own
}

// familyTime is the time of a process and all its children, those that have ended included.
func familyTime(pid int) time.Duration {
	s, err := readStat(pid)
	if err != nil {
		return unknown
	}
	total := s.own + s.children
	all, err := os.ReadDir("/proc")
	if err != nil {
		return unknown
	}
	for _, entry := range all {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if c, err := readStat(child); err == nil && c.parent == pid {
			total += c.own
		}
	}
	return total
}

// freeSpace is how many bytes may still be written below a directory.
func freeSpace(dir string) (int64, bool) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, false
	}
	return int64(fs.Bavail) * fs.Bsize, true
}

// attributes keep a Ctrl-C from a child, which has to answer the calls under way, and end it when this process dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
}

// residentBytes is how much memory a process has now; 0 is not known.
func residentBytes(pid int) int64 {
	if pid == 0 {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
