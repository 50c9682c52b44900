package pgtest

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/devpg"
)

// KeepEnv names the environment variable that, when set, keeps the database of a
// failed test and logs how to connect to it. It is of use with ServerEnv, since
// the process's own server does not outlive it.
const KeepEnv = "KHATA_TEST_KEEP"

// opWait bounds each statement of this package's own.
const opWait = time.Minute

// The roles of every database here; both may log in and have no other power.
const (
	ownerRole   = "khata_owner"   // owns the database; runs the migrations
	serviceRole = "khata_service" // what the service connects as
)

// DB is a migrated database that belongs to one test.
type DB struct {
	// Name is the database's name.
	Name string

	addr      devpg.Address
	socketDir string // where clients connect: the server's own, or a proxy's
}

// ServiceDSN connects as khata_service, with the rights that the migrations grant.
func (db *DB) ServiceDSN() string { return devpg.DSN(db.socketDir, serviceRole, db.Name) }

// OwnerDSN connects as khata_owner, who owns every object of the database.
func (db *DB) OwnerDSN() string { return devpg.DSN(db.socketDir, ownerRole, db.Name) }

// SuperDSN connects as the superuser, whom no grant stops: for set-up and for
// breaking things, never for what is being tested.
func (db *DB) SuperDSN() string { return devpg.DSN(db.socketDir, devpg.Superuser, db.Name) }

// New returns a database with the current schema and no rows. It is dropped when
// the test ends, whoever is still connected.
func New(t testing.TB) *DB {
	t.Helper()
	s, err := theServer.get()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	name := databaseName(t.Name())
	// file_copy takes half the time of the default for a small database.
	if err := s.exec("CREATE DATABASE " + ident(name) + " TEMPLATE " + ident(s.template) +
		" STRATEGY file_copy OWNER " + ident(ownerRole)); err != nil {
		t.Fatalf("pgtest: clone the template: %v", err)
	}
	db := &DB{Name: name, addr: s.addr, socketDir: s.addr.SocketDir()}
	t.Cleanup(func() {
		if t.Failed() && os.Getenv(KeepEnv) != "" {
			t.Logf("kept database: %s", db.SuperDSN())
			return
		}
		if err := s.exec("DROP DATABASE IF EXISTS " + ident(name) + " WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: drop the database: %v", err)
		}
	})
	return db
}

// KillBackends ends every connection to the database, as an administrator would
// with pg_terminate_backend. A transaction in progress is rolled back.
func (db *DB) KillBackends(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), opWait)
	defer cancel()
	conn, err := pgx.Connect(ctx, db.addr.DSN(devpg.Superuser, "postgres"))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	defer conn.Close(ctx)
	// The timeout makes it wait until each backend is really gone.
	if _, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
		WHERE datname = $1 AND backend_type = 'client backend'`, db.Name); err != nil {
		t.Fatalf("pgtest: end the connections: %v", err)
	}
}

// Exec runs a statement as khata_owner, for tests that do not speak to PostgreSQL themselves.
func (db *DB) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), opWait)
	defer cancel()
	conn, err := pgx.Connect(ctx, db.OwnerDSN())
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

// databaseName makes a name that is free on a shared server and says whose it is,
// within PostgreSQL's 63 bytes.
func databaseName(test string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(test))
	return "t_" + clean[:min(len(clean), 30)] + "_" + strings.ToLower(rand.Text())
}

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }
