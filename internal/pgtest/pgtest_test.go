package pgtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// connect opens a connection, through faults if there are any, that is closed with
// the test.
func connect(t *testing.T, dsn string, f *Faults) *pgx.Conn {
	t.Helper()
	conn, err := dial(dsn, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func dial(dsn string, f *Faults) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	if f != nil {
		cfg.DialFunc = f.DialFunc(cfg.DialFunc)
	}
	return pgx.ConnectConfig(context.Background(), cfg)
}

func mustExec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func text(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	var v string
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func TestNew_DatabasesAreApart(t *testing.T) {
	t.Parallel()
	var names sync.Map
	for range 4 {
		t.Run("clone", func(t *testing.T) {
			t.Parallel()
			db := New(t)
			if _, taken := names.LoadOrStore(db.Name, true); taken {
				t.Errorf("%s is given out twice", db.Name)
			}
			owner := connect(t, db.OwnerDSN(), nil)
			// Fails if another test's table is here.
			mustExec(t, owner, "CREATE TABLE mine (n int)")
			if n := text(t, owner, "SELECT count(*)::text FROM goose_db_version WHERE version_id > 0"); n == "0" {
				t.Error("no migration was applied")
			}
		})
	}
}

func TestNew_RolesAndSettings(t *testing.T) {
	t.Parallel()
	db := New(t)
	for want, dsn := range map[string]string{
		"khata_owner false":   db.OwnerDSN(),
		"khata_service false": db.ServiceDSN(),
		"postgres true":       db.SuperDSN(),
	} {
		conn := connect(t, dsn, nil)
		if got := text(t, conn, `SELECT current_user || ' ' || rolsuper FROM pg_roles
			WHERE rolname = current_user`); got != want {
			t.Errorf("role %q, want %q", got, want)
		}
		// Servers refuse to run on anything less, so the tests must not.
		for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
			if got := text(t, conn, "SHOW "+name); got != "on" {
				t.Errorf("%s = %s", name, got)
			}
		}
	}
	_, err := connect(t, db.ServiceDSN(), nil).Exec(t.Context(), "CREATE TABLE public.no (n int)")
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "42501" {
		t.Errorf("the service's role creates a table: %v", err)
	}
}

func TestNew_DropsWhileConnected(t *testing.T) {
	t.Parallel()
	var (
		db   *DB
		conn *pgx.Conn
	)
	t.Run("inner", func(t *testing.T) {
		db = New(t)
		var err error
		if conn, err = dial(db.OwnerDSN(), nil); err != nil {
			t.Fatal(err)
		}
	})
	defer conn.Close(context.Background())
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection outlives the database")
	}
	if c, err := dial(db.OwnerDSN(), nil); err == nil {
		c.Close(context.Background())
		t.Error("the database outlives its test")
	}
}

func TestDB_KillBackends(t *testing.T) {
	t.Parallel()
	db := New(t)
	conn := connect(t, db.OwnerDSN(), nil)
	db.KillBackends(t)
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection is alive")
	}
}

func TestServer_KillAndRestart(t *testing.T) {
	t.Parallel()
	s := NewServer(t, map[string]string{"wal_level": "logical"})
	conn := connect(t, s.OwnerDSN(), nil)
	if got := text(t, conn, "SHOW wal_level"); got != "logical" {
		t.Errorf("wal_level = %s", got)
	}
	mustExec(t, conn, "CREATE TABLE kept (n int)")
	s.Kill(t)
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the session answers after Kill")
	}
	s.Restart(t)
	mustExec(t, connect(t, s.OwnerDSN(), nil), "INSERT INTO kept VALUES (1)")
	s.Stop(t)
	s.Stop(t)
	if _, err := dial(s.OwnerDSN(), nil); err == nil {
		t.Error("the server answers after Stop")
	}
	s.Restart(t)
	if got := text(t, connect(t, s.OwnerDSN(), nil), "SELECT count(*)::text FROM kept"); got != "1" {
		t.Errorf("%s rows", got)
	}
	// Both are put right by the cleanup.
	s.Kill(t)
	s.Restart(t)
	s.Signal(t, syscall.SIGSTOP)
}

func TestSweep(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	newDir := func(name string, age time.Duration) string {
		path := filepath.Join(base, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(lockPath(path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old, young := newDir(prefix+"old", time.Hour), newDir(prefix+"young", 0)
	used, other := newDir(prefix+"used", time.Hour), newDir("other", time.Hour)
	lock, err := os.Open(lockPath(used))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	sweep(base)
	if _, err := os.Stat(old); err == nil {
		t.Error("an abandoned directory stays")
	}
	for _, path := range []string{young, used, other} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s is gone", path)
		}
	}
}

// TestServer_Missing checks that tests fail, and say why, where no server is.
func TestServer_Missing(t *testing.T) {
	for name, c := range map[string]struct{ env, value, want string }{
		"no shared server": {ServerEnv, t.TempDir(), "no PostgreSQL runs in"},
		"no programs":      {"KHATA_PG_BIN", t.TempDir(), "apt-get install postgresql"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(ServerEnv, "")
			t.Setenv(c.env, c.value)
			s := &server{inMain: true}
			if _, err := s.get(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("get: %v", err)
			}
			if err := s.close(); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := new(server).get(); err == nil || !strings.Contains(err.Error(), "TestMain") {
		t.Errorf("get without Main: %v", err)
	}
}

// TestServer_Shared checks that two processes' worth of servers use one template.
func TestServer_Shared(t *testing.T) {
	s, err := theServer.get()
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv(ServerEnv)
	if dir == "" {
		dir = s.dir.pg()
	}
	t.Setenv(ServerEnv, dir)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			other := &server{inMain: true}
			if _, err := other.get(); err != nil {
				t.Error(err)
			} else if other.template != s.template || other.own != nil {
				t.Errorf("template %s, own server %v", other.template, other.own)
			}
			if err := other.close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
