package fraud_test

import "syscall"

// attributes has an instance killed when the tests die, whatever of.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
