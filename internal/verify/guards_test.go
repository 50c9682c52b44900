package verify

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/pgtest"
)

var update = flag.Bool("update", false, "write guards.txt from the migrations")

func TestGuards_AreTheMigrations(t *testing.T) {
	t.Parallel()
	conn, err := connect(t.Context(), pgtest.New(t).OwnerDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var have map[string]string
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		v := verifier{tx: tx}
		if err := v.begin(t.Context()); err != nil {
			return err
		}
		have, err = listGuards(t.Context(), tx)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	for _, object := range slices.Sorted(maps.Keys(have)) {
		fmt.Fprintf(&list, "%s: %s\n", object, have[object])
	}
	if *update {
		if err := os.WriteFile("guards.txt", []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if list.String() != guardList {
		t.Errorf("guards.txt is not what the migrations make: go test ./internal/verify -run Guards -update, and read the difference\n%s",
			list.String())
	}
}
