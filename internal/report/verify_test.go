package report_test

import (
	"fmt"
	"testing"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/verify"
	"github.com/khata-ledger/khata/ledger"
)

// Whatever a hand that switches the guards off does to statements, verify finds it, and nothing else is wrong.
func TestStatements_Verify(t *testing.T) {
	b := open(t)
	b.account(t, "bank", ledger.Asset, "BDT")
	b.account(t, "wallet", ledger.Liability, "BDT")
	for i, at := range []string{"2025-01-05", "2025-01-31", "2025-02-03", "2025-03-01", "2025-01-15", "2025-02-10", "2025-03-09"} {
		b.post(t, move(ledger.TransferID(fmt.Sprint("t", i)), "bank", "wallet", fmt.Sprint(i+1), at+"T12:00:00Z"))
		if i < 3 { // Later ones are late items of what is issued here.
			for _, basis := range []report.Basis{report.Booking, report.Value} {
				month := fmt.Sprintf("2025-%02d", i+2)
				spec := report.StatementSpec{Account: "wallet", Basis: basis, Period: period(t, "", month, "Asia/Dhaka")}
				if i == 0 {
					spec.Period = period(t, "2025-01", month, "Asia/Dhaka")
				}
				if _, _, err := b.Issue(t.Context(), spec, "finance"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	breached := func(name string) map[string]int64 {
		t.Helper()
		verified, err := verify.Run(t.Context(), b.db.ServiceDSN(), verify.Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found := map[string]int64{}
		for _, check := range verified.Checks {
			if check.Breached > 0 {
				found[check.Name] = check.Breached
			}
		}
		return found
	}
	if found := breached("as issued"); len(found) > 0 {
		t.Fatalf("as issued: %v", found)
	}
	const second = " WHERE ordinal = 2 AND basis = 'value'"
	for name, c := range map[string][2]string{
		"another closing": {"UPDATE statement SET closing = closing + 0.01" + second, "UPDATE statement SET closing = closing - 0.01" + second},
		"another opening": {"UPDATE statement SET opening = opening + 0.01" + second, "UPDATE statement SET opening = opening - 0.01" + second},
		"another end": {"UPDATE statement SET ends_at = ends_at - interval '20 days'" + second,
			"UPDATE statement SET ends_at = ends_at + interval '20 days'" + second},
		"another number":   {"UPDATE statement SET through = through + 2" + second, "UPDATE statement SET through = through - 2" + second},
		"one that is gone": {"UPDATE statement SET ordinal = 9" + second, "UPDATE statement SET ordinal = 2 WHERE ordinal = 9"},
		"bytes and no hash": {"ALTER TABLE statement DROP CONSTRAINT statement_content_check; UPDATE statement SET content = content || 'x'" + second,
			"UPDATE statement SET content = substr(content, 1, length(content) - 1)" + second},
	} {
		b.tamper(t, "statement", c[0])
		if found := breached(name); found["statements"] == 0 {
			t.Errorf("%s: found %v", name, found)
		}
		b.tamper(t, "statement", c[1])
		if name == "bytes and no hash" {
			b.tamper(t, "statement", "ALTER TABLE statement ADD CONSTRAINT statement_content_check CHECK (sha256 = pg_catalog.sha256(content))")
		}
		if found := breached(name + ", mended"); len(found) > 0 {
			t.Fatalf("%s, mended: %v", name, found)
		}
	}
	// It comes last: nothing brings the bytes back.
	b.tamper(t, "statement", "UPDATE statement SET content = 'nothing', sha256 = sha256('nothing')"+second)
	if found := breached("bytes and the hash"); found["statements"] == 0 || len(found) > 1 {
		t.Errorf("bytes and their hash: found %v", found)
	}
}
