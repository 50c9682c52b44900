// Package ledgertest has what tests of any package need to know about the books. It must be imported from _test.go files
// only.
package ledgertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/verify"
)

// CheckBooks fails the test with every breach that khata verify finds in its database. A test that wrote to the books
// calls it at its end; posting may go on meanwhile.
func CheckBooks(t testing.TB, db *pgtest.DB) {
	t.Helper()
	// Not the test's context: it has ended when cleanup functions run.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	report, err := verify.Run(ctx, db.ServiceDSN(), verify.Options{})
	if err != nil {
		t.Errorf("verify the books: %v", err)
		return
	}
	if report.OK() {
		return
	}
	var text strings.Builder
	_ = report.Write(&text) // A Builder does not fail.
	t.Errorf("the books are not in order:\n%s", text.String())
}
