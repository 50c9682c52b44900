package server

import (
	"context"
	"errors"

	"github.com/khata-ledger/khata/internal/devpg"
	"github.com/khata-ledger/khata/internal/pg"
)

const (
	// Database is the name of the database in an embedded PostgreSQL.
	Database = "khata"
	// OwnerRole owns it and migrates it.
	OwnerRole = "khata_owner"
	// ServiceRole is whom servers connect as. It owns nothing.
	ServiceRole = "khata_service"
)

// Embedded is a private PostgreSQL with Khata's schema in it.
type Embedded struct{ *devpg.Server }

// StartEmbedded starts the PostgreSQL of a data directory, making it the first time, and brings its schema up to date.
func StartEmbedded(ctx context.Context, config devpg.Config) (_ *Embedded, err error) {
	server, err := devpg.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, server.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if err := server.EnsureRole(ctx, ServiceRole); err != nil {
		return nil, err
	}
	if err := server.EnsureDatabase(ctx, Database, OwnerRole); err != nil {
		return nil, err
	}
	if _, err := pg.Migrate(ctx, server.DSN(OwnerRole, Database)); err != nil {
		return nil, err
	}
	return &Embedded{server}, nil
}

// SuperDSN is the connection string of the superuser, whom no grant stops: to look at the database, never to serve from it.
func (e *Embedded) SuperDSN() string { return e.DSN(devpg.Superuser, Database) }

// ServiceDSN is the connection string for servers.
func (e *Embedded) ServiceDSN() string { return e.DSN(ServiceRole, Database) }

// OwnerDSN is the connection string of the owner, who migrates.
func (e *Embedded) OwnerDSN() string { return e.DSN(OwnerRole, Database) }
