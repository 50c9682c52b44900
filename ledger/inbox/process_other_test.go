//go:build !linux

package inbox_test

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
