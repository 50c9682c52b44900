//go:build !linux

package server_test

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
