package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/devpg"
)

// templateLock is the advisory lock under which a template is made, in the
// database postgres of the server. Any number does that nothing else uses there.
const templateLock = 0x6b68617461

// ensureTemplate returns the name of a migrated database to clone from. The name
// is a hash of the migrations, so that processes which share a server share the
// template exactly when they have the same ones.
func ensureTemplate(ctx context.Context, addr devpg.Address) (string, error) {
	sum, err := migrationsHash()
	if err != nil {
		return "", err
	}
	name, unfinished := "khata_template_"+sum, "khata_unfinished_"+sum

	conn, err := pgx.Connect(ctx, addr.DSN(devpg.Superuser, "postgres"))
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx)) // releases the lock
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(templateLock)); err != nil {
		return "", err
	}
	var found bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&found)
	if err != nil || found {
		return name, err
	}
	// Whoever dies while making it leaves it under the other name.
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+ident(unfinished)+" WITH (FORCE)"); err != nil {
		return "", err
	}
	if err := makeDatabase(ctx, addr, unfinished); err != nil {
		return "", err
	}
	// Nobody can connect to it any more, and so block clones.
	for _, sql := range []string{
		"ALTER DATABASE " + ident(unfinished) + " IS_TEMPLATE true ALLOW_CONNECTIONS false",
		"ALTER DATABASE " + ident(unfinished) + " RENAME TO " + ident(name),
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return "", err
		}
	}
	return name, nil
}

// makeDatabase creates and migrates a database the long way.
func makeDatabase(ctx context.Context, addr devpg.Address, name string) error {
	if err := addr.EnsureRole(ctx, serviceRole); err != nil {
		return err
	}
	if err := addr.EnsureDatabase(ctx, name, ownerRole); err != nil {
		return err
	}
	if err := migrate(ctx, addr.DSN(ownerRole, name)); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func migrationsHash() (string, error) {
	h := sha256.New()
	files := migrations()
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		// With the lengths, no two sets of files give the same bytes.
		fmt.Fprintf(h, "%d %s %d\n", len(path), path, len(b))
		h.Write(b)
		return nil
	})
	return hex.EncodeToString(h.Sum(nil))[:16], err
}
