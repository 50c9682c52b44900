package reconcile

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// TestLarge measures an import of 100,000 lines and a run of them against 1,000,000 entries: see docs/reconciliation.md. KHATA_TEST_LONG makes it
// run.
func TestLarge(t *testing.T) {
	if os.Getenv("KHATA_TEST_LONG") == "" {
		t.Skip("KHATA_TEST_LONG is not set")
	}
	lines, entries := 100_000, 1_000_000
	if small := os.Getenv("KHATA_TEST_SMALL"); small != "" {
		if _, err := fmt.Sscan(small, &lines, &entries); err != nil {
			t.Fatal(err)
		}
	}
	d := setup(t)
	d.open(t, "EUR")
	d.usingCSV(t)
	measure(t, "post the entries", func() { d.postMany(t, entries) })
	file := largeFile(lines)
	t.Logf("the file has %d bytes", len(file))
	measure(t, "import the lines", func() {
		if i := d.importText(t, file); i.Files[0].Added() != lines {
			t.Errorf("%d were added", i.Files[0].Added())
		}
	})
	var run *Run

	measure(t, "the first run", func() { run = d.match(t) })
	t.Logf("%d confirmed, %d suggested, %d results: %+v", run.Confirmed, run.Summary.Suggestions, run.Results, run.Summary.LineOutcomes)
	if want := int64(lines/10*7 + lines/100); run.Confirmed < want {
		t.Errorf("%d are confirmed, want %d", run.Confirmed, want)
	}
	measure(t, "another run", func() { d.match(t) })
	measure(t, "the reconciliation statement", func() { d.statement(t, StatementSpec{}) })
	measure(t, "the list of all items", func() {
		if err := d.Items(t.Context(), ItemsSpec{BankAccount: "bank"}, discard{}); err != nil {
			t.Error(err)
		}
	})
	measure(t, "the same file again", func() {
		if i := d.importText(t, file); !i.Replayed {
			t.Error("it was imported again")
		}
	})
	measure(t, "the file with one more line", func() {
		if i := d.importText(t, file+"2026-03-30;1.00;;;\n"); i.Files[0].Added() != 1 {
			t.Errorf("%d were added", i.Files[0].Added())
		}
	})
}

type discard struct{}

func (discard) Begin(sheet.Head) error  { return nil }
func (discard) Row(sheet.Row) error     { return nil }
func (discard) End([]sheet.Check) error { return nil }

// measure logs how long something takes, and the most memory that the process has meanwhile.
func measure(t *testing.T, what string, do func()) {
	t.Helper()
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // begins the peak anew
	before, begun := memory(t, "VmRSS:"), time.Now()
	do()
	took := time.Since(begun)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%s: %s, at most %d MiB (%d MiB before), on %d processors", what, took.Round(10*time.Millisecond), memory(t, "VmHWM:"), before,
		runtime.NumCPU())
}

// memory is a line of what Linux knows of the process, in MiB.
func memory(t *testing.T, line string) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for text := range bytes.Lines(status) {
		if fields := strings.Fields(string(text)); len(fields) > 1 && fields[0] == line {
			var kib int
			if _, err := fmt.Sscan(fields[1], &kib); err != nil {
				t.Fatal(err)
			}
			return kib / 1024
		}
	}
	return 0
}

// largeDay is the day of the entry or line of a number: 90 of them, in order.
func largeDay(n, of int) int { return n * 80 / of }

// postMany posts transfers e0, e1, and so on, of many amounts. Of each 100 the last ten are of one payout.
func (d *desk) postMany(t *testing.T, entries int) {
	begin := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
	for from := 0; from < entries; from += 10_000 {
		specs := make([]ledger.TransferSpec, 0, 10_000)
		for n := from; n < min(from+10_000, entries); n++ {
			at := begin.AddDate(0, 0, largeDay(n, entries))
			spec := ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprintf("e%d", n)), Entries: ledger.Simple("assets:bank", "wallet", largeAmount(n), ""),
				EffectiveAt: &at}
			if n%100 >= 90 {
				spec.Metadata = ledger.Metadata(fmt.Sprintf(`{"payout":"po_%d"}`, n/100))
			}
			specs = append(specs, spec)
		}
		results, err := d.journal.Post(t.Context(), clerk, main, specs)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
}

var cent = dec("0.01")

func largeAmount(n int) decimal.Decimal {
	return cent.Mul(decimal.NewFromInt(int64(100 + n*7919%1_000_000)))
}

// largeFile has a line for one in ten entries: 70 of 100 with the transfer's id, 1 for a payout of ten entries, 19 with the amount alone, and 10
// that are not in the books.
func largeFile(lines int) string {
	var b strings.Builder
	b.WriteString("day;amount;reference;text;id\n")
	begin := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for n := range lines {
		of := n * 10 // the entry
		at := begin.AddDate(0, 0, largeDay(n, lines)).Format("2006-01-02")
		switch k := n % 100; {
		case k < 70:
			fmt.Fprintf(&b, "%s;%s;e%d;Payment of a customer %d;\n", at, largeAmount(of), of, n)
		case k == 70:
			block := of / 100 * 100
			sum := decimal.Zero
			for e := block + 90; e < block+100; e++ {
				sum = sum.Add(largeAmount(e))
			}
			fmt.Fprintf(&b, "%s;%s;po_%d;Payout;\n", at, sum, of/100)
		case k < 90:
			fmt.Fprintf(&b, "%s;%s;;Payment without a reference %d;\n", at, largeAmount(of+1), n)
		default:
			fmt.Fprintf(&b, "%s;-%d.%02d;;Charge %d;\n", at, n%50, 1+n%99, n)
		}
	}
	return b.String()
}
