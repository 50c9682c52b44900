package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Unsafe is the error of a database that could lose what was acknowledged, or of a role that could rewrite it.
type Unsafe struct {
	// Reasons says what is wrong and how to mend it, a sentence each.
	Reasons []string
}

// Error lists the reasons.
func (u *Unsafe) Error() string { return "this database is not safe: " + strings.Join(u.Reasons, "; ") }

// Preflight checks what must hold before a server may serve from this database: that the schema is this binary's, that it
// is a primary, and, as *Unsafe, that a commit is on disk when it is answered and that the role cannot rewrite the journal.
func Preflight(ctx context.Context, pool *pgxpool.Pool) error {
	if err := CheckSchema(ctx, pool); err != nil {
		return err
	}
	var standby, rewrites bool
	var role string
	if err := pool.QueryRow(ctx, `SELECT pg_is_in_recovery(), current_user,
		has_table_privilege('transfer', 'DELETE, TRUNCATE') OR has_any_column_privilege('transfer', 'UPDATE')
		OR has_table_privilege('entry', 'DELETE, TRUNCATE') OR has_any_column_privilege('entry', 'INSERT, UPDATE')`,
	).Scan(&standby, &role, &rewrites); err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	if standby {
		return errors.New("this PostgreSQL is a standby; connect to the primary")
	}
	var unsafe Unsafe
	if rewrites {
		unsafe.Reasons = append(unsafe.Reasons, fmt.Sprintf("role %s can rewrite the journal: connect as khata_service", role))
	}
	lax, err := NotDurable(ctx, pool)
	if err != nil {
		return err
	}
	unsafe.Reasons = append(unsafe.Reasons, lax...)
	if len(unsafe.Reasons) > 0 {
		return &unsafe
	}
	return nil
}

// Queryer is what a pool, a connection and a transaction have in common.
type Queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// NotDurable names the settings with which an acknowledged commit can be lost, or returns none.
func NotDurable(ctx context.Context, q Queryer) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT name || ' is off: set it to on' FROM pg_catalog.pg_settings
		WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off' ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// CheckSchema checks that the schema of the database is this binary's.
func CheckSchema(ctx context.Context, pool *pgxpool.Pool) error {
	want, err := SchemaVersion()
	if err != nil {
		return err
	}
	have, err := appliedVersion(ctx, pool, defaultVersions)
	if err != nil {
		return err
	}
	// A newer schema will do: migrations expand before they contract, so the binary of the version before goes on working.
	if have < want {
		return fmt.Errorf("the schema is at version %d, this binary needs %d: run khata migrate up as the owner of the database", have, want)
	}
	return nil
}
