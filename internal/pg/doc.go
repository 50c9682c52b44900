// Package pg is Khata's way to PostgreSQL: a pool whose waits are bounded, transactions that know when they do not know,
// SQLSTATEs sorted by what to do about them, migrations, and the checks before a server may start.
//
// It knows nothing of ledgers; the SQL is that of the packages that own the tables.
package pg
