package pgtest

import (
	"context"
	"io/fs"

	"github.com/khata-ledger/khata/db"
	"github.com/khata-ledger/khata/internal/pg"
)

// migrations are the files that make a template what it is.
func migrations() fs.FS { return db.Migrations }

func migrate(ctx context.Context, dsn string) error {
	_, err := pg.Migrate(ctx, dsn)
	return err
}
