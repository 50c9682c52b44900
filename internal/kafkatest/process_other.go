//go:build unix && !linux

package kafkatest

import "syscall"

// attributes is weaker than on Linux: a broker outlives tests that are killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
