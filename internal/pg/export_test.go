package pg

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// Constraint returns the name of the constraint that refused the statement, or "".
func Constraint(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.ConstraintName
	}
	return ""
}
