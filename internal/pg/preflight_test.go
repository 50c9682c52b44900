package pg_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
)

// preflight says what Preflight says of a DSN: "", the reasons of an *Unsafe, or another error after an exclamation mark.
func preflight(t testing.TB, dsn string) string {
	t.Helper()
	err := pg.Preflight(t.Context(), connect(t, pg.Config{DSN: dsn, MaxConns: 1}))
	var unsafe *pg.Unsafe
	switch {
	case err == nil:
		return ""
	case errors.As(err, &unsafe):
		if len(unsafe.Reasons) == 0 || !strings.Contains(err.Error(), unsafe.Reasons[0]) {
			t.Errorf("the error does not say why: %v", err)
		}
		return strings.Join(unsafe.Reasons, "; ")
	default:
		return "!" + err.Error()
	}
}

// wants checks that what was said has these parts.
func wants(t testing.TB, said string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(said, part) {
			t.Errorf("said %q, want %q in it", said, part)
		}
	}
}

func TestPreflight_Role(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if said := preflight(t, db.ServiceDSN()); said != "" {
		t.Errorf("the service's role: %s", said)
	}
	for role, dsn := range map[string]string{"postgres": db.SuperDSN(), "khata_owner": db.OwnerDSN()} {
		if said := preflight(t, dsn); said != "role "+role+" can rewrite the journal: connect as khata_service" {
			t.Errorf("%s: %s", role, said)
		}
	}
}

// TestPreflight_Grants gives the service's role one right too many at a time.
func TestPreflight_Grants(t *testing.T) {
	t.Parallel()
	for _, grant := range []string{
		"UPDATE ON transfer", "DELETE ON transfer", "TRUNCATE ON transfer",
		"INSERT ON entry", "UPDATE ON entry", "DELETE ON entry", "TRUNCATE ON entry",
	} {
		t.Run(grant, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			exec(t, db.OwnerDSN(), "GRANT "+grant+" TO khata_service")
			wants(t, preflight(t, db.ServiceDSN()), "role khata_service can rewrite the journal")
		})
	}
}

func TestPreflight_Durability(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fsync", "full_page_writes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.NewServer(t, map[string]string{name: "off"})
			if said := preflight(t, s.ServiceDSN()); said != name+" is off: set it to on" {
				t.Errorf("said %q", said)
			}
		})
	}
	t.Run("synchronous_commit", func(t *testing.T) {
		t.Parallel()
		const want = "synchronous_commit is off: set it to on"
		db := pgtest.New(t)
		if said := preflight(t, db.ServiceDSN()+" synchronous_commit=off"); said != want {
			t.Errorf("in the DSN: said %q", said)
		}
		exec(t, db.SuperDSN(), "ALTER DATABASE "+db.Name+" SET synchronous_commit = off")
		if said := preflight(t, db.ServiceDSN()); said != want {
			t.Errorf("of the database: said %q", said)
		}
		// Everything that is wrong, at once.
		wants(t, preflight(t, db.SuperDSN()), want, "role postgres can rewrite the journal")
	})
}

func TestPreflight_Schema(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	dsn := emptyDatabase(t, db)
	wants(t, preflight(t, serviceOf(dsn)), "!", "version 0", "khata migrate up")
	exec(t, db.SuperDSN(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999999, true)")
	if said := preflight(t, db.ServiceDSN()); said != "" {
		t.Errorf("a newer schema: %s", said)
	}
	exec(t, db.SuperDSN(), "DELETE FROM goose_db_version WHERE version_id > 0")
	wants(t, preflight(t, db.ServiceDSN()), "!", "version 0", "khata migrate up")
}

func TestPreflight_NoServer(t *testing.T) {
	t.Parallel()
	err := pg.Preflight(t.Context(), connect(t, pg.Config{DSN: "host=/nonexistent user=x dbname=x"}))
	if err == nil || pg.Classify(err) != pg.Unavailable {
		t.Errorf("%v", err)
	}
}
