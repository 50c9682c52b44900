package verify

import (
	"context"
	_ "embed" // for guards.txt
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/pg"
)

// guardList is the listing of the schema that the migrations make, an object a line: kind, name, a colon and what it is.
// TestGuards_AreTheMigrations keeps it true, and writes it with -update.
//
//go:embed guards.txt
var guardList string

// guards compares the schema with that of the migrations.
func guards(ctx context.Context, v *verifier) (found, error) {
	want := map[string]string{}
	for line := range strings.Lines(guardList) {
		object, definition, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		want[object] = definition
	}
	built, err := pg.SchemaVersion()
	if err != nil {
		return found{}, err
	}
	var applied int64
	if err := v.tx.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&applied); err != nil {
		return found{}, err
	}
	if applied != built {
		return v.list(len(want), []string{fmt.Sprintf(
			"the schema is at version %d and this khata knows version %d: use the khata of that version", applied, built)}), nil
	}
	have, err := listGuards(ctx, v.tx)
	if err != nil {
		return found{}, err
	}
	return v.list(len(want), compareGuards(want, have)), nil
}

func listGuards(ctx context.Context, tx pgx.Tx) (map[string]string, error) {
	rows, err := tx.Query(ctx, statement("guards"))
	if err != nil {
		return nil, err
	}
	objects, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Name, Definition string }])
	list := map[string]string{}
	for _, o := range objects {
		list[o.Name] = o.Definition
	}
	return list, err
}

func compareGuards(want, have map[string]string) []string {
	var breaches []string
	for _, object := range slices.Sorted(maps.Keys(want)) {
		switch definition, ok := have[object]; {
		case !ok && have[table(object)] == "" && want[table(object)] != "" && object != table(object):
			// Its table is missing, and reported.
		case !ok:
			breaches = append(breaches, fmt.Sprintf("%s is missing: %s", object, want[object]))
		case definition != want[object]:
			breaches = append(breaches, fmt.Sprintf("%s is %s, but should be %s", object, definition, want[object]))
		}
	}
	for _, object := range slices.Sorted(maps.Keys(have)) {
		if _, ok := want[object]; !ok && !harmless(object, have[object]) {
			breaches = append(breaches, fmt.Sprintf("%s is not of the migrations: %s", object, have[object]))
		}
	}
	return breaches
}

// table is the object that is the table of a column, constraint, index or trigger.
func table(object string) string {
	_, name, _ := strings.Cut(object, " ")
	name, _, _ = strings.Cut(name, ".")
	return "table " + name
}

// harmless reports whether an object changes nothing about what the journal's tables take: an index that refuses nothing,
// or a function that no trigger of theirs calls (or one that is reported itself).
func harmless(object, definition string) bool {
	return strings.HasPrefix(object, "index ") && !strings.HasPrefix(definition, "CREATE UNIQUE") ||
		strings.HasPrefix(object, "function ")
}
