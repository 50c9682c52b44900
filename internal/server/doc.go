// Package server starts and stops a Khata server: it is the only place that knows every part. It wires the journal to the
// adapters, listens, reports health and metrics, and drains on the way down.
package server
