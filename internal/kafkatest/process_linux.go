package kafkatest

import "syscall"

// attributes gives a broker a process group of its own, so that a Ctrl-C at the terminal is left to the tests, and has it
// killed when they die, whatever of.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
