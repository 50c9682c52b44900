package pg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/khata-ledger/khata/db"
)

// Migration is one step of the schema.
type Migration struct {
	Version int64
	Name    string
	// AppliedAt is zero where it is still to be applied.
	AppliedAt time.Time
}

// Migrate brings the schema of the database up to this binary's. The DSN is that of the owner of the database. Two at once
// do no harm: one waits for the other. It returns what it applied.
func Migrate(ctx context.Context, dsn string) (applied []Migration, err error) {
	provider, done, err := migrations(dsn)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	return up(ctx, provider)
}

func up(ctx context.Context, provider *goose.Provider) (applied []Migration, err error) {
	results, err := provider.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("apply migrations: %w", err)
	}
	for _, r := range results {
		applied = append(applied, Migration{Version: r.Source.Version, Name: r.Source.Path, AppliedAt: time.Now()})
	}
	return applied, nil
}

// Migrations lists the steps of the schema and which of them the database has.
func Migrations(ctx context.Context, dsn string) (list []Migration, err error) {
	provider, done, err := migrations(dsn)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	statuses, err := provider.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the schema's version: %w", err)
	}
	for _, s := range statuses {
		list = append(list, Migration{Version: s.Source.Version, Name: s.Source.Path, AppliedAt: s.AppliedAt})
	}
	return list, nil
}

func migrations(dsn string) (*goose.Provider, func() error, error) {
	files, err := fs.Sub(db.Migrations, "migrations")
	if err != nil {
		return nil, nil, err
	}
	return provide(dsn, files, goose.DefaultTablename)
}

// provide makes what applies the migrations in some files and notes them in a table.
func provide(dsn string, files fs.FS, table string) (*goose.Provider, func() error, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, nil, fmt.Errorf("read the DSN: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err != nil {
		return nil, nil, err
	}
	pool := stdlib.OpenDB(*config)
	provider, err := goose.NewProvider(goose.DialectPostgres, pool, files, goose.WithSessionLocker(locker), goose.WithTableName(table),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, nil, errors.Join(err, pool.Close())
	}
	return provider, provider.Close, nil
}

// SchemaVersion is the version of the schema that this binary was built for.
func SchemaVersion() (int64, error) { return lastVersion(db.Migrations, "migrations/*.sql") }

func lastVersion(files fs.FS, pattern string) (int64, error) {
	names, err := fs.Glob(files, pattern)
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("no migrations are embedded: %w", err)
	}
	return goose.NumericComponent(names[len(names)-1])
}
