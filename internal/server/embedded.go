package server

import (
	"context"
	"errors"
	"log/slog"

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
func StartEmbedded(ctx context.Context, dir string, log *slog.Logger) (_ *Embedded, err error) {
	server, err := devpg.Start(ctx, devpg.Config{Dir: dir, Logger: log})
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

// ServiceDSN is the connection string for servers.
func (e *Embedded) ServiceDSN() string { return e.DSN(ServiceRole, Database) }
