//go:build !linux

package bench

import (
	"syscall"
	"time"
)

func ownTime() time.Duration { return unknown }

func processTime(int) time.Duration { return unknown }

func familyTime(int) time.Duration { return unknown }

func freeSpace(string) (int64, bool) { return 0, false }

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func residentBytes(int) int64 { return 0 }
