package devpg

import (
	"os"
	"strconv"
	"syscall"
)

// attributes detaches a child from the terminal, whose Ctrl-C would otherwise
// stop the database before the program has drained, and ties it to this process:
// onDeath is sent to it when the thread that forked it ends.
func attributes(acct *account, onDeath syscall.Signal) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: onDeath}
	if acct != nil {
		a.Credential = &syscall.Credential{Uid: uint32(acct.uid), Gid: uint32(acct.gid)}
	}
	return a
}

// worksIn reports whether the process is alive with dir as working directory.
// A process that we may not ask about is another user's, and so cannot serve a
// data directory that only its owner can open; a zombie has no directory.
func worksIn(pid int, dir string) answer {
	cwd, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/cwd")
	if err != nil {
		return no
	}
	want, err := os.Stat(dir)
	if err != nil || !os.SameFile(cwd, want) {
		return no
	}
	return yes
}
