// Package eventstest holds what is on the topics against the journal that it was made of. What there should be it works out by itself, and not by
// the code that publishes.
//
// It must be imported from _test.go files only.
package eventstest
