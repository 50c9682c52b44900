// Package db holds the SQL of Khata: forward-only migrations, embedded in the binary, and the queries that sqlc turns
// into package dbsqlc.
package db

import "embed"

// Migrations has the files of migrations/, in goose's format.
//
//go:embed migrations/*.sql
var Migrations embed.FS
