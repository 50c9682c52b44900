//go:build !linux

package sms

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
