package inbox

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

const (
	// migrationLock is not goose's own, under which the user's migrations may run.
	migrationLock = 0x6b6861746169
	versionTable  = "version"
)

// Migrate makes the tables of an inbox in a schema (empty: DefaultSchema), or brings them up to date, and returns what it applied. The DSN is that
// of a role that may create the schema, or owns it; the roles of consumers need no more than Grants says. It can be called at every start: two
// at once do no harm, since one waits for the other.
func Migrate(ctx context.Context, dsn, schema string) (applied []string, err error) {
	or(&schema, DefaultSchema)
	if err := validSchema(schema); err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	if err := makeSchema(ctx, config, schema); err != nil {
		return nil, err
	}
	config.RuntimeParams["search_path"] = quote(schema) + ", pg_temp"
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(1, 60))
	if err != nil {
		return nil, err
	}
	pool := stdlib.OpenDB(*config)
	provider, err := goose.NewProvider(goose.DialectPostgres, pool, files, goose.WithSessionLocker(locker), goose.WithTableName(versionTable),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	results, err := provider.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("apply the migrations of the inbox: %w", err)
	}
	for _, r := range results {
		applied = append(applied, r.Source.Path)
	}
	return applied, nil
}

// makeSchema creates the schema, if it is not there: only then is the right to do so needed.
func makeSchema(ctx context.Context, config *pgx.ConnConfig, schema string) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// IF NOT EXISTS does not help two who come at once.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return fmt.Errorf("wait for another migration: %w", err)
		}
		var there bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&there); err != nil || there {
			return err
		}
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+quote(schema)); err != nil {
			return fmt.Errorf("create the schema %s: %w", schema, err)
		}
		return nil
	})
}

// Grants is the SQL that gives a role what its consumers need of an inbox, and no more: it cannot delete anything, nor change what was
// recorded. Whoever ran Migrate may execute it.
func Grants(schema, role string) string {
	or(&schema, DefaultSchema)
	return strings.ReplaceAll(inSchema(schema, `GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT ON {schema}.consumer, {schema}.marker, {schema}.letter, {schema}.progress TO {role};
GRANT UPDATE (window_seconds, registered_at) ON {schema}.consumer TO {role};
GRANT UPDATE (next_offset, saved_at) ON {schema}.progress TO {role};
GRANT UPDATE (reason, state, error, attempts, requested_at, settled_at, note) ON {schema}.letter TO {role};
GRANT SELECT ON {schema}.version TO {role};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role};
`), "{role}", quote(role))
}

// Connect opens a pool of connections, for those who do not use pgx themselves.
func Connect(ctx context.Context, dsn string) (*pgxpool.Pool, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	return pool, nil
}

// checkVersion reports whether the tables are those of this package.
func (b *Inbox) checkVersion(ctx context.Context) error {
	need, err := schemaVersion()
	if err != nil {
		return err
	}
	var have int64
	err = b.pool.QueryRow(ctx, b.sql("SELECT coalesce(max(version_id), 0) FROM {schema}.version WHERE is_applied")).Scan(&have)
	switch state := sqlState(err); {
	case state == "42P01" || state == "3F000" || err == nil && have < need:
		return fmt.Errorf("the schema %s has no inbox of this version: call inbox.Migrate first, or run khata inbox migrate", b.config.Schema)
	case err != nil:
		return fmt.Errorf("read the version of the schema %s: %w", b.config.Schema, err)
	}
	return nil
}

func schemaVersion() (int64, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("no migrations are embedded: %w", err)
	}
	return goose.NumericComponent(names[len(names)-1])
}

func validSchema(name string) error {
	if name == "" || len(name) > 63 || !isText(name) {
		return fmt.Errorf("inbox: %q cannot be the name of a schema", name)
	}
	return nil
}

func quote(identifier string) string { return pgx.Identifier{identifier}.Sanitize() }

// inSchema fills in the schema's name.
func inSchema(schema, sql string) string { return strings.ReplaceAll(sql, "{schema}", quote(schema)) }
