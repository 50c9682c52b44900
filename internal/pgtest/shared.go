package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/khata-ledger/khata/internal/devpg"
)

// ServerEnv names the environment variable that holds the directory of a running
// devpg server. The test processes of one run can share it instead of starting one
// each; it needs a max_connections that suffices for those that run at once.
const ServerEnv = "KHATA_TEST_PG"

// settings of the servers that this package starts.
var settings = map[string]string{"max_connections": "200"}

// theServer is the one that all tests of the process share.
var theServer server

// server starts when the first test asks for it.
type server struct {
	mu       sync.Mutex
	inMain   bool
	tried    bool
	err      error // of the start; every test gets it
	addr     devpg.Address
	template string
	own      *devpg.Server // nil if it is another process's
	dir      *tempDir

	// admin is one connection for all tests; statements queue up on it. Two
	// CREATE DATABASE at once would only compete for the same checkpoint.
	adminMu sync.Mutex
	admin   *pgx.Conn
}

// Main runs the tests of a package and afterwards stops the shared server, if any
// test started it, and fails on goroutines that the tests have left running. It
// returns the exit code; TestMain passes it to os.Exit.
func Main(m *testing.M, ignore ...goleak.Option) int {
	theServer.mu.Lock()
	theServer.inMain = true
	theServer.mu.Unlock()
	code := m.Run()
	if err := theServer.close(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(ignore...); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest: goroutines left after the tests:", err)
			code = 1
		}
	}
	return code
}

func (s *server) get() (*server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.inMain {
		return nil, errors.New("this package's TestMain must be os.Exit(pgtest.Main(m))")
	}
	if !s.tried {
		s.tried = true
		ctx, cancel := context.WithTimeout(context.Background(), 2*opWait)
		defer cancel()
		s.err = s.start(ctx)
	}
	return s, s.err
}

func (s *server) start(ctx context.Context) (err error) {
	if dir := os.Getenv(ServerEnv); dir != "" {
		addr, ok, err := devpg.Running(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", ServerEnv, err)
		}
		if !ok {
			return fmt.Errorf("%s: no PostgreSQL runs in %s", ServerEnv, dir)
		}
		s.addr = addr
	} else {
		if s.dir, err = newTempDir(); err != nil {
			return err
		}
		if s.own, err = devpg.Start(ctx, devpg.Config{Dir: s.dir.pg(), Settings: settings}); err != nil {
			return err
		}
		s.addr = s.own.Address
	}
	if s.template, err = ensureTemplate(ctx, s.addr); err != nil {
		return fmt.Errorf("make the template database: %w", err)
	}
	return nil
}

// exec runs one statement as the superuser, connecting first if need be.
func (s *server) exec(sql string) error {
	s.adminMu.Lock()
	defer s.adminMu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), opWait)
	defer cancel()
	if s.admin == nil || s.admin.IsClosed() {
		conn, err := pgx.Connect(ctx, s.addr.DSN(devpg.Superuser, "postgres"))
		if err != nil {
			return err
		}
		s.admin = conn
	}
	_, err := s.admin.Exec(ctx, sql)
	return err
}

func (s *server) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), opWait)
	defer cancel()
	var errs []error
	if s.admin != nil {
		errs = append(errs, s.admin.Close(ctx))
	}
	if s.own != nil {
		// Before Stop, or an end that nobody asked for would not be seen.
		errs = append(errs, s.own.Err(), s.own.Stop(ctx))
	}
	if s.dir != nil {
		errs = append(errs, s.dir.remove())
	}
	return errors.Join(errs...)
}
