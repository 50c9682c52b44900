//go:build !linux

package fraud_test

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
