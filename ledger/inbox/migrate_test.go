package inbox_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger/inbox"
)

// Several at once, into two schemas of one database, beside other migrations.
func TestMigrate(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	applied := map[string]int{}
	for range 3 {
		for _, schema := range []string{"", `Team "B"`} {
			wg.Go(func() {
				list, err := inbox.Migrate(t.Context(), db.OwnerDSN(), schema)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				applied[schema] += len(list)
			})
		}
	}
	wg.Wait()
	for schema, n := range applied {
		if n != 1 {
			t.Errorf("%d migrations were applied to %q", n, schema)
		}
	}
	for _, schema := range []string{strings.Repeat("x", 64), "a\x00"} {
		if _, err := inbox.Migrate(t.Context(), db.OwnerDSN(), schema); err == nil {
			t.Errorf("migrated %q", schema)
		}
	}
	if _, err := inbox.Migrate(t.Context(), db.ServiceDSN(), "another"); err == nil || !strings.Contains(err.Error(), "create the schema another") {
		t.Errorf("without the right to: %v", err)
	}
}

// An inbox works in a schema of any name, apart from that of another team.
func TestMigrate_OtherSchema(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	const schema = `Team "B"`
	if _, err := inbox.Migrate(t.Context(), b.db.OwnerDSN(), schema); err != nil {
		t.Fatal(err)
	}
	b.db.Exec(t, inbox.Grants(schema, "khata_service"))
	stop := start(t, b.config(effect))
	b.produce(t, event("a"), event("b", without("ce_time")))
	b.drained(t, "wallet")
	stop()
	config := b.config(effect)
	config.Schema, config.Group = schema, "b"
	start(t, config)
	b.drained(t, "b")
	b.wantEffects(t, "b", "a", "a")
	list, err := inbox.Letters(t.Context(), b.pool, inbox.Selection{Schema: schema})
	if err != nil || len(list) != 1 {
		t.Errorf("%v %+v", err, list)
	}
}

// A consumer's role can do what the tests here do, and can neither forget nor forge.
func TestGrants(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	for _, sql := range []string{
		"DELETE FROM khata_inbox.marker", "UPDATE khata_inbox.marker SET event_id = ''", "TRUNCATE khata_inbox.marker", "DELETE FROM khata_inbox.letter",
		"UPDATE khata_inbox.letter SET value = NULL", "DELETE FROM khata_inbox.consumer", "UPDATE khata_inbox.consumer SET complete_from = '-infinity'",
		"CREATE TABLE khata_inbox.x ()", "INSERT INTO khata_inbox.version (version_id, is_applied) VALUES (99, true)", "DELETE FROM khata_inbox.progress",
	} {
		_, err := b.pool.Exec(t.Context(), sql)
		if refused, ok := err.(*pgconn.PgError); !ok || refused.Code != "42501" { //nolint:errorlint // Exec returns it as it is
			t.Errorf("%s: %v", sql, err)
		}
	}
	text, err := os.ReadFile("../../docs/inbox.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(inbox.Grants("", "wallet_service")) {
		if !strings.Contains(string(text), strings.ReplaceAll(line, `"`, "")) {
			t.Errorf("docs/inbox.md does not have %s", line)
		}
	}
}
