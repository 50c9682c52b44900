//go:build !linux

package payclient_test

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
