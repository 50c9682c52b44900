// Package pgtest gives tests databases of their own on a real PostgreSQL, and
// breaks connections to it on demand.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
// and calls New for a migrated database of its own, in some 20 ms: it is cloned
// from a template on a server that all tests of the process share. NewServer
// gives a whole server, for tests that kill or stop it. Faults breaks, freezes and
// delays connections.
//
// All servers keep the settings that make a commit durable, so that what a test
// sees is what production does. In memory (/dev/shm) they cost nothing; elsewhere
// the tests are slower, not different.
//
// Without a PostgreSQL the tests fail; they are never skipped.
//
// The package imports internal/pg for its migrations: tests of that package must
// be in package pg_test. It must be imported from _test.go files only.
package pgtest
