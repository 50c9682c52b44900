// Package bench is the load generator behind "khata bench". It drives a server over real gRPC connections, counts what was
// acknowledged, and holds it against floors: what a plain client reaches that writes the same facts into the same
// PostgreSQL with nothing in between.
//
// A mode posts in a closed loop: each client sends its next call when it has the answer to the last one. Only answers that
// come within the timed window count, and a transfer counts only once it is acknowledged, which means that it is on disk.
// What is posted stays: the journal is append-only. So every run makes accounts of its own, and never touches others.
package bench
