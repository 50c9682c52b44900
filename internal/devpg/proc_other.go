//go:build unix && !linux

package devpg

import "syscall"

// attributes is weaker than on Linux: other systems cannot signal a child when
// its parent dies, so a killed supervisor leaves its server running.
func attributes(acct *account, _ syscall.Signal) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if acct != nil {
		a.Credential = &syscall.Credential{Uid: uint32(acct.uid), Gid: uint32(acct.gid)}
	}
	return a
}

// worksIn leaves the pid file to PostgreSQL's own, stricter check.
func worksIn(int, string) answer { return unknown }
