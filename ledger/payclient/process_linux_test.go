package payclient_test

import "syscall"

// attributes ties a process to the tests: it is killed when they die, whatever of.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
