package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/khata-ledger/khata/internal/devpg"
)

// Restored makes a new database from a backup of this one, as it is now, by pg_dump and pg_restore: what a restore gives operators,
// sequences included.
func (db *DB) Restored(t testing.TB) *DB {
	t.Helper()
	copied := New(t)
	owned, err := theServer.get()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if err := owned.exec("DROP DATABASE " + ident(copied.Name)); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if err := owned.exec("CREATE DATABASE " + ident(copied.Name) + " TEMPLATE template0 OWNER " + ident(ownerRole)); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	run(t, "pg_dump", "--format=custom", "--file="+file, db.SuperDSN())
	run(t, "pg_restore", "--exit-on-error", "--dbname="+copied.SuperDSN(), file)
	return copied
}

func run(t testing.TB, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), opWait)
	defer cancel()
	path, err := locate(program)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("pgtest: %s: %v\n%s", program, err, said.String())
	}
}

// locate finds a program of PostgreSQL's: one that is newer than the server will do, an older one will not.
func locate(program string) (string, error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Sort(dirs)
	dirs = append(dirs, os.Getenv(devpg.BinEnv))
	for _, dir := range slices.Backward(dirs) {
		if path := filepath.Join(dir, program); dir != "" {
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s is needed, which comes with PostgreSQL's client programs: %w", program, err)
	}
	return path, nil
}
