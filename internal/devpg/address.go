package devpg

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Address is where a server of this package listens.
type Address struct {
	socketDir string
	pid       int
}

// SocketDir is the directory that holds the server's socket. Only the user that
// PostgreSQL runs as and root may enter it.
func (a Address) SocketDir() string { return a.socketDir }

// PID is the process id of the postmaster.
func (a Address) PID() int { return a.pid }

// DSN returns a connection string in key/value form, since a socket directory
// does not fit into a URL's host. No password is needed.
func (a Address) DSN(role, database string) string {
	return DSN(a.socketDir, role, database)
}

// DSN is Address.DSN for a socket in any directory, such as a proxy's.
func DSN(socketDir, role, database string) string {
	return fmt.Sprintf("host=%s port=5432 user=%s dbname=%s sslmode=disable",
		quote(socketDir), quote(role), quote(database))
}

func quote(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}

// EnsureRole creates a role that may log in and nothing more, unless there is
// one of that name, which is left as it is.
func (a Address) EnsureRole(ctx context.Context, name string) error {
	return a.asSuperuser(ctx, func(conn *pgx.Conn) error { return ensureRole(ctx, conn, name) })
}

// EnsureDatabase creates the role owner like EnsureRole, and a database that it
// owns, unless there is one of that name, which is left as it is.
func (a Address) EnsureDatabase(ctx context.Context, name, owner string) error {
	return a.asSuperuser(ctx, func(conn *pgx.Conn) error {
		if err := ensureRole(ctx, conn, owner); err != nil {
			return err
		}
		return create(ctx, conn, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name,
			"CREATE DATABASE "+ident(name)+" OWNER "+ident(owner))
	})
}

func ensureRole(ctx context.Context, conn *pgx.Conn, name string) error {
	return create(ctx, conn, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", name,
		"CREATE ROLE "+ident(name)+
			" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS")
}

// create runs ddl if the name does not exist. Neither statement has an IF NOT
// EXISTS, so two callers may race; the loser is content.
func create(ctx context.Context, conn *pgx.Conn, exists, name, ddl string) error {
	var found bool
	if err := conn.QueryRow(ctx, exists, name).Scan(&found); err != nil || found {
		return err
	}
	_, err := conn.Exec(ctx, ddl)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "42710", "42P04", "23505": // duplicate object, database, key of a catalogue
			return nil
		}
	}
	return err
}

func (a Address) asSuperuser(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, a.DSN(Superuser, "postgres"))
	if err != nil {
		return fmt.Errorf("prepare PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := do(conn); err != nil {
		return fmt.Errorf("prepare PostgreSQL: %w", err)
	}
	return nil
}

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }
