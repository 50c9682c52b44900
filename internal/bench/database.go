package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// database is the PostgreSQL under the server, seen from beside it. A nil *database is one that may not be looked at.
type database struct {
	dsn  string
	conn *pgx.Conn
}

// openDatabase connects. Nothing of the service may be changed here.
func openDatabase(ctx context.Context, dsn string) (*database, error) {
	if dsn == "" {
		return nil, nil
	}
	conn, err := connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	return &database{dsn: dsn, conn: conn}, nil
}

// connect makes a connection with the settings that the service's own have, where they bear on speed.
func connect(ctx context.Context, dsn string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	for name, value := range map[string]string{
		"application_name": "khata bench", "TimeZone": "UTC", "jit": "off", "plan_cache_mode": "force_generic_plan",
	} {
		if _, given := config.RuntimeParams[name]; !given {
			config.RuntimeParams[name] = value
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return conn, nil
}

func (d *database) close() {
	if d != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = d.conn.Close(ctx)
	}
}

// settle lets a mode begin with nothing left to do for those before it: pages are written, rows are visible to all and
// marked so, and the statistics are those of the tables as they are. Without the privileges for it, it does what it may.
func (d *database) settle(ctx context.Context) error {
	if d == nil {
		return nil
	}
	// The tables of the service and of the floors; the rest of the catalogue takes its time and has nothing to settle.
	rows, err := d.conn.Query(ctx, `SELECT oid::regclass::text FROM pg_catalog.pg_class
		WHERE relkind = 'r' AND (relnamespace = 'public'::regnamespace OR relnamespace::regnamespace::text LIKE $1)`, floorSchema+"%")
	if err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	for _, sql := range []string{"VACUUM (ANALYZE) " + strings.Join(tables, ", "), "CHECKPOINT"} {
		_, err := d.conn.Exec(ctx, sql)
		var refused *pgconn.PgError
		const insufficientPrivilege = "42501"
		if errors.As(err, &refused) && refused.Code == insufficientPrivilege {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// settings reads those that bear on speed.
func (d *database) settings(ctx context.Context) (map[string]string, error) {
	rows, err := d.conn.Query(ctx, `SELECT name, current_setting(name) FROM pg_catalog.pg_settings WHERE name IN ('server_version',
		'fsync', 'full_page_writes', 'synchronous_commit', 'shared_buffers', 'max_wal_size', 'wal_compression', 'checkpoint_timeout')`)
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	type setting struct{ name, value string }
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s setting, err error) {
		err = row.Scan(&s.name, &s.value)
		return s, err
	})
	settings := map[string]string{}
	for _, s := range list {
		settings[s.name] = s.value
	}
	return settings, err
}

// TableSize is the size of a table with its indexes.
type TableSize struct {
	Table string `json:"table"`
	Bytes int64  `json:"bytes"`
}

// sizes lists the tables of the service, the largest first.
func (d *database) sizes(ctx context.Context) ([]TableSize, error) {
	rows, err := d.conn.Query(ctx, `SELECT relname, pg_total_relation_size(oid) FROM pg_catalog.pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'm') ORDER BY 2 DESC, 1`)
	if err != nil {
		return nil, fmt.Errorf("read the sizes of tables: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[TableSize])
}

// size is how many bytes all tables of the service take, with all indexes.
func (d *database) size(ctx context.Context) (total int64, err error) {
	list, err := d.sizes(ctx)
	for _, t := range list {
		total += t.Bytes
	}
	return total, err
}

// transfers counts the rows of the journal.
func (d *database) transfers(ctx context.Context) (n int64, err error) {
	if err := d.conn.QueryRow(ctx, "SELECT count(*) FROM public.transfer").Scan(&n); err != nil {
		return 0, fmt.Errorf("count the transfers: %w", err)
	}
	return n, nil
}

// records is how many records the journal has: what a relay publishes.
func (d *database) records(ctx context.Context) (n int64, err error) {
	err = d.conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM transfer) + (SELECT count(*) FROM account_change)`).Scan(&n)
	return n, err
}

// published is how many of them are.
func (d *database) published(ctx context.Context) (n int64, err error) {
	err = d.conn.QueryRow(ctx, `SELECT coalesce(sum(records), 0)::bigint FROM relay_cursor`).Scan(&n)
	return n, err
}
