package client

import (
	"slices"
	"strings"
)

// readers begin the names of the methods that decide nothing. Those that look something up about customers leave who has looked in the audit.
var readers = []string{"Get", "List", "Find", "Export", "RunReport", "RunReconcileReport", "RunDriftReport", "RepeatReconcileRun"}

// Reads reports whether a method, as gRPC calls it, only reads, so that a call of it without an answer leaves nothing open.
func Reads(method string) bool {
	name := method[strings.LastIndex(method, "/")+1:]
	return slices.ContainsFunc(readers, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
