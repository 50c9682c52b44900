// Package db holds the SQL of Khata: forward-only migrations of the books and of each consumer's schema, embedded in the binary, and the
// queries that sqlc turns into package dbsqlc.
package db

import "embed"

// Migrations has the files of migrations/, in goose's format.
//
//go:embed migrations/*.sql
var Migrations embed.FS

// Consumers has the migrations of the consumers of events, a directory each. Each has a schema of its own, in whichever database it is run
// on, and every name in the files is qualified with it.
//
//go:embed consumers/*/*.sql
var Consumers embed.FS
