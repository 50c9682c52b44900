package pg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"

	"github.com/khata-ledger/khata/db"
)

// Schema is a schema with migrations of its own, in the database of the books or in any other one.
type Schema struct {
	// Name is its name in PostgreSQL. The table of what was applied is in it, and is called version.
	Name string
	// Files are its migrations.
	Files fs.FS
	// Migrated says which command applies them.
	Migrated string
}

// ConsumerSchema is the schema of a consumer of events: khata_wallet of wallet, and so on.
func ConsumerSchema(consumer, command string) Schema {
	files, err := fs.Sub(db.Consumers, "consumers/"+consumer)
	if err != nil {
		panic(err) // The name is no path.
	}
	return Schema{Name: "khata_" + consumer, Files: files, Migrated: command}
}

// Migrate makes the schema or brings it up to date, and returns what it applied. The DSN is that of a role that may create it, or owns it. Two
// at once do no harm: one waits for the other.
func (s Schema) Migrate(ctx context.Context, dsn string) (applied []Migration, err error) {
	if err := s.make(ctx, dsn); err != nil {
		return nil, err
	}
	provider, done, err := provide(dsn, s.Files, s.Name+".version")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	return up(ctx, provider)
}

// make creates the schema, if it is not there: only then is the right to do so needed.
func (s Schema) make(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", s.Name).Scan(&there); err != nil {
		return fmt.Errorf("look for the schema %s: %w", s.Name, err)
	}
	if there {
		return nil
	}
	_, err = conn.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{s.Name}.Sanitize())
	var refused *pgconn.PgError
	const alreadyThere, uniqueViolation = "42P06", "23505" // Another one was first, and is done or not.
	if errors.As(err, &refused) && (refused.Code == alreadyThere || refused.Code == uniqueViolation) {
		return nil
	} else if err != nil {
		return fmt.Errorf("create the schema %s: %w", s.Name, err)
	}
	return nil
}

// Check checks that the schema is this binary's, or a later one.
func (s Schema) Check(ctx context.Context, pool *pgxpool.Pool) error {
	want, err := lastVersion(s.Files, "*.sql")
	if err != nil {
		return err
	}
	have, err := appliedVersion(ctx, pool, pgx.Identifier{s.Name, "version"})
	if err != nil {
		return err
	}
	if have < want {
		return fmt.Errorf("the schema %s is at version %d, this binary needs %d: run %s", s.Name, have, want, s.Migrated)
	}
	return nil
}

// appliedVersion is the last version of a schema that a table of goose's knows, or 0 where there is no such table.
func appliedVersion(ctx context.Context, pool *pgxpool.Pool, table pgx.Identifier) (version int64, err error) {
	err = pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+table.Sanitize()+` WHERE is_applied`).Scan(&version)
	var refused *pgconn.PgError
	const noTable, noSchema = "42P01", "3F000"
	switch {
	case errors.As(err, &refused) && (refused.Code == noTable || refused.Code == noSchema):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read the schema's version: %w", err)
	}
	return version, nil
}

var defaultVersions = pgx.Identifier{goose.DefaultTablename}

// Quote makes a name one in SQL, whatever is in it.
func Quote(name string) string { return pgx.Identifier{name}.Sanitize() }
